"""The report: claims judged by hand-made numbers, and the whole page of a real (short) run in a real browser."""

import contextlib
import csv
import dataclasses
import itertools
import json
import math
import pathlib
import pickle
import random
import re
import shutil
import signal
import sys
import zlib

import numpy as np
import polars as pl
import pytest

import browser
import steadyrank as sr
from shared_folder import shared_folder
from steadyrank import cli
from steadyrank.cli.choices import learners_in
from steadyrank.comparison.intervals import student
from steadyrank.core.contract import Problem
from steadyrank.core.discovery import make
from steadyrank.evaluation.lab import cells
from steadyrank.evaluation.lab.cells import Cell, Plan
from steadyrank.evaluation.lab.results import CellStore, read, with_fields
from steadyrank.evaluation.lab.runner import expand, run_job
from steadyrank.evaluation.report import claims, exhibits, figures, finals, regret_claims, steadiness, style, tables
from steadyrank.evaluation.report.page import answer
from steadyrank.evaluation.report.paired import Difference, ahead, at_least, difference, place_of
from steadyrank.evaluation.report.sources import MODELLED
from steadyrank.evaluation.report.tables import by_rate, text
from steadyrank.evaluation.report.verdicts import Claim, Outcome
from steadyrank.evaluation.report.writing import cell_key, load, undecided, write_report
from steadyrank.evaluation.studies import (
    ALL,
    changing_users,
    click_models,
    find_studies,
    lineup,
    matrix,
    readings,
    recovery,
)

pytestmark = pytest.mark.pure

SHORT = 400  # rounds where the paper has 40,000
QUICK = Plan(2, quick=True)


def stand_in(job, played):
    """What Random does in a learner's place with one profile for all, times a share of the job's own: a report reads
    numbers, whoever made them, and eight learners need not be compiled for it. `played` has what was run before."""
    if not isinstance(job, Cell):
        return run_job(job)
    cell = dataclasses.replace(job, learner="Random", settings={}, profile="synthetic-mid", mapping=None)
    if repr(cell) not in played:
        played[repr(cell)] = run_job(cell)
    columns, share = played[repr(cell)], 1 + zlib.crc32(f"{job.who} {job.profile} {job.mapping}".encode()) % 100
    return {**columns, "regret": columns["regret"] * share / 100}


def once_a_kind(draw):
    """A way to draw figures that draws one for each set of learners, and shows it for the others."""
    drawn = {}

    def stand_in(name, rows, *rest):
        key = frozenset(rows["who"].unique())
        if key not in drawn:
            drawn[key] = draw(name, rows, *rest)
        return drawn[key]

    return stand_in


@pytest.fixture(scope="session")
def results(tmp_path_factory):
    """All default studies, once for all test processes, with very short horizons, stand-ins for the learners, and one
    drawing for figures alike."""
    cells.QUICK_HORIZON = SHORT
    with shared_folder(tmp_path_factory, "short") as shared:
        if not (shared / "out" / "report" / "report.html").exists():
            store = CellStore(shared / "out")
            store.prepare()
            played = {}
            for job in expand(find_studies([]), Plan(2, quick=True)):
                store.save(job, stand_in(job, played))
            run = ["report", "--quick", "--seeds", "2", "--json", "--out", str(shared / "out")]
            with (shared / "scorecard.json").open("w") as out, pytest.MonkeyPatch.context() as patch:
                for kind in ("curves", "rates"):
                    patch.setattr(figures, kind, once_a_kind(getattr(figures, kind)))
                with contextlib.redirect_stdout(out):
                    assert cli.main(run) == 0
    return shared / "out"


@pytest.mark.slow
def test_every_default_study_runs_and_has_the_same_report(results, tmp_path):
    """Minutes, most of them for compiling and drawing."""
    assert cli.main(["reproduce", "--quick", "--seeds", "2", "--out", str(tmp_path)]) == 0
    test_every_figure_of_regret_shows_our_learner_and_names_the_lines(tmp_path)
    for part in ("cells", "report/figures", "report/tables"):
        written, expected = ({path.name for path in (out / part).iterdir()} for out in (tmp_path, results))
        assert written == expected
    assert "Unfinished" not in (tmp_path / "report" / "report.html").read_text()


def test_the_report_has_every_figure_and_table(results):
    page = (results / "report" / "report.html").read_text()
    for study in find_studies([]):
        assert f'id="{study.name}">' in page
    figures_written = {path.stem for path in (results / "report" / "figures").iterdir()}
    assert {f"corruption-{p}-{m}" for p in lineup.DATA_SETS for m in lineup.JUDGED} <= (figures_written)
    assert {f"curves-yelp-{m}-{r}" for m in lineup.JUDGED for r in (5, 10, 15, 20)} <= figures_written
    assert {"when", "growth-T", "growth-K", "growth-d", "growth-C", "estimators-0.1"} <= figures_written
    assert {path.stem for path in (results / "report" / "tables").iterdir()} >= {
        "scorecard",
        "lemma1",
        "lemma2",
        "lemma3",
        "variance",
        "growth",
        "when",
    }
    for name in figures_written:
        assert f'<figure id="figure-{name}">' in page
        assert (results / "report" / "figures" / f"{name}.svg").read_text().startswith("<svg")
    assert not re.search(r'(?:src|href)="(?!#|data:)', page), "the page must not need the network"
    assert "Unfinished" not in page
    assert "modelled" in page


def test_captions_say_what_made_a_figure(results):
    page = (results / "report" / "report.html").read_text()
    caption = re.search(r'id="figure-corruption-lastfm-moderate">.*?<figcaption>(.*?)</figcaption>', page, re.DOTALL)
    assert caption
    assert caption[1] == (
        "Final regret. lastfm (moderate: sigmoid(r - 5), modelled); PrefixFlip, front; lists of 10; 400 rounds; "
        "M2UCBV: the block size of the paragraph commented out, practical selection; mean over 2 seeds, shaded from "
        "the lowest to the highest. "
        "steadyrank reproduce --study corruption --seeds 2 --quick"
    )


def test_every_figure_of_regret_shows_our_learner_and_names_the_lines(results):
    for path in (results / "report" / "figures").iterdir():
        if path.stem.startswith(("corruption", "curves", "growth", "group-size", "when")):
            drawn = path.read_text()
            assert ">SteadyRank<" in drawn, path.name
            assert ">Random<" in drawn, path.name


def test_the_scorecard_names_every_claim(results):
    with (results / "report" / "tables" / "scorecard.csv").open() as file:
        rows = list(csv.DictReader(file))
    texts = " ".join(row["claim"] for row in rows)
    for word in (
        "99.60%",
        "97.35%",
        "91.60%",
        "98.41%",
        "honest majority",
        "q (1 - q)",
        "2 log T",
        "sharply",
        "worst",
    ):
        assert word in texts
    assert {row["mapping"] for row in rows} == {"", *lineup.JUDGED}
    assert all(row["place"] and row["scorecard"] for row in rows)
    verdicts = {"holds", "fails", "undecided"}
    assert all(row["verdict"] in verdicts or row["scorecard"].startswith("cannot") for row in rows)
    assert all(row["interval"] or row["seeds"] in ("computed", "exact bounds") for row in rows if row["verdict"])
    assert all(row["seeds"] and row["command"] for row in rows if row["verdict"])
    assert len({row["id"] for row in rows}) >= 50


def test_the_scorecard_as_data(results):
    found = json.loads((results.parent / "scorecard.json").read_text())
    assert found["seeds"] == 2
    assert pathlib.Path(found["report"]).exists()
    ids = [claim["id"] for claim in found["claims"]]
    assert len(set(ids)) == len(ids)
    for claim in found["claims"]:
        assert claim["text"]
        assert claim["place"]
        assert claim["tried"] == sum(not reading["elsewhere"] for reading in claim["readings"])
        assert claim["verdict"].startswith(("holds", "fails", "undecided", "cannot be tested"))
        if claim["kind"] != "cannot":
            assert (claim["verdict"] == "holds") == (claim["held"] == claim["tried"] > 0)


def test_one_stored_number_flips_its_verdict(results, tmp_path):
    """FTRL is among the first two or not on one data set at 0 %, by the regret of a single cell."""
    store = CellStore(tmp_path)
    store.folder.mkdir()
    jobs = [job for job in expand([ALL["corruption"]], Plan(2, quick=True)) if job.rate == 0.0]
    for job in jobs:
        store.path(job).write_bytes((results / "cells" / store.path(job).name).read_bytes())

    def verdicts():
        rows = {study.name: load(study, store, QUICK) for study in ALL.values()}
        (claim,) = (claim for claim in claims.scorecard(rows, True, MODELLED) if claim.id == "ftrl-clean")
        return {outcome.mapping: outcome.verdict for outcome in claim.judged}

    def give(regret):
        for job in jobs:
            if (job.learner, job.mapping) == ("FTRL", "sparse"):
                old = read(store.path(job))[1]
                store.save(job, old.with_columns(regret=pl.lit(regret if job.profile == "movielens-32m" else 0.0)))

    give(0.0)
    before = verdicts()
    assert before["sparse"] == "holds"
    give(1e9)
    after = verdicts()
    assert after.pop("sparse") == "fails"
    before.pop("sparse")
    assert after == before


def test_a_report_of_a_part_says_so(results, tmp_path, capsys):
    (tmp_path / "cells").mkdir()
    store = CellStore(tmp_path)
    jobs = ALL["corruption"].jobs(Plan(2, quick=True))
    for job in jobs[:7]:
        store.path(job).write_bytes((results / "cells" / store.path(job).name).read_bytes())
    assert cli.main(["report", "--quick", "--seeds", "2", "--out", str(tmp_path)]) == 0
    page = (tmp_path / "report" / "report.html").read_text()
    asked = {store.path(job) for study in ALL.values() if study.default for job in study.jobs(Plan(2, quick=True))}
    assert f"of {len(asked):,} cells so far" in page  # those of several studies once
    assert "Nothing finished yet: steadyrank reproduce --study lemmas" in page
    assert "not measured" in capsys.readouterr().out


@pytest.mark.parametrize("share", [0.02, pytest.param(0.3, marks=pytest.mark.slow)])
def test_any_part_of_a_run_gives_a_report(results, tmp_path, share, monkeypatch):
    for kind in ("curves", "rates"):
        monkeypatch.setattr(figures, kind, once_a_kind(getattr(figures, kind)))
    store = CellStore(tmp_path)
    store.folder.mkdir()
    jobs = expand(find_studies([]), Plan(2, quick=True))
    for job in jobs[: round(share * len(jobs))]:
        store.path(job).write_bytes((results / "cells" / store.path(job).name).read_bytes())
    rows = {study.name: load(study, store, QUICK) for study in ALL.values()}
    for study in find_studies([]):
        exhibits.show(study, rows[study.name], True)
    assert any("not measured" in claim.verdict for claim in claims.scorecard(rows, True, MODELLED))


def test_what_is_not_ours_is_left_alone(results, tmp_path, capsys):
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "mine.svg").write_text("mine")
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "thesis.tex").write_text("mine")
    run = ["reproduce", "--quick", "--study", "lemmas", "--out", str(tmp_path)]
    assert cli.main(run) == 2
    assert "report was not written by steadyrank; move it away or choose another --out" in capsys.readouterr().err
    assert (tmp_path / "report" / "thesis.tex").read_text() == "mine"
    assert (tmp_path / "figures" / "mine.svg").read_text() == "mine"
    assert cli.main(["report", "--seeds", "77", "--out", str(results)]) == 2
    assert "holds no cells of the present source for --seeds 77" in capsys.readouterr().err


def test_interruption_leaves_a_usable_report(tmp_path, monkeypatch, capsys):
    """A signal when two cells are finished, in a study that begins with what other tests compile."""
    save = CellStore.save

    def interrupted(store, *job):
        save(store, *job)
        if len(list(tmp_path.glob("cells/*.parquet"))) == 2:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(CellStore, "save", interrupted)
    run = ["reproduce", "--quick", "--study", "headline", "--workers", "1", "--out", str(tmp_path)]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # in a shell's background it is ignored
    try:
        assert cli.main(run) == 130
    finally:
        signal.signal(signal.SIGINT, before)
    told = capsys.readouterr()
    assert "interrupted: finished cells are kept, the report shows them" in told.err
    assert "The report: file://" in told.out
    assert "Unfinished" in (tmp_path / "report" / "report.html").read_text()
    assert len(list(tmp_path.glob("cells/*.parquet"))) < len(ALL["headline"].jobs(Plan(2, quick=True)))


def test_results_are_listed_filtered_and_exported(results, tmp_path, capsys):
    """Of those of two learners, which are quickly read."""
    others = [path.name for path in (results / "cells").iterdir() if not path.name.startswith(("FTRL", "M2UCBV"))]
    results = pathlib.Path(shutil.copytree(results, tmp_path / "two", ignore=lambda *_: [*others, "report"]))
    assert (
        cli.main(
            ["results", "--out", str(results), "--learner", "FTRL", "--profile", "lastfm", "--mapping", "sparse"]
        )
        == 0
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["cell", "profile", "mapping", "attack", "rate", "seeds", "regret", "source"]
    assert len(lines) == 2 + 6  # the rates of Figure 1
    assert all(line.startswith("FTRL-") for line in lines[2:])
    for name in ("rows.csv", "rows.parquet"):
        out = tmp_path / name
        assert cli.main(["results", "--out", str(results), "--current", "--export", str(out)]) == 0
        table = pl.read_csv(out, infer_schema_length=None) if out.suffix == ".csv" else pl.read_parquet(out)
        assert {"seed", "mark", "regret", "spent", "profile", "rate", "source", "settings"} <= set(table.columns)
        assert table["cell"].n_unique() == len(list((results / "cells").iterdir()))
        one = table.filter(pl.col("settings") == '{"alpha": 2.0}')
        assert set(one["learner"]) == {"M2UCBV"}
    missing = ["results", "--out", str(results), "--learner", "Nobody"]
    for arguments in (missing, [*missing, "--export", str(tmp_path / "no.csv")]):
        assert cli.main(arguments) == 2
        assert "fits" in capsys.readouterr().err
    assert not (tmp_path / "no.csv").exists()


@pytest.mark.always
@browser.needed
@pytest.mark.parametrize(("width", "dark"), [(400, False), (1600, True)])
def test_the_page_in_a_browser(results, width, dark):
    with browser.opened((results / "report" / "report.html").as_uri(), width, dark=dark) as (page, errors):
        assert errors == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        wanted = len(list((results / "report" / "figures").iterdir()))
        assert page.locator("figure svg").count() == wanted
        sizes = page.evaluate(
            "[...document.querySelectorAll('figure svg')].map(s => s.getBoundingClientRect().width)"
        )
        assert min(sizes) >= 330, "a figure is too small to read"
        letters = page.evaluate(
            "Math.min(...[...document.querySelectorAll('svg text')].map(t => t.getBoundingClientRect().height))"
        )
        assert letters >= 7, "letters are too small to read"
        top = page.locator("#scorecard").bounding_box()
        lead = page.locator(".lead").bounding_box()
        assert lead["y"] < 200, "the answer is the first thing on the page"
        assert top["y"] < 1600, "then the picture, what is asked of the authors and the scorecard"
        back, ink = page.evaluate(
            "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.querySelector('svg')).color]"
        )
        assert (_light(back) < 60 and _light(ink) > 180) if dark else (_light(back) > 200 and _light(ink) < 60)
        first = page.locator("#scorecard details").first
        first.locator("summary").click()
        assert first.locator("p").first.is_visible()


def _light(colour: str) -> float:
    return sum(map(int, re.findall(r"\d+", colour)[:3])) / 3


def rows_of(means: dict[tuple[str, str, str, float], float], share: float = 0.0) -> pl.DataFrame:
    """Final rows with these means: two seeds, one below and one above, by 1 or by a share of the mean."""
    frames = []
    for (learner, profile, mapping, rate), mean in means.items():
        cell, by = Cell(learner, profile, mapping, rate=rate, horizon=100), share * mean or 1.0
        rows = {"seed": [0, 1], "mark": [100, 100], "regret": [mean - by, mean + by], "spent": [0.0, 0.0]}
        frames.append(with_fields(cell, pl.DataFrame(rows)))
    return pl.concat(frames)


def judged(rows: dict[str, pl.DataFrame]) -> dict[str, Claim]:
    """The claims by id, judged on the rows of these studies."""
    empty = {name: pl.DataFrame() for name in ALL}
    return {claim.id: claim for claim in claims.scorecard({**empty, **rows}, False, MODELLED)}


def with_all_blocks(rows: pl.DataFrame) -> pl.DataFrame:
    """The same with M2UCB-V's other readings of its blocks, as good as the first."""
    names = list(finals.BLOCKS.values())[1:]
    ours = rows.filter(pl.col("who") == "M2UCBV")
    return pl.concat([rows, *(ours.with_columns(who=pl.lit(name)) for name in names)])


def scored(**ranks: float) -> dict[str, Claim]:
    """The claims by id when each learner's mean is the given one in every setting."""
    means = {
        (who, profile, mapping, rate): ranks[who]
        for who in finals.PAPER
        for profile in lineup.DATA_SETS
        for mapping in lineup.JUDGED
        for rate in lineup.RATES
    }
    return judged({"corruption": with_all_blocks(rows_of(means, 0.001))})


def test_claims_follow_the_order():
    found = scored(M2UCBV=10, CascadeUCBV=400, FTRL=2600, CascadeRAC=120, CascadeCBARBAR=650)
    verdicts = {id: claim.verdict for id, claim in found.items()}
    for id in (
        "best-yelp",
        "consistent",
        "beats-cbarbar",
        "beats-cbarbar-wide",
        "ftrl-worst",
        "ftrl-robust",
        "no-cost",
    ):
        assert verdicts[id] == "holds", id
    assert verdicts["robust-clean"] == verdicts["low-corruption"] == verdicts["ucbv-fails"] == "holds"
    assert verdicts["ftrl-clean"] == "fails"
    assert verdicts["gain-ftrl"] == "holds"  # 1 - 10 / 2600 = 99.62 %
    assert verdicts["gain-cascadeucbv"] == "holds"  # 97.50 %
    assert verdicts["gain-cascadecbarbar"] == "holds"  # 98.46 %
    assert verdicts["alike"] == "holds"  # the same order everywhere
    assert verdicts["graceful"] == verdicts["ftrl-steep"] == "fails"  # nothing grows
    assert verdicts["theorem-2-c"] == verdicts["turn"] == "not measured"
    assert verdicts["synthetic"].startswith("cannot be tested here, because")
    worse = scored(M2UCBV=11, CascadeUCBV=400, FTRL=2600, CascadeRAC=120, CascadeCBARBAR=650)["gain-ftrl"]
    assert worse.verdict == "fails"
    assert worse.closest.figures.startswith("claimed 99.60%, found at most 99.58%")
    assert (worse.held, worse.tried) == (0, 12)  # four mappings, three readings of the blocks


def test_what_rests_on_other_data_or_a_reconstruction_is_not_judged():
    """Last.fm is modelled on another release than the paper has; CascadeRAC is no more than random lists here."""
    found = scored(M2UCBV=10, CascadeUCBV=400, FTRL=2600, CascadeRAC=120, CascadeCBARBAR=650)
    assert found["best-lastfm"].verdict.startswith(
        "cannot be tested on the paper's data: this is Last.fm HetRec 2011"
    )
    assert {outcome.verdict for outcome in found["best-lastfm"].outcomes} == {"holds"}  # shown all the same
    for id in ("rac-lastfm", "rac-margin", "rac-worst", "rac-low", "gain-cascaderac", "forc"):
        assert found[id].kind == "cannot", id
        assert "reconstruct" in found[id].verdict
        assert "reconstruction" in found[id].rests_on
    assert {outcome.data for outcome in found["clean"].judged} == {"Yelp, modelled; MovieLens 32M, modelled"}


def test_intervals_by_hand():
    """Differences 1, 2, 3: mean 2, standard deviation 1, t(2, 98.75 %) / sqrt 3 = 3.5826."""
    found = difference("a - b", {0: 1.0, 1: 2.0, 2: 3.0, 9: 50.0}, {0: 0.0, 1: 0.0, 2: 0.0, 8: 7.0})
    assert (found.mean, found.half, found.seeds) == (2.0, pytest.approx(3.5826, abs=1e-4), 3)
    assert found.below is None
    assert Difference("", -4.0, 3.0, 3).below is True
    assert Difference("", 4.0, 3.0, 3).below is False
    assert Difference("", 0.0, 0.0, 3).below is False  # a tie helps nobody
    assert difference("", {0: 1.0}, {0: 9.0}).below is None  # one seed decides nothing
    scipy = pytest.importorskip("scipy.stats")
    for freedom in (1, 2, 9, 10, 11, 30, 200):
        assert student(freedom, 2) == pytest.approx(scipy.t.ppf(0.9875, freedom), abs=0.005)


def test_three_valued_places():
    """b is surely behind a, c cannot be told from it: a is first or not, but surely among the first two."""
    runs = {
        "a": {0: 10.0, 1: 11.0, 2: 12.0},
        "b": {0: 20.0, 1: 21.0, 2: 22.0},
        "c": {0: 9.0, 1: 12.0, 2: 12.0},
    }
    first = place_of("a", 1)(runs)
    assert first.truth is None
    assert first.unsure == {"a", "c"}
    assert place_of("a", 2)(runs).truth is True
    assert place_of("b", 1)(runs).truth is False
    assert place_of("b", -1)(runs).truth is True
    assert ahead("a", "b", 1.5)(runs).truth is True  # 15, 16.5, 18 against 20, 21, 22
    assert ahead("a", "b", 2.5)(runs).truth is False
    assert [at_least(2, truths) for truths in ([True, True, None], [True, None], [True, False])] == [
        True,
        None,
        False,
    ]


def test_undecided_claims_ask_for_more_seeds_of_what_they_depend_on(results, tmp_path):
    """All learners alike but for noise: the cells of the comparison are named, and nothing else."""
    names = dict.fromkeys(finals.PAPER, 5.0)
    rows = with_all_blocks(
        rows_of(
            {
                (who, p, m, r): names[who]
                for who in names
                for p in lineup.DATA_SETS
                for m in lineup.JUDGED
                for r in lineup.RATES
            }
        )
    )
    noisy = pl.when(pl.col("who") == "CascadeUCBV").then(-pl.col("regret") + 2 * 5.0).otherwise("regret")
    found = judged({"corruption": rows.with_columns(regret=noisy)})["no-cost"]
    assert found.verdict == "undecided"
    wants = set().union(*(outcome.wants for outcome in found.judged))
    assert {key.who for key in wants} == {"CascadeUCBV", *finals.BLOCKS.values()}
    assert {key.rate for key in wants} == {0.0}
    store = CellStore(results)
    plan = Plan(2, quick=True, staged=True)
    more = undecided(store, plan)
    assert more
    assert {(cell.first_seed, cell.seeds) for cell in more} == {(2, cells.ALL_SEEDS - 2)}
    first = {
        cell_key(job) for study in ALL.values() for job in study.jobs(Plan(2, quick=True)) if isinstance(job, Cell)
    }
    assert {cell_key(cell) for cell in more} <= first
    assert len(more) < len(first)


def test_the_answer_counts_where_the_paper_s_learner_is_first():
    """First under `centred` on every data set, by another reading on `lastfm`; Random loses a tenth of a click."""
    means = {}
    for name, mapping, rate in itertools.product(lineup.DATA_SETS, lineup.JUDGED, lineup.RATES):
        for who in [*finals.PAPER, "Random"]:
            first = who == "M2UCBV" and mapping == "centred" and name != "lastfm"
            means[who, name, mapping, rate] = 1.0 if first else 10.0
    rows = rows_of(means)
    regret = pl.when((pl.col("mapping") == "centred") & (pl.col("profile") == "lastfm")).then(1.0).otherwise(20.0)
    ours = rows.filter(pl.col("who") == "M2UCBV")
    others = [ours.with_columns(who=pl.lit(name), regret=regret) for name in list(finals.BLOCKS.values())[1:]]
    _, second, _ = answer({"corruption": pl.concat([rows, *others])}, [])
    assert "in 15 of 30 settings where at least a quarter" in second  # saturated and centred, five rates, three sets
    assert "it has the least in 0 of 30" in second
    assert "a list drawn at random has 90.0% of the best list's value" in second  # 10 of 100 rounds' clicks


def test_verdicts_say_where_a_claim_holds():
    words = {True: "holds", False: "fails", None: "not measured", "?": "undecided"}

    def verdict(*outcomes):
        return Claim("x", "x", "there", "this", "y", [Outcome(words[h], "", m, r) for m, r, h in outcomes]).verdict

    assert verdict(("saturated", "", True), ("moderate", "", False)) == "holds where saturated"
    assert verdict(("saturated", "", True), ("saturated", "other", False)) == "holds where saturated (as judged)"
    assert verdict(("saturated", "", None), ("moderate", "", True)) == "holds; saturated not measured"
    assert verdict(("saturated", "", True), ("moderate", "", True)) == "holds"
    assert verdict(("saturated", "", False)) == "fails"
    assert verdict(("saturated", "", None)) == "not measured"
    assert verdict(("saturated", "", "?")) == "undecided"
    assert verdict(("saturated", "", "?"), ("moderate", "", False)) == "undecided where saturated, fails elsewhere"
    assert (
        verdict(("saturated", "", "?"), ("moderate", "", True)) == "holds where moderate; undecided where saturated"
    )
    assert verdict(("", "clean", True), ("", "dirty", False)) == "holds where clean"
    many = [("sparse", str(i), i < 3) for i in range(9)]
    assert verdict(*many) == "holds where sparse (3 of 9 readings)"
    assert Claim("x", "x", "there", "this", because="of that").verdict == "cannot be tested here, because of that"
    other = Outcome("holds", "", data="another data set", elsewhere=True)
    assert Claim("x", "x", "there", "this", "y", [other, Outcome("fails", "")]).verdict == "fails"


def test_a_tie_helps_nobody():
    verdicts = {id: claim.verdict for id, claim in scored(**dict.fromkeys(finals.PAPER, 5.0)).items()}
    assert verdicts["ftrl-clean"] == verdicts["best-yelp"] == verdicts["ftrl-worst"] == "fails"


def test_a_bound_is_judged_as_a_bound():
    """Regret that grows more slowly than K C keeps the bound; one that grows faster breaks it."""

    def verdict(added):
        frames = []
        for rate in (0.0, 0.025, 0.05, 0.10, 0.20):
            cell = Cell("CascadeCBARBAR", "movielens-32m", "moderate", rate=rate)
            regret = 100.0 + added(rate * cell.horizon)
            rows = {"seed": [0, 1], "mark": [cell.horizon] * 2, "regret": [regret, regret + 1.0], "spent": [0.0] * 2}
            frames.append(with_fields(cell, pl.DataFrame(rows)))
        return judged({"growth": pl.concat(frames)})["cbarbar-c"].verdict

    assert verdict(math.sqrt) == "holds"
    assert verdict(lambda c: 9.9 * c) == "holds"
    assert verdict(lambda c: 10.1 * c) == "fails"  # d = 10 clicks a corrupted round are allowed


def test_convergence_of_a_curve():
    """Random loses 10 a mark; a learner that loses less than 1 a mark from round 700 on has converged there."""
    frames = []
    for who, curve in (
        ("M2UCBV", [5.0 * min(i, 7) + 0.5 * max(i - 7, 0) for i in range(1, 21)]),
        ("Random", [10.0 * i for i in range(1, 21)]),
        ("FTRL", [5.0 * i for i in range(1, 21)]),
    ):
        cell = Cell(who, "yelp-pizza", "moderate", rate=0.1, horizon=2000)
        rows = {"seed": [0] * 20, "mark": [100 * i for i in range(1, 21)], "regret": curve, "spent": [0.0] * 20}
        frames.append(with_fields(cell, pl.DataFrame(rows)))
    curves = regret_claims.Curves(pl.concat(frames))
    assert regret_claims.converged(curves, "moderate", "M2UCBV", 0.1) == {0: 700.0}
    assert regret_claims.converged(curves, "moderate", "FTRL", 0.1) == {0: 3000.0}  # never: 1.5 times the rounds
    assert regret_claims.converged(curves, "moderate", "CascadeRAC", 0.1) is None


def test_a_search_over_readings_is_reported_as_one():
    """One reading of the widths makes M2UCB-V first under one mapping: the table says so, and so do the claims."""
    frames = []
    for reading in readings.READINGS[:1] + [r for r in readings.READINGS if r.name == "A = 1, B = 0"]:
        for mapping, rate in itertools.product(lineup.JUDGED, readings.RATES):
            for who in reading.learners():
                first = who["settings"] and mapping == "sparse"
                cell = Cell(profile="yelp-pizza", mapping=mapping, rate=rate, horizon=100, **who)
                regret = 1.0 if first else 50.0 if who["learner"] == "M2UCBV" else 10.0
                rows = {"seed": [0, 1], "mark": [100] * 2, "regret": [regret, regret + 0.5], "spent": [0.0] * 2}
                frames.append(with_fields(cell, pl.DataFrame(rows)))
    rows = pl.concat(frames).unique(["who", "mapping", "rate", "seed"], maintain_order=True)
    (table,) = exhibits.show(ALL["readings"], rows, False)
    line = table.table.filter(pl.col("reading") == "A = 1, B = 0").row(0, named=True)
    assert line["sparse 10%"] == "0.122"  # 1.25 / 10.25
    assert line["moderate 10%"] == "4.9"
    assert line["moves"] == "clean holds (sparse); best holds (sparse)"
    search = [o for o in judged({"readings": rows})["best-yelp"].outcomes if o.reading == "widths: A = 1, B = 0"]
    assert {o.mapping for o in search if o.verdict == "holds"} == {"sparse"}
    assert {o.mapping for o in search if o.verdict == "fails"} == set(lineup.JUDGED) - {"sparse"}


def test_every_reading_can_be_run():
    """Each cell of the search makes a learner: settings that are refused would only be seen after hours."""
    for job in ALL["readings"].jobs(Plan(1)):
        problem = Problem(50, 10, 1_000, 100, np.full(50, 0.5), 0)
        make(sr.learners()[job.learner], problem, settings=dict(job.settings))


def test_the_turn_of_a_curve():
    """A slope of 10 a mark that falls to 1 after round 700: the turn is there, by a factor of a tenth."""
    curve = [10.0 * min(i, 7) + max(i - 7, 0) for i in range(1, 21)]
    marks = [100 * i for i in range(1, 21)]
    assert regret_claims.turning_point(marks, curve, 0.1) == (700, pytest.approx(0.1))


def test_powers_of_growth():
    frame = pl.DataFrame({"horizon": [100, 200, 400] * 2, "regret": [10.0, 20.0, 40.0] * 2})
    assert exhibits.exponent(frame, "horizon") == pytest.approx(1.0)
    attack = pl.DataFrame({"corrupted": [0.0, 1.0, 2.0, 4.0], "regret": [5.0, 6.0, 9.0, 21.0]})  # 5 + C^2
    assert exhibits.exponent(attack, "corrupted") == pytest.approx(2.0)
    for corrupted, regret in (([0.0, 1.0, 2.0], [5.0, 4.0, 3.0]), ([1.0, 2.0, 4.0], [6.0, 7.0, 9.0])):
        part = pl.DataFrame({"corrupted": corrupted, "regret": regret})  # nothing added; C = 0 not finished
        assert math.isnan(exhibits.exponent(part, "corrupted"))


def test_ratios_to_the_omniscient_learner():
    rows = rows_of({("CascadeTS", "lastfm", "", 0.15): 30.0, ("FTRL", "lastfm", "", 0.15): 60.0})
    best = with_fields(
        Cell("CascadeTS", "lastfm", None, omniscient=True, rate=0.15, horizon=100),
        pl.DataFrame({"seed": [0], "mark": [100], "regret": [20.0], "spent": [0.0]}),
    )
    found = steadiness.ratios(pl.concat([rows, best]))
    assert dict(found.select("who", "ratio").rows()) == {"CascadeTS": 1.5, "FTRL": 3.0}
    assert dict(found.select("who", "eased").rows()) == {"CascadeTS": 1.25, "FTRL": 2.0}  # (30 + 20) / (20 + 20)


def test_the_report_shows_learners_whose_users_change_their_taste():
    """A row a learner, a column for each world and change; a learner that is not finished everywhere has a dash."""
    study, parts = ALL["changing-users"], []
    for k, cell in enumerate(cell for cell in study.jobs(Plan(2)) if cell.learner in ("FTRL", "CascadeTS")):
        rows = pl.DataFrame({"seed": [0, 1], "mark": 2 * [cell.horizon], "regret": [10.0 * k, 10.0 * k + 2.0]})
        parts.append(with_fields(cell, rows.with_columns(spent=0.0)))
    [shown] = exhibits.show(study, pl.concat(parts[:-1]), False)
    assert shown.table["learner"].to_list() == ["CascadeTS", "FTRL"]
    assert len(shown.table.columns) == 1 + len(changing_users.COLUMNS)
    assert shown.table["Yelp: the best items change at half-time"].to_list() == ["1 ± 13", "11 ± 13"]
    assert shown.table.row(1)[-1] == "-"


def finished(world, values):
    """Rows of SteadyRank, the omniscient learner and Random with these regrets."""
    learners = ({"learner": "SteadyRank"}, {"learner": "CascadeTS", "omniscient": True}, {"learner": "Random"})
    for who, regret in zip(learners, values, strict=True):
        rows = pl.DataFrame({"seed": [0], "mark": [100], "regret": [regret], "spent": [0.0]})
        yield with_fields(Cell(horizon=100, **who, **world), rows)


def test_the_report_says_how_our_learner_bears_attacks():
    """Ratios 40 / 10 and 10 / 10 under attack: 2.00 in the geometric mean; nothing is said before all have run."""
    world = {"profile": "lastfm-listeners", "rate": 0.15, "adversary": "FakeUser"}
    parts = [*finished({**world, "schedule": "front"}, (40.0, 10.0, 99.0))]
    parts += finished({**world, "schedule": "late"}, (10.0, 10.0, 99.0))
    parts += finished({"profile": "lastfm-listeners"}, (5.0, 10.0, 99.0))
    corruption = rows_of({("Random", "yelp-pizza", "sparse", 0.0): 10.0})
    assert "SteadyRank" not in " ".join(answer({"corruption": corruption, "attacks": pl.concat(parts)}, []))
    rows = pl.DataFrame({"seed": [0], "mark": [100], "regret": [30.0], "spent": [0.0]})
    for name in ("CascadeTS", "M2UCBV"):
        parts += [with_fields(Cell(name, horizon=100, schedule=s, **world), rows) for s in ("front", "late")]
    said = answer({"corruption": corruption, "attacks": pl.concat(parts)}, [])
    assert "under 2 attacks of 15 % of the rounds SteadyRank, the learner of this project, has 2.00 times" in said[-2]
    assert "believes every click 3.00 times, M2UCB-V 3.00 times" in said[-2]
    shown = exhibits.show(ALL["attacks"], pl.concat(parts), False)
    assert shown[0].table.row(0) == ("SteadyRank", "2", "4", "0.5")
    assert [e.name for e in shown if e.svg] == ["attacks-lastfm-listeners"]


def test_the_held_out_third_stands_apart():
    """One cell that is held out, with a ratio of 60 / 30, and one that is not, with 30 / 30."""
    held = matrix.unseen()[0]
    other = next(
        {**world, "adversary": "PrefixFlip", **when}
        for world in matrix.PROFILES
        for when in matrix.WHEN
        if {**world, "adversary": "PrefixFlip", **when} not in matrix.unseen()
    )
    parts = [*finished(held, (40.0, 10.0, 99.0)), *finished(other, (10.0, 10.0, 99.0))]
    row = steadiness.all_profiles(steadiness.ratios(pl.concat(parts))).filter(pl.col("who") == "SteadyRank")
    assert row["held-out third"].to_list() == pytest.approx([2.0])
    assert row["in stretches"].to_list() == pytest.approx([2.0**0.5])


def test_a_learner_that_did_not_run_everywhere_is_left_blank():
    """SteadyRank ran under two attacks, FTRL under one: no number is made up, in the picture or in the table."""
    world = {"profile": "lastfm-listeners", "rate": 0.15}
    parts = [*finished({**world, "adversary": "Swap"}, (40.0, 10.0, 99.0))]
    parts += finished({**world, "adversary": "Flicker"}, (20.0, 10.0, 99.0))
    rows = pl.DataFrame({"seed": [0], "mark": [100], "regret": [30.0], "spent": [0.0]})
    parts.append(with_fields(Cell("FTRL", horizon=100, adversary="Swap", **world), rows))
    shown = exhibits.show(ALL["matrix"], pl.concat(parts), False)
    table = next(e.table for e in shown if e.name == "matrix-lastfm-listeners" and e.table is not None)
    assert table["FTRL"].to_list() == ["3", "-"]
    picture = next(e.svg for e in shown if e.svg)
    assert "3.00" in picture
    assert "nan" not in picture


def test_the_tables_of_the_matrix_by_hand():
    """Two learners on two profiles: geometric means of (regret + 20) / (best + 20), and what Random would have."""
    regrets = [  # of SteadyRank, the omniscient learner, Random
        (("yelp-pizza", "sparse", "PrefixFlip", {}, "front", 0.05), (80.0, 30.0, 1_000.0)),
        (("yelp-pizza", "centred", "PrefixFlip", {}, "late", 0.15), (20.0, 0.0, 40.0)),
        (("yelp-pizza", "centred", "OtherTaste", {"taste": "permuted"}, "spread", 0.15), (40.0, 0.0, 40.0)),
        (("yelp-pizza", "centred", "SlowRamp", {}, "front", 0.15), (100.0, 20.0, 40.0)),
        (("yelp-pizza", "sparse", "Honest", {}, "front", 0.0), (5.0, 30.0, 1_000.0)),
        (("yelp-pizza", "centred", "Honest", {}, "front", 0.0), (7.0, 0.0, 40.0)),
    ]
    fields = ("profile", "mapping", "adversary", "adversary_settings", "schedule", "rate")
    cells = [(dict(zip(fields, world, strict=True)), values) for world, values in regrets]
    table = steadiness.ratios(pl.concat([row for world, values in cells for row in finished(world, values)]))
    wide = steadiness.all_profiles(table).filter(pl.col("who") == "SteadyRank").row(0, named=True)
    assert wide["in stretches"] == pytest.approx(2.0)  # 100 / 50 and 40 / 20; slow and spread ones apart
    assert wide["from round 1"] == pytest.approx(2.0)
    assert wide["spread"] == pytest.approx(3.0)
    assert wide["slow, flickering"] == pytest.approx(3.0)
    assert wide["honest, five profiles"] == pytest.approx(0.5)  # 25 / 50, without the centred one
    assert wide["of Random's, at most"] == pytest.approx(2.0)  # 80 / 40
    five = steadiness.five_profiles(table).filter(pl.col("who") == "SteadyRank").row(0, named=True)
    assert five["geometric mean"] == pytest.approx(80 / 30)
    assert five["without attack"] == pytest.approx(5 / 30)
    assert steadiness.is_nearly_always_clicked("movielens", "saturated")
    assert not steadiness.is_nearly_always_clicked("movielens", "sparse")


def looked(regrets):
    """Rows of the study click-models by learner, profile, users and attack."""
    frames = []
    for (learner, profile, users, attack), regret in regrets.items():
        world = {"profile": profile, "users": users, **click_models.ATTACKS[attack]}
        rows = pl.DataFrame({"seed": [0], "mark": [100], "regret": [regret], "spent": [0.0]})
        frames.append(with_fields(Cell(learner, horizon=100, **world), rows))
    return pl.concat(frames)


def test_whom_to_take_by_hand():
    """Two profiles: multiples of the least with honest clicks, 10 and 5; geometric means over the profiles."""
    honest, _, spread = click_models.ATTACKS
    rows = looked(
        {
            ("CascadeTS", "lastfm", "Cascade", honest): 10.0,
            ("CascadeTS", "movielens", "Cascade", honest): 20.0,
            ("PBMTS", "lastfm", "Cascade", honest): 40.0,
            ("PBMTS", "movielens", "Cascade", honest): 5.0,
            ("CascadeTS", "lastfm", "Cascade", spread): 90.0,
            ("PBMTS", "lastfm", "Cascade", spread): 30.0,
            ("CascadeTS", "lastfm", "PositionBased", honest): 8.0,
            ("CascadeTS", "lastfm", "PositionBased", spread): 8.0,
            ("PBMTS", "lastfm", "Noisy", spread): 7.0,  # nobody honest there: no multiple of anything
        }
    )
    table = steadiness.multiples(rows)
    clean = steadiness.by_users(table, honest)
    assert clean.columns == ["who", "Cascade", "PositionBased", steadiness.ALL]
    assert clean.row(0) == ("CascadeTS", pytest.approx(2.0), pytest.approx(1.0), pytest.approx(2.0**0.5))
    assert clean.row(1) == ("PBMTS", pytest.approx(2.0), None, None)  # of 4 and 1; it did not run everywhere
    attacked = steadiness.by_users(table, spread)
    assert attacked.row(0) == ("CascadeTS", pytest.approx(9.0), pytest.approx(1.0), pytest.approx(3.0))
    assert attacked.row(1) == ("PBMTS", pytest.approx(3.0), None, None)
    assert steadiness.by_users(table, "15 % false visits in one stretch").is_empty()
    chosen = steadiness.choices(table).filter(pl.col("clicks") == spread).row(0, named=True)
    assert chosen["people"] == "click once, then stop (Cascade)"
    assert chosen["least regret"] == "PBMTS 3.00"
    assert chosen["least, of those told nothing"] == "CascadeTS 9.00"
    assert chosen["SteadyRank"] == "-"


def test_the_picture_of_looking_says_what_people_do():
    honest, stretch, _ = click_models.ATTACKS
    rows = looked(
        {
            ("CascadeTS", "lastfm", "Cascade", honest): 10.0,
            ("PBMTS", "lastfm", "Cascade", honest): 123.0,
            ("PBMTS", "lastfm", "PositionBased", honest): 10.0,
            ("PBMTS", "lastfm", "Cascade", stretch): 15.0,
        }
    )
    shown = exhibits.show(ALL["click-models"], rows, False)
    assert [e.name for e in shown] == ["click-models", "click-models-0", "click-models-1", "click-models-regret"]
    assert "lastfm (modelled); lists of 10; 100 rounds. steadyrank reproduce --study click-models" in shown[1].caption
    for words in ("honest clicks", "click once, then stop", "look at places", "PBMTS *", ">12<", ">CascadeTS<"):
        assert words in shown[1].svg
    assert "nan" not in shown[1].svg
    assert "1.50" in shown[2].svg
    assert shown[3].table.row(0) == ("lastfm", "", "Cascade", honest, "10", "123")
    unfinished = exhibits.show(ALL["click-models"], rows.filter(pl.col("rate") > 0), False)
    assert [e.name for e in unfinished] == ["click-models-regret"]


def test_a_part_of_the_study_of_looking_in_a_report(tmp_path, monkeypatch):
    """Cells of the study itself, cut to 200 rounds and to what other tests compile: two pictures, and what lacks."""
    monkeypatch.setattr(cells, "QUICK_HORIZON", 200)
    study, store = ALL["click-models"], CellStore(tmp_path)
    store.prepare()
    wanted = {("Random", "Cascade", "Honest"), ("Random", "Cascade", "FakeUser"), ("CascadeTS", "Cascade", "Honest")}
    jobs = study.jobs(Plan(1, quick=True))
    chosen = [job for job in jobs if (job.learner, job.users, job.adversary) in wanted]
    assert {job.horizon for job in chosen} == {200}
    for job in chosen:
        store.save(job, run_job(job))
    page, _claims = write_report(store, tmp_path, Plan(1, quick=True), [study])
    assert sorted(path.stem for path in (page.parent / "figures").glob("click-models-*")) == [
        f"click-models-{place}" for place in range(3)
    ]
    section = page.read_text().split('<section id="click-models">')[1].split("</section>")[0]
    assert "Which learner for which way of looking" in section
    assert section.count("<svg ") == 3
    with (page.parent / "tables" / "click-models.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["people"] for row in rows} == {"click once, then stop (Cascade)"}
    assert [row["least regret"].split()[0] for row in rows[1:]] == ["Random", "Random"]
    assert float(rows[1]["Random"]) == pytest.approx(float(rows[0]["Random"]), abs=0.02)  # it does not learn


def test_tables_show_mean_and_interval():
    rows = rows_of(
        {("FTRL", "lastfm", "", 0.0): 10.0, ("FTRL", "lastfm", "", 0.1): 20.0, ("Random", "lastfm", "", 0.1): 9.0}
    )
    table = by_rate(rows)
    assert table["learner"].to_list() == ["Random", "FTRL"]
    assert table["0%"].to_list() == ["-", "10.0 ± 12.7"]  # by Student's law, of 9 and 11
    assert text(table).splitlines()[0].split() == ["learner", "0%", "10%"]


def test_every_learner_has_its_own_look():
    seen = {name: style.line_style(name, []) for name in sr.learners()}
    assert len(set(seen.values())) == len(seen)
    assert style.line_style("Somebody", []).colour == style.INK
    variants = ["M2UCBV (alpha=1.0)", "M2UCBV (alpha=2.0)"]
    assert figures.variants([*variants, "FTRL", "CascadeTS", "CascadeTS (omniscient)"]) == [*variants, "CascadeTS"]
    assert style.line_style(variants[0], variants).colour != style.line_style(variants[1], variants).colour


def test_a_figure_is_the_same_bytes_and_follows_the_page():
    rows = rows_of({(who, "lastfm", "", rate): 10.0 for who in ("FTRL", "Random") for rate in (0.0, 0.1)})
    one, two = (figures.rates("x", rows, "title") for _ in range(2))
    assert one == two
    assert "currentColor" in one
    assert style.INK not in one


OWN = '''
from typing import NamedTuple
import numpy as np
from steadyrank.kernels import top_allowed, count_bits

class Mine(NamedTuple):
    """Follows the click rate."""

    looks: np.ndarray
    clicks: np.ndarray

    live = True

    @classmethod
    def create(cls, problem):
        return cls(np.zeros(problem.n_items, np.int64), np.zeros(problem.n_items, np.int64))

    def rank(self, visit, allowed, ranking, note, rng):
        top_allowed((1.0 + self.clicks) / (1.0 + self.looks), allowed, ranking, rng)

    def update(self, visit, ranking, note, clicks, examined):
        count_bits(self.looks, self.clicks, ranking, clicks, examined)
'''


def test_compare_a_learner_of_ones_own(tmp_path, capsys):
    file = tmp_path / "mine.py"
    file.write_text(OWN)
    figure = tmp_path / "mine.svg"
    run = ["compare", str(file), "--with", "CascadeTS", "--horizon", "300", "--seeds", "1", "--rates", "0,20"]
    assert cli.main([*run, "--figure", str(figure)]) == 0
    out = capsys.readouterr().out
    assert "yelp-pizza, moderate: PrefixFlip front" in out
    assert {line.split()[0] for line in out.splitlines() if "±" in line} == {"Mine", "CascadeTS", "Random"}
    assert figure.read_text().startswith("<svg")
    file.write_text("x = 1\n")
    assert cli.main(run) == 2
    assert "defines no learner: a NamedTuple with create, rank and update" in capsys.readouterr().err
    bad = OWN.replace("top_allowed((1.0", "self.looks[0] += 1\n        top_allowed((1.0")  # rank must not write
    (tmp_path / "bad.py").write_text(bad)
    assert cli.main(["compare", str(tmp_path / "bad.py"), *run[2:]]) == 2
    assert "Mine does not keep the contract" in capsys.readouterr().err
    file.write_text(OWN.replace("class Mine", "class CascadeTS"))
    assert cli.main(run) == 2
    assert "defines CascadeTS, which is compared with too; give it another name" in capsys.readouterr().err
    for content in ("def (:\n", "import nothing_of_that_name\n"):
        file.write_text(content)
        assert cli.main(run) == 2
        assert "mine.py cannot be imported: " in capsys.readouterr().err


def test_a_file_takes_no_other_modules_place(tmp_path):
    (tmp_path / "random.py").write_text(OWN)
    (found,) = learners_in(tmp_path / "random.py")
    assert found.__name__ == "Mine"
    assert sys.modules["random"] is random
    assert pickle.loads(pickle.dumps(found)) is found


def test_fractions_of_a_percent_have_their_own_columns():
    rows = rows_of({("FTRL", "lastfm", "", rate): 10.0 for rate in (0.001, 0.004, 0.025)})
    assert by_rate(rows).columns == ["learner", "0.1%", "0.4%", "2.5%"]


def test_rates_of_some_of_a_profiles_items_say_so():
    world = {"profile": "synthetic-spread", "n_items": 20, "length": 5, "horizon": 100, "adversary": "FakeUser"}
    rows = pl.concat(
        with_fields(
            Cell(learner, rate=rate, **world),
            pl.DataFrame({"seed": [0, 1], "mark": [100, 100], "regret": [9.0, 11.0], "spent": [0.0, 0.0]}),
        )
        for learner in ("FAR", "Random")
        for rate in (0.0, 0.1)
    )
    figure, table = exhibits.show(ALL["own-settings"], rows, False)
    assert figure.name == table.name == "own-settings-synthetic-spread"  # there is no mapping to name
    assert figure.caption == table.caption
    assert figure.caption.startswith(
        "Final regret, 20 of the items. synthetic-spread (sigmoid(N(-2, 1.2))); FakeUser, front; lists of 5"
    )
    assert table.table.columns == ["learner", "0%", "10%"]


def test_what_is_left_of_an_attack_beside_what_may_be():
    """Of 400 rounds the last 100: 4 clicks with honest users, so after an attack 6, and 0.1 that trials may cost."""
    world = {"profile": "synthetic-mid", "horizon": 400, "settings": {"revisit": 0.001}}
    rows = pl.concat(
        with_fields(
            Cell("SteadyRank", rate=rate, adversary=adversary, **world),
            pl.DataFrame({"seed": [0, 0, 0, 1, 1, 1], "mark": [200, 300, 400] * 2, "regret": regret}),
        )
        for rate, adversary, regret in (
            (0.0, "PrefixFlip", [0.0, 1.0, 4.0, 0.0, 2.0, 7.0]),
            (0.25, "Demote", [0.0, 50.0, 57.0, 0.0, 60.0, 69.0]),
        )
    )
    honest, attacked = tables.last_quarters(rows, recovery.PRICE_OF)
    assert (honest["visits"], honest["lost"], honest["rate"]) == (0, 4.0, 0.0)
    assert (attacked["visits"], attacked["lost"], attacked["adversary"]) == (100, 8.0, "Demote")
    assert attacked["may"] == honest["may"] == pytest.approx(6.1)
    assert attacked["half"] == pytest.approx(12.706, abs=1e-3)  # Student's law, one degree of freedom
    (shown,) = exhibits.show(ALL["recovery"], rows, False)
    assert shown.table.rows() == [
        ("synthetic-mid, honest users", "4 ± 13", "6"),
        ("synthetic-mid, Demote, 100 visits", "8 ± 13", "6"),
    ]
    assert exhibits.show(ALL["recovery"], rows.filter(pl.col("mark") != 300), False) == []
    alone = tables.last_quarters(rows.filter(pl.col("rate") > 0), recovery.PRICE_OF)
    assert math.isnan(alone[0]["may"])
