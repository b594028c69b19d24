"""One way to talk to SQLite and to PostgreSQL."""

import contextlib
import errno
import os
import pathlib
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, Protocol, TypeVar

from .store import Unavailable, Unwritable

Row = tuple[Any, ...]
Value = TypeVar("Value")
_AT_ONCE = 500  # rows in a statement
_ARRAYS = {int: "bigint[]", float: "float8[]", bytes: "bytea[]", str: "text[]"}  # of PostgreSQL
_STUCK = 2_000  # milliseconds after which a writer that was stopped in the middle of a transaction keeps no locks


class Database(Protocol):
    """A connection, used by one thread at a time; `?` stands for a parameter."""

    kinds: dict[str, str]  # names of column types
    tables_named: str  # a query for tables of a name
    partitions: int  # of a store that is made in it: workers of a server share the boards, those of a file do not
    shared: bool  # whether each partition has one worker that owns it
    keep_row: str  # at the end of a query: nobody else takes the rows over until the end of the transaction

    def read(self, query: str, *parameters: Any) -> list[Row]:
        """Rows."""

    def write(self, query: str, *parameters: Any) -> list[Row]:
        """Run a statement inside a transaction; rows where it returns some."""

    def transaction(self) -> contextlib.AbstractContextManager[None]:
        """All or nothing; writers take turns, and what is written is on the disk at the end."""

    def reading(self) -> contextlib.AbstractContextManager[None]:
        """All that is read belongs to one moment."""

    def table(self, rows: Sequence[Row]) -> tuple[str, list[Any]]:
        """Rows as something to select from, with the columns column1, column2, ..., and its parameters."""

    def time(self) -> float | None:
        """What time it is by the clock of the server, in seconds since 1970; None if there is no server."""

    def take_turns(self) -> None:
        """Inside a transaction: wait until no other one makes or changes tables."""

    def close(self) -> None:
        """End the connection."""


class Sqlite:
    """A file in WAL mode; a commit waits for the disk."""

    kinds: dict[str, str] = {"BYTES": "BLOB", "WHOLE": "INTEGER"}  # noqa: RUF012
    tables_named = "SELECT 1 FROM sqlite_master WHERE name = ?"
    partitions, shared, keep_row = 1, False, ""

    def __init__(self, path: str, wait: float = 10.0) -> None:
        try:
            if path != ":memory:" and not pathlib.Path(path).exists():
                os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))  # it will hold secrets
            self._db = sqlite3.connect(path, timeout=wait, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute("PRAGMA secure_delete = ON")  # what is forgotten is overwritten, too
            self._db.execute("PRAGMA journal_size_limit = 67108864")
        except (sqlite3.Error, OSError) as error:
            raise _failure(error, f"sqlite store {path}: {error}", pathlib.Path(path).exists()) from error

    def read(self, query: str, *parameters: Any) -> list[Row]:
        """Rows."""
        try:
            return self._db.execute(query, parameters).fetchall()
        except sqlite3.Error as error:
            raise _failure(error, str(error)) from error

    write = read

    def table(self, rows: Sequence[Row]) -> tuple[str, list[Any]]:
        """Rows as something to select from."""
        places = "(" + ", ".join("?" * len(rows[0])) + ")"
        return f"(VALUES {', '.join([places] * len(rows))})", [value for row in rows for value in row]

    def time(self) -> float | None:
        """A file has no clock."""
        return None

    def take_turns(self) -> None:
        """Every transaction of SQLite that writes does."""

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing."""
        self.write("BEGIN IMMEDIATE")
        try:
            yield
            self.write("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                with contextlib.suppress(sqlite3.Error):  # the first error is the one to tell of
                    self._db.execute("ROLLBACK")
            raise

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """All that is read belongs to one moment."""
        self.read("BEGIN")
        try:
            self.read("SELECT seq FROM heads")  # the moment is that of the first read
            yield
        finally:
            with contextlib.suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")

    def close(self) -> None:
        """End the connection."""
        self._db.close()


def _failure(error: Exception, words: str, there: bool = False) -> Unavailable:
    """What an error of SQLite means: extended codes have the kind in their lowest byte.

    A file that is `there` and cannot be opened is on a disk where nothing can be written beside it.
    """
    disk = [sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY]
    disk += [sqlite3.SQLITE_CANTOPEN] if there else []
    if isinstance(error, sqlite3.Error):
        on_disk = getattr(error, "sqlite_errorcode", 0) & 0xFF in disk
    else:
        on_disk = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EROFS, errno.EIO, errno.EDQUOT)
    return Unwritable(words) if on_disk else Unavailable(words)


class Postgres:
    """A server for many workers and machines."""

    kinds: dict[str, str] = {"BYTES": "BYTEA", "WHOLE": "BIGINT", "REAL": "DOUBLE PRECISION"}  # noqa: RUF012
    tables_named = "SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = ?"
    partitions, shared, keep_row = 256, True, "FOR KEY SHARE"

    def __init__(self, url: str, wait: float = 10.0) -> None:
        try:
            import psycopg
        except ImportError as error:
            raise ValueError("a PostgreSQL store needs: pip install 'steadyrank[postgres]'") from error
        self._error = psycopg.Error
        try:
            self._db = psycopg.connect(
                url,
                autocommit=True,
                client_encoding="utf8",  # else text of a database without an encoding (SQL_ASCII) comes as bytes
                connect_timeout=max(int(wait), 2),
                keepalives_idle=5,
                keepalives_interval=2,
                keepalives_count=3,
                tcp_user_timeout=10_000,
            )
            self._db.execute("SET statement_timeout = 60000")
            self._db.execute("SET synchronous_commit = on")
            self._db.execute("SET plan_cache_mode = force_custom_plan")  # tables grow: a plan of before may scan them
            self._db.execute(f"SET idle_in_transaction_session_timeout = {_STUCK:d}")
        except psycopg.ProgrammingError:
            raise ValueError("the address of the PostgreSQL store cannot be read") from None  # it may hold a password
        except psycopg.Error as error:
            raise Unavailable(f"postgresql store: {error}") from error

    def read(self, query: str, *parameters: Any) -> list[Row]:
        """Rows."""
        try:
            cursor = self._db.execute(query.replace("?", "%s").encode(), parameters, binary=True)
            return cursor.fetchall() if cursor.description else []
        except self._error as error:
            raise Unavailable(str(error)) from error

    write = read

    def table(self, rows: Sequence[Row]) -> tuple[str, list[Any]]:
        """Rows as something to select from; the same text for any number of them, so that it is parsed once."""
        columns = list(map(list, zip(*rows, strict=True)))
        arrays = ", ".join(f"?::{_ARRAYS[type(column[0])]}" for column in columns)
        names = ", ".join(f"column{place}" for place in range(1, len(columns) + 1))
        return f"unnest({arrays}) AS given ({names})", columns

    def time(self) -> float | None:
        """By the clock of the server, also inside a transaction."""
        return float(self.read("SELECT EXTRACT(EPOCH FROM clock_timestamp())::float8")[0][0])

    def take_turns(self) -> None:
        """A lock until the end of the transaction."""
        self.write("SELECT pg_advisory_xact_lock(7305428)")

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing."""
        try:
            with self._db.transaction():
                yield
        except self._error as error:
            raise Unavailable(str(error)) from error

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """All that is read belongs to one moment."""
        with self.transaction():
            self.read("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            self.read("SET LOCAL idle_in_transaction_session_timeout = 0")  # it locks nothing, and folds in between
            yield

    def close(self) -> None:
        """End the connection."""
        self._db.close()


def parts(values: Sequence[Value]) -> Iterator[Sequence[Value]]:
    """Values in parts that one statement can take."""
    for start in range(0, len(values), _AT_ONCE):
        yield values[start : start + _AT_ONCE]


def insert(db: Database, table: str, rows: Sequence[Row], conflict: str = "") -> None:
    """Add rows, many in a statement: between statements a thread that writes lets the others go first."""
    for part in parts(rows):
        given, values = db.table(part)
        db.write(f"INSERT INTO {table} SELECT * FROM {given} WHERE TRUE {conflict}", *values)


def connect(url: str) -> Database:
    """The database of `sqlite:///PATH` or `postgresql://...`."""
    if url.startswith("sqlite:///"):
        path = url.removeprefix("sqlite:///")
        if not path:
            raise ValueError(f"the store {url!r} names no file: sqlite:///PATH")
        if path != ":memory:" and not pathlib.Path(path).absolute().parent.is_dir():
            raise ValueError(f"the store {url!r} is in a folder that does not exist")
        return Sqlite(path)
    if url.startswith(("postgresql://", "postgres://")):
        return Postgres(url)
    raise ValueError("a store is sqlite:///PATH or postgresql://...")  # what it is instead may hold a password
