"""A board that is not in memory, and what is known of it all the same."""

import math
import zlib
from collections.abc import Sequence
from typing import Any

import msgspec

from ..board import events
from ..board.board import COUNTS, Board
from ..board.config import Config
from ..storage import Seal
from .allowances import Allowances
from .board_session import BoardSession
from .due_clock import DueClock, Reached
from .impression_ids import ImpressionId, Seals
from .log_writer import Line

# what a list of boards shows: only the values are kept, so that a board takes few bytes
_SHOWN = (*Config.__struct_fields__, *COUNTS)
_FORMAT = zlib.crc32(",".join(_SHOWN).encode())  # with another one a board is folded once, and put to sleep anew
_LAST, *_DELAYS = (_SHOWN.index(name) for name in ("impressions", "lifetime", "settle"))
_PATIENCE = 1.25  # lifetimes until a worker looks after lists that another one gave out


class Rest(msgspec.Struct, array_like=True, frozen=True):
    """What is shown of a board without waking it."""

    format: int
    shown: list[Any]
    over: int
    settled: int

    @property
    def summary(self) -> dict[str, Any]:
        """What a list of boards shows, settings among it."""
        return dict(zip(_SHOWN, self.shown, strict=True))

    def reached(self) -> Reached:
        """How far its impressions have come."""
        return Reached(self.shown[_LAST], self.over, self.settled)

    def delays(self) -> tuple[float, float]:
        """Its lifetime and its settling time in seconds."""
        lifetime, settle = (self.shown[place] for place in _DELAYS)
        return lifetime, lifetime if settle is None else settle


_decoder = msgspec.msgpack.Decoder(Rest)


def rest_of(board: Board) -> bytes:
    """What is kept of a board that goes to sleep, as bytes."""
    summary, impressions = board.summary(), board.impressions
    return msgspec.msgpack.encode(
        Rest(_FORMAT, [summary[name] for name in _SHOWN], impressions.over, impressions.settled)
    )


def read_rest(body: bytes) -> Rest | None:
    """What such bytes say; None if another version wrote them."""
    try:
        rest = _decoder.decode(body)
    except msgspec.MsgspecError:
        return None
    return rest if rest.format == _FORMAT and len(rest.shown) == len(_SHOWN) else None


class Sleeper:
    """A board that sleeps. Nothing of it decides what is learnt: all that does is in the store.

    It keeps what a session knows beside the log, as far as that matters later: the latest round given out, the
    allowances of this minute, and when its open impressions are due. `stirred`: since when another worker's lists
    are open that nobody has ended.
    """

    __slots__ = (
        "allowances",
        "clock",
        "due",
        "held",
        "name",
        "number",
        "rest",
        "round",
        "seals",
        "secret",
        "stirred",
        "waking",
    )

    def __init__(self, number: int, name: str, secret: bytes, rest: bytes | None, seals: Sequence[Seal] = ()) -> None:
        self.number, self.name, self.secret, self.rest = number, name, secret, rest
        self.seals = tuple(seals)
        self.round = 0
        self.due = math.inf  # when it has to wake
        self.stirred = math.inf
        self.clock: DueClock | None = None
        self.allowances: tuple[Allowances, Allowances] | None = None  # of answers and of lists
        self.waking: Any = None  # a task, once somebody asked for it
        self.held: list[Line] = []  # events that came while it was waking

    @classmethod
    def of(cls, session: BoardSession, now: float) -> "Sleeper":
        """A session goes to sleep; nothing of it may be due."""
        seals = session.seals.kept
        sleeper = cls(session.number, session.name, session.secret, rest_of(session.board), seals)
        sleeper.round = session.round
        if session.answers.used(now) or session.lists.used(now):
            sleeper.allowances = session.answers, session.lists
        due = session.clock.next(session.reached())
        if due < math.inf:
            session.clock.thin()
            sleeper.clock, sleeper.due = session.clock, session.clock.next(session.reached())
        return sleeper

    def started(self, now: float) -> None:
        """The worker begins: the time of open impressions counts from now."""
        rest = None if self.rest is None else read_rest(self.rest)
        if rest is None:
            self.rest = None
        elif rest.reached().last > rest.over:
            self.clock = DueClock()
            for _ in self.clock.due(now, rest.reached(), *rest.delays()):
                pass
            self.due = self.clock.next(rest.reached())

    def hear(self, line: Line, now: float) -> bool:
        """An event of it was written, by another worker; whether it has to wake for that.

        Lists of others are theirs to end, and their ends are heard of, too. It wakes only if these stay away.
        """
        if isinstance(line.event, events.Configured | events.Resealed):
            self.rest, self.due = None, now  # until it has woken, nothing is known of it for sure
            return True
        rest = None if self.rest is None else read_rest(self.rest)
        if rest is None:
            return False
        lifetime, _ = rest.delays()
        if isinstance(line.event, events.OfVisitor):
            self.stirred = min(self.stirred, now)
        elif isinstance(line.event, events.Expired) and self.stirred < math.inf:
            self.stirred = max(self.stirred, now - lifetime)
        else:
            return False
        own = math.inf if self.clock is None else self.clock.next(rest.reached())
        self.due = min(own, self.stirred + _PATIENCE * lifetime + 1.0)
        return False

    def open_id(self, text: str, now: float) -> ImpressionId:
        """What an impression id of this board says; any other is refused."""
        return Seals(self.secret, self.seals).open(text, now)

    def woken(self, session: BoardSession) -> None:
        """Give a session back what was kept."""
        session.round = self.round
        if self.allowances is not None:
            session.answers, session.lists = self.allowances
        if self.clock is not None:
            session.clock = self.clock
