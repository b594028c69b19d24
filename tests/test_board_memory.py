"""A board that would take too much memory is refused before any of it is taken, with its arithmetic."""

import contextlib
import resource
import tracemalloc

import pytest

import steadyrank as sr
from service_tools import ITEMS, serving
from steadyrank.core.memory_limit import MOST_BYTES
from steadyrank.live.board_memory import memory_of, room_for
from steadyrank.service.board.checks import check, check_memory
from steadyrank.service.board.config import Config, FeatureKinds
from steadyrank.service.storage import open_store
from steadyrank.service.worker.transfer import export, read_board

pytestmark = pytest.mark.pure

FIFTY = [f"segment {k}" for k in range(50)]
SEGMENTED = Config(learner="SteadyRankSegments", segments=FIFTY)
NAMES = [f"item {k:06}" for k in range(4_000)]


def test_it_takes_what_was_computed():
    linear = FeatureKinds(items={f"feature {k}": [0, 1] for k in range(20)})
    for config in (Config(), SEGMENTED, Config(learner="SteadyRankLinear", features=linear)):
        state = check(config, [str(k) for k in range(5_000)])
        taken = sum(array.nbytes for array in state.arrays().values())
        told = memory_of(check(config, ["any"])).bytes_of(5_000, 0) - 150 * 5_000
        assert told == pytest.approx(taken, rel=0.02)


def test_the_most_items_are_just_within_the_bound():
    memory = memory_of(check(SEGMENTED, ["any"]))
    most = memory.most_items(MOST_BYTES, 100_000)
    memory.check(most, 100_000, MOST_BYTES)
    with pytest.raises(ValueError, match=f"at most {most:,} items with 50 segments"):
        memory.check(most + 1, 100_000, MOST_BYTES)
    assert memory_of(check(Config(), ["any"])).most_items(MOST_BYTES, 100_000) > 2_000_000  # a million, and room
    assert [room_for(n, 12) for n in (12, 13, 25)] == [12, 24, 48]


def test_so_many_lists_that_they_take_it_all_are_told_of():
    with pytest.raises(sr.Refused, match=r"of it for 10,000,000 lists remembered \(most_open\)"):
        check_memory(Config(length=1, most_open=10_000_000), 1, 1 << 30)


def test_in_process_it_is_refused_before_it_is_taken():
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"50 segments x 400,000 items need 4\.8 GB; a board may take 2\.1 GB"):
            sr.Ranker(map(str, range(400_000)), 10, "SteadyRankSegments", segments=FIFTY)
        assert tracemalloc.get_traced_memory()[1] < 400 << 20
    finally:
        tracemalloc.stop()


def test_items_that_are_added_in_process_are_refused_as_well(monkeypatch):
    ranker = sr.Ranker(NAMES, 4)
    monkeypatch.setattr("steadyrank.live.ranker.MOST_BYTES", 20_000_000)
    with pytest.raises(ValueError, match=r"4,001 items, with room for 8,000, as memory doubles, need \d+ MB"):
        ranker.add("one more")
    for refused in (
        lambda: ranker.observe(["one more"]),
        lambda: ranker.rank(["one more"], unknown="add"),
        lambda: ranker.learn([(["one more"], None)]),
    ):
        with pytest.raises(ValueError, match="4,001 items"):
            refused()
    assert len(ranker.standings()) == len(NAMES)


async def test_a_board_that_needs_too_much_memory_is_refused_with_its_arithmetic(tmp_path):
    body = {"items": [str(k) for k in range(100_000)], "learner": "SteadyRankSegments", "segments": FIFTY}
    async with serving(f"sqlite:///{tmp_path}/store.db") as local:
        local.worker.most_bytes = 1_000_000_000
        await local.ask("PUT", "boards/small", body | {"items": ITEMS})  # what has to be compiled is
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        answer = await local.ask("PUT", "boards/b", body, 422)
        assert answer["message"] == (
            "50 segments x 100,000 items need 1.2 GB; a board may take 1.0 GB: at most 81,427 items with 50 segments"
        )
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KiB, names and JSON among it
        await local.ask("GET", "boards/b", code=404)


async def test_each_way_to_more_memory_is_refused_and_changes_nothing(tmp_path):
    url = f"sqlite:///{tmp_path}/store.db"
    async with serving(url) as local:
        await local.ask("PUT", "boards/b", {"items": NAMES, "length": 4, "settle": 0, "most_open": 1_000})
        local.worker.most_bytes, before = 3_300_000, local.digest()
        more = "4,001 items, with room for 8,000, as memory doubles, need 3 MB; a board may take 3 MB: at most"
        past = {"rows": [{"items": ["new"], "clicked": None}]}
        for method, path, body, words in [
            ("POST", "boards/b/items", {"items": ["new"]}, more),
            ("PUT", "boards/b", {"items": [*NAMES[:9], "new"]}, more),
            ("POST", "boards/b/observe", {"id": "x", "items": ["new"]}, more),
            ("POST", "boards/b/rank", {"candidates": ["new"], "unknown": "add"}, more),
            ("POST", "boards/b/history", past, more),
            ("PUT", "boards/b", {"most_open": 1_000_000}, "lists remembered (most_open)"),
            ("PUT", "boards/b", {"learner": "SteadyRankSegments", "segments": FIFTY}, "50 segments x 4,000 items"),
            ("PUT", "boards/c", {"items": NAMES, "length": 4}, "4,000 items need"),
        ]:
            answer = await local.ask(method, path, body, 422)
            assert words in answer["message"], answer
        assert local.digest() == before
        await local.ask("GET", "boards/c", code=404)
        assert (await local.ask("POST", "boards/b/items", {"items": NAMES[:5]}))["items"] == len(NAMES)
    with contextlib.closing(open_store(url)) as store:
        export(store, "b", tmp_path / "b.jsonl", False, lambda _: None)
    with pytest.raises(ValueError, match=r"b\.jsonl cannot be brought in: 4,000 items need 2 MB"):
        read_board(tmp_path / "b.jsonl", most=1_500_000)
    assert len(read_board(tmp_path / "b.jsonl").entries) == 2
