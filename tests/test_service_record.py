"""Who changed what is in a record, and keys end when they should."""

import contextlib
import time

import pytest

import steadyrank as sr
from service_tools import ITEMS, Clocks, Server, serving, sql, until, wait_until
from steadyrank.cli import main
from steadyrank.service.http.auth import make_key
from steadyrank.service.storage import Unavailable, first_wrong, open_store


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/store.db"


def bearer(text):
    return {"headers": {"authorization": f"Bearer {text}"}}


def create(url, *scopes, now=1.0, expires=None, board=None):
    with contextlib.closing(open_store(url)) as store:
        text, key = make_key(scopes, board, now, expires)
        store.add_key(key, "somebody")
    return text, key.id


def acts(url):
    with contextlib.closing(open_store(url)) as store:
        found = store.acts(0)
    assert first_wrong(found) == 0
    return found


async def test_the_record_says_who_changed_what(url):
    ann, ann_id = create(url, "admin")
    bob, bob_id = create(url, "admin", board="b")
    async with serving(url) as local:
        await local.ask("PUT", "boards/b", {"items": ITEMS, "length": 4, "settle": 0}, **bearer(ann))
        shown = await local.ask("POST", "boards/b/rank", {"client": "a secret name"}, **bearer(bob))
        await local.answer(shown, clicked=shown["items"][0])
        await local.ask("POST", "boards/b/labels", {"start": 1, "end": 1, "label": "fraud"}, **bearer(bob))
        await local.ask("DELETE", "boards/b/labels/1", **bearer(bob))
        await local.ask("DELETE", "boards/b/items/item%203", **bearer(ann))
        await local.ask("POST", "boards/b/items", {"items": ["item 3"]}, **bearer(ann))
        await local.ask("DELETE", "boards/b/clients/a%20secret%20name", **bearer(ann))
        await local.ask("DELETE", "boards/b/items/n%00%0ane", code=404, **bearer(ann))
        await local.ask("DELETE", "boards/b", code=401)  # asked without a key: no part of the record
        await local.ask("DELETE", "boards/b", **bearer(ann))
        told = await local.ask("GET", "record", **bearer(ann))
        await local.ask("GET", "record", code=403, **bearer(bob))  # it tells of all boards
        after = await local.ask("GET", "record/9", **bearer(ann))
        await local.ask("GET", "record/x", code=404, **bearer(ann))
    rows = [(act.who, act.what, act.board, act.detail) for act in acts(url)]
    assert rows == [
        ("somebody", "key made", "", f"{ann_id}: admin"),
        ("somebody", "key made", "b", f"{bob_id}: admin"),
        (ann_id, "board made or changed", "b", '{"length":4,"settle":0.0}, 12 items'),
        (bob_id, "rounds labelled", "b", "1 to 1: 'fraud'"),
        (bob_id, "label taken back", "b", "1"),
        (ann_id, "item retired", "b", "item 3"),
        (ann_id, "items added or reinstated", "b", '["item 3"]'),
        (ann_id, "client forgotten", "b", ""),
        (ann_id, "item retired", "b", "n\\u0000\\u000ane"),
        (ann_id, "refused with 404: item retired", "b", "n\\u0000\\u000ane"),
        (ann_id, "board deleted", "b", ""),
    ]
    assert [(row["who"], row["what"], row["board"], row["detail"]) for row in told["record"]] == rows
    assert [row["number"] for row in after["record"]] == [10, 11]


async def test_nothing_is_changed_that_cannot_be_recorded(url, monkeypatch):
    async with serving(url) as local:
        await local.board()

        def away(*row):
            raise Unavailable("the record cannot be written")

        monkeypatch.setattr("steadyrank.service.storage.sql_store.SqlStore.record", away)
        await local.ask("DELETE", "boards/b", code=503)
        monkeypatch.undo()
        await until(lambda: local.worker.log_writer.available)
        await local.ask("GET", "boards/b")


def test_a_record_that_was_changed_is_noticed(url, capsys):
    create(url, "admin")
    create(url, "rank")
    create(url, "feedback")
    assert main(["record", "--store", url]) == 0
    assert capsys.readouterr().out.count("key made") == 3
    for change in ("UPDATE acts SET who = 'another' WHERE number = 2", "DELETE FROM acts WHERE number = 2"):
        with contextlib.closing(open_store(url)) as store:
            kept = store.acts()
        sql(url, change)
        assert main(["record", "--store", url]) == 2
        assert "does not follow" in capsys.readouterr().err
        sql(url, "DELETE FROM acts")
        for act in kept:
            sql(url, "INSERT INTO acts VALUES (?, ?, ?, ?, ?, ?, ?)", *act)
        assert main(["record", "--store", url]) == 0


async def test_a_key_ends_when_it_expires(url):
    clocks = Clocks()
    passing, _ = create(url, "admin", expires=clocks.wall + 100.0)
    lasting, _ = create(url, "rank")
    async with serving(url, clocks) as local:
        assert (await local.ask("GET", "boards", **bearer(passing)))["boards"] == []
        clocks.pass_time(99.0)
        await local.ask("GET", "boards", **bearer(passing))
        clocks.pass_time(1.0)
        await local.ask("GET", "boards", code=401, **bearer(passing))
        await local.ask("GET", "boards", **bearer(lasting))
        clocks.pass_time(1e9)
        await local.ask("GET", "boards", **bearer(lasting))
        await local.ask("GET", "boards", code=401)  # an expired key opens nothing to those without one


def test_keys_are_rotated_at_a_running_server(tmp_path, url, capsys):
    def run(*words, code=0):
        assert main([*words, "--store", url]) == code
        said = capsys.readouterr()
        return said.out + said.err

    old = run("keys", "create", "--scope", "rank", "--scope", "feedback", "--board", "b", "--expires", "90d").split()[
        0
    ]
    name = old.split(".")[1]
    assert "until" in run("keys", "list")
    server = Server(url, tmp_path / "log").wait()
    assert server.client(old).boards() == []
    assert "--expires" in run("keys", "rotate", name, code=2)
    new = run("keys", "rotate", name, "--grace", "4s", "--expires", "90d").split()[0]
    begin = time.monotonic()
    assert new != old

    def opens(key):
        try:
            return server.client(key).boards() == []
        except sr.Refused:
            return False

    wait_until(lambda: opens(new))
    assert opens(old) or time.monotonic() > begin + 3.5
    wait_until(lambda: not opens(old))
    assert time.monotonic() > begin + 2.0
    assert opens(new)
    assert "no key" in run("keys", "rotate", name, "--expires", "1d", code=2)
    assert server.stop() == 0
    with contextlib.closing(open_store(url)) as store:
        first, second = store.api_keys()
    assert (first.scopes, first.board) == (second.scopes, second.board) == ("feedback rank", "b")
    assert [act.what for act in acts(url)] == ["key made", "key rotated"]
    assert "expired" in run("keys", "list")
    run("keys", "revoke", second.id)
    assert [act.who.partition(",")[0] for act in acts(url)] == ["command line"] * 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["keys", "create", "--scope", "rank", "--expires", "90"], "a time such as 90d"),
        (["keys", "create", "--scope", "rank", "--expires", "0d"], "a time such as 90d"),
        (["keys", "create", "--scope", "rank", "--grace", "1d"], "--grace is for `keys rotate`"),
        (["keys", "list", "--expires", "1d"], "--expires is for"),
        (["keys", "rotate"], "name the key to rotate"),
        (["keys", "rotate", "nobody"], "no key 'nobody' that works"),
        (["keys", "list", "x"], "takes no id"),
    ],
)
def test_what_cannot_be_meant_is_refused(url, words, said, capsys):
    open_store(url).close()
    assert main([*words, "--store", url]) == 2
    assert said in capsys.readouterr().err
    assert acts(url) == []
