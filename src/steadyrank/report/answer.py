"""The result in a few sentences, made of what was measured."""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from ..lab.cells import LENGTH
from ..profiles import profile
from ..studies import lineup
from . import steadiness
from .finals import APPENDIX, PAPER, Finals, best_value
from .verdicts import Claim

_MANY = 0.25  # "many items": at least this share of them attracts more than half of the users


def answer(rows: Mapping[str, pl.DataFrame], claims: Sequence[Claim]) -> list[str]:
    """How many claims hold, where M2UCB-V is ahead and what that is worth, and what was not given."""
    kinds = {
        kind: sum(claim.verdict.startswith(kind) for claim in claims) for kind in ("holds where", "fails", "cannot")
    }
    whole = sum(claim.verdict == "holds" for claim in claims)
    sentences = [
        f"Of {len(claims)} measurable claims {whole} hold under every reading tried here, {kinds['holds where']} "
        f"under some, {kinds['fails']} under none, and {kinds['cannot']} cannot be tested."
    ]
    many, few = _places(Finals(rows["corruption"]))
    if many and few:
        sentences.append(
            "Under attack M2UCB-V, in the better of two readings of its blocks, has the least regret of the paper's "
            f"five learners in {_won(many)} of {len(many)} settings where at least a quarter of the items attract "
            f"more than half of the users, and there a list drawn at random has {_worth(many):.1%} of the best "
            "list's value; where fewer do, it has the least in "
            f"{_won(few)} of {len(few)}, and random lists are worth {_worth(few):.0%}."
        )
    sentences += _beyond(rows.get("attacks"))
    tried = sum(claim.tried for claim in claims)
    sentences.append(
        "The paper gives neither its sigmoid nor its widths, and its text allows several algorithms: each claim was "
        f"judged under up to {max((claim.tried for claim in claims), default=0)} readings, {tried} verdicts in all, "
        "and the table says under which it comes closest."
    )
    return sentences


def _beyond(rows: pl.DataFrame | None) -> list[str]:
    """How the learner of this project bears attacks, if that was measured."""
    if rows is None or rows.is_empty():
        return []
    ratios = steadiness.ratios(rows)
    attacks = ratios.filter(pl.col("rate") > 0, pl.col("who") == "SteadyRank").height
    means = dict(steadiness.attacked(ratios).select("who", "geometric mean of attacks").rows())
    if any(means.get(who) is None for who in ("SteadyRank", "CascadeTS", "M2UCBV")):
        return []
    return [
        f"Beyond the paper: under {attacks} attacks of 15 % of the rounds SteadyRank, the learner of this project, "
        f"has {means['SteadyRank']:.2f} times the regret of a Thompson sampler that never sees a false click; the "
        f"same sampler that believes every click {means['CascadeTS']:.2f} times, M2UCB-V {means['M2UCBV']:.2f} times."
    ]


def _places(found: Finals) -> tuple[list[tuple[bool, float]], list[tuple[bool, float]]]:
    """Whether M2UCB-V is first (in the better of its two readings), and what Random's lists are worth, by setting."""
    many: list[tuple[bool, float]] = []
    few: list[tuple[bool, float]] = []
    for name, mapping, rate in itertools.product(lineup.DATA_SETS, lineup.JUDGED, lineup.RATES[1:]):
        means = {who: found.get(who, name, mapping, rate) for who in [*PAPER, APPENDIX, "Random"]}
        known = {who: mean for who, mean in means.items() if mean is not None}
        if len(known) < len(means):
            continue
        attraction = profile(name, mapping).attraction
        first = min(known["M2UCBV"], known[APPENDIX]) < min(known[who] for who in PAPER[1:])
        worth = 1.0 - known["Random"] / found.horizon / best_value(attraction, LENGTH)
        (many if np.mean(attraction > 0.5) >= _MANY else few).append((first, worth))
    return many, few


def _won(places: Sequence[tuple[bool, float]]) -> int:
    return sum(first for first, _ in places)


def _worth(places: Sequence[tuple[bool, float]]) -> float:
    return sum(worth for _, worth in places) / len(places)
