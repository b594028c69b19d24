"""The log without what is suspect: what is left of it, its weights, and who reads it."""

import json

import numpy as np
import polars as pl
import pytest

import steadyrank as sr
from steadyrank.audit import clean
from steadyrank.cli import main
from steadyrank.click_logs import files

pytestmark = pytest.mark.pure

N, K, D = 3_000, 20, 5
BOTS = slice(1_000, 1_300)


def attacked(seed=0):
    """Random lists of names; in one stretch three bots click bad items, and nothing else."""
    rng = np.random.default_rng(seed)
    lists = np.array([rng.permutation(K)[:D] for _ in range(N)])
    bits = rng.random((N, D)) < np.linspace(0.5, 0.02, K)[lists]
    bits[BOTS] = lists[BOTS] >= K // 2
    clients = [f"bot{i % 3}" if BOTS.start <= i < BOTS.stop else f"c{i % 50}" for i in range(N)]
    names = [[f"i{k}" for k in row] for row in lists]
    return pl.DataFrame({"items": names, "clicked": bits.astype(int).tolist(), "client": clients, "minute": range(N)})


LOG = attacked()


def shown_items(log, top=None):
    """One row a shown item; `top`: the position of each list's first."""
    rows = log.with_row_index("impression").explode("items", "clicked").rename({"items": "item"})
    place = pl.int_range(pl.len()).over("impression") + 1
    return rows.with_columns(position=place + (0 if top is None else pl.lit(top).gather(pl.col("impression"))))


def test_what_is_left_is_what_was_not_suspect_and_audits_to_the_clean_ranking(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "ROWS", 700)  # several blocks
    LOG.write_parquet(tmp_path / "log.parquet")
    found = sr.audit(tmp_path / "log.parquet", time="minute", clean=tmp_path / "clean.parquet")
    left = pl.read_parquet(tmp_path / "clean.parquet")
    assert left.columns == ["row", "time", "client", "items", "clicked", "weight"]
    gone = set(range(N)) - set(left["row"].to_list())
    assert gone == set(found.flagged["row"].to_list())
    assert set(LOG[sorted(gone)]["client"].to_list()) == {"bot0", "bot1", "bot2"}
    kept = LOG[left["row"].to_list()]
    assert left["items"].to_list() == kept["items"].to_list()  # whole lists, also below the last click
    assert left["clicked"].to_list() == kept["clicked"].to_list()
    assert left["client"].to_list() == kept["client"].to_list()
    assert found.clean.impressions == left.height
    assert found.clean.weight == pytest.approx(left["weight"].sum(), abs=1e-3)
    again = sr.audit(tmp_path / "clean.parquet")
    assert again.intervals == []
    assert again.n_clients == 0
    assert again.boards[0].ranking == found.boards[0].clean_ranking
    assert found.boards[0].ranking != found.boards[0].clean_ranking


def test_weights_rise_with_the_distance_from_an_edge():
    assert clean._rising(4).tolist() == [0.5, 0.625, 0.75, 0.875]
    assert clean._rising(0).tolist() == []


def test_doubtful_rows_weigh_less(tmp_path):
    found = sr.audit(LOG.drop("client"), clean=tmp_path / "clean.parquet")
    (part,) = found.intervals
    weight = dict(pl.read_parquet(tmp_path / "clean.parquet").select("row", "weight").iter_rows())
    assert not set(weight) & set(range(part.start_row, part.end_row))
    near = [row for row, one in weight.items() if one < 1.0]
    assert all(part.start_rows[0] <= row < part.start_row or part.end_row <= row < part.end_rows[1] for row in near)
    assert all(weight[row] >= 0.5 for row in near)
    assert weight[0] == weight[N - 1] == 1.0
    assert len(near) == part.start_row - part.start_rows[0] + part.end_rows[1] - part.end_row


def test_rows_of_shown_items_become_lists_unless_they_begin_below_the_top(tmp_path):
    rows = shown_items(LOG)
    scattered = rows.sort(pl.col("impression") // 9, "position", maintain_order=True)
    for log in (rows, scattered):
        found = sr.audit(log, clean=tmp_path / "clean.parquet")
        left = pl.read_parquet(tmp_path / "clean.parquet")
        assert found.clean.rows_are == "impressions"
        kept = sorted(set(range(N)) - {int(log["impression"][row]) for row in found.flagged["row"]})
        assert left["items"].to_list() == LOG[kept]["items"].to_list()
    lower = shown_items(LOG, top=pl.Series(np.arange(N) % 2 * D))
    found = sr.audit(lower, clean=tmp_path / "clean.parquet")
    left = pl.read_parquet(tmp_path / "clean.parquet")
    assert found.clean.rows_are == "shown items"
    assert left.columns == ["impression", "client", "item", "position", "clicked", "weight"]
    assert left.height == D * found.clean.impressions
    kept = lower.filter(pl.col("impression").is_in((left["impression"].unique() // D).implode()))
    assert left["position"].to_list() == kept["position"].to_list()
    assert left["item"].to_list() == kept["item"].to_list()
    assert sr.audit(tmp_path / "clean.parquet").boards[0].ranking == found.boards[0].clean_ranking


def test_other_schemas_numbers_and_events(tmp_path):
    """Names stay of their kind, also where a block has none; what an event leaves out is out; formats are read."""
    day = pl.from_epoch(pl.Series("time", 1_772_323_200 + np.arange(N) * 100), time_unit="s")
    log = LOG.with_columns(day, pl.col("items").list.eval(pl.element().str.slice(1).cast(pl.Int64)))
    log = log.with_columns(client=pl.when(pl.int_range(N) >= 2_900).then(pl.lit(7)))
    found = sr.audit(log, time="time", events=[("2026-03-01", "a sale")], clean=tmp_path / "clean.parquet")
    left = pl.read_parquet(tmp_path / "clean.parquet")
    assert left["time"].min() == pl.Series(["2026-03-02"]).str.to_datetime(time_zone="UTC")[0]
    assert left.schema["items"] == pl.List(pl.Int64)
    assert left["client"].drop_nulls().unique().to_list() == [7]
    assert left.height == found.clean.impressions < N - 864
    event = {"timestamp": "1772323200000", "user": "u1"}
    three = [{"id": "a"}, {"id": "b"}, {"id": "c"}]
    lines = [{**event, "event": "ranking", "id": f"r{i}", "items": three} for i in range(40)]
    lines.append({**event, "event": "interaction", "id": "x", "ranking": "r3", "item": "b", "type": "click"})
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert sr.audit(tmp_path / "log.jsonl", clean=tmp_path / "clean.parquet").clean.impressions == 40
    left = pl.read_parquet(tmp_path / "clean.parquet")
    assert left["items"].to_list() == [["a", "b", "c"]] * 40
    assert left.filter(pl.col("clicked").list.sum() > 0)["clicked"].to_list() == [[0, 1, 0]]


def test_learners_read_it(tmp_path):
    sr.audit(LOG, clean=tmp_path / "clean.parquet")
    left = pl.read_parquet(tmp_path / "clean.parquet").filter(pl.col("weight") == 1.0)
    ranker = sr.replay(left.select("items", "clicked").iter_rows(), ["CascadeTS"], length=D)["CascadeTS"]
    best = sorted(ranker.standings(), key=lambda one: -one.rate)[:3]
    assert {one.item for one in best} <= {f"i{k}" for k in range(5)}


def test_the_command_writes_it_and_tells_the_ranking_both_ways(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    LOG.write_parquet("log.parquet")
    assert main(["audit", "log.parquet", "--clean", "clean.parquet"]) == 0
    out = capsys.readouterr().out
    left = pl.read_parquet("clean.parquet")
    assert f"clean.parquet: {left.height:,} of 3,000 impressions are not suspect" in out
    assert "  ranking with everything: i0, i1, " in out
    assert "  ranking without what is suspect: i0, i1, " in out
    assert " and 10 more" in out
    for name, words in (
        ("clean.csv", "must end in .parquet"),
        ("log.parquet", "is the log itself"),
        ("no/clean.parquet", "no is not a folder"),
    ):
        assert main(["audit", "log.parquet", "--clean", name]) == 2
        assert words in capsys.readouterr().err
