"""What is on the disk: a store, opened by its address. How it is kept is nobody else's business."""

from .acts import first_wrong
from .sql_store import open_store, would_be_new
from .store import Act, Key, KnownBoard, LogEntry, NewEntry, Numbers, Seal, Sender, Store, Unavailable, Unwritable

__all__ = [
    "Act",
    "Key",
    "KnownBoard",
    "LogEntry",
    "NewEntry",
    "Numbers",
    "Seal",
    "Sender",
    "Store",
    "Unavailable",
    "Unwritable",
    "first_wrong",
    "open_store",
    "would_be_new",
]
