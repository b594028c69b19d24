"""What is on the disk: a store, opened by its address. How it is kept is nobody else's business."""

from .sql_store import open_store
from .store import BoardStore, Key, LogEntry, NewEntry, Sender, Unavailable

__all__ = ["BoardStore", "Key", "LogEntry", "NewEntry", "Sender", "Unavailable", "open_store"]
