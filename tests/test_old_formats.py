"""Files and stores that earlier versions wrote are read, or refused by name with what to do.

Those in `old_formats` were written by the code of commit 13da9e6: a ranker, a board, and a store with a board whose
log is whole and one whose log was shortened.
"""

import gzip
import pathlib

import pytest

import steadyrank as sr
from service_tools import replayed, serving, sql
from steadyrank.cli import main
from steadyrank.live.archive import UnreadableSnapshot

OLD = pathlib.Path(__file__).parent / "old_formats"


def test_a_ranker_of_the_first_format_is_refused_by_name():
    with pytest.raises(
        UnreadableSnapshot, match=r"ranker-format-1.steadyrank has format 1, this version reads 5: load it"
    ):
        sr.Ranker.load(OLD / "ranker-format-1.steadyrank")


def test_a_board_of_the_third_format_is_refused_by_name(tmp_path, capsys):
    url = f"sqlite:///{tmp_path}/store.db"
    assert main(["import", str(OLD / "board-format-3.jsonl"), "--store", url]) == 2
    said = capsys.readouterr().err
    assert "board-format-3.jsonl cannot be read: it is a board of format 3, this version reads format 6" in said
    assert "open that store with this one" in said
    assert sql(url, "SELECT * FROM boards") == []


async def test_a_store_of_the_second_format_is_brought_up_to_date(tmp_path):
    """What is said of the format of a board's file: by way of the store, the board comes along."""
    path = tmp_path / "store.db"
    path.write_bytes(gzip.decompress((OLD / "store-format-2.db.gz").read_bytes()))
    url, other = f"sqlite:///{path}", f"sqlite:///{tmp_path}/other.db"
    async with serving(url, seed=3) as local:
        state = await local.ask("GET", "boards/old/state")
        board = state["board"]
        assert (board["impressions"], board["answers"], board["clicks"], board["items"]) == (8, 6, 6, 3)
        assert sum(item["clicks"] for item in state["items"]) == 6
        assert "old" not in local.worker.broken
        await local.ask("POST", "boards/short/rank", {}, 503)
        assert "has format 1, this version reads 5" in local.worker.broken["short"]
        await local.answer(await local.rank("old", client="visitor 1"), "old", clicked=None)
        assert sql(url, "SELECT number FROM clients") == [(0,)]
        digest = local.digest("old")
    assert replayed(url, "old") == digest
    assert main(["export", "old", "--out", str(tmp_path / "old.jsonl"), "--store", url]) == 0
    assert main(["import", str(tmp_path / "old.jsonl"), "--store", other]) == 0
    assert replayed(other, "old") == digest
