"""Run one peer library on the common job, in its own environment: python peer_worker.py NAME ATTRACTION.json SECONDS.

500 items, lists of ten, cascade users, feedback on the examined items. Prints one line of JSON.
"""

import json
import resource
import sys
import time

STARTED = time.perf_counter()
MODULES = {
    "mabwiser": "mabwiser.mab", "numpy": "numpy", "smpybandits": "SMPyBandits.Policies.UCBV",
    "steadyrank": "steadyrank", "vowpalwabbit": "vowpalwabbit",
}  # fmt: skip


def mabwiser(n_items, length):
    import numpy as np
    from mabwiser.mab import MAB, LearningPolicy

    mab = MAB(list(range(n_items)), LearningPolicy.UCB1(alpha=1.0), seed=1)
    mab.fit(list(range(n_items)), [0] * n_items)

    def rank():
        expectation = mab.predict_expectations()
        return np.argsort([-expectation[k] for k in range(n_items)])[:length].tolist()

    return rank, lambda items, bits: mab.partial_fit(items, bits)


def vowpalwabbit(n_items, length):
    import numpy as np
    from vowpalwabbit import Workspace

    vw = Workspace("--cb_explore_adf --squarecb --quiet --cb_type mtr")
    actions = [f"| item{k}" for k in range(n_items)]
    latest = [None]

    def rank():
        latest[0] = vw.predict(["shared | ", *actions])
        return np.argsort([-p for p in latest[0]])[:length].tolist()

    def feedback(items, bits):
        for item, bit in zip(items, bits, strict=True):
            rows = list(actions)
            rows[item] = f"0:{-bit}:{max(latest[0][item], 1e-3)} {actions[item]}"
            vw.learn(["shared | ", *rows])

    return rank, feedback


def smpybandits(n_items, length):
    from SMPyBandits.Policies.UCBV import UCBV

    policy = UCBV(n_items)
    policy.startGame()

    def feedback(items, bits):
        for item, bit in zip(items, bits, strict=True):
            policy.getReward(item, bit)

    return lambda: [int(k) for k in policy.choiceMultiple(length)], feedback


def numpy(n_items, length):
    import numpy as np

    seen, wins, t = np.ones(n_items), np.zeros(n_items), [0]

    def rank():
        t[0] += 1
        mean, lt = wins / seen, np.log(max(t[0], 2))
        index = np.minimum(mean + np.sqrt(4 * mean * (1 - mean) * lt / seen) + 6 * lt / seen, 1)
        best = np.argpartition(index, -length)[-length:]
        return best[np.argsort(-index[best])].tolist()

    def feedback(items, bits):
        seen[items] += 1
        wins[items] += bits

    return rank, feedback


def steadyrank(n_items, length):
    import numpy as np

    import steadyrank as sr
    from steadyrank.core.contract import NOTE_EXTRA, Problem
    from steadyrank.core.discovery import make
    from steadyrank.core.dispatch import call_rank, call_update

    learner = make(sr.learners()["CascadeUCBV"], Problem(n_items, length, 0, 0, np.zeros(n_items)), settings={})
    allowed, ranking = np.ones(n_items, np.bool_), np.zeros(length, np.int64)
    note, clicks, rng = np.zeros(length + NOTE_EXTRA), np.zeros(length, np.bool_), np.random.default_rng(0)
    code = (
        call_rank.bind(learner, 1, allowed, ranking, note, rng),
        call_update.bind(learner, 1, ranking, note, clicks, 1),
    )
    t = [0]

    def rank():
        t[0] += 1
        code[0](learner, t[0], allowed, ranking, note, rng)
        return ranking.tolist()

    def feedback(items, bits):
        clicks[:] = False
        clicks[: len(bits)] = bits
        code[1](learner, t[0], ranking, note, clicks, len(bits))

    return rank, feedback


def main():
    name, path, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
    with open(path) as file:
        attraction = json.load(file)
    begin = time.perf_counter()
    __import__(MODULES[name])
    imported = time.perf_counter() - begin
    rank, feedback = globals()[name](len(attraction), 10)
    import random

    users = random.Random(0)
    rank_times, feedback_times, rounds, first = [], [], 0, None
    begin = time.perf_counter()
    while rounds < 100 or time.perf_counter() - begin < seconds:
        a = time.perf_counter()
        items = rank()
        b = time.perf_counter()
        bits = []
        for item in items:
            bits.append(int(users.random() < attraction[item]))
            if bits[-1]:
                break
        c = time.perf_counter()
        feedback(items[: len(bits)], bits)
        d = time.perf_counter()
        rank_times.append(b - a)
        feedback_times.append(d - c)
        rounds += 1
        first = first or d - STARTED
    spent = sum(rank_times) + sum(feedback_times)
    rank_times.sort()
    feedback_times.sort()
    print(
        json.dumps(
            {
                "rounds_per_second": rounds / spent,
                "rank_p50": rank_times[rounds // 2],
                "rank_p99": rank_times[int(0.99 * rounds)],
                "feedback_p50": feedback_times[rounds // 2],
                "feedback_p99": feedback_times[int(0.99 * rounds)],
                "import": imported,
                "first": first,
                "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            }
        )
    )


if __name__ == "__main__":
    main()
