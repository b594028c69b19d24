"""Looks and clicks of (query, item) pairs in one hash table, 31 bytes a slot; and the visits of queries."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...core.arrays import Bools, Counts, Ints, Small
from ...core.compiling.jit import kernel, no_refcount
from .id_table import EMPTY, NOT_THERE, IdTable, mixed, slots_for


class QueryTable(NamedTuple):
    """Queries by row, in order of arrival, and the visits of each."""

    ids: IdTable
    visits: npt.NDArray[np.float32]  # [R] answered visits
    clicked: npt.NDArray[np.float32]  # [R] answered visits with a click

    @classmethod
    def create(cls, slots: int) -> "QueryTable":
        """Empty."""
        ids = IdTable.create(slots)
        return cls(ids, np.zeros(ids.id.size, np.float32), np.zeros(ids.id.size, np.float32))

    @property
    def total(self) -> int:
        """Number of queries."""
        return int(self.ids.used[0])

    def with_room(self, more: int) -> "QueryTable":
        """This table with room for so many more: itself, if there is room. O(queries)."""
        if self.ids.room >= more:
            return self
        return self.keeping(np.arange(self.total), slots_for(self.total + more, self.ids.key.size))

    def keeping(self, kept: Ints, slots: int) -> "QueryTable":
        """The queries of these rows, in this order, in a table with so many slots. O(queries)."""
        ids = IdTable.of(self.ids.id[kept], slots)
        other = QueryTable(ids, *(np.zeros(ids.id.size, np.float32) for _ in self[1:]))
        for old, new in zip(self[1:], other[1:], strict=True):
            new[: kept.size] = old[kept]
        return other


class PairTable(NamedTuple):
    """S slots, a power of two, at most three in four in use; ordered as in `id_table`."""

    item: Ints  # [S] id of the item, or EMPTY
    query: Counts  # [S] row of the query
    looks: npt.NDArray[np.float32]  # [S]
    clicks: npt.NDArray[np.float32]  # [S]
    place: Small  # [S] in the engine's order when first looked at; negative: no longer used for the prior
    since: npt.NDArray[np.float32]  # [S] looks of the latest stretch (`surges`)
    hits: npt.NDArray[np.float32]  # [S] clicks in it
    step: npt.NDArray[np.uint8]  # [S] of the engine's score at the latest look (`engine_scores`)
    used: Ints  # [1] slots in use

    @classmethod
    def create(cls, slots: int) -> "PairTable":
        """Empty, with room for three quarters of `slots`. Memory is committed as pairs arrive."""
        looks, clicks, since, hits = (np.zeros(slots, np.float32) for _ in range(4))
        ids, place = (np.zeros(slots, np.int64), np.zeros(slots, np.int32)), np.zeros(slots, np.int16)
        return cls(*ids, looks, clicks, place, since, hits, np.zeros(slots, np.uint8), np.zeros(1, np.int64))

    @property
    def total(self) -> int:
        """Number of pairs."""
        return int(self.used[0])

    @property
    def room(self) -> int:
        """Number of pairs that can be added before the table must grow."""
        return self.item.size * 3 // 4 - self.total

    def with_room(self, more: int) -> "PairTable":
        """This table with room for so many more: itself, if there is room. O(S)."""
        if self.room >= more:
            return self
        return PairTable.of(self._asdict(), slots_for(self.total + more, self.item.size))

    def taken(self) -> Ints:
        """The slots in use, in order."""
        slots: Ints = np.flatnonzero(self.item)
        return slots

    def columns(self, slots: Ints | None = None) -> dict[str, Any]:
        """Each column by name, for all pairs or those of some slots. O(S)."""
        slots = self.taken() if slots is None else slots
        return {name: getattr(self, name)[slots] for name in PairTable._fields[:-1]}

    def of_queries(self, wanted: Bools) -> Ints:
        """The slots of the pairs of these queries, [rows], in order. One pass over all pairs."""
        slots: Ints = np.empty(self.total, np.int64)
        return slots[: slots_of(self, wanted, slots)]

    def copied(self) -> "PairTable":
        """A copy for a reader while more pairs arrive."""
        return PairTable._make(column.copy() for column in self)

    @classmethod
    def of(cls, columns: dict[str, Any], slots: int) -> "PairTable":
        """A table with so many slots of these pairs, such as all slots of another table, empty ones too. O(S)."""
        table = cls.create(slots)
        enter_all(table, *(columns[name] for name in PairTable._fields[:-1]))
        return table


@no_refcount
def first_slot(table, query, item):
    """First slot of the search for a pair."""
    return mixed(query, item) & (table.item.size - 1)


@no_refcount
def is_before(item, query, other_item, other_query):
    """Whether a pair precedes another one in a probe sequence."""
    return item > other_item or (item == other_item and query > other_query)


@no_refcount
def find(table, query, item):
    """The slot of a pair; NOT_THERE if there is none."""
    slot = first_slot(table, query, item)
    while is_before(table.item[slot], table.query[slot], item, query):
        slot = (slot + 1) & (table.item.size - 1)
    return slot if table.item[slot] == item and table.query[slot] == query else NOT_THERE


@no_refcount
def find_or_add(table, query, item, place):
    """The slot of a pair until the next insertion; a new one, at this place, has no looks. There must be room."""
    mask = table.item.size - 1
    slot = first_slot(table, query, item)
    while is_before(table.item[slot], table.query[slot], item, query):
        slot = (slot + 1) & mask
    if table.item[slot] != item or table.query[slot] != query:
        make_way(table, slot)
        table.item[slot], table.query[slot], table.place[slot] = item, query, place
        table.looks[slot] = table.clicks[slot] = 0.0
        table.since[slot] = table.hits[slot] = 0.0
        table.step[slot] = 0
        table.used[0] += 1
    return slot


@no_refcount
def make_way(table, slot):
    """Free a slot by moving its pair, and each after it as needed, to the next slots."""
    mask = table.item.size - 1
    item, query, place = table.item[slot], table.query[slot], table.place[slot]
    looks, clicks, since, hits = table.looks[slot], table.clicks[slot], table.since[slot], table.hits[slot]
    step = table.step[slot]
    while item != EMPTY:
        slot = (slot + 1) & mask
        if is_before(item, query, table.item[slot], table.query[slot]):
            item, table.item[slot] = table.item[slot], item
            query, table.query[slot] = table.query[slot], query
            place, table.place[slot] = table.place[slot], place
            looks, table.looks[slot] = table.looks[slot], looks
            clicks, table.clicks[slot] = table.clicks[slot], clicks
            since, table.since[slot] = table.since[slot], since
            hits, table.hits[slot] = table.hits[slot], hits
            step, table.step[slot] = table.step[slot], step


@kernel
def enter_all(table, item, query, looks, clicks, place, since, hits, step):
    """Insert new pairs; EMPTY items are skipped."""
    for k in range(item.size):
        if item[k] == EMPTY:
            continue
        slot = find_or_add(table, query[k], item[k], place[k])
        table.looks[slot], table.clicks[slot] = looks[k], clicks[k]
        table.since[slot], table.hits[slot], table.step[slot] = since[k], hits[k], step[k]


@kernel
def count_pairs(table, sizes):
    """Add the number of each query's pairs to its row of `sizes`."""
    for slot in range(table.item.size):
        if table.item[slot] != EMPTY:
            sizes[table.query[slot]] += 1


@kernel
def slots_of(table, wanted, slots):
    """Write the slots of the pairs of these queries; returns how many there are."""
    n = 0
    for slot in range(table.item.size):
        if table.item[slot] != EMPTY and wanted[table.query[slot]]:
            slots[n] = slot
            n += 1
    return n


def busiest(queries: QueryTable, pairs: PairTable, most: int) -> Bools:
    """The most visited queries, bool[rows], that together have at most `most` pairs; the earlier of equals.

    O(S + R log R).
    """
    size: Ints = np.ones(queries.total, np.int64)  # a query takes as much memory as a pair
    count_pairs(pairs, size)
    order = np.argsort(-queries.visits[: queries.total], kind="stable")
    stays: Bools = np.zeros(queries.total, np.bool_)
    stays[order[np.cumsum(size[order]) <= most]] = True
    return stays


def without(queries: QueryTable, pairs: PairTable, stays: Bools, slots: int) -> tuple[QueryTable, PairTable]:
    """The queries that stay, with their pairs in a table of so many slots; rows are renumbered."""
    rows = np.flatnonzero(stays)
    new: Any = np.full(stays.size, NOT_THERE, np.int32)
    new[rows] = np.arange(rows.size)
    columns: dict[str, Any] = pairs._asdict()
    columns["query"] = new[pairs.query]
    columns["item"] = np.where(columns["query"] == NOT_THERE, EMPTY, pairs.item)
    return queries.keeping(rows, queries.ids.key.size), PairTable.of(columns, slots)
