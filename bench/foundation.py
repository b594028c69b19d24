"""Speed of the foundation, as ratios within one run: `make bench`.

K = 500, lists of 10, 40,000 rounds. Each time is the best of several, in this process, after a first run.
"""

import os
import platform
import subprocess
import sys
import tempfile
import time

import numba
import numpy as np
from numpy_loop import numpy_loop

import steadyrank as sr
from steadyrank.contract import Problem, make, memory

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


def one_core(name, attraction, settings=None, horizon=40_000):
    def job():
        sr.simulate(name, attraction, length=10, horizon=horizon, seeds=[0], threads=1, marks=1, settings=settings)

    job()
    return best_of(5, job)


def first_result(cache):
    done = subprocess.run(
        [sys.executable, "-c", FIRST], env={**os.environ, "STEADYRANK_CACHE": cache}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    return float(done.stdout)


def bytes_an_item(name):
    problem = Problem(5000, 10, 40_000, 0, np.zeros(5000))
    return sum(array.nbytes for _, array in memory(make(sr.learners()[name], problem, settings={}))) / 5000


def main():
    print(
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
    )
    print(f"numba {numba.__version__}, numpy {np.__version__}, steadyrank {sr.__version__}\n")
    attraction = sr.profile("synthetic-spread").attraction
    peer = best_of(2, lambda: numpy_loop(attraction, 10, 40_000, 0))
    print(f"{'ten-line NumPy loop':<24} {peer:8.3f} s  {40_000 / peer:12,.0f} rounds/s")
    plain = one_core("CascadeUCBV", attraction)
    print(f"{'learner':<24} {'40,000 rounds':>10} {'rounds/s':>14} {'x NumPy':>9} {'x UCB-V':>9} {'bytes/item':>11}")
    for name in sr.learners():
        took = plain if name == "CascadeUCBV" else one_core(name, attraction)
        print(
            f"{name:<24} {took:8.3f} s  {40_000 / took:12,.0f} {peer / took:9.1f} {took / plain:9.2f} "
            f"{bytes_an_item(name):11.0f}"
        )
    for settings in (
        {"partition": "fresh"},
        {"partition": "averaged"},
        {"preset": "paper-alg"},
        {"preset": "paper-app"},
    ):
        took = one_core("MUCBV", attraction, {**settings, "corruption": 0})
        label = "MUCBV " + ",".join(map(str, settings.values()))
        print(f"{label:<24} {took:8.3f} s  {40_000 / took:12,.0f} {peer / took:9.1f} {took / plain:9.2f}")
    with tempfile.TemporaryDirectory() as cache:
        cold = first_result(cache)
        warm = min(first_result(cache) for _ in range(3))
    print(f"\nfirst result in a new process: {cold:.1f} s with an empty cache, {warm:.2f} s with a warm one")


if __name__ == "__main__":
    main()
