"""Decode long request bodies in slices, so that no other request waits for all of one.

A decoder cannot be interrupted, not even in a thread, since it holds the GIL. So the places where a body can be cut
are found first, a chunk at a time. Then each list or object in it is decoded in slices of whole elements by the
route's own schema, with other requests in between.
"""

import asyncio
import mmap
import re
import types
import typing
from collections.abc import Iterator
from typing import Any, BinaryIO

import msgspec
import numpy as np

from ...core.arrays import Bools, Ints
from ...core.refusals import Refused
from .bodies import decode, explain

AT_ONCE = 64 << 10  # bytes scanned or decoded between other requests: a millisecond or two
WIDEST = 256 << 10  # bytes of one element, or of a member that is no list
_MOST_MEMBERS = 1_000  # of the top-level object
_FREED_AT_ONCE = 5_000  # elements
_QUOTE, _ESCAPE, _COMMA = 34, 92, 44
_OPENING, _CLOSING, _OTHER_BRACKET = 123, 125, 0x20  # of objects; brackets of lists differ in one bit
_SPACE = b" \t\r\n"
_NO_JSON = "the body is no JSON: it has no end, or brackets that do not belong together"
_FIRST = re.compile(r"^\[(\d+)\]")  # the index of an element, at the beginning of a path
_NAME = re.compile(rb'\s*("(?:[^"\\]|\\.)*")\s*:\s*', re.DOTALL)


class _Part:
    """A list or object in a body: its bounds, brackets included, and commas where it can be cut.

    There is a cut in each `AT_ONCE` bytes, unless an element is longer than that.
    """

    def __init__(self, start: int) -> None:
        self.start, self.end = start, 0
        self.cuts: list[int] = []
        self._latest = start  # the latest comma, or the start

    def note_commas(self, commas: Ints) -> None:
        """Record the commas of a chunk, in order."""
        if commas.size:
            self._check_width(int(commas[0]))
            self._latest = int(commas[-1])
            self.cuts.append(self._latest)

    def close(self, end: int, cut: bool) -> None:
        """The part ends before this byte; `cut`: whether it is cut into slices."""
        if cut:
            self._check_width(end - 1)
        self.end = end

    def _check_width(self, end: int) -> None:
        if end - self._latest > WIDEST:
            raise Refused(422, f"an element of the body has {end - self._latest} bytes, at most {WIDEST} are read")

    def slices(self) -> Iterator[tuple[int, int]]:
        """Yield the bounds of slices of whole elements."""
        start = self.start + 1
        for cut in self.cuts:
            yield start, cut
            start = cut + 1
        yield start, self.end - 1


class _Cutter:
    """Finds the parts of a body: the elements of a list, or those of the lists and objects in an object."""

    def __init__(self, body: mmap.mmap) -> None:
        self.body = body
        self._in_text, self._escaped, self._depth = False, False, 0
        first = re.compile(rb"\s*(.)", re.DOTALL).match(body[:AT_ONCE])
        self.listed = first is not None and first.group(1) == b"["
        self._cut_at = 1 if self.listed else 2  # bracket depth of the elements
        self.outer: _Part | None = None
        self.members: list[int] = []  # commas between the members of an object
        self.inner: list[_Part] = []  # lists and objects among its members

    async def scan(self) -> None:
        """Scan the whole body, in chunks between other requests."""
        for start in range(0, len(self.body), AT_ONCE):
            self._scan_chunk(start)
            await asyncio.sleep(0)
        if self.outer is None or not self.outer.end:
            raise Refused(422, _NO_JSON)
        for start in (*range(0, self.outer.start, AT_ONCE), *range(self.outer.end, len(self.body), AT_ONCE)):
            end = self.outer.start if start < self.outer.start else len(self.body)
            if self.body[start : min(start + AT_ONCE, end)].strip(_SPACE):
                raise Refused(422, _NO_JSON)
            await asyncio.sleep(0)

    def _scan_chunk(self, start: int) -> None:
        """Process the brackets and commas outside of strings in a chunk."""
        chunk = np.frombuffer(self.body[start : start + AT_ONCE], np.uint8)
        quotes = chunk == _QUOTE
        if self._escaped or (chunk == _ESCAPE).any():
            quotes &= ~self._after_escape(chunk)
        outside: Bools = ~(np.logical_xor.accumulate(quotes) ^ self._in_text)
        self._in_text = not outside[-1]
        bracket = chunk | _OTHER_BRACKET
        opening, closing = (bracket == _OPENING) & outside, (bracket == _CLOSING) & outside
        after: Ints = self._depth + np.cumsum(opening.astype(np.int64) - closing)
        self._depth = int(after[-1])
        depth = after + closing  # a closing bracket counts as inside
        commas = (chunk == _COMMA) & outside
        if not self.listed:
            self.members += (np.flatnonzero(commas & (depth == 1)) + start).tolist()
        brackets = np.flatnonzero((opening | closing) & (depth >= 1) & (depth <= self._cut_at))
        if max(len(self.members), len(self.inner) + brackets.size // 2) > _MOST_MEMBERS or (after < 0).any():
            raise Refused(422, f"{_NO_JSON}, or more than {_MOST_MEMBERS} members")
        between = np.flatnonzero(commas & (depth == self._cut_at)) + start
        self._open_and_close(brackets + start, opening[brackets], depth[brackets], between)

    def _open_and_close(self, brackets: Ints, opening: Bools, depth: Ints, commas: Ints) -> None:
        """Open and close parts in the order of their brackets, with the commas between them."""
        done = 0
        for place, opens, deep in zip(brackets.tolist(), opening.tolist(), depth.tolist(), strict=True):
            upto = int(np.searchsorted(commas, place))
            self._note(commas[done:upto])
            done = upto
            if not opens:
                part = self.inner[-1] if deep == 2 else self.outer
                assert part is not None
                part.close(place + 1, deep == self._cut_at)
            elif deep == 2:
                self.inner.append(_Part(place))
            elif self.outer is None:
                self.outer = _Part(place)
            else:
                raise Refused(422, _NO_JSON)
        self._note(commas[done:])

    def _note(self, commas: Ints) -> None:
        part = self.outer if self.listed else self.inner[-1] if self.inner else None
        if commas.size:
            assert part is not None
            part.note_commas(commas)

    def _after_escape(self, chunk: Any) -> Bools:
        """[n] which bytes are escaped: they follow a backslash that is not escaped itself."""
        escapes, places = chunk == _ESCAPE, np.arange(chunk.size)
        latest = np.maximum.accumulate(np.where(escapes, -1, places))  # index of the latest byte that is no backslash
        run = places - latest  # of backslashes up to here
        run[latest < 0] += self._escaped  # a run may continue from the previous chunk
        active = escapes & (run % 2 == 1)
        before: Bools = np.concatenate([[self._escaped], active[:-1]])
        self._escaped = bool(active[-1])
        return before


class Slicer:
    """Decodes long bodies of one schema: a struct with long members, or rows."""

    def __init__(self, schema: Any) -> None:
        self._decoder = msgspec.json.Decoder(schema)
        self._structure = isinstance(schema, type) and issubclass(schema, msgspec.Struct)
        hints = typing.get_type_hints(schema, include_extras=True) if self._structure else {}
        self._kinds = {name: _elements(hint) for name, hint in hints.items()}
        self._rows = _elements(schema)
        self._decoders: dict[tuple[bool, Any], msgspec.json.Decoder[Any]] = {}

    async def decode(self, file: BinaryIO) -> Any:
        """Decode the body in a file.

        Raises Refused if anything in it is invalid. Pass the result to `free` at the end.
        """
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as body:
            cutter = _Cutter(body)
            await cutter.scan()
            assert cutter.outer is not None
            if cutter.listed:
                return await self._gathered(body, cutter.outer, self._rows, "")
            return await self._object(cutter)

    async def _object(self, cutter: _Cutter) -> Any:
        """Decode an object: long lists and objects in slices, the rest at once."""
        body, long, rest, size = cutter.body, {}, [], 0
        for start, end, part in _members(cutter):
            name = None if part is None else _NAME.fullmatch(body[start : part.start])
            if part is not None and name is not None:
                if part.end + WIDEST < end or body[part.end : end].strip(_SPACE):
                    raise Refused(422, _NO_JSON)
                long[str(msgspec.json.decode(name.group(1)))] = part
                rest.append(name.group() + (b"[]" if body[part.start : part.start + 1] == b"[" else b"{}"))
            else:
                size += end - start
                if size > WIDEST:
                    begin = body[start : start + 80].decode(errors="replace")
                    raise Refused(422, f"apart from long lists, a body has at most {WIDEST} bytes: {begin!r}")
                rest.append(body[start:end])
        whole = decode(b"{" + b",".join(rest) + b"}", self._decoder)
        for member, part in long.items():
            kinds = self._kinds[member] if self._structure else (msgspec.Raw, None)
            value = await self._gathered(body, part, kinds, f".{member}")
            if self._structure:
                setattr(whole, member, value)
            else:
                whole[member] = value
        return whole

    async def _gathered(self, body: mmap.mmap, part: _Part, kinds: tuple[Any, Any], where: str) -> Any:
        """Decode a list or an object in slices."""
        listed = body[part.start : part.start + 1] == b"["
        kind, brackets = kinds[0] if listed else kinds[1], (b"[", b"]") if listed else (b"{", b"}")
        if kind is None or body[part.end - 1 : part.end] != brackets[1]:
            raise Refused(
                422,
                f"{part.end - part.start} bytes cannot stand at `${where}`: {body[part.start : part.start + 80]!r}",
            )
        whole: Any = types.GenericAlias(list, kind) if listed else types.GenericAlias(dict, (str, kind))
        decoder = self._decoders.setdefault((listed, kind), msgspec.json.Decoder(whole))
        rows: list[Any] = []
        members: dict[str, Any] = {}
        for start, end in part.slices():
            content = body[start:end]
            if part.cuts and not content.strip(_SPACE):  # a trailing comma
                raise Refused(422, _NO_JSON)
            some = _decoded(brackets[0] + content + brackets[1], decoder, where, len(rows))
            if listed:
                rows += some
            else:
                members |= some
            await asyncio.sleep(0)
        return rows if listed else members


def _members(cutter: _Cutter) -> Iterator[tuple[int, int, _Part | None]]:
    """Yield the bounds of each member of an object, and the list or object in it if that is long."""
    assert cutter.outer is not None
    ends, parts = [*cutter.members, cutter.outer.end - 1], iter(cutter.inner)
    part = next(parts, None)
    for before, end in zip([cutter.outer.start, *ends], ends, strict=False):
        while part is not None and part.end <= before:
            part = next(parts, None)
        long = part is not None and part.end <= end and part.end - part.start > AT_ONCE
        yield before + 1, end, part if long else None


def _elements(hint: Any) -> tuple[Any, Any]:
    """The element type if the type is a list, and the value type if it is an object; None where it is not."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is list:
        return parts[0], None
    if origin is dict:
        return None, parts[1]
    if origin in (typing.Union, types.UnionType):
        kinds = [_elements(part) for part in parts]
        return next((one for one, _ in kinds if one), None), next((other for _, other in kinds if other), None)
    return None, None


def _decoded(content: bytes, decoder: msgspec.json.Decoder[Any], where: str, done: int) -> Any:
    """Decode a slice. Errors give the position in the whole body."""
    try:
        return decoder.decode(content)
    except msgspec.ValidationError as error:

        def place(path: str) -> str:
            return where + _FIRST.sub(lambda at: f"[{int(at[1]) + done}]", path, count=1)

        raise Refused(422, explain(str(error), content, decoder.type, place)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(422, f"the body is no JSON: {error}, from element {done} of `${where}` on") from None


async def free(body: Any) -> None:
    """Free a long body in steps with other requests in between: that takes as long as creating it."""
    fields = body.__struct_fields__ if isinstance(body, msgspec.Struct) else ()
    for value in (body, *(getattr(body, name) for name in fields)):
        if isinstance(value, list):
            while value:
                del value[-_FREED_AT_ONCE:]
                await asyncio.sleep(0)
        elif isinstance(value, dict):
            while value:
                for _ in range(min(len(value), _FREED_AT_ONCE)):
                    value.popitem()
                await asyncio.sleep(0)
