"""Tables of integer ids for queries and items, in order of arrival, and of texts for some of them.

An id is an integer from 1 to 2^53 - 1, so that the note of a list, of floats, can hold it; that of an item is
below 2^45, so that there is room for the engine's score beside it. Tables use linear probing with
larger keys first (Amble and Knuth 1974, "Ordered hash tables"): the layout depends on the
content alone, not on the order of arrival.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ...core.arrays import Bools, Counts, Ints
from ...core.compiling.jit import kernel, no_refcount

ID_BITS, ITEM_BITS = 53, 45
EMPTY = 0  # marks a free slot
NOT_THERE = -1
LOW = (1 << 30) - 1


class IdTable(NamedTuple):
    """Ids by row, from 0 in order of arrival. S slots, a power of two; at most three in four in use."""

    key: Ints  # [S] id in this slot, or EMPTY
    row: Counts  # [S] its row
    id: Ints  # [R] by row
    used: Ints  # [1] rows in use

    @classmethod
    def create(cls, slots: int) -> "IdTable":
        """Empty, with room for three quarters of `slots`. Memory is committed as ids arrive."""
        return cls(
            np.zeros(slots, np.int64),
            np.zeros(slots, np.int32),
            np.zeros(slots * 3 // 4, np.int64),
            np.zeros(1, np.int64),
        )

    @classmethod
    def of(cls, ids: Ints, slots: int) -> "IdTable":
        """A table of these ids, one per row, with room for more. O(ids)."""
        table = cls.create(slots)
        add_all(table, ids)
        return table

    def copied(self) -> "IdTable":
        """A copy for a reader while more ids arrive."""
        return IdTable._make(array.copy() for array in self)

    @property
    def ids(self) -> Ints:
        """The ids by row."""
        return self.id[: int(self.used[0])]

    @property
    def room(self) -> int:
        """Number of ids that can be added before the table must grow."""
        return self.id.size - int(self.used[0])

    def rows(self, ids: Ints) -> Ints:
        """The row of each id; NOT_THERE for unknown ones."""
        rows: Ints = np.empty(ids.size, np.int64)
        find_rows(self, ids, rows)
        return rows


def slots_for(count: int, least: int) -> int:
    """Number of slots for `count` entries: a power of two, at least `least`."""
    slots = least
    while slots * 3 // 4 < count:
        slots *= 2
    return slots


@no_refcount
def mixed(first, second):
    """Hash of two numbers below 2^31 and 2^53. No sum exceeds 63 bits, so interpreted code gives the same value."""
    product = np.int64(first) * 0x1E3779B1 + (second & LOW) * 0x45EBCA6B + (second >> 30) * 0x2545F491
    return product >> 32 ^ product >> 15


@no_refcount
def find_row(table, id):
    """The row of an id; NOT_THERE if it is unknown, or EMPTY."""
    mask = table.key.size - 1
    slot = mixed(0, id) & mask
    while table.key[slot] > id:
        slot = (slot + 1) & mask
    return table.row[slot] if table.key[slot] == id and id != EMPTY else NOT_THERE


@no_refcount
def find_or_add_row(table, id):
    """The row of an id, added if it is new. There must be room."""
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
    while key != EMPTY:  # smaller keys move on
        if table.key[slot] < key:
            key, table.key[slot] = table.key[slot], key
            at, table.row[slot] = table.row[slot], at
        slot = (slot + 1) & mask
    return row


@kernel
def add_all(table, ids):
    """Add ids in order."""
    for k in range(ids.size):
        find_or_add_row(table, ids[k])


@kernel
def find_rows(table, ids, rows):
    """Write the row of each id, NOT_THERE for unknown ones."""
    for k in range(ids.size):
        rows[k] = find_row(table, ids[k])


class Texts:
    """Texts by id, each stored once, in order of arrival: about 25 bytes each besides the text itself."""

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
        """Memory in bytes."""
        return sum(array.nbytes for array in self._ids) + self._ends.nbytes + len(self._content)

    def add(self, id: int, text: str) -> None:
        """Store a text; an id that has one keeps it."""
        if not self._ids.room:
            self._begin(self._ids.ids.copy(), self._ends[: len(self)].copy(), bytes(self._content))
        row, before = int(find_row(self._ids, id)), len(self)
        if row == NOT_THERE:
            find_or_add_row(self._ids, id)
            self._content += text.encode("utf-8", "surrogatepass")
            self._ends[before] = len(self._content)

    def rows(self, ids: Ints) -> Ints:
        """The row of each id's text; NOT_THERE for ids without one."""
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
        """Number of texts that can be added before the table must grow."""
        return self._ids.room

    def keeping(self, kept: Bools, more: int = 1) -> "Texts":
        """The texts of these rows only, [len(self)], with room for more. O(all texts)."""
        sizes = np.diff(self._ends[: len(self)], prepend=0)
        content = np.frombuffer(bytes(self._content), np.uint8)[np.repeat(kept, sizes)]
        other = Texts()
        other._begin(self._ids.ids[kept], np.cumsum(sizes[kept]), content.tobytes(), more)
        return other

    def with_room(self, more: int) -> "Texts":
        """These texts with room for so many more: itself, if there is room."""
        return self if self.room >= more else self.keeping(np.ones(len(self), np.bool_), more)

    def copied(self) -> "Texts":
        """A copy for a reader while more texts arrive."""
        other = Texts()
        other._ids, other._ends, other._content = self._ids.copied(), self._ends.copy(), bytearray(self._content)
        return other

    def of(self, ids: Iterable[int]) -> "Texts":
        """The texts of these ids, as far as they are known."""
        other = Texts()
        for id in ids:
            if (text := self.text(id)) is not None:
                other.add(id, text)
        return other

    def ids(self) -> Ints:
        """The ids that have a text, in order of arrival."""
        return self._ids.ids

    def arrays(self, prefix: str) -> dict[str, Any]:
        """The whole table as arrays by name, copied."""
        content = np.frombuffer(bytes(self._content), np.uint8)
        own = {"id": self._ids.ids.copy(), "end": self._ends[: len(self)].copy(), "text": content}
        return {f"{prefix}.{name}": array for name, array in own.items()}

    def restore(self, prefix: str, arrays: Mapping[str, Any]) -> None:
        """Restore the table from `arrays`."""
        self._begin(arrays[f"{prefix}.id"], arrays[f"{prefix}.end"], arrays[f"{prefix}.text"].tobytes())
