"""How lists under rules were made before any of it was compiled: the reference for `live/ruled_list.py`.

The search for includes that can only be kept together, and what rules are, are those of the package.
"""

import numpy as np

from steadyrank.learners.steady.arranged import note_arranged, places_by_looks
from steadyrank.live.learner_state import LearnerState
from steadyrank.live.ruled_kernel import FREE, PINNED, PUT
from steadyrank.live.ruled_list import RuledList, _allowed, _conflict, _count_members, _cover, _pins_of, _Steps
from steadyrank.live.rules import contradiction


class _Source:
    """Where items come from: the learner's order of those that may still be taken."""

    def __init__(self, state, rules, visit, some, rng):
        self.state, self.rules, self.visit, self.some, self.rng = state, rules, visit, some, rng
        self.seen = {}

    def see(self, slots):
        """Slots come next in the order of preference; those that are new in it."""
        seen = self.seen
        fresh = [slot for slot in slots if slot not in seen] if seen else list(slots)
        seen.update(zip(fresh, range(len(seen), len(seen) + len(fresh)), strict=True))
        return fresh

    def more(self, wanted, full):
        """More items that were not ranked yet, but for those of groups that are full."""
        seen = np.fromiter(self.seen, np.int64, len(self.seen))
        without = [seen, *full] if not self.rules.out else [self.rules.excluded, seen, *full]
        return self.see(_rank_more(self.state, without, self.visit, self.some, wanted, self.rng))

    def among(self, slots, wanted):
        """The best of some items that were not ranked yet."""
        active, seen, out = (self.state.active, self.seen, self.rules.out)
        alive = np.array([s for s in slots.tolist() if active[s] and s not in seen and s not in out], np.int64)
        if self.some is not None:
            alive = alive[np.isin(alive, self.some)]
        return self.see(self.state.rank_slots(alive, self.visit, wanted, self.rng))

    def new(self, wanted):
        """Items that are new, those looked at least first."""
        out = self.rules.out | set(self.seen)
        drawn = self.state.newcomers.draw(wanted + len(out), self.rng)
        may = None if self.some is None else set(self.some.tolist())
        return self.see([slot for slot in drawn if slot not in out and (may is None or slot in may)][:wanted])


def _rank_more(state, without, visit, some, wanted, rng):
    if not isinstance(state, LearnerState):
        return state.rank_more(without, visit, some, wanted, rng)
    newcomers, undo = state.newcomers, []
    if some is None:
        allowed, n = newcomers.known, newcomers.active - newcomers.size
    else:
        allowed, n = np.zeros(state.capacity, np.bool_), some.size
        allowed[some] = True
    try:
        for slots in without:
            undo.append((slots, allowed[slots]))
            n -= int(np.count_nonzero(undo[-1][1]))
            allowed[slots] = False
        if n:
            ranking, _ = state._rank_allowed(allowed, state._with_features(visit), min(wanted, state.length, n), rng)
            return ranking.tolist()
    finally:
        for slots, were in reversed(undo):
            allowed[slots] = were
    if some is not None or not newcomers.size:
        return []
    out = {slot for slots in without for slot in slots.tolist()}
    return [slot for slot in newcomers.draw(newcomers.size, rng) if slot not in out][:wanted]


class _Choice:
    """The items of a list that are not pinned, in the order in which the learner prefers them."""

    def __init__(self, source, pinned, free):
        self.source, self.rules, self.state = (source, source.rules, source.state)
        self.pinned, self.free = (set(pinned), free)
        self.most = self.rules.most
        self.least = list(self.rules.least)
        self.unkept = []
        self._steps = _Steps()
        self._begin()

    def _begin(self):
        self.chosen = []
        self.counts, self.has = ([0] * len(self.rules.caps), [0] * len(self.rules.needs))
        for slot in self.pinned:
            self._count(slot, 1)

    def _count(self, slot, step):
        for number in self.rules.caps_of.get(slot, ()):
            self.counts[number] += step
        if self.has and (self.rules.new_needs or slot in self.rules.needs_of):
            for number in self.rules.needs_with(slot, self.state):
                self.has[number] += step

    def take(self, slots):
        """Take items in their order, as far as there is room and groups allow."""
        caps_of, most, counts, pinned, chosen = (self.rules.caps_of, self.most, self.counts, self.pinned, self.chosen)
        if not counts and (not self.has):
            chosen += [slot for slot in slots if slot not in pinned][: self.free - len(chosen)]
            return
        for slot in slots:
            if len(chosen) == self.free:
                return
            if slot in pinned:
                continue
            for number in caps_of.get(slot, ()):
                if counts[number] >= most[number]:
                    break
            else:
                chosen.append(slot)
                self._count(slot, 1)

    def fill(self):
        """Let the learner rank further items until the list is full, or there are none left."""
        while len(self.chosen) < self.free:
            full = [cap.slots for n, cap in enumerate(self.rules.caps) if self.counts[n] >= self.most[n]]
            more = self.source.more(2 * (self.free - len(self.chosen)), full)
            if not more:
                return
            self.take(more)

    def swaps(self, one, other):
        """Whether the list without `one` and with `other` keeps all that it keeps now."""
        rules = self.rules
        leaves = rules.caps_of.get(one, ())
        for number in rules.caps_of.get(other, ()):
            if self.counts[number] - (number in leaves) >= self.most[number]:
                return False
        for number in rules.needs_with(one, self.state):
            if self.has[number] <= self.least[number] and number not in rules.needs_with(other, self.state):
                return False
        return True

    def swap(self, one, other):
        """Put `other` in for `one`."""
        self.chosen.remove(one)
        self._count(one, -1)
        self.chosen.append(other)
        self._count(other, 1)
        self.chosen.sort(key=self.source.seen.__getitem__)

    def include(self, number):
        """Bring in one more item of an include; whether that went."""
        needs_with, taken = (self.rules.needs_with, {*self.chosen, *self.pinned})
        counted = self.rules.counted(self.source.seen)
        rest = [s for s in counted if s not in taken and number in needs_with(s, self.state)]
        need = self.rules.needs[number]
        rest += self.source.new(1) if need.new else self.source.among(need.slots, self.least[number] + len(self.most))
        own = [s for s in self.rules.counted(self.chosen) if number in needs_with(s, self.state)]
        room = len(self.chosen) < self.free
        swap = None
        for slot in rest:
            if room and all(self.counts[cap] < self.most[cap] for cap in self.rules.caps_of.get(slot, ())):
                self.chosen.append(slot)
                self._count(slot, 1)
                return True
            others = (p for p in range(len(self.chosen) - 1, -1, -1) if self.chosen[p] not in own)
            last = next((p for p in others if self.swaps(self.chosen[p], slot)), -1)
            if last > (swap[0] if swap else -1):
                swap = (last, slot)
        if swap is None:
            return False
        self.swap(self.chosen[swap[0]], swap[1])
        return True

    def improve(self):
        """Bring back what was left out for an item that the learner prefers less, as long as that goes."""
        seen = self.source.seen
        rest = [slot for slot in seen if slot not in self.chosen and slot not in self.pinned]
        while True:
            pair = next(
                (
                    (one, other)
                    for other in rest
                    for one in reversed(self.chosen)
                    if seen[one] > seen[other] and self.swaps(one, other)
                ),
                None,
            )
            if pair is None:
                return
            self.swap(*pair)
            rest[rest.index(pair[1])] = pair[0]
            rest.sort(key=seen.__getitem__)

    def keep_includes(self, preferred):
        """Bring in what includes ask for, one after the other; `preferred`: the learner's list."""
        repaired = False
        for number in range(len(self.least)):
            while self.has[number] < self.least[number]:
                repaired = True
                if not self.include(number) and (not self._cover(number, preferred)):
                    self._give_up(number)
        if repaired:
            self.improve()

    def _cover(self, number, preferred):
        """Begin with items that keep all includes so far at once, if there are such; whether there are."""
        allowed = _allowed(self.state, self.source.some, self.rules)
        size = self.free + len(self.pinned)
        upto = range(number + 1)
        pins, least = (list(self.pinned), self.least)
        covering = _cover(self.rules, self.state, allowed, size, upto, pins, least, self.most, self._steps)
        if covering is None:
            return False
        self._begin()
        for slots, wanted in covering:
            ranked = sorted((slot for slot in slots if slot in self.source.seen), key=self.source.seen.__getitem__)
            fresh = self.source.among(np.array(slots, np.int64), wanted - min(len(ranked), wanted))
            self.take([*ranked, *fresh][:wanted])
        taken = set(self.chosen)
        self.take([slot for slot in preferred if slot not in taken])
        self.fill()
        self.chosen.sort(key=self.source.seen.__getitem__)
        return True

    def _give_up(self, number):
        """An include cannot be kept: it is refused, or asks for less from now on."""
        need, allowed = (self.rules.needs[number], _allowed(self.state, self.source.some, self.rules))
        there = _count_members(self.rules, self.state, allowed, number)
        if there > self.has[number] or need.named:
            if not self.rules.best:
                size = self.free + len(self.pinned)
                raise contradiction(_conflict(self.rules, self.state, allowed, size, number))
            self.unkept.append(need.label)
        self.least[number] = self.has[number]


def _boosted(source, preferred):
    """The order of preference with boosted items where their estimates, times their factors, put them.

    An item stands before the first one that is worth less than it, but a factor above 1 moves none down, and one
    below 1 none up.
    """
    boosts, state = (source.rules.boosts, source.state)
    there = [slot for slot in boosts if state.active[slot] and (source.some is None or slot in source.some)]
    moved = [slot for slot in there if slot not in source.rules.out and (boosts[slot] > 1.0 or slot in source.seen)]
    if not moved:
        return preferred
    down = sum(boosts[slot] < 1.0 for slot in moved)
    stay = [slot for slot in preferred if slot not in boosts]
    stay += [slot for slot in (source.more(down, []) if down else []) if slot not in boosts]
    slots = np.array(stay + moved, np.int64)
    estimates = state.estimates_at(source.visit, slots)
    assert estimates is not None
    worth = estimates.tolist()
    enters = []
    for i, slot in enumerate(moved):
        own, place = (worth[len(stay) + i] * boosts[slot], 0)
        while place < len(stay) and worth[place] >= own:
            place += 1
        if slot in preferred:
            ahead = sum(other not in boosts for other in preferred[: preferred.index(slot)])
            place = min(place, ahead) if boosts[slot] > 1.0 else max(place, ahead)
        enters.append((place, -own, i))
    order, upto = ([], 0)
    for place, _, i in sorted(enters):
        order += [*stay[upto:place], moved[i]]
        upto = place
    order += stay[upto:]
    source.see(order)
    source.seen.update(zip(order, range(len(order)), strict=True))
    return order


def rank_by_rules(state, rules, visit, candidates, length, rng):
    """A list that keeps rules, the best by the order in which the learner prefers the items.

    O(rules + places) beside what the learner does. It ranks again where groups are exceeded or an include lacks an
    item; where few items may come, that is O(items).
    """
    some = None if candidates is None else state.slots_of(candidates)
    base, note = state.rank_without(rules.excluded, visit, some, length, rng)
    own, unkept = (base.tolist(), list(rules.unkept))
    if rules.kept_by(own, state):
        return RuledList(base, note, [FREE] * len(own), unkept)
    size, order = len(own), places_by_looks(state.learner, visit, len(own))
    pinned = _pins_of(rules, state, some, size, unkept)
    pins, preferred = (list(pinned.values()), [own[place] for place in order])
    if rules.pins_alone:
        rest = [slot for slot in preferred if slot not in pins]
        ranking = _arrange(rules, pinned, rest[: size - len(pins)], order, unkept)
    else:
        source = _Source(state, rules, visit, some, rng)
        source.see(preferred)
        source.see(pins)
        if rules.boosts:
            preferred = _boosted(source, preferred)
        choice = _Choice(source, pins, size - len(pins))
        choice.take(preferred)
        choice.fill()
        if rules.needs:
            choice.keep_includes(preferred)
        unkept += choice.unkept
        ranking = _arrange(rules, pinned, choice.chosen, order, unkept)
    if ranking == own:
        return RuledList(base, note, [PINNED if p in pinned else FREE for p in range(size)], unkept)
    slots = np.array(ranking, np.int64)
    note_arranged(state.learner, visit, size, slots, note)
    return RuledList(slots, note, [PINNED if s in pins else FREE if s in own else PUT for s in ranking], unkept)


def _arrange(rules, pinned, chosen, order, unkept):
    """Pins at their places, the others at those left, best first by how much places are looked at.

    Where groups leave too few items for a pin's place, it is refused, or stands last and is named.
    """
    size = len(pinned) + len(chosen)
    late = [place for place in pinned if place >= size]
    if not late:
        rest = iter(chosen)
        ranking = [0] * size
        for place in order:
            if place < size:
                ranking[place] = pinned[place] if place in pinned else next(rest)
        return ranking
    if not rules.best:
        raise contradiction([rules.pins[late[0]][1], f"groups, which leave a list of {size} places,"])
    unkept += [rules.pins[place][1] for place in late]
    places = {place: slot for place, slot in pinned.items() if place < size}
    for place in late:
        places[max(p for p in range(size) if p not in places)] = pinned[place]
    free = [place for place in order if place < size and place not in places]
    places |= dict(zip(free, chosen, strict=True))
    return [places[place] for place in range(size)]
