"""Click logs on the command line: options for reading them, the same for all commands, and lists to learn from."""

import argparse
import pathlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..click_logs.click_log import ClickLog
    from ..core.arrays import Bools, Floats

COLUMNS = {
    "items": "the list shown (one row per impression)",
    "item": "the item shown (one row per shown item)",
    "clicked": "the click: a position, an item, bits, or a flag per shown item",
    "impression": "which rows were shown together",
    "position": "the place of a shown item in its list",
    "time": "when it was shown",
    "client": "who saw it",
    "board": "on which ranked surface; each is audited on its own",
}
VALUE = "the value of the outcome, such as the price paid; above 0 is an outcome"
AGENT = "the user agent; declared crawlers and AI agents are removed"
MOST_BROKEN = "1%"
LEFT_OUT = ", by their weight or because they show an item twice or begin further down"
NETWORK = "the client's network, such as 198.51.100.0/24; its clients are also judged together"
REFERRER = "where a visit came from; clients who share it are also judged together"
WEIGHT = "weight"  # the column that `steadyrank audit --clean` writes


def share(name: str, text: str) -> float:
    """Parse a share such as 5% or 0.05."""
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"{name} must be a share such as 5% or 0.05, not {text!r}")
    return value


def how_to_read(options: argparse.Namespace) -> dict[str, Any]:
    """The options on how to read a log, other than its columns."""
    return {name: getattr(options, name) for name in ("first_position", "time_format", "format")}


def given_options(options: argparse.Namespace) -> Iterator[tuple[str, Any]]:
    """The options of `add_options` that were given, by their names on the command line, with values."""
    columns = ("board_column" if name == "board" else name for name in COLUMNS)
    for name in (*columns, "of", "first_position", "time_format", "format"):
        if getattr(options, name) is not None:
            yield f"--{name.replace('_', '-')}", getattr(options, name)
    if options.most_broken != MOST_BROKEN:
        yield "--most-broken", options.most_broken


def add_options(sub: argparse.ArgumentParser, several_boards: bool = False) -> None:
    """Add options for reading logs, and for the board to take unless the command handles `several_boards`."""
    some = "*" if several_boards else "+"  # an audit has its own message for a missing log
    sub.add_argument("logs", nargs=some, type=pathlib.Path, metavar="LOG", help="Parquet, CSV, TSV or JSON; folders")
    for name, words in COLUMNS.items():
        option = "--board-column" if name == "board" and not several_boards else f"--{name}"
        about = words if several_boards else words.partition(";")[0]
        sub.add_argument(option, metavar="COLUMN", default=None, help=f"column: {about}")
    if several_boards:
        sub.add_argument("--user-agent", metavar="COLUMN", default=None, help=f"column: {AGENT}")
        sub.add_argument("--network", metavar="COLUMN", default=None, help=f"column: {NETWORK}")
        sub.add_argument("--referrer", metavar="COLUMN", default=None, help=f"column: {REFERRER}")
        sub.add_argument("--value", metavar="COLUMN", default=None, help=f"column: {VALUE}")
    else:
        sub.add_argument("--of", default=None, metavar="NAME", help="the board to take from a log with several")
    words = "number of the top position"
    sub.add_argument("--first-position", type=int, choices=(0, 1), default=None, help=words)
    words = "format of dates, such as '%%d/%%m/%%Y %%H:%%M'"
    sub.add_argument("--time-format", default=None, metavar="FORMAT", help=words)
    words = "schema of the log: plain, ubi, ga4, personalize, dsjson, metarank, sessions or events (default: guessed)"
    sub.add_argument("--format", default=None, metavar="NAME", help=words)
    sub.add_argument(
        "--most-broken", default=MOST_BROKEN, metavar="SHARE", help="largest share of rows that may be unusable"
    )


def read_log(options: argparse.Namespace, value: str | None = None) -> "ClickLog":
    """Read the log that the options name; `value`: for another system's log, the actions that are outcomes."""
    from ..click_logs.click_log import read, schema_of
    from ..click_logs.files import sources_of

    logs = sources_of(options.logs)
    roles = {name: options.board_column if name == "board" else getattr(options, name) for name in COLUMNS}
    if value is not None and schema_of(logs, roles, **how_to_read(options)) is not None:
        roles["value"] = value
    return read(logs, roles, most_broken=share("--most-broken", options.most_broken), **how_to_read(options))


def board_of(log: "ClickLog", wanted: str | None, like: str | None = None) -> int:
    """The number of the board to take: the `wanted` one, else the only one, else the one named `like`."""
    names = [str(name) for name in log.boards]
    if wanted is None and len(names) == 1:
        return 0
    name = like if wanted is None else wanted
    if name not in names:
        some = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
        missing = "the log has several boards" if name is None else f"the log has no board {name!r}"
        raise ValueError(f"{missing}; --of NAME says which to take: {some}")
    return names.index(name)


def drawn_by_weight(options: argparse.Namespace, log: "ClickLog") -> "Bools | None":
    """Draw the impressions to take, bool[n], each with its weight as probability; None, all, without weights.

    The draw is determined by `--seed` and the log.
    """
    import numpy as np

    weights = _weights_of(options.logs, log)
    return None if weights is None else np.random.default_rng(options.seed).random(weights.size) < weights


def _weights_of(paths: Sequence[pathlib.Path], log: "ClickLog") -> "Floats | None":
    """The weight of each impression, from a column of Parquet files; None if no file has one."""
    import numpy as np
    import polars as pl

    from ..click_logs.files import read_blocks, sources_of

    paths = [path for path in sources_of(list(paths)) if isinstance(path, pathlib.Path)]
    parquet = [path for path in paths if path.suffix.lower() in (".parquet", ".pq")]
    weighted = [path for path in parquet if WEIGHT in pl.read_parquet_schema(path)]
    if not weighted:
        return None
    if len(weighted) < len(paths):
        other = next(path for path in paths if path not in weighted)
        raise ValueError(f"{weighted[0]} has weights and {other} has none: read them apart, or drop the column")
    column = pl.concat([frame[WEIGHT].cast(pl.Float64) for frame, _ in read_blocks(paths, [WEIGHT], gaps=False)])
    weights: Floats = column.to_numpy()[log.row]
    if not bool(np.all((weights >= 0.0) & (weights <= 1.0))):
        raise ValueError(f"a weight is from 0 to 1, not {weights[~((weights >= 0.0) & (weights <= 1.0))][0]}")
    return weights


def whole_lists(log: "ClickLog", board: int) -> Iterator[tuple[int, list[str], list[int], int]]:
    """Iterate over impressions in order of time: number, whole list, one click bit per place, places examined.

    Leaves out lists that begin below the first place or show an item twice. Reads the log again.
    """
    from ..click_logs.cells import as_text
    from ..click_logs.rows import impression_blocks

    lists: dict[int, tuple[list[str], list[int], int]] = {}
    for block in impression_blocks(log.sources, log.columns, together=log.scattered):
        ends, names, bits = block.shown.cumsum().tolist(), as_text(block.item).to_list(), block.bits.tolist()
        for row, start, end, size in zip(block.row.tolist(), [0, *ends], ends, block.size.tolist(), strict=False):
            lists[row] = (names[start:end], [int(bit) for bit in bits[start:end]], size)
    top = log.impressions.top
    for i, row in enumerate(log.row.tolist()):
        items, clicks, size = lists[row]
        if log.board[i] == board and (top is None or top[i] == 0) and items and len(set(items)) == len(items):
            yield i, items, clicks, size


def lists_of(
    log: "ClickLog", length: int, board: int | None, kept: Any = None
) -> Iterator[tuple[int, list[str], list[int]]]:
    """Iterate over impressions in order of time: number, list and click bits, down to the last place examined.

    Lists are cut at `length`; those that begin below the first place or show an item twice are left out. `board`:
    None for all boards; `kept`: bool[n], which to take.
    """
    import polars as pl

    from ..click_logs.cells import as_text

    shown, items = log.impressions, as_text(pl.Series(log.items)).to_list()
    edges, numbers, bits = shown.first.tolist(), shown.item.tolist(), shown.bits.tolist()
    for i in range(shown.n):
        if board is not None and log.board[i] != board:
            continue
        if (shown.top is not None and shown.top[i] != 0) or not (kept is None or kept[i]):
            continue
        end = min(edges[i + 1], edges[i] + length)
        names = [items[number] for number in numbers[edges[i] : end]]
        if names and len(set(names)) == len(names):
            yield i, names, [int(bit) for bit in bits[edges[i] : end]]
