"""What a round does to the estimates, and to the indices made of them.

`book` is an `estimators.Medians`; `root` and `linear`, with its estimates as level, are the items' indices.
"""

import math
from typing import Literal, NamedTuple, TypeAlias, get_args

from .._jit import uncounted
from ..kernels import mean_index
from ..settings import choice, real
from .means import from_counts, observe
from .partitions import EVERY_ROUND, block_size, redraw_tally

Radius: TypeAlias = Literal["variance", "plain"]


class Width(NamedTuple):
    """The radius `a sqrt(v log t / n) + b log t / n`: v = m (1 - m) of the estimate m, or 1 (`plain`)."""

    a: float
    b: float
    plain: int

    @classmethod
    def create(cls, a: float, b: float, radius: Radius) -> "Width":
        """The settings of these names, checked."""
        return cls(real("a", a, 0.0), real("b", b, 0.0), choice("radius", radius, get_args(Radius)))


@uncounted
def refresh_index(book, root, linear, width, k):
    """Item k's index after its estimate changed."""
    n = book.looks[k]
    mean_index(book.estimate, root, linear, k, book.estimate[k], n, width.a, width.b)
    if width.plain == 1:
        root[k] = width.a * math.sqrt(1.0 / n)


@uncounted
def observe_list(book, root, linear, width, ranking, clicks, examined, chance):
    """Add a round's bits to `book` and refresh the observed items' indices; `every-round`, those of all items."""
    if book.partition == EVERY_ROUND:
        redraw_others(book, root, linear, width, ranking, examined, chance)
    for p in range(examined):
        k = ranking[p]
        observe(book, k, 1 if clicks[p] else 0, chance)
        refresh_index(book, root, linear, width, k)


@uncounted
def redraw_others(book, root, linear, width, ranking, examined, chance):
    """Partition anew the bits of all items but the observed ones. O(K d), and what `redraw_tally` takes."""
    for k in range(book.looks.size):
        if book.chain[k, 0] == 0.0 or among(ranking, examined, k):
            continue
        n, m, last = book.looks[k], book.blocks[k], book.tally[k]
        b = block_size(book.reading, n, book.block, book.alpha)
        book.tally[k] = redraw_tally(book, k, b, chance)
        if book.tally[k] != last:
            book.estimate[k] = from_counts(book, book.tally[k], m, b)
            refresh_index(book, root, linear, width, k)


@uncounted
def among(ranking, size, k):
    """Whether item k is one of the first `size` of a list."""
    found = False
    for p in range(size):
        found |= ranking[p] == k
    return found
