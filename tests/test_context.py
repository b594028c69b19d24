"""Visitors of whom something is known: what attracts each, and what lists are worth to them."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import steadyrank as sr
from steadyrank.adversaries.tastes import visitors_of
from steadyrank.cli import main
from steadyrank.core.contract import Problem, Visit
from steadyrank.core.discovery import make
from steadyrank.core.dispatch import call_rank, call_update
from steadyrank.core.rounds import Streams
from steadyrank.evaluation.lab.cells import Cell
from steadyrank.evaluation.lab.runner import run_cell
from steadyrank.learners.shared.linear_posterior import LinearPosterior, absorb, inverse_times
from steadyrank.learners.shared.mixed_model import STEPS, MixedModel, fit, observe

pytestmark = pytest.mark.pure

LOGISTIC, LINEAR = sr.users()["LogisticCascade"], sr.users()["LinearCascade"]
ATTRACTION = np.array([0.5, 0.2, 0.05, 0.6, 0.0])
FEATURES = np.array([[1.0, 2.0, -1.0], [0.5, -1.0, 0.0], [2.0, 4.0, 1.0], [0.0, -0.5, 3.0], [1.0, 1.0, 1.0]])


def crowd_of(cls, **change):
    return make(cls, ATTRACTION, 3, settings={"features": FEATURES, "constant": 1, **change})


def chance(cls, k, v, weight):
    """As docs/context.md says: the first feature is 1 for everybody and counts in the attraction alone."""
    shift = weight * sum(x * y for x, y in zip(FEATURES[k][1:], v[1:], strict=True))
    if cls is LINEAR:
        return min(max(ATTRACTION[k] + shift, 0.0), 1.0)
    if ATTRACTION[k] == 0.0:
        return 0.0
    return 1 / (1 + math.exp(-math.log(ATTRACTION[k] / (1 - ATTRACTION[k])) - shift))


def test_chances_by_hand():
    """Item 0, visitor (1, 1/2, 1): 2 times 1/2 less 1 is 0; visitor (1, 1, 0): 2 times 0.1 more, or odds of e^2."""
    visits = [Visit(1, -1, np.array(v)) for v in ([1.0, 0.5, 1.0], [1.0, 1.0, 0.0])]
    logistic, linear = crowd_of(LOGISTIC), crowd_of(LINEAR)
    assert [logistic.value(v, np.array([0])) for v in visits] == pytest.approx([0.5, math.e**2 / (1 + math.e**2)])
    assert [linear.value(v, np.array([0])) for v in visits] == pytest.approx([0.5, 0.7])
    assert linear.value(Visit(1, -1, np.array([1.0, 1.0, 1.0])), np.array([2])) == pytest.approx(0.55)


@settings(max_examples=25)
@given(
    st.sampled_from([LOGISTIC, LINEAR]),
    st.lists(st.floats(-1, 1), min_size=2, max_size=2),
    st.sampled_from([0.0, 0.1, 1.0]),
)
def test_value_and_best_list_are_those_of_a_sum_over_all_that_may_happen(cls, tastes, weight):
    v = [1.0, *tastes]
    crowd, visit = crowd_of(cls, weight=weight), Visit(1, -1, np.array(v))
    chances = [chance(cls, k, v, weight) for k in range(5)]

    def worth(items):
        total = 0.0
        for bits in itertools.product([0, 1], repeat=len(items)):
            odds = math.prod(chances[k] if bit else 1 - chances[k] for k, bit in zip(items, bits, strict=True))
            total += odds * any(bits)
        return total

    worths = {items: worth(items) for items in itertools.permutations(range(5), 3)}
    for items in [(0, 1, 2), (4, 3, 1)]:
        assert crowd.value(visit, np.array(items)) == pytest.approx(worths[items])
    best = np.zeros(3, np.int64)
    crowd.best(visit, best)
    assert worths[tuple(best.tolist())] == pytest.approx(max(worths.values()))
    assert sorted(best.tolist(), key=lambda k: -chances[k]) == best.tolist()


@pytest.mark.parametrize("cls", [LOGISTIC, LINEAR])
def test_click_rates_are_the_chances(cls):
    """Of 4,000 visits by the same visitor, as many click the first item as should, within four standard errors."""
    v = [1.0, 0.3, -0.4]
    crowd, visit, rng = crowd_of(cls, weight=0.1), Visit(1, -1, np.array(v)), np.random.default_rng(1)
    bits, ranking, total = np.zeros(3, np.bool_), np.array([3, 0, 2]), np.zeros(3)
    for _ in range(4_000):
        reached = crowd.click(visit, ranking, bits, rng)
        assert reached == (int(np.argmax(bits)) + 1 if bits.any() else 3)
        total += bits
    chances = np.array([chance(cls, k, v, 0.1) for k in ranking])
    assert (np.abs(total / 4_000 - chances) < 4 * np.sqrt(chances * (1 - chances) / 4_000)).all()


def test_anonymous_visitors_differ_and_clients_stay_who_they_are():
    rng, seen = np.random.default_rng(2), np.zeros(3)
    anonymous, known = crowd_of(LOGISTIC), crowd_of(LOGISTIC, clients=50)
    drawn = []
    for t in range(400):
        assert anonymous.arrive(t, seen, rng) == -1
        drawn.append(seen.copy())
    drawn = np.array(drawn)
    assert (drawn[:, 0] == 1.0).all()
    assert (np.abs(drawn[:, 1:]) <= 1.0).all()
    assert np.abs(drawn[:, 1:].mean(0)).max() < 4 / math.sqrt(3 * 400)
    assert abs(np.corrcoef(drawn[:, 1:].T)[0, 1]) < 4 / math.sqrt(400)
    people: dict[int, tuple[float, ...]] = {}
    for t in range(400):
        client = known.arrive(t, seen, rng)
        assert people.setdefault(client, tuple(seen)) == tuple(seen)
    assert len(set(people.values())) == len(people) > 30


def test_visitors_come_from_a_pool_where_there_is_one():
    """Two numbers a visitor leave one of three features that is 1 for everybody; each of four comes a quarter of the
    time within four standard errors, and a client is always the same one."""
    pool, rng, seen = (
        np.array([[0.5, 2.0], [-3.0, 0.0], [0.1, 0.2], [4.0, -1.0]]),
        np.random.default_rng(3),
        np.zeros(3),
    )
    anonymous, known = (crowd_of(LINEAR, constant=0, visitors=pool, clients=clients) for clients in (0, 30))
    assert anonymous.visitors.weights.tolist() == [0.0, 0.1, 0.1]
    rows = []
    for t in range(800):
        anonymous.arrive(t, seen, rng)
        assert seen[0] == 1.0
        rows.append(pool.tolist().index(seen[1:].tolist()))
    assert np.abs(np.bincount(rows, minlength=4) / 800 - 0.25).max() < 4 * math.sqrt(0.25 * 0.75 / 800)
    people: dict[int, list[float]] = {}
    for t in range(300):
        client = known.arrive(t, seen, rng)
        assert people.setdefault(client, seen.tolist()) == seen.tolist()
        assert seen[1:].tolist() in pool.tolist()
    assert len({tuple(person) for person in people.values()}) > 1


def test_without_features_they_are_cascade_users():
    plain, cascade = (make(cls, ATTRACTION, 3, settings={}) for cls in (LOGISTIC, sr.users()["Cascade"]))
    best = np.zeros((2, 3), np.int64)
    for crowd, row in zip((plain, cascade), best, strict=True):
        crowd.best(Visit(1), row)
    assert best[0].tolist() == best[1].tolist()
    assert plain.value(Visit(1), best[0]) == pytest.approx(cascade.value(Visit(1), best[0]))
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    assert plain.arrive(1, np.zeros(0), rng) == -1
    assert rng.bit_generator.state == before


def test_false_visitors_of_another_taste_go_by_their_own_attractions():
    """Reversed, the item of attraction 0 has 0.6 and the best one 0, whoever comes."""
    problem = Problem(5, 3, 100, 10, ATTRACTION, 0, FEATURES)
    others = visitors_of("reversed", problem, crowd_of(LOGISTIC))
    for v in ([1.0, 1.0, 1.0], [1.0, -1.0, 0.5]):
        visit = Visit(1, -1, np.array(v))
        assert [others.value(visit, np.array([k])) for k in (3, 4)] == pytest.approx([0.0, 0.6])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": FEATURES[:4]}, "features must have one row for each of 5 items; their shape is \\(4, 3\\)"),
        ({"features": np.full((5, 2), np.nan)}, "features must be finite; those of item 0 are not"),
        ({"weight": -1.0}, "weight must be a finite number from 0.0 to 100.0, not -1.0"),
        ({"constant": 4}, "constant must be a whole number from 0 to 3, not 4"),
        ({"visitors": np.zeros((0, 2))}, "visitors must be rows of at most 3 finite numbers.* shape is \\(0, 2\\)"),
        ({"visitors": np.zeros((6, 4))}, "visitors must be rows of at most 3 finite numbers.* shape is \\(6, 4\\)"),
        ({"visitors": [[math.inf, 0.0]]}, "visitors must be rows of at most 3 finite numbers"),
        ({"visitors": np.zeros((6, 1))}, "leave 2 of 3 features that are 1 for everybody; constant says 1"),
    ],
)
def test_what_users_cannot_be_told(change, message):
    with pytest.raises(ValueError, match=message):
        crowd_of(LINEAR, **change)


@pytest.mark.parametrize("name", ["features", "visitors"])
def test_what_is_known_is_an_argument_of_a_simulation(name):
    with pytest.raises(ValueError, match=f"{name} is an argument of its own"):
        sr.simulate("Random", ATTRACTION, length=3, horizon=5, users="LinearCascade", users_settings={name: FEATURES})


def test_films_are_what_their_page_says():
    world = sr.profile("contextual-films")
    assert world.features.shape == (500, 16)
    assert (world.features[:, 0] == 1.0).all()
    assert np.round(world.attraction[:2], 6).tolist() == [0.001198, 0.005245]
    logit = np.log(world.attraction / (1 - world.attraction))
    explained = np.corrcoef(logit, world.features[:, 1:8].sum(1))[0, 1] ** 2
    assert explained == pytest.approx(0.65, abs=0.05)
    crowd = make(LOGISTIC, world.attraction, 10, settings={"features": world.features, "constant": 8})
    rng, seen, best, values = np.random.default_rng(0), np.zeros(16), np.zeros(10, np.int64), []
    popular = np.argsort(-world.attraction)[:10]
    for t in range(300):
        visit = Visit(t, crowd.arrive(t, seen, rng), seen)
        crowd.best(visit, best)
        values.append([crowd.value(visit, best), crowd.value(visit, popular)])
    assert np.mean(values, 0) == pytest.approx([0.92, 0.82], abs=0.015)


class SlowLinear:
    """The published learners by matrices and their inverses, written down anew in each round."""

    def __init__(self, features, ridge, weight=1.0, discount=1.0, alpha=0.0):
        self.features, self.weight, self.discount, self.alpha = features, weight, discount, alpha
        self.precision, self.moment = ridge * np.eye(features.shape[1]), np.zeros(features.shape[1])

    def upper(self, v, width):
        z, inverse = self.features * v, np.linalg.inv(self.precision)
        norms = np.sqrt([row @ inverse @ row for row in z])
        return np.minimum(z @ inverse @ self.moment + width * norms, 1.0)

    def drawn(self, v, rng):
        inverse = np.linalg.inv(self.precision)
        noise = np.array([rng.standard_normal() for _ in self.moment])
        return self.features * v @ (inverse @ self.moment + np.linalg.cholesky(inverse) @ noise)

    def update(self, v, ranking, clicks, examined):
        for p in range(examined):
            z = self.features[ranking[p]] * v
            weight = self.weight * self.discount ** (2 * p)
            if self.alpha > 0:
                weight *= min(1.0, self.alpha / math.sqrt(z @ np.linalg.inv(self.precision) @ z))
            self.precision += weight * np.outer(z, z)
            self.moment += weight * clicks[p] * z


def first_places(index, size, rng):
    """The largest, best first; as many uniform numbers as there are places are for ties, of which there are none."""
    rng.random(size)
    return np.argsort(-np.round(index, 9), kind="stable")[:size].tolist()


K, D, F = 12, 3, 4
ITEMS = np.random.default_rng(5).normal(size=(K, F)) / 2
TRUE = np.random.default_rng(6).uniform(0.05, 0.5, K)


def c3_width(slow, lam, horizon):
    return math.sqrt(np.linalg.slogdet(slow.precision / lam)[1] + math.log(horizon)) + math.sqrt(lam)


SLOW_VERSIONS = {  # settings, the slow version of [ridge, weight, discount, alpha], and how it ranks
    "CascadeLinUCB": ({"c": 0.3, "sigma": 0.5}, [1.0, 4.0], lambda s, v, r: s.upper(v, 0.3)),
    "CascadeLinUCB with weights": (
        {"c": 0.3, "alpha": 0.2},
        [1.0, 1.0, 1.0, 0.2],
        lambda s, v, r: s.upper(v, 0.3),
    ),
    "CascadeLinTS": ({"sigma": 0.4}, [1.0, 6.25], lambda s, v, r: s.drawn(v, r)),
    "C3UCB": (
        {"discount": 0.9, "lam": 0.01},
        [0.01, 1.0, 0.9],
        lambda s, v, r: s.upper(v, c3_width(s, 0.01, 400)),
    ),
}


@pytest.mark.interpreted
@pytest.mark.parametrize("which", SLOW_VERSIONS)
def test_lists_are_those_of_slow_versions(which):
    """Every fourth visitor is unknown, which counts as features of 1."""
    given, numbers, rule = SLOW_VERSIONS[which]
    slow = SlowLinear(ITEMS, *numbers)
    learner = make(sr.learners()[which.split()[0]], Problem(K, D, 400, features=ITEMS), settings=given)
    mind, mirror, world = (np.random.default_rng(s) for s in (1, 1, 2))
    allowed, ranking, note = np.ones(K, np.bool_), np.zeros(D, np.int64), np.zeros(D + 4)
    tied = 0
    for t in range(1, 401):
        known = world.uniform(-1, 1, F) if t % 4 else np.zeros(F)
        v = known if t % 4 else np.ones(F)
        call_rank(learner, Visit(t, -1, known), allowed, ranking, note, mind)
        index = rule(slow, v, mirror)
        expected = first_places(index, D, mirror)
        at_cap = (index > 1 - 1e-9).sum() > 1  # then chance decides
        tied += at_cap
        assert at_cap or ranking.tolist() == expected, f"round {t}"
        clicks = world.random(D) < TRUE[ranking]
        examined = int(np.argmax(clicks)) + 1 if clicks.any() else D
        call_update(learner, Visit(t, -1, known), ranking, note, clicks, examined)
        slow.update(v, ranking, clicks, examined)
    assert tied < 200
    assert learner.posterior.inverse == pytest.approx(np.linalg.inv(slow.precision), abs=1e-10)
    assert learner.posterior.estimate == pytest.approx(np.linalg.solve(slow.precision, slow.moment), abs=1e-9)


@pytest.mark.interpreted
def test_rare_clicks_weigh_more():
    """CascadeWOFUL by matrices: weights 1 / max(U, 1/3), U the bound of plain regression; the smaller one ranks."""
    learner = make(
        sr.learners()["CascadeWOFUL"], Problem(K, D, 400, features=ITEMS), settings={"c": 0.3, "alpha": 0.3}
    )
    plain, weighted = SlowLinear(ITEMS, 1.0, alpha=0.3), SlowLinear(ITEMS, 1.0, alpha=0.3)
    mind, world = (np.random.default_rng(s) for s in (1, 2))
    allowed, ranking, note = np.ones(K, np.bool_), np.zeros(D, np.int64), np.zeros(D + 4)
    for t in range(1, 301):
        v = world.uniform(-1, 1, F)
        call_rank(learner, Visit(t, -1, v), allowed, ranking, note, mind)
        index = np.minimum(plain.upper(v, 0.3), weighted.upper(v, 0.3))
        assert index.max() < 1
        assert ranking.tolist() == first_places(index, D, np.random.default_rng(0)), f"round {t}"
        clicks = world.random(D) < TRUE[ranking]
        examined = int(np.argmax(clicks)) + 1 if clicks.any() else D
        call_update(learner, Visit(t, -1, v), ranking, note, clicks, examined)
        for p in range(examined):
            weighted.weight = 1 / max(plain.upper(v, 0.3)[ranking[p]], 1 / 3)
            for slow in (weighted, plain):
                slow.update(v, ranking[p:], clicks[p:], 1)
    assert learner.weighted.estimate == pytest.approx(np.linalg.solve(weighted.precision, weighted.moment), abs=1e-9)


@pytest.mark.interpreted
def test_certain_clicks_weigh_more():
    """VAC2UCB by matrices: the weight of an observation is trust / max(V, 0.01), V over a grid of [lower, upper]."""
    learner = make(sr.learners()["VAC2UCB"], Problem(K, D, 400, features=ITEMS), settings={"c": 0.3, "alpha": 0.3})
    slow = SlowLinear(ITEMS, 1.0)
    mind, world, weights = np.random.default_rng(1), np.random.default_rng(2), []
    allowed, ranking, note = np.ones(K, np.bool_), np.zeros(D, np.int64), np.zeros(D + 4)
    for t in range(1, 301):
        v = world.uniform(-1, 1, F)
        call_rank(learner, Visit(t, -1, v), allowed, ranking, note, mind)
        index = slow.upper(v, 0.3)
        assert (index > 1 - 1e-9).sum() < 2  # else chance decides
        assert ranking.tolist() == first_places(index, D, np.random.default_rng(0)), f"round {t}"
        clicks = world.random(D) < TRUE[ranking]
        examined = int(np.argmax(clicks)) + 1 if clicks.any() else D
        call_update(learner, Visit(t, -1, v), ranking, note, clicks, examined)
        z, inverse = ITEMS[ranking[:examined]] * v, np.linalg.inv(slow.precision)
        means, norms = z @ inverse @ slow.moment, np.sqrt([row @ inverse @ row for row in z])
        for row, mean, norm, y in zip(z, means, norms, clicks, strict=False):
            m = np.clip(np.linspace(mean - 0.3 * norm, mean + 0.3 * norm, 100_001), 0, 1)
            weights.append(min(1, 0.3 / norm) / max((m * (1 - m)).max(), 0.01))
            slow.precision += weights[-1] * np.outer(row, row)
            slow.moment += weights[-1] * y * row
    assert max(weights) == pytest.approx(100)
    assert min(weights) < 4
    assert learner.posterior.estimate == pytest.approx(np.linalg.solve(slow.precision, slow.moment), abs=1e-6)


@pytest.mark.interpreted
def test_a_logit_is_learnt_by_mirror_descent():
    """UCBCLB: each step solves its own quadratic problem, and the bound of the logit ranks."""
    learner = make(sr.learners()["UCBCLB"], Problem(K, D, 400, features=ITEMS), settings={"c": 0.3, "alpha": 0.3})
    rate, theta, precision = 0.5 * math.log(2) + 2, np.zeros(F), np.eye(F)
    mind, world = np.random.default_rng(1), np.random.default_rng(2)
    allowed, ranking, note = np.ones(K, np.bool_), np.zeros(D, np.int64), np.zeros(D + 4)
    for t in range(1, 301):
        v = world.uniform(-1, 1, F)
        call_rank(learner, Visit(t, -1, v), allowed, ranking, note, mind)
        z, inverse = ITEMS * v, np.linalg.inv(precision)
        index = z @ theta + 0.3 * np.sqrt([row @ inverse @ row for row in z])
        assert ranking.tolist() == first_places(index, D, np.random.default_rng(0)), f"round {t}"
        clicks = world.random(D) < TRUE[ranking]
        examined = int(np.argmax(clicks)) + 1 if clicks.any() else D
        call_update(learner, Visit(t, -1, v), ranking, note, clicks, examined)
        for row, y in zip(z[ranking[:examined]], clicks, strict=False):
            p = 1 / (1 + math.exp(-row @ theta))
            # the least of g'(x - theta) + |x - theta|^2 / (2 rate) in the norm of the precision so far and this one's
            trust = min(1, 0.3 / math.sqrt(row @ np.linalg.solve(precision, row)))
            within = precision + rate * trust * p * (1 - p) * np.outer(row, row)
            theta = theta - rate * trust * np.linalg.solve(within, (p - y) * row)
            p = 1 / (1 + math.exp(-row @ theta))
            precision = precision + trust * p * (1 - p) * np.outer(row, row)
    assert learner.posterior.estimate == pytest.approx(theta, abs=1e-9)
    assert learner.posterior.inverse == pytest.approx(np.linalg.inv(precision), abs=1e-9)


def test_the_inverse_stays_one_over_many_updates():
    """100,000 of them: A times its inverse is the identity within 1e-9."""
    posterior, rng = LinearPosterior.create(ITEMS, 1.0), np.random.default_rng(3)
    precision, u = np.eye(F), np.zeros(F)
    for z in rng.normal(size=(100_000, F)):
        absorb(posterior, z, u, inverse_times(posterior.inverse, z, u), 1.0, 1.0)
        precision += np.outer(z, z)
    assert posterior.inverse @ precision == pytest.approx(np.eye(F), abs=1e-9)
    assert posterior.growth[0] == pytest.approx(np.linalg.slogdet(precision)[1])


def test_regret_is_against_the_best_list_for_each_visitor():
    """A whole run again, by hand: who comes, what they are shown, what they click, what they lose."""
    run = sr.simulate(
        "CascadeLinTS", ATTRACTION, features=FEATURES, length=3, horizon=200, seeds=[3], marks=[200],
        users="LogisticCascade", users_settings={"constant": 1, "weight": 0.7}, settings={"sigma": 0.5},
    )  # fmt: skip
    world, _, mind, door, _ = Streams.create(3)
    slow, loss = SlowLinear(FEATURES, 1.0, 4.0), 0.0
    for _ in range(200):
        v = np.array([1.0, *(2 * door.random(2) - 1)])
        shown = first_places(slow.drawn(v, mind), 3, mind)
        chances = np.array([chance(LOGISTIC, k, v, 0.7) for k in range(5)])
        clicks = world.random(3) < chances[shown]
        slow.update(v, shown, clicks, int(np.argmax(clicks)) + 1 if clicks.any() else 3)
        loss += np.prod(1 - chances[shown]) - np.prod(np.sort(1 - chances)[:3])
    assert run.final[0] == pytest.approx(loss)


@pytest.mark.parametrize(
    "name", ["CascadeLinUCB", "CascadeLinTS", "C3UCB", "CascadeWOFUL", "VAC2UCB", "UCBCLB", "CascadeMixedTS"]
)
def test_without_features_they_say_what_is_missing(name):
    with pytest.raises(ValueError, match=rf"{name} needs features: one row for each of 5 items"):
        sr.simulate(name, ATTRACTION, length=3, horizon=5)


class SlowMixed:
    """The same Gaussian model with every item's effect a coordinate of its own, solved anew in each round."""

    def __init__(self, features):
        size = np.sqrt((features**2).mean(0))
        self.features = np.column_stack([features / size, np.ones(K)])
        self.own, self.shared, self.log = 1.0, 1.0, []
        self.solve()

    def solve(self):
        n = F + 1
        precision = np.diag([*[self.shared] * F, 0.25, *[self.own] * K])
        moment = np.zeros(n + K)
        moment[F] = -0.5
        for row, weight, target in self.log:
            precision += weight * np.outer(row, row)
            moment += weight * target * row
        self.inverse = np.linalg.inv(precision)
        self.mean = self.inverse @ moment

    def row(self, k, v):
        return np.array([*(self.features[k] * [*v, 1.0]), *(np.arange(K) == k)])

    def update(self, v, ranking, clicks, examined):
        for k, y in zip(ranking[:examined], clicks[:examined], strict=True):
            row = self.row(k, v)
            eta = row @ self.mean
            p = 1 / (1 + math.exp(-eta))
            weight = max(p * (1 - p), 1e-3)
            self.log.append((row, weight, eta + (y - p) / weight))
            self.solve()

    def fit(self):
        """Own effects of the items observed, then weights; a tenth of an effect of precision 1 comes before."""
        items = F + 1 + np.array(sorted({int(np.argmax(row[F + 1 :])) for row, _, _ in self.log}))

        def fitted(which, now):
            determined = len(which) - now * np.diag(self.inverse)[which].sum()
            return (determined + 0.1) / ((self.mean[which] ** 2).sum() + 0.1)

        self.own, self.shared = fitted(items, self.own), fitted(np.arange(F), self.shared)
        self.solve()

    def drawn(self, v, width, rng):
        """Weights first, from their own posterior, then each item's effect given them."""
        n = F + 1
        noise = np.array([rng.standard_normal() for _ in range(n)])
        theta = self.mean[:n] + np.linalg.cholesky(self.inverse[:n, :n]) @ noise
        gain = self.inverse[n:, :n] @ np.linalg.inv(self.inverse[:n, :n])
        own = self.mean[n:] + gain @ (theta - self.mean[:n])
        sd = np.sqrt(np.diag(self.inverse[n:, n:] - gain @ self.inverse[:n, n:]))
        return self.features * [*v, 1.0] @ theta + own + width * sd * [rng.standard_normal() for _ in range(K)]


@pytest.mark.interpreted
def test_own_effects_are_integrated_out_exactly():
    """Lists, fits and posterior of 150 rounds are those of the model with a coordinate an item."""
    learner = make(sr.learners()["CascadeMixedTS"], Problem(K, D, 400, features=ITEMS), settings={"width": 0.7})
    slow = SlowMixed(ITEMS)
    mind, mirror, world = (np.random.default_rng(s) for s in (1, 1, 2))
    allowed, ranking, note, due = np.ones(K, np.bool_), np.zeros(D, np.int64), np.zeros(D + 4), 128
    for t in range(1, 151):
        v = world.uniform(-1, 1, F)
        call_rank(learner, Visit(t, -1, v), allowed, ranking, note, mind)
        assert ranking.tolist() == first_places(slow.drawn(v, 0.7, mirror), D, mirror), f"round {t}"
        clicks = world.random(D) < TRUE[ranking]
        examined = int(np.argmax(clicks)) + 1 if clicks.any() else D
        call_update(learner, Visit(t, -1, v), ranking, note, clicks, examined)
        slow.update(v, ranking, clicks, examined)
        if len(slow.log) >= due:
            due *= 2
            for _ in range(STEPS):
                slow.fit()
    assert due == 512
    shared = learner.model.shared
    assert learner.model.prior == pytest.approx([slow.own, slow.shared])
    assert shared.estimate == pytest.approx(slow.mean[: F + 1])
    assert shared.inverse == pytest.approx(slow.inverse[: F + 1, : F + 1])


def test_the_fit_finds_how_far_items_differ_beyond_their_features():
    """200 items, 400 looks each: effects of standard deviation 0.8 and weights of 0.5, within a sixth."""
    rng = np.random.default_rng(4)
    features, theta, own = rng.normal(size=(200, 12)), 0.5 * rng.normal(size=12), 0.8 * rng.normal(size=200)
    model = MixedModel.create(features)
    logits = features @ theta - 1.0 + own
    c, u = np.zeros(13), np.zeros(13)
    for _ in range(400):
        for k in rng.permutation(200):
            observe(
                model,
                k,
                model.shared.features[:, k].copy(),
                c,
                u,
                float(rng.random() < 1 / (1 + math.exp(-logits[k]))),
            )
    for _ in range(5):
        fit(model)
    size = np.sqrt((features**2).mean(0))  # the unit in which each feature is measured
    assert model.prior**-0.5 == pytest.approx([own.std(), np.sqrt((theta**2 * size**2).mean())], rel=1 / 6)
    assert model.shared.estimate[:12] == pytest.approx(theta * size, abs=0.2)


def test_commands_and_cells_give_learners_the_features_of_a_profile(capsys):
    people = ["--profile", "contextual-films", "--users", "LogisticCascade:constant=8"]
    assert main(["simulate", "CascadeLinTS", *people, "--horizon", "60", "--seeds", "1"]) == 0
    assert "contextual-films" in capsys.readouterr().out
    cell = Cell(
        "CascadeLinTS", "contextual-films", users="LogisticCascade", users_settings={"constant": 8}, n_items=50,
        length=5, horizon=60, seeds=1, marks=1,
    )  # fmt: skip
    assert run_cell(cell).final[0] > 0
    assert main(["simulate", "CascadeLinTS", "--profile", "synthetic-low", "--seeds", "1"]) == 2
    assert "CascadeLinTS needs features" in capsys.readouterr().err
