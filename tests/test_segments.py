"""Segments: lists of their own, what they lend one another, and what an attack on one does to the others."""

import numpy as np
import pytest

import steadyrank as sr
from steadyrank.core.contract import NOTE_EXTRA, Problem, Visit, memory
from steadyrank.core.discovery import make
from steadyrank.core.dispatch import call_rank, call_update
from steadyrank.core.segments import SEGMENT, row, stacked

pytestmark = pytest.mark.pure

K, D, WINDOW = 40, 4, 10
SEGMENTS, PLAIN = sr.learners()["SteadyRankSegments"], sr.learners()["SteadyRank"]
ALLOWED = np.ones(K, np.bool_)
GOOD = np.where(np.arange(K) < D, 0.6, 0.05)  # of the first items
OTHER = GOOD[::-1].copy()  # of the last ones


def made(cls, **settings):
    return make(cls, Problem(K, D), settings={"window": WINDOW, **settings})


def live_through(learner, tastes, rounds, seed=0, t=0):
    """Let segments come by turns: `tastes` maps their numbers to attractions. Returns the lists."""
    mind, world = np.random.default_rng(seed), np.random.default_rng(seed + 1)
    lists = []
    for n in range(rounds):
        t += 1
        s = list(tastes)[n % len(tastes)]
        visit, ranking, note = Visit(t, -1, np.array([float(s)])), np.zeros(D, np.int64), np.zeros(D + NOTE_EXTRA)
        call_rank(learner, visit, ALLOWED, ranking, note, mind)
        clicks = world.random(D) < tastes[s][ranking]
        examined = int(np.argmax(clicks)) + 1 if clicks.any() else D
        clicks[examined:] = False
        # the note alone says whose it is: a guard that takes a visit back remembers no features
        call_update(learner, Visit(t), ranking, note, clicks, examined)
        lists.append(ranking)
    return lists


def own_counts(learner, s):
    """Looks and clicks of a segment's current regime, without what is lent."""
    regimes = row(learner.each, s).regimes
    r = regimes.tally[0]
    return (regimes.looks[r] + regimes.untested_looks[r] - learner.pool.looks[s]).tolist()


def test_without_segments_it_is_steady_rank():
    """Lists and memory of 300 rounds, in which users change their taste."""
    one, plain = made(SEGMENTS), made(PLAIN)
    shown = [live_through(x, {0: GOOD}, 200) + live_through(x, {0: OTHER}, 100, 5, 200) for x in (one, plain)]
    assert np.array_equal(*shown)
    for (name, array), (_, other) in zip(memory(row(one.each, 0)), memory(plain), strict=True):
        assert np.array_equal(array, other), name


def test_each_segment_is_a_steady_rank_of_its_own_if_nothing_is_lent():
    """Two segments, of which the second comes from round 101 on, have the memory of two learners."""
    both, first = made(SEGMENTS, segments=2, lent=0), made(PLAIN)
    live_through(both, {1: GOOD}, 100)
    live_through(first, {1: GOOD}, 100)
    live_through(both, {2: OTHER}, 60, 3, 100)
    second = made(PLAIN)
    live_through(second, {2: OTHER}, 60, 3, 100)
    for s, plain in ((1, first), (2, second)):
        for (name, array), (_, other) in zip(memory(row(both.each, s)), memory(plain), strict=True):
            assert np.array_equal(array, other), (s, name)
    assert not both.pool.looks.any()


@pytest.fixture(scope="module")
def alike():
    learner = made(SEGMENTS, segments=3)
    live_through(learner, {1: GOOD, 2: GOOD}, 1200)
    return learner


def test_a_segment_that_is_new_begins_with_what_alike_ones_know(alike):
    """The third has not come yet: it is lent looks at what the others like, and shows it."""
    assert alike.pool.looks[3, :D].min() >= 5
    rates = alike.pool.clicks[3] / np.maximum(alike.pool.looks[3], 1)
    assert rates[:D].min() > 0.4 > 0.2 > rates[D:].mean()
    ranking, note = np.zeros(D, np.int64), np.zeros(D + NOTE_EXTRA)
    found = 0
    for seed in range(20):
        visit = Visit(1201, -1, np.array([3.0]))
        call_rank(alike, visit, ALLOWED, ranking, note, np.random.default_rng(seed))
        found += int((ranking < D).sum())
    assert note[SEGMENT] == 3.0
    assert found >= 20 * D / 2  # one without loans would show a tenth


def test_loans_are_counted_in_no_test_and_leave_own_counts_as_they_are(alike):
    """What segments saw themselves is what they were told: a look a place that was examined, in 600 rounds each."""
    for s in (1, 2):
        regimes = row(alike.each, s).regimes
        assert regimes.tally[2] == 1  # nothing has changed
        assert own_counts(alike, s) == regimes.looks[regimes.tally[0]].tolist()
        assert regimes.rounds[0] == 600
        assert regimes.untested_rounds.tolist() == [0] * 6
    view = alike.view()
    assert view.rounds == 1200
    assert [one.rounds for one in view.segments] == [0, 600, 600, 0]
    assert view.segments[1].regime(1).looks.tolist() == own_counts(alike, 1)


def test_segments_that_want_different_things_lend_little():
    """What the others' word is worth falls below the ten looks that it began with; alike, it rises above them."""
    unlike = made(SEGMENTS, segments=2)
    live_through(unlike, {1: GOOD, 2: OTHER}, 1200)
    assert unlike.pool.strength.diagonal()[1:].max() < 10
    assert unlike.pool.strength[[1, 2], [2, 1]].max() < 10
    assert unlike.pool.looks.max() < 10


def test_alike_segments_come_to_trust_each_other(alike):
    assert min(alike.pool.strength[1, 2], alike.pool.strength[2, 1]) > 10  # as which they began
    assert alike.pool.strength.diagonal()[1:].min() > 10


def test_segments_trust_an_attacked_one_less_and_still_find_their_items():
    """Two honest segments, and one whose every bit is a lie: they come to borrow from each other, not from it."""
    learner = made(SEGMENTS, segments=3)
    lists = live_through(learner, {1: GOOD, 2: GOOD, 3: OTHER}, 1800)
    strength = learner.pool.strength
    for honest, other in ((1, 2), (2, 1)):
        assert strength[honest, other] > 5 * strength[honest, 3]
        late = np.array(lists[-300:][honest - 1 :: 3])
        assert (late < D).mean() > 0.7
        assert row(learner.each, honest).regimes.tally[2] == 1  # it opened no regime
    assert learner.pool.clicks[1, -D:].max() <= learner.pool.looks[1, -D:].min() / 2


def test_rows_are_the_memory_itself():
    whole = stacked(made(PLAIN), 3)
    row(whole, 1).regimes.looks[0, 5] = 7
    assert whole.regimes.looks[:, 0, 5].tolist() == [0, 7, 0]
    assert row(whole, 1).window == WINDOW


def served(ranker, likes, rounds):
    """Visits of each segment by turns, who click the item that theirs likes; how many of the last tenth found it."""
    found = 0
    for n in range(rounds):
        segment, liked = likes[n % len(likes)]
        shown = ranker.rank(segment=segment)
        ranker.feedback(shown.id, clicked=liked if liked in shown.items else None)
        found += n >= 0.9 * rounds and liked == shown.items[0]
    return found


def test_a_live_ranker_has_lists_a_segment(tmp_path):
    """Phones like one item, desktops another, visits without a segment a third; items are added, all is saved."""
    names = [f"item {k}" for k in range(12)]
    ranker = sr.Ranker(names, 3, "SteadyRankSegments", segments=["phone", "desktop"], settings={"window": WINDOW})
    likes = [("phone", "item 3"), ("desktop", "item 8"), (None, "item 11")]
    assert served(ranker, likes, 300) >= 20
    ranker.add("new")  # memory doubles
    assert served(ranker, likes, 60) >= 4
    ranker.save(tmp_path / "saved")
    again = sr.Ranker.load(tmp_path / "saved")
    for segment in ("phone", None, "desktop", "phone"):
        assert again.rank(segment=segment) == ranker.rank(segment=segment)
    view = again.view()
    assert [one.rounds for one in view.segments] == [120, 120, 120]
    best = [int(np.argmax(one.regime(one.current).estimate)) for one in view.segments]
    assert best == [11, 3, 8]


def test_unknown_segments_and_learners_without_any_are_refused_by_name():
    names = ["a", "b", "c"]
    ranker = sr.Ranker(names, 2, "SteadyRankSegments", segments=["phone", "desktop"])
    with pytest.raises(sr.Refused, match=r"'segment' is one of phone, desktop, not 'tablet'"):
        ranker.rank(segment="tablet")
    with pytest.raises(sr.Refused, match="segments="):
        sr.Ranker(names, 2).rank(segment="phone")
    with pytest.raises(
        ValueError, match="SteadyRank makes one list for all segments; one per segment: SteadyRankSegments"
    ):
        sr.Ranker(names, 2, segments=["phone", "desktop"])
    with pytest.raises(ValueError, match="not the text 'phone'"):
        sr.Ranker(names, 2, "SteadyRankSegments", segments="phone")
    space = sr.FeatureSpace({"year": [1950, 2030]})
    with pytest.raises(ValueError, match="segments or features, not both"):
        sr.Ranker(names, 2, "SteadyRankSegments", segments=["phone", "desktop"], features=space)


def test_segments_of_users_share_attractions_as_far_as_they_are_alike():
    """At 1 all have the given ones; below, each a permutation of them, with nearly that correlation."""
    attraction = np.random.default_rng(1).random(400)
    crowds = {a: make(sr.users()["SegmentedCascade"], attraction, 5, settings={"alike": a}) for a in (0.0, 0.5, 1.0)}
    assert (crowds[1.0].attraction == attraction).all()
    for alike, crowd in crowds.items():
        assert (np.sort(crowd.attraction) == np.sort(attraction)).all()
        found = np.corrcoef(crowd.attraction)[np.triu_indices(4, 1)]
        assert np.abs(found - alike).max() < 4 / np.sqrt(400)
    rng, seen = np.random.default_rng(2), np.zeros(1)
    uneven = make(sr.users()["SegmentedCascade"], attraction, 5, settings={"segments": 2, "uneven": 1.0})
    came = np.zeros(3)
    for t in range(900):
        assert uneven.arrive(t, seen, rng) == -1
        came[int(seen[0])] += 1
    assert abs(came[1] / 900 - 2 / 3) < 4 * np.sqrt(2 / 9 / 900)
    assert came[0] == 0
