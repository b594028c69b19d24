"""What is on the disk: a store, opened by its address. How it is kept is nobody else's business."""

from .sql_store import open_store
from .store import Key, KnownBoard, LogEntry, NewEntry, Sender, Store, Unavailable, Unwritable

__all__ = ["Key", "KnownBoard", "LogEntry", "NewEntry", "Sender", "Store", "Unavailable", "Unwritable", "open_store"]
