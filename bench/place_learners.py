"""Learners for position-based users beside the public code of their authors, on one instance.

    git clone <the repository gaudel/ranking_bandits> there
    python bench/place_learners.py there

Five items, attention 1, 0.6 and 0.3. Both are driven with users of the same law, not of the same luck; ours in the
simulator, theirs call by call. Their modules need scipy and numpy alone; names that numpy has dropped are put back.
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

ATTRACTION, ATTENTION = np.array([0.05, 0.25, 0.45, 0.15, 0.35]), np.array([1.0, 0.6, 0.3])
TOLD = {"attention": ATTENTION.tolist()}
JOBS = {  # learner: settings, seeds of ours and of theirs, rounds
    "GRAB": ({}, 200, 60, 2_000),
    "PBMUCB": (TOLD, 200, 60, 2_000),
    "PBMTS": (TOLD, 200, 10, 1_000),
    "PBMHB": ({}, 200, 6, 1_000),
}


def players(folder: str) -> dict[str, Callable[[int], Any]]:
    """Their learners, by the name of ours, for a horizon."""
    sys.path.insert(0, folder)
    vars(np).update({"int": int, "float": float})
    for name in ("tensorflow", "tensorflow_probability"):  # imported, and not used by these
        sys.modules.setdefault(name, types.ModuleType(name))
    from bandits_to_rank.opponents import grab, pb_mhb, pbm_ts, pbm_ucb  # type: ignore[import-not-found]

    k, d = ATTRACTION.size, ATTENTION.size
    return {
        "GRAB": lambda horizon: grab.GRAB(k, d, horizon, 10),
        "PBMUCB": lambda _: pbm_ucb.PBM_UCB_semi_oracle(k, 0.0, d, ATTENTION),
        "PBMTS": lambda _: pbm_ts.PBM_TS_semi_oracle(k, d, ATTENTION, prior_s=1, prior_f=1),
        "PBMHB": lambda _: pb_mhb.PB_MHB(
            k, d, proposal_method=pb_mhb.propos_trunk_GRW(vari_sigma=True, c=1000), step=1, prior_s=0.0, prior_f=0.0
        ),
    }


def theirs(name: str, make: Callable[[int], Any], horizon: int, seed: int) -> float:
    """Regret of their learner."""
    np.random.seed(seed)  # noqa: NPY002  (theirs draw from it)
    random.seed(seed)
    rng, player = np.random.default_rng([seed, 1]), make(horizon)
    k, d = ATTRACTION.size, ATTENTION.size
    best, lost = np.sort(ATTRACTION)[::-1][:d] @ ATTENTION, 0.0
    for t in range(horizon):
        start = name == "PBMUCB" and t < k  # it divides by counts that must not be 0
        shown = (t + np.arange(d)) % k if start else np.array(player.choose_next_arm()[0])
        player.update(shown, (rng.random(d) < ATTRACTION[shown] * ATTENTION).astype(int))
        lost += best - ATTRACTION[shown] @ ATTENTION
    return float(lost)


def row(who: str, lost: Any, seconds: float, horizon: int) -> str:
    error = np.std(lost, ddof=1) / len(lost) ** 0.5
    return f"{who}: {np.mean(lost):.1f} +- {error:.1f}, {1e6 * seconds / len(lost) / horizon:.1f} us a round"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="a checkout of ranking_bandits")
    parser.add_argument("--learner", choices=JOBS, action="append")
    chosen = parser.parse_args()
    public = players(chosen.folder)
    for name in chosen.learner or JOBS:
        settings, n_ours, n_theirs, horizon = JOBS[name]
        world = {"length": ATTENTION.size, "horizon": horizon, "settings": settings, "threads": 1}
        users = {"users": "PositionBased", "users_settings": TOLD}
        sr.simulate(name, ATTRACTION, seeds=[0], **world, **users)  # compiles
        start = time.perf_counter()
        lost = sr.simulate(name, ATTRACTION, seeds=range(n_ours), **world, **users).final
        print(f"{name}, {horizon} rounds")
        print(row("  ours  ", lost, time.perf_counter() - start, horizon))
        start = time.perf_counter()
        found = [theirs(name, public[name], horizon, seed) for seed in range(n_theirs)]
        print(row("  public", found, time.perf_counter() - start, horizon), flush=True)


if __name__ == "__main__":
    main()
