"""A row of the log as the event that it holds; a row that cannot be read concerns its own board alone."""

import contextlib
from collections.abc import Sequence

from ..board.events import AnyEvent, decode, decode_all
from ..storage import LogEntry


class Unreadable(ValueError):
    """An event that this worker must not go past: it is damaged, of a newer version, or cannot be applied."""


def read_event(entry: LogEntry) -> AnyEvent:
    """The event of a row; `Unreadable` if there is none that can be trusted."""
    if entry.damage:
        raise Unreadable(f"event {entry.seq} is damaged: {entry.damage}")
    try:
        return decode(entry.body)
    except Exception as error:  # a lack of memory, too: whatever it is, other boards go on
        raise Unreadable(
            f"event {entry.seq} cannot be decoded ({_words(error)}): a newer version may have written it"
        ) from error


def read_events(entries: Sequence[LogEntry]) -> list[AnyEvent | Unreadable]:
    """The events of rows; of one that cannot be trusted, what is wrong with it: its board bears that."""
    if not any(entry.damage for entry in entries):
        with contextlib.suppress(Exception):  # which one, and why, is said of each below
            return [*decode_all([entry.body for entry in entries])]
    return [_event_of(entry) for entry in entries]


def _event_of(entry: LogEntry) -> AnyEvent | Unreadable:
    try:
        return read_event(entry)
    except Unreadable as error:
        return error


def not_applied(seq: int, error: Exception) -> Unreadable:
    """What an event is called that failed half-way through."""
    return Unreadable(f"event {seq} cannot be applied ({_words(error)})")


def _words(error: Exception) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text:.200}" if text else type(error).__name__
