"""Read large text files in blocks of whole lines, parsed by polars, and count malformed lines."""

import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO, TextIO

import polars as pl

from ...core.progress import Progress

BLOCK = 16 << 20  # bytes; a block with its parsed columns stays below 200 MB
FATAL_SHARE = 0.001  # largest share of malformed lines that is accepted
_EXAMPLES = 5
_HOPELESS = 100  # malformed lines after which an estimate of their share may stop reading early
_MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Layout:
    """The format of a file: `parse` converts whole lines to one row each; `valid` is the condition on a row."""

    columns: Mapping[str, type[pl.DataType]]
    parse: Callable[[bytes], pl.DataFrame]
    valid: pl.Expr
    header: bytes | None = None  # the first line, if the file has a header
    final_newline: bool = True  # whether the original file ends with a newline, so that a truncated one is noticed


@dataclass
class Malformed:
    """Malformed lines, which are left out: their number, the number of all lines, and the first few with numbers."""

    file: str
    lines: int = 0
    count: int = 0
    examples: list[tuple[int, str]] = field(default_factory=list)

    def add(self, number: int, line: bytes) -> None:
        """Count a malformed line, and keep it if it is among the first few; `number`: from 1."""
        self.count += 1
        if len(self.examples) < _EXAMPLES:
            self.examples.append((number, _excerpt(line)))

    def refuse_above(self, lines: float) -> None:
        """Raise ValueError if more than `FATAL_SHARE` of this many lines are malformed."""
        if self.count > FATAL_SHARE * lines:
            raise ValueError(f"{self}; at most {FATAL_SHARE:.1%} may be: is the file whole and of the right kind?")

    def __str__(self) -> str:
        shown = "; ".join(f"line {number}: {text!r}" for number, text in self.examples)
        more = "; ..." if self.count > len(self.examples) else ""
        return f"{self.file}: {self.count:,} of {self.lines:,} lines are malformed ({shown}{more})"


def delimited(
    columns: Mapping[str, type[pl.DataType]],
    separator: str,
    *,
    valid: pl.Expr,
    header: str | None = None,
    final_newline: bool = True,
) -> Layout:
    """Layout of fields between separators, without quoting."""

    def parse(block: bytes) -> pl.DataFrame:
        if len(separator) > 1:  # polars needs a single byte; lines with tabs become malformed
            block = block.replace(b"\t", b" \0 ").replace(separator.encode(), b"\t")
        return pl.read_csv(
            block,
            has_header=False,
            separator=separator if len(separator) == 1 else "\t",
            quote_char=None,
            schema=columns,
            empty_string_is_null=False,
        )

    return Layout(columns, parse, valid, header.encode() if header else None, final_newline)


def json_lines(columns: Mapping[str, type[pl.DataType]], *, valid: pl.Expr, optional: str = "") -> Layout:
    """Layout of one JSON object per line with at least these columns; the text column `optional` may be null."""

    def parse(block: bytes) -> pl.DataFrame:
        frame = pl.read_ndjson(block, schema=columns)
        return frame.with_columns(pl.col(optional).fill_null("")) if optional else frame

    return Layout(columns, parse, valid)


def read(path: pathlib.Path, layout: Layout, stream: TextIO) -> Iterator[pl.DataFrame]:
    """Iterate over the rows of a file in order, one frame per block, with a progress bar on `stream`.

    Malformed lines are left out and reported on `stream` at the end. Raises ValueError for more than `FATAL_SHARE` of
    them, a wrong header or a truncated file. Memory: one block.
    """
    size = path.stat().st_size
    malformed = Malformed(str(path))
    bar = Progress(size // _MEGABYTE + 1, f"{path.name}, MB", stream)
    rows = 0
    with path.open("rb") as file:
        if layout.header is not None:
            _check_header(path, file.readline(BLOCK).rstrip(b"\r\n"), layout.header)
            malformed.lines = 1
        while block := _whole_lines(file):
            if not block.endswith(b"\n"):
                block = _last_line(path, block, layout)
            frame = _good_rows(block, layout, malformed)
            if malformed.count > _HOPELESS:
                malformed.refuse_above(2 * malformed.lines * size / file.tell())
            bar.step(file.tell() // _MEGABYTE + (file.tell() == size) - bar.done)
            rows += frame.height
            if frame.height:
                yield frame
    malformed.refuse_above(malformed.lines)
    if rows == 0:
        raise ValueError(f"{path} has no rows: expected lines of {', '.join(layout.columns)}, found {size:,} bytes")
    bar.close()
    if malformed.count:
        stream.write(f"{malformed}; left out\n")


def _check_header(path: pathlib.Path, header: bytes, expected: bytes) -> None:
    if header != expected:
        raise ValueError(f"{path} must begin with the columns {_excerpt(expected)!r}, not {_excerpt(header)!r}")


def _whole_lines(file: BinaryIO) -> bytes:
    block = file.read(BLOCK)
    return block + file.readline(BLOCK) if block and not block.endswith(b"\n") else block


def _last_line(path: pathlib.Path, block: bytes, layout: Layout) -> bytes:
    """Add the missing newline to the last block; ValueError if its last line is truncated."""
    last = block[block.rfind(b"\n") + 1 :]
    if layout.final_newline or _rows(last + b"\n", 1, layout) is None:
        raise ValueError(f"{path} is truncated: it ends within the line {_excerpt(last)!r}")
    return block + b"\n"


def _good_rows(block: bytes, layout: Layout, malformed: Malformed) -> pl.DataFrame:
    """All valid rows of a block. If it does not parse, it is bisected down to single lines."""
    first, n_lines = malformed.lines + 1, block.count(b"\n")
    malformed.lines += n_lines
    if (frame := _rows(block, n_lines, layout)) is not None:
        return frame
    lines = block.removesuffix(b"\n").split(b"\n")
    return pl.concat([pl.DataFrame(schema=layout.columns), *_halves(lines, first, layout, malformed)])


def _halves(lines: Sequence[bytes], first: int, layout: Layout, malformed: Malformed) -> Iterator[pl.DataFrame]:
    frame = _rows(b"\n".join(lines) + b"\n", len(lines), layout)
    if frame is not None:
        yield frame
    elif len(lines) == 1:
        malformed.add(first, lines[0])
    else:
        half = len(lines) // 2
        yield from _halves(lines[:half], first, layout, malformed)
        yield from _halves(lines[half:], first + half, layout, malformed)


def _rows(block: bytes, n_lines: int, layout: Layout) -> pl.DataFrame | None:
    """The rows of a block with this many lines; None if any line is malformed, which only this function decides."""
    try:
        frame = layout.parse(block)
    except pl.exceptions.PolarsError:
        return None
    whole = frame.height == n_lines and sum(frame.null_count().row(0)) == 0
    return frame if whole and frame.select(layout.valid.all()).item() else None


def _excerpt(line: bytes) -> str:
    return line[:60].decode("utf-8", "replace").rstrip("\r")
