"""Rates had all items been shown at the first place: by hand, against a slow fit, and when they cannot be known."""

import json
import math

import numpy as np
import polars as pl
import pytest

import steadyrank as sr
from steadyrank.audit.detect.place_rates import fitted, place_rates
from steadyrank.audit.show.audit_page import page
from steadyrank.cli import main
from steadyrank.click_logs.looks import Impressions

pytestmark = pytest.mark.pure

K, L = 12, 4
ATTRACTION = np.linspace(0.5, 0.05, K)
ATTENTION = np.array([1.0, 0.6, 0.4, 0.2])


def shown(n, attention=ATTENTION, seed=0, orders=None):
    """Lists and bits of users who look at places and may click several; `orders`: lists to choose from."""
    rng = np.random.default_rng(seed)
    lists = rng.random((n, K)).argsort(axis=1)[:, :L] if orders is None else orders[rng.integers(0, len(orders), n)]
    return lists, rng.random(lists.shape) < ATTRACTION[lists] * attention


def impressions_of(lists, bits):
    """As an audit reads them: down to the last click."""
    last = np.where(bits.any(axis=1), L - np.argmax(bits[:, ::-1], axis=1), L)
    there = np.arange(L) < last[:, None]
    first = np.concatenate([[0], np.cumsum(last)]).astype(np.int64)
    return Impressions(lists[there].astype(np.int32), bits[there], first, K, np.full(len(lists), L, np.int16))


def frame(lists, bits):
    return pl.DataFrame({"items": [[f"i{k}" for k in row] for row in lists], "clicked": bits.astype(int).tolist()})


def test_two_items_at_two_places_by_hand():
    """Each is clicked in half as many of its looks at the second place: attention 1/2, exactly."""
    looks = np.array([[4000, 4000], [4000, 4000]], np.int32)
    clicks = np.array([[2000, 1000], [400, 200]], np.int32)
    attention, error, nats = fitted(looks, clicks)
    assert attention.tolist() == pytest.approx([1.0, 0.5], abs=1e-3)  # a tenth of a click is added
    # of 3,000 clicks on the first item a third falls on the second place: 1000 * 2/3 + 200 * 2/3 compare the two
    assert error.tolist() == pytest.approx([0.0, 1.0 / math.sqrt(800.0)], rel=1e-3)
    poisson = 3600 * math.log(8000 / 6000) + 1200 * math.log(0.5)
    assert nats == pytest.approx(poisson, rel=1e-2)  # attractions are integrated out, not fitted


def slow_fit(looks, clicks, steps=4_000):
    """The same likelihood, one factor at a time, until nothing moves."""
    attention, attraction = np.ones(looks.shape[1]), np.ones(looks.shape[0])
    for _ in range(steps):
        attraction = clicks.sum(axis=1) / (looks * attention).sum(axis=1)
        attention = (clicks.sum(axis=0) + 1e-9) / ((looks * attraction[:, None]).sum(axis=0) + 1e-9)
        attention = attention / attention[0]
    return attention


def test_the_fit_equals_a_slow_one():
    rng = np.random.default_rng(5)
    looks = rng.integers(200, 4_000, (K, L)).astype(np.int32)
    clicks = rng.binomial(looks, ATTRACTION[:, None] * ATTENTION).astype(np.int32)
    assert fitted(looks, clicks)[0] == pytest.approx(slow_fit(looks, clicks), abs=2e-3)


def test_attention_and_attraction_are_found_although_lists_end_at_a_click():
    found = place_rates(impressions_of(*shown(40_000)), np.ones(40_000, np.bool_))
    assert (found.source, found.note) == ("log", "")
    assert (np.abs(np.log(found.attention / ATTENTION)) < 4 * found.error + 1e-9).all()
    assert np.abs(found.rate - ATTRACTION).max() < 0.03
    plain = place_rates(impressions_of(*shown(40_000)), np.ones(40_000, np.bool_), np.ones(1))
    assert plain.source == "given"
    assert np.abs(plain.rate - ATTRACTION).max() > 0.1
    given = place_rates(impressions_of(*shown(40_000)), np.ones(40_000, np.bool_), np.array([1.0, 0.6, 0.4, 0.2]))
    assert np.abs(given.rate - ATTRACTION).max() < 0.03


def test_users_who_look_at_everything_are_believed_to():
    found = place_rates(impressions_of(*shown(8_000, attention=np.ones(L))), np.ones(8_000, np.bool_))
    assert found.attention.tolist() == [1.0] * L
    assert found.note == "Nothing says that places below the first are looked at less."


def test_items_that_never_move_say_nothing_of_places():
    fixed = np.array([[0, 1, 2, 3], [4, 5, 6, 7]])
    lists, bits = shown(6_000, orders=fixed)
    found = place_rates(impressions_of(lists, bits), np.ones(6_000, np.bool_))
    assert found.source == "none"
    assert found.note.startswith("The effect of places cannot be separated from that of items")
    half = np.array([[0, 1, 2, 3], [1, 0, 6, 7]])  # the first two places trade items, the others do not
    found = place_rates(impressions_of(*shown(6_000, orders=half)), np.ones(6_000, np.bool_))
    assert np.isfinite(found.attention).tolist() == [True, True, False, False]
    assert found.note.startswith("Places 3, 4 cannot be compared")
    assert np.isfinite(found.rate).tolist() == [True, True, *[False] * 10]
    told = sr.audit(frame(lists, bits)).boards[0]
    assert (told.attention_from, told.corrected_ranking) == ("none", [])
    assert told.items[0]["corrected_rate"] is None


def test_rates_stand_beside_the_plain_ones(tmp_path, capsys, monkeypatch):
    """Items that stand low are clicked little; had they stood at the top, they would not have been."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    good_below = np.array([[6, 7, 0, 1], [6, 8, 1, 0], [7, 6, 2, 0], [0, 6, 7, 1], [8, 2, 1, 6]])
    rare = np.where(rng.random(12_000) < 0.1, rng.integers(0, 5, 12_000), rng.integers(0, 3, 12_000))
    lists = good_below[rare]
    bits = rng.random(lists.shape) < ATTRACTION[lists] * ATTENTION
    frame(lists, bits).write_parquet("log.parquet")
    assert main(["audit", "log.parquet", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    items = {item["item"]: item for item in told["items"]}
    assert items["i0"]["clean_rank"] > items["i0"]["corrected_rank"] == 1
    assert items["i0"]["corrected_rate"] == pytest.approx(0.5, abs=0.06)
    assert items["i0"]["rate"] < 0.3
    assert told["corrected_ranking"][0] == "i0"
    assert [one["place"] for one in told["attention"]] == [1, 2, 3, 4]
    assert all(one["low"] <= one["attention"] <= one["high"] for one in told["attention"])
    assert told["boards"][0]["attention_from"] == "log"
    found = sr.audit("log.parquet", propensities=[1.0, 0.6, 0.4, 0.2])
    assert "The chance that a place is looked at, against the first, as given" in page(found)
    assert "rate at first place" in page(found)
    for text, words in (
        ("1,x", "chances such as 1,0.6,0.4, not '1,x'"),
        ("1,0", "propensities must be"),
        ("2", "2.0"),
    ):
        assert main(["audit", "log.parquet", "--json", "--propensities", text]) == 2
        assert words in capsys.readouterr().err
    with pytest.raises(ValueError, match="there are none"):
        sr.audit("log.parquet", propensities=[])
