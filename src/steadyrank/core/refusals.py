"""Refused requests, with the same codes in process and over HTTP."""

import operator
from typing import Any


class Refused(ValueError):
    """A request was refused and changed nothing; `code` gives the reason as an HTTP status."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def not_text(value: Any) -> str:
    """End of an error about an invalid name: the value and, for an integer, the text to use instead."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    return f"not {value!r:.80}" + ("" if number is None else f': write "{number}"')
