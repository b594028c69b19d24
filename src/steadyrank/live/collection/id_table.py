"""Ids that stand for queries and items, in the order in which they came, and texts for some of them.

An id is a whole number from 1 to 2^53 - 1, so that the note of a list, of floats, can hold it; that of an item is
below 2^45, so that there is room for the engine's score beside it. Tables are searched by linear probing, where
larger keys come first (Amble and Knuth 1974, "Ordered hash tables"): what a table holds decides where everything
stands, in whatever order it came.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ...core.arrays import Bools, Counts, Ints
from ...core.compiling.jit import kernel, no_refcount

ID_BITS, ITEM_BITS = 53, 45
EMPTY = 0  # in place of an id
NOT_THERE = -1
LOW = (1 << 30) - 1


class IdTable(NamedTuple):
    """Ids by row, from 0 in the order in which they came. S slots, a power of two; at most three in four in use."""

    key: Ints  # [S] an id, or EMPTY
    row: Counts  # [S] its row
    id: Ints  # [R] by row
    used: Ints  # [1] rows in use

    @classmethod
    def create(cls, slots: int) -> "IdTable":
        """No id, and room for three quarters of `slots`. Memory is taken as ids come."""
        return cls(
            np.zeros(slots, np.int64),
            np.zeros(slots, np.int32),
            np.zeros(slots * 3 // 4, np.int64),
            np.zeros(1, np.int64),
        )

    @classmethod
    def of(cls, ids: Ints, slots: int) -> "IdTable":
        """These ids, one a row, and room for more. O(ids)."""
        table = cls.create(slots)
        add_all(table, ids)
        return table

    def copied(self) -> "IdTable":
        """The same, for who reads it while more ids come."""
        return IdTable._make(array.copy() for array in self)

    @property
    def ids(self) -> Ints:
        """The ids by row."""
        return self.id[: int(self.used[0])]

    @property
    def room(self) -> int:
        """Ids that may still come before the table has to grow."""
        return self.id.size - int(self.used[0])

    def rows(self, ids: Ints) -> Ints:
        """The row of each id; NOT_THERE for those that have none."""
        rows: Ints = np.empty(ids.size, np.int64)
        find_rows(self, ids, rows)
        return rows


def slots_for(count: int, least: int) -> int:
    """How many slots so many entries need: a power of two, at least `least`."""
    slots = least
    while slots * 3 // 4 < count:
        slots *= 2
    return slots


@no_refcount
def mixed(first, second):
    """Mixed bits of two numbers, below 2^31 and 2^53. No sum leaves 63 bits: it is the same interpreted."""
    product = first * 0x1E3779B1 + (second & LOW) * 0x45EBCA6B + (second >> 30) * 0x2545F491
    return product >> 32 ^ product >> 15


@no_refcount
def find_row(table, id):
    """The row of an id; NOT_THERE if there is none, as of EMPTY."""
    mask = table.key.size - 1
    slot = mixed(0, id) & mask
    while table.key[slot] > id:
        slot = (slot + 1) & mask
    return table.row[slot] if table.key[slot] == id and id != EMPTY else NOT_THERE


@no_refcount
def find_or_add_row(table, id):
    """The row of an id, a new one if it is not there. There must be room."""
    mask = table.key.size - 1
    slot = mixed(0, id) & mask
    while table.key[slot] > id:
        slot = (slot + 1) & mask
    if table.key[slot] == id:
        return table.row[slot]
    row = table.used[0]
    table.id[row] = id
    table.used[0] += 1
    key, at = id, row
    while key != EMPTY:  # what is smaller moves on
        if table.key[slot] < key:
            key, table.key[slot] = table.key[slot], key
            at, table.row[slot] = table.row[slot], at
        slot = (slot + 1) & mask
    return row


@kernel
def add_all(table, ids):
    """Give ids their rows, in order."""
    for k in range(ids.size):
        find_or_add_row(table, ids[k])


@kernel
def find_rows(table, ids, rows):
    """Write the row of each id, NOT_THERE for those that have none."""
    for k in range(ids.size):
        rows[k] = find_row(table, ids[k])


class Texts:
    """Texts by id, each kept once, in the order in which they came: some 25 bytes each beside the text itself."""

    _FIRST = 1 << 6  # slots

    def __init__(self) -> None:
        self._begin(np.zeros(0, np.int64), np.zeros(0, np.int64), b"")

    def _begin(self, ids: Ints, ends: Ints, content: bytes, more: int = 1) -> None:
        self._ids = IdTable.of(ids, slots_for(ids.size + more, self._FIRST))
        self._ends: Ints = np.zeros(self._ids.id.size, np.int64)
        self._ends[: ends.size] = ends
        self._content = bytearray(content)

    def __len__(self) -> int:
        return int(self._ids.used[0])

    @property
    def nbytes(self) -> int:
        """Bytes that it takes."""
        return sum(array.nbytes for array in self._ids) + self._ends.nbytes + len(self._content)

    def add(self, id: int, text: str) -> None:
        """Keep a text; of one that is there already the first text stays."""
        if not self._ids.room:
            self._begin(self._ids.ids.copy(), self._ends[: len(self)].copy(), bytes(self._content))
        row, before = int(find_row(self._ids, id)), len(self)
        if row == NOT_THERE:
            find_or_add_row(self._ids, id)
            self._content += text.encode("utf-8", "surrogatepass")
            self._ends[before] = len(self._content)

    def rows(self, ids: Ints) -> Ints:
        """Where the text of each id stands; NOT_THERE for those without."""
        return self._ids.rows(ids)

    def text(self, id: int) -> str | None:
        """The text of an id, if there is one."""
        row = int(find_row(self._ids, id))
        if row == NOT_THERE:
            return None
        start = int(self._ends[row - 1]) if row else 0
        return self._content[start : int(self._ends[row])].decode("utf-8", "surrogatepass")

    @property
    def room(self) -> int:
        """Texts that may still come before the table has to grow."""
        return self._ids.room

    def keeping(self, kept: Bools, more: int = 1) -> "Texts":
        """The texts of these rows alone, [len(self)], and room for more. O(all texts)."""
        sizes = np.diff(self._ends[: len(self)], prepend=0)
        content = np.frombuffer(bytes(self._content), np.uint8)[np.repeat(kept, sizes)]
        other = Texts()
        other._begin(self._ids.ids[kept], np.cumsum(sizes[kept]), content.tobytes(), more)
        return other

    def with_room(self, more: int) -> "Texts":
        """All of them, and room for so many more: itself, where there is."""
        return self if self.room >= more else self.keeping(np.ones(len(self), np.bool_), more)

    def copied(self) -> "Texts":
        """The same, for who reads them while more come."""
        other = Texts()
        other._ids, other._ends, other._content = self._ids.copied(), self._ends.copy(), bytearray(self._content)
        return other

    def of(self, ids: Iterable[int]) -> "Texts":
        """The texts of these ids alone, as far as they are known."""
        other = Texts()
        for id in ids:
            if (text := self.text(id)) is not None:
                other.add(id, text)
        return other

    def ids(self) -> Ints:
        """The ids that have a text, in the order in which they came."""
        return self._ids.ids

    def arrays(self, prefix: str) -> dict[str, Any]:
        """All of it, as arrays by name, copied."""
        content = np.frombuffer(bytes(self._content), np.uint8)
        own = {"id": self._ids.ids.copy(), "end": self._ends[: len(self)].copy(), "text": content}
        return {f"{prefix}.{name}": array for name, array in own.items()}

    def restore(self, prefix: str, arrays: Mapping[str, Any]) -> None:
        """Be as what `arrays` came from."""
        self._begin(arrays[f"{prefix}.id"], arrays[f"{prefix}.end"], arrays[f"{prefix}.text"].tobytes())
