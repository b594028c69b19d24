"""The store of boards, opened by its URL. Its representation is private to this package."""

from .sql_store import SqlStore, first_wrong, open_store, partition_of, would_be_new
from .store import (
    Act,
    Damaged,
    Fenced,
    Holding,
    Key,
    KnownBoard,
    LogEntry,
    Member,
    NewEntry,
    Numbers,
    Outdated,
    Seal,
    Sender,
    Unavailable,
    Unwritable,
)

__all__ = [
    "Act",
    "Damaged",
    "Fenced",
    "Holding",
    "Key",
    "KnownBoard",
    "LogEntry",
    "Member",
    "NewEntry",
    "Numbers",
    "Outdated",
    "Seal",
    "Sender",
    "SqlStore",
    "Unavailable",
    "Unwritable",
    "first_wrong",
    "open_store",
    "partition_of",
    "would_be_new",
]
