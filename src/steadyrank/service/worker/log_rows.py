"""Decode rows of the log into events; an unreadable row only affects its own board."""

import contextlib
from collections.abc import Sequence

from ..board.events import AnyEvent, decode, decode_all
from ..storage import LogEntry


class Unreadable(ValueError):
    """An event that this worker cannot skip: damaged, of a newer version, or failing when applied."""


def read_event(entry: LogEntry) -> AnyEvent:
    """Decode the event of a row. Raises Unreadable if it is damaged or unknown."""
    if entry.damage:
        raise Unreadable(f"event {entry.seq} is damaged: {entry.damage}")
    try:
        return decode(entry.body)
    except Exception as error:  # including a lack of memory: other boards must go on
        raise Unreadable(
            f"event {entry.seq} cannot be decoded ({_words(error)}): a newer version may have written it"
        ) from error


def read_events(entries: Sequence[LogEntry]) -> list[AnyEvent | Unreadable]:
    """Decode the events of rows, with the Unreadable error in place of each one that fails."""
    if not any(entry.damage for entry in entries):
        with contextlib.suppress(Exception):  # which one fails, and why, is found below
            return [*decode_all([entry.body for entry in entries])]
    return [_event_of(entry) for entry in entries]


def _event_of(entry: LogEntry) -> AnyEvent | Unreadable:
    try:
        return read_event(entry)
    except Unreadable as error:
        return error


def not_applied(seq: int, error: Exception) -> Unreadable:
    """The error for an event that failed while it was applied."""
    return Unreadable(f"event {seq} cannot be applied ({_words(error)})")


def _words(error: Exception) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text:.200}" if text else type(error).__name__
