"""A common interface to SQLite and PostgreSQL."""

import contextlib
import errno
import functools
import itertools
import os
import pathlib
import select
import sqlite3
import struct
from collections.abc import Iterator, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np

from .store import Unavailable, Unwritable

Row = tuple[Any, ...]
Query: TypeAlias = tuple[str, Sequence[Any]]  # a statement with its parameters
Value = TypeVar("Value")
_AT_ONCE = 500  # rows per statement
# of PostgreSQL: names and OIDs of types, the header of a binary array, and the size of an element
_KINDS = {int: ("bigint", 20), float: ("float8", 701), bytes: ("bytea", 17), str: ("text", 25)}
_ARRAY, _SIZE = struct.Struct(">iiiii"), struct.Struct(">i")
_READERS = {20: struct.Struct(">q").unpack, 701: struct.Struct(">d").unpack}  # by OID
_GOOD, _SYNCED = (1, 2), 10  # states of a result: statement completed; pipeline synchronized
_STUCK = 2_000  # milliseconds after which a writer suspended within a transaction loses its locks


class Database(Protocol):
    """A connection, used by one thread at a time; `?` is the placeholder of parameters."""

    kinds: dict[str, str]  # names of column types
    tables_named: str  # a query for tables by name
    partitions: int  # of a new store: workers of a server divide the boards among themselves, those of a file do not
    shared: bool  # whether each partition has one worker as its owner
    keep_row: str  # suffix of a query: rows are locked against change until the end of the transaction

    def read(self, query: str, *parameters: Any) -> list[Row]:
        """Run a query and return its rows."""

    def write(self, query: str, *parameters: Any) -> list[Row]:
        """Run a statement inside a transaction; returns its rows, if any."""

    def read_several(self, *queries: Query) -> list[list[Row]]:
        """Inside a transaction: run independent statements and return the rows of each."""

    def put(self, query: Query) -> None:
        """Inside a transaction: run a statement without results, at the latest at the end."""

    def transaction(self) -> contextlib.AbstractContextManager[None]:
        """An atomic transaction; writers take turns, and the writes are on disk at the end."""

    def reading(self) -> contextlib.AbstractContextManager[None]:
        """A context in which all reads see one moment."""

    def table(self, rows: Sequence[Row]) -> tuple[str, list[Any]]:
        """Rows as a table expression with columns column1, column2, ..., and its parameters."""

    def time(self) -> float | None:
        """The time by the clock of the server, in seconds since 1970; None without a server."""

    def take_turns(self) -> None:
        """Inside a transaction: wait until no other transaction creates or changes tables."""

    def close(self) -> None:
        """Close the connection."""


class Sqlite:
    """A file in WAL mode; commits wait for the disk."""

    kinds: dict[str, str] = {"BYTES": "BLOB", "WHOLE": "INTEGER"}  # noqa: RUF012
    tables_named = "SELECT 1 FROM sqlite_master WHERE name = ?"
    partitions, shared, keep_row = 1, False, ""

    def __init__(self, path: str, wait: float = 10.0) -> None:
        try:
            if path != ":memory:" and not pathlib.Path(path).exists():
                os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))  # private, since it will hold secrets
            self._db = sqlite3.connect(path, timeout=wait, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute("PRAGMA secure_delete = ON")  # overwrite deleted data
            self._db.execute("PRAGMA journal_size_limit = 67108864")
        except (sqlite3.Error, OSError) as error:
            raise _failure(error, f"sqlite store {path}: {error}", pathlib.Path(path).exists()) from error

    def read(self, query: str, *parameters: Any) -> list[Row]:
        """Run a query and return its rows."""
        try:
            return self._db.execute(query, parameters).fetchall()
        except sqlite3.Error as error:
            raise _failure(error, str(error)) from error

    write = read

    def read_several(self, *queries: Query) -> list[list[Row]]:
        """Run each and return its rows."""
        return [self.read(text, *parameters) for text, parameters in queries]

    def put(self, query: Query) -> None:
        """Run it at once."""
        self.write(query[0], *query[1])

    def table(self, rows: Sequence[Row]) -> tuple[str, list[Any]]:
        """Rows as a table expression."""
        places = "(" + ", ".join("?" * len(rows[0])) + ")"
        return f"(VALUES {', '.join([places] * len(rows))})", [value for row in rows for value in row]

    def time(self) -> float | None:
        """None: a file has no clock."""
        return None

    def take_turns(self) -> None:
        """Nothing to do: SQLite serializes writers."""

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """An atomic transaction."""
        self.write("BEGIN IMMEDIATE")
        try:
            yield
            self.write("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                with contextlib.suppress(sqlite3.Error):  # the first error is the one to report
                    self._db.execute("ROLLBACK")
            raise

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """A context in which all reads see one moment."""
        self.read("BEGIN")
        try:
            self.read("SELECT seq FROM heads")  # the first read fixes the moment
            yield
        finally:
            with contextlib.suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")

    def close(self) -> None:
        """Close the connection."""
        self._db.close()


def _failure(error: Exception, words: str, there: bool = False) -> Unavailable:
    """Convert an error of SQLite; extended error codes have the kind in their lowest byte.

    `there`: the file exists; if it cannot be opened, its directory is not writable.
    """
    disk = [sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY]
    disk += [sqlite3.SQLITE_CANTOPEN] if there else []
    if isinstance(error, sqlite3.Error):
        on_disk = getattr(error, "sqlite_errorcode", 0) & 0xFF in disk
    else:
        on_disk = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EROFS, errno.EIO, errno.EDQUOT)
    return Unwritable(words) if on_disk else Unavailable(words)


class Column(bytes):
    """Values of one type as a PostgreSQL array in binary form; psycopg would convert them one by one."""

    kind: str  # type of an element

    @classmethod
    def of(cls, values: Sequence[Any]) -> "Column":
        """Make an array from a non-empty sequence of values of the same type."""
        kind, number = _KINDS[type(values[0])]
        content: bytes
        if kind == "bigint":
            content = _eight_bytes(values, ">i8")
        elif kind == "float8":
            content = _eight_bytes(values, ">f8")
        else:
            texts = [value.encode() for value in values] if kind == "text" else values
            content = b"".join([part for text in texts for part in (_SIZE.pack(len(text)), text)])
        column = cls(_ARRAY.pack(1, 0, number, len(values), 1) + content)  # one dimension, no nulls, lower bound 1
        column.kind = kind
        return column


def _eight_bytes(values: Sequence[Any], kind: str) -> bytes:
    elements = np.empty(len(values), [("size", ">i4"), ("value", kind)])
    elements["size"], elements["value"] = 8, values
    return elements.tobytes()


class Postgres:
    """A server for many workers and machines.

    Inside a transaction, statements that can wait are sent together with the next one that cannot: so writing events
    takes two round trips, whatever they contain. This uses libpq's pipeline mode; psycopg's pipelines take more time
    than they save.
    """

    kinds: dict[str, str] = {"BYTES": "BYTEA", "WHOLE": "BIGINT", "REAL": "DOUBLE PRECISION"}  # noqa: RUF012
    tables_named = "SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = ?"
    partitions, shared, keep_row = 256, True, "FOR KEY SHARE"

    def __init__(self, url: str, wait: float = 10.0) -> None:
        try:
            import psycopg
        except ImportError as error:
            raise ValueError("a PostgreSQL store needs: pip install 'steadyrank[postgres]'") from error
        self._error = psycopg.Error
        self._queue: list[Query] = []  # statements of the transaction not sent yet
        self._prepared: dict[str, bytes] = {}  # names of prepared statements by text
        self._names = itertools.count()  # statements prepared in a failed transaction remain, so names are not reused
        try:
            self._db = psycopg.connect(
                url,
                autocommit=True,
                client_encoding="utf8",  # otherwise text of an SQL_ASCII database comes as bytes
                connect_timeout=max(int(wait), 2),
                keepalives_idle=5,
                keepalives_interval=2,
                keepalives_count=3,
                tcp_user_timeout=10_000,
                prepare_threshold=None,  # psycopg would deallocate our prepared statements along with its own
            )
            self._db.adapters.register_dumper(Column, _as_it_is())
            self._db.execute("SET statement_timeout = 60000")
            self._db.execute("SET synchronous_commit = on")
            # a cached plan may scan tables that have grown
            self._db.execute("SET plan_cache_mode = force_custom_plan")
            self._db.execute(f"SET idle_in_transaction_session_timeout = {_STUCK:d}")
        except psycopg.ProgrammingError:
            # it may contain a password
            raise ValueError("the address of the PostgreSQL store cannot be read") from None
        except psycopg.Error as error:
            raise Unavailable(f"postgresql store: {error}") from error

    def read(self, query: str, *parameters: Any) -> list[Row]:
        """Run a query and return its rows."""
        try:
            self._send_queue()
            cursor = self._db.execute(query.replace("?", "%s").encode(), parameters, binary=True)
            return cursor.fetchall() if cursor.description else []
        except self._error as error:
            raise Unavailable(str(error)) from error

    write = read

    def read_several(self, *queries: Query) -> list[list[Row]]:
        """Run each and return its rows; parameters must come from `table`."""
        self._queue += queries
        try:
            return self._send_queue()[-len(queries) :]
        except self._error as error:
            raise Unavailable(str(error)) from error

    def put(self, query: Query) -> None:
        """Queue it for the next round trip; parameters must come from `table`."""
        self._queue.append(query)

    def table(self, rows: Sequence[Row]) -> tuple[str, list[Any]]:
        """Rows as a table expression; its text is the same for any number of rows, so that it is prepared once."""
        columns = [Column.of(values) for values in zip(*rows, strict=True)]
        arrays = ", ".join([f"?::{column.kind}[]" for column in columns])
        names = ", ".join([f"column{place}" for place in range(1, len(columns) + 1)])
        return f"unnest({arrays}) AS given ({names})", columns

    def time(self) -> float | None:
        """By the clock of the server, which runs also inside a transaction."""
        return float(self.read("SELECT EXTRACT(EPOCH FROM clock_timestamp())::float8")[0][0])

    def take_turns(self) -> None:
        """Take a lock until the end of the transaction."""
        self.write("SELECT pg_advisory_xact_lock(7305428)")

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """An atomic transaction, which begins with the first statement sent."""
        self._queue = [("BEGIN", ())]
        try:
            yield
            self._queue.append(("COMMIT", ()))
            self._send_queue()
        except BaseException as error:
            self._queue = []
            with contextlib.suppress(self._error):  # the first error is the one to report
                if self._db.pgconn.transaction_status:
                    self._db.pgconn.exec_(b"ROLLBACK")
            if isinstance(error, self._error):
                raise Unavailable(str(error)) from error
            raise

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """A context in which all reads see one moment."""
        with self.transaction():
            self.read("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            # it holds no locks, and boards are replayed in between
            self.read("SET LOCAL idle_in_transaction_session_timeout = 0")
            yield

    def _send_queue(self) -> list[list[Row]]:
        """Send the queue in one round trip. Returns the rows of each statement; after an error no later one runs."""
        queue, self._queue = self._queue, []
        if not queue:
            return []
        link = self._db.pgconn
        fresh: dict[str, bytes] = {}
        answered = []  # True for a statement, False for its preparation
        link.enter_pipeline_mode()
        try:
            for text, columns in queue:
                name = self._prepared.get(text) or fresh.get(text)
                if name is None:
                    name = fresh[text] = b"steadyrank_%d" % next(self._names)
                    link.send_prepare(name, _numbered(text))
                    answered.append(False)
                link.send_query_prepared(name, columns, [1] * len(columns), 1)  # 1: binary parameters and results
                answered.append(True)
            link.pipeline_sync()
            results = self._results()
        finally:
            with contextlib.suppress(self._error):  # if the connection is lost
                link.exit_pipeline_mode()
        self._prepared |= fresh
        return list(itertools.compress(results, answered))

    def _results(self) -> list[list[Row]]:
        """Read all results; if a statement failed, raises its error once everything is read."""
        link, poll = self._db.pgconn, select.poll()
        poll.register(link.socket, select.POLLIN | select.POLLOUT)
        while link.flush():  # the server may wait until its results are read
            poll.poll()
            link.consume_input()
        poll.modify(link.socket, select.POLLIN)
        results: list[list[Row]] = []
        failure: str | None = None
        while True:
            while link.is_busy():
                poll.poll()  # other threads run meanwhile
                link.consume_input()
            result = link.get_result()
            if result is None:  # the end of one statement
                if link.status:
                    raise self._error("the connection is lost")
            elif result.status == _SYNCED:
                break
            elif result.status in _GOOD:
                results.append(_rows(result))
            elif failure is None:
                failure = result.get_error_message()
        if failure is not None:
            raise self._error(failure)
        return results

    def close(self) -> None:
        """End the connection."""
        self._db.close()


def _as_it_is() -> Any:
    """The psycopg dumper for `Column`."""
    from psycopg.adapt import Dumper
    from psycopg.pq import Format

    class AsItIs(Dumper):
        format = Format.BINARY

        def dump(self, obj: Column) -> bytes:
            return obj

    return AsItIs


@functools.lru_cache(1_000)
def _numbered(text: str) -> bytes:
    """Replace placeholders by numbered ones, as PostgreSQL requires."""
    first, *others = text.split("?")
    return (first + "".join(f"${number}{part}" for number, part in enumerate(others, 1))).encode()


def _rows(result: Any) -> list[Row]:
    """Convert the rows of a result whose columns are integers and floats."""
    if not result.ntuples:
        return []
    readers = [_READERS[result.ftype(place)] for place in range(result.nfields)]
    places = list(enumerate(readers))
    return [tuple([read(result.get_value(row, place))[0] for place, read in places]) for row in range(result.ntuples)]


def parts(values: Sequence[Value]) -> Iterator[Sequence[Value]]:
    """Split values into chunks that fit one statement."""
    for start in range(0, len(values), _AT_ONCE):
        yield values[start : start + _AT_ONCE]


def insert(db: Database, table: str, rows: Sequence[Row], conflict: str = "") -> None:
    """Inside a transaction: insert rows, many per statement."""
    for part in parts(rows):
        given, values = db.table(part)
        db.put((f"INSERT INTO {table} SELECT * FROM {given} WHERE TRUE {conflict}", values))


def connect(url: str) -> Database:
    """Connect to `sqlite:///PATH` or `postgresql://...`."""
    if url.startswith("sqlite:///"):
        path = url.removeprefix("sqlite:///")
        if not path:
            raise ValueError(f"the store {url!r} names no file: sqlite:///PATH")
        if path != ":memory:" and not pathlib.Path(path).absolute().parent.is_dir():
            raise ValueError(f"the store {url!r} is in a folder that does not exist")
        return Sqlite(path)
    if url.startswith(("postgresql://", "postgres://")):
        return Postgres(url)
    raise ValueError("a store is sqlite:///PATH or postgresql://...")  # it may contain a password
