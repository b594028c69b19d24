"""Features by name in a live ranker: what is declared, what is refused, and what they are worth."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import steadyrank as sr
from steadyrank.learners.shared.mixed_model import BEFORE_PRECISION

pytestmark = pytest.mark.pure

SPACE = sr.FeatureSpace({"genre": ["drama", "comedy"], "year": [1950, 2030]}, {"age": [0, 100]})


def films(n=20):
    """Old dramas and new comedies in turn, alike but for the genre."""
    return {f"film {k}": {"genre": ["drama", "comedy"][k % 2], "year": 1990} for k in range(n)}


def test_numbers_by_hand():
    """A comedy of 2030, alone and for the visitor's age; 75 years are half of the way from 50 to 100."""
    assert SPACE.size == 6
    assert SPACE.labels == ["genre=drama", "genre=comedy", "year", *(
        f"{each} for age" for each in ("genre=drama", "genre=comedy", "year"))]  # fmt: skip
    assert SPACE.of_item({"genre": "comedy", "year": 2030}).tolist() == [0, 1, 1, 0, 1, 1]
    assert SPACE.of_item({"year": None}).tolist() == [0] * 6
    assert SPACE.of_visit({"age": 75}).tolist() == [1, 1, 1, 0.5, 0.5, 0.5]
    assert SPACE.of_visit(None).tolist() == [1, 1, 1, 0, 0, 0]
    assert sr.FeatureSpace(**SPACE.declared()).declared() == SPACE.declared()
    turned = sr.FeatureSpace({"year": [1950, 2030], "genre": ["drama", "comedy"]}, {"age": [0, 100]})
    assert turned.labels == SPACE.labels  # a file keeps what is declared in the order of the names


def test_values_of_the_past_that_fit_no_more_are_not_known():
    assert SPACE.fitting_item({"genre": "western", "year": 2030, "price": 3}) == {"year": 2030}
    assert SPACE.of_visit_then({"age": 101.0}).tolist() == SPACE.of_visit(None).tolist()


@settings(max_examples=25)
@given(st.floats(1950, 2030), st.floats(0, 100))
def test_numbers_stay_between_minus_one_and_one(year, age):
    assert np.abs(SPACE.of_item({"genre": "drama", "year": year})).max() <= 1.0
    assert np.abs(SPACE.of_visit({"age": age})).max() <= 1.0


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"genre": "western"}, "feature 'genre' is one of drama, comedy, not 'western'"),
        ({"year": float("nan")}, "feature 'year' is a number from 1950 to 2030, not nan"),
        ({"year": 1949}, "feature 'year' is a number from 1950 to 2030, not 1949"),
        ({"year": True}, "not True"),
        ({"years": 1960}, "unknown feature of a item 'years': did you mean 'year'"),
        ([1], r"features of a item are given by name, not as \[1\]"),
    ],
)
def test_bad_values_are_refused_by_name(values, words):
    with pytest.raises(sr.Refused, match=words.replace("a item", "an item")):
        SPACE.of_item(values)


@pytest.mark.parametrize(
    ("items", "visits", "words"),
    [
        ({"year": [2030, 1950]}, {}, r"feature 'year' is declared as \[lowest, highest\] or by its categories"),
        ({"year": "number"}, {}, "not 'number'"),
        ({"genre": ["a", "a"]}, {}, "feature 'genre' is declared"),
        ({}, {"age": [0, 1]}, "features of visits need features of items"),
        (
            {"genre": [f"g{i}" for i in range(10)]},
            {"who": [f"w{i}" for i in range(10)]},
            "are 110 features; at most 64",
        ),
        (["year"], {}, "features of items are declared by name"),
        ({"year": [-1.7e308, 1.7e308]}, {}, "feature 'year' is declared"),
    ],
)
def test_bad_declarations_are_refused(items, visits, words):
    with pytest.raises(ValueError, match=words):
        sr.FeatureSpace(items, visits)


def test_a_learner_without_features_is_not_given_any():
    with pytest.raises(ValueError, match="SteadyRank does not use features; these do: SteadyRankLinear"):
        sr.Ranker(films(), 4, features=SPACE)
    with pytest.raises(ValueError, match="was given no features"):
        sr.Ranker(["a", "b"], 1).worth()


def visited(ranker, rounds, seed):
    """The old want dramas, the young comedies; the others now and then."""
    world = np.random.default_rng(seed)
    for _ in range(rounds):
        age = float(world.uniform(0, 100))
        shown = ranker.rank(features={"age": age})
        wanted = "drama" if age > 50 else "comedy"
        liked = [item for item in shown.items if world.random() < (0.5 if GENRE[item] == wanted else 0.05)]
        ranker.feedback(shown.id, clicked=liked[0] if liked else None)


GENRE = {name: known["genre"] for name, known in films(60).items()}


def test_visitors_get_what_is_wanted_by_their_like_and_new_items_begin_where_features_put_them(tmp_path):
    ranker = sr.Ranker(films(), 4, "SteadyRankLinear", features=SPACE, seed=1)
    visited(ranker, 500, 2)
    share, effects = ranker.worth()
    assert share > 0.5
    assert {label for label, _ in effects[:2]} == {"genre=drama for age", "genre=comedy for age"}
    for k in range(20, 60):  # capacity doubles on the way
        ranker.add(f"film {k}", films(60)[f"film {k}"])
    new = [f"film {k}" for k in range(20, 60)]
    for age, genre in ((90, "drama"), (10, "comedy")):
        lists = [ranker.rank(features={"age": age}) for _ in range(20)]
        assert np.mean([GENRE[item] == genre for shown in lists for item in shown.items]) > 0.75  # one is new
        assert any(item in new for shown in lists for item in shown.items)
    observed = ranker.observe(["film 0", "film 1"], clicked=None, features={"age": 90})
    assert observed.outcome == "learnt"
    ranker.save(tmp_path / "films")
    again = sr.Ranker.load(tmp_path / "films")
    for each in (ranker, again):
        visited(each, 60, 5)
    assert [ranker.rank(features={"age": 70}).items for _ in range(5)] == [
        again.rank(features={"age": 70}).items for _ in range(5)
    ]
    with pytest.raises(sr.Refused, match="unknown feature of a visit 'sex'"):
        ranker.rank(features={"sex": 1})
    with pytest.raises(sr.Refused, match="feature 'genre' is one of drama, comedy"):
        ranker.add("film 99", {"genre": "western"})
    assert "film 99" not in {standing.item for standing in ranker.standings()}


def test_an_item_described_anew_is_taken_for_what_it_is():
    """Every film is told with the wrong genre at first; then the latest lists are learnt anew."""
    wrong = {name: {"genre": "comedy" if known["genre"] == "drama" else "drama"} for name, known in films().items()}
    right = sr.Ranker(films(), 4, "SteadyRankLinear", features=SPACE, seed=1)
    mended = sr.Ranker(wrong, 4, "SteadyRankLinear", features=SPACE, seed=1)
    world = np.random.default_rng(3)
    for _ in range(200):
        age = float(world.uniform(0, 100))
        items = [f"film {k}" for k in world.permutation(20)[:4]]
        wanted = "drama" if age > 50 else "comedy"
        liked = [item for item in items if world.random() < (0.5 if GENRE[item] == wanted else 0.05)]
        for ranker in (right, mended):
            ranker.observe(items, clicked=liked[0] if liked else None, features={"age": age})
    for name, known in films().items():
        mended.describe(name, known)
        mended.describe(name, known)  # the same again changes nothing
    for ranker in (right, mended):
        share, effects = ranker.worth()
        assert share > 0.5
        assert dict(effects)["genre=drama for age"] > 0.5
    # not to the bit: an observation is weighed by what was expected when it came
    models = [ranker._learner_state.learner.models for ranker in (right, mended)]
    np.testing.assert_allclose(models[0].features, models[1].features, atol=1e-12)
    np.testing.assert_allclose(models[0].estimate[0], models[1].estimate[0], atol=0.3)
    for model in models:  # the sums and the posterior that is kept beside them still belong together
        own, shared = model.prior[0]
        matrix = model.precision[0] + np.diag([shared] * 6 + [BEFORE_PRECISION])
        matrix -= model.cross[0] / (model.weight[0] + own) @ model.cross[0].T
        right = model.moment[0] - model.cross[0] @ (model.pull[0] / (model.weight[0] + own))
        np.testing.assert_allclose(np.linalg.solve(matrix, right), model.estimate[0], atol=1e-6)
    with pytest.raises(sr.Refused, match="unknown item 'film 99'"):
        mended.describe("film 99", {})


@pytest.mark.parametrize("kind", ["polars", "pandas"])
def test_features_from_a_frame(kind):
    library = pytest.importorskip(kind)
    frame = library.DataFrame({"title": ["a", "b"], "genre": ["drama", None], "year": [1990.0, float("nan")]})
    found = sr.features_from(frame, "title", ["genre", "year"])
    assert found == {"a": {"genre": "drama", "year": 1990.0}, "b": {"genre": None, "year": None}}
    assert SPACE.of_item(found["b"]).tolist() == [0] * 6
    with pytest.raises(ValueError, match="unknown column 'yaer': did you mean 'year'"):
        sr.features_from(frame, "title", ["yaer"])
