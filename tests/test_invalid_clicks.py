"""Clicks that guards or labels keep from the learner are counted by item, and survive a restart."""

import numpy as np
import pytest

import steadyrank as sr
from service_tools import ITEMS, replayed, serving, until

pytestmark = pytest.mark.pure


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/store.db"


async def test_refused_and_labelled_clicks_are_invalid_and_counted_once(url):
    async with serving(url) as local:
        await local.ask(
            "PUT", "boards/b", {"items": ITEMS, "length": 4, "settle": 0, "guard": "Anyone", "most_clicks": 2}
        )
        first = await local.rank(client="ann")
        await local.answer(first, clicks=[1, 1, 1, 0])  # more than a person's
        second = await local.rank(client="bob")
        await local.answer(second, clicked=second["items"][1])
        invalid = {row["item"]: row["invalid_clicks"] for row in (await local.ask("GET", "boards/b/state"))["items"]}
        expected = dict.fromkeys(ITEMS, 0) | dict.fromkeys(first["items"][:3], 1)
        assert invalid == expected
        await local.ask("POST", "boards/b/client-labels", {"client": "bob", "label": "fraud"})
        await until(lambda: local.worker.boards["b"].refolding is None)
        state = await local.ask("GET", "boards/b/state")
        invalid = {row["item"]: row["invalid_clicks"] for row in state["items"]}
        expected[second["items"][1]] += 1
        assert invalid == expected
        watch = await local.ask("GET", "boards/b/watch")
        assert all(row["invalid_clicks"] == expected[row["item"]] for row in watch["list"])
        await local.quiet()
        digest = local.digest()
    assert replayed(url) == digest
    async with serving(url, seed=1) as local:
        state = await local.ask("GET", "boards/b/state")
        assert {row["item"]: row["invalid_clicks"] for row in state["items"]} == expected


def test_what_a_guard_takes_back_is_invalid_and_saved(tmp_path):
    """Bots under their own names are found after a while: what they had clicked until then counts as well."""
    items, rng = [f"item {k}" for k in range(30)], np.random.default_rng(1)
    ranker, attraction = sr.Ranker(items, 5, "CascadeTS", guard="ClientTrust"), rng.random(30) * 0.4
    pushed, clicks, by_bots = set(items[-3:]), 0, 0
    for _ in range(8_000):
        bot = rng.random() < 0.12
        client = int(rng.integers(1_000, 1_020)) if bot else int(rng.integers(0, 300))
        shown = ranker.rank(client=client)
        if bot:
            clicked = next((item for item in shown.items if item in pushed), None)
        else:
            bits = rng.random(5) < attraction[[int(item[5:]) for item in shown.items]]
            clicked = shown.items[int(np.argmax(bits))] if bits.any() else None
        clicks += clicked is not None
        by_bots += bot and clicked is not None
        ranker.feedback(shown.id, clicked=clicked)
    state = ranker._learner_state
    view = ranker.guard_view()
    invalid = {state.names[slot]: number for slot, number in state.invalid.items()}
    assert view.retracted > 0
    assert (
        sum(invalid.get(item, 0) for item in pushed) > 0.8 * by_bots
    )  # the rest came before and is remembered no more
    assert sum(invalid.values()) <= clicks
    ranker.save(tmp_path / "saved")
    assert sr.Ranker.load(tmp_path / "saved")._learner_state.invalid == state.invalid
