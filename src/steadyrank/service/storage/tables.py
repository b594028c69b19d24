"""The tables of a store, and how those of an older version are brought up to date."""

import re

from .sql import Database
from .store import Outdated

# Which events, settings and tables there are. Raised with every change of them that an older version would misread; a
# worker that knows a lower one stops as soon as it sees this one in the store.
FORMAT = 8
# A digest of all of them, which a test compares: whoever changes any of them is told to raise the format first.
VOCABULARY = "b047769ee6a4a6b0"

# Which number a client or a cohort has on a board: `hash` is a keyed one of its name, `at` when it was last seen.
# Nothing else in the store, and no event, leads from a client to a number or back.
_CLIENTS = """
CREATE TABLE clients (board WHOLE NOT NULL, hash WHOLE NOT NULL, number WHOLE NOT NULL, visits WHOLE NOT NULL,
    at REAL NOT NULL, PRIMARY KEY (board, hash));
CREATE INDEX clients_by_time ON clients (board, at)
"""
# Of boards that sleep: what is shown of them, as of event `seq`.
_RESTS = """
CREATE TABLE IF NOT EXISTS rests (board WHOLE PRIMARY KEY, seq WHOLE NOT NULL, body BYTES NOT NULL);
CREATE INDEX IF NOT EXISTS boards_by_edge ON boards (edge)
"""
# Who changed what. Rows are added and never changed.
_ACTS = """
CREATE TABLE IF NOT EXISTS acts (number WHOLE PRIMARY KEY, at REAL NOT NULL, who TEXT NOT NULL, what TEXT NOT NULL,
    board TEXT NOT NULL, detail TEXT NOT NULL, digest BYTES NOT NULL)
"""
# Secrets that sign the ids of a board whose secret was rotated; the one with the highest number signs.
_SEALS = """
CREATE TABLE IF NOT EXISTS seals (board WHOLE NOT NULL, number WHOLE NOT NULL, secret BYTES NOT NULL, until REAL,
    PRIMARY KEY (board, number))
"""
# `head`: the number of the latest event, and the format, where whoever takes a number sees it.
# Of events and snapshots: `checksum`, which only rows of before format 8 may lack.
# Of a board: `edge`: up to which event its log became a snapshot. `clients`: how many numbers clients were given.
# `forgotten`: the event by which somebody had a client forgotten last, 0 if nobody had; what a worker gave out before
# it had read that event, and has not written yet, is nobody's. `forgot`: when that was, for what is reported with a
# time. `promised`: impression ids given out under an earlier, longer lifetime expire before this time.
_TABLES = f"""
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE head (one WHOLE PRIMARY KEY CHECK (one = 1), seq WHOLE NOT NULL, format WHOLE NOT NULL DEFAULT 0);
CREATE TABLE boards (id WHOLE PRIMARY KEY, name TEXT NOT NULL UNIQUE, secret BYTES NOT NULL,
    edge WHOLE NOT NULL DEFAULT 0, clients WHOLE NOT NULL DEFAULT 0, forgot REAL NOT NULL DEFAULT 0,
    forgotten WHOLE NOT NULL DEFAULT 0, promised REAL NOT NULL DEFAULT 0);
CREATE TABLE events (seq WHOLE PRIMARY KEY, board WHOLE NOT NULL, at REAL NOT NULL, body BYTES NOT NULL,
    checksum WHOLE NOT NULL);
CREATE INDEX events_by_board ON events (board, seq);
CREATE TABLE snapshots (board WHOLE NOT NULL, seq WHOLE NOT NULL, body BYTES NOT NULL, checksum WHOLE NOT NULL,
    PRIMARY KEY (board, seq));
CREATE TABLE keys (id TEXT PRIMARY KEY, hash BYTES NOT NULL, scopes TEXT NOT NULL, board TEXT,
    created REAL NOT NULL, revoked REAL, expires REAL);
{_CLIENTS.strip()};
{_RESTS.strip()};
{_ACTS.strip()};
{_SEALS.strip()};
INSERT INTO head (one, seq) VALUES (1, 0)
"""
_UPGRADES = {  # from this format to the next; LATEST stands for the number of the latest event
    1: "ALTER TABLE boards ADD COLUMN edge WHOLE NOT NULL DEFAULT 0",
    2: f"""
DROP TABLE IF EXISTS clients;
{_CLIENTS.strip()};
ALTER TABLE boards ADD COLUMN clients WHOLE NOT NULL DEFAULT 0;
ALTER TABLE boards ADD COLUMN forgot REAL NOT NULL DEFAULT 0
""",
    3: "",  # there may be events that an older version does not know: refused answers
    4: f"{_RESTS};{_ACTS};{_SEALS};ALTER TABLE keys ADD COLUMN expires REAL",
    # lists may be of cohorts, and labels of clients; the first stores of format 5 lack what its later ones have
    5: f"{_ACTS};{_SEALS};ALTER TABLE keys ADD COLUMN expires REAL",
    6: "",  # there may be lists that another ranker showed
    # rows get a checksum: without one, as a worker of format 7 would write them, they are refused from here on
    7: """
ALTER TABLE head ADD COLUMN format WHOLE NOT NULL DEFAULT 0;
ALTER TABLE events ADD COLUMN checksum WHOLE CHECK (checksum IS NOT NULL OR seq <= LATEST);
ALTER TABLE snapshots ADD COLUMN checksum WHOLE CHECK (checksum IS NOT NULL OR seq <= LATEST);
INSERT INTO meta VALUES ('unchecked', 'LATEST');
ALTER TABLE boards ADD COLUMN forgotten WHOLE NOT NULL DEFAULT 0;
ALTER TABLE boards ADD COLUMN promised REAL NOT NULL DEFAULT 0;
UPDATE boards SET forgotten = (SELECT seq FROM head) WHERE forgot > 0
""",
}
_ADDED = re.compile(r"ALTER TABLE (\w+) ADD COLUMN (\w+)")


def prepare(db: Database) -> None:
    """Make the tables, or bring those of an older version up to date; those of a newer one are refused."""
    if _format(db) == FORMAT:
        return
    with db.transaction():
        db.take_turns()
        found = _format(db)
        if found is not None and found > FORMAT:
            raise Outdated(f"the store has format {found}, this version knows {FORMAT}: upgrade steadyrank")
        if found is None:
            _run(db, _TABLES)
            db.write("INSERT INTO meta VALUES ('format', ?)", str(FORMAT))
        else:
            latest = int(db.write("UPDATE head SET seq = seq + 0 RETURNING seq")[0][0])  # locks it
            for old in range(found, FORMAT):
                _run(db, _UPGRADES[old].replace("LATEST", str(latest)))
            db.write("UPDATE meta SET value = ? WHERE name = 'format'", str(FORMAT))
        db.write("UPDATE head SET format = ?", FORMAT)


def check_format(found: int) -> None:
    """Refuse to go on with a store that a newer version has upgraded meanwhile."""
    if found > FORMAT:
        raise Outdated(
            f"the store was upgraded to format {found} by a newer version: restart this worker with it "
            f"(this version knows {FORMAT})"
        )


def unchecked(db: Database) -> int:
    """Up to which event rows may be without a checksum: they are of before there were any."""
    rows = db.read("SELECT value FROM meta WHERE name = 'unchecked'")
    return int(rows[0][0]) if rows else 0


def _run(db: Database, script: str) -> None:
    for kind, name in db.kinds.items():
        script = script.replace(kind, name)
    for statement in filter(str.strip, script.split(";")):
        added = _ADDED.match(statement.strip())
        if added is None or not db.read(db.columns_named, *added.groups()):  # else it is there already
            db.write(statement)


def _format(db: Database) -> int | None:
    if not db.read(db.tables_named, "meta"):
        return None
    return int(db.read("SELECT value FROM meta WHERE name = 'format'")[0][0])
