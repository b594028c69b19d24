"""Services to test: inside this process with clocks that the test controls, or as processes that can be killed."""

import asyncio
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

import httpx
import numpy as np

from nursery import Nursery
from steadyrank.client import Client
from steadyrank.client.wire import ResponseReader
from steadyrank.service.board import events
from steadyrank.service.http.app import Service
from steadyrank.service.storage import Unavailable, open_store
from steadyrank.service.worker import worker as worker_module
from steadyrank.service.worker.clock import Clock
from steadyrank.service.worker.recovery import rebuild
from steadyrank.service.worker.worker import Worker

worker_module.TICK = 0.01  # seconds: tests wait for ticks, users do not
ITEMS = [f"item {k}" for k in range(12)]
AS_USERS = ("-m", "steadyrank.cli")  # program of a server started without forking


class Clocks:
    """Wall clock and monotonic clock, both in seconds, both advanced by the test."""

    def __init__(self):
        self.wall, self.since = 1_700_000_000.0, 50.0

    def pass_time(self, seconds):
        self.wall += seconds
        self.since += seconds


async def until(condition, seconds=120.0):
    """Wait for what another task or thread is about to do."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        await asyncio.sleep(0.002)


def wait_until(condition, seconds=120.0):
    """Blocking `until`, for services that are processes."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


async def asked(app, method, address, headers=(), body=b""):
    """Code and content of an answer, requested as a server does: clients take twice the time of the whole service."""
    path, _, query = urllib.parse.quote(address, safe="%/?:@!$&'()*+,;=~").partition("?")
    scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http", "root_path": ""}
    scope |= {"method": method, "path": urllib.parse.unquote(path), "raw_path": path.encode()}
    scope |= {"query_string": query.encode(), "server": ("127.0.0.1", None), "client": ("127.0.0.1", 123)}
    scope["headers"] = [(b"host", b"127.0.0.1"), (b"content-length", b"%d" % len(body)), *headers]
    messages, parts, ended = [{"type": "http.request", "body": body}], [], asyncio.Event()

    async def receive():
        if messages:
            return messages.pop()
        await ended.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        if message["type"] == "http.response.start":
            parts.append(message["status"])
        else:
            parts.append(message.get("body", b""))
            if not message.get("more_body"):
                ended.set()

    await app(scope, receive, send)
    return parts[0], b"".join(parts[1:])


class Local:
    """A service inside this process."""

    def __init__(self, worker, clocks, service):
        self.worker, self.clocks, self.looks = worker, clocks, 0
        self.headers = {}  # sent with every request
        self._app = service.app()
        self.http = httpx.AsyncClient(transport=httpx.ASGITransport(app=self._app), base_url="http://127.0.0.1")

    async def ask(self, method, path, body=None, code=200, params=None, headers=None, content=b""):
        address = f"/v1/{path}?{urllib.parse.urlencode(params)}" if params else f"/v1/{path}"
        sent = [(name.lower().encode(), value.encode()) for name, value in (self.headers | (headers or {})).items()]
        content = content.encode() if isinstance(content, str) else content
        if body is not None:
            sent.append((b"content-type", b"application/json"))
            content = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        found, said = await asked(self._app, method, address, sent, content)
        assert found == code, (found, said.decode())
        return json.loads(said)

    async def board(self, name="b", **settings):
        return await self.ask("PUT", f"boards/{name}", {"items": ITEMS, "length": 4, **settings})

    async def rank(self, name="b", **body):
        return await self.ask("POST", f"boards/{name}/rank", body)

    async def answer(self, shown, name="b", code=200, **body):
        return await self.ask("POST", f"boards/{name}/feedback", {"impression": shown["impression"], **body}, code)

    async def quiet(self):
        """Wait until the log is applied and a tick of the worker finds nothing due; or the store is unreachable."""
        applied = None
        while applied != self.worker.applied:
            try:
                await self.worker.catch_up()
                applied, looks = self.worker.applied, self.looks
                # two looks: one may belong to an applied event instead of a tick
                await until(lambda: self.looks > looks + 1)  # noqa: B023  (waited for here)
                await self.worker.catch_up()
            except Unavailable:
                if not self.worker.log_writer.available:
                    return
                applied = None

    def digest(self, name="b"):
        return self.worker.boards[name].board.digest()


@contextlib.asynccontextmanager
async def serving(url, clocks=None, seed=0, most_awake=1_000):
    """A service over a store; shut down cleanly at the end."""
    clocks = clocks or Clocks()

    def look():
        local.looks += 1
        return clocks.since

    clock = Clock(lambda: clocks.wall, lambda: clocks.since)
    worker = Worker(url, clock, look, np.random.default_rng(seed), most_awake)
    local = Local(worker, clocks, Service(worker))
    await worker.start()
    try:
        yield local
    finally:
        await local.http.aclose()
        await worker.stop()


def replayed(url, name="b"):
    """The digest of a board replayed from the start, without snapshots."""
    from steadyrank.service.worker.recovery import from_start

    store = open_store(url)
    try:
        number = next(n for n, (called, _) in store.boards().items() if called == name)
        with store.reading():
            afresh = from_start(store, number, name, store.head()).digest()
            assert rebuild(store, number, name, store.head()).digest() == afresh
        return afresh
    finally:
        store.close()


def sql(url, statement, *parameters):
    """Run a statement on the database directly, bypassing the store; SQLite only."""
    with contextlib.closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as database:
        return database.execute(statement, parameters).fetchall()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """`steadyrank serve` as a process: started by a shell with `within` or another `program`, else forked."""

    running = []  # noqa: RUF012
    nursery = None  # one per process, created with the first server

    @classmethod
    def kill_all(cls):
        while cls.running:
            cls.running.pop().kill()

    def __init__(self, url, log, port=None, options=(), within="", program=None):
        """`within`: shell commands before the server starts; `program`: what Python runs, as users do."""
        self.url, self.log, self.port, self.options = url, pathlib.Path(log), port or free_port(), options
        self.within, self.program = within, program
        self.address = f"http://127.0.0.1:{self.port}"
        self.clients = []
        self.start()

    def start(self):
        env = os.environ | {"STEADYRANK_STORE": self.url}
        arguments = ["serve", "--port", str(self.port), *self.options]
        if Server.nursery is None:
            Server.nursery = Nursery()
        self.log.touch()
        if self.program is None and not self.within and Server.nursery.suits(env):
            self.process = Server.nursery.fork(arguments, env, self.log)
        else:
            command = [sys.executable, *(self.program or AS_USERS), *arguments]
            if self.within:
                command = ["sh", "-c", f'{self.within} && exec "$@"', "sh", *command]
            with open(self.log, "a") as log:
                self.process = subprocess.Popen(command, stderr=log, stdout=log, env=env)
        Server.running.append(self)

    def ready(self):
        with contextlib.suppress(OSError, urllib.error.HTTPError):
            return urllib.request.urlopen(f"{self.address}/readyz", timeout=5).status == 200
        return False

    def readiness(self):
        """Code and text of /readyz, or the message of a refusal; None before the server listens."""
        try:
            with urllib.request.urlopen(f"{self.address}/readyz", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)["message"]
        except OSError:
            return None

    def wait(self, seconds=600.0):
        end = time.monotonic() + seconds
        while not self.ready():
            assert self.process.poll() is None, self.log.read_text()[-2000:]
            assert time.monotonic() < end, self.log.read_text()[-2000:]
            time.sleep(0.05)
        return self

    @property
    def token(self):
        """The token that the server printed for browsers, if it has no keys."""
        found = re.findall(r"\?token=([\w-]+)", self.log.read_text())
        return found[-1] if found else None

    def client(self, key=None, **options):
        """A client that is closed with the server; patient, because the machine may be busy with other tests."""
        self.clients.append(Client(self.address, key, **{"timeout": 10.0, "tries": 5, **options}))
        return self.clients[-1]

    def kill(self):
        for client in self.clients:
            client.close()
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        for client in self.clients:
            client.close()
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=120)


def received(content):
    """A server's response with this content."""
    body, response = json.dumps(content).encode(), ResponseReader()
    assert response.feed(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
    return response


async def answered(local, rounds, name="b"):
    """Show lists and answer each."""
    for i in range(rounds):
        shown = await local.rank(name)
        await local.answer(shown, name, clicked=shown["items"][i % len(shown["items"])])


def logged_events(store, number=None):
    """What the log says of a board, or of all, in order: each list by itself, however it was written."""
    found = [events.decode(entry.body) for entry in store.entries(0, store.head(), number)]
    return [one for event in found for one in (event.each() if isinstance(event, events.ListsShown) else [event])]


def number_of(store, name="b"):
    """Number of a board."""
    return next(n for n, (called, _) in store.boards().items() if called == name)
