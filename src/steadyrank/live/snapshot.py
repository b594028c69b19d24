"""Pack a learner's state and the latest impressions into a snapshot, and restore them.

A snapshot is a JSON header and arrays, with a digest; no pickle, so that loading a file cannot run code.
"""

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.arrays import Ints
from .collection.collection_state import CollectionState
from .features import FeatureSpace
from .gate import Post
from .impression_buffer import ImpressionBuffer
from .learner_state import LearnerState
from .silence import Silence

FORMAT = 6  # earlier formats were never released
_BLOCK = 4096  # bytes of a block, written or omitted as a whole: a page of memory
_LEAST = 16 * _BLOCK  # smallest array for which that pays, in bytes
_MAGIC = b"steadyrank snapshot\n"


class UnreadableSnapshot(ValueError):
    """A file that is not a snapshot, is damaged, or has a format unknown to this version."""


class Sparse(NamedTuple):
    """An array with few nonzero blocks, as most arrays of items without looks."""

    dtype: Any
    shape: tuple[int, ...]
    blocks: Ints  # [n] numbers of the nonzero blocks
    content: Any  # [n * _BLOCK] uint8, content of these blocks; the last one of an array is padded with zeros

    def dense(self) -> Any:
        """The full array. Memory is committed only where it is not 0."""
        size = int(np.prod(self.shape)) * self.dtype.itemsize
        padded = np.zeros(-(-size // _BLOCK) * _BLOCK, np.uint8)
        padded.reshape(-1, _BLOCK)[self.blocks] = self.content.reshape(-1, _BLOCK)
        return padded[:size].view(self.dtype).reshape(self.shape)


def copied(array: Any) -> Any:
    """A copy of an array, possibly `thinned`."""
    thin = thinned(array)
    return thin.copy() if thin is array else thin


def thinned(array: Any) -> Any:
    """The array as a `Sparse` if it is large and at least half of it is 0, else itself; a function of the content.

    One pass over it, which commits no memory where nothing was ever written.
    """
    if isinstance(array, Sparse) or array.nbytes < _LEAST or not array.flags.c_contiguous:
        return array
    flat = array.reshape(-1).view(np.uint8)
    whole = flat.size // _BLOCK
    words = flat[: whole * _BLOCK].view(np.uint64).reshape(whole, -1)
    blocks = np.flatnonzero(np.bitwise_or.reduce(words, axis=1))
    rest = flat[whole * _BLOCK :]
    if 2 * blocks.size > whole:
        return array
    content = flat[: whole * _BLOCK].reshape(whole, _BLOCK)[blocks].reshape(-1)
    if rest.any():
        blocks = np.append(blocks, whole)
        content = np.concatenate([content, rest, np.zeros(_BLOCK - rest.size, np.uint8)])
    return Sparse(array.dtype, array.shape, blocks, content)


def pack(header: dict[str, Any], arrays: dict[str, Any]) -> bytes:
    """Pack into one line with format, digest and header length, then the header, and an npz archive."""
    written: dict[str, Any] = {}
    sparse: dict[str, Any] = {}
    for name, array in arrays.items():
        thin = thinned(array)
        if isinstance(thin, Sparse):
            sparse[name] = [thin.dtype.str, list(thin.shape)]
            written |= {f"{name}/blocks": thin.blocks, f"{name}/content": thin.content}
        else:
            written[name] = thin
    full_header = {"format": FORMAT, **({"sparse": sparse} if sparse else {}), **header}
    text = json.dumps(full_header, sort_keys=True).encode()
    rest = len(text).to_bytes(8, "little") + text + _archive(written)
    return _MAGIC + hashlib.sha256(rest).digest() + rest


def _archive(arrays: dict[str, Any]) -> bytes:
    """The output of `np.savez`, but with equal bytes in every Python version, so that workers can compare them."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, np.asarray(array), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), content.getbuffer())
    return buffer.getvalue()


def digest(header: dict[str, Any], arrays: dict[str, Any]) -> str:
    """Sixteen hexadecimal digits that identify a snapshot's content, however it is packed."""
    h = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        h.update(f"{name} {array.dtype.str} {array.shape};".encode())
        thin = thinned(array)
        for part in thin[2:] if isinstance(thin, Sparse) else (thin,):
            h.update(part.tobytes())
    return h.hexdigest()[:16]


def unpack(content: bytes, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and arrays of a packed snapshot; anything else is refused with the reason."""
    start = len(_MAGIC) + 32
    if not content.startswith(_MAGIC):
        raise UnreadableSnapshot(f"{name} is no snapshot of steadyrank")
    rest = content[start:]
    if hashlib.sha256(rest).digest() != content[len(_MAGIC) : start]:
        raise UnreadableSnapshot(f"{name} is damaged: its content does not match its digest")
    size = int.from_bytes(rest[:8], "little")
    header = json.loads(rest[8 : 8 + size])
    if header.get("format") != FORMAT:
        raise UnreadableSnapshot(
            f"{name} has format {header.get('format')}, this version reads {FORMAT}: load it with the version that "
            "wrote it, or learn again from the clicks of the past"
        )
    with np.load(io.BytesIO(rest[8 + size :]), allow_pickle=False) as archive:
        sparse = header.pop("sparse", {})
        arrays = {key: archive[key] for key in archive.files if "/" not in key}
        for key, (kind, shape) in sparse.items():
            arrays[key] = Sparse(
                np.dtype(kind), tuple(shape), archive[f"{key}/blocks"], archive[f"{key}/content"]
            ).dense()
        return header, arrays


def take(
    state: LearnerState, impressions: ImpressionBuffer, extra: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Everything that determines future behaviour, as a header and arrays that are not copied; `extra` is added."""
    header = {
        "learner": state.learner_class.__name__,
        "version": version(state.learner_class),
        "settings": state.settings,
        **guards_header(state.gate.posts),
        "shadow": state.gate.shadow,
        "length": state.length,
        "seed": state.seed,
        "new_share": state.new_share,
        "sized": state.sized,
        "items": state.names,
        "in_order": impressions.in_order,
        "count_unanswered": impressions.count_unanswered,
        "most": impressions.most,
        "impressions": impressions.counters(),
        "cohorts": list(impressions.kinds),
        "silence": impressions.silence.keep(),
        **({"features": state.features.declared()} if state.features.visit_size else {}),
        **(collection_header(state) if isinstance(state, CollectionState) else {}),
        **extra,
    }
    return header, state.arrays() | impressions.arrays()


def collection_header(state: CollectionState) -> dict[str, Any]:
    """Header fields specific to collections."""
    return {"most_pairs": state.most_pairs, **({} if state.outcomes is None else {"takes_outcomes": True})}


def guards_header(posts: Sequence[Post]) -> dict[str, Any]:
    """Header fields of the guards; a single guard has the fields used before there were several."""
    rows = [
        {
            "guard": post.name,
            "guard_version": version(post.guard_class),
            "guard_settings": post.settings,
            "kinds": list(post.guards),
        }
        for post in posts
    ]
    return rows[0] if len(rows) == 1 else {"guards": rows}


def _guards_in(header: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Parse what `guards_header` wrote."""
    if "guards" in header:
        return list(header["guards"])
    return [{name: header[name] for name in ("guard", "guard_version", "guard_settings", "kinds")}]


def guards_in(
    name: str, header: Mapping[str, Any], guards: Sequence[type]
) -> list[tuple[str | type, dict[str, Any]]]:
    """The guards of a header with their settings; `guards` provides classes defined elsewhere."""
    rows, given = _guards_in(header), {cls.__name__: cls for cls in guards}
    if others := [other for other in given if other not in [row["guard"] for row in rows]]:
        stored = " and ".join(f"{row['guard']} version {row['guard_version']}" for row in rows)
        raise UnreadableSnapshot(f"{name} holds {stored}, not {others[0]} version {version(given[others[0]])}")
    return [(given.get(row["guard"], row["guard"]), row["guard_settings"]) for row in rows]


def check_guards(name: str, posts: Sequence[Post], header: Mapping[str, Any]) -> list[list[str]]:
    """Refuse guards of another version than the header's; returns the kinds of senders of each."""
    rows = _guards_in(header)
    for post, row in zip(posts, rows, strict=True):
        _check_version(name, post.guard_class, row["guard"], row["guard_version"])
    return [row["kinds"] for row in rows]


def version(record: type) -> int:
    """Version of the memory of a learner or a guard: memory of another version cannot be restored."""
    return int(getattr(record, "VERSION", 1))


def restore(
    content: bytes, name: str, learner: str | type | None, guards: Sequence[type] = ()
) -> tuple[LearnerState, ImpressionBuffer, dict[str, Any], dict[str, Any]]:
    """Learner state, impressions, header and arrays; `learner` and `guards` provide classes defined elsewhere."""
    header, arrays = unpack(content, name)
    state = _empty(header, learner, guards_in(name, header, guards))
    _check_version(name, state.learner_class, header["learner"], header["version"])
    kinds = check_guards(name, state.gate.posts, header)
    state.restore(header["items"], header["sized"], kinds, arrays)
    impressions = ImpressionBuffer(state, header["in_order"], header["count_unanswered"], header["most"])
    impressions.restore(header["impressions"], header["cohorts"], arrays)
    impressions.silence = Silence.restore(header["silence"])
    return state, impressions, header, arrays


def _empty(
    header: Mapping[str, Any], learner: str | type | None, guards: Sequence[tuple[str | type, dict[str, Any]]]
) -> LearnerState:
    """A state with the settings of a header and empty memory."""
    length, settings, seed, shadow = (header[name] for name in ("length", "settings", "seed", "shadow"))
    if "most_pairs" in header:
        return CollectionState(
            length, settings, seed, header["most_pairs"], guards, shadow, "takes_outcomes" in header
        )
    chosen = header["learner"] if learner is None else learner
    features = FeatureSpace(**header.get("features", {"items": {}}))
    return LearnerState(["?"], length, chosen, settings, seed, header["new_share"], guards, shadow, features)


def _check_version(name: str, cls: type, stored: str, number: int) -> None:
    """Refuse memory of another class, or of another version of this one."""
    if cls.__name__ != stored or version(cls) != number:
        raise UnreadableSnapshot(f"{name} holds {stored} version {number}, not {cls.__name__} version {version(cls)}")
