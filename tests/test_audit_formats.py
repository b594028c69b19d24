"""Logs in the schemas of other systems: each reads as the same two lists, and nothing is lost silently."""

import itertools
import json

import polars as pl
import pytest

from steadyrank.cli import main
from steadyrank.click_logs.click_log import explained, read
from steadyrank.click_logs.conversion import FORMATS

pytestmark = pytest.mark.pure

QUERY = {"application": "shop", "timestamp": "2026-03-01T10:00:00Z", "client_id": "u1", "user_query": "shoes"}


def ubi(position):
    event = {"action_name": "click", "timestamp": "2026-03-01T10:00:09Z", "client_id": "u1", "application": "shop"}
    about = {"object": {"object_id": "b", "object_id_field": "sku"}, "position": position}
    return [
        {"query_id": "q1", "query_response_hit_ids": ["a", "b", "c"], **QUERY},
        {"query_id": "q2", "query_response_hit_ids": ["c", "a"], **QUERY, "client_id": "u2"},
        {"query_id": "q1", **event, "event_attributes": about},
        {"query_id": "q9", **event, "event_attributes": about},
        {"query_id": "q2", **event, "action_name": "add_to_cart", "event_attributes": about},
    ]


def ga4(first):
    def items(names):
        return [{"item_id": name, "index": first + i, "item_list_id": "home"} for i, name in enumerate(names)]

    def event(name, time, user, names):
        return {"event_name": name, "event_timestamp": time, "user_pseudo_id": user, "items": items(names)}

    return [
        event("view_item_list", 1772359200000000, "u1", "abc"),
        event("view_item_list", 1772359201000000, "u2", "ca"),
        event("select_item", 1772359209000000, "u1", "b"),
        event("select_item", 1772359209000000, "u3", "b"),
        event("page_view", 1772359209000000, "u1", "b"),
    ]


PERSONALIZE = [
    {"USER_ID": "u1", "ITEM_ID": "b", "TIMESTAMP": 1772359200, "EVENT_TYPE": "click", "IMPRESSION": "a|b|c"},
    {"USER_ID": "u2", "ITEM_ID": "c", "TIMESTAMP": 1772359201, "EVENT_TYPE": "watch", "IMPRESSION": "c|a"},
    {"USER_ID": "u2", "ITEM_ID": "x", "TIMESTAMP": 1772359201, "EVENT_TYPE": "click", "IMPRESSION": "c|a"},
    {"USER_ID": "u2", "ITEM_ID": "x", "TIMESTAMP": 1772359209, "EVENT_TYPE": "click", "IMPRESSION": None},
]
PUT_EVENTS = [
    {"userId": "u1", "sessionId": "s", "eventList": [
        {"eventType": "click", "itemId": "b", "impression": ["a", "b", "c"], "recommendationId": "r",
         "sentAt": 1772359200}]},
    {"userId": "u2", "sessionId": "s", "eventList": [
        {"eventType": "watch", "itemId": "c", "impression": ["c", "a"], "recommendationId": "t",
         "sentAt": 1772359201}]},
]  # fmt: skip
SESSIONS = [
    {"user_id": "u1", "visits": [{"time": 1772359200, "items": [
        {"id": "a", "clicked": 0}, {"id": "b", "clicked": 1}, {"id": "c", "clicked": 0}]}]},
    {"user_id": "u2", "visits": [{"time": 1772359201, "items": [
        {"id": "c", "clicked": 0}, {"id": "a", "clicked": 0}]}]},
]  # fmt: skip
NAMED = [
    {"user_id": "u1", "pages": [{"time": 1772359200, "ranking": ["a", "b", "c"], "clicked": [2]}]},
    {"user_id": "u2", "pages": [{"time": 1772359201, "ranking": ["c", "a"], "clicked": []}]},
]
METARANK = [
    {"event": "item", "id": "0", "item": "a", "timestamp": "1772359000000"},
    {"event": "ranking", "id": "r1", "timestamp": "1772359200000", "user": "u1", "session": "s1",
     "items": [{"id": "a"}, {"id": "b"}, {"id": "c"}]},
    {"event": "ranking", "id": "r2", "timestamp": "1772359201000", "user": "u2", "session": "s2",
     "items": [{"id": "c"}, {"id": "a"}]},
    {"event": "interaction", "id": "i1", "ranking": "r1", "timestamp": "1772359209000", "user": "u1", "type": "click",
     "item": "b"},
    {"event": "interaction", "id": "i2", "ranking": "r7", "timestamp": "1772359209000", "user": "u1", "type": "click",
     "item": "b"},
]  # fmt: skip
EVENTS = [
    *({"event_type": "impression", "impression_id": 1, "item_id": name, "position": p, "user_id": "u1", "ts": 10}
      for p, name in ((2, "b"), (1, "a"), (3, "c"))),
    {"event_type": "click", "impression_id": 1, "item_id": "b", "position": 2, "user_id": "u1", "ts": 12},
    *({"event_type": "impression", "impression_id": 2, "item_id": name, "position": p, "user_id": "u2", "ts": 11}
      for p, name in ((1, "c"), (2, "a"))),
    {"event_type": "click", "impression_id": 5, "item_id": "b", "position": 2, "user_id": "u2", "ts": 13},
]  # fmt: skip
LOST = "1 of 2 clicks belong to no list in the log."
CASES = {
    "ubi": ("ubi", ubi({"ordinal": 2}), [LOST, "1 add_to_cart"]),
    "ubi by index": ("ubi", ubi({"index": 1}), [LOST]),
    "ga4 from 0": ("ga4", ga4(0), [LOST, "1 page_view"]),
    "ga4 from 1": ("ga4", ga4(1), [LOST]),
    "personalize": ("personalize", PERSONALIZE, [LOST, "1 interactions without an impression"]),
    "put events": ("personalize", PUT_EVENTS, []),
    "sessions": ("sessions", SESSIONS, []),
    "sessions that name clicks": ("sessions", NAMED, []),
    "metarank": ("metarank", METARANK, [LOST, "1 item events"]),
    "events": ("events", EVENTS, [LOST]),
}


def lists_of(log):
    edges, shown = log.impressions.first.tolist(), log.impressions
    return [
        [(log.items[shown.item[q]], bool(shown.bits[q])) for q in range(a, b)] for a, b in itertools.pairwise(edges)
    ]


@pytest.mark.parametrize("case", CASES)
def test_each_schema_reads_as_the_same_lists(tmp_path, case):
    name, rows, words = CASES[case]
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    log = read([path], {}, most_broken=0.0)
    assert lists_of(log) == [[("a", False), ("b", True)], [("c", False), ("a", False)]]
    assert [log.clients[c] for c in log.client] == ["u1", "u2"]
    assert log.time[0] <= log.time[1]
    assert log.rows == len(rows)
    told = " ".join(log.notes)
    assert f"Read as {name}: " in told
    assert all(word in told for word in words)
    assert explained([path], {})["format"].startswith(f"{name}: ")
    array = tmp_path / "log.json"
    array.write_text(json.dumps(rows))
    assert lists_of(read([array], {}, format=name)) == lists_of(log)


def test_flat_files_of_these_schemas_are_read_too(tmp_path):
    path = tmp_path / "interactions.csv"
    pl.DataFrame(PERSONALIZE).write_csv(path)
    assert lists_of(read([path], {}))[0] == [("a", False), ("b", True)]
    about = "event_attributes.object.object_id", "event_attributes.position.ordinal"
    flat = [
        {"query_id": "q", "action_name": "impression", about[0]: name, about[1]: p, "client_id": "u"}
        for p, name in ((2, "b"), (1, "a"))
    ]
    click = {**flat[0], "action_name": "click"}
    pl.DataFrame([*flat, click]).write_csv(path)
    assert lists_of(read([path], {})) == [[("a", False), ("b", True)]]


def test_queries_and_events_in_files_of_their_own(tmp_path):
    rows = ubi({"ordinal": 2})
    for name, part in (("queries", rows[:2]), ("events", rows[2:])):
        (tmp_path / f"{name}.ndjson").write_text("\n".join(map(json.dumps, part)))
    log = read([tmp_path / "queries.ndjson", tmp_path / "events.ndjson"], {})
    assert lists_of(log)[0] == [("a", False), ("b", True)]
    assert log.boards == ["shop"]


def paid(value, item="b", action="purchase", time="2026-03-01T10:05:00Z", query="q1"):
    about = {"object": {"object_id": item}, "price": value}
    return {"query_id": query, "action_name": action, "timestamp": time, "event_attributes": about}


def test_purchases_of_ubi_are_what_came_of_clicks_where_they_are_asked_for():
    rows = [*ubi({"ordinal": 2}), paid(9), paid(9), paid(4, time=None), paid(3, "a"), paid(1, query="q9")]
    log = read([pl.DataFrame(rows, strict=False)], {"value": "purchase:price"})
    assert log.bought.tolist() == [True, False]
    assert log.sources[0]["value"].to_list() == [13.0, 0.0]  # the same event twice is one
    assert "2 of 4 outcomes belong to no click in the log." in log.notes
    assert read([pl.DataFrame(rows, strict=False)], {"value": "purchase"}).sources[0]["value"].to_list() == [2.0, 0.0]
    back = [*rows, paid(20, action="refund")]
    log = read([pl.DataFrame(back, strict=False)], {"value": "purchase:price,refund:price"})
    assert (log.bought.tolist(), log.sources[0]["value"].to_list()) == ([False, False], [0.0, 0.0])
    plain = read([pl.DataFrame(rows, strict=False)], {})
    assert plain.bought is None
    assert any("5 purchase" in note for note in plain.notes)
    wrong = read([pl.DataFrame([*rows, paid(-2)], strict=False)], {"value": "purchase:price"}, most_broken=0.5)
    assert wrong.examples[-1].why == "event_attributes.price of purchase is a number of at least 0, not -2"
    with pytest.raises(ValueError, match="such as purchase:price,watch:seconds, not 'click:price'"):
        read([pl.DataFrame(rows, strict=False)], {"value": "click:price"})


def asked(*queries):
    """Lists for queries, each of an application, the first item clicked."""
    rows = []
    for n, (query, application) in enumerate(queries):
        row = {"query_id": f"q{n}", "query_response_hit_ids": ["a", "b"], "application": application}
        rows += [row if query is None else {**row, "user_query": query}]
        about = {"object": {"object_id": "a"}}
        rows += [{"query_id": f"q{n}", "action_name": "click", "user_query": "", "event_attributes": about}]
    return pl.DataFrame(rows)


def test_lists_of_a_query_are_a_board_where_that_is_asked_for():
    rows = asked(("shoes", "shop"), ("hats", "shop"), ("shoes", "shop"), (None, "shop"))
    assert read([rows], {}).boards == ["shop"]
    log = read([rows], {}, by_query=True)
    assert [log.boards[k] for k in log.board] == ["shoes", "hats", "shoes", "shop"]
    assert log.read_as["board"] == "user_query"
    assert read([rows], {"board": "user_query"}).boards == ["shoes", "hats", "shop"]
    assert read([rows], {"board": "application"}, by_query=True).boards == ["shop"]
    assert read([rows], {"board": ""}, by_query=True).boards == [None]
    several = asked(("shoes", "shop"), ("shoes", "blog"), (None, None))
    assert read([several], {}, by_query=True).boards == ["shop: shoes", "blog: shoes", ""]
    with pytest.raises(
        ValueError, match="'client_id' cannot tell boards or queries of ubi: user_query or application"
    ):
        read([rows], {"board": "client_id"})


def test_an_audit_has_a_board_for_each_query(tmp_path, capsys):
    path = tmp_path / "ubi.json"
    path.write_text(json.dumps(asked(*[(f"q{n % 3}", "shop") for n in range(60)]).to_dicts()))
    assert main(["audit", str(path), "--page", str(tmp_path / "a.html"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert sorted(board["board"] for board in found["boards"]) == ["q0", "q1", "q2"]


def test_a_query_that_comes_after_what_was_seen_of_it_says_the_list():
    about = {"object": {"object_id": "b"}, "position": {"ordinal": 2}}
    seen = {"query_id": "q", "action_name": "impression", "event_attributes": about}
    click = {**seen, "action_name": "click"}
    rows = [seen, {"query_id": "q", "query_response_hit_ids": ["a", "b", "c"]}, click]
    assert lists_of(read([pl.DataFrame(rows)], {})) == [[("a", False), ("b", True)]]


def test_decisions_of_vowpal_wabbit():
    one = {"_label_cost": -1.0, "_label_probability": 0.8, "_label_Action": 2, "_labelIndex": 1, "EventId": "e1",
           "Timestamp": "2026-03-01T10:00:00Z", "a": [2, 1], "p": [0.8, 0.2],
           "c": {"_multi": [{"_tag": "x", "f": 1}, {"_tag": "y", "f": 2}]}}  # fmt: skip
    two = {**one, "EventId": "e2", "_label_cost": 0.0, "_label_Action": 1, "a": [1, 2]}
    log = read([pl.DataFrame([one, two])], {})
    assert lists_of(log) == [[("y", True)], [("x", False)]]
    slots = {"EventId": "e3", "Timestamp": "2026-03-01T10:00:00Z", "c": one["c"], "_outcomes": [
        {"_label_cost": 0.0, "_a": [1, 0], "_p": [1.0]}, {"_label_cost": -1.0, "_a": [0], "_p": [1.0]}]}  # fmt: skip
    assert lists_of(read([pl.DataFrame([slots])], {})) == [[("y", False), ("x", True)]]


def test_a_click_without_its_impression_goes_to_the_clients_last_list_with_the_item():
    rows = [
        {"event_type": "impression", "item_id": "a", "user_id": "u", "timestamp": 1},
        {"event_type": "impression", "item_id": "a", "user_id": "u", "timestamp": 5},
        {"event_type": "click", "item_id": "a", "user_id": "u", "timestamp": 3},
    ]
    assert lists_of(read([pl.DataFrame(rows)], {})) == [[("a", True)], [("a", False)]]


def test_formats_are_told_by_name_and_plain_logs_stay_plain():
    plain = pl.DataFrame({"items": [["a", "b"]], "clicked": [1], "event_type": ["view"]})
    assert read([plain], {}).notes == []
    with pytest.raises(ValueError, match="unknown format 'ga5': did you mean 'ga4'"):
        read([plain], {}, format="ga5")
    with pytest.raises(ValueError, match="no list can be read as metarank"):
        read([plain], {}, format="metarank")
    assert set(FORMATS) == {"ubi", "ga4", "personalize", "dsjson", "metarank", "sessions", "events"}


def test_columns_are_explained_before_a_long_run(tmp_path, capsys):
    path = tmp_path / "log.csv"
    path.write_text("items,clicked,when,weight\na|b,1,5,3\n")
    assert main(["audit", str(path), "--explain-columns", "--time", "when"]) == 0
    out = capsys.readouterr().out
    assert "format: plain\nitems: items\nclicked: clicked\ntime: when\n" in out
    assert "not used: weight" in out
    assert not (tmp_path / "audit.html").exists()


EVENTS = pl.DataFrame(
    {
        "event": ["impression", "impression", "click"] * 40,
        "item_id": ["a", "b", "a"] * 40,
        "list": [i // 3 for i in range(120)],
        "session": [f"s{i // 3}" for i in range(120)],
        "when": [1_772_323_200 + i for i in range(120)],
    }
)


def test_columns_of_events_may_have_other_names():
    log = read([EVENTS], {"impression": "list", "client": "session", "time": "when"})
    assert (log.impressions.n, len(log.clients)) == (40, 40)
    assert log.impressions.bits.sum() == 40
    assert log.read_as["client"] == "session"
    assert "items" not in log.read_as  # no column of the log is called so
    assert read([EVENTS.rename({"session": "client"})], {"client": ""}).client is None


@pytest.mark.parametrize(
    ("frame", "options", "words"),
    [
        (
            EVENTS,
            {"client": "sesion"},
            r"--client names 'sesion', which is not a column; columns found: event, item_id",
        ),
        (EVENTS, {"first_position": 0}, r"--first-position 0 has no effect: the log is read as events"),
        (EVENTS, {"time_format": "%Y"}, r"--time-format '%Y' has no effect"),
        (
            pl.DataFrame({"query_id": ["q"], "action_name": ["click"], "session": ["x"]}),
            {"client": "session"},
            r"--client 'session' has no effect: the log is read as ubi .* add --format plain",
        ),
        (
            pl.DataFrame({"items": [["a", "b"]], "clicked": [1], "request": [7]}),
            {"impression": "request"},
            r"--impression request has no effect: rows are read as lists",
        ),
        (
            pl.DataFrame({"items": [["a", "b"]], "clicked": [[1, 0]]}),
            {"first_position": 1},
            r"--first-position 1 has no effect: no column holds positions",
        ),
    ],
)
def test_what_is_told_in_vain_is_refused(frame, options, words):
    how = {name: options.pop(name, None) for name in ("first_position", "time_format")}
    with pytest.raises(ValueError, match=words):
        read([frame], options, **how)
