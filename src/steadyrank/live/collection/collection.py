"""Many queries over one engine, inside your own process."""

import math
import pathlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...core.arrays import Floats, Ints
from ...core.compiling.announcing import announcing
from ...core.contract import ANYONE, Visit
from ...core.files import replacing
from ...core.refusals import Refused
from ...core.settings import real, whole
from ...core.views import GuardView
from .. import answers, snapshot
from ..gate import OneGuard, guarding
from ..impression_buffer import DelayQueue, ImpressionBuffer, Outcome
from ..ranker import Observed, Shown
from ..silence import Silence
from .collection_state import CollectionState
from .pair_table import ITEM_BITS, ITSELF
from .query_keys import QueryKeys
from .re_ranker import VERSION, estimate

_TEXT_CLIENTS = 1 << 41  # numbers of clients that are named by text begin here
_SURE = 1.96  # standard deviations on either side of an estimate


class Judgment(NamedTuple):
    """What clicks say of an item for a query."""

    query: str  # its text if queries are kept, else its digest
    item: str
    looks: float
    clicks: float
    rate: float  # posterior mean of the attraction
    low: float  # of an interval that has it with a chance of about 95 %
    high: float


class Collection:
    """Re-ranks what an engine finds for any number of queries, and learns from what is clicked. Safe for threads.

    `length`: places of a list. `explore`: visits of a query that are expected to come, for each that it had; 0:
    nothing is tried that is not the best by now. `memory`: looks from which on an item of a query forgets older ones.
    `attention`: the chance that each place is looked at, where answers speak of places that nobody may have looked
    at; by default, all that an answer speaks of was. `fold`: queries that differ in case, width and white space alone
    are one; otherwise your texts are keys as they are. `keep_queries`: remember queries as text, not as digests with
    a key, `secret`; a secret that is not given is made, and saved with the rest. `most_pairs`: (query, item) pairs
    remembered; the queries with the fewest visits leave first. `guard`, `guard_settings`, `lifetime`, `settle`,
    `count_unanswered`, `most_open`, `clock`: as for `Ranker`; one guard judges a client over all queries.
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
        guard: str | type | Sequence[OneGuard] = "ClientTrust",
        guard_settings: Mapping[str, Any] | None = None,
        lifetime: float | None = None,
        settle: float | None = None,
        count_unanswered: bool = True,
        most_open: int = 100_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if settle is not None and lifetime is None:
            raise ValueError(f"settle={settle!r} needs a lifetime: without one an unanswered list would wait forever")
        self.lifetime = None if lifetime is None else real("lifetime", lifetime, 0.0)
        self.settle = self.lifetime if settle is None else real("settle", settle, 0.0, self.lifetime)
        own: dict[str, Any] = {"explore": explore, "memory": memory}
        own |= {} if attention is None else {"attention": [float(chance) for chance in attention]}
        self._queries = QueryKeys(fold, keep_queries, secret)
        with announcing("the collection"):
            self._state = CollectionState(length, own, guarding(guard, guard_settings), seed, most_pairs)
        in_order = self.lifetime is not None
        self._impressions = ImpressionBuffer(self._state, in_order, count_unanswered, most_open)
        self._clock = clock
        self._delays = self._make_delays()
        self._lock = threading.RLock()

    def _make_delays(self) -> tuple[DelayQueue, ...]:
        """Until answers are learnt from, and until it is too late for them."""
        if self.lifetime is None or self.settle is None:
            return ()
        return DelayQueue(self.settle), DelayQueue(self.lifetime)

    def __repr__(self) -> str:
        with self._lock:
            pairs = max(int(self._state.ranker.pairs.tally[0]) - len(self._queries.numbers), 0)
            return f"<Collection of {len(self._queries.numbers):,} queries with {pairs:,} items looked at>"

    def rank(
        self,
        query: str,
        candidates: Sequence[str],
        *,
        client: int | str | None = None,
        length: int | None = None,
    ) -> Shown:
        """The best of the candidates, which are in the engine's order; shorter when there are fewer than places.

        `client`: who looks, as text or as a number of your own from 0 on. A query that nobody has visited yet gets
        the engine's order. O(candidates).
        """
        key, sender = self._queries.key(query), self._sender(client)
        self._state.check_candidates(candidates)
        most = self._state.length
        size = min(most if length is None else whole("length", length, 1, most), len(candidates))
        with self._lock:
            self._pass_time()
            places, note = self._state.rank(self._queries.number(key), candidates, size)
            number = self._show(Visit(self._impressions.rounds + 1, sender), places, note)
            return Shown(number, tuple(self._state.items_of(note, size)))

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
    ) -> Observed:
        """Learn from a list that was shown without us, from the top, and say what we would have shown.

        The answer as for `feedback`; without one, `feedback` answers it by its id later. `candidates`: what it was
        chosen from, in the engine's order; by default the list is the top of that order itself.
        """
        key, sender = self._queries.key(query), self._sender(client)
        order = items if candidates is None else candidates
        self._state.check_candidates(items)
        self._state.check_candidates(order)
        if len(items) > self._state.length:
            raise Refused(422, f"a list has at most {self._state.length} items, not {len(items)}")
        if strange := set(items).difference(order):
            raise Refused(422, f"item {min(strange)!r:.80} was shown, but is not among the candidates")
        left_out = clicked is answers.LEFT_OUT and position is None and clicks is None and examined is None
        answer = None
        if not left_out:
            form = answers.IN_PROCESS
            answer = answers.given(form, clicked=clicked, position=position, clicks=clicks, examined=examined).to(
                items
            )
        with self._lock:
            self._pass_time()
            row = self._queries.number(key)
            ours, _ = self._state.rank(row, order, len(items))
            places = np.array([order.index(item) for item in items], np.int64)
            number = self._show(Visit(self._impressions.rounds + 1, sender), places, self._state.noted(row, items))
            outcome = "shown" if answer is None else self._impressions.answer(number, *answer)
            return Observed(number, tuple(order[place] for place in ours.tolist()), outcome)

    def _sender(self, client: int | str | None) -> int:
        """A client's number: text has one that cannot be read back."""
        if client is None:
            return ANYONE
        if not isinstance(client, str):
            return whole("client", client)
        if not 1 <= len(client) <= 500:
            raise Refused(422, f"a client is named by text of 1 to 500 characters, not {client!r:.80}")
        return _TEXT_CLIENTS + (int(self._queries.digest(client)[:15], 16))

    def _show(self, visit: Visit, places: Ints, note: Floats) -> int:
        number = self._impressions.shown(visit, places, note)
        for delay in self._delays:
            delay.note(self._clock(), number)
        self._drop()
        return number

    def _drop(self) -> None:
        """Queries that have left the memory are new when they come again."""
        if self._state.dropped:
            gone, self._state.dropped = self._state.dropped, set()
            numbers = self._queries.numbers
            self._queries.numbers = {key: number for key, number in numbers.items() if number not in gone}

    def _pass_time(self) -> None:
        """Expire and settle what is due: first what is over, answered or not, in order."""
        if self._delays:
            now = self._clock()
            self._impressions.expire(self._delays[1].due(now))
            self._impressions.settle(self._delays[0].due(now))

    def feedback(
        self,
        shown: int,
        *,
        clicked: Any = answers.LEFT_OUT,
        position: int | None = None,
        clicks: Sequence[bool | int] | None = None,
        examined: int | None = None,
    ) -> Outcome:
        """Answer a list: as `Ranker.feedback`, with the same refusals."""
        given = answers.given(
            answers.IN_PROCESS, clicked=clicked, position=position, clicks=clicks, examined=examined
        )
        with self._lock:
            self._pass_time()
            if isinstance(shown, bool) or not isinstance(shown, int):
                raise Refused(422, f"an impression's id is a whole number, not {shown!r}")
            place = self._impressions.find_place(shown)
            items = self._state.items_of(self._impressions.note[place], int(self._impressions.size[place]))
            outcome = self._impressions.answer(shown, *given.to(items))
            self._drop()
            return outcome

    def forget(self, query: str) -> bool:
        """Remove a query and all that is known of its items; whether it was known.

        Open lists of it can still be answered, and nothing is learnt from that. What all queries have taught
        together, the prior by place, stays. O(pairs of the collection).
        """
        key = self._queries.key(query)
        with self._lock:
            self._pass_time()
            number = self._queries.numbers.pop(key, None)
            if number is not None:
                self._state.forget(number)
            return number is not None

    def prior(self) -> tuple[list[float], float]:
        """What items attract by their place in the engine's order, and how many looks that counts for."""
        with self._lock:
            prior = self._state.ranker.prior
            return prior.mean.tolist(), float(prior.strength[0])

    def guard_views(self) -> dict[str, GuardView]:
        """What each guard makes of the visits, by its name; without those that have no view."""
        with self._lock:
            return self._state.gate.client_views()

    def judgments(self) -> Iterator[Judgment]:
        """Every pair that was looked at, by query and item in the order in which they came: what clicks say of it.

        Without the clicks that a guard refused or took back; places count as `attention` says.
        """
        with self._lock:
            ranker, names = self._state.ranker, {number: key for key, number in self._queries.numbers.items()}
            pairs = ranker.pairs
            slots, _, _ = pairs.queries()
            order = slots[np.argsort(pairs.key[slots], kind="stable")]
            rows = [(int(pairs.key[slot]), slot) for slot in order[pairs.key[order] & ITSELF != ITSELF].tolist()]
            found = []
            for key, slot in rows:
                row, number = key >> ITEM_BITS, key & ITSELF
                place = int(pairs.place[slot])
                mean, total = estimate(ranker, row, number, place if place >= 0 else -1 - place)
                wide = _SURE * math.sqrt(mean * (1.0 - mean) / (total + 1.0))
                looks, clicks = float(pairs.looks[slot]), float(pairs.clicks[slot])
                low, high = max(mean - wide, 0.0), min(mean + wide, 1.0)
                found.append(Judgment(names[row], self._state.names[number], looks, clicks, mean, low, high))
        return iter(found)

    def save(self, path: str | pathlib.Path) -> None:
        """Write everything that decides what comes next into one file, whole or not at all.

        A secret that you gave is not in it.
        """
        with self._lock:
            now, keys, state, impressions = self._clock(), self._queries, self._state, self._impressions
            header = {
                "collection": VERSION,
                "settings": state.settings,
                **snapshot.guards_header(state.gate.posts),
                "length": state.length,
                "seed": state.seed,
                "most_pairs": state.most_pairs,
                "items": state.names,
                "queries": keys.numbers,
                "next_query": keys.next,
                "fold": keys.fold,
                "keep_queries": keys.keep,
                "secret": None if keys.given else keys.secret.hex(),
                "in_order": impressions.in_order,
                "count_unanswered": impressions.count_unanswered,
                "most": impressions.most,
                "impressions": impressions.counters(),
                "silence": impressions.silence.keep(),
                "lifetime": self.lifetime,
                "settle": self.settle,
                "delays": [[[now - then, number] for then, number in delay.moments] for delay in self._delays],
            }
            content = snapshot.pack(header, state.arrays() | impressions.arrays())
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
        """A collection as it was saved. `secret`: the one it was made with; `guard`: the class, if it is not ours."""
        header, arrays = snapshot.unpack(pathlib.Path(path).read_bytes(), str(path))
        if header.get("collection") != VERSION:
            raise snapshot.UnreadableSnapshot(
                f"{path} holds no collection of version {VERSION}: Ranker.load reads rankers"
            )
        if (header["secret"] is None) != (secret is not None):
            raise ValueError(
                f"{path} was saved {'with' if header['secret'] is None else 'without'} a secret of your own: "
                f"{'give it as secret=' if secret is None else 'leave secret out'}"
            )
        given: Sequence[type] = () if guard is None else [guard] if isinstance(guard, type) else guard
        own = dict(header["settings"])
        collection = cls(
            header["length"],
            seed=header["seed"],
            fold=header["fold"],
            keep_queries=header["keep_queries"],
            secret=secret if header["secret"] is None else bytes.fromhex(header["secret"]),
            most_pairs=header["most_pairs"],
            guard=snapshot.guards_in(str(path), header, given),
            lifetime=header["lifetime"],
            settle=header["settle"],
            count_unanswered=header["count_unanswered"],
            most_open=header["most"],
            clock=clock,
            **own,
        )
        collection._take_over(str(path), header, arrays)
        return collection

    def _take_over(self, name: str, header: dict[str, Any], arrays: dict[str, Any]) -> None:
        """What was saved, in place of nothing."""
        keys, kinds = self._queries, snapshot.check_guards(name, self._state.gate.posts, header)
        keys.given = header["secret"] is None
        keys.numbers, keys.next = dict(header["queries"]), header["next_query"]
        self._state.restore(header["items"], kinds, arrays)
        self._impressions.restore(header["impressions"], (), arrays)
        self._impressions.silence = Silence.restore(header["silence"])
        now = self._clock()
        for delay, moments in zip(self._delays, header["delays"], strict=True):
            delay.moments.extend((now - age, number) for age, number in moments)
