"""Lists of a collection under rules: a request's candidates take the part of a board's items."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.arrays import Bools, Floats, Ints
from ...core.contract import Visit
from ...core.refusals import Refused
from ..features import NO_FEATURES
from ..ruled_list import RuledList, SlotRules, rank_by_rules
from ..rules import Members, Rules
from .collection_state import CollectionState

_NO_NOTE: Floats = np.zeros(0)


class RankedCandidates:
    """The candidates for a query, with the methods of a learner state that rules need.

    Slots are places of the engine's order, followed by items named in rules that the engine did not find. Preference
    is deterministic, and no item is new.
    """

    features, aims_at_value = NO_FEATURES, False

    def __init__(
        self, state: CollectionState, rules: Rules, query: int, codes: Ints, candidates: Sequence[str]
    ) -> None:
        """`codes`: of the candidates, in the engine's order."""
        self.learner, self.candidates = state.learner, candidates
        self.names = list(dict.fromkeys([*candidates, *rules.named()]))
        self.slots = {name: slot for slot, name in enumerate(self.names)}
        self.active: Bools = np.ones(len(self.names), np.bool_)
        index, self._means = state.indexed(query, codes)
        self._preferred: Ints = np.argsort(-index, kind="stable")

    def slot(self, item: str) -> int:
        """The slot of an item, candidate or not."""
        return self.slots[item]

    def slots_of(self, candidates: Sequence[str]) -> Ints:
        """The slots of all candidates, in the engine's order."""
        slots: Ints = np.arange(len(candidates))
        return slots

    def estimates_at(self, visit: Visit, slots: Ints) -> Floats:
        """The current estimates of candidates' attractions."""
        return self._means[slots]

    def rank_without(
        self, out: Ints, visit: Visit, some: Ints, length: int, rng: np.random.Generator
    ) -> tuple[Ints, Floats]:
        """The best candidates not in `out`, and an empty note."""
        best = self._best(~np.isin(self._preferred, out), length)
        if not best:
            raise Refused(422, "no candidate may be shown: all of them are excluded")
        return np.array(best, np.int64), _NO_NOTE

    def rank_more(
        self, without: Sequence[Ints], visit: Visit, some: Ints, wanted: int, rng: np.random.Generator
    ) -> list[int]:
        """The best candidates in none of these arrays."""
        return self._best(~np.isin(self._preferred, np.concatenate(without)), wanted)

    def rank_slots(self, slots: Ints, visit: Visit, wanted: int, rng: np.random.Generator) -> list[int]:
        """The best of some candidates."""
        return self._best(np.isin(self._preferred, slots), wanted)

    def _best(self, may: Bools, wanted: int) -> list[int]:
        slots: list[int] = self._preferred[may][:wanted].tolist()
        return slots

    def made_for(self, rules: Rules) -> SlotRules:
        """Rules with slots for names; rules that only boards support are refused."""
        members: list[Members] = [*rules.groups.values(), *rules.include.values()]
        if strange := [one for one in members if not one.items]:
            asks = f"by={strange[0].by!r:.80}" if strange[0].by else "new=True"
            raise Refused(422, f"a rule asks for {asks}, which a collection does not know of its items: name items")
        state: Any = self
        return SlotRules(rules, state, {})

    def rank(self, made: SlotRules, size: int) -> RuledList:
        """A list that keeps the rules, as places of the engine's order."""
        state: Any = self
        return rank_by_rules(state, made, Visit(1), self.candidates, size, np.random.default_rng(0))


def ruled_list(
    state: CollectionState, rules: Rules, query: int, codes: Ints, candidates: Sequence[str], size: int
) -> RuledList:
    """The best list of candidates for a query that keeps the rules. O(candidates + rules) and some numpy calls."""
    ranked = RankedCandidates(state, rules, query, codes, candidates)
    return ranked.rank(ranked.made_for(rules), size)
