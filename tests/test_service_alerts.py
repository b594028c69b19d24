"""Alerts: what is told, how often, and that it arrives at a receiver that fails at first."""

import base64
import hashlib
import hmac
import http.server
import itertools
import json
import pathlib
import re
import shutil
import socket
import subprocess
import threading
import time
import urllib.request

import pytest
import yaml

from service_tools import ITEMS, Server, serving, until, wait_until
from steadyrank import cli
from steadyrank.service.alerts import webhook as webhook_module
from steadyrank.service.alerts.watcher import Watcher, watch
from steadyrank.service.alerts.webhook import MOST_WAITING, Alert, Webhook, read_secret, sign
from steadyrank.service.http.metrics import Metrics

ROOT = pathlib.Path(__file__).parent.parent
SECRET = "0123456789abcdef0123456789"
PROMTOOL = shutil.which("promtool")


class Receiver:
    """A real HTTP server that treats one request after another as it is told: a status, or None to hang up."""

    def __init__(self, *treat):
        self.treat, self.got = list(treat), []
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                code = receiver.treat.pop(0) if receiver.treat else 204
                receiver.got.append((code, dict(self.headers.items()), body))
                if code is None:
                    self.connection.close()
                    return
                self.send_response(code)
                self.send_header("location", "/elsewhere")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *args):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def taken(self):
        return [json.loads(body) for code, _, body in self.got if code == 204]


def check_signature(headers, body):
    """By the specification, not by our code."""
    headers = {name.lower(): value for name, value in headers.items()}
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    digest = hmac.new(SECRET.encode(), signed, hashlib.sha256).digest()
    assert headers["webhook-signature"] == "v1," + base64.b64encode(digest).decode()
    assert abs(time.time() - int(headers["webhook-timestamp"])) < 60
    return headers["webhook-id"]


def alert(n=1):
    return Alert(f"id{n}", "late", "front", "on", 1.7e9, f"text {n}", {"share": 0.25})


def test_signatures_are_those_of_the_specification():
    """The example that the public libraries for such webhooks are tested with."""
    secret = read_secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n")
    given = ("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert sign(secret, *given) == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    with pytest.raises(ValueError, match="must continue in base64"):
        read_secret("whsec_?")
    with pytest.raises(ValueError, match="at least 24 bytes, not 5"):
        read_secret("short\n")


def test_an_alert_is_sent_again_until_it_is_taken():
    with Receiver(500, None, 302, 429) as receiver:
        webhook = Webhook(receiver.url, SECRET.encode(), [0.01] * 9)
        webhook.put(alert(1))
        webhook.put(alert(2))
        wait_until(lambda: webhook.sent == 2)
        webhook.close()
        assert [code for code, *_ in receiver.got] == [500, None, 302, 429, 204, 204]
        assert [check_signature(headers, body) for _, headers, body in receiver.got] == ["id1"] * 5 + ["id2"]
        assert (webhook.failed, webhook.lost) == (4, 0)
        assert receiver.taken()[0] == {
            "type": "late", "timestamp": "2023-11-14T22:13:20+00:00", "text": "text 1",
            "data": {"board": "front", "state": "on", "share": 0.25},
        }  # fmt: skip


def test_what_nobody_takes_is_given_up_and_counted(caplog):
    with Receiver(*[503] * 3) as receiver:
        webhook = Webhook(receiver.url, SECRET.encode(), [0.01, 0.01])
        webhook.put(alert())
        webhook.put(alert(2))
        wait_until(lambda: webhook.sent == 1)
        assert (webhook.failed, webhook.lost) == (3, 1)
        webhook.close()
    slow = Webhook(receiver.url, SECRET.encode(), [30.0])  # nobody listens there any more
    begin = time.monotonic()
    for n in range(MOST_WAITING + 5):
        slow.put(alert(n))
    assert slow.lost == 5
    slow.close()
    assert time.monotonic() - begin < 25, "neither who tells nor the end waits for a receiver"
    assert (slow.sent, slow.lost) == (0, MOST_WAITING + 5)
    assert "alert given up" in caplog.text


class Dripping:
    """A receiver that takes a request and then sends one byte of its answer at a time, without end."""

    def __init__(self, begin, every=0.02):
        self.accepted, self.cut, self._begin, self._every = 0, threading.Event(), begin, every
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        with self._socket:
            while True:
                connection, _ = self._socket.accept()
                self.accepted += 1
                threading.Thread(target=self._drip, args=(connection,), daemon=True).start()

    def _drip(self, connection):
        with connection:
            connection.recv(65_536)
            try:
                for sign in itertools.chain(self._begin, itertools.cycle(b"x")):
                    connection.sendall(bytes([sign]))
                    time.sleep(self._every)
            except OSError:
                self.cut.set()


@pytest.mark.parametrize(
    ("scheme", "begin"),
    [
        ("http", b"HTTP/1.1 "),
        ("http", b"HTTP/1.1 204 No Content\r\nx-slow: "),
        ("https", b"\x16\x03\x03\x40\x00"),  # the beginning of a long record of a TLS handshake
    ],
)
def test_a_receiver_that_drips_is_cut_off_in_time(scheme, begin, monkeypatch):
    """Each byte comes long before a step of the connection would be given up."""
    monkeypatch.setattr(webhook_module, "TIMEOUT", 0.6)
    dripping = Dripping(begin)
    webhook = Webhook(f"{scheme}://127.0.0.1:{dripping.port}/", SECRET.encode(), [0.01])
    start = time.monotonic()
    webhook.put(alert())
    wait_until(lambda: webhook.lost == 1)
    assert 1.2 <= time.monotonic() - start < 10.0, "two tries"
    assert (webhook.failed, dripping.accepted) == (2, 2)
    assert dripping.cut.wait(10.0), "no connection is left behind"
    wait_until(lambda: not [thread for thread in threading.enumerate() if thread.name == "webhook request"])
    webhook.close()


def test_a_receiver_that_never_takes_the_request_is_cut_off_in_time(monkeypatch, caplog):
    """Who listens and never answers; who reads nothing of a body that is longer than what fits into the buffers."""
    monkeypatch.setattr(webhook_module, "TIMEOUT", 0.5)
    with socket.create_server(("127.0.0.1", 0), backlog=1) as deaf:
        webhook = Webhook(f"http://127.0.0.1:{deaf.getsockname()[1]}/", SECRET.encode(), [])
        webhook.put(alert()._replace(text="x" * 20_000_000))
        wait_until(lambda: webhook.lost == 1, 20.0)
        webhook.close()
    assert any("more than 0.5 seconds" in str(getattr(record, "fields", "")) for record in caplog.records)


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/store.db"


def rows(clicked, n):
    return [{"items": ITEMS[:4], "clicked": clicked} for _ in range(n)]


async def past(local, clicked, n=400):
    await local.ask("POST", "boards/b/history", {"rows": rows(clicked, n)})


async def test_a_new_regime_is_told_once_and_at_most_once_a_minute(url):
    async with serving(url) as local:
        told = []
        watcher = Watcher(local.worker, told.append, "one")
        await local.board(settle=0)
        await past(local, ITEMS[0])
        await watcher.look()
        assert told == []
        await past(local, ITEMS[3], 100)
        await watcher.look()
        (first,) = told
        assert (first.kind, first.board, first.state) == ("regime", "b", "news")
        assert first.text.startswith("Board b: a new regime 2 since round 40")
        assert first.text.endswith("It is not trusted.")
        assert first.detail["before"] == 1
        assert 395 <= first.detail["round"] <= first.detail["noticed"] <= 450
        local.clocks.pass_time(30)
        await watcher.look()
        await past(local, ITEMS[0])  # back: but the minute is not over
        await watcher.look()
        assert len(told) == 1
        local.clocks.pass_time(31)
        await watcher.look()
        assert len(told) == 2
        assert "back to regime 1" in told[1].text
        assert told[1].detail["trusted"]
        local.clocks.pass_time(120)
        await watcher.look()
        assert len(told) == 2
        other = Watcher(local.worker, told.append, "two")  # what was before its first look is no news
        await other.look()
        await local.ask("POST", "boards/b/labels", {"start": 401, "end": 500, "label": "fraud"})
        await local.quiet()
        local.clocks.pass_time(120)
        await watcher.look()  # another fold of the same past
        assert len(told) == 2


async def test_workers_tell_of_a_regime_under_the_same_id(url):
    async with serving(url) as local:
        await local.board(settle=0)
        await past(local, ITEMS[0])
        told = {name: [] for name in ("one", "two")}
        watchers = [Watcher(local.worker, told[name].append, name) for name in told]
        for watcher in watchers:
            await watcher.look()
        await past(local, ITEMS[3], 100)
        local.worker.cache.divergences += 1
        for watcher in watchers:
            await watcher.look()
        one, two = ({alert.kind: alert.id for alert in found} for found in told.values())
        assert one["regime"] == two["regime"]
        assert one["divergence"] != two["divergence"]


async def test_late_answers_and_silence_are_told_when_they_begin_and_end(url):
    async with serving(url) as local:
        told = []
        watcher = Watcher(local.worker, told.append, "one")
        await local.board(settle=10, lifetime=100)
        for _ in range(130):
            await local.answer(await local.rank(), clicked=None)
        await watcher.look()
        assert told == []
        lists = [await local.rank() for _ in range(12)]
        await local.quiet()
        local.clocks.pass_time(11)
        await local.quiet()
        for shown in lists:
            assert (await local.answer(shown, clicked=None))["outcome"] == "late"
        await watcher.look()
        (late,) = told
        assert (late.kind, late.state, late.detail) == ("late", "on", {"share": pytest.approx(12 / 142)})
        assert late.text == "Board b: 8% of the latest 200 answers came too late."
        expired = await local.rank()
        for _ in range(60):
            await local.rank()
        await local.quiet()
        local.clocks.pass_time(101)
        await local.quiet()
        await watcher.look()
        assert [(found.kind, found.state) for found in told[1:]] == [("unanswered", "on")]
        assert told[1].detail["share"] > 0.3
        assert told[1].detail["usual"] < 0.05
        await local.answer(expired, code=410, clicked=None)
        session = local.worker.boards["b"]
        assert session.lateness.share == pytest.approx(13 / 143), "refused as too late"
        for _ in range(230):
            await local.answer(await local.rank(), clicked=None)
        await local.quiet()
        local.clocks.pass_time(61)
        await local.quiet()
        await watcher.look()
        assert {(found.kind, found.state) for found in told[2:]} == {("late", "off"), ("unanswered", "off")}


async def test_clients_that_the_guard_silences_are_told(url):
    async with serving(url) as local:
        told = []
        watcher = Watcher(local.worker, told.append, "one")
        await local.board(settle=0, guard="Quota", guard_settings={"visits": 1})
        await watcher.look()
        for client in ("ann", "ann", "bob", "bob"):
            await local.answer(await local.rank(client=client), clicked=None)
        await watcher.look()
        (alert,) = told
        assert (alert.kind, alert.detail) == ("silenced", {"count": 2, "more": 2})
        assert alert.text == "Board b: 2 more clients or cohorts are refused, 2 in all."
        await watcher.look()
        assert len(told) == 1


async def test_items_whose_clicks_rise_while_outcomes_do_not_are_told_once(url):
    async with serving(url) as local:
        told = []
        watcher = Watcher(local.worker, told.append, "one")
        await local.board(settle=0, items=ITEMS[:4], learner="CascadeTS")

        async def visit(clicked, bought):
            await local.answer(await local.rank(), clicked=clicked, **({"value": 5.0} if bought else {}))

        async def visits(rounds, bots):
            for t in rounds:
                bot = bots and t % 2 == 0
                await visit(ITEMS[3] if bot or t % 10 == 1 else ITEMS[t % 3], not bot and t % 7 < 4)

        await visits(range(320), False)
        await watcher.look()
        assert told == []
        await visits(range(320, 480), True)
        await watcher.look()
        (alert,) = told
        assert (alert.kind, alert.state, alert.detail["count"]) == ("few_outcomes", "news", 1)
        (row,) = alert.detail["items"]
        assert row["item"] == ITEMS[3]
        began = f"{ITEMS[3]!r} was clicked more than before from round {row['start']} to {row['end']}, but fewer of "
        assert alert.text.startswith(f"Board b: {began}")
        due = round(row["expected_outcomes"])
        assert alert.text.endswith(f" outcomes where as many clicks lead to about {due}.")
        await visits(range(480, 540), True)
        local.clocks.pass_time(61)
        await watcher.look()
        assert [alert.kind for alert in told] == ["few_outcomes"]


async def test_a_store_that_is_away_is_told_and_told_when_it_is_back(url, monkeypatch):
    async with serving(url) as local:
        told = []
        watcher = Watcher(local.worker, told.append, "one")
        await watcher.look()  # nothing is known of the store yet, and nothing is told
        await until(lambda: local.worker.log_writer.available)
        await watcher.look()
        monkeypatch.setattr("steadyrank.service.worker.log_writer.PATIENCE", -1.0)  # seconds: it is past them at once
        await watcher.look()
        assert told == []
        await watcher.look()
        monkeypatch.undo()
        await watcher.look()
        assert [(a.kind, a.state, a.board) for a in told] == [("behind", "on", None)]
        assert told[0].text == "0 events wait to be written, and the store is away."
        local.clocks.pass_time(60)
        await watcher.look()
        assert [(a.kind, a.state) for a in told[1:]] == [("behind", "off")]


async def test_without_a_webhook_nothing_is_looked_at(url):
    async with serving(url) as local:
        await watch(local.worker, None)
        assert b'steadyrank_alerts_total{outcome="sent"} 0.0' in await Metrics(local.worker).page()


def test_bad_webhooks_are_refused_at_the_start(tmp_path, capsys, monkeypatch):
    secret, short = tmp_path / "secret", tmp_path / "short"
    secret.write_text(SECRET)
    short.write_text("abc")
    hook = ["--webhook", "http://x/"]
    for options, words in [
        ([*hook], "alerts are signed: name a file with --webhook-secret-file, or set STEADYRANK_WEBHOOK_SECRET"),
        ([*hook, "--webhook-secret-file", f"{tmp_path}/none"], "none cannot be read"),
        ([*hook, "--webhook-secret-file", f"{short}"], "must have at least 24 bytes, not 3"),
        (
            ["--webhook", "ftp://x/", "--webhook-secret-file", f"{secret}"],
            "http:// or https:// address, not 'ftp://x/'",
        ),
        (["--webhook-secret-file", f"{secret}"], "--webhook-secret-file goes with --webhook"),
    ]:
        assert cli.main(["serve", "--store", f"sqlite:///{tmp_path}/s.db", *options]) == 2
        assert words in capsys.readouterr().err
    monkeypatch.setenv("STEADYRANK_WEBHOOK", "nowhere")
    monkeypatch.setenv("STEADYRANK_WEBHOOK_SECRET", SECRET)
    assert cli.main(["serve", "--store", f"sqlite:///{tmp_path}/s.db"]) == 2
    assert "http:// or https:// address, not 'nowhere'" in capsys.readouterr().err


def names_in(text):
    return set(re.findall(r"\bsteadyrank_\w+", text))


def test_a_server_sends_alerts_and_has_every_metric_of_the_rules_and_the_dashboard(tmp_path, url):
    """A process, a receiver that fails at first, and the files in deploy/ against what /metrics says."""
    secret = tmp_path / "secret"
    secret.write_text(SECRET + "\n")
    with Receiver(503) as receiver:
        options = ["--webhook", receiver.url, "--webhook-secret-file", str(secret)]
        server = Server(url, tmp_path / "log", options=options).wait()
        client = server.client()
        client.put_board("b", items=ITEMS, length=4, settle=0)
        client.history("b", rows(ITEMS[0], 400))
        time.sleep(12)  # a look at least
        client.history("b", rows(ITEMS[3], 100))
        wait_until(lambda: receiver.taken())
        (found,) = receiver.taken()
        assert (found["type"], found["data"]["board"], found["data"]["after"]) == ("regime", "b", 2)
        ids = [check_signature(headers, body) for _, headers, body in receiver.got]
        assert len(ids) == 2
        assert len(set(ids)) == 1
        for _ in range(50):
            client.feedback("b", client.rank("b").impression, clicked=None)
        page = urllib.request.urlopen(f"{server.address}/metrics", timeout=10).read().decode()
        assert server.stop() == 0
    assert 'steadyrank_alerts_total{outcome="sent"} 1.0' in page
    assert re.search(r'^steadyrank_board_changes\{board="b"\} [1-9]', page, re.MULTILINE)
    assert 'steadyrank_board_late{board="b"} 0.0' in page
    there = names_in(re.sub(r"^#.*$", "", page, flags=re.MULTILINE))
    rules = (ROOT / "deploy" / "prometheus-rules.yml").read_text()
    grafana = (ROOT / "deploy" / "grafana-dashboard.json").read_text()
    for text in (rules, grafana, (ROOT / "docs" / "operations.md").read_text()):
        named = {name for name in names_in(text) if name != "steadyrank_request_seconds"}
        assert named
        assert named <= there, named - there
    check_rules(yaml.safe_load(rules), page)
    check_dashboard(json.loads(grafana), page)
    if PROMTOOL:
        promtool("check", "metrics", given=page)


@pytest.mark.skipif(not PROMTOOL, reason="promtool (Debian: prometheus) is not installed")
def test_prometheus_takes_the_rules_and_each_alert_fires_when_it_should():
    rules = ROOT / "deploy" / "prometheus-rules.yml"
    tries = ROOT / "deploy" / "prometheus-rules-test.yml"
    names = {rule["alert"] for group in yaml.safe_load(rules.read_text())["groups"] for rule in group["rules"]}
    for case in yaml.safe_load(tries.read_text())["tests"][:2]:  # none fires, and all do
        assert {step["alertname"] for step in case["alert_rule_test"]} == names
    promtool("check", "rules", str(rules))
    promtool("test", "rules", str(tries))


def promtool(*words, given=None):
    done = subprocess.run([PROMTOOL, *words], input=given, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def check_labels(expression, page):
    """Every label, and every value that is asked for by name, is in the page."""
    for name, inside in re.findall(r"(steadyrank_\w+)\{((?:[^{}\"]|\"[^\"]*\")*)\}", expression):
        lines = re.findall(rf"^{name}\{{(.*)\}} ", page, re.MULTILINE)
        for label, how, value in re.findall(r'(\w+)(=~|!=|=)"([^"]*)"', inside):
            assert any(f'{label}="' in line for line in lines), (name, label)
            if how == "=":
                assert any(f'{label}="{value}"' in line for line in lines), (name, value)


def check_rules(rules, page):
    docs = (ROOT / "docs" / "alerts.md").read_text()
    (group,) = rules["groups"]
    for rule in group["rules"]:
        assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}
        assert rule["expr"].count("(") == rule["expr"].count(")")
        assert rule["labels"]["severity"] in ("page", "warning")
        assert f"`{rule['alert']}`" in docs
        check_labels(rule["expr"], page)


def check_dashboard(dashboard, page):
    variables = {variable["name"] for variable in dashboard["templating"]["list"]}
    seen = set()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not seen & cells, f"{panel['title']} lies over another"
        seen |= cells
        for target in panel["targets"]:
            assert set(re.findall(r"\$(\w+)", target["expr"])) <= variables
            assert names_in(target["expr"])
            check_labels(target["expr"], page)
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
