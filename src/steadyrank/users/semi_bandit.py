"""Semi-bandit users: look at the whole list and click everything that attracts them."""

from .cascade import Cascade
from .senders import attracts


class SemiBandit(Cascade):
    """`Cascade` users who do not stop at a click: the same bits, all of them reported (Chen et al. 2013).

    The value of a list remains the chance that at least one item attracts, so regrets compare with those of
    `Cascade`. Some public code gives this richer feedback to cascade learners. Settings: those of `Cascade`.
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
