"""Checkpoints of an audit in a folder: an interrupted audit, started again, resumes from there.

The folder holds what was read of the log, up to the end of one of its files, and results of longer steps. It belongs
to one audit: the same files (by name, size and time), options and version. Every part is written atomically, so a
process may be killed at any moment.
"""

import fcntl
import io
import json
import os
import pathlib
import pickle
import stat
from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from ..core.files import replacing
from ..core.version import __version__
from .files import Source
from .mapped import GrowingArrays

FORMAT = 1  # version of the checkpoint's format
ROWS = 1_000_000  # minimum number of rows read between two checkpoints
_MARK, _READ = "audit.json", "read.json"
_OURS = (_MARK, _READ, "array-*", "names-*", "rest-*", "step-*", ".*.part")


class Checkpoint:
    """The checkpoint folder of an audit, locked by one process until it is closed."""

    def __init__(self, folder: pathlib.Path, logs: Sequence[Source], options: dict[str, Any]) -> None:
        """Lock a folder for the audit of `logs` with these options; delete checkpoints of another audit in it.

        `options` includes the `fingerprint` of other files that results depend on. Raises ValueError for data frames,
        and for a folder that is in use, holds other files, or is writable by others.
        """
        if frames := [log for log in logs if not isinstance(log, pathlib.Path)]:
            raise ValueError(f"keep {folder} only works for files; {len(frames)} logs are data frames")
        self.folder = folder
        self._take_folder()
        files = [fingerprint(log) for log in logs if isinstance(log, pathlib.Path)]
        of = json.dumps({"version": [FORMAT, __version__], "files": files, "options": options}, default=str)
        before = self._mark.read()
        self.replaced_other = bool(before) and before != of  # the checkpoint was of another audit
        if before != of:
            self._delete(but=_MARK)
            self._mark.truncate(0)
            self._mark.write(of)
            self._mark.flush()

    def _take_folder(self) -> None:
        folder = self.folder
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"keep {folder} is a file; name a folder")
        if not folder.parent.is_dir():
            raise ValueError(f"{folder.parent} is not a folder: keep {folder} cannot be created")
        if folder.is_dir() and any(folder.iterdir()) and not (folder / _MARK).exists():
            raise ValueError(f"keep {folder} holds files of another kind; name a folder that is new or empty")
        folder.mkdir(mode=0o700, exist_ok=True)
        of = folder.stat()
        if of.st_uid != os.geteuid() or of.st_mode & (stat.S_IWGRP | stat.S_IWOTH):  # unpickling may run code
            raise ValueError(f"keep {folder} can be written to by others; name a folder that you alone can write to")
        self._mark = (folder / _MARK).open("a+")
        try:
            fcntl.flock(self._mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._mark.close()
            raise ValueError(f"keep {folder} is in use by another audit: wait for it, or name another") from None
        self._mark.seek(0)

    def _delete(self, but: str = "") -> None:
        for pattern in _OURS:
            for path in self.folder.glob(pattern):
                if path.name != but:
                    path.unlink()

    def remove(self) -> None:
        """Delete the checkpoint of a completed audit, and the folder if nothing else is in it."""
        self._delete()
        self._mark.close()
        if not any(self.folder.iterdir()):
            self.folder.rmdir()

    def close(self) -> None:
        """Unlock the folder and leave the checkpoint to the next process."""
        self._mark.close()

    def holds(self, step: str) -> bool:
        """Whether the result of a step is stored."""
        return self._step(step).exists()

    def get(self, step: str) -> Any:
        """The stored result of a step."""
        return pickle.loads(self._step(step).read_bytes())

    def put(self, step: str, result: Any) -> None:
        """Store the result of a step."""
        with replacing(self._step(step)) as file:
            pickle.dump(result, file)

    def cached(self, step: str, compute: Callable[[], Any]) -> Any:
        """The result of a step, computed and stored if missing. Thread-safe for different steps."""
        if not self.holds(step):
            self.put(step, compute())
        return self.get(step)

    def _step(self, name: str) -> pathlib.Path:
        return self.folder / f"step-{name}.pickle"

    def reading_so_far(self) -> dict[str, Any] | None:
        """The value last given to `save_reading`, or None."""
        path = self.folder / _READ
        so_far: dict[str, Any] | None = json.loads(path.read_text()) if path.exists() else None
        return so_far

    def save_reading(self, so_far: dict[str, Any]) -> None:
        """Record what was read; all arrays and frames that it names must already be written."""
        with replacing(self.folder / _READ) as file:
            file.write(json.dumps(so_far).encode())

    def arrays(self) -> GrowingArrays:
        """Arrays that grow in the folder."""
        return GrowingArrays(self.folder)

    def put_frame(self, name: str, frame: pl.DataFrame) -> None:
        """Write a frame atomically."""
        with replacing(self.folder / name) as file:
            frame.write_ipc(file)

    def frame(self, name: str) -> pl.DataFrame:
        """Read a frame that was written."""
        return pl.read_ipc(io.BytesIO((self.folder / name).read_bytes()))


def fingerprint(path: pathlib.Path) -> list[Any]:
    """A fingerprint of a file without reading it: path, size and time; for a missing file only the path."""
    if not path.is_file():
        return [str(path.resolve())]
    of = path.stat()
    return [str(path.resolve()), of.st_size, of.st_mtime_ns]
