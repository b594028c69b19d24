"""Rules of a board and of a request, over HTTP: kept, refused by name, logged, and the same when replayed."""

import contextlib
import itertools
import math

import msgspec
import numpy as np
import pytest

from service_tools import ITEMS, logged_events, replayed, serving
from steadyrank.core.contract import ANSWER, NOTE_EXTRA, Visit
from steadyrank.core.refusals import Refused
from steadyrank.live.rules import Rules
from steadyrank.service.board import events
from steadyrank.service.board.board import Board
from steadyrank.service.board.config import Config
from steadyrank.service.board.rule_costs import _ByEstimate, _list, summarize_rules
from steadyrank.service.board.watch_summary import list_shown
from steadyrank.service.http import rank_routes
from steadyrank.service.storage import open_store

pytestmark = pytest.mark.pure

BOARD = {"items": ITEMS, "length": 4, "settle": 0, "guard": "Anyone"}
GROUPS = {"half": {"items": ITEMS[:6], "most": 2}}


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/store.db"


def logged(url, kind=events.ListShown):
    with contextlib.closing(open_store(url)) as store:
        number = next(iter(store.boards()))
        found = logged_events(store, number)
    return [event for event in found if isinstance(event, kind)]


async def test_lists_keep_the_rules_of_board_and_request_and_the_log_leads_to_the_same_board(url):
    async with serving(url) as local:
        shown = await local.ask("PUT", "boards/b", BOARD | {"rules": {"groups": GROUPS}})
        assert shown["rules"] == {"groups": GROUPS}
        for n in range(60):
            mine = {"pins": {ITEMS[11]: 2}, "exclude": [ITEMS[7]], "boosts": {ITEMS[8]: 2.0}} if n % 2 else None
            one = await local.rank(rules=mine, client=f"c{n % 7}")
            assert sum(item in ITEMS[:6] for item in one["items"]) <= 2
            assert mine is None or (one["items"][1] == ITEMS[11] and ITEMS[7] not in one["items"])
            assert "unkept" not in one
            assert (await local.answer(one, clicked=one["items"][n % 4]))["outcome"] == "learnt"
        standings = {row["item"]: row for row in (await local.ask("GET", "boards/b/state"))["items"]}
        assert standings[ITEMS[11]]["looks"] > 20  # a look at a pinned item is a look
        watch = await local.ask("GET", "boards/b/watch")
        assert sum(row["item"] in ITEMS[:6] for row in watch["list"]) <= 2
        await local.quiet()
        digest = local.digest()
    lists = logged(url)
    assert all(event.placed[1] == 1 for event in lists[1::2])
    assert all(event.placed.count(1) == 0 for event in lists[0::2])
    assert replayed(url) == digest
    async with serving(url, seed=1) as local:
        assert local.digest() == digest
        one = await local.rank()
        assert sum(item in ITEMS[:6] for item in one["items"]) <= 2
        report = {"id": "1", "items": ITEMS[:4], "clicked": None}
        await local.ask("POST", "boards/b/observe", report)
        await local.ask("PUT", "boards/b", {"rules": None})
        assert (await local.ask("GET", "boards/b"))["rules"] is None
        await local.quiet()
        digest = local.digest()
    assert replayed(url) == digest
    (observed,) = logged(url, events.Observed)
    assert sum(slot < 6 for slot in observed.ours) <= 2  # what would have been shown keeps the rules


def test_rules_that_requests_repeat_are_made_once():
    """The same content is the same object, also on top of a board's; what is wrong is refused each time."""
    one, other = ({"rules": {"pins": {item: 1}}} for item in ITEMS[:2])
    first = rank_routes._rules(msgspec.convert(one, rank_routes.RankIn))
    assert rank_routes._rules(msgspec.convert(one, rank_routes.RankIn)) is first
    assert rank_routes._rules(msgspec.convert(other, rank_routes.RankIn)).pins == {ITEMS[1]: 1}
    for _ in range(2):
        with pytest.raises(Refused, match="boost 'item 1'"):
            rank_routes._rules(msgspec.convert({"rules": {"boosts": {ITEMS[1]: 50}}}, rank_routes.RankIn))
    long = {"rules": {"exclude": ["x" * 200 + str(k) for k in range(100)]}}
    made = [rank_routes._rules(msgspec.convert(long, rank_routes.RankIn)) for _ in range(2)]
    assert made[0] is not made[1]  # too long to be kept
    for k in range(100):
        rank_routes._rules(msgspec.convert({"rules": {"exclude": [f"{k}"]}}, rank_routes.RankIn))
    assert len(rank_routes._LATEST) <= 32
    board = Board.create(Config().changed({"rules": {"exclude": [ITEMS[5]]}}), ITEMS)
    both = board.rules(first)
    assert both is board.rules(first)
    assert (both.pins, both.exclude) == ({ITEMS[0]: 1}, (ITEMS[5],))
    for k in range(100):
        assert board.rules(Rules(exclude=[f"{k}"])).exclude == (ITEMS[5], f"{k}")
    assert board.rules(None).exclude == (ITEMS[5],)


def test_what_a_boost_costs_is_by_the_given_estimates_and_not_the_learners():
    board = Board.create(Config().changed({"length": 2}), ITEMS[:4])  # to the learner all are alike
    state = _ByEstimate(board.learner_state, np.array([0.5, 0.4, 0.3, 0.2]), None, np.ones(2))
    for factor, wanted in ((1.9, [0, 1]), (2.1, [0, 3]), (2.6, [3, 0])):
        assert _list(board, state, Rules(boosts={ITEMS[3]: factor})) == (wanted, [])


async def test_what_cannot_be_kept_is_refused_and_nothing_is_logged(url):
    async with serving(url) as local:
        await local.ask("PUT", "boards/b", BOARD | {"rules": {"pins": {ITEMS[0]: 1}}})
        before = local.digest()
        for rules, words in [
            ({"pins": {ITEMS[1]: 1}}, "pin 'item 1' at 1"),
            ({"exclude": [ITEMS[0]]}, "pin 'item 0' at 1 and exclude 'item 0' contradict"),
            ({"pins": {"unheard": 1}}, "unknown item 'unheard'"),
            ({"boosts": {ITEMS[1]: 50}}, "boost 'item 1' must be a finite number from 0.1 to 10.0, not 50"),
            ({"groups": {"g": {"items": ITEMS}}}, "most"),
            ({"pinned": {}}, "pinned"),
        ]:
            for request in (("POST", "boards/b/rank"), ("PUT", "boards/b")):
                body = {
                    "rules": {"pins": {ITEMS[0]: 1}, **rules}
                    if request[0] == "PUT" and "pins" not in rules
                    else rules
                }
                if request[0] == "PUT" and rules == {"pins": {ITEMS[1]: 1}}:
                    continue  # in place of the board's, which is no contradiction
                answer = await local.ask(*request, body, 422)
                assert words in answer["message"], (request, answer)
        answer = await local.ask("POST", "boards/b/rank", {"candidates": ITEMS[3:7]}, 422)
        assert "pin 'item 0' at 1 and item 'item 0', which is no candidate contradict" in answer["message"]
        shown = await local.rank(candidates=ITEMS[3:7], rules={"when_impossible": "best"})
        assert shown["unkept"] == ["pin 'item 0' at 1"]
        assert set(shown["items"]) == set(ITEMS[3:7])
        await local.ask("PUT", "boards/b", {"length": 2, "rules": {"pins": {ITEMS[0]: 3}}}, 422)
        await local.quiet()
        assert local.digest() != before  # one list was shown
    assert len(logged(url)) == 1
    assert not logged(url, events.Configured)


@pytest.mark.interpreted
def test_another_learner_is_refused_where_the_rules_mean_nothing_to_it():
    """Boosts need estimates; rules by a feature need the feature. It is the learner to come that counts."""
    settings = {"rules": {"boosts": {ITEMS[1]: 2.0}}}
    board = Board.create(Config().changed(settings), ITEMS)
    with pytest.raises(
        Refused, match="boosts need a learner that estimates how attractive items are, which Random does not"
    ):
        board.after({"learner": "Random"})
    assert board.after({"goal": "value"}).goal == "value"  # which SteadyRank knows too
    other = Board.create(Config().changed({"learner": "Random"}), ITEMS)
    with pytest.raises(Refused, match="which Random does not"):
        other.after(settings)
    assert other.after({**settings, "learner": "SteadyRank"}).rules is not None
    by_brand = {"groups": {"g": {"by": "brand", "most": 3}}}
    features = {"items": {"brand": ["a", "b"]}}
    third = Board.create(
        Config().changed({"learner": "SteadyRankLinear", "features": features, "rules": by_brand}), ITEMS
    )
    with pytest.raises(Refused, match="by must be a feature of items"):
        third.after({"features": None, "learner": "Random"})


async def test_rules_may_name_items_that_come_with_them_and_go_by_features(url):
    known = {f"new {k}": {"brand": "ab"[k % 2]} for k in range(6)}
    rules = {"groups": {"each": {"by": "brand", "most": 1}}, "pins": {"new 0": 1}}
    async with serving(url) as local:
        base = {
            "items": ITEMS,
            "length": 4,
            "learner": "SteadyRankLinear",
            "features": {"items": {"brand": ["a", "b"]}},
        }
        await local.ask("PUT", "boards/b", base)
        await local.ask("PUT", "boards/b", {"items": known, "rules": rules | {"pins": {"nobody": 1}}}, 422)
        assert len(local.worker.boards["b"].board.learner_state.names) == len(ITEMS)
        await local.ask("PUT", "boards/b", {"items": known, "rules": rules})
        for _ in range(20):
            items = (await local.rank())["items"]
            brands = [known[item]["brand"] for item in items if item in known]
            assert items[0] == "new 0"
            assert len(set(brands)) == len(brands)
        await local.ask("POST", "boards/b/items", {"items": {"new 9": {"brand": "a"}}})
        for _ in range(20):
            assert "new 9" not in (await local.rank())["items"]  # the pin is the one of its brand
        await local.quiet()
        digest = local.digest()
    assert replayed(url) == digest


async def test_mixed_lists_keep_rules_and_pinned_places_are_nobodys(url):
    rules = {
        "pins": {ITEMS[11]: 2},
        "exclude": [ITEMS[1]],
        "groups": {"half": {"items": ITEMS[:6], "most": 2}},
        "include": {"few": {"items": ITEMS[9:11], "least": 1}},
    }
    theirs, from_theirs = [*ITEMS[:4], ITEMS[9], ITEMS[11]], 0
    async with serving(url) as local:
        await local.ask("PUT", "boards/b", BOARD | {"interleave": True, "length": 6, "rules": rules})
        for n in range(80):
            shown = await local.rank(theirs=theirs, client=f"c{n}")
            items = shown["items"]
            assert items[1] == ITEMS[11]
            assert len(set(items)) == 6
            assert ITEMS[1] not in items
            assert sum(item in ITEMS[:6] for item in items) <= 2
            assert set(items) & set(ITEMS[9:11])
            from_theirs += ITEMS[9] in items
            await local.answer(shown, clicked=items[n % 6])
        await local.quiet()
        digest = local.digest()
    lists = {event.key: event for event in logged(url)}
    assert from_theirs > 40
    assert sum(any(event.mixed.teams) for event in lists.values()) > 60  # most lists could be mixed
    for event in logged(url, events.Answered):  # the id leads to the same teams as were logged
        assert event.teams == lists[event.key].mixed.teams
        assert (event.teams[1], lists[event.key].placed[1]) == (0, 1)
        assert sum(event.teams) in (-1, 0, 1)
    assert replayed(url) == digest


async def test_what_rules_cost_is_what_the_list_would_be_worth_without_them(url):
    """By hand: the chance of a click on the best list with a rule and without it, by the estimates."""
    async with serving(url) as local:
        await local.ask("PUT", "boards/b", BOARD)
        assert (await local.ask("GET", "boards/b/watch"))["rules"] is None
        rng = np.random.default_rng(0)
        for _ in range(300):
            shown = await local.rank()
            clicked = next((item for item in shown["items"] if rng.random() < 0.5 / (1 + ITEMS.index(item))), None)
            await local.answer(shown, clicked=clicked)
        brand = {"best": {"items": ITEMS[:3], "most": 3}}
        state = await local.ask("GET", "boards/b/state")
        estimates = {
            row["item"]: estimate
            for row, estimate in zip(state["items"], state["view"]["regimes"][0]["estimates"], strict=True)
        }
        *_, worst = order = sorted(ITEMS, key=lambda item: -estimates[item])
        await local.ask("PUT", "boards/b", {"rules": {"pins": {worst: 1}, "groups": brand}})
        watch = await local.ask("GET", "boards/b/watch")

        def value(items):
            return 1000 * (1 - math.prod(1 - estimates[item] for item in items))

        expected = value(order[:4]) - value([worst, *[item for item in order if item != worst][:3]])
        (first, second), found = watch["rules"]["each"], watch["rules"]["all"]
        assert (first["rule"], second["rule"]) == (f"pin {worst!r} at 1", "group 'best'")
        assert second["cost"] == {"value": 0.0, "low": 0.0, "high": 0.0}  # it changes nothing
        assert first["cost"] == found
        spread = (found["high"] - found["low"]) / 4
        assert found["value"] == pytest.approx(expected, abs=4 * spread / 400**0.5)  # of 400 draws
        assert found["low"] < expected < found["high"]
        assert (watch["rules"]["unkept"], watch["rules"]["refused"]) == ([], None)
        await local.ask("DELETE", f"boards/b/items/{worst}")
        assert "which is retired" in (await local.ask("GET", "boards/b/watch"))["rules"]["refused"]


async def test_the_list_that_users_get_now_is_shown_as_rules_make_it(url):
    """Nothing is learnt yet, so lists differ, and only the pinned item is in each of them."""
    async with serving(url) as local:
        brand = {"few": {"items": ITEMS[1:], "most": 2}}
        await local.ask("PUT", "boards/b", BOARD | {"rules": {"pins": {ITEMS[-1]: 2}, "groups": brand}})
        shown = [row["item"] for row in (await local.ask("GET", "boards/b/watch"))["list"]]
        assert shown[1] == ITEMS[-1]
        assert len(set(shown) & set(ITEMS[1:])) == 2


@pytest.mark.interpreted
def test_what_rules_cost_in_value_and_what_clicks_are_worth():
    """A board whose last item is clicked least and worth most: a pin of the most clicked one costs value, no clicks.

    By hand, by what is believed: lists of two of four items, of users who leave with their first click.
    """
    names = ITEMS[:4]
    board = Board.create(Config(length=2, goal="value", settle=0, settings={"window": 20}), names)
    state, rng = board.learner_state, np.random.default_rng(1)
    chances, prices = [0.5, 0.3, 0.2, 0.1], [1.0, 2.0, 4.0, 40.0]
    for t in range(1, 1_201):
        k = t % 4
        bits = np.array([rng.random() < chances[k]])
        state.learn(Visit(t), np.array([k]), np.zeros(2 + NOTE_EXTRA), bits, 1, ANSWER)
        if bits[0] and rng.random() < 0.5:
            assert state.outcomes.add(t, k, 1, prices[k] * rng.uniform(0.5, 1.5), True) == "learnt"
    view = state.view()
    worth, (low, high) = view.worths.mean, view.worths.interval()
    assert np.all((low < 0.5 * np.array(prices)) & (0.5 * np.array(prices) < high))
    assert [one.worth for one in state.standings(view)] == [*zip(worth, low, high, strict=True)]
    assert state.view().worths.mean.tolist() == worth.tolist()
    board._configured({"rules": {"pins": {names[0]: 1}}})
    told = summarize_rules(board, view)
    rates = view.regime(view.trusted).estimate

    def brings(items):
        total, here = 0.0, 1.0
        for k in items:
            total, here = total + here * rates[k] * worth[k], here * (1.0 - rates[k])
        return 1000.0 * total

    best = max(brings(one) for one in itertools.permutations(range(4), 2))
    expected = best - max(brings((0, other)) for other in (1, 2, 3))
    spread = (told.value.high - told.value.low) / 4
    assert told.value.value == pytest.approx(expected, abs=4 * spread / 400**0.5)
    assert told.value.low < expected < told.value.high
    assert told.all.value < 0.0  # the most clicked item brings clicks
    assert told.each[0].value == told.value
    rows = {row.item: row for row in list_shown(board, view)}
    assert rows[names[3]].worth.value == worth[3]
