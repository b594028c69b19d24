"""CascadeTS: Thompson sampling with a Beta posterior for each item."""

from typing import NamedTuple

import numpy as np

from ..core.arrays import Ints
from ..core.compiling.jit import no_refcount
from ..core.contract import Problem
from ..core.kernels import count_bits, uncount_bits
from ..core.settings import real
from .shared.thompson import Posteriors, check_bar, set_counts
from .steady.hedge import Rival, drawn_list, hedged_list


@no_refcount
def set_posteriors(posteriors, looks, clicks, ranking, examined, length):
    """Update the posteriors of items whose counts have changed."""
    for p in range(examined):
        set_counts(posteriors, ranking[p], looks[ranking[p]], clicks[ranking[p]])
    check_bar(posteriors, length)


class CascadeTS(NamedTuple):
    """Ranks by one draw from each item's Beta(1 + S, 1 + n - S) (Zhong, Cheung, Tan 2021, CTS).

    The strongest published learner on clean feedback at these sizes, and the easiest to mislead early.
    `insurance` (ours, none by default): weight, in the list, of the view that everything learnt is inverted.
    """

    looks: Ints  # [K]
    clicks: Ints  # [K]
    posteriors: Posteriors
    length: int
    insurance: float

    live = True
    VERSION = 3  # of the memory: version 3 groups items with equal counts

    @classmethod
    def create(cls, problem: Problem, *, insurance: float = 0.0) -> "CascadeTS":
        insurance = real("insurance", insurance, 0.0, 0.5)
        k, d = problem.n_items, problem.length
        posteriors = Posteriors.create(k, d, 1.0, 1.0)
        return cls(np.zeros(k, np.int64), np.zeros(k, np.int64), posteriors, d, insurance)

    def rank(self, visit, allowed, ranking, note, rng):
        if self.insurance == 0.0:
            drawn_list(self.posteriors, allowed, ranking, rng)
        else:
            weights = np.array([1.0 - self.insurance, self.insurance])
            nobody = Rival(self.looks, self.clicks, self.looks, self.clicks, weights, self.looks[:0], self.looks[:0])
            hedged_list(self.posteriors, nobody, weights, allowed, ranking, rng)

    def update(self, visit, ranking, note, clicks, examined):
        count_bits(self.looks, self.clicks, ranking, clicks, examined)
        set_posteriors(self.posteriors, self.looks, self.clicks, ranking, examined, self.length)

    def forget(self, visit, ranking, note, clicks, examined):
        uncount_bits(self.looks, self.clicks, ranking, clicks, examined)
        set_posteriors(self.posteriors, self.looks, self.clicks, ranking, examined, self.length)
