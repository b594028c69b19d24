"""Impressions as an audit holds them: items looked at, from the top of each list, and whether they were clicked."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..arrays import Bools, Ints

Slots = npt.NDArray[np.int32]


class Impressions(NamedTuple):
    """Impressions in order, look by look; the looks of impression i are places first[i] to first[i + 1]."""

    item: Slots  # [look] numbers of items
    bits: Bools  # [look] whether it was clicked
    first: Ints  # [impression + 1]
    n_items: int

    @property
    def n(self) -> int:
        """How many impressions."""
        return self.first.size - 1

    def only(self, chosen: Ints) -> "Impressions":
        """Some of them, in the order given."""
        sizes = self.first[chosen + 1] - self.first[chosen]
        first = np.zeros(chosen.size + 1, np.int64)
        np.cumsum(sizes, out=first[1:])
        places = np.repeat(self.first[chosen] - first[:-1], sizes) + np.arange(first[-1])
        return Impressions(self.item[places], self.bits[places], first, self.n_items)
