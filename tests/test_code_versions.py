"""The version of a learner changes with what it computes, and with nothing else."""

import shutil
import threading

import code_versions
import pytest
from code_versions import Code, versions_of

import interpreted
import steadyrank as sr
from steadyrank.evaluation.lab.cells import Cell, Trial

STEADY = ("steadyrank.learners.steady.steady_rank", "SteadyRank")
PLAIN = ("steadyrank.learners.cascade_ts", "CascadeTS")
WORDS = 'class SteadyRank(NamedTuple):\n    """'
BOUND = ("steadyrank.learners.cascade_klucb", "CascadeKLUCB")


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """A copy of the sources, and what edits of it do to the versions of three learners."""
    package = tmp_path_factory.mktemp("copy") / "steadyrank"
    shutil.copytree(code_versions._PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__", "static"))

    def edited(file, before, after):
        path = package / file
        text = path.read_text()
        assert before in text, f"{file} has no {before!r} to edit"
        path.write_text(text.replace(before, after, 1))
        changed = {
            name for module, name in (STEADY, PLAIN, BOUND) if Code(package).version(module, name) != known[name]
        }
        path.write_text(text)
        return changed

    known = {name: Code(package).version(module, name) for module, name in (STEADY, PLAIN, BOUND)}
    return edited


@pytest.mark.parametrize(
    ("file", "before", "after"),
    [
        ("learners/steady/steady_rank.py", "class SteadyRank(", "# why\nclass SteadyRank("),
        ("learners/steady/steady_rank.py", WORDS, f"{WORDS}Other words. "),
        ("learners/steady/hedge.py", "import numpy as np", "import math\n\nimport numpy as np"),
        ("learners/steady/regimes.py", "\n@", "\n_NOBODY_READS = 3\n\n\n@"),
        ("core/kernels.py", "\n@", "\n@kernel\ndef new_one(x):\n    return x + 1\n\n\n@"),
        ("core/compiling/jit.py", "def surroundings() -> str:", "def surroundings(more: str = '') -> str:"),
        ("core/settings.py", "must be a whole number{", "has to be a whole number{"),
        ("learners/ftrl.py", "def create(", "def created("),
    ],
)  # fmt: skip
def test_words_and_what_a_learner_does_not_reach_leave_its_version(copied, file, before, after):
    assert copied(file, before, after) == set()


@pytest.mark.parametrize(
    ("file", "before", "after", "changed"),
    [
        ("learners/steady/steady_rank.py", "insurance: float = 0.3", "insurance: float = 0.2", {"SteadyRank"}),
        ("learners/steady/evidence.py", "CALM = ", "CALM = 1 + ", {"SteadyRank"}),
        ("learners/shared/thompson.py", "SIGMAS = ", "SIGMAS = 1 + ", {"SteadyRank", "CascadeTS"}),
        ("learners/cascade_klucb.py", "def update(", "def update_all(", {"CascadeKLUCB"}),
        ("core/philox.py", "_LOW = ", "_LOW = 1 + ", {"SteadyRank"}),
    ],
)
def test_what_a_learner_reaches_changes_its_version(copied, file, before, after, changed):
    assert copied(file, before, after) >= changed
    if "shared" not in file:
        assert copied(file, before, after) == changed


def test_a_name_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match=r"steadyrank\.learners\.random defines no 'Nobody'"):
        Code().version("steadyrank.learners.random", "Nobody")


def test_versions_of_what_plays():
    jobs = [
        Cell("CascadeTS", "lastfm"),
        Cell("Random", "lastfm", adversary="FakeUser", rate=0.1, users="Noisy"),
        Trial("lemma1", {}),
    ]
    versions = versions_of(jobs)
    assert list(versions["learners"]) == ["CascadeTS", "Random"]
    assert list(versions["world"]) == ["Anyone", "Cascade", "FakeUser", "Noisy", "lemma1", "play"]
    assert versions["learners"]["CascadeTS"] == Code().version(*PLAIN)


@pytest.mark.parametrize("name", ["SteadyRank", "M2UCBV", "CascadeKLUCB", "FTRL", "TopRank"])
def test_all_that_runs_is_reached(name):
    interpreted.run_test(__name__, "run_and_compare", {"name": name})


def run_and_compare(name):
    """Every function of the learners or of the arithmetic they share that runs is among those reached."""
    cls = sr.learners()[name]
    ran = set()

    def note(frame, event, _argument):
        module = frame.f_globals.get("__name__", "")
        if event == "call" and module.startswith(("steadyrank.learners", "steadyrank.core")):
            ran.add((module, frame.f_code.co_qualname.partition(".")[0]))

    world = sr.profile("synthetic-mid").attraction[:30]
    threading.setprofile(note)
    try:
        sr.simulate(name, world, length=3, horizon=300, adversary="FakeUser", schedule="late", budget=60, seeds=[0])
    finally:
        threading.setprofile(None)
    code = Code()
    reached = code.reached(cls.__module__, name)
    for module, part in (("steadyrank.simulator.loop", "play"), ("steadyrank.users.cascade", "Cascade"),
                         ("steadyrank.adversaries.fake_user", "FakeUser")):  # fmt: skip
        reached |= code.reached(module, part)
    others = ("steadyrank.learners.steady.explain", "steadyrank.core")  # says what was learnt; runs beside it
    arithmetic = ("steadyrank.core.kernels", "steadyrank.core.philox", "steadyrank.core.beta_prior")
    counts = {part for part in ran if part[0].startswith(arithmetic) or not part[0].startswith(others)}
    assert len(counts) > 5
    assert counts <= reached, counts - reached
