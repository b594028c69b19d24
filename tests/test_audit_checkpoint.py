"""`--keep`: an audit that was interrupted, anywhere, goes on and says what one says that was not."""

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

import steadyrank as sr
from steadyrank.audit import pipeline
from steadyrank.cli import audit as command
from steadyrank.cli import main
from steadyrank.click_logs import checkpoint, click_log, rows

pytestmark = pytest.mark.pure

N, K, LENGTH, DAYS = 3_000, 15, 4, 6


def frame(by_item=False):
    """Lists of four of fifteen items, an attack in the middle, clients, networks and a value."""
    rng = np.random.default_rng(3)
    lists = rng.random((N, K)).argsort(axis=1)[:, :LENGTH]
    bits = rng.random(lists.shape) < np.linspace(0.4, 0.02, K)[lists]
    bits[1_200:1_500] = lists[1_200:1_500] >= 11
    client = rng.integers(0, 200, N)
    client[1_200:1_500] = 1_000 + np.arange(300) % 20
    log = pl.DataFrame(
        {
            "items": [[f"item {k}" for k in one] for one in lists.tolist()],
            "clicked": bits.astype(int).tolist(),
            "client": client,
            "net": [f"net {c % 25}" for c in client],
            "time": np.arange(N) * 60 + 1_793_491_200,
        }
    )
    if not by_item:
        return log
    log = log.with_row_index("impression").rename({"items": "item"})
    return log.explode("item", "clicked")


def by_day(folder, by_item=False):
    """The log in a folder a day. With an item a row the files end in the middle of impressions."""
    log = frame(by_item)
    edges = np.linspace(0, log.height, DAYS + 1).astype(int) + by_item
    edges[[0, -1]] = 0, log.height
    for day, (start, end) in enumerate(itertools.pairwise(edges.tolist())):
        place = folder / "logs" / f"dt=2026-11-{day + 1:02d}"
        place.mkdir(parents=True)
        log[start:end].write_parquet(place / "part-0.parquet")
    return folder


@pytest.fixture
def folder(tmp_path):
    return by_day(tmp_path)


class Interrupted(BaseException):
    """As Ctrl-C is, at a place that is chosen."""


@pytest.fixture
def interrupting(monkeypatch):
    """Interrupts the next run in the middle of what it writes for the nth time; returns how often it wrote."""
    monkeypatch.setattr(checkpoint, "ROWS", 0)
    monkeypatch.setattr(click_log, "ROWS", 0)
    true = checkpoint.replacing

    @contextlib.contextmanager
    def chosen(at):
        count = 0

        @contextlib.contextmanager
        def replacing(path):
            nonlocal count
            count += 1
            with true(path) as file:
                if count == at:
                    file.write(b"half")
                    raise Interrupted
                yield file

        with monkeypatch.context() as patch:
            patch.setattr(checkpoint, "replacing", replacing)
            yield lambda: count

    return chosen


@pytest.mark.parametrize("by_item", [False, True])
def test_an_audit_interrupted_again_and_again_says_the_same(tmp_path, interrupting, by_item):
    folder, options = by_day(tmp_path, by_item), {"network": "net"}
    plain = sr.audit(folder / "logs", **options).as_dict()
    assert plain["intervals"]
    runs = 0
    while True:
        runs += 1
        with interrupting(at=9):
            try:
                told = sr.audit(folder / "logs", keep=folder / "kept", **options).as_dict()
            except Interrupted:
                continue
        break
    assert told == plain
    assert runs > 5
    assert not (folder / "kept").exists()


def test_what_was_read_is_not_read_again(folder, interrupting, monkeypatch):
    with pytest.raises(Interrupted), interrupting(at=8):
        sr.audit(folder / "logs", keep=folder / "kept")
    so_far = json.loads((folder / "kept" / "read.json").read_text())
    assert 0 < so_far["files"] < DAYS
    opened = []
    true = rows.read_blocks
    monkeypatch.setattr(
        rows, "read_blocks", lambda logs, *more, **named: opened.extend(logs) or true(logs, *more, **named)
    )
    progress = []
    sr.audit(folder / "logs", keep=folder / "kept", progress=lambda *call: progress.append(call))
    assert [path.parent.name for path in opened] == [
        f"dt=2026-11-{day + 1:02d}" for day in range(so_far["files"], DAYS)
    ]
    reading = [done for step, done, _ in progress if step == "reading"]
    assert reading[0] > so_far["rows"]


def test_steps_done_are_not_done_again(folder, monkeypatch):
    def stopped(*given):
        raise Interrupted

    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "assembled", stopped)
        with pytest.raises(Interrupted):
            sr.audit(folder / "logs", keep=folder / "kept")
    monkeypatch.setattr(pipeline, "analyse", None)
    monkeypatch.setattr(rows, "read_blocks", None)
    assert len(sr.audit(folder / "logs", keep=folder / "kept").intervals) == 1


KILLED = """
import contextlib, os, pathlib, signal, sys
from steadyrank.click_logs import checkpoint, click_log
from steadyrank.cli import main
click_log.ROWS, left, true = 0, int(sys.argv[1]), checkpoint.replacing
@contextlib.contextmanager
def replacing(path):
    global left
    left -= 1
    with true(path) as file:
        yield file
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
checkpoint.replacing = replacing
sys.exit(main(["audit", *sys.argv[2:]]))
"""


@pytest.mark.always
@pytest.mark.parametrize(("at", "left"), [(8, "read.json"), pytest.param(30, "step-*", marks=pytest.mark.slow)])
def test_a_process_that_is_killed_goes_on(folder, capsys, at, left):
    """Killed in the middle of what it writes, while it reads or while it searches."""
    arguments = [str(folder / "logs"), "--keep", str(folder / "kept"), "--json"]
    ended = subprocess.run([sys.executable, "-c", KILLED, str(at), *arguments], capture_output=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert list((folder / "kept").glob(left))
    assert main(["audit", *arguments]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(sr.audit(folder / "logs").to_json())
    assert not (folder / "kept").exists()


@pytest.mark.parametrize("what", ["option", "file"])
def test_another_audit_begins_anew_and_says_so(folder, interrupting, what):
    with pytest.raises(Interrupted), interrupting(at=8):
        sr.audit(folder / "logs", keep=folder / "kept")
    options = {}
    if what == "option":
        options = {"events": [("2026-11-03", "sale")]}
    else:
        os.utime(next((folder / "logs").rglob("*.parquet")), ns=(1, 1))
    told = sr.audit(folder / "logs", keep=folder / "kept", **options)
    assert "was discarded" in told.notes[-1]
    assert told.intervals == sr.audit(folder / "logs", **options).intervals
    assert "was discarded" not in " ".join(sr.audit(folder / "logs", keep=folder / "kept", **options).notes)


def test_counts_go_on_reading(folder, interrupting):
    plain = sr.audit_counts(folder / "logs", item="net", time="time").as_dict()
    with pytest.raises(Interrupted), interrupting(at=6):
        sr.audit_counts(folder / "logs", item="net", time="time", keep=folder / "kept")
    assert json.loads((folder / "kept" / "read.json").read_text())["files"] > 0
    assert sr.audit_counts(folder / "logs", item="net", time="time", keep=folder / "kept").as_dict() == plain
    assert not (folder / "kept").exists()


def test_boards_that_were_audited_are_not_audited_again(folder, monkeypatch):
    true, audited, most = pipeline.analyse, [], [10]

    def analyse(task, pulse):
        if len(audited) == most[0]:
            raise Interrupted
        audited.append(task.board)
        return true(task, pulse)

    monkeypatch.setattr(pipeline, "analyse", analyse)
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    with pytest.raises(Interrupted):
        sr.audit(folder / "logs", keep=folder / "kept", board="net")
    most[0] = 25
    sr.audit(folder / "logs", keep=folder / "kept", board="net")
    assert sorted(audited) == list(range(25))


def test_a_folder_that_is_no_place_for_it_is_refused(folder, tmp_path, capsys):
    log = str(folder / "logs")
    (tmp_path / "file").write_text("")
    for place, words in (
        (tmp_path / "file", "is a file; name a folder"),
        (tmp_path / "none" / "kept", "none is not a folder"),
        (folder / "logs", "holds files of another kind; name a folder that is new or empty"),
    ):
        assert main(["audit", log, "--json", "--keep", str(place)]) == 2
        assert words in capsys.readouterr().err
    with pytest.raises(ValueError, match="only works for files"):
        sr.audit(frame(), keep=tmp_path / "kept")
    assert not (tmp_path / "kept").exists()
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept").chmod(0o777)
    with pytest.raises(ValueError, match="can be written to by others"):
        sr.audit(folder / "logs", keep=tmp_path / "kept")


def test_two_audits_at_once_are_refused_the_same_folder(tmp_path):
    path = tmp_path / "log.parquet"
    frame().write_parquet(path)
    with (
        contextlib.closing(checkpoint.Checkpoint(tmp_path / "kept", [path], {})),
        pytest.raises(ValueError, match="is in use"),
    ):
        sr.audit(path, keep=tmp_path / "kept")
    assert sr.audit(path, keep=tmp_path / "kept").impressions == N


def test_what_others_put_into_the_folder_stays(tmp_path):
    path = tmp_path / "log.parquet"
    frame().write_parquet(path)
    one = checkpoint.Checkpoint(tmp_path / "kept", [path], {})
    (tmp_path / "kept" / "mine.txt").write_text("mine")
    one.remove()
    assert [inside.name for inside in (tmp_path / "kept").iterdir()] == ["mine.txt"]


def test_who_interrupts_is_told_where_it_goes_on(folder, capsys, monkeypatch):
    def interrupted(*given, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr(pipeline, "read", interrupted)
    assert main(["audit", str(folder / "logs"), "--json", "--keep", str(folder / "kept")]) == 130
    assert "the same command resumes from there" in capsys.readouterr().err


def test_time_left_does_not_count_what_was_done_before(monkeypatch, capsys):
    monkeypatch.setattr(command.sys.stderr, "isatty", lambda: True)
    times = iter([0.0, 0.0, 10.0])
    monkeypatch.setattr(command.time, "monotonic", lambda: next(times))
    progress = command._Progress()
    progress.show("reading", 800, 1_000)
    progress.show("reading", 850, 1_000)
    assert capsys.readouterr().err.endswith("850 of 1,000 rows, 30 s left")
