"""A board to look at, and one that counts every click beside it: simulated users, and now and then an attack.

They go the way that requests go, each visitor to both boards. Attacks are of two kinds, in turns: some named bots
among the people, whom the guard finds, and a flood under new names, which only the learner can notice.
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
_FAVOURITES = np.linspace(0.42, 0.24, 7)  # chances of a click, of the items that people like
_TARGETS = 3  # items that the attack promotes; nobody likes them
# `lifetime`: a list that nobody answers within two seconds is learnt from. Clients may send as much as they like:
# limits would hold up named bots before the guard sees them.
_CONFIG = NEW_BOARD.changed({"length": 6, "lifetime": 2.0, "client_minute": 100_000, "client_lists": 100_000})
_CONFIGS = {BOARD: _CONFIG, PLAIN: _CONFIG.changed({"learner": "CascadeTS"})}
_SLICE = 0.05  # seconds between two groups of users
_PEOPLE = 2_000  # who come again and again
_ZEAL = 0.6  # chance that a bot clicks a target it looks at: less than 1, so as to look human


class Attack(NamedTuple):
    """Bots among the visitors."""

    share: float  # of the visits
    names: int  # of the bots; 0: each visit has a new one
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
    """What happens when: honest clicks for `after` seconds, an attack, and again."""

    after: float = 60.0
    rate: float = 60.0  # lists a second
    seed: int = 0

    @property
    def lasts(self) -> float:
        """Seconds of an attack: if it were longer than what came before, its regime would be the trusted one."""
        return min(40.0, 2.0 * self.after / 3.0)


def check_empty(url: str) -> None:
    """Refuse a store in which anything is kept: simulated clicks must not get among real ones."""
    with contextlib.closing(open_store(url)) as store:
        boards, keys = store.boards(), store.api_keys()
        used = store.head() >= store.partitions
    if boards or keys or used:
        names = ", ".join(sorted(name for name, _ in boards.values())) or "keys or deleted boards"
        raise ValueError(f"--demo needs an empty store, or none; the one given holds {names}")


class Crowd:
    """People who click the first item they like, and bots who click what they are paid for: two kinds of users."""

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
        """How many come in a slice of time."""
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
        """Count what a list costs a person, as a chance of a click: the truth, which no learner is told."""
        self.lost[board] += self._best - self._worth(np.array([ITEMS.index(item) for item in items]))

    def _worth(self, ranking: Ints) -> float:
        return float(self._people.value(Visit(1), ranking))

    def delay(self) -> float:
        """Seconds until an answer comes; infinite for those who leave without one."""
        return math.inf if self._rng.random() < 0.03 else float(self._rng.uniform(0.1, 0.9))


def visits(plan: Plan, say: Callable[[str], None]) -> Callable[[Callable[[str], str], Worker], Awaitable[None]]:
    """What runs beside the service: makes the board, then sends users to it until it is stopped.

    Its pages are at `link(path)`.
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
    """Stretches of time without end: which attack there is, and for how many seconds."""
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
    """Visitors for some seconds. Nobody waits for the answer of another, as on the web."""
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
    except (Refused, Unavailable) as error:  # somebody who plays with the board may delete it
        log.debug("a simulated user was refused", extra={"fields": {"why": str(error)}})
