"""What came of clicks: items that are clicked and not bought, clients who never buy."""

import json

import numpy as np
import polars as pl
import pytest

import steadyrank as sr
from steadyrank.audit.show import audit_page
from steadyrank.cli import main
from steadyrank.click_logs.click_log import read

pytestmark = pytest.mark.pure

N, K = 8_000, 15


def log(seed=0, false=True):
    """People buy a quarter of what they click; bots, who click one item in 500 lists, and a reader buy nothing."""
    rng = np.random.default_rng(seed)
    lists = rng.random((N, K)).argsort(axis=1)[:, :5]
    bits = rng.random(lists.shape) < np.linspace(0.35, 0.05, K)[lists]
    client = rng.integers(0, 150, N)
    buys = bits.any(axis=1) & (rng.random(N) < 0.25)
    if false:
        attack = slice(3_000, 3_500)
        bits[attack] = lists[attack] == 12
        client[attack], buys[attack] = 900, False
        client[attack] = 900 + np.arange(500) % 50
        buys[client == 7] = False
    place = np.where(bits.any(axis=1), bits.argmax(axis=1) + 1, 0)
    value = np.where(buys, 9.9, 0.0)
    frame = pl.DataFrame({"items": lists.tolist(), "clicked": place, "client": client, "time": np.arange(N)})
    return frame.with_columns(paid=value), lists, bits


def test_clicks_that_nobody_pays_for_are_told():
    frame, _, _ = log()
    found = sr.audit(frame, value="paid")
    seen = found.boards[0].outcomes
    assert [one["item"] for one in seen["few_outcomes"]] == [12]
    few_outcomes = seen["few_outcomes"][0]
    assert few_outcomes["bought"] == 0 < 20 < few_outcomes["expected_bought"] < few_outcomes["clicks"] / 3
    assert few_outcomes["start_time"] == pytest.approx(3_000, abs=60)
    assert [one["client"] for one in seen["never_buy"]] == [7]
    assert seen["never_buy"][0]["expected_bought"] > 5
    clicked = frame.filter(pl.col("clicked") > 0)
    assert (seen["clicked"], seen["bought"]) == (clicked.height, int((frame["paid"] > 0).sum()))
    assert json.loads(found.to_json())["outcomes"]["never_buy"][0]["client"] == 7
    assert "client 7: clicks in" in audit_page.page(found)
    assert sr.audit(frame).boards[0].outcomes is None


def test_honest_clients_and_items_are_not_told():
    wrong = 0
    for seed in range(3):
        seen = sr.audit(log(seed + 10, false=False)[0], value="paid").boards[0].outcomes
        wrong += len(seen["few_outcomes"]) + len(seen["never_buy"])
    assert wrong == 0


def test_values_of_rows_of_items_are_put_together_and_bad_ones_are_broken_rows():
    frame = pl.DataFrame(
        {
            "impression": [1, 1, 2, 2, 3, 3],
            "item": ["a", "b"] * 3,
            "clicked": [0, 1] * 3,
            "paid": ["", "4.5", "0", "0", None, "much"],
        }
    )
    got = read([frame], {"value": "paid"}, most_broken=0.5)
    assert got.bought.tolist() == [True, False, False]
    assert got.broken == 1
    assert got.examples[0].why == "the value is not a number"
    lists = pl.DataFrame({"items": [["a"], ["b"], ["a"]], "clicked": [1, 0, 1], "paid": [2.0, None, 0.0]})
    assert read([lists], {"value": "paid"}).bought.tolist() == [True, False, False]


def test_the_command_tells_of_outcomes(tmp_path, capsys):
    frame, _, _ = log()
    path = tmp_path / "log.parquet"
    frame.write_parquet(path)
    assert main(["audit", str(path), "--value", "paid", "--page", str(tmp_path / "page.html")]) == 0
    assert "client 7: clicks in" in capsys.readouterr().out
    assert main(["audit", str(path), "--counts", "--value", "paid"]) == 2
    assert "--value paid has no effect with --counts" in capsys.readouterr().err
