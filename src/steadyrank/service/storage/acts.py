"""Who changed what: a record that is only ever added to.

Nothing here changes or deletes a row. Each row holds a digest of itself and of the one before, so that one that was
changed, or taken out from among others, is noticed by whoever reads the record; the end of it can be cut off unseen.
"""

import hashlib
import json
import re
from collections.abc import Iterable

from .sql import Database, Row
from .store import Act

_LONGEST_TEXT = 1_000  # characters of a text
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")  # what cannot be stored, or not be seen
_ACT_COLUMNS = "number, at, who, what, board, detail, digest"


def add_act(db: Database, at: float, who: str, what: str, board: str, detail: str) -> None:
    """Add a row, inside a transaction; writers take turns."""
    db.write("UPDATE head SET seq = seq + 0")  # locks it
    last = db.read(f"SELECT {_ACT_COLUMNS} FROM acts ORDER BY number DESC LIMIT 1")
    before = bytes(last[0][6]) if last else b""
    words = (
        _UNSEEN.sub(lambda sign: f"\\u{ord(sign[0]):04x}", text)[:_LONGEST_TEXT] for text in (who, what, board, detail)
    )
    row = (int(last[0][0]) + 1 if last else 1, float(at), *words)
    db.write(f"INSERT INTO acts ({_ACT_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)", *row, _act_digest(before, row))


def read_acts(db: Database, after: int, most: int) -> list[Act]:
    """Rows after a number, in order; -1: the latest ones."""
    if after < 0:
        rows = db.read(f"SELECT {_ACT_COLUMNS} FROM acts ORDER BY number DESC LIMIT {most:d}")[::-1]
    else:
        rows = db.read(f"SELECT {_ACT_COLUMNS} FROM acts WHERE number > ? ORDER BY number LIMIT {most:d}", after)
    return [Act(*row)._replace(digest=bytes(row[6])) for row in rows]


def first_wrong(acts: Iterable[Act]) -> int:
    """The number of the first row that does not follow from the one before, from the beginning on; 0 if all do."""
    before = b""
    for number, act in enumerate(acts, 1):
        if act.number != number or act.digest != _act_digest(before, act[:6]):
            return act.number
        before = act.digest
    return 0


def _act_digest(before: bytes, row: Row) -> bytes:
    return hashlib.sha256(before + json.dumps(row).encode()).digest()
