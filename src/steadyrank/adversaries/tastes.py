"""What visitors of another taste click."""

from typing import Literal, TypeAlias, get_args

import numpy as np

from .._jit import kernel
from ..arrays import Floats
from ..contract import ANYONE, Problem
from ..settings import choice
from .budget import can_spend, remember, settle

Taste: TypeAlias = Literal["reversed", "permuted"]


def attractions_of(taste: Taste, problem: Problem) -> Floats:
    """float64[K]: the users' attractions on other items; as many items as before have each of them.

    `reversed`: the best item has the attraction of the worst, the second best that of the second worst, and so on.
    `permuted`: each item has that of another, drawn from the problem's seed.
    """
    choice("taste", taste, get_args(Taste))
    true = problem.attraction
    if taste == "permuted":
        return np.random.default_rng([problem.seed, 0x7A57E]).permutation(true)
    order = np.argsort(-true, kind="stable")
    found = np.empty(true.size)
    found[order] = true[order[::-1]]
    return found


@kernel
def visit_by_taste(budget, users, visit, attraction, ranking, clicks, examined, rng):
    """Replace the visit by that of somebody unknown with these attractions, who looks at lists as the users do."""
    if not can_spend(budget, visit.t):
        return 0.0, examined, visit.client
    remember(budget, clicks, ranking.size)
    for p in range(ranking.size):
        clicks[p] = rng.random() < attraction[ranking[p]]
    return settle(budget, users, visit, clicks, ranking.size, examined, ANYONE)
