"""Regret curves recorded before visits, reach and senders came into the contract: none of them moved a bit.

Made with commit 13da9e6, those of SteadyRank and CascadeTS anew when most draws were first left out. A tolerance of
1e-9 stands for machines whose logarithms round otherwise; a single list that differed would show in the third digit.
"""

import pytest

import steadyrank as sr

CURVES = [
    (
        "CascadeTS",
        ("yelp-pizza", "moderate"),
        ("PrefixFlip", "front", "Cascade", {}),
        [307.51005516786796, 524.8634380914151],
        (400.0, 2124, 15),
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
        [148.33822507519403, 209.55912657864516],
        (400.0, 1742, 148),
    ),
    (
        "SteadyRank",
        ("lastfm", "sparse"),
        ("Demote", "bursts", "Cascade", {}),
        [410.91012054700093, 747.1203331145136],
        (168.0, 223, 223),
    ),
    (
        "CascadeTS",
        ("lastfm", "sparse"),
        ("FakeUser", "spread", "Cascade", {}),
        [631.6907653437701, 920.3012660438695],
        (393.0, 564, 141),
    ),
    (
        "CascadeTS",
        ("yelp-pizza", "moderate"),
        ("Swap", "front", "Cascade", {}),
        [300.1594687665836, 470.196414748678],
        (400.0, 400, 0),
    ),
    (
        "CascadeTS",
        ("yelp-pizza", "moderate"),
        ("CascadeAttack", "front", "Cascade", {}),
        [193.59793736985836, 278.4082242081025],
        (400.0, 784, 29),
    ),
    (
        "CascadeTS",
        ("yelp-pizza", "moderate"),
        ("JunAttack", "front", "Cascade", {}),
        [214.8445579652466, 324.15417122981535],
        (400.0, 400, 15),
    ),
    (
        "CascadeTS",
        ("yelp-pizza", "moderate"),
        ("PrefixFlip", "front", "DriftingCascade", {"pattern": "jump", "span": 2000}),
        [307.51005516786796, 535.8054982584628],
        (400.0, 2124, 15),
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
