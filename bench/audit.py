"""An audit of a large log: time against polars merely reading it, and peak memory. python bench/audit.py.

    python bench/audit.py --impressions 100000000 --folder /data/bench

makes a log of a hundred million impressions, a folder of Parquet files by day, and audits it.
"""

import argparse
import contextlib
import datetime
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
FIRST_DAY = datetime.datetime(2026, 11, 1, tzinfo=datetime.UTC)
SCAN = """
import polars as pl, sys
pl.scan_parquet(sys.argv[1] + "/**/*.parquet").select(pl.all().hash().sum()).collect(engine="streaming")
"""


def write(folder: pathlib.Path, n: int, length: int = 10) -> None:
    """A log of n impressions of random lists over DAYS, a folder a day, a tenth of it attacked."""
    attraction = profile("yelp-pizza", "moderate").attraction
    names = pl.Series([f"item-{k:05d}" for k in range(attraction.size)])
    rng = np.random.default_rng(0)
    bottom = attraction < np.median(attraction)
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
        for (day,), rows in frame.group_by(pl.col("time").dt.date(), maintain_order=True):
            part = folder / f"dt={day}"
            part.mkdir(parents=True, exist_ok=True)
            rows.write_parquet(part / f"{start:012d}.parquet")


def timed(command: list[str]) -> tuple[float, str]:
    start = time.perf_counter()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return time.perf_counter() - start, done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--impressions", type=int, default=1_000_000)
    parser.add_argument("--planted", action="store_true", help="what is found of attacks added to logs, instead")
    parser.add_argument("--seeds", type=int, default=5, help="with --planted: worlds that are tried")
    parser.add_argument("--first-seed", type=int, default=0, help="with --planted: the first of them")
    parser.add_argument(
        "--folder", type=pathlib.Path, default=None, help="where the log is made, and kept for more runs"
    )
    options = parser.parse_args()
    if options.planted:
        import audit_planted

        audit_planted.run(options.seeds, options.first_seed)
        return
    with contextlib.ExitStack() as stack:
        place = options.folder or pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        log = place / f"log-{options.impressions}"
        if not log.is_dir():
            write(log, options.impressions)
        size = sum(path.stat().st_size for path in log.rglob("*.parquet"))
        base, _ = timed([sys.executable, "-c", "import polars"])
        scan = min(timed([sys.executable, "-c", SCAN, str(log)])[0] for _ in range(2)) - base
        page = str(place / "audit.html")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        took, told = timed([sys.executable, "-m", "steadyrank.cli", "audit", str(log), "--page", page])
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
        print(told)
        print(f"{options.impressions:,} impressions, {size / 1e6:.0f} MB of Parquet")
        print(f"polars reading every value: {scan:.2f} s; audit: {took:.1f} s = {took / scan:.0f} times")
        print(f"processor time of the audit: {spent:.0f} s; peak memory: {used.ru_maxrss / 1e6:.2f} GB")


if __name__ == "__main__":
    main()
