"""SteadyRank written out: every round is stored with the regime it belongs to, and everything is counted anew."""

import math

import numpy as np
from scipy import special

import references

KNOWN, MOST, CHANGED, BACK, OPEN = 5, 400.0, 0.1, 10.0, 15.0
MOST_REGIMES, SPANS, FACTOR = 6, 4, 4


def predictive(wins, seen, a, b):
    """Log chance of `wins` clicks in `seen` looks in a given order, Beta(a, b) worth at most MOST looks."""
    shrink = min(1.0, MOST / (a + b))
    a, b = a * shrink, b * shrink
    return special.betaln(a + wins, b + seen - wins) - special.betaln(a, b)


def draw_over(a, b, least, rng):
    if a >= 1:
        return rng.beta(a, b)
    y = rng.standard_gamma(b)
    bound = least / (1 - least) * y
    if bound < 0.5615:
        x = rng.standard_gamma(a)
        return x / (x + y)
    x = rng.standard_exponential()
    if x < bound or rng.random() > x ** (a - 1) / math.gamma(a):
        return -math.inf
    return x / (x + y)


class Steady:
    """Rounds are kept as [regime, tested, [(item, bit), ...]]."""

    def __init__(self, n_items, caution=0.5, window=50, reject_impossible=False):
        self.n_items, self.caution, self.window, self.reject = n_items, caution, window, reject_impossible
        self.rounds, self.priors, self.current = [], {1: (1.0, 1.0)}, 1
        self.spans = [0] * SPANS  # tested rounds in each
        self.opened, self.rejected, self.changes = 1, 0, []

    def counts(self, rounds):
        seen, wins = [0] * self.n_items, [0] * self.n_items
        for _, _, bits in rounds:
            for k, bit in bits:
                seen[k] += 1
                wins[k] += bit
        return seen, wins

    def of(self, regime):
        return [r for r in self.rounds if r[0] == regime]

    def rank(self, t, allowed, size, rng):
        a, b = self.priors[self.current]
        seen, wins = self.counts(self.of(self.current))
        mine = len(self.of(self.current)) + self.window
        lengths = {r: len(self.of(r)) for r in self.priors if r != self.current}
        rival = max(lengths, key=lengths.get, default=None)
        hedged = rival is not None and lengths[rival] > mine and self.caution > 0
        index, best = [-math.inf] * self.n_items, []
        for k in range(self.n_items):
            if allowed[k]:
                least = best[size - 1] if len(best) >= size and not hedged else 0.0
                value = draw_over(a + wins[k], b + seen[k] - wins[k], least, rng)
                if value >= least:
                    index[k] = value
                    best = sorted([*best, value], reverse=True)[:size]
        if not hedged:
            return references.top(index, size, rng)
        a, b = self.priors[rival]
        seen, wins = self.counts(self.of(rival))
        other = [(a + w) / (a + b + n) for n, w in zip(seen, wins, strict=True)]
        share = self.caution * (1 - mine / lengths[rival])
        ranking = []
        for _ in range(size):
            start = int(rng.random() * self.n_items)
            free = [k % self.n_items for k in range(start, start + self.n_items)]
            free = [k for k in free if allowed[k] and k not in ranking]
            miss_mine = (1 - share) * math.prod(1 - index[k] for k in ranking)
            miss_other = share * math.prod(1 - other[k] for k in ranking)
            ranking.append(max(free, key=lambda k: miss_mine * index[k] + miss_other * other[k]))
        return ranking

    def update(self, t, ranking, clicks, examined, late=False):
        bits = [(k, int(bit)) for k, bit in list(zip(ranking, clicks, strict=True))[:examined]]
        hits = [p for p, (_, bit) in enumerate(bits) if bit]
        if self.reject and hits != [examined - 1] and not (not hits and examined == len(ranking)):
            self.rejected += 1
            return
        self.rounds.append([self.current, not late, bits])
        if late:
            return
        self.spans = [n + 1 for n in self.spans]
        if sum(tested for _, tested, _ in self.rounds) % self.window == 0:
            self.test(t)

    def recent(self, n):
        return [r for r in self.rounds if r[1]][-n:]

    def evidence(self, span):
        """Nats for each stored regime and for a new one (None) against the current one."""
        recent = self.recent(span)
        before = [r for r in self.of(self.current) if not any(r is other for other in recent)]
        (seen, wins), (old_seen, old_wins) = self.counts(recent), self.counts(before)
        found = {None: 0.0} | {r: 0.0 for r in self.priors if r != self.current}
        stored = {r: self.counts(self.of(r)) for r in self.priors}
        for k in range(self.n_items):
            if seen[k] == 0 or old_seen[k] < KNOWN:
                continue
            a, b = self.priors[self.current]
            same = predictive(wins[k], seen[k], a + old_wins[k], b + old_seen[k] - old_wins[k])
            anew = special.betaln(1 + wins[k], 1 + seen[k] - wins[k])
            found[None] += np.logaddexp(math.log(1 - CHANGED), math.log(CHANGED) + anew - same)
            for r in self.priors:
                n, w = stored[r]
                if r != self.current and n[k] >= KNOWN:
                    a, b = self.priors[r]
                    found[r] += predictive(wins[k], seen[k], a + w[k], b + n[k] - w[k]) - same
        return found

    def test(self, t):
        best, to, span = 0.0, self.current, 0
        for j, n in enumerate(self.spans):
            if n % (self.window * FACTOR ** max(j - 1, 0)) == 0:
                for regime, nats in self.evidence(n).items():
                    over = nats - (OPEN if regime is None else BACK)
                    if over > best + 1e-9:
                        best, to, span = over, regime, n
        if to != self.current:
            self.change(t, to, span)
        for j, n in enumerate(self.spans):
            if n >= self.window * FACTOR**j:
                self.spans[j] = 0
        self.fit(self.current)

    def change(self, t, to, span):
        if to is None:
            if len(self.priors) == MOST_REGIMES:
                others = [r for r in self.priors if r != self.current]
                gone = min(others, key=lambda r: len(self.of(r)))
                del self.priors[gone]
                for r in self.of(gone):
                    r[0] = 0  # forgotten
            self.opened += 1
            to = self.opened
            self.priors[to] = (1.0, 1.0)
        for r in self.recent(span):
            r[0] = to
        self.changes.append((t - span + 1, self.current, to))
        self.fit(self.current)
        self.current, self.spans = to, [0] * SPANS

    def fit(self, regime):
        a, b = self.priors[regime]
        seen, wins = (np.array(x) for x in self.counts(self.of(regime)))
        wins, seen = wins[seen > 0], seen[seen > 0]
        if seen.size < 10:
            return
        for _ in range(10):
            n, p = a + b + seen, (a + wins) / (a + b + seen)
            mean = p.mean()
            variance = p.var() + (p * (1 - p) / (n + 1)).mean()
            mean = min(max(mean, 0.002), 0.998)
            strength = min(max(mean * (1 - mean) / max(variance, 1e-9) - 1, 1), 100)
            a, b = mean * strength, (1 - mean) * strength
        self.priors[regime] = (a, b)
