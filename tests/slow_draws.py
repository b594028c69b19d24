"""The largest draws from Beta posteriors, computed item by item: every length from scratch."""

import math

from steadyrank.learners.shared.thompson import group_of

SURE, MEANT, LEAST, MOST, SPARE = 0.7, 1.8, 1.2, 3.0, 8.0


def members(posteriors):
    """{(looks, clicks): items}, and that each is found where it stands."""
    groups = posteriors.groups
    found, places = {}, 0
    for g in range(int(groups.size[0])):
        assert int(groups.first[g]) == places
        places += int(groups.items[g])
        items = groups.order[groups.first[g] : places].tolist()
        assert [group_of(groups, k) for k in items] == [g] * len(items) != []
        found[int(groups.looks[g]), int(groups.clicks[g])] = set(items)
    assert len(found) == groups.size[0]
    assert places == groups.order.size
    return found


def length_above(alpha, beta, bar):
    """Length of an item on the line, or None if it is always drawn."""
    power = beta - max(alpha - 1, 0) * (1 - bar) / bar if bar > 0 else 0
    if power <= 0:
        return None
    log_beta = math.lgamma(alpha) + math.lgamma(beta) - math.lgamma(alpha + beta)
    u = math.exp(min((alpha - 1) * math.log(bar) + beta * math.log1p(-bar) - math.log(power) - log_beta, 0))
    return None if u > SURE else -math.log1p(-u)


class Draws:
    """Posteriors as (alpha, beta) of up to 500 items, the bar, and the order of items on the line."""

    def __init__(self, posteriors, length):
        self.posteriors, self.length, self.bar = list(posteriors), length, 0.0
        self.line = list(range(len(self.posteriors)))
        self.raise_bar()

    def lie(self, posteriors):
        """Use the order of the fast version: by clicks, then by looks; among equals any order is valid."""
        self.line = posteriors.groups.order.tolist()
        assert sorted(self.line) == list(range(len(self.line)))
        counts = [(a, a + b) for a, b in (self.posteriors[k] for k in self.line)]
        assert counts == sorted(counts)

    def load(self, bar):
        lengths = [length_above(*p, bar) for p in self.posteriors]
        return sum(1.0 if x is None else x for x in lengths)

    def raise_bar(self):
        wanted = MEANT * self.length + SPARE
        if len(self.posteriors) <= wanted:
            self.bar = 0.0
            return
        low, high, step = -36.0, 36.0, 0.25
        at = math.log(self.bar / (1 - self.bar)) if self.bar > 0 else 0.0
        for _ in range(40):
            self.bar = 1 / (1 + math.exp(-at))
            found = self.load(self.bar)
            if abs(found - wanted) <= 0.2 * wanted:
                return
            if found > wanted:
                low, at = at, min(at + step, (at + high) / 2) if high == 36 else (at + high) / 2
            else:
                high, at = at, max(at - step, (at + low) / 2) if low == -36 else (low + at) / 2
            step *= 2

    def set(self, posteriors):
        """Set other posteriors; moves the bar if necessary."""
        self.posteriors = list(posteriors)
        load = self.load(self.bar)
        if not LEAST * self.length + SPARE <= load <= MOST * self.length + SPARE:
            self.raise_bar()

    def largest(self, allowed, wanted, rng):
        """(item, draw) of some allowed items, including the largest draws."""
        found, reach, at = [], 0, rng.standard_exponential()
        for k in self.line:
            alpha, beta = self.posteriors[k]
            length = length_above(alpha, beta, self.bar)
            if length is None:
                if allowed[k]:
                    found.append((k, rng.beta(alpha, beta)))
                    reach += found[-1][1] >= self.bar
                continue
            if at < length and allowed[k]:
                lean = max(alpha - 1, 0) * (1 - self.bar) / self.bar
                fall = rng.standard_exponential() / (beta - lean)
                x = 1 - (1 - self.bar) * math.exp(-fall)
                if -rng.standard_exponential() <= (alpha - 1) * math.log(x / self.bar) - lean * fall:
                    found.append((k, x))
                    reach += 1
            while at < length:
                at += rng.standard_exponential()
            at -= length
        if reach < wanted:
            known = {k for k, _ in found}
            found += [(k, self.below(k, rng)) for k, ok in enumerate(allowed) if ok and k not in known]
        return found

    def below(self, k, rng):
        while True:
            if (x := rng.beta(*self.posteriors[k])) < self.bar:
                return x
