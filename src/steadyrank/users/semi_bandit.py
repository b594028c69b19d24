"""Semi-bandit users: look at the whole list and click all that attracts them."""

from .cascade import Cascade, like_or_not


class SemiBandit(Cascade):
    """`Cascade` without its end: the same bits, all of them reported, several clicks possible (Chen et al. 2013).

    The value of a list stays the chance that something in it attracts: regrets compare with those of `Cascade`.
    Some public code gives learners for cascades this richer feedback. Settings: those of `Cascade`.
    """

    __slots__ = ()

    def click(self, visit, ranking, clicks, rng):
        like_or_not(self, visit, ranking, clicks, rng)
        return ranking.size

    def reach(self, clicks, size):
        return size
