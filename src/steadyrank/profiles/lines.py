"""Large text files read in blocks of whole lines, parsed by polars, with the malformed lines counted."""

import json
import pathlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO, TextIO

import polars as pl

from ..progress import Progress

BLOCK = 16 << 20  # bytes; a block with its parsed columns stays below 200 MB
FATAL_SHARE = 0.001  # more malformed lines than this and the file is refused
_EXAMPLES = 5
_MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Layout:
    """How lines become rows: `parse` a block of lines, what is `valid` in its rows, whether one line is `good`."""

    columns: Mapping[str, type[pl.DataType]]
    parse: Callable[[bytes], pl.DataFrame]
    valid: pl.Expr
    good: Callable[[bytes], bool]
    header: bytes | None = None  # the first line, when the file has one


@dataclass
class Malformed:
    """Lines that were left out: how many of how many, and the first few with their numbers (from 1)."""

    file: str
    lines: int = 0
    count: int = 0
    examples: list[tuple[int, str]] = field(default_factory=list)

    def add(self, number: int, line: bytes) -> None:
        """Count one; the first few are kept."""
        self.count += 1
        if len(self.examples) < _EXAMPLES:
            self.examples.append((number, _excerpt(line[:60])))

    def __str__(self) -> str:
        shown = "; ".join(f"line {number}: {text!r}" for number, text in self.examples)
        more = "; ..." if self.count > len(self.examples) else ""
        return f"{self.file}: {self.count:,} of {self.lines:,} lines are malformed ({shown}{more})"


def delimited(
    columns: Mapping[str, type[pl.DataType]],
    separator: str,
    *,
    pattern: str,
    valid: pl.Expr,
    header: str | None = None,
) -> Layout:
    """Fields between separators, never quoted. A good line matches `pattern` in full; `valid` says it in columns."""
    single = separator if len(separator) == 1 else "\t"
    matcher = re.compile(pattern.encode())

    def parse(block: bytes) -> pl.DataFrame:
        text = block if single == separator else block.replace(separator.encode(), single.encode())
        return pl.read_csv(
            text, has_header=False, separator=single, quote_char=None, schema=columns, empty_string_is_null=False
        )

    return Layout(
        columns, parse, valid, lambda line: matcher.fullmatch(line) is not None, header.encode() if header else None
    )


def json_lines(
    columns: Mapping[str, type[pl.DataType]],
    *,
    ranges: Mapping[str, tuple[float, float]],
    optional: str = "",
) -> Layout:
    """One JSON object a line that has at least these columns, in these ranges; the text of `optional` may be null."""
    kinds = {name: str if kind == pl.String else (int, float) for name, kind in columns.items()}

    def parse(block: bytes) -> pl.DataFrame:
        frame = pl.read_ndjson(block, schema=columns)
        return frame.with_columns(pl.col(optional).fill_null("")) if optional else frame

    def good(line: bytes) -> bool:
        try:
            found = json.loads(line)
        except ValueError:
            return False
        if not isinstance(found, dict):
            return False
        if optional and found.get(optional) is None:
            found[optional] = ""
        typed = all(isinstance(found.get(name), kind) for name, kind in kinds.items())
        return typed and all(low <= found[name] <= high for name, (low, high) in ranges.items())

    valid = pl.all_horizontal(pl.col(name).is_between(low, high) for name, (low, high) in ranges.items())
    return Layout(columns, parse, valid, good)


def read(path: pathlib.Path, layout: Layout, stream: TextIO) -> Iterator[pl.DataFrame]:
    """The rows of a file in order, a frame a block; a bar on `stream`.

    Malformed lines are left out and reported on `stream` at the end. More than `FATAL_SHARE` of them, a wrong header
    or a file that ends within a line raise a ValueError. Memory stays at one block.
    """
    size = path.stat().st_size
    malformed = Malformed(str(path))
    bar = Progress(size // _MEGABYTE + 1, f"{path.name}, MB", stream)
    rows = 0
    with path.open("rb") as file:
        if layout.header is not None:
            _check_header(path, file.readline().rstrip(b"\r\n"), layout.header)
            malformed.lines = 1
        while block := _whole_lines(file):
            last = block[block.rfind(b"\n") + 1 :]
            if last and not layout.good(last):
                raise ValueError(f"{path} is truncated: it ends within a line, {_excerpt(last[-60:])!r}")
            frame = _parse(block, layout, malformed)
            _refuse_many(malformed, file.tell() / size)
            bar.step(file.tell() // _MEGABYTE + (file.tell() == size) - bar.done)
            rows += frame.height
            yield frame
    if rows == 0:
        raise ValueError(f"{path} has no rows: expected lines of {', '.join(layout.columns)}, found {size:,} bytes")
    bar.close()
    if malformed.count:
        stream.write(f"{malformed}; left out\n")


def _check_header(path: pathlib.Path, found: bytes, expected: bytes) -> None:
    if found != expected:
        raise ValueError(f"{path} must begin with the columns {_excerpt(expected)!r}, not {_excerpt(found[:120])!r}")


def _whole_lines(file: BinaryIO) -> bytes:
    block = file.read(BLOCK)
    return block if block.endswith(b"\n") else block + file.readline()


def _parse(block: bytes, layout: Layout, malformed: Malformed) -> pl.DataFrame:
    """All good rows of a block; it looks at single lines only where polars finds something wrong."""
    n_lines = block.count(b"\n") + (not block.endswith(b"\n"))
    frame = _try(block, layout)
    if frame is None or frame.height != n_lines:
        good = []
        lines = block.removesuffix(b"\n").split(b"\n")
        for number, line in enumerate((line.removesuffix(b"\r") for line in lines), malformed.lines + 1):
            if layout.good(line):
                good.append(line)
            else:
                malformed.add(number, line)
        frame = layout.parse(b"\n".join(good) + b"\n") if good else pl.DataFrame(schema=layout.columns)
    malformed.lines += n_lines
    return frame


def _try(block: bytes, layout: Layout) -> pl.DataFrame | None:
    try:
        frame = layout.parse(block)
    except pl.exceptions.PolarsError:
        return None
    whole = sum(frame.null_count().row(0)) == 0 and frame.select(layout.valid.all()).item()
    return frame if whole else None


def _refuse_many(malformed: Malformed, share_read: float) -> None:
    """Stop as soon as the whole file, judged by the lines so far, must have too many."""
    if malformed.count > FATAL_SHARE * malformed.lines / share_read:
        raise ValueError(f"{malformed}; at most {FATAL_SHARE:.1%} may be: is the file whole and of the right kind?")


def _excerpt(line: bytes) -> str:
    return line.decode("utf-8", "replace")
