"""What is on the disk: a store, opened by its address. How it is kept is nobody else's business."""

from .sql_store import first_wrong, open_store, would_be_new
from .store import (
    Act,
    Damaged,
    Key,
    KnownBoard,
    LogEntry,
    NewEntry,
    Numbers,
    Outdated,
    Seal,
    Sender,
    Store,
    Unavailable,
    Unwritable,
)

__all__ = [
    "Act",
    "Damaged",
    "Key",
    "KnownBoard",
    "LogEntry",
    "NewEntry",
    "Numbers",
    "Outdated",
    "Seal",
    "Sender",
    "Store",
    "Unavailable",
    "Unwritable",
    "first_wrong",
    "open_store",
    "would_be_new",
]
