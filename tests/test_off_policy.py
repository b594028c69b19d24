"""Estimates of what another ranker would have got: by hand, and right on average over every list and click."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyrank import off_policy as op
from steadyrank.cli import main
from steadyrank.ranker_comparison import Row, compare, lists_of

CHANCE = st.floats(0.05, 0.95)


def one(shown, ours, clicks, chances, sender=0, examined=None):
    """A log of one list; the same chances for both models."""
    size = len(shown) if examined is None else examined
    return lists_of([Row(shown, ours, clicks, size, chances, chances, sender)])


def model(rates):
    return op.ClickModel(np.array([rates] * op.FOLDS, float), np.zeros(1, np.int64))


def test_the_interval_of_a_mean_by_hand():
    found = op.mean(np.array([1.0, 0, 1, 0]), np.arange(4))
    assert found.value == 0.5
    assert found.high - 0.5 == pytest.approx(3.1824 * np.sqrt(4 / 3 * 1.0) / 4)
    found = op.mean(np.array([1.0, 1, 0, 0]), np.array([0, 0, 1, 1]))  # two clients: one degree of freedom
    assert found.high - 0.5 == pytest.approx(12.7062 * np.sqrt(2 / 1 * 2.0) / 4)
    assert np.isnan(op.mean(np.array([1.0, 1]), np.array([0, 0])).low)


def test_who_has_no_name_is_by_itself():
    assert op.clusters(np.array([7, -1, 7, -1, 2])).tolist() == [1, 2, 1, 3, 0]


def test_shares_by_hand():
    shown = np.array([[0, 1], [0, 2], [1, 0], [0, -1]])
    assert op.shares(shown)[:, 0].tolist() == [0.75, 0.75, 0.25, 0.75]
    assert op.shares(shown)[:3, 1].tolist() == [1 / 3, 1 / 3, 1 / 3]
    assert np.isnan(op.shares(shown)[3, 1])
    assert op.prefix_shares(shown)[:3].tolist() == [[0.75, 1 / 3], [0.75, 1 / 3], [0.25, 1.0]]


def test_position_by_hand():
    lists = one([0, 1], [0, 2], [0, 1], [0.5, 0.25])
    values, spread = op.position(lists, lists.marginals, None)
    assert values.tolist() == [2.0]  # the click of the first place, by its chance
    assert spread == (1.0, 0.0)  # weights 2 and 0: nothing speaks of the second place
    rates = np.zeros((3, 2))
    rates[0, 0], rates[2, 1] = 0.2, 0.1
    assert op.position(lists, lists.marginals, model(rates))[0] == pytest.approx([0.2 + 2 * (1 - 0.2) + 0.1])


def test_cascade_by_hand():
    lists = one([0, 1], [0, 1], [1], [0.5, 0.25])
    assert op.cascade(lists, lists.propensities, None)[0].tolist() == [8.0]
    lists = one([0, 1], [0, 2], [1], [0.5, 0.25])
    assert op.cascade(lists, lists.propensities, None)[0].tolist() == [0.0]
    rates = model([0.2, 0.1, 0.3])
    none, first = one([0, 1], [0, 2], [], [0.5, 0.25]), one([0, 1], [0, 2], [0], [0.5, 0.25], examined=1)
    # ours is worth 0.2 + 0.8 * 0.3 = 0.44 by the model, from its second place on 0.3
    assert op.cascade(none, none.propensities, rates)[0] == pytest.approx([0.44 + 2 * (0.3 - 0.44)])
    assert op.cascade(first, first.propensities, rates)[0] == pytest.approx([0.44 + 2 * (1 - 0.44)])


def test_clicks_beyond_what_was_looked_at_do_not_count():
    lists = one([0, 1], [0, 1], [1], [0.5, 0.5], examined=1)
    assert op.clicks_of(lists).tolist() == [0.0]
    assert op.position(lists, lists.marginals, None)[0].tolist() == [0.0]


def test_models_of_clicks_leave_out_their_own_fold():
    rows = [Row([0, 1], [0, 1], [0], 1, (), (), sender) for sender in range(op.FOLDS)]
    rows.append(Row([1, 0], [0, 1], [], 2, (), (), 0))
    lists, cluster = lists_of(rows), np.array([0, 1, 2, 3, 4, 0])
    found = op.attractions(lists, 2, cluster)
    assert found.fold.tolist() == [0, 1, 2, 3, 4, 0]
    assert found.rates[0, 0] == pytest.approx((4 + 4 * 1.0) / (4 + 4))  # outside of fold 0: item 0, 4 of 4, 1 never
    mean = 4 / 6  # outside of fold 1: 5 looks at item 0 with 4 clicks, one at item 1
    assert found.rates[1].tolist() == pytest.approx([(4 + 4 * mean) / (5 + 4), (0 + 4 * mean) / (1 + 4)])
    places = op.place_rates(lists, 2, cluster)
    # outside of fold 0: item 0 at the top four times, clicked; item 1 below, never clicked
    assert places.rates[0].tolist() == pytest.approx(np.array([[1.0, 0.0], [1.0, 0.0]]))


def every(attraction, scores, users, ours):
    """Every list of Plackett and Luce's law with every outcome: lists, their chances, and the true value of ours."""
    rows, weight, length = [], [], len(ours)
    law = {}
    for shown in itertools.permutations(range(len(scores)), length):
        left = np.cumsum([0.0, *(scores[i] for i in shown)])
        law[shown] = [scores[i] / (scores.sum() - left[k]) for k, i in enumerate(shown)]
    marginal = {(i, k): sum(np.prod(p) for s, p in law.items() if s[k] == i) for i in range(3) for k in range(length)}
    for shown, chances in law.items():
        for bits in itertools.product([0, 1], repeat=length):
            clicks = [k for k, bit in enumerate(bits) if bit]
            if users == "cascade" and len(clicks) > 1:
                continue
            examined = clicks[0] + 1 if users == "cascade" and clicks else length
            odds = [attraction[i] if bit else 1 - attraction[i] for i, bit in zip(shown, bits, strict=True)][
                :examined
            ]
            weight.append(np.prod(chances) * np.prod(odds))
            marginals = [marginal[i, k] for k, i in enumerate(shown)]
            rows.append(Row(shown, ours, clicks, examined, chances, marginals, -1))
    chosen = attraction[list(ours)]
    return lists_of(rows), np.array(weight), 1 - np.prod(1 - chosen) if users == "cascade" else chosen.sum()


@given(
    attraction=st.lists(CHANCE, min_size=3, max_size=3), scores=st.lists(CHANCE, min_size=3, max_size=3),
    guess=st.lists(CHANCE, min_size=3, max_size=3), ours=st.sampled_from([(0, 1), (2, 0), (1, 2), (2,)]),
)  # fmt: skip
def test_both_are_right_on_average_whatever_the_model_of_clicks_says(attraction, scores, guess, ours):
    attraction, scores = np.array(attraction), np.array(scores)
    lists, weight, truth = every(attraction, scores, "cascade", ours)
    assert weight.sum() == pytest.approx(1.0)
    wrong = op.ClickModel(np.array([guess]), np.zeros(len(weight), np.int64))
    for believed in (None, wrong):
        values, _ = op.cascade(lists, lists.propensities, believed)
        assert (weight * values).sum() == pytest.approx(truth)
    lists, weight, truth = every(attraction, scores, "position", ours)
    wrong = op.ClickModel(np.array([[[g] * len(ours) for g in guess]]), np.zeros(len(weight), np.int64))
    for believed in (None, wrong):
        values, _ = op.position(lists, lists.marginals, believed)
        assert (weight * values).sum() == pytest.approx(truth)


def rows_of(n, seed=0, known=True):
    """Lists of two of three items, each as likely as the others; ours is always 0, 1."""
    rng, found = np.random.default_rng(seed), []
    for i in range(n):
        shown = rng.permutation(3)[:2].tolist()
        clicks = [k for k in range(2) if rng.random() < (0.5, 0.3, 0.1)[shown[k]]][:1]
        examined = clicks[0] + 1 if clicks else 2
        chances = ((1 / 3, 1 / 2), (1 / 3, 1 / 3)) if known else ((), ())
        found.append(Row(shown, [0, 1], clicks, examined, *chances, i % 400))
    return found


def test_a_comparison_says_what_both_show_and_how_far_to_believe_it():
    names = ["a", "b", "c"]
    rows = rows_of(3_000)
    found = compare(lists_of(rows), np.zeros(3_000, np.bool_), names)
    assert (found.ours, found.trusted, found.suspect, found.says) == (["a", "b"], None, 0, [])
    assert set(found.theirs) <= set(names)
    for estimate in found.whole.estimates[:2]:
        assert estimate.given
        assert estimate.model == "cascade"
        width = estimate.ours.high - estimate.ours.low  # some four standard errors
        assert abs(estimate.ours.value - 0.65) < width < 0.12
        assert estimate.gain.low > 0  # ours is the best list
        assert 0.9 < estimate.spread.covered < 1.1
    half = np.arange(3_000) % 2 == 0
    found = compare(lists_of(rows_of(3_000, known=False)), half, names)
    assert (found.suspect, found.trusted.lists, found.whole.lists) == (1_500, 1_500, 3_000)
    assert not any(one.given for one in found.whole.estimates)
    assert found.says[0].startswith("Without propensities of the other ranker (cascade and position)")
    assert found.says[-1].startswith("1500 of 3000 lists are suspect")
    few = [Row([0, 1], [2, 0], [], 2, (), (), -1)] * 5 + [Row([0, 1], [0, 1], [0], 1, (), (), -1)]
    found = compare(lists_of(few), np.zeros(6, np.bool_), names)
    assert found.whole.alike == pytest.approx(2 / 12)
    assert any("shows about 17%" in words for words in found.says)
    assert any("fewer than 50" in words for words in found.says)


def test_the_command_compares_a_file(tmp_path, capsys):
    rng, path, names = np.random.default_rng(5), tmp_path / "lists.jsonl", list("abcdef")
    with open(path, "w") as file:
        for n in range(300):
            shown = [names[i] for i in rng.permutation(6)[:3]]
            clicked = next((item for item in shown if rng.random() < (0.6 if item == "f" else 0.1)), None)
            row = {"id": str(n), "items": shown, "clicked": clicked, "client": f"c{n % 60}", "time": n}
            file.write(json.dumps(row | {"propensities": [1 / 6, 1 / 5, 1 / 4], "marginals": [1 / 6] * 3}) + "\n")
    assert main(["compare-rankers", str(path)]) == 0
    said = capsys.readouterr().out
    assert "ours, most often:   f" in said
    assert "ours, position, doubly robust: " in said
    assert main(["compare-rankers", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["whole"]["lists"] == 300
    (best,) = [e for e in found["whole"]["estimates"] if (e["model"], e["method"]) == ("position", "doubly robust")]
    assert best["gain"]["low"] > 0
    assert best["given"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("[]", "an object with"), ('{"items": []}', "at least one"), ('{"items": ["a"]}', "needs its answer"),
        ('{"items": ["a"], "clicked": "b"}', "was not shown"), ("{", "line 2"),
        ('{"items": ["a"], "clicked": null, "propensities": [0]}', "above 0 and at most 1, not [0]"),
        ('{"items": ["a"], "clicked": null, "pos": 1}', "'pos' is not known"),
        ("", "has 1 lists: two are needed"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_compared_is_refused(line, words, tmp_path, capsys):
    path = tmp_path / "lists.jsonl"
    path.write_text(f'{{"items": ["a", "b"], "clicked": null}}\n{line}\n')
    assert main(["compare-rankers", str(path), "--learner", "CascadeTS"]) == 2
    assert words in capsys.readouterr().err
