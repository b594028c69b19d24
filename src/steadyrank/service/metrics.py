"""What a monitoring system reads."""

import bisect
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from .host import Host

_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)


class Metrics:
    """Counts of requests, and the state of a host when it is asked.

    Requests are counted in plain numbers: everything happens in one thread, and a counter that several threads may
    use costs as much as a tenth of a request.
    """

    def __init__(self, host: Host) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_State(host, self))
        self.requests: dict[tuple[str, int], int] = {}  # by route and status
        self.times: dict[str, list[int]] = {}  # by route: how many in each bucket, the last one without end
        self.seconds: dict[str, float] = {}

    def count(self, route: str, status: int, seconds: float) -> None:
        """A request was answered."""
        key = (route, status)
        self.requests[key] = self.requests.get(key, 0) + 1
        if route not in self.times:
            self.times[route], self.seconds[route] = [0] * (len(_BUCKETS) + 1), 0.0
        self.times[route][bisect.bisect_left(_BUCKETS, seconds)] += 1
        self.seconds[route] += seconds

    def page(self) -> bytes:
        """Everything in Prometheus' text format."""
        return generate_latest(self._registry)

    def families(self) -> Iterator[CounterMetricFamily | HistogramMetricFamily]:
        """Requests, for the page."""
        counts = CounterMetricFamily(
            "steadyrank_requests", "Requests by route and status", labels=["route", "status"]
        )
        for (route, status), count in self.requests.items():
            counts.add_metric([route, str(status)], count)
        yield counts
        times = HistogramMetricFamily("steadyrank_request_seconds", "Time to answer", labels=["route"])
        for route, found in self.times.items():
            total, buckets = 0, []
            for bound, count in zip((*map(str, _BUCKETS), "+Inf"), found, strict=True):
                total += count
                buckets.append((bound, float(total)))
            times.add_metric([route], buckets, self.seconds[route])
        yield times


class _State(Collector):
    def __init__(self, host: Host, metrics: Metrics) -> None:
        self._host, self._metrics = host, metrics

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily | HistogramMetricFamily]:
        host = self._host
        yield from self._metrics.families()
        yield GaugeMetricFamily("steadyrank_ready", "1 after the log was read", float(host.ready))
        if not host.ready:
            return
        journal = host.journal
        yield GaugeMetricFamily("steadyrank_store_available", "1 if the store answers", float(journal.available))
        yield GaugeMetricFamily("steadyrank_events_behind", "Events that wait to be written", journal.behind)
        yield GaugeMetricFamily("steadyrank_event", "The latest event applied", host.applied)
        yield CounterMetricFamily("steadyrank_commits", "Commits", journal.commits)
        yield CounterMetricFamily("steadyrank_divergences", "Snapshots unlike another worker's", host.divergences)
        board = {
            name: GaugeMetricFamily(f"steadyrank_board_{name}", f"{name.capitalize()} of a board", labels=["board"])
            for name in ("items", "impressions", "answers", "clicks", "unanswered", "corrupted")
        }
        for name, held in host.boards.items():
            summary, view = held.board.summary(), held.board.fold.view()
            for key, family in board.items():
                if key != "corrupted":
                    family.add_metric([name], summary[key])
                elif view is not None:
                    family.add_metric([name], view.corrupted)
        yield from board.values()
