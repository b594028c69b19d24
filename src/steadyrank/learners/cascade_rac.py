"""CascadeRAC: position-based elimination in layers, for an unknown amount of corruption."""

import math
from typing import NamedTuple

from ..core.contract import Problem
from ..core.settings import known_horizon, real
from .shared.layers import Layers, acting_layer, bar, count_layers, draw_layer, observe_layer, rank_by_position

LAYER = 0  # index in the note: the layer that ranked


class CascadeRAC(NamedTuple):
    """CascadeRKC in ceil(log2 T) layers, layer l drawn with chance 2^-l (Xie et al. 2025, agnostic algorithm).

    Reconstruction: several robustness layers over the known-C algorithm come from summaries of the paper; the layers
    are those of Lykouris et al. 2018, radius rho (sqrt(G / n) + G / n), G = log(4 K T ceil(log2 T) / delta).
    Claimed bound: sum over k of d (C K log(K T) + log T) log(K T) / gap. With rho = 1, 500 items and 40,000 rounds
    nothing is ever eliminated: near-uniform lists, the same under every attack that does not change `examined`.

    Settings: `rho`, factor of the radius, 1 in theory, 0.1 to have an effect at this size; `delta`, chance of
    failure.
    """

    book: Layers
    length: int

    live = False

    @classmethod
    def create(cls, problem: Problem, *, rho: float = 1.0, delta: float = 0.1) -> "CascadeRAC":
        horizon = known_horizon("CascadeRAC", problem.horizon)
        n_layers = count_layers(horizon)
        log = math.log(4.0 * problem.n_items * horizon * n_layers / real("delta", delta, 1e-12, 1.0))
        book = Layers.create(n_layers, problem.n_items, log=log, extra=log, rho=real("rho", rho, 0.0))
        return cls(book, int(problem.length))

    def rank(self, visit, allowed, ranking, note, rng):
        layer = draw_layer(self.book.looks.shape[0], rng.random())
        note[LAYER] = layer
        rank_by_position(self.book, layer, acting_layer(self.book, layer, self.length), allowed, ranking, rng)

    def update(self, visit, ranking, note, clicks, examined):
        layer = int(note[LAYER])
        observe_layer(self.book, layer, ranking, clicks, examined)
        bar(self.book, layer)
