"""Compare learners for position-based users with the public code of their authors, on one instance.

    git clone <the repository gaudel/ranking_bandits> there
    python bench/place_learners.py there [--instance std] [--shuffle-ties]

`five`: five items, attention 1, 0.6 and 0.3; `std`: the ten items and five places of that repository's setting of
this name, attention in its order. Both run with users of the same distribution, but not the same random numbers; ours
in the simulator, theirs call by call. Their modules need only scipy and numpy; names that numpy has dropped are
restored.
"""

import argparse
import random
import sys
import time
import types
from collections.abc import Callable
from typing import Any

import numpy as np

import steadyrank as sr

INSTANCES = {  # attractions and attention
    "five": (np.array([0.05, 0.25, 0.45, 0.15, 0.35]), np.array([1.0, 0.6, 0.3])),
    "std": (
        np.array([0.15, 0.01, 0.2, 0.1, 0.05, 0.3, 0.15, 0.01, 0.05, 0.15]),
        np.array([1.0, 0.75, 0.6, 0.3, 0.1]),
    ),
}
JOBS = {  # learner: whether it is told the attention, seeds of ours and of theirs, rounds
    "GRAB": (False, 200, 60, 2_000),
    "PBMUCB": (True, 200, 60, 2_000),
    "PBMTS": (True, 200, 10, 1_000),
    "PBMHB": (False, 200, 6, 1_000),
}


def players(
    folder: str, attraction: np.ndarray, attention: np.ndarray, shuffle_ties: bool
) -> dict[str, Callable[[int], Any]]:
    """Factories of their learners for a horizon, by the names of ours."""
    sys.path.insert(0, folder)
    vars(np).update({"int": int, "float": float})
    for name in ("tensorflow", "tensorflow_probability"):  # imported, and not used by these
        sys.modules.setdefault(name, types.ModuleType(name))
    from bandits_to_rank.opponents import grab, pb_mhb, pbm_ts, pbm_ucb  # type: ignore[import-not-found]

    if shuffle_ties:
        solve, chance = grab.linear_sum_assignment, np.random.default_rng(5)
        grab.linear_sum_assignment = lambda cost: solve(cost + 1e-9 * chance.random(cost.shape))
    k, d = attraction.size, attention.size
    return {
        "GRAB": lambda horizon: grab.GRAB(k, d, horizon, 10),
        "PBMUCB": lambda _: pbm_ucb.PBM_UCB_semi_oracle(k, 0.0, d, attention),
        "PBMTS": lambda _: pbm_ts.PBM_TS_semi_oracle(k, d, attention, prior_s=1, prior_f=1),
        "PBMHB": lambda _: pb_mhb.PB_MHB(
            k, d, proposal_method=pb_mhb.propos_trunk_GRW(vari_sigma=True, c=1000), step=1, prior_s=0.0, prior_f=0.0
        ),
    }


def theirs(
    name: str, make: Callable[[int], Any], world: tuple[np.ndarray, np.ndarray], horizon: int, seed: int
) -> float:
    """Regret of their learner."""
    np.random.seed(seed)  # noqa: NPY002  (theirs draw from it)
    random.seed(seed)
    rng, player = np.random.default_rng([seed, 1]), make(horizon)
    attraction, attention = world
    k, d = attraction.size, attention.size
    best, lost = np.sort(attraction)[::-1][:d] @ np.sort(attention)[::-1], 0.0
    for t in range(horizon):
        start = name == "PBMUCB" and t < k  # it divides by counts that must not be 0
        shown = (t + np.arange(d)) % k if start else np.array(player.choose_next_arm()[0])
        player.update(shown, (rng.random(d) < attraction[shown] * attention).astype(int))
        lost += best - attraction[shown] @ attention
    return float(lost)


def row(who: str, lost: Any, seconds: float, horizon: int) -> str:
    error = np.std(lost, ddof=1) / len(lost) ** 0.5
    return f"{who}: {np.mean(lost):.1f} +- {error:.1f}, {1e6 * seconds / len(lost) / horizon:.1f} us a round"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="a checkout of ranking_bandits")
    parser.add_argument("--learner", choices=JOBS, action="append")
    parser.add_argument("--runs", type=int, help="seeds of theirs (default: 6 to 60, by their speed)")
    parser.add_argument("--shuffle-ties", action="store_true", help="of their GRAB, which prefers low item numbers")
    parser.add_argument("--instance", choices=INSTANCES, default="five")
    chosen = parser.parse_args()
    attraction, attention = instance = INSTANCES[chosen.instance]
    public, told = players(chosen.folder, *instance, chosen.shuffle_ties), {"attention": attention.tolist()}
    for name in chosen.learner or JOBS:
        is_told, n_ours, n_theirs, horizon = JOBS[name]
        world = {"length": attention.size, "horizon": horizon, "settings": told if is_told else {}, "threads": 1}
        users = {"users": "PositionBased", "users_settings": told}
        sr.simulate(name, attraction, seeds=[0], **world, **users)  # compiles
        start = time.perf_counter()
        lost = sr.simulate(name, attraction, seeds=range(n_ours), **world, **users).final
        print(f"{name}, {horizon} rounds")
        print(row("  ours  ", lost, time.perf_counter() - start, horizon))
        start = time.perf_counter()
        found = [theirs(name, public[name], instance, horizon, seed) for seed in range(chosen.runs or n_theirs)]
        print(row("  public", found, time.perf_counter() - start, horizon), flush=True)


if __name__ == "__main__":
    main()
