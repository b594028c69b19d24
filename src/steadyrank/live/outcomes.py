"""Outcomes of a board's clicks: each counted once, in any order, and the current worth of each click."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from ..core.discovery import find_class, settings_of
from ..core.refusals import Refused
from ..core.settings import choice, real
from ..learners import ALL as LEARNERS

Goal: TypeAlias = Literal["click", "value"]  # what lists are made for
WITH_ANSWER = "answer"  # the id of an outcome that comes with its answer, if no other one is given
RETURN = "return"  # the kind of outcome that subtracts from earlier ones
MOST_VALUE = 1e12
CLICK_BYTES = 400  # of a remembered click with an outcome
_MOST_OUTCOMES = 100  # of one click
# state of a click: not learnt yet; not learnt at all, because a guard or a label excluded the visit. Above 0: the
# number of visits with it that the learner knows
# learner knows it, of so many visits
WAITS, EXCLUDED = 0, -1
# how an outcome was handled; counted: the learner learns from clicks only, but guards and alarms are told
OutcomeStatus: TypeAlias = Literal["learnt", "waiting", "ignored", "duplicate", "counted"]
OutcomeCallback: TypeAlias = Callable[[int, int, int, float, float], None]  # item, round, now, worth before and after


def with_goal(learner: str | type, settings: Mapping[str, Any], goal: Goal) -> dict[str, Any]:
    """A learner's settings with a goal; only "value" is passed on, so any learner can have the goal of clicks."""
    if choice("goal", goal, get_args(Goal)) == 0:
        return dict(settings)
    cls = find_class("learner", learner, LEARNERS)
    if "goal" not in settings_of(cls):
        able = ", ".join(sorted(name for name, other in LEARNERS.items() if "goal" in settings_of(other)))
        raise ValueError(f"goal='value' is for {able}: {cls.__name__} learns clicks alone")
    return {**settings, "goal": goal}


def amount_of(value: Any, kind: str, name: str = "value") -> float:
    """The amount that an outcome adds to its click's worth; negative for a return. `name`: used in errors."""
    try:
        amount = real(name, value, 0.0, MOST_VALUE)
    except ValueError as error:
        raise Refused(422, str(error)) from error
    return -amount if kind == RETURN else amount


def number_of(id_: str) -> int:
    """63-bit hash of an outcome's id."""
    return int.from_bytes(hashlib.blake2b(id_.encode(), digest_size=8).digest(), "little") >> 1


class _Click:
    """A click, or the outcomes of a click that is not known yet."""

    __slots__ = ("amounts", "state", "worth")

    def __init__(self, state: int) -> None:
        self.state = state  # WAITS, EXCLUDED, or the number of visits with it that the learner knows
        self.worth = 0.0  # sum of all outcomes; negative while only a return is known
        self.amounts: dict[int, float] = {}  # amount of each outcome, by its number


class Outcomes:
    """The latest clicks of a board by round and item, and their outcomes; at most `most` clicks.

    Two visits may share a round if several workers give out lists: the outcomes of their clicks on one item are
    added, which has the same worth, and count while the learner knows one of them. The learner is told the
    sum of a click's outcomes, at least 0, once it knows the click. `report` tells it; without it, the learner learns
    only from clicks, and only clicks with outcomes are remembered.
    """

    def __init__(self, report: OutcomeCallback | None) -> None:
        self.most, self.report = 100_000, report
        self.now = 0  # the latest round learnt
        self.forgotten = 0  # the latest round of a dropped click, if the learner is not told
        self.clicks: dict[tuple[int, int], _Click] = {}

    def click(self, t: int, items: Iterable[int], learnt: bool) -> list[tuple[int, float]]:
        """Record clicks on these items in round t; `learnt`: whether the learner learnt from them.

        Returns the items that already had outcomes before their first answer, with their worth.
        """
        self.now = max(self.now, t)
        came = []
        for item in items:
            click = self.clicks.get((t, item))
            if click is None:
                if self.report is None:
                    continue
                click = self._add(t, item)
            if click.state == WAITS and click.worth > 0.0:
                came.append((item, click.worth))
            if not learnt:
                click.state = click.state or EXCLUDED
                continue
            first = click.state <= WAITS
            click.state = 1 if first else click.state + 1
            if first and click.worth > 0.0 and self.report is not None:
                self.report(item, t, self.now, 0.0, click.worth)
        return came

    def add(self, t: int, item: int, number: int, amount: float, clicked: bool) -> OutcomeStatus:
        """Add an outcome of a click, once by its number; `clicked`: whether an answer with this click was processed.

        If it was and the click is not known here, it has been dropped.
        """
        click = self.clicks.get((t, item))
        if click is not None and number in click.amounts:
            if click.amounts[number] != amount:
                raise Refused(409, "an outcome of this click was reported with this id and another value")
            return "duplicate"
        if click is not None and len(click.amounts) >= _MOST_OUTCOMES:
            raise Refused(422, f"at most {_MOST_OUTCOMES} outcomes come of one click")
        if click is None:
            if clicked and (self.report is not None or t <= self.forgotten):
                raise Refused(410, f"the click has expired: the latest {self.most:,} are remembered (most_open)")
            click = self._add(t, item, 1 if clicked else WAITS)
        before = max(click.worth, 0.0)
        click.amounts[number] = amount
        click.worth = sum(sorted(click.amounts.values()))  # sorted, so that the sum does not depend on the order
        after = max(click.worth, 0.0)
        if click.state == WAITS:
            return "waiting"
        if self.report is None:
            return "counted"
        if click.state == EXCLUDED:
            return "ignored"
        if after != before:
            self.report(item, t, self.now, before, after)
        return "learnt"

    def knows(self, t: int, item: int) -> bool:
        """Whether an answer with this click is known; outcomes may be reported before it."""
        click = self.clicks.get((t, item))
        return click is not None and click.state != WAITS

    def worth(self, t: int, item: int) -> float:
        """The current worth of this click, at least 0."""
        click = self.clicks.get((t, item))
        return 0.0 if click is None else max(click.worth, 0.0)

    def forget(self, t: int, items: Iterable[int]) -> None:
        """Take back the worth of these items' clicks, before the learner forgets their visit."""
        for item in items:
            click = self.clicks.get((t, item))
            if click is not None and click.state > WAITS:
                click.state = click.state - 1 or EXCLUDED
                if click.state == EXCLUDED and click.worth > 0.0 and self.report is not None:
                    self.report(item, t, self.now, click.worth, 0.0)

    def _add(self, t: int, item: int, state: int = WAITS) -> _Click:
        """Remember a click, dropping the oldest if there are too many."""
        click = self.clicks[t, item] = _Click(state)
        while len(self.clicks) > self.most:
            oldest = next(iter(self.clicks))
            self.forgotten = max(self.forgotten, oldest[0])
            del self.clicks[oldest]
        return click

    def arrays(self) -> dict[str, Any]:
        """The whole state as arrays."""
        n, clicks = len(self.clicks), self.clicks.values()
        rows = [(row, number) for row, click in enumerate(clicks) for number in click.amounts]
        return {
            "outcomes.click": np.array([*self.clicks, (self.now, self.forgotten)], np.int64),
            "outcomes.state": np.fromiter((click.state for click in clicks), np.int32, n),
            "outcomes.number": np.array(rows, np.int64).reshape(-1, 2),
            "outcomes.amount": np.array([amount for click in clicks for amount in click.amounts.values()], float),
        }

    def restore(self, arrays: Mapping[str, Any]) -> None:
        """Restore the state from `arrays`."""
        if "outcomes.click" not in arrays:  # written by a version in which boards for clicks took no outcomes
            return
        *keys, (self.now, self.forgotten) = map(tuple, arrays["outcomes.click"].tolist())
        self.clicks = {key: _Click(state) for key, state in zip(keys, arrays["outcomes.state"].tolist(), strict=True)}
        clicks = list(self.clicks.values())
        for (row, number), amount in zip(
            arrays["outcomes.number"].tolist(), arrays["outcomes.amount"].tolist(), strict=True
        ):
            clicks[row].amounts[number] = amount
        for click in clicks:
            click.worth = sum(sorted(click.amounts.values()))
