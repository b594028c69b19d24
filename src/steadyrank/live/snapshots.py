"""Files that hold a ranker: a JSON header and arrays, sealed; no pickle, so that a file can run no code."""

import hashlib
import io
import json
from typing import Any

import numpy as np

FORMAT = 1
_MAGIC = b"steadyrank snapshot\n"


class Unreadable(ValueError):
    """A file that is no snapshot, or not as it was written, or of a format this version does not know."""


def pack(header: dict[str, Any], arrays: dict[str, Any]) -> bytes:
    """One line that names the format, the digest of the rest, the header's length, the header, and an npz archive."""
    text = json.dumps({"format": FORMAT, **header}, sort_keys=True).encode()
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    rest = len(text).to_bytes(8, "little") + text + buffer.getvalue()
    return _MAGIC + hashlib.sha256(rest).digest() + rest


def unpack(content: bytes, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and arrays; anything else is refused with the reason."""
    start = len(_MAGIC) + 32
    if not content.startswith(_MAGIC):
        raise Unreadable(f"{name} is no snapshot of steadyrank")
    rest = content[start:]
    if hashlib.sha256(rest).digest() != content[len(_MAGIC) : start]:
        raise Unreadable(f"{name} is damaged: its content does not match its digest")
    size = int.from_bytes(rest[:8], "little")
    header = json.loads(rest[8 : 8 + size])
    if header.get("format") != FORMAT:
        raise Unreadable(f"{name} has format {header.get('format')}, this version reads {FORMAT}")
    with np.load(io.BytesIO(rest[8 + size :]), allow_pickle=False) as archive:
        return header, {key: archive[key] for key in archive.files}
