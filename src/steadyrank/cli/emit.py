"""`steadyrank emit`: publish changed lists, and alerts, to a Kafka topic or a Redis stream."""

import argparse
import contextlib
import functools
import logging
import pathlib
from typing import Any

from .choices import key_of
from .ingest import add_stream, settings_of, stop_on_signal, stream_of


def add(commands: Any) -> None:
    """Add the command."""
    sub = commands.add_parser(
        "emit",
        help="publish changed lists, and alerts, to a topic or stream",
        description="Publish the lists of a running service to a Kafka topic or a Redis stream when they change, and "
        "with --alerts the alerts of its webhook. An admin key, if the service has keys, is read from --key-file or "
        "STEADYRANK_KEY.",
        epilog="example: steadyrank emit redis://localhost/changes --board front",
    )
    add_stream(sub)
    sub.add_argument(
        "--board", action="append", default=[], help="board to watch; may be repeated (default: all boards)"
    )
    sub.add_argument(
        "--every", type=float, default=5.0, metavar="SECONDS", help="interval between checks of the lists"
    )
    words = "where to receive alerts: give http://HOST:PORT/ to `steadyrank serve` as its --webhook"
    sub.add_argument("--alerts", default=None, metavar="HOST:PORT", help=words)
    words = "file with the secret that signs alerts, the same as that of the service"
    sub.add_argument("--webhook-secret-file", type=pathlib.Path, default=None, metavar="FILE", help=words)
    sub.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    from ..client import Client
    from ..service.alerts.webhook import read_secret, sign
    from ..streams.emit import AlertReceiver, ListWatcher
    from ..streams.opening import open_sink
    from ..streams.stream import read_address, read_place

    if not options.every > 0:
        raise ValueError(f"--every must be more than 0 seconds, not {options.every:g}")
    if (options.alerts is None) != (options.webhook_secret_file is None):
        raise ValueError("--alerts HOST:PORT and --webhook-secret-file FILE go together: alerts are signed")
    place = None if options.alerts is None else read_place(options.alerts)
    secret = None if place is None else read_secret(options.webhook_secret_file.read_text())
    address, settings, key = read_address(stream_of(options)), settings_of(options), key_of(options)
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.WARNING)
    with contextlib.ExitStack() as stack:
        stop = stack.enter_context(stop_on_signal())
        sink = stack.enter_context(contextlib.closing(open_sink(address, settings)))
        client = stack.enter_context(contextlib.closing(Client(options.server, key, timeout=30.0, tries=1)))
        if place is not None and secret is not None:
            receiver = AlertReceiver(*place, sink, functools.partial(sign, secret))
            stack.enter_context(contextlib.closing(receiver))
        print(f"emitting to {address.name} what changes at {options.server}", flush=True)
        ListWatcher(client, sink, frozenset(options.board)).run(stop, options.every)
