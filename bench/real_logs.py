"""Real click logs as they are, and with attacks planted in them: what the audit finds, and simple detectors.

    python bench/real_logs.py --folder DATA

audits the logs that lie in the folder (docs/real-logs.md says which, and how to get them) as they are and with
attacks of each kind planted in them, and prints the tables of that page. Results are kept in build/real-logs, for the
sources that they were measured with, so that an interrupted run goes on; nothing of a log is. The seeds begin at
HELD_OUT: lower ones were used to develop.
"""

import argparse
import ast
import collections
import dataclasses
import gzip
import hashlib
import json
import os
import pathlib
import re
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import audit_baselines
import audit_counts
import numpy as np
import polars as pl
from event_logs import Events
from measures import overlap, rows_between, share_of
from planted_logs import BOTS, Array, Log, joined
from planted_logs import open_bandit as open_bandit_log

import steadyrank as sr

ROOT = pathlib.Path(__file__).resolve().parents[1]
DATA = pathlib.Path(os.environ.get("STEADYRANK_TABLES", ROOT.parent / "shared" / "data"))
SOURCES = ROOT / "src" / "steadyrank"
WORK = ROOT / "build" / "real-logs"
SEEDS = 20  # plantings of each kind in each log
HELD_OUT = 1_000  # the first seed of what is reported
MADE_UP = 300  # clients of a log that has none, drawn at random
OVERLAP = 0.5  # of rows told and rows attacked, both over either, of a stretch that is found
FIRST_NAMED = 2  # items of an interval, of which the pushed one must be
SEEN = 10  # clients who were shown an item that may be pushed, at least


class Planting(NamedTuple):
    """What is planted: so many rows of bots, when, by how many, and whether they click."""

    share: float
    when: str  # burst, even, ramp
    bots: int
    clicks: bool = True


PLANTINGS = {
    "burst 1%": Planting(0.01, "burst", 20),
    "burst 3%": Planting(0.03, "burst", 20),
    "burst 10%": Planting(0.10, "burst", 20),
    "30 senders": Planting(0.05, "even", 30),
    "300 senders": Planting(0.05, "even", 300),
    "silent": Planting(0.05, "even", 30, clicks=False),
    "slow": Planting(0.05, "ramp", 30),
}


@dataclasses.dataclass
class RealLog:
    """A log as it is, and whether its times and clients are its own."""

    log: Log
    timed: bool
    clients: bool


def naver(folder: pathlib.Path) -> RealLog:
    """NAVER search sessions: lists (Q) and the clicks that follow them (C), in order of time."""
    rows: list[tuple[float, str, list[str], list[bool]]] = []
    last: dict[str, list[int]] = {}
    with gzip.open(folder / "real_logs" / "naver_clara2_search_log.tsv.gz", "rt") as file:
        for line in file:
            session, time, kind, *rest = line.rstrip("\n").split("\t")
            if kind == "Q":
                last.setdefault(session, []).append(len(rows))
                rows.append((float(time) / 1e3, session, rest[2:], [False] * len(rest[2:])))
                continue
            for i in reversed(last.get(session, [])):
                if rest[0] in rows[i][2]:
                    rows[i][3][rows[i][2].index(rest[0])] = True
                    break
    return RealLog(_log(rows), timed=True, clients=True)


def tiangong(folder: pathlib.Path) -> RealLog:
    """The sample of TianGong-ST: sessions of lists with their clicks, without times."""
    rows: list[tuple[float, str, list[str], list[bool]]] = []
    for part in ("train", "valid", "test"):
        with gzip.open(folder / "real_logs" / f"tiangong_st_{part}.txt.gz", "rt") as file:
            for line in file:
                session, _, items, _, clicks = line.rstrip("\n").split("\t")
                bits = [bit == 1 for bit in ast.literal_eval(clicks)]
                rows.append((float(len(rows)), session, [str(one) for one in ast.literal_eval(items)], bits))
    return RealLog(_log(rows), timed=False, clients=True)


def open_bandit(folder: pathlib.Path, policy: str) -> RealLog:
    """A sample of the Open Bandit Dataset: an item a row, with its place. Its clients are made up."""
    log = open_bandit_log(folder / "obd" / f"{policy}_all.csv", MADE_UP, np.random.default_rng(0))
    return RealLog(log.chosen(np.argsort(log.time, kind="stable")), timed=True, clients=False)


def naver_clicks(folder: pathlib.Path) -> Events:
    """The clicks of NAVER's sessions alone: session, result and time, as an audit of counts reads them."""
    sessions: dict[str, int] = {}
    items: dict[str, int] = {}
    rows = []
    with gzip.open(folder / "real_logs" / "naver_clara2_search_log.tsv.gz", "rt") as file:
        for line in file:
            session, time, kind, *rest = line.rstrip("\n").split("\t")
            if kind == "C":
                numbers = items.setdefault(rest[0], len(items)), sessions.setdefault(session, len(sessions))
                rows.append((*numbers, float(time) / 1e3))
    item, client, when = (np.array(column) for column in zip(*rows, strict=True))
    log = Events(item, client, when, np.zeros(when.size, np.bool_))
    return log.chosen(np.argsort(when, kind="stable"))


def planted_clicks(log: Events, share: float, rng: np.random.Generator) -> Events:
    """The log with a burst of clicks on one result in 3 to 36 hours, by 15 or 300 senders.

    The result is one of the 200 clicked most, but for the first five.
    """
    n, m = log.time.size, round(share * log.time.size)
    target = int(rng.choice(np.argsort(-np.bincount(log.item), kind="stable")[5:200]))
    begin = log.time[rng.integers(n // 10, n - n // 10)]
    time = begin + rng.random(m) * rng.uniform(3.0, 36.0) * 3_600.0
    client = BOTS + rng.integers(0, int(rng.choice([15, 300])), m)
    both = Events(
        np.append(log.item, np.full(m, target)), np.append(log.client, client), np.append(log.time, time),
        np.append(log.false, np.ones(m, np.bool_)), target,
    )  # fmt: skip
    return both.chosen(np.argsort(both.time, kind="stable"))


def counts_table(folder: pathlib.Path, first: int, seeds: int) -> str:
    """What an audit of counts says of NAVER's clicks, as they are and with bursts, with senders and without."""
    log = naver_clicks(folder)
    lines = []
    for clients in (True, False):
        senders = "known" if clients else "not known"
        found = sr.audit_counts(log.frame(clients))
        told = f"{len(found.intervals)} suspect intervals, {found.n_clients} senders named"
        lines.append([senders, "as it is", told, "", "", "", ""])
        for size in (0.01, 0.03, 0.10):
            of = [
                audit_counts.judge(planted_clicks(log, size, np.random.default_rng([45, seed])), clients)
                for seed in range(first, first + seeds)
            ]
            hits, covered = (
                share_of(sum(getattr(one, name) for one in of), seeds, 0) for name in ("named", "covered")
            )
            bots = f"{np.mean([one.bots for one in of]):.0%}" if clients else ""
            honest = str(sum(one.honest_senders for one in of)) if clients else ""
            lines.append([senders, f"{size:.0%}", hits, str(sum(one.elsewhere for one in of)), covered, bots, honest])
    head = ("senders", "burst", "found, with the result", "other intervals", "clean count holds the true one")
    return _table((*head, "its bots named", "honest senders named"), lines)


class Place(NamedTuple):
    """Where a log lies, and how it is read."""

    files: tuple[str, ...]  # in the folder
    read: Callable[[pathlib.Path], RealLog]


LOGS = {
    "NAVER": Place(("real_logs/naver_clara2_search_log.tsv.gz",), naver),
    "TianGong-ST": Place(
        tuple(f"real_logs/tiangong_st_{part}.txt.gz" for part in ("train", "valid", "test")), tiangong
    ),
    "Open Bandit, random": Place(("obd/random_all.csv",), lambda folder: open_bandit(folder, "random")),
    "Open Bandit, Thompson": Place(("obd/bts_all.csv",), lambda folder: open_bandit(folder, "bts")),
}


def _log(rows: list[tuple[float, str, list[str], list[bool]]]) -> Log:
    """Rows as arrays, with numbers for names, in order of time."""
    items: dict[str, int] = {}
    clients: dict[str, int] = {}
    width = max(len(row[2]) for row in rows)
    lists, bits = np.full((len(rows), width), -1), np.zeros((len(rows), width), np.bool_)
    for i, (_, _, shown, clicked) in enumerate(rows):
        lists[i, : len(shown)] = [items.setdefault(name, len(items)) for name in shown]
        bits[i, : len(clicked)] = clicked
    client = np.array([clients.setdefault(row[1], len(clients)) for row in rows])
    log = Log(lists, bits, np.array([row[0] for row in rows]), client, np.zeros(len(rows), np.bool_))
    return log.chosen(np.argsort(log.time, kind="stable"))


def planted(real: RealLog, planting: Planting, rng: np.random.Generator) -> tuple[Log, int]:
    """The log with rows of bots, and the item that they push, -1 if they click nothing.

    Bots ask for what shows them the item, one that is clicked less than half of all are, and click it alone. A burst
    comes by itself or, as often, beside as many honest rows.
    """
    log = real.log
    m = max(1, round(planting.share * log.time.size))
    item = _pushed(log, rng) if planting.clicks else -1
    fit = np.flatnonzero((log.lists == item).any(axis=1)) if planting.clicks else np.arange(log.time.size)
    source = rng.choice(fit, m)
    lists = log.lists[source]
    bits = lists == item
    bits &= np.cumsum(bits, axis=1) == 1  # an item that stands twice in a list is clicked once
    place = None if log.place is None else log.place[source]
    client = BOTS + rng.permutation(np.arange(m) % planting.bots)
    bots = Log(lists, bits, _times(log.time, m, planting.when, rng), client, np.ones(m, np.bool_), place)
    return joined(log, bots), item


def _pushed(log: Log, rng: np.random.Generator) -> int:
    """An item shown to SEEN clients at least and clicked less than half of those are."""
    row, _ = np.nonzero(log.lists >= 0)
    pairs = np.unique(np.stack([log.lists[log.lists >= 0], log.client[row]]), axis=1)
    looks = np.bincount(log.lists[log.lists >= 0])
    clicks = np.bincount(log.lists[log.bits], minlength=looks.size)
    seen = np.flatnonzero(np.bincount(pairs[0], minlength=looks.size) >= SEEN)
    rate = clicks[seen] / looks[seen]
    return int(rng.choice(seen[rate <= np.median(rate)]))


def _times(time: Array, m: int, when: str, rng: np.random.Generator) -> Array:
    n = time.size
    if when == "even":
        return np.sort(rng.choice(time, m)) + rng.random(m) * 1e-3
    if when == "ramp":
        return np.sort(np.quantile(time, np.sqrt(rng.random(m))))
    beside = m if rng.random() < 0.5 else 1
    i = int(rng.integers(n // 10, n - n // 10 - beside))
    at = i + rng.random(m) * beside
    return np.sort(np.interp(at, np.arange(n), time))


def frame_of(log: Log, timed: bool, clients: bool) -> pl.DataFrame:
    """A log as people would have it: without times or clients if it has none."""
    frame = log.frame()
    return frame.drop(*(name for name, kept in (("timestamp", timed), ("user_id", clients)) if not kept))


def judge(log: Log, real: RealLog, clients: bool, item: int = -1) -> dict[str, Any]:
    """Audit a log and compare; baselines beside it."""
    found = sr.audit(frame_of(log, real.timed, clients))
    n = log.time.size
    false = np.flatnonzero(log.false)
    truth = rows_between(false[0], false[-1] + 1, n) if false.size else np.zeros(n, np.bool_)
    most, named = 0.0, False
    for part in found.intervals:
        both = overlap(rows_between(part.start_row, part.end_row, n), truth)
        if both > most:
            most, named = both, item in [one["item"] for one in part.items[:FIRST_NAMED]]
    bots = set(np.unique(log.client[log.false]).tolist())
    people = set(np.unique(log.client[~log.false]).tolist())
    names = {one.client for one in found.clients}
    if len(names) < found.n_clients:
        raise ValueError(f"the audit lists {len(names):,} of {found.n_clients:,} clients that it names: raise LISTED")
    pushed = [one["item"] for board in found.boards for one in board.client_items[:FIRST_NAMED]]
    return {
        "impressions": n, "intervals": len(found.intervals), "overlap": most, "item": named,
        "elsewhere": sum(not truth[part.start_row : part.end_row].any() for part in found.intervals),
        "changes": collections.Counter(change.kind for change in found.changes), "clients": found.n_clients,
        "bots": len(bots), "bots_named": len(names & bots), "people": len(people) if clients else 0,
        "people_named": len(names - bots), "client_item": item in pushed,
        "baselines": _baselines(log, truth, bots, real.timed) if clients else {},
    }  # fmt: skip


def _baselines(log: Log, truth: Array, bots: set[int], timed: bool) -> dict[str, Any]:
    """By detector: overlap of what it flags with the attack; bots and people that it names.

    Without times there is no limit an hour, and without scikit-learn no forest.
    """
    flags = audit_baselines.cusum(log)
    found: dict[str, Any] = {
        "CUSUM": {"overlap": overlap(flags, truth) if truth.any() else 0.0, "alarm": bool(flags.any())}
    }
    limited = audit_baselines.rate_limit(log) if timed else None
    for name, named in (("rate limit", limited), ("forest", audit_baselines.forest(log))):
        if named is not None:
            found[name] = {"bots_named": len(named & bots), "people_named": len(named - bots)}
    return found


class Job(NamedTuple):
    """One audit: of a log as it is (planting ""), with clients or without, or of one with something planted."""

    log: str
    planting: str
    seed: int

    @property
    def name(self) -> str:
        """For a line of the record."""
        return f"{self.log}/{self.planting}/{self.seed}"


def jobs(first: int, seeds: int, kinds: list[str], logs: list[str]) -> Iterator[Job]:
    """All audits of some logs, those with little to do first."""
    for name in logs:
        for clients in range(2):
            yield Job(name, "", clients)
    for seed in range(first, first + seeds):
        for name in logs:
            for kind in kinds:
                yield Job(name, kind, seed)


def run(job: Job, real: RealLog) -> dict[str, Any]:
    """What became of a job. As it is, with seed 0 with clients, with 1 without."""
    if not job.planting:
        return judge(real.log, real, clients=job.seed == 0)
    rng = np.random.default_rng([44, job.seed, *job.log.encode(), *job.planting.encode()])
    log, item = planted(real, PLANTINGS[job.planting], rng)
    return judge(log, real, clients=True, item=item)


def digest() -> str:
    """Of the sources that results depend on."""
    files = sorted(path for name in ("audit/detect", "click_logs") for path in (SOURCES / name).rglob("*.py"))
    files += [SOURCES / "core" / name for name in ("item_evidence.py", "beta_prior.py")]
    files += [
        ROOT / "bench" / name for name in ("real_logs.py", "planted_logs.py", "audit_baselines.py", "measures.py")
    ]
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]


def found(result: dict[str, Any]) -> bool:
    """Whether a burst was found, with the item that it pushes among the first that are named."""
    return bool(result["overlap"] >= OVERLAP and result["item"])


def tables(results: dict[Job, dict[str, Any]]) -> str:
    """The tables of the page."""
    logs = list(dict.fromkeys(job.log for job in results))
    groups: dict[tuple[str, str], list[dict[str, Any]]] = collections.defaultdict(list)
    for job, result in results.items():
        groups[job.log, job.planting].append(result)
    as_is = [
        [log, f"{of[0]['impressions']:,}", *(str(sum(one[key] for one in of)) for key in ("intervals", "clients"))]
        + [", ".join(sorted({kind for one in of for kind in one["changes"]})) or "none"]
        for log in logs
        if (of := groups[log, ""])
    ]
    planted_in = {kind: [log for log in logs if groups[log, kind]] for kind in PLANTINGS}
    bursts = [
        [log, kind.removeprefix("burst "), share_of(sum(map(found, of)), len(of), 0)]
        + [str(sum(one["elsewhere"] for one in of)), *_simple(of, bursts=True)]
        for kind in PLANTINGS
        if PLANTINGS[kind].when == "burst"
        for log in planted_in[kind]
        for of in (groups[log, kind],)
    ]
    spread = [
        [log, kind, share_of(sum(one["bots_named"] for one in of), sum(one["bots"] for one in of), 0)]
        + [share_of(sum(one["client_item"] for one in of), len(of), 0) if PLANTINGS[kind].clicks else ""]
        + _simple(of, bursts=False)
        for kind in PLANTINGS
        if PLANTINGS[kind].when != "burst"
        for log in planted_in[kind]
        for of in (groups[log, kind],)
    ]
    attacked = [one for (_, kind), of in groups.items() if kind for one in of]
    people, wrong = (sum(one[key] for one in attacked) for key in ("people", "people_named"))
    lines = [
        _table(("log", "impressions", "suspect intervals", "clients named", "other changes"), as_is),
        _table(
            ("log", "burst", "found", "other intervals", "CUSUM", "its bots: audit", "rate limit", "forest"), bursts
        ),
        _table(("log", "5 % spread", "bots named", "item named", "rate limit", "forest"), spread),
        f"honest clients named: {wrong:,} of {people:,}",
    ]
    return "\n\n".join(lines)


def _simple(of: list[dict[str, Any]], bursts: bool) -> list[str]:
    """What the baselines find, and how many honest clients they name."""
    bots = sum(one["bots"] for one in of)
    cells = []
    if bursts:
        cells.append(str(sum(one["baselines"]["CUSUM"]["overlap"] >= OVERLAP for one in of)))
        cells.append(f"{sum(one['bots_named'] for one in of) / bots:.0%}")
    for name in ("rate limit", "forest"):
        told = [one["baselines"][name] for one in of if name in one["baselines"]]
        hits, wrong = (sum(one[key] for one in told) for key in ("bots_named", "people_named"))
        cells.append(f"{hits / bots:.0%}, {wrong:,} honest" if told else "")
    return cells


def _table(head: tuple[str, ...], lines: list[list[str]]) -> str:
    text = "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *lines))
    return re.sub(r"(?<=\d)%", " %", re.sub(r"\|  (?=\|)", "| ", text))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, default=DATA, help="where the logs lie (STEADYRANK_TABLES)")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="plantings of each kind in each log")
    parser.add_argument("--first-seed", type=int, default=HELD_OUT)
    parser.add_argument("--logs", nargs="*", choices=list(LOGS), default=list(LOGS))
    parser.add_argument("--kinds", nargs="*", choices=list(PLANTINGS), default=list(PLANTINGS))
    options = parser.parse_args()
    lacking = {name: [f for f in LOGS[name].files if not (options.folder / f).is_file()] for name in options.logs}
    for name, files in lacking.items():
        for file in files:
            print(
                f"{name}: {options.folder / file} is not there; docs/real-logs.md says how to get it", file=sys.stderr
            )
    logs = [name for name in options.logs if not lacking[name]]
    if not logs:
        print("no log to audit: name their folder with --folder or STEADYRANK_TABLES", file=sys.stderr)
        return 2
    WORK.mkdir(parents=True, exist_ok=True)
    record = WORK / f"{digest()}.jsonl"
    lines = record.read_text().splitlines() if record.exists() else []
    done = {Job(*one["job"]): one for one in map(json.loads, lines)}
    reals: dict[str, RealLog] = {}
    results: dict[Job, dict[str, Any]] = {}
    for job in jobs(options.first_seed, options.seeds, options.kinds, logs):
        if job not in done:
            if job.log not in reals:
                reals[job.log] = LOGS[job.log].read(options.folder)
            start = time.process_time()
            done[job] = run(job, reals[job.log]) | {"job": job, "seconds": time.process_time() - start}
            with record.open("a") as file:
                file.write(json.dumps(done[job]) + "\n")
            print(f"{job.name}: {done[job]['seconds']:.1f} s", file=sys.stderr)
        results[job] = done[job]
    print(tables(results))
    if "NAVER" in logs:
        print(f"\nNAVER's clicks, by --counts:\n\n{counts_table(options.folder, options.first_seed, options.seeds)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
