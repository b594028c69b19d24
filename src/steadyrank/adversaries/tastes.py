"""Visitors of another taste."""

from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from ..core.arrays import Floats
from ..core.compiling.jit import kernel
from ..core.contract import ANYONE, Problem, Visit
from ..core.settings import choice
from .budget import can_spend, remember, settle

Taste: TypeAlias = Literal["reversed", "permuted"]


def attractions_of(taste: Taste, problem: Problem) -> Floats:
    """The users' attractions reassigned to other items, float64[K].

    `reversed`: the best item gets the attraction of the worst, the second best that of the second worst, and so on.
    `permuted`: each item gets that of another, drawn from the problem's seed.
    """
    choice("taste", taste, get_args(Taste))
    true = problem.attraction
    if taste == "permuted":
        return np.random.default_rng([problem.seed, 0x7A57E]).permutation(true)
    order = np.argsort(-true, kind="stable")
    swapped = np.empty(true.size)
    swapped[order] = true[order[::-1]]
    return swapped


class Looking(NamedTuple):
    """Visitors with these attractions, for users without a `liking` method; feedback reaches as far as the users'."""

    users: Any
    attraction: Floats  # [K]

    def click(self, visit, ranking, clicks, rng):
        """Click every item that attracts."""
        for p in range(ranking.size):
            clicks[p] = rng.random() < self.attraction[ranking[p]]
        return self.users.reach(clicks, ranking.size)

    def reach(self, clicks, size):
        """The users' own."""
        return self.users.reach(clicks, size)


def visitors_of(taste: Taste, problem: Problem, users: Any) -> Any:
    """Users of another taste who look at lists as these users do, made by the users' `liking` (contract, rule 17)."""
    liked = attractions_of(taste, problem)
    liking = getattr(users, "liking", None)
    others = None if liking is None else liking(liked)
    return Looking(users, liked) if others is None else others


@kernel
def visit_by_taste(budget, visitors, visit, ranking, clicks, examined, rng):
    """Replace the visit by an anonymous one of this taste, which looks at lists as the users do."""
    if not can_spend(budget, visit.t):
        return 0.0, examined, visit.client
    remember(budget, clicks, ranking.size)
    visitors.click(Visit(visit.t, ANYONE, visit.features), ranking, clicks, rng)
    return settle(budget, visitors, visit, clicks, ranking.size, examined, ANYONE)
