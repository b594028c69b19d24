"""What the paper says about the shape of regret over the rounds, judged on the mean curves on Yelp."""

import itertools

import polars as pl

from ..studies import lineup
from .finals import PAPER, place_of
from .verdicts import Outcome

_CONVERGED = 0.1  # of Random's loss a round


def turn(rows: pl.DataFrame, mapping: str) -> Outcome:
    """CBARBAR's late sharp turn on Yelp: its slope halves within two marks, later than UCB-V's slope does."""
    texts, passed, rates = [], 0, lineup.CURVE_RATES
    for rate in rates:
        late = turning_point(rows, mapping, "CascadeCBARBAR", rate)
        early = turning_point(rows, mapping, "CascadeUCBV", rate)
        if late is None or early is None:
            return Outcome(None, f"curves at {rate:.0%} are not finished", mapping)
        passed += late[1] <= 0.5 and early[1] <= 0.5 and early[0] < late[0]
        words = [f"{mark:,} (slope x {factor:.2f})" if factor <= 0.5 else "never" for mark, factor in (late, early)]
        texts.append(f"{rate:.0%}: CascadeCBARBAR turns at {words[0]}, CascadeUCBV at {words[1]}")
    text = f"in {passed} of {len(rates)} settings. " + "; ".join(texts)
    return Outcome(passed == len(rates), text, mapping, score=passed / len(rates))


def _curve(rows: pl.DataFrame, mapping: str, who: str, rate: float) -> tuple[list[int], list[float]] | None:
    """Marks, and the mean regret at each."""
    if rows.is_empty():
        return None
    part = rows.filter(
        (pl.col("who") == who) & (pl.col("mapping") == mapping) & ((pl.col("rate") - rate).abs() < 1e-9)
    )
    if part.is_empty():
        return None
    curve = part.group_by("mark").agg(pl.col("regret").mean()).sort("mark")
    return curve["mark"].to_list(), curve["regret"].to_list()


def turning_point(rows: pl.DataFrame, mapping: str, who: str, rate: float) -> tuple[int, float] | None:
    """The mark after the attack where the slope of the mean curve falls most within two marks, and by what factor."""
    curve = _curve(rows, mapping, who, rate)
    if curve is None:
        return None
    marks, regret = curve
    slopes = [b - a for a, b in itertools.pairwise(regret)]
    falls = [
        (slopes[i + 1] - slopes[i - 1], marks[i + 1], slopes[i + 1] / max(slopes[i - 1], 1e-12))
        for i in range(1, len(slopes) - 1)
        if marks[i] > rate * marks[-1]
    ]
    _, mark, factor = min(falls)
    return mark, factor


def converged(rows: pl.DataFrame, mapping: str, who: str, rate: float) -> float | None:
    """The round from which on a learner loses less than a tenth of what Random loses a round; infinite: never."""
    curve, chance = _curve(rows, mapping, who, rate), _curve(rows, mapping, "Random", rate)
    if curve is None or chance is None:
        return None
    (marks, regret), limit = curve, _CONVERGED * chance[1][-1] / chance[0][-1]
    since, starts, before = float("inf"), [0, *marks], [0.0, *regret]
    for i in range(len(marks) - 1, -1, -1):
        if (before[i + 1] - before[i]) / (starts[i + 1] - starts[i]) > limit:
            break
        since = float(starts[i])
    return since


def fastest(rows: pl.DataFrame, mapping: str) -> Outcome:
    """Whether M2UCB-V converges first of the five on Yelp at every rate."""
    texts, passed = [], 0
    for rate in lineup.CURVE_RATES:
        found = {who: converged(rows, mapping, who, rate) for who in PAPER}
        known = {who: since for who, since in found.items() if since is not None}
        if len(known) < len(PAPER):
            return Outcome(None, f"curves at {rate:.0%} are not finished", mapping)
        passed += known["M2UCBV"] < float("inf") and place_of("M2UCBV", 1)(known)
        order = sorted(known, key=lambda who: known[who])
        texts.append(
            f"{rate:.0%}: " + ", ".join(f"{w} {known[w]:,.0f}" if known[w] < 1e9 else f"{w} never" for w in order)
        )
    share = passed / len(texts)
    return Outcome(share == 1.0, f"in {passed} of {len(texts)} settings. " + "; ".join(texts), mapping, score=share)
