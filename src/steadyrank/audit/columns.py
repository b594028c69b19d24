"""What the columns of a click log mean: as told, else guessed from their names and first values."""

import re
from dataclasses import dataclass, fields

import polars as pl

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
_SEPARATORS = ("|", ";", " ", ",")


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
        return [value for role in _NAMES if (value := getattr(self, role)) is not None]

    def key(self) -> list[str]:
        """The columns that say which rows of shown items belong together."""
        return [name for name in (self.impression, self.board) if name is not None]

    def told(self) -> dict[str, str]:
        """What is read as what, for people."""
        known = {role: getattr(self, role) for role in _NAMES if getattr(self, role) is not None}
        known["rows are"] = "impressions" if self.items else "shown items"
        known["a click is told by"] = {
            "position": f"its position, the top being {self.first_position}", "item": "its item",
            "bits": "a bit a position", "items": "its items", "flag": "a flag a row",
        }[self.clicked_is]  # fmt: skip
        return known


ROLES = tuple(_NAMES)


def understand(sample: pl.DataFrame, told: dict[str, str | None], first_position: int | None) -> Columns:
    """What the columns mean; refused with the columns found and the flags to use where that cannot be told."""
    chosen = {role: told.get(role) for role in ROLES}
    for role, name in chosen.items():
        if name is not None and name not in sample.columns:
            raise ValueError(f"--{role} names {name!r}, which is no column; {_found(sample)}")
    for role, names in _NAMES.items():
        if chosen[role] is None:
            chosen[role] = _named(sample, names, set(chosen.values()))
    if told.get("item") or (chosen["items"] is not None and not told.get("items") and _single(sample, chosen)):
        chosen["item"], chosen["items"] = chosen["item"] or chosen["items"], None
    elif not chosen["items"] and not chosen["impression"] and chosen["item"] and _listed(sample[chosen["item"]]):
        chosen["items"] = chosen["item"]
    if chosen["items"] is not None:
        chosen["item"] = chosen["impression"] = chosen["position"] = None
    _need(sample, chosen)
    return _detail(sample, Columns(**chosen), first_position)  # type: ignore[arg-type]


def _found(sample: pl.DataFrame) -> str:
    return "columns found: " + ", ".join(f"{name} ({kind})" for name, kind in sample.schema.items())


def _named(sample: pl.DataFrame, names: str, taken: set[str | None]) -> str | None:
    order = names.split("|")
    plain = {re.sub("[^a-z0-9]+", "_", re.sub("(?<=[a-z])(?=[A-Z])", "_", c).lower()): c for c in sample.columns}
    return next((plain[name] for name in order if name in plain and plain[name] not in taken), None)


def _listed(values: pl.Series) -> bool:
    """Whether values are lists, or text with several parts."""
    if isinstance(values.dtype, (pl.List, pl.Array)):
        return True
    return values.dtype == pl.String and _separator(values) is not None


def _single(sample: pl.DataFrame, chosen: dict[str, str | None]) -> bool:
    """Whether what is called a list holds one item a row, with the impression in another column."""
    return chosen["impression"] is not None and not _listed(sample[chosen["items"] or ""])


def _separator(values: pl.Series) -> str | None:
    text = values.drop_nulls().head(1000)
    text = text.filter(text.str.len_chars() > 0)
    if text.is_empty():
        return None
    if text.str.starts_with("[").sum() > 0.9 * text.len():
        return "["
    return next((s for s in _SEPARATORS if text.str.contains(s, literal=True).sum() > 0.5 * text.len()), None)


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


def _detail(sample: pl.DataFrame, columns: Columns, first_position: int | None) -> Columns:
    """How lists and clicks are written."""
    known = {field.name: getattr(columns, field.name) for field in fields(columns)}
    if columns.items is None:
        return Columns(**{**known, "clicked_is": "flag"})
    lists = sample[columns.items]
    if lists.dtype == pl.String:
        known["separator"] = _separator(lists) or ","
    elif not isinstance(lists.dtype, (pl.List, pl.Array)):
        raise ValueError(f"--items {columns.items}: values must be lists, not {lists.dtype}; {_found(sample)}")
    clicked = sample[columns.clicked or ""]
    known["clicked_is"] = _clicked_is(clicked, lists, known["separator"])
    if known["clicked_is"] == "position":
        known["first_position"] = _first_position(clicked, lists, known["separator"], first_position)
    return Columns(**known)


def split_lists(lists: pl.Series, separator: str | None) -> pl.Series:
    """A column of lists, whatever it is written as, as lists of items."""
    if lists.dtype == pl.Null:
        return lists.cast(pl.List(pl.String))
    if isinstance(lists.dtype, pl.Array):
        return lists.cast(pl.List(lists.dtype.inner))
    if lists.dtype != pl.String:
        return lists
    if separator == "[":
        inner = lists.str.strip_chars().str.strip_chars("[]").str.split(",")
        return inner.list.eval(pl.element().str.strip_chars(" \"'"))
    return lists.str.split(separator or ",").list.eval(pl.element().str.strip_chars())


def _clicked_is(clicked: pl.Series, lists: pl.Series, separator: str | None) -> str:
    """Whether clicks are told by position or by item: by item if what is named is always shown, and not a place."""
    if isinstance(clicked.dtype, (pl.List, pl.Array)):
        return "items" if clicked.explode().dtype == pl.String else "bits"
    text = clicked.cast(pl.String)
    both = pl.DataFrame({"clicked": text, "list": split_lists(lists, separator).cast(pl.List(pl.String))})
    both = both.filter(text.str.len_chars() > 0).head(1000)
    shown = both.select(pl.col("list").list.contains(pl.col("clicked"))).to_series().sum()
    place = pl.col("clicked").cast(pl.Float64, strict=False)
    places = both.select((place <= pl.col("list").list.len()).fill_null(False)).to_series().sum()
    return "item" if shown > places or (shown == places == both.height > 0 and "item" in clicked.name) else "position"


def _first_position(clicked: pl.Series, lists: pl.Series, separator: str | None, told: int | None) -> int:
    """0 or 1: what the top position is called. A log that never says 0, or says it for no click, counts from 1."""
    if told is not None:
        return told
    numbers = clicked.cast(pl.Float64, strict=False)
    sizes = split_lists(lists, separator)
    if bool((numbers >= sizes.list.len()).any()):
        return 1
    least = numbers.min()
    if least is not None and float(least) < 0.0:  # type: ignore[arg-type]
        return 0  # -1 for no click
    return 0 if bool((numbers == 0).any()) and numbers.null_count() > 0 else 1
