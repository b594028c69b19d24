"""Read and decode request bodies, with error messages that quote the wrong value."""

import re
import tempfile
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, TypeVar

import msgspec
from starlette.types import Receive

from ...core.refusals import Refused, not_text
from ...core.settings import closest
from ..board.config import COLLECTION_RANGES, RANGES, out_of_range

T = TypeVar("T")
# maximal bytes of a body; batches of answers may come without a key
SMALL, BATCH, LARGE = 1 << 20, 8 << 20, 32 << 20
_IN_MEMORY = 8 << 10  # bytes of an unfinished body
_NO_ROOM = "too many large bodies at once: try again"

_AT = re.compile(r" - at `\$(.*)`$")
_BEYOND = re.compile(r"Expected `\w+` [<>]=? ")  # a number out of range
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")
_MISSING = re.compile(r"Object missing required field `(.*)`")
_ENUM = re.compile(r"Invalid enum value ")
_EXPECTED = re.compile(r"Expected `([\w| ]+)`, got `(\w+)`")
_TEXT = re.compile(r"Expected `str( \| null)?`")
_WORDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}
_NOT_FOUND: Any = object()
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")
_encode_into = msgspec.json.Encoder().encode_into


class Bodies:
    """Unfinished and unprocessed bodies. Those over 8 KiB are spooled to disk, as long as there is room.

    A client that sends much and never finishes costs no memory, and all together cost at most `most` bytes of disk:
    beyond that, the unfinished body that began first is refused.
    """

    def __init__(self, most: int) -> None:
        self._most, self._used = most, 0
        self._held: dict[SpooledBody, None] = {}  # in order of their beginning

    async def receive(self, receive: Receive, headers: Mapping[str, str], most: int) -> "bytes | SpooledBody":
        """Receive a whole body, in memory or spooled to disk (to be closed).

        Raises Refused early if it is too long.
        """
        length = headers.get("content-length", "")
        if length.isdigit() and int(length) > most:
            raise Refused(413, f"the body has {length} bytes, at most {most} are read")
        parts, size, more = [], 0, True
        held: SpooledBody | None = None
        try:
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Refused(422, "the body was cut off")
                part, more = message.get("body", b""), message.get("more_body", False)
                size += len(part)
                if size > most:
                    raise Refused(413, f"the body has more than {most} bytes")
                parts.append(part)
                if held is not None or size > _IN_MEMORY:
                    if held is None:
                        self._held[held := SpooledBody(self, _temporary())] = None
                    self._write(held, b"".join(parts))
                    parts.clear()
                del message, part  # keep no part in memory while waiting for the next
        except BaseException:
            if held is not None:
                held.close()
            raise
        if held is None:
            return b"".join(parts) if len(parts) != 1 else parts[0]
        held.complete = True
        return held

    def _write(self, held: "SpooledBody", part: bytes) -> None:
        if held not in self._held:
            raise Refused(503, _NO_ROOM)
        try:
            written = held.file.write(part)
        except OSError as error:
            raise Refused(503, f"{_NO_ROOM}: {error.strerror}") from None
        if written < len(part):  # the disk is full, as the next write would report
            raise Refused(503, _NO_ROOM)
        held.size += len(part)
        self._used += len(part)
        if self._used > self._most:
            next(other for other in self._held if not other.complete).close()
            if held not in self._held:
                raise Refused(503, _NO_ROOM)

    def release(self, held: "SpooledBody") -> None:
        """Release the room of a body that is processed or refused."""
        if held in self._held:
            del self._held[held]
            self._used -= held.size


class SpooledBody:
    """A body spooled to disk, complete or not."""

    def __init__(self, among: Bodies, file: BinaryIO) -> None:
        self.file, self.size, self.complete = file, 0, False
        self._among = among

    def read(self) -> bytes:
        """Read the whole body."""
        self.file.seek(0)
        return self.file.read()

    def close(self) -> None:
        """Close the file and release its room."""
        self._among.release(self)
        self.file.close()

    def __enter__(self) -> "SpooledBody":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _temporary() -> BinaryIO:
    try:
        return tempfile.TemporaryFile(buffering=0)
    except OSError as error:
        raise Refused(503, f"{_NO_ROOM}: {error.strerror}") from None


def check_type(headers: Mapping[str, str]) -> None:
    """Raise Refused for content types that any web page may send to any server without a preflight request.

    The default type of forms is allowed, since `curl -d` sends it, too.
    """
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind in ("text/plain", "multipart/form-data"):
        raise Refused(415, f"the body must be application/json, not {kind}")


def decode(body: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """Decode a body, whatever its content type; an empty one counts as an empty object. Raises Refused if invalid."""
    try:
        return decoder.decode(body or b"{}")
    except msgspec.ValidationError as error:
        raise Refused(422, explain(str(error), body or b"{}", decoder.type)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(422, f"the body is no JSON: {error}") from None


def encode(answer: Any) -> bytes:
    """Encode an answer as JSON. `Encoder.encode` of msgspec 0.22 crashes the process when memory runs out."""
    buffer = bytearray()
    _encode_into(answer, buffer)
    return bytes(buffer)


def explain(message: str, body: bytes, schema: Any = None, name: Callable[[str], str] = str) -> str:
    """Rephrase a decoder's error in terms of the API, with the wrong value where that is cheap to find.

    `schema`: the schema of the body, for suggesting names that a mistyped one may stand for. `name`: maps a path of
    `body` to that of the larger body of which it is a slice.
    """
    place_at = _AT.search(message)
    path = place_at.group(1) if place_at else ""
    what = message.removesuffix(place_at.group(0)) if place_at else message
    called = name(path).removeprefix(".")
    if unknown := _UNKNOWN.fullmatch(what):
        return (f"{called}: " if called else "") + closest("member", unknown.group(1), _members(schema, path))
    if missing := _MISSING.fullmatch(what):
        return f"{called + '.' if called else ''}{missing.group(1)} is missing"
    value = _value_at(path, body)
    if (called in RANGES or called in COLLECTION_RANGES) and _BEYOND.match(what) and value is not _NOT_FOUND:
        return out_of_range(called, value)
    wrong = "" if value is _NOT_FOUND else f", {not_text(value) if _TEXT.match(what) else f'not {value!r:.80}'}"
    if _ENUM.match(what):
        return f"{called} must be one of {', '.join(_choices(schema, path))}{wrong}"
    if expected := _EXPECTED.fullmatch(what):
        return f"{called or 'the body'} must be {_in_words(expected.group(1))}{wrong or f', not {expected.group(2)}'}"
    return f"{called}: {what}{wrong}" if called else what


def _value_at(path: str, body: bytes) -> Any:
    """The value at a path of a body; `_NOT_FOUND` if the body is large or the path does not exist."""
    if not path or len(body) > SMALL:
        return _NOT_FOUND
    try:
        value: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):  # the rest of the body is invalid as well
        return _NOT_FOUND
    for name, place in _STEP.findall(path):
        if place and isinstance(value, list) and int(place) < len(value):
            value = value[int(place)]
        elif name and isinstance(value, dict) and name in value:
            value = value[name]
        else:
            return _NOT_FOUND
    return value


def _in_words(kinds: str) -> str:
    return " or ".join(_WORDS.get(kind, kind) for kind in kinds.split(" | "))


def _kinds_at(schema: Any, path: str) -> list[Any]:
    """The types allowed at a path of a schema."""
    kinds = [] if schema is None else [msgspec.inspect.type_info(schema)]
    for name, _ in _STEP.findall(path):
        kinds = [part for kind in kinds for part in _parts_of(kind, name)]
    return [part for kind in kinds for part in getattr(kind, "types", (kind,))]


def _parts_of(kind: Any, name: str) -> list[Any]:
    """The types of a member of a type, or of its elements if `name` is empty."""
    each = getattr(kind, "types", (kind,))
    if not name:
        return [part.item_type for part in each if hasattr(part, "item_type")]
    return [member.type for part in each for member in getattr(part, "fields", ()) if member.encode_name == name]


def _members(schema: Any, path: str) -> list[str]:
    return [member.encode_name for kind in _kinds_at(schema, path) for member in getattr(kind, "fields", ())]


def _choices(schema: Any, path: str) -> list[str]:
    return [str(value) for kind in _kinds_at(schema, path) for value in getattr(kind, "values", ())]
