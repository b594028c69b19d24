"""Cascade users whose features shift the logits of attractions."""

from typing import Any, NamedTuple

import numpy as np

from ..core.arrays import Floats
from ..core.kernels import cascade_stop
from .senders import Senders, draw_client, group_of_client
from .visitors import LOGIT, Visitors, chance_of, draw_features, find_best


class LogisticCascade(NamedTuple):
    """Cascade users with visitor features, logistic link (ours; Kveton et al. 2015 for the cascade).

    Item k attracts visitor v with chance sigmoid(logit(attraction_k) + weight sum_f x_kf v_f). x are the item's
    features, those of `simulate`. v are the visitor's, uniform in [-1, 1] or a row of `visitors`. The first
    `constant` of them (with `visitors`: as many as its rows lack) are 1 for everybody, and their effect is part of
    `attraction`. Value and best list are those for this visitor, with the taste of this client. Without features
    these are `Cascade` users. Client settings: those of `Cascade`.
    """

    attraction: Floats  # [K] for a visitor whose features are all 0
    visitors: Visitors
    senders: Senders
    length: int

    @classmethod
    def create(
        cls,
        attraction: Floats,
        length: int,
        *,
        features: Any = None,
        weight: float = 1.0,
        constant: int = 0,
        visitors: Any = None,
        clients: int = 0,
        skew: float = 0.8,
        taste: float = 0.0,
        tastes: int = 1,
        minority: float = 0.3,
    ) -> "LogisticCascade":
        attraction = np.ascontiguousarray(attraction, np.float64)
        crowd = Visitors.create(attraction.size, features, weight, constant, LOGIT, visitors)
        senders = Senders.create(attraction.size, clients, skew, taste, tastes, minority)
        return cls(attraction, crowd, senders, int(length))

    def liking(self, attraction: Floats) -> "LogisticCascade":
        return self._replace(attraction=attraction, visitors=self.visitors.alike())

    def arrive(self, t, features, rng):
        client = draw_client(self.senders, rng)
        draw_features(self.visitors, client, features, rng)
        return client

    def group(self, client):
        return group_of_client(self.senders, client)

    def click(self, visit, ranking, clicks, rng):
        for p in range(self.length):
            u = rng.random()
            if p < ranking.size:
                clicks[p] = u < chance_of(self, visit, ranking[p])
        return cascade_stop(clicks, ranking.size)

    def reach(self, clicks, size):
        return cascade_stop(clicks, size)

    def value(self, visit, ranking):
        miss = 1.0
        for p in range(ranking.size):
            miss *= 1.0 - chance_of(self, visit, ranking[p])
        return 1.0 - miss

    def best(self, visit, ranking):
        find_best(self, visit, ranking)
