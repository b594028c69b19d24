"""Audit a large log: processor time compared with merely reading it with polars, peak memory. python bench/audit.py.

    python bench/audit.py --impressions 100000000 --folder /data/bench

writes a log of a hundred million impressions, as a folder of Parquet files by day, and audits it. With `--clients 50`
the log has clients, with 50 impressions each on average, some with many more than others; one client in a thousand is
a bot of the attack. With `--boards 8` it has eight boards, which `--on ray` audits in tasks of a local Ray.
"""

import argparse
import collections
import contextlib
import datetime
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np
import polars as pl

from steadyrank import profile

PART = 500_000
DAYS = 30
TAIL = 1.5  # of how often clients come: the number of a client is a uniform one, to this power
BOTS = 1_000  # one client in so many is a bot, and one at least
FIRST_DAY = datetime.datetime(2026, 11, 1, tzinfo=datetime.UTC)
SCAN = """
import polars as pl, sys
pl.scan_parquet(sys.argv[1] + "/**/*.parquet").select(pl.all().hash().sum()).collect(engine="streaming")
"""


def write(folder: pathlib.Path, n: int, visits: int, boards: int, length: int = 10) -> None:
    """Write a log of n impressions of random lists over DAYS, one folder per day, a tenth of it attacked.

    `visits`: mean impressions per client, 0 for a log without clients.
    """
    attraction = profile("yelp-pizza", "moderate").attraction
    names = pl.Series([f"item-{k:05d}" for k in range(attraction.size)])
    rng = np.random.default_rng(0)
    bottom = attraction < np.median(attraction)
    people = n // visits if visits else 0
    who = pl.Series([f"client-{k:07d}" for k in range(people + -(-people // BOTS))])
    for start in range(0, n, PART):
        m = min(PART, n - start)
        stride = rng.integers(1, (attraction.size - 1) // length, (m, 1))
        lists = (rng.integers(0, attraction.size, (m, 1)) + stride * np.arange(length)) % attraction.size
        bits = rng.random((m, length)) < attraction[lists]
        now = np.arange(start, start + m)
        false = (now >= 0.4 * n) & (now < 0.5 * n)
        bits[false] = bottom[lists[false]]
        place = np.where(bits.any(axis=1), bits.argmax(axis=1) + 1, 0)
        items = names.gather(lists.ravel()).reshape((m, length)).cast(pl.List(pl.String)).alias("items")
        seconds = FIRST_DAY.timestamp() + now * (DAYS * 86_400 / n)
        times = pl.Series("time", (seconds * 1e6).astype(np.int64)).cast(pl.Datetime("us"))
        frame = pl.DataFrame({"items": items, "clicked_position": place, "time": times})
        if visits:
            client = (people * rng.random(m) ** TAIL).astype(np.int64)
            client[false] = rng.integers(people, len(who), np.count_nonzero(false))
            frame = frame.with_columns(who.gather(client).alias("client"))
        if boards > 1:
            frame = frame.with_columns(pl.Series("board", rng.integers(0, boards, m)))
        for (day,), rows in frame.group_by(pl.col("time").dt.date(), maintain_order=True):
            part = folder / f"dt={day}"
            part.mkdir(parents=True, exist_ok=True)
            rows.write_parquet(part / f"{start:012d}.parquet")


def processor_time(command: list[str]) -> float:
    """Processor seconds of a command: wall time says little on a busy machine."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def watched(command: list[str]) -> tuple[float, float, float, str]:
    """Wall and processor seconds of a command, its peak memory in bytes, and its output.

    Includes all processes that it starts, sampled twice a second: those of Ray outlive the one that waits for them.
    Shared memory counts once.
    """
    spent: collections.defaultdict[int, float] = collections.defaultdict(float)
    peak, start = 0.0, time.perf_counter()
    with tempfile.TemporaryFile("w+") as out, subprocess.Popen(command, stdout=out) as process:
        while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
            used = {pid: _used(pid) for pid in _with_children(process.pid)}
            for pid, (seconds, _) in used.items():
                spent[pid] = max(spent[pid], seconds)
            peak = max(peak, sum(held for _, held in used.values()))
            time.sleep(0.5)
        took = time.perf_counter() - start
        _, status, own = ended
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
        spent[process.pid] = own.ru_utime + own.ru_stime
        if len(spent) == 1:  # the kernel records the exact peak of a process
            peak = 1024.0 * own.ru_maxrss
        out.seek(0)
        return took, sum(spent.values()), peak, out.read()


def _with_children(root: int) -> list[int]:
    """A process and all its descendants."""
    of: dict[int, list[int]] = {}
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            of.setdefault(int(_fields(path)[1]), []).append(int(path.name))
    found = [root]
    for pid in found:
        found += of.get(pid, [])
    return found


def _fields(path: pathlib.Path) -> list[str]:
    """The fields of a process's stat file after its name: state, parent and so on."""
    return (path / "stat").read_text().rpartition(")")[2].split()


def _used(pid: int) -> tuple[float, float]:
    """Processor time of a process in seconds and its memory in bytes; 0 once it has ended."""
    path = pathlib.Path(f"/proc/{pid}")
    with contextlib.suppress(OSError):
        ticks = sum(map(int, _fields(path)[11:13]))
        lines = (path / "smaps_rollup").read_text().splitlines()
        held = next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
        return ticks / os.sysconf("SC_CLK_TCK"), 1024.0 * held
    return 0.0, 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--impressions", type=int, default=1_000_000)
    parser.add_argument("--planted", action="store_true", help="what is found of attacks added to logs, instead")
    parser.add_argument("--seeds", type=int, default=5, help="with --planted: worlds that are tried")
    parser.add_argument("--first-seed", type=int, default=0, help="with --planted: the first of them")
    parser.add_argument(
        "--folder", type=pathlib.Path, default=None, help="where the log is made, and kept for more runs"
    )
    parser.add_argument("--clients", type=int, default=0, metavar="VISITS", help="visits of each client (0: unknown)")
    parser.add_argument("--boards", type=int, default=1)
    parser.add_argument("--on", default="local", help="where boards are audited: local or ray")
    options = parser.parse_args()
    if options.planted:
        import audit_planted

        audit_planted.run(options.seeds, options.first_seed)
        return
    with contextlib.ExitStack() as stack:
        place = options.folder or pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        log = place / f"log-{options.impressions}-{options.clients}-{options.boards}"
        if not log.is_dir():
            write(log, options.impressions, options.clients, options.boards)
        size = sum(path.stat().st_size for path in log.rglob("*.parquet"))
        scan = min(processor_time([sys.executable, "-c", SCAN, str(log)]) for _ in range(2))
        page, load = str(place / "audit.html"), os.getloadavg()[0]
        took, spent, peak, told = watched(
            [sys.executable, "-m", "steadyrank.cli", "audit", str(log), "--page", page, "--on", options.on]
        )
        print(told)
        print(f"{options.impressions:,} impressions, {size / 1e6:.0f} MB of Parquet")
        print(f"audit: {took:.1f} s; peak memory: {peak / 1e9:.2f} GB")
        print(f"processor time: {spent:.0f} s; of polars reading every value, its start included: {scan:.1f} s")
        print(f"load of the machine before it: {load:.1f}")


if __name__ == "__main__":
    main()
