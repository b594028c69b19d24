"""Names are text: numbers are refused with the text to write. In files of lists a whole number is its text."""

import json
import sys

import numpy as np
import polars as pl
import pytest

import steadyrank as sr
from steadyrank.cli import main
from steadyrank.cli.logs import lists_of, whole_lists
from steadyrank.click_logs.click_log import read

pytestmark = pytest.mark.pure

RANKER = {
    "rank": lambda ranker, name: ranker.rank([name]),
    "rank, skip": lambda ranker, name: ranker.rank(["1", name], unknown="skip"),
    "rank, add": lambda ranker, name: ranker.rank(["1", name], unknown="add"),
    "exclude": lambda ranker, name: ranker.rank(rules={"exclude": [name]}),
    "pins": lambda ranker, name: ranker.rank(rules={"pins": {name: 1}}),
    "groups": lambda ranker, name: ranker.rank(rules={"groups": {"g": {"items": [name], "most": 1}}}),
    "observe": lambda ranker, name: ranker.observe([name], clicked=None),
    "observe, clicked": lambda ranker, name: ranker.observe(["1"], clicked=name),
    "feedback": lambda ranker, name: ranker.feedback(ranker.rank().id, clicked=name),
    "learn": lambda ranker, name: ranker.learn([([name], None)]),
    "add": lambda ranker, name: ranker.add(name),
    "retire": lambda ranker, name: ranker.retire(name),
}
COLLECTION = {
    "query": lambda collection, name: collection.rank(name, ["1"]),
    "rank": lambda collection, name: collection.rank("q", ["1", name]),
    "observe": lambda collection, name: collection.observe("q", ["1"], clicked=name),
    "feedback": lambda collection, name: collection.feedback(collection.rank("q", ["1"]).id, clicked=name),
}
NUMBERS = [(7, '7: write "7"'), (np.int64(7), ': write "7"'), (7.0, r"not 7\.0$"), (True, "not True$")]


@pytest.mark.parametrize("name", RANKER)
def test_a_ranker_refuses_numbers_and_says_which_text_is_meant(name):
    ranker = sr.Ranker(["1", "2"], 1, "Random")
    for number, words in NUMBERS:
        with pytest.raises(ValueError, match=words):
            RANKER[name](ranker, number)
    assert [standing.item for standing in ranker.standings()] == ["1", "2"]


@pytest.mark.parametrize("name", COLLECTION)
def test_a_collection_refuses_numbers_and_says_which_text_is_meant(name):
    collection = sr.Collection(length=2)
    for number, words in NUMBERS:
        with pytest.raises(ValueError, match=words):
            COLLECTION[name](collection, number)


def test_new_rankers_and_past_clicks_refuse_numbers():
    with pytest.raises(ValueError, match='not 1: write "1"'):
        sr.Ranker([1, 2], 1, "Random")
    with pytest.raises(ValueError, match=r'row 1 of the log: an answer is .*, not 1: write "1"'):
        sr.Ranker(["1"], 1, "Random").learn([(["1"], 1)])


ROWS = [
    {"impression": i, "item": k, "position": k, "clicked": int(k == 2), "client": i % 5, "time": i}
    for i in range(30)
    for k in (1, 2, 3)
]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "floats"])
def test_files_read_whole_numbers_as_their_text(tmp_path, kind):
    frame, path = pl.DataFrame(ROWS), tmp_path / f"log.{'parquet' if kind == 'floats' else kind}"
    if kind == "floats":  # as pandas has a column with a gap in it
        frame = frame.with_columns(pl.col("item", "client").cast(pl.Float64))
    getattr(frame, {"csv": "write_csv", "jsonl": "write_ndjson"}.get(kind, "write_parquet"))(path)
    log = read([path], {})
    assert [items for _, items, _ in lists_of(log, 2, None)] == [["1", "2"]] * 30
    assert [items for _, items, _, _ in whole_lists(log, 0)] == [["1", "2", "3"]] * 30


def test_lists_to_compare_may_have_whole_numbers(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)  # where people watch, they see how far it is
    for client, ok in ((7, True), ("7", True), (7.5, False), (True, False)):
        rows = [{"items": [1, 2], "clicked": None, "client": client}] * 3
        (tmp_path / "lists.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        code = main(["compare-rankers", str(tmp_path / "lists.jsonl"), "--learner", "Random"])
        said = capsys.readouterr()
        assert (code == 0) == ok
        assert ("3/3" in said.err) == ok
        assert ("ours, most often" in said.out) if ok else (f"not {client!r}" in said.err)
