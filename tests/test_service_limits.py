"""What connections may cost: real servers, and clients that send too much, too slowly, or never come to an end."""

import asyncio
import contextlib
import json
import pathlib
import resource
import socket
import threading

import pytest

from service_tools import ITEMS, Server, serving, wait_until
from steadyrank.service.http import bodies
from steadyrank.service.http.auth import make_key
from steadyrank.service.http.connections import network
from steadyrank.service.http.limits import Limits, check
from steadyrank.service.storage import open_store

GET = b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n"
HEADERS = b"".join(b"x-forwarded-%02d: " % k + b"v" * 140 + b"\r\n" for k in range(95))
HELD = 64  # KiB that one hostile connection may cost


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/store.db"


def memory(server):
    """Resident KiB of a server."""
    with open(f"/proc/{server.process.pid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))


@contextlib.contextmanager
def connected(server, count=1):
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(socket.create_connection(("127.0.0.1", server.port), 30)) for _ in range(count)]


def said(connection):
    """All that the server says until it closes the connection."""
    found = b""
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(65_536):
            found += part
    return found


def flood(connection, begin, more, most=40 << 20):
    """Send without an end, until the server has closed; what it said, and how many bytes were sent."""
    sent, answer = len(begin), []
    reader = threading.Thread(target=lambda: answer.append(said(connection)))
    reader.start()
    with contextlib.suppress(ConnectionError):
        connection.sendall(begin)
        while sent < most and not answer:
            connection.sendall(more)
            sent += len(more)
    reader.join(30)
    return answer[0], sent


def closed(connection):
    connection.setblocking(False)
    try:
        while connection.recv(65_536):
            pass
    except BlockingIOError:
        return False
    except ConnectionError:
        pass
    return True


def test_addresses_heads_and_requests_sent_ahead_have_an_end(url, tmp_path):
    server = Server(url, tmp_path / "log").wait()
    many = b"".join(b"x%d: 1\r\n" % k for k in range(101))
    with connected(server, 6) as (long_url, long_value, short_ones, ahead, wrong, endless):
        long_url.sendall(b"GET /" + b"a" * 8_192)
        assert said(long_url).startswith(b"HTTP/1.1 414 ")
        long_value.sendall(GET + b"x: " + b"v" * 17_000)
        assert said(long_value).startswith(b"HTTP/1.1 431 ")
        short_ones.sendall(GET + many)
        assert said(short_ones).startswith(b"HTTP/1.1 431 ")
        ahead.sendall((GET + b"\r\n") * 1_000)
        assert said(ahead).count(b"alive") < 20
        wrong.sendall(b"\x00\x01\x02")
        assert said(wrong).startswith(b"HTTP/1.1 400 ")
        assert b"\r\n\r\n" in flood(endless, b"", b"\r\n" * 4_000)[0]
    before = memory(server)
    for begin, more in ((b"GET /", b"a" * 65_536), (GET, b"a: b\r\n" * 10_000), (GET + b"x: ", b"v" * 65_536)):
        with connected(server) as (connection,):
            answer, sent = flood(connection, begin, more)
            assert answer.startswith((b"HTTP/1.1 414 ", b"HTTP/1.1 431 ", b"")), answer
            assert sent < 40 << 20
    assert memory(server) - before < 4_096
    with connected(server) as (connection,):  # what is just within the limits is served, also in small parts
        for part in (
            b"GET /healthz?",
            b"q" * 7_000,
            b" HTTP/1.1\r\nhost: a\r\nconnection: close\r\n",
            b"x: ",
            b"y" * 8_000,
        ):
            connection.sendall(part)
        connection.sendall(b"\r\n\r\n")
        assert said(connection).endswith(b"alive\n")
    assert "error" not in server.log.read_text()
    assert server.stop() == 0


def test_half_open_requests_are_closed_and_cost_little(url, tmp_path):
    server = Server(url, tmp_path / "log", options=("--request-seconds", "3", "--first-byte-seconds", "3")).wait()
    before = memory(server)
    with connected(server, 800) as connections:
        for connection in connections[:600]:
            connection.sendall(GET + HEADERS)  # of what is allowed, that which takes most room
        assert server.ready()
        assert not any(map(closed, connections))
        assert (memory(server) - before) / 600 < HELD
        wait_until(lambda: all(map(closed, connections)))
    assert server.stop() == 0


def test_unfinished_bodies_wait_on_the_disk(url, tmp_path):
    server = Server(url, tmp_path / "log", options=("--request-seconds", "8")).wait()
    client = server.client()
    client.put_board("b", items=ITEMS, length=4, settle=0)
    shown = [client.rank("b") for _ in range(600)]
    before = memory(server)
    with connected(server, 250) as connections:
        head = b"POST /v1/feedback HTTP/1.1\r\nhost: 127.0.0.1\r\n" + HEADERS + b"content-length: 310000\r\n\r\n"
        for connection in connections:
            connection.sendall(head + b" " * 300_000)
        wait_until(lambda: waiting_on_disk(server) == 250)
        assert (memory(server) - before) / len(connections) < HELD
        rows = [{"board": "b", "impression": s.impression, "clicked": None, "clicks": None} for s in shown]
        assert len(json.dumps(rows)) > 3 * 8_192  # it has to wait on the disk as well
        assert [row["outcome"] for row in client.feedback_batch(rows)] == ["learnt"] * 600
        wait_until(lambda: all(map(closed, connections)))
    wait_until(lambda: waiting_on_disk(server) == 0)
    assert client.board("b")["answers"] == 600
    assert server.stop() == 0


def waiting_on_disk(server):
    """How many files without a name a server has open."""
    count = 0
    for link in pathlib.Path(f"/proc/{server.process.pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            count += "(deleted)" in str(link.readlink())
    return count


def test_connections_are_limited_and_new_ones_take_the_place_of_those_that_wait(url, tmp_path):
    server = Server(url, tmp_path / "log", options=("--address-connections", "20")).wait()
    with connected(server, 60) as connections:
        wait_until(lambda: sum(map(closed, connections)) >= 40)
        assert server.ready()  # from the same address, in the place of another one that waits
        assert sum(map(closed, connections)) <= 45
    assert server.stop() == 0
    server = Server(url, tmp_path / "log", options=("--connections", "10")).wait()
    with connected(server, 30) as connections:
        wait_until(lambda: sum(map(closed, connections)) >= 20)
        assert server.ready()
    assert server.stop() == 0


def test_who_takes_nothing_of_an_answer_is_closed(url, tmp_path):
    server = Server(url, tmp_path / "log", options=("--request-seconds", "1")).wait()
    client = server.client(timeout=60)
    client.put_board("large", items=[f"{'item' * 100} {k}" for k in range(20_000)], length=4)
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        deaf.connect(("127.0.0.1", server.port))
        deaf.sendall(b"GET /v1/boards/large/state HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        wait_until(lambda: deaf.getsockname()[1] not in served(server), 60)
    assert server.stop() == 0


def served(server):
    """Ports of the clients that a server has connections to."""
    rows = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
    mine, established = f":{server.port:04X}", "01"
    return [int(row[2].rpartition(":")[2], 16) for row in rows if row[1].endswith(mine) and row[3] == established]


async def test_others_have_their_turn_while_a_long_batch_is_refused(url):
    async with serving(url) as local:
        await local.board(settle=0)
        shown, turns = await local.rank(), 0

        async def others():
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        rows = [{"board": "b", "impression": shown["impression"], "clicks": [2] * 200} for _ in range(5_000)]
        rows.append({"board": "b", "impression": shown["impression"], "clicked": shown["items"][0]})
        body = json.dumps({"feedback": rows}).encode()
        task = asyncio.create_task(others())
        answer = await local.http.post("/v1/feedback", content=body)
        task.cancel()
        assert turns > 200
        found = answer.json()
        assert found["refused"] == {"422": 5_000}
        assert [row["code"] for row in found["feedback"]] == [422] * 5_000 + [200]
        assert sum("message" in row for row in found["feedback"]) == 10
        assert len(answer.content) < len(body) / 10


async def test_a_body_beyond_the_room_ends_the_one_that_began_first():
    async def sender(*parts):
        parts = list(parts)

        async def receive():
            await go.acquire()
            return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

        go = asyncio.Semaphore(0)
        return receive, go

    held = bodies.Bodies(100_000)
    first, go_first = await sender(b"a" * 60_000, b"a")
    second, go_second = await sender(b"b" * 60_000, b"b")
    slow = asyncio.create_task(held.receive(first, {}, 1 << 20))
    go_first.release()
    await asyncio.sleep(0)
    quick = asyncio.create_task(held.receive(second, {}, 1 << 20))
    for _ in range(2):
        go_second.release()
        await asyncio.sleep(0)
    with await quick as file:
        assert file.read() == b"b" * 60_001
        third, go_third = await sender(b"c" * 60_000, b"c")
        go_third.release()
        with pytest.raises(ValueError, match="too many large bodies"):  # one that is whole keeps its room
            await held.receive(third, {}, 1 << 20)
    go_first.release()
    with pytest.raises(ValueError, match="too many large bodies"):
        await slow
    assert (held._used, held._held) == (0, {})


async def test_a_body_that_the_disk_takes_a_part_of_is_refused():
    """A file may have 20,000 bytes: the first write of more takes just these, and no error says so."""

    async def receive():
        return {"type": "http.request", "body": b"a" * 60_000, "more_body": True}

    held, limits = bodies.Bodies(100_000), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        with pytest.raises(ValueError, match="too many large bodies at once: try again"):
            await held.receive(receive, {}, 1 << 20)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (held._used, held._held) == (0, {})


async def test_a_batch_without_a_key_is_shorter_once_there_are_keys(url):
    with contextlib.closing(open_store(url)) as store:
        text, key = make_key(["rank"], None, 1.0)
        store.add_key(key)
    async with serving(url) as local:
        body = json.dumps({"feedback": []}).encode().ljust(bodies.SMALL + 1)
        assert (await local.http.post("/v1/feedback", content=body)).status_code == 413
        headers = {"authorization": f"Bearer {text}"}
        assert (await local.http.post("/v1/feedback", content=body, headers=headers)).status_code == 200


def test_a_network_of_ipv6_counts_as_one_address_and_limits_have_a_range():
    assert network("10.0.0.1") == "10.0.0.1"
    assert network("::ffff:10.0.0.1") == "10.0.0.1"
    assert network("2001:db8::1") == network("2001:db8::ffff:1") != network("2001:db8:0:1::1")
    assert network("fe80::1%eth0") == network("fe80::2")
    assert network("") == ""
    check(Limits())
    with pytest.raises(ValueError, match="--head-bytes must be at least 2048, not 7"):
        check(Limits(head_bytes=7))
    with pytest.raises(ValueError, match=r"--request-seconds must be at least 0[.]1, not nan"):
        check(Limits(request_seconds=float("nan")))
