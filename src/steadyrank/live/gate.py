"""Whose feedback reaches a learner that is kept alive: a guard of its clients, and one of each kind of cohort.

Guards that can grow begin with the first answer of a sender, and with little room.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..contract import (
    KIND,
    NOTE_EXTRA,
    SILENCE,
    Bools,
    Floats,
    Ints,
    Problem,
    Visit,
    call_admit,
    call_forget,
    call_retract,
    find,
    make,
    memory,
    view_of,
)
from ..guards import ALL as GUARDS
from ..rounds import TakenBack, offers
from ..settings import flag
from ..views import GuardView
from .widening import restored, widen

CLIENT = ""  # the kind of sender that a client is; cohorts are of the kind that their key names
_FIRST_ROOM = 64  # visits that a guard which can grow has room for at first


def with_guard(learner: Any, settings: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Settings of a learner as boards of the past may have them: without those that are a guard by now, and that
    guard's name.
    """
    if learner != "SteadyRank" or "reject_impossible" not in settings:
        return dict(settings), "Anyone"
    rest = {key: value for key, value in settings.items() if key != "reject_impossible"}
    return rest, "Plausible" if flag("reject_impossible", settings["reject_impossible"]) else "Anyone"


class Judged(NamedTuple):
    """What the guard of one kind of sender made of the visits."""

    kind: str  # CLIENT, or the key of a cohort
    view: GuardView


class Gate:
    """Guards in front of a learner, by kind of sender. A visit is admitted if all of them admit it.

    What one takes back, the learner forgets once, whoever else would take it back later. `shadow`: the guards judge,
    and all are admitted.
    """

    def __init__(self, guard: str | type, settings: dict[str, Any], shadow: bool, length: int, seed: int) -> None:
        self.guard_class = find("guard", guard, GUARDS)
        self.settings, self.shadow = settings, flag("shadow", shadow)
        self.open = self.guard_class is GUARDS["Anyone"]  # nobody is kept out, and nobody judged
        self._grows = callable(getattr(self.guard_class, "grown", None))
        self._length, self._seed = length, seed
        self._sizes = (1, 1)  # items that there is room for, and that constants are made for
        self.guards: dict[str, Any] = {}
        self._back = TakenBack.create(length)

    def begin(self, learner: Any, capacity: int, sized: int) -> None:
        """Have room for so many items; what is wrong with the settings is refused, and machine code looked up."""
        self._sizes = capacity, sized
        guard = self._make(1) if self._grows else self._made()
        if self.open:
            return
        if not self._grows:
            self.guards[CLIENT] = guard
        back, flags = self._back, np.zeros(1, np.bool_)
        ranking, note = np.zeros(1, np.int64), np.zeros(self._length + NOTE_EXTRA)
        self._admit = call_admit.bind(guard, Visit(1), ranking, note, flags, 1)
        self._retracts = offers(guard, "retract") and offers(learner, "forget")
        if self._retracts:
            self._retract = call_retract.bind(guard, back.ranking, back.note, back.clicks)
            self._forget = call_forget.bind(learner, Visit(1), back.ranking, back.note, back.clicks, 1)

    def _make(self, n_items: int) -> Any:
        """A guard that knows nobody; one that grows has room for its first visits."""
        horizon = _FIRST_ROOM if self._grows else 0
        return make(
            self.guard_class, Problem(n_items, self._length, horizon, seed=self._seed), settings=self.settings
        )

    def _made(self) -> Any:
        capacity, sized = self._sizes
        return self._make(sized) if capacity == sized else _with_room(self._make(capacity), self._make(sized))

    def widen(self, capacity: int, sized: int) -> None:
        """Have room for more items."""
        self._sizes = capacity, sized
        for kind, guard in self.guards.items():
            self.guards[kind] = widen(guard, self._make(capacity), self._make(sized))

    def admit(
        self,
        learner: Any,
        visit: Visit,
        cohorts: Sequence[tuple[str, int]],
        ranking: Ints,
        note: Floats,
        clicks: Bools,
        examined: int,
    ) -> bool:
        """Whether the learner is to hear of a visit. `cohorts`: kinds and numbers of those that its client is in."""
        if self._grows and visit.client < 0 and not cohorts:
            return True
        refused, heard = False, []
        for kind, number in ((CLIENT, visit.client), *cohorts):
            guard = self._guard_of(kind, number, note[KIND] == SILENCE)
            if guard is None:
                continue
            sender = visit if kind == CLIENT else Visit(visit.t, number)
            if self._admit(guard, sender, ranking, note, clicks, examined):
                heard.append(kind)
            else:
                refused = True
            if self._retracts:
                self._take_back(learner, kind)
        if refused and note[KIND] != SILENCE:
            for kind in heard:
                self._disown(kind, visit.t, ranking, clicks)
        return self.shadow or not refused

    def _guard_of(self, kind: str, number: int, silent: bool) -> Any:
        """Who judges a sender, with room for one visit more; None if nobody does."""
        guard = self.guards.get(kind)
        if not self._grows or number < 0:
            return None if self._grows else guard
        if guard is None and silent:
            return None
        now = self._made() if guard is None else guard.grown()
        if now is not guard:
            self.guards[kind] = now
        return now

    def _take_back(self, learner: Any, kind: str) -> None:
        """Let the learner forget what a guard takes back: `rounds.take_back`, one call at a time."""
        ranking, clicks, note, features = self._back
        while True:
            t, client, size, examined = self._retract(self.guards[kind], ranking, note, clicks)
            if size == 0:
                return
            if not self.shadow:
                self._forget(learner, Visit(t, client, features), ranking[:size], note, clicks[:size], examined)
            for other in self.guards:
                if other != kind:
                    self._disown(other, t, ranking[:size], clicks[:size])

    def _disown(self, kind: str, t: int, ranking: Ints, clicks: Bools) -> None:
        guard = self.guards[kind]
        if offers(guard, "disown"):
            guard.disown(t, ranking, clicks)

    def views(self) -> list[Judged]:
        """What each guard that there is made of the visits, if it says so."""
        found = ((kind, view_of(guard)) for kind, guard in self.guards.items())
        return [Judged(kind, view) for kind, view in found if view is not None]

    def client_view(self) -> GuardView | None:
        """What the guard of clients made of their visits, none so far perhaps; None if it does not say."""
        view: GuardView | None = view_of(self.guards.get(CLIENT) or self._make(1))
        return view

    def arrays(self) -> dict[str, Any]:
        """The memory of all guards by name: the same objects, not copies."""
        return {
            f"{_prefix(kind)}{name}": array for kind, guard in self.guards.items() for name, array in memory(guard)
        }

    def restore(self, kinds: Sequence[str], arrays: Mapping[str, Any], capacity: int, sized: int) -> None:
        """Take over the memory of another one with the same settings."""
        self._sizes = capacity, sized
        self.guards = {kind: restored(self._made(), arrays, _prefix(kind), self._grows) for kind in kinds}


def _with_room(blank: Any, scalars: Any) -> Any:
    """A guard for many items with the constants of one for fewer."""
    return widen(blank, blank, scalars)


def _prefix(kind: str) -> str:
    return "guard." if kind == CLIENT else f"cohort.{kind}."
