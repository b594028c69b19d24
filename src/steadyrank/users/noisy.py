"""Users, a share of whom click at random."""

from typing import Any, NamedTuple

import numpy as np

from ..core.arrays import Floats
from ..core.compiling.jit import no_refcount
from ..core.discovery import find_class, make, settings_of
from ..core.philox import philox
from ..core.rounds import group_of
from ..core.settings import real, whole

_LOW = 0xFFFFFFFF


@no_refcount
def is_random(t, key, noise):
    """Whether the visit of round t is a random one; a pure function of key and round."""
    return philox(t & _LOW, t >> 32, key)[0] < noise * 4294967296.0


class Noisy(NamedTuple):
    """Any users, a share of whose visits are random: each place is clicked with the same chance, whatever its item.

    Feedback of a random visit ends where that of the other users would. The value of a list is its value to the other
    users times their share: random clicks are worth nothing, and no list changes them.

    Settings: `of`, the other users (a name or a class, `Cascade` by default), and `given`, a dictionary of their
    settings; `noise`, the share of random visits, 0.1; `rate`, their chance of a click at a place, 0.1; `seed`, which
    draws the random visits; the client settings of `Cascade`.
    """

    users: Any
    length: int
    noise: float
    rate: float
    key: int

    @classmethod
    def create(
        cls,
        attraction: Floats,
        length: int,
        *,
        of: str | type = "Cascade",
        given: dict[str, Any] | None = None,
        noise: float = 0.1,
        rate: float = 0.1,
        seed: int = 0,
        clients: int = 0,
        skew: float = 0.8,
        taste: float = 0.0,
        tastes: int = 1,
        minority: float = 0.3,
    ) -> "Noisy":
        from . import ALL  # imported here: that package imports this module

        inner = find_class("users", of, ALL)
        if inner is cls:
            raise ValueError("of must be other users than Noisy itself: a share of a share is a share")
        if given is not None and not isinstance(given, dict):
            raise ValueError(f"given must be a dictionary of settings of {inner.__name__}, not {given!r}")
        senders = {"clients": clients, "skew": skew, "taste": taste, "tastes": tastes, "minority": minority}
        of_senders = {name: value for name, value in senders.items() if name in settings_of(inner)}
        users = make(inner, attraction, length, settings={**of_senders, **(given or {})})
        key = int(np.random.SeedSequence([whole("seed", seed, 0), 0x4015E]).generate_state(1)[0])
        return cls(users, int(length), real("noise", noise, 0.0, 1.0), real("rate", rate, 0.0, 1.0), key)

    def liking(self, attraction: Floats) -> "Noisy | None":
        liking = getattr(self.users, "liking", None)
        return None if liking is None else self._replace(users=liking(attraction), noise=0.0)

    def arrive(self, t, features, rng):
        return self.users.arrive(t, features, rng)

    def group(self, client):
        return group_of(self.users, client)

    def click(self, visit, ranking, clicks, rng):
        if not is_random(visit.t, self.key, self.noise):
            return self.users.click(visit, ranking, clicks, rng)
        for p in range(self.length):
            u = rng.random()
            if p < ranking.size:
                clicks[p] = u < self.rate
        return self.users.reach(clicks, ranking.size)

    def reach(self, clicks, size):
        return self.users.reach(clicks, size)

    def value(self, visit, ranking):
        return (1.0 - self.noise) * self.users.value(visit, ranking)

    def best(self, visit, ranking):
        self.users.best(visit, ranking)
