"""Write the log without its suspect impressions, as a Parquet file with a weight per row."""

import pathlib
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from ..click_logs.click_log import BoardLog, ClickLog
from ..click_logs.files import Source
from ..click_logs.rows import BlockImpressions, impression_blocks
from ..core.arrays import Floats
from ..core.files import replacing
from .detect.findings import Finding
from .results import CleanLog

AT_EDGE = 0.5  # weight of an impression just outside an interval, whose true edge may lie further out


def check_clean(path: pathlib.Path, logs: Sequence[Source]) -> None:
    """Raise ValueError for a path that does not end in .parquet, is a folder, or is one of the logs."""
    if path.suffix.lower() not in (".parquet", ".pq"):
        raise ValueError(f"--clean {path} must end in .parquet: that is what is written")
    if path.is_dir():
        raise ValueError(f"--clean {path} is a folder; name a file, for instance {path / 'clean.parquet'}")
    if any(isinstance(log, pathlib.Path) and log.resolve() == path.resolve() for log in logs):
        raise ValueError(f"--clean {path} is the log itself; name another file")


def weights(parts: Sequence[BoardLog], findings: Sequence[Finding], log: ClickLog) -> Floats:
    """The weight of the impression that begins at each row, float64[rows]; 0 if it is suspect or none begins there.

    For a client that is odd but not named, the weight is the share of honest clients among those at least as odd.
    Outside an interval, weights rise from AT_EDGE to 1 over the confidence interval of its edge.
    """
    weight: Floats = np.zeros(log.rows)
    for part, finding in zip(parts, findings, strict=True):
        mine: Floats = np.ones(finding.impressions)
        if part.client is not None and finding.honest.size:
            mine = np.append(finding.honest, 1.0)[part.client]  # the last is for unknown clients, -1
        for one in finding.intervals:
            before, after = one.start - one.starts[0], one.ends[1] - one.end
            mine[one.starts[0] : one.start] *= _rising(before)[::-1]
            mine[one.end : one.ends[1]] *= _rising(after)
        for one in finding.intervals:
            mine[one.start : one.end] = 0.0
        mine[finding.odd] = 0.0
        row = part.of(log.row, slice(None))
        weight[row[row >= 0]] = mine[row >= 0]  # impressions of earlier audits have rows below 0
    return weight


def _rising(n: int) -> Floats:
    """Weights of n impressions in order of distance from an edge."""
    rising: Floats = AT_EDGE + (1.0 - AT_EDGE) * np.arange(n) / max(n, 1)
    return rising


def write_clean(path: pathlib.Path, log: ClickLog, weight: Floats) -> CleanLog:
    """Read the log again and write the impressions with a weight above 0, in the order of their rows.

    One row per impression, clicks as one bit per place; or one row per shown item if any list starts below the top of
    the page, which a list cannot express. Names have the type of the log's first rows. Memory: O(block).
    """
    placed = log.impressions.top is not None and bool(log.impressions.top.any())
    named = {"item": log.items, "client": log.clients, "board": log.boards}
    kinds: dict[Any, pl.DataType] = {
        name: pl.Series(of[:1]).dtype if of else pl.String() for name, of in named.items()
    }
    kinds["items"] = pl.List(kinds["item"])
    kept = 0
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
        blocks = impression_blocks(log.sources, log.columns, together=log.scattered)
        for number, block in enumerate(blocks):
            frame = _rows(block, log, weight, placed)
            frame = frame.cast({name: kind for name, kind in kinds.items() if name in frame.columns})
            kept += frame.height if not placed else int(frame["impression"].n_unique())
            frame.write_parquet(pathlib.Path(folder, f"{number:09d}.parquet"))
        with replacing(path) as file:
            pl.scan_parquet(sorted(pathlib.Path(folder).glob("*.parquet"))).sink_parquet(file)
    return CleanLog(str(path), kept, round(float(weight.sum()), 3), "shown items" if placed else "impressions")


def _rows(block: BlockImpressions, log: ClickLog, weight: Floats, placed: bool) -> pl.DataFrame:
    """The rows to write for a block."""
    about = {"row" if not placed else "impression": pl.Series(block.row, dtype=pl.Int64)}
    if block.time is not None:
        about["time"] = _times(block.time, log.dated)
    about |= {name: of for name, of in (("client", block.client), ("board", block.board)) if of is not None}
    trust = weight[block.row]
    heads = pl.DataFrame({**about, "weight": trust})
    kept = pl.Series(trust > 0.0)
    turn = np.repeat(np.arange(block.shown.size), block.shown)
    if placed:
        top = np.zeros(block.shown.size, np.int64) if block.top is None else block.top
        place = np.arange(turn.size) - np.repeat(np.cumsum(block.shown) - block.shown, block.shown)
        flat = (("item", block.item), ("position", top[turn] + place), ("clicked", block.bits.astype(np.int8)))
        rows = heads[turn].with_columns(pl.Series(name, of) for name, of in flat)
        return rows.filter(kept.gather(turn)).select(pl.exclude("weight"), "weight")
    flat_lists = pl.DataFrame({"turn": turn, "items": block.item, "clicked": block.bits.astype(np.int8)})
    lists = flat_lists.group_by("turn", maintain_order=True).agg("items", "clicked").drop("turn")
    rows = pl.concat([heads.drop("weight"), lists, heads.select("weight")], how="horizontal")
    return rows.filter(kept)


def _times(time: Floats, dated: bool) -> pl.Series:
    if not dated:
        return pl.Series(time)
    return pl.Series(np.rint(time * 1e6).astype(np.int64)).cast(pl.Datetime("us", "UTC"))
