"""Long bodies, decoded a slice at a time: what comes out is what a decoder makes of the whole."""

import asyncio
import contextlib
import json
import tempfile

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import steadyrank as sr
from steadyrank.service.http import slices
from steadyrank.service.http.board_routes import BoardIn, ItemsIn
from steadyrank.service.http.rank_routes import BatchIn, HistoryIn, RankIn

pytestmark = pytest.mark.pure

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text('"\\[]{},: aé\n', max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('"\\[{,a', max_size=4), inner, max_size=4),
    max_leaves=8,
)


@contextlib.contextmanager
def as_file(content):
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.flush()
        yield file


def sliced(schema, content):
    with as_file(content) as file:
        return asyncio.run(slices.Slicer(schema).decode(file))


@pytest.fixture(autouse=True)
def small_slices(monkeypatch):
    monkeypatch.setattr(slices, "AT_ONCE", 7)


@settings(deadline=None)
@given(st.lists(ANYTHING, max_size=9), st.sampled_from([None, 1]), st.booleans())
def test_rows_are_what_the_decoder_makes_of_the_whole(rows, indent, escaped):
    content = json.dumps(rows, indent=indent, ensure_ascii=escaped).encode()
    found = sliced(list[msgspec.Raw] | dict[str, msgspec.Raw], content)
    assert [msgspec.json.decode(row) for row in found] == rows


@settings(deadline=None)
@given(st.dictionaries(st.text(max_size=9), st.dictionaries(st.text(max_size=3), st.text(max_size=9), max_size=3)))
def test_members_are_what_the_decoder_makes_of_the_whole(items):
    for given_ in (items, list(items)):
        content = json.dumps({"length": 3, "items": given_, "learner": "x"}).encode()
        assert sliced(BoardIn, content) == msgspec.json.decode(content, type=BoardIn)


@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=40) | st.text('[]{}",: 1\\a', max_size=30).map(str.encode))
def test_what_is_no_json_is_refused(content):
    """Whatever the whole is refused for, its slices are."""
    for schema in (list[msgspec.Raw] | dict[str, msgspec.Raw], ItemsIn):
        try:
            whole = msgspec.json.decode(content, type=schema)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            if content:
                with pytest.raises(sr.Refused):
                    sliced(schema, content)
        else:
            with contextlib.suppress(sr.Refused):  # a member that is neither list nor object is short
                assert sliced(schema, content) == whole


def test_what_is_wrong_is_told_with_its_place(monkeypatch):
    rows = [{"items": ["a"], "clicked": "a"} for _ in range(50)]
    rows[31] = {"items": ["a"], "clicked": 7}
    with pytest.raises(sr.Refused, match=r"^rows\[31\]\.clicked must be text or null, not 7"):
        sliced(HistoryIn, json.dumps({"rows": rows}).encode())
    with pytest.raises(sr.Refused, match=r"no JSON"):
        sliced(BatchIn, b'{"feedback": [{"board": "b"}' + b" " * 50)
    with pytest.raises(sr.Refused, match=r"no JSON"):
        sliced(RankIn, b'{"candidates": ["aaaaaaaaaa", "bbbbbbbbbb",        ]}')
    with pytest.raises(sr.Refused, match=r"candidates must be a list or null"):
        sliced(RankIn, b'{"candidates": {"aaaaaaaaaa": "bbbbbbbbbb"}}')
    with pytest.raises(sr.Refused, match=r"cannot stand at `\$\.features`"):
        sliced(BoardIn, b'{"features": {"items": {"aaaaaaaaaa": [1, 2]}}}')
    with pytest.raises(sr.Refused, match=r"unknown member 'others'"):
        sliced(RankIn, b'{"others": ["aaaaaaaaaa", "bbbbbbbbbb"]}')
    monkeypatch.setattr(slices, "WIDEST", 30)
    with pytest.raises(sr.Refused, match=r"an element of the body has 4\d bytes, at most 30"):
        sliced(ItemsIn, json.dumps({"items": ["a", "b" * 38, "c"]}).encode())


async def test_a_long_body_is_let_go_of():
    with as_file(json.dumps({"items": [str(k) for k in range(20_000)]}).encode()) as file:
        body = await slices.Slicer(ItemsIn).decode(file)
    assert len(body.items) == 20_000
    await slices.free(body)
    assert body.items == []
