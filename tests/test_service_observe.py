"""Lists that another ranker showed: learnt from once, in order, as if they were ours, and the same by the log."""

import contextlib

import pytest

import steadyrank as sr
from service_tools import ITEMS, Server, logged_events, replayed, serving, until
from steadyrank.core.contract import ANYONE
from steadyrank.service.board import events
from steadyrank.service.board.board import Board
from steadyrank.service.board.config import Config
from steadyrank.service.board.feedback import Reported
from steadyrank.service.http.auth import make_key
from steadyrank.service.storage import open_store
from steadyrank.service.worker.transfer import bring_in, compact, export, read_board

pytestmark = pytest.mark.pure

THREE = ITEMS[:3]


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/store.db"


async def report(local, id_, code=200, name="b", **body):
    body = {"id": id_, "items": THREE, **body}
    return await local.ask("POST", f"boards/{name}/observe", body, code)


def observed(url, name="b"):
    with contextlib.closing(open_store(url)) as store:
        number = next(n for n, (called, _) in store.boards().items() if called == name)
        found = logged_events(store, number)
    return [event for event in found if isinstance(event, events.Observed)]


async def counts(local, name="b"):
    state = await local.ask("GET", f"boards/{name}/state")
    return {item["item"]: (item["looks"], item["clicks"]) for item in state["items"] if item["looks"]}


async def test_a_list_of_another_ranker_is_learnt_from_once(url):
    async with serving(url) as local:
        await local.board(settle=0)
        first = await report(local, "page 1", clicked=ITEMS[1], client="ann", propensities=[0.5, 0.25, 1])
        assert first["outcome"] == "learnt"
        assert len(first["ours"]) == 3
        assert set(first["ours"]) <= set(ITEMS)
        assert (await report(local, "page 1", clicked=ITEMS[1], client="ann"))["outcome"] == "duplicate"
        await report(local, "page 1", 409, clicked=ITEMS[2])
        await report(local, "page 1", 409, clicked=None, items=[ITEMS[1], ITEMS[0], ITEMS[2]])
        assert await counts(local) == {ITEMS[0]: (1, 0), ITEMS[1]: (1, 1)}
        assert (await local.answer(first, clicked=ITEMS[1]))["outcome"] == "duplicate"  # by its impression id as well
        (event,) = observed(url)
        assert (event.ranking, event.clicks, event.examined, event.client) == ([0, 1, 2], [1], 2, 0)
        assert event.propensities == [0.5, 0.25, 1.0]
        board = await local.ask("GET", "boards/b")
        assert (board["impressions"], board["answers"], board["clicks"], board["rounds"]) == (1, 1, 1, 1)
        digest = local.digest()
    assert replayed(url) == digest
    async with serving(url, seed=1) as local:  # a restart does not forget it
        assert (await report(local, "page 1", clicked=ITEMS[1]))["outcome"] == "duplicate"
        assert local.digest() == digest


async def test_a_list_may_be_reported_first_and_answered_later(url):
    async with serving(url) as local:
        await local.board(lifetime=100)
        shown = await report(local, "a", client="ann")
        assert shown["outcome"] == "shown"
        assert (await report(local, "a", client="ann"))["outcome"] == "duplicate"
        assert (await report(local, "b", clicked=ITEMS[0], client="bob"))["outcome"] == "waiting"
        assert (await local.answer(shown, clicked=ITEMS[2]))["outcome"] == "waiting"
        await report(local, "c", client="eve")
        assert (await report(local, "c", clicks=[0, 1, 1], client="eve"))["outcome"] == "waiting"
        await report(local, "d")
        assert await counts(local) == {}
        learnt, impressions = [], local.worker.boards["b"].board.impressions
        learn = impressions.learn
        impressions.learn = lambda visit, ranking, note, clicks, *rest: (
            learnt.append((visit.t, visit.client, clicks.tolist())) or learn(visit, ranking, note, clicks, *rest)
        )
        await local.quiet()
        local.clocks.pass_time(101)
        await local.quiet()
        assert learnt == [
            (1, 0, [False, False, True]), (2, 1, [True, False, False]), (3, 2, [False, True, True]),
            (4, ANYONE, [False, False, False]),  # nobody answered it: as with lists of ours
        ]  # fmt: skip
        impressions.learn = learn
        await report(local, "a", 410, clicked=None, time=local.clocks.wall - 101)
        digest = local.digest()
    assert replayed(url) == digest


async def test_it_is_learnt_as_a_list_of_ours_would_be(url):
    """The same lists, clients and answers: two boards whose learners and guards are equal in every byte.

    But for trials: only in a list of ours is an item on trial.
    """
    async with serving(url) as local:
        for name in ("b", "ours"):
            await local.board(name, settle=0, settings={"revisit": 0.0})
        for n in range(30):
            shown = await local.rank("ours", client=f"client {n % 7}", cohort={"network": str(n % 3)})
            body = {"client": f"client {n % 7}", "cohort": {"network": str(n % 3)}, "items": shown["items"]}
            said = {"clicked": shown["items"][n % 3] if n % 2 else None}
            await local.answer(shown, "ours", **said)
            await report(local, f"list {n}", **body, **said)
        states = [local.worker.boards[name].board.learner_state.arrays() for name in ("b", "ours")]
        assert states[0].keys() == states[1].keys()
        for name, array in states[0].items():
            assert array.tobytes() == states[1][name].tobytes(), name


async def test_items_that_are_not_known_are_added_and_bad_reports_change_nothing(url):
    async with serving(url) as local:
        await local.board(settle=0)
        digest = local.digest()
        wrong = [
            ({"items": []}, "1 to 4 different items"), ({"items": ["x", "x"]}, "1 to 4 different items"),
            ({"items": list("abcde")}, "1 to 4 different items"), ({"items": [""]}, "1 to 500 characters"),
            ({"clicked": "nothing of it"}, "was not shown"), ({"clicks": [1], "examined": 2}, "examined"),
            ({"examined": 1}, "an answer has either"), ({"clicked": None, "clicks": [1]}, "an answer has either"),
            ({"propensities": [0.5]}, "one for each of the 3 items, not 1"), ({"propensities": [1, 0, 1]}, "not 0.0"),
            ({"marginals": [0.5, 1.5, 1]}, "not 1.5"), ({"time": local.clocks.wall + 61}, "time must be in the past"),
            ({"client": "a\n"}, "client must be text"), ({"cohort": {"a b": "x"}}, "kind of cohort"),
        ]  # fmt: skip
        for body, words in wrong:
            assert words in (await report(local, "x", 422, **body))["message"], body
        assert "history" in (await report(local, "x", 410, time=local.clocks.wall - 1801))["message"]
        await report(local, "x" * 201, 422)
        assert local.digest() == digest
        taken = await report(local, "x", items=["new", ITEMS[0]], clicked="new", candidates=["new", "?", ITEMS[5]])
        assert set(taken["ours"]) == {"new", ITEMS[5]}  # of candidates, those that are known by now
        assert await counts(local) == {"new": (1, 1)}
        digest = local.digest()
        await report(local, "x", 409, items=["newer"], clicked=None)  # another list with a known id
        assert local.digest() == digest
        await local.ask("DELETE", f"boards/b/items/{ITEMS[0]}")
        await report(local, "y", clicked=None)  # a retired item may be shown by others
        assert (await report(local, "z", candidates=[ITEMS[0]]))["ours"] == []  # but not by us
        digest = local.digest()
    assert replayed(url) == digest


async def test_a_client_sends_no_more_than_its_allowance(url):
    async with serving(url) as local, serving(url, seed=9) as other:
        await local.board(settle=0, client_minute=2, client_lists=3, lifetime=100)
        open_one = await report(local, "open", client="ann")
        await report(local, "1", clicked=None, client="ann")
        await other.quiet()
        await report(other, "2", clicked=None, client="ann")
        await local.quiet()
        await report(local, "3", 429, clicked=None, client="ann")
        await report(local, "open", 429, clicked=ITEMS[0], client="ann")
        await local.answer(open_one, code=429, clicked=ITEMS[0])
        assert (await report(local, "1", clicked=None, client="ann"))["outcome"] == "duplicate"  # costs nothing
        for id_ in ("4", "5"):
            await report(local, id_, client="ann")
        await report(local, "6", 429, client="ann")
        await report(local, "7", clicked=None, client="bob")
        await local.quiet()
        local.clocks.pass_time(101)
        await local.quiet()
        # the refused answer is not taken for a list that nobody clicked; lists 4 and 5 are
        assert await counts(local) == dict.fromkeys(THREE, (5, 0))
        await other.quiet()
        assert local.digest() == other.digest() == replayed(url)


def board_of(most):
    return Board.create(
        Config(length=2, settle=0.0, most_open=most, learner="CascadeTS", guard="Anyone"), ["x", "y", "z"]
    )


def test_a_list_that_was_forgotten_is_not_learnt_from_again():
    board = board_of(3)
    rows = [events.Observed(100 + t, t, t - 1, [0, 1], [0], 1, 1000.0 + t) for t in range(1, 8)]
    for row in rows:
        assert board.apply(row) == "learnt"
    looks = board.learner_state.looks.tolist()
    assert looks == [7, 0, 0]
    for row in rows[:4]:  # whatever round and base a second try has
        with pytest.raises(sr.Refused, match="may have been learnt from before"):
            board.apply(events.Observed(row.key, 9, 7, [0, 1], [0], 1, row.time))
    for row in rows[4:]:
        assert board.apply(row) == "duplicate"
    with pytest.raises(sr.Refused, match="may have been"):  # reported later than most_open others: it cannot be told
        board.apply(events.Observed(999, 9, 7, [0, 1], [0], 1, 1002.0))
    assert board.learner_state.looks.tolist() == looks
    kept = board.digest()
    from steadyrank.live import snapshot

    again = Board.restore(snapshot.pack(*board.keep()), "a test")
    assert again.digest() == kept
    with pytest.raises(sr.Refused, match="may have been"):
        again.apply(events.Observed(101, 9, 7, [0, 1], [0], 1, 1001.0))
    assert again.apply(rows[-1]) == "duplicate"


def test_looking_up_a_list_changes_nothing():
    board = board_of(2)
    for t in range(1, 3):
        board.apply(events.Observed(100 + t, t, t - 1, [0, 1], [0], 1, 1000.0 + t))
    for t in range(3, 6):  # lists of ours push those out
        board.apply(events.ListShown(t, t, t - 1, 0, [0, 1], []))
    digest = board.digest()
    assert board.known_outcome(events.Observed(101, 9, 7, [0, 1], [0], 1, 1001.0)) is None
    with pytest.raises(sr.Refused, match="may have been"):
        board.apply(events.Observed(101, 9, 7, [0, 1], [0], 1, 1001.0))
    board.events -= 1
    assert board.digest() == digest


def test_reported_keys_by_hand():
    reported = Reported()
    assert reported.arrays() == {}
    reported.add(1, 10.0, {1})
    reported.add(2, 9.0, {1, 2})
    reported.refuse_forgotten(3, 5.0)
    assert reported.times == {1: 10.0, 2: 9.0}
    reported.add(3, 11.0, {2, 3})
    assert (reported.times, reported.latest) == ({2: 9.0, 3: 11.0}, 10.0)
    with pytest.raises(sr.Refused, match="may have been learnt"):
        reported.refuse_forgotten(4, 10.0)
    reported.refuse_forgotten(4, 10.5)
    assert reported.keep() == {}
    again = Reported.restore(reported.keep(), reported.arrays())
    assert (again.times, again.latest) == (reported.times, reported.latest)


def test_reported_lists_of_streams_by_hand():
    reported = Reported()
    reported.add(1, 10.0, {1}, "clicks/0", 7)
    reported.add(2, 10.0, {1, 2}, "clicks/1", 3)
    reported.refuse_forgotten(3, 10.0, "clicks/0", 7)  # nothing is forgotten yet
    reported.add(3, 10.0, {2, 3}, "clicks/0", 8)
    assert (reported.offsets, reported.places) == (
        {"clicks/0": 7, "clicks/1": -1},
        {2: ("clicks/1", 3), 3: ("clicks/0", 8)},
    )
    for offset in (6, 7):
        with pytest.raises(sr.Refused, match="may have been learnt"):
            reported.refuse_forgotten(4, 99.0, "clicks/0", offset)
    reported.refuse_forgotten(4, 1.0, "clicks/0", 8)  # whatever its time is
    reported.refuse_forgotten(4, 1.0, "clicks/1", 0)
    with pytest.raises(sr.Refused, match="may have been learnt"):
        reported.refuse_forgotten(4, 10.0)  # from no stream
    assert vars(Reported.restore(reported.keep(), reported.arrays())) == vars(reported)
    reported.offsets |= {f"other {k}": 0 for k in range(998)}
    with pytest.raises(sr.Refused, match="1000 stream partitions"):
        reported.refuse_forgotten(4, 99.0, "one more", 0)


async def test_observed_lists_go_with_an_exported_board_and_through_a_shortened_log(url, tmp_path):
    async with serving(url) as local:
        await local.board(settle=0)
        for n in range(20):
            await report(local, f"list {n}", clicked=ITEMS[n % 3], marginals=[0.5, 0.5, 1.0], client=f"c{n}")
        digest = local.digest()
    other = f"sqlite:///{tmp_path}/other.db"
    with contextlib.closing(open_store(url)) as store, contextlib.closing(open_store(other)) as second:
        export(store, "b", tmp_path / "b.jsonl", True, lambda count: None)
        bring_in(second, read_board(tmp_path / "b.jsonl"), None)
        assert replayed(other) == digest
        assert [event.marginals for event in observed(other)] == [[0.5, 0.5, 1.0]] * 20
        old = (tmp_path / "b.jsonl").read_text().replace('"format": 9', '"format": 6')
        (tmp_path / "old.jsonl").write_text(old)
        with pytest.raises(ValueError, match="format 6, this version reads format 9"):
            bring_in(second, read_board(tmp_path / "old.jsonl"), "old")
        assert compact(store, 0.0, 5)["b"] > 10
    async with serving(url, seed=4) as local:
        assert local.digest() == digest
        assert (await report(local, "list 0", clicked=ITEMS[0]))["outcome"] == "duplicate"
        await report(local, "list 0", 409, clicked=None)


async def test_a_key_may_report_lists_and_nothing_else(url):
    async with serving(url) as local:
        await local.board(settle=0)
        made, key = make_key(["observe"], "b", 1.0)
        asks, other = make_key(["rank", "feedback"], None, 1.0)
        for one in (key, other):
            await local.worker.log_writer.run_chore(lambda store, one=one: store.add_key(one))
        local.worker.keys = [key, other]
        head = {"headers": {"authorization": f"Bearer {made}"}}
        body = {"id": "1", "items": THREE, "clicked": None}
        assert (await local.ask("POST", "boards/b/observe", body, **head))["outcome"] == "learnt"
        await local.ask("POST", "boards/b/observe", body, 401)
        await local.ask("POST", "boards/other/observe", body, 403, **head)
        await local.ask("POST", "boards/b/observe", body, 403, headers={"authorization": f"Bearer {asks}"})
        for method, path in [("POST", "rank"), ("GET", "state"), ("POST", "history"), ("DELETE", ""), ("GET", "")]:
            await local.ask(method, f"boards/b/{path}".rstrip("/"), {} if method == "POST" else None, 403, **head)


@pytest.mark.always
def test_the_client_reports_lists(url, tmp_path):
    server = Server(url, tmp_path / "log").wait()
    client = server.client()
    client.put_board("b", items=ITEMS, length=4, settle=0)
    taken = client.observe("b", "one", THREE, client="ann", propensities=[1, 0.5, 0.5])
    assert (taken.outcome, len(taken.ours)) == ("shown", 3)
    assert client.feedback("b", taken.impression, clicked=ITEMS[0]) == "learnt"
    assert client.observe("b", "two", THREE, clicks=[0, 1, 0], examined=3).outcome == "learnt"
    assert client.observe("b", "two", THREE, clicks=[0, 1, 0], examined=3).outcome == "duplicate"
    with pytest.raises(sr.Refused, match="answered otherwise"):
        client.observe("b", "two", THREE, clicked=None)
    assert server.stop() == 0


def test_a_ranker_in_process_learns_from_other_lists():
    ours, beside = (sr.Ranker(ITEMS, 4, "CascadeTS", seed=3) for _ in range(2))
    for n in range(40):
        shown = ours.rank(client=n % 5)
        said = shown.items[n % 4] if n % 3 else None
        ours.feedback(shown.id, clicked=said)
        found = beside.observe(shown.items, clicked=said, client=n % 5)
        assert found.ours == shown.items  # the same luck and the same memory: the same list
        assert found.outcome == "learnt"
    assert ours.standings() == beside.standings()


def test_what_observe_takes_in_process():
    ranker = sr.Ranker(["a", "b"], 3, "CascadeTS", lifetime=10.0, clock=lambda: 0.0)
    found = ranker.observe(["new", "a"])
    assert (found.outcome, set(found.ours)) == ("shown", {"a", "b"})
    assert ranker.feedback(found.id, clicked="new") == "waiting"
    assert ranker.observe(["a"], position=1, candidates=["b"]).ours == ("b",)
    for items, said, words in [
        ("ab", {}, "sequence of names"), ([], {}, "1 to 3 different"), (["a", "a"], {}, "1 to 3 different"),
        (["a", ""], {}, "1 to 500 characters"), (["a", "x"], {"clicked": "b"}, "was not shown"),
        (["a", "x"], {"examined": 1}, "an answer is one of"), (["a"], {"client": -1}, "client must be"),
        (["a"], {"candidates": ["?"]}, "unknown item"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=words):
            ranker.observe(items, **said)
    assert [standing.item for standing in ranker.standings()] == ["a", "b", "new"]


async def test_the_log_says_what_ours_would_have_got(url):
    async with serving(url) as local:
        await local.board(settle=0, lifetime=100)
        assert "two are needed" in (await local.ask("GET", "boards/b/comparison", code=409))["message"]
        for n in range(40):
            items = [ITEMS[(n + k) % 12] for k in range(3)]
            body = {"items": items, "client": f"c{n % 8}", "time": local.clocks.wall - 40 + n}
            body |= {"propensities": [1 / 12, 1 / 11, 1 / 10], "marginals": [1 / 12] * 3}
            if n % 4 == 3:
                shown = await report(local, f"list {n}", **body)
                if n % 8 == 3:
                    await local.answer(shown, clicked=items[0])
            else:
                await report(local, f"list {n}", clicked=items[1] if n % 2 else None, **body)
        await local.rank()  # lists of ours are no part of it
        found = await local.ask("GET", "boards/b/comparison")
        assert (found["whole"]["lists"], found["unanswered"], found["suspect"]) == (35, 5, 0)
        assert found["whole"]["theirs"]["value"] == pytest.approx((10 + 5) / 35)
        assert (found["since"], found["until"]) == (local.clocks.wall - 40, local.clocks.wall - 2)
        assert [(e["model"], e["method"], e["given"]) for e in found["whole"]["estimates"]] == [
            (model, method, True)
            for model in ("cascade", "position")
            for method in ("inverse propensities", "self-normalised", "doubly robust")
        ]
        assert found["trusted"] is None
        ours = [event.ours for event in observed(url)]
        alike = sum(a == b for event in observed(url) if event.clicks is not None or event.round % 8 == 4
                    for a, b in zip(event.ranking, event.ours, strict=True))  # fmt: skip
        assert found["whole"]["alike"] == pytest.approx(alike / 105)
        assert len(ours) == 40
        await local.ask("POST", "boards/b/labels", {"start": 1, "end": 8, "label": "fraud"})
        await local.ask("POST", "boards/b/client-labels", {"client": "c0", "label": "fraud"})
        await until(lambda: local.worker.boards["b"].refolding is None)
        found = await local.ask("GET", "boards/b/comparison")
        assert found["suspect"] == 7 + 4
        assert found["trusted"]["lists"] == 35 - 11
        local.clocks.pass_time(150)  # what nobody answered was not clicked
        await local.quiet()
        found = await local.ask("GET", "boards/b/comparison")
        assert (found["whole"]["lists"], found["unanswered"]) == (40, 5)
        assert found["whole"]["theirs"]["value"] == pytest.approx(15 / 40)


async def test_chances_that_no_log_could_show_are_refused(url):
    async with serving(url) as local:
        await local.board(settle=0)
        for name in ("propensities", "marginals"):
            for chance in (1e-300, 5e-324, 0, 1.5, -1):
                refused = await report(local, "x", 422, clicked=None, **{name: [1, chance, 1]})
                assert refused["message"] == f"{name} must be from 1e-09 to 1, not {float(chance)!r} at place 2"
        assert observed(url) == []
        schema = (await local.http.get("/openapi.json")).json()["components"]["schemas"]["ObserveIn"]["properties"]
        assert schema["propensities"]["anyOf"][0]["items"] == {"type": "number", "minimum": 1e-9, "maximum": 1}
        await report(local, "x", clicked=None, propensities=[1, 1e-9, 1])


@pytest.mark.parametrize("chance", [1e-300, 5e-324])
async def test_chances_of_earlier_logs_do_not_decide(url, chance):
    async with serving(url) as local:
        await local.board(settle=0)
        session, few = local.worker.boards["b"], [chance] * 3
        for key in range(1, 11):
            event = events.Observed(key, key, key - 1, [0, 1, 2], [0], 1, local.clocks.wall, [0, 1, 2], few, few)
            await local.worker.write_event(session, event)
        found = await local.ask("GET", "boards/b/comparison")
        for one in found["whole"]["estimates"]:
            assert all(0.0 <= value <= 3.0 for value in one["ours"].values())
            assert all(-1.0 <= value <= 2.0 for value in one["gain"].values())
            assert (one["clipped"], one["effective"]) == (10, pytest.approx(10.0))
        assert any("10 of 10 lists have a weight above 3.2" in words for words in found["says"])


async def test_lists_of_others_add_so_many_items_and_no_more(url):
    async with serving(url) as local:
        await local.board(settle=0, observed_items=5)
        for k in range(2):
            await report(local, f"page {k}", items=[ITEMS[0], f"new {k}-0", f"new {k}-1"])
        answer = await report(local, "page 2", 422, items=["new 2-0", "new 2-1"])
        assert (
            "may add 5 items to this board (observed_items) and have added 4: 2 more are refused" in answer["message"]
        )
        body = {"candidates": ["new 2-0", "new 2-1"], "unknown": "add"}
        assert "observed_items" in (await local.ask("POST", "boards/b/rank", body, 422))["message"]
        row = {"query_id": "q", "application": "b", "query_response_hit_ids": ["new 2-0", "new 2-1"]}
        (refusal,) = (await local.ask("POST", "ubi", [row]))["messages"]
        assert "observed_items" in refusal["message"]
        assert (await report(local, "page 3", items=["new 0-0", ITEMS[1]]))["outcome"] == "shown"
        await local.ask("POST", "boards/b/items", {"items": [f"own {k}" for k in range(20)]})
        await report(local, "page 4", items=["new 2-0", "own 3"])
        await report(local, "page 5", 422, items=["new 2-1"])
        await local.ask("PUT", "boards/b", {"observed_items": 6})
        await report(local, "page 6", items=["new 2-1"])
        await local.quiet()
        digest = local.digest()
        assert local.worker.boards["b"].board.listed == 6
    assert replayed(url) == digest
    async with serving(url) as local:
        assert local.worker.boards["b"].board.listed == 6


def test_what_came_into_the_log_at_the_same_moment_is_refused_in_its_order():
    """Two workers saw room for the same last item: log order decides, and every fold agrees."""
    board = Board.create(Config(observed_items=2), ["a"])
    assert board.apply(events.Added(["b"], by_lists=True)) == "done"
    with pytest.raises(sr.Refused, match="observed_items"):
        board.apply(events.Added(["c", "d"], by_lists=True))
    assert board.apply(events.Added(["c"], by_lists=True)) == "done"
    assert board.apply(events.Added(["d", "e"])) == "done"
    assert (board.learner_state.names, board.listed) == (list("abcde"), 2)


@pytest.mark.always
def test_the_client_sends_many_items_in_parts_and_retires_them(url, tmp_path, monkeypatch):
    monkeypatch.setattr("steadyrank.client.api._ITEMS_AT_ONCE", 5)
    server = Server(url, tmp_path / "log").wait()
    client = server.client()
    assert client.put_board("b", items=ITEMS, length=4, settle=0)["items"] == len(ITEMS)
    client.add_items("b", [f"new {k}" for k in range(11)])
    client.retire_items("b", [f"new {k}" for k in range(9)])
    assert client.board("b")["items"] == len(ITEMS) + 2
    with pytest.raises(sr.Refused, match="no item 'other'"):
        client.retire_items("b", [ITEMS[0], "other"])
    assert client.board("b")["items"] == len(ITEMS) + 2
    assert server.stop() == 0
