"""The state that one audit saves for the next (`--since`), which then reads only new files.

A state records which files were read, how, and the last MOST_IMPRESSIONS impressions that are not suspect. The next
audit puts these before the new ones and reports findings of the new ones alone.
"""

import hashlib
import io
import json
import pathlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from ..click_logs import mapped
from ..click_logs.click_log import BoardLog, ClickLog, in_order
from ..click_logs.files import Source
from ..click_logs.looks import Impressions, blocks, picked
from ..core.arrays import Bools, Ints
from ..core.files import replacing
from .detect.changed_stretches import mask_of
from .detect.clients import OddClients
from .detect.findings import Finding

MOST_IMPRESSIONS = 500_000  # impressions in a state: some megabytes
MAGIC = b"steadyrank audit state 2\n"
_LOGS = (".parquet", ".pq", ".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".gz")


class NothingNewError(ValueError):
    """Raised if all files were read by an earlier audit."""


class FileIdentity(NamedTuple):
    """The identity of a file that was read: a digest of its content; and size and time, to check without reading."""

    digest: str  # SHA-256 of its content
    size: int
    changed: int  # time of the last modification, in nanoseconds since 1970

    @classmethod
    def of(cls, path: pathlib.Path) -> "FileIdentity":
        """The identity of a file. Reads all of it."""
        seen = path.stat()  # before the content: a write in between is noticed the next time
        with path.open("rb") as file:
            return cls(hashlib.file_digest(file, "sha256").hexdigest(), seen.st_size, seen.st_mtime_ns)

    def matches(self, path: pathlib.Path) -> bool:
        """Whether a file has the same size and time."""
        seen = path.stat()
        return (self.size, self.changed) == (seen.st_size, seen.st_mtime_ns)


@dataclass(frozen=True)
class State:
    """The files read so far, and the impressions that the next audit starts with."""

    path: pathlib.Path
    files: dict[str, FileIdentity]  # by path
    read_as: dict[str, str]
    dated: bool  # whether times are dates
    impressions: pl.DataFrame  # in order of time: items looked at, clicked, shown, top, and other columns of the log

    @classmethod
    def load(cls, path: pathlib.Path) -> "State":
        """Read the state from a file, or return an empty one if there is no file.

        Raises ValueError if the path is a folder or a log, or the file is damaged or of another version.
        """
        if path.is_dir():
            raise ValueError(f"--since {path} is a folder; name a file, for instance {path / 'audit.state'}")
        if path.suffix.lower() in _LOGS:
            raise ValueError(
                f"--since {path} has the name of a log; choose another name for the state, such as audit.state"
            )
        if not path.exists():
            if not path.parent.is_dir():
                raise ValueError(f"{path.parent} is not a folder: --since {path} cannot be written")
            return cls(path, {}, {}, False, pl.DataFrame())
        content = path.read_bytes()
        if not content.startswith(MAGIC):
            raise ValueError(
                f"--since {path} is not a state of this version's audits: it begins with {content[:24]!r}"
            )
        head, _, table = content.removeprefix(MAGIC).partition(b"\n")
        try:
            header = json.loads(head)
            whole = bool(header["digest"] == _digest(header, table))
        except (ValueError, KeyError, TypeError):
            whole = False
        if not whole:
            raise ValueError(
                f"--since {path} is damaged: its content is not what was written. Take it from a backup, or delete "
                "it to start again"
            )
        files = {name: FileIdentity(*one) for name, one in header["files"].items()}
        return cls(path, files, header["read_as"], header["dated"], pl.read_parquet(io.BytesIO(table)))

    def write(self) -> None:
        """Write the state to its file, atomically."""
        table = io.BytesIO()
        self.impressions.write_parquet(table, compression="zstd")
        header: dict[str, Any] = {"files": self.files, "read_as": self.read_as, "dated": self.dated}
        header["digest"] = _digest(header, table.getvalue())
        with replacing(self.path) as file:
            file.write(MAGIC + json.dumps(header).encode() + b"\n" + table.getvalue())

    def new_logs(self, logs: Sequence[Source]) -> tuple[list[Source], dict[str, FileIdentity]]:
        """Return the logs not read before, and the identities of all files read once they are; data frames are new.

        A file with the name, size and time of an earlier one is taken as the same. Others are compared by a digest
        of their content, so a file that was moved is recognised. Raises NothingNewError if no log is new, and
        ValueError if a file has changed since it was read.
        """
        files, new = dict(self.files), []
        before = {one.digest for one in self.files.values()}
        for log in logs:
            if not isinstance(log, pathlib.Path) or not log.is_file():  # reading it later reports the error
                new.append(log)
                continue
            name = str(log.resolve())
            earlier = self.files.get(name)
            if earlier is not None and earlier.matches(log):
                continue
            now = FileIdentity.of(log)
            if earlier is not None and earlier.digest != now.digest:
                raise ValueError(
                    f"{log} has changed since it was read for {self.path}: what it held would count twice. Give "
                    "files that are finished, such as those up to yesterday"
                )
            if now.digest not in before:
                new.append(log)
            files[name] = now
        if not new:
            raise NothingNewError(f"nothing is new: all of {len(logs):,} files were read before, says {self.path}")
        return new, files

    def prepend_to(self, log: ClickLog) -> ClickLog:
        """Put the impressions of the state, with row numbers below 0, before those of a log. O(impressions)."""
        if self.read_as and self.read_as != log.read_as:
            words = [", ".join(f"{what}: {name}" for what, name in of.items()) for of in (self.read_as, log.read_as)]
            raise ValueError(
                f"--since {self.path} is of logs that were read differently ({words[0]}) than these ({words[1]})"
            )
        old = self.impressions
        if not old.height:
            return log
        if log.time is not None and self.dated != log.dated:
            raise ValueError(f"--since {self.path} is of a log whose times are {'' if self.dated else 'not '}dates")
        names: dict[str, list[Any]] = {"client": log.clients}
        numbers: dict[str, Any] = {}
        of_log = {"items": log.items, "client": log.clients, "board": log.boards}
        for column, values in of_log.items():
            if column in old.columns:
                flat = _flat(old[column]) if column == "items" else old[column]
                names[column], numbers[column] = self._numbered(column, values, flat)
        row: Ints = np.arange(-old.height, 0)
        first = np.concatenate([[0], np.cumsum(old["items"].list.len().to_numpy())]).astype(np.int64)
        shown = log.impressions
        bits = _flat(old["clicked"]).to_numpy().astype(np.bool_)
        impressions = Impressions(
            _concatenated(numbers["items"], shown.item),
            _concatenated(bits, shown.bits),
            _concatenated(first[:-1], shown.first + first[-1]),
            len(names["items"]),
            None if shown.shown is None else _concatenated(old["shown"].to_numpy(), shown.shown),
            None if shown.top is None else _concatenated(old["top"].fill_null(0).to_numpy(), shown.top),
        )
        whole = replace(
            log,
            items=names["items"],
            clients=names["client"],
            boards=names["board"],
            impressions=impressions,
            row=_concatenated(row, log.row),
            last_row=_concatenated(row, log.last_row),
            time=None if log.time is None else _concatenated(old["time"].to_numpy(), log.time),
            client=None if log.client is None else _concatenated(numbers["client"], log.client),
            board=_concatenated(numbers["board"], log.board),
            cohorts={},  # judged of new rows alone
            bought=None if log.bought is None else _concatenated(old["bought"].to_numpy(), log.bought),
        )
        return _in_order_of_time(whole)

    def _numbered(self, column: str, values: list[Any], more: pl.Series) -> tuple[list[Any], Any]:
        """Extend names `values` by those of the state; returns them and the numbers of `more`, -1 for null."""
        kinds = {type(name).__name__ for name in [*values[:1], *more.drop_nulls().head(1).to_list()]}
        if len(kinds) > 1:
            raise ValueError(
                f"--since {self.path}: names of {column} are {' and '.join(sorted(kinds))}, then and now"
            )
        number = {name: i for i, name in enumerate(values)}
        for name in more.drop_nulls().unique(maintain_order=True).to_list():
            number.setdefault(name, len(number))
        return list(number), np.array([number.get(name, -1) for name in more.to_list()], np.int32)

    def next_state(
        self, log: ClickLog, files: dict[str, FileIdentity], parts: Sequence[BoardLog], findings: Sequence[Finding]
    ) -> "State":
        """The next state: the last impressions outside of suspect intervals, or in one that reaches the log's end.

        `findings`: of the whole log, which starts with the impressions of this state.
        """
        calm = np.ones(log.impressions.n, np.bool_)
        for part, finding in zip(parts, findings, strict=True):
            n = finding.impressions
            over = mask_of(n, [(one.start, one.end) for one in finding.intervals if one.end < n])
            calm[over if part.chosen is None else part.chosen[over]] = False
        kept = np.flatnonzero(calm)[-MOST_IMPRESSIONS:]
        shown = log.impressions.only(kept)
        named = {"client": (log.client, log.clients), "board": (log.board, log.boards)}
        table = pl.DataFrame({"turn": np.repeat(np.arange(shown.n), np.diff(shown.first)), "clicked": shown.bits})
        table = table.with_columns(_names_of(shown.item, log.items).alias("items"))
        table = table.group_by("turn", maintain_order=True).agg("items", "clicked").drop("turn")
        more = {
            **{name: _names_of(of[kept], names) for name, (of, names) in named.items() if of is not None},
            **{name: of[kept] for name, of in (("time", log.time), ("bought", log.bought)) if of is not None},
            **{name: of for name, of in (("shown", shown.shown), ("top", shown.top)) if of is not None},
        }
        table = table.with_columns(pl.Series(name, of) for name, of in more.items())
        return State(self.path, files, log.read_as, log.dated, table)


def restrict_to_new(part: BoardLog, finding: Finding, log: ClickLog) -> Finding:
    """Restrict a finding to new rows: intervals and changes that reach into them, and clients with new rows."""
    new: Bools = part.of(log.row, slice(None)) >= 0
    odd = np.zeros(new.size, np.bool_)
    odd[finding.odd] = True
    odd &= new
    intervals = [one for one in finding.intervals if new[one.start : one.end].any()]
    clients = finding.named[:0] if part.client is None else np.unique(part.client[odd])
    names = {log.clients[part.clients[c]] for c in clients.tolist()}
    sure, possible = (
        int(((mask_of(new.size, edges) | odd) & new).sum())
        for edges in ([(p.starts[1], p.ends[0]) for p in intervals], [(p.starts[0], p.ends[1]) for p in intervals])
    )
    return replace(
        finding,
        intervals=intervals,
        others=[one for one in finding.others if new[one.start : one.end].any()],
        odd=np.flatnonzero(odd),
        named=finding.named[np.isin(finding.named, clients)],
        clients=[one for one in finding.clients if one.client in names],
        sure=sure,
        possible=possible,
    )


def restrict_clients_to_new(everywhere: OddClients, log: ClickLog) -> OddClients:
    """Restrict the clients that stand out over all boards to those with new rows."""
    if log.client is None:
        return everywhere
    new = np.unique(log.client[log.row >= 0])
    names = {log.clients[c] for c in np.intersect1d(everywhere.named, new).tolist()}
    return replace(
        everywhere,
        named=everywhere.named[np.isin(everywhere.named, new)],
        listed=[one for one in everywhere.listed if one.client in names],
    )


def _flat(lists: pl.Series) -> pl.Series:
    """The items of all lists, concatenated."""
    return lists.list.explode(empty_as_null=False, keep_nulls=False)


def _names_of(numbers: Any, names: list[Any]) -> pl.Series:
    """The name of each number, null for -1."""
    return pl.Series([*names, None]).gather(pl.Series(np.where(numbers < 0, len(names), numbers)))


def _concatenated(one: Any, two: mapped.Array) -> mapped.Array:
    """Concatenate a short array and a long one, whose dtype the result has."""
    both = mapped.empty(one.size + two.size, two.dtype)
    both[: one.size] = one
    for some in blocks(two.size):
        both[one.size + some.start : one.size + some.stop] = two[some]
        mapped.release(both, two)
    return both


def _in_order_of_time(log: ClickLog) -> ClickLog:
    """Sort the impressions by time: new files may hold some that are older than those of the state."""
    if log.time is None or in_order(log.time):
        return log
    order = np.argsort(log.time, kind="stable")
    return replace(
        log,
        impressions=log.impressions.only(order),
        row=picked(log.row, order),
        last_row=picked(log.last_row, order),
        board=picked(log.board, order),
        time=picked(log.time, order),
        client=None if log.client is None else picked(log.client, order),
        bought=None if log.bought is None else picked(log.bought, order),
    )


def _digest(told: dict[str, Any], table: bytes) -> str:
    head = json.dumps({name: value for name, value in told.items() if name != "digest"}, sort_keys=True)
    return hashlib.sha256(head.encode() + table).hexdigest()
