"""Checks the boards of a worker regularly, and sends an alert on each change, at most one per minute and kind."""

import asyncio
import hashlib
import itertools
import logging
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from ...core.views import View
from ...live.collection.alarms import alarms_of
from ...live.collection.collection_state import CollectionState
from ..board.board import Board
from ..board.few_outcomes import FewOutcomesOut
from ..board.guard_summary import GuardCountsOut, count_by_guard
from ..worker.board_session import LATEST, BoardSession
from ..worker.few_outcomes_watch import few_outcomes_of
from ..worker.log_writer import MOST_AT_ONCE
from ..worker.worker import Worker
from .webhook import Alert, Webhook

EVERY = 5.0  # seconds between checks
APART = 60.0  # seconds between alerts of one kind for one board
MOST_LATE = 0.05  # share of late ones among the latest answers
MOST_BEHIND = MOST_AT_ONCE  # queued events: more than fit in one commit
_NEVER = -APART
_MOST_NAMES = 10  # names listed in an alert
_MOST_QUERIES = 10  # queries listed in an alert
_MOST_ITEMS = 10  # items listed in an alert
_FROM_LOG = ("regime", "surge")  # identical at every worker
_AFTER_FAULT = 60.0  # seconds

log = logging.getLogger("steadyrank.service")


class News(NamedTuple):
    """A difference from what was last reported; `mark`: the state to compare with next time."""

    kind: str
    mark: Any
    state: str  # on, off, or news
    text: str
    detail: dict[str, Any]


class _Reported:
    """What was reported of a board, or of the worker: for each kind the mark, and when."""

    def __init__(self) -> None:
        self.marks: dict[str, Any] = {}
        self.times: dict[str, float] = {}
        self.withheld = False  # a difference was withheld because of the limit per minute
        self.applied = -1  # the event up to which the board was checked
        self.fold: weakref.ref[Board] | None = None

    def on(self, kind: str) -> bool:
        """Return whether this condition was last reported as on."""
        return bool(self.marks.get(kind))


class Watcher:
    """Sends an alert for each change since the last check. A board's state at its first check is not news.

    `name` identifies this worker. An alert on a new regime has the same id at every worker, since all replay the same
    log; other alerts are each worker's own.
    """

    def __init__(self, worker: Worker, put: Callable[[Alert], None], name: str) -> None:
        self._worker, self._put, self._name = worker, put, name
        self._serial = itertools.count(1)
        self._reported: dict[int, _Reported] = {}  # by number of the board
        self._own = _Reported()

    async def run(self, every: float = EVERY) -> None:
        """Check regularly until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(every)

    async def look(self) -> None:
        """Check everything once, letting other requests run between boards."""
        worker = self._worker
        if not worker.ready:
            return
        news = itertools.chain(_of_worker(worker, self._own), _of_clocks(worker, self._own))
        self._report(self._own, None, news)
        for number, session in list(worker.cache.by_number.items()):
            reported = self._reported.setdefault(number, _Reported())
            items = await few_outcomes_of(worker, session)
            self._report(
                reported,
                session.name,
                itertools.chain(_of_board(session, reported), _of_few_outcomes(items, reported)),
            )
            reported.applied, reported.fold = session.applied, weakref.ref(session.board)
            await asyncio.sleep(0)
        numbers = worker.cache.by_number.keys() | worker.cache.evicted_by_number.keys()
        self._reported = {number: reported for number, reported in self._reported.items() if number in numbers}

    def _report(self, reported: _Reported, board: str | None, news_of: Iterator[News]) -> None:
        now, withheld = self._worker.monotonic(), False
        for news in news_of:
            if now < reported.times.get(news.kind, _NEVER) + APART:
                withheld = True  # after a minute it is news again, or over
                continue
            reported.marks[news.kind], reported.times[news.kind] = news.mark, now
            what = news.mark if news.kind in _FROM_LOG else (self._name, next(self._serial))
            id_ = hashlib.sha256(f"{news.kind} {board} {what}".encode()).hexdigest()[:32]
            text = news.text if board is None else f"Board {board}: {news.text}"
            self._put(Alert(id_, news.kind, board, news.state, self._worker.clock(), text, news.detail))
        reported.withheld = withheld


async def watch(worker: Worker, webhook: Webhook | None) -> None:
    """Watch a worker until cancelled, if there is a webhook."""
    if webhook is None:
        return
    watcher = Watcher(worker, webhook.put, f"{worker.next_key()}")
    try:
        while True:
            try:
                await watcher.run()
            except Exception:  # an error with one board must not end all alerts
                log.exception("checking for alerts failed")
                await asyncio.sleep(_AFTER_FAULT)
    finally:
        await asyncio.to_thread(webhook.close)


def _of_worker(worker: Worker, reported: _Reported) -> Iterator[News]:
    behind, available = worker.log_writer.behind, worker.log_writer.available
    away = not available and reported.on("away")  # twice in a row, since nothing is known of the store at startup
    reported.marks["away"] = not available
    bad = behind > MOST_BEHIND or away
    if bad != reported.on("behind"):
        text = "The store accepts writes again."
        if bad:
            why = worker.log_writer.outdated or "the store is away"
            text = f"{behind:,} events wait to be written" + (f", and {why}." if away else ".")
        yield News("behind", bad, _state(bad), text, {"events": behind, "available": not away})
    if worker.divergences > reported.marks.get("divergence", 0):
        text = f"{worker.divergences} snapshots of this worker differ from another's: please report this bug."
        yield News("divergence", worker.divergences, "news", text, {"divergences": worker.divergences})
    names = sorted(worker.parked)
    if names != reported.marks.get("parked", []):
        text = "No board is parked any more."
        if names:
            first = worker.parked[names[0]]
            others = f" {len(names) - 1} others are parked as well." if len(names) > 1 else ""
            text = f"Board {first.name} is parked, and answers 503: {first.why}.{others}"
        detail = {"count": len(names), "boards": names[:_MOST_NAMES]}
        yield News("parked", names, _state(bool(names)), text, detail)


def _of_clocks(worker: Worker, reported: _Reported) -> Iterator[News]:
    skew = worker.clock.skew
    if skew.alarming != reported.on("clock"):
        words = f"A clock is wrong: {skew}." if skew.alarming else "Clocks agree again."
        if not worker.clock.settled:
            words += " For now nothing is deleted because of its age."
        seconds = {name: round(value) for name, value in skew._asdict().items()}
        yield News("clock", skew.alarming, _state(skew.alarming), words, seconds)


def _of_board(session: BoardSession, reported: _Reported) -> Iterator[News]:
    silence, late = session.board.impressions.silence, session.lateness.share
    if silence.alarming != reported.on("unanswered"):
        usual = silence.usual_share or 0.0
        text = f"{silence.share:.0%} of the lists are left unanswered; usual are at most {usual:.0%}."
        detail = {"share": silence.share, "usual": usual}
        yield News("unanswered", silence.alarming, _state(silence.alarming), text, detail)
    slow = late is not None and late > (MOST_LATE / 2.0 if reported.on("late") else MOST_LATE)
    if slow != reported.on("late"):
        text = f"{late or 0.0:.0%} of the latest {LATEST} answers came too late."
        yield News("late", slow, _state(slow), text, {"share": late or 0.0})
    if reported.applied != session.applied or reported.withheld:
        yield from _of_learner(session.board, reported)


def _of_learner(board: Board, reported: _Reported) -> Iterator[News]:
    """The checks that take some time, skipped while nothing happens on the board."""
    whole, (silenced, guards) = board.learner_state.view(), count_by_guard(board)
    view, segment = _changed_last(board, whole)
    mark = (
        (0, 0) if whole is None or view is None or not view.changes else (whole.n_changes, view.changes[-1].noticed)
    )
    before = reported.marks.setdefault("regime", mark)
    again = reported.fold is None or reported.fold() is not board  # a replay with other labels has changes of its own
    if mark[1] > before[1] or (mark[0] > before[0] and not again):
        assert view is not None
        change = view.changes[-1]
        which = "back to" if any(old.before == change.after for old in view.changes) else "a new"
        name = segment.get("segment")
        where = "" if not segment else f"in segment {name}, " if name else "in visits without a segment, "
        text = f"{where}{which} regime {change.after} since round {change.start}, noticed in round {change.noticed}"
        text += ": what was clicked no longer is, and the other way round." if change.inverted else "."
        trusted = change.after == view.trusted
        detail = {
            "round": change.start,
            "noticed": change.noticed,
            "before": change.before,
            "after": change.after,
            "inverted": change.inverted,
            "trusted": trusted,
            **segment,
        }
        yield News("regime", mark, "news", text if trusted else f"{text} It is not trusted.", detail)
    elif again:
        reported.marks["regime"] = mark
    if isinstance(board.learner_state, CollectionState):
        yield from _of_surges(board.learner_state, reported, again)
    yield from _of_guards(guards, reported)
    refused = reported.marks.setdefault("silenced", silenced)
    if silenced > refused:
        would = "would be" if board.learner_state.gate.shadow else "are"
        text = f"{silenced - refused} more clients or cohorts {would} refused, {silenced} in all."
        yield News("silenced", silenced, "news", text, {"count": silenced, "more": silenced - refused})
    else:
        reported.marks["silenced"] = silenced


def _of_surges(state: CollectionState, reported: _Reported, again: bool) -> Iterator[News]:
    """Report an alarm when it begins, and again whenever its number of queries has doubled."""
    alarms = alarms_of(state)
    latest = alarms[-1] if alarms else None
    mark = (0, 0) if latest is None else (latest.first, len(latest.queries).bit_length())
    before = reported.marks.setdefault("surge", mark)
    if latest is not None and mark > before:
        names = list({surge.id: surge.query or surge.id for surge in latest.surges}.items())
        items = list(dict.fromkeys(surge.item for surge in latest.surges))
        some = ", ".join(name for _, name in names[:_MOST_QUERIES])
        more = f" and {len(names) - _MOST_QUERIES} more" if len(names) > _MOST_QUERIES else ""
        what = "an item is" if len(latest.surges) == 1 else f"{len(latest.surges)} items are"
        where = "one query" if len(names) == 1 else f"{len(names)} queries"
        text = f"{what} suddenly clicked far more in {where}, noticed since round {latest.first}: {some}{more}."
        detail = {
            "alarm": latest.number,
            "first": latest.first,
            "latest": latest.latest,
            "count": len(names),
            "queries": [{"id": id, "query": None if name == id else name} for id, name in names[:_MOST_QUERIES]],
            "items": items[:_MOST_QUERIES],
        }
        yield News("surge", mark, "news", text, detail)
    elif again:
        reported.marks["surge"] = mark


def _of_few_outcomes(items: list[FewOutcomesOut], reported: _Reported) -> Iterator[News]:
    """Report an item once for as long as its clicks rise without outcomes."""
    names = {one.item for one in items}
    before = reported.marks.setdefault("few_outcomes", names)
    if new := [one for one in items if one.item not in before]:
        first = new[0]
        others = f" The same holds for {_others(len(new) - 1)}." if len(new) > 1 else ""
        text = (
            f"{first.item!r} was clicked more than before from round {first.start} to {first.end}, but fewer of "
            f"these clicks led to an outcome: {first.clicks} clicks where about {first.expected_clicks:.0f} were "
            f"expected, and {first.outcomes} outcomes where as many clicks lead to about "
            f"{first.expected_outcomes:.0f}.{others}"
        )
        detail = {"count": len(new), "items": [msgspec.structs.asdict(one) for one in new[:_MOST_ITEMS]]}
        yield News("few_outcomes", names, "news", text, detail)
    else:
        reported.marks["few_outcomes"] = names


def _others(count: int) -> str:
    return "another item" if count == 1 else f"{count} other items"


def _of_guards(guards: list[GuardCountsOut], reported: _Reported) -> Iterator[News]:
    """Report that a guard stood down since the last check, even if it is active again."""
    times = sum(one.stood_down for one in guards)
    before = reported.marks.setdefault("guard", times)
    if times > before:
        names = " and ".join(one.guard for one in guards if one.stood_down)
        since = min((one.stands_down for one in guards if one.stands_down is not None), default=None)
        text = f"{names} would refuse too many of the recent visits and stands down: nobody is refused meanwhile."
        yield News("guard", times, "news", text, {"times": times, "more": times - before, "since": since})
    else:
        reported.marks["guard"] = times


def _changed_last(board: Board, view: View | None) -> tuple[View | None, dict[str, str | None]]:
    """The view with the latest change, and its segment if each segment has a view of its own."""
    names = board.learner_state.features.segments
    if view is None or not names:
        return view, {}
    each = zip(view.segments, (None, *names), strict=True)
    last, name = max(each, key=lambda pair: pair[0].changes[-1].noticed if pair[0].changes else 0)
    return last, {"segment": name}


def _state(on: bool) -> str:
    return "on" if on else "off"
