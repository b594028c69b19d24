"""What comes of the clicks on a collection's lists: by query and item, in any order, and told to the guard."""

import numpy as np
import pytest

import steadyrank as sr
from service_tools import replayed, serving
from steadyrank.guards.client_trust.client_mixture import SPARED

pytestmark = pytest.mark.pure

DOCS = [f"d{k}" for k in range(400)]


def came(collection):
    return {(one.query, one.item): (one.outcomes, one.value) for one in collection.judgments() if one.outcomes}


def test_outcomes_are_counted_once_by_query_and_item_in_any_order(tmp_path):
    collection = sr.Collection(3, outcomes=True, keep_queries=True)
    red, blue = collection.rank("red", DOCS, client=1), collection.rank("blue", DOCS, client=2)
    assert collection.outcome(blue.id, "d1", 5.0, id="first") == "waiting"
    assert collection.feedback(red.id, clicked="d0", value=2.0) == "learnt"
    assert collection.feedback(blue.id, clicked="d1") == "learnt"
    assert collection.outcome(red.id, "d0", 2.5, id="more") == "learnt"
    assert collection.outcome(red.id, "d0", 2.5, id="more") == "duplicate"
    assert came(collection) == {("red", "d0"): (1, 4.5), ("blue", "d1"): (1, 5.0)}
    collection.save(tmp_path / "kept")
    again = sr.Collection.load(tmp_path / "kept")
    assert again.outcome(blue.id, "d1", 5.0, kind="return", id="back") == "learnt"
    assert came(again) == {("red", "d0"): (1, 4.5)}
    again.forget("red")
    assert came(again) == {}
    assert again.outcome(red.id, "d0", 9.0, id="late") == "learnt"  # the click is known, the query is not
    assert came(again) == {}


def test_outcomes_of_items_far_down_are_those_of_their_click():
    collection = sr.Collection(3, outcomes=True)
    shown = collection.rank("red", DOCS, rules={"pins": {"d399": 2}})
    assert collection.feedback(shown.id, clicked="d399", value=1.5) == "learnt"
    assert list(came(collection).values()) == [(1, 1.5)]


def test_what_cannot_be_reported_is_named():
    collection = sr.Collection(3, outcomes=True)
    shown = collection.rank("red", DOCS)
    for arguments, code, named in [
        ((shown.id, "d7", 1.0), 422, "'d7' was not shown"),
        ((shown.id, "d1", -1.0), 422, "value"),
        ((99, "d1", 1.0), 403, "never shown"),
    ]:
        with pytest.raises(sr.Refused, match=named) as refusal:
            collection.outcome(*arguments)
        assert refusal.value.code == code
    with pytest.raises(sr.Refused, match="takes them with outcomes"):
        sr.Collection(3).outcome(1, "d0", 1.0)
    collection.feedback(shown.id, clicked="d2")
    with pytest.raises(sr.Refused, match="without a click"):
        collection.outcome(shown.id, "d1", 1.0)


def test_lists_are_those_without_outcomes():
    lists = []
    for outcomes in (False, True):
        collection, rng = sr.Collection(3, outcomes=outcomes), np.random.default_rng(2)
        lists.append([])
        for _ in range(80):
            shown = collection.rank("red", DOCS[:9])
            lists[-1].append(shown.items)
            bought = {"value": 1.0} if outcomes else {}
            if rng.random() < 0.5:
                collection.feedback(shown.id, clicked=shown.items[int(rng.integers(3))], **bought)
            else:
                collection.feedback(shown.id, clicked=None)
    assert lists[0] == lists[1]


def test_the_guard_hears_who_buys():
    """One outcome takes as much off the evidence against its client as the guard says that it is worth."""
    score = []
    for value in (0.0, 3.0):
        collection = sr.Collection(3, outcomes=True)
        for k in range(40):
            shown = collection.rank(f"query {k % 7}", DOCS, client=5)
            collection.feedback(shown.id, clicked="d2" if "d2" in shown.items else None)
        collection.outcome(1, "d2", value, id="order")
        (guard,) = [post.guards[""] for post in collection._state.gate.posts if "" in post.guards]
        score.append(float(guard.clients.score[0]))
    assert score[1] == score[0] - SPARED


async def test_outcomes_over_http_are_logged_forgotten_and_shown(tmp_path):
    url = f"sqlite:///{tmp_path}/store.db"
    async with serving(url) as local:

        async def ask(path, body, code=200):
            return await local.ask("POST", f"collections/shop/{path}", body, code)

        await local.ask("PUT", "collections/shop", {"length": 3, "settle": 0})
        shown = await ask("rank", {"query": "red", "candidates": DOCS[:5], "client": "ann"})
        order = {"impression": shown["impression"], "item": "d1", "value": 7.5, "id": "order 1"}
        assert "takes them with outcomes" in (await ask("outcomes", order, 409))["message"]
        await local.ask("PUT", "collections/shop", {"outcomes": True, "outcome_days": 7})
        assert "goal" in (await local.ask("PUT", "collections/shop", {"goal": "value"}, 422))["message"]
        assert (await ask("outcomes", order))["outcome"] == "waiting"
        assert (await ask("feedback", {"impression": shown["impression"], "clicked": "d1"}))["outcome"] == "learnt"
        assert (await ask("outcomes", order))["outcome"] == "duplicate"
        batch = {"outcomes": [order | {"board": "shop", "id": "order 2"}]}
        assert (await local.ask("POST", "outcomes", batch))["outcomes"][0]["outcome"] == "learnt"
        other = await ask("rank", {"query": "blue", "candidates": DOCS[:5]})
        bought = {"impression": other["impression"], "clicked": "d0", "value": 2.0}
        assert (await ask("feedback", bought))["outcome"] == "learnt"
        item = (await ask("query", {"query": "red"}))["items"][0]
        assert (item["item"], item["outcomes"], item["value"]) == ("d1", 1, 15.0)
        await ask("forget", {"query": "red"})
        await local.quiet()
        assert replayed(url, "shop") == local.digest("shop")
        assert (await ask("query", {"query": "blue"}))["items"][0]["value"] == 2.0
