"""Read the rows of click logs, from files (Parquet, CSV, JSON) and data frames, in blocks, numbered over all sources.

Lines that cannot be parsed are reported, not dropped silently.
"""

import csv
import glob
import gzip
import io
import json
import pathlib
import re
import sys
import urllib.parse
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple, TypeAlias, cast

import numpy as np
import polars as pl

Source: TypeAlias = pathlib.Path | pl.DataFrame

ROW = "__row__"  # the column with the row number, from 0, over all sources
BLOCK = 16_000_000  # bytes of text per block
ROWS = 200_000  # rows of Parquet per block
EXAMPLES = 5  # broken rows that a message shows
LONGEST = 120  # characters of such an example
_KINDS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
}


class Broken(NamedTuple):
    """A row that cannot be used."""

    row: int  # its number, from 0, headers not counted
    why: str
    text: str  # its first characters


class Block(NamedTuple):
    """Some rows: a frame of those that could be parsed, and those that could not."""

    frame: pl.DataFrame
    broken: list[Broken]


def sources_of(log: Any) -> list[Source]:
    """Expand a log as a caller gives it, a path, a data frame or a list of them, to files and polars frames.

    A folder stands for all logs in it and its subfolders, a pattern such as `logs/dt=2026-11-*/*.parquet` for all
    matches; both sorted by name. Raises ValueError for other types and where no file is found.
    """
    given: list[Any] = list(log) if isinstance(log, (list, tuple)) else [log]
    for source in given:
        if not isinstance(source, (str, pathlib.Path, pl.DataFrame)) and not _is_pandas(source):
            kind = type(source).__module__.partition(".")[0] + "." + type(source).__name__
            raise ValueError(f"log must be a path, a data frame of polars or pandas, or a list of them, not {kind}")
    sources: list[Source] = []
    for source in given:
        if isinstance(source, str | pathlib.Path):
            sources += _files_of(pathlib.Path(source))
        else:
            sources.append(source if isinstance(source, pl.DataFrame) else from_pandas(source))
    return sources


def _files_of(path: pathlib.Path) -> list[pathlib.Path]:
    """The files that a path stands for: itself, those in a folder, or those that match a pattern."""
    if path.is_dir():
        inside = sorted(one for one in path.rglob("*") if one.is_file() and _kind_by_name(one) is not None)
        files = [one for one in inside if not any(part[0] in "._" for part in one.relative_to(path).parts)]
        if not files:
            raise ValueError(f"{path} is a folder without logs: none of its files ends in {', '.join(_KINDS)}")
        return files
    if path.exists() or not any(sign in str(path) for sign in "*?["):
        return [path]
    files = sorted(pathlib.Path(one) for one in glob.glob(str(path), recursive=True))
    if not files:
        raise ValueError(f"no file fits {path}")
    return [file for one in files for file in _files_of(one)]


def partition_of(path: pathlib.Path) -> dict[str, str | None]:
    """Columns and values in the folder names of a partitioned log, such as dt in `dt=2026-11-01/part-0.parquet`."""
    named = (part.partition("=") for part in path.parts[:-1] if "=" in part.strip("="))
    return {
        name: None if value == "__HIVE_DEFAULT_PARTITION__" else urllib.parse.unquote(value)
        for name, _, value in named
    }


def rows_in(logs: Sequence[Source]) -> int:
    """The total number of rows, if known without reading them, else 0: always 0 if any file is text."""
    rows = 0
    for log in logs:
        if isinstance(log, pl.DataFrame):
            rows += log.height
        elif _kind_by_name(log) == "parquet":
            try:
                rows += int(pl.scan_parquet(log, glob=False).select(pl.len()).collect().item())
            except pl.exceptions.PolarsError:
                return 0  # reading the file later reports the error
        else:
            return 0
    return rows


def _kind_by_name(path: pathlib.Path) -> str | None:
    name = path.name.lower().removesuffix(".gz")
    kind = _KINDS.get(pathlib.PurePath(name).suffix)
    return None if kind == "parquet" and path.name.lower().endswith(".gz") else kind


def kind_of(path: pathlib.Path) -> str:
    """The format of a file, by its name. Raises ValueError for unknown formats and missing files."""
    kind = _kind_by_name(path)
    if kind is None:
        endings = ", ".join(_KINDS)
        raise ValueError(f"{path} cannot be read as a log: its name must end in {endings} (text also with .gz)")
    if not path.is_file():
        raise ValueError(f"{path} is not a file")
    return kind


def read_blocks(
    logs: Sequence[Source], columns: list[str] | None = None, gaps: bool = True, start: int = 0
) -> Iterator[Block]:
    """Iterate over the rows of files and data frames in order, all columns or some, and ROW, counted from `start`.

    `gaps`: whether to convert NaN to null.
    """
    for log in logs:
        if isinstance(log, pl.DataFrame) and ROW in log.columns:  # converted from another log; has its row numbers
            yield Block(_alike(_some(log, None if columns is None else [*columns, ROW], "a data frame"), gaps), [])
            continue
        for frame, broken in _blocks(log, columns):
            rows = frame.height + len(broken)
            numbers = np.delete(np.arange(start, start + rows), [row for row, _, _ in broken])
            yield Block(
                _alike(frame, gaps).with_columns(pl.Series(ROW, numbers, pl.Int64)),
                [Broken(start + row, why, text) for row, why, text in broken],
            )
            start += rows


def _blocks(log: Source, columns: list[str] | None) -> Iterator[Block]:
    """The rows of one source as they are; broken ones numbered within their block.

    Columns that the file lacks are taken from the names of its folders.
    """
    if isinstance(log, pl.DataFrame):
        yield Block(_some(log, columns, "a data frame"), [])
        return
    named = partition_of(log)
    own = None if columns is None else [name for name in columns if name not in named] or None
    reader = {"parquet": _parquet, "csv": _csv, "jsonl": _jsonl, "json": _json}[kind_of(log)]
    for frame, broken in reader(log, own):
        more = [pl.lit(value, pl.String).alias(name) for name, value in named.items() if name not in frame.columns]
        yield Block(frame.with_columns(more) if columns is None else frame.with_columns(more).select(columns), broken)


def peek(logs: Sequence[Source]) -> pl.DataFrame:
    """The first block with rows that can be parsed; ValueError if there is none."""
    broken: list[Broken] = []
    for block in read_blocks(logs):
        if block.frame.height and block.frame.width > 1:
            return block.frame.drop(ROW)
        broken += block.broken
    if broken:
        row, why, text = broken[0]
        raise ValueError(f"no row can be read; row {row}: {why}: {text!r}")
    raise ValueError("the log holds no rows")


def _some(frame: pl.DataFrame, columns: list[str] | None, what: str) -> pl.DataFrame:
    if lacking := [name for name in columns or [] if name not in frame.columns]:
        raise ValueError(f"{what} lacks the columns {', '.join(lacking)}; it has {', '.join(frame.columns)}")
    return frame if columns is None else frame.select(columns)


def _alike(frame: pl.DataFrame, gaps: bool) -> pl.DataFrame:
    """Normalise types: categories become text, arrays become lists, and with `gaps` NaN becomes null."""

    def kind(old: pl.DataType) -> pl.DataType:
        if isinstance(old, (pl.Categorical, pl.Enum)):
            return pl.String()
        return pl.List(kind(old.inner)) if isinstance(old, (pl.List, pl.Array)) else old  # type: ignore[arg-type]

    frame = frame.cast({name: kind(old) for name, old in frame.schema.items() if kind(old) != old})
    if not gaps:
        return frame
    floats = [name for name, old in frame.schema.items() if isinstance(old, pl.List) and old.inner.is_float()]
    return frame.with_columns(
        pl.selectors.float().fill_nan(None),
        pl.col(floats).list.eval(pl.when(pl.element().is_finite()).then(pl.element())),
    )


def _parquet(path: pathlib.Path, columns: list[str] | None) -> Iterator[Block]:
    try:
        frame = pl.scan_parquet(path, glob=False)
        _some(pl.DataFrame(schema=frame.collect_schema()), columns, str(path))
        for batch in (frame if columns is None else frame.select(columns)).collect_batches(chunk_size=ROWS):
            yield Block(batch, [])
    except pl.exceptions.PolarsError as error:
        raise ValueError(f"{path} cannot be read as Parquet: {str(error).splitlines()[0]}") from None


def _jsonl(path: pathlib.Path, columns: list[str] | None) -> Iterator[Block]:
    """The rows of a file with one JSON object per line. Rows may omit keys; a key that all rows omit is an error."""
    keys: dict[str, None] = {}
    for text in pieces(path):
        frame, broken = _json_block(text)
        keys |= dict.fromkeys(frame.columns)
        if columns is not None:
            left_out = [pl.lit(None).alias(name) for name in columns if name not in frame.columns]
            frame = frame.with_columns(left_out).select(columns)
        yield Block(frame, broken)
    if keys:
        _some(pl.DataFrame(schema=dict.fromkeys(keys, pl.Null)), columns, str(path))


def _json(path: pathlib.Path, columns: list[str] | None) -> Iterator[Block]:
    """The rows of a JSON array, or of an object that holds one; else one JSON object per line. O(file) memory."""
    text = b"".join(pieces(path))
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        yield from _jsonl(path, columns)
        return
    rows = whole
    if isinstance(whole, dict):  # a single row, or an export's wrapper around rows
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


_UNNAMED = "column_1"  # name of a first column without one, as in a file without a header
_VALUE = re.compile(  # what is no column name: a number, a date, a list
    r"[-+]?\d*\.?\d+([eE][-+]?\d+)?$|\d{4}-\d\d?-\d\d?|\d\d?[./]\d\d?[./]\d{2,4}|\[.*\]$|[^|]+\|[^|]"
)
_FOREIGN = re.compile("[\udc80-\udcff]")  # surrogates that stand for bytes that are not UTF-8


def _csv(path: pathlib.Path, columns: list[str] | None) -> Iterator[Block]:
    """The rows of a CSV or TSV file."""
    texts = pieces(path, quotes=True)
    header, _, first = next(texts, b"").partition(b"\n")
    if b"\0" in header:
        raise ValueError(f"{path} is not text in UTF-8, perhaps in UTF-16; save it as UTF-8")
    line = header.decode("utf-8-sig", "replace").rstrip("\r")
    separator = _field_separator(path, line)
    names = _column_names(path, line, separator)
    if names and _are_values(names):
        first = header.removeprefix(b"\xef\xbb\xbf") + b"\n" + first
        names = [f"column_{i}" for i in range(1, len(names) + 1)]
    if lacking := [name for name in columns or [] if names and name not in names]:
        raise ValueError(f"{path} lacks the columns {', '.join(lacking)}; it has {', '.join(names)}")
    if first.strip():
        yield _csv_block(first, names, separator, columns or names)
    for text in texts:
        yield _csv_block(text, names, separator, columns or names)


def _field_separator(path: pathlib.Path, header: str) -> str:
    """The field separator: a tab by the file's name, else the first of comma, semicolon, tab in the header."""
    if ".tsv" in path.suffixes:
        return "\t"
    return next((s for s in (",", ";", "\t") if s in header), ",")


def _column_names(path: pathlib.Path, header: str, separator: str) -> list[str]:
    try:
        names = [name.strip() for name in next(csv.reader([header], delimiter=separator), [])]
    except csv.Error as error:
        raise ValueError(f"{path} cannot be read as CSV: {error}; it begins with {header[:LONGEST]!r}") from None
    if _are_values(names):
        return names
    if len(names) > 1 and not names[0]:
        names[0] = _UNNAMED  # the index, which pandas writes by default
    nameless = [i for i, name in enumerate(names, 1) if header and not name]
    again = [name for i, name in enumerate(names) if name and name in names[:i]]
    if nameless or again:
        why = f"column {nameless[0]} has no name" if nameless else f"two are called {again[0]!r}"
        raise ValueError(f"{path} must begin with a line of different column names, not {header[:LONGEST]!r}: {why}")
    return names


def _are_values(names: list[str]) -> bool:
    """Whether the first line is a row, not a header: numbers, dates and lists are no column names."""
    return any(map(_VALUE.match, names))


def _csv_block(text: bytes, names: list[str], separator: str, columns: list[str]) -> Block:
    schema = dict.fromkeys(names, pl.String)
    if b"\n\n" in text or b"\n\r\n" in text or text[:1] in b"\r\n":  # empty lines are no rows
        return _csv_lines(text, names, separator, columns)
    try:
        frame = pl.read_csv(io.BytesIO(text), has_header=False, schema=schema, separator=separator)
    except pl.exceptions.PolarsError:
        return _csv_lines(text, names, separator, columns)
    if _may_be_cut(text, frame, separator):
        return _csv_lines(text, names, separator, columns)
    return Block(frame.select(columns), [])


def _may_be_cut(text: bytes, frame: pl.DataFrame, separator: str) -> bool:
    """Whether a line may have too few fields: polars reads missing ones as empty."""
    if frame[:, -1].null_count() == 0:
        return False
    return b'"' in text or text.count(separator.encode()) != frame.height * (frame.width - 1)


def _csv_lines(text: bytes, names: list[str], separator: str, columns: list[str]) -> Block:
    """Slow path: parse line by line, to report which lines are wrong.

    An unclosed quote would swallow the lines after it: only its own line is dropped.
    """
    lines = io.StringIO(text.decode("utf-8", "surrogateescape"), newline="").readlines()
    good: list[list[str | None]] = []
    broken: list[Broken] = []
    limit = csv.field_size_limit(sys.maxsize)
    at = 0
    try:
        while at < len(lines):
            start = at
            reader = csv.reader((lines[i] for i in range(start, len(lines))), delimiter=separator)
            for fields in reader:
                taken, at = at, start + reader.line_num
                shown = lines[taken].strip()[:LONGEST].encode(errors="replace").decode()
                if _FOREIGN.search("".join(fields)):
                    broken.append(Broken(len(good) + len(broken), "not in UTF-8: save the file as that", shown))
                elif len(fields) == len(names):
                    good.append([field or None for field in fields])
                elif fields:
                    broken.append(Broken(len(good) + len(broken), f"{len(fields)} fields, not {len(names)}", shown))
                    if at > taken + 1:
                        at = taken + 1
                        break
    finally:
        csv.field_size_limit(limit)
    frame = pl.DataFrame(good, schema=dict.fromkeys(names, pl.String), orient="row")
    return Block(frame.select(columns), broken)


_MOST_LINES = 1_000  # lines of one quoted field; beyond that a quote is taken to be unclosed


def pieces(path: pathlib.Path, quotes: bool = False) -> Iterator[bytes]:
    """The text of a file in pieces of whole lines; with `quotes` a piece does not end inside a quoted field."""
    rest = b""
    try:
        with _open(path) as file:
            while piece := file.read(BLOCK):
                piece = rest + piece
                end = _end(piece, quotes)
                rest = piece[end:]
                if end:
                    yield piece[:end]
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} cannot be unpacked: {error}") from None
    if rest.strip():
        yield rest


def _open(path: pathlib.Path) -> BinaryIO:
    if path.name.lower().endswith(".gz"):
        return cast(BinaryIO, gzip.open(path, "rb"))
    return path.open("rb")


def _end(piece: bytes, quotes: bool) -> int:
    """Where the last whole line ends; with `quotes` outside of quoted fields, as far as quotes are paired."""
    last = end = piece.rfind(b"\n") + 1
    if not quotes or piece.count(b'"', 0, end) % 2 == 0:
        return last
    for _ in range(_MOST_LINES):
        start = piece.rfind(b"\n", 0, max(end - 1, 0)) + 1
        if piece.count(b'"', start, end) % 2:
            return start or last
        end = start
    return last


_NOTHING = ("NaTType", "NAType")  # types of pandas for missing values


def _is_pandas(source: Any) -> bool:
    """Whether it is a data frame of pandas or of a compatible library: judged by its methods."""
    return all(hasattr(type(source), name) for name in ("columns", "iloc", "to_dict"))


def from_pandas(source: Any) -> pl.DataFrame:
    """Convert a pandas frame without its index. Lists in cells stay lists, missing values become null.

    `polars.from_pandas` is not used, since it needs pyarrow.
    """
    columns = list(source.columns)
    if wrong := [name for name in columns if not isinstance(name, str)]:
        raise ValueError(f"the columns of a data frame must have names, not {wrong[0]!r}")
    if len(set(columns)) < len(columns):
        twice = next(name for name in columns if columns.count(name) > 1)
        raise ValueError(f"two columns of the data frame are called {twice!r}")
    return pl.DataFrame([_series(name, source[name]) for name in columns])


def _series(name: str, column: Any) -> pl.Series:
    values = [_cell(value) for value in column.tolist()]
    try:
        return pl.Series(name, values, strict=False)
    except (TypeError, pl.exceptions.PolarsError) as error:
        kinds = sorted({type(value).__name__ for value in values if value is not None})
        raise ValueError(f"column {name!r} mixes {', '.join(kinds)}, which no column can hold: {error}") from None


def _cell(value: Any) -> Any:
    """Convert a cell: arrays and tuples to lists, timestamps of pandas to datetimes, missing values to None."""
    if value is None or type(value).__name__ in _NOTHING or (isinstance(value, float) and value != value):
        return None
    if hasattr(value, "to_pydatetime"):
        return value.to_pydatetime(warn=False)
    return value.tolist() if hasattr(value, "tolist") else list(value) if isinstance(value, tuple) else value
