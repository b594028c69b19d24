"""Measured tables and sentences of README and docs are those of the files of evidence."""

import dataclasses
import importlib.util
import json
import pathlib
import re
import types

import polars as pl
import pytest
from code_versions import Code, versions_of

import steadyrank as sr
from steadyrank.evaluation.lab.cells import Study
from steadyrank.evaluation.report.claims import scorecard
from steadyrank.evaluation.report.sources import MODELLED
from steadyrank.evaluation.studies import ALL

ROOT = pathlib.Path(__file__).parents[1]
# Tables of numbers that no study measures, by page, and what makes them.
NOT_FROM_EVIDENCE = {
    "audit-reference.md": [
        ("| column | what |", "no measurement: columns of a report"),
    ],
    "audit-counts.md": [
        (
            "| bursts of | found, with the item among the first two | clean count holds the true one | bots named "
            "| honest senders named |",
            "bench/audit_counts.py",
        ),
    ],
    "audit-measured.md": [
        ("| logs | found |", "bench/audit.py --planted"),
        ("| attack | attraction | 1 % | 2 % | 5 % | 10 % | 25 % |", "bench/audit_power.py"),
        ("| lists of a burst | silent | pushers |", "bench/audit_bursts.py"),
        (
            "| visits of each bot | silent: limit | silent: named | pushers: limit | pushers: named |",
            "bench/audit_small.py",
        ),
    ],
    "audit-size.md": [
        ("| impressions, with clients | processor time | peak memory |", "bench/audit.py"),
    ],
    "collections-method.md": [
        (
            "| world | engine | `BubbleRank` | a learner a query | by place, 30 looks | cautious | `Collection` |",
            "bench/collection.py",
        ),
        ("| world | more than cautious: all | more than 200 visits | at most 20 |", "bench/collection.py"),
        (
            "| world | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 | 10 | at most 20 visits "
            "| least lower end | least of a run |",
            "bench/collection.py",
        ),
        ("| world | 64 | 300 | no fading |", "bench/collection.py --memory"),
        (
            "| world | queries attacked | lost, a fresh name a visit | least tenth "
            "| lost, 100 clients | least tenth | honest visits not learnt from |",
            "bench/collection.py --attack",
        ),
        (
            "| world | judgments | plain clicks | judgments, false clicks | plain, false clicks |",
            "bench/collection.py --judgments",
        ),
    ],
    "comparing-method.md": [
        ("| users | false clicks | estimator | holds the truth | width | mean error |", "bench/evaluation.py"),
    ],
    "context-method.md": [
        ("| lists | alike | half alike | unlike |", "bench/context.py"),
        ("| world | lists | honest | flipped, the first half | flipped, spread |", "bench/context.py"),
        ("| learner | `films` | `linear` | `nothing` |", "bench/context.py"),
        (
            "| learner | reversed taste, late | the same, spread "
            "| flipped bits, front | the same, spread | `films` | `linear` | `nothing` | all |",
            "bench/context.py",
        ),
        ("| learner | 500 items | | 10,000 items | |", "timing: bench/context.py"),
    ],
    "corruption.md": [
        ("| b | p = 0.5 | 0.3 | 0.2 | 0.1 |", "by a formula"),
    ],
    "data.md": [
        ("| profile | items | mappings | what it is |", "no measurement: the profiles"),
        ("| profile | mapping | `CascadeUCBV` | `CascadeTS` |", "tests/test_profiles.py, with the original files"),
        ("| source | files in FOLDER | arms by default |", "no measurement: readers"),
    ],
    "estimators.md": [
        ("| `M2UCBV` | no attack | 10 % | 25 % |", "steadyrank simulate, as the page shows"),
    ],
    "guards-measured.md": [
        (
            "| 15 % of the visits false, spread | no guard | 10 identities | 100 | 600 | 2,000 | fresh each time |",
            "bench/guards.py",
        ),
        ("| | honest visits not learnt from | worth lost |", "bench/guards.py"),
        ("| world | nobody refused | `ClientTrust` | the least |", "bench/false_purchases.py"),
        (
            "| 1,000 names, 15 % of the visits | users of the reversed taste | promoters of half of the items | "
            "ten items against the best ten |",
            "bench/guards.py",
        ),
        (
            "| bots buy | purchases | false visits not learnt from | honest visits not learnt from | clicks lost | "
            "as a multiple | lost by each purchase |",
            "bench/false_purchases.py",
        ),
        ("| people | forged | `ClientTrust` alone | and `ClickLimit` | and `Plausible` |", "bench/forged_clicks.py"),
    ],
    "limits.md": [
        (
            "| world | learner | lost in A | lost in B | together at least | together as a multiple "
            "| lost by `CascadeTS` in both, told |",
            "bench/limits.py",
        ),
        (
            "| false visits | sampler told their share and what they click | sampler told their share "
            "| `SteadyRank`, told nothing | its regret over that of the sampler told the share |",
            "bench/limits.py",
        ),
        (
            "| world | learner | r | clicks enough by the proof | lost at least | clicks that were hidden | lost |",
            "bench/limits.py",
        ),
    ],
    "live.md": [
        (
            "| world | non-clicks answered | clicks alone | answered, and silence | clicks alone, and silence |",
            "bench/silence.py",
        ),
    ],
    "capacity.md": [
        ("| board | bytes an item | most items in 2 GiB |", "timing: bench/live.py"),
        (
            "| `python bench/boards.py` | in memory "
            "| made a second: first, last tenth | growth a board | ready | after a kill "
            "| first list: median, 99 % | SIGTERM |",
            "bench/boards.py",
        ),
        ("| option | default | what it bounds |", "no measurement: options"),
    ],
    "outcomes.md": [
        (
            "| world | goal `click` | goal `value` | more than by clicks, % | more than in time, % |",
            "bench/outcomes.py",
        ),
        (
            "| world | goal `click` | goal `value` | more than by clicks, % | more than in time, % |",
            "bench/outcomes.py",
        ),
    ],
    "performance.md": [
        (
            "| profile | NumPy loop / `CascadeUCBV` | plain / `CascadeUCBV` "
            "| `CascadeKLUCB` / `CascadeUCBV` | `M2UCBV` / `CascadeUCBV` |",
            "timing: bench/speed.py",
        ),
        ("| learner | seconds |", "timing: bench/speed.py"),
        ("| learner | 500 items | 5,000 | 50,000 | ratio | bytes an item |", "timing: bench/scaling.py"),
        ("| items | `CascadeTS` | `SteadyRank` |", "timing: bench/draws.py"),
        ("| | 500 | 5,000 | 50,000 | 1,000,000 | ratio | start | bytes unseen |", "timing: bench/scaling.py"),
        (
            "| tool | rounds/s | ours / theirs | rank p50, p99 | feedback p50, p99 "
            "| memory | import | first result |",
            "timing: bench/peers.py",
        ),
        ("| learner | rank | feedback | both |", "timing: bench/live.py"),
        ("| learner | items | median | 99 % | 99.9 % | made in |", "timing: bench/live.py"),
        (
            "| | requests a second | of the empty handler | 99 % within, in medians of the empty handler |",
            "timing: bench/service.py",
        ),
        ("| | |", "timing: bench/big_board.py"),
    ],
    "performance-why.md": [
        (
            "| learner | clicks | loss with few draws | with all "
            "| differ by, in standard errors | shares of the 200 items, by at most |",
            "bench/draws.py",
        ),
    ],
    "real-logs.md": [
        ("| log | impressions | suspect intervals | clients named | other changes |", "bench/real_logs.py"),
        (
            "| log | burst | found | other intervals | CUSUM | its bots: audit | rate limit | forest |",
            "bench/real_logs.py",
        ),
        ("| log | 5 % spread | bots named | item named | rate limit | forest |", "bench/real_logs.py"),
        (
            "| senders | burst | found, with the result | other intervals | clean count holds the true one "
            "| its bots named | honest senders named |",
            "bench/real_logs.py",
        ),
    ],
    "proofs-of-the-paper.md": [
        ("| 1/q_b'(p) | p = 0.5 | 0.4 | 0.3 | 0.1 |", "by a formula"),
    ],
    "rivals.md": [
        (
            "| attractions | attack | `CascadeUCB1` | `CascadeRAC` rho = 1 | 0.3 | 0.1 | best ratio |",
            "steadyrank simulate, one seed",
        ),
    ],
    "rivals-places.md": [
        ("| learner | rounds | ours | public code | ours, us | public, us |", "bench/place_learners.py"),
        ("| learner | rounds | ours | public code | ours, us | public, us |", "bench/place_learners.py"),
        (
            "| learner | `big`, 10,000 | 100,000 | `std`, 10,000 | 100,000 | `std`, places shuffled, 100,000 |",
            "bench/paper_settings.py",
        ),
        ("| users, learner | rounds | after a tenth | after all |", "bench/paper_settings.py"),
    ],
    "security.md": [
        ("| | at most |", "no measurement: limits"),
    ],
    "rules.md": [
        (
            "| rules | over HTTP: without, with | ratio | in process: without, with | ratio | ranking again |",
            "bench/rules.py",
        ),
    ],
    "steadyrank-measured.md": [
        (
            "| world | `SteadyRank` | bound | without insurance | `Random` | `CascadeTS` with the same insurance |",
            "bench/steadiness.py",
        ),
    ],
    "users.md": [
        (
            "| people | users | Yelp, `sparse` | MovieLens, `moderate` "
            "| LastFM listeners | normal logits | geometric mean | best learner told |",
            "bench/click_models.py",
        ),
        ("| clicks | least | next | `SteadyRank` | `CascadeTS` | `Random` |", "the study click-models, a first look"),
        ("| 15 % of the visits are false | mean | worst |", "bench/click_models.py"),
        ("| setting | default | what |", "no measurement: settings"),
    ],
    "workers-measured.md": [
        ("| asked | workers | a pair | turns |", "timing: bench/workers.py"),
        ("| pairs a second | 1 worker | 2 | 4 | 8 |", "timing: bench/workers.py"),
        ("| one busy board | 1 worker | 8 workers |", "timing: bench/workers.py"),
        ("| | 1 worker | 8 workers |", "timing: bench/workers.py"),
        ("| aim | found | why |", "what the tables around it say"),
        ("| what | found | how |", "tests/test_owners.py, bench/workers.py"),
        ("| | figure | where it is from |", "timing: bench/workers.py"),
    ],
}


@pytest.fixture(scope="module")
def numbers():
    spec = importlib.util.spec_from_file_location("write_numbers", ROOT / "docs" / "write_numbers.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pages_say_what_the_evidence_says(numbers):
    evidence = numbers.load_evidence()
    for page in numbers.pages():
        text = page.read_text(encoding="utf-8")
        assert numbers.rewritten(text, evidence) == text, f"{page.name}: run python docs/write_numbers.py"


def test_every_measured_block_stands_on_a_page(numbers):
    text = "".join(page.read_text(encoding="utf-8") for page in numbers.pages())
    for name in numbers.BLOCKS:
        assert f"<!-- measured: {name} -->" in text


def test_evidence_says_where_it_comes_from(numbers):
    for name, content in numbers.load_evidence().items():
        assert name in numbers.RECIPES
        assert content["command"].startswith(("steadyrank ", "python bench/"))
        for part in ("seeds", "source", "commit", "learners", "world"):
            assert content[part], f"evidence/{name}.json says nothing of its {part}"
        assert set(content["versions"]) == {"steadyrank", "python", "numba", "numpy", "polars"}
        assert set(content["learners"]) <= set(sr.learners())


def test_learners_are_those_that_were_measured(numbers):
    """What has changed since is measured anew, or the evidence says what changed, and with it the page."""
    code = Code()
    for name, content in numbers.load_evidence().items():
        changed = numbers.changed(content, versions_of(numbers.RECIPES[name].jobs(), code))
        behind = content.get("behind", {})
        assert set(changed) <= set(behind), (
            f"evidence/{name}.json is from before {', '.join(sorted(set(changed) - set(behind)))} changed; "
            f"`make evidence ONLY={name}` measures it anew"
        )
        assert set(behind) <= set(changed), f"evidence/{name}.json: {set(behind) - set(changed)} did not change"


def test_the_headline_is_as_good_as_it_has_to_be(numbers):
    """Honest users cost little more than half of a Thompson sampler's regret, attacks in stretches three quarters."""
    groups = {group["group"]: group["mean"] for group in numbers.load_evidence()["headline"]["groups"]}
    assert groups["honest users"] <= 0.55
    assert groups["attacks in stretches"] <= 0.75


def test_steady_rank_has_the_least_regret_on_the_frontier(numbers):
    """As docs/hidden-clicks.md says: at every number of hidden clicks, in both worlds, at some price."""
    cells = numbers.load_evidence()["frontier"]["cells"]
    for point in {(cell["profile"], cell["rate"]) for cell in cells}:
        here = [cell for cell in cells if (cell["profile"], cell["rate"]) == point]
        assert min(here, key=lambda cell: cell["regret"])["who"].startswith("SteadyRank"), point


def test_lists_recover_from_attacks_that_ended(numbers):
    """As docs/hidden-clicks.md says: at the price of boards but for one attack; without, not from `Demote`."""
    cells = numbers.load_evidence()["recovery"]["cells"]
    late = {(c["who"], c["profile"], c["adversary"], c["visits"]) for c in cells if c["lost"] > c["may"]}
    board = {cell for cell in late if "0.001" in cell[0]}
    assert board == {("SteadyRank (revisit=0.001)", "movielens", "Demote", 100)}
    assert {cell[1:] for cell in late - board} >= {
        (world, "Demote", visits) for world in ("movielens", "yelp-pizza") for visits in (60, 100)
    }


def test_the_page_names_all_that_can_be_measured_anew(numbers):
    text = (ROOT / "docs" / "reproducing.md").read_text(encoding="utf-8")
    (first, others), *_ = re.findall(r"^make evidence ONLY=([a-z-]+) +# or (.*(?:\n +#.*)*)$", text, re.MULTILINE)
    assert sorted([first, *re.findall(r"[a-z-]+", others)]) == sorted(numbers.RECIPES)


def test_another_version_is_noticed(numbers):
    of = {"learners": {"FTRL": "a", "PIE": "b"}, "world": {"Cascade": "c", "play": "d"}}
    assert numbers.changed(of, of) == []
    now = {"learners": {"FTRL": "a", "PIE": "x", "Random": "n"}, "world": {"Cascade": "c"}}
    assert numbers.changed(of, now) == ["PIE", "play"]


def test_every_measured_table_is_written_from_evidence(numbers):
    """But for those listed above: each of them that is written from evidence makes the list shorter."""
    for page in numbers.pages():
        listed = [head for head, _ in NOT_FROM_EVIDENCE.get(page.name, [])]
        found = numbers.outside(page.read_text(encoding="utf-8"))
        for head in found:
            assert head in listed, f"{page.name}: no block of docs/write_numbers.py writes the table {head}"
        assert found == listed, (
            f"{page.name} has no longer the tables {set(listed) - set(found)}, or in another order"
        )


def test_tables_of_measurements_are_told_from_others(numbers):
    table = "| a | b |\n|---|---|\n| x | {} |\n| y | {} |\n"
    head = ["| a | b |"]
    for first, second in (("1.5", "words"), ("**0.77**", "-"), (".3 (.1)", "5 s")):
        assert numbers.outside(table.format(first, second)) == head
    for first, second in (("words", "more"), ("`x=1`", "a 3")):
        assert numbers.outside(table.format(first, second)) == []
    block = f"<!-- measured: scorecard -->\n{table.format(1, 2)}<!-- end -->\n"
    assert numbers.outside(block) == []
    assert numbers.outside(f"```\n{table.format(1, 2)}```\n") == []


def test_the_command_names_the_seeds_that_were_asked_for(numbers):
    assert numbers.RECIPES["frontier"].with_seeds(7).command == "steadyrank reproduce --study frontier --seeds 7"
    assert numbers.RECIPES["leaderboard"].with_seeds(7).command == "steadyrank leaderboard --seeds 7"
    assert {job.seeds for job in numbers.RECIPES["frontier"].with_seeds(7).jobs()} == {7}
    with pytest.raises(ValueError, match="--seeds is not for reproduce, which runs as many seeds as its claims need"):
        numbers.RECIPES["reproduce"].with_seeds(7)


def test_a_block_without_evidence_says_how_to_measure_it(numbers):
    block = "<!-- measured: leaderboard -->\n<!-- end -->\n"
    (line,) = numbers.rewritten(block, {}).splitlines()[1:-1]
    assert line == "*Not measured yet: `make evidence ONLY=leaderboard` does it.*"


def test_a_block_says_what_made_it_and_what_changed_since(numbers):
    of = {"seeds": "7", "commit": "abc", "command": "steadyrank reproduce", "behind": {"PIE": "it counts twice"}}
    line = numbers.Block("x", lambda of: "table").text({"x": of})
    table, empty, *signature = line.splitlines()
    assert (table, empty) == ("table", "")
    assert " ".join(signature) == (
        "Measured at commit abc by `steadyrank reproduce` (seeds: 7). Changed since: `PIE` (it counts twice)."
    )
    assert numbers.Block("x", lambda of: "words", signed=False).text({"x": of}) == "words"


def test_the_evidence_has_today_s_claims(numbers):
    """A claim that was added, dropped or renamed makes the counts of the pages wrong until they are measured anew."""
    claims = scorecard({name: pl.DataFrame() for name in ALL}, False, MODELLED)
    measured = numbers.load_evidence()["reproduce"]["verdicts"]
    assert list(measured) == [claim.id for claim in claims]


SMALL = Study(
    name="small",
    title="Small",
    paper="none",
    exhibit="rates",
    question="?",
    axes={"profile": ["synthetic-mid"], "rate": [0.0, 0.1], "horizon": [500], "learner": ["Random", "CascadeTS"]},
)


def test_evidence_is_renewed_in_parts_and_only_where_cells_are_missing(numbers, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(ALL, "small", SMALL)
    recipe = numbers.Recipe(("small",), 2, numbers.measure_finals, "steadyrank reproduce --study small --seeds 2")
    monkeypatch.setattr(numbers, "RECIPES", {"small": recipe})
    monkeypatch.setattr(numbers, "EVIDENCE", tmp_path / "evidence")
    monkeypatch.setattr(numbers, "pages", list)
    with pytest.raises(ValueError, match="lacks 8 cells of small, made by source"):
        numbers.measure(tmp_path, ["small"], "abc")
    numbers.main(["renew", "--out", str(tmp_path), "--part", "1/2"])
    assert "small: 4 cells to run: about 0 s of one core" in capsys.readouterr().out
    assert numbers.load_evidence() == {}
    numbers.main(["renew", "small", "--out", str(tmp_path)])
    out = capsys.readouterr().out
    assert "small: 4 cells to run" in out
    assert "evidence/small.json written" in out
    content = numbers.load_evidence()["small"]
    assert (content["seeds"], content["command"]) == ("2", recipe.command)
    assert set(content["learners"]) == {"CascadeTS", "Random"}
    assert set(content["world"]) == {"Anyone", "Cascade", "PrefixFlip", "play"}
    assert len(content["cells"]) == 4
    assert all(cell["regret"] > 0 and cell["half"] > 0 and len(cell["runs"]) == 2 for cell in content["cells"])
    (tmp_path / "evidence" / "small.json").unlink()
    numbers.main(["measure", str(tmp_path), "small", "--commit", "abc"])
    assert numbers.load_evidence()["small"] == {**content, "commit": "abc"}
    with pytest.raises(ValueError, match="lacks 12 cells of small, made by source"):
        numbers.main(["measure", str(tmp_path), "small", "--seeds", "5"])
    with pytest.raises(SystemExit):
        numbers.main(["renew", "small", "--seeds", "1"])
    assert "must be a whole number from 2 to 9,999, for intervals, not '1'" in capsys.readouterr().err
    with pytest.raises(ValueError, match="no evidence is called 'nothing'; there are small"):
        numbers.main(["renew", "nothing"])
    with pytest.raises(SystemExit):
        numbers.main(["renew", "--part", "3/2"])
    assert "must be K/N with K from 1 to N, such as 3/16, not '3/2'" in capsys.readouterr().err


def test_evidence_grows_by_the_seeds_that_it_lacks(numbers, tmp_path, monkeypatch, capsys):
    """On another machine too, where no cell is on the disk; the figures are those of a run with all seeds at once."""
    monkeypatch.setitem(ALL, "small", SMALL)
    recipe = numbers.Recipe(("small",), 2, numbers.measure_finals, "steadyrank reproduce --study small --seeds 2")
    monkeypatch.setattr(numbers, "RECIPES", {"small": recipe})
    monkeypatch.setattr(numbers, "EVIDENCE", tmp_path / "evidence")
    monkeypatch.setattr(numbers, "pages", list)

    def renew(machine, seeds, to_run, commit):
        monkeypatch.setattr(numbers, "_commit", lambda: commit)
        numbers.main(["renew", "small", "--out", str(tmp_path / machine), *seeds])
        assert f"small: {to_run} cells to run" in capsys.readouterr().out
        return numbers.load_evidence()["small"]

    first = renew("one", [], 8, "a")
    grown = renew("two", ["--seeds", "5"], 12, "b")
    assert (grown["commit"], grown["seeds"], grown["source"]) == ("a, b", "5", first["source"])
    assert renew("three", [], 0, "c") == grown  # the usual number of seeds: none is thrown away
    (tmp_path / "evidence" / "small.json").unlink()
    at_once = renew("four", ["--seeds", "5"], 20, "a, b")
    assert at_once == grown
    assert [cell["runs"][:2] for cell in grown["cells"]] == [cell["runs"] for cell in first["cells"]]

    of_old = {**grown, "learners": {**grown["learners"], "Random": "another"}}
    of_old["cells"] = [{**cell, "runs": [[0.0, 0]] * 5} for cell in grown["cells"]]
    (tmp_path / "evidence" / "small.json").write_text(json.dumps(of_old))
    mended = renew("five", ["--seeds", "5"], 10, "b")  # those of the learner that has changed
    for cell, before in zip(mended["cells"], grown["cells"], strict=True):
        assert cell == before if cell["who"] == "Random" else cell["runs"] == [[0.0, 0]] * 5
    monkeypatch.setitem(ALL, "small", dataclasses.replace(SMALL, axes={**SMALL.axes, "horizon": [400]}))
    assert renew("six", [], 8, "d")["seeds"] == "2"  # other cells of the same learners


def test_what_a_bench_measures_runs_here_and_says_so(numbers, tmp_path, monkeypatch, capsys):
    ran = []
    bench = types.SimpleNamespace(VARIANTS=["a"], run=lambda *given: ran.append(given))
    monkeypatch.setattr(numbers, "_bench", lambda name: bench)
    monkeypatch.setattr(numbers, "RECIPES", {"parts": numbers.Recipe((), 3, dict, "python bench/b.py", bench="b")})
    monkeypatch.setattr("steadyrank.cli.reproduce.run_shown", lambda *jobs, **where: None)
    for on, said in (("local", ""), ("ray", "parts: bench/b.py runs on this machine, not on ray\n")):
        numbers.renew(["parts"], tmp_path, on, (1, 2))
        assert capsys.readouterr().out == said
    assert ran == [(tmp_path / "parts", 3, ["a"], (1, 2))] * 2


def test_the_leaderboard_is_written_from_evidence(numbers):
    one = {
        "who": "MUCBV", "first": 1, "last": 2, "ratio": 0.5, "half": 0.01, "worst": 2.0, "where": "Swap late, lastfm",
        "quarter": 0.7, "quarter_worst": 3.0, "middle": 0.6, "middle_worst": 2.5,
        "honest": 0.9, "honest_half": 0.02, "recovery": None, "recovered": 3, "ended": 9, "families": {"Swap": 0.5},
    }  # fmt: skip
    evidence = {
        "standings": [one, {**one, "who": "PIE", "recovery": 400.0}],
        "microseconds": {"MUCBV": 4.9, "PIE": 120},
    }
    first, second = numbers.leaderboard_table(evidence).splitlines()[2:]
    assert first.startswith(
        "| 1-2 | `MUCBV` * | 0.50 ± 0.01 | 0.70, 3.00 | 0.60, 2.50 | 2.00 (Swap late, lastfm) | 0.90 ± 0.02 |"
    )
    assert first.endswith("| never (3 of 9) | 4.9 |")
    assert second.startswith("| 1-2 | `PIE` | 0.50 ± 0.01 |")
    assert second.endswith("| 400 (3 of 9) | 120 |")
    assert numbers.leaderboard_families(evidence).splitlines()[2] == "| `MUCBV` * | 0.50 |"


def test_a_changed_number_and_an_unknown_block_are_noticed(numbers):
    evidence = numbers.load_evidence()
    block = "a\n<!-- measured: scorecard -->\nOf 3 claims all hold.\n<!-- end -->\nb\n"
    new = numbers.rewritten(block, evidence)
    assert new.startswith("a\n<!-- measured: scorecard -->\nOf ")
    assert new.endswith("cannot be tested.\n<!-- end -->\nb\n")
    assert numbers.rewritten(new, evidence) == new
    changed = json.loads(json.dumps(evidence))
    changed["reproduce"]["answer"][0] = "Of 3 claims none cannot be tested."
    assert numbers.rewritten(new, changed) != new
    with pytest.raises(ValueError, match="no measured block is called 'nothing'"):
        numbers.rewritten("<!-- measured: nothing -->\n\n<!-- end -->", evidence)


def test_numbers_are_written_as_the_pages_have_them(numbers):
    assert numbers._bias(0.0801, 0.0812) == "+.080 (.081)"
    assert numbers._bias(-0.0004, 0.0153) == "+.000 (.015)"
    assert numbers._bias(-0.1, 0.1) == "-.100 (.100)"
