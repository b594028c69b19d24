"""What the columns of a click log mean: as told, else guessed from their names and first values."""

import re
from dataclasses import dataclass, fields

import polars as pl

from ..settings import closest
from .lists import clicked_is, first_position, separator_of, split_lists

_NAMES = {
    "items": "items|ranking|list|shown|results|documents|docs|slate|products|item_ids|shown_items",
    "item": "item|item_id|itemid|doc|doc_id|document|product|product_id|article|article_id|url",
    "clicked": "clicked|click|clicks|is_click|is_clicked|clicked_position|click_position|click_pos|clicked_pos|"
    "position_clicked|clicked_item|clicked_item_id",
    "impression": "impression|impression_id|request|request_id|query_id|search_id|list_id|page_view|pageview_id",
    "position": "position|pos|rank|slot|place|item_position",
    "time": "time|timestamp|ts|datetime|date|created_at|event_time",
    "client": "client|client_id|user|user_id|visitor|visitor_id|ip|cookie|device|device_id|session|session_id",
    "board": "board|board_id|page|page_id|surface|widget|placement|query",
}
_IN_LISTS = (  # in rows of impressions, where `clicked` beside one of them is a flag
    "clicked_position|click_position|click_pos|clicked_pos|position_clicked|clicked_item|clicked_item_id|clicked_items"
)
_FLAGS = {"true", "false"}
_FEWEST = 64  # rows a board, on average: with fewer nothing can be found, and a guess that makes such boards is wrong


@dataclass(frozen=True)
class Columns:
    """Which column says what; None where there is none.

    Either `items` (one row an impression) or `item` with `impression` (one row a shown item).
    """

    items: str | None = None
    item: str | None = None
    clicked: str | None = None
    impression: str | None = None
    position: str | None = None
    time: str | None = None
    client: str | None = None
    board: str | None = None
    separator: str | None = None  # between the items of a list in a column of text; "[" for a JSON list
    clicked_is: str = ""  # position, item, bits or items in rows of impressions; flag in rows of items
    first_position: int = 1  # what the top position is called

    def used(self) -> list[str]:
        """The columns to read."""
        return list(dict.fromkeys(value for role in _NAMES if (value := getattr(self, role)) is not None))

    def key(self) -> list[str]:
        """The columns that say which rows of shown items belong together."""
        return list(dict.fromkeys(name for name in (self.impression, self.board) if name is not None))

    def told(self) -> dict[str, str]:
        """What is read as what, for people."""
        known = {role: getattr(self, role) for role in _NAMES if getattr(self, role) is not None}
        known["rows are"] = "impressions" if self.items else "shown items"
        known["a click is told by"] = {
            "position": f"its position, the top being {self.first_position}",
            "item": "its item",
            "bits": "a bit a position",
            "items": "its items",
            "flag": "a flag a row",
        }[self.clicked_is]
        return known


ROLES = tuple(_NAMES)


def check_roles(told: dict[str, str | None]) -> None:
    """Refuse roles that no column can have."""
    for role in told:
        if role not in ROLES:
            raise ValueError(closest("option", role, [*ROLES, "first_position", "most_broken", "on", "progress"]))


def understand(sample: pl.DataFrame, told: dict[str, str | None], first: int | None) -> Columns:
    """What the columns mean; refused with the columns found and the flags to use where that cannot be told.

    A role told to be "" has no column, whatever their names.
    """
    chosen = {role: told.get(role) or None for role in ROLES}
    for role, name in chosen.items():
        if name is not None and name not in sample.columns:
            raise ValueError(f"--{role} names {name!r}, which is no column; {_found(sample)}")
    for role, names in _NAMES.items():
        if told.get(role) is None:
            chosen[role] = _named(sample, names, set(chosen.values()))
    if told.get("item") or (chosen["items"] is not None and not told.get("items") and _single(sample, chosen)):
        chosen["item"], chosen["items"] = chosen["item"] or chosen["items"], None
    elif not chosen["items"] and not chosen["impression"] and chosen["item"] and _listed(sample[chosen["item"]]):
        chosen["items"] = chosen["item"]
    if chosen["items"] is not None:
        chosen["item"] = chosen["impression"] = chosen["position"] = None
        if told.get("clicked") is None:
            chosen["clicked"] = _named(sample, _IN_LISTS, set()) or chosen["clicked"]
    if told.get("board") is None and chosen["board"] is not None and not _boards(sample, chosen["board"]):
        chosen["board"] = None
    _need(sample, chosen)
    return _detail(sample, Columns(**chosen), first)  # type: ignore[arg-type]


def _found(sample: pl.DataFrame) -> str:
    return "columns found: " + ", ".join(f"{name} ({kind})" for name, kind in sample.schema.items())


def _named(sample: pl.DataFrame, names: str, taken: set[str | None]) -> str | None:
    order = names.split("|")
    plain = {re.sub("[^a-z0-9]+", "_", re.sub("(?<=[a-z])(?=[A-Z])", "_", c).lower()): c for c in sample.columns}
    return next((plain[name] for name in order if name in plain and plain[name] not in taken), None)


def _listed(values: pl.Series) -> bool:
    """Whether values are lists, or text with several parts that a single name hardly has."""
    return isinstance(values.dtype, pl.List) or (
        values.dtype == pl.String and separator_of(values) in ("[", "|", ";")
    )


def _boards(sample: pl.DataFrame, name: str) -> bool:
    """Whether a column may name boards: a search for words, say, is rarely made often enough."""
    return name.lower() in ("board", "board_id") or sample.height >= _FEWEST * sample[name].n_unique()


def _single(sample: pl.DataFrame, chosen: dict[str, str | None]) -> bool:
    """Whether what is called a list holds one item a row, with the impression in another column."""
    values = sample[chosen["items"] or ""]
    listed = isinstance(values.dtype, pl.List) or (values.dtype == pl.String and separator_of(values) is not None)
    return chosen["impression"] is not None and not listed


def _need(sample: pl.DataFrame, chosen: dict[str, str | None]) -> None:
    lacking = []
    if chosen["items"] is None and chosen["item"] is None:
        lacking.append("--items COLUMN (one row an impression) or --item COLUMN (one row a shown item)")
    if chosen["items"] is None and chosen["item"] is not None and chosen["impression"] is None:
        lacking.append("--impression COLUMN (which rows were shown together)")
    if chosen["clicked"] is None:
        lacking.append("--clicked COLUMN (the position or item clicked, or a flag a shown item)")
    if lacking:
        raise ValueError(f"cannot tell what the columns mean; add {' and '.join(lacking)}; {_found(sample)}")


def _detail(sample: pl.DataFrame, columns: Columns, told: int | None) -> Columns:
    """How lists and clicks are written."""
    _refuse_nested(sample, columns)
    if columns.time is not None:
        _refuse_two_ways(sample, columns.time)
    known = {field.name: getattr(columns, field.name) for field in fields(columns)}
    if columns.items is None:
        return Columns(**{**known, "clicked_is": "flag"})
    written, clicked = sample[columns.items], sample[columns.clicked or ""]
    if written.dtype == pl.String:
        known["separator"] = separator_of(written) or ","
    elif not isinstance(written.dtype, pl.List):
        raise ValueError(f"--items {columns.items}: values must be lists, not {written.dtype}; {_found(sample)}")
    if clicked.dtype == pl.Boolean or (
        clicked.dtype == pl.String and set(clicked.str.to_lowercase()) - {None} == _FLAGS
    ):
        raise ValueError(
            f"--clicked {columns.clicked}: values must say what of a list was clicked (a position, an item, or a bit "
            f"a position), not whether; {_found(sample)}"
        )
    lists = split_lists(written, known["separator"])
    known["clicked_is"] = clicked_is(clicked, lists, known["separator"])
    if known["clicked_is"] == "position":
        known["first_position"] = first_position(clicked, lists) if told is None else told
    return Columns(**known)


def _refuse_two_ways(sample: pl.DataFrame, name: str) -> None:
    """Refuse dates such as 03/04/2026: who wrote them knows whether that is in March or in April."""
    values = sample[name]
    if values.dtype != pl.String:
        return
    odd = values.filter(values.str.contains(r"^\s*\d{1,2}[./-]\d{1,2}[./-]\d{2,4}").fill_null(False))
    if odd.len():
        raise ValueError(
            f"--time {name}: {odd[0]!r} can be read in two ways; write times as 2026-03-04 10:20:30, or leave them "
            "out with --time '' if the oldest rows come first"
        )


def _refuse_nested(sample: pl.DataFrame, columns: Columns) -> None:
    for role in ROLES:
        name = getattr(columns, role)
        if name is None:
            continue
        kind = sample.schema[name]
        inner = kind.inner if role in ("items", "clicked") and isinstance(kind, pl.List) else kind
        if inner.is_nested() or inner == pl.Object:
            lists = " or lists of them" if role in ("items", "clicked") else ""
            raise ValueError(f"--{role} {name}: values must be names or numbers{lists}, not {kind}; {_found(sample)}")
