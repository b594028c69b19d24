"""The memory of a collection: a learner over the places of an engine's order, and tables of queries and pairs."""

import copy
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...core.arrays import Bools, Floats, Ints
from ...core.contract import NOTE_EXTRA, Visit, memory
from ...core.refusals import Refused
from ...core.settings import whole
from ..answers import LONGEST_ITEM, check_item
from ..gate import NO_GUARD, ChosenGuards
from ..learner_state import LearnerState
from ..outcomes import Outcomes
from ..widening import restored
from .engine_scores import SCORE_BITS
from .id_table import EMPTY, NOT_THERE, Texts, add_all, find_or_add_row, find_row, slots_for
from .pair_table import PairTable, QueryTable, busiest, without
from .re_ranker import PLACES, QUERY, ReRanker, index_candidates, re_rank

FEWEST_PAIRS = 1_000
FEWEST_SLOTS = 1 << 6
LARGE = 1 << 16  # slots of pairs: rebuilding more takes longer than a request may
MOST_PAIRS = 1 << 30
MOST_PAIR_BYTES = 123  # bytes per pair: 31 a slot, of which as few as three in eight are in use, and an item's name
MOST_CANDIDATES = 10_000
_LEARNER = "learner."
_TABLES = "queries.", "pairs."  # of the re-ranker
_SPARE_NAMES = 10_000  # names of items shown but not looked at for which there is always room


class ShownItems(NamedTuple):
    """A list's query, by its id, and the items at its places, by codes; with names that may be new."""

    query: int
    items: list[int]  # codes (`engine_scores.coded`)
    names: Sequence[str] = ()  # of the items in order, empty for known ones; an empty sequence: all are known
    text: str = ""  # of the query, if texts are kept


class PairOutcomes(NamedTuple):
    """Outcomes of an item of a query: the number of clicks that had some, and their total value."""

    clicks: int
    value: float


NO_PAIR_OUTCOMES = PairOutcomes(0, 0.0)


class Tables(NamedTuple):
    """The tables of queries, items and names, which are rebuilt when they run out of room."""

    queries: QueryTable
    pairs: PairTable
    item_names: Texts
    query_texts: Texts
    brought: dict[tuple[int, int], PairOutcomes]

    def with_room(self, pairs: int, queries: int, names: int) -> "Tables":
        """These tables with room for so many more entries."""
        return Tables(
            self.queries.with_room(queries),
            self.pairs.with_room(pairs),
            self.item_names.with_room(names),
            self.query_texts.with_room(queries),
            self.brought,
        )


class CollectionState(LearnerState):
    """The state into which answers to lists of many queries are folded, in order, without a clock.

    Its learner ranks places of the engine's order: plain counts are of places, and guards
    judge by places. A list's note holds the ids of its items and its query.

    `most_pairs`: (query, item) pairs remembered. Beyond that, the least visited queries are evicted until
    a third of the room is free.
    """

    def __init__(
        self,
        length: int,
        settings: dict[str, Any],
        seed: int,
        most_pairs: int,
        guards: ChosenGuards = NO_GUARD,
        shadow: bool = False,
        outcomes: bool = False,
    ) -> None:
        """`outcomes`: whether outcomes of clicks are reported."""
        self.most_pairs = whole("most_pairs", most_pairs, FEWEST_PAIRS, MOST_PAIRS)
        self.item_names, self.query_texts = Texts(), Texts()
        whole("length", length, 1, 1_000)
        places = [str(place + 1) for place in range(PLACES)]
        self.brought: dict[tuple[int, int], PairOutcomes] = {}  # by ids of query and item
        self._clicked: dict[tuple[int, int], tuple[int, int]] = {}  # latest, by round and place: query and item
        self._reported = outcomes
        super().__init__(places, length, ReRanker, settings, seed, 0.0, guards, shadow)

    def _make_outcomes(self) -> Outcomes | None:
        return Outcomes(self._report_outcome) if self._reported else None

    def _report_outcome(self, slot: int, shown: int, now: int, before: float, after: float) -> None:
        """Update the outcomes of a click's pair; lists do not depend on them."""
        pair = self._clicked.get((shown, slot))
        if pair is None or find_row(self.learner.queries.ids, pair[0]) == NOT_THERE:
            return  # its query was removed
        clicks, value = self.brought.get(pair, NO_PAIR_OUTCOMES)
        clicks += (after > 0.0) - (before > 0.0)
        self.brought[pair] = PairOutcomes(clicks, value + after - before)
        if not clicks:
            del self.brought[pair]

    @property
    def n_queries(self) -> int:
        """Number of queries remembered."""
        return int(self.learner.queries.total)

    @property
    def n_pairs(self) -> int:
        """Number of remembered pairs of a query and an item that was looked at."""
        return int(self.learner.pairs.total)

    def rank_for(self, query: int, codes: Ints, size: int) -> Ints:
        """Places, from 0, in the engine's order of the best `size` items, whose codes are in that order.

        Changes nothing: `note_of` records what is shown.
        """
        places: Ints = np.zeros(size, np.int64)
        re_rank(self.learner, query, codes, places)
        return places

    def indexed(self, query: int, codes: Ints) -> tuple[Floats, Floats]:
        """Ranking index and estimated attraction of items, whose codes are in the engine's order."""
        index, means = np.empty(codes.size), np.empty(codes.size)
        index_candidates(self.learner, query, codes, index, means)
        return index, means

    def note_of(self, shown: ShownItems) -> Floats:
        """The note of a list that was shown; remembers its query and new names."""
        if not self.knows_query(shown.query):
            self._make_room(queries=1)
            find_or_add_row(self.learner.queries.ids, shown.query)
        if shown.names:
            self._add_names(shown)
        self._make_room()
        if shown.text:
            self.query_texts.add(shown.query, shown.text)
        note: Floats = np.zeros(self.length + NOTE_EXTRA)
        items = shown.items[: self.length]
        note[: len(items)] = items
        note[QUERY] = shown.query
        return note

    def _add_names(self, shown: ShownItems) -> None:
        items = np.array(shown.items, np.int64) >> SCORE_BITS
        for k in np.flatnonzero(self.item_names.rows(items) == NOT_THERE).tolist():
            if shown.names[k]:
                self.item_names.add(int(items[k]), shown.names[k])

    def codes_of(self, note: Floats, size: int) -> list[int]:
        """The codes of the items in a note."""
        return [int(code) for code in note[:size].tolist()]

    def name_of(self, item: int) -> str:
        """An item's name, or its id as text if it is unknown."""
        return self.item_names.text(item) or f"{item:014x}"

    def text_of(self, query: int) -> str:
        """A query's text, or its id as text if it is not kept."""
        return self.query_texts.text(query) or f"{query:014x}"

    def knows_query(self, query: int) -> bool:
        """Whether a query is remembered."""
        return bool(find_row(self.learner.queries.ids, query) != NOT_THERE)

    def learn(
        self,
        visit: Visit,
        ranking: Ints,
        note: Floats,
        clicks: Bools,
        examined: int,
        kind: float,
        cohorts: Sequence[tuple[str, int]] = (),
        vouched: bool = False,
    ) -> bool:
        """Learn from one list's feedback, as `LearnerState.learn`; items far down share the last place."""
        self._make_room(pairs=examined)
        places = places_known(ranking)
        if self.outcomes is not None:
            self._note_clicks(visit.t, places[:examined][clicks[:examined]], note[:examined][clicks[:examined]], note)
        return super().learn(visit, places, note, clicks, examined, kind, cohorts, vouched)

    def _note_clicks(self, t: int, places: Ints, codes: Floats, note: Floats) -> None:
        """Remember the pairs of these clicks as long as outcomes may come."""
        assert self.outcomes is not None
        for place, code in zip(places.tolist(), codes.tolist(), strict=True):
            self._clicked[t, place] = int(note[QUERY]), int(code) >> SCORE_BITS
        while len(self._clicked) > self.outcomes.most:
            del self._clicked[next(iter(self._clicked))]

    @property
    def is_large(self) -> bool:
        """Whether rebuilding the tables takes long."""
        return bool(self.learner.pairs.item.size >= LARGE)

    def lacks_room(self, pairs: int = 0, queries: int = 0, names: int = 0) -> bool:
        """Whether tables must be rebuilt before so many entries can be added."""
        learner = self.learner
        return (
            learner.pairs.room < pairs
            or learner.queries.ids.room < queries
            or self.item_names.room < names
            or self.query_texts.room < queries
            or self._is_full(pairs, queries)
            or self._has_idle_names(names)
        )

    def _is_full(self, pairs: int, queries: int) -> bool:
        """Whether so many more entries exceed the limit."""
        return self.n_pairs + pairs > self.most_pairs or self.n_queries + queries > self.most_pairs

    def _has_idle_names(self, names: int) -> bool:
        """Whether so many more names would make too many that belong to items without looks."""
        return len(self.item_names) + names > 2 * self.n_pairs + _SPARE_NAMES

    def _make_room(self, pairs: int = 0, queries: int = 0, names: int = 0) -> None:
        """Make room for so many more entries."""
        if self.lacks_room(pairs, queries, names):
            self.use_tables(self.with_more_room(pairs, queries, names))

    def with_more_room(self, pairs: int = 0, queries: int = 0, names: int = 0) -> Tables:
        """Tables with room for so many more entries; beyond the limit, without the least visited queries.

        Changes nothing, so that lists can be made meanwhile. O(all pairs).
        """
        learner = self.learner
        made = Tables(learner.queries, learner.pairs, self.item_names, self.query_texts, self.brought)
        if self._is_full(pairs, queries):
            made = self._tables_of(busiest(made.queries, made.pairs, self.most_pairs * 2 // 3))
        elif self._has_idle_names(names):
            made = made._replace(item_names=self._names_of(made.pairs))
        return made.with_room(pairs, queries, names)

    def tables_without(self, query: int) -> Tables:
        """Tables without a known query. Changes nothing. O(all pairs)."""
        stays: Bools = np.ones(self.n_queries, np.bool_)
        stays[find_row(self.learner.queries.ids, query)] = False
        return self._tables_of(stays)

    def _tables_of(self, stays: Bools) -> Tables:
        """Tables of these queries only, [rows], and the names that they need."""
        pairs: PairTable = self.learner.pairs
        queries, pairs = without(self.learner.queries, pairs, stays, pairs.item.size)
        texts = self.query_texts.keeping(queries.ids.rows(self.query_texts.ids()) != NOT_THERE)
        known = queries.ids.rows(np.array([query for query, _ in self.brought], np.int64)) != NOT_THERE
        brought = dict(itertools.compress(self.brought.items(), known.tolist()))
        return Tables(queries, pairs, self._names_of(pairs), texts, brought)

    def _names_of(self, pairs: PairTable) -> Texts:
        """The names of the items of these pairs."""
        kept: Bools = np.zeros(len(self.item_names) + 1, np.bool_)
        kept[self.item_names.rows(pairs.item)] = True  # NOT_THERE indexes the last one
        return self.item_names.keeping(kept[:-1])

    def use_tables(self, tables: Tables) -> None:
        """Replace the tables by these, which were made from the current ones; nothing may have been learnt since."""
        self.learner = self.learner._replace(queries=tables.queries, pairs=tables.pairs)
        self.item_names, self.query_texts, self.brought = tables.item_names, tables.query_texts, tables.brought
        self.learner.surges.leave_out(tables.queries.ids)

    def forget_query(self, query: int, notes: Floats, tables: Tables | None = None) -> bool:
        """Remove everything about a query; returns whether it was known. `notes`: of lists that may be answered.

        Its lists teach nothing any more, and what guards remember of them names no query. O(all pairs), unless
        `tables` without it are given.
        """
        self._rename_in_notes(query, EMPTY, notes)
        for at in [at for at, pair in self._clicked.items() if pair[0] == query]:
            del self._clicked[at]
        was_known = self.knows_query(query)
        if was_known:
            self.use_tables(self.tables_without(query) if tables is None else tables)
        return was_known

    def rename_query(self, query: int, now: int, notes: Floats) -> bool:
        """Give a query another id and drop its text; returns whether anything referred to it. O(queries)."""
        had_id = self._rename_in_notes(query, now, notes)
        self.learner.surges.rename(query, now)
        self.brought = {_renamed_pair(pair, query, now): came for pair, came in self.brought.items()}
        self._clicked = {at: _renamed_pair(pair, query, now) for at, pair in self._clicked.items()}
        queries: QueryTable = self.learner.queries
        row = int(find_row(queries.ids, query))
        if row != NOT_THERE:
            queries.ids.id[row] = now
            other = queries.keeping(np.arange(queries.total), queries.ids.key.size)
            self.learner = self.learner._replace(queries=other)
            self.query_texts = self.query_texts.keeping(self.query_texts.ids() != query)
        return had_id or row != NOT_THERE

    def _rename_in_notes(self, query: int, now: int, notes: Floats) -> bool:
        """Rename it in notes of open lists and in those that guards remember; returns whether any had it."""
        own = [array for name, array in self.gate.arrays().items() if name.endswith(".note")]
        any_had = False
        for each in (notes, *own):
            those = each[:, QUERY] == query
            each[those, QUERY] = now
            any_had |= bool(those.any())
        return any_had

    def copied(self) -> "CollectionState":
        """A copy of the tables for a reader while learning continues. O(memory)."""
        queries = self.learner.queries
        queries = QueryTable(queries.ids.copied(), *(column.copy() for column in queries[1:]))
        return self._copy_with(
            queries, self.learner.pairs.copied(), self.item_names.copied(), self.query_texts.copied()
        )

    def copied_of(self, rows: Ints, named: bool = False) -> "CollectionState":
        """A copy of the tables for the queries of these rows, renumbered 0, 1, ... One pass over all pairs.

        `named`: with the names of their items.
        """
        queries, pairs = self.learner.queries, self.learner.pairs
        wanted: Bools = np.zeros(self.n_queries, np.bool_)
        wanted[rows] = True
        columns = pairs.columns(pairs.of_queries(wanted))
        place: Ints = np.zeros(self.n_queries, np.int32)
        place[rows] = np.arange(rows.size)
        columns["query"] = place[columns["query"]]
        own = queries.keeping(rows, slots_for(rows.size, FEWEST_SLOTS))
        table = PairTable.of(columns, slots_for(columns["item"].size, FEWEST_SLOTS))
        names = self.item_names.of(columns["item"].tolist() if named else ())
        return self._copy_with(own, table, names, self.query_texts.of(own.ids.ids.tolist()))

    def _copy_with(self, queries: QueryTable, pairs: PairTable, names: Texts, texts: Texts) -> "CollectionState":
        other = copy.copy(self)
        learner = self.learner
        own = {"prior": learner.prior.copied(), "attention": learner.attention.copy()}
        other.learner = learner._replace(queries=queries, pairs=pairs, **own)
        other.item_names, other.query_texts, other.brought = names, texts, dict(self.brought)
        return other

    def counts(self) -> dict[str, int]:
        """Numbers of entries."""
        return {"queries": self.n_queries, "pairs": self.n_pairs, "items": len(self.item_names)}

    def arrays(self) -> dict[str, Any]:
        """All arrays that determine the next list, by name; only the used part of tables. O(pairs)."""
        ranker: ReRanker = self.learner
        queries, n = ranker.queries, self.n_queries
        own: dict[str, Any] = {"active": self.active, "added": self.added, "looks": self.looks, "clicks": self.clicks}
        slots = np.array([queries.ids.key.size, ranker.pairs.item.size], np.int64)
        own |= {"refused": self.refused, "slots": slots, "queries.id": queries.ids.ids}
        own |= {f"queries.{name}": getattr(queries, name)[:n] for name in QueryTable._fields[1:]}
        own |= {f"pairs.{name}": column for name, column in ranker.pairs.columns().items()}
        own |= {_LEARNER + name: array for name, array in memory(ranker) if not name.startswith(_TABLES)}
        own |= self.item_names.arrays("names") | self.query_texts.arrays("texts")
        if self.outcomes is not None:
            own |= self.outcomes.arrays()
            own["clicked"] = np.array([(*at, *pair) for at, pair in self._clicked.items()], np.int64).reshape(-1, 4)
            own["brought.pair"] = np.array(list(self.brought), np.int64).reshape(-1, 2)
            own["brought.sum"] = np.array(list(self.brought.values()), np.float64).reshape(-1, 2)
        return own | self.gate.arrays()

    def restore(
        self, names: Sequence[str], sized: int, kinds: Sequence[Sequence[str]], arrays: Mapping[str, Any]
    ) -> None:
        """Take over the memory of a state with the same settings; names and sizes are those of places."""
        for name in ("active", "added", "looks", "clicks"):
            getattr(self, name)[...] = arrays[name]
        self.newcomers.begun = bool(self.looks.any())
        self.refused[...] = arrays["refused"]
        n, (query_slots, pair_slots) = arrays["queries.id"].size, arrays["slots"].tolist()
        queries = QueryTable.create(query_slots)
        add_all(queries.ids, arrays["queries.id"])
        for name in QueryTable._fields[1:]:
            getattr(queries, name)[:n] = arrays[f"queries.{name}"]
        pairs = PairTable.of({name: arrays[f"pairs.{name}"] for name in PairTable._fields[:-1]}, pair_slots)
        learnt = {name: arrays[_LEARNER + name] for name in ("attention", "seen")}
        for name in ("prior", "surges"):
            learnt[name] = restored(getattr(self.learner, name), arrays, f"{_LEARNER}{name}.", False)
        self.learner = self.learner._replace(queries=queries, pairs=pairs, **learnt)
        self.item_names.restore("names", arrays)
        self.query_texts.restore("texts", arrays)
        self.gate.restore(kinds, arrays, self.capacity, self.sized)
        if self.outcomes is not None:
            self.outcomes.restore(arrays)
            self._clicked = {(t, place): (query, item) for t, place, query, item in arrays["clicked"].tolist()}
            rows = zip(arrays["brought.pair"].tolist(), arrays["brought.sum"].tolist(), strict=True)
            self.brought = {
                (query, item): PairOutcomes(int(clicks), value) for (query, item), (clicks, value) in rows
            }


def places_known(ranking: Ints) -> Ints:
    """Places of the engine's order as the learner distinguishes them: all from the last one on are one."""
    places: Ints = np.minimum(ranking, PLACES - 1)
    return places


def _renamed_pair(pair: tuple[int, int], query: int, now: int) -> tuple[int, int]:
    """The pair with `now` in place of the id `query`."""
    return (now if pair[0] == query else pair[0]), pair[1]


def check_order(candidates: Any) -> None:
    """Refuse what cannot be an engine's order."""
    if isinstance(candidates, str) or not isinstance(candidates, Sequence):
        raise Refused(422, f"candidates must be a list of names in the engine's order, not {candidates!r:.80}")
    if not 1 <= len(candidates) <= MOST_CANDIDATES:
        raise Refused(422, f"candidates must name at least one item, at most {MOST_CANDIDATES:,}")
    if not (set(map(type, candidates)) == {str} and all(candidates) and max(map(len, candidates)) <= LONGEST_ITEM):
        for item in candidates:
            try:
                check_item(item)
            except ValueError as error:
                raise Refused(422, str(error)) from None
    if len(set(candidates)) < len(candidates):
        twice = next(item for item in candidates if candidates.count(item) > 1)
        raise Refused(422, f"candidates must differ from one another, but {twice!r:.80} is among them twice")
