"""Logs larger than memory: what lies on disk, and what is counted by parts, says the same as what does not."""

import datetime
import os
import tracemalloc

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import steadyrank as sr
from steadyrank.audit.detect import client_tests, scales
from steadyrank.audit.detect.attention import counts_of, fit, place_cells
from steadyrank.audit.detect.changed_stretches import UsualImpressions
from steadyrank.click_logs import looks, mapped
from steadyrank.click_logs.click_log import read
from steadyrank.click_logs.files import sources_of

pytestmark = pytest.mark.pure

N, K, LENGTH = 6_000, 20, 5
ATTACK = (2_000, 2_400)


def log(seed=0, several=False):
    """Lists of five of twenty items; 400 are clicked the other way round, by clients who come for it alone."""
    rng = np.random.default_rng(seed)
    lists = rng.random((N, K)).argsort(axis=1)[:, :LENGTH]
    bits = rng.random(lists.shape) < np.linspace(0.4, 0.02, K)[lists]
    bits[slice(*ATTACK)] = lists[slice(*ATTACK)] >= 15
    client = rng.integers(0, 300, N)
    client[slice(*ATTACK)] = 1_000 + np.arange(400) % 40
    frame = pl.DataFrame({"items": lists.tolist(), "client": client, "time": np.arange(N)})
    clicked = bits.astype(int).tolist() if several else np.where(bits.any(axis=1), bits.argmax(axis=1) + 1, 0)
    return frame.with_columns(pl.Series("clicked", clicked))


@pytest.fixture
def on_disk(monkeypatch):
    """Everything lies on disk, and is gone through in blocks of 512 impressions."""
    monkeypatch.setattr(mapped, "HELD", 0)
    monkeypatch.setattr(looks.blocks, "__defaults__", (512,))
    monkeypatch.setattr(looks.Impressions.parts, "__defaults__", (512,))


@pytest.mark.parametrize("several", [False, True])
def test_a_log_on_disk_says_the_same(on_disk, several, monkeypatch):
    frame = log(several=several).sample(fraction=1.0, shuffle=True, seed=1)  # so it is put in order, too
    told = sr.audit(frame).as_dict()
    monkeypatch.undo()
    assert told == sr.audit(frame).as_dict()
    assert len(told["intervals"]) == 1
    assert told["n_clients"] > 20


def test_boards_on_disk_say_the_same(on_disk, monkeypatch):
    frame = pl.concat([log(seed).with_columns(board=pl.lit(seed)) for seed in (0, 1)])[::-1]
    told = sr.audit(frame).as_dict()
    monkeypatch.undo()
    assert told == sr.audit(frame).as_dict()


@pytest.mark.parametrize("several", [False, True])
def test_a_log_by_parts_has_the_same_interval_and_clients(monkeypatch, several):
    """With at most 8,000 pairs of a part and an item, parts are 16 impressions or more."""
    frame = log(several=several)
    plain = sr.audit(frame)
    monkeypatch.setattr(scales, "ENTRIES", 8_000)
    monkeypatch.setattr(scales, "BLOCK", 1 << 11)
    shown = read([frame], {}).impressions
    units = scales.prepare_units(shown)
    assert units.span >= 16
    assert units.item.size <= 8_000
    assert units.looks.sum() == shown.item.size + (N if several else 0)
    found = sr.audit(frame)
    ((one,), (other,)) = plain.intervals, found.intervals
    assert abs(other.start_row - one.start_row) <= 2 * units.span
    assert abs(other.end_row - one.end_row) <= 2 * units.span
    assert other.start_rows[0] <= other.start_row <= other.start_rows[1]
    bots = [{one.client for one in audit.clients if one.client >= 1_000} for audit in (plain, found)]
    assert len(bots[0] & bots[1]) > 0.9 * len(bots[0]) > 20


@pytest.mark.parametrize("at_once", [1, 700])
def test_clients_block_by_block_say_the_same(monkeypatch, at_once):
    """Blocks of one client each, and of some of them, give what one block of all clients gives, to the digit."""
    frame = log(several=True).with_columns(pl.when(pl.col("time") % 7 > 0).then(pl.col("client")))  # and nobody's
    told = sr.audit(frame).as_dict()
    monkeypatch.setattr(client_tests, "BLOCK_LOOKS", at_once)
    assert sr.audit(frame).as_dict() == told
    monkeypatch.setattr(mapped, "HELD", 0)
    assert sr.audit(frame).as_dict() == told
    assert told["n_clients"] > 20


def lists_of_four(n):
    """n lists of four of a thousand items, by clients of eight lists: nearly as many pairs as looks."""
    rng = np.random.default_rng(0)
    item, bits = rng.integers(0, 1_000, 4 * n).astype(np.int32), rng.random(4 * n) < 0.1
    client = (np.arange(n) // 8).astype(np.int32)
    return looks.Impressions(item, bits, np.arange(0, 4 * n + 1, 4), 1_000), rng.permutation(client)


def test_memory_of_clients_grows_by_what_is_kept(monkeypatch):
    """A look costs what is kept of it and of its pair, and not the hundreds of bytes that are held on the way."""
    monkeypatch.setattr(client_tests, "BLOCK_LOOKS", 4_000, raising=False)
    peaks = []
    for n in (10_000, 40_000):
        shown, client = lists_of_four(n)
        cells = place_cells(shown)
        appeal = fit(counts_of(shown, cells, np.ones(n, bool)))
        count = np.bincount(client).astype(float)
        tracemalloc.start()
        pairs = client_tests.pairs_of(shown, cells, client, appeal, count)
        client_tests.single_items(pairs, count.size, np.ones(count.size))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert pairs.item.size > 0.98 * 4 * n
    assert (peaks[1] - peaks[0]) / (4 * 30_000) < 50


@given(st.lists(st.booleans(), max_size=60))
def test_calm_impressions_are_numbered_in_order(flags):
    flags = np.array(flags, bool)
    calm = UsualImpressions(flags)
    assert calm.size == flags.sum()
    assert calm.at(np.arange(calm.size)).tolist() == np.flatnonzero(flags).tolist()


@given(st.lists(st.lists(st.integers(0, 9), max_size=5), max_size=8), st.sampled_from([0, 40, 10_000]))
def test_arrays_grow_alike_on_disk_and_in_memory(parts, held):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mapped, "HELD", held)
        growing = mapped.GrowingArrays()
        for part in parts:
            growing.add(one=np.array(part, np.int32), two=np.array(part, np.float64) / 2)
        assert growing.take("one", np.int32).tolist() == [value for part in parts for value in part]
        assert growing.take("two", np.float64).tolist() == [value / 2 for part in parts for value in part]
        assert growing.take("three", np.bool_).size == 0


def test_what_is_let_go_of_is_still_there(monkeypatch):
    monkeypatch.setattr(mapped, "HELD", 0)
    array = mapped.empty(100_000, np.int64)
    array[:] = np.arange(100_000)
    mapped.release(array[10:20], None, np.zeros(3))
    assert array.sum() == 100_000 * 99_999 // 2


def partitioned(folder, frame, days=4):
    """The log as Spark would write it: a folder a day, two files in each, each with rows of the whole day."""
    start = datetime.datetime(2026, 11, 1)
    times = pl.Series("time", [start + datetime.timedelta(minutes=i * days * 1440 / N) for i in range(N)])
    for i, (_, part) in enumerate(frame.with_columns(times).group_by(pl.col("time").dt.date(), maintain_order=True)):
        place = folder / f"dt=2026-11-{i + 1:02d}" / "country=N%C3%A4rke"
        place.mkdir(parents=True)
        for j in range(2):
            part[j::2].write_parquet(place / f"part-{j}.parquet")
    (folder / "_SUCCESS").write_text("")
    (folder / "_temporary").mkdir()
    frame.write_parquet(folder / "_temporary" / "left.parquet")


def test_a_folder_of_partitions_is_a_log(tmp_path):
    partitioned(tmp_path / "logs", log())
    found = sr.audit(tmp_path / "logs")
    assert found.impressions == N
    assert found.files[0].endswith("dt=2026-11-01/country=N%C3%A4rke/part-0.parquet")
    (part,) = found.intervals
    assert part.impressions == pytest.approx(400, abs=40)
    assert part.start_time.startswith("2026-11-02T08:")  # the 2,000th of 6,000 lists in four days
    some = sr.audit(str(tmp_path / "logs" / "dt=2026-11-0[12]" / "**" / "*.parquet"), board="country")
    assert some.impressions == N // 2
    assert some.boards[0].board == "Närke"
    assert "dt" in found.columns["not used"]


def test_folders_and_patterns_without_logs_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"is a folder without logs: none of its files ends in \.parquet"):
        sources_of(tmp_path)
    with pytest.raises(ValueError, match=r"no file fits .*\*\.parquet"):
        sources_of(tmp_path / "*.parquet")
    with pytest.raises(ValueError, match=r"missing\.parquet is not a file"):
        sr.audit(tmp_path / "missing.parquet")


def test_progress_says_of_how_many(tmp_path):
    partitioned(tmp_path / "logs", log())
    calls = []
    sr.audit(tmp_path / "logs", progress=lambda *call: calls.append(call))
    reading = [(done, of) for step, done, of in calls if step == "reading"]
    assert reading[-1] == (N, N)
    searching = [(done, of) for step, done, of in calls if step == "searching" and of]
    assert searching[0][0] == 0 < searching[0][1]
    assert max(done for done, _ in searching) == searching[0][1] - 1  # each pass is told of when it is next
    assert [step for step, done, of in calls if step == "auditing"] == ["auditing"] * 2
    log().drop("items", "clicked").with_columns(item=1, clicked=0).write_csv(tmp_path / "log.csv")
    calls.clear()
    sr.audit(tmp_path / "log.csv", progress=lambda *call: calls.append(call))
    assert {of for step, _, of in calls if step == "reading"} == {0}  # text: not known before it is read


def test_no_file_is_left_where_arrays_lay(tmp_path, on_disk, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    sr.audit(log())
    assert os.listdir(tmp_path) == []
