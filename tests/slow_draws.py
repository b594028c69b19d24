"""The largest draws from Beta posteriors, written out: every length is computed anew, and added up from the left."""

import math

FAN, SURE, MEANT, LEAST, MOST, SPARE = 16, 0.7, 1.8, 1.2, 3.0, 8.0


def length_above(alpha, beta, bar):
    """What item k has of the line, or None if it is drawn in any case."""
    power = beta - max(alpha - 1, 0) * (1 - bar) / bar if bar > 0 else 0
    if power <= 0:
        return None
    log_beta = math.lgamma(alpha) + math.lgamma(beta) - math.lgamma(alpha + beta)
    u = math.exp(min((alpha - 1) * math.log(bar) + beta * math.log1p(-bar) - math.log(power) - log_beta, 0))
    return None if u > SURE else -math.log1p(-u)


class Draws:
    """Posteriors as (alpha, beta), and the bar."""

    def __init__(self, posteriors, length):
        self.posteriors, self.length, self.bar = list(posteriors), length, 0.0
        self.raise_bar()

    def load(self, bar):
        lengths = [length_above(*p, bar) for p in self.posteriors]
        return sum(1.0 if x is None else x for x in lengths)

    def raise_bar(self):
        wanted = MEANT * self.length + SPARE
        if len(self.posteriors) <= wanted:
            self.bar = 0.0
            return
        low, high, step = -40.0, 40.0, 0.25
        at = math.log(self.bar / (1 - self.bar)) if self.bar > 0 else 0.0
        for _ in range(40):
            self.bar = 1 / (1 + math.exp(-at))
            found = self.load(self.bar)
            if abs(found - wanted) <= 0.2 * wanted:
                return
            if found > wanted:
                low, at = at, min(at + step, (at + high) / 2) if high == 40 else (at + high) / 2
            else:
                high, at = at, max(at - step, (at + low) / 2) if low == -40 else (low + at) / 2
            step *= 2

    def set(self, posteriors):
        """Other posteriors; the bar follows if need be."""
        self.posteriors = list(posteriors)
        load = self.load(self.bar)
        if not LEAST * self.length + SPARE <= load <= MOST * self.length + SPARE:
            self.raise_bar()

    def largest(self, allowed, wanted, rng):
        """(item, draw) of some allowed items, among them the largest draws."""
        lengths = [length_above(*p, self.bar) for p in self.posteriors]
        sure = [k for k, x in enumerate(lengths) if x is None]
        found = [(k, rng.beta(*self.posteriors[k])) for k in sure if allowed[k]]
        proposed, tried = [], None
        at = rng.standard_exponential()
        while at < sum(x or 0 for x in lengths):
            k, left = 0, at
            while lengths[k] is None or left >= lengths[k]:
                left -= lengths[k] or 0
                k += 1
            if k != tried and allowed[k]:
                alpha, beta = self.posteriors[k]
                lean = max(alpha - 1, 0) * (1 - self.bar) / self.bar
                fall = rng.standard_exponential() / (beta - lean)
                x = 1 - (1 - self.bar) * math.exp(-fall)
                if -rng.standard_exponential() <= (alpha - 1) * math.log(x / self.bar) - lean * fall:
                    proposed.append((k, x))
            tried = k
            at += rng.standard_exponential()
        if sum(x >= self.bar for _, x in found) + len(proposed) < wanted:
            known = {k for k, _ in proposed}
            rest = [k for k in range(len(lengths)) if allowed[k] and k not in known and lengths[k] is not None]
            proposed += [(k, self.below(k, rng)) for k in rest]
        return found + proposed

    def below(self, k, rng):
        while True:
            if (x := rng.beta(*self.posteriors[k])) < self.bar:
                return x
