"""The measured tables and sentences of README and docs, from what a run measured.

    python docs/write_numbers.py renew [NAME ...]            run what is missing, measure it, write the pages
    python docs/write_numbers.py renew NAME --seeds 4        the same with so many seeds; the page says how many
    python docs/write_numbers.py measure FOLDER [NAME ...]   what finished studies say, into evidence/NAME.json
    python docs/write_numbers.py                             from evidence/*.json into the pages

A page marks what is written here by `<!-- measured: NAME -->` and `<!-- end -->`; all between is replaced. A file of
evidence holds figures with the command, the commit, the sources and the seeds they come from, and the version of
every learner, adversary and kind of users. Where final regret is all that a page shows, the file keeps it seed by
seed, so that more seeds can be added later, and on another machine. `tests/test_pages.py` compares pages with
evidence and versions with the sources, so no number in a marked place is anybody's memory, or that of a learner that
has changed since.
"""

import argparse
import dataclasses
import hashlib
import importlib
import itertools
import json
import pathlib
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[1]
EVIDENCE = ROOT / "evidence"
_MARKED = re.compile(r"(<!-- measured: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_READINGS = {  # of the search, those that the page shows
    "as judged": "as judged",
    "appendix: blocks of 15.7 log n bits": "blocks of the appendix, 15.7 log n bits",
    "redrawn every round": "partition redrawn every round, as printed",
    "none": "no calibration",
    "no blocks: the mean": "no blocks, the mean",
    "A = 1, B = 0": "widths A = 1, B = 0",
    "Median-UCB of the paper's source": "Median-UCB of the paper's source",
    "by item number": "ties by item number",
    "FTRL of Zimmert et al.": "FTRL of Zimmert et al.",
    "attractions inverted": "attractions inverted instead of clicks",
}


def measure_reproduce(store: Any, recipe: "Recipe") -> dict[str, Any]:
    """What the default run says: the answer of the page, the verdicts, the table of estimates."""
    from steadyrank.evaluation.report.claims import scorecard
    from steadyrank.evaluation.report.page import answer
    from steadyrank.evaluation.report.sources import MODELLED
    from steadyrank.evaluation.report.writing import load
    from steadyrank.evaluation.studies import ALL

    plan = recipe.plan()
    rows = {name: load(study, store, plan) for name, study in ALL.items()}
    default = {name: of for name, of in rows.items() if name != "readings"} | {"readings": rows["readings"].clear()}
    claims = scorecard(default, False, MODELLED)
    errors = rows["estimators"]
    errors = errors.filter((errors["kind"] == "errors") & (errors["p"] == 0.1))
    first = "sample mean"
    cases = errors.filter(errors["estimate"] == first)["case"].to_list()
    return {
        "answer": answer(default, claims)[:-1],
        "verdicts": {claim.id: {"verdict": claim.verdict, "kind": claim.kind} for claim in claims},
        "estimators": {
            "cases": cases,
            "rows": {
                str(name): [[row["bias"], row["rmse"]] for row in of.rows(named=True)]
                for (name,), of in errors.group_by("estimate", maintain_order=True)
            },
        },
    }


def measure_finals(store: Any, recipe: "Recipe") -> dict[str, Any]:
    """Final regret of every cell of a study; as `runs` of each seed: regret, and what the attacker spent."""
    import polars as pl

    from steadyrank.evaluation.lab.results import with_fields
    from steadyrank.evaluation.report.tables import final_cells, finals

    kept, rows = [], []
    for cell in recipe.jobs():
        runs = recipe.kept.get(fingerprint(cell), [])
        if more := seed_by_seed(cell, len(runs)):
            new = finals(store.load(more)).sort("seed").select("regret", "spent").rows()
            runs = [*runs, *([float(f"{regret:.6g}"), int(spent)] for regret, spent in new)]
        kept.append({"cell": fingerprint(cell), "runs": runs})
        regret, spent = zip(*runs[: cell.seeds], strict=True)
        last = {"seed": range(cell.seeds), "mark": [cell.horizon] * cell.seeds, "regret": regret, "spent": spent}
        rows.append(with_fields(cell, pl.DataFrame(last, schema_overrides={"regret": pl.Float64})))
    cells = [of | runs for of, runs in zip(final_cells(pl.concat(rows)), kept, strict=True)]
    where = ("profile", "mapping", "users", "adversary", "schedule", "rate", "who")
    return {"cells": sorted(cells, key=lambda cell: [cell[of] for of in where])}


def fingerprint(cell: Any) -> str:
    """Twelve digits that change with whatever decides the numbers of a cell, but for code and the number of seeds."""
    from steadyrank.evaluation.lab.cells import identity
    from steadyrank.evaluation.profiles import profile

    fields = json.dumps(identity(dataclasses.replace(cell, first_seed=0, seeds=1)), sort_keys=True)
    attraction = profile(cell.data or cell.profile, cell.mapping).attraction
    return hashlib.sha256(fields.encode() + attraction.tobytes()).hexdigest()[:12]


def seed_by_seed(cell: Any, first: int = 0) -> list[Any]:
    """The cell as one for each of its seeds from `first` on: what is run, so that more seeds can come later."""
    return [dataclasses.replace(cell, first_seed=seed, seeds=1) for seed in range(first, cell.seeds)]


def measure_headline(store: Any, recipe: "Recipe") -> dict[str, Any]:
    """SteadyRank's regret over that of a learner that never sees a false click, by group of cells.

    Geometric means over the cells, of each seed apart: their mean with half of its 95 % interval over the seeds. The
    worst cell is the largest ratio of means.
    """
    import numpy as np
    import polars as pl

    from steadyrank.comparison.intervals import half_width
    from steadyrank.evaluation.report.tables import finals

    last = finals(store.load(recipe.runs()))
    keys = ["profile", "mapping", "adversary", "schedule", "rate"]
    cells = []
    for key, of in last.group_by(keys, maintain_order=True):
        ours, told = (
            of.filter(pl.col("omniscient") == known).sort("seed")["regret"].to_numpy() for known in (False, True)
        )
        cells.append((dict(zip(keys, key, strict=True)), ours, told))
    knowing = [c for c in cells if c[0]["adversary"] == "Insider"]
    others = [c for c in cells if c[0]["rate"] > 0 and c[0]["adversary"] != "Insider"]
    stretches = [c for c in others if c[0]["schedule"] not in ("spread", "swing")]
    groups = {
        "honest users": [c for c in cells if c[0]["rate"] == 0],
        "attacks in stretches": stretches,
        **{
            f"of these, `{name}`": [c for c in stretches if c[0]["adversary"] == name]
            for name in dict.fromkeys(c[0]["adversary"] for c in stretches)
        },
        "of these, from the first round": [c for c in stretches if c[0]["schedule"] == "front"],
        "of these, late or in bursts": [c for c in stretches if c[0]["schedule"] != "front"],
        "15 % spread over all rounds": [c for c in cells if c[0]["schedule"] == "spread"],
        "15 % in a share that swings": [c for c in cells if c[0]["schedule"] == "swing"],
        "`Insider`, who runs its test and stays below its thresholds": knowing,
    }
    rows = []
    for name, of in groups.items():
        logs = np.array([np.log(ours / told) for _, ours, told in of])
        by_seed = np.exp(logs.mean(axis=0))
        worst = max(of, key=lambda c: c[1].mean() / c[2].mean())
        rows.append(
            {
                "group": name,
                "cells": len(of),
                "mean": float(by_seed.mean()),
                "half": float(half_width(by_seed)),
                "worst": float(worst[1].mean() / worst[2].mean()),
                "where": _where(**worst[0]),
            }
        )
    return {"groups": rows}


def _where(profile: str, mapping: str, adversary: str, schedule: str, rate: float) -> str:
    world = f"`{profile}` {mapping}".rstrip()
    return f"{world}, {adversary} {schedule} {rate:.0%}".replace("%", " %") if rate else world


def headline_table(evidence: dict[str, Any]) -> str:
    """The groups of the study `headline`."""
    head = ["", "geometric mean", "worst cell", "cells"]
    return _markdown(
        head,
        [
            [
                row["group"],
                f"{row['mean']:.2f} ± {row['half']:.2f}",
                f"{row['worst']:.2f} ({row['where']})",
                str(row["cells"]),
            ]
            for row in evidence["groups"]
        ],
    )


def headline_sentence(evidence: dict[str, Any]) -> str:
    """What README says of the study `headline`."""
    rows = {row["group"]: row for row in evidence["groups"]}
    attacked, honest = rows["attacks in stretches"], rows["honest users"]
    knowing = next(row for name, row in rows.items() if name.startswith("`Insider`"))
    text = (
        f"Under {attacked['cells']} attacks in stretches it has {attacked['mean']:.2f} ± {attacked['half']:.2f} "
        f"times the regret of a Thompson sampler that never sees a false click, at most {attacked['worst']:.1f} "
        f"times, and with honest users {honest['mean']:.2f} ± {honest['half']:.2f} times. An attacker who runs its "
        f"test and stays below its thresholds makes it {knowing['mean']:.2f} ± {knowing['half']:.2f} times, at most "
        f"{knowing['worst']:.1f} times ([measured](docs/steadyrank.md#measured) with {evidence['seeds']} seeds by "
        f"`{evidence['command']}`)."
    )
    return textwrap.fill(text, 120)


def frontier_table(profile: str) -> Callable[[dict[str, Any]], str]:
    """Regret of each learner of the study `frontier` by the clicks that may be hidden; the least in bold."""

    def table(evidence: dict[str, Any]) -> str:
        cells = [cell for cell in evidence["cells"] if cell["profile"] == profile]
        regret = {(cell["who"], cell["rate"]): cell["regret"] for cell in cells}
        rates, names = sorted({rate for _, rate in regret}), sorted({who for who, _ in regret})
        least = {rate: min(regret[who, rate] for who in names) for rate in rates}
        lines = []
        for who in sorted(names, key=lambda who: ("SteadyRank" not in who, regret[who, rates[-1]])):
            marks = ["**" if regret[who, rate] == least[rate] else "" for rate in rates]
            texts = [f"{mark}{regret[who, rate]:,.0f}{mark}" for rate, mark in zip(rates, marks, strict=True)]
            lines.append([f"`{who}`".replace("=0.0)", "=0)"), *texts])
        return _markdown(["", *(f"{rate * 1e6:,.0f}" for rate in rates)], lines)

    return table


def measure_recovery(store: Any, recipe: "Recipe") -> dict[str, Any]:
    """What is lost in the last quarter of the rounds, long after an attack."""
    from steadyrank.evaluation.report.tables import last_quarters
    from steadyrank.evaluation.studies.recovery import PRICE_OF

    return {"cells": last_quarters(store.load(recipe.runs()), PRICE_OF)}


def recovery_table(evidence: dict[str, Any]) -> str:
    """What is lost in the last quarter of the rounds and what may be: an attack a row."""
    from steadyrank.evaluation.report.tables import by_price

    table = by_price(evidence["cells"])
    heads = [name.replace("=0.0)", "=0)").replace(" may", ", may be") for name in table.columns]
    return _markdown(heads, [list(row) for row in table.rows()])


def frontier_of_boards(evidence: dict[str, Any]) -> str:
    """Where other learners lose less than `SteadyRank` at the price that boards have, and which loses least."""
    from steadyrank.service.board.checks import REVISIT

    ours, lines = f"SteadyRank (revisit={REVISIT})", []
    for world, rate in sorted({(cell["profile"], cell["rate"]) for cell in evidence["cells"]}):
        here = {
            cell["who"]: cell["regret"]
            for cell in evidence["cells"]
            if (cell["profile"], cell["rate"]) == (world, rate)
        }
        less = sorted(
            (who for who in here if "SteadyRank" not in who and here[who] < here[ours]), key=here.__getitem__
        )
        if less:
            others = ", ".join(f"`{who}` {here[who]:,.0f}" for who in less)
            lines.append([f"`{world}`, {rate * 1e6:,.0f} hidden", f"{here[ours]:,.0f}", others])
    return _markdown(["", f"`{ours}`", "others"], lines)


def measure_leaderboard(store: Any, recipe: "Recipe") -> dict[str, Any]:
    """The standings, and microseconds of a round, timed here."""
    from steadyrank.evaluation.lab.runner import microseconds
    from steadyrank.evaluation.report.standings import standings
    from steadyrank.evaluation.studies import leaderboard

    found = standings(store.load(recipe.runs()))
    return {
        "rounds": leaderboard.HORIZON,
        "standings": [one.data() for one in found],
        "microseconds": {one.who: microseconds(leaderboard.timed(one.who)) for one in found},
    }


def measure_ablation(store: Any, recipe: "Recipe") -> dict[str, Any]:
    """What each part of SteadyRank contributes, from the runs that the bench has kept."""
    bench = _bench("ablation")
    return {
        "rounds": bench.HORIZON,
        "rows": bench.summary(store.folder.parent / "ablation", recipe.seeds, bench.VARIANTS),
    }


def ablation_table(evidence: dict[str, Any]) -> str:
    """A variant a row, the kinds of cells as columns: geometric mean, and the worst cell of those under attack."""
    rows = evidence["rows"][1:]  # the first is what the others are multiples of
    heads = {
        "honest": "honest",
        "attacked": "attacks in stretches",
        "places, honest": "people who look at places",
        "places, attacked": "these, attacked",
    }
    lines = []
    for row in rows:
        texts = [f"{row[group]['mean']:.2f} ± {row[group]['half']:.2f}" for group in heads]
        texts.insert(2, f"{row['attacked']['worst']:.1f}")
        lines.append([row["variant"], *texts])
    names = list(heads.values())
    return _markdown(["", *names[:2], "worst of these", *names[2:]], lines)


def _bench(name: str) -> Any:
    """A module of bench/."""
    sys.path.insert(0, str(ROOT / "bench"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.pop(0)


class Recipe(NamedTuple):
    """How a file of evidence is made: of which studies, with how many seeds, and what is kept of them."""

    studies: tuple[str, ...]  # none: those that `reproduce` runs unasked
    seeds: int
    measure: Callable[[Any, "Recipe"], dict[str, Any]]
    command: str = "steadyrank reproduce"
    bench: str = ""  # a module of bench/ that runs instead of studies, and names the cells that it varies
    before: Mapping[str, Any] = {}  # the file as it is
    kept: Mapping[str, list[Any]] = {}  # its runs that are those of today's code, by fingerprint

    def with_seeds(self, seeds: int) -> "Recipe":
        """The same with another number of seeds, which the command then names."""
        if self.plan().staged:
            raise ValueError("--seeds is not for reproduce, which runs as many seeds as its claims need")
        command = re.sub(r" --seeds \d+$", "", self.command)
        return self._replace(seeds=seeds, command=f"{command} --seeds {seeds}")

    def plan(self) -> Any:
        """With how many seeds."""
        from steadyrank.evaluation.lab.cells import Plan

        return Plan(self.seeds, staged=not self.studies and not self.bench)

    def jobs(self) -> list[Any]:
        """The cells and trials, without those that a claim may need later."""
        from steadyrank.evaluation.lab.runner import expand
        from steadyrank.evaluation.studies import find_studies

        if self.bench:
            return list(_bench(self.bench).jobs(self.seeds))
        return expand(find_studies(list(self.studies)), self.plan())

    def runs(self) -> list[Any]:
        """What has to be run: of each cell, seed by seed, what the file does not keep."""
        jobs = self.jobs()
        if self.plan().staged or self.bench:
            return jobs
        return [run for cell in jobs for run in seed_by_seed(cell, len(self.kept.get(fingerprint(cell), ())))]

    def keeping(self, before: Mapping[str, Any]) -> "Recipe":
        """The same with the runs of the file that need not run again, and as many seeds as all cells have there."""
        from code_versions import Code, versions_of

        from steadyrank.evaluation.lab.runner import kind_of

        if self.measure is not measure_finals:
            return self
        there = {cell["cell"]: cell["runs"] for cell in before.get("cells", ()) if "runs" in cell}
        code, same, kept, fewest = Code(), {}, {}, []
        for cell in self.jobs():
            kind, runs = (kind_of(cell), cell.rate > 0), there.get(fingerprint(cell), [])
            if runs and kind not in same:
                now = versions_of([cell], code)
                same[kind] = all(before[of].get(name) == version for of in now for name, version in now[of].items())
            if runs and same[kind]:
                kept[fingerprint(cell)] = runs
            fewest.append(len(runs) if runs and same[kind] else 0)
        recipe = self.with_seeds(min(fewest)) if min(fewest) > self.seeds else self
        return recipe._replace(before=before, kept=kept)

    def about(self, store: Any, commit: str) -> dict[str, Any]:
        """Where figures come from."""
        from code_versions import versions_of

        from steadyrank.evaluation.lab.cells import ALL_SEEDS
        from steadyrank.evaluation.lab.results import versions

        more = f", and {ALL_SEEDS} where a claim needs them" if self.plan().staged else ""
        runs, sources = [*self.runs(), *self.later(store)], [self.before] if self.kept else []
        if runs:
            made = versions() if self.bench else made_with(store, runs)
            sources.append({"source": store.source, "commit": commit, "versions": made})
        return {
            "command": self.command,
            "seeds": f"{self.seeds}{more}",
            **{of: joined(one[of] for one in sources) for of in ("source", "commit")},
            "versions": {of: joined(one["versions"][of] for one in sources) for of in versions()},
            **versions_of(self.jobs()),
        }

    def later(self, store: Any) -> list[Any]:
        """The cells that a claim turned out to need."""
        from steadyrank.evaluation.report.writing import undecided

        return undecided(store, self.plan()) if self.plan().staged else []


def made_with(store: Any, jobs: Iterable[Any]) -> dict[str, str]:
    """The versions that the cells name, which may have run on another machine than this one."""
    from steadyrank.evaluation.lab.results import read

    each = [read(store.path(job))[0]["versions"] for job in jobs]
    return {of: joined(one[of] for one in each) for of in each[0]}


def joined(texts: Iterable[str]) -> str:
    """What figures from several runs say of where they come from: each once."""
    return ", ".join(dict.fromkeys(part for text in texts for part in text.split(", ")))


def _study(name: str, seeds: int, measure: Callable[[Any, Recipe], dict[str, Any]]) -> Recipe:
    return Recipe((name,), seeds, measure, f"steadyrank reproduce --study {name} --seeds {seeds}")


RECIPES = {
    "ablation": Recipe((), 20, measure_ablation, "python bench/ablation.py", bench="ablation"),
    "changing-users": _study("changing-users", 20, measure_finals),
    "frontier": _study("frontier", 4, measure_finals),
    "headline": _study("headline", 20, measure_headline),
    "leaderboard": Recipe(("leaderboard",), 20, measure_leaderboard, "steadyrank leaderboard"),
    "own-settings": _study("own-settings", 20, measure_finals),
    "readings": _study("readings", 20, measure_finals),
    "recovery": _study("recovery", 20, measure_recovery),
    "reproduce": Recipe((), 3, measure_reproduce),
    "schedules": _study("schedules", 20, measure_finals),
}


def sentence(place: int) -> Callable[[dict[str, Any]], str]:
    """One of the sentences with which the report begins."""
    return lambda evidence: textwrap.fill(evidence["answer"][place], 120)


def estimator_table(evidence: dict[str, Any]) -> str:
    """Bias and error of each estimate of an item of attraction 0.1."""
    table = evidence["estimators"]
    head = ["estimate", *table["cases"]]
    lines = [[name, *(_bias(*pair) for pair in row)] for name, row in table["rows"].items()]
    return _markdown(head, lines)


def _bias(bias: float, rmse: float) -> str:
    def short(value: float) -> str:
        return f"{value:.3f}".replace("0.", ".", 1)

    return f"{'-' if round(bias, 3) < 0 else '+'}{short(abs(bias))} ({short(rmse)})"


def own_settings(profile: str, columns: dict[tuple[str, float], str], spent: str = "") -> Callable[..., str]:
    """A table of the rivals in one of their own settings: a learner a row, an attack a column, best first."""

    def table(evidence: dict[str, Any]) -> str:
        found: dict[str, dict[str, dict[str, Any]]] = {}
        for cell in evidence["cells"]:
            attack = ("" if cell["rate"] == 0 else cell["adversary"], round(cell["rate"], 4))
            if cell["profile"] == profile and attack in columns:
                found.setdefault(cell["who"], {})[columns[attack]] = cell
        last = list(columns.values())[-1]
        head = ["learner", *columns.values(), *([spent] if spent else [])]
        lines = []
        for who in sorted(found, key=lambda who: found[who][last]["regret"]):
            cells = [found[who][column] for column in columns.values()]
            line = [f"`{who}`", *(f"{cell['regret']:,.0f} ± {cell['half']:,.0f}" for cell in cells)]
            lines.append([*line, f"{cells[-1]['spent']:,.0f}"] if spent else line)
        return _markdown(head, lines)

    return table


def readings_table(evidence: dict[str, Any]) -> str:
    """M2UCB-V's regret on Yelp at 10 % as a multiple of its best rival's, some of the readings."""
    from steadyrank.evaluation.report.finals import PAPER
    from steadyrank.evaluation.studies import lineup, readings

    mean = {
        (c["who"], c["mapping"], round(c["rate"], 4), c["adversary"], c["users"]): c["regret"]
        for c in evidence["cells"]
    }
    lines = []
    for reading in readings.READINGS:
        if reading.name in _READINGS:
            names, where = reading.names(), reading.where()
            line = [_READINGS[reading.name]]
            for mapping in lineup.JUDGED:
                regret = {who: mean[names[who], mapping, 0.1, *where] for who in PAPER}
                line.append(f"{regret['M2UCBV'] / min(regret[who] for who in PAPER[1:]):.2f}")
            lines.append(line)
    return _markdown(["reading", *(f"{mapping} 10 %" for mapping in lineup.JUDGED)], lines)


def _markdown(head: list[str], lines: list[list[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def schedules_table(evidence: dict[str, Any]) -> str:
    """Regret of each learner by when the false visits come, least with honest users first."""
    from steadyrank.evaluation.studies.schedules import WHEN

    columns = {"honest": "honest"} | WHEN
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for cell in evidence["cells"]:
        found.setdefault(cell["who"], {})[cell["schedule"] if cell["rate"] else "honest"] = cell
    order = sorted(found, key=lambda who: found[who]["honest"]["regret"])
    lines = [
        [f"`{who}`", *(f"{found[who][at]['regret']:,.0f} ± {found[who][at]['half']:,.0f}" for at in columns)]
        for who in order
    ]
    return _markdown(["learner", *columns.values()], lines)


def changing_users_table(evidence: dict[str, Any]) -> str:
    """Regret of each learner while taste jumps or drifts, in two worlds."""
    from steadyrank.evaluation.report.tables import by_taste
    from steadyrank.evaluation.studies.changing_users import COLUMNS

    table = by_taste(evidence["cells"], COLUMNS)
    return _markdown(table.columns, [[f"`{row[0]}`", *row[1:]] for row in table.rows()])


def leaderboard_table(evidence: dict[str, Any]) -> str:
    """The standings, a row a learner."""
    from steadyrank.evaluation.report.standings import Standing, as_table

    table = as_table([Standing(**one) for one in evidence["standings"]], evidence["microseconds"])
    told = _told(table["learner"].to_list())
    return _markdown(table.columns, [[row[0], told[row[1]], *row[2:]] for row in table.rows()])


def leaderboard_families(evidence: dict[str, Any]) -> str:
    """The standings for each kind of attack."""
    from steadyrank.evaluation.report.standings import Standing, by_family

    table = by_family([Standing(**one) for one in evidence["standings"]])
    told = _told(table["learner"].to_list())
    return _markdown(table.columns, [[told[row[0]], *row[1:]] for row in table.rows()])


def _told(names: list[str]) -> dict[str, str]:
    """Learners as the leaderboard names them: with a star if they are told how many rounds may be corrupted."""
    from steadyrank.evaluation.studies.leaderboard import TOLD_BUDGET

    return {name: f"`{name}`{' *' * (name in TOLD_BUDGET)}" for name in names}


class Block(NamedTuple):
    """What stands between two marks of a page: of which evidence, and whether a line below says where it is from."""

    evidence: str
    write: Callable[[dict[str, Any]], str]
    signed: bool = True

    def text(self, evidence: dict[str, Any]) -> str:
        """The block; in its place the command that measures it while there is no evidence."""
        if self.evidence not in evidence:
            return f"*Not measured yet: `make evidence ONLY={self.evidence}` does it.*"
        of = evidence[self.evidence]
        return self.write(of) + (f"\n\n{_signature(of)}" if self.signed else "")


def _signature(of: dict[str, Any]) -> str:
    """Where figures come from, and what has changed since."""
    text = f"Measured at commit {of['commit']} by `{of['command']}` (seeds: {of['seeds']})."
    if behind := of.get("behind"):
        text += f" Changed since: {', '.join(f'`{name}` ({why})' for name, why in behind.items())}."
    return textwrap.fill(text, 120, break_on_hyphens=False)


BLOCKS = {
    "ablation": Block("ablation", ablation_table),
    "scorecard": Block("reproduce", sentence(0), signed=False),
    "places": Block("reproduce", sentence(1), signed=False),
    "estimators": Block("reproduce", estimator_table),
    "readings": Block("readings", readings_table),
    "headline": Block("headline", headline_table),
    "headline-sentence": Block("headline", headline_sentence, signed=False),
    "frontier-yelp": Block("frontier", frontier_table("yelp-pizza"), signed=False),
    "frontier-movielens": Block("frontier", frontier_table("movielens")),
    "frontier-boards": Block("frontier", frontier_of_boards, signed=False),
    "recovery": Block("recovery", recovery_table),
    "leaderboard": Block("leaderboard", leaderboard_table),
    "leaderboard-families": Block("leaderboard", leaderboard_families),
    "schedules": Block("schedules", schedules_table),
    "changing-users": Block("changing-users", changing_users_table),
    "own-settings-rac": Block(
        "own-settings",
        own_settings(
            "synthetic-two-levels", {("", 0.0): "honest", ("Demote", 0.003): "3,000 clicks may be hidden"}, "hidden"
        ),
    ),
    "own-settings-forc": Block(
        "own-settings",
        own_settings("synthetic-spread", {("", 0.0): "0 %", ("FakeUser", 0.01): "1 %", ("FakeUser", 0.1): "10 %"}),
    ),
    "own-settings-cbarbar": Block(
        "own-settings",
        own_settings(
            "synthetic-five-items", {("", 0.0): "0 %", ("PrefixFlip", 0.3): "30 %", ("PrefixFlip", 0.4): "40 %"}
        ),
    ),
}


def pages() -> list[pathlib.Path]:
    """README and all pages of docs."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def rewritten(text: str, evidence: dict[str, Any]) -> str:
    """A page with every marked place as the evidence has it."""

    def block(found: re.Match[str]) -> str:
        if found[2] not in BLOCKS:
            raise ValueError(f"no measured block is called {found[2]!r}; there are {', '.join(sorted(BLOCKS))}")
        return f"{found[1]}{BLOCKS[found[2]].text(evidence)}\n{found[3]}"

    return _MARKED.sub(block, text)


def outside(text: str) -> list[str]:
    """The first lines of the tables of a page that hold measurements and stand in no marked place.

    A table holds measurements if at least a third of its cells, but for the first column, begin with a number.
    """
    plain = re.sub(r"^```.*?^```", "", _MARKED.sub("", text), flags=re.DOTALL | re.MULTILINE)
    found = []
    for head, body in re.findall(r"^(\|.*\|)\n\|[-:| ]+\|\n((?:\|.*\|\n?)+)", plain, re.MULTILINE):
        cells = [cell.strip() for row in body.splitlines() for cell in row.strip("|").split("|")[1:]]
        if 3 * sum(bool(re.match(r"[*+-]*[.\d]", cell)) for cell in cells) >= max(len(cells), 1):
            found.append(head)
    return found


def load_evidence() -> dict[str, Any]:
    """All files of evidence by name."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(EVIDENCE.glob("*.json"))}


def changed(evidence: dict[str, Any], now: dict[str, dict[str, str]]) -> list[str]:
    """What has another version than the evidence: learners first, then what they met."""
    return [
        name for kind in ("learners", "world") for name, of in evidence[kind].items() if now[kind].get(name) != of
    ]


def write_pages() -> None:
    """Every page with what the evidence says."""
    evidence = load_evidence()
    for page in pages():
        text = page.read_text(encoding="utf-8")
        if (new := rewritten(text, evidence)) != text:
            page.write_text(new, encoding="utf-8")
            sys.stdout.write(f"{page.relative_to(ROOT)} rewritten\n")


def measure(folder: pathlib.Path, names: Iterable[str], commit: str, seeds: int | None = None) -> None:
    """Write what the finished cells of a folder say; refused where one is missing. `seeds`: None, the usual ones."""
    from steadyrank.evaluation.lab.results import CellStore

    EVIDENCE.mkdir(exist_ok=True)
    store = CellStore(folder)
    for name in names:
        recipe = _recipe(name, seeds)
        missing = [] if recipe.bench else [run for run in recipe.runs() if not store.path(run).exists()]
        if missing:
            raise ValueError(f"{folder} lacks {len(missing):,} cells of {name}, made by source {store.source}")
        content = recipe.about(store, commit) | recipe.measure(store, recipe)
        numbers = re.compile(r"\[[-\s\d.,e+\[\]]+\]")  # on one line
        text = numbers.sub(lambda found: re.sub(r"\s", "", found[0]), json.dumps(content, indent=1))
        (EVIDENCE / f"{name}.json").write_text(text + "\n", encoding="utf-8")
        sys.stdout.write(f"evidence/{name}.json written\n")


def renew(names: list[str], folder: pathlib.Path, on: str, part: tuple[int, int], seeds: int | None = None) -> None:
    """Run the cells that are missing, measure, and write the pages.

    `part`: (k, n), to run the k-th of n parts of the cells with one thread, and no more: for n processes. `seeds`:
    None, the usual ones. Of a cell run only the seeds that neither the file of evidence nor the folder has.
    """
    from steadyrank.cli.reproduce import run_shown
    from steadyrank.core.compiling.jit import told_of_compiling
    from steadyrank.evaluation.lab.costs import in_words
    from steadyrank.evaluation.lab.results import CellStore

    store, bars = CellStore(folder), []
    known = load_evidence().get("leaderboard", {}).get("microseconds")
    recipes = {name: _recipe(name, seeds) for name in names}
    runs = {name: recipe.runs() for name, recipe in recipes.items() if not recipe.bench}
    jobs = a_part(list(itertools.chain.from_iterable(runs.values())), *part)
    mine = {store.path(job) for job in jobs if not store.path(job).exists()}
    for name, of in runs.items():
        sys.stdout.write(f"{name}: {in_words([run for run in of if store.path(run) in mine], known)}\n")
    sys.stdout.flush()
    whole = part == (1, 1)
    with told_of_compiling(lambda begins: bars[-1].compiling(begins) if bars else None):
        run_shown(jobs, store, bars, on=on, n_workers=None if whole else 1)
        if "reproduce" in names and whole:
            run_shown(recipes["reproduce"].later(store), store, bars, on=on)
        for name in names:
            if bench := recipes[name].bench:
                if on != "local":  # a cluster is sent the package alone
                    sys.stdout.write(f"{name}: bench/{bench}.py runs on this machine, not on {on}\n")
                module = _bench(bench)
                module.run(folder / name, recipes[name].seeds, module.VARIANTS, part)
        if whole:
            measure(folder, names, _commit(), seeds)
            write_pages()


def a_part(jobs: Sequence[Any], part: int, parts: int) -> list[Any]:
    """The `part`-th of so many parts that take about as long, from 1: for as many processes.

    Jobs that run the same compiled code stay together, so that one process compiles it, as far as they take no longer
    than half of a fair share.
    """
    from steadyrank.evaluation.lab.costs import COMPILING, seconds
    from steadyrank.evaluation.lab.runner import kind_of

    most = 0.5 * seconds(jobs)[0] / parts
    groups: list[tuple[float, list[Any]]] = []
    for _, of in itertools.groupby(sorted(jobs, key=lambda job: repr(kind_of(job))), key=kind_of):
        groups.append((COMPILING, []))
        for job in of:
            took = seconds([job])[0]
            if groups[-1][1] and groups[-1][0] + took > most + COMPILING:
                groups.append((COMPILING, []))
            groups[-1] = groups[-1][0] + took, [*groups[-1][1], job]
    load: list[tuple[float, list[Any]]] = [(0.0, [])] * parts
    for took, of_group in sorted(groups, key=lambda group: -group[0]):
        least = min(range(parts), key=lambda k: load[k][0])
        load[least] = load[least][0] + took, load[least][1] + of_group
    return load[part - 1][1]


def _recipe(name: str, seeds: int | None) -> Recipe:
    if name not in RECIPES:
        raise ValueError(f"no evidence is called {name!r}; there are {', '.join(RECIPES)}")
    recipe = RECIPES[name] if seeds is None else RECIPES[name].with_seeds(seeds)
    return recipe.keeping(load_evidence().get(name, {}))


def _commit() -> str:
    """The commit of the checkout, marked where its sources are not those of the commit; `unknown` outside of git."""

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        return git("rev-parse", "--short", "HEAD") + (" and changes" if git("status", "--short", "src") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _seeds(text: str) -> int:
    if not re.fullmatch(r"\d{1,4}", text) or int(text) < 2:
        raise argparse.ArgumentTypeError(f"must be a whole number from 2 to 9,999, for intervals, not {text!r}")
    return int(text)


def _part(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise argparse.ArgumentTypeError(f"must be K/N with K from 1 to N, such as 3/16, not {text!r}")
    return int(found[1]), int(found[2])


def main(arguments: list[str]) -> None:
    """Renew, measure, or write the pages."""
    parser = argparse.ArgumentParser(description="The measured tables and sentences of README and docs.")
    orders = parser.add_subparsers(dest="order", metavar="ORDER")
    sub = orders.add_parser("renew", help="run what is missing, measure it, write the pages; safe to interrupt")
    sub.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(RECIPES)} (default: all)")
    sub.add_argument("--out", type=pathlib.Path, default=ROOT / "results", help="folder of the cells")
    sub.add_argument("--on", default="local", help="local, ray, or ray://HOST of a Ray cluster")
    sub.add_argument("--seeds", type=_seeds, help="instead of the usual number, which the page then says")
    sub.add_argument("--part", type=_part, default=(1, 1), metavar="K/N", help="run one part of the cells, no more")
    sub = orders.add_parser("measure", help="write evidence from finished cells")
    sub.add_argument("folder", type=pathlib.Path)
    sub.add_argument("names", nargs="*", metavar="NAME", default=["reproduce"])
    sub.add_argument("--commit", help="where the sources come from, if this is no checkout")
    sub.add_argument("--seeds", type=_seeds, help="with how many the cells were run, if not the usual number")
    options = parser.parse_args(arguments)
    if options.order == "renew":
        renew(options.names or list(RECIPES), options.out, options.on, options.part, options.seeds)
    elif options.order == "measure":
        measure(options.folder, options.names, options.commit or _commit(), options.seeds)
    else:
        write_pages()


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except ValueError as error:
        sys.exit(f"write_numbers: {error}")
    except KeyboardInterrupt:
        sys.exit("interrupted: finished cells are kept")
