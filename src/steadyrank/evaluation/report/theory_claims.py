"""The paper's claims about its estimator, its lemmas and its bounds. Bounds are judged as bounds."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import polars as pl

from ...comparison.intervals import NORMAL
from ..lab import cells
from ..lab.trials import PAPERS_BLOCKS, RANDOM_MEANS, TIME_MEANS
from ..studies import growth as growth_study
from ..studies.estimators import ATTRACTIONS
from .finals import Finals
from .paired import LOOKS, CellKey, Difference, Finding, all_of, difference, mean_of, seeds_in_words, weakest
from .sources import Source, world_of
from .verdicts import Claim, Outcome, verdict_of

_MEAN = "sample mean"
_LOG_SLACK = 1.1  # "logarithmic": the last doubling of T adds at most 1.1 times what log T does
_CENTRED = 0.01  # "centred around the true value": a bias of at most this
_UNLIKELY = 0.05
_WIDE = NORMAL[LOOKS]  # half width of an interval, in standard errors


def _tried(rows: pl.DataFrame, kind: str, column: str, value: object) -> pl.DataFrame:
    """The finished trials of this kind with this value."""
    if rows.is_empty() or column not in rows.columns:
        return pl.DataFrame()
    return rows.filter((pl.col("kind") == kind) & (pl.col(column) == value))


class Errors:
    """Bias and root mean square error by estimate and case, for items of one attraction."""

    def __init__(self, rows: pl.DataFrame, p: float) -> None:
        part = _tried(rows, "errors", "p", p)
        self.of = {(r["estimate"], r["case"]): r for r in part.rows(named=True)}
        self.cases = list(dict.fromkeys(case for _, case in self.of if case != "clean"))
        self.repetitions = f"{part['repetitions'][0]:,} repetitions" if self.of else ""

    def compared(self, what: str, mine: str, other: str, case: str, factor: float) -> Difference:
        """The error of `mine` minus `factor` times the other's, with an interval that assumes independence."""
        a, b = self.of[mine, case], self.of[other, case]
        half = _WIDE * math.hypot(a["rmse_error"], factor * b["rmse_error"])
        return Difference(what, a["rmse"] - factor * b["rmse"], half, 0)


def _by_blocks(rows: pl.DataFrame, judge: Callable[[Errors, str, str], Outcome]) -> list[Outcome]:
    """One outcome for each attraction and reading of the blocks."""
    outcomes = []
    for p, (blocks, mine) in itertools.product(ATTRACTIONS, PAPERS_BLOCKS.items()):
        errors, reading = Errors(rows, p), f"attraction {p}, {blocks}"
        outcomes.append(judge(errors, mine, reading) if errors.of else _not_run(reading))
    return outcomes


def _not_run(reading: str) -> Outcome:
    return Outcome("not measured", "not run", reading=reading)


def _error_claim(rows: pl.DataFrame, other: str, factor: float, *, clean: bool) -> list[Outcome]:
    """Whether the estimator's error is below `factor` times the other's, without or with false bits."""

    def judge(errors: Errors, mine: str, reading: str) -> Outcome:
        findings, texts = [], []
        for case in ["clean"] if clean else errors.cases:
            margin = errors.compared(f"error less {factor:g} times the other's, {case}", mine, other, case, factor)
            findings.append(Finding(margin.below, margin))
            texts.append(f"{case}: {errors.of[mine, case]['rmse']:.3f} against {errors.of[other, case]['rmse']:.3f}")
        return _joined(findings, "root mean square error. " + "; ".join(texts), reading, errors)

    return _by_blocks(rows, judge)


def _joined(findings: Sequence[Finding], text: str, reading: str, errors: Errors) -> Outcome:
    held = sum(finding.truth is True for finding in findings)
    return Outcome(
        verdict_of(all_of(finding.truth for finding in findings)),
        f"in {held} of {len(findings)} cases, {text}" if len(findings) > 1 else text,
        reading=reading,
        score=held / len(findings),
        seeds=errors.repetitions,
        weakest=weakest(findings),
    )


def _centred(rows: pl.DataFrame) -> list[Outcome]:
    def judge(errors: Errors, mine: str, reading: str) -> Outcome:
        bias, half = errors.of[mine, "clean"]["bias"], _WIDE * errors.of[mine, "clean"]["bias_error"]
        margin = Difference(f"|bias| - {_CENTRED:g}", abs(bias) - _CENTRED, half, 0)
        return _joined([Finding(margin.below, margin)], f"bias {bias:+.3f} ± {half:.3f}", reading, errors)

    return _by_blocks(rows, judge)


def _unaffected(rows: pl.DataFrame) -> list[Outcome]:
    """Whether few medians of blocks change if a tenth of the bits is inverted."""
    outcomes = []
    for p in ATTRACTIONS:
        part, reading = _tried(rows, "changed_medians", "p", p), f"attraction {p}"
        for line in part.rows(named=True):
            margin = Difference(
                "share of changed medians - 0.05", line["changed"] - _UNLIKELY, _WIDE * line["error"], 0
            )
            outcomes.append(
                Outcome(
                    verdict_of(margin.below),
                    f"{line['changed']:.1%} of the medians of {line['block']} bits change",
                    reading=f"{reading}, blocks of {line['block']} bits",
                    score=min(_UNLIKELY / max(line["changed"], 1e-9), 1.0),
                    seeds=f"{line['repetitions']:,} repetitions",
                    weakest=margin,
                )
            )
        if part.is_empty():
            outcomes.append(_not_run(reading))
    return outcomes


def _lemma1(rows: pl.DataFrame, reading: str) -> Outcome:
    part, under = _tried(rows, "lemma1", "reading", reading), f"blocks by {reading}"
    if part.is_empty():
        return _not_run(under)
    lines = part.sort("samples").rows(named=True)
    text = "; ".join(
        f"s = {r['samples']:,}: from {r['least']:.1e} to {r['most']:.1e}, stated {r['stated']:.1e}" for r in lines
    )
    kept, broken = (sum(r[name] <= r["stated"] for r in lines) for name in ("most", "least"))
    truth = True if kept == len(lines) else False if broken < len(lines) else None
    return Outcome(
        verdict_of(truth), f"chance of failure {text}", reading=under, score=kept / len(lines), seeds="exact bounds"
    )


def _share_interval(share: float, n: int) -> tuple[float, float]:
    """Wilson's 97.5 % interval for a share of n trials."""
    z = _WIDE
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return centre - half, centre + half


def _covered(rows: pl.DataFrame, kind: str, flipped: float) -> Outcome:
    """Whether a bound on the estimate's error holds as often as stated: in every run, or significantly often."""
    part, under = _tried(rows, kind, "flipped", flipped), f"{flipped:.0%} of the bits inverted"
    if part.is_empty():
        return _not_run(under)
    lines = part.sort("bits", "p").rows(named=True)
    findings = []
    for r in lines:
        low, high = _share_interval(r["covered"], r["repetitions"])
        truth = False if high < r["stated"] else True if r["covered"] == 1.0 or low >= r["stated"] else None
        what = f"stated - covered, p = {r['p']}, {r['bits']:,} bits"
        findings.append(Finding(truth, Difference(what, r["stated"] - r["covered"], 0.5 * (high - low), 0)))
    text = "; ".join(f"p = {r['p']}, {r['bits']:,} bits: {r['covered']:.1%}" for r in lines)
    text = f"within the bound in {text}; stated {lines[0]['stated']:.4g}"
    if kind == "lemma3":
        text += "; bound in the median " + ", ".join(f"{r['bound']:.2g}" for r in lines)
    held = sum(finding.truth is True for finding in findings)
    return Outcome(
        verdict_of(all_of(finding.truth for finding in findings)),
        text,
        reading=under,
        score=held / len(lines),
        seeds=f"{lines[0]['repetitions']:,} runs",
        weakest=weakest(findings),
    )


def _variance(rows: pl.DataFrame) -> Outcome:
    part = rows.filter(pl.col("kind") == "variance") if "kind" in rows.columns else pl.DataFrame()
    if part.is_empty():
        return Outcome("not measured", "not run")
    worst = float(np.max(part["excess"].to_numpy()))
    text = f"largest q (1 - q) - p (1 - p) {worst:.1e}, b = 3 to 301, 9,999 values of p"
    return Outcome(verdict_of(worst <= 1e-12), text, score=float(worst <= 1e-12), seeds="computed")


class Growth:
    """Final regret in the study `growth`, by seed, with one quantity varied at a time."""

    def __init__(self, rows: pl.DataFrame, quick: bool, sources: Mapping[str, Source]) -> None:
        self.runs = Finals(rows)
        self.quick = quick
        self.data = sources[growth_study.PROFILE].words
        self.attraction = np.zeros(0) if rows.is_empty() else world_of(rows).attraction

    def key(self, who: str, rate: float = 0.0, horizon: int = 40_000) -> CellKey:
        """The cell of a learner with this rate and horizon."""
        rounds = horizon * cells.QUICK_HORIZON // cells.HORIZON if self.quick else horizon
        return self.runs.key(who, growth_study.PROFILE, growth_study.MAPPING, rate, horizon=rounds)

    def added(self, who: str, slope: int, what: str) -> Outcome:
        """Whether each corrupted round adds at most `slope` clicks: the bound's term in C with constant 1."""
        rates, clean = growth_study.RATES[1:], self.runs.runs(self.key(who))
        findings, texts, counts, wants, most = [], [], set(), set(), 0.0
        for rate in rates:
            runs, key = self.runs.runs(self.key(who, rate)), self.key(who, rate)
            if not clean or not runs:
                return Outcome("not measured", "not finished", data=self.data)
            corrupted = rate * key.horizon
            limit = {seed: value + slope * corrupted for seed, value in clean.items()}
            margin = difference(f"{who}, C = {corrupted:,.0f}: regret added - {slope} C", runs, limit)
            findings.append(Finding(margin.below, margin))
            counts |= {len(runs), len(clean)}
            wants |= {key, self.key(who)} if margin.below is None else set()
            most = max(most, margin.mean / corrupted + slope)
            texts.append(f"C = {corrupted:,.0f}: {sum(runs.values()) / len(runs):,.0f}")
        truth = all_of(finding.truth for finding in findings)
        text = f"at most {most:.2f} clicks a corrupted round, {slope} allowed ({what}). C = 0: "
        text += f"{sum(clean.values()) / len(clean):,.0f}, " + ", ".join(texts)
        return Outcome(
            verdict_of(truth),
            text,
            score=float(truth is True),
            data=self.data,
            seeds=seeds_in_words(counts),
            weakest=weakest(findings),
            wants=frozenset(wants) if truth is None else frozenset(),
        )

    def horizons(self, who: str) -> list[tuple[int, CellKey]]:
        """The finished horizons, with their cells."""
        keys = [self.key(who, horizon=horizon) for horizon in growth_study.HORIZONS]
        return [(key.horizon, key) for key in keys if self.runs.runs(key)]

    def in_t(self, words: str, allowed: float) -> tuple[list[Outcome], str]:
        """Whether the last doubling of T multiplies regret by at most `allowed`; if not, no outcome, and the reason.

        An asymptotic bound without constants cannot be refuted at one size: regret may still be below it.
        """
        done = self.horizons("M2UCBV")
        if len(done) < len(growth_study.HORIZONS):
            return [Outcome("not measured", "not finished", data=self.data)], ""
        (_, before), (last, after) = done[-2:]
        runs = [self.runs.runs(key) for key in (before, after)]
        means = ", ".join(
            f"T = {t:,.0f}: {sum(r.values()) / len(r):,.0f}" for t, k in done for r in [self.runs.runs(k)]
        )
        margin = mean_of(f"factor - {allowed:.2f}", [runs[1][s] / max(runs[0][s], 1e-9) - allowed for s in runs[1]])
        if margin.below is not False:
            text = f"the last doubling of T multiplies it by {margin.mean + allowed:.2f}: {means}"
            wants = frozenset((before, after)) if margin.below is None else frozenset()
            return [
                Outcome(
                    verdict_of(margin.below),
                    text,
                    score=1.0,
                    data=self.data,
                    seeds=str(margin.seeds),
                    weakest=margin,
                    wants=wants,
                )
            ], ""
        power = math.log2(margin.mean + allowed)
        return (
            [],
            f"{words} has no constants, and at {last:,.0f} rounds regret still grows as T^{power:.2f} ({means})",
        )

    def below_bound(self, who: str, bound_of: str, factor: float) -> Outcome:
        """Whether regret at the longest horizon is below `factor` K log T / gap, with constant 1."""
        done = self.horizons(who)
        if not done:
            return Outcome("not measured", "not finished", data=self.data)
        horizon, key = done[-1]
        ordered = np.sort(self.attraction)[::-1]
        gap = float(ordered[9] - ordered[10])
        bound = factor * ordered.size * math.log(horizon) / gap
        runs = self.runs.runs(key)
        margin = mean_of(f"{who}: regret - {bound_of}", [value - bound for value in runs.values()])
        text = f"regret {margin.mean + bound:,.0f}, {bound_of} = {bound:,.0f} at T = {horizon:,.0f} (gap {gap:.1e})"
        text += ": more than all rounds together, so it says nothing" if bound > horizon else ""
        return Outcome(
            verdict_of(margin.below),
            text,
            score=float(margin.below is True),
            data=self.data,
            seeds=str(margin.seeds),
            weakest=margin,
        )

    def weaker(self) -> Outcome:
        """Whether FORC has from 0.95 to 1.5 times the regret of CascadeRAC at every C."""
        findings, texts, counts = [], [], set()
        for rate in growth_study.RATES:
            forc, rac = (self.runs.runs(self.key(who, rate)) for who in ("FORC", "CascadeRAC"))
            if not forc or not rac:
                return Outcome("not measured", "not finished", data=self.data)
            low, high = (
                difference("0.95 RAC - FORC", rac, forc, 0.95),
                difference("FORC / 1.5 - RAC", forc, rac, 2 / 3),
            )
            findings.append(Finding(all_of([low.below, high.below]), low if low.below is not True else high))
            counts |= {len(forc), len(rac)}
            means = (sum(of.values()) / len(of) for of in (forc, rac))
            texts.append(
                f"C = {rate * self.key('FORC').horizon:,.0f}: " + " against ".join(f"{m:,.0f}" for m in means)
            )
        held = sum(finding.truth is True for finding in findings)
        return Outcome(
            verdict_of(all_of(finding.truth for finding in findings)),
            ", ".join(texts),
            score=held / len(findings),
            data=self.data,
            seeds=seeds_in_words(counts),
            weakest=weakest(findings),
        )


def estimator_claims(errors: pl.DataFrame, lemmas: pl.DataFrame) -> list[Claim]:
    """Claims about the calibrated mean of medians and its three lemmas."""
    five = "each of five cases, 420 bits"
    return [
        Claim(
            "estimator-clean",
            "Without corruption the mean of medians behaves like a plain mean",
            "abstract",
            "root mean square error at most 1.1 times the mean's, 420 bits",
            "estimators",
            _error_claim(errors, _MEAN, 1.1, clean=True),
        ),
        Claim(
            "estimator-centred",
            "After calibration estimates are centred around the true value",
            "section 1, algorithm design; section 3",
            f"a bias of at most {_CENTRED:g} without corruption, 420 bits",
            "estimators",
            _centred(errors),
        ),
        Claim(
            "estimator-filters",
            "Under corruption the median step filters false samples out",
            "abstract; section 3",
            f"root mean square error below half of the mean's in {five}",
            "estimators",
            _error_claim(errors, _MEAN, 0.5, clean=False),
        ),
        Claim(
            "estimator-medians-time",
            "The mean of medians outperforms the median of means under corruption: blocks in time",
            "section 3",
            f"smaller root mean square error than medians of means over 21 blocks in time, {five}",
            "estimators",
            _error_claim(errors, TIME_MEANS, 1.0, clean=False),
        ),
        Claim(
            "estimator-medians-random",
            "The mean of medians outperforms the median of means under corruption: both on random blocks",
            "section 3",
            f"smaller root mean square error than medians of means over 21 random blocks, {five}",
            "estimators",
            _error_claim(errors, RANDOM_MEANS, 1.0, clean=False),
        ),
        Claim(
            "medians-unaffected",
            "The median of each group is unlikely to be affected by corruption",
            "section 3, the estimator",
            f"at most {_UNLIKELY:.0%} of the blocks' medians change when a tenth of the bits is inverted",
            "estimators",
            _unaffected(errors),
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
            "share of runs before g_b is applied, where the unknown xi drops out; delta = 0.05",
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
            "share of runs, A and B by the proof with the xi of each run",
            "lemmas",
            [_covered(lemmas, "lemma3", share) for share in (0.0, 0.1)],
        ),
    ]


def bound_claims(growth: Growth) -> list[Claim]:
    """Claims about how regret grows."""
    items = growth.attraction.size
    log_growth = _LOG_SLACK * math.log(80_000) / math.log(40_000)
    log_t, no_log = growth.in_t("O(K log T / gap)", log_growth)
    root_t, no_root = growth.in_t("O(sqrt(K T))", math.sqrt(2.0))
    c_tested = "regret added a corrupted round is at most {}, the constant of the bound set to 1"
    gap_tested = "regret on MovieLens, moderate, against the bound with its constant set to 1"
    square = 100 * math.log(growth.key("M2UCBV", horizon=80_000).horizon)

    def claim(
        id: str, text: str, place: str, tested: str, outcomes: list[Outcome], because: str = "", rests_on: str = ""
    ) -> Claim:
        return Claim(id, text, place, tested, "growth", outcomes, because, rests_on)

    return [
        claim(
            "theorem-1-c",
            "Where C is known, corruption adds at most of the order of K C to MUCB-V's regret",
            "Theorem 1",
            c_tested.format("K"),
            [growth.added("MUCBV", items, "K")],
        ),
        claim(
            "theorem-1-gap",
            "Without corruption MUCB-V's regret is at most of the order of the sum of log T / gap",
            "Theorem 1",
            f"{gap_tested}, every gap taken to be the least",
            [growth.below_bound("MUCBV", "K log T / gap", 1.0)],
        ),
        claim(
            "theorem-2-c",
            "Where C is unknown, corruption adds at most of the order of K C to M2UCB-V's regret",
            "Theorem 2; Table 1",
            c_tested.format("K"),
            [growth.added("M2UCBV", items, "K")],
        ),
        claim(
            "theorem-2-gap",
            "Without corruption M2UCB-V's regret is at most of the order of K log T / gap",
            "Theorem 2; Table 1",
            gap_tested,
            [growth.below_bound("M2UCBV", "K log T / gap", 1.0)],
        ),
        claim(
            "theorem-log",
            "Without corruption regret grows as log T",
            "abstract; Theorem 2",
            f"the last doubling of T multiplies it by at most {log_growth:.2f}",
            log_t,
            no_log,
        ),
        claim(
            "theorem-root",
            "Without corruption regret grows at most as sqrt(K T)",
            "section 4",
            "the last doubling of T multiplies it by at most 1.41",
            root_t,
            no_root,
        ),
        claim(
            "cbarbar-c",
            "Corruption adds at most of the order of d C to CascadeCBARBAR's regret",
            "Proposition 1; Table 1",
            c_tested.format("d = 10"),
            [growth.added("CascadeCBARBAR", 10, "d")],
        ),
        claim(
            "cbarbar-clean",
            "Without corruption CascadeCBARBAR's regret is at most of the order of d^2 K log^2 T / gap",
            "Proposition 1; Table 1",
            gap_tested,
            [growth.below_bound("CascadeCBARBAR", "d^2 K log^2 T / gap", square)],
        ),
        claim(
            "multiplicative",
            "In the regret of CascadeRAC and FORC corruption is multiplied by the rest of the bound",
            "sections 1 and 4; Table 1",
            "",
            [],
            "the stated bounds exceed all rounds together at every C above 0, so every learner keeps them, whether "
            "its regret multiplies or adds",
            "CascadeRAC and FORC, reconstructions",
        ),
        claim(
            "forc",
            "FORC is similar to CascadeRAC and slightly weaker",
            "section 5; Table 1",
            "0.95 to 1.5 times its regret on MovieLens, moderate, C from 0 to 8,000",
            [growth.weaker()],
            "both are reconstructions, and that of CascadeRAC is no more than random lists at this size",
            "CascadeRAC and FORC, reconstructions",
        ),
    ]


def theory_claims(rows: Mapping[str, pl.DataFrame], quick: bool, sources: Mapping[str, Source]) -> list[Claim]:
    """All claims about theory, from the rows of the studies by name."""
    growth = Growth(rows["growth"], quick, sources)
    return [*estimator_claims(rows["estimators"], rows["lemmas"]), *bound_claims(growth)]
