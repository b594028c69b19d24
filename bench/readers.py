"""The reader of MovieLens on a generated file of 32 million ratings: time and peak memory.

    python bench/readers.py [--ratings 32000000] [--folder DIR]

The ratio is to plain polars, which reads the same file into memory and averages by movie.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

LIMIT_GB = 2.0
ALONE = """
import sys, polars as pl
frame = pl.read_csv(sys.argv[1]).group_by("movieId").agg(pl.len(), pl.col("rating").mean())
print(frame.height)
"""


def generate(folder: pathlib.Path, n_ratings: int, n_movies: int = 87_585, n_users: int = 200_948) -> None:
    """Write ratings in the layout of MovieLens 32M: sorted by user, a long tail of movies."""
    rng = np.random.default_rng(0)
    import polars as pl

    with (folder / "ratings.csv").open("wb") as file:
        for start in range(0, n_ratings, 1 << 20):
            size = min(1 << 20, n_ratings - start)
            users = (np.arange(start, start + size) * n_users) // n_ratings + 1
            frame = pl.DataFrame(
                {
                    "userId": users,
                    "movieId": (n_movies * rng.random(size) ** 4).astype(np.int64) + 1,
                    "rating": rng.integers(1, 11, size) / 2,
                    "timestamp": rng.integers(10**9, 17 * 10**8, size),
                }
            )
            frame.write_csv(file, include_header=start == 0)
    titles = "".join(f'{movie},"Film, No. {movie}",Drama\n' for movie in range(1, n_movies + 1))
    (folder / "movies.csv").write_text("movieId,title,genres\n" + titles)


def measure(command: list[str]) -> tuple[float, float]:
    """Seconds and peak resident memory in GB of a child process."""
    begin = time.perf_counter()
    with subprocess.Popen(command) as child:
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = status
    if status:
        sys.exit(f"{command} failed")
    return time.perf_counter() - begin, usage.ru_maxrss / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ratings", type=int, default=32_000_204)
    parser.add_argument("--folder", type=pathlib.Path, default=None)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = pathlib.Path(name)
        generate(folder, options.ratings)
        print(f"{options.ratings:,} ratings, {(folder / 'ratings.csv').stat().st_size / 1e6:,.0f} MB")
        build = [sys.executable, "-m", "steadyrank.cli", "profile", "build", "movielens", "--from", name]
        ours, memory = measure([*build, "--out", str(folder / "profile.json")])
        alone, alone_memory = measure([sys.executable, "-c", ALONE, str(folder / "ratings.csv")])
        print(f"steadyrank profile build: {ours:.1f} s, {memory:.2f} GB at most (limit {LIMIT_GB:g} GB)")
        print(f"polars alone:             {alone:.1f} s, {alone_memory:.2f} GB; ratio of time {ours / alone:.2f}")
        if memory > LIMIT_GB:
            sys.exit(f"{memory:.2f} GB is more than {LIMIT_GB:g} GB")


if __name__ == "__main__":
    main()
