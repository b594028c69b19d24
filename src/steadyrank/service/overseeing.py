"""Routes for people who watch a board: labels, what a page shows, the board as a file."""

import asyncio
import tempfile
from typing import BinaryIO

from ..refusals import Refused
from . import moving, shapes, steering, watching
from .calls import Call, File, describe
from .labels import Label
from .store import Store
from .watch_shapes import LabelIn, LabelOut, LabelsOut, WatchOut


def _out(label: Label) -> LabelOut:
    return LabelOut(**label._asdict())


async def label(call: Call) -> LabelOut:
    """Label rounds: fraud is not learnt from, honest rounds open no regime. The log is folded again meanwhile."""
    body: LabelIn = call.body
    held = call.host.find(call.board)
    return _out(await steering.label(call.host, held, body.start, body.end, body.label))


async def unlabel(call: Call) -> shapes.DoneOut:
    """Take a label back, as if it had never been. The log is folded again meanwhile."""
    held = call.host.find(call.board)
    if not (call.part.isascii() and call.part.isdigit() and len(call.part) < 19):
        raise Refused(404, f"no label {call.part!r:.80}")
    await steering.unlabel(call.host, held, int(call.part))
    return shapes.DoneOut()


async def labels(call: Call) -> LabelsOut:
    """The labels in force, by number."""
    held = call.host.find(call.board)
    return LabelsOut(labels=[_out(label) for label in held.board.labels.labels.values()])


async def watch(call: Call) -> WatchOut:
    """What a page of a board shows, small at any number of items."""
    held = call.host.find(call.board)
    found = watching.watch(held, max(call.host.journal.seen - call.host.applied, 0))
    return WatchOut(board=describe(held), labels=[_out(x) for x in held.board.labels.labels.values()], **found)


async def export(call: Call) -> File:
    """The board with its log, as a file for `steadyrank import`; without the secret that signs impression ids."""
    async with call.host.exporting:
        name = call.host.find(call.board).name
        return File(f"{name}.jsonl", await asyncio.to_thread(_write_file, call.host.url, name))


def _write_file(url: str, name: str) -> BinaryIO:
    """A file without a name that holds the board: read at one moment, and gone when it is closed."""
    store = Store(url)
    file = tempfile.TemporaryFile()  # noqa: SIM115
    try:
        if not any(called == name for called, _ in store.boards().values()):
            raise Refused(404, f"no board {name!r}")  # another worker deleted it
        for line in moving.lines(store, name, False):
            file.write(line.encode())
    except BaseException:
        file.close()
        raise
    finally:
        store.close()
    return file
