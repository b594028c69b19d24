"""The tables of a store, and how those of an older version are brought up to date."""

from .sql import Database

FORMAT = 8

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
# Of a board: `edge`: up to which event its log became a snapshot. `clients`: how many numbers clients were given.
# `forgotten`: the event by which somebody had a client forgotten last, 0 if nobody had; what a worker gave out before
# it had read that event, and has not written yet, is nobody's. `forgot`: when that was, for what is reported with a
# time. `promised`: impression ids given out under an earlier, longer lifetime expire before this time.
_TABLES = f"""
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE head (one WHOLE PRIMARY KEY CHECK (one = 1), seq WHOLE NOT NULL);
CREATE TABLE boards (id WHOLE PRIMARY KEY, name TEXT NOT NULL UNIQUE, secret BYTES NOT NULL,
    edge WHOLE NOT NULL DEFAULT 0, clients WHOLE NOT NULL DEFAULT 0, forgot REAL NOT NULL DEFAULT 0,
    forgotten WHOLE NOT NULL DEFAULT 0, promised REAL NOT NULL DEFAULT 0);
CREATE TABLE events (seq WHOLE PRIMARY KEY, board WHOLE NOT NULL, at REAL NOT NULL, body BYTES NOT NULL);
CREATE INDEX events_by_board ON events (board, seq);
CREATE TABLE snapshots (board WHOLE NOT NULL, seq WHOLE NOT NULL, body BYTES NOT NULL, PRIMARY KEY (board, seq));
CREATE TABLE keys (id TEXT PRIMARY KEY, hash BYTES NOT NULL, scopes TEXT NOT NULL, board TEXT,
    created REAL NOT NULL, revoked REAL, expires REAL);
{_CLIENTS.strip()};
{_RESTS.strip()};
{_ACTS.strip()};
{_SEALS.strip()};
INSERT INTO head VALUES (1, 0)
"""
_UPGRADES = {  # from this format to the next
    1: "ALTER TABLE boards ADD COLUMN edge WHOLE NOT NULL DEFAULT 0",
    2: f"""
DROP TABLE IF EXISTS clients;
{_CLIENTS.strip()};
ALTER TABLE boards ADD COLUMN clients WHOLE NOT NULL DEFAULT 0;
ALTER TABLE boards ADD COLUMN forgot REAL NOT NULL DEFAULT 0
""",
    3: "",  # there may be events that an older version does not know: refused answers
    4: f"{_RESTS};{_ACTS};{_SEALS};ALTER TABLE keys ADD COLUMN expires REAL",
    5: "",  # lists may be of cohorts, and labels of clients
    6: "",  # there may be lists that another ranker showed
    7: """
ALTER TABLE boards ADD COLUMN forgotten WHOLE NOT NULL DEFAULT 0;
ALTER TABLE boards ADD COLUMN promised REAL NOT NULL DEFAULT 0;
UPDATE boards SET forgotten = (SELECT seq FROM head) WHERE forgot > 0
""",
}


def prepare(db: Database) -> None:
    """Make the tables, or bring those of an older version up to date; those of a newer one are refused."""
    if _format(db) == FORMAT:
        return
    with db.transaction():
        db.take_turns()
        found = _format(db)
        if found is None:
            _run(db, _TABLES)
            db.write("INSERT INTO meta VALUES ('format', ?)", str(FORMAT))
            return
        if found > FORMAT:
            raise ValueError(f"the store has format {found}, this version knows {FORMAT}: upgrade steadyrank")
        for old in range(found, FORMAT):
            _run(db, _UPGRADES[old])
        db.write("UPDATE meta SET value = ? WHERE name = 'format'", str(FORMAT))


def _run(db: Database, script: str) -> None:
    for kind, name in db.kinds.items():
        script = script.replace(kind, name)
    for statement in filter(str.strip, script.split(";")):
        db.write(statement)


def _format(db: Database) -> int | None:
    if not db.read(db.tables_named, "meta"):
        return None
    return int(db.read("SELECT value FROM meta WHERE name = 'format'")[0][0])
