"""Rules on lists of collections: kept as on boards, over the candidates of each request, and the best such lists."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import steadyrank as sr
from service_tools import serving
from test_rules import ITEMS, LENGTH, an_include, any_rules, broken, every_list

pytestmark = pytest.mark.pure

FOUND = ITEMS[:7]  # the engine does not find the last item that rules may name


@pytest.fixture(scope="module")
def learnt():
    """A collection of one query, whose visitors like the items further down."""
    collection, rng = sr.Collection(LENGTH), np.random.default_rng(3)
    for _ in range(300):
        shown = collection.rank("shoes", FOUND)
        bits = rng.random(len(shown.items)) < [0.05 + 0.06 * int(item[1:]) for item in shown.items]
        collection.feedback(shown.id, clicked=shown.items[int(np.argmax(bits))] if bits.any() else None)
    return collection


def preferred(collection):
    """All candidates, the best first: lists of one place, each without the items of those before."""
    order = []
    while len(order) < len(FOUND):
        order += collection.rank("shoes", FOUND, length=1, rules={"exclude": order}).items
    return order


@settings(max_examples=200, deadline=None)
@given(any_rules)
def test_lists_keep_rules_and_no_exchange_makes_them_better(learnt, rules):
    made, order = sr.Rules(**rules), preferred(learnt)
    there = [item for item in FOUND if item not in rules["exclude"]]
    try:
        items = learnt.rank("shoes", FOUND, rules=made).items
    except sr.Refused:
        assert not every_list(made, there)
        return
    assert not broken(made, items, LENGTH)
    assert set(items) <= set(there)
    for one, other in itertools.product([item for item in items if item not in made.pins], there):
        if other not in items and order.index(other) < order.index(one):
            assert broken(made, [other if item == one else item for item in items], LENGTH)


@settings(max_examples=100, deadline=None)
@given(any_rules, st.dictionaries(st.sampled_from("xy"), an_include, max_size=1))
def test_with_best_what_is_not_named_is_kept(learnt, rules, more):
    made = sr.Rules(**rules | {"include": rules["include"] | more}, when_impossible="best")
    shown = learnt.rank("shoes", FOUND, rules=made)
    named = " ".join(shown.unkept)
    assert not [one for one in broken(made, shown.items, LENGTH) if f"{one[0]} {one[1]!r}" not in named]


def test_without_rules_that_change_it_the_list_is_as_it_was(learnt):
    plain = learnt.rank("shoes", FOUND).items
    assert plain == tuple(preferred(learnt)[:LENGTH])
    for rules in ({}, {"exclude": ["elsewhere"]}, {"groups": {"all": {"items": FOUND, "most": LENGTH}}}):
        assert learnt.rank("shoes", FOUND, rules=rules).items == plain


def test_a_boost_moves_an_item_to_where_one_of_such_attraction_stands(learnt):
    order = preferred(learnt)
    worst = order[-1]
    assert learnt.rank("shoes", FOUND, rules={"boosts": {worst: 10.0}}).items[0] == worst
    assert learnt.rank("shoes", FOUND, rules={"boosts": {order[0]: 0.1}}).items[0] == order[1]


@pytest.mark.parametrize(
    ("rules", "named"),
    [
        ({"pins": {"i7": 1}}, "'i7', which is no candidate"),
        ({"pins": {"i0": 9}}, "a list of 4 places"),
        ({"exclude": FOUND}, "all of them are excluded"),
        ({"include": {"sale": {"items": ["i7"]}}}, "include 'sale' (least 1)"),
        ({"include": {"fresh": {"new": True}}}, "new=True, which a collection does not know"),
        ({"groups": {"brand": {"by": "brand", "most": 1}}}, "by='brand', which a collection does not know"),
    ],
)
def test_what_cannot_be_kept_is_named(learnt, rules, named):
    with pytest.raises(sr.Refused) as refusal:
        learnt.rank("shoes", FOUND, rules=rules)
    assert named in str(refusal.value)


def test_looks_at_pinned_items_count_like_others():
    collection = sr.Collection(2)
    for _ in range(40):
        shown = collection.rank("shoes", FOUND, rules={"pins": {"i5": 1}})
        collection.feedback(shown.id, clicked="i5")
    assert collection.rank("shoes", FOUND).items[0] == "i5"


async def test_rules_over_http_are_those_of_a_request(tmp_path):
    async with serving(f"sqlite:///{tmp_path}/store.db") as local:
        await local.ask("PUT", "collections/shop", {"length": 4, "settle": 0, "interleave": True})

        async def rank(code=200, **body):
            body = {"query": "shoes", "candidates": FOUND, "client": "ann"} | body
            return await local.ask("POST", "collections/shop/rank", body, code)

        rules = {"pins": {"i6": 1}, "exclude": ["i0"], "groups": {"g": {"items": ["i1", "i2"], "most": 1}}}
        assert (await rank(rules=rules))["items"] == ["i6", "i1", "i3", "i4"]
        shown = await rank(rules=rules | {"when_impossible": "best", "include": {"n": {"items": ["i7"]}}})
        assert shown["unkept"] == ["include 'n' (least 1)"]
        mixed = await rank(rules=rules, theirs=FOUND[::-1])
        assert mixed["items"][0] == "i6"
        assert "i0" not in mixed["items"]
        assert len({"i1", "i2"} & set(mixed["items"])) == 1
        for wrong, named in [
            ({"pins": {"i7": 1}}, "no candidate"),
            ({"boosts": {"i1": 99}}, "boost 'i1'"),
            ({"include": {"f": {"new": True}}}, "does not know"),
        ]:
            assert named in (await rank(code=422, rules=wrong))["message"]
        assert "rules" in (await local.ask("PUT", "collections/shop", {"rules": rules}, 422))["message"]
        await local.ask("POST", "collections/shop/feedback", {"impression": mixed["impression"], "clicked": "i6"})
        await local.quiet()
        watched = await local.ask("GET", "collections/shop")
        assert (watched["impressions"], watched["clicks"]) == (3, 1)
