"""The usual steps of `ruled_list`, compiled: which items a list under rules has, and where they stand.

The learner ranks more items between two calls. What is seldom needed is left to `ruled_list`: includes that only a
search can keep, includes of new items, boosts that move items down, and long lists.
"""

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..core.arrays import Counts, Floats, Ints
from ..core.compiling.announcing import announcing
from ..core.compiling.jit import kernel, no_refcount
from ..core.dispatch import Dispatcher

FREE, PINNED, PUT = range(3)  # whose a place is: the learner's own choice, a pin, or an item that rules brought
BEGUN, SAME, OTHER, STOPPED, MORE, MEMBERS = range(6)  # what becomes of a list: see `go_on`
ROOM = 8  # items that may be seen for each place: beyond, `ruled_list` goes on


class RuleTable(NamedTuple):
    """Rules as arrays. Items that are in the same groups and includes are of one kind; kind 0 is in none."""

    named: Ints  # slots that are in any, in order
    kinds: Ints  # of each of them
    caps: Ints  # by kind, the numbers of its groups ...
    caps_at: Ints  # [kinds + 1] ... from where on
    needs: Ints  # likewise of its includes
    needs_at: Ints
    most: Ints  # [groups]
    least: Ints  # [includes]
    pins: Ints  # slots
    places: Ints  # of pins, from 0
    boosted: Ints  # slots

    @classmethod
    def create(
        cls,
        caps: list[Ints],
        needs: list[Ints],
        most: list[int],
        least: list[int],
        pins: dict[int, int],
        boosted: list[int],
    ) -> "RuleTable":
        """`caps`, `needs`: the slots of each group and include; `pins`: slots by place."""
        kinds: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {((), ()): 0}
        own: dict[int, tuple[list[int], list[int]]] = {}
        for which, sets in enumerate((caps, needs)):
            for number, slots in enumerate(sets):
                for slot in slots.tolist():
                    own.setdefault(slot, ([], []))[which].append(number)
        of = [kinds.setdefault((tuple(own[k][0]), tuple(own[k][1])), len(kinds)) for k in sorted(own)]
        in_caps, in_needs = _joined([list(one) for one, _ in kinds]), _joined([list(one) for _, one in kinds])
        rest = most, least, list(pins.values()), list(pins), boosted
        return cls(*(np.array(one, np.int64) for one in (sorted(own), of, *in_caps, *in_needs, *rest)))

    def packed(self) -> Ints:
        """All of it as one array, since each that is handed over takes its time: where each begins comes first."""
        at = np.cumsum([len(self) + 1, *(array.size for array in self)])
        return np.concatenate([at, *self])


def _joined(parts: list[list[int]]) -> tuple[list[int], list[int]]:
    """Lists one after the other, and from where on each is."""
    return [number for part in parts for number in part], np.cumsum([0, *map(len, parts)]).tolist()


@kernel
def unpacked(packed):
    """The rules that `packed` was made of."""
    return RuleTable(
        part(packed, 0),
        part(packed, 1),
        part(packed, 2),
        part(packed, 3),
        part(packed, 4),
        part(packed, 5),
        part(packed, 6),
        part(packed, 7),
        part(packed, 8),
        part(packed, 9),
        part(packed, 10),
    )


@kernel
def part(packed, i):
    """Array number i."""
    return packed[packed[i] : packed[i + 1]]


class Beliefs(NamedTuple):
    """What SteadyRank has counted in each regime, for estimates, where items are boosted; the names are its own."""

    looks: Counts  # [R, K]
    untested_looks: Counts  # [R, K]
    clicks: Counts  # [R, K]
    untested_clicks: Counts  # [R, K]
    prior: Floats  # [R, 2]


_NO_COUNTS: Counts = np.zeros((1, 0), np.int32)
NO_BELIEFS = Beliefs(_NO_COUNTS, _NO_COUNTS, _NO_COUNTS, _NO_COUNTS, np.ones((1, 2)))


class Choice(NamedTuple):
    """A list in the making."""

    found: Ints  # [length] slots, when it is done
    placed: Ints  # [length] whose each place is
    chosen: Ints  # [length] slots, those that are preferred first
    counts: Ints  # [groups] how many items of each the list has
    has: Ints  # [includes]
    n: Ints  # [3] sizes of `seen` and `chosen`; for which include items are asked for
    seen: Ints  # slots that were ranked, in turn
    worth: Ints  # of each, its place in the order of preference


SEEN, CHOSEN, NUMBER = range(3)
NUMBERS = 3  # of `Choice.n`


def size_of_work(table: RuleTable, size: int) -> int:
    """How many numbers a list of so many places takes while it is made: `choice_in`."""
    seen = ROOM * size + table.pins.size + table.boosted.size
    return 3 * size + table.most.size + table.least.size + NUMBERS + 2 * seen


@kernel
def choice_in(work, size, table):
    """A list in the making, in this memory."""
    a = 3 * size
    b = a + table.most.size
    c = b + table.least.size
    d = c + NUMBERS
    e = d + (work.size - d) // 2
    return Choice(
        work[:size], work[size : 2 * size], work[2 * size : a], work[a:b], work[b:c], work[c:d], work[d:e], work[e:]
    )


@no_refcount
def place_of(slots, n, slot):
    """Where a slot is among the first n; -1 if it is not."""
    for i in range(n):
        if slots[i] == slot:
            return i
    return -1


@no_refcount
def kind_of(table, slot):
    """The kind of an item. O(log of those named)."""
    i = np.searchsorted(table.named, slot)
    return table.kinds[i] if i < table.named.size and table.named[i] == slot else 0


@no_refcount
def in_set(numbers, at, kind, number):
    """Whether items of a kind are in a set."""
    for i in range(at[kind], at[kind + 1]):
        if numbers[i] == number:
            return True
    return False


@no_refcount
def see(choice, slot):
    """A slot comes next in the order of preference, if it is not there yet; whether it was not."""
    n = choice.n[SEEN]
    if place_of(choice.seen, n, slot) >= 0:
        return False
    choice.seen[n] = slot
    choice.worth[n] = n
    choice.n[SEEN] = n + 1
    return True


@no_refcount
def worth_at(choice, slot):
    """The place of a slot that was seen in the order of preference."""
    return choice.worth[place_of(choice.seen, choice.n[SEEN], slot)]


@no_refcount
def count_item(table, choice, slot, step):
    """One item more in the list, or one less."""
    kind = kind_of(table, slot)
    for i in range(table.caps_at[kind], table.caps_at[kind + 1]):
        choice.counts[table.caps[i]] += step
    for i in range(table.needs_at[kind], table.needs_at[kind + 1]):
        choice.has[table.needs[i]] += step


@no_refcount
def has_room(table, choice, slot):
    """Whether the groups of an item have room for it."""
    kind = kind_of(table, slot)
    for i in range(table.caps_at[kind], table.caps_at[kind + 1]):
        if choice.counts[table.caps[i]] >= table.most[table.caps[i]]:
            return False
    return True


@no_refcount
def add_item(table, choice, slot):
    """An item comes into the list."""
    choice.chosen[choice.n[CHOSEN]] = slot
    choice.n[CHOSEN] += 1
    count_item(table, choice, slot, 1)


@no_refcount
def take_items(table, choice, slots, free):
    """Take items in their order, as far as there is room and groups allow."""
    for i in range(slots.size):
        if choice.n[CHOSEN] == free:
            return
        if place_of(table.pins, table.pins.size, slots[i]) < 0 and has_room(table, choice, slots[i]):
            add_item(table, choice, slots[i])


@no_refcount
def swaps_items(table, choice, one, other):
    """Whether the list without `one` and with `other` keeps all that it keeps now."""
    old, new = kind_of(table, one), kind_of(table, other)
    for i in range(table.caps_at[new], table.caps_at[new + 1]):
        number = table.caps[i]
        if choice.counts[number] - in_set(table.caps, table.caps_at, old, number) >= table.most[number]:
            return False
    for i in range(table.needs_at[old], table.needs_at[old + 1]):
        number = table.needs[i]
        if choice.has[number] <= table.least[number] and not in_set(table.needs, table.needs_at, new, number):
            return False
    return True


@no_refcount
def swap_items(table, choice, one, other):
    """Put `other` in for `one`, and the list in the order of preference, equals as they were."""
    chosen, n = choice.chosen, choice.n[CHOSEN]
    for i in range(place_of(chosen, n, one), n - 1):
        chosen[i] = chosen[i + 1]
    chosen[n - 1] = other
    count_item(table, choice, one, -1)
    count_item(table, choice, other, 1)
    sort_seen(choice, chosen, n)


@no_refcount
def sort_seen(choice, slots, n):
    """Put the first n slots in the order of preference, equals as they were."""
    for i in range(1, n):
        slot = slots[i]
        own = worth_at(choice, slot)
        j = i
        while j > 0 and worth_at(choice, slots[j - 1]) > own:
            slots[j] = slots[j - 1]
            j -= 1
        slots[j] = slot


@no_refcount
def estimate_of(beliefs, r, k):
    """How attractive item k is in regime r, as `estimates_at` has it."""
    a, b = beliefs.prior[r, 0], beliefs.prior[r, 1]
    looks, clicks = beliefs.looks[r, k] + beliefs.untested_looks[r, k], beliefs.clicks[r, k]
    return (a + (clicks + beliefs.untested_clicks[r, k])) / (a + b + looks)


@kernel
def boost_items(table, factors, beliefs, r, choice, preferred):
    """The order of preference with boosted items where their estimates, times their factors, put them."""
    size, m = preferred.size, table.boosted.size
    stay, n = np.empty(size, np.int64), 0
    for i in range(size):
        if place_of(table.boosted, m, preferred[i]) < 0:
            stay[n] = preferred[i]
            n += 1
    enters, own, turn = np.empty(m, np.int64), np.empty(m), np.empty(m, np.int64)
    for i in range(m):
        own[i] = estimate_of(beliefs, r, table.boosted[i]) * factors[i]
        enters[i] = 0
        while enters[i] < n and estimate_of(beliefs, r, stay[enters[i]]) >= own[i]:
            enters[i] += 1
        at, ahead = place_of(preferred, size, table.boosted[i]), 0
        for j in range(at):
            ahead += place_of(table.boosted, m, preferred[j]) < 0
        if at >= 0:
            enters[i] = min(enters[i], ahead)
        j = i  # by where they enter, then by worth
        while j > 0 and (enters[turn[j - 1]], -own[turn[j - 1]]) > (enters[i], -own[i]):
            turn[j] = turn[j - 1]
            j -= 1
        turn[j] = i
    order, filled, upto = np.empty(n + m, np.int64), 0, 0
    for i in range(m + 1):
        while upto < (enters[turn[i]] if i < m else n):
            order[filled] = stay[upto]
            filled += 1
            upto += 1
        if i < m:
            order[filled] = table.boosted[turn[i]]
            filled += 1
    for i in range(order.size):
        see(choice, order[i])
    for i in range(order.size):
        choice.worth[place_of(choice.seen, choice.n[SEEN], order[i])] = i
    return order


@no_refcount
def candidate_for(table, choice, number, slot):
    """Whether an item that was seen may be brought in for an include."""
    if not in_set(table.needs, table.needs_at, kind_of(table, slot), number):
        return False
    return place_of(choice.chosen, choice.n[CHOSEN], slot) < 0 and place_of(table.pins, table.pins.size, slot) < 0


@no_refcount
def leaving_for(table, choice, number, slot):
    """The last place of an item that may leave the list for another one of an include; -1 if there is none."""
    for place in range(choice.n[CHOSEN] - 1, -1, -1):
        one = choice.chosen[place]
        needed = in_set(table.needs, table.needs_at, kind_of(table, one), number)
        if not needed and swaps_items(table, choice, one, slot):
            return place
    return -1


@no_refcount
def bring_in(table, choice, number, free):
    """Bring in one more item of an include, of those that were seen; whether that went."""
    best, leaves = -1, -1
    for i in range(choice.n[SEEN]):
        slot = choice.seen[i]
        if candidate_for(table, choice, number, slot):
            if choice.n[CHOSEN] < free and has_room(table, choice, slot):
                add_item(table, choice, slot)
                return True
            last = leaving_for(table, choice, number, slot)
            if last > leaves:
                best, leaves = slot, last
    if leaves < 0:
        return False
    swap_items(table, choice, choice.chosen[leaves], best)
    return True


@kernel
def bring_back(table, choice):
    """Bring back what was left out for an item that the learner prefers less, as long as that goes."""
    rest, n = np.empty(choice.n[SEEN], np.int64), 0
    for i in range(choice.n[SEEN]):
        slot = choice.seen[i]
        if place_of(choice.chosen, choice.n[CHOSEN], slot) < 0 and place_of(table.pins, table.pins.size, slot) < 0:
            rest[n] = slot
            n += 1
    i = 0
    while i < n:
        other = rest[i]
        leaves = -1
        for place in range(choice.n[CHOSEN] - 1, -1, -1):
            one = choice.chosen[place]
            if worth_at(choice, one) > worth_at(choice, other) and swaps_items(table, choice, one, other):
                leaves = one
                break
        i += 1
        if leaves >= 0:
            swap_items(table, choice, leaves, other)
            rest[i - 1] = leaves
            sort_seen(choice, rest, n)
            i = 0


@kernel
def begin(table, factors, beliefs, r, choice, own, order):
    """Take the items of the learner's list `own` as far as rules allow; `order`: its places, most looked at first.

    Boosted items may all be shown, and their factors are above 1.
    """
    preferred = np.empty(own.size, np.int64)
    for i in range(own.size):
        preferred[i] = own[order[i]]
        see(choice, preferred[i])
    for i in range(table.pins.size):
        see(choice, table.pins[i])
        count_item(table, choice, table.pins[i], 1)
    if table.boosted.size > 0:
        preferred = boost_items(table, factors, beliefs, r, choice, preferred)
    take_items(table, choice, preferred, own.size - table.pins.size)


@no_refcount
def see_ranked(choice, ranked):
    """What the learner ranked comes next in the order of preference."""
    for i in range(ranked.size):
        see(choice, ranked[i])


@no_refcount
def place_items(table, choice, own, order):
    """Write pins at their places, the others at those left, in `order`, and whose each place is; SAME or OTHER."""
    size, n = table.pins.size + choice.n[CHOSEN], 0
    for i in range(own.size):
        if order[i] < size:
            pin = place_of(table.places, table.places.size, order[i])
            slot = table.pins[pin] if pin >= 0 else choice.chosen[n]
            n += pin < 0
            choice.found[order[i]] = slot
            choice.placed[order[i]] = PINNED if pin >= 0 else FREE if place_of(own, own.size, slot) >= 0 else PUT
    for place in range(own.size):
        if place == size or choice.found[place] != own[place]:
            return OTHER
    return SAME


@kernel
def list_further(table, factors, beliefs, r, choice, doing, own, order, ranked):
    """Go on with a list that keeps rules, as `go_on` has it."""
    free = own.size - table.pins.size
    if doing == BEGUN:
        begin(table, factors, beliefs, r, choice, own, order)
    elif choice.n[SEEN] + ranked.size > choice.seen.size:
        return STOPPED, 0
    else:
        see_ranked(choice, ranked)
    if doing == MORE:
        take_items(table, choice, ranked, free)
    elif doing == MEMBERS and not bring_in(table, choice, choice.n[NUMBER], free):
        return STOPPED, 0
    if choice.n[CHOSEN] < free and (doing == BEGUN or (doing == MORE and ranked.size > 0)):
        return MORE, 2 * (free - choice.n[CHOSEN])
    for number in range(table.least.size):
        if choice.has[number] < table.least[number]:
            choice.n[NUMBER] = number
            return MEMBERS, table.least[number] + table.most.size
    if doing == MEMBERS:
        bring_back(table, choice)
    size = table.pins.size + choice.n[CHOSEN]
    for i in range(table.pins.size):
        if table.places[i] >= size:
            return STOPPED, 0
    return place_items(table, choice, own, order), size


@Dispatcher
def go_on(packed, factors, beliefs, r, work, doing, own, order, ranked):
    """Begin a list that keeps rules, of a learner's list `own`, or go on with it; what becomes of it, and a number.

    `order`: places, those looked at most first. `doing`: BEGUN, or what was said before; then `ranked` is what was
    asked for. SAME, OTHER: it is done, of so many places; `Choice.found` has it. MORE: the learner shall rank so many
    that were not seen, without groups that are full; MEMBERS: so many of an include. STOPPED: it takes other steps.
    """
    table = unpacked(packed)
    choice = choice_in(work, own.size, table)
    if doing == BEGUN:
        choice.counts[:] = 0
        choice.has[:] = 0
        choice.n[:] = 0
    return list_further(table, factors, beliefs, r, choice, doing, own, order, ranked)


def seen_in(work: Ints, size: int, table: RuleTable) -> tuple[Ints, list[int], int]:
    """Of a list in the making: what was seen, how many items of each group there are, which include is in turn."""
    n_caps, n_needs = table.most.size, table.least.size
    counts = work[3 * size : 3 * size + n_caps].tolist()
    start = 3 * size + n_caps + n_needs
    n_seen, _, number = work[start : start + NUMBERS].tolist()
    return work[start + NUMBERS : start + NUMBERS + n_seen], counts, number


_compiling = threading.Lock()
_code: list[Callable[..., Any]] = []  # once it is there


def compiled() -> Callable[..., Any]:
    """`go_on` as machine code, compiled when it is first needed."""
    if not _code:
        table, none = RuleTable.create([], [], [], [], {}, []), np.zeros(0, np.int64)
        one, order, factors = np.zeros(1, np.int64), np.zeros(1, np.int32), np.zeros(0)
        with _compiling, announcing("lists under rules"):  # in one thread: another waits for it
            _code.append(
                go_on.bind(
                    table.packed(),
                    factors,
                    NO_BELIEFS,
                    0,
                    np.zeros(size_of_work(table, 1), np.int64),
                    0,
                    one,
                    order,
                    none,
                )
            )
    return _code[0]
