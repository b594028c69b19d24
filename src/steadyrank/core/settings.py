"""Checks of single values: each returns the value in its final type, or raises an error that says what is valid."""

import difflib
import math
import operator
from collections.abc import Iterable
from typing import Any

MOST = 2**40  # default limit: the largest counter or number of rounds


def whole(name: str, value: Any, low: int = 0, high: int = MOST) -> int:
    """`value` as an int within [low, high]."""
    try:
        number = operator.index(value)
    except TypeError:
        if not (isinstance(value, float) and value.is_integer()):
            raise ValueError(f"{name} must be a whole number{_range(low, high)}, not {value!r}") from None
        number = int(value)
    if isinstance(value, bool) or not low <= number <= high:
        raise ValueError(f"{name} must be a whole number{_range(low, high)}, not {value!r}")
    return number


def real(name: str, value: Any, low: float | None = None, high: float | None = None) -> float:
    """`value` as a finite float within [low, high]."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be a number{_range(low, high)}, not {value!r}") from None
    if (
        isinstance(value, (bool, str))
        or not math.isfinite(number)
        or (low is not None and number < low)
        or (high is not None and number > high)
    ):
        raise ValueError(f"{name} must be a finite number{_range(low, high)}, not {value!r}")
    return number


def odd(name: str, value: Any, low: int, high: int) -> int:
    """`value` as an odd int within [low, high]."""
    number = whole(name, value, low, high)
    if number % 2 == 0:
        raise ValueError(f"{name} must be odd{_range(low, high)}, not {value!r}")
    return number


def flag(name: str, value: Any) -> bool:
    """`value` as a bool."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be True or False, not {value!r}")
    return value


def choice(name: str, value: Any, options: Iterable[str]) -> int:
    """The index of `value` in `options`: compiled code compares numbers, not words."""
    choices = list(options)
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, not {value!r}")
    return choices.index(value)


def closest(kind: str, name: str, candidates: Iterable[str]) -> str:
    """Error message for an unknown name, with the closest known names first."""
    names = sorted(candidates)
    lower = {n.lower(): n for n in names}
    near = [lower[n] for n in difflib.get_close_matches(str(name).lower(), list(lower), n=3, cutoff=0.5)]
    hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
    return f"unknown {kind} {name!r}: {hint}known are {', '.join(names)}"


def refuse_unused(given: dict[str, Any], why: str) -> None:
    """Refuse settings without effect: a curve must not be labelled with a setting that did not shape it."""
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"{name}={value!r} has no effect under {why}; leave it out")


def known_horizon(learner: str, horizon: int) -> int:
    """Return the horizon; refused if it is unknown, for learners whose constants need it."""
    if horizon < 1:
        raise ValueError(f"{learner} needs to know the horizon, at least 1 round; it is {horizon} (unknown)")
    return horizon


def given_features(learner: str, features: Any, n_items: int) -> Any:
    """Return the items' features [K, F]; refused, naming the learner, if there are none."""
    if features.ndim != 2 or features.shape[0] != n_items or features.shape[1] < 1:
        raise ValueError(
            f"{learner} needs features: one row for each of {n_items} items, with at least one number "
            f"(simulate(..., features=...)); their shape is {features.shape}"
        )
    return features


def _range(low: float | None, high: float | None) -> str:
    high = None if high == MOST else high
    if low is not None and high is not None:
        return f" from {low} to {high}"
    if low is not None:
        return f" of at least {low}"
    return "" if high is None else f" of at most {high}"
