"""Slow and obvious implementations: plain lists, the formulas as printed, real partitions of stored bits."""

import itertools
import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special, stats


def top(index: list[float], size: int, rng: np.random.Generator) -> list[int]:
    """Best first; items that tie for a place, in item order, are drawn by a Fisher-Yates shuffle."""
    places: list[int] = []
    for value in sorted(set(index), reverse=True):
        tied = [k for k, v in enumerate(index) if v == value]
        i = 0
        while len(places) < size and i < len(tied):
            j = i + int(rng.random() * (len(tied) - i))
            tied[i], tied[j] = tied[j], tied[i]
            places.append(tied[i])
            i += 1
    return places


def numbered(index: list[float], size: int, rng: np.random.Generator) -> list[int]:
    """Best first, equal ones in item order; as many draws as `top` has."""
    rng.random(size)
    return sorted(range(len(index)), key=lambda k: (-index[k], k))[:size]


def log_t(t: int) -> float:
    return math.log(max(t, 2))


def majority(b: int, p: float) -> float:
    return float(stats.binom.sf((b - 1) // 2, b, p))


def calibrate(b: int, y: float) -> float:
    return float(special.betaincinv((b + 1) / 2, (b + 1) / 2, y))


def size_of_blocks(reading: str, n: int, fixed: int, alpha: float) -> int:
    """A1 has ceil(alpha log n) groups, A2 has blocks of ceil(alpha log n), A3 is fixed, A4 in number; all odd."""
    if reading == "A3":
        return fixed
    if reading == "A4":
        return 2 * (n // (2 * fixed)) + 1
    count = math.ceil(alpha * math.log(max(n, 2)))
    if reading == "A1":
        return 2 * (n // (2 * count)) + 1
    return count if count % 2 else count + 1


def mean_of_medians(blocks: list[list[int]], b: int) -> float:
    """The share of blocks whose median is 1."""
    return sum(sorted(block)[b // 2] for block in blocks) / len(blocks)


def estimate_consecutive(
    bits: list[int], reading: str, fixed: int, alpha: float, least: int, calibrated: bool = True
) -> float:
    """Blocks in order of arrival; where b grows, only the current octave of n counts."""
    n = len(bits)
    octave = 2 ** int(math.log2(n))
    b = size_of_blocks(reading, octave, fixed, alpha)
    recent = bits if reading == "A3" else bits[octave - 1 :]
    blocks = [recent[i : i + b] for i in range(0, len(recent) - b + 1, b)]
    if b == 1 or len(blocks) < least:
        return sum(bits) / n
    share = mean_of_medians(blocks, b)
    return calibrate(b, share) if calibrated else share


def share_of_ordered(bits: list[int], b: int) -> float:
    """The share of majority blocks when blocks are cut off in the order given."""
    return mean_of_medians([bits[i * b : (i + 1) * b] for i in range(len(bits) // b)], b)


def share_of_shuffled(bits: list[int], b: int, rng: random.Random) -> float:
    """A real random partition of the real bits."""
    return share_of_ordered(rng.sample(bits, len(bits)), b)


def insert_inside_out(bits: list[int], bit: int, rng: random.Random) -> None:
    """Shuffle one more bit in: it takes a random place, and the bit that was there moves to the end."""
    bits.append(bit)
    j = rng.randrange(len(bits))
    bits[j], bits[-1] = bits[-1], bits[j]


def time_median(bits: list[int], n_blocks: int) -> float:
    """Median of the means of blocks of length 2^j, the smallest with fewer than 2 n_blocks complete ones."""
    size = 1
    while len(bits) // size >= 2 * n_blocks:
        size *= 2
    means = [sum(bits[i : i + size]) / size for i in range(0, len(bits) - size + 1, size)]
    return float(np.median(means))


def ucbv(mean: float, n: int, t: int, a: float = 2.0, b: float = 6.0) -> float:
    return min(mean + a * math.sqrt(mean * (1 - mean) * log_t(t) / n) + b * log_t(t) / n, 1.0)


class IndexLearner:
    """Stores every bit of every item; ranks by `index(bits, t)`, unseen items first."""

    def __init__(
        self, n_items: int, index: Callable[[list[int], int], float], least: int = 1, order: Any = top
    ) -> None:
        self.bits: list[list[int]] = [[] for _ in range(n_items)]
        self.index, self.least, self.order = index, least, order

    def indices(self, t: int, allowed: list[bool]) -> list[float]:
        return [
            -math.inf if not ok else math.inf if len(bits) < self.least else self.index(bits, t)
            for bits, ok in zip(self.bits, allowed, strict=True)
        ]

    def rank(self, t: int, allowed: list[bool], size: int, rng: np.random.Generator) -> list[int]:
        return self.order(self.indices(t, allowed), size, rng)  # type: ignore[no-any-return]

    def update(self, ranking: list[int], clicks: list[bool], examined: int) -> None:
        for k, bit in list(zip(ranking, clicks, strict=True))[:examined]:
            self.bits[k].append(int(bit))


def kl_bound(bits: list[int], level: float) -> float:
    """max{q : n kl(S/n, q) <= level}, by bisection."""
    n = len(bits)
    p = min(max(sum(bits) / n, 1e-12), 1 - 1e-12)
    low, high = p, 1 - 1e-12
    for _ in range(60):
        q = (low + high) / 2
        kl = p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))
        low, high = (q, high) if n * kl <= level else (low, q)
    return low


def klucb(ones: int, n: int, t: int) -> float:
    """KL-UCB's index, coarser than rounding and finer than any difference between two counts in the tests."""
    lt = log_t(t)
    return round(kl_bound([1] * ones + [0] * (n - ones), lt + 3 * max(math.log(lt), 0)), 9)


def in_places(best_first: list[int], weight: list[float]) -> list[int]:
    """The best item at the heaviest place, the next at the next; of equal places the first."""
    size = len(best_first)
    places = sorted(range(size), key=lambda p: (-weight[p], p))
    return [best_first[places.index(p)] for p in range(size)]


class PlaceLearner:
    """Stores every list with its bits; ranks by `index(log of item k, t)`, items never shown first.

    The log of an item has one (place, bit) for each time that it was shown where somebody may look.
    """

    def __init__(
        self, n_items: int, attention: list[float], index: Callable[[list[tuple[int, int]], int], float]
    ) -> None:
        self.log: list[list[tuple[int, int]]] = [[] for _ in range(n_items)]
        self.attention, self.index = attention, index

    def indices(self, t: int, allowed: list[bool]) -> list[float]:
        return [
            -math.inf if not ok else self.index(log, t) if log else math.inf
            for log, ok in zip(self.log, allowed, strict=True)
        ]

    def rank(self, t: int, allowed: list[bool], size: int, rng: np.random.Generator) -> list[int]:
        return in_places(top(self.indices(t, allowed), size, rng), self.attention)

    def update(self, ranking: list[int], clicks: list[bool], examined: int) -> None:
        for p in range(examined):
            if self.attention[p] > 0:
                self.log[ranking[p]].append((p, int(clicks[p])))


def place_sums(log: list[tuple[int, int]], attention: list[float]) -> tuple[int, float, int]:
    """N, N~ and S of Lagree, Vernade, Cappe 2016."""
    looked = 0.0
    for p, a in enumerate(attention):
        looked += a * sum(place == p for place, _ in log)
    return len(log), looked, sum(bit for _, bit in log)


def place_bound(log: list[tuple[int, int]], attention: list[float], delta: float) -> float:
    """U = max{q in [q_min, 1] : sum_p N_p kl(S_p / N_p, attention_p q) <= delta}, by bisection."""

    seen = [(a, [bit for place, bit in log if place == p]) for p, a in enumerate(attention)]

    def phi(q: float) -> float:
        total = 0.0
        for a, bits in seen:
            for value, x in ((sum(bits), a * q), (len(bits) - sum(bits), 1 - a * q)):
                total += value * math.log(value / len(bits) / x) if value else 0.0
        return total

    low, high = 1e-12, 1 - 1e-12
    for _ in range(80):  # phi is convex: a third of the interval without its minimum goes
        a, b = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, b) if phi(a) <= phi(b) else (a, high)
    if phi(low) > delta:
        return low
    high = 1 - 1e-12
    for _ in range(50):
        q = (low + high) / 2
        low, high = (q, high) if phi(q) <= delta else (low, q)
    return low


class Grab:
    """Rates, bounds and neighbours of Gauthier et al. 2021, from every bit of every item and place."""

    def __init__(self, n_items: int, length: int, level: float) -> None:
        self.bits: dict[tuple[int, int], list[int]] = {}
        self.n_items, self.length, self.level = n_items, length, level

    def update(self, ranking: list[int], clicks: list[bool], examined: int) -> None:
        for p in range(examined):
            self.bits.setdefault((ranking[p], p), []).append(int(clicks[p]))

    def rate(self, k: int, p: int) -> float:
        bits = self.bits.get((k, p), [])
        return sum(bits) / len(bits) if bits else 0.0

    def rates(self, ranking: tuple[int, ...]) -> float:
        return sum(self.rate(k, p) for p, k in enumerate(ranking))

    def most(self) -> float:
        return max(self.rates(x) for x in itertools.permutations(range(self.n_items), self.length))

    def bound(self, k: int, p: int) -> float:
        """The largest q with n kl(rate, q) <= log T, by bisection; 1 where the item was never shown."""
        n, mean = len(self.bits.get((k, p), [])), self.rate(k, p)
        low, high = mean, 1.0
        for _ in range(50):
            q = (low + high) / 2
            kl = float(special.rel_entr(mean, q) + special.rel_entr(1 - mean, 1 - q))
            low, high = (q, high) if n * kl <= self.level else (low, q)
        return low

    def promise(self, ranking: tuple[int, ...]) -> float:
        return sum(self.bound(k, p) for p, k in enumerate(ranking))

    def neighbours(self, leader: tuple[int, ...]) -> list[tuple[int, ...]]:
        """The leader, those that trade places next to one another by its rates, those with another last item."""
        order = sorted(range(self.length), key=lambda p: (-self.rate(leader[p], p), p))
        found = [leader]
        for p, q in itertools.pairwise(order):
            traded = list(leader)
            traded[p], traded[q] = leader[q], leader[p]
            found.append(tuple(traded))
        for k in set(range(self.n_items)) - set(leader):
            other = list(leader)
            other[order[-1]] = k
            found.append(tuple(other))
        return found


class UniRank:
    """Duels by pairs, sets by their definition, the search among neighbours: our reading of Gauthier et al. 2022."""

    def __init__(self, n_items: int, length: int) -> None:
        self.wins = {(i, j): 0 for i in range(n_items) for j in range(n_items)}
        self.n_items, self.length = n_items, length
        self.sets: list[set[int]] = []  # as shown last, with items that were not shown

    def beats(self, i: int, j: int) -> bool:
        return self.wins[i, j] > self.wins[j, i]

    def leading(self) -> list[set[int]]:
        left, found = set(range(self.n_items)), []
        while left and sum(map(len, found)) < self.length:
            order = sorted(left, key=lambda i: -sum(self.beats(i, j) for j in left))
            size = next(
                m for m in range(1, len(order) + 1) if all(self.beats(i, j) for i in order[:m] for j in order[m:])
            )
            found.append(set(order[:size]))
            left -= found[-1]
        return [*found, left] if left else found

    def share(self, j: int, i: int, t: int) -> float:
        n = self.wins[j, i] + self.wins[i, j]
        return klucb(self.wins[j, i], n, t) if n else 1.0

    def rank(self, t: int, allowed: list[bool], size: int, rng: np.random.Generator) -> list[int]:
        u, rest, shown = rng.random(), [{k for k in part if allowed[k]} for part in self.leading()], 0
        self.sets = []
        while shown < size:
            part, rest = rest[0], rest[1:]
            follow = rest[0] if rest else set()
            if part and shown + len(part) <= size:
                shares = {j: max(self.share(j, i, t) for i in part) for j in sorted(follow)}
                most = max(shares.values(), default=0.0)
                if most > 0.5 and shown + len(part) + len(follow) <= size:
                    part, rest = part | follow, rest[1:]
                elif most > 0.5:
                    ties = [j for j in shares if shares[j] == most]
                    chosen = ties[int(u * len(ties))]
                    part, rest = part | {chosen}, [follow - {chosen}, *rest[1:]]
            self.sets.append(part)
            shown += len(part)
        number = {k: c for c, part in enumerate(self.sets) for k in part}
        return top([-number.get(k, math.inf) for k in range(self.n_items)], size, rng)

    def update(self, ranking: list[int], clicks: list[bool], examined: int) -> None:
        clicked = {ranking[p] for p in range(examined) if clicks[p]}
        for part in self.sets:
            for i in part & clicked:
                for j in part - clicked:
                    self.wins[i, j] += 1


class RoundLearner:
    """Stores every bit with its round; ranks by `index(log of item k, t)`, infinite where it says nothing."""

    def __init__(self, n_items: int, index: Callable[[list[tuple[int, int]], int], float]) -> None:
        self.log: list[list[tuple[int, int]]] = [[] for _ in range(n_items)]
        self.index, self.round = index, 0

    def rank(self, t: int, allowed: list[bool], size: int, rng: np.random.Generator) -> list[int]:
        index = [self.index(log, t) if ok else -math.inf for log, ok in zip(self.log, allowed, strict=True)]
        return top(index, size, rng)

    def update(self, ranking: list[int], clicks: list[bool], examined: int) -> None:
        self.round += 1
        for k, bit in list(zip(ranking, clicks, strict=True))[:examined]:
            self.log[k].append((self.round, int(bit)))


def discounted_ucb(log: list[tuple[int, int]], t: int, gamma: float, epsilon: float) -> float:
    """D-UCB's index before round t, by its sums."""
    n = math.fsum(gamma ** (t - 1 - s) for s, _ in log)
    x = math.fsum(gamma ** (t - 1 - s) * bit for s, bit in log)
    rounds = math.fsum(gamma ** (t - 1 - s) for s in range(1, t))
    return round(x / n + 2 * math.sqrt(epsilon * math.log(max(rounds, 1)) / n), 9) if log else math.inf


def windowed_ucb(log: list[tuple[int, int]], t: int, tau: int, epsilon: float) -> float:
    """SW-UCB's index before round t, of the tau rounds before it."""
    bits = [bit for s, bit in log if t - tau <= s < t]
    level = math.log(max(min(t - 1, tau), 1))
    return sum(bits) / len(bits) + math.sqrt(epsilon * level / len(bits)) if bits else math.inf


def likelihood_ratio(bits: list[int], splits: list[int]) -> float:
    """max over s of s kl(mean before, mean) + (n - s) kl(mean behind, mean), as printed."""

    def kl(part: list[int]) -> float:
        p, q = sum(part) / len(part), sum(bits) / len(bits)
        return float(special.rel_entr(p, q) + special.rel_entr(1 - p, 1 - q))

    return max((s * kl(bits[:s]) + (len(bits) - s) * kl(bits[s:]) for s in splits), default=0.0)


class Restarting:
    """The GLRT learners: all bits since the last restart, every fifth tested, at even splits of fewer than 32."""

    def __init__(self, n_items: int, index: Callable[[int, int, int], float], p: float, delta: float) -> None:
        self.bits: list[list[int]] = [[] for _ in range(n_items)]
        self.index, self.p, self.delta = index, p, delta
        self.round = self.restart = self.restarts = 0

    def rank(self, t: int, allowed: list[bool], size: int, rng: np.random.Generator) -> list[int]:
        even, since = rng.random() < self.p, t - self.restart
        index = [
            -math.inf if not ok else 0.0 if even else self.index(sum(bits), len(bits), since) if bits else math.inf
            for bits, ok in zip(self.bits, allowed, strict=True)
        ]
        return top(index, size, rng)

    def update(self, ranking: list[int], clicks: list[bool], examined: int) -> None:
        self.round += 1
        for k, bit in list(zip(ranking, clicks, strict=True))[:examined]:
            bits = self.bits[k]
            bits.append(int(bit))
            n, spacing = len(bits), 1
            while n // spacing >= 32:
                spacing *= 2
            ratio = likelihood_ratio(bits, list(range(spacing, n, spacing))) if n % 5 == 0 else 0.0
            if ratio > math.log(3 * n**1.5 / self.delta):
                self.bits = [[] for _ in self.bits]
                self.restart, self.restarts = self.round, self.restarts + 1
                return


class ChangePoints:
    """Bayesian change-point detection over all items; stores all answers, counted by each run since its start."""

    def __init__(self, n_items: int, hazard: float, most: int, every: int) -> None:
        self.n_items, self.hazard, self.most, self.every = n_items, hazard, most, every
        self.runs: list[tuple[int, float]] = [(0, 1.0)]  # first round and chance, oldest first
        self.log: list[tuple[int, int, int]] = []  # round, item, bit
        self.round = 0

    def counts(self, begin: int, k: int) -> tuple[int, int]:
        bits = [bit for t, item, bit in self.log if t >= begin and item == k]
        return len(bits), sum(bits)

    def rank(self, t: int, allowed: list[bool], size: int, rng: np.random.Generator) -> list[int]:
        drawn, begin = rng.random(), self.runs[-1][0]
        for candidate, chance in self.runs:
            drawn -= chance
            if drawn < 0:
                begin = candidate
                break
        index = [-math.inf] * self.n_items
        for k in np.flatnonzero(allowed):
            n, s = self.counts(begin, k)
            index[k] = rng.beta(1 + s, 1 + n - s)
        return top(index, size, rng)

    def update(self, ranking: list[int], clicks: list[bool], examined: int) -> None:
        self.round += 1
        t, newest = self.round, self.runs[-1][0]
        if t >= newest + self.every:
            if len(self.runs) == self.most:
                begins = [begin for begin, _ in self.runs]
                wider = [(c - a) / (t - c) for a, c in zip(begins, begins[2:], strict=False)]
                gone = 1 + wider.index(min(wider))
                (_, lost), (begin, chance) = self.runs[gone : gone + 2]
                self.runs[gone : gone + 2] = [(begin, chance + lost)]
            stay = (1 - self.hazard) ** (t - newest)
            self.runs = [(begin, chance * stay) for begin, chance in self.runs] + [(t, 1 - stay)]
        bits = list(zip(ranking, clicks, strict=True))[:examined]
        weighed = []
        for begin, chance in self.runs:
            for k, bit in bits:
                n, s = self.counts(begin, k)
                chance *= (1 + s if bit else 1 + n - s) / (2 + n)
            weighed.append((begin, chance))
        self.runs = [(begin, chance / sum(c for _, c in weighed)) for begin, chance in weighed]
        self.log += [(t, k, int(bit)) for k, bit in bits]


class BubbleRank:
    """Li et al. 2019, Algorithm 1, with the first list as base list; s and n in dictionaries."""

    def __init__(self, n_items: int, log_term: float, base: list[int]) -> None:
        pairs = list(itertools.permutations(range(n_items), 2))
        self.s, self.n = dict.fromkeys(pairs, 0), dict.fromkeys(pairs, 0)
        self.n_items, self.log_term, self.base, self.round = n_items, log_term, base, 0

    def better(self, i: int, j: int) -> bool:
        return self.s[i, j] > 2 * math.sqrt(self.n[i, j] * self.log_term)

    def rank(self, t: int, allowed: list[bool], size: int, rng: np.random.Generator) -> list[int]:
        place = {k: -p for p, k in enumerate(self.base)}
        index = [place.get(k, -self.n_items) if ok else -math.inf for k, ok in enumerate(allowed)]
        shown = top(index, size, rng)
        for p in range(t % 2, size - 1, 2):
            if rng.random() < 0.5 and not self.better(shown[p], shown[p + 1]):
                shown[p : p + 2] = shown[p + 1], shown[p]
        return shown

    def update(self, ranking: list[int], clicks: list[bool], examined: int) -> None:
        self.round += 1
        self.base += [k for k in ranking if k not in self.base]
        bits = [int(bit) if p < examined else 0 for p, bit in enumerate(clicks)]
        for p in range(self.round % 2, len(ranking) - 1, 2):
            i, j = ranking[p : p + 2]
            self.s[i, j] += bits[p] - bits[p + 1]
            self.s[j, i] += bits[p + 1] - bits[p]
            self.n[i, j] += abs(bits[p] - bits[p + 1])
            self.n[j, i] += abs(bits[p] - bits[p + 1])
        for p in range(len(self.base) - 1):
            if self.better(self.base[p + 1], self.base[p]):
                self.base[p : p + 2] = self.base[p + 1], self.base[p]


def click_likelihood(shown: Any, clicks: Any, attraction: Any, attention: Any) -> Any:
    """prod over items and places of (a c)^clicks (1 - a c)^(shown - clicks), for arrays of both."""
    law: Any = 1.0
    for k, a in enumerate(attraction):
        for p, c in enumerate(attention):
            law = law * (a * c) ** clicks[k, p] * (1 - a * c) ** (shown[k, p] - clicks[k, p])
    return law


Outcomes = dict[tuple[tuple[int, ...], bool], float]  # bits as reported and whether the user left satisfied: chance


def position_based(attraction: list[float], attention: list[float]) -> Outcomes:
    """Each place is looked at or not, and attracts or not: the sum over all outcomes."""
    found: Outcomes = {}
    for looked in itertools.product((0, 1), repeat=len(attraction)):
        for liked in itertools.product((0, 1), repeat=len(attraction)):
            chance = math.prod(a if x else 1 - a for a, x in zip(attention, looked, strict=True))
            chance *= math.prod(a if x else 1 - a for a, x in zip(attraction, liked, strict=True))
            bits = tuple(x * y for x, y in zip(looked, liked, strict=True))
            found[bits, any(bits)] = found.get((bits, any(bits)), 0.0) + chance
    return found


def story(
    attraction: list[float],
    look: Callable[[int, int], float],
    onward: Callable[[int], float],
    leave: Callable[[int], float],
    reported: Callable[[tuple[int, ...]], int],
) -> Outcomes:
    """A scan from the top: before place p leave; look, given the last click; click; after it go on or not.

    Places count from 1, a last click at 0 means none. `reported` says how far bits are reported.
    """
    found: Outcomes = {}
    size = len(attraction)

    def go(p: int, bits: tuple[int, ...], last: int, here: bool, satisfied: bool, chance: float) -> None:
        if chance == 0.0:
            return
        if p > size:
            end = bits[: reported(bits)], satisfied
            found[end] = found.get(end, 0.0) + chance
        elif not here:
            go(p + 1, (*bits, 0), last, False, satisfied, chance)
        else:
            gone, seen, click = leave(p), look(p, last), attraction[p - 1]
            go(p, bits, last, False, satisfied, chance * gone)
            chance *= 1 - gone
            go(p + 1, (*bits, 0), last, True, satisfied, chance * (1 - seen * click))
            chance *= seen * click
            go(p + 1, (*bits, 1), p, True, satisfied, chance * onward(p))
            go(p + 1, (*bits, 1), p, False, True, chance * (1 - onward(p)))

    go(1, (), 0, True, False, 1.0)
    return found
