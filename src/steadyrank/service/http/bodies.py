"""Requests from bytes to checked values, and refusals with the value that was wrong."""

import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from starlette.types import Receive

from ...refusals import Refused
from ..board.config import RANGES, out_of_range

T = TypeVar("T")
# bytes of a body at most; those of a batch of answers come without a key
SMALL, BATCH, LARGE = 1 << 20, 8 << 20, 32 << 20

_AT = re.compile(r" - at `\$(.*)`$")
_BEYOND = re.compile(r"Expected `\w+` [<>]=? ")  # a number outside of its range
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")


async def read(receive: Receive, headers: Mapping[str, str], decoder: msgspec.json.Decoder[T], most: int) -> T:
    """The body in the decoder's schema, whatever its content type is; too much of it is refused before it is read."""
    said = headers.get("content-length", "")
    if said.isdigit() and int(said) > most:
        raise Refused(413, f"the body has {said} bytes, at most {most} are read")
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused(422, "the body was cut off")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > most:
            raise Refused(413, f"the body has more than {most} bytes")
        more = message.get("more_body", False)
    body = b"".join(parts)
    try:
        return decoder.decode(body or b"{}")
    except msgspec.ValidationError as error:
        raise Refused(422, explain(str(error), body or b"{}")) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(422, f"the body is no JSON: {error}") from None


def explain(message: str, body: bytes) -> str:
    """A message of the decoder with the value that it is about, where that is cheap to find."""
    found = _AT.search(message)
    if found is None or len(body) > SMALL:
        return message
    try:
        value: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):  # the rest of the body is wrong as well
        return message
    for name, place in _STEP.findall(found.group(1)):
        if place and isinstance(value, list) and int(place) < len(value):
            value = value[int(place)]
        elif name and isinstance(value, dict) and name in value:
            value = value[name]
        else:
            return message
    setting = found.group(1).removeprefix(".")
    if setting in RANGES and _BEYOND.match(message):
        return out_of_range(setting, value)
    return f"{message}: {value!r:.80}"
