"""Streams into the service: real Redis and librdkafka's own mock brokers; kills lose nothing and double nothing."""

import contextlib
import functools
import json
import os
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request

import hypothesis.strategies as st
import pytest
import redis
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from hypothesis import given

from service_tools import ITEMS, Server, free_port, replayed, serving, wait_until
from steadyrank.cli import main
from steadyrank.client import Client
from steadyrank.core.refusals import Refused
from steadyrank.service.alerts.webhook import Alert, Webhook, sign
from steadyrank.service.board.feedback import Reported
from steadyrank.service.http.auth import make_key
from steadyrank.service.storage import open_store
from steadyrank.streams.emit import AlertReceiver, ListWatcher
from steadyrank.streams.ingest import Ingest, Metrics
from steadyrank.streams.kafka import KafkaTopic
from steadyrank.streams.redis import RedisSink, RedisStream
from steadyrank.streams.stream import Message, read_address

KILLS = int(os.environ.get("STEADYRANK_KILLS", "2"))
BOARD = {"items": ITEMS, "length": 4, "settle": 0, "count_unanswered": False}


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/store.db"


@pytest.fixture
def server(url, tmp_path):
    found = Server(url, tmp_path / "log").wait()
    found.client().put_board("b", **BOARD)
    return found


@pytest.fixture(scope="module")
def redis_port(tmp_path_factory):
    # one program of several names: Debian's redis-tools has it, too, and begins no service on the machine
    program = shutil.which("redis-server") or shutil.which("redis-check-rdb")
    if program is None:
        pytest.skip("no redis-server on this machine: on Debian, apt-get install redis-tools")
    port, folder = free_port(), tmp_path_factory.mktemp("redis")
    words = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    process = subprocess.Popen(words, executable=program, stdout=subprocess.DEVNULL)
    with contextlib.closing(redis.Redis(port=port)) as db:
        wait_until(lambda: _answers(db))
    yield port
    process.kill()
    process.wait()


def _answers(db):
    with contextlib.suppress(redis.ConnectionError):
        return db.ping()
    return False


@pytest.fixture
def db(redis_port):
    with contextlib.closing(redis.Redis(port=redis_port)) as found:
        found.flushall()
        yield found


@pytest.fixture
def start():
    """Starts commands as processes of their own, beside a server; they end with the test."""
    processes = []

    def started(command, stream, server, *options):
        words = [command, stream, "--server", server.address, *map(str, options)]
        processes.append(Server.nursery.fork(words, dict(os.environ), os.devnull))
        return processes[-1]

    yield started
    for process in processes:
        process.kill()
        process.wait()


def metrics(place):
    with urllib.request.urlopen(f"http://{place}/metrics", timeout=5) as page:
        return page.read().decode()


def pending(db):
    """How many messages were taken by the group and not finished."""
    with contextlib.suppress(redis.ResponseError):  # there is no group yet
        return db.xpending("clicks", "steadyrank")["pending"]
    return 0


def add(db, *messages, stream="clicks"):
    for message in messages:
        db.xadd(stream, {"data": message if isinstance(message, bytes | str) else json.dumps(message)})


def once(server, port, *options):
    """`steadyrank ingest`, here, until nothing waits."""
    arguments = ["ingest", f"redis://127.0.0.1:{port}/clicks", "--server", server.address, "--once"]
    assert main([*arguments, *map(str, options)]) == 0


def dead(db, stream="clicks.dead"):
    return [{k.decode(): v.decode(errors="replace") for k, v in fields.items()} for _, fields in db.xrange(stream)]


def shown(id_, items=tuple(ITEMS[:3]), **more):
    return {"board": "b", "id": id_, "items": list(items)} | more


async def ask(local, *rows, code=200, where=""):
    found = await local.ask("POST", f"ingest{where}", {"rows": list(rows)}, code)
    return found["rows"] if code == 200 else found


async def test_each_message_is_told_its_own_outcome(url):
    async with serving(url) as local:
        await local.board(settle=0)
        list_ = await local.rank()
        answer = {"board": "b", "impression": list_["impression"], "clicked": list_["items"][0]}
        query = {"query_id": "q1", "application": "b", "query_response_hit_ids": ITEMS[:3]}
        click = {"query_id": "q1", "action_name": "click", "object_id": ITEMS[2]}
        rows = await ask(local, answer, shown("x", clicked=ITEMS[1]), query, click, {"query_id": "q1"}, 7, {"a": 1})
        assert [row["code"] for row in rows] == [200] * 5 + [422] * 2
        assert [row["outcome"] for row in rows[:4]] == ["learnt", "learnt", "taken", "taken"]
        rows = await ask(local, answer, shown("x", clicked=ITEMS[1]), answer | {"clicked": None}, shown("y", []))
        assert [row["outcome"] for row in rows[:2]] == ["duplicate", "duplicate"]
        assert [row["code"] for row in rows[2:]] == [409, 422]
        other = [answer | {"board": "c"}, shown("x") | {"board": "c"}, shown("x") | {"board": "no/name"}]
        assert [row["code"] for row in await ask(local, *other)] == [404, 404, 422]
        assert not any(row["again"] for row in await ask(local, *other))
        for places in ([["s", 1], ["s", 2]], [["", 1]], [["s", -1]], [["s", 2**63]]):
            refused = await local.ask("POST", "ingest", {"rows": [answer], "places": places}, 422)
            assert "places" in refused["message"]
        board = await local.ask("GET", "boards/b")
        assert (board["answers"], board["clicks"], board["impressions"]) == (3, 3, 3)


async def test_the_board_of_a_stream_is_that_of_messages_without_one(url):
    async with serving(url) as local:
        await local.board(settle=0)
        bare = {"id": "x", "items": ITEMS[:3], "clicked": None}
        assert (await ask(local, bare))[0]["code"] == 422
        query = {"query_id": "q1", "application": "elsewhere", "query_response_hit_ids": ITEMS[:3]}
        rows = await ask(local, bare, query, where="?board=b")
        assert [row["code"] for row in rows] == [200, 200]
        assert (await local.ask("GET", "boards/b"))["impressions"] == 2


async def test_what_the_board_has_no_room_for_waits_and_what_one_client_sends_too_much_does_not(url):
    async with serving(url) as local:
        await local.board(settle=0, anonymous_minute=1, client_minute=1)
        rows = [shown(f"x{k}", clicked=None) for k in range(2)]
        rows += [shown(f"y{k}", clicked=None, client="ann") for k in range(2)]
        codes = [(row["code"], row["again"]) for row in await ask(local, *rows)]
        assert sorted(codes) == [(200, False), (200, False), (429, False), (429, True)]


def test_a_redis_stream_is_learnt_from_once_and_bad_messages_are_dead_letters(server, db, redis_port, capsys):
    client = server.client()
    lists = [client.rank("b") for _ in range(5)]
    add(db, *({"board": "b", "impression": one.impression, "clicked": one.items[0]} for one in lists))
    add(db, shown("page 1", clicked=ITEMS[0]), {"board": "b", "items": ITEMS[:2], "clicks": [0, 1]})
    add(db, {"query_id": "q", "application": "b", "query_response_hit_ids": ITEMS[:3]})
    add(db, "no JSON", "[1]", '{"board": "b", "id": "n", "items": ["a"], "time": NaN}', '{"x": "\\ud800"}')
    add(db, shown("page 1", clicked=ITEMS[1]), b"\xff", {"board": "nobody", "id": "z", "items": ["a"]})
    once(server, redis_port)
    said = capsys.readouterr().out
    assert "messages: 7 dead, 7 learnt, 1 taken" in said
    letters = {letter["data"]: letter for letter in dead(db)}
    codes = {data: letter["code"] for data, letter in letters.items()}
    bad = {"no JSON", "[1]", '{"board": "b", "id": "n", "items": ["a"], "time": NaN}', '{"x": "\\ud800"}', "\ufffd"}
    assert {data for data, code in codes.items() if code == "422"} == bad
    assert sorted(codes.values()) == ["404", "409", *["422"] * 5]
    assert all(letter["reason"] and letter["source"].startswith("clicks/") for letter in letters.values())
    assert "NaN" in letters['{"board": "b", "id": "n", "items": ["a"], "time": NaN}']["reason"]
    board = client.board("b")
    assert (board["answers"], board["impressions"]) == (7, 8)
    db.xgroup_destroy("clicks", "steadyrank")  # the position is lost: all of it is read again
    once(server, redis_port)
    assert "7 duplicate" in capsys.readouterr().out
    assert (client.board("b")["answers"], client.board("b")["impressions"]) == (7, 8)


def test_what_a_board_has_forgotten_does_not_count_again(server, url, db, redis_port):
    """Lists of one millisecond, some without an id: all of them count, and further readings of them add nothing."""
    client = server.client()
    client.put_board("small", **BOARD, most_open=6)
    lists = [shown(f"x{k}", ITEMS[k : k + 3], clicked=None, board="small") for k in range(8)]
    lists += [{"board": "small", "items": ITEMS[k : k + 3], "clicked": None} for k in range(4)]
    query = {"query_id": "q", "application": "small", "query_response_hit_ids": ITEMS[:3]}
    with db.pipeline() as together:
        add(together, *lists, query)
        together.execute()
    for reading in range(3):
        once(server, redis_port, "--batch", 3)
        assert (client.board("small")["answers"], client.board("small")["impressions"]) == (12, 13), reading
        assert len(dead(db)) == 7 * reading  # it remembers six of them
        db.xgroup_destroy("clicks", "steadyrank")
    assert {letter["code"] for letter in dead(db)} == {"410"}
    server.stop()  # with a snapshot, which knows the same
    server.start()
    server.wait()
    once(server, redis_port, "--batch", 3)
    assert server.client().board("small")["impressions"] == 13
    server.stop()
    assert replayed(url, "small")


@given(st.data())
def test_lists_of_streams_count_once_however_often_and_late_they_come_again(data):
    """Three partitions, each read in order with steps back, as restarts make; 8 lists are remembered."""
    reported, remembered, counted = Reported(), dict[int, None](), []
    position = dict.fromkeys("abc", 0)
    for _ in range(60):
        stream = data.draw(st.sampled_from("abc"))
        position[stream] = max(position[stream] - data.draw(st.sampled_from([0, 0, 0, 2, 30])), 0)
        offset = position[stream]
        position[stream] += 1
        key = hash((stream, offset)) & (2**63 - 1)
        if key in remembered:
            continue
        with contextlib.suppress(Refused):
            reported.refuse_forgotten(key, 0.0, stream, offset)  # all of the same time
            remembered[key] = None
            if len(remembered) > 8:
                del remembered[next(iter(remembered))]
            reported.add(key, 0.0, remembered, stream, offset)
            counted.append((stream, offset))
        kept = Reported.restore(reported.keep(), reported.arrays())
        assert vars(kept) == vars(reported)
    highest = {stream: max((o for s, o in counted if s == stream), default=-1) for stream in "abc"}
    assert sorted(counted) == [(stream, offset) for stream in "abc" for offset in range(highest[stream] + 1)]


class _Dying(RedisStream):
    """A stream of which the position cannot be stored any more after the service has taken the messages."""

    def finish(self, messages):
        raise ConnectionError("gone")


def taken(stream, server, once=True):
    """What became of the messages of a stream."""
    with contextlib.closing(stream), contextlib.closing(Client(server.address)) as client:
        ingest = Ingest(stream, client, Metrics(None))
        ingest.run(once)
        return dict(ingest.counts)


def test_what_was_taken_and_not_finished_comes_again_and_counts_once(server, db, redis_port):
    address = read_address(f"redis://127.0.0.1:{redis_port}/clicks")
    add(db, *(shown(f"x{k}", clicked=ITEMS[k % 3]) for k in range(6)))
    with pytest.raises(ConnectionError, match="gone"):
        taken(_Dying(address, "g", "one", "clicks"), server)
    assert server.client().board("b")["answers"] == 6
    add(db, shown("x6", clicked=None))
    assert RedisStream(address, "g", "one", "clicks").lag() == {"0": 7}
    assert taken(RedisStream(address, "g", "one", "clicks"), server) == {"duplicate": 6, "learnt": 1}
    assert RedisStream(address, "g", "one", "clicks").lag() == {"0": 0}
    assert server.client().board("b")["answers"] == 7


def test_what_a_reader_left_behind_is_read_by_another(server, db, redis_port, monkeypatch):
    address = read_address(f"redis://127.0.0.1:{redis_port}/clicks")
    add(db, *(shown(f"x{k}", clicked=None) for k in range(5)))
    gone = RedisStream(address, "g", "gone", "clicks")
    assert [message.body is not None for message in gone.read(3, 0.1)] == [True] * 3
    db.xdel("clicks", gone.read(1, 0.1)[0].origin)  # a stream may be trimmed before it is read
    monkeypatch.setattr("steadyrank.streams.redis._GONE", 0.0)
    counts = taken(RedisStream(address, "g", "here", "clicks"), server)
    assert counts["learnt"] == 4
    assert RedisStream(address, "g", "here", "clicks").lag() == {"0": 0}


def test_nothing_is_finished_while_the_service_is_away_and_all_of_it_when_it_is_back(server, db, redis_port, start):
    add(db, *(shown(f"x{k}", clicked=None) for k in range(5)))
    server.kill()
    place = f"127.0.0.1:{free_port()}"
    process = start("ingest", f"redis://127.0.0.1:{redis_port}/clicks", server, "--metrics", place)
    wait_until(lambda: pending(db) == 5)
    assert 'steadyrank_stream_lag{partition="0"} 5.0' in metrics(place)
    server.start()
    server.wait()
    wait_until(lambda: pending(db) == 0)
    wait_until(lambda: 'steadyrank_stream_lag{partition="0"} 0.0' in metrics(place))
    assert 'steadyrank_stream_messages_total{outcome="learnt"} 5.0' in metrics(place)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
    assert server.client().board("b")["answers"] == 5
    assert not dead(db)


class _Growing:
    """A stream with one message, behind which more and more wait."""

    def __init__(self):
        self.left, self.behind = [Message("s/0", 0, "s/0/0", json.dumps(shown("x")).encode(), None)], 0

    def read(self, most, wait):
        taken, self.left = self.left, []
        return taken

    def lag(self):
        self.behind += 10
        return {"0": self.behind}

    def finish(self, messages):
        pass


def test_the_lag_is_told_while_the_service_is_away(monkeypatch):
    monkeypatch.setattr("steadyrank.streams.ingest._LOOK", 0.0)
    lags, pauses = [], []

    class Away:
        def ingest(self, rows, places, board, outcomes):
            raise ConnectionError("nobody listens")

    class Meter:
        def show_lag(self, lag):
            lags.append(lag)

    Ingest(_Growing(), Away(), Meter(), stop=lambda: len(pauses) == 3, sleep=pauses.append).run()
    assert lags == [{"0": 10}, {"0": 20}, {"0": 30}, {"0": 40}]
    assert pauses == [0.2, 0.5, 1.0]


def test_kills_of_the_reader_lose_nothing_and_double_nothing(server, url, db, redis_port, start):
    """Lists and answers in small batches, and `kill -9` in the middle, again and again."""
    client, count = server.client(), 150 * KILLS
    for k in range(count):
        list_ = client.rank("b")
        add(db, {"board": "b", "impression": list_.impression, "clicked": list_.items[k % 4]})
        add(db, shown(f"x{k}", clicked=ITEMS[k % 3]))
    stream = f"redis://127.0.0.1:{redis_port}/clicks"
    for kill in range(KILLS):
        process = start("ingest", stream, server, "--batch", "7", "--name", "one")
        wait_until(lambda: client.board("b")["answers"] > 2 * count * (kill + 1) / (KILLS + 1))  # noqa: B023
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert 0 < client.board("b")["answers"] < 2 * count
    once(server, redis_port, "--name", "one")
    board = client.board("b")
    assert (board["answers"], board["impressions"]) == (2 * count, 2 * count)
    assert not dead(db)
    server.stop()
    assert replayed(url)


def test_any_worker_takes_messages_of_all_boards(database, tmp_path):
    """Two workers of a PostgreSQL, each with boards of its own: one request, all kinds, an outcome each."""
    url = database.fresh()
    one = Server(url, tmp_path / "log1").wait()
    boards = [f"b{k}" for k in range(12)]
    for name in boards:
        one.client().put_board(name, **BOARD)
    other = Server(url, tmp_path / "log2").wait()
    client, owners = one.client(), one.client()

    def moved():
        return 0 < sum(here(one, name) for name in boards) < len(boards)

    wait_until(moved)
    rows = []
    for name in boards:
        list_ = owners.rank(name)
        rows.append({"board": name, "impression": list_.impression, "clicked": list_.items[0]})
        rows.append(shown("x", clicked=ITEMS[0]) | {"board": name})
        rows.append({"query_id": f"q {name}", "application": name, "query_response_hit_ids": ITEMS[:3]})
        rows.append({"query_id": f"q {name}", "action_name": "click", "object_id": ITEMS[1]})
    outcomes = dict.fromkeys(range(len(rows)))
    while waiting := [k for k, outcome in outcomes.items() if outcome is None]:
        for k, row in zip(
            waiting, client.ingest([rows[k] for k in waiting], [("s/0", k) for k in waiting]), strict=True
        ):
            assert row["code"] == 200 or row["again"], row
            outcomes[k] = row.get("outcome")
    assert set(outcomes.values()) <= {"learnt", "duplicate", "taken"}
    for server in (one, other):
        assert [server.client().board(name)["answers"] for name in boards] == [3] * len(boards)
    client.close()
    one.stop()
    other.stop()


def here(server, name):
    """Whether a worker owns a board: it does not say that another one answered."""
    request = urllib.request.Request(f"{server.address}/v1/boards/{name}")
    with contextlib.suppress(urllib.error.HTTPError), urllib.request.urlopen(request, timeout=10) as answer:
        return answer.headers.get("steadyrank-owner") is None
    return False


@pytest.fixture(scope="module")
def brokers():
    """Brokers of librdkafka's own, in this process, and a producer of theirs."""
    producer = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "none"})
    found = producer.list_topics(timeout=10).brokers.values()
    yield ",".join(f"{broker.host}:{broker.port}" for broker in found), producer
    producer.flush(1)


def test_a_kafka_topic_is_learnt_from_once_through_kills_of_its_reader(server, url, brokers, start):
    """Four partitions, small batches, dead letters among them; `kill -9` in the middle."""
    servers, producer = brokers
    client, kills, count = server.client(), -(-KILLS // 2), 100 * KILLS
    for k in range(count):
        list_ = client.rank("b")
        answer = {"board": "b", "impression": list_.impression, "clicked": list_.items[k % 4]}
        for message in (answer, shown(f"x{k}", clicked=ITEMS[k % 3])):
            producer.produce("clicks", json.dumps(message), str(k), partition=k % 4)
    for k in range(4):
        producer.produce("clicks", f"no JSON {k}", f"bad {k}", partition=k)
    assert producer.flush(30) == 0
    stream, quick = f"kafka://{servers}/clicks", ("--set", "session.timeout.ms=3000", "--batch", "7")
    for kill in range(kills):
        process = start("ingest", stream, server, *quick)
        wait_until(lambda: client.board("b")["answers"] > 2 * count * (kill + 1) / (kills + 1))  # noqa: B023
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert 0 < client.board("b")["answers"] < 2 * count
    arguments = ["ingest", stream, "--server", server.address, "--once", *quick]
    assert main(arguments) == 0
    board = client.board("b")
    assert (board["answers"], board["impressions"]) == (2 * count, 2 * count)
    letters = {letter.value(): dict(letter.headers()) for letter in everything(servers, "clicks.dead", 4)}
    assert letters.keys() == {f"no JSON {k}".encode() for k in range(4)}
    assert {letter["code"] for letter in letters.values()} == {b"422"}
    assert all(b"not a valid message" in letter["reason"] for letter in letters.values())
    server.stop()
    assert replayed(url)


def test_a_reader_of_kafka_that_waited_for_too_long_joins_again(brokers):
    """Three seconds in place of half an hour; what it had read comes again."""
    servers, producer = brokers
    bodies = {b"%d" % k for k in range(3)}
    for body in bodies:
        producer.produce("slow", body, partition=0)
    assert producer.flush(30) == 0
    settings = {"session.timeout.ms": "3000", "max.poll.interval.ms": "3000"}
    with contextlib.closing(KafkaTopic(read_address(f"kafka://{servers}/slow"), "g", "slow", settings)) as topic:
        read = []
        wait_until(lambda: read.extend(topic.read(3, 0.5)) or len(read) == 3)
        time.sleep(4.0)
        again = []
        wait_until(lambda: again.extend(topic.read(3, 0.5)) or {one.body for one in again} == bodies)
        assert {one.id for one in again} == {one.id for one in read}


def everything(servers, topic, least):
    """The messages of a topic from its beginning, at least so many."""
    settings = {"bootstrap.servers": servers, "group.id": "look", "auto.offset.reset": "earliest"}
    with contextlib.closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(4)])
        found = []

        def all_there():
            found.extend(message for message in consumer.consume(100, 0.5) if message.error() is None)
            return len(found) >= least

        wait_until(all_there, 60)
        return found


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (["ingest"], "STEADYRANK_STREAM"),
        (["ingest", "redis://localhost"], "redis://localhost"),
        (["ingest", "amqp://localhost/clicks"], "amqp"),
        (["ingest", "redis://u:geheim@host:x/clicks"], "PORT"),
        (["ingest", "redis://localhost/clicks", "--batch", "0"], "from 1 to 10000"),
        (["ingest", "redis://localhost/clicks", "--set", "a=b"], "setting of Kafka"),
        (["ingest", "redis://localhost:1/clicks"], "localhost:1"),
        (["ingest", "kafka://localhost:1/clicks", "--set", "no.such=1"], "no.such"),
        (["ingest", "kafka://localhost:1/clicks", "--set", "secret"], "NAME=VALUE"),
        (["emit", "redis://localhost/changes", "--alerts", "127.0.0.1:9500"], "--webhook-secret-file"),
        (["emit", "redis://localhost/changes", "--every", "0"], "more than 0"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_read(wrong, words, capsys, monkeypatch):
    monkeypatch.delenv("STEADYRANK_STREAM", raising=False)
    assert main(wrong) == 2
    said = capsys.readouterr().err
    assert words in said
    assert "geheim" not in said


def test_a_key_that_opens_nothing_ends_the_reader_and_nothing_is_finished(server, url, db, redis_port, capsys):
    store = open_store(url)
    store.add_key(make_key(["admin"], None, 0.0)[1])
    store.close()
    wait_until(lambda: not opens(server))
    add(db, shown("x", clicked=None))
    arguments = ["ingest", f"redis://127.0.0.1:{redis_port}/clicks", "--server", server.address, "--once"]
    assert main(arguments) == 2
    assert "key" in capsys.readouterr().err
    assert pending(db) == 1
    assert not dead(db)


def opens(server):
    with contextlib.suppress(urllib.error.HTTPError), urllib.request.urlopen(f"{server.address}/v1/boards"):
        return True
    return False


def test_a_list_that_changed_is_put_into_the_stream_once(server, db, redis_port):
    sink, now = RedisSink(read_address(f"redis://127.0.0.1:{redis_port}/changes")), [0.0]
    client = server.client()
    client.put_board("other", **BOARD)
    with contextlib.closing(sink):
        watcher = ListWatcher(client, sink, frozenset(["b"]), clock=lambda: now[0])
        assert [watcher.look() for _ in range(2)] == [1, 0]  # of each board once, after the start
        client.history("b", [{"items": [ITEMS[11], ITEMS[10]], "clicked": ITEMS[10]}] * 300)
        assert [watcher.look() for _ in range(2)] == [1, 0]
        now[0] += 10_000  # nothing that was shown is open any more: the board is left alone
        assert watcher.look() == 0
    messages = [(fields, json.loads(fields["data"])) for fields in dead(db, "changes")]
    assert [(fields["key"], message["type"]) for fields, message in messages] == [("b", "list")] * 2
    first, second = (message["data"] for _, message in messages)
    assert second["items"] == [row["item"] for row in client.watch("b")["list"]] != first["items"]
    assert second["items"][0] == ITEMS[10]
    assert len({fields["id"] for fields, _ in messages}) == 2


def test_alerts_of_the_webhook_go_into_the_stream_and_nobody_elses_do(db, redis_port):
    secret = b"x" * 24
    sink = RedisSink(read_address(f"redis://127.0.0.1:{redis_port}/changes"))
    receiver = AlertReceiver("127.0.0.1", 0, sink, functools.partial(sign, secret))
    with contextlib.closing(sink), contextlib.closing(receiver):
        address = f"http://127.0.0.1:{receiver.port}/"
        webhook = Webhook(address, secret)
        webhook.put(Alert("17", "regime", "b", "news", 1.7e9, "Board b: a new regime.", {"round": 7}))
        wait_until(lambda: db.xlen("changes") == 1)
        webhook.close()
        (told,) = dead(db, "changes")
        assert (told["id"], told["key"], json.loads(told["data"])["type"]) == ("17", "b", "regime")
        body, now = told["data"].encode(), int(time.time())

        def signed(when):
            name = {"webhook-id": "17", "webhook-timestamp": str(when)}
            return name | {"webhook-signature": sign(secret, "17", when, body)}

        assert alert(address, body, signed(now)) == 204
        forged = [signed(now) | {"webhook-id": "18"}, signed(now - 9_999), {}]
        assert [alert(address, body, headers) for headers in forged] == [401] * 3
        assert db.xlen("changes") == 2


def alert(address, body, headers):
    """The code that answers an alert."""
    try:
        with urllib.request.urlopen(urllib.request.Request(address, body, headers), timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_changes_go_to_a_kafka_topic(server, brokers, start):
    process = start("emit", f"kafka://{brokers[0]}/changes", server, "--every", "0.2")
    (message,) = everything(brokers[0], "changes", 1)
    assert message.key() == b"b"
    assert json.loads(message.value())["data"]["items"]
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
