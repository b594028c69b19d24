"""What a monitoring system reads."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from .host import Host

_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)


class Metrics:
    """Counts of requests, and the state of a host when it is asked."""

    def __init__(self, host: Host) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "steadyrank_requests", "Requests by route and status", ["route", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "steadyrank_request_seconds", "Time to answer", ["route"], buckets=_BUCKETS, registry=self._registry
        )
        self._registry.register(_State(host))
        self._children: dict[tuple[str, int], Counter] = {}
        self._times: dict[str, Histogram] = {}

    def count(self, route: str, status: int, seconds: float) -> None:
        """A request was answered."""
        key = (route, status)
        if key not in self._children:
            self._children[key] = self._requests.labels(route, str(status))
            self._times[route] = self._seconds.labels(route)
        self._children[key].inc()
        self._times[route].observe(seconds)

    def page(self) -> bytes:
        """Everything in Prometheus' text format."""
        return generate_latest(self._registry)


class _State(Collector):
    def __init__(self, host: Host) -> None:
        self._host = host

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        host = self._host
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
