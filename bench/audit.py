"""An audit of a large log: time against polars merely reading the file, and peak memory. python bench/audit.py."""

import argparse
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
SCAN = """
import polars as pl, sys
pl.scan_parquet(sys.argv[1]).select(pl.all().hash().sum()).collect(engine="streaming")
"""


def write(path: pathlib.Path, n: int, length: int = 10) -> None:
    """A log of n impressions of random lists, a tenth of it attacked."""
    attraction = profile("yelp-pizza", "moderate").attraction
    names = np.array([f"item-{k:05d}" for k in range(attraction.size)])
    rng = np.random.default_rng(0)
    bottom = attraction < np.median(attraction)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        for start in range(0, n, PART):
            m = min(PART, n - start)
            lists = rng.random((m, 60)).argsort(axis=1)[:, :length]
            lists = (lists + rng.integers(0, attraction.size, (m, 1))) % attraction.size
            bits = rng.random((m, length)) < attraction[lists]
            now = np.arange(start, start + m)
            false = (now >= 0.4 * n) & (now < 0.5 * n)
            bits[false] = bottom[lists[false]]
            place = np.where(bits.any(axis=1), bits.argmax(axis=1) + 1, 0)
            items = pl.Series("items", names[lists].ravel()).reshape((m, length)).cast(pl.List(pl.String))
            frame = pl.DataFrame({"items": items, "clicked_position": place, "time": now})
            frame.write_parquet(pathlib.Path(folder, f"{start:012d}.parquet"))
        pl.scan_parquet(pathlib.Path(folder, "*.parquet")).sink_parquet(path)


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
    options = parser.parse_args()
    if options.planted:
        import audit_planted

        audit_planted.run(options.seeds, options.first_seed)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "log.parquet")
        write(path, options.impressions)
        base, _ = timed([sys.executable, "-c", "import polars"])
        scan = min(timed([sys.executable, "-c", SCAN, str(path)])[0] for _ in range(3)) - base
        page = str(pathlib.Path(folder, "audit.html"))
        audit = [sys.executable, "-m", "steadyrank.cli", "audit", str(path), "--page", page]
        took, told = timed(audit)
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6
        print(told)
        print(f"{options.impressions:,} impressions, {path.stat().st_size / 1e6:.0f} MB of Parquet")
        print(f"polars reading every value: {scan:.2f} s; audit: {took:.1f} s = {took / scan:.0f} times")
        print(f"peak memory: {peak:.2f} GB")


if __name__ == "__main__":
    main()
