"""`--since`: only what is new is read and told, and the verdicts are those of one audit of everything."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import planted_logs
import polars as pl
import pytest

import steadyrank as sr
from steadyrank.audit import since
from steadyrank.cli import main

pytestmark = pytest.mark.pure

DAYS = 5


@pytest.fixture(scope="module")
def log():
    """Five days, a burst that three items gain by in the middle of the third, another over the fourth's midnight."""
    rng = np.random.default_rng(5)
    world = planted_logs.world(rng, items=40, length=5, clients=300)
    honest = planted_logs.honest(world, 10_000, rng, days=DAYS)
    low = np.argsort(world.attraction)[:3]
    day = (honest.time - planted_logs.START) / planted_logs.DAY
    for start, end in ((2.4, 2.6), (3.45, 3.999), (4.0, 4.5)):
        false = (day >= start) & (day < end)
        honest.bits[false] = np.isin(honest.lists[false], low)
    return honest


@pytest.fixture
def folder(tmp_path, log):
    """The log, a file a day."""
    frame = log.frame()
    for day, rows in enumerate(by_day(frame)):
        rows.write_parquet(tmp_path / f"day-{day}.parquet")
    return tmp_path


def by_day(frame):
    day = ((frame["timestamp"].dt.epoch("s") - int(planted_logs.START)) // int(planted_logs.DAY)).clip(0, DAYS - 1)
    return [frame.filter(day == k) for k in range(DAYS)]


def daily(folder, days=DAYS, **options):
    """An audit a day, each of all files that are there by then."""
    return [
        sr.audit([folder / f"day-{k}.parquet" for k in range(day + 1)], since=folder / "state", **options)
        for day in range(days)
    ]


def spans(audit):
    return [(part.start_time[:19], part.end_time[:19]) for part in audit.intervals]


def minutes(one, two):
    """Between two times."""
    return abs((np.datetime64(one) - np.datetime64(two)) / np.timedelta64(1, "m"))


def test_days_one_by_one_say_what_one_audit_of_all_says(folder, log):
    everything = sr.audit(sorted(folder.glob("day-*.parquet")))
    runs = daily(folder)
    assert [run.impressions for run in runs] == [rows.height for rows in by_day(log.frame())]
    assert len(everything.intervals) == 2
    assert [len(run.intervals) for run in runs] == [0, 0, 1, 1, 1]
    (one, two) = spans(everything)
    assert minutes(spans(runs[2])[0][0], one[0]) < 30
    assert minutes(spans(runs[2])[0][1], one[1]) < 30
    assert minutes(spans(runs[3])[0][0], two[0]) < 30
    assert minutes(spans(runs[4])[0][0], two[0]) < 30  # it began the day before
    assert minutes(spans(runs[4])[0][1], two[1]) < 30
    assert runs[4].intervals[0].start_row == 0
    named = [{item["item"] for item in run.intervals[0].items[:3]} for run in runs[2:]]
    assert named[0] == named[1] == named[2] == {item["item"] for item in everything.intervals[0].items[:3]}
    assert runs[1].notes[-1].startswith("Judged together with")
    low, high = runs[2].suspect_share
    assert 0.1 < low <= high <= 1.0
    assert runs[2].flagged["row"].min() >= 0


def test_clients_are_told_on_days_they_come(folder):
    """A bot of many days is named once it is odd, and no more when it stays away."""
    for day in range(3):
        path = folder / f"day-{day}.parquet"
        rows = pl.read_parquet(path)
        if day < 2:
            false = rows.sample(60, seed=day).with_columns(
                pl.lit(7_777_777, rows["user_id"].dtype).alias("user_id"),
                pl.col("clicked").list.eval(pl.lit(1, pl.Int64)).alias("clicked"),
            )
            rows = pl.concat([rows, false]).sort("timestamp")
        rows.write_parquet(path)
    named = [[one.client for one in run.clients] for run in daily(folder, 3)]
    assert 7_777_777 in named[0]
    assert 7_777_777 in named[1]
    assert 7_777_777 not in named[2]


def test_late_rows_stand_where_they_belong(folder):
    first, second = (pl.read_parquet(folder / f"day-{k}.parquet") for k in range(2))
    late = first[-50:]
    first[:-50].write_parquet(folder / "day-0.parquet")
    pl.concat([second, late]).write_parquet(folder / "day-1.parquet")
    sr.audit(folder / "day-0.parquet", since=folder / "state")
    found = sr.audit(folder / "day-1.parquet", since=folder / "state")
    assert found.impressions == second.height + 50
    kept = since.State.load(folder / "state").impressions
    assert kept.height == first.height + second.height
    assert kept["time"].is_sorted()


def test_what_is_kept_is_bounded_and_calm(folder, monkeypatch, log):
    monkeypatch.setattr(since, "MOST_IMPRESSIONS", 3_000)
    daily(folder, 3)
    kept = since.State.load(folder / "state").impressions
    assert kept.height == 3_000
    day = (kept["time"].to_numpy() - planted_logs.START) / planted_logs.DAY
    assert np.count_nonzero((day > 2.41) & (day < 2.59)) == 0
    assert (folder / "state").stat().st_size < 100_000


def test_a_clean_log_has_the_new_rows_alone(folder):
    daily(folder, 3, clean=folder / "clean.pq")
    clean = pl.read_parquet(folder / "clean.pq")
    assert clean["row"].min() >= 0
    assert 0.4 < clean.height / pl.read_parquet(folder / "day-2.parquet").height < 0.9


def test_boards_and_names_of_other_days(folder, log):
    """Each day has another board and items that no other has."""
    for day, rows in enumerate(by_day(log.frame())[:2]):
        named = rows.with_columns(
            pl.col("items").list.eval(pl.format(f"{day}-{{}}", pl.element())), pl.lit(f"board {day}").alias("board")
        )
        named.write_parquet(folder / f"named-{day}.parquet")
        found = sr.audit(folder / f"named-{day}.parquet", since=folder / "state")
    assert [board.board for board in found.boards] == ["board 1", "board 0"]
    assert found.impressions == named.height


def test_on_the_command_line(folder, capsys):
    state, logs = folder / "audit.state", str(folder / "day-*.parquet")
    (folder / "day-4.parquet").rename(folder / "later")
    command = ["audit", logs, "--since", str(state), "--json"]
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out)["impressions"] > 5_000
    before = state.read_bytes()
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out)["summary"].startswith("nothing is new: all of 4 files")
    assert state.read_bytes() == before
    (folder / "later").rename(folder / "day-4.parquet")
    assert main([*command, "--fail-above", "1%"]) == 3
    assert len(json.loads(capsys.readouterr().out)["files"]) == 1
    assert state.read_bytes() != before


def test_a_moved_file_is_known_and_a_changed_one_is_refused(folder):
    log, state = folder / "day-0.parquet", folder / "state"
    sr.audit(log, since=state)
    moved = log.rename(folder / "moved.parquet")
    with pytest.raises(since.NothingNewError):
        sr.audit(moved, since=state)
    pl.read_parquet(folder / "day-1.parquet").write_parquet(log)
    with pytest.raises(ValueError, match=r"day-0.parquet has changed since it was read"):
        sr.audit(log, since=state)


def test_files_that_differ_in_the_middle_alone_are_two(folder):
    """Of one size, with the same beginning and end, and even of one time."""
    rows = pl.read_parquet(folder / "day-0.parquet").with_columns(pl.col("timestamp").dt.epoch("s"))
    rows = rows.with_columns(pl.col("items", "clicked").list.eval(pl.element().cast(pl.String)).list.join("|"))
    text = rows.write_csv().encode()
    middle = text.index(b"\n", len(text) // 2) + 1
    other = text[:middle] + (b"9" if text[middle : middle + 1] != b"9" else b"8") + text[middle + 1 :]
    one, two, state = folder / "one.csv", folder / "two.csv", folder / "state"
    one.write_bytes(text)
    two.write_bytes(other)
    seen = one.stat()
    os.utime(two, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    first = sr.audit(one, since=state)
    assert sr.audit([one, two], since=state).impressions == first.impressions
    one.write_bytes(other)
    os.utime(one, ns=(seen.st_atime_ns, seen.st_mtime_ns + 1))
    with pytest.raises(ValueError, match=r"one.csv has changed since it was read"):
        sr.audit(one, since=state)


def test_a_file_that_was_written_again_as_it_was_is_known(folder):
    log, state = folder / "day-0.parquet", folder / "state"
    sr.audit(log, since=state)
    os.utime(log)
    with pytest.raises(since.NothingNewError):
        sr.audit(log, since=state)


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "is not a state"),
        (b"time,item\n1,2\n", "is not a state"),
        (since.MAGIC, "is damaged"),
        (None, "is damaged"),
    ],
)
def test_a_state_that_is_none_is_refused_by_name(folder, content, word):
    state, log = folder / "last", folder / "day-0.parquet"
    if content is None:
        sr.audit(log, since=state)
        content = bytearray(state.read_bytes())
        content[-100] ^= 1
    state.write_bytes(content)
    with pytest.raises(ValueError, match=f"last {word}"):
        sr.audit(log, since=state)
    assert state.read_bytes() == content


def test_states_of_other_logs_are_refused(folder):
    state = folder / "state"
    sr.audit(folder / "day-0.parquet", since=state)
    before = state.read_bytes()
    other = pl.read_parquet(folder / "day-1.parquet").rename({"user_id": "session"})
    other.write_parquet(folder / "other.parquet")
    with pytest.raises(ValueError, match="read differently"):
        sr.audit(folder / "other.parquet", since=state, client="")
    text = pl.read_parquet(folder / "day-1.parquet").with_columns(pl.col("items").cast(pl.List(pl.String)))
    text.write_parquet(folder / "text.parquet")
    with pytest.raises(ValueError, match="names of items are int and str"):
        sr.audit(folder / "text.parquet", since=state)
    assert state.read_bytes() == before
    with pytest.raises(ValueError, match=r"has the name of a log"):
        sr.audit(folder / "day-1.parquet", since=folder / "state.parquet")
    with pytest.raises(ValueError, match=r"is a folder"):
        sr.audit(folder / "day-1.parquet", since=folder)
    assert main(["audit", str(folder), "--counts", "--since", str(state)]) == 2


@pytest.mark.always
def test_a_run_that_is_killed_or_cannot_tell_loses_nothing(folder, capsys):
    state = folder / "state"
    sr.audit(folder / "day-0.parquet", since=state)
    before = state.read_bytes()
    days = [str(folder / f"day-{k}.parquet") for k in range(3)]
    killed = "import os\nos.replace = lambda *paths: os.kill(os.getpid(), 9)\n"  # all is written, not yet in place
    audit = f"from steadyrank.audit import audit\naudit({days!r}, since={str(state)!r})"
    run = subprocess.run([sys.executable, "-c", killed + audit])
    assert (run.returncode, state.read_bytes()) == (-signal.SIGKILL, before)
    assert main(["audit", *days, "--since", str(state), "--page", "/dev/full"]) != 0
    assert "No space left" in capsys.readouterr().err
    assert state.read_bytes() == before
    found = sr.audit([folder / f"day-{k}.parquet" for k in range(3)], since=state)
    assert len(found.intervals) == 1
