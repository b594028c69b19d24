"""Every class found in its folder obeys the contract, and the public checks notice each breach."""

import importlib
import itertools
import pathlib
import subprocess
import sys
from typing import NamedTuple

import numba
import numpy as np
import pytest

import interpreted
import steadyrank as sr
from interpreted import check_adversary_either_way, check_learner_both_ways, check_users_both_ways
from remembered import once
from steadyrank.core import contract, dispatch
from steadyrank.core.contract import Problem, Visit
from steadyrank.core.discovery import make
from steadyrank.core.kernels import count_bits, top, top_allowed
from steadyrank.core.views import GuardView, View
from steadyrank.learners.shared.thompson import Posteriors
from steadyrank.testing import check_guard, check_learner, check_users

pytestmark = pytest.mark.pure

LEARNERS, USERS, ADVERSARIES, GUARDS = sr.learners(), sr.users(), sr.adversaries(), sr.guards()

VARIANTS = [
    ("MUCBV", {"preset": "paper-alg"}),
    ("MUCBV", {"preset": "paper-app"}),
    ("MUCBV", {"preset": "small-block"}),
    ("MUCBV", {"partition": "fresh", "block": 5}),
    ("MUCBV", {"partition": "every-round", "block": 3}),
    ("MUCBV", {"partition": "consecutive", "reading": "A2"}),
    ("MUCBV", {"partition": "averaged", "block": 5, "calibration": "exact"}),
    ("MUCBV", {"calibration": "bisection", "edge": "clip", "block": 3}),
    ("M2UCBV", {"data": "private", "preset": "small-block"}),
    ("M2UCBV", {"preset": "mean", "warmup": "literal"}),
    ("M2UCBV", {"reading": "A4", "alpha": 0.5, "calibration": "none", "radius": "plain", "partition": "every-round"}),
    ("TimeBlocks", {"n_blocks": 2, "mean_until": 1}),
    ("M2UCBV", {"selection": "gcobe"}),
    ("CascadeRAC", {"rho": 0.05}),
    ("FORC", {"rho": 0.03}),
    ("CascadeCBARBAR", {"n0": 0.5, "use_all": True}),
    ("CascadeTS", {"insurance": 0.01}),
    ("SteadyRank", {"window": 3, "caution": 1.0, "insurance": 0.5}),
    ("SteadyRank", {"window": 3, "caution": 0.0, "insurance": 0.0}),
    ("CascadeLinUCB", {"alpha": 0.5}),
    ("C3UCB", {"discount": 0.9, "lam": 1.0}),
    ("CascadeSWUCB", {"tau": 7}),
    ("ChangePointTS", {"runs": 3, "every": 1, "hazard": 0.1}),
    ("GLRTCascadeUCB", {"delta": 1.0, "p": 0.0}),
    ("BubbleRank", {"delta": 0.9}),
    ("FTRL", {"variant": "lbinfv", "weights": "plug-in"}),
    ("FTRL", {"variant": "hybrid", "weights": "first-only"}),
]


@pytest.mark.parametrize("name", LEARNERS)
def test_learners(name):
    once(check_learner_both_ways, LEARNERS[name])


@pytest.mark.parametrize(("name", "settings"), VARIANTS, ids=str)
def test_readings(name, settings):
    """With a partition for every round, rounding decides which of two ways draws it: compiled it may be the other."""
    if settings.get("partition") == "every-round":
        interpreted.check("check_learner", LEARNERS[name], **settings)
    else:
        once(check_learner_both_ways, LEARNERS[name], **settings)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "settings"), [*((name, {}) for name in LEARNERS), *VARIANTS], ids=str)
def test_learners_in_full(name, settings):
    """Every rule compiled, `forget` and `view` as well, and methods beside compiled functions that they call."""
    check_learner(LEARNERS[name], **settings)


@pytest.mark.parametrize("name", USERS)
def test_users(name):
    once(check_users_both_ways, USERS[name])


@pytest.mark.parametrize("name", USERS)
def test_users_with_senders(name):
    once(check_users_both_ways, USERS[name], clients=40, taste=0.7, tastes=2)


@pytest.mark.parametrize("pattern", ["slow", "jump", "daily"])
def test_drift(pattern):
    once(check_users_both_ways, USERS["DriftingCascade"], pattern=pattern, span=50)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"clients": 40, "taste": 0.7, "tastes": 2}], ids=str)
@pytest.mark.parametrize("name", USERS)
def test_users_in_full(name, settings):
    """Every method compiled."""
    check_users(USERS[name], **settings)


@pytest.mark.parametrize("name", ADVERSARIES)
def test_adversaries(name):
    once(check_adversary_either_way, ADVERSARIES[name])


@pytest.mark.parametrize("name", sorted(set(ADVERSARIES) - {"Honest"}))
def test_adversaries_with_identities(name):
    once(check_adversary_either_way, ADVERSARIES[name], bots=3)


@pytest.mark.parametrize("name", GUARDS)
def test_guards(name):
    once(check_guard, GUARDS[name])


@pytest.mark.parametrize(
    ("name", "settings"),
    [("Quota", {"visits": 2, "period": 50, "remembered": 4}), ("Plausible", {"model": "whole"})],
    ids=str,
)
def test_guards_with_settings(name, settings):
    once(check_guard, GUARDS[name], **settings)


def code_is_compiled():
    assert not numba.config.DISABLE_JIT


def test_what_is_marked_interpreted_runs_where_nothing_is_compiled_and_can_fail():
    code_is_compiled()
    with pytest.raises(AssertionError, match=r"in code_is_compiled\n"):
        interpreted.run_test("test_contract", "code_is_compiled", {})


class Sound(NamedTuple):
    """A learner that keeps every rule: ranks by the plain mean."""

    looks: np.ndarray
    clicks: np.ndarray

    @classmethod
    def create(cls, problem, *, optimism=1.0):
        return cls(np.zeros(problem.n_items, np.int64), np.zeros(problem.n_items, np.int64))

    def rank(self, visit, allowed, ranking, note, rng):
        top_allowed((1.0 + self.clicks) / (1.0 + self.looks), allowed, ranking, rng)

    def update(self, visit, ranking, note, clicks, examined):
        count_bits(self.looks, self.clicks, ranking, clicks, examined)


class WritesInRank(Sound):
    __slots__ = ()

    def rank(self, visit, allowed, ranking, note, rng):
        self.looks[0] += 1
        top_allowed(np.zeros(allowed.size), allowed, ranking, rng)


class IgnoresAllowed(Sound):
    __slots__ = ()

    def rank(self, visit, allowed, ranking, note, rng):
        top(np.zeros(self.looks.size), ranking, rng)


class FavoursLowNumbers(Sound):
    __slots__ = ()

    def rank(self, visit, allowed, ranking, note, rng):
        top_allowed(-1.0 * np.arange(self.looks.size), allowed, ranking, rng)


class RepeatsItems(Sound):
    __slots__ = ()

    def rank(self, visit, allowed, ranking, note, rng):
        top_allowed(np.zeros(allowed.size), allowed, ranking, rng)
        ranking[:] = ranking[0]


class TakesTheLiveNote(Sound):
    __slots__ = ()

    def rank(self, visit, allowed, ranking, note, rng):
        top_allowed(np.zeros(allowed.size), allowed, ranking, rng)
        note[-1] = 1.0


class WritesAllowed(Sound):
    __slots__ = ()

    def rank(self, visit, allowed, ranking, note, rng):
        top_allowed(np.zeros(allowed.size), allowed, ranking, rng)
        allowed[ranking[0]] = False


class ChangesFeedback(Sound):
    __slots__ = ()

    def update(self, visit, ranking, note, clicks, examined):
        clicks[0] = not clicks[0]


class OwnChance(Sound):
    __slots__ = ()

    def rank(self, visit, allowed, ranking, note, rng):
        index = np.random.random(allowed.size)  # noqa: NPY002  (the breach)
        top_allowed(index, allowed, ranking, rng)


class TypeDependsOnSize(Sound):
    __slots__ = ()

    @classmethod
    def create(cls, problem):
        kind = np.int64 if problem.n_items % 2 else np.int32
        return cls(np.zeros(problem.n_items, kind), np.zeros(problem.n_items, np.int64))


class Peeks(Sound):
    """Ranks by the true attractions."""

    __slots__ = ()

    @classmethod
    def create(cls, problem):
        return cls((1000 * problem.attraction).astype(np.int64), np.zeros(problem.n_items, np.int64))

    def rank(self, visit, allowed, ranking, note, rng):
        top_allowed(1.0 * self.looks, allowed, ranking, rng)

    def update(self, visit, ranking, note, clicks, examined):
        pass


def test_a_sound_learner_passes():
    check_learner(Sound)
    check_learner(Sound, optimism=2.0)


@pytest.mark.parametrize(
    ("cls", "words"),
    [
        (WritesInRank, "rule 1"),
        (IgnoresAllowed, "rule 8"),
        (WritesAllowed, "writes `allowed`"),
        (FavoursLowNumbers, "rule 7"),
        (RepeatsItems, "items repeat"),
        (TakesTheLiveNote, "rule 2"),
        (ChangesFeedback, "writes only its own memory"),
        (OwnChance, "rule 3"),
        (TypeDependsOnSize, "field types depend"),
        (Peeks, "only Oracle may read the true attractions"),
    ],
)
def test_a_breach_is_noticed(cls, words):
    with pytest.raises(AssertionError, match=words):
        interpreted.check("check_learner", cls)


def test_chance_of_its_own_is_noticed_in_compiled_code():
    """There it comes from another generator than interpreted."""
    with pytest.raises(AssertionError, match="rule 3"):
        check_learner(OwnChance)


class FreeFlip(ADVERSARIES["PrefixFlip"]):
    """Changes feedback and never says so."""

    __slots__ = ()

    def corrupt(self, visit, ranking, clicks, examined, rng):
        clicks[0] = not clicks[0]
        return 0.0, examined, visit.client


class MovesItems(ADVERSARIES["PrefixFlip"]):
    __slots__ = ()

    def corrupt(self, visit, ranking, clicks, examined, rng):
        ranking[0] = 0
        return 0.0, examined, visit.client


class Lazy(USERS["Cascade"]):
    """Stops drawing at the first click."""

    __slots__ = ()

    def click(self, visit, ranking, clicks, rng):
        clicks[:] = False
        for p in range(ranking.size):
            if rng.random() < self.attraction[ranking[p]]:
                clicks[p] = True
                return p + 1
        return ranking.size


class IgnoresSchedule(ADVERSARIES["PrefixFlip"]):
    __slots__ = ()

    def corrupt(self, visit, ranking, clicks, examined, rng):
        if self.budget.left[0] == 0:
            return 0.0, examined, visit.client
        clicks[0] = not clicks[0]
        self.budget.left[0] -= 1
        return 1.0, examined, visit.client


class Narrow(USERS["Cascade"]):
    """Its best list is one item again and again."""

    __slots__ = ()

    def best(self, visit, ranking):
        for p in range(ranking.size):
            ranking[p] = self.favourites[0]


class Unmoved(USERS["Cascade"]):
    """Its visitors of another taste have the users' own."""

    __slots__ = ()

    def liking(self, attraction):
        return self


@pytest.mark.parametrize(
    ("check", "cls", "words"),
    [
        ("check_adversary", IgnoresSchedule, "schedule `late`"),
        ("check_adversary", FreeFlip, r"spent 0\.0"),
        ("check_adversary", MovesItems, "only the feedback"),
        ("check_users", Narrow, "`best` repeats"),
        ("check_users", Unmoved, "whom nothing attracts"),
        ("check_users", Lazy, "exactly `length` uniforms"),
    ],
)
def test_breaches_of_adversaries_and_users_are_noticed(check, cls, words):
    with pytest.raises(AssertionError, match=words):
        interpreted.check(check, cls)


class Watchful(NamedTuple):
    """A guard that remembers one admitted visit and takes it back 20 rounds later."""

    ranking: np.ndarray
    note: np.ndarray
    clicks: np.ndarray
    about: np.ndarray  # round, client, size, examined
    due: np.ndarray

    @classmethod
    def create(cls, problem):
        sizes = np.zeros(problem.length, np.int64), np.zeros(problem.length + contract.NOTE_EXTRA)
        return cls(*sizes, np.zeros(problem.length, np.bool_), np.zeros(4, np.int64), np.zeros(1, np.int64))

    def admit(self, visit, ranking, note, clicks, examined):
        self.due[0] = 1 if visit.t % 20 == 0 and self.about[2] > 0 else 0
        if visit.t % 20 == 1:
            self.about[0], self.about[1], self.about[2], self.about[3] = visit.t, visit.client, ranking.size, examined
            self.note[:] = note
            for p in range(ranking.size):
                self.ranking[p], self.clicks[p] = ranking[p], clicks[p]
        return visit.t % 20 < 10

    def retract(self, ranking, note, clicks):
        if self.due[0] == 0:
            return 0, -1, 0, 0
        self.due[0] = 0
        ranking[:] = self.ranking
        note[:] = self.note
        clicks[:] = self.clicks
        size, self.about[2] = self.about[2], 0
        return self.about[0], self.about[1], size, self.about[3]

    def view(self):
        return GuardView(0)


class SaysNothing(Watchful):
    __slots__ = ()

    def admit(self, visit, ranking, note, clicks, examined):
        return 1


class GuardRewrites(Watchful):
    __slots__ = ()

    def admit(self, visit, ranking, note, clicks, examined):
        clicks[0] = not clicks[0]
        return True


class TakesBackTwice(Watchful):
    __slots__ = ()

    def retract(self, ranking, note, clicks):
        if self.due[0] == 0 or self.due[0] > 2:
            return 0, -1, 0, 0
        self.due[0] += 1
        ranking[:] = self.ranking
        note[:] = self.note
        clicks[:] = self.clicks
        return self.about[0], self.about[1], self.about[2], self.about[3]


class MisremembersTheNote(Watchful):
    __slots__ = ()

    def retract(self, ranking, note, clicks):
        if self.due[0] == 0:
            return 0, -1, 0, 0
        self.due[0] = 0
        ranking[:] = self.ranking
        clicks[:] = self.clicks
        return self.about[0], self.about[1], self.about[2], self.about[3]


class WrongView(Watchful):
    __slots__ = ()

    def view(self):
        return 3


def test_a_sound_guard_passes_and_breaches_are_noticed():
    check_guard(Watchful)
    for cls, words in [
        (SaysNothing, "`admit` says True or False, not 1"),
        (GuardRewrites, "`admit` writes only its own memory"),
        (TakesBackTwice, "takes back round 1, which was not admitted, or a second time"),
        (MisremembersTheNote, "round 1 is taken back otherwise than it was told"),
        (WrongView, "`view` returns a GuardView"),
    ]:
        with pytest.raises(AssertionError, match=words):
            interpreted.check("check_guard", cls)
    with pytest.raises(ValueError, match="is no guard: it lacks admit"):
        check_guard(Sound)
    with pytest.raises(KeyError, match="unknown guard 'Quote': did you mean 'Quota'"):
        sr.simulate("Random", [0.1, 0.2], length=1, horizon=10, guard="Quote")


class ForgetsTooMuch(Sound):
    __slots__ = ()

    def forget(self, visit, ranking, note, clicks, examined):
        self.looks[:] = 0
        self.clicks[:] = 0


class ForgetsByItself(Sound):
    __slots__ = ()

    def forget(self, visit, ranking, note, clicks, examined):
        clicks[0] = not clicks[0]


def test_a_forget_that_does_not_take_back_is_noticed():
    with pytest.raises(AssertionError, match=r"after `update` and `forget`, \d+ of 40 lists differ"):
        interpreted.check("check_learner", ForgetsTooMuch)
    with pytest.raises(AssertionError, match="`forget` writes only its own memory"):
        interpreted.check("check_learner", ForgetsByItself)


OWN = """
from typing import NamedTuple
import numpy as np
from steadyrank.kernels import top_allowed

class Stubborn(NamedTuple):
    "Shows item {first} first and learns nothing."
    first: int
    shown: np.ndarray

    @classmethod
    def create(cls, problem, *, first={first}):
        return cls(int(first), np.zeros(problem.n_items))

    def rank(self, visit, allowed, ranking, note, rng):
        index = np.zeros(allowed.size)
        if {obey}:
            index[{first}] = 1.0
        top_allowed(index, allowed, ranking, rng)

    def update(self, visit, ranking, note, clicks, examined):
        for k in ranking[:examined]:
            self.shown[k] += 1.0
"""

ASK = """
import sys
sys.path.insert(0, {folder!r})
import numpy as np
from steadyrank.core.contract import Problem, Visit
from steadyrank.core.dispatch import call_rank
from mine.stubborn import Stubborn
ranking = np.zeros(1, np.int64)
mine, rng = Stubborn.create(Problem(10, 1)), np.random.default_rng(0)
call_rank(mine, Visit(1), np.ones(10, bool), ranking, np.zeros(9), rng)
print(ranking[0])
"""


def write_package(folder: pathlib.Path, first: int, obey: bool) -> None:
    package = folder / "mine"
    package.mkdir(exist_ok=True)
    (package / "__init__.py").write_text("")
    (package / "stubborn.py").write_text(OWN.format(first=first, obey=obey))


def test_a_users_own_learner_outside_the_package(tmp_path, monkeypatch):
    """One file in a package of the user's own: simulated, and an edit takes effect in this process."""
    monkeypatch.syspath_prepend(str(tmp_path))
    write_package(tmp_path, first=3, obey=False)
    module = importlib.import_module("mine.stubborn")
    attraction = np.linspace(0.05, 0.9, 10)
    before = sr.simulate(module.Stubborn, attraction, length=1, horizon=200, seeds=[0]).final[0]
    write_package(tmp_path, first=9, obey=True)
    importlib.invalidate_caches()
    sys.modules.pop("mine.stubborn")
    module = importlib.import_module("mine.stubborn")
    after = sr.simulate(module.Stubborn, attraction, length=1, horizon=200, seeds=[0]).final[0]
    assert before > 50
    assert after == 0.0


def test_code_is_looked_up_by_what_decides_the_types():
    """Values that are told apart by less than their types would be given the code of one another."""
    whole, frozen = np.zeros((4, 4)), np.zeros(4)
    frozen.flags.writeable = False
    values = [
        0, 7, -1, 2**63 - 1, 2**63, True, 0.5, np.int64(1), np.int32(1), np.float32(0.5), np.bool_(True),
        np.zeros(3), np.zeros(5), frozen, np.zeros(3, np.float32), np.zeros(3, np.int64), np.zeros(6)[::2],
        whole, whole.T, whole[:, 1], whole[1], whole[1:, 1:], np.zeros(9, np.uint8)[1:].view(np.float64),
        np.array([], "datetime64[s]"), np.array([], "datetime64[D]"), np.random.default_rng(0),
        (), (1, 2), (1, 0.5), (1, (2, 3)), (np.zeros(2), 1), (frozen, 1),
        *(make(LEARNERS[x], Problem(30, 4, 100), settings={}) for x in ("CascadeTS", "TSCascade", "SteadyRank")),
        USERS["Cascade"].create(np.zeros(3), 2), tuple(USERS["Cascade"].create(np.zeros(3), 2)),
    ]  # fmt: skip
    for one, other in itertools.product(values, values):
        if dispatch._shape(one) == dispatch._shape(other):
            assert numba.typeof(one) == numba.typeof(other), (one, other)
    assert dispatch._shape(np.zeros(3)) == dispatch._shape(np.ones(5))


@pytest.mark.always
def test_an_edit_outside_takes_effect_in_the_next_process(tmp_path, monkeypatch):
    """Also when bounds checking is switched on between the runs."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    for first, bounds in [(0, "0"), (9, "1")]:
        write_package(tmp_path, first, obey=True)
        monkeypatch.setenv("NUMBA_BOUNDSCHECK", bounds)
        script = ASK.format(folder=str(tmp_path))
        answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        assert int(answer.stdout) == first


def test_a_variant_under_the_name_of_ours_is_not_mistaken_for_it():
    """Numba's own dispatch tells records apart by name and fields: a copy with an edit would run our code."""
    ours = LEARNERS["CascadeTS"]

    class CascadeTS(NamedTuple):
        looks: np.ndarray
        clicks: np.ndarray
        posteriors: Posteriors
        length: int
        insurance: float
        create = classmethod(ours.create.__func__)

        def rank(self, visit, allowed, ranking, note, rng):
            top_allowed(np.arange(allowed.size) * 1.0, allowed, ranking, rng)

        def update(self, visit, ranking, note, clicks, examined):
            pass

    attraction = np.linspace(0.05, 0.9, 10)
    settings = {"length": 1, "horizon": 300, "seeds": [0], "adversary": "PrefixFlip", "budget": 0}
    first = sr.simulate(ours, attraction, **settings).final[0]
    assert sr.simulate(CascadeTS, attraction, **settings).final[0] == 0.0
    assert sr.simulate(ours, attraction, **settings).final[0] == first > 0.0


class EveryPlace(NamedTuple):
    """Users who look at place p with chance 1 / (p + 1) and click whatever attracts them there, often twice."""

    attraction: np.ndarray
    order: np.ndarray
    length: int

    @classmethod
    def create(cls, attraction, length):
        return cls(attraction, np.argsort(-attraction, kind="stable"), int(length))

    def arrive(self, t, features, rng):
        return int(10 * rng.random())

    def click(self, visit, ranking, clicks, rng):
        for p in range(self.length):
            u = rng.random()
            if p < ranking.size:
                clicks[p] = u < self.attraction[ranking[p]] / (p + 1)
        return ranking.size

    def reach(self, clicks, size):
        return size

    def value(self, visit, ranking):
        total = 0.0
        for p in range(ranking.size):
            total += self.attraction[ranking[p]] / (p + 1)
        return total

    def best(self, visit, ranking):
        for p in range(ranking.size):
            ranking[p] = self.order[p]


def test_users_who_are_no_cascade_pass():
    """Values above 1, expected numbers of clicks, are as good as chances of one."""
    interpreted.check("check_users", EveryPlace)
    eager = EveryPlace.create(np.ones(5), 3)
    assert eager.value(Visit(1), np.arange(3)) == 1 + 1 / 2 + 1 / 3


@pytest.mark.parametrize(
    "name", [name for name, cls in ADVERSARIES.items() if {"users", "visitors"} & {*cls._fields}]
)
def test_adversaries_that_ask_the_users_are_right_for_those_who_click_twice(name):
    interpreted.check("check_adversary", ADVERSARIES[name], users=EveryPlace)


class ReachesTooFar(EveryPlace):
    __slots__ = ()

    def reach(self, clicks, size):
        return size if clicks[size - 1] else max(1, size - 1)


class WorseThanItSays(EveryPlace):
    """Its best list is the worst."""

    __slots__ = ()

    def best(self, visit, ranking):
        for p in range(ranking.size):
            ranking[p] = self.order[self.order.size - 1 - p]


class NoNumber(EveryPlace):
    __slots__ = ()

    def value(self, visit, ranking):
        return np.nan


class BadClient(EveryPlace):
    __slots__ = ()

    def arrive(self, t, features, rng):
        return -2


@pytest.mark.interpreted
def test_wrong_users_are_noticed_and_refused_by_name():
    with pytest.raises(AssertionError, match=r"`click` says .*, `reach` .* \(rule 4\)"):
        interpreted.check("check_users", ReachesTooFar)
    with pytest.raises(AssertionError, match="not -2"):
        interpreted.check("check_users", BadClient)
    world = {"length": 3, "horizon": 50, "seeds": [0]}
    attraction = np.linspace(0.1, 0.9, 8)
    with pytest.raises(ValueError, match=r"users WorseThanItSays: a list was worth .* more than the one that `best`"):
        sr.simulate("Random", attraction, users=WorseThanItSays, **world)
    with pytest.raises(ValueError, match="users NoNumber: `value` is not finite"):
        sr.simulate("Random", attraction, users=NoNumber, **world)


@pytest.mark.interpreted
def test_an_adversary_pays_for_what_it_changed_and_for_nothing_else():
    """Fake users against users who click many places: one unit a round whose visible bits differ, no more.

    Where no target is shown and nobody clicked, fake and true visit are the same, and cost nothing.
    """
    attraction = np.full(40, 0.02)
    run = sr.simulate(
        "Random", attraction, length=2, horizon=400, seeds=[3], users=EveryPlace, adversary="FakeUser", budget=400,
        adversary_settings={"targets": [0]},
    )  # fmt: skip
    assert 0 < run.spent[0, -1] <= run.bits_changed[0] < 60


class Lists(NamedTuple):
    """A part with a field that bears a hook's name."""

    best: np.ndarray


def learner_with(fields, **methods):
    """A sound learner with further fields, and with methods in the place of its own."""
    made = NamedTuple("Made", [("looks", np.ndarray), ("clicks", np.ndarray), *fields])
    made.create = classmethod(
        lambda cls, problem: cls(
            np.zeros(problem.n_items, np.int64),
            np.zeros(problem.n_items, np.int64),
            *(Lists(np.zeros(3)) if name == "part" else np.zeros(3) for name, _ in fields),
        )
    )
    for name in ("rank", "update"):
        setattr(made, name, vars(Sound)[name])
    for name, method in methods.items():
        setattr(made, name, method)
    return made


def adds_to_a_field(self, visit, ranking, note, clicks, examined):
    self.n += 1


@pytest.mark.parametrize(
    ("cls", "message"),
    [
        (learner_with([("best", np.ndarray)]), "Made has a field 'best', .*; call it .*'favourites'"),
        (learner_with([("click", np.ndarray)]), "Made has a field 'click', .* such as 'clicked'"),
        (learner_with([("part", Lists)]), "Lists has a field 'best'"),
        (learner_with([], value=lambda self, k: 0.0), "Made has a method 'value', .* such as 'worth'"),
        (
            learner_with([], rank=lambda self, t, allowed, ranking, note, rng: None),
            r"Made\.rank takes \(self, t, allowed, .*\); the contract has \(self, visit, allowed,",
        ),
        (learner_with([("n", int)], update=adds_to_a_field), r"adds_to_a_field assigns to self\.n, .*self\.n\[0\]"),
        (learner_with([], update=None), "Made is no learner: it lacks update"),
        (learner_with([], create=classmethod(lambda cls, problem: 3)), r"Made\.create must return a Made, not 3"),
    ],
)  # fmt: skip
def test_names_that_compiled_code_would_mistake_are_refused(cls, message):
    """By name and before anything is compiled, instead of fifty lines from the compiler."""
    with pytest.raises(ValueError, match=message):
        sr.simulate(cls, np.linspace(0.1, 0.9, 8), length=3, horizon=10, seeds=[0])


class Remembers(Sound):
    """Notes which client came last, and what was known of them and of item 1."""

    __slots__ = ()

    @classmethod
    def create(cls, problem):
        looks = np.zeros(3, np.int64)
        looks[2] = int(problem.features[1, 0])
        return cls(looks, np.zeros(problem.n_items, np.int64))

    def rank(self, visit, allowed, ranking, note, rng):
        top_allowed(np.zeros(allowed.size), allowed, ranking, rng)

    def update(self, visit, ranking, note, clicks, examined):
        self.looks[0] = visit.client
        self.looks[1] = visit.features.size

    def view(self):
        return View((), 0, 0, int(self.looks[0]), int(self.looks[1]), float(self.looks[2]), 0, ())


@pytest.mark.interpreted
def test_a_learner_is_told_who_came_and_what_is_known():
    world = {"length": 3, "horizon": 50, "seeds": range(4)}
    run = sr.simulate(
        Remembers, np.linspace(0.1, 0.9, 8), users=EveryPlace, features=np.arange(16).reshape(8, 2), **world
    )
    assert {view.rejected for view in run.views} == {2}  # numbers known of each visit
    assert {view.corrupted for view in run.views} == {2.0}  # the first number of item 1
    doors = [np.random.default_rng(np.random.SeedSequence(seed).spawn(4)[3]) for seed in range(4)]
    assert [view.rounds for view in run.views] == [int(10 * door.random(50)[-1]) for door in doors]


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (np.zeros((7, 2)), r"one row for each of 8 items; their shape is \(7, 2\)"),
        (np.full((8, 1), np.inf), "features must be finite; those of item 0"),
        ("red", "features must be one row of numbers per item, not 'red'"),
    ],
)
def test_features_that_cannot_be(features, message):
    with pytest.raises(ValueError, match=message):
        sr.simulate("Random", np.linspace(0.1, 0.9, 8), length=3, horizon=10, features=features)
