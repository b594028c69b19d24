"""The command and what it leaves behind when something is wrong, and logs of many boards."""

import contextlib
import dataclasses
import json
import os

import numpy as np
import polars as pl
import pytest

import steadyrank as sr
from steadyrank.audit import pipeline
from steadyrank.audit.detect.clients import SuspectClient
from steadyrank.audit.show import audit_page, drawing
from steadyrank.cli import audit as command
from steadyrank.cli import main
from steadyrank.click_logs.click_log import by_board, read
from steadyrank.click_logs.files import from_pandas
from steadyrank.core.compiling import announcing

pytestmark = pytest.mark.pure

N, K, D = 2_000, 20, 5


def attacked(seed=0, span=(800, 1100)):
    """Random lists; in the attack only bad items are clicked. Positions from 1, 0 for no click."""
    rng = np.random.default_rng(seed)
    lists = np.array([rng.permutation(K)[:D] for _ in range(N)])
    bits = rng.random((N, D)) < np.linspace(0.5, 0.02, K)[lists]
    bits[slice(*span)] = lists[slice(*span)] >= K // 2
    return pl.DataFrame({"items": lists.tolist(), "clicked": np.where(bits.any(axis=1), bits.argmax(axis=1) + 1, 0)})


@pytest.fixture
def log(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    attacked().write_parquet(tmp_path / "log.parquet")
    return tmp_path / "log.parquet"


def audit(capsys, *arguments):
    code = main(["audit", *map(str, arguments)])
    return code, *capsys.readouterr()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--page", "."], "--page . is a folder; name a file"),
        (["--parquet", "log.parquet"], "--parquet log.parquet is a file; name a folder"),
        (["--parquet", "none/flagged"], "none is not a folder"),
        (["log.parquet"], "log.parquet is named twice"),
        (["--time", "when"], "--time names 'when', which is not a column; columns found: items"),
    ],
)
def test_bad_flags_are_answered_before_any_work(log, capsys, monkeypatch, flags, words):
    monkeypatch.setattr(pipeline, "analyse", None)
    code, out, error = audit(capsys, log, *flags)
    assert (code, out) == (2, "")
    assert words in error


def test_a_place_that_cannot_be_written_is_refused_before_any_work(log, capsys, monkeypatch):
    monkeypatch.setattr(command.os, "access", lambda path, mode: False)
    for flags in (["--page", "a.html"], ["--json", "--parquet", "."]):
        code, out, error = audit(capsys, log, *flags)
        assert (code, out) == (2, "")
        assert ". is not writable: choose another place than" in error
    assert audit(capsys, log, "--json", "--page", "/dev/null")[0] == 0  # written to, whoever owns its folder


def test_what_was_found_is_not_lost_with_a_full_disk(log, tmp_path, capsys, monkeypatch):
    def full(number):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    code, out, error = audit(capsys, log, "--json", "--page", "audit.html")
    assert code == 2
    assert json.loads(out)["intervals"]
    assert "No space left on device" in error
    assert [path.name for path in tmp_path.iterdir()] == ["log.parquet"]


def test_a_pipe_is_written_to_and_not_replaced(log, tmp_path, capsys):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDWR)  # both ends, so that neither waits for the other
    assert audit(capsys, log, "--json", "--page", pipe)[0] == 0
    assert pipe.is_fifo()
    assert os.read(reader, 15) == b"<!doctype html>"
    os.close(reader)


@pytest.mark.parametrize("flags", [(), ("--counts", "--item", "clicked", "--time", "when")])
def test_a_terminal_is_told_what_is_going_on(tmp_path, capsys, monkeypatch, flags):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command.sys.stderr, "isatty", lambda: True)
    attacked().with_columns(when=pl.int_range(pl.len()) + 1_793_491_200).write_parquet("log.parquet")
    code, _, error = audit(capsys, "log.parquet", *flags)
    assert code == 0
    lines = error.split("\r\x1b[K")
    searched = [line for line in lines if line.startswith("searching: ")]
    of = searched[0].split(" of ")[1]
    assert searched[0].startswith("searching: 0 of ")
    assert of.endswith(" passes")
    assert any(line.endswith(" left") for line in searched)
    assert ("boards" in error) is not bool(flags)
    assert lines[-1] == ""  # what is printed then stands on a line of its own
    assert "searching" not in audit(capsys, "log.parquet", *flags, "--quiet")[2]


@pytest.mark.parametrize("counts", [False, True])
def test_who_waits_for_the_compiler_is_told(tmp_path, capsys, monkeypatch, counts):
    asked = []
    monkeypatch.setattr(announcing, "told_of_compiling", lambda tell: contextlib.nullcontext(asked.append(tell)))
    frame = attacked().with_columns(when=pl.int_range(pl.len()) + 1_793_491_200)
    frame.write_parquet(tmp_path / "log.parquet")
    if counts:
        sr.audit_counts(frame, item="clicked", time="when")
    else:
        sr.audit(frame)
    assert len(asked) == 1
    flags = ["--counts", "--item", "clicked", "--time", "when"] if counts else []
    assert audit(capsys, tmp_path / "log.parquet", *flags, "--json", "--quiet")[0] == 0
    assert len(asked) == 1


def test_names_do_not_command_the_terminal(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = pl.element().cast(pl.String) + "\x1b[2J\n\u2028"
    attacked().with_columns(pl.col("items").list.eval(name)).write_parquet("log.parquet")
    code, out, _ = audit(capsys, "log.parquet")
    assert code == 0
    assert "\x1b" not in out
    assert "\\x1b[2J\\n\\u2028 (" in out
    assert "over 99.9 % sure" in out  # never a round 100


def test_json_is_plain_whatever_the_names(tmp_path):
    name = pl.element().cast(pl.String) + "é\u2028<"
    found = sr.audit(attacked().with_columns(pl.col("items").list.eval(name)))
    assert found.to_json().isascii()
    assert all(item["item"].endswith("é\u2028<") for item in json.loads(found.to_json())["intervals"][0]["items"])


@pytest.mark.parametrize("log", [5, None, {"items": [1]}, pl.LazyFrame({"items": [1]}), [pl.Series([1])]])
def test_what_is_no_log_is_refused(log):
    with pytest.raises(ValueError, match=r"log must be a path, a data frame of polars or pandas, .* not \w+\.\w+"):
        sr.audit(log)


def test_a_frame_of_pandas_is_read_as_one_of_polars():
    """Lists in cells, times and what is missing; index and names of types are pandas' own."""
    pd = pytest.importorskip("pandas")
    log = attacked().with_columns(when=pl.datetime(2026, 3, 1) + pl.duration(seconds=pl.int_range(pl.len())))
    rows = log.to_dicts()
    frame = pd.DataFrame(rows, index=range(7, 7 + len(rows)))
    assert sr.audit([frame]).to_json() == sr.audit(log).to_json()
    odd = pd.DataFrame({
        "items": [["a", "b"], ("b",), None], "n": pd.array([1, None, 3], dtype="Int64"),
        "c": ["x", None, float("nan")],
        "t": pd.to_datetime(["2026-03-01T10:00Z", None, "2026-03-02T10:00Z"]), "k": pd.Categorical(["u", "v", "u"]),
    })  # fmt: skip
    read = from_pandas(odd)
    assert read["items"].to_list() == [["a", "b"], ["b"], None]
    assert read["n"].to_list() == [1, None, 3]
    assert read["c"].to_list() == ["x", None, None]
    assert read["t"].dt.epoch("s").to_list() == [1772359200, None, 1772445600]
    assert read["k"].to_list() == ["u", "v", "u"]
    with pytest.raises(ValueError, match="the columns of a data frame must have names, not 0"):
        sr.audit(pd.DataFrame([[1, 2]]))
    with pytest.raises(ValueError, match="two columns of the data frame are called 'a'"):
        sr.audit(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(ValueError, match="items"):
        sr.audit(pd.DataFrame({"a": [1]}))


def test_a_log_of_which_nothing_can_be_used_is_refused():
    frame = pl.DataFrame({"items": [["a", ""]] * 3, "clicked": [1] * 3, "board": ["x"] * 3})
    with pytest.raises(ValueError, match="3 of 3 rows cannot be used"):
        sr.audit(frame, most_broken=1.0)


def boards_of(n):
    """A log whose boards take turns, the first attacked, each with items and clients of its own."""
    frames = [
        attacked(i, (800, 1100) if i == 0 else (0, 0)).with_columns(
            pl.col("items").list.eval(pl.element() + 100 * i), board=pl.lit(i), client=pl.int_range(N) % 50 + 1000 * i
        )
        for i in range(n)
    ]
    return pl.concat(frames)[np.arange(n * N).reshape(n, N).T.ravel()]


def test_a_board_costs_what_it_holds():
    log = read([boards_of(3)], {})
    for part in by_board(log):
        assert part.impressions.n_items == part.items.size == K
        assert part.clients.size == 50
        assert part.impressions.item.max() == K - 1
        assert {log.items[k] // 100 for k in part.items} == {log.boards[part.board]}
        assert {log.clients[c] // 1000 for c in part.clients} == {log.boards[part.board]}


def test_boards_with_items_and_clients_of_their_own():
    found, alone = sr.audit(boards_of(3)), sr.audit(boards_of(1))
    assert [len(board.intervals) for board in found.boards] == [1, 0, 0]
    assert found.boards[0].ranking == alone.boards[0].ranking
    assert found.boards[0].clients == alone.boards[0].clients
    assert {item // 100 for item in found.boards[2].ranking} == {2}


@pytest.mark.parametrize(
    ("value", "end"), [(0.0, 1.0), (0.99, 1.0), (1.0, 1.0), (1.04, 1.2), (0.067, 0.08), (11.0, 12.0), (7.3e-5, 8e-5)]
)
def test_scales_end_at_numbers_that_are_short(value, end):
    assert drawing.round_up(value) == end


def test_a_board_with_nothing_but_a_client_that_stands_out_has_its_place_on_the_page():
    found = sr.audit(boards_of(3))
    client = SuspectClient("a bot", 30, 30, 3.0, 0, 0.999, "clicks")
    boards = [found.boards[0], dataclasses.replace(found.boards[1], clients=[client], n_clients=1), found.boards[2]]
    text = audit_page.page(dataclasses.replace(found, boards=boards))
    assert "a bot" in text
    assert "1 client stands out." in text


def test_a_page_of_many_boards_says_what_it_leaves_out(monkeypatch):
    monkeypatch.setattr(audit_page, "SHOWN_BOARDS", 2)
    found = sr.audit(boards_of(3))
    assert "The 2 most suspect of 3 boards." in audit_page.page(found)
    assert "most suspect of" not in audit_page.page(sr.audit(boards_of(1)))


def test_tables_of_boards_can_be_joined(tmp_path):
    frame = pl.concat([boards_of(1), boards_of(1).with_columns(board=7)])
    found = sr.audit(frame)
    found.write_parquet(tmp_path / "flagged")
    intervals, rows = (
        pl.read_parquet(tmp_path / "flagged" / f"{name}.parquet") for name in ("intervals", "impressions")
    )
    joined = rows.join(intervals, on=["board", "interval"])
    assert joined.height == rows.height == intervals["impressions"].sum() > 0
    assert joined.filter(~pl.col("row").is_between("start_row", "end_row", closed="left")).is_empty()


def test_edges_lie_in_their_ranges_where_boards_take_turns():
    (part,) = sr.audit(boards_of(3)).intervals
    assert part.start_rows[0] <= part.start_row <= part.start_rows[1]
    assert part.end_rows[0] <= part.end_row <= part.end_rows[1]
    assert {row % 3 for row in part.start_rows} == {0}  # the first board has every third row
    assert {row % 3 for row in (*part.end_rows, part.end_row)} == {1}  # before which its intervals end
