"""The cost of hostile connections to a server and its other users: python bench/hostile.py [NAME ...].

Each attack gets a new server on SQLite. Memory is the increase while the attack is held; the stall is the longest
wait of another user, who requests /healthz every five milliseconds from a separate process.
"""

import contextlib
import http.client
import json
import math
import multiprocessing
import pathlib
import resource
import select
import socket
import sys
import tempfile
import time
import typing

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tests"))

from service_tools import Server, wait_until

HEAD = "{} HTTP/1.1\r\nhost: 127.0.0.1\r\n"
HOLD = 2.0  # seconds for which an attack is held


def memory(server):
    """Resident memory in MiB."""
    with open(f"/proc/{server.process.pid}/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmRSS"))


def probe(port, end, out):
    """The longest wait of a user in milliseconds; infinite if the server has closed the connection."""
    worst, user = 0.0, http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    while not end.is_set() and worst < math.inf:
        begin = time.perf_counter()
        try:
            user.request("GET", "/healthz")
            user.getresponse().read()
        except (OSError, http.client.HTTPException):
            worst = math.inf
        worst = max(worst, time.perf_counter() - begin)
        time.sleep(0.005)
    user.close()
    out.put(1_000 * worst)


def opened(server, count):
    return [socket.create_connection(("127.0.0.1", server.port)) for _ in range(count)]


def push(connection, content, seconds=60.0):
    """Send until all is sent, the peer has closed, or the time is over; returns the number of bytes."""
    connection.setblocking(False)
    sent, end = 0, time.monotonic() + seconds
    view = memoryview(content)
    while sent < len(content) and time.monotonic() < end:
        readable, writable, _ = select.select([connection], [connection], [], 0.5)
        try:
            if readable and not connection.recv(65_536):
                break
            if writable:
                sent += connection.send(view[sent : sent + (1 << 18)])
        except OSError:
            break
    return sent


def left(connections):
    """The number of connections that the server has not closed."""
    count = 0
    for connection in connections:
        connection.setblocking(False)
        try:
            while connection.recv(65_536):
                pass
        except BlockingIOError:
            count += 1
        except OSError:
            continue
    return count


def batch(server):
    """One batch of 7.9 MB in which every answer is refused."""
    shown = server.client().rank("b").impression
    rows = [{"board": "b", "impression": shown, "clicks": [2] * 170} for _ in range(10_000)]
    body = json.dumps({"feedback": rows}).encode()
    with contextlib.closing(opened(server, 1)[0]) as connection:
        head = HEAD.format("POST /v1/feedback") + f"connection: close\r\ncontent-length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)
        back = 0
        while part := connection.recv(1 << 20):
            back += len(part)
    return f"{len(body):,} bytes sent, {back:,} came back"


def ubi(server):
    """One body of 27 MB: 10,000 rows of User Behavior Insights, with 300 stray fields each."""
    stray = {f"s{k}": k for k in range(300)}
    row = {"application": "b", "query_response_hit_ids": ["x", "y"], **stray}
    body = json.dumps([{"query_id": f"q{k}"} | row for k in range(10_000)], separators=(",", ":")).encode()
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)) as user:
        user.request("POST", "/v1/ubi", body)
        answer = json.loads(user.getresponse().read())
    return f"{len(body):,} bytes sent, {answer['lists']:,} lists taken"


def url(server):
    """One address of 40 MiB."""
    connection = opened(server, 1)[0]
    return f"{push(connection, b'GET /' + b'a' * (40 << 20)):,} bytes taken", connection


def headers(server):
    """Headers without an end on one connection, up to 64 MiB."""
    connection = opened(server, 1)[0]
    sent = push(connection, HEAD.format("GET /healthz").encode() + b"a: b\r\n" * (64 << 20 >> 3))
    return f"{sent:,} bytes taken", connection


def bodies(server):
    """100 connections, each with 7.9 MB of a body that never ends."""
    content = HEAD.format("POST /v1/feedback").encode() + b"content-length: 8000000\r\n\r\n" + b" " * 7_900_000
    connections = opened(server, 100)
    sent = sum(push(connection, content, 5.0) for connection in connections)
    return f"{sent:,} bytes taken", *connections


def half_open(server):
    """3,000 requests with half of a head sent."""
    connections = opened(server, 3_000)
    for connection in connections:
        with contextlib.suppress(OSError):
            connection.sendall(HEAD.format("GET /healthz").encode() + b"x-slow: " + b"s" * 8_000)
    return "", *connections


def state(server):
    """The state of a board with 100,000 items."""
    size = len(json.dumps(server.client(timeout=60).state("large")))
    return f"{size:,} bytes"


ATTACKS = {f.__name__: f for f in (batch, ubi, url, headers, bodies, half_open, state)}


class Found(typing.NamedTuple):
    """The result of an attack."""

    memory: float  # MiB
    stall: float  # milliseconds
    said: str
    held: int  # connections
    closed: int  # of these, by the server, within a minute
    seconds: float  # until then


def measure(name, folder, options=()):
    """Run an attack on a new server with these options."""
    server = Server(f"sqlite:///{folder}/{name}.db", folder / f"{name}.log", options=options).wait()
    client = server.client(timeout=60)
    client.put_board("b", items=["x", "y"], length=2)
    client.rank("b")
    if name == "state":
        client.put_board("large", items=[f"item {k}" for k in range(100_000)])
    time.sleep(0.5)
    before, end, out = memory(server), multiprocessing.Event(), multiprocessing.Queue()
    user = multiprocessing.Process(target=probe, args=(server.port, end, out))
    user.start()
    time.sleep(0.5)
    begin = time.monotonic()
    said, *held = [found] if isinstance(found := ATTACKS[name](server), str) else found
    time.sleep(HOLD)
    more = memory(server) - before
    end.set()
    stall = out.get()
    user.join()
    with contextlib.suppress(AssertionError):
        wait_until(lambda: not left(held), 60.0 - min(50.0, time.monotonic() - begin))
    found = Found(more, stall, said, len(held), len(held) - left(held), time.monotonic() - begin)
    for connection in held:
        connection.close()
    server.kill()
    return found


def main():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[1:] or ATTACKS:
            found = measure(name, pathlib.Path(folder))
            closed = f"{found.closed:,} of {found.held:,} closed after {found.seconds:.0f} s" if found.held else ""
            print(f"{name:<12}{found.memory:8.1f} MiB{found.stall:10.0f} ms   {found.said}; {closed}", flush=True)


if __name__ == "__main__":
    main()
