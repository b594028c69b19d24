"""Resource limits of connections: options of `steadyrank serve`."""

from typing import NamedTuple

from ...core.memory_limit import MOST_BYTES


class Limits(NamedTuple):
    """Limits on what clients can make a server hold and wait for, without a proxy in front of it."""

    connections: int = 4_096
    address_connections: int = 1_024
    first_byte_seconds: float = 10.0
    request_seconds: float = 30.0
    url_bytes: int = 8_192
    head_bytes: int = 16_384
    body_bytes: int = 32 << 20
    unfinished_bytes: int = 256 << 20
    board_bytes: int = MOST_BYTES


# for each limit: what it bounds, and the minimum with which requests can still be served
MEANINGS: dict[str, tuple[str, float]] = {
    "connections": ("connections at once; with more, those that have waited longest are closed", 8),
    "address_connections": ("connections of one address at once, of an IPv6 network of 64 bits", 1),
    "first_byte_seconds": ("time until a new connection sends its first byte", 0.1),
    "request_seconds": ("time to send a whole request, and to take some of its answer", 0.1),
    "url_bytes": ("length of a request's address", 1_024),
    "head_bytes": ("length of a request's address and headers", 2_048),
    "body_bytes": ("length of a body; less than that for most requests", 1_024),
    "unfinished_bytes": ("bodies being received, in all; they wait on the disk, the oldest ends first", 1 << 20),
    "board_bytes": ("memory of a board; one that would need more is refused", 1 << 20),
}


def check(limits: Limits) -> None:
    """Raise ValueError for limits with which no request could be served."""
    for name, value in limits._asdict().items():
        _, least = MEANINGS[name]
        if not value >= least:
            raise ValueError(f"--{name.replace('_', '-')} must be at least {least:g}, not {value:g}")
