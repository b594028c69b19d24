"""How users look at lists: each click model against a sum over everything that may happen."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import references
import steadyrank as sr
from steadyrank.core.contract import Visit
from steadyrank.core.discovery import make
from steadyrank.users.user_browsing import falls_fast_enough

pytestmark = pytest.mark.pure

USERS = sr.users()
ATTRACTION = np.array([0.4, 0.8, 0.2, 0.6, 0.0])
D, N = 3, 20  # of the uniform numbers tried: every chance below is a multiple of 1/20
ATTENTION = [1.0, 0.25, 0.5]  # not falling: the best item belongs first, the second best third
TABLE = np.array([[1.0, 0.0, 0.0], [0.75, 0.5, 0.0], [0.5, 0.25, 0.25]])  # by place and distance


def whole(bits):
    return len(bits)


def first_click(bits):
    return bits.index(1) + 1 if 1 in bits else len(bits)


def last_click(bits):
    return len(bits) - bits[::-1].index(1) if 1 in bits else len(bits)


def never(p):
    return 0.0


MODELS = {
    "PositionBased": (
        {"attention": ATTENTION},
        lambda a: references.position_based(a, ATTENTION[: len(a)]),
        lambda bits, satisfied: sum(bits),
    ),
    "DependentClick": (
        {"onward": [0.25, 0.75, 0.5]},
        lambda a: references.story(a, lambda p, last: 1.0, lambda p: [0.25, 0.75, 0.5][p - 1], never, last_click),
        lambda bits, satisfied: satisfied,
    ),
    "Abandoning": (
        {"leave": 0.25},
        lambda a: references.story(
            a, lambda p, last: 1.0, never, lambda p: 0.25 if p > 1 else 0.0, first_click
        ),
        lambda bits, satisfied: sum(bits),
    ),
    "UserBrowsing": (
        {},
        lambda a: references.story(a, lambda p, last: TABLE[p - 1, p - last - 1], lambda p: 1.0, never, whole),
        lambda bits, satisfied: sum(bits),
    ),
}  # fmt: skip


def crowd_of(name, **change):
    crowd = make(USERS[name], ATTRACTION, D, settings={**MODELS[name][0], **change})
    return crowd._replace(attention=TABLE) if name == "UserBrowsing" else crowd


class Given:
    """A generator that gives these numbers."""

    def __init__(self, numbers):
        self.numbers = list(numbers)

    def random(self):
        return self.numbers.pop(0)


def shares(crowd, ranking, t=1):
    """The share of all 20^3 combinations of uniform numbers, one of each twentieth, that give each feedback."""
    found, size = {}, len(ranking)
    for cells in itertools.product(range(N), repeat=D):
        rng, clicks = Given((c + 0.5) / N for c in cells), np.zeros(size, np.bool_)
        examined = crowd.click(Visit(t), np.array(ranking), clicks, rng)
        assert not rng.numbers
        assert examined == crowd.reach(clicks, size)
        bits = tuple(clicks[:examined].astype(int).tolist())
        found[bits] = found.get(bits, 0) + 1
    return {bits: count / N**D for bits, count in found.items()}


def chances(outcomes):
    found = {}
    for (bits, _), chance in outcomes.items():
        found[bits] = found.get(bits, 0.0) + chance
    return {bits: chance for bits, chance in found.items() if chance > 0}


@pytest.mark.parametrize("name", MODELS)
def test_feedback_comes_with_the_chances_of_its_story(name):
    """Exactly: the attractions, and what they are multiplied with, are multiples of 1/20."""
    for ranking in ([1, 0, 3], [2, 3], [4, 1, 0]):
        expected = chances(MODELS[name][1](ATTRACTION[ranking].tolist()))
        assert shares(crowd_of(name), ranking) == pytest.approx(expected)


@pytest.mark.parametrize("name", MODELS)
def test_value_is_what_all_outcomes_are_worth(name):
    crowd, (_, outcomes, worth) = crowd_of(name), MODELS[name]
    for size in (1, 2, 3):
        for ranking in itertools.permutations(range(5), size):
            expected = sum(x * worth(*end) for end, x in outcomes(ATTRACTION[list(ranking)].tolist()).items())
            assert crowd.value(Visit(1), np.array(ranking)) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", [*MODELS, "Noisy"])
def test_no_list_is_worth_more_than_the_best(name):
    crowd = make(USERS[name], ATTRACTION, D, settings=MODELS[name][0] if name in MODELS else {"of": "Abandoning"})
    for size in (1, 2, 3):
        best = np.zeros(size, np.int64)
        crowd.best(Visit(1), best)
        values = [crowd.value(Visit(1), np.array(x)) for x in itertools.permutations(range(5), size)]
        assert crowd.value(Visit(1), best) == pytest.approx(max(values), abs=1e-12)


def test_the_best_item_belongs_to_the_place_that_is_looked_at_most():
    best = np.zeros(3, np.int64)
    crowd_of("PositionBased").best(Visit(1), best)
    assert best.tolist() == [1, 0, 3]  # 0.8 where attention is 1, 0.6 where it is 0.5, 0.4 where it is 0.25
    make(USERS["DependentClick"], ATTRACTION, 3, settings={"onward": [0.9, 0.1, 0.5]}).best(Visit(1), best)
    assert best.tolist() == [0, 1, 3]  # where a click most often satisfies


@given(
    st.lists(st.floats(0.0, 1.0), min_size=5, max_size=6),
    st.floats(0.0, 1.0),
    st.floats(0.0, 1.0),
    st.integers(2, 4),
)
@settings(max_examples=60)
def test_users_who_browse_are_accepted_only_where_most_attractive_first_is_best(attraction, eta, fade, length):
    try:
        crowd = make(USERS["UserBrowsing"], np.array(attraction), length, settings={"eta": eta, "fade": fade})
    except ValueError as error:
        assert "must be larger for fade=" in str(error)  # noqa: PT017
        return
    best = np.zeros(length, np.int64)
    crowd.best(Visit(1), best)
    values = [crowd.value(Visit(1), np.array(x)) for x in itertools.permutations(range(len(attraction)), length)]
    assert crowd.value(Visit(1), best) == pytest.approx(max(values), abs=1e-9)


def test_attention_that_makes_another_order_better_is_refused():
    """Places 1 and 2 alike, the third looked at only right after a click: 0.9 belongs second, next to it."""
    table = np.array([[0.5, 0.0, 0.0], [0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])
    assert not falls_fast_enough(table, 0.9)
    crowd = make(USERS["UserBrowsing"], np.array([0.9, 0.3, 0.3]), 3, settings={})._replace(attention=table)
    first, second = (crowd.value(Visit(1), np.array(x)) for x in ([0, 1, 2], [1, 0, 2]))
    assert second > first
    assert falls_fast_enough(crowd_of("UserBrowsing", eta=0.5, fade=0.2).attention[:1, :1], 1.0)
    with pytest.raises(ValueError, match=r"eta=0\.0 must be larger for fade=0\.9"):
        make(USERS["UserBrowsing"], np.full(12, 0.9), 10, settings={"eta": 0.0, "fade": 0.9})


@pytest.mark.parametrize("length", [1, 2, 10])
def test_browsing_by_default_is_accepted_whatever_attracts(length):
    make(USERS["UserBrowsing"], np.ones(50), length, settings={})


def test_attention_by_default():
    """1, 2^-0.7, 3^-0.7; of browsing users before any click the same, and higher after one."""
    crowd = make(USERS["PositionBased"], ATTRACTION, 3, settings={})
    assert crowd.attention == pytest.approx([1.0, 0.61557, 0.46347], abs=1e-5)
    browsing = make(USERS["UserBrowsing"], ATTRACTION, 3, settings={})
    assert [browsing.attention[p, p] for p in range(3)] == pytest.approx(crowd.attention)
    assert browsing.attention[2, 0] == pytest.approx(3**-0.5)
    flat = make(USERS["PositionBased"], ATTRACTION, 3, settings={"eta": 0})
    assert flat.attention.tolist() == [1.0, 1.0, 1.0]
    assert make(USERS["PositionBased"], ATTRACTION, 3, settings={"attention": "1+0.5+.25"}).attention[2] == 0.25


def test_what_nobody_looked_at_is_not_reported_after_a_click():
    """Of those who may go on after a click, feedback ends with the last one; without one, all was looked at."""
    crowd = crowd_of("DependentClick")
    reach = [crowd.reach(np.array(bits, np.bool_), 3) for bits in ([1, 0, 0], [1, 0, 1], [0, 1, 0], [0, 0, 0])]
    assert reach == [1, 3, 2, 3]


def test_a_tireless_user_and_one_who_never_goes_on_are_a_cascade():
    rngs = [np.random.default_rng(3) for _ in range(3)]
    crowds = [
        make(USERS["Cascade"], ATTRACTION, 3, settings={}),
        make(USERS["Abandoning"], ATTRACTION, 3, settings={"leave": 0}),
        make(USERS["DependentClick"], ATTRACTION, 3, settings={"onward": 0}),
    ]
    bits, ranking = np.zeros((3, 3), np.bool_), np.array([2, 0, 3])
    for t in range(300):
        reached = [c.click(Visit(t), ranking, bits[i], rngs[i]) for i, c in enumerate(crowds)]
        assert len(set(reached)) == 1
        assert len({tuple(row[: reached[0]]) for row in bits}) == 1
    assert len({round(c.value(Visit(1), ranking), 12) for c in crowds}) == 1


def test_noisy_visits_are_the_share_of_all_and_random():
    """A tenth of 20,000 visits within 5 standard errors; each place clicked with chance 0.3; the rest as ever."""
    plain = make(USERS["PositionBased"], ATTRACTION, 3, settings={"attention": ATTENTION})
    noisy = make(
        USERS["Noisy"], ATTRACTION, 3,
        settings={"of": "PositionBased", "given": {"attention": ATTENTION}, "noise": 0.1, "rate": 0.3},
    )  # fmt: skip
    ranking, bits = np.array([4, 2, 4]), np.zeros((2, 3), np.bool_)
    rngs, random, clicks = [np.random.default_rng(5) for _ in range(2)], 0, np.zeros(3)
    for t in range(1, 20_001):
        for i, crowd in enumerate((plain, noisy)):
            assert crowd.click(Visit(t), ranking, bits[i], rngs[i]) == 3
        if bits[0].tolist() != bits[1].tolist():
            random += 1
        clicks += bits[1] & ~bits[0]
    # 0.3 at places 1 and 3, where item 4 never attracts; at place 2, 0.3 - 0.05 more than item 2 brings
    assert clicks[[0, 2]] / 20_000 == pytest.approx([0.03, 0.03], abs=5 * np.sqrt(0.03 / 20_000))
    assert random / 20_000 == pytest.approx(0.1 * (1 - 0.7**3), abs=0.1 * 0.05 + 5 * np.sqrt(0.1 / 20_000))
    assert noisy.value(Visit(1), ranking) == pytest.approx(0.9 * plain.value(Visit(1), ranking))
    other = make(USERS["Noisy"], ATTRACTION, 3, settings={"noise": 1.0, "rate": 1.0})
    assert other.click(Visit(1), ranking, bits[0], rngs[0]) == 1  # as far as a cascade would be reported


@pytest.mark.parametrize("name", USERS)
def test_who_likes_other_items_looks_as_the_users_do(name):
    """Attractions 0 and 1: who likes nothing clicks nothing; who likes all clicks what is looked at, and no more."""
    crowd = make(USERS[name], ATTRACTION, 3, settings={})
    for liked in (0.0, 1.0):
        other, rng = crowd.liking(np.full(5, liked)), np.random.default_rng(1)
        bits, counts = np.zeros(3, np.bool_), np.zeros(3)
        for t in range(1, 2_001):
            examined = other.click(Visit(t), np.arange(3), bits, rng)
            counts[:examined] += bits[:examined]
        if name in ("PositionBased", "UserBrowsing"):
            assert counts[0] == 2_000 * liked
            assert counts[2] < 1_600
        elif name in ("SemiBandit", "DependentClick"):
            assert counts[0] == 2_000 * liked
        else:
            assert counts.tolist() == [2_000 * liked, 0.0, 0.0]


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("PositionBased", {"eta": -1}, r"eta must be a finite number from 0\.0 to 10\.0, not -1"),
        ("PositionBased", {"attention": [1, 0.5]}, "attention must be 3 numbers from 0 to 1, one per place, not "),
        ("PositionBased", {"attention": [1, 2, 0]}, r"attention must be a finite number from 0\.0 to 1\.0, not 2"),
        ("PositionBased", {"attention": "1+x+0"}, r"attention must be a number from 0\.0 to 1\.0, not 'x'"),
        ("PositionBased", {"attention": [1, 1, 1], "eta": 1}, "eta=1 has no effect under attention given by place"),
        ("DependentClick", {"onward": 1.5}, r"onward must be a finite number from 0\.0 to 1\.0, not 1\.5"),
        ("DependentClick", {"onward": None}, "onward must be 3 numbers from 0 to 1, one per place, not None"),
        ("Abandoning", {"leave": True}, r"leave must be a finite number from 0\.0 to 1\.0, not True"),
        ("UserBrowsing", {"fade": -0.1}, r"fade must be a finite number from 0\.0 to 10\.0, not -0\.1"),
        ("Noisy", {"noise": 2}, r"noise must be a finite number from 0\.0 to 1\.0, not 2"),
        ("Noisy", {"of": "Noisy"}, "of must be other users than Noisy itself"),
        ("Noisy", {"given": 3}, "given must be a dictionary of settings of Cascade, not 3"),
        ("Noisy", {"given": {"eta": 1}}, "Cascade has no setting 'eta'"),
    ],
)
def test_bad_settings_are_named(name, change, words):
    with pytest.raises(ValueError, match=words):
        make(USERS[name], ATTRACTION, 3, settings=change)


def test_unknown_users_of_a_mixture_are_named():
    with pytest.raises(KeyError, match="unknown users 'PositionBase': did you mean 'PositionBased'"):
        make(USERS["Noisy"], ATTRACTION, 3, settings={"of": "PositionBase"})
