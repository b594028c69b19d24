"""The memory of a collection: items by number, what was learnt of them in each query, and the guards."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.arrays import Bools, Floats, Ints
from ...core.contract import KIND, NOTE_EXTRA, SILENCE, Visit, memory
from ...core.dispatch import call_update
from ...core.refusals import Refused
from ...core.settings import whole
from ..answers import check_item
from ..features import NO_FEATURES
from ..gate import Gate, Guarding
from ..widening import restored
from .pair_table import ITSELF, USED, PairTable, find_or_add, pair_of
from .re_ranker import PLACES, QUERY, UNKNOWN, ReRanker, re_rank

FIRST_SLOTS = 1 << 10
MOST_ITEMS = 100_000_000
FEWEST_PAIRS = 1_000


class CollectionState:
    """What answers are folded into, in their order; no clock is read.

    `most_pairs`: (query, item) pairs remembered. When there are more, the queries with the fewest visits leave, until
    a third of the room is free.
    """

    def __init__(self, length: int, settings: dict[str, Any], guards: Guarding, seed: int, most_pairs: int) -> None:
        self.length = whole("length", length, 1, 1_000)
        self.seed = whole("seed", seed, 0)
        self.most_pairs = whole("most_pairs", most_pairs, FEWEST_PAIRS, 1 << 30)
        self.settings, self.features, self.unknown = settings, NO_FEATURES, np.zeros(0)
        self.names: list[str] = []  # of items that were shown, by number
        self.slots: dict[str, int] = {}
        self.refused: Ints = np.zeros(1, np.int64)  # visits that guards kept out
        self.dropped: set[int] = set()  # queries that have left and are still in the books of the caller
        self.ranker = ReRanker.create(self.length, FIRST_SLOTS, seed=self.seed, **settings)
        ranking, note = np.zeros(1, np.int64), np.zeros(self.length + NOTE_EXTRA)
        self._update = call_update.bind(self.ranker, Visit(1), ranking, note, np.zeros(1, np.bool_), 1)
        self.gate = Gate(guards, False, self.length, self.seed)
        self.gate.begin(self.ranker, PLACES, PLACES)

    def add(self, item: str) -> None:
        """Give an item its number."""
        check_item(item)
        if len(self.names) >= MOST_ITEMS:
            raise ValueError(f"a collection has at most {MOST_ITEMS:,} items")
        self.slots[item] = len(self.names)
        self.names.append(item)

    def rank(self, query: int, candidates: Sequence[str], size: int) -> tuple[Ints, Floats]:
        """Places in the engine's order of the best `size` candidates, and the note that tells who stands there."""
        items: Ints = np.array([self.slots.get(item, UNKNOWN) for item in candidates], np.int64)
        places = np.zeros(size, np.int64)
        re_rank(self.ranker, query, items, places)
        return places, self.noted(query, [candidates[place] for place in places.tolist()])

    def noted(self, query: int, shown: Sequence[str]) -> Floats:
        """The note of a list for a query, both of which are remembered from now on."""
        for item in shown:
            if item not in self.slots:
                self.add(item)
        self._make_room(1)
        self.dropped.discard(query)  # it may have had to leave for its own list
        find_or_add(self.ranker.pairs, pair_of(query, ITSELF), 0)
        note: Floats = np.zeros(self.length + NOTE_EXTRA)
        note[: len(shown)] = [self.slots[item] for item in shown]
        note[QUERY] = query
        return note

    def items_of(self, note: Floats, size: int) -> list[str]:
        """The items that a note tells of."""
        return [self.names[int(number)] for number in note[:size]]

    def learn(
        self,
        visit: Visit,
        ranking: Ints,
        note: Floats,
        clicks: Bools,
        examined: int,
        kind: float,
        cohorts: Sequence[tuple[str, int]] = (),
    ) -> bool:
        """Learn from one list's feedback, of a kind that `contract` names, if it is let in; whether it was."""
        marked = note.copy()
        marked[KIND] = kind
        places = np.minimum(ranking, PLACES - 1)
        visit = Visit(visit.t, visit.client, self.unknown)
        if not self.gate.open and not self.gate.admit(self.ranker, visit, cohorts, places, marked, clicks, examined):
            self.refused[0] += kind != SILENCE
            return False
        self._make_room(examined)
        self._update(self.ranker, visit, places, marked, clicks, examined)
        return True

    def _make_room(self, more: int) -> None:
        """Have room for so many pairs more; the queries with the fewest visits leave if there would be too many."""
        pairs = self.ranker.pairs
        if pairs.room >= more:
            return
        slots, kept = pairs.key.size, np.ones(pairs.key.size, np.bool_)
        wanted = int(pairs.tally[USED]) + more
        while slots * 3 // 4 < wanted and slots * 3 // 2 <= self.most_pairs:  # three quarters of twice as many
            slots *= 2
        if slots * 3 // 4 < wanted:
            kept = self._busiest(slots // 2)
        self._take(pairs.holding(kept, slots))

    def _busiest(self, most: int) -> Bools:
        """Which slots hold pairs of the queries with the most visits that have at most so many pairs together."""
        pairs = self.ranker.pairs
        slots, query, item = pairs.queries()
        _, whose, size = np.unique(query, return_inverse=True, return_counts=True)
        visits = np.zeros(size.size)
        visits[whose[item == ITSELF]] = pairs.looks[slots[item == ITSELF]]
        order = np.argsort(-visits, kind="stable")
        stays: Bools = np.zeros(size.size, np.bool_)
        stays[order[np.cumsum(size[order]) <= most]] = True
        kept: Bools = np.zeros(pairs.key.size, np.bool_)
        kept[slots[stays[whose]]] = True
        self.dropped |= set(query[~stays[whose]].tolist())
        return kept

    def _take(self, pairs: PairTable) -> None:
        self.ranker = self.ranker._replace(pairs=pairs)

    def forget(self, query: int) -> int:
        """Remove all that is known of a query; how many items it had. O(pairs of the collection)."""
        pairs = self.ranker.pairs
        slots, whose, _ = pairs.queries()
        kept: Bools = np.ones(pairs.key.size, np.bool_)
        kept[slots[whose == query]] = False
        self._take(pairs.holding(kept, pairs.key.size))
        return max(int((whose == query).sum()) - 1, 0)

    def check_candidates(self, candidates: Any) -> None:
        """Refuse what is no order of an engine."""
        if isinstance(candidates, str) or not isinstance(candidates, Sequence):
            raise Refused(422, f"candidates must be a list of names in the engine's order, not {candidates!r:.80}")
        if not candidates:
            raise Refused(422, "candidates must name at least one item")
        for item in candidates:
            try:
                check_item(item)
            except ValueError as error:
                raise Refused(422, str(error)) from None
        if len(set(candidates)) < len(candidates):
            twice = next(item for item in candidates if candidates.count(item) > 1)
            raise Refused(422, f"candidates must differ from one another, but {twice!r:.80} is among them twice")

    def arrays(self) -> dict[str, Any]:
        """Every array that decides the next list, by name; pairs without the slots that are not in use."""
        pairs = self.ranker.pairs
        used = np.flatnonzero(pairs.key >= 0)
        own = {f"pairs.{name}": getattr(pairs, name)[used] for name in ("key", "looks", "clicks", "place")}
        prior = {f"prior.{name}": array for name, array in memory(self.ranker.prior)}
        return own | prior | {"refused": self.refused} | self.gate.arrays()

    def restore(self, names: Sequence[str], kinds: Sequence[Sequence[str]], arrays: dict[str, Any]) -> None:
        """Take over the items and the memory of another one with the same settings."""
        self.names, self.slots = list(names), {name: k for k, name in enumerate(names)}
        key, looks, clicks, place = (arrays[f"pairs.{name}"] for name in ("key", "looks", "clicks", "place"))
        n, slots = key.size, FIRST_SLOTS
        while slots * 3 // 4 < n:
            slots *= 2
        full = PairTable(key, looks, clicks, place, np.array([n], np.int64))
        prior = restored(self.ranker.prior, arrays, "prior.", False)
        self.ranker = self.ranker._replace(pairs=full.holding(np.ones(n, np.bool_), slots), prior=prior)
        self.refused[...] = arrays["refused"]
        self.gate.restore(kinds, arrays, PLACES, PLACES)
