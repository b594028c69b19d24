"""The clients of the service where it is slow, wrong or away: blocking, asynchronous and in Node, all alike."""

import asyncio
import contextlib
import inspect
import io
import json
import pathlib
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service_tools import Server, free_port
from steadyrank.client import AsyncClient, Client, Ranking, Refused
from steadyrank.client.patience import Breaker
from steadyrank.client.wire import Address, BrokenResponse, Request, ResponseReader

HERE = pathlib.Path(__file__).parent
LIST = {"impression": "i1", "items": ["x", "y"], "expires": 9.0}
OURS = {"items": ["x", "y"], "fallback": False, "impression": "i1"}
THEIRS = {"items": ["a"], "fallback": True, "impression": ""}
RANK = ["rank", ["b"], {"fallback": ["a"]}]
CLICK = ["feedback", ["b", "i1"], {"clicked": "x"}]
LEARNT = {"outcome": "learnt"}
WAITS = {"outcome": "waiting", "says": "waiting, learnt 30 min after its list was shown"}
HANG, CLOSE, DRIP = "hang", "close", "drip"


class Scripted:
    """A server that does, request by request, what a script says; when that is over, it answers everything."""

    def __init__(self, script):
        self.script, self.requests, self.connections, self.threads = list(script), [], [], []
        self.over = threading.Event()
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        self._begin(self._accept)

    def _begin(self, work, *args):
        self.threads.append(threading.Thread(target=work, args=args, daemon=True))
        self.threads[-1].start()

    def _accept(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            self.connections.append(connection)
            self._begin(self._serve, connection)

    def _serve(self, connection):
        with connection, connection.makefile("rb") as file, contextlib.suppress(OSError):
            while line := file.readline():
                headers = dict(
                    iter(lambda: tuple(file.readline().decode().strip().lower().partition(":")[::2]), ("", ""))
                )
                body = file.read(int(headers["content-length"]))
                self.requests.append((line.split()[1].decode(), json.loads(body or b"null")))
                if not self._do(connection, self.script.pop(0) if self.script else None):
                    return

    def _do(self, connection, act):
        if act == HANG:
            self.over.wait(30)
        elif act == CLOSE:
            connection.shutdown(socket.SHUT_RDWR)
        elif act == DRIP:
            for byte in response(200, LIST):
                connection.sendall(bytes([byte]))
                time.sleep(0.1)
        else:
            act = act(self.requests[-1][1]) if callable(act) else act
            connection.sendall(response(*(act or (200, self._usual()))))
            return True
        return False

    def _usual(self):
        path, body = self.requests[-1]
        if path == "/v1/feedback":
            return {"feedback": [{"code": 200, "outcome": "learnt"} for _ in body["feedback"]]}
        return LEARNT if path.endswith("/feedback") else LIST

    def close(self):
        self.over.set()
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        for connection in self.connections:
            with contextlib.suppress(OSError):  # it is closed already
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join(10.0)
            assert not thread.is_alive()


def response(status, content, headers=""):
    body = json.dumps(content).encode()
    return f"HTTP/1.1 {status} X\r\ncontent-length: {len(body)}\r\n{headers}\r\n".encode() + body


def first_refused(body):
    return 200, {"feedback": [{"code": 429}, *[{"code": 200} for _ in body["feedback"][1:]]]}


def valued(body):
    """An answer is learnt from if its value came along."""
    rows = body.get("feedback", [body])
    codes = [200 if (row.get("value"), row.get("id")) == (2.5, "order 1") else 422 for row in rows]
    if rows == [body]:
        return codes[0], LEARNT
    return 200, {"feedback": [{"code": code} for code in codes]}


def no_bad_one(body):
    """The batch as a whole is refused for one row that is malformed."""
    if any(row["impression"] == "bad" for row in body["feedback"]):
        return 422, {"message": "clicked must be text or null"}
    return 200, {"feedback": [{"code": 200} for _ in body["feedback"]]}


def plain(name, result):
    if isinstance(result, Ranking):
        return {"items": list(result.items), "fallback": result.fallback, "impression": result.impression}
    if name == "feedback" and result.says:
        return {"outcome": str(result), "says": result.says}
    return list(result.ours) if name == "observe" else result


def blocking(url, options, calls):
    client, results = Client(url, **options), []
    for name, args, *more in calls:
        start = time.monotonic()
        if name in ("queued", "lost"):
            result = getattr(client, name)
        elif name == "wait":
            result = time.sleep(*args)
        else:
            try:
                result = plain(name, getattr(client, name)(*args, **(more[0] if more else {})))
            except Refused as refusal:
                result = {"refused": refusal.code}
            except ConnectionError:
                result = "away"
        results.append([result, time.monotonic() - start])
    client._disconnect()
    client._queue._rows.clear()  # what a story leaves there need not be sent when the tests are over
    return results


def asynchronous(url, options, calls):
    async def run():
        client, results = AsyncClient(url, **options), []
        for name, args, *more in calls:
            start = time.monotonic()
            if name in ("queued", "lost"):
                result = getattr(client, name)
            elif name == "wait":
                result = await asyncio.sleep(*args)
            else:
                try:
                    result = plain(name, await getattr(client, name)(*args, **(more[0] if more else {})))
                except Refused as refusal:
                    result = {"refused": refusal.code}
                except ConnectionError:
                    result = "away"
            results.append([result, time.monotonic() - start])
        if client._delivery is not None:
            client._delivery.cancel()  # what a story leaves in the queue stays there
        await client.close()
        return results

    return asyncio.run(run())


def in_node(url, options, calls):
    """One process for all: it starts slowly."""
    if not NODE:
        command = ["node", str(HERE / "client_calls.mjs")]
        NODE.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
    NODE[0].stdin.write(json.dumps({"url": url, "options": options, "calls": calls}) + "\n")
    NODE[0].stdin.flush()
    return json.loads(NODE[0].stdout.readline())


@pytest.fixture(scope="module", autouse=True)
def node_ends():
    yield
    while NODE:
        with NODE.pop() as process:
            process.stdin.close()
            assert process.wait(30) == 0


node = pytest.mark.skipif(
    shutil.which("node") is None, reason="no node on this machine; on Debian: apt-get install nodejs"
)
NODE = []
CLIENTS = [blocking, asynchronous, pytest.param(in_node, marks=node)]


# what the server does, settings, calls, what comes of them, how many requests the server saw
STORIES = {
    "a list": ([], {}, [RANK], [OURS], 1),
    "a hung server gives the fallback": ([HANG], {}, [RANK, RANK], [THEIRS, OURS], 2),
    "a server that drips is late as well": ([DRIP], {}, [RANK], [THEIRS], 1),
    "without a fallback it is an error": ([HANG], {}, [["rank", ["b"]]], ["away"], 1),
    "a fallback for what is no mistake of the request": (
        [(503, {}), (500, {}), (429, {}), (401, {}), (404, {})], {}, [RANK] * 6, [THEIRS] * 5 + [OURS], 6,
    ),
    "a mistake is told": ([(422, {"message": "no"})], {}, [RANK], [{"refused": 422}], 1),
    "refused without a fallback": ([(404, {"message": "no board"})], {}, [["rank", ["b"]]], [{"refused": 404}], 1),
    "a connection that was closed while idle is no failure": (
        [(200, LIST, "connection: close\r\n"), (200, LIST), CLOSE], {}, [RANK] * 3, [OURS] * 3, 4,
    ),
    "what is not tried twice unless told": ([(503, {}, "retry-after: 0\r\n")] * 2, {"tries": 3}, [RANK], [OURS], 3),
    "the breaker": (
        [(500, {})] * 3, {"breaker_failures": 3, "breaker_seconds": 2.0},
        [RANK] * 5 + [["wait", [2.1]], RANK, RANK], [THEIRS] * 5 + [None, OURS, OURS], 5,
    ),
    "a breaker that stays open": (
        [(500, {})] * 3, {"breaker_failures": 2, "breaker_seconds": 2.0},
        [RANK] * 3 + [["wait", [2.1]], RANK, RANK], [THEIRS] * 3 + [None, THEIRS, THEIRS], 3,
    ),
    "refusals do not open the breaker": (
        [(429, {})] * 3, {"breaker_failures": 2}, [RANK] * 4, [THEIRS] * 3 + [OURS], 4,
    ),
    "an answer": ([], {}, [CLICK], ["learnt"], 1),
    "an answer that waits says when it is learnt from": ([(200, WAITS)], {}, [CLICK], [WAITS], 1),
    "an answer to a fallback": ([], {}, [["feedback", ["b", ""], {"clicked": "a"}]], ["fallback"], 0),
    "an answer that the server did not take is sent again": (
        [HANG, (503, {})], {}, [CLICK, ["queued", []], ["flush", [30.0]], ["queued", []]],
        ["queued", 1, True, 0], 3,
    ),
    "an answer that nobody waits for": (
        [], {}, [["feedback", ["b", "i1"], {"clicked": "x", "wait": False}], ["flush", [30.0]]], ["queued", True], 1,
    ),
    "answers join the queue while there is one": (
        [(500, {}), (500, {})], {}, [CLICK, CLICK, CLICK, ["flush", [30.0]]], ["queued"] * 3 + [True], 3,
    ),
    "a refused answer is told, or counted if it was queued": (
        [(409, {}), (500, {}), (200, {"feedback": [{"code": 409, "message": "answered"}]})], {},
        [CLICK, CLICK, ["flush", [30.0]], ["lost", []]], [{"refused": 409}, "queued", True, 1], 3,
    ),
    "of a batch, what may pass is sent again": (
        [first_refused], {}, [["feedback", ["b", i], {"clicked": None, "wait": False}] for i in "12"]
        + [["flush", [30.0]], ["lost", []]], ["queued"] * 2 + [True, 0], None,
    ),
    "a page of a proxy is no delivery": (
        [(500, {}), (200, {"message": "welcome"})], {}, [CLICK, ["flush", [30.0]], ["lost", []]],
        ["queued", True, 0], 3,
    ),
    "who says how often to try is told what fails": (
        [(503, {}, "retry-after: 0\r\n")] * 2 + [(500, {})], {"tries": 2}, [CLICK, CLICK, ["queued", []]],
        [{"refused": 503}, {"refused": 500}, 0], 3,
    ),
    "of a batch that is refused as a whole, the others are delivered": (
        [no_bad_one] * 9, {},
        [["feedback", ["b", i], {"clicked": None, "wait": False}] for i in ("1", "2", "bad", "4")]
        + [["flush", [30.0]], ["lost", []]], ["queued"] * 4 + [True, 1], None,
    ),
    "the queue is bounded": (
        [HANG] * 9, {"queue": 2},
        [["feedback", ["b", str(i)], {"clicked": None, "wait": False}] for i in range(5)]
        + [["queued", []], ["lost", []]], ["queued"] * 5 + [2, 3], None,
    ),
    "a list of another ranker is tried again": (
        [(503, {}, "retry-after: 0\r\n"), (200, {**LIST, "outcome": "shown", "ours": ["y"]})], {},
        [["observe", ["b", "1", ["x"]]]], [["y"]], 2,
    ),
    "a value goes with its answer, at once and from the queue": (
        [valued] * 9, {},
        [["feedback", ["b", "i1"], {"clicked": "x", "value": 2.5, "id": "order 1", **wait}]
         for wait in ({}, {"wait": False})] + [["flush", [30.0]], ["lost", []]],
        ["learnt", "queued", True, 0], 2,
    ),
    "what came of a click is sent again, and the server tells it apart by its id": (
        [(503, {}, "retry-after: 0\r\n"), (200, {"outcome": "learnt"})], {},
        [["outcome", ["b", "i1", "x", 2.5], {"id": "order 1"}]], ["learnt"], 2,
    ),
}  # fmt: skip


def in_units(client, calls):
    """Seconds are milliseconds in Node, and its `wait` is one of its options."""
    return [
        [name, [1000 * args[0]] if name == "flush" and client is in_node else args, *more]
        for name, args, *more in calls
    ]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("story", STORIES)
def test_every_client_does_the_same(story, client):
    script, options, calls, wanted, requests = STORIES[story]
    server = Scripted(script)
    patience = 2.0 if {HANG, DRIP} & {act for act in script if isinstance(act, str)} else 10.0  # of a busy machine
    results = client(server.url, {"timeout": patience, **options}, in_units(client, calls))
    assert [result for result, _ in results] == wanted
    assert requests is None or len(server.requests) == requests, server.requests
    server.close()


@pytest.mark.parametrize("client", CLIENTS)
def test_by_default_nothing_that_a_page_waits_for_takes_long(client):
    server = Scripted([HANG] * 20)
    results = client(server.url, {}, [RANK, CLICK, CLICK, *[RANK] * 9])
    assert [result for result, _ in results] == [THEIRS, "queued", "queued", *[THEIRS] * 9]
    assert (
        sum(seconds for _, seconds in results) < 6 * 0.2 + 5.0
    )  # of the ten lists, five are asked for; the rest: a busy machine
    server.close()


def straight_to(client, script, calls, named=None, options=None):
    """What comes of calls where the first answer names the owner of a board, and how many requests each one saw."""
    owner = Scripted([] if script is None else script)
    place = named or owner.url.removeprefix("http://")
    first = Scripted([(200, LIST, f"steadyrank-owner: {place}\r\n")])
    try:
        if script is None:
            owner.close()
        chosen = {"straight": True, "timeout": 2.0, "tries": 1} if options is None else options
        done = [result for result, _ in client(first.url, chosen, calls)]
        return done, [path for path, _ in owner.requests], [path for path, _ in first.requests]
    finally:
        first.close()
        if script is not None:
            owner.close()


@pytest.mark.parametrize("client", CLIENTS)
def test_who_may_goes_straight_to_the_owner_and_back_when_it_is_gone(client):
    rank, other, path = ["rank", ["b"]], ["rank", ["c"]], "/v1/boards/b/rank"
    done, there, here = straight_to(client, [], [rank, rank, CLICK, other])
    assert done == [OURS, OURS, "learnt", OURS]
    assert (there, here) == ([path, "/v1/boards/b/feedback"], [path, "/v1/boards/c/rank"])
    done, there, here = straight_to(client, [HANG], [rank, rank, rank])
    assert done == [OURS, "away", OURS]  # no longer than the call may take
    assert (there, here) == ([path], [path, path])
    done, there, here = straight_to(client, [(503, {})], [rank, rank, rank])
    assert done == [OURS, {"refused": 503}, OURS]
    assert (there, here) == ([path], [path, path])
    done, there, here = straight_to(client, None, [rank, rank, CLICK])
    assert done == [OURS, OURS, "learnt"]
    assert (there, here) == ([], [path, path, "/v1/boards/b/feedback"])


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("named", ["", "evil", "evil:1/x", "me@evil:1", "http://evil:1"])
def test_nobody_goes_where_no_worker_was_named(client, named):
    path = "/v1/boards/b/rank"
    assert straight_to(client, [], [["rank", ["b"]]] * 2, named or " ")[1:] == ([], [path, path])


@pytest.mark.parametrize("client", CLIENTS)
def test_nobody_goes_straight_unasked(client):
    path = "/v1/boards/b/rank"
    assert straight_to(client, [], [["rank", ["b"]]] * 2, options={})[1:] == ([], [path, path])


@pytest.mark.parametrize("client", CLIENTS)
def test_nobody_listens(client):
    url = f"http://127.0.0.1:{free_port()}"
    calls = [RANK, ["rank", ["b"]], CLICK, ["queued", []]]
    assert [result for result, _ in client(url, {}, calls)] == [THEIRS, "away", "queued", 1]


@st.composite
def pieces(draw, whole):
    cuts = sorted(draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    return [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True) if a < b]


BODY = json.dumps({"items": ["x" * 40, "y"]}).encode()
CHUNKED = b"transfer-encoding: chunked\r\n\r\n5;a=b\r\n" + BODY[:5] + b"\r\n%x\r\n" % len(BODY[5:]) + BODY[5:]
RESPONSES = {
    "counted": (b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY, True),
    "continued": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(BODY) + BODY,
        True,
    ),
    "chunked": (b"HTTP/1.1 200 OK\r\n" + CHUNKED + b"\r\n0\r\n\r\n", True),
    "trailed": (b"HTTP/1.1 200 OK\r\n" + CHUNKED + b"\r\n0\r\na: b\r\n\r\n", True),
    "closing": (b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(BODY) + BODY, False),
    "old": (b"HTTP/1.0 200 OK\r\n\r\n" + BODY, False),
}


@pytest.mark.parametrize("kind", RESPONSES)
@given(data=st.data())
def test_a_response_is_read_in_any_pieces(kind, data):
    whole, reusable = RESPONSES[kind]
    into = io.BytesIO(b"of an earlier try") if data.draw(st.booleans()) else None
    reader = ResponseReader(into)
    parts = data.draw(pieces(whole))
    ends = [reader.feed(part) for part in parts]
    assert ends == [False] * (len(ends) - 1) + [kind != "old"]
    if kind == "old":
        assert reader.feed(b"")
    assert (reader.status, reader.reusable) == (200, reusable)
    assert into.getvalue() == BODY if into else reader.content() == json.loads(BODY)


@pytest.mark.parametrize("kind", RESPONSES)
def test_a_response_that_is_cut_off_is_broken(kind):
    whole, _ = RESPONSES[kind]
    for size in range(len(whole) - (len(BODY) if kind == "old" else 0)):
        reader = ResponseReader()
        if size:
            assert not reader.feed(whole[:size])
        with pytest.raises(BrokenResponse, match="within a response" if size else "no response"):
            reader.feed(b"")


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (b"SSH-2.0-x\r\n\r\n", "no HTTP response begins with 'SSH"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n", "content-length is a number, not '-1'"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", "hexadecimal number, not b'zz'"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nabc\r\n", "longer than it says"),
        (b"x" * 70_000, "at most 65536 bytes of headers"),
    ],
)
def test_what_is_no_response_is_refused(sent, words):
    with pytest.raises(BrokenResponse, match=words):
        ResponseReader().feed(sent)


def test_what_comes_after_a_response_ends_the_connection():
    reader = ResponseReader()
    assert reader.feed(RESPONSES["counted"][0] + b"HTTP/1.1 200 OK")
    assert not reader.reusable


def test_a_request_as_bytes():
    sent = Address("https://rank.example/under/", "k1").encode(Request("POST", "/v1/x?y=1", {"a": [1]}))
    assert sent == (
        b"POST /under/v1/x?y=1 HTTP/1.1\r\nhost: rank.example\r\ncontent-type: application/json\r\n"
        b'authorization: Bearer k1\r\ncontent-length: 10\r\n\r\n{"a": [1]}'
    )
    assert Address("http://a:81", None).port == 81
    with pytest.raises(ValueError, match="printable ASCII"):
        Address("http://a", "k\r\nx: y")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"timeout": 0}, "timeout must be above 0 seconds, not 0"),
        ({"tries": 0}, "tries must be at least 1, not 0"),
        ({"breaker_failures": 0}, "breaker_failures must be at least 1, not 0"),
        ({"breaker_seconds": 0.0}, "breaker_seconds must be above 0, not 0.0"),
        ({"queue": -1}, "queue must be a number of answers, 0 for none, not -1"),
        ({"url": "https://rank.example", "straight": True}, "straight goes to workers over http"),
    ],
)
def test_settings_that_cannot_be(options, words):
    with pytest.raises(ValueError, match=words):
        Client(**options)


def test_an_open_breaker_lets_one_try_at_a_time():
    now = [0.0]
    breaker = Breaker(2, 5.0, lambda: now[0])
    for _ in range(2):
        assert breaker.permits()
        breaker.note(worked=False)
    assert not breaker.permits()
    now[0] = 5.0
    assert [breaker.permits(), breaker.permits()] == [True, False]  # the second one while the first is under way
    breaker.note(worked=False)
    now[0] = 9.0
    assert not breaker.permits()
    now[0] = 10.0
    assert breaker.permits()
    breaker.note(worked=True)
    assert [breaker.permits(), breaker.permits()] == [True, True]


def test_a_process_that_ends_sends_what_is_queued():
    server = Scripted([(500, {}), HANG])
    script = f"""
from steadyrank.client import Client
client = Client({server.url!r}, timeout=1.5)
print(client.feedback("b", "i1", clicked="x"))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("queued\n", "")
    row = {"board": "b", "impression": "i1", "clicked": "x"}
    assert server.requests[-1] == ("/v1/feedback", {"feedback": [row]})
    assert len(server.requests) == 3
    server.close()


REFUSED = [(401, {"message": "no key"})] * 2 + [(404, {"message": "no board"}), (200, LIST), (404, {})]
WARNED = ["401, no key", "404, no board", "404, "]


def test_a_lasting_refusal_is_told_once(caplog):
    server = Scripted(REFUSED)
    assert [shown for shown, _ in blocking(server.url, {}, [RANK] * 5)] == [THEIRS] * 3 + [OURS, THEIRS]
    assert [record.message.partition(": ")[2] for record in caplog.records] == WARNED
    server.close()


@node
def test_a_lasting_refusal_is_told_once_by_node():
    server = Scripted(REFUSED)
    script = f"""
import {{ Client }} from "{(HERE.parent / "clients/node/client.js").as_uri()}";
const client = new Client("{server.url}", {{ timeout: 10000, warn: (text) => console.log(text.split(": ")[2]) }});
for (let k = 0; k < 5; k++) await client.rank("b", {{ fallback: ["a"] }});
"""
    command = ["node", "--input-type=module", "-e", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout.splitlines(), done.stderr) == (WARNED, "")
    server.close()


@node
def test_a_node_process_that_ends_sends_what_is_queued(tmp_path):
    server = Scripted([(500, {}), (500, {})])
    script = f"""
import {{ Client }} from "{(HERE.parent / "clients/node/client.js").as_uri()}";
const client = new Client("{server.url}");
console.log((await client.feedback("b", "i1", {{ clicked: "x" }})).outcome);
"""
    command = ["node", "--input-type=module", "-e", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == ("queued\n", "")
    assert len(server.requests) == 3
    server.close()


def test_a_fork_neither_shares_a_connection_nor_sends_what_its_parent_has_queued():
    server = Scripted([])
    script = f"""
import os
from steadyrank.client import Client
client = Client({server.url!r}, timeout=5.0)
client.rank("b")
child = os.fork()
assert client.rank("b").items == ("x", "y")
assert client.feedback("b", "i" + str(child == 0), clicked=None, wait=False) == "queued"
assert client.flush(10)
if child:
    assert os.waitpid(child, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True, timeout=60)
    assert len(server.connections) >= 4  # one each for lists, and one each for answers
    answers = [body["feedback"] for path, body in server.requests if path == "/v1/feedback"]
    assert sorted(row["impression"] for rows in answers for row in rows) == ["iFalse", "iTrue"]
    server.close()


@pytest.mark.parametrize("client", CLIENTS)
def test_an_answer_counts_once_although_its_acknowledgement_was_lost(client, tmp_path):
    """Between client and server, a proxy takes the answer through and says nothing of it."""
    server = Server(f"sqlite:///{tmp_path}/store.db", tmp_path / "log").wait()
    api = server.client()
    api.put_board("b", items=["x", "y"], length=2, settle=0)
    shown = api.rank("b")
    proxy = Scripted([lambda body: take(server, "/v1/boards/b/feedback", body) and (503, {})])
    proxy._usual = lambda: take(server, proxy.requests[-1][0], proxy.requests[-1][1])
    calls = [["feedback", ["b", shown.impression], {"clicked": shown.items[0]}], ["flush", [10.0]], ["lost", []]]
    results = client(proxy.url, {"timeout": 5.0}, in_units(client, calls))
    assert [result for result, _ in results] == ["queued", True, 0]
    assert api.board("b")["answers"] == 1
    proxy.close()
    asked = client(server.address, {"timeout": 10.0}, [RANK])[0][0]  # by itself, and without keys
    assert (sorted(asked["items"]), asked["fallback"]) == (["x", "y"], False)
    assert server.stop() == 0


def take(server, path, body):
    request = urllib.request.Request(server.address + path, json.dumps(body).encode())
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


async def test_the_asynchronous_client_has_every_request(tmp_path):
    server = Server(f"sqlite:///{tmp_path}/store.db", tmp_path / "log").wait()
    async with AsyncClient(server.address, timeout=10.0, tries=5) as client:
        for name in ("a", "b"):
            await client.put_board(name, items=["x", "y", "z"], length=2, settle=0)
        lists = await asyncio.gather(*(client.rank("b", client=f"c{k}") for k in range(20)))
        outcomes = await asyncio.gather(
            *(client.feedback("b", one.impression, clicked=one.items[0]) for one in lists)
        )
        assert outcomes == ["learnt"] * 20
        assert [board["board"] for board in await client.boards()] == ["a", "b"]
        assert [board["board"] async for board in client.each_board("a")] == ["b"]
        assert await client.export("b", tmp_path / "b.jsonl") == (tmp_path / "b.jsonl").stat().st_size > 0
        with pytest.raises(Refused, match="no board") as refused:
            await client.board("none")
        assert refused.value.code == 404
        with pytest.raises(ValueError, match="cannot stand in a path"):
            await client.retire_item("b", "..")
    assert server.stop() == 0


def test_both_clients_have_the_same_requests():
    names = [{name for name in dir(kind) if not name.startswith("_")} for kind in (Client, AsyncClient)]
    assert names[0] == names[1]
    assert "seconds since 1970" in inspect.getdoc(Client.rotate_secret)
    assert inspect.getdoc(Client().rank) == inspect.getdoc(AsyncClient().rank)
    assert "fallback" in inspect.signature(Client().rank).parameters
