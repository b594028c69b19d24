"""What a monitoring system reads of a process that takes messages of a stream."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server

from .stream import read_place


class Metrics:
    """Counts of messages by outcome, and how many wait."""

    def __init__(self, where: str | None) -> None:
        """`where`: HOST:PORT at which they are told; None: nowhere."""
        registry = CollectorRegistry()
        self._messages = Counter(
            "steadyrank_stream_messages", "Messages finished, by outcome", ["outcome"], registry=registry
        )
        self._lag = Gauge("steadyrank_stream_lag", "Messages not finished yet", ["partition"], registry=registry)
        self._told: set[str] = set()
        if where is not None:
            host, port = read_place(where)
            start_http_server(port, host, registry)

    def count(self, outcome: str) -> None:
        """A message was finished."""
        self._messages.labels(outcome).inc()

    def show_lag(self, lag: Mapping[str, int]) -> None:
        """How many messages wait; partitions that others read by now are left out."""
        for gone in self._told - lag.keys():
            self._lag.remove(gone)
        self._told = set(lag)
        for partition, count in lag.items():
            self._lag.labels(partition).set(count)
