"""Click logs of other systems as a board's history: read as the audit reads them, checked as a whole, learnt once."""

import json

import polars as pl
import pytest

from service_tools import Server
from steadyrank.cli import history, main
from steadyrank.service.http import board_routes
from test_audit_formats import PERSONALIZE, ga4


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("history")
    server = Server(f"sqlite:///{folder}/store.db", folder / "log").wait()
    Server.running.remove(server)  # it outlives a test
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture
def send(server, tmp_path, capsys):
    def run(board, rows, *options):
        path = tmp_path / "log.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        code = main(["history", board, str(path), "--server", server.address, *options])
        return code, capsys.readouterr()

    return run


def counts(server, board):
    state = server.client().state(board)
    return {item["item"]: (item["looks"], item["clicks"]) for item in state["items"] if item["looks"]}


def make(server, board, length=3):
    server.client().put_board(board, items=["a"], length=length, learner="CascadeTS", guard="Anyone")


@pytest.mark.parametrize(("board", "rows"), [("ga4", ga4(1)), ("personalize", PERSONALIZE)])
def test_logs_of_other_systems_are_learnt_from_once(server, send, board, rows):
    make(server, board)
    code, said = send(board, rows, "--dry-run")
    assert (code, counts(server, board)) == (0, {})
    assert f"Read as {board}" in said.out
    assert "2 lists, 1 with a click, of 3 items in all" in said.out
    code, said = send(board, rows, "--format", board)
    assert (code, said.out.splitlines()[-1]) == (0, "2 lists learnt from, 0 known before")
    found = {"a": (2, 0), "b": (1, 1), "c": (1, 0)}  # lists a, b clicked, c; and c, a
    assert counts(server, board) == found
    code, said = send(board, rows)
    assert (code, said.out.splitlines()[-1]) == (0, "0 lists learnt from, 2 known before")
    assert counts(server, board) == found


def test_lists_are_cut_sent_in_parts_and_chosen_by_board(server, send, monkeypatch):
    monkeypatch.setattr(history, "ROWS", 2)
    make(server, "short", 2)
    rows = [{"surface": "x" if n % 2 else "short", "items": list("abc"), "clicked": "c"} for n in range(10)]
    rows.append({"surface": "short", "items": list("aa"), "clicked": None})
    code, said = send("short", rows, "--board-column", "surface")
    assert (code, counts(server, "short")) == (0, {"a": (5, 0), "b": (5, 0)})
    assert "5 lists, 0 with a click, of 2 items in all, for board short; 1 left out" in said.out
    code, said = send("short", rows, "--board-column", "surface", "--of", "x")
    assert said.out.splitlines()[-1] == "0 lists learnt from, 5 known before"  # the same lists
    code, said = send("short", rows, "--board-column", "surface", "--of", "y")
    assert code == 2
    assert "the log has no board 'y'; --of NAME says which to take: short, x" in said.err


def test_lists_of_a_clean_log_are_taken_by_their_weight_and_the_same_ones_again(server, tmp_path, capsys):
    weight = [1.0] * 100 + [0.5] * 200 + [0.0] * 100
    rows = {"items": [["a", "b"]] * 400, "clicked": [["a"]] * 200 + [["b"]] * 200, "weight": weight}
    pl.DataFrame(rows).write_parquet(tmp_path / "clean.parquet")
    make(server, "weighed")
    command = ["history", "weighed", str(tmp_path / "clean.parquet"), "--server", server.address]
    assert main(command) == 0
    taken = counts(server, "weighed")["a"][0]
    assert 165 <= taken <= 235  # 100 and half of 200, within five standard deviations
    assert f"; {400 - taken} left out, by their weight or" in capsys.readouterr().out
    assert main(command) == 0
    assert f"0 lists learnt from, {taken} known before" in capsys.readouterr().out
    assert main([*command, "--seed", "1", "--dry-run"]) == 0
    assert f"; {400 - taken} left out" not in capsys.readouterr().out  # another seed, another choice


def test_bad_logs_are_refused_before_anything_is_sent(server, send, monkeypatch):
    make(server, "bad")
    good = [{"items": ["a", "b"], "clicked": "a"}] * 5_000
    for last, words in [
        ({"items": ["a", "x" * 501], "clicked": None}, "1 to 500 characters"),
        ({"items": ["a", ".."], "clicked": None}, r"no . or .., not '..' (list 5001)"),
    ]:
        code, said = send("bad", [*good, last])
        assert (code, words in said.err) == (2, True), said.err
    code, said = send("bad", good + [{"items": "?", "clicked": 9}] * 100)
    assert (code, "rows cannot be used" in said.err) == (2, True), said.err
    assert counts(server, "bad") == {}
    code, said = send("nowhere", good)
    assert (code, "no board 'nowhere'" in said.err) == (2, True)
    assert history.MOST_ITEMS == board_routes._MOST_ITEMS
    monkeypatch.setattr(history, "MOST_ITEMS", 2)
    code, said = send("bad", [{"items": ["a", "b", "c"], "clicked": None}])
    assert (code, "at most 2 items: it has 1, and 2 are new" in said.err) == (2, True)


KINDS = {"items": {"year": [1950, 2030]}, "visits": {"age": [0, 100], "land": ["1", "2"]}}


def make_known(server, board, **settings):
    """A board of segments, or one of features."""
    learner = "SteadyRankSegments" if "segments" in settings else "SteadyRankLinear"
    server.client().put_board(board, items=["a", "b"], length=2, learner=learner, guard="Anyone", **settings)


def visits(server, board):
    """Visits without a segment, and of each segment."""
    return [one["view"]["rounds"] for one in server.client().state(board)["segments"]]


def sent_by(server, board, *arguments):
    """What the server would be sent."""
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(history, "_send", lambda client, board, rows: found.extend(rows) or len(rows))
        assert main(["history", board, *map(str, arguments), "--server", server.address]) == 0
    return [row.get("features") or row.get("segment") for row in found]


def test_logs_say_which_segment_a_visit_is_of(server, send, tmp_path):
    make_known(server, "parts", segments=["phone", "desktop"])
    rows = [
        {"items": ["a", "b"], "clicked": "b", "segment": each, "device": "desktop"}
        for each in ("phone", "desktop", "phone", None)
    ]
    code, said = send("parts", rows)
    assert (code, visits(server, "parts")) == (0, [1, 2, 1])
    assert "Known of visits: segment from column segment." in said.out
    code, said = send("parts", rows, "--segment", "device")
    assert (code, visits(server, "parts")) == (0, [1, 2, 5])
    code, said = send("parts", [{"items": ["a"], "clicked": None}])
    assert (code, visits(server, "parts")) == (0, [2, 2, 5])
    assert "The log has no column segment, so visits count as without; --segment COLUMN names one." in said.out
    shown = [  # one row a shown item: the first one of a list says it, also where they stand apart
        {"impression_id": n, "position": p, "item_id": "ab"[p], "clicked": 0, "segment": ["phone", "desktop"][n % 2]}
        for p in (0, 1)
        for n in (1, 2, 3)
    ]
    path = tmp_path / "shown.csv"
    pl.DataFrame(shown).write_csv(path)
    assert sent_by(server, "parts", path) == ["desktop", "phone", "desktop"]


def test_logs_say_what_came_of_clicks(server, send):
    """A row a list, with the price paid; what cannot be is refused before anything is sent."""
    server.client().put_board("paid", items=["a"], length=2, learner="CascadeTS", guard="Anyone")
    rows = [
        {"items": ["a", "b"], "clicked": "b", "paid": 4.5},
        {"items": ["b", "a"], "clicked": None, "paid": 0.0},
        {"items": ["b", "a", "c"], "clicked": "c", "paid": 2.0},  # clicked below the board's places
    ]
    code, said = send("paid", rows, "--value", "paid")
    assert (code, server.client().board("paid")["outcomes"]) == (0, 1)
    assert "; 1 clicks have a value" in said.out
    for column, wrong, words in (
        ("price", rows, "price"),
        ("paid", [{"items": ["a"], "clicked": "a", "paid": -1.0}], "at least 0, not -1.0"),
        ("paid", [{"items": ["a", "b"], "clicked": [1, 1], "paid": 3.0}], "of one click, and there are 2"),
        ("clicked", [{"impression": 1, "item": x, "clicked": 1} for x in "ab"], "only logs with one row per list"),
    ):
        code, said = send("paid", wrong, "--value", column)
        assert (code, words in said.err) == (2, True), said.err
    assert server.client().board("paid")["outcomes"] == 1


def test_logs_of_ubi_say_segments_and_features_as_the_service_takes_them(server, send, tmp_path):
    make_known(server, "ubi-parts", segments=["phone"])
    make_known(server, "ubi-known", features=KINDS)
    rows = [
        {"query_id": str(n), "query_response_hit_ids": ["a", "b"], "query_attributes": about, "timestamp": n}
        for n, about in enumerate([{"segment": "phone"}, {"features": {"age": 3, "land": "2"}}, {"features": {}}])
    ]
    events = [{"query_id": "1", "action_name": "click", "event_attributes": {"object": {"object_id": "b"}}}]
    seen = {"object": {"object_id": "a"}, "position": {"ordinal": 1}}
    events.insert(0, {"query_id": "0", "action_name": "impression", "event_attributes": seen, "timestamp": 0})
    assert send("ubi-parts", events + rows)[0] == 0  # what is seen first is a list, its query says the rest
    assert visits(server, "ubi-parts") == [2, 1]
    path = tmp_path / "log.jsonl"
    assert sent_by(server, "ubi-known", path) == [None, {"age": 3, "land": "2"}, None]
    rows[2]["query_attributes"] = {"features": {"aeg": 4}}
    code, said = send("ubi-known", rows)
    assert (code, "row 2 of the log: unknown feature of a visit 'aeg': did you mean 'age'?" in said.err) == (2, True)


def test_logs_of_ubi_say_what_came_of_clicks(server, send):
    """Of lists with one click; what came of several is of none of them alone."""
    server.client().put_board("ubi-paid", items=["a"], length=2, learner="CascadeTS", guard="Anyone")

    def event(query, item, action="click"):
        about = {"object": {"object_id": item}, "price": 5}
        return {"query_id": query, "action_name": action, "timestamp": 9, "event_attributes": about}

    rows = [{"query_id": n, "query_response_hit_ids": ["a", "b", "c"], "timestamp": 1} for n in "123"]
    rows += [event("1", "b"), event("1", "b", "purchase"), event("2", "a"), event("3", "b"), event("3", "c")]
    rows += [event("3", "c", "purchase")]
    code, said = send("ubi-paid", rows, "--value", "purchase:price")
    assert (code, server.client().board("ubi-paid")["outcomes"]) == (0, 1)
    assert "1 clicks have a value; values of 1 lists with several clicks are left out" in said.out
    code, said = send("ubi-paid", rows, "--value", "price:")
    assert (code, "such as purchase:price" in said.err) == (2, True)


def test_logs_say_features_by_their_names_whatever_the_file(server, tmp_path, capsys):
    make_known(server, "known", features=KINDS)
    frame = pl.DataFrame(
        {"items": ["a|b"] * 3, "clicked": [1, 0, 0], "age": [31.5, None, 0.0], "country": [2, 1, None]}
    )
    found = [{"age": 31.5, "land": "2"}, {"land": "1"}, {"age": 0.0}]
    for name, write in [
        ("l.csv", frame.write_csv),
        ("l.parquet", frame.write_parquet),
        ("l.jsonl", frame.write_ndjson),
    ]:
        write(tmp_path / name)
        assert sent_by(server, "known", tmp_path / name, "--feature", "land=country") == found
    assert "Known of visits: land from column country, age from column age." in capsys.readouterr().out
    (tmp_path / "more.csv").write_text("items,clicked,age\na|b|c,2\na|b,1,7\n")  # a broken line, in a second file
    logs = [str(tmp_path / "l.csv"), str(tmp_path / "more.csv"), "--most-broken", "50%"]
    assert sent_by(server, "known", *logs) == [{"age": 31.5}, None, {"age": 0.0}, {"age": 7.0}]


def test_what_a_board_cannot_know_of_visits_is_refused_before_anything_is_sent(server, send, tmp_path, capsys):
    make(server, "plain")
    make_known(server, "few", segments=["phone"])
    make_known(server, "wrong", features=KINDS)
    good = {"items": ["a", "b"], "clicked": "a", "age": 3, "land": "1", "segment": "phone"}
    for board, more, options, words in [
        ("few", {"segment": "fax"}, (), "row 1 of the log: feature 'segment' is one of phone, not 'fax'"),
        ("wrong", {"age": 101}, (), "row 1 of the log: feature 'age' is a number from 0 to 100, not 101"),
        ("wrong", {"age": float("nan")}, (), "row 1 of the log: feature 'age' is a number from 0 to 100, not nan"),
        ("wrong", {"age": "old"}, (), "feature 'age' is a number from 0 to 100, not 'old'"),
        ("wrong", {"land": "3"}, (), "row 1 of the log: feature 'land' is one of 1, 2, not '3'"),
        ("wrong", {}, ("--feature", "ag=age"), "unknown feature of a visit 'ag': did you mean 'age'?"),
        ("wrong", {}, ("--feature", "age"), "--feature age: NAME=COLUMN is needed"),
        ("wrong", {}, ("--feature", "age=aeg"), "unknown column 'aeg': did you mean 'age'"),
        ("wrong", {}, ("--segment", "segment"), "--segment segment: board wrong has no segments"),
        ("few", {}, ("--feature", "age=age"), "--feature age=age: board few declares no features of visits"),
        ("plain", {}, ("--segment", "segment"), "--segment segment: board plain has no segments"),
    ]:
        code, said = send(board, [good, good | more], *options)
        assert (code, words in said.err) == (2, True), said.err
    for name in ("nan.parquet", "nan.csv"):
        frame = pl.DataFrame({"items": ["a|b"], "clicked": [1], "age": [float("nan")]})
        (frame.write_csv if name.endswith("csv") else frame.write_parquet)(tmp_path / name)
        assert main(["history", "wrong", str(tmp_path / name), "--server", server.address]) == 2
        assert "row 0 of the log: feature 'age' is a number from 0 to 100, not nan" in capsys.readouterr().err
    for board in ("few", "wrong", "plain"):
        assert counts(server, board) == {}
    assert send("plain", [good])[0] == 0  # a board that declares nothing looks at nothing


def test_a_board_that_is_missing_is_offered_and_made(server, send):
    rows = [{"items": ["a", "b", "c"], "clicked": "b"}, {"items": ["c", "d"], "clicked": "c"}]
    code, said = send("none-yet", rows)
    assert code == 2
    assert "has no board 'none-yet': --make creates it, with the items of the log" in said.err
    code, said = send("none-yet", rows, "--make", "--dry-run")
    assert (code, "none-yet" in [board["board"] for board in server.client().boards()]) == (0, False)
    code, said = send("none-yet", rows, "--make")
    assert (code, said.out.splitlines()[-2]) == (0, "board none-yet is created, with lists of 3")
    assert counts(server, "none-yet") == {"a": (1, 0), "b": (1, 1), "c": (1, 1)}
    code, said = send("none-yet", rows, "--make")  # it is there by now
    assert (code, said.out.splitlines()[-1]) == (0, "0 lists learnt from, 2 known before")
    code, said = send("brief", rows, "--make", "--length", "1")
    assert (code, server.client().board("brief")["length"]) == (0, 1)
    code, said = send("brief", rows, "--length", "1")
    assert (code, "--length 1 is for a new board: it needs --make" in said.err) == (2, True)
