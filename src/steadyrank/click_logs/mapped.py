"""Arrays too long for memory: memory-mapped from unnamed temporary files.

The files are created where `tempfile` puts them (TMPDIR) and disappear with the arrays.
"""

import mmap
import os
import pathlib
import tempfile
from typing import IO, Any

import numpy as np
import numpy.typing as npt

HELD = 256_000_000  # bytes up to which an array, or a set of growing arrays, stays in memory

Array = npt.NDArray[Any]


def empty(n: int, kind: Any) -> Array:
    """An uninitialised array, on disk if it is longer than HELD."""
    size = n * np.dtype(kind).itemsize
    if size <= HELD:
        return np.empty(n, kind)
    with tempfile.TemporaryFile() as file:
        file.truncate(size)
        return _of_file(file, kind)


def _of_file(file: IO[bytes], kind: Any) -> Array:
    """Map the content of a file as an array; the file may be closed afterwards."""
    array: Array = np.frombuffer(mmap.mmap(file.fileno(), 0), kind)
    return array


def release(*arrays: Array | None) -> None:
    """Release the memory of mapped arrays; they are read from disk again when next used."""
    for array in arrays:
        base: Any = array
        while isinstance(base, np.ndarray):
            base = base.base
        base = base.obj if isinstance(base, memoryview) else base
        if isinstance(base, mmap.mmap):
            base.madvise(mmap.MADV_DONTNEED)


class GrowingArrays:
    """Arrays that grow block by block; once longer than HELD in all, they grow on disk.

    `folder`: where to keep their files; by default they are unnamed temporary files.
    """

    def __init__(self, folder: pathlib.Path | None = None) -> None:
        self._folder = folder
        self._parts: dict[str, list[Array]] = {}
        self._files: dict[str, tuple[IO[bytes], np.dtype[Any]]] = {}
        self._held = 0

    def add(self, **arrays: Array) -> None:
        """Append to some of the arrays; each keeps the dtype of its first part."""
        for name, array in arrays.items():
            self._parts.setdefault(name, []).append(array)
            self._held += array.nbytes
        if self._held > HELD:
            self._write()

    def __del__(self) -> None:
        for file, _ in self._files.values():
            file.close()

    def _write(self) -> None:
        for name, parts in self._parts.items():
            if name not in self._files:
                self._files[name] = self._open(name, "w+b"), parts[0].dtype
            file, kind = self._files[name]
            for part in parts:
                file.write(np.ascontiguousarray(part, kind).data)
        self._parts, self._held = {}, 0

    def _open(self, name: str, mode: str) -> IO[bytes]:
        """Open the file of an array that grows."""
        if self._folder is None:
            return tempfile.TemporaryFile()
        return (self._folder / f"array-{name}.bin").open(mode)

    def written(self) -> dict[str, tuple[int, str]]:
        """Write all to the folder and sync. Returns the bytes and dtype of each array, for `resume`."""
        self._write()
        for file, _ in self._files.values():
            file.flush()
            os.fsync(file.fileno())
        return {name: (file.tell(), kind.str) for name, (file, kind) in self._files.items()}

    def resume(self, arrays: dict[str, tuple[int, str]]) -> None:
        """Restore arrays from the folder, given what `written` returned; whatever was added later is dropped."""
        for name, (size, kind) in arrays.items():
            file = self._open(name, "r+b")
            self._files[name] = file, np.dtype(kind)
            if file.seek(0, os.SEEK_END) < size:
                raise ValueError(f"{file.name} is shorter than it was written; delete its folder to start again")
            file.truncate(size)
            file.seek(size)

    def take(self, name: str, kind: Any) -> Array:
        """Remove one of the arrays and return it."""
        if name not in self._files:
            parts = self._parts.pop(name, [])
            return np.concatenate(parts).astype(kind, copy=False) if parts else np.zeros(0, kind)
        self._write()
        file, own = self._files.pop(name)
        with file:
            file.flush()
            whole = _of_file(file, own) if file.tell() else np.zeros(0, own)
        return whole.astype(kind, copy=False)
