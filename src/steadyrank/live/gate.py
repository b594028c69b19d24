"""Whose feedback reaches a live learner: guards of visits, of clients and of kinds of cohorts.

Guards that can grow are created at the first answer of a sender, with little room.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..core.arrays import Bools, Floats, Ints
from ..core.contract import KIND, NOTE_EXTRA, SILENCE, Problem, Visit, memory, view_of
from ..core.discovery import find_class, make
from ..core.dispatch import call_admit, call_forget, call_outcome, call_retract
from ..core.philox import philox
from ..core.rounds import TakenBack, offers
from ..core.settings import flag
from ..core.views import GuardView
from ..guards import ALL as GUARDS
from .widening import restored, widen

GuardChoice: TypeAlias = (
    str | type | tuple[str | type, Mapping[str, Any]]
)  # by name or class, with or without settings
ChosenGuards: TypeAlias = Sequence[
    tuple[str | type, dict[str, Any]]
]  # the guards of a learner, each with its settings

CLIENT = ""  # kind of sender of clients; a cohort's kind is the name of its key
NO_GUARD: ChosenGuards = (("Anyone", {}),)
OWN_RECORD = 10  # with so many remembered visits, a client is judged by these alone, not by its cohorts
COHORTS_SPARE = 4  # one in so many visits of other clients is not refused for cohorts: each keeps some weight
_FIRST_ROOM = 64  # initial room of a guard that can grow, in visits
_COHORT_KEY = 0xC0407  # key of the draws that decide which
_LOW = 0xFFFFFFFF


def chosen_guards(guard: str | type | Sequence[GuardChoice], settings: Mapping[str, Any] | None) -> ChosenGuards:
    """One guard with its `settings`, or several: each a name or a class, or a pair of that and its own settings."""
    if isinstance(guard, str | type):
        return [(guard, dict(settings or {}))]
    if settings:
        raise ValueError(
            f"guard_settings={dict(settings)!r:.80} is of one guard; of several, each has its own: "
            "guard=[(NAME, SETTINGS), ...]"
        )
    pairs = [(one, {}) if isinstance(one, str | type) else one for one in guard]
    for pair in pairs:
        if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[1], Mapping)):
            raise ValueError(f"a guard is a name, a class, or a pair of that and its settings, not {pair!r:.80}")
    return [(one, dict(own)) for one, own in pairs]


class GuardReport(NamedTuple):
    """One guard's view of the visits of one kind of sender."""

    guard: str
    kind: str  # CLIENT, or a kind of cohort
    view: GuardView


class Post:
    """One of the guards: a single record for all visits, or one per kind of sender if the guard can grow."""

    def __init__(self, guard_class: type, settings: dict[str, Any], place: int, length: int, seed: int) -> None:
        self.guard_class, self.settings = guard_class, settings
        self.grows = callable(getattr(guard_class, "grown", None))
        self.guards: dict[str, Any] = {}  # by kind of sender
        self.retracts = False
        self._prefix = str(place or "")  # prefix of array names; empty for the first guard
        self._length, self._seed = length, seed
        self._sizes = (1, 1)  # numbers of items: allocated, and used for constants

    @property
    def name(self) -> str:
        """The guard's class name."""
        return self.guard_class.__name__

    def begin(self, learner: Any, back: TakenBack, capacity: int, sized: int) -> None:
        """Set the number of items, check the settings, and look up compiled functions."""
        self._sizes = capacity, sized
        guard = self.make(1) if self.grows else self._make_for_board()
        if not self.grows:
            self.guards[CLIENT] = guard
        ranking, note = np.zeros(1, np.int64), np.zeros(self._length + NOTE_EXTRA)
        self.admit = call_admit.bind(guard, Visit(1), ranking, note, np.zeros(1, np.bool_), 1)
        self.retracts = offers(guard, "retract") and offers(learner, "forget")
        if self.retracts:
            self.retract = call_retract.bind(guard, back.ranking, back.note, back.clicks)
            self.forget = call_forget.bind(learner, Visit(1), back.ranking, back.note, back.clicks, 1)

    def make(self, n_items: int) -> Any:
        """A guard without memory; one that grows has room for its first visits."""
        horizon = _FIRST_ROOM if self.grows else 0
        return make(
            self.guard_class, Problem(n_items, self._length, horizon, seed=self._seed), settings=self.settings
        )

    def _make_for_board(self) -> Any:
        capacity, sized = self._sizes
        if capacity == sized:
            return self.make(sized)
        blank = self.make(capacity)  # sized for many items, with the constants of a guard for fewer
        return widen(blank, blank, self.make(sized))

    def widen(self, capacity: int, sized: int) -> None:
        """Make room for more items."""
        self._sizes = capacity, sized
        for kind, guard in self.guards.items():
            self.guards[kind] = widen(guard, self.make(capacity), self.make(sized))

    def guards_to_ask(
        self, visit: Visit, cohorts: Sequence[tuple[str, int]], silent: bool
    ) -> Iterator[tuple[str, Visit, bool]]:
        """Yield, for each guard to ask about a visit: kind of sender, visit as it sees it, whether it decides.

        A visit is evidence for guards that do not decide, too.
        """
        if not self.grows:
            yield CLIENT, visit, True
            return
        if self._has_room(CLIENT, visit.client, silent):
            yield CLIENT, visit, True
        if cohorts:
            counts = self._cohorts_count(visit)
            for kind, number in cohorts:
                if self._has_room(kind, number, silent):
                    yield kind, Visit(visit.t, number), counts

    def _cohorts_count(self, visit: Visit) -> bool:
        """Whether a visit may be refused for its cohorts: not if its client has a record of its own, nor one in four.

        Senders choose much of what makes a cohort, and bots can choose that of honest clients. Clients with enough
        visits are judged by their own; of all others some visits are always admitted.
        """
        own: Any = self.guards.get(CLIENT)
        if visit.client >= 0 and offers(own, "visits_of") and own.visits_of(visit.client) >= OWN_RECORD:
            return False
        drawn, _ = philox(visit.t & _LOW, visit.t >> 32, (_COHORT_KEY ^ self._seed) & _LOW)
        return bool(drawn % COHORTS_SPARE)

    def _has_room(self, kind: str, number: int, silent: bool) -> bool:
        """Whether this kind of sender has a guard with room for one more visit; creates or enlarges it if needed."""
        guard = self.guards.get(kind)
        if number < 0 or (guard is None and silent):
            return False
        now = self._make_for_board() if guard is None else guard.grown()
        if now is not guard:
            self.guards[kind] = now
        return True

    def disown(self, kind: str, t: int, ranking: Ints, clicks: Bools) -> None:
        """Mark this visit as unknown to the learner in the guard of this kind of sender."""
        guard = self.guards[kind]
        if offers(guard, "disown"):
            guard.disown(t, ranking, clicks)

    def arrays(self) -> dict[str, Any]:
        """The memory of all records by name, not copied."""
        return {
            f"{self._named(kind)}{name}": array
            for kind, guard in self.guards.items()
            for name, array in memory(guard)
        }

    def restore(self, kinds: Sequence[str], arrays: Mapping[str, Any], capacity: int, sized: int) -> None:
        """Take over the memory of a guard with the same settings and position."""
        self._sizes = capacity, sized
        self.guards = {
            kind: restored(self._make_for_board(), arrays, self._named(kind), self.grows) for kind in kinds
        }

    def _named(self, kind: str) -> str:
        return f"guard{self._prefix}." if kind == CLIENT else f"cohort{self._prefix}.{kind}."


class Gate:
    """Guards in front of a learner. A visit is admitted if all of them admit it.

    Guards that judge single visits are asked first, then those that can grow, which have a record per kind of sender;
    within each group in the given order. A visit that one guard refuses is not shown to later guards,
    so it is no evidence to them, and earlier ones disown it. What one retracts, the learner
    forgets once, even if another retracts it later. `shadow`: the guards judge, but all visits are admitted.
    """

    def __init__(self, guards: ChosenGuards, shadow: bool, length: int, seed: int) -> None:
        self.shadow = flag("shadow", shadow)
        chosen = [(find_class("guard", guard, GUARDS), settings) for guard, settings in guards]
        names = [cls.__name__ for cls, _ in chosen]
        if not names:
            raise ValueError("guards must name at least one guard; Anyone admits every visit")
        if len(names) > 1 and "Anyone" in names:
            raise ValueError(
                f"Anyone admits every visit and cannot be combined with other guards, as in {', '.join(names)}"
            )
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"guards must differ from one another, but {twice[0]} is among them twice")
        # guards of single visits before those with a memory of each sender
        in_order = sorted(chosen, key=lambda pair: callable(getattr(pair[0], "grown", None)))
        self.posts = [Post(*pair, place, length, seed) for place, pair in enumerate(in_order)]
        self.open = chosen[0][0] is GUARDS["Anyone"]  # nobody is refused or judged
        self._retracted = TakenBack.create(length)
        self.forgetting: Callable[[int, Sequence[int]], None] | None = None  # called with clicks before they are
        self.on_retracted: Callable[[Ints, Bools], None] | None = None  # called with clicks that were retracted

    def begin(self, learner: Any, capacity: int, sized: int) -> None:
        """Set the number of items, check the settings, and look up compiled functions."""
        for post in self.posts:
            if self.open:
                post.make(1)
            else:
                post.begin(learner, self._retracted, capacity, sized)

    def widen(self, capacity: int, sized: int) -> None:
        """Make room for more items."""
        for post in self.posts:
            post.widen(capacity, sized)

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
        """Whether the learner may learn from a visit. `cohorts`: kinds and numbers of those of its client."""
        silent, refused = note[KIND] == SILENCE, False
        admitting: list[tuple[Post, str]] = []
        for post in self.posts:
            for kind, as_sender, counts in post.guards_to_ask(visit, cohorts, silent):
                admitted = post.admit(post.guards[kind], as_sender, ranking, note, clicks, examined)
                refused |= counts and not admitted
                if admitted and counts:
                    admitting.append((post, kind))
                elif admitted and not silent:
                    post.disown(kind, visit.t, ranking, clicks)  # so that it is not retracted for its cohort either
                if post.retracts:
                    self._retract(learner, post, kind)
            if refused:
                break
        if refused and not silent:
            for post, kind in admitting:
                post.disown(kind, visit.t, ranking, clicks)
        return self.shadow or not refused

    def _retract(self, learner: Any, post: Post, kind: str) -> None:
        """Make the learner forget what a guard retracts: `rounds.take_back`, one call at a time."""
        ranking, clicks, note, features = self._retracted
        while True:
            t, client, size, examined = post.retract(post.guards[kind], ranking, note, clicks)
            if size == 0:
                return
            if not self.shadow:
                if self.forgetting is not None:
                    self.forgetting(t, ranking[:examined][clicks[:examined]].tolist())
                post.forget(learner, Visit(t, client, features), ranking[:size], note, clicks[:size], examined)
                if self.on_retracted is not None:
                    self.on_retracted(ranking[:examined], clicks[:examined])
            for other in self.posts:
                for its_kind in other.guards:
                    if (other, its_kind) != (post, kind):
                        other.disown(its_kind, t, ranking[:size], clicks[:size])

    def outcome(self, item: int, shown: int, t: int, before: float, after: float) -> None:
        """Tell the guards about an outcome of a click, whether or not the learner knows of it."""
        for post in self.posts if before != after else ():
            for guard in post.guards.values():
                if offers(guard, "outcome"):
                    call_outcome(guard, item, shown, t, before, after)  # compiled at the first one

    def drop_cohorts(self, kinds: Sequence[str]) -> None:
        """Stop judging cohorts of these kinds, and drop their records."""
        for post in self.posts:
            for kind in kinds:
                post.guards.pop(kind, None)

    def views(self) -> list[GuardReport]:
        """The view of each existing guard record that has one."""
        views = ((post.name, kind, view_of(guard)) for post in self.posts for kind, guard in post.guards.items())
        return [GuardReport(name, kind, view) for name, kind, view in views if view is not None]

    def client_views(self) -> dict[str, GuardView]:
        """Each guard's view of clients' visits by the guard's name, if it has one; empty if it has seen none."""
        views = {post.name: view_of(post.guards.get(CLIENT) or post.make(1)) for post in self.posts}
        return {name: view for name, view in views.items() if view is not None}

    def arrays(self) -> dict[str, Any]:
        """The memory of all guards by name, not copied."""
        return {name: array for post in self.posts for name, array in post.arrays().items()}

    def restore(self, kinds: Sequence[Sequence[str]], arrays: Mapping[str, Any], capacity: int, sized: int) -> None:
        """Take over the memory of a gate with the same settings. `kinds`: of senders, for each guard."""
        for post, own in zip(self.posts, kinds, strict=True):
            post.restore(own, arrays, capacity, sized)
