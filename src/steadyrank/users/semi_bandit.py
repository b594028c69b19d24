"""Semi-bandit users: look at the whole list and click all that attracts them."""

from .cascade import Cascade
from .senders import attracts


class SemiBandit(Cascade):
    """`Cascade` without its end: the same bits, all of them reported, several clicks possible (Chen et al. 2013).

    The value of a list stays the chance that something in it attracts: regrets compare with those of `Cascade`.
    Some public code gives learners for cascades this richer feedback. Settings: those of `Cascade`.
    """

    __slots__ = ()

    def click(self, visit, ranking, clicks, rng):
        for p in range(self.favourites.size):
            u = rng.random()
            if p < ranking.size:
                chance = self.attraction[ranking[p]]
                if not self.senders.agree:
                    chance = attracts(self.senders, self.attraction, visit.client, ranking[p])
                clicks[p] = u < chance
        return ranking.size

    def reach(self, clicks, size):
        return size

    def expect(self, visit, ranking, chances):
        for p in range(ranking.size):
            chances[p] = self.average[ranking[p]]
