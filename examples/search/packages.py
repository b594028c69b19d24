"""Debian's packages on this machine, and an engine that searches them: SQLite's FTS5, ordered by bm25."""

import collections
import pathlib
import re
import shutil
import sqlite3
import subprocess
import threading
from typing import NamedTuple

STATUS = pathlib.Path("/var/lib/dpkg/status")  # installed packages, on every Debian
_NAME = re.compile(r"(?:^|[,|]\s*)([a-z0-9][a-z0-9+.-]+)")
_WORD = re.compile(r"\w+")
_FIND = """SELECT name, -bm25(packages, 5, 3, 1) AS score FROM packages
    WHERE packages MATCH ? ORDER BY score DESC LIMIT ?"""


class Package(NamedTuple):
    """A package: its summary, its description, and how many others depend on it, recommend or suggest it."""

    name: str
    summary: str
    about: str
    wanted: int


def available():
    """The records of all packages that apt knows, or of those installed, as text."""
    if shutil.which("apt-cache"):
        text = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True, check=False).stdout
        if text.strip():
            return text
    if STATUS.exists():
        return STATUS.read_text(errors="replace")
    raise SystemExit(f"neither apt-cache nor {STATUS} is here: this example searches the packages of a Debian")


def read(text):
    """Parse the records of apt and dpkg: packages by name."""
    packages, wanted = {}, collections.Counter()
    for paragraph in text.split("\n\n"):
        fields = dict(re.findall(r"^([\w-]+):[ \t]*(.*(?:\n[ \t].*)*)", paragraph, re.MULTILINE))
        if "Package" not in fields:
            continue
        summary, _, about = fields.get("Description", fields.get("Description-en", "")).partition("\n")
        packages[fields["Package"]] = summary, about
        for relation in ("Depends", "Recommends", "Suggests"):
            wanted.update(set(_NAME.findall(fields.get(relation, ""))))
    return {name: Package(name, summary, about, wanted[name]) for name, (summary, about) in packages.items()}


class Engine:
    """Finds packages by words. It knows nothing of what people choose."""

    def __init__(self, packages):
        self.packages = packages
        self._lock = threading.Lock()
        self._table = sqlite3.connect(":memory:", check_same_thread=False)
        self._table.execute("CREATE VIRTUAL TABLE packages USING fts5(name, summary, about, tokenize = 'porter')")
        rows = [one[:3] for one in packages.values()]
        self._table.executemany("INSERT INTO packages VALUES (?, ?, ?)", rows)

    def search(self, query, most=50):
        """A response as from OpenSearch and Elasticsearch: hits with names and scores, best first."""
        words = " ".join(f'"{word}"' for word in _WORD.findall(query))
        with self._lock:
            rows = self._table.execute(_FIND, (words, most)).fetchall() if words else []
        return {"hits": {"hits": [{"_id": name, "_score": score} for name, score in rows]}}
