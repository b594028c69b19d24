import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import steadyrank as sr
from steadyrank.core.contract import NOTE_EXTRA, Problem, Visit
from steadyrank.core.discovery import make
from steadyrank.core.dispatch import call_rank, call_update
from steadyrank.simulator.simulate import simulate as _function

ATTRACTION = np.random.default_rng(0).uniform(0.0, 0.5, 40)
BASE = {"length": 4, "horizon": 300, "seeds": range(3)}


def test_public_function_is_not_hidden_by_its_module():
    assert callable(sr.simulate)
    assert sr.simulate is _function
    assert callable(sr.learners)
    assert callable(sr.profiles)


def test_oracle_has_no_regret_and_random_has_its_expected_regret():
    """Random's regret a round is R* minus the mean value of random lists, estimated from 20,000; within 5 %."""
    assert sr.simulate("Oracle", ATTRACTION, **BASE).final == pytest.approx(np.zeros(3), abs=1e-9)
    rng = np.random.default_rng(1)
    value = np.mean([1 - np.prod(1 - ATTRACTION[rng.permutation(40)[:4]]) for _ in range(20_000)])
    best = 1 - np.prod(1 - np.sort(ATTRACTION)[-4:])
    run = sr.simulate("Random", ATTRACTION, length=4, horizon=2000, seeds=range(4))
    assert run.final.mean() == pytest.approx(2000 * (best - value), rel=0.05)


def hand_made_run(regret, marks=(10, 20)):
    """A run with these regrets, [seed, mark], and nothing else of interest."""
    regret = np.array(regret)
    n, none = len(regret), np.zeros((len(regret), 3), np.int64)
    spent = np.tile([1.0, 2.0], (n, 1))
    return sr.Run("Random", tuple(range(n)), np.array(marks), regret, spent, none[:, 0], none[:, 0], none, none, none)


def test_a_run_tells_itself_in_one_line():
    """Regrets 4 and 8 at the end: mean 6, half a 95 % interval 12.7062 * 2.828 / sqrt(2) = 25.4."""
    run = hand_made_run([[1.0, 4.0], [3.0, 8.0]], marks=(10, 2000))
    assert repr(run) == "<Run of Random: 2 seeds, 2,000 rounds, final regret 6.0 ± 25.4>"
    assert repr(hand_made_run([[1.0, 4.0]])) == "<Run of Random: 1 seed, 20 rounds, final regret 4.0>"


def test_a_run_becomes_a_frame():
    frame = hand_made_run([[1.0, 4.0], [3.0, 8.0]]).to_polars()
    assert frame.columns == ["learner", "seed", "round", "regret", "spent"]
    rows = [(0, 10, 1.0, 1.0), (0, 20, 4.0, 2.0), (1, 10, 3.0, 1.0), (1, 20, 8.0, 2.0)]
    assert frame.rows() == [("Random", *row) for row in rows]


def test_a_run_draws_itself_into_given_axes():
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    assert hand_made_run([[1.0, 4.0], [3.0, 8.0]]).plot(axes, linewidth=3) is axes
    assert hand_made_run([[1.0, 4.0]]).plot(axes, label="one seed") is axes
    many, one = axes.lines
    assert (many.get_label(), one.get_label(), many.get_linewidth()) == ("Random", "one seed", 3)
    assert many.get_xydata().tolist() == [[0, 0], [10, 2], [20, 6]]
    assert len(axes.collections) == 1  # the interval: one seed has none


def test_shapes_marks_and_monotone_curves():
    run = sr.simulate("CascadeTS", ATTRACTION, adversary="PrefixFlip", budget=60, **BASE)
    assert run.regret.shape == run.spent.shape == (3, 50)
    assert run.marks[-1] == 300
    assert (np.diff(run.regret, axis=1) >= -1e-12).all()
    assert (np.diff(run.spent, axis=1) >= 0).all()
    assert (run.spent[:, -1] == 60).all()
    assert np.array_equal(run.final, run.regret[:, -1])
    chosen = sr.simulate("CascadeTS", ATTRACTION, marks=[1, 60, 300], adversary="PrefixFlip", budget=60, **BASE)
    assert chosen.marks.tolist() == [1, 60, 300]
    assert chosen.spent[0].tolist() == [1, 60, 60]
    assert np.array_equal(chosen.final, run.final)
    assert sr.simulate("Random", ATTRACTION, marks=np.array(3), **BASE).marks.tolist() == [100, 200, 300]
    assert sr.simulate("Random", ATTRACTION, marks=[7], **BASE).marks.tolist() == [7, 300]
    assert sr.simulate("Random", ATTRACTION, length=4, horizon=3, seeds=[0]).marks.tolist() == [1, 2, 3]


@pytest.mark.parametrize("name", ["CascadeUCBV", "M2UCBV"])
def test_results_do_not_depend_on_threads(name):
    runs = [
        sr.simulate(
            name, ATTRACTION, length=4, horizon=500, seeds=range(6), adversary="PrefixFlip", schedule="spread",
            budget=50, threads=threads,
        )
        for threads in (1, 2, 5)
    ]  # fmt: skip
    for run in runs[1:]:
        assert np.array_equal(run.regret, runs[0].regret)
        assert np.array_equal(run.spent, runs[0].spent)


def test_a_seed_gives_the_same_run_whatever_runs_beside_it():
    alone = sr.simulate("MUCBV", ATTRACTION, length=4, horizon=300, seeds=[2])
    together = sr.simulate("MUCBV", ATTRACTION, **BASE)
    assert np.array_equal(alone.regret[0], together.regret[2])


def test_the_loop_equals_a_loop_written_out():
    """The compiled loop against Python calls of the same methods, with the streams drawn as documented."""
    run = sr.simulate("M2UCBV", ATTRACTION, adversary="PrefixFlip", schedule="bursts", budget=40, **BASE)
    world, foe, mind, _door = (np.random.default_rng(s) for s in np.random.SeedSequence(1).spawn(4))
    crowd = sr.users()["Cascade"].create(ATTRACTION, 4)
    problem = Problem(40, 4, 300, 40, ATTRACTION, 1)
    learner = make(sr.learners()["M2UCBV"], problem, settings={})
    adversary = make(sr.adversaries()["PrefixFlip"], problem, crowd, 40, settings={"schedule": "bursts"})
    ranking, note, clicks = np.zeros(4, np.int64), np.zeros(4 + NOTE_EXTRA), np.zeros(4, np.bool_)
    best, loss = np.zeros(4, np.int64), 0.0
    for t in range(1, 301):
        call_rank(learner, Visit(t), np.ones(40, np.bool_), ranking, note, mind)
        crowd.best(Visit(t), best)
        loss += crowd.value(Visit(t), best) - crowd.value(Visit(t), ranking)
        examined = crowd.click(Visit(t), ranking, clicks, world)
        _, examined, _client = adversary.corrupt(Visit(t), ranking, clicks, examined, foe)
        clicks[examined:] = False
        call_update(learner, Visit(t), ranking, note, clicks, examined)
    assert loss == run.final[1]


def test_omniscient_learner_is_not_told_of_corrupted_rounds():
    """All rounds corrupted: it never learns and its lists stay random; a quarter: better than being told."""
    settings = {"length": 4, "horizon": 2000, "seeds": range(3), "adversary": "PrefixFlip"}
    blind = sr.simulate("CascadeTS", ATTRACTION, budget=2000, omniscient=True, **settings)
    random = sr.simulate("Random", ATTRACTION, length=4, horizon=2000, seeds=range(3))
    assert blind.final.mean() == pytest.approx(random.final.mean(), rel=0.05)
    told, withheld = (
        sr.simulate("CascadeTS", ATTRACTION, budget=500, omniscient=o, **settings).final.mean() for o in (False, True)
    )
    assert withheld < told / 2


class Fidgets(sr.adversaries()["Honest"]):
    """Draws from its stream in every round and changes nothing."""

    __slots__ = ()

    def corrupt(self, visit, ranking, clicks, examined, rng):
        rng.random()
        return 0.0, examined, visit.client


@pytest.mark.interpreted
def test_users_adversary_and_learner_draw_from_streams_of_their_own():
    """What the adversary draws moves neither users nor learner; another seed does."""
    both = (sr.simulate("CascadeTS", ATTRACTION, adversary=a, budget=0, **BASE) for a in ("Honest", Fidgets))
    honest, fidgety = both
    assert np.array_equal(honest.regret, fidgety.regret)
    other = sr.simulate("CascadeTS", ATTRACTION, length=4, horizon=300, seeds=[7, 8, 9])
    assert not np.array_equal(honest.regret, other.regret)


class Remembers(sr.learners()["Random"]):
    """Finds its own mark of the round before in `note`, if it is not cleared."""

    __slots__ = ()

    def rank(self, visit, allowed, ranking, note, rng):
        for p in range(ranking.size):
            ranking[p] = p
        note[0] += 1.0

    def update(self, visit, ranking, note, clicks, examined):
        if note[0] > 1.0:
            raise ValueError("leaked")


@pytest.mark.interpreted
def test_a_note_starts_empty_in_every_round():
    sr.simulate(Remembers, ATTRACTION, **BASE)


@pytest.mark.interpreted
def test_drifting_users_change_the_best_list():
    """After a jump the oracle of the start is wrong: regret grows only from then on."""
    run = sr.simulate(
        "Oracle", ATTRACTION, users="DriftingCascade", users_settings={"pattern": "jump", "span": 150},
        marks=[150, 300], length=4, horizon=300, seeds=[0],
    )  # fmt: skip
    assert run.regret[0, 0] == pytest.approx(0.0, abs=1e-9)
    assert run.regret[0, 1] > 10


def test_classes_are_taken_as_well_as_names():
    by_name = sr.simulate("CascadeTS", ATTRACTION, adversary="PrefixFlip", budget=30, **BASE)
    foe = {"adversary": sr.adversaries()["PrefixFlip"], "budget": 30}
    by_class = sr.simulate(sr.learners()["CascadeTS"], ATTRACTION, **foe, **BASE)
    assert np.array_equal(by_name.regret, by_class.regret)
    assert by_class.learner == "CascadeTS"


def test_progress_is_called_once_a_seed():
    calls = []
    sr.simulate("Random", ATTRACTION, progress=lambda: calls.append(1), **BASE)
    assert len(calls) == 3


def test_an_error_in_progress_is_not_swallowed():
    def interrupt():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sr.simulate("Random", ATTRACTION, progress=interrupt, **BASE)


def test_interruption_does_not_wait_for_the_horizon():
    """A process told to stop in the middle of hours of rounds ends at once."""
    script = (
        "import signal, numpy as np, steadyrank as sr\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # it is ignored in the background of a shell
        "sr.simulate('Random', np.full(40, 0.2), length=4, horizon=10, seeds=[0])\n"
        "print('ready', flush=True)\n"
        "sr.simulate('Random', np.full(40, 0.2), length=4, horizon=10**11, seeds=range(2), marks=1)\n"
    )
    job = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert job.stdout.readline() == "ready\n"
    time.sleep(0.5)
    job.send_signal(signal.SIGINT)
    try:
        _, errors = job.communicate(timeout=120)
    finally:
        job.kill()
    assert "KeyboardInterrupt" in errors


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"attraction": []}, ValueError, "attraction must be one number per item, at least one"),
        ({"attraction": [[0.1, 0.2]]}, ValueError, r"its shape is \(1, 2\)"),
        ({"attraction": [0.1, 1.2, 0.3]}, ValueError, r"lie in \[0, 1\]; that of item 1 is 1.2"),
        ({"attraction": [0.1, -0.2]}, ValueError, "that of item 1 is -0.2"),
        ({"attraction": [0.1, float("nan")]}, ValueError, "that of item 1 is nan"),
        ({"attraction": ["a"]}, ValueError, "attraction must be one number per item"),
        ({"length": 41}, ValueError, "length must be a whole number from 1 to 40, not 41"),
        ({"length": 0}, ValueError, "length must be a whole number from 1 to 40, not 0"),
        ({"length": 2.5}, ValueError, "length must be a whole number from 1 to 40, not 2.5"),
        ({"horizon": 0}, ValueError, "horizon must be a whole number of at least 1, not 0"),
        ({"budget": -1}, ValueError, "budget must be a whole number from 0 to 300, not -1"),
        ({"budget": 301}, ValueError, "budget must be a whole number from 0 to 300, not 301"),
        (
            {"adversary": "Swap", "budget": None},
            ValueError,
            "Swap can do nothing without a budget: the rounds it may .* 0 to 300",
        ),
        ({"seeds": []}, ValueError, "seeds must hold at least one seed"),
        ({"seeds": 5}, ValueError, "seeds must be whole numbers"),
        ({"seeds": [-1]}, ValueError, "seeds must be a whole number of at least 0, not -1"),
        ({"marks": 0}, ValueError, "marks must be a whole number of at least 1, not 0"),
        ({"marks": [5, 5]}, ValueError, r"marks must rise strictly, not \[5, 5\]"),
        ({"marks": [400]}, ValueError, "marks must be a whole number from 1 to 300, not 400"),
        ({"threads": 0}, ValueError, "threads must be a whole number of at least 1, not 0"),
        ({"omniscient": 1}, ValueError, "omniscient must be True or False, not 1"),
        ({"learner": "CascadeUCB"}, KeyError, "unknown learner 'CascadeUCB': did you mean 'CascadeUCBV'"),
        ({"learner": int}, ValueError, "is no learner"),
        ({"learner": ["Random"]}, KeyError, "unknown learner"),
        ({"adversary": "Honest", "schedule": "never"}, ValueError, "schedule must be one of"),
        ({"adversary_settings": {"schedule": "late"}}, ValueError, "schedule is an argument of its own"),
        ({"horizon": 10**20}, ValueError, "horizon must be a whole number of at least 1, not 1000"),
        ({"horizon": 10**10}, ValueError, "horizon of an adversary must be a whole number from 1 to 1000000000"),
        (
            {"learner": "MUCBV", "settings": {"block": 10**12 + 1}},
            ValueError,
            "block must be a whole number from 1 to",
        ),
        ({"learner": "MUCBV", "settings": {"corruption": 10**18}}, ValueError, "corruption must be a whole number"),
        ({"learner": "MUCBV", "settings": {"reading": "A2", "block": 5}}, ValueError, "block=5 has no effect"),
        ({"learner": "MUCBV", "settings": {"block": 5, "alpha": 3.0}}, ValueError, "alpha=3.0 has no effect"),
        ({"learner": "MUCBV", "settings": {"eta": 1e-3}}, ValueError, "eta=0.001 has no effect under calibration"),
        ({"learner": "TimeBlocks", "settings": {"mean_until": 10**30}}, ValueError, "mean_until must be a whole"),
        ({"adversary": "Prefixflip"}, KeyError, "did you mean 'PrefixFlip'"),
        ({"users": "cascade"}, KeyError, "did you mean 'Cascade'"),
        ({"settings": {"c": 2.0}}, ValueError, "CascadeUCBV has no setting 'c': it has a, b"),
        ({"settings": {"a": "wide"}}, ValueError, "a must be a number of at least 0.0, not 'wide'"),
        ({"settings": [1]}, ValueError, "settings must be a dictionary"),
        ({"users_settings": {"pattern": "slow"}}, ValueError, "Cascade has no setting 'pattern': it has clients"),
        ({"learner": "MUCBV", "settings": {"block": 4}}, ValueError, "block must be odd from 1 to 9999, not 4"),
        ({"schedule": "never"}, ValueError, "schedule must be one of"),
    ],
    ids=str,
)
def test_bad_input_is_named_before_anything_is_compiled(change, error, message, monkeypatch):
    def compiled(*arguments):
        raise RuntimeError("the loop was reached")

    monkeypatch.setattr(sys.modules["steadyrank.simulator.simulate"], "play", compiled)
    monkeypatch.setattr("numba.core.dispatcher.Dispatcher.compile", compiled)
    arguments = {
        "learner": "CascadeUCBV",
        "attraction": ATTRACTION,
        "adversary": "PrefixFlip",
        "budget": 30,
        **BASE,
        **change,
    }
    with pytest.raises(error, match=message):
        sr.simulate(arguments.pop("learner"), arguments.pop("attraction"), **arguments)
