"""Clients who share a network: together they are judged, and nobody's network is blamed for one of them."""

import functools
import json

import audit_cohorts as bench
import numpy as np
import planted_logs
import polars as pl
import pytest

import steadyrank as sr
from steadyrank.audit.detect import cohorts
from steadyrank.audit.show import audit_page
from steadyrank.cli import main
from steadyrank.click_logs import looks
from steadyrank.click_logs.click_log import read

pytestmark = pytest.mark.pure


@pytest.fixture(scope="module")
def bots():
    """300 bots of four visits each push three items, from one network of 301."""
    log, network = bench.log_of("promote", 300, 1)
    frame = log.frame().with_columns(pl.Series("net", network))
    return frame, sr.audit(frame, network="net")


def test_bots_of_four_visits_are_found_by_their_network(bots):
    frame, found = bots
    assert not any(one.client >= planted_logs.BOTS for one in found.clients)  # too few visits to be judged alone
    seen = found.cohorts["network"]
    (group,) = seen.named
    mine = frame.filter(pl.col("net") == bench.THEIRS)
    assert group.value == bench.THEIRS
    assert group.clients == mine["user_id"].n_unique()
    assert 1_190 < group.impressions <= mine.height == 1_200  # of some bots more than ten
    assert group.certainty > 0.99
    assert seen.judged > 50
    assert found.summary.endswith(f"Clients of network {bench.THEIRS} click alike, unlike all others.")
    assert found.suspect_share[0] < 0.01  # it changes no verdict


@pytest.mark.parametrize(("kind", "bots"), [("silent", 300), ("top", 30)])
def test_few_silent_or_lazy_bots_are_found_by_their_network(kind, bots):
    outcome = bench.judge(*bench.log_of(kind, bots, 2))
    assert outcome.found
    assert (outcome.blamed, outcome.bots) == (0, 0)


def test_honest_networks_are_not_named():
    outcomes = [bench.judge(*bench.log_of("honest", 0, seed)) for seed in range(3, 6)]
    assert sum(one.judged for one in outcomes) > 200
    assert sum(one.blamed for one in outcomes) == 0


def test_shares_of_networks_over_time_add_up(bots):
    frame, found = bots
    shares = found.cohorts["network"].shares
    counts = frame["net"].value_counts(sort=True)
    assert shares["columns"] == [*counts["net"].head(4).to_list(), "all others"]
    assert shares["counts"][:4] == counts["count"].head(4).to_list()
    assert np.sum(shares["points"]) == frame.height
    time = frame["timestamp"].dt.epoch("us").to_numpy()
    assert np.sum(shares["points"][:60]) == np.count_nonzero(time < (time.min() + time.max()) / 2)


def test_the_command_and_the_page_tell_of_cohorts(tmp_path, bots, capsys):
    frame, _ = bots
    frame.write_parquet(tmp_path / "log.parquet")
    command = ["audit", str(tmp_path / "log.parquet"), "--network", "net"]
    assert main([*command, "--page", str(tmp_path / "page.html")]) == 0
    assert f"network {bench.THEIRS}, 295 clients together: " in capsys.readouterr().out
    page = (tmp_path / "page.html").read_text()
    assert "Shares of impressions by network over time" in page
    assert "verdict found" in page
    assert main([*command, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["cohorts"]["network"]
    assert [one["value"] for one in told["named"]] == [bench.THEIRS]
    assert main([*command, "--counts"]) == 2
    assert "--network net has no effect with --counts" in capsys.readouterr().err


def test_who_cannot_be_judged_is_said(bots):
    frame, _ = bots
    few = frame.with_columns(net=pl.col("user_id") % 7, ref=pl.lit("mail"))
    found = sr.audit(few, network="net", referrer="ref")
    assert [one.named for one in found.cohorts.values()] == [[], []]
    assert found.cohorts["network"].note.startswith("7 values of network have 5 clients or more")
    assert "0 values of referrer" in audit_page.page(found)
    nobody = sr.audit(few.drop("user_id"), client="", network="net")
    assert nobody.cohorts["network"].note.startswith("No column says who")


def test_the_first_impressions_of_each_client_count(monkeypatch):
    """Three of each client, whatever the blocks are; those apart and those of nobody do not count."""
    monkeypatch.setattr(cohorts, "ROWS", 3)
    rng = np.random.default_rng(0)
    client, cohort = rng.integers(-1, 6, 60).astype(np.int32), rng.integers(-1, 4, 60).astype(np.int32)
    apart = rng.random(60) < 0.2
    expected, so_far = [], dict.fromkeys(range(6), 0)
    for who, of, out in zip(client.tolist(), cohort.tolist(), apart.tolist(), strict=True):
        asked = who >= 0 and of >= 0 and not out
        expected.append(of if asked and so_far[who] < 3 else -1)
        so_far[who] = so_far.get(who, 0) + asked
    for size in (7, 60):
        monkeypatch.setattr(cohorts, "blocks", functools.partial(looks.blocks, size=size))
        assert cohorts._pooled(client, 6, cohort, apart).tolist() == expected


def test_one_odd_client_does_not_make_its_network_odd():
    """It has ten rows with all items clicked, four others of the network have one each; then all are such."""
    log, network = bench.log_of("honest", 0, 9)
    network = network.astype(object)
    rows = np.sort(np.random.default_rng(9).choice(log.time.size, 14, replace=False))
    log.client[rows] = planted_logs.BOTS + np.append(np.zeros(10, int), np.arange(1, 5))
    log.bits[rows[:10]] = True
    network[rows] = bench.THEIRS

    def named():
        one = read([log.frame().with_columns(pl.Series("net", network.tolist()))], {"network": "net"})
        values, of = one.cohorts["network"]
        nothing = np.zeros(one.impressions.n, np.bool_)
        found = cohorts.odd_cohorts(one.impressions, one.client, len(one.clients), of, values, one.items, nothing)
        return [group.value for group in found[1]]

    assert named() == []
    log.client[rows] = planted_logs.BOTS + np.arange(14) % 5
    log.bits[rows] = True
    assert named() == [bench.THEIRS]
