"""Cost per round and memory by K and d: python bench/scaling.py [--most 50000] [--thompson]. Part of `make bench`.

Items are the quantiles of sigmoid(N(-2, 1.2)). Index learners must not cost more than 25 times as much per round with
50,000 items as with 500. Then Thompson sampling with up to a million items (`--thompson`: only that), with honest
users and with the first 15 % of the rounds inverted: processor time without initialisation, which is shown
separately; a million items must not cost more than 4 times as much per round as 500. And the memory of unseen items.
"""

import argparse
import itertools
import math
import pathlib
import statistics
import time

import numpy as np
from drawing import draw_lines, write_table

import steadyrank as sr
from steadyrank.core.contract import Problem, memory
from steadyrank.core.discovery import make

THOMPSON = ["CascadeTS", "SteadyRank"]
ATTACKED = 0.15  # of the rounds
INDEX = ["CascadeUCB1", "CascadeUCBV", "CascadeKLUCB", "TimeBlocks", "MUCBV", "M2UCBV"]
LIMIT = 25


def attraction(n_items):
    law = statistics.NormalDist(-2.0, 1.2)
    values = np.array([1 / (1 + math.exp(-law.inv_cdf((i + 0.5) / n_items))) for i in range(n_items)])
    return np.random.default_rng(0).permutation(values)


def cost(name, values, length, rounds):
    """Microseconds per round, after compilation."""
    for horizon in (10, rounds):
        begin = time.perf_counter()
        sr.simulate(name, values, length=length, horizon=horizon, seeds=[0], threads=1, marks=1)
        took = time.perf_counter() - begin
    return 1e6 * took / rounds


def cost_after_start(name, values, rounds, attacked, runs=2):
    """Microseconds of processor time per round, and seconds before the first one; the best of several runs each."""
    begun, ended = [], []
    for horizon, found in [(10, [])] + runs * [(10, begun), (rounds, ended)]:
        attack = {"adversary": "PrefixFlip", "budget": int(ATTACKED * horizon)} if attacked else {}
        start = time.process_time()
        sr.simulate(name, values, length=10, horizon=horizon, seeds=[0], threads=1, marks=1, **attack)
        found.append(time.process_time() - start)
    return 1e6 * (min(ended) - min(begun)) / rounds, min(begun)


def resident():
    """Resident memory of this process in bytes."""
    return 1024 * int(pathlib.Path("/proc/self/status").read_text().split("VmRSS:")[1].split()[0])


def bytes_unseen(name, n_items):
    """Bytes of a learner's memory per item before any look."""
    make(sr.learners()[name], Problem(10, 10), settings={})  # compiled before
    before = resident()
    kept = make(sr.learners()[name], Problem(n_items, 10), settings={})
    found = (resident() - before) / n_items
    del kept
    return found


def thompson(rounds):
    """One row per learner, number of items and attack."""
    print(f"\nThompson sampling, {rounds:,} rounds, lists of 10: microseconds a round (and seconds to begin)")
    sizes = (500, 5_000, 50_000, 1_000_000)
    print(f"{'':<22}" + "".join(f"{f'K = {k:,}':>18}" for k in sizes) + f"{'ratio':>8}{'bytes unseen':>14}")
    rows = []
    worlds = {k: attraction(k) for k in sizes}
    for name, attacked in itertools.product(THOMPSON, ("honest", "attacked")):
        found = [cost_after_start(name, worlds[k], rounds, attacked == "attacked") for k in sizes]
        rows += [{"learner": name, "feedback": attacked, "items": k, "us": us, "start": start}
                 for k, (us, start) in zip(sizes, found, strict=True)]  # fmt: skip
        ratio = found[-1][0] / found[0][0]
        shown = "".join(f"{us:10.2f} ({start:.2f})" for us, start in found)
        warning = "  above 4" if ratio > 4 else ""
        unseen = bytes_unseen(name, sizes[-1])
        print(f"{name + ', ' + attacked:<22}{shown}{ratio:8.1f}{unseen:14.0f}{warning}", flush=True)
    curves = {
        f"{name}, {attacked}": (sizes, [r["us"] for r in rows if (r["learner"], r["feedback"]) == (name, attacked)])
        for name, attacked in itertools.product(THOMPSON, ("honest", "attacked"))
    }
    title = "Microseconds a round against the number of items"
    draw_lines("scaling-thompson", title, "items", "microseconds a round", curves)
    write_table("scaling-thompson", rows)


def bytes_in_all(name, n_items):
    problem = Problem(n_items, 10, 1_000_000, 0, np.zeros(n_items))
    return sum(array.nbytes for _, array in memory(make(sr.learners()[name], problem, settings={})))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=1_000_000)
    parser.add_argument("--thompson", action="store_true")
    options = parser.parse_args()
    if options.thompson:
        thompson(100_000)
        return
    sizes = [k for k in (500, 5_000, 50_000, 500_000) if k <= options.most]
    worlds = {k: attraction(k) for k in sizes}
    print(f"microseconds a round over {options.rounds:,} rounds, lists of 10")
    print(f"{'learner':<14}" + "".join(f"{f'K = {k:,}':>14}" for k in sizes) + f"{'ratio':>8}{'bytes/item':>12}")
    rows = []
    for name in INDEX:
        costs = [cost(name, worlds[k], 10, options.rounds) for k in sizes]
        rows += [{"learner": name, "items": k, "length": 10, "us": c, "bytes": bytes_in_all(name, k)}
                 for k, c in zip(sizes, costs, strict=True)]  # fmt: skip
        ratio = costs[-1] / costs[0]
        shown = "".join(f"{c:14.2f}" for c in costs)
        warning = f"  above {LIMIT}" if ratio > LIMIT else ""
        print(f"{name:<14}{shown}{ratio:8.1f}{bytes_in_all(name, sizes[-1]) / sizes[-1]:12.0f}{warning}", flush=True)
    for column, label in (("us", "microseconds a round"), ("bytes", "bytes of memory")):
        curves = {name: (sizes, [row[column] for row in rows if row["learner"] == name]) for name in INDEX}
        draw_lines(f"scaling-{column}", f"{label.capitalize()} against the number of items", "items", label, curves)
    print("\nthe same by the length of the list, K = 500")
    for name in INDEX:
        costs = [cost(name, worlds[500], d, options.rounds // 5) for d in (5, 10, 50)]
        rows += [{"learner": name, "items": 500, "length": d, "us": c, "bytes": bytes_in_all(name, 500)}
                 for d, c in zip((5, 10, 50), costs, strict=True)]  # fmt: skip
        shown = [f"d = {d}: {c:.2f}" for d, c in zip((5, 10, 50), costs, strict=True)]
        print(f"{name:<14}{'   '.join(shown)}", flush=True)
    write_table("scaling", rows)
    thompson(100_000)


if __name__ == "__main__":
    main()
