"""The full product that `matrix` is a part of."""

import dataclasses

from . import matrix

_WHEN = [
    {"schedule": schedule, "rate": rate}
    for schedule in ("front", "late", "bursts", "spread")
    for rate in (0.05, 0.10, 0.15, 0.20, 0.25)
]
_PART, _HONEST, *_BEYOND = matrix.STUDY.blocks

STUDY = dataclasses.replace(
    matrix.STUDY,
    place=21,
    name="matrix-full",
    title="Every attack, every schedule, every rate",
    blocks=[{**_PART, "when": _WHEN}, _HONEST, *_BEYOND],
)
