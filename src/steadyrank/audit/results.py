"""Results of an audit: for the log, each board and each suspect interval; as objects, JSON and Parquet."""

import html
import json
import pathlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from ..core.files import replacing
from .detect.clients import SuspectClient
from .detect.detectable import Detectable

LIMITS = (
    "Fake users who click as true ones do, each of them rarely, cannot be distinguished from true ones.",
    "False clicks that only double what an item gets, or fewer, look like a promotion of it.",
    "A sudden change of single items, such as half a price, may look like an attack; a slow attack like drift.",
    "The longest behaviour is taken for the true one: if most of the log is false, the rest is called suspect.",
    "Lists are read as a cascade: everything above the last click was looked at, and all of a list without one.",
)


_TOLD = 10  # intervals, and places of a ranking, shown in a notebook


@dataclass(frozen=True)
class Interval:
    """A suspect interval: rows `start_row` to before `end_row` of the log, counted over all files from 0."""

    board: Any
    start_row: int
    end_row: int
    start_time: Any  # of its first impression; None in a log without times
    end_time: Any  # of its last impression
    start_rows: tuple[int, int]  # 95 % interval of the first row
    end_rows: tuple[int, int]
    ordered: bool  # whether the rows of its board are in order of time; else other rows lie between
    impressions: int
    certainty: float  # that click behaviour differs in it, from 0 to 1
    inverted: bool  # whether clicks look inverted: on items rarely clicked elsewhere, not on popular ones
    items: list[dict[str, Any]]  # that gained or lost, the largest change first
    clicks: int = 0
    expected_clicks: float = 0.0  # from users with the usual taste on the same lists


@dataclass(frozen=True)
class Change:
    """Rows in which clicks changed, with a harmless explanation: reported, but not suspect."""

    board: Any
    start_row: int
    end_row: int
    start_time: Any
    end_time: Any
    impressions: int
    # level: all items alike; places: places or lengths of lists; items: as in a promotion; client: one alone made it;
    # chance: no larger than elsewhere in the log
    kind: str
    level: float  # factor on the odds of a click, over all items
    length: float  # mean length of lists in it
    usual_length: float
    items: list[dict[str, Any]]


@dataclass(frozen=True)
class Attack:
    """Suspect intervals of one or more boards at the same time."""

    boards: list[Any]
    start_time: Any
    end_time: Any
    start_row: int
    end_row: int
    impressions: int
    intervals: list[int]  # indices into `Audit.intervals`


@dataclass(frozen=True, repr=False)
class BoardAudit:
    """The audit of one board."""

    board: Any  # its name, None in a log without boards
    impressions: int
    clicks: int
    suspect_share: tuple[float, float]
    unseen: int  # impressions of the largest attack, among those in could_have_shown, that could go undetected
    could_have_shown: Detectable
    intervals: list[Interval]
    changes: list[Change]
    items: list[dict[str, Any]]  # rate and rank with everything and without the suspect part
    ranking: list[Any]
    clean_ranking: list[Any]
    n_clients: int
    clients: list[SuspectClient]
    client_items: list[dict[str, Any]]  # that those clients click more or less than others, the largest gap first
    points: list[list[float]]  # along the log: impressions, clicks, expected clicks
    places: list[tuple[int, int]]  # of intervals: first impression of this board, and the one after the last
    ticks: list[tuple[float, str]] = field(default_factory=list)  # of the time line: position from 0 to 1, and label
    attention: list[dict[str, Any]] = field(default_factory=list)  # of each place, relative to the first
    attention_from: str = "none"  # log; given; or none: it cannot be estimated
    attention_note: str = ""  # which part of it cannot be estimated
    corrected_ranking: list[Any] = field(default_factory=list)  # clean, by estimated rates at the first place
    outcomes: dict[str, Any] | None = None  # of clicks, if a column has them

    def __repr__(self) -> str:
        name = "a board" if self.board is None else f"board {str(self.board)[:40]!r}"
        suspects = f"{len(self.intervals):,} suspect intervals, {len(self.clients):,} clients that stand out"
        return f"<BoardAudit of {name}: {self.impressions:,} impressions, {suspects}>"

    def plot(self, ax: Any = None) -> Any:
        """Draw the click rate along the log, the expected rate, and suspect intervals in red; return the axes.

        `ax`: Matplotlib axes to draw into, new ones by default. Needs Matplotlib
        (`pip install 'steadyrank[report]'`).
        """
        if ax is None:
            from matplotlib import pyplot

            _, ax = pyplot.subplots()
        sizes, clicks, expected = (np.array(column, float) for column in zip(*self.points, strict=True))
        edges = np.concatenate(([0.0], np.cumsum(sizes)))
        for rates, label in ((clicks, "clicks"), (expected, "expected")):
            ax.stairs(rates / np.maximum(sizes, 1.0), edges, label=label, baseline=None)
        for start, end in self.places:
            ax.axvspan(start, end, color="tab:red", alpha=0.2, linewidth=0)
        ax.set_xlabel("impressions" if self.board is None else f"impressions of {self.board}")
        ax.set_ylabel("clicks of an impression")
        ax.set_ylim(bottom=0.0)
        ax.legend()
        return ax


@dataclass(frozen=True)
class CleanLog:
    """The file written with the log without suspect impressions."""

    path: str
    impressions: int
    weight: float  # total weight
    rows_are: str  # impressions, or shown items


@dataclass(frozen=True, repr=False)
class Audit:
    """The audit of a log."""

    files: list[str]
    columns: dict[str, str]
    rows: int
    impressions: int
    broken: int
    examples: list[tuple[int, str, str]]  # broken rows: number, reason, first characters
    suspect_share: tuple[float, float]  # of impressions, at least and at most
    boards: list[BoardAudit]
    flagged: pl.DataFrame  # impressions in suspect intervals, or of clients that stand out
    attacks: list[Attack] = field(default_factory=list)
    clients: list[SuspectClient] = field(default_factory=list)  # of all boards, each once, the highest score first
    n_clients: int = 0
    notes: list[str] = field(default_factory=list)  # on how the log was read
    summary: str = ""  # in a sentence or two
    clean: CleanLog | None = None  # if requested
    visitors: dict[str, Any] | None = None  # by kind, if user agents are known
    cohorts: dict[str, Any] = field(default_factory=dict)  # by role, such as network: `CohortsAudit`
    state: Any = None  # for `since` of the next audit; the caller writes it
    checkpoint: Any = None  # of `keep`; the caller removes it

    def __repr__(self) -> str:
        return f"<Audit of {self.impressions:,} impressions: {_short(self.summary, 500)}>"

    def _repr_html_(self) -> str:
        """For notebooks: the summary, the suspect intervals, and the top of the ranking with and without them."""
        rows = [
            (part.board, when_of(part), f"{part.impressions:,}", f"{part.certainty:.1%}", _first_items(part.items))
            for part in self.intervals[:_TOLD]
        ]
        found = _table(("board", "from", "impressions", "certainty", "items"), rows) if rows else ""
        more = len(self.intervals) - len(rows)
        found += f"<p>and {more:,} more intervals</p>" if more > 0 else ""
        ranks = ""
        if len(self.boards) == 1:
            pairs = zip(self.boards[0].ranking[:_TOLD], self.boards[0].clean_ranking[:_TOLD], strict=False)
            ranks = _table(
                ("place", "all clicks", "without suspect ones"), [(k, *pair) for k, pair in enumerate(pairs, 1)]
            )
        return f"<p>{html.escape(_short(self.summary, 2_000))}</p>{found}{ranks}"

    def plot(self, ax: Any = None, board: Any = None) -> Any:
        """Draw one board's click rate along the log and its suspect intervals, as `BoardAudit.plot` does.

        `board`: its name; required if the log has several.
        """
        names = [one.board for one in self.boards]
        if board is None and len(names) > 1:
            raise ValueError(f"the log has {len(names):,} boards: board must be one of {_short(str(names), 200)}")
        if board is not None and board not in names:
            raise ValueError(f"board must be one of {_short(str(names), 200)}, not {board!r}")
        return self.boards[0 if board is None else names.index(board)].plot(ax)

    @property
    def intervals(self) -> list[Interval]:
        """Suspect intervals of all boards, by their first row."""
        return sorted((part for board in self.boards for part in board.intervals), key=lambda part: part.start_row)

    @property
    def changes(self) -> list[Change]:
        """Harmless changes of all boards, by their first row."""
        return sorted((part for board in self.boards for part in board.changes), key=lambda part: part.start_row)

    def as_dict(self) -> dict[str, Any]:
        """As a dictionary, for JSON. With one board its items and rankings are at the top level, too."""
        boards = [
            {
                **vars(b),
                "could_have_shown": vars(b.could_have_shown),
                **{name: list(map(vars, getattr(b, name))) for name in ("intervals", "changes", "clients")},
            }
            for b in self.boards
        ]
        shared = (
            "items",
            "ranking",
            "clean_ranking",
            "corrected_ranking",
            "attention",
            "could_have_shown",
            "outcomes",
        )
        top = boards[0] if len(boards) == 1 else dict.fromkeys(shared)
        return {
            "summary": self.summary,
            "suspect_share": self.suspect_share,
            "attacks": list(map(vars, self.attacks)),
            "intervals": list(map(vars, self.intervals)),
            "changes": list(map(vars, self.changes)),
            **{key: top[key] for key in shared},
            "clients": list(map(vars, self.clients)),
            "n_clients": self.n_clients,
            "files": self.files,
            "columns": self.columns,
            "rows": self.rows,
            "impressions": self.impressions,
            "broken_rows": self.broken,
            "broken_examples": self.examples,
            "notes": self.notes,
            "cannot_tell": LIMITS,
            "clean": None if self.clean is None else vars(self.clean),
            "visitors": self.visitors,
            "cohorts": {role: one.as_dict() for role, one in self.cohorts.items()},
            "boards": boards,
        }

    def to_json(self) -> str:
        """`as_dict` as JSON text."""
        return json.dumps(self.as_dict(), allow_nan=False, default=str)

    def write_parquet(self, folder: pathlib.Path) -> list[pathlib.Path]:
        """Write suspect intervals and impressions as two tables, which join on `board` and `interval`."""
        folder.mkdir(parents=True, exist_ok=True)
        schema: dict[str, Any] = {
            "board": pl.String,
            "interval": pl.Int64,
            "start_row": pl.Int64,
            "end_row": pl.Int64,
            "start_time": pl.String,
            "end_time": pl.String,
            "impressions": pl.Int64,
            "certainty": pl.Float64,
            "inverted": pl.Boolean,
            "items": pl.List(pl.String),
        }
        own = [name for name in schema if name not in ("board", "interval", "items")]
        table = [
            {
                **{name: getattr(part, name) for name in own},
                **{name: text_of(getattr(part, name)) for name in ("board", "start_time", "end_time")},
                "interval": number,
                "items": [str(item["item"]) for item in part.items],
            }
            for board in self.boards
            for number, part in enumerate(board.intervals, 1)
        ]
        paths = [folder / "intervals.parquet", folder / "impressions.parquet"]
        for path, frame in zip(paths, (pl.DataFrame(table, schema=schema), self.flagged), strict=True):
            with replacing(path) as file:
                frame.write_parquet(file)
        return paths


def text_of(value: Any) -> str | None:
    """A name or a time as text, for tables; None stays None."""
    return None if value is None else str(value)


def when_of(part: Interval) -> str:
    """The start of an interval: its time, or its row in a log without times."""
    return f"row {part.start_row:,}" if part.start_time is None else text_of(part.start_time) or ""


def _first_items(items: list[dict[str, Any]]) -> str:
    return ", ".join(str(item["item"]) for item in items[:3]) + (", ..." if len(items) > 3 else "")


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 4]} ..."


def _table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Rows as an HTML table; cells are shortened and escaped."""

    def line(cells: Sequence[Any], kind: str) -> str:
        texts = ("" if cell is None else html.escape(_short(str(cell), 80)) for cell in cells)
        return "<tr>" + "".join(f"<{kind}>{text}</{kind}>" for text in texts) + "</tr>"

    return f"<table>{line(heads, 'th')}{''.join(line(row, 'td') for row in rows)}</table>"
