"""Start the server: compile the default learner and guards, bind its sockets, and serve until told to stop.

Logs are compacted regularly. Events are logged to standard error, one line of JSON each.
"""

import asyncio
import contextlib
import datetime
import functools
import gc
import json
import logging
import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Iterator

import uvicorn

from ...core.compiling.announcing import unannounced
from ...core.compiling.jit import told_of_compiling
from ...live import Ranker
from ..alerts.webhook import Webhook
from ..board.checks import guards_of
from ..board.config import NEW_BOARD
from ..storage import Key, Outdated, Unavailable, Unwritable, open_store, would_be_new
from ..tracing import begin as begin_tracing
from ..tracing import traced
from ..worker.worker import MOST_AWAKE, Worker
from .app import Service
from .auth import loopback
from .connections import Connections, allow_files, return_memory
from .direct import Direct
from .limits import Limits

log = logging.getLogger("steadyrank.service")
_LIMITS = Limits()
_SWEEP = 3  # ticks of a tenth of a second between checks for timed-out connections


def serve(
    url: str,
    address: str,
    port: int,
    keep_days: float,
    keep_events: int,
    background: Callable[[Callable[[str], str], Worker], Awaitable[None]] | None = None,
    limits: Limits = _LIMITS,
    invite: Callable[[str], None] | None = None,
    most_awake: int = MOST_AWAKE,
    webhook: tuple[str, bytes] | None = None,
) -> None:
    """Serve a store's boards until interrupted or told to stop. Without API keys it only listens on loopback.

    `background(link, worker)` runs in the same process once the boards are ready, and does its own logging;
    `link(path)` makes the address of a page for a browser. While there is no API key, that address needs a token, and
    `invite` is called with it. `webhook`: the URL for alerts, and the secret that signs them.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(_Lines())
    level = logging.INFO if background is None else logging.WARNING
    logging.basicConfig(level=level, handlers=[handler], force=True)
    traces = begin_tracing()
    if not loopback(address) and would_be_new(url):  # checked before opening, which would create it
        raise ValueError(_without_keys(address, url))
    try:
        keys, token = _keys_and_token(url)
    except Outdated as error:
        raise ValueError(str(error)) from error
    except Unavailable as error:
        passing = isinstance(error, Unwritable) or not url.startswith("sqlite")
        if not passing or not loopback(address):
            raise ValueError(f"the store cannot be opened: {error}") from error
        keys, token = [], secrets.token_urlsafe(24)
    if not loopback(address) and not keys:
        raise ValueError(_without_keys(address, url))
    bound = bind(address, port)
    here = f"http://{f'[{address}]' if ':' in address else address}:{port_of(bound)}"
    compile_ahead(log.warning)
    log.info("serving", extra={"fields": {"url": here, "store": url.split("://")[0]}})
    sys.setswitchinterval(0.001)  # seconds; the log writer's thread should not wait long for the GIL
    gc.set_threshold(10_000, 20, 20)  # requests leave few cycles behind

    def link(path: str) -> str:
        return f"{here}{path}?token={token}" if token else f"{here}{path}"

    in_background = None if background is None else functools.partial(background, link)
    if invite is not None and token:
        invite(link("/"))
    return_memory()
    limits = allow_files(limits)
    reached = announced(url, address, port_of(bound))
    worker = Worker(url, most_awake=most_awake, most_bytes=limits.board_bytes, address=reached)
    service = Service(
        worker,
        functools.partial(_compact, worker, keep_days, keep_events),
        background=in_background,
        limits=limits,
        token=token,
        webhook=None if webhook is None else Webhook(*webhook, clock=worker.clock),
    )
    connections = Connections(limits, None if traces else Direct(service))  # traces need a task per request
    config = uvicorn.Config(
        traced(service.app()),
        http=connections.protocol,  # type: ignore[arg-type]  # uvicorn only calls it
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        # seconds; longer than proxies keep idle connections, so that none is closed while a request is sent
        timeout_keep_alive=75,
        timeout_graceful_shutdown=10,
        backlog=2_048,
    )
    _Server(config, connections).run(bound)


def compile_ahead(say: Callable[[str], None]) -> None:
    """Load the default learner and guards, compiling them on a machine's first start, which is announced by `say`."""
    usual = NEW_BOARD
    announced = False

    def tell(begins: bool) -> None:
        nonlocal announced
        if begins and not announced:
            announced = True
            say(f"Compiling {usual.learner} and {usual.guard}, once on this machine: about a minute.")

    with told_of_compiling(tell), unannounced():
        ranker = Ranker(["a", "b"], 2, usual.learner, guard=guards_of(usual))
        ranker.feedback(ranker.rank(client=0).id, clicked="a")
        ranker.compile()
        ranker.view()
        ranker.guard_views()


def _keys_and_token(url: str) -> tuple[list[Key], str]:
    with contextlib.closing(open_store(url)) as store:
        keys = store.api_keys()
        now = store.time()
        return [key for key in keys if key.works(time.time() if now is None else now)], "" if keys else store.token()


def _without_keys(address: str, url: str) -> str:
    store = url if url.startswith("sqlite") else "postgresql://..."  # it may contain a password
    return (
        f"refusing to listen on {address} without API keys: "
        f"create one with `steadyrank keys create --scope admin --store {store}`"
    )


class _Server(uvicorn.Server):
    """Closes timed-out connections; exits with code 0 after an orderly stop."""

    def __init__(self, config: uvicorn.Config, connections: Connections) -> None:
        super().__init__(config)
        self._connections = connections

    async def on_tick(self, counter: int) -> bool:
        """Called every tenth of a second."""
        if counter % _SWEEP == 0:
            self._connections.sweep(time.monotonic())
        return await super().on_tick(counter)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle the signals that stop a service, without raising them again at the end."""
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


class _Lines(logging.Formatter):
    """Formats records as one line of JSON; `extra={"fields": {...}}` adds members."""

    def format(self, record: logging.LogRecord) -> str:
        """Format one record."""
        moment = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
        line = {"time": moment.isoformat(timespec="milliseconds"), "level": record.levelname.lower()}
        line["message"] = record.getMessage()
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


async def _compact(worker: Worker, keep_days: float, keep_events: int) -> None:
    """Compact the logs in a process of its own: replaying takes time, and requests should not wait for it.

    While the time is in doubt, only events beyond the maximal number are removed: `--now 0` makes none too old.
    """
    now = worker.clock() if worker.clock.settled else 0.0
    command = [sys.executable, "-m", "steadyrank.cli", "compact", "--now", f"{now}"]
    command += ["--keep-days", f"{keep_days:g}", "--keep-events", f"{keep_events}"]
    if worker.ownership is not None:
        command += ["--partitions", ",".join(map(str, sorted(worker.served)))]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command, env=os.environ | {"STEADYRANK_STORE": worker.url}, stdout=pipe, stderr=asyncio.subprocess.STDOUT
    )
    try:
        output, _ = await process.communicate()
    except asyncio.CancelledError:
        process.terminate()
        await process.wait()
        raise
    level = logging.INFO if process.returncode == 0 else logging.ERROR
    log.log(level, "compacted", extra={"fields": {"said": output.decode(errors="replace").strip()}})


def bind(address: str, port: int) -> list[socket.socket]:
    """Bind sockets to each address of a host name, on one port; port 0 picks a free one. None listens yet."""
    try:
        places = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise ValueError(f"--host {address} is no address of this machine: {error.strerror}") from None
    with contextlib.ExitStack() as undo:
        bound: list[socket.socket] = []
        for family, kind, protocol, _, place in dict.fromkeys(places):
            one = undo.enter_context(socket.socket(family, kind, protocol))
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                one.bind((place[0], port_of(bound) if bound else port, *place[2:]))
            except OSError as error:
                raise ValueError(f"cannot listen on {address}, port {port}: {error.strerror}; see --port") from None
            bound.append(one)
        undo.pop_all()
        return bound


def port_of(bound: list[socket.socket]) -> int:
    """The port, once it is known."""
    port: int = bound[0].getsockname()[1]
    return port


def announced(url: str, address: str, port: int) -> str:
    """The address at which other workers of a store reach this one: the one it listens on.

    If it listens on all addresses, it is the local address of the route to the database.
    """
    host = address
    if url.startswith("postgres") and address in ("0.0.0.0", "::"):
        from psycopg.conninfo import conninfo_to_dict

        there = conninfo_to_dict(url)
        database = str(there.get("hostaddr") or there.get("host") or "/")
        host = "127.0.0.1"
        if not database.startswith("/"):
            place = socket.getaddrinfo(database, int(there.get("port") or 5432), type=socket.SOCK_DGRAM)[0]
            with socket.socket(place[0], place[1]) as one:
                one.connect(place[4])  # a datagram socket: nothing is sent
                host = one.getsockname()[0]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
