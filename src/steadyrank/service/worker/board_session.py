"""A board as a worker holds it in memory: beside what the log says, what this worker alone knows of it.

That is who may answer how often, when impressions are settled or over by the worker's own clock, which answers came
too late for the order in which the board learns, and the secrets that sign impression ids.
"""

import asyncio
import collections
import contextlib
import hmac
import math
import weakref
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
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

_AT_ONCE = 2_000  # impressions settled or expired by one event: applying it must not take long
_PARTS = 8  # into which a delay is divided for a board that is evicted
_MOST_CLIENTS = 100_000
LATEST = 200  # answers looked at
_FEWEST = 50  # answers before anything is said


class Reached(NamedTuple):
    """How far the impressions of a board have come."""

    last: int  # number of the latest one
    over: int
    settled: int


class Edge(NamedTuple):
    """Where the log of a board begins; what was before it is in a snapshot."""

    seq: int  # the last event that is no longer kept, 0 if all are
    events: int  # how many are no longer kept
    first_round: int  # the first one that may be labelled: no feedback of it, or of a later one, is in the snapshot


class Parked(NamedTuple):
    """A board that this worker does not serve, since it cannot go on with its log; it loses nothing meanwhile."""

    number: int
    name: str
    why: str
    seals: Seals  # what its impression ids are signed by

    def refusal(self) -> Refused:
        """What whoever asks for it is told."""
        return Refused(503, f"board {self.name!r} is parked: {self.why}")


class BoardSession:
    """A board, and what is not in the log: nothing of it decides what is learnt."""

    def __init__(self, number: int, name: str, secret: bytes, board: Board) -> None:
        self.number, self.name, self.secret, self.board = number, name, secret, board
        self.parked: Parked | None = None  # once it is no longer served, for those who hold it still
        self._hasher = Signer(secret, "client")
        self.keys: QueryKeys | None = None  # of a collection: ids of queries and items by their texts
        if board.config.collection is not None:
            self.keys = QueryKeys(board.config.collection.fold, Signer(secret, "query").sign(b""))
        self.reseal([])
        self.resealing: asyncio.Task[Any] | None = None  # what reads which secret signs by now
        self.round = 0  # latest round given out here
        self.applied = number
        self.edge = Edge(0, 0, 1)  # as of about a second ago
        self.refolding: asyncio.Task[Any] | None = None
        self.clock = DueClock()
        self.users = 0  # requests that hold it: it does not go to sleep under them
        self.used = 0  # when it was last asked for: the how manieth time of the worker
        self.answers = Allowances()  # of each client in this minute
        self.lists = Allowances()
        self.lateness = Lateness()  # of answers, as this worker saw them
        self.answering: dict[int, asyncio.Future[Any]] = {}  # by key of the impression, until the log has its answer
        self._clients: dict[int, int] = {}  # numbers of clients by hash, as far as this worker has written them
        # items whose clicks rise alone: of which board, after how many of its events, and the items
        self.few_outcomes: tuple[weakref.ref[Board] | None, int, list[FewOutcomesOut]] = None, 0, []
        self._room: tuple[Any, int, int] = (None, 0, 0)  # features and how many kinds of cohorts it is for, and bytes

    def summary(self) -> BoardOut:
        """The board as the API shows it."""
        return self.board.summary(self.name)

    def check_served(self) -> None:
        """Refuse what is to be done with a board that was parked since it was asked for."""
        if self.parked is not None:
            raise self.parked.refusal()

    @property
    def open(self) -> bool:
        """Whether any impression is not over: without one nothing is due, and most boards have none."""
        return self.board.impressions.over < self.board.impressions.last

    def reached(self) -> Reached:
        """How far its impressions have come."""
        impressions = self.board.impressions
        return Reached(impressions.last, impressions.over, impressions.settled)

    def due(self, now: float) -> Iterator[AnyEvent]:
        """Events that say which impressions are settled or over."""
        return self.clock.due(now, self.reached(), self.board.config.lifetime, self.board.settle)

    def reseal(self, seals: Sequence[Seal]) -> None:
        """Sign by the first of some secrets, if there are any, and know what the others have signed."""
        self.seals = Seals(self.secret, seals)
        self.signer = self.seals.signer

    def id_room(self) -> int:
        """Bytes of an impression id for what differs from visit to visit: as many for all visits of the board."""
        space, kinds = self.board.learner_state.features, self.board.impressions.kinds
        if self._room[0] is not space or self._room[1] != len(kinds):
            self._room = space, len(kinds), room_for(space, kinds)
        return self._room[2]

    def hash_client(self, client: str) -> int:
        """63 bits that stand for a client on this board and mean nothing elsewhere; never 0."""
        return int.from_bytes(self._hasher.sign(client.encode())[:8], "little") >> 1 or 1

    def hash_cohort(self, kind: str, name: str) -> int:
        """As much for a cohort: no client's name begins with what stands before its kind."""
        return self.hash_client(f"\0{kind}\0{name}")

    def hash_report(self, id_: str) -> int:
        """The key of a list that another ranker showed, by the id that the caller gave it."""
        return self.hash_client(f"\1{id_}")

    def hash_outcome(self, id_: str) -> int:
        """The number of an outcome, by the id that the caller gave it."""
        return self.hash_client(f"\2{id_}")

    def observed_items(self, id_: str, wanted: Iterable[str]) -> list[str] | None:
        """The list that came under an id, as far as it is remembered; of a collection, names among `wanted` alone."""
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
        """One answer to an impression at a time: what comes meanwhile waits, and finds what the log says by then."""
        while (before := self.answering.get(key)) is not None:
            await asyncio.wait([before])
        self.answering[key] = done = asyncio.get_running_loop().create_future()
        try:
            yield
        finally:
            del self.answering[key]
            done.set_result(None)

    def is_client(self, name: str | None, hashed: int) -> bool:
        """Whether a name is that of the client with this hash, in the same time for all; 0 is anybody."""
        given = self.hash_client(name or "")
        return not hashed or hmac.compare_digest(given.to_bytes(8), hashed.to_bytes(8))

    def client_number(self, client: int) -> int:
        """The number of a client by its hash, as far as it is known here; the store decides which one is logged."""
        return self._clients.get(client, ANYONE)

    def learn_clients(self, line: Line) -> None:
        """Keep in mind which number a client got, and which numbers mean nobody from here on, in log order."""
        if line.client and isinstance(line.event, events.OfVisitor):
            if len(self._clients) >= _MOST_CLIENTS:
                self._clients.clear()
            if line.event.client != ANYONE:
                self._clients[line.client] = line.event.client
        elif isinstance(line.event, events.Forgotten):
            gone = set(line.event.clients)
            self._clients = {client: number for client, number in self._clients.items() if number not in gone}

    def forget_client(self, client: int) -> None:
        """Keep nothing of a client in memory either."""
        self.answers.forget(client)
        self.lists.forget(client)
        self._clients.pop(client, None)

    def may_answer(self, client: int, number: int | None, now: float) -> bool:
        """Count an answer of a client by its hash, 0 for none; False if it is one too many in this minute."""
        return self.answers.spend(client, number, self._minutely(client != 0), now)

    def may_look(self, client: int, now: float) -> bool:
        """Count a list for a client by its hash; False if it is one too many in this minute."""
        return self.lists.spend(client, self.client_number(client), self.board.config.client_lists, now)

    def note(self, line: Line, outcome: str, own: bool, now: float) -> None:
        """Count an answer; and if another worker took it, against its client, as lists; `own`: this one did."""
        if outcome in ("learnt", "waiting", "late"):
            self.lateness.count(outcome == "late")
        if own or not isinstance(line.event, events.ListShown | events.Answered | events.Observed):
            return
        number = line.event.client
        if isinstance(line.event, events.ListShown) or line.event.clicks is None:
            if number != ANYONE:
                self.lists.note(number, self.board.config.client_lists, now)
        elif outcome != "duplicate":
            self.answers.note(number, self._minutely(number != ANYONE), now)

    def show_lists(self, lines: Sequence[Line], own: Callable[[AnyEvent], bool], now: float) -> bool:
        """Apply lists, at once, if none of them is unusual; whether it was done. `own`: which this worker gave."""
        shown = [line.event for line in lines if isinstance(line.event, events.ListShown)]
        if len(shown) < len(lines) or not self.board.show_lists(shown):
            return False
        self.applied = lines[-1].seq
        for line, event in zip(lines, shown, strict=True):
            if event.client != ANYONE:
                self.learn_clients(line)
                self.note(line, "", own(event), now)
        return True

    def _minutely(self, named: bool) -> int:
        config = self.board.config
        return config.client_minute if named else config.anonymous_minute


def begin(number: int, name: str, secret: bytes, event: events.Created | Unreadable) -> BoardSession | Parked:
    """A new board, or the same parked, with the reason, if none can be made here."""
    if isinstance(event, Unreadable):
        return Parked(number, name, str(event), Seals(secret, []))
    try:
        return BoardSession(number, name, secret, Board.create(event.config, event.items, event.features))
    except Exception as error:  # a lack of memory, too
        return Parked(number, name, str(not_applied(number, error)), Seals(secret, []))


class DueClock:
    """Which impressions are due; delays count from when this worker saw them."""

    def __init__(self) -> None:
        self._queues: dict[str, DelayQueue] = {}
        self._longer: list[DelayQueue] = []  # of impressions shown while the lifetime was longer, in order
        self._due: dict[str, int] = {}

    def due(self, now: float, reached: Reached, lifetime: float, settle: float) -> Iterator[AnyEvent]:
        """Events that say which impressions are settled or over; the same again until the log has them."""
        for kind, delay, upto in (("over", lifetime, reached.over), ("settled", settle, reached.settled)):
            queue = self._queues.get(kind)
            if queue is None or queue.delay != delay:
                if kind == "over" and queue is not None and delay < queue.delay:
                    _note(queue, now, reached.last)
                    self._longer.append(queue)  # ids that were given out say for how long they can be answered
                queue = self._queues[kind] = DelayQueue(delay)
            longer = self._still_longer(reached.over) if kind == "over" else None
            number = self._due[kind] = max((longer or queue).due(now), self._due.get(kind, 0))
            _note(queue, now, reached.last)
            if number > upto and kind == "over":
                yield events.Expired(min(number, upto + _AT_ONCE))
            elif number > upto and 0 < delay < lifetime:
                yield events.Settled(min(number, upto + _AT_ONCE))

    def _still_longer(self, over: int) -> DelayQueue | None:
        """The queue of a longer lifetime whose impressions are not all over yet, if there is any."""
        while self._longer and (not self._longer[0].moments or self._longer[0].moments[-1][1] <= over):
            self._longer.pop(0)
        return self._longer[0] if self._longer else None

    def next(self, reached: Reached) -> float:
        """When something is due next, if nothing else happens; infinite if nothing is open."""
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
        """Take few bytes: moments within an eighth of a delay become one, the latest of them."""
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
    """Impressions up to the last one are there now, if they were not before."""
    if not queue.moments or queue.moments[-1][1] < last:
        queue.note(now, last)


class Lateness:
    """The latest answers that this worker saw of a board, and which of them were late.

    Late is an answer that came after its list was settled, and one that was refused because the list has expired.
    """

    def __init__(self) -> None:
        self._latest: collections.deque[bool] = collections.deque(maxlen=LATEST)

    def count(self, late: bool) -> None:
        """An answer came."""
        self._latest.append(late)

    @property
    def share(self) -> float | None:
        """Of late ones among the latest answers; None while there are too few to tell."""
        return sum(self._latest) / len(self._latest) if len(self._latest) >= _FEWEST else None

    @contextlib.contextmanager
    def refusals(self) -> Iterator[None]:
        """Count an answer that is refused meanwhile because its list has expired."""
        try:
            yield
        except Refused as refusal:
            self.count_refusal(refusal)
            raise

    def count_refusal(self, refusal: Refused) -> None:
        """Count an answer that was refused, if that is because its list has expired."""
        if refusal.code == 410:
            self.count(True)
