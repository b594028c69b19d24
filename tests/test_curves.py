"""Regret curves recorded before visits, reach and senders came into the contract: none of them moved a bit.

Made with commit 13da9e6, those of SteadyRank and CascadeTS anew when equal items came to lie side by side. A
tolerance of 1e-9 stands for machines whose logarithms round otherwise; a single list that differed would show in the
third digit.
"""

import pytest

import steadyrank as sr

CURVES = [
    (
        "CascadeTS",
        ("yelp-pizza", "moderate"),
        ("PrefixFlip", "front", "Cascade", {}),
        [291.68124216858524, 490.0388569485384],
        (400.0, 2059, 25),
    ),
    (
        "CascadeUCBV",
        ("yelp-pizza", "moderate"),
        ("PrefixFlip", "front", "Cascade", {}),
        [299.8337662242241, 598.0435295952533],
        (400.0, 2027, 40),
    ),
    (
        "M2UCBV",
        ("lastfm", "sparse"),
        ("PrefixFlip", "front", "Cascade", {}),
        [1019.2771029153178, 1980.942479492329],
        (400.0, 3037, 56),
    ),
    (
        "SteadyRank",
        ("yelp-pizza", "moderate"),
        ("PrefixFlip", "front", "Cascade", {}),
        [185.87875556454182, 253.44625722194368],
        (400.0, 1851, 19),
    ),
    (
        "SteadyRank",
        ("lastfm", "sparse"),
        ("Demote", "bursts", "Cascade", {}),
        [393.17695062613615, 595.0473488325255],
        (190.0, 274, 274),
    ),
    (
        "CascadeTS",
        ("lastfm", "sparse"),
        ("FakeUser", "spread", "Cascade", {}),
        [581.2222201082038, 836.54848715523],
        (393.0, 557, 134),
    ),
    (
        "CascadeTS",
        ("yelp-pizza", "moderate"),
        ("Swap", "front", "Cascade", {}),
        [302.71267680028905, 495.62445917308645],
        (400.0, 401, 1),
    ),
    (
        "CascadeTS",
        ("yelp-pizza", "moderate"),
        ("CascadeAttack", "front", "Cascade", {}),
        [199.28062748054904, 293.704528689689],
        (400.0, 795, 25),
    ),
    (
        "CascadeTS",
        ("yelp-pizza", "moderate"),
        ("JunAttack", "front", "Cascade", {}),
        [225.1167727794913, 339.8363430678122],
        (400.0, 400, 13),
    ),
    (
        "CascadeTS",
        ("yelp-pizza", "moderate"),
        ("PrefixFlip", "front", "DriftingCascade", {"pattern": "jump", "span": 2000}),
        [291.68124216858524, 523.1473580211898],
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
    assert run.regret[0] == pytest.approx(regret, rel=1e-9)
    assert (run.spent[0, -1], run.bits_changed[0], run.best_corrupted[0]) == counts
