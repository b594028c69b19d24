"""Click logs as files: Parquet, CSV or JSON lines, read in blocks; lines that cannot be read are named, not lost."""

import csv
import gzip
import io
import json
import pathlib
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple, cast

import polars as pl

BLOCK = 16_000_000  # bytes of text at once
ROWS = 200_000  # rows of Parquet at once
ROW = "__row__"  # the column with the number of the row in its file, from 0
_LONGEST = 120  # characters of an example
_KINDS = {
    ".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".tsv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl",
}  # fmt: skip


class Broken(NamedTuple):
    """A row that cannot be used."""

    row: int  # in its file, from 0; a header is no row
    why: str
    text: str  # how it begins


class Block(NamedTuple):
    """Some rows of a file: those that could be read, and those that could not."""

    frame: pl.DataFrame  # with the column ROW
    broken: list[Broken]


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


def blocks(log: pathlib.Path | pl.DataFrame, columns: list[str] | None = None) -> Iterator[Block]:
    """The rows of a file or a data frame in order, all columns or some."""
    if isinstance(log, pl.DataFrame):
        if lacking := [name for name in columns or [] if name not in log.columns]:
            raise ValueError(f"a data frame lacks the columns {', '.join(lacking)}")
        frames: Iterator[Block] = iter([Block(log if columns is None else log.select(columns), [])])
    else:
        frames = {"parquet": _parquet, "csv": _csv, "jsonl": _jsonl}[kind_of(log)](log, columns)
    start = 0
    for block in frames:
        rows = block.frame.height + len(block.broken)
        if block.broken:
            gone = {broken.row for broken in block.broken}
            numbers = [start + i for i in range(rows) if i not in gone]
            broken = [Broken(start + row, why, text) for row, why, text in block.broken]
        else:
            numbers, broken = [], []
        column = pl.Series(ROW, numbers, pl.Int64) if broken else pl.int_range(start, start + rows, eager=True)
        yield Block(block.frame.with_columns(column.alias(ROW)), broken)
        start += rows


def _parquet(path: pathlib.Path, columns: list[str] | None) -> Iterator[Block]:
    try:
        frame = pl.scan_parquet(path)
        for batch in (frame if columns is None else frame.select(columns)).collect_batches(chunk_size=ROWS):
            yield Block(batch, [])
    except pl.exceptions.PolarsError as error:
        raise ValueError(f"{path} cannot be read as Parquet: {str(error).splitlines()[0]}") from None


def _open(path: pathlib.Path) -> BinaryIO:
    if path.name.lower().endswith(".gz"):
        return cast(BinaryIO, gzip.open(path, "rb"))
    return path.open("rb")


def _text(file: BinaryIO, quotes: bool) -> Iterator[bytes]:
    """Whole lines, many at once; with `quotes` a block does not end inside of a quoted field."""
    rest = b""
    while piece := file.read(BLOCK):
        piece = rest + piece
        end = piece.rfind(b"\n") + 1
        while quotes and end and piece.count(b'"', 0, end) % 2:
            end = piece.rfind(b"\n", 0, end - 1) + 1
        rest = piece[end:]
        if end:
            yield piece[:end]
    if rest.strip():
        yield rest


def _csv(path: pathlib.Path, columns: list[str] | None) -> Iterator[Block]:
    separator = "\t" if ".tsv" in path.suffixes else ","
    with _open(path) as file:
        header = file.readline().decode("utf-8-sig", "replace")
        names = next(csv.reader([header], delimiter=separator), [])
        if not names or len(set(names)) < len(names):
            raise ValueError(f"{path} must begin with a line of different column names, not {header.strip()!r:.120}")
        if lacking := [name for name in columns or [] if name not in names]:
            raise ValueError(f"{path} lacks the columns {', '.join(lacking)}; it has {', '.join(names)}")
        for text in _text(file, quotes=True):
            yield _csv_block(text, names, separator, columns or names)


def _csv_block(text: bytes, names: list[str], separator: str, columns: list[str]) -> Block:
    schema = dict.fromkeys(names, pl.String)
    try:
        frame = pl.read_csv(io.BytesIO(text), has_header=False, schema=schema, separator=separator)
        return Block(frame.select(columns), [])
    except pl.exceptions.PolarsError:
        return _csv_lines(text, names, separator, columns)


def _csv_lines(text: bytes, names: list[str], separator: str, columns: list[str]) -> Block:
    """The slow way: line by line, to tell which of them are wrong."""
    good, broken = [], []
    lines = io.StringIO(text.decode("utf-8", "replace"), newline="")
    for i, fields in enumerate(line for line in csv.reader(lines, delimiter=separator) if line):
        if len(fields) == len(names):
            good.append([field or None for field in fields])
        else:
            shown = separator.join(fields)[:_LONGEST]
            broken.append(Broken(i, f"{len(fields)} fields, not {len(names)}", shown))
    frame = pl.DataFrame(good, schema=dict.fromkeys(names, pl.String), orient="row")
    return Block(frame.select(columns), broken)


def _jsonl(path: pathlib.Path, columns: list[str] | None) -> Iterator[Block]:
    with _open(path) as file:
        for text in _text(file, quotes=False):
            frame, broken = _json_block(text)
            if columns is not None:
                lacking = [pl.lit(None).alias(name) for name in columns if name not in frame.columns]
                frame = frame.with_columns(lacking).select(columns)
            yield Block(frame, broken)


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
        except ValueError as error:
            shown = line[:_LONGEST].decode("utf-8", "replace")
            broken.append(Broken(i, f"no JSON object: {error}", shown))
    return pl.DataFrame(good, infer_schema_length=None, strict=False), broken


def peek(log: pathlib.Path | pl.DataFrame) -> pl.DataFrame:
    """The first rows of a log, without those that cannot be read."""
    for block in blocks(log):
        return block.frame.drop(ROW)
    raise ValueError(f"{log} holds no rows")
