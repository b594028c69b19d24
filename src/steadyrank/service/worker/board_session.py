"""A board in the memory of a worker, with the state that only this worker has.

That state is the rate limits of clients, the times when impressions settle and expire by the worker's clock, the
share of answers that came too late to be learnt from in order, and the secrets that sign impression ids.
"""

import asyncio
import collections
import contextlib
import hmac
import math
import weakref
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ...core.contract import ANYONE
from ...core.refusals import Refused
from ...live.collection.collection_state import CollectionState
from ...live.collection.query_keys import QueryKeys
from ...live.delays import DelayQueue
from ..board import events
from ..board.board import Board, BoardOut
from ..board.events import AnyEvent
from ..board.few_outcomes import FewOutcomesOut
from ..storage import Seal
from .allowances import Allowances
from .impression_ids import Seals, Signer, room_for
from .log_rows import Unreadable, not_applied
from .log_writer import Line

_AT_ONCE = 2_000  # impressions settled or expired by one event, so that applying it is quick
_PARTS = 8  # of a delay, for thinning the clock of an evicted board
_MOST_CLIENTS = 100_000
LATEST = 200  # answers considered
_FEWEST = 50  # answers before a share is given


class Reached(NamedTuple):
    """The progress of a board's impressions."""

    last: int  # number of the latest
    over: int
    settled: int


class Edge(NamedTuple):
    """Where the log of a board begins; a snapshot covers what was before."""

    seq: int  # the last event not kept, 0 if all are kept
    events: int  # the number of events not kept
    first_round: int  # the first round that can be labelled: the snapshot has no feedback of it or of later ones


class Parked(NamedTuple):
    """A board that this worker does not serve, since it cannot go on with its log; its log loses nothing."""

    number: int
    name: str
    why: str
    seals: Seals  # for verifying its impression ids

    def refusal(self) -> Refused:
        """The refusal of requests for it."""
        return Refused(503, f"board {self.name!r} is parked: {self.why}")


class BoardSession:
    """A board and the state beside its log; none of that state decides what is learnt."""

    def __init__(self, number: int, name: str, secret: bytes, board: Board) -> None:
        self.number, self.name, self.secret, self.board = number, name, secret, board
        self.parked: Parked | None = None  # set when it is no longer served, for requests that still hold it
        self._hasher = Signer(secret, "client")
        self.keys: QueryKeys | None = None  # for a collection: maps texts to ids of queries and items
        if board.config.collection is not None:
            self.keys = QueryKeys(board.config.collection.fold, Signer(secret, "query").sign(b""))
        self.reseal([])
        self.resealing: asyncio.Task[Any] | None = None  # reads the secrets after a rotation
        self.round = 0  # the latest round given out here
        self.applied = number
        self.edge = Edge(0, 0, 1)  # as of about a second ago
        self.refolding: asyncio.Task[Any] | None = None
        self.clock = DueClock()
        self.users = 0  # requests that hold it, which prevents eviction
        self.used = 0  # when it was last used, on the worker's counter
        self.answers = Allowances()  # per client in this minute
        self.lists = Allowances()
        self.lateness = Lateness()  # of answers at this worker
        self.answering: dict[int, asyncio.Future[Any]] = {}  # by impression key, until its answer is in the log
        self._clients: dict[int, int] = {}  # numbers of clients by hash, as far as this worker has seen them
        # cached search for items with too few outcomes: the board, its count of events then, and the items
        self.few_outcomes: tuple[weakref.ref[Board] | None, int, list[FewOutcomesOut]] = None, 0, []
        # features and number of cohort kinds, and the bytes for these
        self._room: tuple[Any, int, int] = (None, 0, 0)

    def summary(self) -> BoardOut:
        """The board as shown by the API."""
        return self.board.summary(self.name)

    def check_served(self) -> None:
        """Raise Refused if the board was parked since it was looked up."""
        if self.parked is not None:
            raise self.parked.refusal()

    @property
    def open(self) -> bool:
        """Whether any impression is open. Otherwise nothing is due, and most boards have none."""
        return self.board.impressions.over < self.board.impressions.last

    def reached(self) -> Reached:
        """The progress of its impressions."""
        impressions = self.board.impressions
        return Reached(impressions.last, impressions.over, impressions.settled)

    def due(self, now: float) -> Iterator[AnyEvent]:
        """Yield events that settle or expire impressions which are due."""
        return self.clock.due(now, self.reached(), self.board.config.lifetime, self.board.settle)

    def reseal(self, seals: Sequence[Seal]) -> None:
        """Sign with the first of these secrets, if any, and accept signatures of the others."""
        self.seals = Seals(self.secret, seals)
        self.signer = self.seals.signer

    def id_room(self) -> int:
        """Bytes of an impression id reserved for what varies between visits: the same for all visits of the board."""
        space, kinds = self.board.learner_state.features, self.board.impressions.kinds
        if self._room[0] is not space or self._room[1] != len(kinds):
            self._room = space, len(kinds), room_for(space, kinds)
        return self._room[2]

    def hash_client(self, client: str) -> int:
        """A keyed hash of a client: 63 bits, meaningless on other boards; never 0."""
        return int.from_bytes(self._hasher.sign(client.encode())[:8], "little") >> 1 or 1

    def hash_cohort(self, kind: str, name: str) -> int:
        """The same for a cohort; its prefix cannot occur in a client's name."""
        return self.hash_client(f"\0{kind}\0{name}")

    def hash_report(self, id_: str) -> int:
        """The key of a reported list, from the caller's id."""
        return self.hash_client(f"\1{id_}")

    def hash_outcome(self, id_: str) -> int:
        """The number of an outcome, from the caller's id."""
        return self.hash_client(f"\2{id_}")

    def observed_items(self, id_: str, wanted: Iterable[str]) -> list[str] | None:
        """The items reported under an id, if remembered; in a collection, only those among `wanted` have names."""
        impressions, state = self.board.impressions, self.board.learner_state
        number = impressions.numbers.get(self.hash_report(id_))
        if number is None:
            return None
        place = number % impressions.places
        if self.keys is None or not isinstance(state, CollectionState):
            return state.items_at(impressions.ranking[place, : impressions.size[place]].tolist())
        return self.keys.names(state.codes_of(impressions.note[place], int(impressions.size[place])), list(wanted))

    @contextlib.asynccontextmanager
    async def alone(self, key: int) -> AsyncIterator[None]:
        """Serialize answers to one impression: each waits for the one before, and sees its effect."""
        while (before := self.answering.get(key)) is not None:
            await asyncio.wait([before])
        self.answering[key] = done = asyncio.get_running_loop().create_future()
        try:
            yield
        finally:
            del self.answering[key]
            done.set_result(None)

    def is_client(self, name: str | None, hashed: int) -> bool:
        """Compare a name with the hash of a client in constant time; hash 0 matches anybody."""
        given = self.hash_client(name or "")
        return not hashed or hmac.compare_digest(given.to_bytes(8), hashed.to_bytes(8))

    def client_number(self, client: int) -> int:
        """The number of a client by its hash, as far as known here; the store decides which one is logged."""
        return self._clients.get(client, ANYONE)

    def learn_clients(self, line: Line) -> None:
        """Remember the numbers that clients got, and forget numbers made void, in log order."""
        if line.clients:
            for client, number in zip(line.clients, _clients_of(line.event), strict=True):
                if len(self._clients) >= _MOST_CLIENTS:
                    self._clients.clear()
                if client and number != ANYONE:
                    self._clients[client] = number
        elif isinstance(line.event, events.Forgotten):
            gone = set(line.event.clients)
            self._clients = {client: number for client, number in self._clients.items() if number not in gone}

    def forget_client(self, client: int) -> None:
        """Remove a client from memory."""
        self.answers.forget(client)
        self.lists.forget(client)
        self._clients.pop(client, None)

    def may_answer(self, client: int, number: int | None, now: float) -> bool:
        """Count an answer of a client by its hash, 0 if unknown. Returns False if it exceeds the limit."""
        return self.answers.spend(client, number, self._minutely(client != 0), now)

    def may_look(self, client: int, now: float) -> bool:
        """Count a list for a client by its hash. Returns False if it exceeds the limit."""
        return self.lists.spend(client, self.client_number(client), self.board.config.client_lists, now)

    def note(self, line: Line, outcome: str, own: bool, now: float) -> None:
        """Update lateness by an answer; count other workers' answers and lists against their clients.

        `own`: whether this worker wrote the event.
        """
        if outcome in ("learnt", "waiting", "late"):
            self.lateness.count(outcome == "late")
        event = line.event
        if own or not isinstance(event, events.ListShown | events.ListsShown | events.Answered | events.Observed):
            return
        if isinstance(event, events.ListShown | events.ListsShown) or event.clicks is None:
            for number in _clients_of(event):
                if number != ANYONE:
                    self.lists.note(number, self.board.config.client_lists, now)
        elif outcome != "duplicate":
            self.answers.note(event.client, self._minutely(event.client != ANYONE), now)

    def _minutely(self, named: bool) -> int:
        config = self.board.config
        return config.client_minute if named else config.anonymous_minute


def _clients_of(event: AnyEvent | Unreadable) -> list[int]:
    """The numbers of the clients that an event is of."""
    if isinstance(event, events.ListsShown):
        return event.clients()
    return [event.client] if isinstance(event, events.OfVisitor) else []


def begin(number: int, name: str, secret: bytes, event: events.Created | Unreadable) -> BoardSession | Parked:
    """Make a new board, or park it with the reason if that fails here."""
    if isinstance(event, Unreadable):
        return Parked(number, name, str(event), Seals(secret, []))
    try:
        return BoardSession(number, name, secret, Board.create(event.config, event.items, event.features))
    except Exception as error:  # including a lack of memory
        return Parked(number, name, str(not_applied(number, error)), Seals(secret, []))


class DueClock:
    """When impressions are due to settle or expire; delays count from when this worker saw them."""

    def __init__(self) -> None:
        self._queues: dict[str, DelayQueue] = {}
        self._longer: list[DelayQueue] = []  # of impressions shown while the lifetime was longer, in order
        self._due: dict[str, int] = {}

    def due(self, now: float, reached: Reached, lifetime: float, settle: float) -> Iterator[AnyEvent]:
        """Yield events that settle or expire what is due; repeated until the log has them."""
        for kind, delay, upto in (("over", lifetime, reached.over), ("settled", settle, reached.settled)):
            queue = self._queues.get(kind)
            if queue is None or queue.delay != delay:
                if kind == "over" and queue is not None and delay < queue.delay:
                    _note(queue, now, reached.last)
                    self._longer.append(queue)  # ids already given out say how long they can be answered
                queue = self._queues[kind] = DelayQueue(delay)
            longer = self._still_longer(reached.over) if kind == "over" else None
            number = self._due[kind] = max((longer or queue).due(now), self._due.get(kind, 0))
            _note(queue, now, reached.last)
            if number > upto and kind == "over":
                yield events.Expired(min(number, upto + _AT_ONCE))
            elif number > upto and 0 < delay < lifetime:
                yield events.Settled(min(number, upto + _AT_ONCE))

    def _still_longer(self, over: int) -> DelayQueue | None:
        """The first queue of a longer lifetime that still has open impressions, if any."""
        while self._longer and (not self._longer[0].moments or self._longer[0].moments[-1][1] <= over):
            self._longer.pop(0)
        return self._longer[0] if self._longer else None

    def next(self, reached: Reached) -> float:
        """When something is next due if nothing else happens; infinite if nothing is open."""
        over, settled = self._queues.get("over"), self._queues.get("settled")
        at = math.inf
        if over is not None:
            first = self._still_longer(reached.over) or over
            at = min([t + first.delay for t, number in first.moments if number > reached.over], default=math.inf)
            if settled is not None and 0 < settled.delay < over.delay:
                waiting = [t + settled.delay for t, number in settled.moments if number > reached.settled]
                at = min([at, *waiting])
        return at

    def thin(self) -> None:
        """Save memory: merge moments within an eighth of a delay into the latest of them."""
        for queue in (*self._queues.values(), *self._longer):
            kept: list[tuple[float, int]] = []
            for moment in queue.moments:
                if len(kept) > 1 and moment[0] - kept[-2][0] < queue.delay / _PARTS:
                    kept[-1] = moment
                else:
                    kept.append(moment)
            queue.moments.clear()
            queue.moments.extend(kept)


def _note(queue: DelayQueue, now: float, last: int) -> None:
    """Record that impressions up to `last` exist by now."""
    if not queue.moments or queue.moments[-1][1] < last:
        queue.record(now, last)


class Lateness:
    """The latest answers to a board at this worker, and which of them were late.

    An answer is late if its list was settled already, or if it was refused because the list has expired.
    """

    def __init__(self) -> None:
        self._latest: collections.deque[bool] = collections.deque(maxlen=LATEST)

    def count(self, late: bool) -> None:
        """Record an answer."""
        self._latest.append(late)

    @property
    def share(self) -> float | None:
        """The share of late ones among the latest answers; None while there are too few."""
        return sum(self._latest) / len(self._latest) if len(self._latest) >= _FEWEST else None

    @contextlib.contextmanager
    def refusals(self) -> Iterator[None]:
        """A context that counts a refusal because of an expired list as a late answer."""
        try:
            yield
        except Refused as refusal:
            self.count_refusal(refusal)
            raise

    def count_refusal(self, refusal: Refused) -> None:
        """Count a refused answer if it was refused because its list has expired."""
        if refusal.code == 410:
            self.count(True)
