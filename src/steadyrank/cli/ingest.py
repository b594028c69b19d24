"""`steadyrank ingest`: send messages of a Kafka topic or a Redis stream to a running service."""

import argparse
import contextlib
import logging
import os
import pathlib
import signal
import socket
from collections.abc import Iterator
from typing import Any

from .choices import add_server, key_of

_STREAM = "STEADYRANK_STREAM"  # a variable, so that a password in the address does not appear in process listings


def add(commands: Any) -> None:
    """Add the command."""
    sub = commands.add_parser(
        "ingest",
        help="send a topic or stream to a service to learn from",
        description="Send the messages of a Kafka topic or a Redis stream to a running service: answers, lists as "
        "for observe, and rows of User Behavior Insights, as JSON. Repeated messages count once; refused ones go to "
        "NAME.dead with the reason. The key, with the scopes observe and feedback if the service has keys, is read "
        "from --key-file or STEADYRANK_KEY.",
        epilog="example: steadyrank ingest redis://localhost/clicks --server http://127.0.0.1:8080",
    )
    add_stream(sub)
    sub.add_argument("--group", default="steadyrank", metavar="NAME", help="consumer group that shares the messages")
    words = "name of this consumer, the same after a restart: Redis keeps its messages (default: the host name)"
    sub.add_argument("--name", default=None, help=words)
    words = "id of the stream in the service; choose another if the stream was recreated (default: its name)"
    sub.add_argument("--source", default=None, metavar="NAME", help=words)
    sub.add_argument("--board", default=None, help="board of messages that name none, and of all rows of UBI")
    words = "for rows of UBI: actions that are outcomes, with the field of event_attributes that has their value "
    words += "(default: purchases)"
    sub.add_argument("--outcomes", default=None, metavar="ACTION[:FIELD],...", help=words)
    sub.add_argument("--batch", type=int, default=500, metavar="MESSAGES", help="messages per request")
    sub.add_argument("--metrics", default=None, metavar="HOST:PORT", help="where Prometheus reads lag and counts")
    sub.add_argument("--once", action="store_true", help="stop when no messages are left")
    sub.set_defaults(run=_run)


def add_stream(sub: Any) -> None:
    """Add options for the stream, the service and its API key."""
    words = f"kafka://BROKERS/TOPIC or redis://HOST/STREAM (default: the value of {_STREAM})"
    sub.add_argument("stream", nargs="?", default=None, metavar="STREAM", help=words)
    words = "a setting of librdkafka, such as security.protocol=SASL_SSL; may be repeated"
    sub.add_argument("--set", dest="settings", action="append", default=[], metavar="NAME=VALUE", help=words)
    words = "file with such settings, one per line, for passwords"
    sub.add_argument("--settings-file", type=pathlib.Path, default=None, metavar="FILE", help=words)
    add_server(sub)


def stream_of(options: argparse.Namespace) -> str:
    """The address of the stream."""
    url: str | None = os.environ.get(_STREAM) if options.stream is None else options.stream
    if not url:
        raise ValueError(f"name a stream, kafka://BROKERS/TOPIC or redis://HOST/STREAM, or set {_STREAM}")
    return url


def settings_of(options: argparse.Namespace) -> dict[str, str]:
    """Settings of librdkafka."""
    lines: list[str] = list(options.settings)
    if options.settings_file is not None:
        texts = (line.strip() for line in options.settings_file.read_text().splitlines())
        lines += [line for line in texts if line and not line.startswith("#")]
    settings = {}
    for line in lines:
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"--set needs NAME=VALUE, not {line.partition('=')[0]!r:.80}")
        settings[name.strip()] = value.strip()
    return settings


@contextlib.contextmanager
def stop_on_signal() -> Iterator[Any]:
    """Catch SIGTERM and SIGINT, to finish work in progress first; yields a function that tells if either came."""
    signals: list[int] = []
    before = {name: signal.signal(name, lambda number, frame: signals.append(number)) for name in _ENDING}
    try:
        yield lambda: bool(signals)
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


_ENDING = (signal.SIGTERM, signal.SIGINT)


def _run(options: argparse.Namespace) -> None:
    from ..click_logs.formats.ubi import parse_values
    from ..client import Client
    from ..streams.ingest import Ingest, Metrics
    from ..streams.opening import open_stream
    from ..streams.stream import read_address

    if not 1 <= options.batch <= 10_000:
        raise ValueError(f"--batch must be from 1 to 10000 messages, not {options.batch}")
    if options.outcomes is not None:
        parse_values(options.outcomes)
    address, settings, key = read_address(stream_of(options)), settings_of(options), key_of(options)
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.WARNING)
    with contextlib.ExitStack() as stack:
        stop = stack.enter_context(stop_on_signal())
        name = socket.gethostname() if options.name is None else options.name
        source = address.name if options.source is None else options.source
        opened = open_stream(address, options.group, name, source, settings)
        stream = stack.enter_context(contextlib.closing(opened))
        client = stack.enter_context(contextlib.closing(Client(options.server, key, timeout=60.0, tries=1)))
        metrics, rest = Metrics(options.metrics), (options.board, options.batch, stop)
        ingest = Ingest(stream, client, metrics, *rest, outcomes=options.outcomes)
        print(f"ingesting {address.name} into {options.server}", flush=True)
        ingest.run(options.once)
    counts = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(ingest.counts.items()))
    print(f"messages: {counts or 'none'}")
