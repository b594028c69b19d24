"""Bundled profiles: their numbers, their mappings, and how near they are to the tables they were fitted to."""

import hashlib
import json
import math
import statistics

import numpy as np
import pytest

import real_tables
import steadyrank as sr
from steadyrank.evaluation.profiles import lastfm, mappings, modelled
from steadyrank.evaluation.profiles.mappings import MAPPINGS, attractions, bayesian_averages, formula
from steadyrank.evaluation.profiles.ratings import Ratings

RATED = {"yelp-pizza": 529, "movielens": 500, "movielens-32m": 500, "lastfm": 500}


def test_bayesian_average_by_hand():
    # prior mean (2 + 4 + 3) / 3 = 3, weight median(1, 3, 10) = 3: (9 + 2) / 4, (9 + 12) / 6, (9 + 30) / 13
    assert bayesian_averages([2.0, 4.0, 3.0], [1, 3, 10]) == [2.75, 3.5, 3.0]


def test_mappings_by_hand():
    logistic = lambda x: 1 / (1 + math.exp(-x))  # noqa: E731
    assert attractions([3.0, 5.0], "saturated") == [0.5, logistic(2)]
    assert attractions([3.0, 5.0], "moderate") == [logistic(-2), 0.5]
    assert attractions([3.0, 5.0], "sparse") == [logistic(-6), 0.5]  # 3 (3 - 4) - 3 and 3 (5 - 4) - 3
    # mean 4, sd sqrt((1 + 1 + 0) / 3)
    assert attractions([3.0, 5.0, 4.0], "centred") == pytest.approx([logistic(-(1.5**0.5)), logistic(1.5**0.5), 0.5])
    assert attractions([4.0, 4.0], "centred") == [0.5, 0.5]
    assert attractions([3.0, 5.0], "centred-1") == pytest.approx([logistic(-2.0), 0.5])
    assert attractions([4.0, 4.0], "centred+0.5") == pytest.approx([logistic(0.5)] * 2)
    assert formula("centred-1.5") == "sigmoid((r - mean) / sd - 1.5)"
    with pytest.raises(
        ValueError, match="mapping must be one of 'centred', 'moderate', 'saturated', 'sparse', not 'dense'"
    ):
        attractions([3.0], "dense")


@pytest.mark.parametrize("name", sorted(RATED))
def test_rated_profiles_have_the_paper_s_arms_and_every_mapping(name):
    assert mappings(name) == ["moderate", "centred", "saturated", "sparse"]
    found = {mapping: sr.profile(name, mapping=mapping) for mapping in MAPPINGS}
    assert np.array_equal(found["moderate"].attraction, sr.profile(name).attraction)
    for mapping, world in found.items():
        assert world.attraction.shape == (RATED[name],)
        assert world.attraction.dtype == np.float64
        assert 0 < world.attraction.min() < world.attraction.max() < 1
        assert (world.name, world.mapping) == (name, mapping)
        assert world.title == f"{name} ({mapping}: {MAPPINGS[mapping]}, modelled)"
    order = np.argsort(found["moderate"].attraction)
    assert np.array_equal(order, np.argsort(found["saturated"].attraction))
    logit = lambda p: np.log(p / (1 - p))  # noqa: E731
    shift = logit(found["saturated"].attraction) - logit(found["moderate"].attraction)
    assert shift == pytest.approx(np.full(RATED[name], 2.0), abs=1e-8)
    # the ratings of the sparse and the centred mapping have mean 0 before they are shifted
    assert np.mean(logit(found["sparse"].attraction)) == pytest.approx(-3.0, abs=1e-6)
    assert np.mean(logit(found["centred"].attraction)) == pytest.approx(0.0, abs=1e-6)
    assert np.std(logit(found["centred"].attraction)) == pytest.approx(1.0, abs=1e-6)


def test_every_profile_is_the_same_on_every_machine():
    numbers = {
        (name, mapping): hashlib.sha256(
            "\n".join(f"{p:.12f}" for p in sr.profile(name, mapping).attraction).encode()
        ).hexdigest()[:12]
        for name in sr.profiles()
        for mapping in mappings(name)
    }
    assert {f"{name} {mapping}": digest for (name, mapping), digest in numbers.items()} == DIGESTS


def test_one_mapping_only_where_there_are_no_ratings():
    world = sr.profile("lastfm-listeners")
    assert (world.mapping, world.title) == ("listeners", "lastfm-listeners (listeners, modelled)")
    with pytest.raises(ValueError, match="'lastfm-listeners' has the one mapping 'listeners', not 'moderate'"):
        sr.profile("lastfm-listeners", mapping="moderate")
    with pytest.raises(ValueError, match=r"has the one mapping 'sigmoid\(N\(-3, 0\.8\)\)', not 'sparse'"):
        sr.profile("synthetic-low", mapping="sparse")


def test_unknown_names_are_answered_with_the_closest():
    with pytest.raises(KeyError, match="unknown profile 'yelp': did you mean 'yelp-pizza'"):
        sr.profile("yelp")
    with pytest.raises(ValueError, match=r"mapping must be one of .* not 'plain'"):
        sr.profile("movielens", mapping="plain")


def _real_averages(name: str) -> list[float]:
    """All Bayesian averages of the real table."""
    if name == "yelp-pizza":
        table = real_tables.rows("yelp_pizza_philadelphia.csv")
        return bayesian_averages([float(r["stars_mean"]) for r in table], [float(r["n_reviews"]) for r in table])
    if name == "movielens":
        table = real_tables.rows("movielens_25m_items.csv")
        return bayesian_averages([float(r["mean_rating"]) for r in table], [float(r["n_ratings"]) for r in table])
    folder = real_tables.FOLDER / "raw" / "hetrec2011-lastfm-2k"
    with open("/dev/null", "w") as nowhere:
        return lastfm.build(folder, n_items=None, at_least=10, seed=0, stream=nowhere).averages


def _evenly(values: list[float], n: int) -> list[float]:
    """`n` of the values at even places of their order: a typical draw, without its luck."""
    return [sorted(values)[int((i + 0.5) * len(values) / n)] for i in range(n)]


def _regret(learner: str, attraction: np.ndarray) -> float:
    honest = {"adversary": "PrefixFlip", "budget": 0}
    run = sr.simulate(learner, attraction, length=10, horizon=40_000, seeds=range(4), marks=1, **honest)
    return float(run.final.mean())


@pytest.mark.slow
@pytest.mark.skipif(not real_tables.FOLDER.is_dir(), reason=real_tables.MISSING)
@pytest.mark.parametrize("name", sorted(RATED))
def test_modelled_profiles_cost_what_the_real_ones_cost(name):
    """Final regret within 15 % on moderate and 25 % on sparse, mean of four seeds."""
    averages = _evenly(_real_averages(name), RATED[name])
    for mapping, margin in (("moderate", 0.15), ("sparse", 0.25)):
        for learner in ("CascadeUCBV", "CascadeTS"):
            real = _regret(learner, np.array(attractions(averages, mapping)))
            ours = _regret(learner, sr.profile(name, mapping).attraction)
            assert abs(ours / real - 1) <= margin, f"{learner} on {mapping}: {ours:.0f}, real {real:.0f}"


@pytest.mark.skipif(not real_tables.FOLDER.is_dir(), reason=real_tables.MISSING)
def test_modelled_listeners_cost_what_the_real_ones_cost():
    shares = _evenly([float(row["listen_frac"]) for row in real_tables.rows("lastfm_2k_artists.csv")], 500)
    for learner in ("CascadeUCBV", "CascadeTS"):
        real = _regret(learner, np.array(shares))
        ours = _regret(learner, sr.profile("lastfm-listeners").attraction)
        assert abs(ours / real - 1) <= 0.25, f"{learner}: {ours:.0f}, real {real:.0f}"


def test_a_built_file_is_a_profile(tmp_path):
    path = tmp_path / "mine.json"
    content = {
        "format": "steadyrank-ratings-1", "name": "mine", "origin": "typed by hand", "items": ["a", "b"],
        "counts": [1, 3], "averages": [3.0, 5.0], "raters": 4,
    }  # fmt: skip
    path.write_text(json.dumps(content))
    assert sr.profile(str(path)).attraction == pytest.approx([0.119202922022, 0.5], abs=1e-12)
    assert mappings(str(path)) == ["moderate", "centred", "saturated", "sparse", "listeners"]
    assert sr.profile(str(path), "listeners").attraction.tolist() == [0.25, 0.75]
    assert sr.profile(str(path), "sparse").title == "mine (sparse: sigmoid(3 (r - mean) - 3))"
    assert sr.profile(str(path)).features is sr.profile(str(path)).visitors is None
    known = {"features": [[1, 0.5], [1, -2]], "visitors": [[3.5], [0.0], [-1.0]]}
    path.write_text(json.dumps(content | known))
    world = sr.profile(str(path))
    assert (world.features.tolist(), world.visitors.tolist()) == (known["features"], known["visitors"])
    for told in (content | known, content):  # what was read is written again, and nothing beside it
        path.write_text(json.dumps(told))
        Ratings.load(path).save(path)
        assert json.loads(path.read_text()) == told
    for change, message in (
        ({"format": "other"}, "must have the format 'steadyrank-ratings-1'"),
        ({"extra": 1}, "must have the format"),
        ({"items": ["a"]}, "must be lists of the same length"),
        ({"averages": [3.0, "high"]}, "averages must hold float values in range, not 'high'"),
        ({"averages": [3.0, float("inf")]}, "averages must hold float values in range, not inf"),
        ({"counts": [1, -3]}, "counts must hold int values in range, not -3"),
        ({"items": "ab"}, "must be lists"),
        ({"raters": 2}, "raters must be null or at least the largest count, not 2"),
        ({"name": 3}, "name and origin must be text"),
        ({"features": [[1.0], [1.0]]}, "features and visitors must both be there or neither"),
        ({"features": [[1.0], [1.0, 2.0]], "visitors": [[1.0]]}, "features must be lists of finite numbers"),
        ({"features": [[1.0], [2.0]], "visitors": [["x"]]}, "visitors must be lists of finite numbers"),
        ({"features": [[1.0], [2.0]], "visitors": []}, "visitors must be lists of finite numbers"),
        ({"features": [[1.0]], "visitors": [[1.0]]}, r"a row for each of 2 items.* are \(1, 1\) and \(1, 1\)"),
        ({"features": [[1.0], [2.0]], "visitors": [[1.0, 2.0]]}, "visitors from 1 to as many numbers each"),
    ):
        path.write_text(json.dumps(content | change))
        with pytest.raises(ValueError, match=message):
            sr.profile(str(path))
    path.write_text("{")
    with pytest.raises(ValueError, match="is not a file of `steadyrank profile build`"):
        sr.profile(str(path))


# MovieLens 32M as public analyses print it: films rated; quartiles, mean, deviation and maximum of ratings a film
PUBLISHED = {"films": 84_432, "quartiles": (2, 5, 25), "mean": 379.0056, "sd": 2592.44, "most": 102_929}


def test_the_numbers_of_ratings_of_32m_follow_from_what_is_published():
    """log(number) as a broken line in the normal quantile of a film's rank, through what is known: quartiles and the
    largest. Two points between are free, and mean and deviation fix them; films of 100 ratings and more then have
    the log-mean and the log-spread of the law."""
    normal, films = statistics.NormalDist(), PUBLISHED["films"]
    z = np.array([normal.inv_cdf((i + 0.5) / films) for i in range(films)])
    known = [z[0], *(normal.inv_cdf(q) for q in (0.25, 0.5, 0.75))]

    def numbers(free):
        logs = [0.0, *np.log(PUBLISHED["quartiles"]), *free, math.log(PUBLISHED["most"])]
        return np.exp(np.interp(z, [*known, 1.5, 2.5, z[-1]], logs))

    def off(free):
        found = numbers(free)
        return np.array([found.mean() / PUBLISHED["mean"] - 1, found.std() / PUBLISHED["sd"] - 1])

    free = np.array([6.0, 9.5])
    for _ in range(20):  # Newton's method by differences
        slope = np.column_stack([(off(free + step) - off(free)) / 1e-5 for step in 1e-5 * np.eye(2)])
        free = free - np.linalg.solve(slope, off(free))
    assert np.abs(off(free)).max() < 1e-6
    law, found = modelled.RATED["movielens-32m"], numbers(free)
    logs = np.log(found[found >= 100] - law.least)
    assert law.log_count == pytest.approx(logs.mean(), abs=0.01)
    assert law.log_spread == pytest.approx(logs.std(), abs=0.01)
    assert (found >= 100).sum() == pytest.approx(11_900, abs=50)


DIGESTS = {
    "contextual-films sigmoid(-4.5 + 0.8 qualities + 0.6 own)": "c3cdf26fe4d2",
    "lastfm centred": "1ea1a9ff76a3",
    "lastfm moderate": "9c0c866dab24",
    "lastfm saturated": "e19c93d0f9fb",
    "lastfm sparse": "90b6b616b711",
    "lastfm-listeners listeners": "748545b2abe7",
    "movielens centred": "004c8faf9a2b",
    "movielens-32m centred": "2b8101651ed4",
    "movielens-32m moderate": "b28bfcf392ff",
    "movielens-32m saturated": "c8312c943b38",
    "movielens-32m sparse": "069ab665bac7",
    "movielens moderate": "cd00fcbf038d",
    "movielens saturated": "3a6109bbfeac",
    "movielens sparse": "ab2777911562",
    "synthetic-five-items 1 of 0.9, 1 of 0.8, 3 of 0.1": "1e9ec8cd5a68",
    "synthetic-low sigmoid(N(-3, 0.8))": "871b1b44ceab",
    "synthetic-mid sigmoid(N(0, 0.5))": "8b20a50f2f41",
    "synthetic-spread sigmoid(N(-2, 1.2))": "bcecdccc77d9",
    "synthetic-two-levels 5 of 0.9, 495 of 0.1": "3d2b86ddc65c",
    "yelp-pizza centred": "e1bb21871a35",
    "yelp-pizza moderate": "c66800eb26dd",
    "yelp-pizza saturated": "c5c0b84e1b77",
    "yelp-pizza sparse": "d41b32938560",
}
