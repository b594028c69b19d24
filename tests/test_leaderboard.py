"""The leaderboard: who is in it, standings by hand, and files of one's own."""

import contextlib
import io
import json
import pathlib
from collections import Counter
from unittest import mock

import numpy as np
import polars as pl
import pytest
from write_numbers import a_part

import interpreted
import steadyrank as sr
from steadyrank import cli
from steadyrank.evaluation.lab import cells, costs
from steadyrank.evaluation.lab.cells import Cell, Plan
from steadyrank.evaluation.lab.results import CellStore, with_fields
from steadyrank.evaluation.report.exhibits import show
from steadyrank.evaluation.report.standings import as_table, by_family, standings
from steadyrank.evaluation.studies import leaderboard

pytestmark = pytest.mark.pure

MARKS = [25, 50, 75, 100]


def test_every_learner_and_every_adversary_is_in_it_or_has_a_reason():
    for name in sr.learners():
        both = (name in leaderboard.LEARNERS) + (name in leaderboard.NOT_HERE)
        assert both == 1, f"{name} belongs into LEARNERS or NOT_HERE of evaluation/studies/leaderboard.py"
    assert {foe["adversary"] for foe in leaderboard.FAMILIES} == set(sr.adversaries()) - {"Honest"}
    assert set(leaderboard.RIVALS) | set(leaderboard.TOLD_BUDGET) <= set(leaderboard.LEARNERS)


def test_every_kind_of_attack_meets_every_world_once():
    jobs = [job for job in leaderboard.STUDY.jobs(Plan(20)) if job.learner == "Random"]
    worlds = {(job.profile, job.mapping) for job in jobs}
    assert len(worlds) == 3
    assert Counter((job.profile, job.mapping) for job in jobs if not job.rate) == dict.fromkeys(worlds, 1)
    for foe in {job.foe for job in jobs if job.rate}:
        of = [job for job in jobs if job.foe == foe]
        assert len({(job.profile, job.mapping) for job in of}) == len({job.schedule for job in of}) == len(of)
    assert len(jobs) == 46
    whos = Counter(job.who for job in leaderboard.STUDY.jobs(Plan(20)))
    assert set(whos.values()) == {46}
    assert set(whos) == {*leaderboard.LEARNERS, "CascadeTS (omniscient)"}


def curve(who, regret, adversary="FakeUser", rate=0.2, spent=(5.0, 20.0, 20.0, 20.0), profile="synthetic-mid"):
    """Rows of a cell: regret [seed][mark]."""
    told = who == "told"
    cell = Cell("CascadeTS" if told else who, profile, adversary=adversary, rate=rate, omniscient=told, horizon=100)
    frames = [
        pl.DataFrame({"seed": [seed] * 4, "mark": MARKS, "regret": np.array(of, float), "spent": np.array(spent)})
        for seed, of in enumerate(regret)
    ]
    return with_fields(cell, pl.concat(frames))


def rows():
    """Honest and attacked, three seeds: the told learner loses 9 clicks, others 19, 4 or what Random loses."""
    told, chance = [[3, 6, 8, 9]] * 3, [[25, 50, 75, 99]] * 3
    half, late = [[2, 3, 4, 4]] * 3, [[9, 15, 19, 19]] * 3
    noisy = [[9, 15, 19, 18], [9, 15, 19, 19], [9, 15, 19, 20]]
    frames = []
    for adversary, rate in (("Honest", 0.0), ("FakeUser", 0.2)):
        spent = (5.0, 20.0, 20.0, 20.0) if rate else (0.0,) * 4
        for who, regret in (("told", told), ("Random", chance), ("PIE", half), ("FTRL", late), ("FORC", noisy)):
            frames.append(curve(who, regret, adversary, rate, spent))
    return pl.concat(frames)


def test_standings_by_hand():
    found = {one.who: one for one in standings(rows())}
    assert list(found) == ["PIE", "FORC", "FTRL", "Random"] or list(found) == ["PIE", "FTRL", "FORC", "Random"]
    best = found["PIE"]
    assert best.ratio == pytest.approx(5 / 10)
    assert best.honest == pytest.approx(5 / 10)
    assert (best.quarter, best.middle) == (pytest.approx(3 / 4), pytest.approx(4 / 7))
    assert (best.quarter_worst, best.middle_worst) == (pytest.approx(3 / 4), pytest.approx(4 / 7))
    assert best.worst == pytest.approx(0.5)
    assert best.where == "FakeUser front, synthetic-mid"
    assert best.half == pytest.approx(0.0)
    assert best.families == {"FakeUser": pytest.approx(0.5)}
    assert (best.first, best.last) == (1, 1)
    # 19 or 18, 19 and 20 clicks: nobody can say which is less
    assert (found["FTRL"].first, found["FTRL"].last) == (found["FORC"].first, found["FORC"].last) == (2, 3)
    assert (found["Random"].first, found["Random"].last) == (4, 4)
    assert found["Random"].ratio == pytest.approx(10.0)


def test_recovery_by_hand():
    """The attack ends at round 50; Random loses 0.99 a round, so 0.099 is little."""
    found = {one.who: one for one in standings(rows())}
    assert (found["PIE"].recovery, found["PIE"].recovered, found["PIE"].ended) == (0.0, 1, 1)  # 0.04 from 25 on
    assert found["FTRL"].recovery == 25.0  # 0.16 until round 75, then nothing
    assert found["Random"].recovery is None
    table = as_table(standings(rows()), dict.fromkeys(found, 3.0))
    words = dict(zip(table["learner"], table["recovery"], strict=True))
    assert words == {"PIE": "0 (1 of 1)", "FTRL": "25 (1 of 1)", "FORC": "25 (1 of 1)", "Random": "never (0 of 1)"}
    assert table["us a round"].to_list() == ["3"] * 4
    assert table["rank"].to_list() == ["1", "2-3", "2-3", "4"]
    assert by_family(standings(rows()))["FakeUser"][0] == "0.50"


def test_an_attack_that_goes_on_says_nothing_of_recovery():
    lasting = rows().with_columns(
        spent=pl.when(pl.col("rate") > 0).then(pl.col("mark").cast(pl.Float64)).otherwise(0.0)
    )
    assert {one.ended for one in standings(lasting)} == {0}
    assert set(as_table(standings(lasting))["recovery"]) == {"-"}


def test_who_has_not_finished_is_left_out():
    part = rows().filter((pl.col("who") != "PIE") | (pl.col("rate") > 0))
    assert "PIE" not in {one.who for one in standings(part)}
    assert standings(rows().filter(pl.col("who") != "CascadeTS (omniscient)")) == []
    assert standings(rows().filter(pl.col("rate") == 0)) == []
    assert standings(pl.DataFrame()) == []
    assert show(leaderboard.STUDY, rows().filter(pl.col("rate") == 0), False) == []


def test_the_report_shows_the_standings():
    first, second = show(leaderboard.STUDY, rows(), False)
    assert first.table["learner"][0] == "PIE"
    assert "steadyrank reproduce --study leaderboard --seeds 3" in first.caption
    assert second.table.columns == ["learner", "FakeUser"]


def test_parts_hold_every_job_once_and_share_little_compiled_code():
    jobs = leaderboard.STUDY.jobs(Plan(2))
    parts = [a_part(jobs, k, 16) for k in range(1, 17)]
    assert sorted(repr(job) for part in parts for job in part) == sorted(map(repr, jobs))
    kinds = [{(job.learner, job.adversary if job.rate else "") for job in part} for part in parts]
    assert sum(map(len, kinds)) < 1.2 * len(set.union(*kinds))
    took = [sum(costs.seconds(part)) for part in parts]
    assert max(took) < 1.2 * sum(took) / 16
    assert sorted(map(repr, a_part(jobs, 1, 1))) == sorted(map(repr, jobs))
    one_kind = [Cell("M2UCBV", "lastfm", first_seed=seed) for seed in range(64)]
    assert {len(a_part(one_kind, k, 16)) for k in range(1, 17)} == {4}


def test_costs_by_hand():
    quick = Cell("Random", "lastfm", horizon=1_000_000, seeds=10)
    slow = Cell("FTRL", "lastfm", horizon=1_000_000, seeds=10, rate=0.1)
    assert costs.seconds([quick, slow]) == (pytest.approx(60.0 + 240.0), 2 * costs.COMPILING)
    assert costs.seconds([quick], {"Random": 1.0})[0] == pytest.approx(10.0)
    assert costs.in_words([quick, slow]).startswith("2 cells to run: about 5 min of one core")


def test_a_drawn_world_is_its_own_and_the_same_everywhere():
    worlds = [sr.profile(f"drawn-{number}") for number in (1, 2, 1)]
    assert worlds[0].attraction.tolist() == worlds[2].attraction.tolist()
    assert worlds[0].attraction.size != worlds[1].attraction.size
    assert all(200 <= world.attraction.size <= 600 for world in worlds)
    assert worlds[0].title == f"drawn-1 ({worlds[0].mapping})"
    assert (worlds[0].attraction.size, worlds[0].mapping) == (538, "sigmoid(N(-1.56, 1.47))")
    with pytest.raises(KeyError, match="unknown profile 'drawn-x'"):
        sr.profile("drawn-x")


def test_cells_of_ones_own_change_with_the_file(tmp_path):
    cell = Cell("Mine", "lastfm")
    paths = {CellStore(tmp_path, text).path(cell) for text in (b"", b"a", b"b")}
    assert len(paths) == 3


LEARNER = '''
from typing import NamedTuple
import numpy as np
from steadyrank.kernels import count_bits, top_allowed


class Mine(NamedTuple):
    """Greedy."""

    looks: np.ndarray
    clicks: np.ndarray

    @classmethod
    def create(cls, problem):
        return cls(np.zeros(problem.n_items, np.int64), np.zeros(problem.n_items, np.int64))

    def rank(self, visit, allowed, ranking, note, rng):
        top_allowed((1.0 + self.clicks) / (1.0 + self.looks), allowed, ranking, rng)

    def update(self, visit, ranking, note, clicks, examined):
        count_bits(self.looks, self.clicks, ranking, clicks, examined)
'''
CHEAT = LEARNER.replace("np.zeros(problem.n_items, np.int64), np", "(100 * problem.attraction).astype(np.int64), np")
ATTACK = '''
from typing import Any, NamedTuple
from steadyrank.adversaries.budget import Budget, can_spend, remember, settle


class FirstOnly(NamedTuple):
    """Replaces the visit by a click on the first item."""

    budget: Budget
    users: Any

    cascade = True

    @classmethod
    def create(cls, problem, users, budget, *, schedule="front", n_bursts=5):
        if schedule == "late":
            raise ValueError("FirstOnly acts under another schedule than late")
        return cls(Budget.create(problem, budget, schedule, n_bursts), users)

    def corrupt(self, visit, ranking, clicks, examined, rng):
        if not can_spend(self.budget, visit.t):
            return 0.0, examined, visit.client
        remember(self.budget, clicks, ranking.size)
        clicks[:] = False
        clicks[0] = True
        return settle(self.budget, self.users, visit, clicks, ranking.size, examined, visit.client)
'''


def run_small(folder, own, *arguments):
    """The standings as data and what was said, with 50 rounds and one kind of attack."""
    file = pathlib.Path(folder) / "own.py"
    file.write_text(own)
    one = [{"adversary": "PrefixFlip", "schedules": ("front",)}]
    out, told = io.StringIO(), io.StringIO()
    order = ["leaderboard", "--own", str(file), "--quick", "--seeds", "2", "--json", "--out", str(folder)]
    with (
        mock.patch.object(leaderboard, "QUICK_FAMILIES", one),
        mock.patch.object(leaderboard, "HORIZON", 80),
        mock.patch.object(cells, "QUICK_HORIZON", 100),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(told),
    ):
        assert cli.main([*order, *arguments]) == 0, told.getvalue()
    return json.loads(out.getvalue()), told.getvalue()


def try_own_learner(folder):
    found, told = run_small(folder, LEARNER, "--with", "CascadeTS", "--seed", "7")
    assert {one["who"] for one in found["standings"]} == {"Mine", "CascadeTS", "Random"}
    assert all(list(one["families"]) == ["PrefixFlip"] and one["microseconds"] > 0 for one in found["standings"])
    assert "drawn from --seed 7: drawn-" in told
    assert "12 cells, 0 of them finished already" in told
    assert "4 cells of your own, 0 finished already" in told
    checked = mock.patch("steadyrank.testing.check_learner")  # as it was
    with checked:
        again, told = run_small(folder, LEARNER, "--with", "CascadeTS", "--seed", "7")
    assert "12 cells, 12 of them finished already" in told
    assert "4 cells of your own, 4 finished already" in told
    assert [one["ratio"] for one in again["standings"]] == [one["ratio"] for one in found["standings"]]
    with checked:
        _, told = run_small(folder, f"{LEARNER}\n# another file\n", "--with", "CascadeTS", "--seed", "7")
    assert "4 cells of your own, 0 finished already" in told
    with checked:
        other, _ = run_small(folder, LEARNER, "--with", "Random")
    assert 0 <= other["seed"] < 2**32
    assert other["seed"] != 7


def try_own_attack(folder):
    found, told = run_small(folder, ATTACK, "--with", "CascadeTS", "--seed", "7")
    assert {one["who"] for one in found["standings"]} == {"CascadeTS", "Random"}
    assert all(list(one["families"]) == ["FirstOnly"] for one in found["standings"])
    assert "6 cells of your own" in told  # two schedules of three, by three learners
    both, _ = run_small(folder, LEARNER + ATTACK, "--with", "Random", "--seed", "7")
    assert {one["who"] for one in both["standings"]} == {"Mine", "Random"}
    assert all(list(one["families"]) == ["PrefixFlip", "FirstOnly"] for one in both["standings"])


@pytest.mark.parametrize("name", ["try_own_learner", "try_own_attack"])
def test_a_file_of_ones_own(name, tmp_path):
    interpreted.run_test(__name__, name, {"folder": str(tmp_path)})


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        ("x = 1\n", [], "defines no learner and no adversary"),
        (LEARNER.replace("Mine", "FTRL"), [], "defines FTRL, which there is already; give it another name"),
        (LEARNER, ["--on", "ray://nowhere"], "--own runs on this machine, not with --on ray://nowhere"),
        (LEARNER, ["--on", "here"], "on must be local, ray or ray://HOST, not 'here'"),
        (LEARNER, ["--seeds", "0"], "--seeds must be a whole number from 2 to 10000, not 0"),
        (LEARNER, ["--seed", "-1"], "--seed must be a whole number from 0 to 4294967295, not -1"),
        (LEARNER, ["--with", "CascadeTX"], "unknown learner 'CascadeTX'"),
        (CHEAT, [], "Mine reads problem.attraction, which no learner may know"),
        (None, ["--seed", "3"], "--seed draws worlds for --own"),
    ],
)
def test_bad_input_says_what_would_be_right(content, arguments, message, tmp_path, capsys):
    file = tmp_path / "own.py"
    own = []
    if content is not None:
        file.write_text(content)
        own = ["--own", str(file)]
    with mock.patch("steadyrank.testing.check_learner"):  # the contract is checked elsewhere, and compiles
        assert cli.main(["leaderboard", *own, *arguments, "--cost", "--out", str(tmp_path)]) == 2
    assert message in capsys.readouterr().err


def test_who_is_told_the_budget_is_named(tmp_path, capsys):
    file = tmp_path / "own.py"
    file.write_text(
        LEARNER.replace("problem.n_items, np.int64))", "problem.n_items + 0 * problem.budget, np.int64))")
    )
    with mock.patch("steadyrank.testing.check_learner"):
        assert cli.main(["leaderboard", "--own", str(file), "--cost", "--out", str(tmp_path)]) == 0
        assert "is told" not in capsys.readouterr().err
        file.write_text(LEARNER.replace("clicks: np.ndarray", "clicks: np.ndarray\n    budget: int")
                        .replace("np.int64))", "np.int64), problem.budget)"))  # fmt: skip
        assert cli.main(["leaderboard", "--own", str(file), "--cost", "--out", str(tmp_path)]) == 0
        assert "Mine is told how many rounds may be corrupted (problem.budget)" in capsys.readouterr().err


def test_what_breaks_the_contract_is_refused(tmp_path):
    interpreted.run_test(__name__, "try_broken", {"folder": str(tmp_path)})


def try_broken(folder):
    bad = LEARNER.replace("top_allowed((1.0", "self.looks[0] += 1\n        top_allowed((1.0")
    told = io.StringIO()
    file = pathlib.Path(folder) / "own.py"
    file.write_text(bad)
    with contextlib.redirect_stderr(told):
        assert cli.main(["leaderboard", "--own", str(file), "--cost"]) == 2
    assert "Mine does not keep the contract" in told.getvalue()


def test_the_cost_is_said_and_nothing_runs(tmp_path, capsys):
    assert cli.main(["leaderboard", "--cost", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr()
    assert "1,380 cells to run: about " in out.err
    assert out.out == ""
    assert list(tmp_path.iterdir()) == []
