"""Click logs as files: Parquet, CSV or JSON lines, read in blocks; lines that cannot be read are named, not lost."""

import io
import json
import pathlib
from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from .blocks import LONGEST, ROW, Block, Broken, pieces, plain
from .csv_files import csv_blocks

ROWS = 200_000  # rows of Parquet at once
_KINDS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
}


def kind_of(path: pathlib.Path) -> str:
    """The format of a file, by its name."""
    name = path.name.lower().removesuffix(".gz")
    kind = _KINDS.get(pathlib.PurePath(name).suffix)
    if kind is None or (kind == "parquet" and path.name.lower().endswith(".gz")):
        known = ", ".join(_KINDS)
        raise ValueError(f"{path} is no log that can be read: its name must end in {known} (text also with .gz)")
    if not path.is_file():
        raise ValueError(f"{path} is not a file")
    return kind


def read_blocks(
    log: pathlib.Path | pl.DataFrame, columns: list[str] | None = None, gaps: bool = True
) -> Iterator[Block]:
    """The rows of a file or a data frame in order, with the column ROW; all columns or some.

    `gaps`: NaN is a gap, as null is; else it stays.
    """
    if isinstance(log, pl.DataFrame) and ROW in log.columns:  # made of another log's rows
        yield Block(plain(_some(log, None if columns is None else [*columns, ROW], "a data frame"), gaps), [])
        return
    if isinstance(log, pl.DataFrame):
        frames: Iterator[Block] = iter([Block(_some(log, columns, "a data frame"), [])])
    else:
        frames = {"parquet": _parquet, "csv": csv_blocks, "jsonl": _jsonl, "json": _json}[kind_of(log)](log, columns)
    start = 0
    for frame, broken in frames:
        rows = frame.height + len(broken)
        numbers = np.delete(np.arange(start, start + rows), [row for row, _, _ in broken])
        yield Block(
            plain(frame, gaps).with_columns(pl.Series(ROW, numbers, pl.Int64)),
            [Broken(start + row, why, text) for row, why, text in broken],
        )
        start += rows


def _some(frame: pl.DataFrame, columns: list[str] | None, what: str) -> pl.DataFrame:
    if lacking := [name for name in columns or [] if name not in frame.columns]:
        raise ValueError(f"{what} lacks the columns {', '.join(lacking)}; it has {', '.join(frame.columns)}")
    return frame if columns is None else frame.select(columns)


def _parquet(path: pathlib.Path, columns: list[str] | None) -> Iterator[Block]:
    try:
        frame = pl.scan_parquet(path, glob=False)
        _some(pl.DataFrame(schema=frame.collect_schema()), columns, str(path))
        for batch in (frame if columns is None else frame.select(columns)).collect_batches(chunk_size=ROWS):
            yield Block(batch, [])
    except pl.exceptions.PolarsError as error:
        raise ValueError(f"{path} cannot be read as Parquet: {str(error).splitlines()[0]}") from None


def _jsonl(path: pathlib.Path, columns: list[str] | None) -> Iterator[Block]:
    """Rows may leave out keys, but a key that no row of a file has is another column's."""
    found: dict[str, None] = {}
    for text in pieces(path):
        frame, broken = _json_block(text)
        found |= dict.fromkeys(frame.columns)
        if columns is not None:
            left_out = [pl.lit(None).alias(name) for name in columns if name not in frame.columns]
            frame = frame.with_columns(left_out).select(columns)
        yield Block(frame, broken)
    if found:
        _some(pl.DataFrame(schema=dict.fromkeys(found, pl.Null)), columns, str(path))


def _json(path: pathlib.Path, columns: list[str] | None) -> Iterator[Block]:
    """A file that is one JSON array of rows, or an object that holds one; else lines of JSON. O(file) memory."""
    text = b"".join(pieces(path))
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        yield from _jsonl(path, columns)
        return
    rows = whole
    if isinstance(whole, dict):  # a single row, or what a download wraps around rows
        inner = [
            value for value in whole.values() if isinstance(value, list) and value and isinstance(value[0], dict)
        ]
        rows = inner[0] if len(inner) == len(whole) == 1 else [whole]
    rows = rows if isinstance(rows, list) else []
    good = [row for row in rows if isinstance(row, dict)]
    if not good:
        raise ValueError(f"{path} must be an array of JSON objects, or lines of them, one a row")
    broken = [
        Broken(i, f"no JSON object but {type(row).__name__}", json.dumps(row)[:LONGEST])
        for i, row in enumerate(rows)
        if not isinstance(row, dict)
    ]
    yield Block(_some(pl.DataFrame(good, infer_schema_length=None, strict=False), columns, str(path)), broken)


def _json_block(text: bytes) -> tuple[pl.DataFrame, list[Broken]]:
    try:
        return pl.read_ndjson(io.BytesIO(text), infer_schema_length=None), []
    except pl.exceptions.PolarsError:
        pass
    good, broken = [], []
    for i, line in enumerate(line for line in text.split(b"\n") if line.strip()):
        try:
            row = json.loads(line)
            if not isinstance(row, dict):
                raise ValueError("no object")
            good.append(row)
        except (ValueError, RecursionError) as error:
            shown = line[:LONGEST].decode("utf-8", "replace")
            broken.append(Broken(i, f"no JSON object: {error}", shown))
    return pl.DataFrame(good, infer_schema_length=None, strict=False), broken


def peek(logs: Sequence[pathlib.Path | pl.DataFrame]) -> pl.DataFrame:
    """The first rows that can be read."""
    broken: list[Broken] = []
    for log in logs:
        for block in read_blocks(log):
            if block.frame.height and block.frame.width > 1:
                return block.frame.drop(ROW)
            broken += block.broken
    if broken:
        row, why, text = broken[0]
        raise ValueError(f"no row can be read; row {row}: {why}: {text!r}")
    raise ValueError("the log holds no rows")
