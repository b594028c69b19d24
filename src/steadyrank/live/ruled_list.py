"""The best list that keeps rules, for any learner.

The learner's list gives the order of preference. Items are taken in that order as long as groups allow
them; to replace those left out, the learner ranks again without the items ranked already and without full groups.
Items that must be in the list are added in the learner's order, each replacing the last item that may
leave; then items that were left out come back wherever a less preferred one may leave for them. If
the sets that rules name are nested or disjoint, the lists that keep them are the bases of a matroid, and such
exchanges lead to the best of them, whatever the items are worth as long as the learner prefers those worth more
(Edmonds 1971). If sets cross, no single exchange improves the list. Every item is drawn by the learner, as the
best of those allowed at that point: so it explores as it does without rules.

If value is the goal, the order of a list does not say which of its items it can spare: users who leave with the first
click are shown the items by the value of a click, so the last one is not the least useful. Then the list that keeps
the rules is only a start: items and places are exchanged, within the rules, as long as the value of the list rises
(`exchange_by_rules`), by a draw of attractions and of the worth of clicks. A boost multiplies the latter.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import gt
from typing import Any, NamedTuple

import numpy as np

from ..core.arrays import Bools, Floats, Ints
from ..core.contract import Visit
from ..core.refusals import Refused
from ..learners.steady.arranged import (
    item_on_trial,
    note_arranged,
    places_by_looks,
)
from .features import FeatureSpace, Values
from .learner_state import LearnerState
from .newcomers import NEW_LOOKS
from .rules import Members, Rules, contradiction

FREE, PINNED, PUT = range(3)  # how a place was filled: by the learner's choice, a pin, or an item that rules required
_MOST_CACHED = 8  # cached `SlotRules`
_MOST_STEPS = (
    5_000  # search steps per list for items that keep all includes at once: beyond, they count as impossible
)
_MOST_RULES = 100  # most rules among which contradicting ones are searched for
_MOST_TAKEN = 400  # most items in such a search
_NO_SLOTS: Ints = np.zeros(0, np.int64)


class RuledList(NamedTuple):
    """A list that keeps rules: slots, the note, how each place was filled, and the rules that it does not keep."""

    ranking: Ints
    note: Floats
    placed: list[int]
    unkept: list[str]


class _Set(NamedTuple):
    """Items of a group or an include: at most, or at least, `number` of them are in a list."""

    label: str
    number: int
    slots: Ints  # empty for an include of new items
    new: bool = False
    named: bool = True  # items are named; other includes ask for at most as many as there are


class SlotRules:
    """Rules with slots for names, for any number of lists of one state."""

    def __init__(
        self,
        rules: Rules,
        state: LearnerState,
        known: Mapping[str, Values],
        space: FeatureSpace | None = None,
        learns: LearnerState | None = None,
    ) -> None:
        """Refuse rules that contradict one another whatever the list.

        `known`: features of items by name; `space`: their declarations, if not the state's; `learns`: state whose
        learner makes the lists, if another one.
        """
        space = state.features if space is None else space
        self.best = rules.when_impossible == "best"
        self.excluded: Ints = np.unique(np.array([state.slot(item) for item in rules.exclude], np.int64))
        self.out = set(self.excluded.tolist())
        self.boosts = {state.slot(item): factor for item, factor in rules.boosts.items()}
        self.caps = [
            _Set(f"group {label} (most {group.most})", group.most, slots)
            for name, group in rules.groups.items()
            for label, slots in _sets_of(name, group, state, known, space)
        ]
        self.needs = [
            _Set(f"include {label} (least {one.least})", one.least, slots, one.new, bool(one.items))
            for name, one in rules.include.items()
            for label, slots in _sets_of(name, one, state, known, space)
        ]
        self.caps_of, self.needs_of = _numbers(self.caps), _numbers(self.needs)
        self.least = [need.number for need in self.needs]
        self.new_needs = tuple(number for number, need in enumerate(self.needs) if need.new)
        self.pins: dict[int, tuple[int, str]] = {}  # by place from 0: the slot and the rule
        self.unkept: list[str] = []  # rules that no list can keep
        if self.boosts:
            check_boosts(learns or state)
        self._pin(rules, state)
        self.most = [cap.number for cap in self.caps]  # limits of groups, less pinned items
        self._count_pins()
        self.pins_alone = not (self.caps or self.needs or self.boosts)

    def _pin(self, rules: Rules, state: LearnerState) -> None:
        """Assign pins to their places."""
        for item, place in sorted(rules.pins.items(), key=lambda pin: pin[1]):
            slot, label = state.slot(item), f"pin {item!r} at {place}"
            others = [self.pins[place - 1][1]] if place - 1 in self.pins else []
            others += [f"exclude {item!r}"] if slot in self.out else []
            if others:
                self._refuse_or_skip([label, others[0]], label)
                continue
            self.pins[place - 1] = slot, label

    def _count_pins(self) -> None:
        """Refuse pins of more items of a group than it allows."""
        for number, cap in enumerate(self.caps):
            pinned = [label for slot, label in self.pins.values() if number in self.caps_of.get(slot, ())]
            if len(pinned) > cap.number:
                self._refuse_or_skip([*pinned[: cap.number + 1], cap.label], cap.label)
                self.most[number] = len(pinned)

    def _refuse_or_skip(self, labels: Sequence[str], unkept: str) -> None:
        if not self.best:
            raise contradiction(labels)
        self.unkept.append(unkept)

    def needs_with(self, slot: int, state: LearnerState) -> tuple[int, ...]:
        """Numbers of the includes that an item counts for."""
        own = self.needs_of.get(slot, ())
        if not self.new_needs:
            return own
        if state.added[slot] and state.looks[slot] < NEW_LOOKS:
            own += self.new_needs
        return own

    def kept_by(self, ranking: Sequence[int], state: LearnerState) -> bool:
        """Whether a learner's list without excluded items already keeps all rules, as most lists do."""
        if self.pins or self.boosts:
            return False
        if self.caps_of:
            counts, caps_of = [0] * len(self.caps), self.caps_of
            for slot in ranking:
                for number in caps_of.get(slot, ()):
                    counts[number] += 1
            if any(map(gt, counts, self.most)):
                return False
        if not self.needs:
            return True
        has = [0] * len(self.needs)
        for slot in self.may_count(ranking):
            for number in self.needs_with(slot, state):
                has[number] += 1
        return not any(map(gt, self.least, has))

    def may_count(self, slots: Iterable[int]) -> list[int]:
        """The slots that may count for an include: a fast filter before `needs_with`."""
        return list(slots) if self.new_needs else [slot for slot in slots if slot in self.needs_of]

    def fits(self, items: Sequence[int], item: int) -> bool:
        """Whether groups allow an item in a list with these items."""
        caps = self.caps_of.get(item, ())
        return all(sum(n in self.caps_of.get(one, ()) for one in items) < self.most[n] for n in caps)

    def includes_as(self, items: Sequence[int], others: Sequence[int], state: LearnerState) -> bool:
        """Whether a list keeps every include at least as far as another list does."""
        has, had = (
            [number for slot in slots for number in self.needs_with(slot, state)] for slots in (items, others)
        )
        return all(has.count(n) >= min(need.number, had.count(n)) for n, need in enumerate(self.needs))

    def check(self, state: LearnerState, length: int) -> None:
        """Refuse rules that no list of this length can keep, without making a list."""
        if self.best:
            return
        for place, (_, label) in self.pins.items():
            if place >= length:
                raise contradiction([label, f"a list of {length} places"])
        allowed = _allowed(state, None, self)
        size = min(length, int(np.count_nonzero(allowed)))
        named = [number for number, need in enumerate(self.needs) if need.named]
        steps = _Steps()
        for place, number in enumerate(named):
            if _cover(self, state, allowed, size, named[: place + 1], steps=steps) is None and steps.left >= 0:
                raise contradiction(_conflict(self, state, allowed, size, number))


def check_boosts(state: LearnerState) -> None:
    """Refuse boosts if the learner does not estimate what they multiply."""
    name, valued = type(state.learner).__name__, state.aims_at_value
    if valued and not state.knows_worth:
        raise Refused(422, f"boosts need a learner that estimates what clicks are worth, which {name} does not")
    if not valued and state.estimates_at(Visit(1), _NO_SLOTS) is None:
        raise Refused(422, f"boosts need a learner that estimates how attractive items are, which {name} does not")


def _sets_of(
    name: str, one: Members, state: LearnerState, known: Mapping[str, Values], space: FeatureSpace
) -> Iterator[tuple[str, Ints]]:
    """The sets of items that a rule is about, with their labels for errors."""
    if not one.by:
        slots: Ints = np.unique(np.array([state.slot(item) for item in one.items], np.int64))
        yield repr(name), slots
        return
    kinds = {kind.name: kind for kind in space.items}
    if one.by not in kinds or not kinds[one.by].categories:
        have = ", ".join(kind.name for kind in kinds.values() if kind.categories) or "none"
        raise Refused(
            422,
            f"{name!r:.80}: by must be a feature of items with categories, which are {have}, not {one.by!r:.80}",
        )
    by_category: dict[str, list[int]] = {}
    for item, values in known.items():
        if (value := values.get(one.by)) is not None and item in state.slots:
            by_category.setdefault(str(value), []).append(state.slots[item])
    for category, slots_of in sorted(by_category.items()):
        yield f"{name!r} of {one.by} {category!r}", np.unique(np.array(slots_of, np.int64))


def _numbers(sets: Sequence[_Set]) -> dict[int, tuple[int, ...]]:
    """The numbers of the sets that each slot is in."""
    numbers: dict[int, tuple[int, ...]] = {}
    for number, one in enumerate(sets):
        for slot in one.slots.tolist():
            numbers[slot] = (*numbers.get(slot, ()), number)
    return numbers


class _Preference:
    """Items in the learner's order, among those that may still be taken."""

    def __init__(
        self, state: LearnerState, rules: SlotRules, visit: Visit, some: Ints | None, rng: np.random.Generator
    ) -> None:
        self.state, self.rules, self.visit, self.some, self.rng = state, rules, visit, some, rng
        self.seen: dict[int, int] = {}  # slots ranked already, with their position in the order of preference

    def append(self, slots: Sequence[int]) -> list[int]:
        """Append slots to the order of preference; returns those that were not in it."""
        seen = self.seen
        fresh = [slot for slot in slots if slot not in seen] if seen else list(slots)
        seen.update(zip(fresh, range(len(seen), len(seen) + len(fresh)), strict=True))
        return fresh

    def more(self, wanted: int, full: Sequence[Ints]) -> list[int]:
        """Further items not ranked yet, without those of full groups."""
        seen: Ints = np.fromiter(self.seen, np.int64, len(self.seen))
        without = [seen, *full] if not self.rules.out else [self.rules.excluded, seen, *full]
        return self.append(self.state.rank_more(without, self.visit, self.some, wanted, self.rng))

    def among(self, slots: Ints, wanted: int) -> list[int]:
        """The best of some items not ranked yet."""
        active, seen, out = self.state.active, self.seen, self.rules.out
        alive = np.array([s for s in slots.tolist() if active[s] and s not in seen and s not in out], np.int64)
        if self.some is not None:
            alive = alive[np.isin(alive, self.some)]
        return self.append(self.state.rank_slots(alive, self.visit, wanted, self.rng))

    def new(self, wanted: int) -> list[int]:
        """New items, fewest looks first."""
        out = self.rules.out | set(self.seen)
        drawn = self.state.newcomers.draw(wanted + len(out), self.rng)
        may = None if self.some is None else set(self.some.tolist())
        return self.append([slot for slot in drawn if slot not in out and (may is None or slot in may)][:wanted])


class _Steps:
    """A budget of steps shared by searches."""

    def __init__(self) -> None:
        self.left = _MOST_STEPS

    def take(self) -> bool:
        """Use one step; returns whether there was one left."""
        self.left -= 1
        return self.left >= 0


class _Selection:
    """The items of a list that are not pinned, in the learner's order of preference."""

    def __init__(self, source: _Preference, pinned: Sequence[int], free: int) -> None:
        self.source, self.rules, self.state = source, source.rules, source.state
        self.pinned, self.free = set(pinned), free
        self.most = self.rules.most
        self.least = list(self.rules.least)
        self.unkept: list[str] = []
        self._steps = _Steps()
        self._begin()

    def _begin(self) -> None:
        self.chosen: list[int] = []
        self.counts, self.has = [0] * len(self.rules.caps), [0] * len(self.rules.needs)
        for slot in self.pinned:
            self._count(slot, 1)

    def _count(self, slot: int, step: int) -> None:
        for number in self.rules.caps_of.get(slot, ()):
            self.counts[number] += step
        if self.has and (self.rules.new_needs or slot in self.rules.needs_of):
            for number in self.rules.needs_with(slot, self.state):
                self.has[number] += step

    def take(self, slots: Sequence[int]) -> None:
        """Take items in their order, as far as there is room and groups allow."""
        caps_of, most, counts, pinned, chosen = self.rules.caps_of, self.most, self.counts, self.pinned, self.chosen
        if not counts and not self.has:
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

    def fill(self) -> None:
        """Let the learner rank further items until the list is full, or none are left."""
        while len(self.chosen) < self.free:
            full = [cap.slots for n, cap in enumerate(self.rules.caps) if self.counts[n] >= self.most[n]]
            more = self.source.more(2 * (self.free - len(self.chosen)), full)
            if not more:
                return
            self.take(more)

    def can_swap(self, one: int, other: int) -> bool:
        """Whether replacing `one` by `other` keeps every rule that is kept now."""
        rules = self.rules
        leaves = rules.caps_of.get(one, ())
        for number in rules.caps_of.get(other, ()):
            if self.counts[number] - (number in leaves) >= self.most[number]:
                return False
        for number in rules.needs_with(one, self.state):
            if self.has[number] <= self.least[number] and number not in rules.needs_with(other, self.state):
                return False
        return True

    def swap(self, one: int, other: int) -> None:
        """Replace `one` by `other`."""
        self.chosen.remove(one)
        self._count(one, -1)
        self.chosen.append(other)
        self._count(other, 1)
        self.chosen.sort(key=self.source.seen.__getitem__)

    def include(self, number: int) -> bool:
        """Add one more item of an include; returns whether it was possible."""
        needs_with, taken = self.rules.needs_with, {*self.chosen, *self.pinned}
        counted = self.rules.may_count(self.source.seen)
        rest = [s for s in counted if s not in taken and number in needs_with(s, self.state)]
        need = self.rules.needs[number]
        rest += self.source.new(1) if need.new else self.source.among(need.slots, self.least[number] + len(self.most))
        own = [s for s in self.rules.may_count(self.chosen) if number in needs_with(s, self.state)]
        room = len(self.chosen) < self.free
        swap: tuple[int, int] | None = None
        for slot in rest:
            if room and all(self.counts[cap] < self.most[cap] for cap in self.rules.caps_of.get(slot, ())):
                self.chosen.append(slot)
                self._count(slot, 1)
                return True
            others = (p for p in range(len(self.chosen) - 1, -1, -1) if self.chosen[p] not in own)
            last = next((p for p in others if self.can_swap(self.chosen[p], slot)), -1)
            if last > (swap[0] if swap else -1):
                swap = last, slot
        if swap is None:
            return False
        self.swap(self.chosen[swap[0]], swap[1])
        return True

    def improve(self) -> None:
        """Replace less preferred items by preferred ones that were left out, while possible."""
        seen = self.source.seen
        rest = [slot for slot in seen if slot not in self.chosen and slot not in self.pinned]
        while True:
            pair = next(
                (
                    (one, other)
                    for other in rest
                    for one in reversed(self.chosen)
                    if seen[one] > seen[other] and self.can_swap(one, other)
                ),
                None,
            )
            if pair is None:
                return
            self.swap(*pair)
            rest[rest.index(pair[1])] = pair[0]
            rest.sort(key=seen.__getitem__)

    def keep_includes(self, preferred: Sequence[int]) -> None:
        """Add the items that includes require, one after the other; `preferred`: the learner's list."""
        repaired = False
        for number in range(len(self.least)):
            while self.has[number] < self.least[number]:
                repaired = True
                if not self.include(number) and not self._cover(number, preferred):
                    self._drop_include(number)
        if repaired:
            self.improve()

    def _cover(self, number: int, preferred: Sequence[int]) -> bool:
        """Restart from items that keep all includes so far at once, if there are any; returns whether there are."""
        allowed = _allowed(self.state, self.source.some, self.rules)
        size = self.free + len(self.pinned)
        upto = range(number + 1)
        pins, least = list(self.pinned), self.least
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

    def _drop_include(self, number: int) -> None:
        """Refuse an include that cannot be kept, or reduce it to what is possible."""
        need, allowed = self.rules.needs[number], _allowed(self.state, self.source.some, self.rules)
        there = _count_members(self.rules, self.state, allowed, number)
        if there > self.has[number] or need.named:
            if not self.rules.best:
                size = self.free + len(self.pinned)
                raise contradiction(_conflict(self.rules, self.state, allowed, size, number))
            self.unkept.append(need.label)
        self.least[number] = self.has[number]


def _allowed(state: LearnerState, some: Ints | None, rules: SlotRules) -> Bools:
    """Which items may be shown, bool[capacity]."""
    allowed: Bools = state.active.copy()
    if some is not None:
        allowed[:] = False
        allowed[some] = True
    allowed[rules.excluded] = False
    return allowed


def _members(rules: SlotRules, state: LearnerState, allowed: Bools, number: int) -> Ints:
    """The items of an include that may be shown."""
    need = rules.needs[number]
    if need.new:
        return np.flatnonzero(allowed & state.added & (state.looks < NEW_LOOKS))
    return need.slots[allowed[need.slots]]


def _count_members(rules: SlotRules, state: LearnerState, allowed: Bools, number: int) -> int:
    return int(_members(rules, state, allowed, number).size)


def _cover(
    rules: SlotRules,
    state: LearnerState,
    allowed: Bools,
    size: int,
    needs: Sequence[int],
    pinned: Sequence[int] | None = None,
    least: Sequence[int] | None = None,
    most: Sequence[int] | None = None,
    steps: _Steps | None = None,
) -> list[tuple[list[int], int]] | None:
    """Items that keep these includes at once, given pins and groups: how many of which; None if there are none.

    Items in the same groups and includes are interchangeable: searches among these kinds of items, exhaustively or
    for as many steps as are left. O(items of the includes) besides that.
    """
    pinned = [slot for slot, _ in rules.pins.values()] if pinned is None else pinned
    least = rules.least if least is None else least
    slack = list(rules.most if most is None else most)
    lacks = {number: least[number] for number in needs}
    for slot in pinned:
        for cap in rules.caps_of.get(slot, ()):
            slack[cap] -= 1
        for number in rules.needs_with(slot, state):
            if number in lacks:
                lacks[number] -= 1
    kinds: dict[tuple[tuple[int, ...], tuple[int, ...]], list[int]] = {}
    members = {int(slot) for number in needs for slot in _members(rules, state, allowed, number)}
    for slot in sorted(members - set(pinned)):
        kept_needs = tuple(number for number in rules.needs_with(slot, state) if number in lacks)
        kinds.setdefault((rules.caps_of.get(slot, ()), kept_needs), []).append(slot)
    keys, steps = list(kinds), _Steps() if steps is None else steps
    used = [0] * len(keys)

    def search(room: int) -> bool:
        unmet = next((number for number, lack in lacks.items() if lack > 0), None)
        if unmet is None:
            return True
        if room == 0 or sum(used) >= _MOST_TAKEN or not steps.take():
            return False
        for k, (caps, own) in enumerate(keys):
            if unmet in own and used[k] < len(kinds[keys[k]]) and all(slack[cap] > 0 for cap in caps):
                _step(used, slack, lacks, k, caps, own, 1)
                if search(room - 1):
                    return True
                _step(used, slack, lacks, k, caps, own, -1)
        return False

    if any(room < 0 for room in slack) or not search(size - len(pinned)):
        return None
    return [(kinds[key], n) for key, n in zip(keys, used, strict=True) if n]


def _step(
    used: list[int],
    slack: list[int],
    lacks: dict[int, int],
    k: int,
    caps: Sequence[int],
    own: Sequence[int],
    step: int,
) -> None:
    """Add `step` items of a kind to the counts: one more, or one less."""
    used[k] += step
    for cap in caps:
        slack[cap] -= step
    for number in own:
        lacks[number] -= step


def _conflict(rules: SlotRules, state: LearnerState, allowed: Bools, size: int, number: int) -> list[str]:
    """The rules that an include contradicts: itself, one other, or a minimal set."""
    need = rules.needs[number]
    least, no_cap = rules.least, [size + 1] * len(rules.caps)
    shown, steps = state.active.copy(), _Steps()

    def fails(pins: Sequence[int], caps: Sequence[int], needs: Sequence[int], may: Bools = allowed) -> bool:
        most = list(no_cap)
        for cap in caps:
            most[cap] = rules.most[cap]
        return _cover(rules, state, may, size, needs, pins, least, most, steps) is None

    if fails([], [], [number], shown):
        few = f"{_count_members(rules, state, shown, number)} of its items may be shown, in a list of {size} places"
        return [f"{need.label}, but {few}"]
    if fails([], [], [number]):
        return [need.label, "the items that are excluded or no candidates"]
    pins = [(slot, label) for slot, label in rules.pins.values()]
    caps, others = list(range(len(rules.caps))), [n for n in range(number) if rules.needs[n].named]
    if len(pins) + len(caps) + len(others) > _MOST_RULES:
        return [need.label, "the other rules"]
    for slot, label in pins:
        if fails([slot], [], [number]):
            return [need.label, label]
    for cap in caps:
        if fails([], [cap], [number]):
            return [need.label, rules.caps[cap].label]
    for other in others:
        if fails([], [], [other, number]):
            return [rules.needs[other].label, need.label]
    for slot, _ in list(pins):
        fewer = [pin for pin in pins if pin[0] != slot]
        pins = fewer if fails([s for s, _ in fewer], caps, [*others, number]) else pins
    for cap in list(caps):
        less = [one for one in caps if one != cap]
        caps = less if fails([s for s, _ in pins], less, [*others, number]) else caps
    for other in list(others):
        rest = [one for one in others if one != other]
        others = rest if fails([s for s, _ in pins], caps, [*rest, number]) else others
    if steps.left < 0:  # the search was not exhaustive
        return [need.label, "the other rules"]
    labels = [label for _, label in pins] + [rules.caps[cap].label for cap in caps]
    return labels + [rules.needs[other].label for other in others] + [need.label]


def _apply_boosts(source: _Preference, preferred: list[int]) -> list[int]:
    """The order of preference with boosted items placed by their estimates times their factors.

    A boosted item goes before the first one that is worth less, but a factor above 1 never moves an item down, and
    one below 1 never up.
    """
    boosts, state = source.rules.boosts, source.state
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
    worth: list[float] = estimates.tolist()
    enters = []  # insertion points among the other items, and worth among equals
    for i, slot in enumerate(moved):
        own, place = worth[len(stay) + i] * boosts[slot], 0
        while place < len(stay) and worth[place] >= own:
            place += 1
        if slot in preferred:
            ahead = sum(other not in boosts for other in preferred[: preferred.index(slot)])
            place = min(place, ahead) if boosts[slot] > 1.0 else max(place, ahead)
        enters.append((place, -own, i))
    order, upto = list[int](), 0
    for place, _, i in sorted(enters):
        order += [*stay[upto:place], moved[i]]
        upto = place
    order += stay[upto:]
    source.append(order)
    source.seen.update(zip(order, range(len(order)), strict=True))
    return order


def rank_by_rules(
    state: LearnerState,
    rules: SlotRules,
    visit: Visit,
    candidates: Sequence[str] | None,
    length: int,
    rng: np.random.Generator,
) -> RuledList:
    """The best list that keeps the rules, by the learner's order of preference.

    O(rules + places) besides the learner's time. The learner ranks again if groups are exceeded or an include lacks
    an item; if few items are allowed, that is O(items).
    """
    some = None if candidates is None else state.slots_of(candidates)
    base, note = state.rank_without(rules.excluded, visit, some, length, rng)
    own, unkept = base.tolist(), list(rules.unkept)
    if rules.kept_by(own, state):
        return RuledList(base, note, [FREE] * len(own), unkept)
    size, order, valued = len(own), places_by_looks(state.learner, visit, len(own)), state.aims_at_value
    pinned = _pins_of(rules, state, some, size, unkept)
    pins, preferred = list(pinned.values()), [own[place] for place in order]
    if rules.pins_alone and not valued:
        rest = [slot for slot in preferred if slot not in pins]
        ranking = _arrange(rules, pinned, rest[: size - len(pins)], order, unkept)
    else:
        source = _Preference(state, rules, visit, some, rng)
        source.append(preferred)
        source.append(pins)  # excludes them from other places
        if rules.boosts and not valued:
            preferred = _apply_boosts(source, preferred)
        choice = _Selection(source, pins, size - len(pins))
        choice.take(preferred)
        choice.fill()
        if rules.needs:
            choice.keep_includes(preferred)
        unkept += choice.unkept
        ranking = _arrange(rules, pinned, choice.chosen, order, unkept)
        if valued:
            ranking = _by_value(choice, ranking, item_on_trial(state.learner, size, note))
    if ranking == own:
        return RuledList(base, note, [PINNED if p in pinned else FREE for p in range(size)], unkept)
    slots = np.array(ranking, np.int64)
    note_arranged(state.learner, visit, size, slots, note)
    return RuledList(slots, note, [PINNED if s in pins else FREE if s in own else PUT for s in ranking], unkept)


def _by_value(choice: _Selection, ranking: list[int], tried: int) -> list[int]:
    """A list that keeps rules, improved in value by exchanges that keep them.

    Pins keep their places, and items that are new, or `tried` again, stay in the list, because they are there to be
    learnt about.
    """
    source, rules, state = choice.source, choice.rules, choice.state
    known, may = state.newcomers.known, None if source.some is None else set(source.some.tolist())
    boosted = [slot for slot in rules.boosts if slot not in rules.out and (may is None or slot in may)]
    more = np.array([*ranking, *(slot for slot in (*source.seen, *boosted) if known[slot])], np.int64)
    valued = state.valued(rules.excluded, source.visit, source.some, more, len(ranking), source.rng)
    if valued is None:
        return ranking
    items = valued.items.tolist()
    index = {slot: i for i, slot in enumerate(items)}
    for slot, factor in rules.boosts.items():
        if slot in index:
            valued.worth[:, index[slot]] *= factor
    sets = {number: one for one, number in enumerate({n for slot in items for n in rules.caps_of.get(slot, ())})}
    least, most = [0] * len(sets), [choice.most[number] for number in sets]
    wanted = {n: one for one, n in enumerate({n for s in items for n in rules.needs_with(s, state)}, len(sets))}
    least += [choice.least[number] for number in wanted]
    most += [len(ranking)] * len(wanted)
    belongs: Ints = np.zeros((len(least), len(items)), np.int64)
    for i, slot in enumerate(items):
        for number in rules.caps_of.get(slot, ()):
            belongs[sets[number], i] = 1
        for number in rules.needs_with(slot, state):
            belongs[wanted[number], i] = 1
    held: Bools = np.array([not known[slot] or slot == tried for slot in items], np.bool_)
    fixed: Bools = np.array([slot in choice.pinned for slot in ranking], np.bool_)
    places: Ints = np.array([index[slot] for slot in ranking], np.int64)
    valued.exchange(places, belongs, np.array(least, np.int64), np.array(most, np.int64), held, fixed)
    return [items[i] for i in places.tolist()]


def _pins_of(
    rules: SlotRules, state: LearnerState, some: Ints | None, size: int, unkept: list[str]
) -> dict[int, int]:
    """The pins that a list of this size can have, by place; the others are refused, or named as not kept."""
    pinned = {}
    for place, (slot, label) in rules.pins.items():
        why = ""
        if place >= size:
            why = f"a list of {size} places"
        elif not state.active[slot]:
            why = f"item {state.names[slot]!r}, which is retired,"
        elif some is not None and slot not in some:
            why = f"item {state.names[slot]!r}, which is no candidate,"
        if not why:
            pinned[place] = slot
        elif rules.best:
            unkept.append(label)
        else:
            raise contradiction([label, why.rstrip(",")])
    return pinned


def _arrange(
    rules: SlotRules, pinned: Mapping[int, int], chosen: Sequence[int], order: Sequence[int], unkept: list[str]
) -> list[int]:
    """Pins at their places, the other items at the remaining places, best first by attention.

    If groups leave too few items to reach a pin's place, the pin is refused, or comes last and is named as not kept.
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


class RuledLists:
    """Lists of one state under rules, and its items' features by name, which groups may use."""

    def __init__(self, state: LearnerState, known: dict[str, Any]) -> None:
        """`known`: features of items; changes go through `describe`."""
        self._state, self.known = state, known
        self._cached: dict[int, tuple[Rules, SlotRules]] = {}  # cache: the same rules usually come again

    def describe(self, item: str, values: Values | None) -> None:
        """Set the features of an item."""
        if values is not None and self._state.features.items:
            self.known[item] = dict(values)
            self._cached.clear()

    def slot_rules(self, rules: Rules) -> SlotRules:
        """`SlotRules` of these rules, cached; refused if they contradict one another."""
        made = self._cached.get(id(rules))
        if made is None:
            if len(self._cached) >= _MOST_CACHED:
                self._cached.clear()
            made = self._cached[id(rules)] = rules, SlotRules(rules, self._state, self.known)  # which keeps the id
        return made[1]

    def rank(
        self,
        rules: Rules,
        visit: Visit,
        candidates: Sequence[str] | None,
        length: int,
        rng: np.random.Generator,
    ) -> RuledList:
        """A list that keeps the rules."""
        return rank_by_rules(self._state, self.slot_rules(rules), visit, candidates, length, rng)
