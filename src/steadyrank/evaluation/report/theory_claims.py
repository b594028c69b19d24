"""The paper's claims about its estimator, its lemmas and its bounds. A bound is judged as a bound."""

import math
from collections.abc import Mapping

import numpy as np
import polars as pl

from ..profiles import profile
from .exhibits import exponent, growth_rows
from .verdicts import Claim, Outcome

_OURS, _MEAN, _TIME = "mean of medians, random, b = 21", "sample mean", "median of means, 21 blocks in time"
_LOG_SLACK = 1.1  # "logarithmic": the last doubling of T adds at most 1.1 times what log T does


def _tried(rows: pl.DataFrame, kind: str, column: str, value: object) -> pl.DataFrame:
    """The trials of that kind with that value; none while none is finished."""
    if rows.is_empty() or column not in rows.columns:
        return pl.DataFrame()
    return rows.filter((pl.col("kind") == kind) & (pl.col(column) == value))


def _errors(rows: pl.DataFrame, p: float) -> dict[tuple[str, str], tuple[float, float]]:
    """Bias and root mean square error by estimate and case."""
    part = _tried(rows, "errors", "p", p)
    return {(r["estimate"], r["case"]): (r["bias"], r["rmse"]) for r in part.rows(named=True)}


def _clean_error(rows: pl.DataFrame, p: float) -> Outcome:
    errors, reading = _errors(rows, p), f"attraction {p}"
    if not errors:
        return Outcome(None, "not run", reading=reading)
    ratio = errors[_OURS, "clean"][1] / errors[_MEAN, "clean"][1]
    text = (
        f"root mean square error {errors[_OURS, 'clean'][1]:.3f} against {errors[_MEAN, 'clean'][1]:.3f} of the mean"
    )
    return Outcome(ratio <= 1.1, f"{text}: {ratio:.1f} times", reading=reading, score=1.1 / ratio)


def _false_error(rows: pl.DataFrame, p: float, other: str, *, factor: float) -> Outcome:
    """Whether the estimator's error under false bits is below `factor` times that of the other, in every case."""
    errors, reading, texts, passed = _errors(rows, p), f"attraction {p}", [], 0
    cases = list(dict.fromkeys(case for _, case in errors if case != "clean"))
    if not errors:
        return Outcome(None, "not run", reading=reading)
    for case in cases:
        mine, its = errors[_OURS, case][1], errors[other, case][1]
        passed += mine < factor * its
        texts.append(f"{case}: {mine:.3f} against {its:.3f}")
    text = f"in {passed} of {len(cases)} cases, root mean square error. " + "; ".join(texts)
    return Outcome(passed == len(cases), text, reading=reading, score=passed / len(cases))


def _lemma1(rows: pl.DataFrame, reading: str) -> Outcome:
    part, under = _tried(rows, "lemma1", "reading", reading), f"blocks by {reading}"
    if part.is_empty():
        return Outcome(None, "not run", reading=under)
    lines = part.sort("samples").rows(named=True)
    text = "; ".join(
        f"s = {r['samples']:,}: from {r['least']:.1e} to {r['most']:.1e}, stated {r['stated']:.1e}" for r in lines
    )
    held = sum(r["most"] <= r["stated"] for r in lines)
    return Outcome(held == len(lines), f"chance of failure {text}", reading=under, score=held / len(lines))


def _covered(rows: pl.DataFrame, kind: str, flipped: float) -> Outcome:
    """Whether a bound on the estimate's error holds as often as stated, but for two standard errors of a share."""
    part, under = _tried(rows, kind, "flipped", flipped), f"{flipped:.0%} of the bits inverted"
    if part.is_empty():
        return Outcome(None, "not run", reading=under)
    lines = part.sort("bits", "p").rows(named=True)
    text = "; ".join(f"p = {r['p']}, {r['bits']:,} bits: {r['covered']:.1%}" for r in lines)
    least = [r["stated"] - 2 * math.sqrt(r["stated"] * (1 - r["stated"]) / r["repetitions"]) for r in lines]
    held = sum(r["covered"] >= low for r, low in zip(lines, least, strict=True))
    text = f"within the bound in {text}; stated {lines[0]['stated']:.4g}"
    if kind == "lemma3":
        text += "; bound in the median " + ", ".join(f"{r['bound']:.2g}" for r in lines)
    return Outcome(held == len(lines), text, reading=under, score=held / len(lines))


def _variance(rows: pl.DataFrame) -> Outcome:
    part = rows.filter(pl.col("kind") == "variance") if "kind" in rows.columns else pl.DataFrame()
    if part.is_empty():
        return Outcome(None, "not run")
    worst = float(np.max(part["excess"].to_numpy()))
    text = f"largest q (1 - q) - p (1 - p) {worst:.1e}, b = 3 to 301, 9,999 values of p"
    return Outcome(worst <= 1e-12, text, score=float(worst <= 1e-12))


def _added(rows: pl.DataFrame, who: str, slope: int, quick: bool, what: str) -> Outcome:
    """Whether each corrupted round adds at most `slope` clicks: the term in C with its constant set to 1."""
    part = growth_rows(rows, "C", quick).filter(pl.col("who") == who) if not rows.is_empty() else rows
    if part.is_empty() or part["corrupted"].n_unique() < 5:
        return Outcome(None, "not finished")
    means = dict(part.group_by("corrupted").agg(pl.col("regret").mean()).sort("corrupted").rows())
    clean = means.pop(0.0)
    most = max((mean - clean) / c for c, mean in means.items())
    power = exponent(part, "corrupted")
    grows = f"it grows as C^{power:.2f}" if power == power else "an attack does not always add regret"
    text = ", ".join(f"C = {c:,.0f}: {mean:,.0f}" for c, mean in {0.0: clean, **means}.items())
    text = f"at most {most:.2f} clicks a corrupted round, {slope} allowed ({what}); {grows}. {text}"
    return Outcome(most <= slope, text, score=float(most <= slope))


def _in_t(rows: pl.DataFrame, quick: bool) -> tuple[list[tuple[float, float]], str]:
    """M2UCB-V's mean regret without corruption by horizon, and the figures in words."""
    if rows.is_empty():
        return [], ""
    part = growth_rows(rows, "T", quick).filter(pl.col("who") == "M2UCBV")
    means = part.group_by("horizon").agg(pl.col("regret").mean()).sort("horizon").rows()
    return means, ", ".join(f"T = {t:,.0f}: {mean:,.0f}" for t, mean in means)


def _grows(rows: pl.DataFrame, quick: bool, words: str, allowed: float) -> tuple[list[Outcome], str]:
    """Whether the last doubling of T multiplies regret by no more than `allowed`; if not, no verdict, and why.

    A bound of some order, constants not given, cannot be refuted at one size: regret may still be below it.
    """
    means, text = _in_t(rows, quick)
    if len(means) < 5:
        return [Outcome(None, "not finished")], ""
    factor = means[-1][1] / means[-2][1]
    if factor <= allowed:
        return [Outcome(True, f"the last doubling of T multiplies it by {factor:.2f}: {text}", score=1.0)], ""
    power = math.log2(factor)
    return (
        [],
        f"{words} has no constants, and at {means[-1][0]:,.0f} rounds regret still grows as T^{power:.2f} ({text})",
    )


def _gap_bound(rows: pl.DataFrame, quick: bool) -> Outcome:
    """K log T / gap with its constant set to 1, against the regret found."""
    means, _ = _in_t(rows, quick)
    if not means:
        return Outcome(None, "not finished")
    horizon, regret = means[-1]
    ordered = np.sort(profile("movielens", "moderate").attraction)[::-1]
    gap = float(ordered[9] - ordered[10])
    bound = ordered.size * math.log(horizon) / gap
    text = f"regret {regret:,.0f}, K log T / gap = {bound:,.0f} at T = {horizon:,.0f} (gap {gap:.1e})"
    text += ": more than all rounds together, so it says nothing" if bound > horizon else ""
    return Outcome(regret <= bound, text, score=float(regret <= bound))


def _weaker(rows: pl.DataFrame, quick: bool) -> Outcome:
    part = growth_rows(rows, "C", quick) if not rows.is_empty() else rows
    if part.is_empty() or not {"FORC", "CascadeRAC"} <= set(part["who"]):
        return Outcome(None, "not finished")
    means = part.group_by("who", "corrupted").agg(pl.col("regret").mean()).sort("corrupted")
    forc, rac = (
        dict(means.filter(pl.col("who") == who).select("corrupted", "regret").rows())
        for who in ("FORC", "CascadeRAC")
    )
    if len(forc) < 5 or forc.keys() != rac.keys():
        return Outcome(None, "not finished")
    held = sum(0.95 * rac[c] <= forc[c] <= 1.5 * rac[c] for c in forc)
    text = ", ".join(f"C = {c:,.0f}: {forc[c]:,.0f} against {rac[c]:,.0f}" for c in forc)
    return Outcome(held == len(forc), text, score=held / len(forc))


def theory_claims(rows: Mapping[str, pl.DataFrame], quick: bool) -> list[Claim]:
    """All of them, from the rows of the studies by name."""
    errors, lemmas, growth = rows["estimators"], rows["lemmas"], rows["growth"]
    items = profile("movielens").attraction.size
    log_growth = _LOG_SLACK * math.log(80_000) / math.log(40_000)
    log_t, no_log = _grows(growth, quick, "O(K log T / gap)", log_growth)
    root_t, no_root = _grows(growth, quick, "O(sqrt(K T))", math.sqrt(2.0))
    c_tested = "regret added a corrupted round is at most {}, the constant of the bound set to 1"
    return [
        Claim(
            "estimator-clean",
            "Without corruption the mean of medians behaves like a plain mean",
            "abstract",
            "root mean square error at most 1.1 times the mean's, 420 bits, blocks of 21",
            "estimators",
            [_clean_error(errors, p) for p in (0.1, 0.3)],
        ),
        Claim(
            "estimator-filters",
            "Under corruption the median step filters false samples out",
            "abstract; section 3",
            "root mean square error below half of the mean's in each of five cases",
            "estimators",
            [_false_error(errors, p, _MEAN, factor=0.5) for p in (0.1, 0.3)],
        ),
        Claim(
            "estimator-medians",
            "The mean of medians outperforms the median of means under corruption",
            "section 3",
            "smaller root mean square error than medians of means over blocks in time, five cases",
            "estimators",
            [_false_error(errors, p, _TIME, factor=1.0) for p in (0.1, 0.3)],
        ),
        Claim(
            "lemma-1",
            "With s >= 10 C every block keeps an honest majority but for a chance of s^-3",
            "Lemma 1",
            "exact bounds on that chance, alpha = 16",
            "lemmas",
            [_lemma1(lemmas, r) for r in ("number", "size")],
        ),
        Claim(
            "lemma-2",
            "The estimate is within its bound with chance 1 - delta",
            "Lemma 2",
            "share of 400 runs before g_b is applied, where the unknown xi drops out; delta = 0.05",
            "lemmas",
            [_covered(lemmas, "lemma2", share) for share in (0.0, 0.1)],
        ),
        Claim(
            "variance",
            "A majority's variance is no larger: q (1 - q) <= p (1 - p)",
            "appendix B, proof of Lemma 3",
            "computed on a grid of p for every odd b",
            "lemmas",
            [_variance(lemmas)],
        ),
        Claim(
            "lemma-3",
            "The error is at most A sqrt(v log t / s) + B log t / s, v the empirical variance",
            "Lemma 3",
            "share of 400 runs, A and B by the proof with the xi of each run",
            "lemmas",
            [_covered(lemmas, "lemma3", share) for share in (0.0, 0.1)],
        ),
        Claim(
            "theorem-c",
            "Corruption adds at most of the order of K C",
            "Theorems 1 and 2; Table 1",
            c_tested.format("K"),
            "growth",
            [_added(growth, "M2UCBV", items, quick, "K")],
        ),
        Claim(
            "theorem-gap",
            "Without corruption regret is at most of the order of K log T / gap",
            "Theorem 2; Table 1",
            "regret on MovieLens, moderate, against the bound with its constant set to 1",
            "growth",
            [_gap_bound(growth, quick)],
        ),
        Claim(
            "theorem-log",
            "Without corruption regret grows as log T",
            "abstract; Theorem 2",
            f"the last doubling of T multiplies it by at most {log_growth:.2f}",
            "growth",
            log_t,
            no_log,
        ),
        Claim(
            "theorem-root",
            "Without corruption regret grows at most as sqrt(K T)",
            "section 4",
            "the last doubling of T multiplies it by at most 1.41",
            "growth",
            root_t,
            no_root,
        ),
        Claim(
            "cbarbar-c",
            "Corruption adds at most of the order of d C to CascadeCBARBAR's regret",
            "Table 1",
            c_tested.format("d = 10"),
            "growth",
            [_added(growth, "CascadeCBARBAR", 10, quick, "d")],
        ),
        Claim(
            "forc",
            "FORC is similar to CascadeRAC and slightly weaker",
            "section 5; Table 1",
            "0.95 to 1.5 times its regret on MovieLens, moderate, C from 0 to 8,000",
            "growth",
            [_weaker(growth, quick)],
        ),
    ]
