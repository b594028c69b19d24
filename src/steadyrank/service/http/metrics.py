"""Metrics for monitoring, in the format of Prometheus."""

import asyncio
import bisect
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from ..alerts.webhook import Webhook
from ..board.guard_summary import GuardCountsOut, count_guarded
from ..worker.board_session import BoardSession
from ..worker.worker import Worker

_COUNTED = ("items", "impressions", "answers", "clicks", "outcomes", "unanswered")
_OF_A_BOARD = (*_COUNTED, "corrupted", "silence", "alarm", "late", "changes", "silenced")
_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)


class Metrics:
    """Counts requests, and reports the state of a worker when scraped.

    Requests are counted in plain numbers, since everything runs in one thread, and a thread-safe counter would cost a
    tenth of a request's time.
    """

    def __init__(self, worker: Worker, webhook: Webhook | None = None) -> None:
        self._webhook = webhook
        self._registry, self._state = CollectorRegistry(), _State(worker, self)
        self._registry.register(self._state)
        self.requests: dict[tuple[str, int], int] = {}  # by route and status
        self.times: dict[str, list[int]] = {}  # by route: counts per bucket, the last one unbounded
        self.seconds: dict[str, float] = {}
        self.forwarded = {"link": 0, "http": 0}  # requests answered by other workers, by how they were forwarded

    def count(self, route: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        key = (route, status)
        self.requests[key] = self.requests.get(key, 0) + 1
        if route not in self.times:
            self.times[route], self.seconds[route] = [0] * (len(_BUCKETS) + 1), 0.0
        self.times[route][bisect.bisect_left(_BUCKETS, seconds)] += 1
        self.seconds[route] += seconds

    async def page(self) -> bytes:
        """All metrics in Prometheus' text format; boards are read one by one, with other requests in between."""
        await self._state.look()
        return await asyncio.to_thread(generate_latest, self._registry)

    def families(self) -> Iterator[CounterMetricFamily | HistogramMetricFamily]:
        """Metrics of requests."""
        counts = CounterMetricFamily(
            "steadyrank_requests", "Requests by route and status", labels=["route", "status"]
        )
        for (route, status), count in self.requests.items():
            counts.add_metric([route, str(status)], count)
        yield counts
        times = HistogramMetricFamily("steadyrank_request_seconds", "Time to answer", labels=["route"])
        for route, in_buckets in self.times.items():
            total, buckets = 0, []
            for bound, count in zip((*map(str, _BUCKETS), "+Inf"), in_buckets, strict=True):
                total += count
                buckets.append((bound, float(total)))
            times.add_metric([route], buckets, self.seconds[route])
        yield times
        forwarded = CounterMetricFamily(
            "steadyrank_passed_on", "Requests that the owners of their boards answered", labels=["by"]
        )
        for way, count in self.forwarded.items():
            forwarded.add_metric([way], count)
        yield forwarded
        hook = self._webhook
        alerts = CounterMetricFamily("steadyrank_alerts", "Alerts: sent, failed tries, given up", labels=["outcome"])
        for outcome in ("sent", "failed", "lost"):
            alerts.add_metric([outcome], 0 if hook is None else getattr(hook, outcome))
        yield alerts


class _State(Collector):
    def __init__(self, worker: Worker, metrics: Metrics) -> None:
        self._host, self._metrics = worker, metrics
        self._boards: list[tuple[str, dict[str, float], list[GuardCountsOut]]] = []

    async def look(self) -> None:
        """Read the state of each board in memory."""
        self._boards = [await self._stands(session) for session in list(self._host.boards.values())]

    async def _stands(self, session: BoardSession) -> tuple[str, dict[str, float], list[GuardCountsOut]]:
        await asyncio.sleep(0)
        view = await self._host.inspect_board(session, lambda board: board.learner_state.view())
        board = session.summary()
        silenced, guards = count_guarded(session.board)
        values = {
            **{key: getattr(board, key) for key in _COUNTED},
            "silence": board.silence.share,
            "alarm": float(board.silence.alarming),
            "silenced": silenced,
            **({} if session.lateness.share is None else {"late": session.lateness.share}),
            **({} if view is None else {"corrupted": view.corrupted, "changes": view.n_changes}),
        }
        return session.name, {key: values[key] for key in _OF_A_BOARD if key in values}, guards

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily | HistogramMetricFamily]:
        worker = self._host
        yield from self._metrics.families()
        yield GaugeMetricFamily("steadyrank_ready", "1 after the log was read", float(worker.ready))
        if not worker.ready:
            return
        log_writer = worker.log_writer
        yield GaugeMetricFamily("steadyrank_store_available", "1 if the store answers", float(log_writer.available))
        yield GaugeMetricFamily("steadyrank_events_behind", "Events that wait to be written", log_writer.behind)
        yield GaugeMetricFamily("steadyrank_event", "The latest event applied", worker.applied)
        yield GaugeMetricFamily("steadyrank_partitions", "Partitions that this worker serves", len(worker.served))
        of = worker.replicas
        copies, given = (0, 0) if of is None else (len(of.copies), of.given)
        yield GaugeMetricFamily("steadyrank_replicas", "Boards of other workers that are copied here", copies)
        yield CounterMetricFamily("steadyrank_replica_lists", "Lists that were made from these copies", given)
        yield CounterMetricFamily("steadyrank_commits", "Commits", log_writer.commits)
        yield CounterMetricFamily("steadyrank_divergences", "Snapshots unlike another worker's", worker.divergences)
        skew = GaugeMetricFamily(
            "steadyrank_clock_skew_seconds", "Clocks ahead of the worker's time", labels=["clock"]
        )
        for clock, seconds in worker.clock.skew._asdict().items():
            skew.add_metric([clock], seconds)
        yield skew
        boards = GaugeMetricFamily("steadyrank_boards", "Boards, in memory or asleep", labels=["state"])
        for state, count in worker.cache.count_boards().items():
            boards.add_metric([state], count)
        yield boards
        board = {
            name: GaugeMetricFamily(f"steadyrank_board_{name}", f"{name.capitalize()} of a board", labels=["board"])
            for name in _OF_A_BOARD
        }
        refused = GaugeMetricFamily(
            "steadyrank_board_refused", "Answers of a board that a guard refused", labels=["board", "guard"]
        )
        stood_down = GaugeMetricFamily(
            "steadyrank_board_stood_down", "How often a guard of a board stood down", labels=["board", "guard"]
        )
        for name, counts, guards in self._boards:
            for key, value in counts.items():
                board[key].add_metric([name], value)
            for one in guards:
                refused.add_metric([name, one.guard], one.refused)
                stood_down.add_metric([name, one.guard], one.stood_down)
        yield from board.values()
        yield refused
        yield stood_down
