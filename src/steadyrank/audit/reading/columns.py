"""Which column of a click log says what, and how: settled once, before the rows are read."""

from dataclasses import dataclass

ROLES = ("items", "item", "clicked", "impression", "position", "time", "client", "board")


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
        return list(dict.fromkeys(value for role in ROLES if (value := getattr(self, role)) is not None))

    def key(self) -> list[str]:
        """The columns that say which rows of shown items belong together."""
        return list(dict.fromkeys(name for name in (self.impression, self.board) if name is not None))

    def told(self) -> dict[str, str]:
        """What is read as what, for people."""
        known = {role: getattr(self, role) for role in ROLES if getattr(self, role) is not None}
        known["rows are"] = "impressions" if self.items else "shown items"
        known["a click is told by"] = {
            "position": f"its position, the top being {self.first_position}",
            "item": "its item",
            "bits": "a bit a position",
            "items": "its items",
            "flag": "a flag a row",
        }[self.clicked_is]
        return known
