"""Impression ids: what they say comes back, nothing of it can be read, and nobody makes one up."""

import base64
import collections

import pytest
from hypothesis import given
from hypothesis import strategies as st

import steadyrank as sr
from service_tools import serving
from steadyrank.live.features import FeatureSpace
from steadyrank.service.worker.impression_ids import ImpressionId, Signer, open_sealed, room_for, seal

pytestmark = pytest.mark.pure

KEY = Signer(b"secret", "impression")
SHOWN = ImpressionId(2**62 + 5, 7, 4, 9, 1_700_000_000.5, 2**61 + 3, [0, 7, 40], [(1, 0.5)])
# as the versions 1 to 4 wrote them
FORMER = {
    "AQUAAAAAAABABwAAAAAAAAAEAAAAAAAAAAkAAAAAACBA_FTZQQMAAAAAAAAgAwABAAAAAAcAAAAoAAAAAQAAAAAAAADgPznH-BWqNcIgJPI7bUSsk"
    "Zk": SHOWN,
    "AgUAAAAAAABABwAAAAAAAAAEAAAAAAAAAAkAAAAAACBA_FTZQQMAAAAAAAAgAwABAAAAAAcAAAAoAAAAAQAAAAAAAADgPwduZXR3b3JrBwAAAAAAA"
    "AAFYWdlbnQJAAAAAAAAAAftl-dXpl8pHJZcXA6HQBs": SHOWN._replace(cohorts={"network": 7, "agent": 9}),
    "AwUAAAAAAABABwAAAAAAAAAEAAAAAAAAAAkAAAAAACBA_FTZQQMAAAAAAAAgAwABAAAAAAcAAAAoAAAAAQAAAAAAAADgPwAAAgAHbmV0d29yawcAA"
    "AAAAAAAfETNMiQQ3x1YgvNkQPS8vQ": SHOWN._replace(cohorts={"network": 7}, draft=(0, 2)),
    "BAUAAAAAAABABwAAAAAAAAAEAAAAAAAAAAkAAAAAACBA_FTZQQMAAAAAAAAgAwABAAAAAAcAAAAoAAAAAQAAAAAAAADgPwAAAgAVAJr_rpqu27WPV"
    "bEtj9eifVCo3CnA0gduZXR3b3JrBwAAAAAAAABbxbt9zihgIqsbMwatuz_2": SHOWN._replace(
        cohorts={"network": 7}, draft=(0, 2), features={"age": 31.0, "land": "B"}
    ),
}
SOMEBODY = st.builds(
    ImpressionId,
    st.integers(1, 2**63 - 1),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**32 - 1),
    st.floats(0, 1e12),
    st.integers(0, 2**63 - 1),
    st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=30),
    st.lists(st.tuples(st.integers(0, 2_000), st.floats(allow_nan=False)), max_size=40),
    st.dictionaries(st.from_regex("[A-Za-z0-9_-]{1,32}", fullmatch=True), st.integers(0, 2**63 - 1), max_size=8),
    st.none() | st.tuples(st.integers(0, 999), st.integers(0, 999)),
    st.dictionaries(
        st.text(min_size=1, max_size=100), st.floats(allow_nan=False) | st.text(max_size=100), max_size=20
    ),
    st.integers(0, 2**63 - 1),
    of=st.none(),
)


def common(one, other):
    """The longest text that stands in both."""
    for size in range(min(len(one), len(other)), 0, -1):
        parts = {one[i : i + size] for i in range(len(one) - size + 1)}
        if any(other[i : i + size] in parts for i in range(len(other) - size + 1)):
            return size
    return 0


@given(SOMEBODY, st.integers(0, 500), st.none() | st.integers(1, 2**53 - 1))
def test_what_is_sealed_is_opened(shown, room, query):
    if query is not None:  # of a collection: each item has a code
        shown = shown._replace(of=(query, [item << 21 | 5 for item in shown.ranking]))
    text = seal(shown, KEY, room)
    assert open_sealed(text, KEY) == shown
    for last in "AQgw-_":  # a text is one id's alone, whatever the bits of its last character that are left over
        if last != text[-1]:
            with pytest.raises(sr.Refused):
                open_sealed(text[:-1] + last, KEY)
    for other in (text + "=", text + "====", "+" * 4 + text, text[:8] + "====" + text[8:]):
        with pytest.raises(sr.Refused):
            open_sealed(other, KEY)
    with pytest.raises(sr.Refused):
        open_sealed(text, Signer(b"secret", "client"))


@pytest.mark.parametrize(("text", "shown"), FORMER.items())
def test_ids_of_former_versions_are_opened_until_they_expire(text, shown):
    assert open_sealed(text, KEY) == shown
    changed = text[:-4] + ("A" if text[-4] != "A" else "B") + text[-3:]
    with pytest.raises(sr.Refused):
        open_sealed(changed, KEY)


@given(SOMEBODY, st.data())
def test_any_other_text_is_refused_as_forged(shown, data):
    raw = bytearray(base64.urlsafe_b64decode(seal(shown, KEY) + "=="))
    bit = data.draw(st.integers(0, 8 * len(raw) - 1))
    raw[bit // 8] ^= 1 << bit % 8
    flipped = base64.urlsafe_b64encode(raw).decode().rstrip("=")
    raw[bit // 8] ^= 1 << bit % 8
    shorter = base64.urlsafe_b64encode(raw[: data.draw(st.integers(0, len(raw) - 1))]).decode().rstrip("=")
    longer = base64.urlsafe_b64encode(bytes(raw) + b"\0").decode().rstrip("=")
    for text in (flipped, shorter, longer, data.draw(st.text(max_size=200)), "A" * 1_000_000):
        with pytest.raises(sr.Refused) as refusal:
            open_sealed(text, KEY)
        assert refusal.value.code == 403


@given(st.sampled_from([None, "male", "female"]), st.none() | st.floats(0, 99), st.integers(0, 255), st.booleans())
def test_nothing_that_differs_between_visits_changes_the_length(gender, age, kinds, mixed):
    """Features, cohorts, notes, rounds and mixed lists: all ids of a board with lists of ten have one length."""
    named = [f"kind-{k}" for k in range(8)]
    room = room_for(FeatureSpace({"year": [0, 1]}, {"gender": ["male", "female"], "age": [0, 99]}), named)
    given = {name: value for name, value in (("gender", gender), ("age", age)) if value is not None}
    cohorts = {kind: 7 + k for k, kind in enumerate(named) if kinds >> k & 1}
    shown = SHOWN._replace(
        round=kinds * 2**40,
        client=kinds * 2**50,
        ranking=list(range(10)),
        note=[(13, 0.5)] if mixed else [],
        cohorts=cohorts,
        draft=(0, 2) if mixed else None,
        features=given,
    )
    assert len(seal(shown, KEY, room)) == len(seal(SHOWN._replace(ranking=list(range(10))), KEY, room))


async def test_ids_of_one_client_say_nothing_and_have_nothing_in_common(tmp_path):
    kinds = {"items": {"genre": ["drama", "comedy"]}, "visits": {"gender": ["male", "female"], "age": [0, 100]}}
    films = {f"film {k}": {"genre": "drama"} for k in range(12)}
    visits = [
        {"gender": "male"},
        {"gender": "female"},
        {"age": 31},
        {"gender": "female", "age": 31},
        {},
    ]
    async with serving(f"sqlite:///{tmp_path}/store.db") as local:
        board = {"learner": "SteadyRankLinear", "length": 4, "settle": 0, "features": kinds, "items": films}
        await local.ask("PUT", "boards/b", board)
        await local.rank(client="ann", cohort={"network": "10.1", "agent": "x"})
        await local.quiet()  # the board's kinds of cohorts are in the log
        texts = []
        for features in visits:
            for cohort in ({}, {"network": "10.1"}, {"network": "10.1", "agent": "x"}):
                texts.append((await local.rank(client="ann", cohort=cohort, features=features))["impression"])
        assert len({*map(len, texts)}) == 1
        seen = collections.Counter(text[i : i + 6] for text in texts for i in range(len(text) - 5))
        assert max(seen.values()) == 1  # of 2**36 texts of six characters, of which these have 4,000
        assert max(common(one, other) for one in texts for other in texts if one is not other) < 6
        assert all(b"network" not in base64.urlsafe_b64decode(text + "==") for text in texts)
        for text in texts[:3]:
            for i in range(0, len(text), 7):
                other = text[:i] + ("A" if text[i] != "A" else "B") + text[i + 1 :]
                await local.answer({"impression": other}, code=403, clicked=None)
            await local.answer({"impression": text[:-1]}, code=403, clicked=None)
            await local.answer({"impression": text}, clicked=None)
