"""The memory of a record in one made for more."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core.segments import row
from ..learners.shared.thompson import Posteriors
from ..learners.shared.ucb.bounds import Bounds


def widen(record: Any, wider: Any, scalars: Any) -> Any:
    """`wider` with the memory of `record`, made for fewer items, and the scalar settings of a third one.

    Bounds start afresh: they hold nothing that cannot be computed again. An array that has grown beyond what it is
    made with stays as it is.
    """
    fields = {}
    for name, value in zip(record._fields, record, strict=True):
        other = getattr(wider, name)
        if isinstance(value, np.ndarray):
            if all(new >= old for new, old in zip(other.shape, value.shape, strict=True)):
                other[tuple(slice(size) for size in value.shape)] = value
                fields[name] = other
            else:
                fields[name] = value
        elif isinstance(value, Bounds):
            fields[name] = other
        elif isinstance(value, Posteriors):
            fields[name] = _widened(value, other)
        elif isinstance(value, tuple):
            fields[name] = widen(value, other, getattr(scalars, name))
        else:
            fields[name] = getattr(scalars, name)
    return type(record)(**fields)


def _widened(posteriors: Posteriors, wider: Posteriors) -> Posteriors:
    """As `Posteriors.widened`; a row after another where there is one a segment."""
    if posteriors.bar.ndim == 1:
        return posteriors.widened(wider)
    for s in range(posteriors.bar.shape[0]):
        row(posteriors, s).widened(row(wider, s))
    return wider


def restored(record: Any, arrays: Mapping[str, Any], prefix: str, grows: bool) -> Any:
    """A record of arrays that were saved under the names of its own; a size may differ only if it `grows`.

    They are taken over, not copied: of a million items nobody has looked at most, and there they take no memory.
    """
    fields = {}
    for name, value in zip(record._fields, record, strict=True):
        if isinstance(value, np.ndarray):
            saved = arrays[prefix + name]
            same = saved.ndim == value.ndim if grows else saved.shape == value.shape
            if saved.dtype != value.dtype or not same:
                raise ValueError(
                    f"{prefix}{name} has shape {saved.shape} and type {saved.dtype}, not {value.shape}, {value.dtype}"
                )
            fields[name] = saved if saved.flags.writeable and saved.flags.c_contiguous else saved.copy()
        elif isinstance(value, tuple):
            fields[name] = restored(value, arrays, f"{prefix}{name}.", grows)
        else:
            fields[name] = value
    return type(record)(**fields)
