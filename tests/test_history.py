"""Click logs of other systems as a board's history: read as the audit reads them, checked as a whole, learnt once."""

import json

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
    assert "2 lists of 3 items, 1 with a click" in said.out
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
    assert "5 lists of 2 items, 0 with a click, for board short; 1 left out" in said.out
    code, said = send("short", rows, "--board-column", "surface", "--of", "x")
    assert said.out.splitlines()[-1] == "0 lists learnt from, 5 known before"  # the same lists
    code, said = send("short", rows, "--board-column", "surface", "--of", "y")
    assert code == 2
    assert "the log has no board 'y'; --of NAME says which to take: short, x" in said.err


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
