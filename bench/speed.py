"""Speed as ratios within one run: python bench/speed.py. Part of `make bench`.

K = 500, lists of 10, 40,000 rounds, one core. Each time is the best of several in this process, after a first run.
The NumPy loop does less than ours (no ties, no adversary, no marks).
"""

import math
import os
import platform
import subprocess
import sys
import tempfile
import time

import numba
import numpy as np
from numpy_loop import numpy_loop
from plain_ucbv import PlainUCBV

import steadyrank as sr
from steadyrank.core.contract import Problem, memory
from steadyrank.core.discovery import make

PROFILES = ("synthetic-low", "synthetic-spread", "synthetic-mid")
WITH_FEATURES = {
    "C3UCB",
    "CascadeLinTS",
    "CascadeLinUCB",
    "CascadeMixedTS",
    "CascadeWOFUL",
    "UCBCLB",
    "VAC2UCB",
}  # bench/context.py times them
FIRST = """
import time; start = time.perf_counter()
import steadyrank as sr
p = sr.profile("synthetic-spread")
sr.simulate("CascadeUCBV", p.attraction, length=10, horizon=40_000, seeds=[0])
print(time.perf_counter() - start)
"""


def best_of(runs, job):
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        job()
        times.append(time.perf_counter() - start)
    return min(times)


def one_core(learner, attraction, settings=None, horizon=40_000, runs=7, first=True, seeds=1):
    """Seconds per seed."""

    def job():
        chosen = {"length": 10, "horizon": horizon, "seeds": range(seeds), "threads": 1, "marks": 1}
        sr.simulate(learner, attraction, settings=settings, **chosen)

    if first:
        job()
    return best_of(runs, job) / seeds


def timed(*command, environment=None):
    """Seconds of a new process, best of five."""
    run = {"env": {**os.environ, **(environment or {})}, "capture_output": True, "check": True}
    return best_of(5, lambda: subprocess.run([sys.executable, *command], **run))


def first_result(cache):
    environment = {**os.environ, "STEADYRANK_CACHE": cache}
    done = subprocess.run([sys.executable, "-c", FIRST], env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout)


def bytes_an_item(name):
    problem = Problem(5000, 10, 40_000, 0, np.zeros(5000))
    return sum(array.nbytes for _, array in memory(make(sr.learners()[name], problem, settings={}))) / 5000


def geometric(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def headline():
    """The ratios that must hold, by profile and as geometric means."""
    print(
        f"{'profile':<18}{'NumPy loop':>12}{'CascadeUCBV':>13}{'x NumPy':>9}{'x plain':>9}{'KL-UCB':>8}{'M2UCBV':>8}"
    )
    rows = []
    for name in PROFILES:
        attraction = sr.profile(name).attraction
        contestants = {"CascadeUCBV": [], PlainUCBV: [], "CascadeKLUCB": [], "M2UCBV": []}
        peers = []
        for turn in range(11):  # in turns, so that other load on the machine affects all alike
            if turn % 4 == 1:
                peers.append(best_of(1, lambda attraction=attraction: numpy_loop(attraction, 10, 40_000, 0)))
            for learner, times in contestants.items():
                times.append(one_core(learner, attraction, runs=1, first=turn == 0, seeds=3))
        peer, (ours, plain, kl, medians) = min(peers), map(min, contestants.values())
        rows.append((peer / ours, plain / ours, kl / ours, medians / ours))
        print(
            f"{name:<18}{peer:10.3f} s{ours:11.4f} s"
            + "".join(f"{v:{w}.2f}" for v, w in zip(rows[-1], (9, 9, 8, 8), strict=True))
        )
    means = [geometric(column) for column in zip(*rows, strict=True)]
    print(f"{'geometric mean':<43}" + "".join(f"{v:{w}.2f}" for v, w in zip(means, (9, 9, 8, 8), strict=True)))
    print("wanted: x NumPy 25 or more, x plain 2 or more on each; KL-UCB and M2UCBV (times CascadeUCBV) 2 or less\n")


def every_learner():
    attraction = sr.profile("synthetic-spread").attraction
    peer = best_of(2, lambda: numpy_loop(attraction, 10, 40_000, 0))
    print(f"{'synthetic-spread':<24} {'40,000 rounds':>10} {'rounds/s':>14} {'x NumPy':>9} {'bytes/item':>11}")
    for name in sorted(set(sr.learners()) - WITH_FEATURES):
        took = one_core(name, attraction, runs=2)
        print(f"{name:<24} {took:8.3f} s  {40_000 / took:12,.0f} {peer / took:9.1f} {bytes_an_item(name):11.0f}")
    for settings in (
        {"partition": "fresh"},
        {"partition": "averaged"},
        {"preset": "paper-alg"},
        {"preset": "paper-app"},
    ):
        took = one_core("MUCBV", attraction, {**settings, "corruption": 0}, runs=2)
        label = "MUCBV " + ",".join(map(str, settings.values()))
        print(f"{label:<24} {took:8.3f} s  {40_000 / took:12,.0f} {peer / took:9.1f}")


def around():
    """Replication on two cores, imports, first results."""
    attraction = sr.profile("synthetic-spread").attraction

    def replicate(threads):
        sr.simulate("CascadeUCBV", attraction, length=10, horizon=400_000, seeds=range(8), threads=threads, marks=1)

    one, two = best_of(3, lambda: replicate(1)), best_of(3, lambda: replicate(2))
    print(f"\n8 seeds: {one:.2f} s on one core, {two:.2f} s on two: {one / two:.2f} times as fast (wanted: 1.6)")
    bare = timed("-c", "pass")
    print(f"import steadyrank: {timed('-c', 'import steadyrank') - bare:.3f} s (limit 0.3)")
    print(f"steadyrank --help: {timed('-m', 'steadyrank.cli', '--help'):.3f} s (limit 0.5)")
    with tempfile.TemporaryDirectory() as cache:
        cold = first_result(cache)
        warm = min(first_result(cache) for _ in range(3))
    print(f"first result in a new process: {cold:.1f} s with an empty cache, {warm:.2f} s with a warm one")


def main():
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    print(f"numba {numba.__version__}, numpy {np.__version__}, steadyrank {sr.__version__}\n")
    headline()
    every_learner()
    around()


if __name__ == "__main__":
    main()
