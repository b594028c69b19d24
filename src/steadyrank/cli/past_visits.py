"""What a log says of its visits: their segment, or features by the names that a board declares."""

import argparse
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..event_rows import opened
from ..refusals import Refused
from ..settings import closest

if TYPE_CHECKING:
    from ..audit.reading.click_logs import ClickLog
    from ..live.features import FeatureSpace, Kind

SEGMENT, FEATURES = "segment", "features"  # columns; those of UBI are called so, and hold all features together


def add_options(sub: argparse.ArgumentParser) -> None:
    """Add what says which columns tell of visits."""
    words = "column: the segment of a visit; else the one called segment"
    sub.add_argument("--segment", metavar="COLUMN", default=None, help=words)
    words = "column of a feature of visits; else the one that is called as the feature; may be repeated"
    sub.add_argument("--feature", metavar="NAME=COLUMN", action="append", default=[], help=words)


class PastVisits:
    """What a log says of its visits, of what a board declares; `notes`: which columns say it, for people."""

    def __init__(self, log: "ClickLog", board: Mapping[str, Any], options: argparse.Namespace) -> None:
        self._space = _declared(board)
        have = [*log.columns.used(), *log.columns.unused]
        told = _told(board["board"], self._space, options)
        if wrong := next((column for column in told.values() if column not in have), None):
            raise ValueError(closest("column", wrong, have))
        names = [kind.name for kind in self._space.visits]
        self._column = told | {name: name for name in names if name in have and name not in told}
        self._whole = bool(names) and not self._space.segments and _converted(log) and FEATURES in have
        self.notes = list(self._said())
        columns = list(dict.fromkeys([*self._column.values(), *([FEATURES] if self._whole else [])]))
        self._row, self._cells = log.row, _cells(log, columns) if columns else {}

    def of(self, i: int) -> dict[str, Any]:
        """What is known of the visit of an impression, as the server takes it; what cannot be is refused by row."""
        row = int(self._row[i])
        cells = self._cells.get(row, {})
        whole = opened(cells.get(FEATURES)) if self._whole else None
        if isinstance(whole, Mapping):  # rows of a file have all names that any of them has
            whole = {name: value for name, value in whole.items() if value is not None}
        try:
            self._space.check_visit(whole)
            known = dict(whole or {})
            for kind in self._space.visits:
                value = _value(kind, cells.get(self._column.get(kind.name, "")))
                known |= {} if value is None else {kind.name: value}
            self._space.check_visit(known)
        except Refused as error:
            raise ValueError(f"row {row} of the log: {error}") from None
        return known if self._space.segments or not known else {"features": known}

    def _said(self) -> Iterator[str]:
        found = [f"{name} from column {column}" for name, column in self._column.items()]
        found += [f"those in column {FEATURES}"] if self._whole else []
        lacking = [kind.name for kind in self._space.visits if kind.name not in self._column and not self._whole]
        if found:
            yield f"Known of visits: {', '.join(found)}."
        if lacking:
            option = "--segment COLUMN" if self._space.segments else "--feature NAME=COLUMN"
            yield f"The log has no column {', '.join(lacking)}, so visits count as without; {option} names one."


def _converted(log: "ClickLog") -> bool:
    """Whether the log is another system's, so that columns have the names that we gave them."""
    from ..audit.reading.blocks import ROW

    return any(ROW in getattr(source, "columns", ()) for source in log.sources)


def _declared(board: Mapping[str, Any]) -> "FeatureSpace":
    from ..live.features import NO_FEATURES, FeatureSpace, by_segment

    if board.get("segments"):
        return by_segment(board["segments"])
    return FeatureSpace(**board["features"]) if board.get("features") else NO_FEATURES


def _told(board: str, space: "FeatureSpace", options: argparse.Namespace) -> dict[str, str]:
    """Columns by the name of what they tell, as far as options say it."""
    if options.segment is not None and not space.segments:
        raise ValueError(f"--segment {options.segment}: board {board} has no segments")
    told = {} if options.segment is None else {SEGMENT: options.segment}
    declared = [] if space.segments else [kind.name for kind in space.visits]
    for text in options.feature:
        name, equals, column = text.partition("=")
        if not equals:
            raise ValueError(f"--feature {text}: NAME=COLUMN is needed, such as age=visitor_age")
        if not declared:
            raise ValueError(f"--feature {text}: board {board} declares no features of visits")
        if name not in declared:
            raise ValueError(closest("feature of a visit", name, declared))
        told[name] = column
    return told


def _cells(log: "ClickLog", columns: list[str]) -> dict[int, dict[str, Any]]:
    """Some columns of the first row of each impression, by its number. O(impressions)."""
    import numpy as np
    import polars as pl

    from ..audit.reading.blocks import ROW
    from ..audit.reading.log_files import read_blocks

    found: dict[int, dict[str, Any]] = {}
    rows = 0
    for source in log.sources:
        offset = rows
        for frame, broken in read_blocks(source, columns, gaps=False):
            rows += frame.height + len(broken)
            number = frame[ROW].to_numpy() + offset
            first = np.isin(number, log.row)
            cells = frame.filter(pl.Series(first)).drop(ROW).iter_rows(named=True)
            found |= zip(number[first].tolist(), cells, strict=True)
    return found


def _value(kind: "Kind", cell: Any) -> Any:
    """A cell as what it stands for: files of text have numbers as text, and others may have categories as numbers."""
    if cell is None or cell == "":
        return None
    if kind.categories:
        return str(cell) if isinstance(cell, int) and not isinstance(cell, bool) else cell
    try:
        return float(cell) if isinstance(cell, str) else cell
    except ValueError:
        return cell
