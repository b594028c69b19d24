"""What columns mean, in logs of every kind."""

import itertools
import math

import polars as pl
import pytest

from steadyrank.click_logs import files
from steadyrank.click_logs.cells import split_lists
from steadyrank.click_logs.click_log import read

pytestmark = pytest.mark.pure

LISTS = [["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"]]


def clicks(frame, told=None):
    """What was clicked, a list of items for each impression."""
    log = read([pl.DataFrame(frame)], told or {}, most_broken=0.0)
    edges = log.impressions.first.tolist()
    return [
        [log.items[log.impressions.item[i]] for i in range(start, end) if log.impressions.bits[i]]
        for start, end in itertools.pairwise(edges)
    ]


@pytest.mark.parametrize(
    ("clicked", "expected"),
    [
        ([0.0, 2.0, math.nan], [["a"], ["a"], []]),
        ([1, 2, -1], [["a"], ["c"], []]),
        ([0, 1, -1], [["a"], ["c"], []]),
        (["1", "nan", " 2"], [["a"], [], ["a"]]),
    ],
)
def test_clicks_by_position(clicked, expected):
    assert clicks({"items": LISTS, "clicked": clicked}) == expected


def test_clicks_by_name_are_stripped_as_names_of_text_are():
    lists = ["|".join(one) for one in LISTS]
    assert clicks({"items": lists, "clicked": ["c", " b ", ""]}) == [["c"], ["b"], []]


def test_whole_numbers_with_gaps_are_the_same_items():
    lists = [[11, 12, 13]] * 3
    assert clicks({"items": lists, "clicked_item": [12.0, None, 13.0]}) == [[12], [], [13]]
    assert clicks({"items": lists, "clicked_item": [12, -1, -1]}) == [[12], [], []]
    assert clicks({"items": lists, "clicked": [[12, 13], [], [11]]}) == [[12, 13], [], [11]]
    assert clicks({"items": lists, "clicked": [[0, 1, 1], [], [1, 0, 0]]}) == [[12, 13], [], [11]]


def test_clicks_in_lists_of_text():
    lists = ["|".join(one) for one in LISTS]
    assert clicks({"items": lists, "clicked": ["0|1|1", "", "1|0|0"]}) == [["b", "c"], [], ["c"]]
    assert clicks({"items": lists, "clicked": ["b|c", "", "c"]}) == [["b", "c"], [], ["c"]]


def test_lists_of_text_as_json_or_as_python_writes_them():
    text = pl.Series(['["a, b", "c"]', "[1, 2]", "[]", None, "x, y"])
    assert split_lists(text, "[").to_list() == [["a, b", "c"], ["1", "2"], [], None, ["x", "y"]]
    text = pl.Series(["['a, b', 'c']", '["d"]', "[e, f]"])
    assert split_lists(text, "[").to_list() == [["a, b", "c"], ["d"], ["e", "f"]]


def test_lists_that_become_text_are_still_lists(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "BLOCK", 100)
    path = tmp_path / "log.jsonl"
    path.write_text('{"items": ["a", "b"], "clicked": 1}\n' * 9 + '{"items": "a", "clicked": 1}\n' * 9)
    assert set(read([path], {}).items) == {"a"}


@pytest.mark.parametrize("clicked", [[["a"], None], [[0, 1], None], [[0, 1], []]])
def test_a_block_without_clicks_is_one(clicked):
    one = pl.DataFrame({"items": [["a", "b"]], "clicked": clicked[:1]})
    other = pl.DataFrame({"items": [["a", "b"]], "clicked": clicked[1:]})
    assert read([one, other], {}).impressions.bits.sum() == 1


def test_a_position_beside_a_flag_is_the_click():
    frame = {"items": LISTS, "clicked": [1, 1, 0], "clicked_position": [3, 2, None]}
    assert clicks(frame) == [["c"], ["c"], []]


@pytest.mark.parametrize("clicked", [[True, False, True], ["true", "False", None]])
def test_whether_something_was_clicked_is_not_what(clicked):
    with pytest.raises(ValueError, match="--clicked clicked: values must say what of a list was clicked"):
        clicks({"items": LISTS, "clicked": clicked})


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        ({"items": [[{"x": 1}]], "clicked": [1]}, "--items items: values must be names or numbers or lists of them"),
        ({"items": [[[1]]], "clicked": [1]}, r"not List\(List\(Int64\)\)"),
        ({"items": LISTS, "clicked": [{"p": 1}] * 3}, "--clicked clicked: values must be names or numbers"),
        (
            {"items": LISTS, "clicked": [1] * 3, "time": [[1]] * 3},
            "--time time: values must be names or numbers, not",
        ),
        ({"items": LISTS, "clicked": [1] * 3, "client": [{"a": 1}] * 3}, "--client client"),
        ({"items": [[1.0, math.nan]], "clicked": [1]}, "an item without a name"),
        ({"items": [[1.0, math.inf]], "clicked": [1]}, "an item without a name"),
        ({"items": LISTS, "clicked": [1] * 3, "board": [math.inf] * 3}, "no board"),
        ({"items": LISTS, "clicked": [1] * 3, "time": [0.0, 1.0, math.inf]}, "row 2: a time that cannot be read"),
        (
            {"impression": [1] * 3, "item": ["a", "c", "b"], "clicked": [0, 1, 0], "position": [1.0, math.nan, 2.0]},
            "row 1: the position is not a number",
        ),
    ],
)
def test_what_cannot_be_read_is_said(frame, words):
    with pytest.raises(ValueError, match=words):
        clicks(frame)


def test_an_unknown_option_is_answered_with_the_closest():
    with pytest.raises(ValueError, match="unknown option 'itmes': did you mean 'items'"):
        clicks({"items": LISTS, "clicked": [1, 2, 3]}, {"itmes": "items"})


def test_a_column_may_have_two_roles():
    frame = pl.DataFrame({"items": LISTS, "clicked": [1, 2, 3], "who": ["x", "y", "x"]})
    log = read([frame], {"client": "who", "board": "who"})
    assert log.boards == log.clients == ["x", "y"]
    rows = pl.DataFrame({"who": ["x", "x", "y"], "item": ["a", "b", "a"], "clicked": [0, 1, 0]})
    assert read([rows], {"impression": "who", "board": "who"}).impressions.n == 2


def test_searches_made_once_each_are_no_boards():
    frame = pl.DataFrame({"items": LISTS, "clicked": [1, 2, 3], "query": ["x", "y", "z"], "user": ["u", "v", "w"]})
    assert read([frame], {}).boards == [None]
    assert read([frame], {"board": "query"}).boards == ["x", "y", "z"]
    many = pl.DataFrame({"items": LISTS * 100, "clicked": [1, 2, 3] * 100, "query": ["x", "y", "z"] * 100})
    assert read([many], {}).boards == ["x", "y", "z"]


def test_a_guess_can_be_refused():
    frame = pl.DataFrame({"items": LISTS, "clicked": [1, 2, 3], "board": ["x", "y", "z"], "time": ["10:00"] * 3})
    log = read([frame], {"board": "", "time": ""})
    assert log.boards == [None]
    assert log.time is None


def test_numbers_that_another_kind_would_change_are_refused():
    frames = [
        pl.DataFrame({"items": [[1, 2]], "clicked": [1]}),
        pl.DataFrame({"items": [[1.5, 1.0]], "clicked": [1]}),
    ]
    with pytest.raises(ValueError, match=r"holds Int64 at first, such as 1, and Float64 later, such as 1.5"):
        read(frames, {})
    whole = [frames[0], pl.DataFrame({"items": [[2.0, 1.0]], "clicked": [1]})]
    assert read(whole, {}).items == [1, 2]


def test_dates_do_not_turn_into_numbers():
    frame = pl.DataFrame({"items": [["a"]], "clicked": [1]})
    with pytest.raises(ValueError, match="column time holds dates in some rows and numbers in others"):
        read([frame.with_columns(time=pl.lit("2026-01-01")), frame.with_columns(time=17)], {})


def test_a_kind_that_cannot_be_read_later_is_said():
    frames = [pl.DataFrame({"items": [["a"]], "clicked": [1]}), pl.DataFrame({"items": [7], "clicked": [1]})]
    with pytest.raises(ValueError, match=r"rows from 1 on are not as those before; they hold items \(Int64\)"):
        read(frames, {})


def test_an_item_twice_in_a_list_is_two_looks_and_a_click_by_name_is_on_the_first():
    lists = [["a", "b", "a"], ["b", "c", "a"]]
    for clicked in (["a", "c"], [1, 2], [[1, 0, 0], [0, 1, 0]], [["a"], ["c"]]):
        log = read([pl.DataFrame({"items": lists, "clicked": clicked})], {}, most_broken=0.0)
        assert log.impressions.bits.tolist() == [True, False, True]
        assert log.repeats == 1
    seen = read([pl.DataFrame({"items": lists, "clicked": [3, 2]})], {}, most_broken=0.0)
    assert [seen.items[k] for k in seen.impressions.item] == ["a", "b", "a", "b", "c"]


def test_rows_of_one_look_are_one_look():
    """A row when an item is shown and another when it is clicked; at another place it is another look."""
    rows = {"impression": [1, 1, 1, 2], "item": ["a", "b", "a", "a"], "clicked": [0, 0, 1, 0]}
    log = read([pl.DataFrame(rows)], {}, most_broken=0.0)
    assert (log.impressions.item.tolist(), log.impressions.bits.tolist()) == ([0, 0], [True, False])
    assert (log.repeats, log.broken) == (1, 0)
    apart = read([pl.DataFrame({**rows, "position": [1, 2, 3, 1]})], {}, most_broken=0.0)
    assert [apart.items[k] for k in apart.impressions.item] == ["a", "b", "a", "a"]
    assert apart.impressions.bits.tolist() == [False, False, True, False]


def test_rows_without_an_impression_are_one_each_and_keep_their_places():
    frame = pl.DataFrame({"row": [0, 1, 2], "item_id": [7, 8, 7], "position": [1, 3, 2], "click": [0, 1, 0]})
    log = read([frame], {})
    assert log.impressions.n == 3
    assert log.impressions.places().tolist() == [0, 2, 1]
    assert "each an impression of its own" in log.columns.in_words()["rows are"]
    assert log.columns.in_words()["not used"] == "row"


@pytest.mark.parametrize(
    ("role", "name"),
    [
        ("client", "customer_id"), ("client", "user_pseudo_id"), ("time", "event_timestamp"),
        ("position", "item_list_index"), ("client", "IP Address"), ("item", "sku"),
    ],
)  # fmt: skip
def test_names_that_people_use_are_understood(role, name):
    columns = {"impression": [1, 1, 2], "item": ["a", "b", "a"], "clicked": [0, 1, 0], name: [1, 2, 3]}
    if role == "item":
        del columns["item"]
    assert getattr(read([pl.DataFrame(columns)], {}).columns, role) == name


@pytest.mark.parametrize(
    ("times", "written", "first"),
    [
        (["01.03.2026", "02.03.2026"], "%d.%m.%Y", 1772323200),
        (["01.03.2026 10:20", "13.03.2026 10:20"], "%d.%m.%Y %H:%M", 1772360400),
        (["1.3.2026 10:20:30.5"], "%d.%m.%Y %H:%M:%S%.f", 1772360430.5),
        (["03/01/2026 10:20:30", "03/25/2026 10:20:30"], "%m/%d/%Y %H:%M:%S", 1772360430),
        (["01/03/26", "25/03/26"], "%d/%m/%y", 1772323200),
    ],
)
def test_dates_as_people_write_them(times, written, first):
    frame = pl.DataFrame({"items": [["a"]] * len(times), "clicked": [1] * len(times), "time": times})
    log = read([frame], {})
    assert log.columns.time_format == written
    assert log.dated
    assert log.time[0] == first
    told = read([frame], {}, time_format=written)
    assert told.time.tolist() == log.time.tolist()


def test_how_dates_are_written_can_be_told():
    frame = pl.DataFrame({"items": [["a"]] * 2, "clicked": [1] * 2, "time": ["03/04/2026 1:20 PM"] * 2})
    assert read([frame], {}, time_format="%d/%m/%Y %I:%M %p").time[0] == 1775222400
    with pytest.raises(ValueError, match="--time-format '%Y' is for a column of times, and there is none"):
        read([frame.drop("time")], {}, time_format="%Y")
    with pytest.raises(ValueError, match=r"'03.04.2026 1:20 PM' cannot be read; say how times are written"):
        read([frame.with_columns(time=pl.lit("03.04.2026 1:20 PM"))], {})
