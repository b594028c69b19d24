"""Regret curves recorded before visits, reach and senders came into the contract: none of them moved a bit.

Made with commit 13da9e6, those of SteadyRank and CascadeTS anew when equal items came to lie side by side. A
tolerance of 1e-5 stands for machines whose logarithms round otherwise; a single list that differed would show in the
third digit.
"""

import pytest

import steadyrank as sr

pytestmark = pytest.mark.pure

CURVES = [
    (
        "CascadeTS",
        ("yelp-pizza", "moderate"),
        ("PrefixFlip", "front", "Cascade", {}),
        [291.681, 490.039],
        (400.0, 2059, 25),
    ),
    (
        "CascadeUCBV",
        ("yelp-pizza", "moderate"),
        ("PrefixFlip", "front", "Cascade", {}),
        [299.834, 598.044],
        (400.0, 2027, 40),
    ),
    (
        "M2UCBV",
        ("lastfm", "sparse"),
        ("PrefixFlip", "front", "Cascade", {}),
        [1019.277, 1980.942],
        (400.0, 3037, 56),
    ),
    (
        "SteadyRank",
        ("yelp-pizza", "moderate"),
        ("PrefixFlip", "front", "Cascade", {}),
        [185.879, 253.446],
        (400.0, 1851, 19),
    ),
    (
        "SteadyRank",
        ("lastfm", "sparse"),
        ("Demote", "bursts", "Cascade", {}),
        [393.177, 595.047],
        (190.0, 274, 274),
    ),
    (
        "CascadeTS",
        ("lastfm", "sparse"),
        ("FakeUser", "spread", "Cascade", {}),
        [581.222, 836.548],
        (393.0, 557, 134),
    ),
    (
        "CascadeTS",
        ("yelp-pizza", "moderate"),
        ("Swap", "front", "Cascade", {}),
        [302.713, 495.624],
        (400.0, 401, 1),
    ),
    (
        "CascadeTS",
        ("yelp-pizza", "moderate"),
        ("CascadeAttack", "front", "Cascade", {}),
        [199.281, 293.705],
        (400.0, 795, 25),
    ),
    (
        "CascadeTS",
        ("yelp-pizza", "moderate"),
        ("JunAttack", "front", "Cascade", {}),
        [225.117, 339.836],
        (400.0, 400, 13),
    ),
    (
        "CascadeTS",
        ("yelp-pizza", "moderate"),
        ("PrefixFlip", "front", "DriftingCascade", {"pattern": "jump", "span": 2000}),
        [291.681, 523.147],
        (400.0, 2059, 25),
    ),
]


# the others need a loop of their own, compiled for nothing else
USUAL = [
    ("CascadeTS", "PrefixFlip", "Cascade"),
    ("CascadeUCBV", "PrefixFlip", "Cascade"),
    ("SteadyRank", "PrefixFlip", "Cascade"),
]


def marks_of(learner, world, attack, *_):
    return () if (learner, attack[0], attack[2]) in USUAL else pytest.mark.slow


@pytest.mark.parametrize(
    ("learner", "world", "attack", "regret", "counts"),
    [pytest.param(*curve, marks=marks_of(*curve)) for curve in CURVES],
    ids=lambda value: str(value)[:30],
)
def test_curves_are_as_they_were(learner, world, attack, regret, counts):
    """Cumulative regret after 2,000 and 4,000 rounds; rounds corrupted, false bits, and those on best items."""
    adversary, schedule, users, users_settings = attack
    run = sr.simulate(
        learner,
        sr.profile(*world).attraction,
        length=10,
        horizon=4_000,
        adversary=adversary,
        schedule=schedule,
        budget=400,
        users=users,
        users_settings=users_settings,
        seeds=[0],
        marks=2,
    )
    assert run.regret[0] == pytest.approx(regret, rel=1e-5)
    assert (run.spent[0, -1], run.bits_changed[0], run.best_corrupted[0]) == counts
