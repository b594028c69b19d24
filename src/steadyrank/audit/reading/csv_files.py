"""CSV logs in blocks: lines that are no rows are told apart, whatever their quotes do to those after them."""

import csv
import io
import pathlib
import re
import sys
from collections.abc import Iterator

import polars as pl

from .blocks import LONGEST, Block, Broken, pieces

UNNAMED = "column_1"  # what a column without a name is called, as the first of a file without a header
_VALUE = re.compile(  # what stands in rows and in no header: a number, a date, a list
    r"[-+]?\d*\.?\d+([eE][-+]?\d+)?$|\d{4}-\d\d?-\d\d?|\d\d?[./]\d\d?[./]\d{2,4}|\[.*\]$|[^|]+\|[^|]"
)
_FOREIGN = re.compile("[\udc80-\udcff]")  # what stands for bytes that are no UTF-8


def csv_blocks(path: pathlib.Path, columns: list[str] | None) -> Iterator[Block]:
    """The rows of a CSV or TSV file."""
    texts = pieces(path, quotes=True)
    header, _, first = next(texts, b"").partition(b"\n")
    if b"\0" in header:
        raise ValueError(f"{path} is no text in UTF-8 but perhaps in UTF-16; save it as UTF-8")
    line = header.decode("utf-8-sig", "replace").rstrip("\r")
    separator = _separator(path, line)
    names = _names(path, line, separator)
    if names and _are_values(names):
        first = header.removeprefix(b"\xef\xbb\xbf") + b"\n" + first
        names = [f"column_{i}" for i in range(1, len(names) + 1)]
    if lacking := [name for name in columns or [] if names and name not in names]:
        raise ValueError(f"{path} lacks the columns {', '.join(lacking)}; it has {', '.join(names)}")
    if first.strip():
        yield _block(first, names, separator, columns or names)
    for text in texts:
        yield _block(text, names, separator, columns or names)


def _separator(path: pathlib.Path, header: str) -> str:
    """What stands between fields: by the file's name, else a comma, else what the header holds."""
    if ".tsv" in path.suffixes:
        return "\t"
    return next((s for s in (",", ";", "\t") if s in header), ",")


def _names(path: pathlib.Path, header: str, separator: str) -> list[str]:
    try:
        names = [name.strip() for name in next(csv.reader([header], delimiter=separator), [])]
    except csv.Error as error:
        raise ValueError(f"{path} cannot be read as CSV: {error}; it begins with {header[:LONGEST]!r}") from None
    if _are_values(names):
        return names
    if len(names) > 1 and not names[0]:
        names[0] = UNNAMED  # the index that pandas writes unless told not to
    nameless = [i for i, name in enumerate(names, 1) if header and not name]
    again = [name for i, name in enumerate(names) if name and name in names[:i]]
    if nameless or again:
        why = f"column {nameless[0]} has no name" if nameless else f"two are called {again[0]!r}"
        raise ValueError(f"{path} must begin with a line of different column names, not {header[:LONGEST]!r}: {why}")
    return names


def _are_values(names: list[str]) -> bool:
    """Whether what should be a header is a row: a number, a date or a list is the name of no column."""
    return any(map(_VALUE.match, names))


def _block(text: bytes, names: list[str], separator: str, columns: list[str]) -> Block:
    schema = dict.fromkeys(names, pl.String)
    if b"\n\n" in text or b"\n\r\n" in text or text[:1] in b"\r\n":  # empty lines are no rows
        return _lines(text, names, separator, columns)
    try:
        frame = pl.read_csv(io.BytesIO(text), has_header=False, schema=schema, separator=separator)
    except pl.exceptions.PolarsError:
        return _lines(text, names, separator, columns)
    if _cut(text, frame, separator):
        return _lines(text, names, separator, columns)
    return Block(frame.select(columns), [])


def _cut(text: bytes, frame: pl.DataFrame, separator: str) -> bool:
    """Whether a line may have too few fields, which would be read as empty ones."""
    if frame[:, -1].null_count() == 0:
        return False
    return b'"' in text or text.count(separator.encode()) != frame.height * (frame.width - 1)


def _lines(text: bytes, names: list[str], separator: str, columns: list[str]) -> Block:
    """The slow way: line by line, to tell which of them are wrong.

    A quote that never ends would swallow the lines after it: only its own line is given up.
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
