"""Atomic writes: a file is complete or not there."""

import contextlib
import os
import pathlib
import threading
from collections.abc import Iterator
from typing import BinaryIO


def writable_through(path: pathlib.Path) -> bool:
    """Whether a path is a pipe or a device, which is written to and never replaced."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _open_new(part: pathlib.Path, path: pathlib.Path, mode: int) -> BinaryIO:
    """Open a new temporary file for `path`; errors name `path`, because the temporary name means nothing to users."""
    try:
        return open(part, "wb", opener=lambda name, flags: os.open(name, flags, mode))
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


@contextlib.contextmanager
def replacing(path: pathlib.Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """A file to write to, which replaces `path` at the end; after an error, the old file stays.

    At any moment, even after a crash, the old file or the new one is there. Concurrent writers of the same path are
    safe: the last one wins. A pipe or a device is written to directly. `mode` is that of a new file.
    """
    if writable_through(path):
        with path.open("wb") as through:
            yield through
        return
    part = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.part")
    try:
        with _open_new(part, path, mode) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
