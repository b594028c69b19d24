"""Re-ranking for many queries to one search engine, inside your own process."""

import pathlib
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...core.arrays import Ints
from ...core.compiling.announcing import announcing
from ...core.contract import ANYONE, Visit
from ...core.files import replacing
from ...core.refusals import Refused
from ...core.settings import flag, whole
from ...core.views import GuardView
from .. import answers, snapshot
from ..delays import Delays
from ..gate import GuardChoice, chosen_guards
from ..impression_buffer import NO_OUTCOMES, ImpressionBuffer, Outcome
from ..outcomes import WITH_ANSWER, OutcomeStatus, amount_of, number_of
from ..ranker import Observed, Shown
from ..rules import Rules
from .alarms import Alarm, alarms_of
from .collection_state import CollectionState, ShownItems, check_order, places_known
from .engine_scores import coded, steps_of
from .judgments import Judgment, judged
from .query_keys import QueryKeys
from .ruled_candidates import ruled_list

_TEXT_CLIENTS = 1 << 53  # first number of clients that are named by text


class Collection:
    """Re-ranks an engine's results for any number of queries, and learns from clicks. Thread-safe.

    `length`: places of a list. `explore`: future visits expected of a query, per visit that it had; 0 disables
    exploration. `memory`: looks beyond which an item of a query forgets older ones. `attention`: the chance that each
    place is looked at, if answers cover places that users may not have looked at; by default every covered place
    counts as looked at. `fold`: treat queries that differ only in case, width and white space as one; otherwise texts
    are keys as given. `keep_queries`: store queries as text, not as digests keyed with `secret`; a secret that is not
    given is generated, and saved with the state. `most_pairs`: (query, item) pairs remembered; the least visited
    queries are evicted first. `outcomes`: accept outcomes of clicks in `outcome`; they tell guards who is a person
    and appear in judgments, while lists are still made for clicks. `guard`, `guard_settings`, `lifetime`, `settle`,
    `count_unanswered`, `most_open`, `clock`: as for `Ranker`; guards judge a client over all queries together.
    """

    def __init__(
        self,
        length: int,
        *,
        seed: int = 0,
        explore: float = 3.0,
        memory: float = 300.0,
        attention: Sequence[float] | None = None,
        fold: bool = True,
        keep_queries: bool = False,
        secret: bytes | None = None,
        most_pairs: int = 4_000_000,
        outcomes: bool = False,
        guard: str | type | Sequence[GuardChoice] = "ClientTrust",
        guard_settings: Mapping[str, Any] | None = None,
        lifetime: float | None = None,
        settle: float | None = None,
        count_unanswered: bool = True,
        most_open: int = 100_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._delays = Delays(lifetime, settle, clock)
        own: dict[str, Any] = {"explore": explore, "memory": memory}
        own |= {} if attention is None else {"attention": [float(chance) for chance in attention]}
        self._keys, self._keep = QueryKeys(fold, secret), flag("keep_queries", keep_queries)
        with announcing("the collection"):
            guards, reported = chosen_guards(guard, guard_settings), flag("outcomes", outcomes)
            self._state = CollectionState(length, own, seed, most_pairs, guards, outcomes=reported)
        self._impressions = ImpressionBuffer(self._state, self._delays.in_order, count_unanswered, most_open)
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        with self._lock:
            return f"<Collection of {self._state.n_queries:,} queries with {self._state.n_pairs:,} items looked at>"

    def rank(
        self,
        query: str,
        candidates: Sequence[str],
        *,
        scores: Sequence[float] | None = None,
        client: int | str | None = None,
        length: int | None = None,
        rules: Rules | Mapping[str, Any] | None = None,
    ) -> Shown:
        """The best of the candidates, given in the engine's order; shorter if there are fewer than places.

        `scores`: the engine's, one per candidate, on any scale; their weight is learnt. `client`: who looks, as
        text or as a number from 0. `rules`: what the list must keep, as for `Ranker.rank`; rules about
        items that are not candidates are kept as far as possible. A query without visits gets the
        engine's order. O(candidates).
        """
        kept = Rules.of(rules)
        key, sender = self._keys.query(query), self._sender(client)
        check_order(candidates)
        steps, most = steps_of(scores, len(candidates)), self._state.length
        size = min(most if length is None else whole("length", length, 1, most), len(candidates))
        with self._lock:
            self._delays.pass_time(self._impressions)
            codes = coded(self._keys.items(candidates), steps)
            places, unkept = self._state.rank_for(key[0], codes, size), list[str]()
            if kept is not None:
                ruled = ruled_list(self._state, kept, key[0], codes, candidates, size)
                places, unkept = ruled.ranking, ruled.unkept
            items = tuple(candidates[place] for place in places.tolist())
            return Shown(self._show(sender, places, key, codes[places], items), items, tuple(unkept))

    def observe(
        self,
        query: str,
        items: Sequence[str],
        *,
        clicked: Any = answers.LEFT_OUT,
        position: int | None = None,
        clicks: Sequence[bool | int] | None = None,
        examined: int | None = None,
        client: int | str | None = None,
        candidates: Sequence[str] | None = None,
        scores: Sequence[float] | None = None,
    ) -> Observed:
        """Learn from a list that was shown by other code, from the top, and return the list that we would have shown.

        The answer is given as to `feedback`; without one, call `feedback` later with the returned id. `candidates`:
        what the list was chosen from, in the engine's order, with their `scores`; by default the list itself is the
        top of that order.
        """
        key, sender = self._keys.query(query), self._sender(client)
        order = items if candidates is None else candidates
        places, steps = places_among(items, order, self._state.length), steps_of(scores, len(order))
        answer = answers.given_if_any(
            answers.IN_PROCESS, items, clicked=clicked, position=position, clicks=clicks, examined=examined
        )
        with self._lock:
            self._delays.pass_time(self._impressions)
            codes = coded(self._keys.items(order), steps)
            ours = self._state.rank_for(key[0], codes, len(items))
            number = self._show(sender, places, key, codes[places], items)
            outcome = "shown" if answer is None else self._impressions.answer(number, *answer)
            return Observed(number, tuple(order[place] for place in ours.tolist()), outcome)

    def _sender(self, client: int | str | None) -> int:
        """A client's number; for text, a digest from which it cannot be recovered."""
        if client is None:
            return ANYONE
        if not isinstance(client, str):
            return whole("client", client)
        if not 1 <= len(client) <= 500:
            raise Refused(422, f"a client is named by text of 1 to 500 characters, not {client!r:.80}")
        return _TEXT_CLIENTS + self._keys.client(client)

    def _show(self, sender: int, places: Ints, key: tuple[int, str], codes: Ints, items: Sequence[str]) -> int:
        """Record a list that was shown; returns its number."""
        text = key[1] if self._keep else ""
        note = self._state.note_of(ShownItems(key[0], codes.tolist(), list(items), text))
        visit = Visit(self._impressions.rounds + 1, sender)
        return self._delays.show(self._impressions, visit, places_known(places), note)

    def feedback(
        self,
        shown: int,
        *,
        clicked: Any = answers.LEFT_OUT,
        position: int | None = None,
        clicks: Sequence[bool | int] | None = None,
        examined: int | None = None,
        value: float | None = None,
        id: str = WITH_ANSWER,
    ) -> Outcome:
        """Answer a list: as `Ranker.feedback`, with the same errors."""
        given = answers.given(
            answers.IN_PROCESS, clicked=clicked, position=position, clicks=clicks, examined=examined
        )
        with self._lock:
            self._delays.pass_time(self._impressions)
            answers.check_id(shown)
            place = self._impressions.find_place(shown)
            codes = self._state.codes_of(self._impressions.note[place], int(self._impressions.size[place]))
            clicked_one = [given.item] if isinstance(given.item, str) else []
            answer = given.to(self._keys.names(codes, clicked_one))
            if value is None:
                return self._impressions.answer(shown, *answer)
            if self._state.outcomes is None:
                raise Refused(409, NO_OUTCOMES)
            amount, number = amount_of(value, ""), number_of(id)
            engine_place = int(self._impressions.ranking[place, answers.only_click(answer)])
            outcome = self._impressions.answer(shown, *answer)
            self._impressions.outcome(shown, engine_place, number, amount)
            return outcome

    def outcome(
        self, shown: int, item: str, value: float, *, kind: str = "purchase", id: str | None = None
    ) -> OutcomeStatus:
        """Report an outcome of a click: as `Ranker.outcome`, with the same errors; needs `outcomes=True`."""
        with self._lock:
            self._delays.pass_time(self._impressions)
            if self._state.outcomes is None:
                raise Refused(409, NO_OUTCOMES)
            answers.check_id(shown)
            place, amount = self._impressions.find_place(shown), amount_of(value, kind)
            codes = self._state.codes_of(self._impressions.note[place], int(self._impressions.size[place]))
            names = self._keys.names(codes, [item])
            if item not in names:
                raise Refused(422, f"item {item!r:.80} was not shown")
            number = secrets.randbits(63) if id is None else number_of(id)
            engine_place = int(self._impressions.ranking[place, names.index(item)])
            return self._impressions.outcome(shown, engine_place, number, amount)

    def forget(self, query: str) -> bool:
        """Remove a query and everything learnt about its items; returns whether it was known.

        Open lists of it can still be answered, but nothing is learnt from them. What all queries have taught
        together, the prior by place, stays. O(pairs of the collection).
        """
        key, _ = self._keys.query(query)
        with self._lock:
            self._delays.pass_time(self._impressions)
            return self._state.forget_query(key, self._impressions.note)

    def prior(self) -> tuple[list[float], float]:
        """Prior mean attraction by place in the engine's order, and the number of looks that it counts for."""
        with self._lock:
            prior = self._state.learner.prior
            return prior.mean.tolist(), float(prior.strength[0])

    def guard_views(self) -> dict[str, GuardView]:
        """The view of each guard by its name; without guards that have no view."""
        with self._lock:
            return self._state.gate.client_views()

    def alarms(self) -> list[Alarm]:
        """Sudden rises of clicks on items of queries; those soon after one another form one alarm.

        Alarms do not change lists: the cause may be an attack, or news.
        """
        with self._lock:
            return alarms_of(self._state)

    def judgments(self) -> Iterator[Judgment]:
        """Judgments of every (query, item) pair that was looked at, by query in order of first visit.

        Without clicks that a guard refused or retracted; looks are counted according to `attention`.
        """
        with self._lock:
            state = self._state.copied()
        return judged(state)

    def save(self, path: str | pathlib.Path) -> None:
        """Write the complete state into one file, atomically.

        A secret that you provided is not saved.
        """
        with self._lock:
            keys = self._keys
            extra = {
                "fold": keys.fold,
                "keep_queries": self._keep,
                "secret": None if keys.given else keys.secret.hex(),
                **self._delays.keep(),
            }
            content = snapshot.pack(*snapshot.take(self._state, self._impressions, extra))
        with replacing(pathlib.Path(path)) as file:
            file.write(content)

    @classmethod
    def load(
        cls,
        path: str | pathlib.Path,
        *,
        secret: bytes | None = None,
        guard: type | Sequence[type] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> "Collection":
        """Load a saved collection. `secret`: the one that it was made with; `guard`: classes defined elsewhere."""
        content = pathlib.Path(path).read_bytes()
        header, _ = snapshot.unpack(content, str(path))
        if "most_pairs" not in header or "fold" not in header:
            raise snapshot.UnreadableSnapshot(f"{path} holds no collection: Ranker.load reads rankers")
        if (header["secret"] is None) != (secret is not None):
            raise ValueError(
                f"{path} was saved {'with' if header['secret'] is None else 'without'} a secret of your own: "
                f"{'give it as secret=' if secret is None else 'leave secret out'}"
            )
        collection = cls.__new__(cls)
        given: Sequence[type] = () if guard is None else [guard] if isinstance(guard, type) else guard
        with announcing("the collection"):
            state, collection._impressions, _, _ = snapshot.restore(content, str(path), None, given)
        assert isinstance(state, CollectionState)
        collection._state = state
        collection._keys = QueryKeys(header["fold"], secret or bytes.fromhex(header["secret"]))
        collection._keys.given = header["secret"] is None
        collection._keep, collection._delays = header["keep_queries"], Delays.restore(header, clock)
        collection._lock = threading.RLock()
        return collection


def places_among(items: Sequence[str], order: Sequence[str], most: int) -> Ints:
    """Positions of a list's items in the engine's order, from 0; refused if the list cannot come from that order."""
    check_order(items)
    check_order(order)
    if len(items) > most:
        raise Refused(422, f"a list has at most {most} items, not {len(items)}")
    at = {item: place for place, item in enumerate(order)}
    if strange := [item for item in items if item not in at]:
        raise Refused(422, f"item {strange[0]!r:.80} was shown, but is not among the candidates")
    return np.array([at[item] for item in items], np.int64)
