"""Queries and events of User Behavior Insights: learnt from as what `observe` is told, bad rows refused by name."""

import contextlib
import re

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from service_tools import ITEMS, Server, replayed, serving
from steadyrank.click_logs.formats.ubi import Click, Other, Query, Seen, Worth, parse_values, read
from steadyrank.core.contract import memory
from steadyrank.service.http.auth import make_key
from steadyrank.service.storage import open_store

pytestmark = pytest.mark.pure


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/store.db"


def query(id_="q1", items=tuple(ITEMS[:3]), **more):
    row = {"query_id": id_, "application": "b", "client_id": "ann", "query_response_hit_ids": list(items)}
    return row | {"timestamp": "2023-11-14T22:13:20Z", "user_query": "shoes"} | more


def event(id_="q1", item=ITEMS[1], **more):
    about = {"object": {"object_id": item, "object_id_field": "sku"}, "position": {"ordinal": 2}}
    row = {"query_id": id_, "application": "b", "client_id": "ann", "action_name": "click"}
    return row | {"timestamp": "2023-11-14T22:13:29Z", "event_attributes": about} | more


def bought(value=None, id_="q1", item=ITEMS[1], **more):
    row = event(id_, item, action_name="purchase")
    if value is not None:
        row["event_attributes"] = {**row["event_attributes"], "value": value}
    return row | more


async def send(local, body, code=200, where=""):
    return await local.ask("POST", f"ubi{where}", body, code)


def taken(answer):
    return answer["lists"], answer["clicks"], answer["duplicates"]


def test_rows_mean_what_the_specification_says():
    assert read(query()) == Query("q1", ITEMS[:3], "2023-11-14T22:13:20Z", "ann", "b", text="shoes")
    known = query(query_attributes='{"segment": "phone", "features": "{\\"age\\": 3}"}')
    assert read(known)[5:7] == ("phone", {"age": 3})  # objects may be told as text
    assert read(event()) == Click("q1", ITEMS[1], "ann", "b")
    seen = event(action_name="impression")
    assert read(seen) == Seen("q1", ITEMS[1], 2, "2023-11-14T22:13:29Z", "ann", "b")
    assert read(event(action_name="add_to_cart")) == Other("add_to_cart")
    field, rest = "event_attributes.value", ("2023-11-14T22:13:29Z", "ann", "b")
    assert read(bought(7.5)) == Worth("q1", ITEMS[1], "purchase", field, 7.5, *rest)
    assert read(bought("7.5", "q1", action_name="Purchase"))[4] == 7.5  # text that is a number
    assert read(bought())[4] == 1.0
    told = parse_values("watch:Seconds, purchase:object.price")
    about = {"object": {"object_id": ITEMS[1], "price": 3}}
    assert read(bought(9, event_attributes=about), told)[3:5] == ("event_attributes.object.price", 3)
    assert read(bought(9, event_attributes={**about, "seconds": 40}, action_name="watch"), told)[4] == 40
    assert read(bought(9, action_name="order"), told) == Other("order")
    for wrong in ("", "purchase:", ":price", "click:price", "a,,b"):
        with pytest.raises(ValueError, match="such as purchase:price"):
            parse_values(wrong)
    assert read({"query_id": "q1"}) == Other("rows without action")


async def test_what_is_told_by_ubi_is_learnt_as_what_is_told_by_observe(url):
    """Two boards, told the same in either way: learners and guards that are equal in every byte."""
    async with serving(url) as local:
        for name in ("b", "observed"):
            await local.board(name, settle=0)
        for n in range(12):
            items, clicked = ITEMS[n % 5 : n % 5 + 3], ITEMS[n % 5 + n % 3]
            rows = [query(f"q{n}", items, client_id=f"u{n % 4}"), event(f"q{n}", clicked, client_id=f"u{n % 4}")]
            assert taken(await send(local, rows)) == (1, 1, 0)
            said = {"id": f"q{n}", "items": items, "client": f"u{n % 4}", "clicked": clicked, "time": 1.7e9}
            await local.ask("POST", "boards/observed/observe", said)
        states = [local.worker.boards[name].board.learner_state.arrays() for name in ("b", "observed")]
        for name, array in states[0].items():
            assert array.tobytes() == states[1][name].tobytes(), name
        digest = local.digest()
    assert replayed(url) == digest


async def test_queries_come_first_and_clicks_later_in_any_form(url):
    async with serving(url) as local:
        await local.board(settle=0)
        assert taken(await send(local, query())) == (1, 0, 0)  # a single row
        assert taken(await send(local, {"events": [event()], "queries": [query("q2")]})) == (1, 1, 0)
        assert taken(await send(local, [query(), event(), query("q2")])) == (0, 0, 2)
        both = [query("q3"), event("q3", ITEMS[0]), event("q3", ITEMS[2])]
        assert taken(await send(local, both)) == (1, 2, 0)
        state = await local.ask("GET", "boards/b/state")
        counts = [(item["looks"], item["clicks"]) for item in state["items"][:4]]
        assert counts == [(2, 1), (2, 1), (1, 1), (0, 0)]  # q1: the first two places; q3: all three
        late = await send(local, [event("q1", ITEMS[0])])
        assert (late["refused"], late["messages"][0]["code"]) == ({"409": 1}, 409)
        bare = event("q4")
        del bare["application"]
        assert taken(await send(local, [query("q4", timestamp=1.7e12), bare])) == (1, 1, 0)
        assert taken(await send(local, [query("q5", application="shop")], where="?board=b")) == (1, 0, 0)


def learnt(local, name):
    """Of each item with outcomes, how many clicks led to one, and what these were worth."""
    state = local.worker.boards[name].board.learner_state
    values = dict(memory(state.learner.values))
    pairs = zip(values["bought"].tolist(), values["sums"].sum(1).tolist(), strict=True)
    return {state.names[k]: pair for k, pair in enumerate(pairs) if pair[0] and k < len(state.names)}


async def test_purchases_of_ubi_are_outcomes_as_those_that_are_reported_alone(url):
    """In the same request as their clicks and later, once each, and the same after the log is read again."""
    async with serving(url) as local:
        for name in ("b", "observed"):
            await local.board(name, settle=0, goal="value", outcome_days=3)
        answer = await send(local, [bought(20.0), event(), query(), bought(20.0)])
        assert (*taken(answer), answer["outcomes"]) == (1, 1, 1, 1)  # the same purchase twice is one
        said = {"id": "q1", "items": ITEMS[:3], "client": "ann", "clicked": ITEMS[1], "time": 1.7e9}
        shown = await local.ask("POST", "boards/observed/observe", said)
        for body in ({"value": 20.0, "id": "1"}, {"value": 4, "id": "2", "kind": "return"}):
            said = {"impression": shown["impression"], "item": ITEMS[1], **body}
            await local.ask("POST", "boards/observed/outcomes", said)
        later = [bought(20.0), bought("4", action_name="refund", timestamp="2023-11-15T08:00:00Z")]
        answer = await send(local, later)
        assert (answer["outcomes"], answer["duplicates"], answer["refused"]) == (1, 1, {})
        assert learnt(local, "b") == learnt(local, "observed") == {ITEMS[1]: (1, 16.0)}
        before = await send(local, [query("q2", timestamp=None), bought(3.0, "q2")])
        assert (before["outcomes"], len(learnt(local, "b"))) == (1, 1)  # it waits for its click
        assert taken(await send(local, event("q2"))) == (0, 1, 0)
        assert learnt(local, "b") == {ITEMS[1]: (2, 19.0)}
        mine = await local.rank()
        rows = [event(mine["impression"], mine["items"][0]), bought(1.5, mine["impression"], mine["items"][0])]
        answer = await send(local, rows)
        assert (answer["clicks"], answer["outcomes"], answer["refused"]) == (1, 1, {})
        assert (await local.ask("GET", "boards/b"))["outcomes"] == 4
        local.clocks.pass_time(3.1 * 86_400.0)
        late = await send(local, bought(1.0, "q2", timestamp=None))
        assert "outcome_days" in late["messages"][0]["message"]
        digest = local.digest()
    assert replayed(url) == digest


async def test_wrong_outcomes_are_refused_by_name_and_hold_up_no_click(url):
    async with serving(url) as local:
        await local.board(settle=0, goal="value")
        names = {"x": "shoes", "candidates": ITEMS[:3]}
        await local.ask("PUT", "collections/c", {"length": 3})
        wrong = [
            (bought("dear"), 422, "event_attributes.value of purchase must be a number from 0"),
            (bought(-1), 422, "event_attributes.value of purchase must be a finite number from 0"),
            (bought(True), 422, "event_attributes.value of purchase must be"),
            (bought(1, timestamp="noon"), 422, "timestamp must be a time in ISO 8601"),
            (bought(1, "q9"), 404, "no query 'q9' on board 'b': its list comes first"),
            (bought(1, item=ITEMS[0]), 409, "without a click on this item"),
            (bought(1, item=ITEMS[7]), 422, f"the list did not show {ITEMS[7]!r}"),
        ]
        answer = await send(local, [query(), event(), *(row for row, *_ in wrong), bought(2.0)])
        assert (*taken(answer), answer["outcomes"]) == (1, 1, 0, 1)
        told = {message["row"]: (message["code"], message["message"]) for message in answer["messages"]}
        for n, (_, code, words) in enumerate(wrong, 3):
            assert told[f"row {n}"][0] == code
            assert words in told[f"row {n}"][1]
        rows = [query("q2"), event("q2"), bought(5, "q2"), bought(5, "q2", action_name="watch")]
        rows[3]["event_attributes"] = {**rows[3]["event_attributes"], "seconds": 30}
        answer = await send(local, rows, where="?outcomes=watch:seconds")
        assert (answer["outcomes"], answer["ignored"]) == (1, {"purchase": 1})
        answer = await send(local, bought(5, "q2"), where="?outcomes=purchase:price")
        assert "event_attributes.price of purchase must be a number" in answer["messages"][0]["message"]
        assert "such as purchase:price" in (await send(local, rows, 422, "?outcomes=click"))["message"]
        assert learnt(local, "b") == {ITEMS[1]: (2, 32.0)}
        found = query(application="c", **{"user_query": names["x"]})
        answer = await send(local, [found, bought(1, application="c")])
        assert (answer["ignored"], answer["refused"]) == ({"purchase": 1}, {})  # it takes no outcomes


async def test_purchases_come_by_streams(url):
    async with serving(url) as local:
        await local.board(settle=0, goal="value")
        rows = [query(), event(), bought(4.0), bought(4.0), bought(-1)]
        said = await local.ask("POST", "ingest?outcomes=purchase:value", {"rows": rows})
        assert [row["code"] for row in said["rows"]] == [200, 200, 200, 200, 422]
        assert learnt(local, "b") == {ITEMS[1]: (1, 4.0)}
        assert (
            "such as purchase:price" in (await local.ask("POST", "ingest?outcomes=:", {"rows": []}, 422))["message"]
        )


async def test_long_lists_are_cut_to_the_board(url):
    async with serving(url) as local:
        await local.board(settle=0)  # four places
        rows = [query("q1", ITEMS[:8]), event("q1", ITEMS[6]), query("q2", ITEMS[:8]), event("q2", ITEMS[1])]
        assert taken(await send(local, rows)) == (2, 2, 0)
        state = await local.ask("GET", "boards/b/state")
        assert [(i["looks"], i["clicks"]) for i in state["items"][:5]] == [(2, 0), (2, 1), (1, 0), (1, 0), (0, 0)]


async def test_bad_rows_are_refused_by_name_and_the_others_taken(url):
    async with serving(url) as local:
        await local.board(settle=0)
        wrong = [
            (7, 422, "a row is an object, not 7"),
            (query(application=None), 422, "application must name the board, or ?board= in the address, not None"),
            (query(application="no such"), 422, "a board's name has"),
            (query("q2", application="none"), 404, "no board 'none'"),
            (query(""), 422, "query_id must be text of 1 to 200 characters"),
            (query("q3", timestamp="noon"), 422, "timestamp must be a time in ISO 8601 or a number, not 'noon'"),
            (query("q4", timestamp=1.6e9), 410, "the list has expired"),
            (query("q5", ["a", "a"]), 422, "1 to 4 different items"),
            (query("q6", client_id="x" * 201), 422, "client must be text of 1 to 200 characters"),
            (event("q7"), 404, "no query 'q7' on board 'b': its list comes first"),
        ]
        good = [
            query("q8"),
            event("q8"),
            event("q8", "other"),
            event("q8", action_name="add_to_cart"),
            query("q9", []),
        ]
        answer = await send(local, [row for row, *_ in wrong] + good)
        assert taken(answer) == (1, 1, 0)
        assert answer["ignored"] == {"add_to_cart": 1, "queries without hits": 1}
        assert answer["refused"] == {"422": 7 + 1, "404": 2, "410": 1}  # and the click on another item
        told = {message["row"]: (message["code"], message["message"]) for message in answer["messages"]}
        assert len(told) == 10, "the first ten say why"
        for n, (_, code, words) in enumerate(wrong, 1):
            if f"row {n}" in told:
                assert told[f"row {n}"][0] == code
                assert words in told[f"row {n}"][1]
        for body in ({"queries": 3}, {"events": [], "more": []}):
            assert "beside lists of queries and events" in (await send(local, body, 422))["message"]
        await send(local, [{}] * 10_001, 422)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
NAMES = [*query(), *event(), "query_attributes"]


@given(
    st.dictionaries(st.sampled_from(NAMES), json_values | st.sampled_from(["click", "{", "[" * 5_000]), max_size=8)
)
@settings(max_examples=200, deadline=None)
def test_any_row_is_read_as_something(row):
    assert isinstance(read(row), Query | Click | Seen | Worth | Other)


@pytest.mark.always
def test_a_key_for_one_board_sends_to_that_board_alone(tmp_path, url):
    made = {"a": (["admin"], None), "o": (["observe"], "b"), "r": (["rank"], None)}
    keys = {}
    with contextlib.closing(open_store(url)) as store:
        for name, (scopes, board) in made.items():
            keys[name], row = make_key(scopes, board, 1.0)
            store.add_key(row)
    server = Server(url, tmp_path / "log").wait()
    admin, observer = server.client(keys["a"]), server.client(keys["o"])
    for board in ("b", "c"):
        admin.put_board(board, items=ITEMS, length=4)
    rows = [query(timestamp=None), query("q2", application="c", timestamp=None)]
    answer = observer.ubi(rows)
    assert (answer["lists"], answer["refused"]) == (1, {"403": 1})
    assert answer["messages"][0]["row"] == "row 2"
    assert observer.ubi([query("q3", application="x", timestamp=None)], board="b")["lists"] == 1
    with pytest.raises(Exception, match=re.escape("lacks the scope 'observe'")):
        server.client(keys["r"]).ubi(rows)
    assert admin.board("b")["impressions"] == 2
    answer = observer.ubi([event("q3", application="b"), bought(2.0, "q3", application="b")])
    assert (answer["clicks"], answer["outcomes"], answer["refused"]) == (1, 0, {"403": 1})
    assert "lacks the scope 'feedback'" in answer["messages"][0]["message"]
    assert admin.ubi([bought(2.0, "q3", application="b")], outcomes="purchase:value")["outcomes"] == 1
    assert server.stop() == 0
