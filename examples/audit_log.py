"""Audit a click log: python examples/audit_log.py [LOG]. Without LOG, it makes one with a planted attack.

Needs: pip install 'steadyrank[report]'
"""

import argparse
import csv
import pathlib
import random
import tempfile

import steadyrank as sr


def plant(path: pathlib.Path, visits: int = 6_000) -> None:
    """Write a log in which bots push three bad items during a tenth of the time."""
    chance = random.Random(1)
    attraction = {f"item {k}": 0.5 / (1 + k) for k in range(20)}
    bad = {"item 17", "item 18", "item 19"}
    with open(path, "w", newline="") as file:
        log = csv.writer(file)
        log.writerow(["items", "clicked"])
        for visit in range(visits):
            shown = chance.sample(sorted(attraction), 5)
            attacked = 0.6 * visits <= visit < 0.7 * visits
            liked = [item for item in shown if (item in bad if attacked else chance.random() < attraction[item])]
            log.writerow(["|".join(shown), shown.index(liked[0]) + 1 if liked else 0])


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("log", nargs="?", type=pathlib.Path, help="Parquet, CSV, TSV or JSON lines")
options = parser.parse_args()
with tempfile.TemporaryDirectory() as folder:
    log = options.log
    if log is None:
        log = pathlib.Path(folder) / "clicks.csv"
        plant(log)
    found = sr.audit(log)

low, high = found.suspect_share
print(f"{found.impressions:,} impressions, {low:.1%} to {high:.1%} of them suspect")
for part in found.intervals:
    items = ", ".join(str(item["item"]) for item in part.items[:5])
    print(f"rows {part.start_row:,} to {part.end_row - 1:,}, {part.certainty:.1%} sure: {items}")
for board in found.boards:
    print("best with everything:    ", *board.ranking[:5], sep="  ")
    print("best without that part:  ", *board.clean_ranking[:5], sep="  ")
