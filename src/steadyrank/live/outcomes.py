"""What came of the clicks of a board: each outcome once, in any order, and what a click is worth by now."""

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
RETURN = "return"  # the kind of an outcome that takes off what was reported before
MOST_VALUE = 1e12
CLICK_BYTES = 400  # of a click remembered, with an outcome
_MOST_OUTCOMES = 100  # of one click
# of a click: not learnt from yet; it is not, for a guard or a label kept the visit from the learner. Above 0: the
# learner knows it, of so many visits
WAITS, UNHEARD = 0, -1
# what became of an outcome; counted: the learner learns clicks alone, and guards and alarms know of it
Told: TypeAlias = Literal["learnt", "waiting", "ignored", "duplicate", "counted"]
Tell: TypeAlias = Callable[[int, int, int, float, float], None]  # the learner: item, round, now, before and after


def with_goal(learner: str | type, settings: Mapping[str, Any], goal: Goal) -> dict[str, Any]:
    """A learner's settings with a goal; only value is told, so that any learner has the goal of clicks."""
    if choice("goal", goal, get_args(Goal)) == 0:
        return dict(settings)
    cls = find_class("learner", learner, LEARNERS)
    if "goal" not in settings_of(cls):
        able = ", ".join(sorted(name for name, other in LEARNERS.items() if "goal" in settings_of(other)))
        raise ValueError(f"goal='value' is for {able}: {cls.__name__} learns clicks alone")
    return {**settings, "goal": goal}


def amount_of(value: Any, kind: str) -> float:
    """What an outcome adds to what a click is worth; less than 0 for a return."""
    try:
        amount = real("value", value, 0.0, MOST_VALUE)
    except ValueError as error:
        raise Refused(422, str(error)) from error
    return -amount if kind == RETURN else amount


def number_of(id_: str) -> int:
    """63 bits that stand for the id of an outcome."""
    return int.from_bytes(hashlib.blake2b(id_.encode(), digest_size=8).digest(), "little") >> 1


class _Click:
    """A click, or an outcome whose click is not known yet."""

    __slots__ = ("amounts", "state", "worth")

    def __init__(self, state: int) -> None:
        self.state = state  # WAITS, UNHEARD, or of how many visits the learner knows it
        self.worth = 0.0  # of all outcomes; less than 0 while only a return is known
        self.amounts: dict[int, float] = {}  # of each outcome, by its number


class Outcomes:
    """The latest clicks of a board by round and item, and what came of each; at most `most`.

    Two visits can have one round where several workers give out lists: what comes of their clicks on one item is
    added up, which is worth the same, and counts as long as the learner knows one of them. The learner is told the
    sum of a click's outcomes, at least 0, once it knows the click. `tell` tells it; without it, the learner learns
    clicks alone, and only those clicks are remembered of which something came.
    """

    def __init__(self, tell: Tell | None) -> None:
        self.most, self.tell = 100_000, tell
        self.now = 0  # the largest round learnt from
        self.forgotten = 0  # the largest round of a click that is remembered no longer, where the learner is not told
        self.clicks: dict[tuple[int, int], _Click] = {}

    def click(self, t: int, items: Iterable[int], heard: bool) -> list[tuple[int, float]]:
        """These items were clicked in round t; `heard`: by the learner.

        Returns those of which something had come before their first answer, with what they were worth.
        """
        self.now = max(self.now, t)
        came = []
        for item in items:
            click = self.clicks.get((t, item))
            if click is None:
                if self.tell is None:
                    continue
                click = self._add(t, item)
            if click.state == WAITS and click.worth > 0.0:
                came.append((item, click.worth))
            if not heard:
                click.state = click.state or UNHEARD
                continue
            first = click.state <= WAITS
            click.state = 1 if first else click.state + 1
            if first and click.worth > 0.0 and self.tell is not None:
                self.tell(item, t, self.now, 0.0, click.worth)
        return came

    def add(self, t: int, item: int, number: int, amount: float, clicked: bool) -> Told:
        """An outcome of a click, once by its number; `clicked`: whether an answer with this click was dealt with.

        If it was, and the click is not known here, it is one of those that were forgotten.
        """
        click = self.clicks.get((t, item))
        if click is not None and number in click.amounts:
            if click.amounts[number] != amount:
                raise Refused(409, "an outcome of this click with this id had another value")
            return "duplicate"
        if click is not None and len(click.amounts) >= _MOST_OUTCOMES:
            raise Refused(422, f"at most {_MOST_OUTCOMES} outcomes come of one click")
        if click is None:
            if clicked and (self.tell is not None or t <= self.forgotten):
                raise Refused(410, f"the click has expired: the latest {self.most:,} are remembered (most_open)")
            click = self._add(t, item, 1 if clicked else WAITS)
        before = max(click.worth, 0.0)
        click.amounts[number] = amount
        click.worth = sum(sorted(click.amounts.values()))  # the same in any order
        after = max(click.worth, 0.0)
        if click.state == WAITS:
            return "waiting"
        if self.tell is None:
            return "counted"
        if click.state == UNHEARD:
            return "ignored"
        if after != before:
            self.tell(item, t, self.now, before, after)
        return "learnt"

    def knows(self, t: int, item: int) -> bool:
        """Whether this click is one that was made: of others an outcome may have been reported before any answer."""
        click = self.clicks.get((t, item))
        return click is not None and click.state != WAITS

    def worth(self, t: int, item: int) -> float:
        """What is known to have come of this click, at least 0."""
        click = self.clicks.get((t, item))
        return 0.0 if click is None else max(click.worth, 0.0)

    def forget(self, t: int, items: Iterable[int]) -> None:
        """The learner is about to forget a visit with clicks on these items: what came of them first."""
        for item in items:
            click = self.clicks.get((t, item))
            if click is not None and click.state > WAITS:
                click.state = click.state - 1 or UNHEARD
                if click.state == UNHEARD and click.worth > 0.0 and self.tell is not None:
                    self.tell(item, t, self.now, click.worth, 0.0)

    def _add(self, t: int, item: int, state: int = WAITS) -> _Click:
        """A click that is remembered from now on; the oldest is forgotten where there are too many."""
        click = self.clicks[t, item] = _Click(state)
        while len(self.clicks) > self.most:
            oldest = next(iter(self.clicks))
            self.forgotten = max(self.forgotten, oldest[0])
            del self.clicks[oldest]
        return click

    def arrays(self) -> dict[str, Any]:
        """Everything."""
        n, clicks = len(self.clicks), self.clicks.values()
        rows = [(row, number) for row, click in enumerate(clicks) for number in click.amounts]
        return {
            "outcomes.click": np.array([*self.clicks, (self.now, self.forgotten)], np.int64),
            "outcomes.state": np.fromiter((click.state for click in clicks), np.int32, n),
            "outcomes.number": np.array(rows, np.int64).reshape(-1, 2),
            "outcomes.amount": np.array([amount for click in clicks for amount in click.amounts.values()], float),
        }

    def restore(self, arrays: Mapping[str, Any]) -> None:
        """Be as the one that the arrays came from."""
        if "outcomes.click" not in arrays:  # of a board of clicks, written when these took no outcomes
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
