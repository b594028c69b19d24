"""Candidates for a list: slots of a board's items, or places in the engine's order of a collection's request."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from ...core.arrays import Floats, Ints
from ...core.contract import Visit
from ...core.refusals import Refused
from ...live.collection.collection_state import CollectionState, ShownItems, check_order
from ...live.collection.engine_scores import SCORE_BITS, coded, steps_of
from ...live.collection.id_table import NOT_THERE
from ...live.collection.query_keys import QueryKeys
from ...live.collection.ruled_candidates import RankedCandidates
from ...live.ruled_list import SlotRules
from ...live.rules import Rules
from ..board.board import Board
from .board_session import BoardSession

_NO_NOTE: Floats = np.zeros(0)


class Listing(Protocol):
    """Candidates for a list, identified by integers."""

    most: int  # the maximal number of candidates, as far as known beforehand
    placed: list[int]  # who chose each place of the drawn list; empty: the learner chose all
    unkept: list[str]  # rules that the drawn list breaks

    @property
    def kept(self) -> SlotRules | None:
        """The rules in terms of these integers, if any."""

    def draw(self, visit: Visit, size: int, chance: np.random.Generator) -> tuple[list[int], Floats]:
        """Draw a list of ours, and its note."""

    def places_of(self, theirs: Sequence[str]) -> list[int]:
        """The integers of the caller's list."""

    def names_of(self, ranking: Sequence[int]) -> list[str]:
        """The items with these integers."""

    def shown(self, ranking: Sequence[int]) -> ShownItems | None:
        """What the log must record of a list besides its integers."""


class BoardListing:
    """The items of a board, or given candidates among them."""

    def __init__(self, board: Board, candidates: Sequence[str] | None, rules: Rules | None = None) -> None:
        self._board, self._candidates, self._rules = board, candidates, rules
        self._state, self.most = board.learner_state, board.length
        self.placed: list[int] = []
        self.unkept: list[str] = []

    @property
    def kept(self) -> SlotRules | None:
        """The rules in terms of slots."""
        return None if self._rules is None else self._board.ruled.slot_rules(self._rules)

    def draw(self, visit: Visit, size: int, chance: np.random.Generator) -> tuple[list[int], Floats]:
        """Rank slots by the learner, under the rules if any."""
        drawn = self._board.rank(visit, self._candidates, size, chance, self._rules)
        self.placed, self.unkept = drawn.placed if any(drawn.placed) else [], drawn.unkept
        return drawn.ranking.tolist(), drawn.note

    def places_of(self, theirs: Sequence[str]) -> list[int]:
        """The slots of items. Raises Refused for unknown items."""
        slots = self._state.slots
        for item in theirs:
            if item not in slots:
                raise Refused(422, f"item {item!r:.80} of theirs is not on the board: set unknown to skip or add it")
        return [slots[item] for item in theirs]

    def names_of(self, ranking: Sequence[int]) -> list[str]:
        """The items in these slots."""
        return self._state.items_at(ranking)

    def shown(self, ranking: Sequence[int]) -> None:
        """None: slots suffice."""
        return None


class QueryListing:
    """The candidates for a query, in the engine's order."""

    def __init__(
        self,
        state: CollectionState,
        keys: QueryKeys,
        keep: bool,
        query: str,
        order: Sequence[str],
        scores: Sequence[float] | None,
        rules: Rules | None = None,
    ) -> None:
        """`keep`: whether the collection stores the text of queries."""
        check_order(order)
        self.placed: list[int] = []
        self.unkept: list[str] = []
        self._state, self._order, self.most = state, order, len(order)
        self.query, text = keys.query(query)
        self.codes: Ints = coded(keys.items(order), steps_of(scores, len(order)))
        self._text = text if keep else ""
        self.kept: SlotRules | None = None
        if rules is not None:
            self._ranked = RankedCandidates(state, rules, self.query, self.codes, order)
            self.kept = self._ranked.made_for(rules)

    def draw(self, visit: Visit, size: int, chance: np.random.Generator) -> tuple[list[int], Floats]:
        """Rank places of the engine's order, under the rules if any; deterministic."""
        if self.kept is None:
            return self._state.rank_for(self.query, self.codes, size).tolist(), _NO_NOTE
        drawn = self._ranked.rank(self.kept, size)
        self.placed, self.unkept = drawn.placed if any(drawn.placed) else [], drawn.unkept
        return drawn.ranking.tolist(), drawn.note

    def places_of(self, theirs: Sequence[str]) -> list[int]:
        """The places of items. Raises Refused if one is no candidate."""
        places = {item: place for place, item in enumerate(self._order)}
        for item in theirs:
            if item not in places:
                raise Refused(422, f"item {item!r:.80} was shown, but is not among the candidates")
        return [places[item] for item in theirs]

    def names_of(self, ranking: Sequence[int]) -> list[str]:
        """The candidates at these places."""
        return [self._order[place] for place in ranking]

    def shown(self, ranking: Sequence[int], every: bool = False) -> ShownItems:
        """The query and its items, with the names not known yet, and the text if texts are stored.

        `every`: include all names and the text, known or not, so that repeated calls give the same result.
        """
        if every:
            return ShownItems(self.query, self.codes[ranking].tolist(), self.names_of(ranking), self._text)
        codes = self.codes[ranking]
        new = self._state.item_names.rows(codes >> SCORE_BITS) == NOT_THERE
        names = [self._order[place] if one else "" for place, one in zip(ranking, new.tolist(), strict=True)]
        kept_already = not self._text or self._state.query_texts.text(self.query) is not None
        return ShownItems(self.query, codes.tolist(), names if new.any() else [], "" if kept_already else self._text)


class EngineResult(NamedTuple):
    """An engine's result for a query: candidates in its order, and their scores if known."""

    query: str
    order: Sequence[str]
    scores: Sequence[float] | None = None


def query_listing(session: BoardSession, engine_result: EngineResult, rules: Rules | None = None) -> QueryListing:
    """The listing of a collection for an engine's result; `rules`: those that the list must keep."""
    state, own = session.board.learner_state, session.board.config.collection
    assert session.keys is not None
    assert own is not None
    assert isinstance(state, CollectionState)
    return QueryListing(state, session.keys, own.keep_queries, *engine_result, rules)
