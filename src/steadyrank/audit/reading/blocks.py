"""Some rows of a log at once, and the text of a file in pieces of whole lines."""

import gzip
import pathlib
import zlib
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple, cast

import polars as pl

ROW = "__row__"  # the column with the number of the row in its file, from 0
BLOCK = 16_000_000  # bytes of text at once
EXAMPLES = 5  # broken rows that are shown
LONGEST = 120  # characters of an example
_MOST_LINES = 1_000  # of one quoted field; beyond that a quote is taken for one that never ends


class Broken(NamedTuple):
    """A row that cannot be used."""

    row: int  # in its file, from 0; a header is no row
    why: str
    text: str  # how it begins


class Block(NamedTuple):
    """Some rows of a file: those that could be read, and those that could not."""

    frame: pl.DataFrame
    broken: list[Broken]


def pieces(path: pathlib.Path, quotes: bool = False) -> Iterator[bytes]:
    """The text of a file, whole lines, many at once; with `quotes` a piece does not end inside of a quoted field."""
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
    """Where the last whole line ends. Quotes may stand alone inside of fields: then any end of a line must do."""
    last = end = piece.rfind(b"\n") + 1
    if not quotes or piece.count(b'"', 0, end) % 2 == 0:
        return last
    for _ in range(_MOST_LINES):
        start = piece.rfind(b"\n", 0, max(end - 1, 0)) + 1
        if piece.count(b'"', start, end) % 2:
            return start or last
        end = start
    return last


def plain(frame: pl.DataFrame, gaps: bool = True) -> pl.DataFrame:
    """The rows with names as text, lists as lists and `gaps` as nulls, whichever of their kinds the file has."""

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
