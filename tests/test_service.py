"""The service over HTTP, in this process: what each request does, and that a restart changes nothing."""

import asyncio
import json
import logging
import pathlib

import msgspec
import numpy as np
import pytest

import steadyrank as sr
from service_tools import ITEMS, Clocks, replayed, serving, sql, until
from steadyrank.cli import main
from steadyrank.service.board import events
from steadyrank.service.board.board import Board
from steadyrank.service.board.config import COLLECTION_RANGES, RANGES, Config
from steadyrank.service.http import bodies
from steadyrank.service.http.auth import Auth, loopback, make_key
from steadyrank.service.http.bodies import explain
from steadyrank.service.http.rank_routes import waits
from steadyrank.service.storage import open_store
from steadyrank.service.worker import impression_ids

pytestmark = pytest.mark.pure


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/store.db"


async def traffic(local, rounds, name="b", seed=0, unanswered=0.2):
    """Lists, answers in another order, some of them twice, some lists never answered."""
    rng = np.random.default_rng(seed)
    waiting = []
    for _ in range(rounds):
        waiting.append(await local.rank(name))
        if rng.random() < 0.5 and waiting:
            shown = waiting.pop(int(rng.integers(len(waiting))))
            if rng.random() < unanswered:
                continue
            clicked = None if rng.random() < 0.4 else shown["items"][int(rng.integers(len(shown["items"])))]
            first = await local.answer(shown, name, clicked=clicked)
            assert first["outcome"] in ("learnt", "waiting", "late")
            if rng.random() < 0.3:
                assert (await local.answer(shown, name, clicked=clicked))["outcome"] == "duplicate"


async def test_a_board_ranks_and_learns(url):
    async with serving(url) as local:
        made = await local.board(settle=0)
        assert (made["learner"], made["items"], made["impressions"]) == ("SteadyRank", 12, 0)
        shown = await local.rank()
        assert len(set(shown["items"])) == 4
        assert shown["expires"] == local.clocks.wall + 1800
        assert (await local.answer(shown, clicked=shown["items"][2]))["outcome"] == "learnt"
        state = await local.ask("GET", "boards/b/state")
        looks = {item["item"]: (item["looks"], item["clicks"]) for item in state["items"]}
        assert [looks[item] for item in shown["items"]] == [(1, 0), (1, 0), (1, 1), (0, 0)]
        assert state["view"]["rounds"] == 1
        assert state["board"] == await local.ask("GET", "boards/b")
        assert [b["board"] for b in (await local.ask("GET", "boards"))["boards"]] == ["b"]


async def test_an_impression_is_answered_once(url):
    async with serving(url) as local:
        await local.board(settle=0)
        shown = await local.rank()
        item = shown["items"][0]
        assert (await local.answer(shown, clicked=item))["outcome"] == "learnt"
        assert (await local.answer(shown, clicked=item))["outcome"] == "duplicate"
        assert (await local.answer(shown, clicks=[1], examined=1))["outcome"] == "duplicate"
        assert "otherwise" in (await local.answer(shown, code=409, clicked=None))["message"]
        together = await local.rank()
        answers = await asyncio.gather(
            *(local.http.post("/v1/boards/b/feedback", json={"impression": together["impression"], "clicked": x})
              for x in [together["items"][1]] * 4 + [None] * 4)
        )  # fmt: skip
        outcomes = sorted(a.json().get("outcome", str(a.status_code)) for a in answers)
        assert outcomes.count("learnt") == 1
        assert outcomes.count("duplicate") == 3
        assert outcomes.count("409") == 4


async def test_refusals_have_fixed_codes_and_change_nothing(url):
    async with serving(url) as local:
        await local.board(settle=0)
        await local.board("other", settle=0)
        shown = await local.rank()
        foreign = await local.rank("other")
        id_ = shown["impression"]
        forged = id_[:20] + ("A" if id_[20] != "A" else "B") + id_[21:]
        before = local.digest()
        await local.quiet()
        before = local.digest()
        for code, body in [
            (403, {"impression": forged, "clicked": None}), (403, {"impression": "!", "clicked": None}),
            (403, {"impression": "", "clicked": None}),
            (403, {"impression": foreign["impression"], "clicked": None}),
            (422, {"impression": id_}), (422, {"impression": id_, "clicked": "nothing"}),
            (422, {"impression": id_, "clicked": "item 1", "clicks": [1]}),
            (422, {"impression": id_, "clicks": [2]}), (422, {"impression": id_, "clicks": [0] * 5}),
            (422, {"impression": id_, "clicks": [0, 1], "examined": 1}),
            (422, {"impression": id_, "clicked": None, "examined": 2}), (422, {"impression": id_, "clicked": 7}),
            (422, {"clicked": None}), (422, {"impression": id_, "clicked": None, "extra": 1}),
        ]:  # fmt: skip
            await local.ask("POST", "boards/b/feedback", body, code)
        await local.ask("POST", "boards/none/rank", {}, 404)
        await local.ask("POST", "boards/none/feedback", {"impression": id_, "clicked": None}, 404)
        await local.ask("POST", "boards/b/rank", {"candidates": ["unheard of"]}, 422)
        await local.ask("POST", "boards/b/rank", {"length": 5}, 422)
        await local.ask("POST", "boards/b/rank", {"candidates": []}, 422)
        bad = await local.http.post("/v1/boards/b/feedback", content=b"{not json")
        assert bad.status_code == 422
        assert (await local.http.post("/v1/boards/b/nothing")).status_code == 404
        assert (await local.http.patch("/v1/boards/b")).status_code == 405
        await local.quiet()
        assert local.digest() == before


async def test_errors_name_the_value_and_what_would_be_right(url):
    async with serving(url) as local:
        for body, words in [
            ({"items": ["a", 3]}, "items[1] must be text, not 3"),
            ({"items": ["a"], "length": 0}, "length must be from 1 to 1000, not 0"),
            ({"items": ["a"], "learner": "SteadyRnk"}, "SteadyRank"),
            ({"items": ["a"], "learner": "Oracle"}, "not live"),
            ({"items": ["a"], "lifetime": -1}, "lifetime must be"),
            ({"items": ["a"], "settle": 9999}, "settle must be from 0 to the lifetime, 1800, not 9999"),
            ({"items": ["a", "a"]}, "item 'a' is there already"),
            ({"items": [""]}, "1 to 500 characters"),
            ({"items": ["a"], "settings": {"caution": 7}}, "caution must be"),
            ({"items": ["a"], "new_share": 2}, "new_share must be"),
            ({}, "needs at least one item"),
            ({"items": ["a"], "colour": "red"}, "colour"),
        ]:
            answer = await local.ask("PUT", "boards/b", body, 422)
            assert words in answer["message"], answer
        assert "a letter or digit first" in (await local.ask("PUT", "boards/.b", {"items": ["a"]}, 422))["message"]
        assert (await local.ask("GET", "boards"))["boards"] == []


@pytest.mark.parametrize("name", sorted(RANGES | COLLECTION_RANGES))
async def test_a_setting_outside_of_its_range_is_refused_with_the_range_that_the_description_has(url, name):
    kind, path = ("Board", "boards/b") if name in RANGES else ("Collection", "collections/b")
    body = {"items": ["a"]} if name in RANGES else {}
    async with serving(url) as local:
        described = (await local.http.get("/openapi.json")).json()["components"]["schemas"]
        found = described[f"{kind}In"]["properties"][name]
        assert described[f"{kind}Out"]["properties"][name] == found
        found = found["anyOf"][0] if "anyOf" in found else found
        low, words = found.get("minimum", found.get("exclusiveMinimum", 1) - 1), (RANGES | COLLECTION_RANGES)[name]
        for value in (low - 1, found["maximum"] + 1):
            answer = await local.ask("PUT", path, body | {name: value}, 422)
            assert answer["message"] == f"{name} must be {words}, not {value}"
            assert str(found["maximum"]) in words
        if name in COLLECTION_RANGES:
            return
        with pytest.raises(msgspec.ValidationError, match="Expected"):
            Config().changed({name: low - 1})


async def test_answers_enter_in_impression_order_when_their_time_is_over(url):
    """Clicks come at once and non-clicks never: the learner must be told as one in process is."""
    clocks = Clocks()
    async with serving(url, clocks) as local:
        await local.board(lifetime=60)
        shown = [await local.rank() for _ in range(6)]
        first = await local.answer(shown[4], clicked=shown[4]["items"][0])
        assert first["outcome"] == "waiting"
        assert first["says"].startswith("waiting, learnt ")
        assert (await local.answer(shown[1], clicked=None))["outcome"] == "waiting"
        await local.quiet()
        assert local.worker.boards["b"].board.learner_state.looks.sum() == 0
        clocks.pass_time(59.0)
        await local.quiet()
        assert local.worker.boards["b"].board.learner_state.looks.sum() == 0
        clocks.pass_time(1.5)
        await local.quiet()
        board = local.worker.boards["b"].board
        assert board.impressions.expired == 4
        assert board.learner_state.looks.sum() == 5 * 4 + 1
        await local.answer(shown[0], code=410, clicked=None)
        late = await local.rank()
        await local.quiet()
        clocks.since += 61  # the wall clock stands still or was set back: the log still ends the impression
        await local.quiet()
        await local.answer(late, code=410, clicked=None)
    assert replayed(url) == board.digest()


async def test_a_clock_that_is_set_back_loses_nothing(url):
    clocks = Clocks()
    async with serving(url, clocks) as local:
        await local.board(lifetime=60, settle=20)
        shown = [await local.rank() for _ in range(4)]
        await local.answer(shown[0], clicked=None)
        await local.quiet()
        clocks.wall -= 86_400.0
        later = [await local.rank() for _ in range(4)]
        for s in (shown[1], later[0]):
            assert (await local.answer(s, clicked=s["items"][0]))["outcome"] == "waiting"
        assert (await local.answer(shown[0], clicked=None))["outcome"] == "duplicate"
        await local.quiet()
        clocks.pass_time(21)
        await local.quiet()
        assert local.worker.boards["b"].board.learner_state.looks.sum() == 4 + 1 + 1
        clocks.pass_time(40)
        await local.quiet()
        assert local.worker.boards["b"].board.impressions.expired == 5
        await local.answer(later[1], code=410, clicked=None)
        digest = local.digest()
    assert replayed(url) == digest


async def test_answers_after_settling_are_late_and_unanswered_lists_can_be_ignored(url):
    async with serving(url) as local:
        await local.board(lifetime=60, settle=10, count_unanswered=False)
        shown = [await local.rank() for _ in range(3)]
        await local.quiet()
        local.clocks.pass_time(11)
        await local.quiet()
        assert (await local.answer(shown[0], clicked=None))["outcome"] == "late"
        local.clocks.pass_time(60)
        await local.quiet()
        assert local.worker.boards["b"].board.learner_state.looks.sum() == 4


async def test_an_answer_counts_even_if_its_list_was_never_logged(url):
    """The worker that gave it out died before it wrote it: the id says everything."""
    async with serving(url) as local:
        await local.board(settle=0)
        session = local.worker.boards["b"]
        generation = session.board.generation
        shown_list = impression_ids.ImpressionId(77, 1, 0, generation, local.clocks.wall + 10, 0, [3, 1], [])
        shown = {"impression": impression_ids.seal(shown_list, session.signer)}
        assert (await local.answer(shown, clicked="item 1"))["outcome"] == "learnt"
        assert (await local.answer(shown, clicked="item 1"))["outcome"] == "duplicate"
        await local.worker.write_event(session, events.ListShown(77, 1, 0, 0, [3, 1], []))  # it was written after all
        assert session.board.impressions.last == 1
        assert session.board.learner_state.looks.sum() == 2


async def test_an_id_that_may_have_been_answered_and_forgotten_is_not_learnt_twice(url):
    async with serving(url) as local:
        await local.board(settle=0, most_open=3)
        first = await local.rank()
        assert (await local.answer(first, clicked=None))["outcome"] == "learnt"
        for _ in range(4):
            await local.rank()
        await local.quiet()
        await local.answer(first, code=410, clicked=None)
        assert local.worker.boards["b"].board.answers == 1


@pytest.mark.parametrize("every", [7, 10**9])
async def test_a_restart_changes_nothing(url, every, monkeypatch):
    """From snapshots and what came after, or from the log alone; and open impressions can still be answered."""
    monkeypatch.setattr("steadyrank.service.worker.worker.SNAPSHOT_EVERY", every)
    async with serving(url) as local:
        await local.board(lifetime=600, settle=30)
        await traffic(local, 60)
        open_one = await local.rank()
        await local.quiet()
        before = local.digest()
    assert replayed(url) == before
    async with serving(url, seed=1) as local:
        assert local.digest() == before
        assert (await local.answer(open_one, clicked=None))["outcome"] == "waiting"
        assert (await local.answer(open_one, clicked=None))["outcome"] == "duplicate"
        await traffic(local, 40, seed=1)
        await local.quiet()
        after = local.digest()
    assert replayed(url) == after != before


@pytest.mark.parametrize("damage", ["torn", "changed", "empty", "all"])
async def test_a_damaged_snapshot_is_left_out(url, damage, monkeypatch, caplog):
    monkeypatch.setattr("steadyrank.service.worker.worker.SNAPSHOT_EVERY", 20)

    with caplog.at_level(logging.WARNING):
        async with serving(url) as local:
            await local.board(settle=0)
            await traffic(local, 60)
            await local.quiet()
            before = local.digest()
        kept = open_store(url)
        number = next(iter(kept.boards()))
        found = kept.snapshots(number)
        assert len(found) >= 2
        for seq in found if damage == "all" else found[:1]:
            body = kept.snapshot(number, seq)
            bad = {"torn": body[:1000], "empty": b""}.get(damage, body[:500] + b"\0\1" + body[502:])
            sql(url, "UPDATE snapshots SET body = ? WHERE board = ? AND seq = ?", bad, number, seq)
        kept.close()
        async with serving(url) as local:
            assert local.digest() == before
    assert "snapshot left out" in caplog.text


@pytest.mark.parametrize("change", [{"learner": "CascadeUCBV"}, {"settings": {"window": 7}}, {"length": 3}])
async def test_another_learner_is_told_of_the_whole_log(url, tmp_path, change):
    async with serving(url) as local:
        await local.board(settle=0, seed=3)
        await traffic(local, 80)
        changed = await local.ask("PUT", "boards/b", change)
        assert changed | change == changed
        await traffic(local, 30, seed=2)
        await local.quiet()
        looks, digest = local.worker.boards["b"].board.learner_state.looks.tolist(), local.digest()
        assert not local.worker.boards["b"].board.stale
    assert replayed(url) == digest
    async with serving(url) as local:
        assert local.digest() == digest
        assert local.worker.boards["b"].board.learner_state.looks.tolist() == looks
        assert sum(looks) > 50


async def test_settings_that_concern_the_door_change_without_folding_again(url):
    async with serving(url) as local:
        await local.board(settle=0)
        await traffic(local, 10)
        session = local.worker.boards["b"]
        board = session.board
        await local.ask("PUT", "boards/b", {"lifetime": 60, "settle": 30, "client_minute": 5})
        assert session.board is board
        shown = await local.rank()
        assert shown["expires"] == local.clocks.wall + 60
        assert (await local.answer(shown, clicked=None))["outcome"] == "waiting"
        await local.quiet()
        digest = local.digest()
    assert replayed(url) == digest


async def test_items_come_and_go(url):
    async with serving(url) as local:
        await local.board(settle=0)
        assert (await local.ask("POST", "boards/b/items", {"items": ["new/one", "é"]}))["items"] == 14
        assert (await local.ask("DELETE", "boards/b/items/new%2Fone"))["items"] == 13
        await local.ask("DELETE", "boards/b/items/none", code=404)
        for _ in range(10):
            assert "new/one" not in (await local.rank())["items"]
        assert (await local.ask("POST", "boards/b/items", {"items": ["new/one"]}))["items"] == 14
        assert (await local.rank(candidates=["new/one", "é", "é"]))["items"] in (
            ["new/one", "é"],
            ["é", "new/one"],
        )
        assert len((await local.rank(length=2))["items"]) == 2
        await local.ask("POST", "boards/b/items", {"items": []}, 422)
        await local.ask("POST", "boards/b/items", {"items": [""]}, 422)
        await local.quiet()
        digest = local.digest()
        assert (await local.ask("PUT", "boards/b", {"items": [*ITEMS, "one more"]}))["items"] == 15
    assert replayed(url) != digest


async def test_an_item_added_at_another_worker_can_be_clicked_at_once(url):
    async with serving(url) as one, serving(url, seed=9) as other:
        await one.board(settle=0, items=["a"])
        await other.quiet()
        await one.ask("POST", "boards/b/items", {"items": ["new"]})
        shown = await one.rank(candidates=["new"])
        assert (await other.answer(shown, clicked="new"))["outcome"] == "learnt"
        await one.quiet()
        await other.quiet()
        assert one.digest() == other.digest()


async def test_past_clicks_are_learnt_as_in_process_and_a_batch_once(url):
    log = [(["a", "b"], "b"), (["b", "c"], None), (["c"], [1])]
    rows = [{"items": i} | ({"clicks": c} if isinstance(c, list) else {"clicked": c}) for i, c in log]

    async with serving(url) as local:
        await local.board(settle=0, items=["a"])
        done = await local.ask("POST", "boards/b/history", {"rows": rows, "batch": "june"})
        assert done == {"rows": 3, "outcome": "done"}
        assert (await local.ask("POST", "boards/b/history", {"rows": rows, "batch": "june"}))["rows"] == 0
        for bad, words in [
            ({"items": ["a", "a"], "clicked": None}, "row 2: a list has 1 to 4 different items"),
            ({"items": ["a"], "clicked": "b"}, "row 2: item 'b' was not shown"),
            ({"items": ["a"]}, "row 2: an answer has either"),
            ({"items": [""], "clicked": None}, "row 2: an item is named"),
        ]:
            answer = await local.ask("POST", "boards/b/history", {"rows": [rows[0], bad]}, 422)
            assert words in answer["message"]
        ranker = sr.Ranker(["a"], 4)
        ranker.learn(log)
        state = await local.ask("GET", "boards/b/state")
        assert [(s.item, s.looks, s.clicks, s.estimate) for s in ranker.standings()] == [
            (s["item"], s["looks"], s["clicks"], s["estimate"]) for s in state["items"]
        ]


def past(n, first=0):
    """So many past lists; those from `first` on are clicked elsewhere."""
    return [{"items": ["a", "b"], "clicked": "ab"[i % 3 == 0 or i >= first > 0]} for i in range(n)]


async def test_a_batch_that_comes_again_with_other_rows_is_refused(url, tmp_path):
    async def send(local, rows, code=200, **other):
        return await local.ask("POST", "boards/b/history", {"rows": rows, "batch": "june", **other}, code)

    async def check(local):
        """Other rows, fewer and more, are refused and not learnt from; the same rows have no effect."""
        before, applied = local.digest(), local.worker.applied
        for others in (past(1_000, first=500), past(2_500, first=500), past(2_500), past(999), past(2_000)):
            refused = await send(local, others, 409)
            assert "batch 'june' came before with other rows" in refused["message"]
        assert await send(local, past(1_000)) == {"rows": 0, "outcome": "duplicate"}
        assert (local.digest(), local.worker.applied) == (before, applied)

    async with serving(url) as local, serving(url, seed=1) as other:
        await local.board(settle=0, items=["a"])
        assert await send(local, past(1_000)) == {"rows": 1_000, "outcome": "done"}
        await check(local)
        await other.quiet()
        await check(other)
        await send(other, past(1_000, first=500), batch="july")
    async with serving(url, seed=2) as local:
        await check(local)
        assert local.digest() == replayed(url)
    assert main(["export", "b", "--out", str(tmp_path / "b.jsonl"), "--store", url]) == 0
    elsewhere = f"sqlite:///{tmp_path}/other.db"
    assert main(["import", str(tmp_path / "b.jsonl"), "--store", elsewhere]) == 0
    async with serving(elsewhere) as local:
        await check(local)


async def test_of_two_batches_with_one_name_the_log_takes_the_first(url):
    async with serving(url) as local, serving(url, seed=1) as other:
        await local.board(settle=0, items=["a"])
        await other.quiet()
        sent = [past(2_500), past(2_500, first=300)]
        found = await asyncio.gather(*(
            one.http.post("/v1/boards/b/history", json={"rows": rows, "batch": "june"})
            for one, rows in zip((local, other), sent, strict=True)
        ))  # fmt: skip
        assert sorted(answer.status_code for answer in found) == [200, 409]
        for one in (local, other):
            await one.quiet()
        assert local.digest() == other.digest() == replayed(url)
        taken = sent[found[1].status_code == 200]
        clicks = {item["item"]: item["clicks"] for item in (await local.ask("GET", "boards/b/state"))["items"]}
        assert clicks == {item: sum(row["clicked"] == item for row in taken) for item in "ab"}


async def test_a_batch_that_was_cut_off_goes_on_where_it_ended(url):
    rows = past(2_500)
    async with serving(url) as local:
        await local.board(settle=0, items=["a"])
        begun = [
            events.Past(row["items"], ["ab".index(row["clicked"])], 1 + "ab".index(row["clicked"]))
            for row in rows[:1_000]
        ]
        await local.worker.write_event(local.worker.boards["b"], events.History(begun, "june#0", 2_500))
        answer = await local.ask("POST", "boards/b/history", {"rows": rows, "batch": "june"})
        assert answer == {"rows": 1_500, "outcome": "done"}


async def test_state_is_told_a_page_at_a_time(url):
    async with serving(url) as local:
        await local.board(settle=0, learner="CascadeTS")
        await local.ask("POST", "boards/b/items", {"items": ["ä & b", "later"]})
        state = await local.ask("GET", "boards/b/state")
        assert state["next"] is None
        pages, after = [], {}
        while after is not None:
            page = await local.ask("GET", "boards/b/state", params={"limit": 5, **after})
            pages.append(page["items"])
            after = None if page["next"] is None else {"after": page["next"]}
        assert [item for page in pages for item in page] == state["items"]
        assert {len(page) for page in pages[:-1]} == {5}
        for query, words in (({"limit": 0}, "limit must be"), ({"limit": 10_001}, "10000"), ({"after": "x"}, "'x'")):
            assert words in (await local.ask("GET", "boards/b/state", None, 422, params=query))["message"]


async def test_a_batch_answers_row_by_row(url):
    async with serving(url) as local:
        await local.board(settle=0)
        one, two = await local.rank(), await local.rank()
        rows = [
            {"board": "b", "impression": one["impression"], "clicked": one["items"][1]},
            {"board": "b", "impression": "x", "clicked": None},
            {"board": "none", "impression": "x", "clicked": None},
            {"board": "b", "impression": two["impression"], "clicks": [0, 1, 1], "examined": 3},
            {"board": "b", "impression": one["impression"], "clicked": one["items"][1]},
        ]
        answer = await local.ask("POST", "feedback", {"feedback": rows})
        assert [row["code"] for row in answer["feedback"]] == [200, 403, 404, 200, 200]
        assert [row["outcome"] for row in answer["feedback"]] == ["learnt", None, None, "learnt", "duplicate"]


async def test_a_deleted_board_is_gone_and_its_name_is_free(url):
    async with serving(url) as local:
        await local.board(settle=0)
        shown = await local.rank(client="somebody")
        await local.ask("DELETE", "boards/b")
        await local.ask("GET", "boards/b", code=404)
        await local.answer(shown, code=404, clicked=None)
        await local.board(settle=0)
        await local.answer(shown, code=403, clicked=None)
        await local.ask("DELETE", "boards/b")
        counts = [f"SELECT COUNT(*) FROM {table}" for table in ("events", "snapshots", "clients", "boards")]
        await until(lambda: [sql(url, count)[0][0] for count in counts] == [2, 0, 0, 0])  # deleted in a thread


async def test_answers_of_a_client_are_limited_and_its_name_is_not_kept(url):
    async with serving(url) as local:
        await local.board(settle=0, client_minute=2)
        await local.board("other", settle=0)
        shown = [await local.rank(client="jane@example.org") for _ in range(3)]
        for s in shown[:2]:
            await local.answer(s, clicked=None)
        refused = await local.http.post(
            "/v1/boards/b/feedback", json={"impression": shown[2]["impression"], "clicked": None}
        )
        assert refused.status_code == 429
        assert refused.headers["retry-after"] == "60"
        local.clocks.pass_time(61)
        await local.answer(shown[2], clicked=None)
        session, other = local.worker.boards["b"], local.worker.boards["other"]
        assert session.hash_client("jane@example.org") != other.hash_client("jane@example.org")
        await local.ask("POST", "boards/b/rank", {"client": ""}, 422)
    for path in url.removeprefix("sqlite:///"), url.removeprefix("sqlite:///") + "-wal":
        if pathlib.Path(path).exists():
            assert b"jane" not in pathlib.Path(path).read_bytes()


async def test_keys_open_what_their_scope_says(url):
    kept = open_store(url)
    made = {}
    for name, scopes, board in [
        ("admin", ["admin"], None), ("rank", ["rank"], None), ("answer", ["feedback"], "b"), ("one", ["rank"], "b"),
        ("gone", ["admin"], None),
    ]:  # fmt: skip
        made[name], key = make_key(scopes, board, 1.0)
        kept.add_key(key)
    assert kept.revoke_key(made["gone"].split(".")[1], 2.0)
    assert not kept.revoke_key(made["gone"].split(".")[1], 2.0)

    async with serving(url) as local:

        async def code(name, method, path, body=None):
            headers = {} if name is None else {"authorization": f"Bearer {made.get(name, name)}"}
            return (await local.http.request(method, f"/v1/{path}", json=body, headers=headers)).status_code

        board = {"items": ITEMS, "length": 4, "settle": 0}
        assert await code(None, "PUT", "boards/b", board) == 401
        assert await code("sr.made.up", "PUT", "boards/b", board) == 401
        assert await code("gone", "PUT", "boards/b", board) == 401
        assert await code(made["admin"][:-1], "PUT", "boards/b", board) == 401
        assert await code("rank", "PUT", "boards/b", board) == 403
        for name in ("b", "other"):
            assert await code("admin", "PUT", f"boards/{name}", board) == 200
        assert await code("rank", "POST", "boards/other/rank", {}) == 200
        assert await code("one", "POST", "boards/b/rank", {}) == 200
        assert await code("one", "POST", "boards/other/rank", {}) == 403
        assert await code("answer", "POST", "boards/b/rank", {}) == 403
        assert await code("one", "GET", "boards/b/state") == 403
        seen = await local.http.get("/v1/boards", headers={"authorization": f"Bearer {made['one']}"})
        assert [b["board"] for b in seen.json()["boards"]] == ["b"]
        rank = await local.http.post("/v1/boards/b/rank", json={}, headers={"authorization": f"Bearer {made['one']}"})
        answer = {"impression": rank.json()["impression"], "clicked": None}
        assert await code(None, "POST", "boards/b/feedback", answer) == 200  # a signed id is enough
        assert await code("admin", "PUT", "boards/b", {"public_feedback": False}) == 200
        assert await code(None, "POST", "boards/b/feedback", answer) == 401
        assert await code("rank", "POST", "boards/b/feedback", answer) == 403
        assert await code("answer", "POST", "boards/b/feedback", answer) == 200
        batch = {"feedback": [{"board": "b", **answer}]}
        refused = await local.http.post("/v1/feedback", json=batch)
        assert refused.json()["feedback"][0]["code"] == 401
        assert (await local.http.get("/metrics")).status_code == 401
        assert (await local.http.get("/healthz")).status_code == 200
    text = "".join(json.dumps([k.id, k.hash.hex(), k.scopes]) for k in kept.api_keys())
    assert not any(secret.split(".")[2] in text for secret in made.values())
    kept.close()


async def test_many_items_are_retired_by_one_event_as_one_by_one(url, tmp_path):
    digests, many = [], [f"new {k}" for k in range(3_000)]
    for each, one_by_one in ((url, False), (f"sqlite:///{tmp_path}/other.db", True)):
        async with serving(each) as local:
            await local.board(settle=0)
            await local.answer(await local.rank(), clicked=None)
            await local.ask("POST", "boards/b/items", {"items": many})
            before = local.worker.boards["b"].board.events
            if one_by_one:
                for item in many[:40] + ITEMS[:2]:
                    await local.ask("DELETE", f"boards/b/items/{item}")
            else:
                answer = await local.ask("POST", "boards/b/items/retire", {"items": many[:40] + ITEMS[:2]})
                assert answer["items"] == len(many) + len(ITEMS) - 42
                assert local.worker.boards["b"].board.events == before + 1
            board = local.worker.boards["b"].board
            board.events = 0  # which is all that differs
            digests.append(local.digest())
    assert digests[0] == digests[1]
    async with serving(url) as local:
        answer = await local.ask("POST", "boards/b/items/retire", {"items": [ITEMS[3], "nothing", "else"]}, 404)
        assert answer["message"] == "no item 'nothing', and 1 more"
        await local.ask("POST", "boards/b/items/retire", {"items": []}, 422)
        assert (await local.ask("GET", "boards/b"))["items"] == len(many) + len(ITEMS) - 42
        assert (await local.ask("POST", "boards/b/items/retire", {"items": many + ITEMS[1:]}))["items"] == 0
        await local.ask("POST", "boards/b/items", {"items": ITEMS[:1]})
        assert (await local.rank())["items"] == ITEMS[:1]
        record = (await local.ask("GET", "record"))["record"]
        assert "items retired" in {row["what"] for row in record}
        assert replayed(url) == local.digest()


def test_without_keys_only_this_machine_is_served_and_no_web_page():
    auth = Auth(list, "token")
    auth.check({"host": "127.0.0.1:8080"}, "admin", None)
    own = {"host": "[::1]:8080", "origin": "http://[::1]:8080", "sec-fetch-site": "same-origin"}
    auth.check(own | {"authorization": "Bearer token"}, "admin", None)
    page = {"host": "localhost:8080", "user-agent": "Mozilla/5.0", "authorization": "Bearer token"}
    auth.check(page | {"sec-fetch-site": "none"}, "admin", None)
    of_node = {"host": "localhost:8080", "user-agent": "node", "sec-fetch-mode": "cors"}
    auth.check(of_node, "admin", None)
    for headers in (
        {"host": "evil.example"}, {}, {"host": "localhost" * 99},
        page | {"origin": "https://evil.example"}, page | {"origin": "http://localhost:3000"},
        page | {"origin": "http://127.0.0.1:8080"}, page | {"origin": "null"},
        page | {"sec-fetch-site": "cross-site"}, page | {"sec-fetch-site": "same-site"},
        *({"host": "127.0.0.1:8080", name: "10.0.0.9"} for name in (
            "x-forwarded-for", "forwarded", "x-forwarded-proto", "x-real-ip", "via", "cf-connecting-ip",
        )),
    ):  # fmt: skip
        with pytest.raises(sr.Refused, match="only this machine") as refusal:
            auth.check(headers, "admin", None)
        assert refusal.value.code == 403
    for headers in (
        own, own | {"authorization": "Bearer wrong"}, own | {"authorization": "Bearer "},
        {"host": "localhost", "sec-fetch-mode": "no-cors"}, {"host": "localhost", "referer": "http://localhost/"},
        of_node | {"sec-fetch-site": "none"}, of_node | {"referer": "http://localhost:8080/"},
        {"host": "localhost", "user-agent": "Mozilla/5.0 (an old one)"},
    ):  # fmt: skip
        for each in (auth, Auth(list)):
            with pytest.raises(sr.Refused, match="token") as refusal:
                each.check(headers, "admin", None)
            assert refusal.value.code == 401
    assert [loopback(a) for a in ("127.0.0.1", "localhost", "::1", "0.0.0.0", "example.org", "10.0.0.1")] == [
        True, True, True, False, False, False,
    ]  # fmt: skip


async def test_a_browser_may_answer_with_a_beacon(url):
    async with serving(url) as local:
        await local.board(settle=0)
        shown = await local.rank()
        asked = await local.http.options("/v1/boards/b/feedback", headers={"origin": "https://shop.example"})
        assert asked.status_code == 204
        assert asked.headers["access-control-allow-origin"] == "*"
        sent = await local.http.post(
            "/v1/boards/b/feedback", content=json.dumps({"impression": shown["impression"], "clicked": None}),
            headers={"content-type": "text/plain;charset=UTF-8", "origin": "https://shop.example"},
        )  # fmt: skip
        assert sent.json() == {"outcome": "learnt"}
        assert sent.headers["access-control-allow-origin"] == "*"
        assert "access-control-allow-origin" not in (await local.http.get("/v1/boards")).headers


async def test_large_bodies_are_refused_before_they_are_read(url):
    async def _parts(parts):
        for part in parts:
            yield part

    async with serving(url) as local:
        await local.board(settle=0)
        for body in (b" " * 2_000_000, (b" " * 1000 for _ in range(2000))):
            content = body if isinstance(body, bytes) else _parts(body)
            answer = await local.http.post("/v1/boards/b/rank", content=content)
            assert answer.status_code == 413
        answer = await local.http.post("/v1/feedback", content=b" " * 9_000_000)  # without a key, less is read
        assert (answer.status_code, answer.json()["message"]) == (
            413,
            "the body has 9000000 bytes, at most 8388608 are read",
        )


def test_a_large_body_is_not_read_again_to_say_what_is_wrong_in_it(monkeypatch):
    message = "Expected `int`, got `str` - at `$.x[1]`"
    assert explain(message, b'{"x": [1, "a"]}') == "x[1] must be a whole number, not 'a'"
    monkeypatch.setattr(bodies, "SMALL", 10)
    assert explain(message, b'{"x": [1, "a"]}') == "x[1] must be a whole number, not str"
    assert explain("Object missing required field `x`", b"{}") == "x is missing"


async def test_what_is_wrong_with_a_body_is_said_in_words_of_the_api(url):
    async with serving(url) as local:
        await local.board(settle=0)
        for path, body, words in [
            (
                "boards/b/rank",
                {"candidate": ["a"]},
                "unknown member 'candidate': did you mean 'candidates'? known are",
            ),
            ("boards/b/rank", {"client": 7}, 'client must be text or null, not 7: write "7"'),
            ("boards/b/rank", {"unknown": "drop"}, "unknown must be one of add, refuse, skip, not 'drop'"),
            ("boards/b/rank", {"candidates": [1, 2]}, 'candidates[0] must be text, not 1: write "1"'),
            ("boards/b/rank", [], "the body must be an object, not array"),
            ("boards/b/feedback", {"clicked": None}, "impression is missing"),
            ("boards/b/feedback", {"impression": "x", "clicked": 3}, "clicked must be text or null, not 3"),
            ("boards/b/history", {"rows": [{"item": []}]}, "rows[0]: unknown member 'item': did you mean 'items'?"),
            ("boards/b/history", {"rows": [{"clicked": "a"}]}, "rows[0].items is missing"),
            ("boards/b/history", {"rows": {}}, "rows must be a list, not {}"),
        ]:
            assert (await local.ask("POST", path, body, 422))["message"].startswith(words)


async def test_metrics_and_readiness(url):
    async with serving(url) as local:
        await local.board(settle=0)
        await traffic(local, 20)
        await local.quiet()
        page = (await local.http.get("/metrics")).text
        assert 'steadyrank_board_impressions{board="b"} 20.0' in page
        assert 'steadyrank_requests_total{route="POST /v1/boards/{board}/rank",status="200"} 20.0' in page
        assert (await local.http.get("/readyz")).status_code == 200
        local.worker.ready = False
        assert (await local.http.get("/readyz")).status_code == 503
        assert (await local.http.post("/v1/boards/b/rank", json={})).status_code == 503
        local.worker.ready = True


async def test_every_route_is_described(url):
    async with serving(url) as local:
        described = (await local.http.get("/openapi.json")).json()
        assert described["openapi"].startswith("3.1")
        paths = described["paths"]
        assert {"put", "get", "delete"} <= set(paths["/v1/boards/{board}"])
        for path in (
            "/v1/boards",
            "/v1/feedback",
            *(f"/v1/boards/{{board}}/{x}" for x in ("rank", "state", "history", "labels", "watch", "export")),
        ):
            assert path in paths
        assert set(described["components"]["schemas"]["FeedbackIn"]["properties"]) == {
            "impression", "client", "clicked", "clicks", "examined", "value", "id",
        }  # fmt: skip


@pytest.mark.parametrize("bad", ["mysql://x", "sqlite:///", "sqlite:////no/such/folder/x.db", "nothing"])
def test_a_bad_store_is_named(bad):
    with pytest.raises(ValueError, match="store"):
        open_store(bad)


def test_impression_ids_say_what_they_were_given():
    shown_list = impression_ids.ImpressionId(
        2**63 - 1, 5, 4, 1, 1.5, 2**62, [0, 7, 4_000_000_000], [(0, 0.25), (13, -1.0)]
    )
    key = impression_ids.Signer(b"secret", "impression")
    text = impression_ids.seal(shown_list, key)
    assert impression_ids.open_sealed(text, key) == shown_list
    for i in range(0, len(text), 3):
        other = text[:i] + ("A" if text[i] != "A" else "B") + text[i + 1 :]
        with pytest.raises(sr.Refused) as refusal:
            impression_ids.open_sealed(other, key)
        assert refusal.value.code == 403
    with pytest.raises(sr.Refused):
        impression_ids.open_sealed(text, impression_ids.Signer(b"secret", "client"))


def test_events_are_read_as_they_were_written():
    config = Config(length=3, learner="CascadeTS")
    for event in (
        events.Created(config, ["a"]), events.Configured({"lifetime": 60.0}), events.Deleted(), events.Settled(3),
        events.Expired(4),
        events.ListShown(1, 2, 3, 0, [1, 2], [(0, 0.5)]), events.Answered(1, 2, 3, 0, [1, 2], [], [1], 2),
        events.Observed(5, 2, 1, [1, 2], [1], 2, 1.5e9, [0], [0.5, 1.0], [0.5, 0.25], 3, {"network": 4}),
        events.Observed(5, 2, 1, [1, 2], None, 0, 1.5e9),
        events.Added(["x"]), events.Retired("x"), events.History([events.Past(["a"], [0], 1)], "b"),
        events.ListShown(1, 2, 3, 0, [1], [], 1.5e9, 7),
        events.Answered(1, 2, 3, 0, [1, 2], [], [1], 2, 1.5e9, 0), events.Forgotten([0, 7]),
        events.Labelled(2**63 - 1, 1, 9, "fraud"), events.Unlabelled(1), events.ListShown(1, 2, 3, 0, [1], [], 1.5e9),
        events.join([events.ListShown(1, 2, 3, 0, [1, 2], [(0, 0.5)], 1.5e9, 7)]),
    ):  # fmt: skip
        assert events.decode(events.encode(event)) == event
        if not isinstance(event, events.Created | events.Deleted):
            board = Board.create(config, ["x", "y", "z", "w"])
            board.take(event)
            twice = board.digest()
            board.take(event)
            board.events -= 1
            if not isinstance(event, events.History):
                assert board.digest() == twice  # a write whose outcome is unknown is written again


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.5, "0.5 s"), (90, "90 s"), (120, "2 min"), (1800, "30 min"), (7200, "2 h"), (86400, "24 h")],
)
def test_how_long_an_answer_waits_is_said(seconds, words):
    assert waits(seconds).startswith(f"waiting, learnt {words} after its list was shown (settle)")
