"""Studies are run, interrupted, resumed, damaged and run elsewhere: the cells are always the same bytes."""

import dataclasses
import itertools
import json
import math
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter

import numpy as np
import polars as pl
import pytest

import small_study
import steadyrank as sr
from interpreted import SOAK
from steadyrank.core import workers
from steadyrank.core.compiling.jit import cache_root
from steadyrank.evaluation.lab import results, trials
from steadyrank.evaluation.lab.cells import ALL_SEEDS, Cell, Plan, Study, Trial, identity, key, with_more_seeds
from steadyrank.evaluation.lab.results import CellStore, UnreadableCell, read
from steadyrank.evaluation.lab.runner import _Queue, expand, run_cell, run_job
from steadyrank.evaluation.studies import ALL, find_studies
from steadyrank.evaluation.studies.matrix import ATTACKS, HELD_OUT, PROFILES, WHEN, unseen

pytestmark = pytest.mark.pure

N_JOBS = 37


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    assert small_study.run(folder) == N_JOBS
    return folder


def test_a_cell_is_what_simulate_gives():
    cell = Cell("CascadeTS", "yelp-pizza", "sparse", rate=0.25, horizon=400, seeds=2, schedule="late", marks=4)
    rows = pl.DataFrame(run_job(cell))
    world = sr.profile("yelp-pizza", "sparse").attraction
    run = sr.simulate(
        "CascadeTS", world, length=10, horizon=400, adversary="PrefixFlip", schedule="late", budget=100,
        seeds=range(2), marks=4,
    )  # fmt: skip
    assert rows["regret"].to_list() == run.regret.ravel().tolist()
    assert rows["spent"].to_list() == run.spent.ravel().tolist()
    assert rows["mark"].to_list() == [100, 200, 300, 400] * 2
    assert rows["seed"].to_list() == [0] * 4 + [1] * 4
    assert rows["bits_changed"].to_list() == [run.bits_changed[0]] * 4 + [run.bits_changed[1]] * 4
    for what, counts in (("visits", run.visits), ("refused", run.refused), ("retracted", run.retracted)):
        for place, sort in enumerate(("honest", "minority", "false")):
            assert rows[f"{what}_{sort}"].to_list() == np.repeat(counts[:, place], 4).tolist()


@pytest.mark.interpreted
def test_fewer_items_keep_the_range():
    cell = Cell("Oracle", "movielens", n_items=5, length=5, horizon=10, seeds=1, marks=1)
    whole = np.sort(sr.profile("movielens").attraction)
    run = run_cell(cell)
    places = [50, 150, 250, 350, 450]  # the middles of five fifths of 500
    always = sr.simulate("Random", whole[places], length=1, horizon=40, seeds=range(1), marks=1)
    ours = run_cell(Cell("Random", "movielens", n_items=5, length=1, horizon=40, seeds=1, marks=1))
    assert run.final == pytest.approx([0.0])
    # the same five attractions, perhaps in another order: the mean regret of a random item is the same
    worst = 40 * (whole[places].max() - whole[places].min())
    assert 0 < ours.final[0] < worst
    assert abs(ours.final[0] - always.final[0]) < worst / 2


def test_names_of_cells_tell_them_apart():
    cell = Cell("CascadeTS", "movielens", omniscient=True, settings={"a": 1})
    assert cell.who == "CascadeTS (a=1, omniscient)"
    assert key(cell, "x").startswith("CascadeTS-a-1-omniscient-")
    assert json.loads(json.dumps(identity(cell)))["settings"] == {"a": 1}
    others = [Cell("CascadeTS", "movielens", settings={"a": 1}), Cell("CascadeTS", "movielens", "sparse"), cell]
    assert len({key(c, source) for c in others for source in ("x", "y")}) == 6


def test_more_seeds_are_another_file_and_the_same_runs():
    """Seeds 0 to 1 and then 2 to 4 give what 0 to 4 give at once."""
    cell = Cell("Random", "lastfm", horizon=60, seeds=2, marks=2)
    more = with_more_seeds(cell)
    assert (more.first_seed, more.seeds) == (2, ALL_SEEDS - 2)
    assert key(more, "") != key(cell, "")
    assert "first_seed" not in identity(cell)  # files of before keep their names
    whole = run_cell(dataclasses.replace(cell, seeds=5)).final
    later = run_cell(dataclasses.replace(cell, first_seed=2, seeds=3)).final
    assert [*run_cell(cell).final, *later] == whole.tolist()


def test_medians_that_change_by_hand():
    """Bits that are all 0, a tenth of them inverted: a block of 21 changes where 11 of its bits are among the 42."""
    found = trials.changed_medians(0, p=0.0, flipped=0.1, bits=420, repetitions=200)
    assert found["block"] == [21, 33, 95]
    assert max(found["changed"]) < 0.001
    half = trials.changed_medians(0, p=0.5, flipped=0.1, bits=420, repetitions=2000)
    # the votes of n fair bits before and after correlate by 0.8: they differ with chance acos(0.8) / pi = 0.205
    for changed, error in zip(half["changed"], half["error"], strict=True):
        assert changed == pytest.approx(math.acos(0.8) / math.pi, abs=3 * error + 0.01)


def test_every_study_expands():
    for study in ALL.values():
        jobs = study.jobs(Plan(3))
        assert len({key(job, "") for job in jobs}) == len(jobs) > 0
        for job in jobs:
            if isinstance(job, Cell):
                assert job.seeds == 3
                assert job.learner in sr.learners()
                assert job.adversary in sr.adversaries()
                assert job.profile in sr.profiles()
                assert job.users in sr.users()
        quick = study.jobs(Plan(3, quick=True))
        assert len(quick) == len(jobs)
    names = [study.name for study in find_studies([])]
    assert names[:5] == ["when", "corruption", "curves-yelp", "curves-movielens", "curves-lastfm"]
    assert not {"matrix", "matrix-full", "readings", "own-settings", "click-models"} & set(names)
    with pytest.raises(KeyError, match="unknown study 'curves': did you mean"):
        find_studies(["curves"])


def test_studies_hold_what_the_paper_shows():
    cells = [job for job in ALL["corruption"].jobs(Plan(5)) if isinstance(job, Cell)]
    assert {c.profile for c in cells} == {"yelp-pizza", "movielens-32m", "lastfm"}
    assert {c.rate for c in cells} == {0.0, 0.05, 0.1, 0.15, 0.2, 0.25}
    assert {c.mapping for c in cells} == {"saturated", "centred", "moderate", "sparse"}
    assert {c.horizon for c in cells} == {40_000}
    matrix = [job for job in ALL["matrix"].jobs(Plan(5)) if isinstance(job, Cell)]
    first = 5 * (4 * 6 + 1) * 15  # profiles; attacks and none; thirteen learners and two references
    # seven learners: four more profiles, six attacks and none; two tastes on the others; SlowRamp and Flicker on all
    assert len(matrix) == first + 7 * (4 * (6 * 6 + 1) + 5 * 2 * 6 + 9 * 2)
    attacks = {"PrefixFlip", "AttractionFlip", "FakeUser", "Swap", "Honest"}
    assert {c.adversary for c in matrix} == attacks | {"OtherTaste", "SlowRamp", "Flicker"}
    assert {c.foe for c in matrix if c.adversary == "OtherTaste"} == {
        "OtherTaste (taste=reversed)",
        "OtherTaste (taste=permuted)",
    }
    # curves are the same cells as the figure of final regrets: nothing is run twice
    assert len(expand([ALL["corruption"], ALL["curves-yelp"]], Plan(5))) == len(cells)


def test_every_way_of_looking_meets_every_learner_and_attack():
    """Nothing is told to a learner that is not so of PositionBased users: their defaults agree."""
    cells = ALL["click-models"].jobs(Plan(2))
    learners = {c.learner for c in cells}
    assert len(cells) == len(learners) * 2 * 6 * 3
    others = {"Buyers", "SemiBandit", "DriftingCascade", "LogisticCascade", "LinearCascade", "SegmentedCascade"}
    assert {c.users for c in cells} == set(sr.users()) - others
    assert {(c.adversary, c.schedule, c.rate) for c in cells} == {
        ("Honest", "front", 0.0),
        ("FakeUser", "late", 0.15),
        ("FakeUser", "spread", 0.15),
    }
    assert {name for name in sr.learners() if name.startswith(("PBM", "DCM"))} | {"SteadyRank", "Random"} <= learners
    assert not any(c.settings or c.users_settings for c in cells)


def test_rivals_meet_one_attack_in_each_of_their_own_settings():
    """A table of final regrets is one profile: it must not mix attacks, sizes or horizons."""
    study = ALL["own-settings"]
    assert not study.default
    assert list(ALL).index("own-settings") == list(ALL).index("matrix-full") + 1
    settings: dict[str, set] = {}
    for c in study.jobs(Plan(5)):
        where = (c.n_items, c.length, c.horizon, *((c.foe, c.schedule) if c.rate else ()))
        settings.setdefault(c.profile, set()).add(where)
    assert settings == {
        "synthetic-two-levels": {(None, 5, 1_000_000), (None, 5, 1_000_000, "Demote", "front")},
        "synthetic-spread": {(20, 5, 100_000), (20, 5, 100_000, "FakeUser", "front")},
        "synthetic-five-items": {(None, 2, 100_000), (None, 2, 100_000, "PrefixFlip", "spread")},
    }


def test_a_third_of_the_matrix_is_held_out_by_a_fixed_seed():
    places = [
        (f"{world['profile']} {world.get('mapping', '')}".strip(), attack, f"{when['schedule']} {when['rate']:.0%}")
        for world, attack, when in itertools.product(PROFILES, ATTACKS, WHEN)
        if when["schedule"] != "spread"
    ]
    drawn = {places[i] for i in np.random.default_rng(7).permutation(len(places))[: len(places) // 3]}
    named = {(p, a, when) for p, attacks in HELD_OUT.items() for a, whens in attacks.items() for when in whens}
    assert named == drawn


def test_another_third_was_held_out_when_the_list_was_insured():
    cells = unseen()
    assert len(cells) == 90
    assert len({json.dumps(cell) for cell in cells}) == 90
    run = {(c.profile, c.mapping, c.foe, c.schedule, c.rate) for c in ALL["matrix"].jobs(Plan(5))}
    for cell in cells:
        made = Cell("Random", **cell)
        assert (made.profile, made.mapping, made.foe, made.schedule, made.rate) in run
        assert made.schedule != "spread"


def test_a_second_run_recomputes_nothing(finished):
    before = {path: path.stat().st_mtime_ns for path in (finished / "cells").iterdir()}
    seen = []
    assert small_study.run(finished, started=lambda *counts: seen.append(counts)) == 0
    assert seen == [(N_JOBS, N_JOBS)]
    assert before == {path: path.stat().st_mtime_ns for path in (finished / "cells").iterdir()}


def test_the_number_of_workers_does_not_matter(finished, tmp_path):
    small_study.run(tmp_path, workers=5)
    assert small_study.content(tmp_path) == small_study.content(finished)


def test_a_changed_source_makes_new_cells(finished, tmp_path, monkeypatch):
    small_study.run(tmp_path)
    monkeypatch.setattr(results, "source_digest", lambda: "another one")
    assert small_study.run(tmp_path) == N_JOBS
    both = small_study.content(tmp_path)
    assert len(both) == 2 * N_JOBS
    assert small_study.content(finished).items() <= both.items()


@pytest.mark.always
@pytest.mark.parametrize("kills", [2, pytest.param(5, marks=pytest.mark.slow)])
def test_killed_and_resumed(finished, tmp_path, kills):
    """kill -9 at random moments (seeded); what is there afterwards is byte for byte that of an undisturbed run."""
    draw = random.Random(1)
    for _ in range(kills):
        with subprocess.Popen(
            [sys.executable, small_study.__file__, tmp_path], stdout=subprocess.PIPE, text=True
        ) as child:
            total, done = map(int, child.stdout.readline().split())
            assert total == N_JOBS
            assert done == len(list((tmp_path / "cells").glob("*.parquet")))
            time.sleep(draw.uniform(0.0, 0.4))
            os.kill(child.pid, signal.SIGKILL)
            child.communicate()
    small_study.run(tmp_path)
    assert small_study.content(tmp_path) == small_study.content(finished)


def test_interruption_stops_soon_and_keeps_what_is_finished(tmp_path):
    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        small_study.run(tmp_path, finished=interrupt)
    kept = list((tmp_path / "cells").glob("*.parquet"))
    assert len(kept) == 1
    read(kept[0])


@pytest.mark.always
@pytest.mark.slow  # Ray takes seconds to start
def test_the_same_cells_on_ray(finished, tmp_path):
    """A real Ray on this machine, with a home of its own."""
    home = tmp_path / "home"
    home.mkdir()
    own = {"HOME": home, "RAY_TMPDIR": f"/tmp/ray-{os.getpid()}", "STEADYRANK_CACHE": cache_root()}
    quiet = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    command = [sys.executable, small_study.__file__, tmp_path / "out", "ray"]
    done = subprocess.run(command, env={**os.environ, **own, **quiet}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{N_JOBS} 0\n"
    assert small_study.content(tmp_path / "out") == small_study.content(finished)


def test_places_are_checked_first(tmp_path):
    with pytest.raises(ValueError, match="on must be local, ray or ray://HOST, not 'cloud'"):
        small_study.run(tmp_path, on="cloud")
    assert not list(tmp_path.iterdir())


def test_a_damaged_cell_is_named_and_the_others_stay(finished, tmp_path):
    small_study.run(tmp_path)
    victim = sorted((tmp_path / "cells").iterdir())[3]
    whole = victim.read_bytes()
    for damage in (whole[: len(whole) // 2], b"", b"PAR1" * 9):
        victim.write_bytes(damage)
        with pytest.raises(UnreadableCell, match=rf"{victim.name} is damaged: not as it was written; delete it"):
            small_study.run(tmp_path)
    victim.unlink()
    assert small_study.run(tmp_path) == 1
    assert small_study.content(tmp_path) == small_study.content(finished)


def test_every_flipped_bit_is_noticed(finished, tmp_path):
    source = next((finished / "cells").glob("Random*"))
    whole = source.read_bytes()
    draw = random.Random(2)
    for _ in range(300):
        place, bit = draw.randrange(len(whole)), 1 << draw.randrange(8)
        (tmp_path / "x.parquet").write_bytes(whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :])
        with pytest.raises(UnreadableCell, match="damaged"):
            read(tmp_path / "x.parquet")


def test_a_cell_says_what_made_it(finished):
    about, frame = read(next((finished / "cells").glob("CascadeTS-insurance-0-02*")))
    assert about["settings"] == {"insurance": 0.02}
    assert about["versions"].keys() == {"steadyrank", "python", "numba", "numpy", "polars"}
    assert about["source"] == CellStore(finished).source
    assert frame.columns[:6] == ["seed", "mark", "regret", "spent", "bits_changed", "best_corrupted"]
    sorts = [
        f"{what}_{sort}" for what in ("visits", "refused", "retracted") for sort in ("honest", "minority", "false")
    ]
    assert frame.columns[6:] == sorts
    assert frame.height == 2 * 50


def test_a_full_disk_keeps_finished_cells(tmp_path):
    """A limit on the size of files is the full disk that needs no privileges: every write fails with an error."""
    small_study.run(tmp_path)
    files = sorted((tmp_path / "cells").iterdir())
    for file in files[:5]:
        file.unlink()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, before[1]))
    try:
        with pytest.raises(OSError, match=r"cannot be written \(File too large\); finished cells are kept"):
            small_study.run(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, old)
    assert sorted((tmp_path / "cells").iterdir()) == files[5:]
    assert small_study.run(tmp_path) == 5


def test_parts_of_a_living_process_are_left_alone(tmp_path):
    (tmp_path / "cells").mkdir()
    mine = tmp_path / "cells" / f".x.{os.getpid()}.1.part"
    dead = tmp_path / "cells" / ".x.999999999.1.part"
    foreign = [tmp_path / "cells" / name for name in ("notes.part", "a.b.part")]
    for part in (mine, dead, *foreign):
        part.write_text("half")
    CellStore(tmp_path).prepare()
    assert sorted((tmp_path / "cells").iterdir()) == sorted([mine, *foreign])


@pytest.mark.always
def test_any_source_that_decides_numbers_is_in_the_digest(tmp_path, monkeypatch):
    package = tmp_path / "steadyrank"
    shutil.copytree(results._PACKAGE, package)
    monkeypatch.setattr(results, "_PACKAGE", package)
    before = results.source_digest()
    for name, matters in (
        ("adversaries/targets.py", True),
        ("evaluation/lab/runner.py", True),
        ("evaluation/profiles/modelled.py", True),
        ("learners/steady/regimes.py", True),
        ("evaluation/report/page.py", False),
        ("audit/detect/bayes_factors.py", False),
    ):
        text = (package / name).read_text()
        (package / name).write_text(text + "\n")
        assert (results.source_digest() != before) == matters
        (package / name).write_text(text)
    assert results.source_digest() == before


@pytest.mark.interpreted
def test_a_cell_names_its_users_with_settings():
    """Both decide its numbers and its file, and stand in its rows."""
    plain = Cell("CascadeTS", "synthetic-low", horizon=400, seeds=1)
    drift = dataclasses.replace(plain, users="DriftingCascade", users_settings={"pattern": "jump", "span": 100})
    later = dataclasses.replace(drift, users_settings={"pattern": "jump", "span": 300})
    assert len({key(cell, "") for cell in (plain, drift, later)}) == 3
    finals = [run_cell(cell).final[0] for cell in (plain, drift, later)]
    assert len(set(finals)) == 3
    world = {"length": 10, "horizon": 400, "seeds": range(1)}
    attraction = sr.profile("synthetic-low").attraction
    settings = {"users": "DriftingCascade", "users_settings": dict(drift.users_settings)}
    assert finals[1] == sr.simulate("CascadeTS", attraction, **world, **settings).final[0]
    rows = pl.DataFrame({"regret": [1.0]})
    assert results.with_fields(plain, rows)["users"].to_list() == ["Cascade"]
    assert results.with_fields(drift, rows)["users"].to_list() == ["DriftingCascade (pattern=jump, span=100)"]
    with pytest.raises(KeyError, match="unknown users 'Cascades': did you mean 'Cascade'"):
        run_cell(dataclasses.replace(plain, users="Cascades"))


def test_a_folder_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(OSError, match="file"):
        small_study.run(tmp_path / "file")


@pytest.mark.always
def test_an_error_in_a_job_is_raised_and_stops_the_others():
    started = []

    def work(job, pulse):
        started.append(job)
        if job == 3:
            raise RuntimeError("job 3")
        for _ in range(200):
            pulse()
            time.sleep(0.005)
        return job

    begin = time.monotonic()
    with pytest.raises(RuntimeError, match="job 3"):
        list(workers.run(work, [1, 2, 3, 4, 5, 6], workers=3))
    assert 6 not in started
    assert time.monotonic() - begin < 10
    assert threading.active_count() < 10


@pytest.mark.always
def test_results_come_as_jobs_end():
    gate = threading.Event()

    def work(job, pulse):
        if job == "slow":
            assert gate.wait(20)
        return job.upper()

    found = workers.run(work, ["slow", "quick"], workers=2)
    assert next(found) == ("quick", "QUICK")
    gate.set()
    assert next(found) == ("slow", "SLOW")
    assert list(found) == []


def test_trials_do_not_need_a_learner():
    job = Trial("lemma1", {"reading": "number", "samples": 500, "alpha": 16.0, "repetitions": 200})
    columns = run_job(job)
    assert columns["blocks"] == [100]
    assert columns["size"] == [5]
    # at least 3 of 5 drawn from 50 corrupted among 500: hypergeometric tail, times 100 blocks
    assert columns["least"][0] == pytest.approx(0.0081719, rel=1e-4)
    assert columns["least"][0] < columns["tried"][0] < columns["most"][0]


@pytest.mark.interpreted
def test_lemma2_by_hand():
    """At p = 1/2, b = 1: width sqrt(2 log(2/delta) / 4 / s) + 2 log(2/delta) / (3 s); the estimate is the mean."""
    trial = {"p": 0.5, "flipped": 0.0, "bits": 1000, "block": 1, "delta": 0.05, "repetitions": 400}
    columns = run_job(Trial("lemma2", trial))
    log = np.log(40.0)
    assert columns["width"][0] == pytest.approx(np.sqrt(2 * 0.25 * log / 1000) + 2 * log / 3000)
    assert columns["covered"][0] > 0.95
    clean = run_job(Trial("lemma2", {**trial, "p": 0.2}))
    assert clean["bias"][0] == pytest.approx(0.0, abs=4 * 0.4 / np.sqrt(1000 * 400))
    # blocks of one bit have no majority to lose: every run with a flip is left out; with 21 bits the mean moves
    moved = run_job(
        Trial("lemma2", {**trial, "p": 0.3, "flipped": 0.1, "bits": 21_000, "block": 21, "repetitions": 50})
    )
    assert moved["covered"][0] < 0.1
    assert moved["bias"][0] == pytest.approx(0.04, abs=0.01)  # 0.1 (1 - 2 p)


@pytest.mark.interpreted
def test_errors_of_estimates():
    """Front flips of 25 % at p = 0.1 move the mean by 0.2; the last half does not see them."""
    columns = run_job(Trial("errors", {"p": 0.1, "bits": 420, "repetitions": 60 if SOAK else 20}))
    bias = {(e, c): b for e, c, b in zip(columns["estimate"], columns["case"], columns["bias"], strict=True)}
    assert bias["sample mean", "front 25 %"] == pytest.approx(0.2, abs=0.01)  # 20 runs: s.e. 0.004
    assert bias["mean of the last half", "front 25 %"] == pytest.approx(0.0, abs=0.012)
    assert bias["median of means, 21 blocks in time", "front 25 %"] < 0.08
    assert bias["mean of medians, in time, b = 21", "front 10 %"] > 0.2


def test_a_study_without_axes_has_only_trials():
    assert Study("x", "x", "x", "lemmas", "?").jobs(Plan(1)) == []


def test_what_is_only_shown_has_one_seed():
    """By the staged plan; in studies that compare our own learner it has as many as the others."""
    seeds = {
        (name, job.learner, job.profile): job.seeds
        for name in ("corruption", "attacks", "headline", "matrix")
        for job in ALL[name].jobs(Plan(3, staged=True))
    }
    assert seeds["corruption", "M2UCBV", "yelp-pizza"] == seeds["corruption", "FTRL", "movielens-32m"] == 3
    assert seeds["corruption", "M2UCBV", "lastfm"] == seeds["corruption", "SteadyRank", "yelp-pizza"] == 1
    assert {of for (name, *_), of in seeds.items() if name != "corruption"} == {3}
    assert {job.seeds for job in ALL["corruption"].jobs(Plan(5))} == {5}, "asked for seeds, all have them"


def test_one_worker_compiles_while_the_others_run_what_is_compiled():
    """Two workers, four kinds of jobs: the most frequent kind first, the others early, never two new ones at once."""
    counts = {"MUCBV": 2, "FTRL": 2, "CascadeTS": 2, "Random": 6}
    jobs = [Cell(name, "movielens", seeds=seed + 1) for name, n in counts.items() for seed in range(n)]
    queue, running, compiled, order = _Queue(jobs), [], set(), []
    while len(order) < len(jobs) or running:
        while len(running) < 2 and (job := next(queue, None)) is not None:
            running.append(job)
            order.append(job.learner)
            assert len({job.learner for job in running} - compiled) <= 1
        queue.ended(running[0])
        compiled.add(running.pop(0).learner)
    assert order[:2] == ["Random", "Random"], "nothing else can run until it is compiled"
    assert set(order[:8]) == set(counts)
    assert Counter(order) == counts
