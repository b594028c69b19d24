"""A demonstration: a board and one that believes every click, with simulated users and occasional attacks.

Simulated requests take the same path as real ones, and each visitor goes to both boards. Attacks alternate between
two kinds: a few named bots among the people, which the guard detects, and a flood under ever new names, which only
the learner can detect.
"""

import asyncio
import contextlib
import itertools
import logging
import math
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import NamedTuple

import numpy as np

from ..core.arrays import Ints
from ..core.contract import Visit
from ..core.refusals import Refused
from ..live.answers import Given
from ..users.cascade import Cascade
from .board.config import NEW_BOARD
from .board.events import Created
from .storage import Unavailable, open_store
from .worker import rank_and_answer
from .worker.impression_ids import open_sealed
from .worker.worker import Worker

log = logging.getLogger("steadyrank.service")
BOARD, PLAIN = "demo", "plain"
_PIZZAS = """
Margherita, Diavola, Funghi, Capricciosa, Quattro formaggi, Prosciutto, Ortolana, Napoli, Tonno e cipolla,
Salsiccia, Bufala, Marinara, Calzone, Parmigiana, Rucola, Speck e brie, Gorgonzola e noci, Frutti di mare,
Salmone, Carbonara, Boscaiola, Romana, Siciliana, Pugliese, Tartufo, Zucchine, Peperoni, Carciofi, Patate,
Wurstel, Mortadella, Nduja, Burrata, Bresaola, Melanzane, Radicchio, Tirolese, Hawaii, Broccoli, Cipolla rossa
"""
ITEMS = [name.strip() for name in _PIZZAS.split(",")]
_FAVOURITES = np.linspace(0.42, 0.24, 7)  # click probabilities of the items that people like
_TARGETS = 3  # items that the attack promotes; nobody likes them
# `lifetime`: unanswered lists are learnt from after two seconds. Clients are not limited, since limits would stop
# named bots before the guard sees them.
_CONFIG = NEW_BOARD.changed({"length": 6, "lifetime": 2.0, "client_minute": 100_000, "client_lists": 100_000})
_CONFIGS = {BOARD: _CONFIG, PLAIN: _CONFIG.changed({"learner": "CascadeTS"})}
_SLICE = 0.05  # seconds between groups of users
_PEOPLE = 2_000  # recurring visitors
_ZEAL = 0.6  # chance that a bot clicks a target it looks at; below 1 to look human


class Attack(NamedTuple):
    """Bots among the visitors."""

    share: float  # of the visits
    names: int  # number of bot names; 0: a new one for each visit
    words: str


ATTACKS = (
    Attack(
        0.2, 20, "20 bots come again and again, a fifth of the visits, and click {}. {} has a guard that finds them"
    ),
    Attack(
        0.9, 0, "bots make nine of ten visits, each under a new name, and click {}. {} serves both until it knows"
    ),
)


class Plan(NamedTuple):
    """The schedule: honest clicks for `after` seconds, then an attack, repeated."""

    after: float = 60.0
    rate: float = 60.0  # lists a second
    seed: int = 0

    @property
    def lasts(self) -> float:
        """Seconds of an attack: if it were longer than the time before, its regime would become the trusted one."""
        return min(40.0, 2.0 * self.after / 3.0)


def check_empty(url: str) -> None:
    """Raise ValueError unless the store is empty: simulated clicks must not mix with real ones."""
    with contextlib.closing(open_store(url)) as store:
        boards, keys = store.boards(), store.api_keys()
        used = store.head() >= store.partitions
    if boards or keys or used:
        names = ", ".join(sorted(name for name, _ in boards.values())) or "keys or deleted boards"
        raise ValueError(f"--demo needs an empty store, or none; the one given holds {names}")


class Crowd:
    """People, who click the first item they like, and bots, who click what they are paid for."""

    def __init__(self, plan: Plan) -> None:
        self._rng = np.random.default_rng(plan.seed)
        chances = self._rng.uniform(0.01, 0.09, len(ITEMS))
        chances[: _FAVOURITES.size] = _FAVOURITES
        chances = self._rng.permutation(chances)
        paid = np.argsort(chances, kind="stable")[:_TARGETS]
        self.targets = [ITEMS[k] for k in paid]
        self._people = Cascade.create(chances, _CONFIG.length)
        self._best = self._worth(np.argsort(-chances)[: _CONFIG.length])
        self.lost = dict.fromkeys(_CONFIGS, 0.0)  # by board: clicks that people would have made on the best list
        self._bots = Cascade.create(np.where(np.isin(np.arange(len(ITEMS)), paid), _ZEAL, 0.0), _CONFIG.length)

    def visitors(self, plan: Plan) -> int:
        """The number of visitors in a slice of time."""
        return int(self._rng.poisson(plan.rate * _SLICE))

    def name(self, attack: Attack | None) -> tuple[str, bool]:
        """The name of the next visitor, and whether it is a bot."""
        if attack is not None and self._rng.random() < attack.share:
            return f"bot {self._rng.integers(attack.names or 1 << 40)}", True
        return f"visitor {self._rng.integers(_PEOPLE)}", False

    def click(self, items: list[str], bot: bool) -> str | None:
        """The item that a visitor clicks, if any."""
        ranking, clicks = np.array([ITEMS.index(item) for item in items]), np.zeros(len(items), np.bool_)
        users = self._bots if bot else self._people
        last = users.click(Visit(1), ranking, clicks, self._rng) - 1
        return items[last] if clicks[last] else None

    def count(self, board: str, items: list[str]) -> None:
        """Add the true loss of a list to a person, as a chance of a click."""
        self.lost[board] += self._best - self._worth(np.array([ITEMS.index(item) for item in items]))

    def _worth(self, ranking: Ints) -> float:
        return float(self._people.value(Visit(1), ranking))

    def delay(self) -> float:
        """Seconds until an answer comes; infinite if there is none."""
        return math.inf if self._rng.random() < 0.03 else float(self._rng.uniform(0.1, 0.9))


def visits(plan: Plan, say: Callable[[str], None]) -> Callable[[Callable[[str], str], Worker], Awaitable[None]]:
    """Returns the background task of the service: it creates the boards, then sends users until it is cancelled.

    `link(path)` gives the address of a page.
    """

    async def run(link: Callable[[str], str], worker: Worker) -> None:
        crowd = Crowd(plan)
        for board, config in _CONFIGS.items():
            await worker.create_board(board, Created(config, ITEMS))
        say(f"Open {link(f'/boards/{BOARD}')} and watch. Ctrl-C ends it.")
        for attack, seconds in _stretches(plan):
            say(_news(crowd, attack, seconds))
            await _send(worker, crowd, plan, attack, seconds)

    return run


def _stretches(plan: Plan) -> Iterator[tuple[Attack | None, float]]:
    """Yield the attack, if any, and its duration, without end."""
    for attack in itertools.cycle(ATTACKS):
        yield None, plan.after
        yield attack, plan.lasts


def _news(crowd: Crowd, attack: Attack | None, seconds: float) -> str:
    news = f"honest users for {seconds:.0f} s, then an attack"
    if attack is not None:
        news = f"attack for {seconds:.0f} s: {attack.words.format(', '.join(crowd.targets), BOARD)}"
    if not any(crowd.lost.values()):
        return news
    ours, plain = (f"{crowd.lost[board]:,.0f}" for board in (BOARD, PLAIN))
    beside = f"{plain} on the board {PLAIN!r}, which believes every click"
    return f"{news}. Clicks of people lost so far, by what they like: {ours} here, {beside}"


async def _send(worker: Worker, crowd: Crowd, plan: Plan, attack: Attack | None, seconds: float) -> None:
    """Send visitors for some seconds, all concurrent, as on the web."""
    async with asyncio.TaskGroup() as group:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for _ in range(crowd.visitors(plan)):
                name, bot = crowd.name(attack)
                for board in _CONFIGS:
                    group.create_task(_visit(worker, crowd, board, name, bot))
            await asyncio.sleep(_SLICE)


async def _visit(worker: Worker, crowd: Crowd, board: str, name: str, bot: bool) -> None:
    try:
        session = worker.find_board(board)
        impression, items, *_ = rank_and_answer.rank(worker, session, None, None, name)
        if not bot:
            crowd.count(board, items)
        delay, clicked = crowd.delay(), crowd.click(items, bot)
        if math.isfinite(delay):
            await asyncio.sleep(delay)
            shown = open_sealed(impression, session.signer)
            await rank_and_answer.answer(worker, session, shown, Given(item=clicked))
    except (Refused, Unavailable) as error:  # a user of the demonstration may delete the board
        log.debug("a simulated user was refused", extra={"fields": {"why": str(error)}})
