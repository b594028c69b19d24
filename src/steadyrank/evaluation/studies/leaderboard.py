"""Every learner under every kind of attack: docs/leaderboard.md.

Each kind of attack runs from the first round, from the middle, and spread over all rounds, each time in another of
three worlds: every kind meets every world once, at a third of the cost of the full product.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..lab.cells import Cell, Study
from .lineup import OMNISCIENT

SEEDS = 20
HORIZON = 20_000
RATE = 0.15  # of the rounds may be corrupted
SCHEDULES = ("front", "late", "spread")

LEARNERS = [
    "SteadyRank",
    "BatchRank",
    "BubbleRank",
    "CascadeCBARBAR",
    "CascadeDUCB",
    "CascadeKLUCB",
    "CascadeRAC",
    "CascadeRKC",
    "CascadeSWUCB",
    "CascadeTS",
    "CascadeUCB1",
    "CascadeUCBV",
    "ChangePointTS",
    "DCMKLUCB",
    "FAR",
    "FORC",
    "FTRL",
    "GLRTCascadeKLUCB",
    "GLRTCascadeUCB",
    "M2UCBV",
    "MUCBV",
    "PBMPIE",
    "PBMUCB",
    "PIE",
    "Random",
    "TSCascade",
    "TimeBlocks",
    "TopRank",
    "UniRank",
]
RIVALS = ["SteadyRank", "CascadeTS", "FTRL", "CascadeUCBV", "M2UCBV"]  # default rivals of a user's own learner
TOLD_BUDGET = ["CascadeRKC", "FAR", "MUCBV"]  # of the learners above: they know how many rounds may be corrupted
# why the other learners are not in the leaderboard
NOT_HERE = {
    "Oracle": "is told the attractions",
    **dict.fromkeys(("GRAB", "PBMFTRL", "PBMHB", "PBMTS"), "is for users who look at places, and slow"),
    **dict.fromkeys(
        ("C3UCB", "CascadeLinTS", "CascadeLinUCB", "CascadeMixedTS", "CascadeWOFUL", "SteadyRankLinear", "UCBCLB"),
        "needs features of the items",
    ),
    "VAC2UCB": "needs features of the items",
    "SteadyRankSegments": "is SteadyRank where visits have no segments",
}

WORLDS: list[dict[str, Any]] = [
    {"profile": "yelp-pizza", "mapping": "sparse"},
    {"profile": "movielens", "mapping": "moderate"},
    {"profile": "lastfm-listeners"},
]
_ANY_TIME: list[dict[str, Any]] = [
    *({"adversary": name} for name in ("PrefixFlip", "AttractionFlip", "FakeUser", "Swap", "Promote", "Demote")),
    {"adversary": "OtherTaste"},
    {"adversary": "OtherTaste", "adversary_settings": {"taste": "permuted"}},
    *({"adversary": name} for name in ("JunAttack", "CascadeAttack", "Sleeper", "Chameleon")),
]
FAMILIES: list[dict[str, Any]] = [
    *({**foe, "schedules": SCHEDULES} for foe in _ANY_TIME),
    {"adversary": "Flicker", "schedules": ("front", "late")},
    {"adversary": "SlowRamp", "schedules": ("front",)},  # it has its own schedule
    {"adversary": "AttackThenQuit", "schedules": ("front",)},
    {"adversary": "ObservationFree", "schedules": ("front",)},
    {"adversary": "Insider", "schedules": ("front", "late")},
]
QUICK_FAMILIES = [foe for foe in FAMILIES if foe["adversary"] in ("PrefixFlip", "FakeUser", "Demote")]


def leaderboard(
    learners: Iterable[str],
    families: Sequence[Mapping[str, Any]],
    worlds: Sequence[Mapping[str, Any]],
    *,
    first_seed: int = 0,
    horizon: int = HORIZON,
) -> Study:
    """The study of these learners, `Random` and an omniscient one under these kinds of attack.

    `families`: for each kind, fields of its cells and their `schedules`.
    """
    fixed = {"first_seed": first_seed, "horizon": horizon}
    attacked = [
        {**foe, **worlds[(i + k) % len(worlds)], **fixed, "schedule": schedule, "rate": RATE}
        for i, (foe, schedules) in enumerate(map(_apart, families))
        for k, schedule in enumerate(schedules)
    ]
    who = [*({"learner": name} for name in dict.fromkeys([*learners, "Random"])), OMNISCIENT]
    return Study(
        place=24,
        name="leaderboard",
        title="Every learner under every kind of attack",
        paper="beyond the paper",
        exhibit="standings",
        question="Who loses least beside a learner that never sees a false click, and who recovers?",
        blocks=[
            {"attack": attacked, "who": who},
            {"world": [{**world, **fixed} for world in worlds], "adversary": ["Honest"], "who": who},
        ],
        default=False,
    )


def timed(learner: str, world: Mapping[str, Any] = WORLDS[0]) -> Cell:
    """The cell for measuring a learner's microseconds per round: honest users, a quarter of the rounds."""
    return Cell(learner, **{**world, "horizon": HORIZON // 4}, seeds=1, marks=1)


def _apart(family: Mapping[str, Any]) -> tuple[dict[str, Any], Sequence[str]]:
    return {name: value for name, value in family.items() if name != "schedules"}, family["schedules"]


STUDY = leaderboard(LEARNERS, FAMILIES, WORLDS)
