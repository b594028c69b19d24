"""A slow reference of SteadyRank: every round is stored with its regime, and everything is recounted each time."""

import math

import numpy as np
from scipy import optimize, special

import references
from slow_draws import Draws
from steadyrank.core.contract import ANSWER, SILENCE
from steadyrank.core.philox import philox

KNOWN, MOST, CHANGED, BACK, OPEN = 5, 400.0, 0.1, 10.0, 15.0
INSURANCE, INSURED = 0.3, 10_000
MOST_REGIMES, SPANS, FACTOR, CALM = 6, 4, 4, 16


def predictive(wins, seen, won, before, prior):
    """Log probability of `wins` clicks in `seen` looks in a given order, after `won` in `before`.

    The prior counts at most `before` looks, and both together MOST looks.
    """
    a, b = (min(1.0, before / sum(prior)) * x for x in prior)
    a, b = a + won, b + before - won
    if a + b > MOST:
        a, b = (max(x * MOST / (a + b), 0.5) for x in (a, b))
    return special.betaln(a + wins, b + seen - wins) - special.betaln(a, b)


def hedged_list(draws, rival, weights, allowed, size, rng):
    """Place by place, the item that adds most to the chance of a click, among the `size` best of each view."""
    mean = [a / (a + b) for a, b in draws.posteriors]
    known = dict(drawn := draws.largest(allowed, size, rng))
    best = [drawn[i][0] for i in references.top([x for _, x in drawn], size, rng)]
    others = [[1 - m for m in mean], *([rival] if rival else [])]
    best += [k for k in dullest(draws, allowed, size, rng) if k not in best]
    for view in others[1:]:
        shown = [x if ok else -math.inf for x, ok in zip(view, allowed, strict=True)]
        best += [k for k in references.top(shown, size, rng) if k not in best]
    drawn = {k: known[k] for k in best[:size]}
    for k in best[size:]:  # with a rival every candidate has its draw
        drawn[k] = known[k] if rival and k in known else draws.below(k, rng) if rival else 0.0
    return add_best([drawn, *others], mean, weights, best, size)


def dullest(draws, allowed, size, rng):
    """The allowed items of the smallest means: among ties, the first ones of a shuffle, one step at a time.

    If few are allowed, among all at once.
    """
    miss = [b / (a + b) for a, b in draws.posteriors]
    groups = dict.fromkeys(draws.posteriors[k] for k in draws.line)
    first = sorted((b / (a + b) for a, b in groups), reverse=True)[:size]
    found = []
    for value in dict.fromkeys(first):
        tied = [k for k in draws.line if miss[k] == value]
        for i in range(len(tied)):
            if len(found) == size:
                return found
            if i == size + 64:
                break
            j = i + int(rng.random() * (len(tied) - i))
            tied[i], tied[j] = tied[j], tied[i]
            found += [tied[i]] if allowed[tied[i]] else []
    shown = [x if ok else -math.inf for x, ok in zip(miss, allowed, strict=True)]
    return found if len(found) == size else references.top(shown, size, rng)


def add_best(views, mean, weights, candidates, size):
    """Greedy choice; the first view is drawn, and counts as served by at most its mean."""
    sure = [{k: min(views[0][k], mean[k]) for k in candidates}, *views[1:]]
    ranking = []
    for _ in range(size):
        miss = [w * math.prod(1 - view[k] for k in ranking) for w, view in zip(weights, sure, strict=True)]
        free = [k for k in candidates if k not in ranking]
        ranking.append(max(free, key=lambda k: sum(m * v[k] for m, v in zip(miss, views, strict=True))))
    return ranking


class Attention:
    """Looks at items, by item and place, and the fit of attention times attraction."""

    def __init__(self, length):
        self.bits, self.chance = {}, np.ones(length)  # of an item: [(place, bit), ...]
        self.rounds = self.fitted = self.clicked = self.whole = 0
        self.evidence = []

    def watch(self, ranking, clicks, examined):
        for p, k in enumerate(ranking[:examined]):
            self.bits.setdefault(k, []).append((p, int(clicks[p])))
        last = max((p for p in range(examined) if clicks[p]), default=None)
        if any(clicks[: min(examined, len(ranking) - 1)]):
            self.clicked += 1
            self.whole += examined == len(ranking) > last + 1
        self.rounds += 1

    def goes_on(self):
        return self.whole > self.clicked / 2

    def placed(self, best_first, rng):
        """Best items where people look most; shuffled (Fisher and Yates) while that is unknown."""
        ranking = list(best_first)
        if self.rounds < 2000 and self.goes_on() and (self.chance == 1).all():
            for p in range(len(ranking) - 1, 0, -1):
                q = int(rng.random() * (p + 1))
                ranking[p], ranking[q] = ranking[q], ranking[p]
            return ranking
        for item, p in zip(best_first, np.argsort(-self.chance[: len(ranking)], kind="stable"), strict=True):
            ranking[p] = item
        return ranking

    def fit(self, shape, bar):
        """The share of the looks so far that were real, if all were counted until now; else 1."""
        if self.rounds < max(1.125 * self.fitted, 200 if self.goes_on() else 500):
            return 1.0
        self.fitted = self.rounds
        looks, clicks = (np.zeros((len(self.bits), self.chance.size)) for _ in range(2))
        for row, bits in enumerate(self.bits.values()):
            for p, bit in bits:
                looks[row, p] += 1
                clicks[row, p] += bit
        chance, gain, kept = fitted_attention(looks, clicks, max(shape, 0.05), self.chance)
        before, lately = self.chance, [0.0] * 6 + self.evidence
        steady = 0.98 * max(lately[-6:]) <= gain <= 3 * lately[-6]
        self.evidence.append(gain)
        believed = gain > bar and (steady or self.goes_on() or bar == 0)
        self.chance = chance if believed else before if kept >= -bar else np.ones(chance.size)
        return looks.sum(0) @ self.chance / looks.sum() if before.min() == 1 else 1.0


def fitted_attention(looks, clicks, shape, before=None):
    """The maximum likelihood attention, with Gamma attractions and Poisson clicks, by a general optimizer.

    The negative binomial likelihood of each item's clicks at all places, with a tenth of a click added to each place.
    Also the evidence for it, and for the attention `before`, against full attention.
    """
    won, n = clicks.sum(1), len(looks)

    def cost(logs):
        chance = np.exp(np.concatenate([[0.0], logs[1:]]))
        law = shape * logs[0] - (shape + won) * np.log(np.exp(logs[0]) + looks @ chance)
        return -(law.sum() + clicks.sum(0) @ np.log(chance) + 0.1 * (np.sum(np.log(chance) - chance) + 1.0))

    def descent(logs):
        chance = np.exp(np.concatenate([[0.0], logs[1:]]))
        rate = (shape + won) / (np.exp(logs[0]) + looks @ chance)
        places = clicks.sum(0) + 0.1 * (1.0 - chance) - chance * (rate @ looks)
        return -np.concatenate([[n * shape - np.exp(logs[0]) * rate.sum()], places[1:]])

    start = np.zeros(looks.shape[1])
    start[0] = np.log(shape * looks.sum() / max(clicks.sum(), 1))
    old = start[1:] if before is None else np.log(before[1:])
    alone, kept = (
        optimize.minimize_scalar(lambda u, logs=logs: cost(np.concatenate([[u], logs])), options={"xtol": 1e-12})
        for logs in (start[1:], old)
    )
    best = optimize.minimize(cost, start, jac=descent, method="BFGS", options={"gtol": 1e-7})
    chance = np.minimum(np.exp(np.concatenate([[0.0], best.x[1:]])), 1.0)
    return chance, alone.fun - best.fun, alone.fun - kept.fun


class Trial:
    """A dropped item in a list, and its bits since the evidence was last 0."""

    def __init__(self, item):
        self.item, self.bits, self.evidence = item, [], 0.0


class Steady:
    """Rounds are kept as [regime, number of the round, [(item, bit), ...], kind]; a span is a list of them.

    Lists use all rounds, tests use answers; a regime's length counts all but unanswered rounds.
    """

    def __init__(self, n_items, length, insurance=INSURANCE, caution=0.5, window=50, looks="learn", revisit=0.0):
        self.draws = Draws([(1.0, 1.0)] * n_items, length)
        self.n_items, self.insurance, self.caution = n_items, insurance, caution
        self.window = window
        self.rounds, self.current = [], 1
        self.priors, self.test_priors = {1: (1.0, 1.0)}, {1: (1.0, 1.0)}
        self.spans, self.begun = [[] for _ in range(SPANS)], [0] * SPANS
        self.opened, self.changes = 1, []
        self.recounted = 0  # the round in which looks turned out not to be real
        self.attention, self.looks, self.notes = Attention(length), looks, {}
        self.lost = {}  # looks without a click that were not real: {(regime, item): number}
        self.revisit, self.spent, self.trial = revisit, 0.0, Trial(0)
        self.tried = {}  # by round: the item on trial, the worth of a place, and the cost
        self.in_vain = {}  # by round: the item on trial, and the last one searched, if none was found
        self.since = {}  # by item: the first round that counts
        self.refuted = {}  # looks and clicks that no longer count: {(regime, whether answers, item): [looks, clicks]}

    def counts(self, rounds, regime=None):
        """Looks and clicks of rounds; for a regime, minus looks that were not real."""
        seen, wins = [0] * self.n_items, [0] * self.n_items
        for _, _, bits, _ in rounds:
            for k, bit in bits:
                seen[k] += 1
                wins[k] += bit
        for kind in {r[3] == ANSWER for r in rounds}:
            for k in range(self.n_items):
                seen[k] -= self.lost.get((regime, kind, k), 0) + self.refuted.get((regime, kind, k), (0, 0))[0]
                wins[k] -= self.refuted.get((regime, kind, k), (0, 0))[1]
        return seen, wins

    def recount(self, share):
        for regime in self.priors:
            for kind in (True, False):
                rounds = [r for r in self.of(regime) if (r[3] == ANSWER) == kind]
                for k, (n, w) in enumerate(zip(*self.counts(rounds, regime), strict=True)):
                    self.lost[regime, kind, k] = self.lost.get((regime, kind, k), 0) + n - w - round((n - w) * share)
        self.spans = [[] for _ in range(SPANS)]

    def of(self, regime):
        return [r for r in self.rounds if r[0] == regime]

    def answered(self, rounds):
        return [r for r in rounds if r[3] == ANSWER]

    def length(self, regime):
        return len([r for r in self.of(regime) if r[3] != SILENCE])

    def rank(self, t, allowed, size, rng):
        mine = self.length(self.current) + self.window
        lengths = {r: self.length(r) for r in self.priors if r != self.current}
        longest = max(lengths, key=lengths.get, default=None)
        hedged = longest is not None and lengths[longest] > mine and self.caution > 0
        insurance = 0 if self.attention.goes_on() else self.insurance * min(1, INSURED / max(mine - self.window, 1))
        if not hedged and insurance == 0:
            drawn = self.draws.largest(allowed, size, rng)
            best = [drawn[i][0] for i in references.top([x for _, x in drawn], size, rng)]
            return self.noted(t, self.attention.placed(self.with_trial(t, best, allowed, rng), rng))
        rival, weights = None, [0.0, insurance]
        if hedged:
            a, b = self.priors[longest]
            rival = [(a + w) / (a + b + n) for n, w in zip(*self.counts(self.of(longest), longest), strict=True)]
            weights.append((1 - insurance) * self.caution * (1 - mine / lengths[longest]))
        weights[0] = 1 - sum(weights)
        best = hedged_list(self.draws, rival, weights, allowed, size, rng)
        return self.noted(t, self.attention.placed(self.with_trial(t, best, allowed, rng), rng))

    def mean(self, k):
        a, b = self.draws.posteriors[k]
        return a / (a + b)

    def with_trial(self, t, best, allowed, rng):
        """The list, maybe with a dropped item for its last one: first if all places are looked at, else last."""
        learnt = len([r for r in self.rounds if r[3] != SILENCE])
        owed = self.revisit * learnt - self.spent
        if self.revisit == 0 or len(best) < 2 or rng.random() * 2 >= owed:
            return best
        worth = max(self.mean(best[-2]), self.mean(best[-1]))
        first, end = self.trial.item + (self.trial.evidence <= 0), self.trial.item + min(64, self.n_items)
        for k in (i % self.n_items for i in range(first, end)):
            if allowed[k] and k not in best and self.mean(k) < worth:
                cost = max(self.mean(best[-1]) - self.mean(k), 0)
                if not self.attention.goes_on() and (self.attention.chance == 1).all():
                    self.tried[t] = k, worth, max(cost * math.prod(1 - self.mean(i) for i in best[:-1]), 0.02)
                    return [k, *best[:-1]]
                self.tried[t] = k, worth, max(cost, 0.02)
                return [*best[:-1], k]
        if owed >= 2:
            self.in_vain[t] = self.trial.item, (end - 1) % self.n_items
        return best

    def spend(self, cost):
        learnt = len([r for r in self.rounds if r[3] != SILENCE])
        self.spent = max(self.spent + cost, self.revisit * learnt - 4)

    def hear_trial(self, t, ranking, clicks, examined):
        if t in self.in_vain:
            before, last = self.in_vain[t]
            self.trial = Trial(last) if self.trial.item == before else self.trial
            self.spend(0)
        k, worth, cost = self.tried.get(t, (None, 0, 0))
        if k not in list(ranking[:examined]):
            return
        bit, mean = int(clicks[list(ranking).index(k)]), self.mean(k)
        self.spend(cost)
        if k != self.trial.item:
            self.trial = Trial(k)
        self.trial.bits.append(bit)
        self.trial.evidence += math.log(worth / mean if bit else (1 - worth) / (1 - mean))
        if self.trial.evidence > 7:
            self.refute(t, k, len(self.trial.bits) - 1, sum(self.trial.bits) - 1)
        if not 0 < self.trial.evidence <= 7:
            self.trial = Trial(k)

    def refute(self, t, k, looks, clicks):
        for answers in (True, False):
            kinds = lambda rounds, a=answers: [r for r in rounds if (r[3] == ANSWER) == a]  # noqa: E731
            in_spans = [self.counts(kinds(span)) for span in self.spans]
            left = [max([looks if answers else 0, *(n[k] for n, _ in in_spans)])]
            left.append(max([clicks if answers else 0, *(w[k] for _, w in in_spans)]))
            now = [n[k] for n in self.counts(kinds(self.of(self.current)), self.current)]
            key = self.current, answers, k
            before = self.refuted.get(key, (0, 0))
            self.refuted[key] = [b + max(n - x, 0) for b, n, x in zip(before, now, left, strict=True)]
        begun = [b for b, span in zip(self.begun, self.spans, strict=True) if self.answered(span)]
        self.since[k] = min([t, *begun])

    def noted(self, t, ranking):
        """Store the chance that each place was looked at, if it is not clicked."""
        self.notes[t] = []
        for c, k in zip(self.attention.chance, ranking, strict=False):
            a, b = self.draws.posteriors[k]
            self.notes[t].append(c * b / (a + b) / (1 - c * a / (a + b)) if c < 1 else 1.0)
        return ranking

    def looked_at(self, t, clicks, p):
        return clicks[p] or self.notes[t][p] == 1 or philox(t, p, 0x10CA7ED)[0] < self.notes[t][p] * 2**32

    def learn(self):
        a, b = self.priors[self.current]
        seen, wins = self.counts(self.of(self.current), self.current)
        self.draws.set((a + w, b + n - w) for n, w in zip(seen, wins, strict=True))

    def update(self, t, ranking, clicks, examined, kind=ANSWER):
        if kind == ANSWER and self.looks != "cascade":
            self.attention.watch(ranking, clicks, examined)
        if kind != SILENCE:
            self.hear_trial(t, ranking, clicks, examined)
        bits = [(ranking[p], int(clicks[p])) for p in range(examined) if self.looked_at(t, clicks, p)]
        self.rounds.append([self.current if kind == ANSWER else self.belongs(t), t, bits, kind])
        for j, span in enumerate(self.spans):
            if kind == ANSWER and not self.answered(span):
                self.begun[j] = t
            inside = self.rounds[-1][0] == self.current and self.answered(span) and t >= self.begun[j]
            if kind == ANSWER or inside:
                span.append(self.rounds[-1])
        if kind == ANSWER and len(self.answered(self.spans[0])) >= self.window:
            shape, bar = self.priors[self.current][0], 20.0 if self.looks == "learn" else 0.0
            share = 1.0 if self.looks == "cascade" else self.attention.fit(shape, bar)
            if share < 1:
                self.recount(share)
                self.recounted = t
            self.test(t)
        self.learn()

    def forget(self, t):
        """Remove a round as if it had never been learnt; not if its regime was dropped."""
        (gone,) = [r for r in self.rounds if r[1] == t]
        if gone[0] in self.priors:
            for k, bit in gone[2]:
                if self.since.get(k, 0) > t:  # it no longer counts
                    refuted = self.refuted[gone[0], gone[3] == ANSWER, k]
                    refuted[:] = refuted[0] - 1, refuted[1] - bit
            self.rounds = [r for r in self.rounds if r is not gone]
            self.spans = [[r for r in span if r is not gone] for span in self.spans]
        self.learn()

    def belongs(self, t):
        regime = self.current
        for start, _, before, _ in reversed(self.changes[-64:]):
            if t >= start:
                break
            regime = before
        return regime if regime in self.priors else self.current

    def evidence(self, recent):
        """Nats for each stored regime and for a new one (None) against the current one, in all and after leaving out
        the items that are the same in both."""
        inside = {id(r) for r in recent}
        before = [r for r in self.answered(self.of(self.current)) if id(r) not in inside]
        (seen, wins), (old_seen, old_wins) = self.counts(self.answered(recent)), self.counts(before, self.current)
        found = {r: np.zeros(2) for r in [None, *self.priors] if r != self.current}
        stored = {r: self.counts(self.answered(self.of(r)), r) for r in self.priors}
        for k in range(self.n_items):
            if seen[k] == 0 or old_seen[k] < KNOWN:
                continue
            same = predictive(wins[k], seen[k], old_wins[k], old_seen[k], self.test_priors[self.current])
            anew = special.betaln(1 + wins[k], 1 + seen[k] - wins[k])
            unknown = np.logaddexp(math.log(1 - CHANGED), math.log(CHANGED) + anew - same)
            found[None] += unknown
            for r in found:
                if r is not None and stored[r][0][k] >= KNOWN:
                    here = stored[r][1][k], stored[r][0][k], self.test_priors[r]
                    then = predictive(wins[k], seen[k], *here)
                    odds = predictive(old_wins[k], old_seen[k], *here)
                    odds -= special.betaln(1 + old_wins[k], 1 + old_seen[k] - old_wins[k])
                    share = special.expit(np.clip(odds, -30, 30))
                    found[r] += then - same, then - np.logaddexp(math.log(share) + then, math.log1p(-share) + same)
                elif r is not None:
                    found[r] += unknown
        return found

    def test(self, t):
        best, to, moved, begun = 0.0, self.current, [], 0
        restless = len(self.changes) >= 3 and t - self.changes[-3][1] <= CALM * self.window
        for j, span in enumerate(self.spans):
            rounds, quarter = len(self.answered(span)), self.window * FACTOR ** max(j - 1, 0)
            if rounds // quarter > (rounds - len(self.answered(self.spans[0]))) // quarter:
                for regime, (nats, against) in self.evidence(span).items():
                    bar = OPEN if regime is None else BACK
                    allowed = against > bar and not (restless and regime is not None)
                    if allowed and nats - bar > best + 1e-9:
                        best, to, moved, begun = nats - bar, regime, span, self.begun[j]
        if to != self.current:
            self.change(t, to, moved, begun)
            self.attention.bits, self.attention.rounds, self.attention.fitted = {}, 0, 0
            self.attention.evidence = []
        for j, span in enumerate(self.spans):
            if len(self.answered(span)) >= self.window * FACTOR**j:
                self.spans[j] = []
        self.fit(self.current)

    def change(self, t, to, moved, begun):
        if to is None:
            if len(self.priors) == MOST_REGIMES:
                others = [r for r in self.priors if r != self.current]
                gone = min(others, key=self.length)
                del self.priors[gone]
                for r in self.of(gone):
                    r[0] = 0  # dropped
            self.opened += 1
            to = self.opened
            self.priors[to] = self.test_priors[to] = (1.0, 1.0)
        for r in moved:
            r[0] = to
        self.changes.append((begun, t, self.current, to))
        self.fit(self.current)
        self.current = to
        longer = [len(self.answered(span)) > len(self.answered(moved)) for span in self.spans]
        self.spans = [list(moved) if cut else span for span, cut in zip(self.spans, longer, strict=True)]
        self.begun = [begun if cut else start for start, cut in zip(self.begun, longer, strict=True)]

    def fit(self, regime):
        rounds = self.of(regime)
        self.test_priors[regime] = self.fitted(self.answered(rounds), regime, self.test_priors[regime])
        some_untested = any(r[3] != ANSWER for r in rounds)
        self.priors[regime] = (
            self.fitted(rounds, regime, self.priors[regime]) if some_untested else self.test_priors[regime]
        )

    def fitted(self, rounds, regime, prior):
        a, b = prior
        seen, wins = (np.array(x) for x in self.counts(rounds, regime))
        wins, seen = wins[seen > 0], seen[seen > 0]
        if seen.size < 10:
            return prior
        for _ in range(10):
            n, p = a + b + seen, (a + wins) / (a + b + seen)
            mean = p.mean()
            variance = p.var() + (p * (1 - p) / (n + 1)).mean()
            mean = min(max(mean, 0.002), 0.998)
            strength = min(max(mean * (1 - mean) / max(variance, 1e-9) - 1, 1), 100)
            a, b = mean * strength, (1 - mean) * strength
        return a, b
