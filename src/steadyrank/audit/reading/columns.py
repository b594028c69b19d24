"""Which column of a click log says what, and how: settled once, before the rows are read."""

from dataclasses import dataclass

from .blocks import ROW

ROLES = ("items", "item", "clicked", "impression", "position", "time", "client", "board")


@dataclass(frozen=True)
class Columns:
    """Which column says what; None where there is none.

    Either `items` (one row an impression) or `item` (one row a shown item), with `impression` unless every row is an
    impression of its own.
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
    time_format: str | None = None  # how dates are written, for `strptime`, where that has to be said
    unused: tuple[str, ...] = ()  # columns that say nothing here

    def used(self) -> list[str]:
        """The columns to read."""
        return list(dict.fromkeys(value for role in ROLES if (value := getattr(self, role)) is not None))

    def key(self) -> list[str]:
        """The columns that say which rows of shown items belong together."""
        each = ROW if self.impression is None else self.impression
        return list(dict.fromkeys(name for name in (each, self.board) if name is not None))

    def told(self) -> dict[str, str]:
        """What is read as what, for people."""
        known = {role: getattr(self, role) for role in ROLES if getattr(self, role) is not None}
        alone = "" if self.impression else ", each an impression of its own: no column says which were shown together"
        known["rows are"] = "impressions" if self.items else f"shown items{alone}"
        known["a click is told by"] = {
            "position": f"its position, the top being {self.first_position}",
            "item": "its item",
            "bits": "a bit a position",
            "items": "its items",
            "flag": "a flag a row",
        }[self.clicked_is]
        if self.time_format is not None:
            known["times are written as"] = self.time_format
        if self.unused:
            known["not used"] = ", ".join(self.unused)
        return known
