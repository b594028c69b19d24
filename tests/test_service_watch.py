"""What a page of a board shows, and the time line that it draws."""

import hypothesis.strategies as st
import msgspec
import numpy as np
import pytest
from hypothesis import given
from scipy.stats import beta

from service_tools import replayed, serving
from steadyrank.core.contract import Visit
from steadyrank.core.views import Change, View, bands
from steadyrank.service.board import events
from steadyrank.service.board.board import Board
from steadyrank.service.board.config import Config
from steadyrank.service.board.timeline import POINTS, Timeline
from steadyrank.service.board.watch_summary import interval, list_shown, scan_items

pytestmark = pytest.mark.pure


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/store.db"


async def test_what_a_page_shows(url):
    """Two items that are always clicked where they are shown, one that was retired, and lists still open."""
    async with serving(url) as local:
        await local.board(items=list("abcdef"), length=3, settle=0)
        for _ in range(40):
            shown = await local.rank()
            local.clocks.pass_time(10)
            clicked = next((item for item in shown["items"] if item in "ab"), None)
            await local.answer(shown, clicked=clicked)
        await local.ask("DELETE", "boards/b/items/b")
        left = [await local.rank() for _ in range(2)]
        await local.quiet()
        watched = await local.ask("GET", "boards/b/watch")
        state = await local.ask("GET", "boards/b/state")
        assert watched["board"] == state["board"] == await local.ask("GET", "boards/b")
        assert watched["event"] == watched["events"] == 1 + 2 * 40 + 1 + 2
        assert (watched["open"], watched["lag"], watched["stale"]) == (2, 0, False)
        assert (watched["first_event"], watched["first_round"], watched["labels"]) == (1, 1, [])
        assert watched["view"] == {key: state["view"][key] for key in watched["view"]}
        assert watched["saved"] == state["saved"]
        assert (state["saved"]["rounds"], state["saved"]["believed"]) == (0, [])
        assert state["saved"]["plain"][0] == "a"  # b was retired
        assert watched["bands"] == [{"start": 1, "end": 42, "regime": 1, "trusted": True}]
        items = {i["item"]: i for i in state["items"]}
        for i in watched["list"]:
            assert {k: v for k, v in i.items() if k not in ("low", "high")} == items[i["item"]]
        assert len({i["item"] for i in watched["list"]} - {"b"}) == 3
        assert watched["list"][0]["item"] == "a"
        assert all(0.0 <= i["low"] < i["estimate"] < i["high"] <= 1.0 for i in watched["list"])
        points = watched["timeline"]["points"]
        assert (watched["timeline"]["size"], len(points)) == (1, 42)
        assert [p["time"] for p in points] == [1.7e9 + 10 * t for t in range(40)] + [1.7e9 + 400] * 2
        assert [p["clicks"] for p in points][40:] == [0, 0]
        assert sum(p["clicks"] for p in points) == state["board"]["clicks"]
        assert sum(p["examined"] for p in points) == sum(i["looks"] for i in state["items"])
        again = await local.ask("GET", "boards/b/watch")
        assert again == watched
        await local.answer(left[0], clicked=None)
        assert (await local.ask("GET", "boards/b/watch"))["open"] == 1
        await local.ask("GET", "boards/none/watch", code=404)


async def test_a_learner_without_a_view_is_watched_without_estimates(url):
    async with serving(url) as local:
        await local.board(settle=0, learner="CascadeUCB1")
        for _ in range(20):
            shown = await local.rank()
            await local.answer(shown, clicked="item 3" if "item 3" in shown["items"] else None)
        watched = await local.ask("GET", "boards/b/watch")
        assert (watched["view"], watched["bands"], watched["diverging"]) == (None, [], [])
        assert watched["saved"] is None
        assert watched["list"][0]["item"] == (await local.rank())["items"][0] == "item 3"
        assert [(item["estimate"], item["low"], item["high"]) for item in watched["list"]] == [(None,) * 3] * 4


def test_items_whose_clicks_an_attack_moved_diverge():
    """For 1,000 rounds nobody clicks item 1 and everybody item 2; then it is the other way round for good."""
    board = Board.create(Config(length=1, settle=0, settings={"caution": 0.0}), [f"i{k}" for k in range(30)])
    for t in range(1, 4001):
        k = t % 30
        clicked = (t % 3 == 0) if k not in (1, 2) else (k == 2) == (t <= 1000)
        board.apply(events.Answered(t, t, t - 1, 0, [k], [], [0] if clicked else [], 1))
    seen = scan_items(board)
    first, second = bands(seen.view, board.impressions.rounds)
    assert (first.regime, first.trusted, second.regime, second.trusted) == (1, False, 2, True)
    assert abs(first.end - 1000) < 100
    assert second.end == 4000
    assert {item.item for item in seen.diverging[:2]} == {"i1", "i2"}
    for item in seen.diverging:
        assert not item.low <= item.rate <= item.high


def attacked():
    """For 2,000 rounds everybody clicks items 1 and 2; then bots click 3 and 4 alone for 400."""
    board = Board.create(Config(length=4, settle=0, settings={"revisit": 0.0}), [f"i{k}" for k in range(12)])
    rng = np.random.default_rng(0)
    for t in range(1, 2401):
        shown, _ = board.learner_state.rank(Visit(t), None, 4, rng)
        liked = (1, 2) if t <= 2000 else (3, 4)
        place = next((p for p, k in enumerate(shown.tolist()) if k in liked and rng.random() < 0.7), None)
        clicks, examined = ([], 4) if place is None else ([place], place + 1)
        board.apply(events.Answered(t, t, t - 1, 0, shown.tolist(), [], clicks, examined))
    return board


def test_while_bots_click_their_items_diverge_and_the_list_is_what_users_get():
    board = attacked()
    watched = scan_items(board)
    shown = list_shown(board, watched.view)
    assert (watched.view.current, watched.view.trusted) == (2, 1)
    pushed = {item.item for item in watched.diverging if item.rate > item.high}
    assert pushed == {"i3", "i4"}
    assert watched.diverging[0].item in pushed
    served = [
        set(board.learner_state.rank(Visit(2401), None, 4, np.random.default_rng(seed))[0].tolist())
        for seed in range(50)
    ]
    often = sorted(range(12), key=lambda k: -sum(k in slots for slots in served))[:4]
    assert {item.item for item in shown} == {f"i{k}" for k in often} >= {"i1", "i3"}
    assert list_shown(board, scan_items(board).view) == shown


def test_a_board_whose_items_are_all_retired_has_an_empty_list():
    board = Board.create(Config(length=2), ["a", "b"])
    for item in ("a", "b"):
        board.apply(events.Retired(item))
    assert list_shown(board, scan_items(board).view) == []


def test_bands_follow_the_changes_and_leave_no_gap():
    def view(*changes, current=1, trusted=1):
        return View((), current, trusted, 100, 0, 0.0, len(changes), tuple(Change(*c, 0.0) for c in changes))

    def ranges(view, rounds):
        return [(b.start, b.end, b.regime, b.trusted) for b in bands(view, rounds)]

    assert ranges(view(), 0) == []
    assert ranges(view(), 100) == [(1, 100, 1, True)]
    moved = view((40, 50, 1, 2), (60, 70, 2, 1), current=1)
    assert ranges(moved, 100) == [(1, 39, 1, True), (40, 59, 2, False), (60, 100, 1, True)]
    at_once = view((40, 50, 1, 2), (40, 60, 2, 3), (90, 95, 3, 1), trusted=3)
    assert ranges(at_once, 100) == [(1, 39, 1, False), (40, 89, 3, True), (90, 100, 1, False)]
    out_of_order = view((40, 50, 1, 2), (60, 70, 2, 3), (55, 80, 3, 4), current=4)
    assert ranges(out_of_order, 100) == [(1, 39, 1, True), (40, 54, 2, False), (55, 100, 4, False)]
    back = view((40, 50, 1, 2), (40, 60, 2, 1), current=1)
    assert ranges(back, 100) == [(1, 100, 1, True)]


def test_the_interval_is_close_to_that_of_the_beta_distribution():
    for a, b in ((3, 17), (30, 170), (40, 10), (500, 500), (20, 3000)):
        low, high = interval(np.array([a / (a + b)]), np.array([float(a + b)]))
        width = beta.ppf(0.975, a, b) - beta.ppf(0.025, a, b)
        assert abs(low[0] - beta.ppf(0.025, a, b)) < 0.12 * width
        assert abs(high[0] - beta.ppf(0.975, a, b)) < 0.12 * width
    low, high = interval(np.array([2 / 302]), np.array([302.0]))
    assert high[0] > beta.ppf(0.975, 2, 300)  # with few clicks it is wider
    low, high = interval(np.array([0.0, 1.0, 0.5]), np.array([1e-3, 1e-3, 2.0]))
    assert np.all((low >= 0.0) & (high <= 1.0) & (low < high))


async def test_a_page_stays_small_with_many_items_and_rounds(url):
    async with serving(url) as local:
        names = [f"a name of some length for item {k}" for k in range(5_000)]
        await local.board(items=names, length=10, settle=0)
        rng = np.random.default_rng(0)
        for batch in range(10):
            rows = [
                {
                    "items": [names[k] for k in rng.integers(0, 5_000, 10).tolist()],
                    "clicks": [int(batch < 7)] * 10,
                }
                for _ in range(1_000)
            ]
            rows = [row for row in rows if len(set(row["items"])) == 10]
            await local.ask("POST", "boards/b/history", {"rows": rows, "batch": f"{batch}"})
        got = await local.http.get("/v1/boards/b/watch")
        watched = got.json()
        assert len(got.content) < 40_000
        assert (len(watched["list"]), len(watched["diverging"])) == (10, 20)
        assert watched["timeline"]["size"] == 64
        assert POINTS / 2 < len(watched["timeline"]["points"]) <= POINTS
        assert {p["time"] for p in watched["timeline"]["points"]} == {None}
        assert sum(p["impressions"] for p in watched["timeline"]["points"]) == watched["board"]["rounds"] > 9_000


def test_feedback_that_is_impossible_is_in_the_time_line():
    board = Board.create(Config(length=3, settle=0, settings={"reject_impossible": True}), list("abcd"))
    board.apply(events.Answered(1, 1, 0, 0, [0, 1, 2], [], [0, 2], 3, 8.0))
    board.apply(events.Answered(2, 2, 1, 0, [0, 1, 2], [], [2], 3, 7.0))
    rows = [msgspec.structs.astuple(point) for point in board.feedback.timeline.summary().points]
    assert rows == [(1, 8.0, 1, 1, 2, 3, 1, 0), (2, 7.0, 1, 1, 1, 3, 0, 0)]
    assert board.learner_state.view().rejected == 1


rounds = st.one_of(st.integers(1, 300), st.integers(1, 100_000), st.integers(1, 2**60))
shows = st.tuples(rounds, st.one_of(st.just(0.0), st.floats(1.0, 2e9)))
learns = st.tuples(rounds, st.integers(0, 3), st.integers(0, 9), st.integers(0, 1), st.integers(0, 1))


@given(st.lists(st.one_of(shows, learns), max_size=60))
def test_joining_points_keeps_all_counts_and_the_earliest_times(rows):
    """Whatever comes in whatever order: as if the size of the points had been the last one from the beginning."""
    line = Timeline()
    for row in rows:
        (line.show if len(row) == 2 else line.learn)(*row)
    points = line.summary().points
    size = line.size
    assert size & (size - 1) == 0
    latest = max((row[0] for row in rows), default=0)
    assert len(points) == -(-latest // size) <= POINTS
    assert size == 1 or latest > POINTS * size // 2
    for i, point in enumerate(points):
        here = [row for row in rows if (row[0] - 1) // size == i]
        told = [row for row in here if len(row) == 5]
        times = [row[1] for row in here if len(row) == 2 and row[1]]
        sums = [sum(row[j] for row in told) for j in range(1, 5)]
        expected = (1 + i * size, min(times, default=None), len(here) - len(told), len(told), *sums)
        assert msgspec.structs.astuple(point) == expected
    again = Timeline.restore(line.arrays())
    assert again.summary().points == points
    for part in (line, again):
        part.show(latest + 1, 3.0)
    assert again.summary() == line.summary()


async def test_the_time_line_does_not_depend_on_restarts(url, monkeypatch):
    monkeypatch.setattr("steadyrank.service.worker.worker.SNAPSHOT_EVERY", 50)

    for seed in range(3):
        async with serving(url, seed=seed) as local:
            await local.board(settle=0)
            for _ in range(120):
                await local.answer(await local.rank(), clicked=None)
            digest = local.digest()
            timeline = (await local.ask("GET", "boards/b/watch"))["timeline"]
        assert replayed(url) == digest
    assert (timeline["size"], [p["impressions"] for p in timeline["points"]]) == (2, [2] * 180)
