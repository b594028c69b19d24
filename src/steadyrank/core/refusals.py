"""Why an answer is not accepted: the same codes in process and over HTTP."""

import operator
from typing import Any


class Refused(ValueError):
    """A request that changes nothing; `code` says why, as an HTTP status would."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def not_text(value: Any) -> str:
    """The end of a refusal of what is no name: the value, and of a whole number the text to write in its place."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    return f"not {value!r:.80}" + ("" if number is None else f': write "{number}"')
