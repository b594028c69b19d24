"""Which items may be shown, updated with each event: active items, and separately those that are still new.

No list needs a pass over all items: with a million of them a list costs as much as with five hundred.
"""

import numpy as np

from ..core.arrays import Bools, Ints

NEW_LOOKS = 20  # looks after which an added item is no longer new
_BLOCK = 1024  # slots whose new items are counted together: each draw scans one block


class Newcomers:
    """An index of the arrays of a learner's state, not part of snapshots.

    Whoever changes these arrays must call its methods.
    """

    def __init__(self, active: Bools, added: Bools, looks: Ints) -> None:
        self._active, self._added, self._looks = active, added, looks
        new = active & added & (looks < NEW_LOOKS)
        self.known: Bools = active & ~new
        self.active = int(np.count_nonzero(active))
        self._counts: Ints = np.zeros((NEW_LOOKS, -(-active.size // _BLOCK)), np.int64)
        slots = np.flatnonzero(new)
        np.add.at(self._counts, (looks[slots], slots // _BLOCK), 1)
        self._totals: list[int] = self._counts.sum(axis=1).tolist()
        self.size = slots.size  # number of active items that are new
        self.begun = bool(looks.any())  # whether any item was ever looked at

    def switch(self, slot: int, active: bool) -> None:
        """Note that an item became active or inactive; it may just have been added."""
        before = bool(self._active[slot])
        if before == active:
            return
        self._active[slot] = active
        step = 1 if active else -1
        self.active += step
        if self._added[slot] and self._looks[slot] < NEW_LOOKS:
            self._count(int(self._looks[slot]), slot, step)
            self.size += step
        else:
            self.known[slot] = active

    def _count(self, looks: int, slot: int, step: int) -> None:
        self._counts[looks, slot // _BLOCK] += step
        self._totals[looks] += step

    def count_looks(self, ranking: Ints) -> None:
        """Count a look at each of these distinct items."""
        if self.size:
            for slot in ranking.tolist():
                if self._added[slot]:
                    self._count_look_at_added(slot)
        self._looks[ranking] += 1
        self.begun = self.begun or ranking.size > 0

    def _count_look_at_added(self, slot: int) -> None:
        looks = int(self._looks[slot])
        if looks >= NEW_LOOKS or not self._active[slot]:
            return
        self._count(looks, slot, -1)
        if looks + 1 < NEW_LOOKS:
            self._count(looks + 1, slot, 1)
        else:
            self.size -= 1
            self.known[slot] = True

    def draw(self, wanted: int, rng: np.random.Generator) -> list[int]:
        """Draw active new items, fewest looks first, ties at random: `wanted`, or as many as there are."""
        slots: list[int] = []
        for looks, size in enumerate(self._totals):
            if size and len(slots) < wanted:
                upto = np.cumsum(self._counts[looks])
                slots += [
                    self._find_slot(looks, upto, pick) for pick in _distinct_below(size, wanted - len(slots), rng)
                ]
        return slots

    def _find_slot(self, looks: int, upto: Ints, number: int) -> int:
        """Slot of new item number `number`, from 0, among those with equally many looks, in the order of slots."""
        block = int(np.searchsorted(upto, number, "right"))
        start = block * _BLOCK
        part = slice(start, start + _BLOCK)
        there = self._active[part] & self._added[part] & (self._looks[part] == looks)
        return start + int(np.flatnonzero(there)[number - (int(upto[block - 1]) if block else 0)])


def _distinct_below(size: int, wanted: int, rng: np.random.Generator) -> list[int]:
    """Distinct random numbers below `size`, at most `wanted`."""
    if 4 * wanted > size:
        every: list[int] = rng.permutation(size)[:wanted].tolist()
        return every
    numbers: dict[int, None] = {}
    while len(numbers) < wanted:
        numbers[int(rng.random() * size)] = None
    return list(numbers)
