"""What a page shows of a board: few numbers, whatever the number of items."""

import itertools
from typing import Any

import numpy as np

from ..contract import Bools, Floats, Ints
from ..live.fold import Fold
from ..live.intake import OPEN
from ..views import View
from .boards import Board
from .held import Held
from .shapes import ShortView
from .watch_shapes import BandOut, TimelineOut, WatchItem

MOST_DIVERGING = 20
_DRAWS = 60  # lists looked at to see what users get
_MOST_DRAWN = 75_000  # items in all of these: with very many items, one list has to do
_Z = 1.959963984540054  # 95 % of a normal distribution lie within so many standard deviations


def watch(held: Held, lag: int) -> dict[str, Any]:
    """The members of `WatchOut` but the board's own and the labels; `lag`: events not applied yet."""
    board, edge = held.board, held.edge
    view, timeline = board.fold.view(), board.learning.timeline
    items = _Items(board.fold, view)
    return {
        "event": held.applied,
        "open": int(np.count_nonzero(board.intake.state == OPEN)),
        "events": board.events - edge.events,
        "edge": edge.seq + 1 if edge.seq else held.number,
        "lag": lag,
        "stale": board.stale,
        "first_round": edge.first_round,
        "list": items.at(typical(board)),
        "diverging": items.diverging(),
        "view": None if view is None else _short(view),
        "bands": [] if view is None else bands(view, board.intake.rounds),
        "timeline": TimelineOut(size=timeline.size, points=timeline.points()),
    }


def _short(view: View) -> ShortView:
    return ShortView(
        current=view.current,
        trusted=view.trusted,
        rounds=view.rounds,
        rejected=view.rejected,
        corrupted=view.corrupted,
        n_changes=view.n_changes,
    )


def bands(view: View, rounds: int) -> list[BandOut]:
    """Which regime each round up to the latest belongs to, in order.

    Rounds before the first change that is remembered are taken for the regime that it left. Where feedback comes out
    of order, a change may be dated before the one that was noticed before it: what was noticed last counts.
    """
    starts = [(1, view.changes[0].before if view.changes else view.current)]
    starts += [(max(change.start, 1), change.after) for change in view.changes]
    later = itertools.accumulate((start for start, _ in reversed(starts[1:])), min, initial=rounds + 1)
    found: list[BandOut] = []
    for (start, regime), after in zip(starts, reversed(list(later)), strict=True):
        end = after - 1
        if end < start:
            continue
        if found and found[-1].regime == regime:
            found[-1].end = end
        else:
            found.append(BandOut(start=start, end=end, regime=regime, trusted=regime == view.trusted))
    return found


def typical(board: Board) -> list[int]:
    """The slots of the list that users get now, from the top.

    There is chance in a list, and while regimes differ it serves two of them: items go by their places in a few
    lists, drawn with the same luck at every look.
    """
    fold, rng = board.fold, np.random.default_rng(0)
    points: Floats = np.zeros(fold.capacity)
    size = min(fold.length, int(np.count_nonzero(fold.active)))
    for _ in range(min(_DRAWS, 1 + _MOST_DRAWN // fold.capacity) if size else 0):
        ranking, _ = fold.rank(board.intake.rounds + 1, None, size, rng)
        points[ranking] += np.arange(size, 0, -1)
    drawn = np.flatnonzero(points)
    slots: list[int] = drawn[np.argsort(-points[drawn], kind="stable")[:size]].tolist()
    return slots


def interval(mean: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Wilson's 95 % interval of rates estimated from so many looks, those that a prior stands for among them.

    It stands for the quantiles of the Beta distribution with the same mean and weight.
    """
    share = _Z * _Z / weight
    centre = (mean + share / 2.0) / (1.0 + share)
    half = _Z / (1.0 + share) * np.sqrt(mean * (1.0 - mean) / weight + share / (4.0 * weight))
    return np.maximum(centre - half, 0.0), np.minimum(centre + half, 1.0)


class _Items:
    """The items of a fold with their rates, and their estimates and intervals in the trusted regime.

    While bots click, the current regime is theirs: measured by it, what honest users like would seem to be the fraud.
    """

    def __init__(self, fold: Fold, view: View | None) -> None:
        size = len(fold.names)
        self._fold = fold
        self._active: Bools = fold.active[:size]
        self._looks: Ints = fold.looks[:size]
        self._rate: Floats = fold.clicks[:size] / np.maximum(self._looks, 1)
        self._estimate: Floats | None = None
        if view is not None:
            regime = view.regime(view.trusted)
            self._estimate = regime.estimate[:size]
            self._low, self._high = interval(self._estimate, regime.weight[:size])

    def at(self, slots: list[int]) -> list[WatchItem]:
        """The items in these slots."""
        return [self._item(slot) for slot in slots]

    def diverging(self) -> list[WatchItem]:
        """Items whose click rate is outside of the interval, the farthest in its own standard deviations first.

        By more than one click: no interval reaches down to 0, and an item never clicked would always be outside.
        """
        if self._estimate is None:
            return []
        slack = 1.0 / np.maximum(self._looks, 1)
        beyond = np.maximum(self._low - self._rate, self._rate - self._high) - slack
        outside = np.flatnonzero((beyond > 0.0) & (self._looks > 0))
        order = np.argsort(-beyond[outside] * np.sqrt(self._looks[outside]), kind="stable")
        return self.at(outside[order][:MOST_DIVERGING].tolist())

    def _item(self, slot: int) -> WatchItem:
        said: tuple[float | None, ...] = (None, None, None)
        if self._estimate is not None:
            said = float(self._estimate[slot]), float(self._low[slot]), float(self._high[slot])
        return WatchItem(
            item=self._fold.names[slot],
            active=bool(self._active[slot]),
            looks=int(self._looks[slot]),
            clicks=int(self._fold.clicks[slot]),
            rate=float(self._rate[slot]),
            estimate=said[0],
            low=said[1],
            high=said[2],
        )
