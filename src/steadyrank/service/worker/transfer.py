"""Export a board with its log to a file, import it, and shorten logs that are too long.

The file is text, one JSON value per line: a header, one event per line in log order (its time, its kind and fields),
and a last line with digests of all lines before it and of the board's state, which detect truncation and damage.
Whoever edits a file can recompute both; only the optional signature with a key proves that it is unchanged. The
header has the number of client numbers in use; which client has which is not in the file.
"""

import base64
import contextlib
import hashlib
import hmac
import json
import pathlib
import secrets
import tempfile
from collections.abc import Callable, Collection, Iterator
from typing import Any, BinaryIO, NamedTuple

import msgspec

from ...core.files import replacing
from ...core.memory_limit import MOST_BYTES
from ...core.refusals import Refused
from ...live import snapshot
from ..board.board import Board
from ..board.checks import check_memory, check_name
from ..board.config import Config
from ..board.events import Added, AnyEvent, Configured, Created, History, encode, forgotten
from ..storage import Seal, SqlStore, Unavailable, open_store
from .log_rows import read_event
from .recovery import is_forgetting, parking_words, rebuild, reconfigured

FORMAT = 9  # earlier formats were never released
_LEAST_KEY = 16  # bytes of a signing key, at least
_write_event = msgspec.json.Encoder().encode_into  # `encode` of msgspec 0.22 crashes the process when memory runs out
_read_event = msgspec.json.Decoder(AnyEvent).decode


def find_board(store: SqlStore, name: str) -> tuple[int, bytes]:
    """The number and the secret of a board."""
    boards = store.boards()
    for number, (called, secret) in boards.items():
        if called == name:
            return number, secret
    raise ValueError(f"no board {name!r}; there are: {', '.join(sorted(n for n, _ in boards.values())) or 'none'}")


def export(
    store: SqlStore,
    name: str,
    path: pathlib.Path,
    with_secret: bool,
    report: Callable[[int], None],
    key: bytes | None = None,
) -> int:
    """Export a board to a file, atomically. Returns the number of events.

    `report` is called with the count so far; `key` signs the file.
    """
    count = -2  # the first and the last line are no events
    with replacing(path, 0o600) as file:  # private: it may hold a secret
        for line in lines(store, name, with_secret, key):
            file.write(line.encode())
            count += 1
            if count > 0 and count % 1_000 == 0:
                report(count)
    return count


def export_unnamed(url: str, name: str) -> BinaryIO:
    """Export a board without its secret, as of one moment, to an anonymous file that vanishes when closed."""
    store = open_store(url)
    file = tempfile.TemporaryFile()  # noqa: SIM115
    try:
        if not any(called == name for called, _ in store.boards().values()):
            raise Refused(404, f"no board {name!r}")  # deleted by another worker
        for line in lines(store, name, False):
            file.write(line.encode())
    except BaseException:
        file.close()
        raise
    finally:
        store.close()
    return file


def read_key(path: pathlib.Path) -> bytes:
    """Read a signing key, with surrounding white space removed. Raises ValueError if it is too short."""
    try:
        key = path.read_bytes().strip()
    except OSError as error:
        raise ValueError(f"--key-file {path} cannot be read: {error.strerror}") from None
    if len(key) < _LEAST_KEY:
        raise ValueError(f"--key-file {path} must hold a key of at least {_LEAST_KEY} bytes, not {len(key)}")
    return key


def lines(store: SqlStore, name: str, with_secret: bool, key: bytes | None = None) -> Iterator[str]:
    """Yield the lines of the file of a board, as of one moment; signed if `key` is given."""
    number, secret = find_board(store, name)
    header: dict[str, Any] = {"steadyrank": "board", "format": FORMAT, "board": name}
    if with_secret:
        header["secret"] = base64.b64encode(secret).decode()
        header["seals"] = [[base64.b64encode(seal.secret).decode(), seal.until] for seal in store.seals(number)]
        header["promised"] = store.promised(number)
    with store.reading():
        head, edge = store.head(), store.shortened(number)
        header["clients"] = store.clients(number)
        if edge:  # a snapshot replaces the part of the log no longer kept
            header["snapshot"] = base64.b64encode(store.snapshot(number, edge) or b"").decode()
        line, count, seen = json.dumps(header) + "\n", 0, hashlib.sha256()
        seen.update(line.encode())
        yield line
        for entry in store.entries(edge, head, number):
            event = bytearray()
            _write_event(read_event(entry), event)
            line = f'{{"at": {entry.at!r}, "event": {event.decode()}}}\n'
            seen.update(line.encode())
            yield line
            count += 1
        board = rebuild(store, number, name, head)
        end: dict[str, Any] = {"events": count, "lines": seen.hexdigest(), "digest": board.digest()}
        if key is not None:
            end["signature"] = _signature(key, end["lines"])
        yield json.dumps(end) + "\n"


def _signature(key: bytes, digest: str) -> str:
    """Sign the digest of all lines."""
    return hmac.new(key, f"steadyrank board {digest}".encode(), hashlib.sha256).hexdigest()


class BoardFile(NamedTuple):
    """The contents of an exported file."""

    header: dict[str, Any]
    base: bytes | None  # the snapshot that precedes the events
    entries: list[tuple[float, AnyEvent]]
    collection: bool = False  # its events identify queries and items by digests keyed with the secret


def read_board(path: pathlib.Path, key: bytes | None = None, most: int = MOST_BYTES) -> BoardFile:
    """Read and verify an exported board. Raises ValueError if it is damaged or would need more than `most` bytes.

    With a key, the file must be signed with it.
    """
    content, entries, last = _parse(path)
    header, seen = json.loads(content[0]), hashlib.sha256(b"".join(line + b"\n" for line in content[:-1])).hexdigest()
    if key is not None and not hmac.compare_digest(str(last.get("signature", "")), _signature(key, seen)):
        raise ValueError(f"{path} is not signed with the key of --key-file, or was changed since")
    if last.get("lines") != seen:
        raise ValueError(f"{path} is not as it was written: a line was changed, added or taken out")
    base = base64.b64decode(header["snapshot"]) if "snapshot" in header else None
    _check_memory(path, base, entries, most)
    board = _fold(path, base, entries)
    if (last.get("events"), last.get("digest")) != (len(entries), board.digest()):
        raise ValueError(f"{path} is not as it was written: its last line belongs to another board")
    return BoardFile(header, base, entries, board.config.collection is not None)


def _check_memory(path: pathlib.Path, base: bytes | None, entries: list[tuple[float, AnyEvent]], most: int) -> None:
    """Raise ValueError if the board needs too much memory, given the items and settings in its events."""
    config, names, capacity = Config(), set[str](), 0
    if base is not None:
        header, arrays = snapshot.unpack(base, f"the snapshot in {path}")
        config, capacity = msgspec.convert(header["latest"], Config), arrays["active"].size
        names.update(header["items"])
    for _, event in entries:
        match event:
            case Created():
                config, capacity = event.config, len(event.items)
                names.update(event.items)
            case Added():
                names.update(event.items)
            case History():
                names.update(item for row in event.rows for item in row.items)
            case Configured():
                with contextlib.suppress(msgspec.ValidationError):  # it had no effect when it was logged, either
                    config = config.changed(event.changes)
    try:
        check_memory(config, len(names), most, max(capacity, 1))
    except Refused as error:
        raise ValueError(f"{path} cannot be brought in: {error}") from error


class ImportedBoard(NamedTuple):
    """An imported board."""

    name: str
    events: int
    same_secret: bool  # whether impression ids of the exported board can still be answered


def bring_in(store: SqlStore, board_file: BoardFile, name: str | None) -> ImportedBoard:
    """Import a board. Under its own name it keeps its secret, if the file has it.

    Under another name it is a copy: it gets a secret of its own, so that answers to lists of one do not count for the
    other. A copy of a collection must keep the secret, which identifies queries and items, but signs with another
    one.
    """
    header, base, entries, collection = board_file
    name = name or header["board"]
    check_name(name)
    if any(called == name for called, _ in store.boards().values()):
        raise ValueError(f"a board {name!r} is there already: choose another name with --as")
    rows, secret, seals, promised = [(at, encode(event)) for at, event in entries], None, [], 0.0
    moved = name == header["board"]
    if collection and "secret" not in header:
        raise ValueError(
            f"the file of collection {header['board']!r} has no secret, without which it cannot recognize queries: "
            "export it with --with-secret"
        )
    if "secret" in header and (moved or collection):
        secret, seals = base64.b64decode(header["secret"]), [Seal(secrets.token_bytes(32), None)]
    if "secret" in header and moved:
        promised = float(header.get("promised", 0.0))
        seals = [Seal(base64.b64decode(seal), until) for seal, until in header.get("seals", [])]
    store.bring_in(name, secret, base, rows, header["clients"], seals, promised)
    return ImportedBoard(name, len(entries), secret is not None and moved)


def _parse(path: pathlib.Path) -> tuple[list[bytes], list[tuple[float, AnyEvent]], dict[str, Any]]:
    """Parse a file: its lines, its events, and its last line."""

    class Row(msgspec.Struct):
        at: float
        event: msgspec.Raw

    try:
        with open(path, "rb") as file:
            lines = file.read().splitlines()
        if not lines:
            raise ValueError("it is empty")
        header, last = json.loads(lines[0]), json.loads(lines[-1])
        _check_header(header, lines[0])
        if "digest" not in last:
            raise ValueError("it was cut off: its last line is missing")
        rows = msgspec.json.Decoder(Row)
        entries = [(row.at, _read_event(row.event)) for row in map(rows.decode, lines[1:-1])]
    except (ValueError, IndexError, KeyError, AttributeError, msgspec.MsgspecError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    return lines, entries, last


def _check_header(header: Any, line: bytes) -> None:
    if header.get("steadyrank") != "board":
        raise ValueError(f"it is no board of format {FORMAT}, but {line[:80].decode(errors='replace')!r}")
    if header.get("format") != FORMAT:
        raise ValueError(
            f"it is a board of format {header.get('format')!r:.80}, this version reads format {FORMAT}: import it "
            "with the version that wrote it, or make a new board and learn from past clicks (steadyrank history)"
        )
    if not isinstance(header.get("board"), str):
        raise ValueError("it names no board")
    if not isinstance(header.get("clients"), int) or not 0 <= header["clients"] < 2**63:
        raise ValueError(f"its clients must be a whole number of at least 0, not {header.get('clients')!r:.80}")


def _fold(path: pathlib.Path, base: bytes | None, entries: list[tuple[float, AnyEvent]]) -> Board:
    """Rebuild the board of a file through a store in memory, so that there is only one replay implementation."""
    if base is None and not (entries and isinstance(entries[0][1], Created)):
        raise ValueError(f"{path} does not begin with the creation of a board")
    with contextlib.closing(open_store("sqlite:///:memory:")) as store:
        number = store.bring_in("board", None, base, [(at, encode(event)) for at, event in entries], 0)
        return rebuild(store, number, str(path), store.head())


def compact(
    store: SqlStore,
    before: float,
    most: int,
    failed: Callable[[str, str], None] = lambda name, why: None,
    partitions: Collection[int] | None = None,
) -> dict[str, int]:
    """Replace events older than `before`, or beyond the latest `most`, by a snapshot. Returns how many, by board.

    `partitions`: only boards of these; each worker compacts its own. Clients without any kept event are forgotten as
    well. A board that cannot be replayed is left alone, and `failed` is called with its name and the reason.
    """
    gone = {}
    store.sweep(before)
    for number, (name, _) in store.boards().items():
        if partitions is not None and number % store.partitions not in partitions:
            continue
        try:
            with store.reading():
                since, edge = store.shortened(number), store.edge(number, before, most)
                head = store.head(number % store.partitions)
                later = edge > since and not is_forgetting(store, number, edge, head)
                board = rebuild(store, number, name, edge, head) if later else None
        except Unavailable:
            raise
        except Exception as error:  # including a lack of memory
            failed(name, parking_words(error))
            continue
        if board is not None:
            gone[name] = _shorten(store, number, (since, edge, head), board)
        if store.shortened(number):  # clients last seen before the first kept event have none
            store.forget_clients(number, *store.span(number), forgotten)
    return gone


def _shorten(store: SqlStore, number: int, marks: tuple[int, int, int], board: Board) -> int:
    """Replace events by a snapshot of the board, unless settings, labels or events have changed since."""
    since, edge, head = marks
    seen, body = store.head(number % store.partitions), snapshot.pack(*board.keep())
    if reconfigured(store, number, head):
        return 0
    return store.shorten_log(number, since, edge, body, lambda: not reconfigured(store, number, seen))
