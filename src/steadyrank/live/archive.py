"""Files that hold a ranker: a JSON header and arrays, sealed; no pickle, so that a file can run no code."""

import hashlib
import io
import json
import zipfile
from typing import Any

import numpy as np

# 1 did not say who lists were shown to, 2 what is usually left unanswered, 3 the guard; none was released. 4 had
# no cohorts, and one guard at its full size
FORMAT = 5
_ALSO = 4  # read as well
_MAGIC = b"steadyrank snapshot\n"


class UnreadableSnapshot(ValueError):
    """A file that is no snapshot, or not as it was written, or of a format this version does not know."""


def pack(header: dict[str, Any], arrays: dict[str, Any]) -> bytes:
    """One line that names the format, the digest of the rest, the header's length, the header, and an npz archive."""
    text = json.dumps({"format": FORMAT, **header}, sort_keys=True).encode()
    rest = len(text).to_bytes(8, "little") + text + _archive(arrays)
    return _MAGIC + hashlib.sha256(rest).digest() + rest


def _archive(arrays: dict[str, Any]) -> bytes:
    """What `np.savez` writes, but the same bytes with every version of Python, so that workers can compare them."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, np.asarray(array), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), content.getbuffer())
    return buffer.getvalue()


def digest(header: dict[str, Any], arrays: dict[str, Any]) -> str:
    """Sixteen hexadecimal digits of what a snapshot holds, however it is packed."""
    h = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        h.update(f"{name} {array.dtype.str} {array.shape};".encode())
        h.update(array.tobytes())
    return h.hexdigest()[:16]


def unpack(content: bytes, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and arrays; anything else is refused with the reason."""
    start = len(_MAGIC) + 32
    if not content.startswith(_MAGIC):
        raise UnreadableSnapshot(f"{name} is no snapshot of steadyrank")
    rest = content[start:]
    if hashlib.sha256(rest).digest() != content[len(_MAGIC) : start]:
        raise UnreadableSnapshot(f"{name} is damaged: its content does not match its digest")
    size = int.from_bytes(rest[:8], "little")
    header = json.loads(rest[8 : 8 + size])
    if header.get("format") not in (_ALSO, FORMAT):
        raise UnreadableSnapshot(
            f"{name} has format {header.get('format')}, this version reads {FORMAT}: load it with the version that "
            "wrote it, or learn again from the clicks of the past"
        )
    with np.load(io.BytesIO(rest[8 + size :]), allow_pickle=False) as archive:
        return header, {key: archive[key] for key in archive.files}
