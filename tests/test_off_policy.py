"""Estimates of what another ranker would have got: by hand, and right on average over every list and click."""

import argparse
import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyrank.cli import main
from steadyrank.cli.logs import add_options
from steadyrank.comparison import off_policy as op
from steadyrank.comparison.ranker_comparison import Row, compare, lists_of

pytestmark = pytest.mark.pure

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
    weights = op.position_weights(lists, lists.marginals)
    spread = op.spread_of(weights)
    assert op.position(lists, weights, None).tolist() == [2.0]  # the click of the first place, by its chance
    assert spread == (1.0, 0.0, 0)  # weights 2 and 0: nothing speaks of the second place
    rates = np.zeros((3, 2))
    rates[0, 0], rates[2, 1] = 0.2, 0.1
    assert op.position(lists, weights, model(rates)) == pytest.approx([0.2 + 2 * (1 - 0.2) + 0.1])


def test_cascade_by_hand():
    lists = one([0, 1], [0, 1], [1], [0.5, 0.25])
    assert op.cascade(lists, op.cascade_weights(lists, lists.propensities), None).tolist() == [8.0]
    lists = one([0, 1], [0, 2], [1], [0.5, 0.25])
    assert op.cascade(lists, op.cascade_weights(lists, lists.propensities), None).tolist() == [0.0]
    rates = model([0.2, 0.1, 0.3])
    none, first = one([0, 1], [0, 2], [], [0.5, 0.25]), one([0, 1], [0, 2], [0], [0.5, 0.25], examined=1)
    # ours is worth 0.2 + 0.8 * 0.3 = 0.44 by the model, from its second place on 0.3
    assert op.cascade(none, op.cascade_weights(none, none.propensities), rates) == pytest.approx(
        [0.44 + 2 * (0.3 - 0.44)]
    )
    assert op.cascade(first, op.cascade_weights(first, first.propensities), rates) == pytest.approx(
        [0.44 + 2 * (1 - 0.44)]
    )


def test_self_normalised_by_hand():
    """Ours is 0, 1. Weights are 2 and 8, 2 and 0, 0 and 0, 2 and 8; clicked are the second place of the first list,
    and the first of the third and of the fourth: 2 of 6 at the first place, 8 of 16 at the second."""
    rows = [
        Row([0, 1], [0, 1], [1], 2, (0.5, 0.25), (0.5, 0.25), 0),
        Row([0, 2], [0, 1], [], 2, (0.5, 0.75), (0.5, 0.75), 1),
        Row([1, 0], [0, 1], [0], 1, (0.5, 0.5), (0.5, 0.5), 2),
        Row([0, 1], [0, 1], [0], 1, (0.5, 0.25), (0.5, 0.25), 3),
    ]
    lists = lists_of(rows)
    weights = op.cascade_weights(lists, lists.propensities)
    assert op.cascade(lists, weights, None).mean() == pytest.approx((8 + 2) / 4)  # more than a cascade can have
    values = op.self_normalised(lists, weights)
    assert values.mean() == pytest.approx(1 / 3 + 1 / 2)
    # the third list, without a weight, adds 1/3 + 1/2; the first 1/3 - 2 (1/3) / 1.5 and 1/2 + 8 (1/2) / 4
    assert values.tolist() == pytest.approx([-1 / 9 + 3 / 2, -1 / 9 + 1 / 2, 1 / 3 + 1 / 2, 11 / 9 - 1 / 2])
    # chances that are all said half as large as they are change nothing, and inverse propensities by a factor
    half = op.cascade_weights(lists, lists.propensities / 2)
    assert op.self_normalised(lists, half) == pytest.approx(values)
    assert op.cascade(lists, half, None).mean() == pytest.approx((4 * 8 + 2 * 2) / 4)
    # by position the weights are 2 and 4: the second place has 4 of 8
    weights = op.position_weights(lists, lists.marginals)
    assert op.self_normalised(lists, weights).mean() == pytest.approx(2 / 6 + 4 / 8)


def test_self_normalised_counts_places_of_ours_alone():
    """The second list of ours ends after a place; nothing speaks of the third place of the first."""
    lists = lists_of([Row([0, 1, 2], [0, 1, 3], [1], 3, (), (), 0), Row([0, 2, 1], [0], [0], 3, (), (), 1)])
    weights = op.position_weights(lists, np.full((2, 3), 0.5))
    assert op.self_normalised(lists, weights).mean() == pytest.approx(1 / 2 + (1 / 2) * 1 + 0)


def test_clicks_beyond_what_was_looked_at_do_not_count():
    lists = one([0, 1], [0, 1], [1], [0.5, 0.5], examined=1)
    assert op.clicks_of(lists).tolist() == [0.0]
    assert op.position(lists, op.position_weights(lists, lists.marginals), None).tolist() == [0.0]


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
        values = op.cascade(lists, op.cascade_weights(lists, lists.propensities), believed)
        assert (weight * values).sum() == pytest.approx(truth)
    lists, weight, truth = every(attraction, scores, "position", ours)
    wrong = op.ClickModel(np.array([[[g] * len(ours) for g in guess]]), np.zeros(len(weight), np.int64))
    for believed in (None, wrong):
        values = op.position(lists, op.position_weights(lists, lists.marginals), believed)
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
    for estimate in found.whole.estimates[:3]:
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
    assert found.says[-1].startswith("1,500 of 3,000 lists are suspect: left out by the guard")
    few = [Row([0, 1], [2, 0], [], 2, (), (), -1)] * 5 + [Row([0, 1], [0, 1], [0], 1, (), (), -1)]
    found = compare(lists_of(few), np.zeros(6, np.bool_), names)
    assert found.whole.alike == pytest.approx(2 / 12)
    assert any("shows about 17%" in words for words in found.says)
    assert any("fewer than 50" in words for words in found.says)


@pytest.mark.parametrize("chance", [1e-300, 5e-324, 9.9e-10, 0.0, 1.5, float("inf")])
def test_chances_that_no_log_could_show_are_refused(chance):
    good, rows = (0.5, 1e-9), [Row([0, 1], [0, 1], [0], 1, (0.5, 1e-9), (), -1)] * 2
    assert lists_of(rows).propensities[0].tolist() == [0.5, 1e-9]
    for name, chances in (("propensities", ([0.5, chance], good)), ("marginals", (good, [0.5, chance]))):
        with pytest.raises(ValueError, match="must be from 1e-09 to 1, ") as refusal:
            lists_of([*rows, Row([0, 1], [0, 1], [0], 1, *chances, -1)])
        assert str(refusal.value) == f"list 3: {name} must be from 1e-09 to 1, not {chance!r} at place 2"


@pytest.mark.parametrize("chance", [1e-300, 5e-324, 1e-9])
def test_small_chances_do_not_decide_and_that_is_said(chance):
    """As logs of earlier versions may have them."""
    lists = lists_of([Row([0, 1, 2], [0, 1, 2], [0, 1], 3, (), (), i % 7) for i in range(100)])
    lists = lists._replace(propensities=np.full((100, 3), chance), marginals=np.full((100, 3), chance))
    found = compare(lists, np.arange(100) < 20, ["a", "b", "c"])
    for part in (found.whole, found.trusted):
        for one in part.estimates:
            assert (one.spread.clipped, one.spread.effective) == (part.lists, pytest.approx(part.lists))
            assert one.spread.covered == pytest.approx(op.weight_limit(part.lists))
            assert all(0.0 <= x <= 3.0 for x in one.ours)
            assert one.gain.low <= one.gain.value <= one.gain.high
            if one.cut:
                assert one.ours in ((0.0, 0.0, 3.0), (3.0, 0.0, 3.0))
                assert one.gain == pytest.approx((one.ours.value - 2.0, -2.0, 1.0))
        assert [one.cut for one in part.estimates if one.method == op.INVERSE] == [True, True]
        assert not any(one.cut for one in part.estimates if one.method == op.NORMALISED)
    assert found.says[0].startswith("cascade: 80 of 80 lists have a weight above 8.9: it is very seldom that")
    words = (
        "position, inverse propensities: the estimate was more clicks than a list has places. It is set to 3, with"
    )
    assert any(said.startswith(words) for said in found.says)
    assert any("position: the mean weight is 8.9, and would be 1 at most" in said for said in found.says)


def test_weights_are_clipped_by_hand():
    lists = one([0, 1, 2], [0, 1, 2], [0, 1, 2], [0.5, 0.25, 0.5])
    weights = op.cascade_weights(lists, lists.propensities, 4.0)
    values = op.cascade(lists, weights, None)
    assert (values.tolist(), op.spread_of(weights).clipped) == ([2.0 + 4.0 + 4.0], 1)
    weights = op.position_weights(lists, lists.marginals, 3.0)
    values = op.position(lists, weights, None)
    assert (values.tolist(), op.spread_of(weights).clipped) == ([2.0 + 3.0 + 2.0], 1)
    assert op.weight_limit(16) == 4.0  # the root of their number
    assert op.weight_limit(10_000) == 1_000.0  # a tenth of the log, where that is more


def test_what_is_null_is_explained():
    rows = [Row([0, 1], [0, 1], [0], 1, (), (), 4)] * 9 + [Row([0, 1], [0, 1], [0], 1, (), (), 5)]
    found = compare(lists_of(rows[:9]), np.zeros(9, np.bool_), ["a", "b"])
    assert np.isnan(found.whole.theirs.low)
    assert any("All lists are those of one client: there are no intervals" in words for words in found.says)
    found = compare(lists_of(rows), np.arange(10) == 9, ["a", "b"])
    assert any("All lists that are not suspect are those of one client" in words for words in found.says)
    found = compare(lists_of(rows), np.arange(10) != 9, ["a", "b"])
    assert found.trusted is None
    assert any("fewer than two are left" in words for words in found.says)


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
    first, second, *_ = said.splitlines()
    assert first.startswith("Open: ours 0.675 a list, theirs 0.480; gain +0.195 (95 %: +0.079 to +0.312). ")
    assert first.endswith("as much as 4 of ours, and 50 are needed.")  # although the interval is above 0
    assert second == "By the cascade model, doubly robust, over 300 lists."
    assert main(["compare-rankers", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["whole"]["lists"] == 300
    (best,) = [e for e in found["whole"]["estimates"] if (e["model"], e["method"]) == ("position", "doubly robust")]
    assert best["gain"]["low"] > 0
    assert best["given"]


@pytest.fixture
def shuffled():
    """Lists of two out of three items, of which the last is clicked most; at most one click each."""
    rng = np.random.default_rng(5)
    lists = []
    for n in range(800):
        items = [str(item) for item in rng.permutation(list("abc"))[:2]]
        clicked = next((item for item in items if rng.random() < (0.7 if item == "c" else 0.1)), None)
        lists.append((n, items, clicked, f"c{n % 50}"))
    return lists


def test_the_log_that_an_audit_reads_is_compared_alike(shuffled, tmp_path, capsys):
    """One file as `observe` takes it, one with a list a row, one with a shown item a row: one comparison."""
    lines, lists, items = (tmp_path / name for name in ("lines.jsonl", "lists.csv", "items.csv"))
    lines.write_text("".join(json.dumps({"items": i, "clicked": c, "client": w}) + "\n" for _, i, c, w in shuffled))
    rows = [f"{n},{'|'.join(i)},{c or ''},{w}\n" for n, i, c, w in shuffled]
    lists.write_text("time,items,clicked_item,client\n" + "".join(reversed(rows)))
    rows = [f"{n},{n},{k + 1},{x},{int(x == c)},{w}\n" for n, i, c, w in shuffled for k, x in enumerate(i)]
    items.write_text("impression,time,position,item,clicked,client\n" + "".join(rows))
    found = []
    for path in (lines, lists, items):
        assert main(["compare-rankers", str(path), "--learner", "CascadeTS", "--json"]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[0]["whole"]["lists"] == 800
    assert found[0]["verdict"]["better"] == "ours"
    assert found[1] == found[0]
    assert found[2] == found[0]


def test_propensities_may_stand_in_a_column(shuffled, tmp_path, capsys):
    path = tmp_path / "lists.csv"
    rows = [f'{"|".join(i)},{c or ""},"[0.33, 0.5]","[0.33, 0.33]"\n' for _, i, c, _ in shuffled]
    path.write_text("items,clicked_item,propensities,marginals\n" + "".join(rows))
    assert main(["compare-rankers", str(path), "--learner", "CascadeTS", "--json"]) == 0
    assert all(one["given"] for one in json.loads(capsys.readouterr().out)["whole"]["estimates"])
    path.write_text(path.read_text().replace("0.5]", "7]"))
    assert main(["compare-rankers", str(path), "--learner", "CascadeTS"]) == 2
    assert "row 0 of the log: propensities must be from 1e-09 to 1, not 7 at place 2" in capsys.readouterr().err


def test_of_several_boards_one_is_compared(shuffled, tmp_path, capsys):
    path = tmp_path / "lists.csv"
    rows = [f"{'|'.join(i)},{c or ''},{'home' if n % 2 else 'search'}\n" for n, i, c, _ in shuffled]
    path.write_text("items,clicked_item,board\n" + "".join(rows))
    command = ["compare-rankers", str(path), "--learner", "CascadeTS", "--json"]
    assert main(command) == 2
    assert "--of NAME says which to take: search, home" in capsys.readouterr().err
    assert main([*command, "--of", "home"]) == 0
    assert json.loads(capsys.readouterr().out)["whole"]["lists"] == 400


def compared(clicks, ours, n=400, shown=((0, 1), (1, 0))):
    """Two lists in turn, of which one place was clicked as given; ours is always the same."""
    rows = [Row(shown[i % 2], ours, clicks[i % len(clicks)], 2, (0.5, 1.0), (0.5, 0.5), i % 40) for i in range(n)]
    return compare(lists_of(rows), np.zeros(n, np.bool_), ["a", "b"])


def test_the_verdict_is_open_where_the_log_cannot_tell():
    ours = compared(
        [[0], [1], [0], []], (0, 1)
    ).verdict  # a is clicked wherever it is: its lists alone get all clicks
    assert (ours.better, ours.model) == ("ours", "cascade")
    assert ours.gain.low > 0
    assert ours.says.startswith("Ours gets more clicks: ours 1.000 a list, theirs 0.750; gain +0.250 (95 %: +")
    theirs = compared([[0], []], (1, 0)).verdict
    assert (theirs.better, theirs.gain.high < 0) == ("theirs", True)
    same = compared([[0], [0]], (0, 1)).verdict
    assert (same.better, same.gain.value) == ("open", pytest.approx(0.0))
    assert same.says.endswith("The interval holds 0: more lists are needed.")
    few = compared([[0], []], (0, 1), n=40).verdict
    assert (few.better, few.gain.low > 0) == ("open", True)
    assert few.says.endswith("as much as 20 of ours, and 50 are needed.")
    never = compared([[0], []], (0, 1), shown=((1, 0), (1, 0))).verdict
    assert never.better == "open"
    assert never.says.endswith("as much as 0 of ours, and 50 are needed.")
    half = [
        Row((i % 2, 1 - i % 2), ((0, 1), (2, 0))[i // 2 % 2], [0], 2, (0.5, 1.0), (0.5, 0.5), i) for i in range(400)
    ]
    found = compare(lists_of(half), np.zeros(400, np.bool_), ["a", "b", "c"]).verdict
    assert found.better == "open"
    assert found.says.endswith("The other ranker shows about 50% of what ours would: the rest is a guess.")


def test_more_clicks_a_list_than_any_list_had_are_explained():
    """Chances are given too small by half, so every click counts twice; of each list one place was clicked."""
    assert not any("no list had more" in sentence for sentence in compared([[0]], (0, 1)).says)
    rows = [Row((0, 1), (0, 1), [i % 2], 2, (0.5, 1.0), (0.5, 0.5), i % 40) for i in range(400)]
    found = compare(lists_of(rows), np.zeros(400, np.bool_), ["a", "b"])
    wrong = [one for one in found.whole.estimates if one.ours.value > 1.0]
    assert wrong
    assert sum("no list had more than one" in sentence for sentence in found.says) == len(
        {one.model for one in wrong}
    )
    assert found.verdict.better == "open"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("[]", "an object with"), ('{"items": []}', "at least one"), ('{"items": ["a"]}', "needs its answer"),
        ('{"items": ["a"], "clicked": "b"}', "was not shown"), ("{", "line 2"),
        ('{"items": ["a"], "clicked": null, "propensities": [0]}', "must be from 1e-09 to 1, not 0 at place 1"),
        ('{"items": ["a", "b"], "clicked": null, "marginals": [1, 1e-300]}', "not 1e-300 at place 2"),
        ('{"items": ["a", "b"], "clicked": null, "marginals": [1]}', "one for each of the 2 items, not [1]"),
        ('{"items": ["a"], "clicked": null, "pos": 1}', "'pos' is not known"),
        ("", "has 1 lists: two are needed"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_compared_is_refused(line, words, tmp_path, capsys):
    path = tmp_path / "lists.jsonl"
    path.write_text(f'{{"items": ["a", "b"], "clicked": null}}\n{line}\n')
    assert main(["compare-rankers", str(path), "--learner", "CascadeTS"]) == 2
    assert words in capsys.readouterr().err


def test_what_says_how_to_read_is_refused_where_lists_say_it_themselves(tmp_path, capsys):
    path = tmp_path / "lists.jsonl"
    path.write_text('{"items": ["a", "b"], "clicked": null}\n' * 2)
    parser = argparse.ArgumentParser()
    add_options(parser)
    options = [action for action in parser._actions if action.option_strings and action.dest != "help"]
    assert len(options) > 10
    for action in options:
        (name,), value = action.option_strings, str((action.choices or ["2%"])[0])
        assert main(["compare-rankers", str(path), name, value]) == 2
        assert f"{name} {value} has no effect" in capsys.readouterr().err
