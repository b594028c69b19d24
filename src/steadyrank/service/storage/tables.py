"""The tables of a store, and their migrations."""

from .sql import Database
from .store import Outdated

# The version of events, settings and tables, raised with every change that an older version would misread. A worker
# of an older version stops as soon as it sees a higher one in the store.
FORMAT = 9
# A digest of all of them, which a test compares as a reminder to raise the format first.
VOCABULARY = "78e32e0c85ab33f0"

# `heads`: of each partition the number of its latest event, the format (read whenever numbers are taken), the worker
# that owns it (0: none), and its fence, raised with each change of owner.
# `workers`: who owns partitions, or could: the name of its machine, its address for other workers, and until when it
# counts as alive by the clock of the server.
# Of a board: `edge`: the event up to which a snapshot replaced its log. `clients`: how many client numbers it has
# assigned. `forgotten`: the event by which a client was last forgotten on request, 0 if never; what a worker gave out
# before it had read that event, and writes afterwards, is anonymous. `forgot`: when that was, for reports that carry
# a time. `promised`: impression ids given out under an earlier, longer lifetime expire before this time.
# `clients`: the number of a client or cohort on a board: `hash` is a keyed hash of its name, `at` when it was last
# seen. Nothing else in the store, and no event, leads from a client to a number or back.
# `rests`: what is shown of evicted boards, as of event `seq`.
# `acts`: who changed what; append-only.
# `seals`: secrets that sign the ids of a board after a rotation; the one with the highest number signs.
_TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE heads (partition WHOLE PRIMARY KEY, seq WHOLE NOT NULL, format WHOLE NOT NULL DEFAULT 0,
    owner WHOLE NOT NULL DEFAULT 0, fence WHOLE NOT NULL DEFAULT 0);
CREATE TABLE workers (id WHOLE PRIMARY KEY, machine TEXT NOT NULL, address TEXT NOT NULL, until REAL NOT NULL);
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
CREATE TABLE clients (board WHOLE NOT NULL, hash WHOLE NOT NULL, number WHOLE NOT NULL, visits WHOLE NOT NULL,
    at REAL NOT NULL, PRIMARY KEY (board, hash));
CREATE INDEX clients_by_time ON clients (board, at);
CREATE TABLE IF NOT EXISTS rests (board WHOLE PRIMARY KEY, seq WHOLE NOT NULL, body BYTES NOT NULL);
CREATE INDEX IF NOT EXISTS boards_by_edge ON boards (edge);
CREATE TABLE IF NOT EXISTS acts (number WHOLE PRIMARY KEY, at REAL NOT NULL, who TEXT NOT NULL, what TEXT NOT NULL,
    board TEXT NOT NULL, detail TEXT NOT NULL, digest BYTES NOT NULL);
CREATE TABLE IF NOT EXISTS seals (board WHOLE NOT NULL, number WHOLE NOT NULL, secret BYTES NOT NULL, until REAL,
    PRIMARY KEY (board, number))
"""
# Statements from this format to the next; formats before 8 were never released. A store of format 8 keeps its single
# order of events as one partition. Its table `head` stays, to tell workers of that format to stop.
_UPGRADES: dict[int, str] = {
    8: """
UPDATE head SET format = 9;
CREATE TABLE heads (partition WHOLE PRIMARY KEY, seq WHOLE NOT NULL, format WHOLE NOT NULL DEFAULT 0,
    owner WHOLE NOT NULL DEFAULT 0, fence WHOLE NOT NULL DEFAULT 0);
CREATE TABLE workers (id WHOLE PRIMARY KEY, machine TEXT NOT NULL, address TEXT NOT NULL, until REAL NOT NULL);
INSERT INTO heads (partition, seq) SELECT 0, seq FROM head
"""
}


def prepare(db: Database) -> None:
    """Create the tables, or migrate those of an older version. Raises Outdated for unknown formats."""
    if _format(db) == FORMAT:
        return
    with db.transaction():
        db.take_turns()
        stored = _format(db)
        if stored is None:
            _run(db, _TABLES)
            for partition in range(db.partitions):
                db.write("INSERT INTO heads (partition, seq) VALUES (?, ?)", partition, partition)
            db.write("INSERT INTO meta VALUES ('format', ?)", str(FORMAT))
        elif stored > FORMAT:
            raise Outdated(f"the store has format {stored}, this version knows {FORMAT}: upgrade steadyrank")
        elif any(old not in _UPGRADES for old in range(stored, FORMAT)):
            raise Outdated(
                f"the store has format {stored}, which was never released; this version reads {FORMAT}: serve it "
                "with the version that wrote it, or begin a new store and learn from past clicks (steadyrank history)"
            )
        else:
            if stored > 8:
                db.write("UPDATE heads SET seq = seq + 0")  # locks them
            for old in range(stored, FORMAT):
                _run(db, _UPGRADES[old])
            db.write("UPDATE meta SET value = ? WHERE name = 'format'", str(FORMAT))
        db.write("UPDATE heads SET format = ?", FORMAT)


def check_format(stored: int) -> None:
    """Raise Outdated if a newer version has upgraded the store meanwhile."""
    if stored > FORMAT:
        raise Outdated(
            f"the store was upgraded to format {stored} by a newer version: restart this worker with it "
            f"(this version knows {FORMAT})"
        )


def _run(db: Database, script: str) -> None:
    for kind, name in db.kinds.items():
        script = script.replace(kind, name)
    for statement in filter(str.strip, script.split(";")):
        db.write(statement)


def _format(db: Database) -> int | None:
    if not db.read(db.tables_named, "meta"):
        return None
    return int(db.read("SELECT value FROM meta WHERE name = 'format'")[0][0])
