"""A learner of your own in one class: python examples/own_learner.py.

`steadyrank compare examples/own_learner.py` draws it against known ones.
"""

import argparse
from typing import NamedTuple

import numpy as np

import steadyrank as sr
from steadyrank.kernels import count_bits, top_allowed
from steadyrank.testing import check_learner


class Forgetful(NamedTuple):
    """Thompson sampling that halves its counts of an item after every `memory` looks at it.

    So no attack is remembered for long, and nothing else is either.
    """

    looks: np.ndarray  # [K] looks, halved now and then
    clicks: np.ndarray  # [K] clicks, likewise
    memory: float

    live = True  # copes with items that come and go: may be used by a Ranker

    @classmethod
    def create(cls, problem, *, memory=200.0):
        """`memory`: most looks at an item that are kept."""
        if not memory >= 1:
            raise ValueError(f"memory must be at least 1 look, not {memory!r}")
        zeros = np.zeros(problem.n_items, np.int64)
        return cls(zeros, zeros.copy(), float(memory))

    def rank(self, visit, allowed, ranking, note, rng):
        """Draw from each item's posterior and show the largest."""
        index = np.empty(self.looks.size)
        for k in range(self.looks.size):
            index[k] = rng.beta(1.0 + self.clicks[k], 1.0 + self.looks[k] - self.clicks[k])
        top_allowed(index, allowed, ranking, rng)

    def update(self, visit, ranking, note, clicks, examined):
        """Count the looks and the clicks of the examined places."""
        count_bits(self.looks, self.clicks, ranking, clicks, examined)
        for p in range(examined):
            k = ranking[p]
            if self.looks[k] > self.memory:
                self.looks[k] //= 2
                self.clicks[k] = min(self.clicks[k] // 2, self.looks[k])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--horizon", type=int, default=10_000, help="rounds")
    horizon = parser.parse_args().horizon
    check_learner(Forgetful)
    check_learner(Forgetful, memory=20)
    world = sr.profile("yelp-pizza", mapping="sparse")
    for learner in (Forgetful, "CascadeTS"):
        run = sr.simulate(
            learner, world.attraction, length=10, horizon=horizon, seeds=range(4),
            adversary="FakeUser", schedule="front", budget=horizon // 5,
        )  # fmt: skip
        print(f"{run.learner:10} regret {run.final.mean():,.0f}")
    ranker = sr.Ranker(["a", "b", "c"], 2, Forgetful)
    print("live:", ranker.rank().items)
