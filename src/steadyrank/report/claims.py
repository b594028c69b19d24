"""The claims of the paper's evaluation, each as code that reads results and says whether it holds.

A claim is judged by mean final regret over the seeds, among the paper's five learners. None of the thresholds below
was chosen by looking at whether a claim holds.
"""

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from ..studies import lineup
from .exhibits import exponent, growth_rows
from .tables import finals, number

PAPER = [cell["learner"] for cell in lineup.PAPER]
_RATES = lineup.RATES[1:]  # those above 0
_STATED = {"FTRL": 0.9960, "CascadeUCBV": 0.9735, "CascadeRAC": 0.9160, "CascadeCBARBAR": 0.9841}
_SEVERAL = 3


@dataclass(frozen=True)
class Outcome:
    """What the results say about a claim under one mapping, with the figures; None: not measured."""

    holds: bool | None
    figures: str


@dataclass(frozen=True)
class Claim:
    """One sentence of the paper, and its outcome by mapping (or under one heading where no mapping is involved)."""

    text: str
    study: str
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """holds, does not hold, only under ..., or not measured."""
        holds = [name for name, outcome in self.outcomes.items() if outcome.holds]
        fails = [name for name, outcome in self.outcomes.items() if outcome.holds is False]
        unknown = [name for name, outcome in self.outcomes.items() if outcome.holds is None]
        if not holds and not fails:
            return "not measured"
        if unknown:
            parts = [
                f"{word} under {' and '.join(names)}" for word, names in (("holds", holds), ("fails", fails)) if names
            ]
            return f"{', '.join(parts)}; {' and '.join(unknown)} not measured"
        if not fails:
            return "holds"
        return f"only under {' and '.join(holds)}" if holds else "does not hold"


class Finals:
    """Mean final regret by learner, profile, mapping and rate."""

    def __init__(self, rows: pl.DataFrame) -> None:
        self._mean: dict[tuple[str, str, str, float], float] = {}
        if not rows.is_empty():
            keys = ["who", "profile", "mapping", "rate"]
            table = finals(rows).group_by(keys).agg(pl.col("regret").mean()).rows()
            self._mean = {(who, name, mapping, round(rate, 4)): mean for who, name, mapping, rate, mean in table}

    def at(self, mapping: str, name: str, rate: float) -> dict[str, float] | None:
        """The five learners' means in one setting, or None while one is missing."""
        found = {who: self._mean.get((who, name, mapping, rate)) for who in PAPER}
        return None if None in found.values() else {who: mean for who, mean in found.items() if mean is not None}

    def get(self, who: str, name: str, mapping: str, rate: float) -> float | None:
        """One mean, or None."""
        return self._mean.get((who, name, mapping, rate))


Setting = tuple[str, float]
Test = Callable[[dict[str, float]], bool]


def _everywhere(
    found: Finals, mapping: str, settings: Sequence[Setting], test: Test, need: int | None = None
) -> Outcome:
    """Whether the test passes in all the settings (or in `need` of them), and in which it does not."""
    passed: list[str] = []
    failed: list[str] = []
    for name, rate in settings:
        means = found.at(mapping, name, rate)
        if means is None:
            return Outcome(None, f"{name} at {rate:.0%} is not finished")
        order = sorted(means, key=lambda who: means[who])
        text = f"{name} {rate:.0%}: " + " < ".join(f"{who} {number(means[who])}" for who in order)
        (passed if test(means) else failed).append(text)
    holds = len(passed) == len(settings) if need is None else len(passed) >= need
    parts = [f"in {len(passed)} of {len(settings)} settings"]
    parts += [f"not in: {'; '.join(failed)}"] if failed and need is None else []
    parts += [f"in: {'; '.join(passed)}"] if passed and (failed or need is not None) else []
    return Outcome(holds, ". ".join(parts))


def _place(who: str, place: int) -> Test:
    """Whether fewer than `place` others are as low (negative: as high): a tie helps nobody."""

    def test(means: dict[str, float]) -> bool:
        others = [mean for name, mean in means.items() if name != who]
        return sum((mean <= means[who]) if place > 0 else (mean >= means[who]) for mean in others) < abs(place)

    return test


def _ahead(who: str, other: str) -> Test:
    return lambda means: means[who] < means[other]


def _improvement(found: Finals, other: str, mapping: str) -> Outcome:
    """The largest improvement over `other` in any setting: the paper does not say which it means."""
    best: tuple[float, str, float] | None = None
    for name in lineup.DATA_SETS:
        for rate in lineup.RATES:
            means = found.at(mapping, name, rate)
            if means is None:
                return Outcome(None, f"{name} at {rate:.0%} is not finished")
            gain = 1 - means["M2UCBV"] / means[other]
            best = max(best or (gain, name, rate), (gain, name, rate))
    assert best is not None
    gain, name, rate = best
    return Outcome(gain >= _STATED[other] - 5e-5, f"at most {gain:.2%}, on {name} at {rate:.0%}")


def _turn(rows: pl.DataFrame, mapping: str) -> Outcome:
    """CBARBAR's late sharp turn on Yelp: its slope halves within two marks, later than UCB-V's slope does."""
    texts, passed = [], 0
    rates = lineup.CURVE_RATES
    for rate in rates:
        late = _turning_point(rows, mapping, "CascadeCBARBAR", rate)
        early = _turning_point(rows, mapping, "CascadeUCBV", rate)
        if late is None or early is None:
            return Outcome(None, f"curves at {rate:.0%} are not finished")
        passed += late[1] <= 0.5 and early[1] <= 0.5 and early[0] < late[0]
        words = [f"{mark:,} (slope x {factor:.2f})" if factor <= 0.5 else "never" for mark, factor in (late, early)]
        texts.append(f"{rate:.0%}: CascadeCBARBAR turns at {words[0]}, CascadeUCBV at {words[1]}")
    return Outcome(passed == len(rates), f"in {passed} of {len(rates)} settings. " + "; ".join(texts))


def _turning_point(rows: pl.DataFrame, mapping: str, who: str, rate: float) -> tuple[int, float] | None:
    """The mark after the attack where the slope of the mean curve falls most within two marks, and by what factor."""
    part = (
        rows.filter((pl.col("who") == who) & (pl.col("mapping") == mapping) & ((pl.col("rate") - rate).abs() < 1e-9))
        if not rows.is_empty()
        else rows
    )
    if part.is_empty():
        return None
    curve = part.group_by("mark").agg(pl.col("regret").mean()).sort("mark")
    marks, regret = curve["mark"].to_list(), curve["regret"].to_list()
    slopes = [b - a for a, b in itertools.pairwise(regret)]
    end = rate * part["horizon"][0]
    falls = [
        (slopes[i + 1] - slopes[i - 1], marks[i + 1], slopes[i + 1] / max(slopes[i - 1], 1e-12))
        for i in range(1, len(slopes) - 1)
        if marks[i] > end
    ]
    _, mark, factor = min(falls)
    return mark, factor


def _group_size(rows: pl.DataFrame, mapping: str) -> Outcome:
    found = Finals(rows)
    texts, passed = [], 0
    for rate in _RATES:
        means = {
            alpha: found.get(f"M2UCBV (alpha={alpha})", "yelp-pizza", mapping, rate) for alpha in (0.5, 1.0, 2.0)
        }
        if None in means.values():
            return Outcome(None, f"{rate:.0%} is not finished")
        passed += min(means, key=lambda alpha: means[alpha]) == 2.0  # type: ignore[arg-type, return-value]
        texts.append(
            f"{rate:.0%}: " + ", ".join(f"{alpha:g} log T {number(mean or 0.0)}" for alpha, mean in means.items())
        )
    return Outcome(passed == len(_RATES), f"in {passed} of {len(_RATES)} rates. " + "; ".join(texts))


def _tried(rows: pl.DataFrame, kind: str, column: str, value: object) -> pl.DataFrame:
    """The trials of that kind with that value; none while none is finished."""
    if rows.is_empty() or column not in rows.columns:
        return pl.DataFrame()
    return rows.filter((pl.col("kind") == kind) & (pl.col(column) == value))


def _lemma1(rows: pl.DataFrame, reading: str) -> Outcome:
    part = _tried(rows, "lemma1", "reading", reading)
    if part.is_empty():
        return Outcome(None, "not run")
    lines = part.sort("samples").rows(named=True)
    text = "; ".join(
        f"s = {r['samples']:,}: from {r['least']:.1e} to {r['most']:.1e}, stated {r['stated']:.1e}" for r in lines
    )
    return Outcome(all(r["most"] <= r["stated"] for r in lines), f"chance of failure {text}")


def _lemma2(rows: pl.DataFrame, flipped: float) -> Outcome:
    part = _tried(rows, "lemma2", "flipped", flipped)
    if part.is_empty():
        return Outcome(None, "not run")
    lines = part.sort("bits", "p").rows(named=True)
    text = "; ".join(f"p = {r['p']}, {r['bits']:,} bits: {r['covered']:.1%}" for r in lines)
    # as many as two standard errors of a share below it may be chance
    least = [r["stated"] - 2 * math.sqrt(r["stated"] * (1 - r["stated"]) / r["repetitions"]) for r in lines]
    holds = all(r["covered"] >= low for r, low in zip(lines, least, strict=True))
    return Outcome(holds, f"covered in {text}; stated 95 %")


def _linear(rows: pl.DataFrame, quick: bool) -> Outcome:
    if rows.is_empty():
        return Outcome(None, "not run")
    part = growth_rows(rows, "C", quick).filter(pl.col("who") == "M2UCBV")
    if part["corrupted"].n_unique() < 5:
        return Outcome(None, "not finished")
    power = exponent(part, "corrupted")
    means = part.group_by("corrupted").agg(pl.col("regret").mean()).sort("corrupted").rows()
    text = ", ".join(f"C = {c:,.0f}: {mean:,.0f}" for c, mean in means)
    if power != power:
        return Outcome(False, f"an attack does not always add regret: {text}")
    return Outcome(0.8 <= power <= 1.25, f"added regret grows as C^{power:.2f} (linear: 0.8 to 1.25): {text}")


def scorecard(rows: Mapping[str, pl.DataFrame], quick: bool) -> list[Claim]:
    """All claims, judged on the rows of the studies by name."""
    main = Finals(rows["corruption"])

    def claim(text: str, judge: Callable[[str], Outcome], study: str = "corruption") -> Claim:
        return Claim(text, study, {mapping: judge(mapping) for mapping in lineup.JUDGED})

    def over(settings: Sequence[Setting], test: Test, need: int | None = None) -> Callable[[str], Outcome]:
        return lambda mapping: _everywhere(main, mapping, settings, test, need)

    clean = [(name, 0.0) for name in lineup.DATA_SETS]
    two = [(name, rate) for name in lineup.DATA_SETS[:2] for rate in _RATES]
    beyond = [(name, rate) for name in lineup.DATA_SETS for rate in _RATES[1:]]
    everything = [(name, rate) for name in lineup.DATA_SETS for rate in lineup.RATES]
    return [
        claim("M2UCB-V is among the best (lowest two of five) without corruption", over(clean, _place("M2UCBV", 2))),
        claim("M2UCB-V is best on Yelp and MovieLens at 5 to 25 %", over(two, _place("M2UCBV", 1))),
        claim(
            "M2UCB-V is best on Last.fm at 5 to 15 %", over([("lastfm", r) for r in _RATES[:3]], _place("M2UCBV", 1))
        ),
        claim(
            "CascadeRAC is ahead of M2UCB-V on Last.fm at 20 % and more",
            over([("lastfm", r) for r in _RATES[3:]], _ahead("CascadeRAC", "M2UCBV")),
        ),
        claim("CascadeRAC is worst without corruption", over(clean, _place("CascadeRAC", -1))),
        claim(
            f"CascadeUCB-V is ahead of CascadeCBARBAR in several settings ({_SEVERAL} or more)",
            over(everything, _ahead("CascadeUCBV", "CascadeCBARBAR"), _SEVERAL),
        ),
        claim("FTRL is best without corruption", over(clean, _place("FTRL", 1))),
        claim("FTRL is worst beyond 5 %", over(beyond, _place("FTRL", -1))),
        claim(
            "CascadeCBARBAR's regret turns sharply, and later than CascadeUCB-V's",
            lambda mapping: _turn(rows["curves-yelp"], mapping),
            "curves-yelp",
        ),
        *(
            claim(f"M2UCB-V improves on {other} by {stated:.2%}", functools.partial(_improvement, main, other))
            for other, stated in _STATED.items()
        ),
        claim(
            "Blocks of 2 log T bits are best at every rate above 0",
            lambda mapping: _group_size(rows["group-size"], mapping),
            "group-size",
        ),
        Claim(
            "Lemma 1: with s >= 10 C every block keeps an honest majority but for a chance of s^-3",
            "lemmas",
            {f"blocks by {reading}": _lemma1(rows["lemmas"], reading) for reading in ("number", "size")},
        ),
        Claim(
            "Lemma 2: the estimate is within its bound with 95 %",
            "lemmas",
            {name: _lemma2(rows["lemmas"], share) for name, share in (("clean bits", 0.0), ("10 % inverted", 0.1))},
        ),
        Claim("M2UCB-V's regret grows linearly in C", "growth", {"moderate": _linear(rows["growth"], quick)}),
    ]
