import gzip
import json
import os
import subprocess
import sys
from types import SimpleNamespace

import audit_power
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import browser
import steadyrank as sr
from steadyrank.audit.sentences import moment
from steadyrank.audit.show.audit_page import page
from steadyrank.cli import main
from steadyrank.click_logs import files
from steadyrank.click_logs.click_log import read
from steadyrank.core.compiling.jit import cache_root

pytestmark = pytest.mark.pure

N, K, D = 3_000, 20, 5
ATTRACTION = np.linspace(0.5, 0.02, K)


def lists_and_clicks(seed=0, attacked=(1000, 1300)):
    """Random lists; in the attack only bad items are clicked. Positions from 0, -1 for no click."""
    rng = np.random.default_rng(seed)
    lists = np.array([rng.permutation(K)[:D] for _ in range(N)])
    bits = rng.random((N, D)) < ATTRACTION[lists]
    false = slice(*attacked)
    bits[false] = lists[false] >= K // 2
    return lists, np.where(bits.any(axis=1), bits.argmax(axis=1), -1)


LISTS, PLACES = lists_and_clicks()
NAMES = [[f"item {k}" for k in row] for row in LISTS]
CLICKED = [None if p < 0 else int(p) + 1 for p in PLACES]
TIMES = [f"2026-03-0{1 + i // 1000}T{i % 1000 // 60:02d}:{i % 1000 % 60:02d}:00" for i in range(N)]
PLAIN = pl.DataFrame({"items": NAMES, "clicked": CLICKED})


def shown_items():
    """The same log, one row a shown item."""
    return pl.DataFrame(
        [
            {"impression_id": f"x{i}", "position": p + 1, "item": name, "click": int(PLACES[i] == p)}
            for i, row in enumerate(NAMES) for p, name in enumerate(row)
        ]
    )  # fmt: skip


def same(log):
    """Whether the log is the one above."""
    examined = np.where(PLACES < 0, D, PLACES + 1)
    assert np.diff(log.impressions.first).tolist() == examined.tolist()
    assert [log.items[k] for k in log.impressions.item[: D * 2]] == [n for row, e in zip(NAMES, examined, strict=True)
        for n in row[:e]][: D * 2]  # fmt: skip
    ends = log.impressions.first[1:] - 1
    assert log.impressions.bits.sum() == log.impressions.bits[ends].sum() == (PLACES >= 0).sum()
    return True


def variants():
    text = PLAIN.with_columns(pl.col("items").list.join("|"))
    yield "list.parquet", PLAIN
    yield "list.jsonl", PLAIN
    yield "bars.csv", text
    yield "bars.tsv", text
    yield "semicolons.csv", PLAIN.with_columns(pl.col("items").list.join("; "))
    yield "json.csv", PLAIN.with_columns(pl.format('["{}"]', pl.col("items").list.join('", "')))
    yield "zero.parquet", PLAIN.with_columns(pl.Series("clicked", PLACES))
    yield (
        "by_item.parquet",
        PLAIN.with_columns(
            pl.Series("clicked", [None if p < 0 else row[p] for row, p in zip(NAMES, PLACES, strict=True)])
        ),
    )
    yield "bits.parquet", PLAIN.with_columns(pl.Series("clicked", [[p == q for q in range(D)] for p in PLACES]))
    yield (
        "named.jsonl",
        PLAIN.with_columns(
            pl.Series("clicked", [[] if p < 0 else [row[p]] for row, p in zip(NAMES, PLACES, strict=True)])
        ),
    )
    yield "rows.parquet", shown_items()
    yield "rows.csv", shown_items().with_columns(why=pl.lit("a column of this name"), list=pl.lit(1))
    yield "rows.jsonl", shown_items()
    together = pl.col("impression_id").str.slice(1).cast(pl.Int64) // 9  # nine impressions at a time, taking turns
    yield "scattered.parquet", shown_items().sort(together, "position", maintain_order=True)


def write(frame, path):
    if path.suffix == ".parquet":
        frame.write_parquet(path)
    elif path.suffix == ".jsonl":
        frame.write_ndjson(path)
    else:
        frame.write_csv(path, separator="\t" if path.suffix == ".tsv" else ",")
    return path


@pytest.mark.parametrize(("name", "frame"), [pytest.param(*one, id=one[0]) for one in variants()])
def test_every_way_to_write_a_log_reads_the_same(tmp_path, monkeypatch, name, frame):
    monkeypatch.setattr(files, "BLOCK", 20_000)
    monkeypatch.setattr(files, "ROWS", 700)
    assert same(read([write(frame, tmp_path / name)], {}))


def test_a_log_may_be_a_frame_several_files_or_compressed(tmp_path):
    assert same(read([PLAIN], {}))
    parts = [write(PLAIN[a:b], tmp_path / f"{a}.jsonl") for a, b in ((0, 100), (100, 2000), (2000, N))]
    log = read(parts, {})
    assert same(log)
    assert log.row.tolist() == list(range(N))
    packed = tmp_path / "log.jsonl.gz"
    packed.write_bytes(gzip.compress(b"".join(part.read_bytes() for part in parts)))
    assert same(read([packed], {}))


def test_rows_are_put_in_order_of_time_and_keep_their_numbers(tmp_path):
    order = np.random.default_rng(1).permutation(N)
    frame = PLAIN.with_columns(pl.Series("time", TIMES))[order]
    log = read([frame], {})
    assert log.dated
    assert same(log)
    assert log.row.tolist() == np.argsort(order).tolist()


def test_integers_stay_integers():
    log = read([pl.DataFrame({"ranking": LISTS.tolist(), "clicked_position": CLICKED})], {})
    assert sorted(log.items) == list(range(K))


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), min_size=1, max_size=8)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.lists(TEXT.filter(lambda t: t.strip() == t), min_size=1, max_size=4, unique=True), st.integers(0, 4)
        ),
        min_size=1,
        max_size=30,
    )
)
def test_any_names_read_back(tmp_path_factory, rows):
    rows = [(items, min(click, len(items))) for items, click in rows]
    folder = tmp_path_factory.mktemp("log")
    flat = pl.DataFrame(
        [
            {"impression": i, "position": p, "item": name, "clicked": int(p + 1 == click)}
            for i, (items, click) in enumerate(rows) for p, name in enumerate(items)
        ]
    )  # fmt: skip
    expected = [(name, p + 1 == c) for items, c in rows for p, name in enumerate(items[: c or len(items)])]
    for kind in ("parquet", "csv", "jsonl"):
        log = read([write(flat, folder / f"log.{kind}")], {}, most_broken=0.0)
        found = zip([log.items[k] for k in log.impressions.item], log.impressions.bits.tolist(), strict=True)
        assert list(found) == expected


BROKEN = {
    "no items": ("", "1"),
    "an item without a name": ("a||b", "1"),
    "the click is not in the list": ("a|b", "7"),
}


@pytest.mark.parametrize("why", BROKEN)
def test_rows_that_cannot_be_used_are_counted_and_shown(tmp_path, why):
    items, clicked = BROKEN[why]
    lines = ["items,clicked", *(f"a|b|c{i},2" for i in range(300)), f"{items},{clicked}", "x|y,1"]
    path = tmp_path / "log.csv"
    path.write_text("\n".join(lines))
    log = read([path], {})
    assert (log.rows, log.broken, log.impressions.n) == (302, 1, 301)
    assert log.examples[0][:2] == (300, why)
    with pytest.raises(ValueError, match=rf"1 of 302 rows cannot be used.*--most-broken.*row 300: {why}"):
        read([path], {}, most_broken=0.001)


def test_bytes_that_are_no_utf8_are_not_guessed(tmp_path):
    path = tmp_path / "log.csv"
    path.write_bytes(b"items,clicked\n" + b"a|b,1\n" * 200 + "caf\u00e9|b,1\n".encode("cp1252") + b"a|b,2\n")
    log = read([path], {})
    assert (log.rows, log.broken, log.impressions.n) == (202, 1, 201)
    assert log.examples[0] == (200, "not in UTF-8: save the file as that", "caf?|b,1")
    path.write_text("items;clicked\na|b;1\n", encoding="utf-16")
    with pytest.raises(ValueError, match=r"log.csv is not text in UTF-8, perhaps in UTF-16; save it as UTF-8"):
        read([path], {})


def test_dates_that_can_be_read_in_two_ways_are_refused(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("items,clicked,time\n" + "a|b,1,03/04/2026 10:20\n" * 9)
    with pytest.raises(
        ValueError, match="--time time: '03/04/2026 10:20' can be read in two ways; write times as 2026"
    ):
        read([path], {})
    assert read([path], {"time": ""}).impressions.n == 9


def test_rows_that_are_not_in_order_of_time_are_not_told_as_an_interval(tmp_path, capsys):
    order = np.random.default_rng(0).permutation(N)
    shuffled = PLAIN.with_columns(pl.Series("time", TIMES))[order.tolist()]
    write(shuffled, tmp_path / "log.parquet")
    found = sr.audit(shuffled)
    (part,) = found.intervals
    assert (part.ordered, part.impressions) == (False, 300)
    assert part.start_time == "2026-03-02T00:00:00+00:00"
    text = page(found)
    assert "Interval 1: 2026-03-02 00:00:00 UTC to 2026-03-02 04:59:00 UTC" in text
    assert "not in order of time, so its rows lie apart" in text
    assert "It begins between rows" not in text
    code, out, _ = audit(capsys, tmp_path / "log.parquet", "--page", tmp_path / "audit.html")
    assert code == 0
    assert "  2026-03-02 00:00:00 UTC to 2026-03-02 04:59:00 UTC: 29" in out
    assert "clicks in 300 impressions, where" in out
    assert "over 99.9 % sure" in out
    assert sr.audit(PLAIN).intervals[0].ordered


def test_times_are_told_as_people_write_them():
    assert moment("2026-03-02T15:31:58.815695+00:00") == "2026-03-02 15:31:58 UTC"
    assert moment(1772465518) == "1772465518 (2026-03-02 15:31:58 UTC)"
    assert moment(1772465518000) == "1772465518000 (2026-03-02 15:31:58 UTC)"
    assert (moment(41), moment(0.5)) == ("41", "0.5")


def test_few_impressions_are_said_to_be_few(tmp_path, capsys):
    write(PLAIN[:9], tmp_path / "log.parquet")
    code, out, _ = audit(capsys, tmp_path / "log.parquet", "--page", tmp_path / "audit.html")
    assert code == 0
    assert "Too few clicks to tell: 9 impressions, it would not have shown one that promotes three items" in out


def test_lines_that_are_none_are_counted_and_shown(tmp_path):
    csv, jsonl = tmp_path / "log.csv", tmp_path / "log.jsonl"
    csv.write_text("items,clicked\n" + "a|b,1\n" * 200 + "a|b,1,9,9\n" + "a|b,2\n")
    jsonl.write_text(
        '{"items": ["a", "b"], "clicked": 1}\n' * 200 + "{oops\n" + '{"items": ["a"], "clicked": null}\n'
    )
    for path, why in ((csv, "4 fields, not 2"), (jsonl, "no JSON object")):
        log = read([path], {})
        assert (log.rows, log.broken, log.impressions.n) == (202, 1, 201)
        assert log.examples[0].row == 200
        assert why in log.examples[0].why
        assert log.row.tolist() == [*range(200), 201]


@pytest.mark.parametrize(
    ("frame", "told", "words"),
    [
        ({"a": [1], "b": [2]}, {}, r"--items COLUMN.*--clicked COLUMN.*columns found: a \(Int64\), b \(Int64\)"),
        ({"item": ["x"], "shown": [1]}, {}, "--clicked COLUMN"),
        ({"items": [["x"]], "clicked": [1]}, {"items": "lists"}, "--items names 'lists', which is not a column"),
        ({"items": [3], "clicked": [1]}, {"items": "items"}, "values must be lists, not Int64"),
        ({"items": [["x"]], "clicked": [1]}, {"time": "when"}, "--time names 'when'"),
    ],
)
def test_columns_that_cannot_be_told_are_answered_with_those_found(frame, told, words):
    with pytest.raises(ValueError, match=words):
        read([pl.DataFrame(frame)], told)


def test_rows_without_a_board_or_a_time_are_broken():
    frame = PLAIN.with_columns(board=pl.lit("a"), time=pl.Series(TIMES))
    frame[5, "board"], frame[9, "time"] = None, "noon"
    log = read([frame], {})
    assert log.broken == 2
    assert [(b.row, b.why) for b in log.examples] == [(5, "no board"), (9, "a time that cannot be read")]
    rows = shown_items().with_columns(board=pl.lit("a"))
    rows[3, "board"] = None
    assert [(b.row, b.why) for b in read([rows], {}).examples] == [(3, "no board")]


def test_a_column_keeps_its_kind(tmp_path):
    with pytest.raises(ValueError, match=r"column .* holds Int64 at first, such as 1, and String later"):
        read([pl.DataFrame({"items": [[1]], "clicked": [1]}), pl.DataFrame({"items": [["x"]], "clicked": [1]})], {})


def test_files_that_are_no_logs_are_refused(tmp_path):
    (tmp_path / "log.txt").write_text("hello")
    (tmp_path / "log.parquet").write_text("hello")
    (tmp_path / "empty.csv").write_text("items,clicked\n")
    for name, words in (
        ("log.txt", "must end in"), ("none.csv", "is not a file"), ("log.parquet", "cannot be read as Parquet"),
        ("empty.csv", "holds no rows"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=words):
            sr.audit(tmp_path / name)
    with pytest.raises(ValueError, match="first_position must be 0 or 1, not 7"):
        sr.audit(PLAIN, first_position=7)
    with pytest.raises(ValueError, match="on must be local, ray"):
        sr.audit(PLAIN, on="mars")


def ray_env(home):
    """A Ray with a home of its own."""
    own = {"HOME": home, "RAY_TMPDIR": f"/tmp/ray-{os.getpid()}", "STEADYRANK_CACHE": cache_root()}
    return {**os.environ, **own, "RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}


@pytest.mark.always
@pytest.mark.slow  # Ray takes seconds to start
def test_boards_on_ray_say_the_same(tmp_path):
    """More boards than Ray is given at once, with clients who come to all of them, and to one alone."""
    n = 2 * os.cpu_count() + 2
    clients = [f"c{i % 50}" if not 1000 <= i < 1300 else f"bot{i % 3}" for i in range(N)]
    frame = PLAIN.with_columns(pl.Series("time", TIMES), pl.Series("client", clients))
    boards = [
        frame.with_columns(pl.lit(k).alias("board"), pl.col("client") + ("" if k else " of this board"))
        for k in range(n)
    ]
    pl.concat(boards).write_parquet(tmp_path / "log.parquet")
    command = [sys.executable, "-m", "steadyrank.cli", "audit", tmp_path / "log.parquet", "--json", "--on"]
    how = {"env": ray_env(tmp_path), "capture_output": True, "text": True, "timeout": 900}
    local, ray = (subprocess.run([*command, on], **how) for on in ("local", "ray"))
    assert local.returncode == ray.returncode == 0, ray.stderr
    told = json.loads(local.stdout)
    assert len(told["boards"]) == n
    assert told["n_clients"] == 6
    assert ray.stdout == local.stdout


@pytest.mark.always
@pytest.mark.slow  # Ray takes seconds to start
def test_a_ray_that_does_not_start_in_time_says_so(tmp_path):
    """Here Ray does not wait for its own processes; an audit waits longer for them than Ray itself does."""
    PLAIN.write_parquet(tmp_path / "log.parquet")
    command = [sys.executable, "-m", "steadyrank.cli", "audit", tmp_path / "log.parquet", "--on", "ray"]
    env = {**ray_env(tmp_path), "RAY_gcs_server_port_wait_time_s": "0"}
    ended = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 2
    assert "steadyrank audit: Ray did not start on this machine (Timed out" in ended.stderr
    assert "RAY_gcs_server_port_wait_time_s above 0, or without --on ray" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_ray_is_given_time_to_start_and_its_tasks_go_first(monkeypatch):
    """Beside others at work Ray's first process takes more than the 30 s of Ray, and tasks of nice 15 hardly run."""
    names, asked = ("RAY_gcs_server_port_wait_time_s", "RAY_worker_niceness"), []

    def start(**options):
        asked.extend(os.environ[name] for name in names)
        raise RuntimeError("Timed out waiting for file")

    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(init=start, is_initialized=lambda: bool(asked)))
    for name in names:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)  # what the audit sets is undone after the test
    with pytest.raises(ConnectionError, match=r"did not start on this machine \(Timed out.*without --on ray"):
        sr.audit(PLAIN, on="ray")
    with pytest.raises(ValueError, match="already uses Ray"):
        sr.audit(PLAIN, on="ray")
    assert asked == ["120", "0"]


def test_an_audit_says_when_what_and_how_surely():
    clients = [f"c{i % 50}" if not 1000 <= i < 1300 else f"bot{i % 3}" for i in range(N)]
    found = sr.audit(PLAIN.with_columns(pl.Series("time", TIMES), pl.Series("client", clients)))
    (part,) = found.intervals
    assert abs(part.start_row - 1000) <= 15 >= abs(part.end_row - 1300)
    assert part.start_rows[0] <= part.start_row <= part.start_rows[1]
    assert part.start_time == f"{TIMES[part.start_row]}+00:00"
    assert part.end_time == f"{TIMES[part.end_row - 1]}+00:00"
    assert part.certainty > 0.999
    assert {item["item"] for item in part.items if item["clicks"] > item["expected_clicks"]} <= {
        f"item {k}" for k in range(K // 2, K)
    }
    low, high = found.suspect_share
    assert 0.09 < low <= (part.end_row - part.start_row) / N <= high
    assert high == pytest.approx(part.impressions / N + found.boards[0].unseen / N, abs=0.02)
    (board,) = found.boards
    assert board.clean_ranking[:3] == ["item 0", "item 1", "item 2"]
    assert {client.client for client in board.clients} == {"bot0", "bot1", "bot2"}
    assert found.flagged["row"].to_list() == list(range(part.start_row, part.end_row))


def test_boards_are_audited_on_their_own():
    lists, places = lists_and_clicks(seed=5, attacked=(0, 0))
    honest = pl.DataFrame({"items": [[f"item {k}" for k in row] for row in lists], "clicked": places + 1})
    both = pl.concat([PLAIN.with_columns(board=pl.lit("sick")), honest.with_columns(board=pl.lit("well"))])
    mixed = both[np.argsort(np.concatenate([np.arange(N) * 2, np.arange(N) * 2 + 1]), kind="stable")]
    found = sr.audit(mixed)
    assert [(board.board, len(board.intervals)) for board in found.boards] == [("sick", 1), ("well", 0)]
    alone = sr.audit(PLAIN)
    (one,), (two,) = found.intervals, alone.intervals
    assert (one.start_row, one.end_row) == (2 * two.start_row, 2 * (two.end_row - 1) + 1)
    assert found.boards[0].ranking == alone.boards[0].ranking
    told = found.as_dict()
    assert told["ranking"] is None
    assert told["boards"][0]["ranking"] == alone.as_dict()["ranking"]


def audit(capsys, *arguments):
    code = main(["audit", *map(str, arguments)])
    return code, *capsys.readouterr()


def test_the_command_prints_json_and_exits_by_the_share(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = write(PLAIN, tmp_path / "log.parquet")
    code, out, _ = audit(capsys, path, "--json")
    told = json.loads(out)
    assert code == 0
    assert not (tmp_path / "audit.html").exists()
    low, high = told["suspect_share"]
    assert 0.0 < low <= high < 1.0
    part = told["intervals"][0]
    assert {"start_row", "end_row", "start_time", "end_time", "certainty", "items"} <= set(part)
    assert sorted(told["ranking"]) == sorted(told["clean_ranking"]) == sorted({n for row in NAMES for n in row})
    assert told["items"][0]["item"] in told["ranking"]
    assert audit(capsys, path, "--json", "--fail-above", "5%")[0] == 3
    assert audit(capsys, path, "--json", "--fail-above", "0.2")[0] == 0
    code, out, error = audit(capsys, path, "--json", "--fail-above", "lots")
    assert (code, out) == (2, "")
    assert "--fail-above must be a share such as 5% or 0.05, not 'lots'" in error
    assert audit(capsys)[0] == 2
    assert "is not a folder" in audit(capsys, path, "--page", tmp_path / "no" / "a.html")[2]


def test_the_command_writes_a_page_and_tables(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = write(PLAIN, tmp_path / "log.jsonl")
    code, out, _ = audit(capsys, path, "--parquet", tmp_path / "flagged")
    assert code == 0
    assert "read as: items: items, clicked: clicked" in out
    assert "% sure" in out
    assert (tmp_path / "audit.html").stat().st_size > 5_000
    intervals = pl.read_parquet(tmp_path / "flagged" / "intervals.parquet")
    rows = pl.read_parquet(tmp_path / "flagged" / "impressions.parquet")
    assert intervals.height == 1
    assert rows.height == intervals["impressions"][0] == intervals["end_row"][0] - intervals["start_row"][0]


def test_an_honest_log_writes_empty_tables(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lists, places = lists_and_clicks(seed=6, attacked=(0, 0))
    write(pl.DataFrame({"items": lists.tolist(), "clicked": places + 1}), tmp_path / "log.parquet")
    code, out, _ = audit(capsys, tmp_path / "log.parquet", "--parquet", tmp_path / "flagged", "--fail-above", "0")
    assert code == 0
    assert "Nothing suspect found in 3,000 impressions; of attacks in one go, it would have shown" in out
    assert pl.read_parquet(tmp_path / "flagged" / "intervals.parquet").height == 0
    assert pl.read_parquet(tmp_path / "flagged" / "impressions.parquet").height == 0
    assert "Nothing suspect found" in (tmp_path / "audit.html").read_text()


@pytest.mark.slow
def test_the_benchmark_of_power_draws_its_curve(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(audit_power, "IMPRESSIONS", 2_000)
    monkeypatch.setattr(audit_power, "LEARNERS", ("Random",))
    monkeypatch.setattr("sys.argv", ["audit_power.py", "--seeds", "1", "--page", "power.html"])
    audit_power.main()
    out = capsys.readouterr().out
    assert "flip, low attraction" in out
    assert "of 6 honest logs" in out
    ours, cusum, limit = (line for line in out.splitlines() if line.startswith(("this audit", "CUSUM", "rate limit")))
    assert all(line.count("%") == 5 and line.endswith("of 6") for line in (ours, cusum, limit))
    assert ours.endswith(" 0 of 6")
    assert "Beside simple detectors" in (tmp_path / "power.html").read_text()
    assert (tmp_path / "power.html").read_text().count("<svg") == 2


@pytest.mark.always
@browser.needed
@pytest.mark.parametrize(("width", "dark"), [(400, True), (1600, False)])
def test_the_page_is_whole_in_a_browser(tmp_path, width, dark):
    hostile = PLAIN.with_columns(pl.col("items").list.eval(pl.element() + "<img src=x onerror=alert(1)>"))
    found = sr.audit(hostile.with_columns(pl.Series("client", [f"<b>{i % 9}" for i in range(N)])))
    path = tmp_path / "audit.html"
    path.write_text(page(found), encoding="utf-8")
    with browser.opened(path.as_uri(), width, dark=dark) as (view, errors):
        assert "of 3,000 impressions are suspect" in view.text_content("header")
        assert view.locator("svg[role=img]").count() == 1
        assert view.locator("img").count() == 0
        assert view.locator("table").count() >= 3
        assert view.evaluate("document.documentElement.scrollWidth") <= width
        assert errors == []
