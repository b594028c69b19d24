"""Runs comparisons: expand into cells, simulate, hand over the results."""

from collections.abc import Callable, Sequence

from .profiles import profile
from .results import Comparison
from .simulate import simulate


def compare(
    learners: Sequence[str],
    profile_name: str,
    *,
    adversary: str,
    rates: Sequence[float],
    horizon: int,
    length: int,
    seeds: Sequence[int],
    progress: Callable[[], None] | None = None,
) -> Comparison:
    """Final regret of each learner at each corruption rate, the attack at the front (the paper's Figure 1).

    `progress` is called once a seed: len(learners) * len(rates) * len(seeds) times.
    """
    world = profile(profile_name)
    final: dict[str, list[list[float]]] = {}
    for name in learners:
        final[name] = []
        for rate in rates:
            run = simulate(
                name, world.attraction, length=length, horizon=horizon, adversary=adversary,
                budget=round(rate * horizon), seeds=seeds, marks=1, progress=progress,
            )  # fmt: skip
            final[name].append(run.final.tolist())
    return Comparison(world.name, world.mapping, adversary, "front", length, horizon, list(seeds), list(rates), final)
