"""What is known of items and visits, over HTTP: declared, checked, logged, learnt with, and shown."""

import base64
import contextlib
import json
import shutil

import msgspec
import numpy as np
import pytest

from service_tools import logged_events, received, replayed, serving
from steadyrank.client import Client
from steadyrank.service.board import events
from steadyrank.service.board.board import Board
from steadyrank.service.board.config import Config, FeatureKinds
from steadyrank.service.storage import open_store
from steadyrank.service.worker import impression_ids
from steadyrank.service.worker.transfer import bring_in, compact, export, read_board

pytestmark = pytest.mark.pure

KINDS = {
    "items": {"year": [1950, 2030], "genre": ["drama", "comedy"]},
    "visits": {"age": [0, 100], "land": ["A", "B"]},
}
FILMS = {f"film {k}": {"genre": ["drama", "comedy"][k % 2], "year": 1990} for k in range(10)}
BOARD = {
    "items": FILMS,
    "length": 3,
    "learner": "SteadyRankLinear",
    "guard": "Anyone",
    "features": KINDS,
    "settle": 0,
}

PAST = {"items": ["new"], "clicked": None}


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/store.db"


def logged(url, name="b"):
    with contextlib.closing(open_store(url)) as store:
        number = next(n for n, (called, _) in store.boards().items() if called == name)
        return logged_events(store, number)


async def visited(local, rounds, seed, name="b"):
    """The old want dramas, the young comedies; of one in ten visitors nothing is known."""
    world = np.random.default_rng(seed)
    for n in range(rounds):
        age = float(world.uniform(0, 100))
        shown = await local.rank(name, features={"age": None if n % 10 == 0 else age, "land": "AB"[n % 2]})
        wanted = "drama" if age > 50 else "comedy"
        liked = [
            item for item in shown["items"] if world.random() < (0.6 if FILMS[item]["genre"] == wanted else 0.05)
        ]
        await local.answer(shown, name, clicked=liked[0] if liked else None)


async def test_lists_are_learnt_from_with_what_was_known_and_nothing_of_it_is_lost(url, tmp_path):
    async with serving(url) as local:
        board = await local.ask("PUT", "boards/b", BOARD)
        assert board["features"] == KINDS
        await visited(local, 150, 1)
        state = await local.ask("GET", "boards/b/state")
        found, first = state["features"], state["features"]["strongest"][0]
        assert found["explained"] > 0.3
        assert found["count"] == len(found["strongest"]) == 12  # three numbers of a film, for four of a visitor
        assert first["feature"] in ("genre=drama for age", "genre=comedy for age")
        assert abs(first["effect"]) >= abs(found["strongest"][1]["effect"])
        genre, more = first["feature"].split("=")[1].split()[0], first["effect"] > 0
        assert more == (genre == "drama") == (first["odds"] > 1)
        words = f"click items with genre {genre} {'more' if more else 'less'} readily."
        assert first["says"] == f"Visitors with a high age {words}"
        assert found["says"].startswith("What is known of items and visitors explains ")
        assert state["items"][0]["features"] == FILMS["film 0"]
        watch = await local.ask("GET", "boards/b/watch")
        assert watch["features"] == found
        digest = local.digest()
    assert replayed(url) == digest
    waiting, copy = [], f"sqlite:///{tmp_path}/copy.db"
    async with serving(url, seed=1) as local:
        assert local.digest() == digest
        for age in (10, 90):
            waiting.append(await local.rank(features={"age": age}))
        await local.quiet()
        for end in ("", "-wal"):  # what a kill leaves
            shutil.copy(f"{tmp_path}/store.db{end}", f"{tmp_path}/copy.db{end}")
    digests = []
    for each in (url, copy):
        async with serving(each, seed=2) as local:
            for shown in waiting:
                assert (await local.answer(shown, clicked=shown["items"][0]))["outcome"] == "learnt"
                assert (await local.answer(shown, clicked=shown["items"][0]))["outcome"] == "duplicate"
            digests.append(local.digest())
        assert replayed(each) == digests[-1]
    assert digests[0] == digests[1]
    with contextlib.closing(open_store(url)) as store, contextlib.closing(open_store(f"{url}2")) as other:
        export(store, "b", tmp_path / "b.jsonl", True, lambda _: None)
        bring_in(other, read_board(tmp_path / "b.jsonl"), None)
        assert replayed(f"{url}2") == digests[0]
        compact(store, 0.0, 20)
    async with serving(url, seed=3) as local:
        assert local.digest() == digests[0]
        answer = await local.ask("PUT", "boards/b", {"features": {"items": KINDS["items"]}}, 409)
        assert "make a new board" in answer["message"]
        assert (await local.ask("GET", "boards/b/state"))["items"][0]["features"] == FILMS["film 0"]


async def test_an_answer_says_what_was_known_where_its_list_was_never_written(url, monkeypatch):
    async with serving(url) as local:
        await local.ask("PUT", "boards/b", BOARD)
        put = local.worker.log_writer.put_event
        with monkeypatch.context() as patch:
            patch.setattr(local.worker.log_writer, "put_event", lambda *args, **options: None)
            shown = await local.rank(features={"age": 75, "land": "B"}, client="ann", cohort={"network": "x"})
        assert local.worker.log_writer.put_event == put
        await local.answer(shown, clicked=None)
        board = local.worker.boards["b"].board
        told = board.learner_state.features.of_visit({"age": 75, "land": "B"})
        assert board.impressions.features[1].tolist() == told.tolist()
        kept = await local.rank(features={"age": 75, "land": "B"})
        await local.quiet()
        await local.answer(kept, clicked=None)
        assert [event.features for event in logged(url)[1:]] == [{"age": 75, "land": "B"}] * 2 + [{}]
        digest = local.digest()
    assert replayed(url) == digest


def test_an_impression_id_hides_what_it_says_of_a_visitor():
    key, known = (
        impression_ids.Signer(b"secret", "impression"),
        {"age": 75.5, "income": "very low", "x" * 90: "y" * 90},
    )
    for draft in (None, (0, 2)):
        for cohorts in ({}, {"network": 7}):
            shown = impression_ids.ImpressionId(5, 5, 4, 1, 1.5, 2, [0, 7], [(1, 0.5)], cohorts, draft, known)
            text = impression_ids.seal(shown, key)
            assert impression_ids.open_sealed(text, key) == shown
            assert b"low" not in base64.urlsafe_b64decode(text + "==")
    other = impression_ids.seal(shown._replace(key=6), key)
    assert base64.urlsafe_b64decode(other + "==")[70:-16] != base64.urlsafe_b64decode(text + "==")[70:-16]


async def test_what_does_not_fit_is_refused_by_name_and_nothing_is_written(url):
    kinds = {"items": {"year": [2030, 1950]}}
    async with serving(url) as local:
        for body, words in [
            (
                {"features": kinds},
                "feature 'year' is declared as [lowest, highest] or by its categories, not [2030.0",
            ),
            ({"features": {"visits": KINDS["visits"]}, "items": ["a"]}, "features of visits need features of items"),
            ({"features": {"item": {}}}, "unknown member 'item': did you mean 'items'?"),
            ({"learner": "SteadyRank"}, "SteadyRank does not use features; these do: SteadyRankLinear"),
            (
                {"items": {"a": {"genre": "western"}}},
                "item 'a': feature 'genre' is one of drama, comedy, not 'western'",
            ),
            ({"items": {"a": {"year": 2031}}}, "item 'a': feature 'year' is a number from 1950 to 2030, not 2031"),
            ({"items": {"a": {"years": 1}}}, "unknown feature of an item 'years': did you mean 'year'?"),
            ({"items": {"a": {"year": True}}}, "feature 'year' is a number from 1950 to 2030, not True"),
            ({"items": {"a": {"year": 10**400}}}, "feature 'year' is a number from 1950 to 2030, not 10000000"),
            ({"features": None}, "item 'film 0': no features of an item are declared, so 'genre' cannot be given"),
        ]:
            answer = await local.ask("PUT", "boards/b", {**BOARD, **body}, 422)
            assert words in answer["message"], answer
        assert (await local.ask("GET", "boards"))["boards"] == []
        await local.ask("PUT", "boards/b", BOARD)
        head, digest = len(logged(url)), local.digest()
        wrong = [
            ("PUT", "", {"items": {"new": {"genre": "western"}}}, "item 'new': feature 'genre'"),
            ("PUT", "", {"learner": "CascadeTS"}, "CascadeTS does not use features"),
            ("PUT", "", {"features": {"items": {"year": [0, 1]}}, "items": {"film 0": {"year": 2}}}, "from 0 to 1"),
            ("POST", "/items", {"items": {"new": {"year": 1900}}}, "item 'new': feature 'year'"),
            ("POST", "/rank", {"features": {"age": 101}}, "feature 'age' is a number from 0 to 100, not 101"),
            ("POST", "/rank", {"features": {"land": "C"}}, "feature 'land' is one of A, B, not 'C'"),
            ("POST", "/rank", {"features": {"Age": 1}}, "unknown feature of a visit 'Age': did you mean 'age'?"),
            ("POST", "/rank", {"features": {"age": 1e999}}, "no JSON"),
            ("POST", "/rank", {"features": {"age": [1]}}, "feature 'age' is a number from 0 to 100, not [1]"),
            ("POST", "/rank", {"features": {"age": -1}, "candidates": ["y"], "unknown": "add"}, "feature 'age'"),
            ("POST", "/observe", {"id": "1", "items": ["new"], "features": {"age": -1}}, "feature 'age'"),
            ("POST", "/history", {"rows": [{**PAST, "features": {"age": -1}}]}, "row 1: feature 'age' is a number"),
            ("POST", "/history", {"rows": [PAST, {**PAST, "features": {"ag": 1}}]}, "row 2: unknown feature"),
            ("POST", "/history", {"rows": [{**PAST, "features": {"age": 1e999}}]}, "no JSON"),
            ("POST", "/history", {"rows": [{**PAST, "segment": "A"}]}, "row 1: segment 'A' cannot be given"),
        ]
        for method, path, body, words in wrong:
            text = {"content": json.dumps(body).replace("Infinity", "NaN")}
            answer = await local.ask(method, f"boards/b{path}", None, 422, **text)
            assert words in answer["message"], answer
        for known, words in [
            ({"age": 101}, "feature 'age' is a number from 0 to 100, not 101"),
            ('{"age": NaN}', "feature 'age' is a number from 0 to 100, not nan"),
            ({"Age": 1}, "unknown feature of a visit 'Age': did you mean 'age'?"),
            ([1], "features of a visit are given by name, not as [1]"),
        ]:
            query = {"query_id": "1", "query_response_hit_ids": ["new"], "query_attributes": {"features": known}}
            answer = await local.ask("POST", "ubi?board=b", [query])
            assert answer["refused"] == {"422": 1}
            assert words in answer["messages"][0]["message"], answer
        await local.worker.catch_up()
        assert (len(logged(url)), local.digest()) == (head, digest)


async def test_past_clicks_and_ubi_say_features_as_observe_does(url):
    """Three boards, told the same in three ways: learners that are equal in every byte. A fourth declares nothing."""
    names = ("b", "past", "ubi", "plain")
    async with serving(url) as local:
        for name in names[:3]:
            await local.ask("PUT", f"boards/{name}", BOARD)
        await local.ask("PUT", "boards/plain", {"items": list(FILMS), "length": 3, "settle": 0})
        past, rows = [], []
        for n in range(60):
            items, known = list(FILMS)[n % 7 : n % 7 + 3], [{"age": n, "land": "AB"[n % 2]}, {"age": None}, {}][n % 3]
            said = {"items": items, "clicked": items[n % 2], "features": known}
            await local.ask("POST", "boards/b/observe", {**said, "id": str(n)})
            past.append(said)
            about = {"features": json.dumps(known) if n % 2 else known}  # as text, where a plugin takes no other
            rows.append({"query_id": str(n), "query_response_hit_ids": items, "query_attributes": about})
            clicked = {"object": {"object_id": items[n % 2]}}
            rows.append({"query_id": str(n), "action_name": "click", "event_attributes": clicked})
        await local.ask("POST", "boards/past/history", {"rows": past})
        for name in ("ubi", "plain"):  # attributes that a board does not declare are somebody else's
            taken = await local.ask("POST", f"ubi?board={name}", rows)
            assert (taken["lists"], taken["clicks"], taken["refused"]) == (60, 60, {})
        states = [local.worker.boards[name].board.learner_state.arrays() for name in names[:3]]
        for state in states:
            for name, array in state.items():
                assert array.tobytes() == states[0][name].tobytes(), name
        [event] = [event for event in logged(url, "past") if isinstance(event, events.History)]
        assert [row.features for row in event.rows[:3]] == [{"age": 0.0, "land": "A"}, {}, {}]
        assert all(replayed(url, name) == local.digest(name) for name in names)
        before = local.digest("past")
        await local.ask("PUT", "boards/past", {"features": {"items": KINDS["items"], "visits": {"age": [0, 50]}}})
        assert replayed(url, "past") == local.digest("past") != before


def test_a_log_of_before_says_nothing_of_past_visits():
    event = events.decode(msgspec.msgpack.encode(["history", [[["a"], [0], 1]], "june"]))
    assert event == events.History([events.Past(["a"], [0], 1, {})], "june")


async def test_items_are_described_anew_once_and_stay_retired(url):
    async with serving(url) as local:
        await local.ask("PUT", "boards/b", BOARD)
        await visited(local, 30, 2)
        await local.ask("DELETE", "boards/b/items/film 0")
        head = len(logged(url))
        assert (await local.ask("PUT", "boards/b", BOARD))["items"] == 9
        assert len(logged(url)) == head  # all of it is known
        changed = {**BOARD, "items": {**FILMS, "film 0": {"year": 2000, "genre": None}, "film 10": {"year": 2001}}}
        assert (await local.ask("PUT", "boards/b", changed))["items"] == 10
        assert logged(url)[head:] == [
            events.Added(["film 10"], {"film 10": {"year": 2001.0}}),
            events.Described({"film 0": {"year": 2000.0}}),
        ]
        await local.ask("POST", "boards/b/items", {"items": ["film 0", "film 1"]})  # names alone leave that as it is
        await local.ask("POST", "boards/b/items", {"items": {"film 1": {}}})
        state = await local.ask("GET", "boards/b/state")
        known = {item["item"]: item["features"] for item in state["items"]}
        assert (known["film 0"], known["film 1"], known["film 2"]) == ({"year": 2000}, {}, FILMS["film 2"])
        assert all(item["active"] for item in state["items"])
        await local.ask(
            "POST", "boards/b/observe", {"id": "1", "items": ["film 1"], "clicked": None, "features": {"age": 9}}
        )
        assert logged(url)[-1].features == {"age": 9.0}
        digest = local.digest()
    assert replayed(url) == digest
    async with serving(url, seed=1) as local:
        assert local.digest() == digest


async def test_other_features_fold_the_log_again_and_what_fits_no_more_is_not_known(url):
    async with serving(url) as local:
        await local.ask("PUT", "boards/b", BOARD)
        await visited(local, 40, 3)
        before = local.digest()
        fewer = {"items": {"genre": ["drama", "comedy", "western"]}, "visits": {"age": [0, 60]}}
        await local.ask("PUT", "boards/b", {"features": fewer})
        board = local.worker.boards["b"].board
        assert board.learner_state.features.size == 6
        ages = [event.features.get("age", 99) for event in logged(url) if isinstance(event, events.ListShown)]
        known = [seen != 0.0 for seen in board.impressions.features[1:41, 3]]
        assert known == [age <= 60 for age in ages]
        assert replayed(url) == local.digest() != before
        for body in ({"learner": "SteadyRank", "features": None}, {"learner": "SteadyRankLinear", "features": KINDS}):
            await local.ask("PUT", "boards/b", body)
            assert replayed(url) == local.digest()
        board = local.worker.boards["b"].board
        afresh = Board.create(Config(**{name: BOARD[name] for name in ("length", "learner", "guard", "settle")},
                              features=FeatureKinds(**KINDS)), list(FILMS), FILMS)  # fmt: skip
        for event in logged(url)[1:]:
            afresh.take(event)
        for name, array in afresh.learner_state.arrays().items():  # as if nothing had been changed in between
            assert array.tobytes() == board.learner_state.arrays()[name].tobytes(), name


def test_the_client_sends_features_and_names_what_json_cannot_hold(monkeypatch):
    client, sent = Client(), []
    got = {"impression": "x", "items": [], "expires": 0.0, "outcome": "shown", "ours": [], "rows": 1}
    monkeypatch.setattr(client, "_send", lambda step: sent.append(step.request.body) or received(got))
    client.put_board("b", items=FILMS, features=KINDS)
    client.put_board("b", length=3)
    client.add_items("b", {"a": {"year": None}})
    client.rank("b", features={"age": 3})
    client.observe("b", "1", ["a"], features={"age": 3})
    client.history("b", [{**PAST, "features": {"age": 3}}, PAST])
    assert [row.get("features") for row in sent[5]["rows"]] == [{"age": 3}, None]
    assert sent[0] == {"items": FILMS, "features": KINDS}
    assert sent[1:3] == [{"length": 3}, {"items": {"a": {"year": None}}}]
    assert sent[3]["features"] == sent[4]["features"] == {"age": 3}
    nan = float("nan")
    for call in (
        lambda: client.rank("b", features={"age": nan}),
        lambda: client.put_board("b", items={"a": {"age": nan}}),
        lambda: client.observe("b", "1", ["a"], features={"age": -float("inf")}),
        lambda: client.history("b", [{"items": ["a"], "clicked": None, "features": {"age": nan}}]),
    ):
        with pytest.raises(ValueError, match="feature 'age' must be a finite number, or None"):
            call()
