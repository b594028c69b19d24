"""Lists and answers that are taken over from connections: answered as everything else is, and in the same order."""

import asyncio
import contextlib
import json
import re
import sqlite3
import time

import msgspec
import pytest
import uvicorn
from hypothesis import given
from hypothesis import strategies as st
from uvicorn.server import ServerState

from service_tools import ITEMS, serving, until
from steadyrank.service.http.app import Service
from steadyrank.service.http.auth import make_key
from steadyrank.service.http.connections import GREETING, Connections
from steadyrank.service.http.direct import Direct
from steadyrank.service.http.forwarding import NotReached, Peers
from steadyrank.service.http.limits import Limits
from steadyrank.service.http.links import AnsweringLink, Links, _frame, _Frames
from steadyrank.service.storage import open_store
from steadyrank.service.worker import log_writer

DATE = (b"date", b"Wed, 18 Nov 2026 12:00:00 GMT")


class Wire(asyncio.Transport):
    """A client's end of a connection, without a socket."""

    def __init__(self, connections, app):
        super().__init__()
        config = uvicorn.Config(app, http=connections.protocol, ws="none", log_config=None, access_log=False)
        config.load()
        state = ServerState()
        state.default_headers = [DATE]
        self.got, self.closed, self.reading = b"", False, True
        self.protocol = connections.protocol(config=config, server_state=state, app_state={})
        self.protocol.connection_made(self)

    def get_extra_info(self, name, default=None):
        return {"sockname": ("127.0.0.1", 8080), "peername": ("127.0.0.1", 9000)}.get(name, default)

    def write(self, data):
        assert not self.closed
        self.got += data

    def is_closing(self):
        return self.closed

    def close(self):
        self.closed = True

    abort = close

    def pause_reading(self):
        self.reading = False

    def resume_reading(self):
        self.reading = True

    def send(self, data, part=1 << 20):
        for start in range(0, len(data), part):
            self.protocol.data_received(data[start : start + part])

    def answers(self):
        """Codes, headers and contents of the answers so far."""
        found, rest = [], self.got
        while b"\r\n\r\n" in rest:
            head, _, rest = rest.partition(b"\r\n\r\n")
            first, *lines = head.split(b"\r\n")
            headers = dict(line.lower().split(b": ", 1) for line in lines)
            size = int(headers.pop(b"content-length"))
            if len(rest) < size:
                break
            found.append((int(first[9:12]), headers, rest[:size]))
            rest = rest[size:]
        return found

    async def ask(self, data, part=1 << 20):
        """The next answer."""
        before = len(self.answers())
        self.send(data, part)
        await until(lambda: len(self.answers()) > before, 30.0)
        return self.answers()[before]


def post(target, body, headers=b"host: 127.0.0.1\r\n", method=b"POST"):
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = b"%b %b HTTP/1.1\r\n%bcontent-length: %d\r\n\r\n" % (method, target, headers, len(sent))
    return lines + sent


class Counting(Direct):
    """Counts what was taken over."""

    def __init__(self, service):
        super().__init__(service)
        self.taken = 0

    def find(self, target, headers):
        take = super().find(target, headers)
        if take is None:
            return None

        def counted(reply, body):
            taken = take(reply, body)
            self.taken += taken
            return taken

        return counted


@contextlib.asynccontextmanager
async def wired(tmp_path, limits=None, **settings):
    """A service with a board, and how to make a wire to it: `direct` or by the application alone."""
    async with serving(f"sqlite:///{tmp_path}/store.db") as local:
        await local.board(settle=0, **settings)
        limits = limits or Limits()
        service = Service(local.worker, limits=limits)
        app, shortcut = service.app(), Counting(service)
        ways = {True: Connections(limits, shortcut), False: Connections(limits)}
        yield local, shortcut, lambda direct=True: Wire(ways[direct], app)


async def told_the_same(shortcut, wire, request):
    """Code and content of what is answered both ways, the first time and again: to the byte, and as metrics count."""
    found, counts, metrics = [], [], shortcut._metrics
    for direct in (False, True, True):  # the second time the head may be one that is known
        before = dict(metrics.requests)
        found.append(await wire(direct).ask(request))
        counts.append({key: n - before.get(key, 0) for key, n in metrics.requests.items() if n != before.get(key)})
    assert found[0] == found[1] == found[2]
    assert counts[0] == counts[1] == counts[2]
    return found[0][0], found[0][2]


RANK, FEEDBACK = b"/v1/boards/b/rank", b"/v1/boards/b/feedback"
ODD = {
    "no JSON": post(RANK, b"{"),
    "no text": post(RANK, b'{"client": "\xff"}'),
    "an unknown member": post(RANK, {"clients": "ann"}),
    "another type": post(RANK, {"length": "four"}),
    "too long": post(RANK, {"length": 99}),
    "a client that cannot be": post(RANK, {"client": "a\nb"}),
    "an unknown candidate": post(RANK, {"candidates": ["none"]}),
    "no candidates": post(RANK, {"candidates": []}),
    "unknown ones skipped": post(RANK, {"candidates": ["none"], "unknown": "skip"}),
    "theirs without interleaving": post(RANK, {"theirs": ITEMS[:2], "client": "ann"}),
    "features of none": post(RANK, {"features": {"x": 1}}),
    "no such board": post(b"/v1/boards/none/rank", {}),
    "a board for a collection": post(b"/v1/collections/b/rank", {"query": "x", "candidates": ["y"]}),
    "no such path": post(b"/v1/boards/b/list", {}),
    "a path too long": post(b"/v1/boards/b/rank/x", {}),
    "another method": post(RANK, b"", method=b"GET"),
    "a form's type": post(RANK, {}, b"host: 127.0.0.1\r\ncontent-type: text/plain\r\n"),
    "another host": post(RANK, {}, b"host: example.org\r\n"),
    "through a proxy": post(RANK, {}, b"host: 127.0.0.1\r\nx-forwarded-for: 1.2.3.4\r\n"),
    "a page of another site": post(RANK, {}, b"host: 127.0.0.1\r\norigin: http://example.org\r\n"),
    "a body too large": post(RANK, b" " * (1 << 20) + b"{}"),
    "a question mark": post(RANK + b"?x=1", {"length": 0}),
    "a coded name": post(b"/v1/boards/%62/rank", {"length": 0}),
    "a forged id": post(FEEDBACK, {"impression": "x" * 100, "clicked": None}),
    "no id": post(FEEDBACK, {"clicked": None}),
    "an answer to no board": post(b"/v1/boards/none/feedback", {"impression": "x", "clicked": None}),
    "a slash more": post(RANK + b"/", {}),
    "no body where one is needed": post(FEEDBACK, b""),
    "a list": post(RANK, []),
    "null": post(RANK, b"null"),
    "a number that is none": post(RANK, b'{"length": NaN}'),
    "a number too large": post(RANK, b'{"length": 1%b}' % (b"0" * 400)),
    "the same member twice": post(RANK, b'{"length": 2, "length": 99}'),
    "nested deep": post(RANK, b'{"features": %b%b}' % (b"[" * 3_000, b"]" * 3_000)),
    "a surrogate alone": post(RANK, b'{"client": "\\ud800"}'),
    "too many cohorts": post(RANK, {"client": "ann", "cohort": {f"kind {k}": "x" for k in range(9)}}),
    "two sizes": post(RANK, {}, b"host: 127.0.0.1\r\ncontent-length: 3\r\n"),
    "a size that is none": post(RANK, {}).replace(b"content-length: 2", b"content-length: +2"),
    "a size below 0": post(RANK, {}).replace(b"content-length: 2", b"content-length: -2"),
    "in chunks and with a size": post(RANK, {}, b"host: 127.0.0.1\r\ntransfer-encoding: chunked\r\n"),
    "a header without a name": post(RANK, {}, b"host: 127.0.0.1\r\n: x\r\n"),
    "too many headers": post(RANK, {}, b"host: 127.0.0.1\r\n" + b"x: y\r\n" * 200),
    "long headers": post(RANK, {}, b"host: 127.0.0.1\r\nx: %b\r\n" % (b"y" * 20_000)),
    "a long name": post(b"/v1/boards/%b/rank" % (b"x" * 4_000), {}),
    "too long a name": post(b"/v1/boards/%b/rank" % (b"x" * 9_000), {}),
    "a name with bytes": post(b"/v1/boards/\xc3\xa4/rank", {}),
    "as a proxy is asked": post(b"http://example.org/v1/boards/none/rank", {}),
    "two hosts": post(RANK, {}, b"host: 127.0.0.1\r\nhost: example.org\r\n"),
    "a page of the address": post(RANK, {}, b"host: 127.0.0.1\r\nsec-fetch-site: cross-site\r\n"),
    "a list sent as a form": post(RANK, b"length=2", b"host: 127.0.0.1\r\ncontent-type: text/plain\r\n"),
}


async def test_odd_requests_are_told_the_same_whoever_takes_them(tmp_path):
    async with wired(tmp_path) as (_, shortcut, wire):
        for why, request in ODD.items():
            code, _ = await told_the_same(shortcut, wire, request)
            assert code >= 400, why


async def test_keys_open_the_same_whoever_takes_a_request(tmp_path):
    async with wired(tmp_path, public_feedback=False) as (local, shortcut, wire):
        shown = await local.rank()
        now, keys = local.worker.clock(), {}
        for name, scopes, board, expires in (
            ("all", ["rank", "feedback"], None, now + 3_600.0),
            ("ranks", ["rank"], "b", None),
            ("answers", ["feedback"], "b", None),
            ("elsewhere", ["rank", "feedback"], "c", None),
            ("expired", ["rank", "feedback"], None, now - 1.0),
            ("revoked", ["rank", "feedback"], None, None),
        ):
            keys[name] = make_key(scopes, board, 0.0, expires)
        with contextlib.closing(open_store(local.worker.url)) as store:
            for _, kept in keys.values():
                store.add_key(kept)
            store.revoke_key(keys["revoked"][1].id, now)
        await until(lambda: sum(key.works(now) for key in local.worker.keys) == 4)
        sent = {name: f"Bearer {given}" for name, (given, _) in keys.items()}
        whole = sent["all"]
        sent |= {"none": "", "a word": "x", "no scheme": whole.split()[1], "another": "Bearer sr.x.y"}
        sent |= {"basic": whole.replace("Bearer", "Basic"), "cut": whole[:-1], "long": whole + "x" * 1_500}
        sent |= {"small": whole.replace("Bearer", "bearer")}
        taken, codes = shortcut.taken, {}
        for name, value in sent.items():
            headers = b"host: 127.0.0.1\r\nauthorization: %b\r\n" % value.encode()
            refused = post(RANK, {"length": 99}, headers)  # with a key that opens: a refusal that is the same again
            answer = post(FEEDBACK, {"impression": shown["impression"], "clicked": "none"}, headers)
            codes[name] = [(await told_the_same(shortcut, wire, request))[0] for request in (refused, answer)]
        assert {name: code for name, code in codes.items() if code != [401, 401]} == {
            "all": [422, 422],
            "small": [422, 422],
            "ranks": [422, 403],
            "answers": [403, 422],
            "elsewhere": [403, 403],
        }
        # lists for three keys, answers for three, and answers that no key opens for nine, twice each
        assert shortcut.taken - taken == 2 * (3 + 3 + 9)
        before = post(RANK, {"length": 99}, b"host: 127.0.0.1\r\nauthorization: %b\r\n" % whole.encode())
        assert (await told_the_same(shortcut, wire, before))[0] == 422
        local.clocks.pass_time(7_200.0)
        await until(lambda: local.worker.clock() > now + 3_600.0)
        assert (await told_the_same(shortcut, wire, before))[0] == 401


async def test_what_is_refused_in_the_end_is_told_the_same_whoever_takes_it(tmp_path):
    async with wired(tmp_path, client_lists=2, client_minute=1, bind_client=True) as (local, shortcut, wire):
        first, second = await local.rank(client="ann"), await local.rank(client="ann")
        bad = {"impression": first["impression"], "clicked": "none", "client": "ann"}
        good = {"impression": second["impression"], "clicked": None, "client": "ann"}
        await local.answer(second, clicked=None, client="ann")
        taken = shortcut.taken
        for code, request in (
            (429, post(RANK, {"client": "ann"})),
            (422, post(FEEDBACK, bad)),
            (422, post(FEEDBACK, bad | {"clicks": [1]})),
            (422, post(FEEDBACK, bad | {"examined": 99})),
            (409, post(FEEDBACK, good | {"clicked": second["items"][0]})),
            (200, post(FEEDBACK, good)),  # a duplicate
            (403, post(FEEDBACK, good | {"client": "bob"})),
            (403, post(FEEDBACK, good | {"impression": second["impression"] + "A"})),
        ):
            assert (await told_the_same(shortcut, wire, request))[0] == code, request
        # who may not answer is told by the application, once it has read the log
        assert shortcut.taken - taken == 2 * 6
        late = await local.rank(client="cid")
        local.clocks.pass_time(3_600.0)
        gone = post(FEEDBACK, {"impression": late["impression"], "clicked": None, "client": "cid"})
        assert (await told_the_same(shortcut, wire, gone))[0] == 410


async def test_a_store_that_is_away_is_told_of_in_the_same_way(tmp_path, monkeypatch):
    async with wired(tmp_path) as (local, shortcut, wire):
        shown = await local.rank()
        await local.quiet()
        monkeypatch.setattr(log_writer, "PATIENCE", 0.6)
        blocker = sqlite3.connect(local.worker.url.removeprefix("sqlite:///"), isolation_level=None)
        blocker.execute("BEGIN IMMEDIATE")
        answer = post(FEEDBACK, {"impression": shown["impression"], "clicked": None})
        code, content = await told_the_same(shortcut, wire, answer)
        assert (code, json.loads(content)["code"]) == (503, 503)
        assert (await wire().ask(answer))[1][b"retry-after"]
        blocker.execute("ROLLBACK")
        blocker.close()
        await until(lambda: local.worker.log_writer.available)
        assert json.loads((await wire().ask(answer))[2])["outcome"] in ("learnt", "duplicate")


async def test_limits_hold_whoever_takes_a_request(tmp_path):
    limits = Limits(body_bytes=40, head_bytes=300, url_bytes=60)
    async with wired(tmp_path, limits) as (_, shortcut, wire):
        for code, request in (
            (413, post(RANK, b" " * 50 + b"{}")),
            (413, post(FEEDBACK, {"impression": "x" * 40, "clicked": None})),
            (431, post(RANK, {}, b"host: 127.0.0.1\r\nx: %b\r\n" % (b"y" * 300))),
            (414, post(b"/v1/boards/%b/rank" % (b"x" * 60), {})),
        ):
            assert (await told_the_same(shortcut, wire, request))[0] == code, request
        assert shortcut.taken == 0
        assert (await wire().ask(post(RANK, {"length": 1})))[0] == 200
        assert shortcut.taken == 1


async def test_lists_and_answers_are_the_same_whoever_takes_them(tmp_path):
    async with wired(tmp_path) as (local, shortcut, wire):
        found = {}
        for direct in (True, False):
            to, taken = wire(direct), shortcut.taken
            code, headers, content = await to.ask(post(RANK, {"client": "ann", "length": 3}))
            shown = json.loads(content)
            assert len(shown["items"]) == 3
            rows = [(code, headers, sorted(shown))]
            answer = {"impression": shown["impression"], "clicked": shown["items"][1]}
            for body in (answer, answer, answer | {"clicked": None}, answer | {"clicked": "none"}):
                rows.append(await to.ask(post(FEEDBACK, body)))
            found[direct] = [(row[0], row[1], re.sub(rb"[\w-]{60,}", b"", str(row[2]).encode())) for row in rows]
            assert shortcut.taken - taken == (5 if direct else 0)
        assert found[True] == found[False]
        assert [row[0] for row in found[True]] == [200, 200, 200, 409, 422]
        await local.quiet()
        board = await local.ask("GET", "boards/b")
        assert (board["impressions"], board["answers"]) == (2, 2)


async def test_a_head_that_came_before_is_not_parsed_again_and_means_the_same(tmp_path):
    async with wired(tmp_path) as (local, shortcut, wire):
        to, fed = wire(), []

        class Parser:
            def __getattr__(self, name):
                return fed.append if name == "feed_data" else getattr(parser, name)

        first = post(RANK, {"length": 2})
        assert (await to.ask(first))[0] == 200
        parser, to.protocol.parser = to.protocol.parser, Parser()
        for length in (1, 3, 4):  # another body of the same size
            assert len(json.loads((await to.ask(post(RANK, {"length": length})))[2])["items"]) == length
        other = wire()
        other.protocol.parser = Parser()  # heads are those of all connections
        assert (await other.ask(first))[0] == 200
        assert fed == []
        to.send(post(RANK, {"length": 12}))  # another size: another head
        to.send(first[:-1])  # cut off
        assert len(fed) == 2
        assert shortcut.taken == 5
        key, stored = make_key(["rank"], None, 0.0)
        local.worker.keys = [stored]  # what was open before is not any more, though its head is known
        assert (await wire().ask(first))[0] == 401
        named = post(RANK, {"length": 2}, b"host: 127.0.0.1\r\nauthorization: Bearer %b\r\n" % key.encode())
        for _ in range(3):
            assert (await wire().ask(named))[0] == 200
        local.worker.keys = [stored._replace(revoked=1.0)]
        assert (await wire().ask(named))[0] == 401


@pytest.mark.parametrize("part", [1, 7, 60, 4096])
async def test_requests_in_any_parts_are_answered(tmp_path, part):
    async with wired(tmp_path) as (_, shortcut, wire):
        to = wire()
        for length in (1, 2, 3, 2):
            assert len(json.loads((await to.ask(post(RANK, {"length": length}), part))[2])["items"]) == length
        assert shortcut.taken == 4


async def test_requests_sent_ahead_are_answered_in_their_order(tmp_path):
    async with wired(tmp_path) as (_, shortcut, wire):
        to = wire()
        shown = json.loads((await to.ask(post(RANK, {})))[2])
        answer = post(FEEDBACK, {"impression": shown["impression"], "clicked": None})
        to.send(answer + post(RANK, {"length": 1}))  # the answer waits for the disk, the list need not
        assert len(to.answers()) == 1
        await until(lambda: len(to.answers()) == 3)
        (_, _, first), (_, _, second) = to.answers()[1:]
        assert json.loads(first) == {"outcome": "learnt"}
        assert len(json.loads(second)["items"]) == 1
        to.send(post(RANK, {"length": 1}) + b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        await until(lambda: len(to.answers()) == 5)
        assert to.answers()[-1][2] == b"alive\n"
        to.send(b"".join(post(FEEDBACK, {"impression": shown["impression"], "clicked": None}) for _ in range(2)))
        await until(lambda: len(to.answers()) == 7)
        assert [json.loads(content)["outcome"] for _, _, content in to.answers()[5:]] == ["duplicate"] * 2
        assert shortcut.taken > 4


async def test_heads_that_came_together_are_not_taken_for_one_another(tmp_path):
    async with wired(tmp_path) as (local, _, wire):
        await local.board("c", items=["only this"], length=1)
        one, other = post(RANK, {}), post(b"/v1/boards/c/rank", {})
        await wire().ask(one + other)
        assert json.loads((await wire().ask(one))[2])["items"][0] in ITEMS
        assert json.loads((await wire().ask(other))[2])["items"] == ["only this"]


async def test_an_id_that_nobody_here_has_signed_yet_is_looked_for_in_the_log(tmp_path):
    """Another worker of the file has rotated the secret, and gave out a list, a moment ago."""
    async with wired(tmp_path) as (local, _, wire), serving(local.worker.url) as other:
        await other.ask("POST", "boards/b/secret")
        shown = await other.rank()
        code, _, content = await wire().ask(post(FEEDBACK, {"impression": shown["impression"], "clicked": None}))
        assert (code, json.loads(content)["outcome"]) == (200, "learnt")


async def test_who_takes_nothing_is_given_no_more_until_it_does(tmp_path):
    async with wired(tmp_path) as (_, shortcut, wire):
        to = wire()
        await to.ask(post(RANK, {}))
        to.protocol.pause_writing()
        to.send(post(RANK, {}))
        await asyncio.sleep(0.05)
        assert (shortcut.taken, len(to.answers())) == (1, 1)
        to.protocol.resume_writing()
        await until(lambda: len(to.answers()) == 2)


async def test_an_answer_whose_sender_has_gone_is_learnt(tmp_path):
    async with wired(tmp_path) as (local, shortcut, wire):
        to = wire()
        shown = json.loads((await to.ask(post(RANK, {})))[2])
        to.send(post(FEEDBACK, {"impression": shown["impression"], "clicked": None}))
        to.close()
        to.protocol.connection_lost(None)
        assert shortcut.taken == 2
        await until(lambda: local.worker.boards["b"].board.answers == 1)
        assert local.worker.boards["b"].users == 0
        assert local.worker.boards["b"].answering == {}


async def test_a_connection_that_is_not_kept_open_is_closed(tmp_path):
    async with wired(tmp_path) as (_, shortcut, wire):
        for headers, version in (
            (b"host: 127.0.0.1\r\nconnection: close\r\n", b"1.1"),
            (b"host: localhost\r\n", b"1.0"),
        ):
            for _ in range(2):
                to = wire()
                code, answered, _ = await to.ask(post(RANK, {}, headers).replace(b"HTTP/1.1", b"HTTP/" + version))
                assert (code, to.closed, answered[b"connection"]) == (200, True, b"close")
        assert shortcut.taken == 4


async def test_a_board_that_cannot_answer_at_once_is_left_to_the_application(tmp_path):
    async with wired(tmp_path) as (local, shortcut, wire):
        to = wire()
        shown = json.loads((await to.ask(post(RANK, {})))[2])
        session = local.worker.boards["b"]
        session.resealing = asyncio.get_running_loop().create_future()
        to.send(post(FEEDBACK, {"impression": shown["impression"], "clicked": None}))
        await asyncio.sleep(0.02)
        assert (shortcut.taken, len(to.answers())) == (1, 1)
        session.resealing.set_result(None)
        await until(lambda: len(to.answers()) == 2)
        assert json.loads(to.answers()[1][2])["outcome"] == "learnt"
        added = await to.ask(post(RANK, {"candidates": ["brand new"], "unknown": "add"}))
        assert json.loads(added[2])["items"] == ["brand new"]
        assert shortcut.taken == 1


async def test_a_collection_is_ranked_and_answered(tmp_path):
    async with wired(tmp_path) as (local, shortcut, wire):
        await local.ask("PUT", "collections/c", {"length": 2, "settle": 0})
        to = wire()
        ranked = await to.ask(post(b"/v1/collections/c/rank", {"query": "tea", "candidates": ["x", "y", "z"]}))
        shown = json.loads(ranked[2])
        assert shown["items"] == ["x", "y"]
        answer = {"impression": shown["impression"], "clicked": "y"}
        assert json.loads((await to.ask(post(b"/v1/collections/c/feedback", answer)))[2])["outcome"] == "learnt"
        assert shortcut.taken == 2
        assert (await to.ask(post(b"/v1/boards/c/rank", {})))[0] == 404


@given(
    st.lists(
        st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 999), st.binary(max_size=40), st.binary(max_size=90))
    ),
    st.integers(1, 50),
)
def test_frames_are_the_same_in_any_parts(frames, part):
    sent = b"".join(_frame(*frame) for frame in frames)
    splitter, found = _Frames(200), []
    for start in range(0, len(sent), part):
        splitter.add(sent[start : start + part])
        found += iter(splitter.first, None)
    assert found == frames


class Ownership:
    """Says that another worker owns every board."""

    address = "127.0.0.1:1"

    def __init__(self, owner):
        self.owner = owner

    def partition_of(self, name):
        return 0

    def address_of(self, partition):
        return self.owner


@contextlib.asynccontextmanager
async def listening(answer):
    """The address of a server that is no worker, and what connects to it."""
    answering = set()

    async def answered(reader, writer):
        answering.add(asyncio.current_task())
        try:
            await answer(reader, writer)
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    server = await asyncio.start_server(answered, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in answering:
            task.cancel()
        await asyncio.gather(*answering, return_exceptions=True)


async def asked(links, body, patience=5.0):
    """A future of what a link answers; None if it cannot be asked."""
    future = asyncio.get_running_loop().create_future()

    def done(address, *answer):
        future.set_result(answer)

    return future if links.ask("b", b"what", body, patience, done) else None


async def linked(links):
    """Wait for a link."""
    first = None
    end = time.monotonic() + 20
    while first is None:
        assert time.monotonic() < end
        first = await asked(links, b"first")
        await asyncio.sleep(0.01)
    return first


async def test_a_link_answers_each_request_in_whatever_order_they_are_ready():
    kept = []

    class Far(asyncio.Protocol):
        def connection_made(self, transport):
            self.transport = transport

        def data_received(self, data):
            if not hasattr(self, "link"):
                assert data.startswith(GREETING)
                self.link, data = AnsweringLink(self.transport, lambda what: self.take), data[len(GREETING) :]
            self.link.received(data)

        def take(self, reply, body):
            kept.append((reply, body))
            return body != b"not here"

    loop = asyncio.get_running_loop()
    server = await loop.create_server(Far, "127.0.0.1", 0)
    links = Links(Ownership(f"127.0.0.1:{server.sockets[0].getsockname()[1]}"))
    first = await linked(links)
    second, third = await asked(links, b"second"), await asked(links, b"not here")
    assert await third == (0, b"", b"")
    kept[1][0].send(200, b"x: y\r\n", b"two")
    assert await second == (200, b"x: y\r\n", b"two")
    kept[0][0].send(503, b"", b"x" * 300_000)
    assert await first == (503, b"", b"x" * 300_000)
    late = await asked(links, b"late", 0.01)
    assert await late == (0, b"", b"")  # left to others
    assert await asked(links, b"soon after") is None
    kept[-1][0].send(200, b"", b"too late")
    links._links[links._ownership.owner].late = 0.0
    lost = await asked(links, b"lost")
    await until(lambda: kept[-1][1] == b"lost")
    kept[-1][0]._link._transport.abort()
    assert await asyncio.wait_for(lost, 60.0) == (0, b"", b"")
    await linked(links)  # there is another one soon
    links._ownership.owner = "127.0.0.1:2"  # the board has moved
    links.close()
    server.close()


async def test_a_worker_that_knows_no_links_is_asked_over_http():
    greetings = []

    async def answer(reader, writer):
        greetings.append(await reader.read(100))
        writer.write(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n")
        writer.close()

    async with listening(answer) as address:
        links = Links(Ownership(address))
        assert await asked(links, b"") is None
        await until(lambda: len(greetings) == 1)
        await until(lambda: links._tried[address] > time.monotonic() + 10)  # not again for a while
        assert await asked(links, b"") is None
        assert greetings == [GREETING]
        links.close()


async def test_the_rest_of_an_answer_is_not_waited_for_once_who_gives_it_is_gone():
    alive = True

    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nsome")
        await until(lambda: not alive)
        await reader.read()
        writer.close()

    async with listening(answer) as address:
        peers = Peers(lambda asked: alive and asked == address)
        reply = await peers.ask(address, "GET", b"/", [])
        assert await reply.part() == b"some"
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(rest := asyncio.ensure_future(reply.part())), 0.5)
        alive = False
        with pytest.raises(NotReached):
            await asyncio.wait_for(rest, 10.0)
        peers.close()


@pytest.mark.parametrize("garbage", [b"\xff" * 12, _frame(1, 0, b"no msgpack", b"{}"), b"GET / HTTP/1.1\r\n\r\n"])
async def test_what_is_no_frame_ends_a_link(tmp_path, garbage):
    async with wired(tmp_path) as (local, shortcut, wire):
        shortcut._links = Links(Ownership("127.0.0.1:2"))
        to = wire()
        to.send(GREETING + garbage)
        assert to.got == GREETING
        assert to.closed
        assert local.worker.boards["b"].board.events == 1


async def test_a_link_costs_no_more_than_any_connection(tmp_path):
    """Whoever can reach a worker can make one: it ends when nothing comes, and makes room for others."""
    async with wired(tmp_path, Limits(connections=8)) as (_, shortcut, wire):
        shortcut._links = Links(Ownership("127.0.0.1:2"))
        links = [wire() for _ in range(8)]
        others = links[0].protocol._others
        for link in links:
            link.send(GREETING)
        others.sweep(time.monotonic())
        assert not any(link.closed for link in links)
        assert not wire().closed
        assert [link.closed for link in links] == [True] + [False] * 7  # the one that has waited longest
        others.sweep(time.monotonic() + links[0].protocol.timeout_keep_alive + 1.0)
        assert all(link.closed for link in links)


LISTS = msgspec.msgpack.encode(("boards/rank", "b", {"host": "127.0.0.1"}))


def flood(wire):
    """Far more than is looked at in one turn."""
    wire.send(b"".join(_frame(number, 0, LISTS, b"") for number in range(1, 1_001)))


async def test_a_link_reads_no_more_while_anything_waits_or_nobody_takes_its_answers(tmp_path):
    async with wired(tmp_path) as (_, shortcut, wire):
        shortcut._links = Links(Ownership("127.0.0.1:2"))
        to = wire()
        to.send(GREETING)
        assert to.reading
        to.got = b""
        flood(to)
        assert not to.reading
        to.protocol.pause_writing()
        given = to.got.count(b"impression")
        assert 0 < given <= 16  # what one turn gives out
        for _ in range(5):
            await asyncio.sleep(0)
        assert to.got.count(b"impression") == given
        assert not to.reading
        to.protocol.resume_writing()
        assert not to.reading  # for something waits still
        await until(lambda: to.reading)
        frames = _Frames(1 << 20)
        frames.add(to.got)
        assert [frame[:2] for frame in iter(frames.first, None)] == [(number, 200) for number in range(1, 1_001)]


async def test_what_waits_in_a_link_is_not_begun_once_its_connection_is_lost(tmp_path):
    """Who asked has left it to others by then."""
    async with wired(tmp_path) as (local, shortcut, wire):
        shortcut._links = Links(Ownership("127.0.0.1:2"))
        to = wire()
        to.send(GREETING)
        flood(to)
        to.close()
        to.protocol.connection_lost(None)
        given = to.got.count(b"impression")
        await local.quiet()
        assert local.worker.boards["b"].board.events == 1 + given <= 17


async def test_what_a_link_asks_is_answered_as_what_a_client_asks(tmp_path):
    async with wired(tmp_path) as (_, shortcut, wire):
        shortcut._links = Links(Ownership("127.0.0.1:2"))
        to = wire()
        to.send(GREETING[:5])
        assert to.got.startswith(b"HTTP/1.1 400")  # in parts it is taken for what it is not
        to, headers = wire(), {"host": "127.0.0.1"}
        to.send(GREETING)
        assert to.got == GREETING
        frames = _Frames(1 << 20)

        def answered():
            frames.add(to.got)
            to.got = b""
            return [*iter(frames.first, None)]

        def ask(number, what, body, given=headers, board="b"):
            to.send(_frame(number, 0, msgspec.msgpack.encode((what, board, given)), json.dumps(body).encode()))

        to.got = b""
        ask(7, "boards/rank", {"length": 2})
        [(number, code, _, content)] = answered()
        shown = json.loads(content)
        assert (number, code, len(shown["items"])) == (7, 200, 2)
        for number, (what, body, given, board) in enumerate(
            [
                ("boards/rank", {}, {"host": "example.org"}, "b"),
                ("boards/rank", {}, headers, "none"),
                ("boards/items", {}, headers, "b"),
                ("boards/rank", {"length": "x"}, headers, "b"),
            ]
        ):  # whatever is to be refused is left to who can say why
            ask(number, what, body, given, board)
            assert answered() == [(number, 0, b"", b"")]
        ask(8, "boards/feedback", {"impression": shown["impression"], "clicked": None})
        await until(lambda: to.got)
        assert [(x[0], x[1], json.loads(x[3])) for x in answered()] == [(8, 200, {"outcome": "learnt"})]
        to.protocol.shutdown()  # the server ends
        assert to.closed
