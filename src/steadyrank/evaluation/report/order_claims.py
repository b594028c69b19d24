"""The paper's claims about the order of its five learners: who has the least regret, the most, or less than another.

None of the thresholds below was chosen by looking at whether a claim holds.
"""

import itertools
from collections.abc import Iterator, Sequence

from ..studies import lineup
from .finals import Finals, Lens, Means, Setting, Test, lenses, place_of
from .tables import number
from .verdicts import Claim, Outcome

FIGURE_1 = "section 5, Figure 1"
_RATES = lineup.RATES[1:]  # those above 0
_SEVERAL = 3
_WIDE = 2.0  # "by a wide margin"


def ahead(who: str, other: str, factor: float = 1.0) -> Test:
    """Whether `who` has less than 1 / factor times the regret of the other."""
    return lambda means: factor * means[who] < means[other]


def everywhere(lens: Lens, settings: Sequence[Setting], test: Test, need: int | None = None) -> Outcome:
    """Whether the test passes in all the settings (or in `need` of them), and in which it does not."""
    passed: list[str] = []
    failed: list[str] = []
    for name, rate in settings:
        means = lens.at(name, rate)
        if means is None:
            return Outcome(None, f"{name} at {rate:.0%} is not finished", lens.mapping, lens.reading)
        order = sorted(means, key=lambda who: means[who])
        text = f"{name} {rate:.0%}: " + " < ".join(f"{who} {number(means[who])}" for who in order)
        (passed if test(means) else failed).append(text)
    wanted = len(settings) if need is None else min(need, len(settings))
    parts = [f"in {len(passed)} of {len(settings)} settings"]
    parts += [f"not in: {'; '.join(failed)}"] if failed and need is None else []
    parts += [f"in: {'; '.join(passed)}"] if passed and (failed or need is not None) else []
    return Outcome(
        len(passed) >= wanted, ". ".join(parts), lens.mapping, lens.reading, min(len(passed) / wanted, 1.0)
    )


def _settings(names: Sequence[str], rates: Sequence[float]) -> list[Setting]:
    return list(itertools.product(names, rates))


def ordered_claims(final_means: Finals) -> Iterator[Claim]:
    """Claims that a test of the five means decides."""
    sets = lineup.DATA_SETS
    beyond, several = _RATES[1:], f"{_SEVERAL} or more"
    ours, robust = place_of("M2UCBV", 1), ("M2UCBV", "CascadeRAC", "CascadeCBARBAR")
    under = "its mean final regret is lower than that of the other four"

    def claim(
        id: str,
        text: str,
        tested: str,
        settings: list[Setting],
        test: Test,
        *,
        place: str = FIGURE_1,
        need: int | None = None,
        rivals_only: bool = False,
    ) -> Claim:
        outcomes = []
        for lens in lenses(final_means, rivals_only=rivals_only):
            here = [setting for setting in settings if lens.has(setting)]
            if here and (need is None or lens.rates is None):
                outcomes.append(everywhere(lens, here, test, need))
        return Claim(id, text, place, tested, "corruption", outcomes)

    def more(means: Means) -> bool:
        return all(means["FTRL"] > means[who] for who in robust)

    top = "fewer than two of the other four have as little regret, on each data set"
    yield claim(
        "clean", "Without corruption M2UCB-V is among the best", top, _settings(sets, [0.0]), place_of("M2UCBV", 2)
    )
    for id, name, rates, words in (
        ("best-yelp", "Yelp", _RATES, "5 to 25 %"),
        ("best-movielens", "MovieLens", _RATES, "5 to 25 %"),
        ("best-lastfm", "Last.fm", _RATES[:3], "5 to 15 %"),
    ):
        data = {"Yelp": "yelp-pizza", "MovieLens": "movielens", "Last.fm": "lastfm"}[name]
        text = f"M2UCB-V is best on {name} at {words} corruption"
        yield claim(id, text, under, _settings([data], rates), ours)
    yield claim(
        "consistent",
        "M2UCB-V consistently outperforms prior methods under corruption",
        "lowest mean final regret in at least 13 of the 15 corrupted settings: the paper itself excepts two",
        _settings(sets, _RATES),
        ours,
        place="abstract; section 6",
        need=13,
    )
    yield claim(
        "rac-lastfm",
        "At 20 % and more CascadeRAC is ahead of M2UCB-V on Last.fm",
        "less regret at 20 and 25 %",
        _settings(["lastfm"], _RATES[3:]),
        ahead("CascadeRAC", "M2UCBV"),
    )
    yield claim(
        "rac-worst",
        "Without corruption CascadeRAC is the worst",
        "more regret than the other four, each data set",
        _settings(sets, [0.0]),
        place_of("CascadeRAC", -1),
        rivals_only=True,
    )
    yield claim(
        "rac-low",
        "At low corruption CascadeRAC is behind M2UCB-V by a wide margin",
        f"{_WIDE:g} times its regret or more at 0 and 5 %, each data set",
        _settings(sets, [0.0, 0.05]),
        ahead("M2UCBV", "CascadeRAC", _WIDE),
        place="section 5, Figures 2 to 4",
    )
    yield claim(
        "ucbv-cbarbar",
        "CascadeUCB-V is ahead of CascadeCBARBAR in several settings",
        f"in {several} of 18 settings",
        _settings(sets, lineup.RATES),
        ahead("CascadeUCBV", "CascadeCBARBAR"),
        need=_SEVERAL,
        rivals_only=True,
    )
    yield claim(
        "beats-cbarbar",
        "M2UCB-V outperforms CascadeCBARBAR even under heavy corruption",
        "less regret at every rate above 0, each data set",
        _settings(sets, _RATES),
        ahead("M2UCBV", "CascadeCBARBAR"),
        place="sections 1 and 4",
    )
    yield claim(
        "ftrl-clean",
        "Without corruption FTRL is best",
        "less regret than the other four, each data set",
        _settings(sets, [0.0]),
        place_of("FTRL", 1),
        rivals_only=True,
    )
    yield claim(
        "ftrl-worst",
        "Beyond 5 % FTRL is the worst",
        "more regret than the other four at 10 to 25 %, each data set",
        _settings(sets, beyond),
        place_of("FTRL", -1),
        rivals_only=True,
    )
    yield claim(
        "ftrl-robust",
        "Under corruption FTRL does worse than the robust learners",
        "more regret than M2UCB-V, CascadeRAC and CascadeCBARBAR at every rate above 0",
        _settings(sets, _RATES),
        more,
        place="section 1, related work",
    )
    yield claim(
        "no-cost",
        "Robustness costs nothing: without corruption M2UCB-V does as well as CascadeUCB-V",
        "at most 1.05 times its regret, each data set",
        _settings(sets, [0.0]),
        lambda means: means["M2UCBV"] <= 1.05 * means["CascadeUCBV"],
        place="abstract",
    )
