"""Audits of events without lists: what is found of bursts, and what of releases, news and builds is not blamed."""

import json
import math

import audit_counts as bench
import event_logs
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import steadyrank as sr
from steadyrank.audit.detect import senders, shares
from steadyrank.audit.show import counts_page
from steadyrank.cli import main

pytestmark = pytest.mark.pure

SMALL = {"n": 6_000, "items": 150, "clients": 1_000}


def small_month(seed, **rest):
    return event_logs.month(np.random.default_rng([3, seed]), **{**SMALL, **rest})


@pytest.fixture(scope="module")
def burst():
    """A month with 300 events of 12 bots on one item in eight hours."""
    rng = np.random.default_rng(4)
    log = event_logs.attacked(small_month(0), rng, 0.05, 12, 8.0)
    return log, sr.audit_counts(log.frame())


def test_a_burst_is_found_with_its_item_its_senders_and_the_clean_count(burst):
    log, found = burst
    (part,) = found.intervals
    first, *_, last = np.flatnonzero(log.false)
    assert abs(part.start_row - first) < 40 > abs(part.end_row - last)
    assert part.kind == "suspect"
    assert part.certainty > 0.99
    assert part.regular == pytest.approx(0.0, abs=0.1)
    assert part.items[0]["item"] == log.target
    assert part.items[0]["events"] > 20 * part.items[0]["expected"]
    bots = set(log.client[log.false].tolist())
    assert {one.client for one in found.clients} == bots
    row = found.clean_counts.row(by_predicate=pl.col("item") == log.target, named=True)
    assert row["low"] <= np.count_nonzero((log.item == log.target) & ~log.false) <= row["high"] < row["count"] - 250
    assert row["rank"] < row["clean_rank"]
    low, high = found.suspect_share
    assert 0.9 * log.false.mean() < low <= log.false.mean() <= high < 1.1 * log.false.mean()
    assert found.flagged.height == pytest.approx(np.count_nonzero(log.false), abs=30)


def test_bots_around_the_clock_are_found_where_nights_are_empty():
    """By day they have a fifth of the events, at night all: several regimes that touch are one stretch."""
    rng = np.random.default_rng(5)
    time = np.concatenate([86_400 * (day + rng.beta(3, 2, 1_000)) for day in range(14)])
    share = 1 / np.arange(1.0, 101)
    item, client = rng.choice(100, time.size, p=share / share.sum()), rng.integers(0, 3_000, time.size)
    false = 86_400 * (7 + 1.5 * rng.random(600))
    time, item = np.append(time, false), np.append(item, np.full(false.size, 60))
    client = np.append(client, 10_000 + rng.integers(0, 20, false.size))
    found = sr.audit_counts(pl.DataFrame({"time": time, "item": item, "client": client}).sort("time"))
    (part,) = found.intervals
    assert part.items[0]["item"] == 60
    assert part.items[0]["events"] == pytest.approx(false.size, rel=0.1)
    assert {one.client for one in found.clients} == set(range(10_000, 10_020))


def test_who_clicks_twice_at_once_while_bots_come_is_not_one_of_them():
    """Two events of a sender within ten minutes are one visit; bots of the same burst come again and again."""
    log = event_logs.attacked(small_month(0), np.random.default_rng(4), 0.05, 12, 8.0)
    first, *_, last = np.flatnonzero(log.false)
    middle = log.time[(first + last) // 2]
    twice = pl.DataFrame({"time": [middle, middle + 5.0], "package": [log.target] * 2, "ip": [5_000_000] * 2})
    rows = pl.DataFrame({"time": log.time, "package": log.item, "ip": log.client})
    found = sr.audit_counts(pl.concat([rows, twice]).sort("time"))
    assert {one.client for one in found.clients} == set(log.client[log.false].tolist())


def test_shares_of_items_over_time_show_the_burst(burst):
    log, found = burst
    shares = json.loads(found.to_json())["shares"]
    points = np.array(shares["points"])
    assert points.sum() == found.events
    counts = np.bincount(log.item)
    assert shares["counts"][:-1] == np.sort(counts)[:-11:-1].tolist()
    assert (points.sum(axis=0) == shares["counts"]).all()
    mine = shares["columns"].index(str(log.target))
    there = points[:, mine] / np.maximum(points.sum(axis=1), 1)
    first, *_, last = np.flatnonzero(log.false)
    middle = (log.time[first] + log.time[last]) / 2 - log.time[0]
    assert there.argmax() == pytest.approx(120 * middle / (log.time[-1] - log.time[0]), abs=2)
    assert "Shares of events over time" in counts_page.page(found)


def quick_catalogue(seed):
    """4,000 events of 80 days on 400 items that come and go; 400 more by 20 bots, on an item of their own."""
    rng = np.random.default_rng(seed)
    time = np.sort(rng.random(4_000))
    wanted = np.exp(-0.5 * ((time[:, None] - rng.random(400)) / 0.03) ** 2) + 1e-3
    item = (np.cumsum(wanted, axis=1) / wanted.sum(axis=1, keepdims=True) > rng.random((4_000, 1))).argmax(axis=1)
    time = 80 * 86_400 * np.append(time, 0.2 + 0.01 * rng.random(400))
    client = np.append(rng.integers(0, 2_000, 4_000), 10_000 + rng.integers(0, 20, 400))
    log = pl.DataFrame({"time": time, "item": np.append(item, np.full(400, 400)), "client": client}).sort("time")
    return log, np.flatnonzero(log["client"].to_numpy() >= 10_000)


@pytest.mark.parametrize("seed", [0, 2, 3])
def test_a_large_burst_is_found_where_items_come_and_go(seed):
    """What lies beside it has other shares than the rest of the log as well, and is no part of it."""
    log, false = quick_catalogue(seed)
    (part,) = sr.audit_counts(log).intervals
    assert part.items[0]["item"] == 400
    assert abs(part.start_row - false[0]) < 16 > abs(part.end_row - false[-1])


def test_without_who_a_burst_is_found_by_its_shape(burst):
    log, _ = burst
    found = sr.audit_counts(log.frame(clients=False))
    assert [part.items[0]["item"] for part in found.intervals] == [log.target]
    assert found.clients == []
    assert "No column says who" in found.notes[0]


def test_what_all_people_do_is_not_blamed():
    """An item on a front page for a day, with half of all events, by the people who come anyway."""
    log = small_month(1, featured=False)
    rng = np.random.default_rng(1)
    day = (log.time - event_logs.START) // event_logs.DAY == 12
    log.item[day & (rng.random(log.item.size) < 0.5)] = 40
    found = sr.audit_counts(log.frame())
    assert found.intervals == [] == found.clients
    assert [change.kind for change in found.changes if change.items[0]["item"] == 40] == ["people"]
    assert "regular senders show it, too" in counts_page.page(found)
    without = sr.audit_counts(log.frame(clients=False))  # nothing tells it from a burst then
    assert [part.items[0]["item"] for part in without.intervals] == [40]


def test_months_with_rhythm_releases_and_news_are_not_blamed_and_bursts_are_found():
    """The bench in small: 6 honest months and 4 bursts of 3 % at seeds that chose nothing."""
    honest = [bench.judge(small_month(seed), True) for seed in range(50, 56)]
    assert sum(one.blamed for one in honest) == 0
    rng = np.random.default_rng(60)
    hits = [
        bench.judge(event_logs.attacked(small_month(seed), rng, 0.03, bots, hours), True)
        for seed, bots, hours in ((60, 15, 4.0), (61, 60, 10.0), (62, 15, 24.0), (63, 60, 12.0))
    ]
    assert sum(one.named for one in hits) >= 3
    assert sum(one.honest_senders for one in hits) == 0


def test_senders_who_come_for_one_item_alone_are_named_where_others_have_none_such():
    rng = np.random.default_rng(0)
    n = 4_000
    client, item = rng.integers(0, 300, n), rng.integers(0, 40, n)
    time = np.sort(rng.random(n)) * 30 * 86_400
    bots = slice(0, 300)
    client[bots], item[bots] = 1_000 + np.arange(300) % 20, 7
    order = rng.permutation(n)
    client, item = client[order], item[order]
    frame = pl.DataFrame({"user": client, "song": item, "time": time + 1_793_491_200})
    found = sr.audit_counts(frame)
    assert {one.client for one in found.clients} == set(range(1_000, 1_020))
    assert {(one.item, one.why) for one in found.clients} == {(7, "alike")}
    assert found.intervals == []  # all the time: shares did not move
    row = found.clean_counts.row(by_predicate=pl.col("item") == 7, named=True)
    assert row["count"] - row["clean_count"] == 300
    own = rng.integers(0, 40, 20)  # builds with an item of their own each are no such group
    item = np.where(client >= 1_000, own[np.maximum(client - 1_000, 0)], item)
    assert sr.audit_counts(frame.with_columns(song=item)).clients == []


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 40)), min_size=1, max_size=40))
def test_events_close_together_are_one_visit(events):
    """A visit goes on while a sender's events on an item lie in the same ten minutes, or in those that follow."""
    events = sorted(events, key=lambda one: one[2])
    client, item, minute = (np.array(of) for of in zip(*events, strict=True))
    first = senders.visits_of(item.astype(np.int32), client.astype(np.int32), minute * 60.0, 1.0)
    last = {}
    expected = []
    for c, k, m in events:
        slot = (m - minute[0]) // 10
        expected.append((c, k) not in last or slot - last[c, k] > 1)
        last[c, k] = slot
    assert first.tolist() == expected


def test_parts_count_every_event_once():
    item = np.random.default_rng(0).integers(0, 700, 5_000).astype(np.int32)
    units, number = shares.parts_of(item, 700)
    assert units.clicks.sum() == 5_000
    assert units.n_items == shares.JUDGED + 1  # what is rare is one item
    assert number.max() == shares.JUDGED
    table = units.clicks.reshape(units.n, -1)
    looks = units.looks.reshape(units.n, -1)
    assert (looks == table.sum(axis=1, keepdims=True)).all()
    assert table[0].sum() == units.span == max(shares.LEAST, math.ceil(5_000 / shares.PARTS))


def test_one_sender_who_runs_wild_is_named_and_is_no_attack():
    rng = np.random.default_rng(0)
    n = 2_000
    item, client = rng.integers(0, 20, n), rng.integers(0, 50, n)
    item[900:1_000], client[900:1_000] = 3, 777
    frame = pl.DataFrame({"time": 1_793_491_200 + 600 * np.arange(n), "item": item, "user": client})
    found = sr.audit_counts(frame)
    assert found.intervals == []
    assert [(change.kind, change.busiest) for change in found.changes] == [("client", 777)]
    assert "one sender alone made it: 777" in counts_page.page(found)


def test_the_trending_list_is_that_of_true_events():
    log = small_month(2, featured=False)
    late = log.time > event_logs.START + 24 * event_logs.DAY
    rng = np.random.default_rng(2)
    honest = rng.random(log.item.size) < 0.1
    log.item[late & honest] = 60  # people like it of late
    m = 300
    false = event_logs.Events(
        np.full(m, 99), event_logs.BOTS + np.arange(m) % 10,
        event_logs.START + 26.5 * event_logs.DAY + rng.random(m) * 20_000, np.ones(m, bool),
    )  # fmt: skip
    names = ("item", "client", "time", "false")
    both = event_logs.Events(*(np.append(getattr(log, name), getattr(false, name)) for name in names))
    found = sr.audit_counts(both.chosen(np.argsort(both.time)).frame(), recent=6)
    assert found.recent_days == 6
    top = found.trending["item"].to_list()
    assert top[0] == 60
    assert 99 not in top[:5]
    assert found.clean_counts.filter(pl.col("item") == 99)["clean_count"][0] < 60


def test_the_command_tells_people_and_machines(tmp_path, burst, capsys):
    log, found = burst
    path, page = tmp_path / "downloads.csv", tmp_path / "page.html"
    log.frame().write_csv(path)
    assert main(["audit", str(path), "--counts", "--page", str(page), "--parquet", str(tmp_path / "out")]) == 0
    told = capsys.readouterr().out
    assert "item: package, time: timestamp, client: ip, rows are: events" in told
    assert found.summary in told
    assert f"more of {log.target}" in told
    assert "clean trending list of 7 days: " in told
    assert "Clean trending list" in page.read_text()
    counts = pl.read_parquet(tmp_path / "out" / "counts.parquet")
    assert counts["count"].sum() == found.events == log.item.size
    rows = pl.read_parquet(tmp_path / "out" / "events.parquet")["row"]
    assert log.false[rows.to_numpy()].mean() > 0.9
    assert main(["audit", str(path), "--counts", "--json", "--fail-above", "1%"]) == 3
    machine = json.loads(capsys.readouterr().out)
    assert machine["intervals"][0]["items"][0]["item"] == str(log.target)
    assert machine["suspect_share"] == pytest.approx(found.suspect_share)
    low, high = machine["suspect_share"]
    assert low < high  # of a burst that has edges
    limits = [f"{100 * share}%" for share in (low - 1e-6, (low + high) / 2)]
    codes = [main(["audit", str(path), "--counts", "--json", "--fail-above", limit]) for limit in limits]
    assert codes == [3, 0]  # surely more is suspect, or perhaps
    capsys.readouterr()
    assert main(["audit", str(path), "--counts", "--explain-columns"]) == 0
    assert "item: package" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--counts", "--clicked", "x"], "--clicked x has no effect with --counts"),
        (["--counts", "--since", "x.state"], "--since x.state has no effect with --counts: clean counts"),
        (["--counts", "--network", "net"], "--client net judges each network as one sender"),
        (["--counts", "--referrer", "from"], "--client from judges each referrer as one sender"),
        (["--counts", "--clean", "x.parquet"], "--clean x.parquet has no effect with --counts"),
        (["--counts", "--first-position", "0"], "--first-position 0 has no effect with --counts"),
        (["--recent", "3"], "--recent 3 has no effect without --counts"),
        (["--counts", "--item", "packge"], "--item names 'packge', which is not a column"),
        (["--counts", "--time", ""], "cannot tell what the columns mean; add --time COLUMN (when)"),
        (["--counts", "--recent", "-1"], "recent must be"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path, capsys, flags, words):
    path = tmp_path / "log.csv"
    path.write_text("timestamp,package,ip\n" + "2026-11-01 10:00:00,a,1\n" * 50)
    assert main(["audit", str(path), "--page", str(tmp_path / "page.html"), *flags]) == 2
    assert words in capsys.readouterr().err


def test_the_least_logs_say_nothing(tmp_path):
    one = pl.DataFrame({"time": [1_793_491_200], "item": ["a"]})
    found = sr.audit_counts(one)
    assert found.summary == "Nothing suspect found in 1 events."
    assert "Audit of counts" in counts_page.page(found)
    assert sr.audit_counts(pl.concat([one] * 100)).suspect_share == (0.0, 0.0)
    with pytest.raises(ValueError, match="--clicked x has no effect with --counts"):
        sr.audit_counts(one, clicked="x")
    with pytest.raises(ValueError, match="--client item judges each network as one sender"):
        sr.audit_counts(one, network="item")
