"""Cascade users whose features shift attractions linearly."""

from typing import Any

import numpy as np

from ..core.arrays import Floats
from .logistic_cascade import LogisticCascade
from .senders import Senders
from .visitors import LINEAR, Visitors


class LinearCascade(LogisticCascade):
    """Cascade users with visitor features, linear link (Zong et al. 2016, section 2, with item effects).

    Item k attracts visitor v with chance attraction_k + weight sum_f x_kf v_f, clipped to [0, 1]: published learners
    assume such linear chances. Everything else as in `LogisticCascade`.
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
