"""An adversary of your own in one class: python examples/own_adversary.py."""

import argparse
from typing import Any, NamedTuple

import numpy as np

import steadyrank as sr
from steadyrank.adversaries.budget import Budget, can_spend, remember, settle
from steadyrank.adversaries.targets import choose_targets
from steadyrank.contract import ANYONE
from steadyrank.testing import check_adversary


class Lurker(NamedTuple):
    """Fake visitors who click a target only if it stands low in the list, as a rare find would be clicked.

    They bet that a click far down looks more sincere than one at the top. `depth` is the first position they click.
    """

    budget: Budget
    users: Any
    target: np.ndarray  # [K] items to be pushed
    depth: int

    cascade = True  # a cascade user could have sent this

    @classmethod
    def create(cls, problem, users, budget, *, schedule="front", n_bursts=5, targets="bottom", share=0.1, depth=3):
        """`targets` and `share` as for `Promote`; `depth`: positions above are never clicked."""
        if not 1 <= depth <= problem.length:
            raise ValueError(f"depth must be from 1 to {problem.length}, not {depth!r}")
        chosen = choose_targets(targets, share, problem.attraction, problem.length)
        return cls(Budget.create(problem, budget, schedule, n_bursts), users, chosen, int(depth))

    def corrupt(self, visit, ranking, clicks, examined, rng):
        """Rewrite the visit if a target stands low enough."""
        if can_spend(self.budget, visit.t):
            for p in range(self.depth - 1, ranking.size):
                if self.target[ranking[p]]:
                    remember(self.budget, clicks, ranking.size)
                    clicks[:] = False
                    clicks[p] = True
                    return settle(self.budget, self.users, visit, clicks, ranking.size, examined, ANYONE)
        return 0.0, examined, visit.client


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--horizon", type=int, default=10_000, help="rounds")
    parser.add_argument("--learners", nargs="+", default=["SteadyRank", "CascadeTS"], help="learners to attack")
    options = parser.parse_args()
    horizon = options.horizon
    check_adversary(Lurker)
    check_adversary(Lurker, depth=1, targets="worst")
    world = sr.profile("yelp-pizza", mapping="sparse")
    for learner in options.learners:
        for depth in (1, 5):
            run = sr.simulate(
                learner, world.attraction, length=10, horizon=horizon, seeds=range(4), adversary=Lurker,
                schedule="late", budget=horizon // 5, adversary_settings={"depth": depth},
            )  # fmt: skip
            print(
                f"{learner:12} depth {depth}: regret {run.final.mean():7,.0f}, spent {run.spent[:, -1].mean():,.0f}"
            )
