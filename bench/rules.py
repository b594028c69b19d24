"""What rules add to the time of a list: python bench/rules.py [--calls 3000] [--items 529].

Processor time of `Ranker.rank` under rules, as a ratio to that without, the two in turns in one run; and of the
service's own part of a request, which is what a visitor waits for. Every list is answered, so that the learner is one
that has learnt. Beside the lists that the learner's own
choice keeps anyway, there are rules that change nearly every list: then the learner may have to rank again. How long
that takes of the time of a list stands in the column `again`. How often a list of 7 is how a list of 10 begins is
printed as well: how far a longer list would tell what comes next.
"""

import argparse
import http.client
import json
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

import steadyrank as sr
from steadyrank.client import Client
from steadyrank.core.contract import Visit

LENGTH = 10


def kinds(order):
    """Rules by name, for items in the order of how attractive they are."""
    half = order[: len(order) // 2]
    brands = {f"brand {b}": {"items": order[b::20], "most": 3} for b in range(20)}
    return {
        "exclude 3, kept already": {"exclude": order[-3:]},
        "20 brands, at most 3": {"groups": brands},
        "exclude 3 of the best": {"exclude": order[:3]},
        "pins 2": {"pins": {order[-1]: 2, order[-2]: 5}},
        "boost 3": {"boosts": {order[20]: 2.0, order[21]: 1.5, order[30]: 3.0}},
        "at most 1 of the best 4": {"groups": {"best": {"items": order[:4], "most": 1}}},
        "at most 5 of the better half": {"groups": {"half": {"items": half, "most": 5}}},
        "include 1 of the 5 worst": {"include": {"few": {"items": order[-5:]}}},
        "all of these": {
            "exclude": order[:3],
            "pins": {order[-1]: 2, order[-2]: 5},
            "boosts": {order[20]: 2.0, order[30]: 3.0},
            "groups": brands,
            "include": {"few": {"items": order[-7:-2]}},
        },
    }


def learnt(n_items, rounds):
    """A ranker that has learnt, and its items, best first."""
    rng = np.random.default_rng(0)
    attraction = np.sort(rng.beta(0.5, 8.0, n_items))[::-1]
    names = [f"item {k}" for k in range(n_items)]
    ranker = sr.Ranker(names, LENGTH)
    slots = {name: k for k, name in enumerate(names)}
    for _ in range(rounds):
        shown = ranker.rank()
        bits = rng.random(LENGTH) < attraction[[slots[item] for item in shown.items]]
        ranker.feedback(shown.id, clicked=shown.items[int(np.argmax(bits))] if bits.any() else None)
    return ranker, names


def served(order, rounds, port):
    """A server with a board that has learnt; its process."""
    folder = tempfile.mkdtemp()
    command = [sys.executable, "-m", "steadyrank.cli", "serve", "--store", f"sqlite:///{folder}/s.db"]
    server = subprocess.Popen([*command, "--port", str(port)], stderr=subprocess.DEVNULL)
    client = Client(f"http://127.0.0.1:{port}", tries=100, timeout=60)
    client.put_board("b", items=order, length=LENGTH, guard="Anyone", settle=0, client_lists=1_000_000)
    rng, attraction = np.random.default_rng(0), np.sort(np.random.default_rng(0).beta(0.5, 8.0, len(order)))[::-1]
    for _ in range(rounds):
        shown = client.rank("b")
        bits = rng.random(LENGTH) < attraction[[order.index(item) for item in shown.items]]
        client.feedback("b", shown.impression, clicked=shown.items[int(np.argmax(bits))] if bits.any() else None)
    return server, client


def seconds_of(process):
    """Processor time that all threads of a process have taken, to the nanosecond."""
    threads = pathlib.Path(f"/proc/{process.pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9


def ranking_again(ranker, rules, calls):
    """Nanoseconds, the median list's, that the learner takes for what it ranks beside its own list."""
    state, taken = ranker._learner_state, []
    rank_allowed = state._rank_allowed

    def timed(*given):
        begin = time.process_time_ns()
        ranked = rank_allowed(*given)
        times.append(time.process_time_ns() - begin)
        return ranked

    state._rank_allowed = timed
    for _ in range(calls):
        times = []
        ranker.rank(rules=rules)
        taken.append(sum(times[1:]))
    state._rank_allowed = rank_allowed
    return statistics.median(taken)


def begins_longer(ranker, shorter=7, pairs=300):
    """How often a short list is how a list of LENGTH begins that is drawn by the same chance."""
    alike = 0
    for seed in range(pairs):
        lists = [
            ranker._learner_state.rank(Visit(5_000 + seed), None, size, np.random.default_rng(seed))[0].tolist()
            for size in (shorter, LENGTH)
        ]
        alike += lists[0] == lists[1][:shorter]
    return alike / pairs


def over_http(order, calls, port):
    """The server's processor time of a list, without rules and under those of the board, in turns."""
    server, client = served(order, 1_500, port)
    connection = http.client.HTTPConnection("127.0.0.1", port)
    print(f"\nover HTTP, microseconds of processor time a list: medians of five turns of {calls // 5:,} lists")
    for name, rules in kinds(order).items():
        taken = [], []
        for turn in range(10):
            client.put_board("b", rules=rules if turn % 2 else None)
            begin = seconds_of(server)
            for _ in range(calls // 5):
                connection.request("POST", "/v1/boards/b/rank", b"{}")
                answer = connection.getresponse()
                content = answer.read()
                if answer.status != 200:
                    raise RuntimeError(json.loads(content))
            taken[turn % 2].append((seconds_of(server) - begin) / (calls // 5))
        without, ruled = (1e6 * statistics.median(each) for each in taken)
        print(f"{name:<28}{without:>9.0f}{ruled:>9.0f}{ruled / without:>8.2f}", flush=True)
    client.close()
    server.send_signal(signal.SIGTERM)
    server.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=3_000)
    parser.add_argument("--items", type=int, default=529)
    parser.add_argument("--port", type=int, default=8391)
    options = parser.parse_args()
    ranker, order = learnt(options.items, 4_000)
    print(f"K = {options.items:,}, microseconds of processor time, medians of {options.calls:,} calls")
    print(f"{'':<28}{'without':>9}{'with':>9}{'ratio':>8}{'again':>8}")
    for name, rules in kinds(order).items():
        made, times = sr.Rules(**rules), ([], [])
        for call in range(2 * options.calls):
            begin = time.process_time_ns()
            ranker.rank(rules=made if call % 2 else None)
            times[call % 2].append(time.process_time_ns() - begin)
        without, ruled = (statistics.median(each) / 1e3 for each in times)
        again = ranking_again(ranker, made, options.calls // 5) / 1e3
        print(f"{name:<28}{without:>9.1f}{ruled:>9.1f}{ruled / without:>8.2f}{again:>8.1f}", flush=True)
    print(
        f"\na list of 7 is how one of {LENGTH} begins in {begins_longer(ranker):.0%} of 300 pairs by the same chance"
    )
    over_http(order, options.calls, options.port)


if __name__ == "__main__":
    main()
