"""Impression ids: signed, so that they need no look-up and cannot be made up.

What is known of a visit travels in them as well, so that an answer is learnt from with it even if the list itself was
never written. It is encrypted: whoever has the id, the visitor above all, cannot read what others know of them.
"""

import binascii
import contextlib
import functools
import hashlib
import hmac
import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from ...refusals import Refused
from ..board.config import Known
from ..storage import Seal

_HEAD = struct.Struct("<BQQQIdQHB")
_NOTE = struct.Struct("<Hd")
_SEAL = 16  # bytes of HMAC-SHA256: 128 bits
_VERSION, _WITH_COHORTS, _MIXED, _WITH_FEATURES = 1, 2, 3, 4
_WITH_SEEN = 8  # beside one of these: the id ends with the latest event that its worker had read
_HASH = struct.Struct("<Q")
_DRAFT = struct.Struct("<HH")
_NO_DRAFT = 0xFFFF, 0xFFFF  # lists are shorter
_SIZE = struct.Struct("<H")
_BLOCK = 32  # bytes of a signature
_known_in = msgspec.msgpack.Encoder().encode
_known_of = msgspec.msgpack.Decoder(Known).decode
FORGED = "the impression id is not one of this board"
_URL, _PLAIN = bytes.maketrans(b"+/", b"-_"), bytes.maketrans(b"-_", b"+/")


class ImpressionId(NamedTuple):
    """What an impression id says: everything that an answer needs."""

    key: int  # of the impression: 63 bits from a worker's random start, not 0
    round: int
    base: int  # the latest impression that the worker knew of
    generation: int  # of the learner that wrote the note
    expires: float  # seconds since 1970
    client: int  # 63 bits of a keyed hash, 0 without a client
    ranking: list[int]  # slots of items
    note: list[tuple[int, float]]
    cohorts: Mapping[str, int] = {}  # by kind, 63 bits of a keyed hash
    draft: tuple[int, int] | None = None  # of a mixed list, the first place that teams drafted, and the end
    features: Mapping[str, Any] = {}  # what was known of the visit
    seen: int = 0  # the latest event of the log that the worker had read, if there is a client or a cohort


class Signer:
    """HMAC-SHA256 with a key of its own for each purpose, prepared once.

    `hmac.digest` lets other threads run for every call, and would wait for the one that writes the log.
    """

    def __init__(self, secret: bytes, purpose: str) -> None:
        key = hmac.digest(secret, purpose.encode(), "sha256").ljust(64, b"\0")
        self._inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in key))
        self._outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in key))

    def sign(self, content: bytes) -> bytes:
        """The signature of some content, 32 bytes (RFC 2104)."""
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(content)
        outer.update(inner.digest())
        return outer.digest()


def seal(shown: ImpressionId, signer: Signer) -> str:
    """An impression id as text for a URL, signed."""
    *head, ranking, note, cohorts, draft, features, seen = shown
    version = _WITH_FEATURES if features else _MIXED if draft else _WITH_COHORTS if cohorts else _VERSION
    body = _shape(len(ranking)).pack(version + (_WITH_SEEN if seen else 0), *head, len(ranking), len(note), *ranking)
    for place, value in note:
        body += _NOTE.pack(place, value)
    body += _DRAFT.pack(*(draft or _NO_DRAFT)) if draft or features else b""
    if features:
        known = _known_in(features)
        body += _SIZE.pack(len(known)) + _masked(known, shown.key, signer)
    for kind, hashed in cohorts.items():
        body += bytes([len(kind)]) + kind.encode("ascii") + _HASH.pack(hashed)
    body += _HASH.pack(seen) if seen else b""
    return binascii.b2a_base64(body + signer.sign(body)[:_SEAL], newline=False).translate(_URL, b"=").decode()


def _masked(content: bytes, key: int, signer: Signer) -> bytes:
    """Content that only who has the secret can read; masked twice it is what it was. A key is one impression's alone.

    Content and as many bytes of what signs numbered blocks, in exclusive or. A signed body begins with its version, a
    block here with 0, so that no signature tells anything of a block.
    """
    blocks = -(-len(content) // _BLOCK)
    stream = b"".join(signer.sign(bytes(1) + _HASH.pack(key) + _SIZE.pack(block)) for block in range(blocks))
    return bytes(one ^ other for one, other in zip(content, stream, strict=False))


@functools.lru_cache(1_000)
def _slots(size: int) -> struct.Struct:
    return struct.Struct(f"<{size}I")


@functools.lru_cache(1_000)
def _shape(size: int) -> struct.Struct:
    return struct.Struct(f"{_HEAD.format}{size}I")


def open_sealed(text: str, signer: Signer) -> ImpressionId:
    """What a text says that was sealed by this signer; anything else is refused."""
    try:
        padded = text.encode("ascii").translate(_PLAIN, b"+/=") + b"=" * (-len(text) % 4)
        raw = binascii.a2b_base64(padded, strict_mode=True)
    except (binascii.Error, ValueError):
        raise Refused(403, FORGED) from None
    body, mark = raw[:-_SEAL], raw[-_SEAL:]
    if len(raw) <= _SEAL or not hmac.compare_digest(signer.sign(body)[:_SEAL], mark):
        raise Refused(403, FORGED)
    version, key_, round_, base, generation, expires, client, size, notes = _HEAD.unpack_from(body)
    seen = 0
    if version & _WITH_SEEN:
        version, body, seen = version - _WITH_SEEN, body[: -_HASH.size], _HASH.unpack(body[-_HASH.size :])[0]
    if version not in (_VERSION, _WITH_COHORTS, _MIXED, _WITH_FEATURES):
        known = f"{_VERSION} to {_WITH_FEATURES}"
        raise Refused(410, f"the impression id has format {version}, this server knows {known}")
    ranking = list(_slots(size).unpack_from(body, _HEAD.size))
    start = _HEAD.size + 4 * size
    note = [_NOTE.unpack_from(body, start + i * _NOTE.size) for i in range(notes)] if notes else []
    start, draft, features = start + notes * _NOTE.size, None, {}
    if version in (_MIXED, _WITH_FEATURES):
        draft, start = _DRAFT.unpack_from(body, start), start + _DRAFT.size
    if version == _WITH_FEATURES:
        end = start + _SIZE.size + _SIZE.unpack_from(body, start)[0]
        features = _known_of(_masked(body[start + _SIZE.size : end], key_, signer))
        draft, start = None if draft == _NO_DRAFT else draft, end
    cohorts = _cohorts(body[start:]) if version != _VERSION else {}
    visitor = cohorts, draft, features, seen
    return ImpressionId(key_, round_, base, generation, expires, client, ranking, note, *visitor)


def _cohorts(rest: bytes) -> dict[str, int]:
    """What `seal` wrote of cohorts: of each the length of its kind, that, and its hash."""
    found = {}
    while rest:
        end = 1 + rest[0]
        found[rest[1:end].decode("ascii")] = _HASH.unpack_from(rest, end)[0]
        rest = rest[end + _HASH.size :]
    return found


class Seals:
    """The secrets that sign the ids of a board: its first one, or those that came after it."""

    def __init__(self, secret: bytes, seals: Sequence[Seal]) -> None:
        self.kept = seals
        now, *former = seals or [Seal(secret, None)]
        self.signer = Signer(now.secret, "impression")
        self._former = [(Signer(seal.secret, "impression"), seal.until) for seal in former]

    def open(self, text: str, now: float) -> ImpressionId:
        """What an impression id says; one that was signed by a former secret must expire before that one's end."""
        for signer, until in self._former:
            if until is not None and now < until:
                with contextlib.suppress(Refused):
                    shown = open_sealed(text, signer)
                    if shown.expires <= until:
                        return shown
        return open_sealed(text, self.signer)
