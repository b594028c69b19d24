"""API keys in the store: made, replaced, revoked, and each of it in the record."""

from . import acts
from .sql import Database
from .store import Key

_KEY_COLUMNS = "id, hash, scopes, board, created, revoked, expires"


def read_keys(db: Database) -> list[Key]:
    """Every key, revoked and expired ones too."""
    rows = db.read(f"SELECT {_KEY_COLUMNS} FROM keys ORDER BY created, id")
    return [Key(row[0], bytes(row[1]), *row[2:]) for row in rows]


def add_key(db: Database, key: Key, who: str) -> None:
    """Keep a new key."""
    with db.transaction():
        _insert_key(db, key)
        detail = f"{key.id}: {key.scopes}" + ("" if key.expires is None else f", until {key.expires:.0f}")
        acts.add_act(db, key.created, who, "key made", key.board or "", detail)


def _insert_key(db: Database, key: Key) -> None:
    db.write(f"INSERT INTO keys ({_KEY_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)", *key)


def revoke_key(db: Database, key: str, at: float, who: str) -> bool:
    """End a key; whether there was one that was not revoked."""
    with db.transaction():
        ended = db.write("UPDATE keys SET revoked = ? WHERE id = ? AND revoked IS NULL RETURNING id, board", at, key)
        if ended:
            acts.add_act(db, at, who, "key revoked", ended[0][1] or "", key)
        return bool(ended)


def replace_key(db: Database, old: str, new: Key, until: float, who: str) -> bool:
    """Keep a new key in place of another, which works until a time at most; whether that one worked."""
    with db.transaction():
        ended = db.write(
            "UPDATE keys SET expires = CASE WHEN expires < ? THEN expires ELSE ? END "
            "WHERE id = ? AND revoked IS NULL AND (expires IS NULL OR expires > ?) RETURNING id",
            *(until, until, old, new.created),
        )
        if ended:
            _insert_key(db, new)
            detail = f"{old}, which works until {until:.0f}, by {new.id}"
            acts.add_act(db, new.created, who, "key rotated", new.board or "", detail)
        return bool(ended)
