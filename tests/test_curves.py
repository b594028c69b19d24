"""Regret curves recorded before visits, reach and senders came into the contract: none of them moved a bit.

Made with commit 13da9e6, SteadyRank's anew when places of its lists were first insured. A tolerance of 1e-9 stands
for machines whose logarithms round otherwise; a single list that differed would show in the third digit.
"""

import pytest

import steadyrank as sr

CURVES = [
    (
        "CascadeTS",
        ("yelp-pizza", "moderate"),
        ("PrefixFlip", "front", "Cascade", {}),
        [292.66936045410006, 500.542532237709],
        (400.0, 2125, 30),
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
        [201.97447849831897, 276.863788619896],
        (400.0, 1908, 30),
    ),
    (
        "SteadyRank",
        ("lastfm", "sparse"),
        ("Demote", "bursts", "Cascade", {}),
        [321.49840056645354, 449.0715068532334],
        (203.0, 304, 304),
    ),
    (
        "CascadeTS",
        ("lastfm", "sparse"),
        ("FakeUser", "spread", "Cascade", {}),
        [599.0474513156823, 888.704743198047],
        (396.0, 570, 148),
    ),
    (
        "CascadeTS",
        ("yelp-pizza", "moderate"),
        ("Swap", "front", "Cascade", {}),
        [299.493257253466, 485.96707570246394],
        (400.0, 401, 1),
    ),
    (
        "CascadeTS",
        ("yelp-pizza", "moderate"),
        ("CascadeAttack", "front", "Cascade", {}),
        [221.36020782174012, 301.8264237638245],
        (400.0, 787, 32),
    ),
    (
        "CascadeTS",
        ("yelp-pizza", "moderate"),
        ("JunAttack", "front", "Cascade", {}),
        [205.72999846628886, 302.3901586639929],
        (400.0, 400, 16),
    ),
    (
        "CascadeTS",
        ("yelp-pizza", "moderate"),
        ("PrefixFlip", "front", "DriftingCascade", {"pattern": "jump", "span": 2000}),
        [292.66936045410006, 518.2180315896645],
        (400.0, 2125, 30),
    ),
]


@pytest.mark.parametrize(("learner", "world", "attack", "regret", "counts"), CURVES, ids=str)
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
