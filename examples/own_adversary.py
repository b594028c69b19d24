"""An adversary of your own in one class: python examples/own_adversary.py."""

import argparse
from typing import NamedTuple

import numpy as np

import steadyrank as sr
from steadyrank.schedules import Purse, can_spend, charge
from steadyrank.targets import choose_targets
from steadyrank.testing import check_adversary


class Lurker(NamedTuple):
    """Fake visitors who click a target only where it stands low in the list, as a rare find would be clicked.

    They hope that a click far down looks more sincere than one at the top. `depth` is the first position they click.
    """

    purse: Purse
    target: np.ndarray  # [K] items to be pushed
    depth: int

    cascade = True  # a cascade user could have sent this

    @classmethod
    def create(cls, problem, users, budget, *, schedule="front", n_bursts=5, targets="bottom", share=0.1, depth=3):
        """`targets` and `share` as for `Promote`; `depth`: positions above are never clicked."""
        if not 1 <= depth <= problem.length:
            raise ValueError(f"depth must be from 1 to {problem.length}, not {depth!r}")
        chosen = choose_targets(targets, share, users.attraction, problem.length)
        return cls(Purse.create(problem, budget, schedule, n_bursts), chosen, int(depth))

    def corrupt(self, t, ranking, clicks, examined, rng):
        """Rewrite the visit, if a target stands low enough."""
        if can_spend(self.purse, t):
            for p in range(self.depth - 1, ranking.size):
                if self.target[ranking[p]]:
                    clicked = clicks[examined - 1]
                    clicks[:] = False
                    clicks[p] = True
                    return charge(self.purse, clicks, ranking.size, examined, clicked)
        return 0.0, examined


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--horizon", type=int, default=10_000, help="rounds")
    horizon = parser.parse_args().horizon
    check_adversary(Lurker)
    check_adversary(Lurker, depth=1, targets="worst")
    world = sr.profile("yelp-pizza", mapping="sparse")
    for learner in ("SteadyRank", "CascadeTS"):
        for depth in (1, 5):
            run = sr.simulate(
                learner, world.attraction, length=10, horizon=horizon, seeds=range(4), adversary=Lurker,
                schedule="late", budget=horizon // 5, adversary_settings={"depth": depth},
            )  # fmt: skip
            print(
                f"{learner:12} depth {depth}: regret {run.final.mean():7,.0f}, spent {run.spent[:, -1].mean():,.0f}"
            )
