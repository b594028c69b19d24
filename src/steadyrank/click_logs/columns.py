"""Find the role and the notation of each column of a click log, from names and first values, before reading rows."""

import re
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from ..core.settings import closest
from .cells import as_text, split_lists, written_as
from .files import ROW

COHORTS = ("user_agent", "network", "referrer")  # properties that clients may share
ROLES = ("items", "item", "clicked", "impression", "position", "time", "client", "board", *COHORTS, "value")
_NAMES = {
    "items": "items|ranking|list|shown|results|documents|docs|slate|products|item_ids|shown_items|item_list",
    "item": "item|item_id|itemid|doc|doc_id|document|document_id|product|product_id|article|article_id|news_id|"
    "movie_id|video_id|listing_id|content_id|object_id|ad_id|sku|asin|url",
    "clicked": "clicked|click|clicks|is_click|is_clicked|was_clicked|has_click|click_flag|clicked_position|"
    "click_position|click_pos|clicked_pos|position_clicked|clicked_item|clicked_item_id",
    "impression": "impression|impression_id|request|request_id|query_id|search_id|list_id|page_view|pageview_id|"
    "recommendation_id|slate_id",
    "position": "position|pos|rank|slot|place|item_position|item_list_index|list_index|item_index|item_rank|"
    "result_position|ordinal|index",
    "time": "time|timestamp|ts|datetime|date|created_at|event_time|event_timestamp|occurred_at|logged_at|server_time|"
    "request_time|unix_time|unixtime|event_date|day",
    "client": "client|client_id|user|user_id|userid|uid|customer|customer_id|user_pseudo_id|account|account_id|"
    "member_id|visitor|visitor_id|anonymous_id|ip|ip_address|client_ip|cookie|cookie_id|fingerprint|device|device_id|"
    "session|session_id",
    "board": "board|board_id|page|page_id|surface|widget|placement|item_list_id|item_list_name|query",
}
_EVENT_ITEM = (  # further names of items in rows of events
    "package|package_name|package_id|project|crate|module|library|plugin|app|app_id|file|filename|artifact|track|"
    "track_id|song|song_id|episode|stream|game|book|post|post_id|thread|comment_id|story|question|candidate|option|"
    "target|object|name|title|path|page"
)
EVENT_ROLES = ("item", "time", "client", "user_agent")
_COHORTS = "cohorts are judged by what they saw and did not click, which events do not show; --client {}"
_NOT_OF_EVENTS = {  # why an option has no effect in an audit of counts, and what to do instead
    "since": "clean counts, and senders who come for one item alone, are of all events, and a state holds only the "
    "last impressions; give it all files, or those of the last months",
    "network": f"{_COHORTS} judges each network as one sender",
    "referrer": f"{_COHORTS} judges each referrer as one sender",
}
_IN_LISTS = (  # names of the click in rows of impressions; preferred to `clicked`, which then is a flag
    "clicked_position|click_position|click_pos|clicked_pos|position_clicked|clicked_item|clicked_item_id|clicked_items"
)
_OPTIONS = (
    "first_position",
    "time_format",
    "format",
    "most_broken",
    "events",
    "propensities",
    "keep",
    "clean",
    "on",
    "progress",
)
_SEPARATORS = ("|", ";", " ", ",")  # of lists in text, most likely first
_FLAGS = {"true", "false"}
_FEWEST = 64  # mean rows per board: with fewer an audit finds nothing, so a guess of such boards is probably wrong


@dataclass(frozen=True)
class Columns:
    """The column of each role; None if there is none.

    Either `items` (one row per impression) or `item` (one row per shown item), the latter with `impression` unless
    every row is an impression of its own.
    """

    items: str | None = None
    item: str | None = None
    clicked: str | None = None
    impression: str | None = None
    position: str | None = None
    time: str | None = None
    client: str | None = None
    board: str | None = None
    user_agent: str | None = None  # this and the roles below are never guessed: they extend the audit
    network: str | None = None
    referrer: str | None = None
    value: str | None = None
    separator: str | None = None  # between the items of a list in a text column; "[" for a JSON list
    clicked_is: str = ""  # position, item, bits or items in rows of impressions; flag in rows of items; event
    first_position: int = 1  # number of the top position
    time_format: str | None = None  # `strptime` format of dates, if one is needed
    unused: tuple[str, ...] = ()  # columns without a role

    def used(self) -> list[str]:
        """The columns to read."""
        return list(dict.fromkeys(value for role in ROLES if (value := getattr(self, role)) is not None))

    def cohorts(self) -> dict[str, str]:
        """The columns of cohorts, by role."""
        return {role: name for role in COHORTS if (name := getattr(self, role)) is not None}

    def key(self) -> list[str]:
        """The columns that identify the impression of a row of shown items."""
        each = ROW if self.impression is None else self.impression
        return list(dict.fromkeys(name for name in (each, self.board) if name is not None))

    def in_words(self) -> dict[str, str]:
        """How columns are interpreted, for display."""
        words = {role: getattr(self, role) for role in ROLES if getattr(self, role) is not None}
        if self.clicked_is == "event":
            words["rows are"] = "events"
            return self._with_rest(words)
        alone = "" if self.impression else ", each an impression of its own: no column says which were shown together"
        words["rows are"] = "impressions" if self.items else f"shown items{alone}"
        words["a click is told by"] = {
            "position": f"its position, the top being {self.first_position}",
            "item": "its item",
            "bits": "a bit a position",
            "items": "its items",
            "flag": "a flag a row",
        }[self.clicked_is]
        return self._with_rest(words)

    def _with_rest(self, words: dict[str, str]) -> dict[str, str]:
        if self.time_format is not None:
            words["times are written as"] = self.time_format
        if self.unused:
            words["not used"] = ", ".join(self.unused)
        return words


def flag(role: str) -> str:
    """The command-line option that names the column of a role."""
    return f"--{role.replace('_', '-')}"


def not_of_events(option: str, value: Any) -> str:
    """The message that refuses an option in an audit of events without lists."""
    why = _NOT_OF_EVENTS.get(option, "events without lists have --item, --time and --client").format(value)
    return f"{flag(option)} {value} has no effect with --counts: {why}"


def check_roles(roles: dict[str, str | None]) -> None:
    """Raise ValueError for unknown roles."""
    for role in roles:
        if role not in ROLES:
            raise ValueError(closest("option", role, [*ROLES, *_OPTIONS]))


def understand(
    sample: pl.DataFrame, roles: dict[str, str | None], first: int | None, written: str | None = None
) -> Columns:
    """Interpret the columns of a log of lists.

    `roles`: columns by role; the others are guessed, except those given as "", which have no column. `first`: number
    of the top position. `written`: `strptime` format of dates. If the columns cannot be interpreted, raises
    ValueError with the columns found and the options to use.
    """
    chosen = {role: roles.get(role) or None for role in ROLES}
    asked_for = dict(chosen)
    for role, name in chosen.items():
        if name is not None and name not in sample.columns:
            raise ValueError(f"{flag(role)} names {name!r}, which is not a column; {_columns_in(sample)}")
    for role, names in _NAMES.items():
        if roles.get(role) is None:
            chosen[role] = _named(sample, names, set(chosen.values()))
    if roles.get("item") or (chosen["items"] is not None and not roles.get("items") and _single(sample, chosen)):
        chosen["item"], chosen["items"] = chosen["item"] or chosen["items"], None
    elif not chosen["items"] and not chosen["impression"] and chosen["item"] and _listed(sample[chosen["item"]]):
        chosen["items"] = chosen["item"]
    if chosen["items"] is not None:
        chosen["item"] = chosen["impression"] = chosen["position"] = None
        if roles.get("clicked") is None:
            chosen["clicked"] = _named(sample, _IN_LISTS, set()) or chosen["clicked"]
    if roles.get("board") is None and chosen["board"] is not None and not _boards(sample, chosen["board"]):
        chosen["board"] = None
    _need(sample, chosen)
    for role, name in asked_for.items():
        if name is not None and chosen[role] != name:
            kind = "lists" if chosen["items"] else "shown items"
            raise ValueError(f"{flag(role)} {name} has no effect: rows are read as {kind}; {_columns_in(sample)}")
    columns = Columns(**chosen)  # type: ignore[arg-type]
    columns = replace(columns, unused=tuple(name for name in sample.columns if name not in columns.used()))
    if written is not None and columns.time is None:
        raise ValueError(
            f"--time-format {written!r} is for a column of times, and there is none; {_columns_in(sample)}"
        )
    columns = _detail(sample, replace(columns, time_format=written), first)
    if first is not None and columns.clicked_is != "position" and columns.position is None:
        raise ValueError(f"--first-position {first} has no effect: no column holds positions; {_columns_in(sample)}")
    return columns


def understand_events(sample: pl.DataFrame, roles: dict[str, str | None], written: str | None = None) -> Columns:
    """Interpret the columns of events: item, time, and perhaps client; arguments and errors as in `understand`."""
    chosen: dict[str, str | None] = {}
    for role in ROLES:
        name = roles.get(role) or None
        if name is not None and role not in EVENT_ROLES:
            raise ValueError(not_of_events(role, name))
        if name is not None and name not in sample.columns:
            raise ValueError(f"{flag(role)} names {name!r}, which is not a column; {_columns_in(sample)}")
        if role in EVENT_ROLES:
            chosen[role] = name
    for role in ("time", "client", "item"):
        if roles.get(role) is None:
            names = f"{_NAMES[role]}|{_EVENT_ITEM}" if role == "item" else _NAMES[role]
            chosen[role] = _named(sample, names, set(chosen.values()))
    lacking = [
        f"--{role} COLUMN ({words})" for role, words in (("item", "what"), ("time", "when")) if not chosen[role]
    ]
    if lacking:
        raise ValueError(f"cannot tell what the columns mean; add {' and '.join(lacking)}; {_columns_in(sample)}")
    columns = Columns(**chosen, clicked_is="event", time_format=written)  # type: ignore[arg-type]
    _refuse_nested(sample, columns)
    if written is None:
        columns = replace(columns, time_format=written_as(columns.time or "", sample[columns.time or ""]))
    return replace(columns, unused=tuple(name for name in sample.columns if name not in columns.used()))


def _columns_in(sample: pl.DataFrame) -> str:
    def shown(name: str, kind: pl.DataType) -> str:
        nameless = re.fullmatch(r"column_\d+", name) and sample.height
        return f"{name} ({kind}{f', such as {sample[name][0]!r}' if nameless else ''})"

    return "columns found: " + ", ".join(shown(name, kind) for name, kind in sample.schema.items())


def _named(sample: pl.DataFrame, names: str, taken: set[str | None]) -> str | None:
    order = names.split("|")
    plain = {re.sub("[^a-z0-9]+", "_", re.sub("(?<=[a-z])(?=[A-Z])", "_", c).lower()): c for c in sample.columns}
    return next((plain[name] for name in order if name in plain and plain[name] not in taken), None)


def _listed(values: pl.Series) -> bool:
    """Whether values are lists, or text with separators that are rare in a single name."""
    return isinstance(values.dtype, pl.List) or (
        values.dtype == pl.String and _separator_of(values) in ("[", "|", ";")
    )


def _boards(sample: pl.DataFrame, name: str) -> bool:
    """Whether a guessed column can name boards: search queries, for example, mostly repeat too seldom."""
    return name.lower() in ("board", "board_id") or sample.height >= _FEWEST * sample[name].n_unique()


def _single(sample: pl.DataFrame, chosen: dict[str, str | None]) -> bool:
    """Whether the column named like a list holds one item per row, with the impression in another column."""
    values = sample[chosen["items"] or ""]
    listed = isinstance(values.dtype, pl.List) or (values.dtype == pl.String and _separator_of(values) is not None)
    return chosen["impression"] is not None and not listed


def _need(sample: pl.DataFrame, chosen: dict[str, str | None]) -> None:
    lacking = []
    if chosen["items"] is None and chosen["item"] is None:
        lacking.append("--items COLUMN (one row an impression) or --item COLUMN (one row a shown item)")
    if chosen["clicked"] is None:
        lacking.append("--clicked COLUMN (the position or item clicked, or a flag a shown item)")
    if lacking:
        raise ValueError(f"cannot tell what the columns mean; add {' and '.join(lacking)}; {_columns_in(sample)}")


def _detail(sample: pl.DataFrame, columns: Columns, first: int | None) -> Columns:
    """The columns with the notation of lists, clicks and times; `first`: number of the top position, if given."""
    _refuse_nested(sample, columns)
    if columns.time is not None and columns.time_format is None:
        columns = replace(columns, time_format=written_as(columns.time, sample[columns.time]))
    if columns.items is None:
        top = 1  # number of the top position in rows of shown items: 0 if it occurs
        if columns.position is not None and (sample[columns.position].cast(pl.Float64, strict=False) == 0).any():
            top = 0
        return replace(columns, clicked_is="flag", first_position=top if first is None else first)
    written, clicked = sample[columns.items], sample[columns.clicked or ""]
    separator = (_separator_of(written) or ",") if written.dtype == pl.String else None
    if separator is None and not isinstance(written.dtype, pl.List):
        raise ValueError(f"--items {columns.items}: values must be lists, not {written.dtype}; {_columns_in(sample)}")
    if clicked.dtype == pl.Boolean or (
        clicked.dtype == pl.String and set(clicked.str.to_lowercase()) - {None} == _FLAGS
    ):
        raise ValueError(
            f"--clicked {columns.clicked}: values must say what of a list was clicked (a position, an item, or a bit "
            f"a position), not whether; {_columns_in(sample)}"
        )
    lists = split_lists(written, separator)
    columns = replace(columns, separator=separator, clicked_is=_clicked_is(clicked, lists, separator))
    if columns.clicked_is != "position":
        return columns
    return replace(columns, first_position=_first_position(clicked, lists) if first is None else first)


def _refuse_nested(sample: pl.DataFrame, columns: Columns) -> None:
    for role in ROLES:
        name = getattr(columns, role)
        if name is None:
            continue
        kind = sample.schema[name]
        inner = kind.inner if role in ("items", "clicked") and isinstance(kind, pl.List) else kind
        if inner.is_nested() or inner == pl.Object:
            lists = " or lists of them" if role in ("items", "clicked") else ""
            raise ValueError(
                f"{flag(role)} {name}: values must be names or numbers{lists}, not {kind}; {_columns_in(sample)}"
            )


def _separator_of(values: pl.Series) -> str | None:
    """The separator of most lists in a text column; "[" for JSON lists, None if there is none."""
    text = values.drop_nulls().head(1000)
    text = text.filter(text.str.len_chars() > 0)
    if text.is_empty():
        return None
    if text.str.starts_with("[").sum() > 0.9 * text.len():
        return "["
    return next((s for s in _SEPARATORS if text.str.contains(s, literal=True).sum() > 0.5 * text.len()), None)


def _clicked_is(clicked: pl.Series, lists: pl.Series, separator: str | None) -> str:
    """How clicks are given: position or item; or as lists, bits or items."""
    if clicked.dtype == pl.String and separator is not None:
        mark = "[" if separator == "[" else separator
        if clicked.str.contains(mark, literal=True).any():
            return _listed_as(split_lists(clicked, separator).cast(pl.List(pl.String)), lists)
    if isinstance(clicked.dtype, pl.List):
        return "items" if clicked.dtype.inner == pl.String else _listed_as(clicked, lists)
    both = pl.DataFrame({"clicked": as_text(clicked), "list": lists.cast(pl.List(pl.String))})
    both = both.filter(pl.col("clicked").str.len_chars() > 0).head(1000)
    shown = both.select(pl.col("list").list.contains(pl.col("clicked"))).to_series().sum()
    place = pl.col("clicked").cast(pl.Float64, strict=False)
    places = both.select(place.is_between(0, pl.col("list").list.len()).fill_null(False)).to_series().sum()
    by_name = shown == places == both.height > 0 and "item" in clicked.name
    return "item" if shown > places or by_name else "position"


def _listed_as(clicked: pl.Series, lists: pl.Series) -> str:
    """Return "bits" if at least half of the lists of clicks have one 0 or 1 per item, else "items"."""
    both = pl.DataFrame({"clicked": clicked, "list": lists}).filter(pl.col("clicked").list.len() > 0)
    bit = pl.col("clicked").list.eval(pl.element().cast(pl.Float64, strict=False).is_in([0.0, 1.0])).list.all()
    alike = pl.col("clicked").list.len() == pl.col("list").list.len()
    bits = both.select((bit & alike).fill_null(False)).to_series().sum()
    return "bits" if bits >= 0.5 * both.height else "items"


def _first_position(clicked: pl.Series, lists: pl.Series) -> int:
    """The number of the top position, 0 or 1. It is 1 if 0 never occurs, or seems to stand for no click."""
    numbers = clicked.cast(pl.Float64, strict=False)
    if not bool((numbers == 0).any()) or bool((numbers >= lists.list.len()).any()):
        return 1
    # 0 is a position if no click is written as -1 or null
    return 0 if bool((numbers < 0).any()) or numbers.null_count() > 0 else 1
