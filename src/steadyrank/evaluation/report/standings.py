"""Standings of the study `leaderboard`: regret against an omniscient learner's, and recovery after attacks.

A ratio is (regret + 1 click) / (regret + 1 click of the omniscient learner), both with the same seed; means over
cells are geometric. Learners are compared seed by seed: one is ahead of another if the 95 % interval of the
difference of their logarithms does not contain 0. Learners that are not ahead of each other share ranks.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import polars as pl

from ...comparison.intervals import half_width
from ...core.arrays import Floats, Ints
from .regret_claims import settled
from .tables import number
from .text import plus_minus

_QUARTER, _MIDDLE, _END = 0.25, 0.5, 1.0  # of the rounds
_OMNISCIENT = "CascadeTS (omniscient)"
_RECOVERED = 0.1  # of Random's loss per round
_LEFT = 0.2  # least share of rounds after the end of an attack for recovery to be measured
_CELL = ["profile", "mapping", "adversary", "schedule", "rate"]
CellName = tuple[Any, ...]


@dataclass(frozen=True)
class Standing:
    """The result of one learner. `recovery`: rounds, the median over attacks that ended; None if never."""

    who: str
    first: int  # lower bound of its rank
    last: int  # upper bound
    ratio: float  # geometric mean over the attacked cells, at the end
    half: float  # half width of the 95 % interval over seeds
    worst: float
    where: str
    quarter: float  # geometric mean after a quarter of the rounds
    quarter_worst: float
    middle: float  # and after half of the rounds
    middle_worst: float
    honest: float
    honest_half: float
    recovery: float | None
    recovered: int
    ended: int  # attacks that ended early enough for recovery to be measured
    families: Mapping[str, float]

    def data(self) -> dict[str, Any]:
        """As a dictionary, for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class _Curves:
    marks: Ints
    regret: Floats  # [seed, mark]
    spent: Floats


def standings(rows: pl.DataFrame) -> list[Standing]:
    """Standings, best first, of learners that finished all cells that the omniscient one and `Random` finished."""
    if rows.is_empty():
        return []
    curves = _curves(rows)
    informed, chance = curves.pop(_OMNISCIENT, {}), curves.get("Random", {})
    cells = [cell for cell in informed if cell in chance]
    there = {who: of for who, of in curves.items() if all(cell in of for cell in cells)}
    logs = {who: {cell: _logs(of[cell], informed[cell]) for cell in cells} for who, of in there.items()}
    attacked = [cell for cell in cells if cell[-1] > 0]
    if not attacked:
        return []
    scores = {who: np.mean([of[cell][:, -1] for cell in attacked], axis=0) for who, of in logs.items()}
    ranked = [_standing(who, logs[who], there[who], informed, chance, attacked, _ranks(who, scores)) for who in there]
    return sorted(ranked, key=lambda one: one.ratio)


def _curves(rows: pl.DataFrame) -> dict[str, dict[CellName, _Curves]]:
    out: dict[str, dict[CellName, _Curves]] = {}
    for (who, *cell), of in rows.sort("seed", "mark").group_by("who", *_CELL, maintain_order=True):
        seeds = of["seed"].n_unique()
        regret, spent = (of[name].to_numpy().reshape(seeds, -1) for name in ("regret", "spent"))
        marks = of["mark"].to_numpy()[: regret.shape[1]]
        out.setdefault(str(who), {})[tuple(cell)] = _Curves(marks, regret, spent)
    return out


def _logs(curves: _Curves, told: _Curves) -> Floats:
    """Logarithms of the ratios, [seed, mark]."""
    return np.asarray(np.log((curves.regret + 1.0) / (told.regret + 1.0)))


def _ranks(who: str, scores: Mapping[str, Floats]) -> tuple[int, int]:
    """Bounds of a learner's rank: 1 + the number of learners ahead of it, and the total minus those behind it."""
    ahead = behind = 0
    for other in scores.values():
        difference = other - scores[who]
        half = float(half_width(difference))
        ahead += bool(difference.mean() + half < 0.0)
        behind += bool(difference.mean() - half > 0.0)
    return 1 + ahead, len(scores) - behind


def _standing(
    who: str,
    logs: Mapping[CellName, Floats],
    curves: Mapping[CellName, _Curves],
    informed: Mapping[CellName, _Curves],
    chance: Mapping[CellName, _Curves],
    attacked: Sequence[CellName],
    ranks: tuple[int, int],
) -> Standing:
    honest = [cell for cell in logs if cell not in attacked]
    at = {share: _summary(logs, attacked, share) for share in (_QUARTER, _MIDDLE, _END)}
    worst = {share: _worst(curves, informed, attacked, share) for share in at}
    recoveries = [_recovery(curves[cell], chance[cell]) for cell in attacked]
    ended = sorted(rounds for rounds in recoveries if rounds is not None)
    median = ended[(len(ended) - 1) // 2] if ended else math.inf
    return Standing(
        who,
        *ranks,
        *at[_END],
        *worst[_END],
        at[_QUARTER][0],
        worst[_QUARTER][0],
        at[_MIDDLE][0],
        worst[_MIDDLE][0],
        *_summary(logs, honest, _END),
        median if math.isfinite(median) else None,
        sum(map(math.isfinite, ended)),
        len(ended),
        {
            foe: _summary(logs, [cell for cell in attacked if cell[2] == foe], _END)[0]
            for foe in dict.fromkeys(cell[2] for cell in attacked)
        },
    )


def _summary(logs: Mapping[CellName, Floats], cells: Sequence[CellName], share: float) -> tuple[float, float]:
    """Geometric mean over cells after a share of the rounds: mean over seeds, and half width of its 95 % interval."""
    if not cells:
        return math.nan, math.nan
    place = _place(share, logs[cells[0]].shape[1])
    by_seed = np.exp(np.mean([logs[cell][:, place] for cell in cells], axis=0))
    return float(by_seed.mean()), float(half_width(by_seed))


def _worst(
    curves: Mapping[CellName, _Curves], told: Mapping[CellName, _Curves], cells: Sequence[CellName], share: float
) -> tuple[float, str]:
    """The largest ratio of means over seeds after a share of the rounds, and its cell."""

    def ratio(cell: CellName) -> float:
        place = _place(share, told[cell].marks.size)
        return float((curves[cell].regret[:, place].mean() + 1.0) / (told[cell].regret[:, place].mean() + 1.0))

    where = max(cells, key=ratio)
    return ratio(where), in_words(where)


def _place(share: float, n_marks: int) -> int:
    """The index of the mark after this share of the rounds."""
    return max(round(share * n_marks), 1) - 1


def _recovery(curves: _Curves, chance: _Curves) -> float | None:
    """Rounds from the end of an attack until the loss per round stays below a tenth of Random's.

    Both are means over seeds. Infinite if never; None if the attack did not end, or ended too late.
    """
    spent, marks = curves.spent.mean(axis=0), curves.marks
    end = int(marks[np.argmax(spent >= spent[-1])])
    if spent[-1] == 0.0 or end > (1.0 - _LEFT) * marks[-1]:
        return None
    limit = _RECOVERED * float(chance.regret[:, -1].mean()) / float(marks[-1])
    since = settled(marks.tolist(), curves.regret.mean(axis=0).tolist(), limit)
    return max(since - end, 0.0)


def in_words(cell: CellName) -> str:
    """The name of a cell in tables."""
    profile, mapping, adversary, schedule, _ = cell
    return f"{adversary} {schedule}, {f'{profile} {mapping}'.rstrip()}"


def ranks(one: Standing) -> str:
    """The rank as text: `3`, or `3-5` if it is shared."""
    return f"{one.first}" if one.first == one.last else f"{one.first}-{one.last}"


def recovery(one: Standing) -> str:
    """The rounds until recovery, and from how many of the attacks that ended, as text."""
    if not one.ended:
        return "-"
    rounds = "never" if one.recovery is None else f"{one.recovery:,.0f}"
    return f"{rounds} ({one.recovered} of {one.ended})"


def as_table(found: Sequence[Standing], microseconds: Mapping[str, float] | None = None) -> pl.DataFrame:
    """The standings as a table of text, one row per learner."""
    speed = {} if microseconds is None else {"us a round": [number(microseconds[one.who]) for one in found]}
    return pl.DataFrame(
        {
            "rank": [ranks(one) for one in found],
            "learner": [one.who for one in found],
            "attacked": [f"{one.ratio:.2f} {plus_minus(one.half, 2)}" for one in found],
            "after 1/4": [f"{one.quarter:.2f}, {one.quarter_worst:.2f}" for one in found],
            "after 1/2": [f"{one.middle:.2f}, {one.middle_worst:.2f}" for one in found],
            "worst": [f"{one.worst:.2f} ({one.where})" for one in found],
            "honest": [f"{one.honest:.2f} {plus_minus(one.honest_half, 2)}" for one in found],
            "recovery": [recovery(one) for one in found],
            **speed,
        }
    )


def by_family(found: Sequence[Standing]) -> pl.DataFrame:
    """Geometric means for each kind of attack, one row per learner."""
    foes = list(found[0].families) if found else []
    return pl.DataFrame(
        {"learner": [one.who for one in found]} | {foe: [f"{one.families[foe]:.2f}" for one in found] for foe in foes}
    )
