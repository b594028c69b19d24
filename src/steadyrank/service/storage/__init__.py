"""What is on the disk: a store, opened by its address. How it is kept is nobody else's business."""

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
