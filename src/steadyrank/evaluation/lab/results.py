"""Finished cells on disk: one Parquet file per job, written atomically."""

import hashlib
import io
import json
import os
import pathlib
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numba
import numpy as np
import polars as pl

from ...core.compiling.jit import surroundings
from ...core.files import replacing
from ...core.version import __version__
from .cells import Cell, Job, identity, key

FORMAT = "steadyrank-cell-1"
_META = "steadyrank"
_EMPTY = b"0" * 64
_SEAL = re.compile(rb'"digest": "([0-9a-f]{64})"')
_PACKAGE = pathlib.Path(__file__).parents[2]
# sources that cannot change the results of a cell; all others are in the digest
_OUTSIDE = (
    "audit/",
    "cli/",
    "click_logs/",
    "client/",
    "comparison/",
    "core/files.py",
    "core/progress.py",
    "core/refusals.py",
    "core/workers.py",
    "evaluation/lab/costs.py",
    "evaluation/lab/results.py",
    "evaluation/profiles/originals.py",
    "evaluation/report/",
    "evaluation/studies/",
    "live/",
    "service/",
    "testing/",
)


class UnreadableCell(ValueError):
    """Raised for a file that is not a cell, or is damaged."""


def source_digest() -> str:
    """Twelve hexadecimal digits that change with any source or version that the results of a cell depend on."""
    h = hashlib.sha256(surroundings().encode())
    for path in sorted(_PACKAGE.rglob("*.py")):
        name = path.relative_to(_PACKAGE).as_posix()
        if not name.startswith(_OUTSIDE):
            h.update(f"{name}:".encode() + path.read_bytes())
    return h.hexdigest()[:12]


def versions() -> dict[str, str]:
    """The versions of the software that made a cell."""
    return {
        "steadyrank": __version__,
        "python": platform.python_version(),
        "numba": numba.__version__,
        "numpy": np.__version__,
        "polars": pl.__version__,
    }


class CellStore:
    """A folder of finished cells. File names identify job and source, so that no cell is overwritten."""

    def __init__(self, folder: pathlib.Path, own: bytes = b"") -> None:
        """`own`: the content of the user's own file, if cells use classes from it."""
        self.folder = folder / "cells"
        self.source = source_digest()
        if own:
            self.source = hashlib.sha256(self.source.encode() + own).hexdigest()[:12]
        self._loaded: dict[pathlib.Path, pl.DataFrame] = {}  # cache: studies share cells, and a report follows a run

    def prepare(self) -> None:
        """Create the folder if needed, check that it is writable, and delete partial files of killed runs."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if not os.access(self.folder, os.W_OK):
            raise PermissionError(f"{self.folder} is not writable; choose another folder with --out")
        for part in self.folder.glob("*.part"):  # left by a killed run, or in use by another
            writer = re.fullmatch(r"\..+\.(\d+)\.\d+\.part", part.name)
            if writer and not _alive(int(writer[1])):
                part.unlink(missing_ok=True)

    def path(self, job: Job) -> pathlib.Path:
        """The path of the job's file, finished or not."""
        return self.folder / f"{key(job, self.source)}.parquet"

    def has(self, job: Job) -> bool:
        """Whether the job is finished; raises UnreadableCell for a damaged file instead of running the job again."""
        path = self.path(job)
        if not path.exists():
            return False
        read(path)
        return True

    def save(self, job: Job, columns: Mapping[str, Any]) -> None:
        """Write the results of a finished job, atomically."""
        frame, content = pl.DataFrame(columns), io.BytesIO()
        about = {
            "format": FORMAT,
            **identity(job),
            "source": self.source,
            "versions": versions(),
            "digest": _EMPTY.decode(),
        }
        path = self.path(job)
        frame.write_parquet(content, metadata={_META: json.dumps(about, sort_keys=True)})
        try:
            with replacing(path) as file:
                file.write(_sealed(content.getvalue()))
        except OSError as error:
            raise OSError(f"{path} cannot be written ({error.strerror or error}); finished cells are kept") from None
        self._loaded[path] = with_fields(job, frame)

    def load(self, jobs: Sequence[Job]) -> pl.DataFrame:
        """The rows of the jobs that are finished, with the fields of their cells as columns."""
        frames = []
        for job in jobs:
            path = self.path(job)
            if path not in self._loaded and path.exists():
                self._loaded[path] = with_fields(job, read(path)[1])
            if path in self._loaded:
                frames.append(self._loaded[path])
        return pl.concat(frames) if frames else pl.DataFrame()


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's
        return True
    return True


def with_fields(job: Job, rows: pl.DataFrame) -> pl.DataFrame:
    """Add the fields of a job to its rows as columns."""
    if not isinstance(job, Cell):
        return rows
    fields = {
        "who": job.who,
        "learner": job.learner,
        "omniscient": job.omniscient,
        "profile": job.profile,
        "data": job.data,
        "mapping": job.mapping or "",
        "adversary": job.foe,
        "schedule": job.schedule,
        "rate": job.rate,
        "users": job.crowd,
        "n_items": job.n_items or 0,
        "length": job.length,
        "horizon": job.horizon,
    }
    return rows.with_columns(pl.lit(value).alias(name) for name, value in fields.items())


def read(path: pathlib.Path) -> tuple[dict[str, Any], pl.DataFrame]:
    """The metadata and the rows of a file; raises UnreadableCell if its digest is wrong, before parsing."""
    content = path.read_bytes()
    seal = _SEAL.search(content)
    if seal is None or _sealed(content[: seal.start(1)] + _EMPTY + content[seal.end(1) :]) != content:
        raise UnreadableCell(f"{path} is damaged: not as it was written; delete it and run again")
    about = json.loads(pl.read_parquet_metadata(io.BytesIO(content))[_META])
    if about["format"] != FORMAT:
        raise UnreadableCell(f"{path} has the format {about['format']!r}, not {FORMAT!r}; use another folder")
    return about, pl.read_parquet(io.BytesIO(content))


def listing(folder: pathlib.Path) -> Iterator[tuple[pathlib.Path, dict[str, Any], pl.DataFrame]]:
    """Iterate over all cells in a results folder, of any source, by name."""
    if not (folder / "cells").is_dir():
        raise ValueError(f"{folder} holds no results; run `steadyrank reproduce --out {folder}` first")
    for path in sorted((folder / "cells").glob("*.parquet")):
        yield path, *read(path)


def _sealed(content: bytes) -> bytes:
    """The file with its digest filled in at the reserved place: Parquet has no checksums of its own."""
    return content.replace(_EMPTY, hashlib.sha256(content).hexdigest().encode(), 1)
