"""Features by name in a live ranker: what is declared, what is refused, and what they are worth."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import steadyrank as sr

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


@pytest.mark.parametrize("kind", ["polars", "pandas"])
def test_features_from_a_frame(kind):
    library = pytest.importorskip(kind)
    frame = library.DataFrame({"title": ["a", "b"], "genre": ["drama", None], "year": [1990.0, float("nan")]})
    found = sr.features_from(frame, "title", ["genre", "year"])
    assert found == {"a": {"genre": "drama", "year": 1990.0}, "b": {"genre": None, "year": None}}
    assert SPACE.of_item(found["b"]).tolist() == [0] * 6
    with pytest.raises(ValueError, match="unknown column 'yaer': did you mean 'year'"):
        sr.features_from(frame, "title", ["yaer"])
