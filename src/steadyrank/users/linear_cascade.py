"""Cascade users whose features move what attracts them, linearly."""

from typing import Any

import numpy as np

from ..core.arrays import Floats
from .logistic_cascade import LogisticCascade
from .senders import Senders
from .visitors import LINEAR, Visitors


class LinearCascade(LogisticCascade):
    """Cascade users of whom something is known, linear link (Zong et al. 2016, section 2, with item effects).

    Item k attracts visitor v with the chance attraction_k + weight sum_f x_kf v_f, cut to [0, 1]: the model of
    published learners, in which chances are linear in features. All else as with `LogisticCascade`.
    """

    __slots__ = ()

    @classmethod
    def create(
        cls,
        attraction: Floats,
        length: int,
        *,
        features: Any = None,
        weight: float = 0.1,
        constant: int = 0,
        visitors: Any = None,
        clients: int = 0,
        skew: float = 0.8,
        taste: float = 0.0,
        tastes: int = 1,
        minority: float = 0.3,
    ) -> "LinearCascade":
        attraction = np.ascontiguousarray(attraction, np.float64)
        crowd = Visitors.create(attraction.size, features, weight, constant, LINEAR, visitors)
        senders = Senders.create(attraction.size, clients, skew, taste, tastes, minority)
        return cls(attraction, crowd, senders, int(length))
