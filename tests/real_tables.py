"""The tables that modelled profiles were fitted to, which may not be redistributed: beside the checkout, or absent.

Run as a script it searches every file of the project for their names and titles, and fails if it finds one.
"""

import collections
import csv
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[1]
FOLDER = pathlib.Path(os.environ.get("STEADYRANK_TABLES", ROOT.parent / "shared" / "data"))
OBD = FOLDER / "obd"
MISSING = f"the real tables are not in {FOLDER} (set STEADYRANK_TABLES to their folder)"
_WORD = re.compile(r"\w+")
_SHORTEST = 8  # least letters of a one-word name: shorter ones are ordinary words


def rows(name: str) -> list[dict[str, str]]:
    with (FOLDER / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def names() -> set[str]:
    """Titles, artists and businesses long enough to be recognised."""
    found = {row["title"] for row in rows("movielens_25m_items.csv")}
    found |= {row["name"] for row in rows("lastfm_2k_artists.csv")}
    for line in (FOLDER / "raw" / "yelp" / "yelp_academic_dataset_business.json").read_text("utf-8").splitlines():
        found.add(json.loads(line)["name"])
    return {name for name in found if len(name) >= _SHORTEST and _WORD.search(name)}


def main() -> int:
    if not FOLDER.is_dir():
        print(f"skipped: {MISSING}")
        return 0
    by_word: dict[str, list[str]] = collections.defaultdict(list)
    known = names()
    for name in known:
        by_word[_WORD.search(name).group()].append(name)
    files = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True
    )
    bad = 0
    for file in files.stdout.decode().splitlines():
        text = (ROOT / file).read_bytes().decode("utf-8", "replace") if (ROOT / file).is_file() else ""
        for word in _WORD.finditer(text):
            for name in by_word.get(word.group(), ()):
                begin = word.start() - _WORD.search(name).start()
                if text.startswith(name, begin) and not text[begin + len(name) :][:1].isalnum():
                    print(f"{file}:{text.count(chr(10), 0, begin) + 1}: {name!r} is a name of a real table")
                    bad += 1
    print(f"{len(known):,} names of the real tables, {bad} found in the project")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
