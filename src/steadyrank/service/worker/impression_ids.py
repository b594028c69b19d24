"""Impression ids: signed, so that they cannot be forged and need no lookup; encrypted, so that they reveal nothing.

They also carry the features of the visit, so that an answer can be learnt from with them even if the list itself was
never written. The holder of an id, above all the visitor, learns nothing of these: neither from its bytes, which look
random, nor from its length, which is the same for all visits of a board (`room_for`).

An id is a tag of 16 bytes and a body. The tag is the signature of the plain body, and the keystream that encrypts the
body depends on the tag (a synthetic nonce, as in RFC 5297). No two bodies are equal, since each impression has its
own key, and so no two keystreams are. Ids of versions 1 to 4, which have the tag after a plain body, are still
accepted.
"""

import binascii
import contextlib
import functools
import hashlib
import hmac
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from ...core.refusals import Refused
from ...live.features import FeatureSpace
from ..board.config import Known
from ..storage import Seal

_HEAD = struct.Struct("<BQQQIdQHB")
_NOTE = struct.Struct("<Hd")
_SEAL = 16  # bytes of HMAC-SHA256: 128 bits
_VERSION, _OF_QUERY = 5, 6  # of a board with items of its own; and of a collection
_PLAIN_HEAD, _WITH_COHORTS, _MIXED, _WITH_FEATURES = 1, 2, 3, 4  # former versions
_HASH = struct.Struct("<Q")
_DRAFT = struct.Struct("<HH")
_NO_DRAFT = 0xFFFF, 0xFFFF  # lists are shorter
_SIZE = struct.Struct("<H")
_BLOCK = 32  # bytes of a signature
_ROOM = 64  # bytes; the part that varies between visits is padded to a multiple of it
_NOTES = 4  # nonzero entries of a note, at most, by the live learners of this package
_LONGEST = 1 << 16  # characters of a text that is examined
_known_in = msgspec.msgpack.Encoder().encode
_known_of = msgspec.msgpack.Decoder(Known).decode
FORGED = "the impression id is not one of this board"
_URL, _PLAIN = bytes.maketrans(b"+/", b"-_"), bytes.maketrans(b"-_", b"+/")


class ImpressionId(NamedTuple):
    """The contents of an impression id: everything that an answer needs."""

    key: int  # of the impression: 63 bits from a worker's random start, not 0
    round: int
    base: int  # the latest impression that the worker knew of
    generation: int  # of the learner that wrote the note
    expires: float  # seconds since 1970
    client: int  # 63 bits of a keyed hash, 0 without a client
    ranking: list[int]  # slots of items
    note: list[tuple[int, float]]
    cohorts: Mapping[str, int] = {}  # by kind, 63 bits of a keyed hash
    draft: tuple[int, int] | None = None  # of a mixed list: the first place drafted by teams, and the end
    features: Mapping[str, Any] = {}  # features of the visit
    seen: int = 0  # the latest event that the worker had read, if there is a client or a cohort
    of: tuple[int, list[int]] | None = None  # in a collection: the ids of the query and of the items


class Signer:
    """HMAC-SHA256 with a separate key for each purpose, set up once.

    Unlike `hmac.digest`, it does not release the GIL in every call, after which it would wait for the log writer's
    thread.
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


def seal(shown: ImpressionId, signer: Signer, room: int = _ROOM) -> str:
    """Encode an impression id as URL-safe text. The part that varies between visits is padded to `room` bytes.

    A longer part is padded to a multiple of 64.
    """
    *head, ranking, note, cohorts, draft, features, seen, of = shown
    packed = _known_in(features) if features else b""
    rest = _HASH.pack(seen) + _DRAFT.pack(*(draft or _NO_DRAFT)) + _SIZE.pack(len(packed)) + packed
    for place, value in note:
        rest += _NOTE.pack(place, value)
    for kind, hashed in cohorts.items():
        rest += bytes([len(kind)]) + kind.encode("ascii") + _HASH.pack(hashed)
    rest = rest.ljust(_rounded(max(len(rest), room)), b"\0")
    body = _shape(len(ranking)).pack(_OF_QUERY if of else _VERSION, *head, len(ranking), len(note), *ranking)
    body += (_ids(len(ranking)).pack(of[0], *of[1]) if of else b"") + rest
    mark = signer.sign(body)[:_SEAL]
    return _text(mark + _masked(body, mark, signer))


def _text(raw: bytes) -> str:
    """Encode bytes as URL-safe base64 without padding."""
    return binascii.b2a_base64(raw, newline=False).translate(_URL, b"=").decode()


def room_for(space: FeatureSpace, kinds: Iterable[str]) -> int:
    """Bytes for the longest varying part of a visit with these features and kinds of cohorts."""
    longest = {x.name: max(x.categories, key=lambda text: len(text.encode()), default=0.0) for x in space.visits}
    packed = len(_known_in(longest)) if longest else 0
    cohorts = sum(1 + len(kind) + _HASH.size for kind in kinds)
    return _rounded(_HASH.size + _DRAFT.size + _SIZE.size + packed + _NOTES * _NOTE.size + cohorts)


def _rounded(size: int) -> int:
    return -(-size // _ROOM) * _ROOM


def _masked(content: bytes, mark: bytes, signer: Signer) -> bytes:
    """Encrypt or decrypt content: XOR with a keystream.

    The keystream is SHAKE-256 of a signature of the tag. A signed body begins with its version, the signed text here
    with 0, so that no tag reveals a keystream.
    """
    size = len(content)
    stream = hashlib.shake_256(signer.sign(bytes(1) + mark)).digest(size)
    return (int.from_bytes(content) ^ int.from_bytes(stream)).to_bytes(size)


def _masked_then(content: bytes, key: int, signer: Signer) -> bytes:
    """Encrypt or decrypt the features of an id of version 4: XOR with signatures of numbered blocks."""
    blocks = range(-(-len(content) // _BLOCK))
    stream = b"".join(signer.sign(bytes(1) + _HASH.pack(key) + _SIZE.pack(block)) for block in blocks)
    return bytes(one ^ other for one, other in zip(content, stream, strict=False))


@functools.lru_cache(1_000)
def _slots(size: int) -> struct.Struct:
    return struct.Struct(f"<{size}I")


@functools.lru_cache(1_000)
def _ids(size: int) -> struct.Struct:
    """The id of a query, and those of `size` items."""
    return struct.Struct(f"<Q{size}Q")


@functools.lru_cache(1_000)
def _shape(size: int) -> struct.Struct:
    return struct.Struct(f"{_HEAD.format}{size}I")


def open_sealed(text: str, signer: Signer) -> ImpressionId:
    """Decode a text sealed by this signer. Raises Refused for anything else."""
    try:
        if len(text) > _LONGEST:
            raise ValueError
        padded = text.encode("ascii").translate(_PLAIN, b"+/=") + b"=" * (-len(text) % 4)
        raw = binascii.a2b_base64(padded, strict_mode=True)
    except (binascii.Error, ValueError):
        raise Refused(403, FORGED) from None
    if len(raw) < _SEAL + _HEAD.size or _text(raw) != text:  # unused bits of the last character
        raise Refused(403, FORGED)
    body = _masked(raw[_SEAL:], raw[:_SEAL], signer)
    if body[0] in (_VERSION, _OF_QUERY) and hmac.compare_digest(signer.sign(body)[:_SEAL], raw[:_SEAL]):
        return _read(body)
    body = raw[:-_SEAL]
    if body[0] not in (_VERSION, _OF_QUERY) and hmac.compare_digest(signer.sign(body)[:_SEAL], raw[-_SEAL:]):
        return _read_former(body, signer)
    raise Refused(403, FORGED)


def _read(body: bytes) -> ImpressionId:
    """Decode a body of the current version."""
    version, *head, size, notes = _HEAD.unpack_from(body)
    ranking, start, of = list(_slots(size).unpack_from(body, _HEAD.size)), _HEAD.size + 4 * size, None
    if version == _OF_QUERY:
        query, *items = _ids(size).unpack_from(body, start)
        start, of = start + _ids(size).size, (query, items)
    (seen,), draft = _HASH.unpack_from(body, start), _DRAFT.unpack_from(body, start + _HASH.size)
    start += _HASH.size + _DRAFT.size
    end = start + _SIZE.size + _SIZE.unpack_from(body, start)[0]
    packed = body[start + _SIZE.size : end]
    note = [_NOTE.unpack_from(body, end + i * _NOTE.size) for i in range(notes)]
    cohorts = _cohorts(body[end + notes * _NOTE.size :])
    visitor = cohorts, None if draft == _NO_DRAFT else draft, _known_of(packed) if packed else {}, seen, of
    return ImpressionId._make([*head, ranking, note, *visitor])


def _read_former(body: bytes, signer: Signer) -> ImpressionId:
    """Decode a body of version 1 to 4."""
    version, key_, round_, base, generation, expires, client, size, notes = _HEAD.unpack_from(body)
    if version not in (_PLAIN_HEAD, _WITH_COHORTS, _MIXED, _WITH_FEATURES):
        formats = f"{_PLAIN_HEAD} to {_OF_QUERY}"
        raise Refused(410, f"the impression id has format {version}, this server knows {formats}")
    ranking = list(_slots(size).unpack_from(body, _HEAD.size))
    start = _HEAD.size + 4 * size
    note = [_NOTE.unpack_from(body, start + i * _NOTE.size) for i in range(notes)] if notes else []
    start, draft, features = start + notes * _NOTE.size, None, {}
    if version in (_MIXED, _WITH_FEATURES):
        draft, start = _DRAFT.unpack_from(body, start), start + _DRAFT.size
    if version == _WITH_FEATURES:
        end = start + _SIZE.size + _SIZE.unpack_from(body, start)[0]
        features = _known_of(_masked_then(body[start + _SIZE.size : end], key_, signer))
        draft, start = None if draft == _NO_DRAFT else draft, end
    cohorts = _cohorts(body[start:]) if version != _PLAIN_HEAD else {}
    return ImpressionId(key_, round_, base, generation, expires, client, ranking, note, cohorts, draft, features)


def _cohorts(rest: bytes) -> dict[str, int]:
    """Decode the cohorts written by `seal`: each the length of its kind, the kind, and a hash. Padding is zeros."""
    cohorts = {}
    while rest and rest[0]:
        end = 1 + rest[0]
        cohorts[rest[1:end].decode("ascii")] = _HASH.unpack_from(rest, end)[0]
        rest = rest[end + _HASH.size :]
    return cohorts


class Seals:
    """The secrets that sign the ids of a board: the original one, or those that replaced it."""

    def __init__(self, secret: bytes, seals: Sequence[Seal]) -> None:
        self.kept = seals
        now, *former = seals or [Seal(secret, None)]
        self.signer = Signer(now.secret, "impression")
        self._former = [(Signer(seal.secret, "impression"), seal.until) for seal in former]

    def open(self, text: str, now: float) -> ImpressionId:
        """Decode an impression id; one signed by a former secret must expire before that secret does."""
        for signer, until in self._former:
            if until is not None and now < until:
                with contextlib.suppress(Refused):
                    shown = open_sealed(text, signer)
                    if shown.expires <= until:
                        return shown
        return open_sealed(text, self.signer)
