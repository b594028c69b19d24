"""Copy a record's memory into a record for more items, and restore records from saved arrays."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core.segments import row
from ..learners.shared.thompson import Posteriors
from ..learners.shared.ucb.bounds import Bounds


def widen(record: Any, wider: Any, scalars: Any) -> Any:
    """`wider` with the memory of `record`, made for fewer items, and the scalar settings of a third one.

    Bounds are reset: they can be recomputed. An array that has grown beyond its initial size is kept as it is.
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
    """`Posteriors.widened`, row by row if there is one row per segment."""
    if posteriors.bar.ndim == 1:
        return posteriors.widened(wider)
    for s in range(posteriors.bar.shape[0]):
        row(posteriors, s).widened(row(wider, s))
    return wider


def restored(record: Any, arrays: Mapping[str, Any], prefix: str, grows: bool) -> Any:
    """A record with arrays that were saved under their names; sizes may differ only if it `grows`.

    Arrays are used directly, not copied: of a million items most have no looks, and their pages take no memory.
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
