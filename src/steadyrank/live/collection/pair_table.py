"""Looks and clicks of (query, item) pairs: one table with open addressing, 18 bytes a slot."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...core.arrays import Bools, Ints, Small
from ...core.compiling.jit import kernel, no_refcount

EMPTY = -1
ITEM_BITS = 31
ITSELF = (1 << ITEM_BITS) - 1  # in place of an item: the query itself, whose looks are its visits
NOT_THERE = -1
USED = 0  # place of PairTable.tally


class PairTable(NamedTuple):
    """S slots, a power of two, of which at most three in four are in use; found by linear probing."""

    key: Ints  # [S] the query's number times 2^31, and the item's; EMPTY
    looks: npt.NDArray[np.float32]  # [S]
    clicks: npt.NDArray[np.float32]  # [S]
    place: Small  # [S] in the engine's order when first looked at; less than 0: it tells the prior nothing more
    tally: Ints  # [1] slots in use

    @classmethod
    def create(cls, slots: int) -> "PairTable":
        """No pair, and room for three quarters of `slots`, a power of two."""
        counts = np.zeros(slots, np.float32), np.zeros(slots, np.float32)
        return cls(np.full(slots, EMPTY, np.int64), *counts, np.zeros(slots, np.int16), np.zeros(1, np.int64))

    @property
    def room(self) -> int:
        """Pairs that may still come before the table has to grow."""
        return self.key.size * 3 // 4 - int(self.tally[USED])

    def queries(self) -> Any:
        """Of each slot in use: the slot, the number of its query, and that of its item or ITSELF."""
        slots = np.flatnonzero(self.key != EMPTY)
        return slots, self.key[slots] >> ITEM_BITS, self.key[slots] & ITSELF

    def holding(self, kept: Bools, slots: int) -> "PairTable":
        """A table of so many slots with the pairs of those slots alone that are to be `kept`, [S]. O(S)."""
        other = PairTable.create(slots)
        copy_pairs(self, kept, other)
        return other


@no_refcount
def pair_of(query, item):
    """The key of a pair."""
    return (query << ITEM_BITS) | item


@no_refcount
def first_slot(table, key):
    """Where the search for a pair begins; no product leaves 63 bits, so it is the same interpreted."""
    mixed = (key >> ITEM_BITS) * 0x1E3779B1 + (key & ITSELF) * 0x45EBCA6B
    return (mixed >> 32 ^ mixed >> 15) & (table.key.size - 1)


@no_refcount
def find(table, key):
    """The slot of a pair; NOT_THERE if there is none."""
    slot = first_slot(table, key)
    while table.key[slot] != EMPTY:
        if table.key[slot] == key:
            return slot
        slot = (slot + 1) & (table.key.size - 1)
    return NOT_THERE


@no_refcount
def find_or_add(table, key, place):
    """The slot of a pair; a new one, of this place, has no looks. There must be room."""
    slot = first_slot(table, key)
    while table.key[slot] != EMPTY:
        if table.key[slot] == key:
            return slot
        slot = (slot + 1) & (table.key.size - 1)
    table.key[slot] = key
    table.place[slot] = place
    table.tally[USED] += 1
    return slot


@kernel
def copy_pairs(table, kept, other):
    """Enter the pairs that are to be kept into another table, which has room for them."""
    for slot in range(table.key.size):
        if kept[slot] and table.key[slot] != EMPTY:
            new = find_or_add(other, table.key[slot], table.place[slot])
            other.looks[new] = table.looks[slot]
            other.clicks[new] = table.clicks[slot]
