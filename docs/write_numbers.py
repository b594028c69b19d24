"""The measured tables and sentences of README and docs, from what a run measured.

    python docs/write_numbers.py measure results [STUDY ...]   what finished studies say, into evidence/STUDY.json
    python docs/write_numbers.py                               from evidence/*.json into the pages

A page marks what is written here by `<!-- measured: NAME -->` and `<!-- end -->`; all between is replaced. A file of
evidence holds figures with the command, the sources and the seeds they come from. `tests/test_pages.py` compares
pages with evidence, so no number in a marked place is anybody's memory.
"""

import json
import pathlib
import re
import sys
import textwrap
from collections.abc import Callable
from typing import Any

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


def measure_reproduce(folder: pathlib.Path) -> dict[str, Any]:
    """What the default run says: the answer of the page, the verdicts, the table of estimates."""
    from steadyrank.evaluation.lab.cells import ALL_SEEDS, FIRST_SEEDS, Plan
    from steadyrank.evaluation.lab.results import CellStore
    from steadyrank.evaluation.report.claims import scorecard
    from steadyrank.evaluation.report.page import answer
    from steadyrank.evaluation.report.sources import MODELLED
    from steadyrank.evaluation.report.writing import load
    from steadyrank.evaluation.studies import ALL

    store, plan = CellStore(folder), Plan(FIRST_SEEDS, staged=True)
    rows = {name: load(study, store, plan) for name, study in ALL.items()}
    default = {name: of for name, of in rows.items() if name != "readings"} | {"readings": rows["readings"].clear()}
    claims = scorecard(default, False, MODELLED)
    errors = rows["estimators"]
    errors = errors.filter((errors["kind"] == "errors") & (errors["p"] == 0.1))
    first = "sample mean"
    cases = errors.filter(errors["estimate"] == first)["case"].to_list()
    return {
        **_about(store, "steadyrank reproduce", f"{FIRST_SEEDS}, and {ALL_SEEDS} where a claim needs them"),
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


def measure_finals(study: str, seeds: int) -> Callable[[pathlib.Path], dict[str, Any]]:
    """Final regret of every cell of a study: mean, half of its 95 % interval, what the attacker spent."""

    def measured(folder: pathlib.Path) -> dict[str, Any]:
        import polars as pl

        from steadyrank.comparison.intervals import half_width
        from steadyrank.evaluation.lab.cells import Plan
        from steadyrank.evaluation.lab.results import CellStore
        from steadyrank.evaluation.studies import ALL

        store = CellStore(folder)
        last = store.load(ALL[study].jobs(Plan(seeds))).filter(pl.col("mark") == pl.col("horizon"))
        cells = []
        keys = ["profile", "mapping", "adversary", "rate", "users", "who"]
        for key, of in last.group_by(keys, maintain_order=True):
            values = of["regret"].to_numpy()
            about = dict(zip(keys, key, strict=True))
            cells.append(
                about
                | {"regret": float(values.mean()), "half": float(half_width(values)), "spent": of["spent"].mean()}
            )
        return _about(store, f"steadyrank reproduce --study {study} --seeds {seeds}", str(seeds)) | {"cells": cells}

    return measured


def measure_headline(folder: pathlib.Path) -> dict[str, Any]:
    """SteadyRank's regret over that of a learner that never sees a false click, by group of cells.

    Geometric means over the cells, of each seed apart: their mean with half of its 95 % interval over the seeds. The
    worst cell is the largest ratio of means.
    """
    import numpy as np
    import polars as pl

    from steadyrank.comparison.intervals import half_width
    from steadyrank.evaluation.lab.cells import Plan
    from steadyrank.evaluation.lab.results import CellStore
    from steadyrank.evaluation.studies import ALL, headline

    store = CellStore(folder)
    last = store.load(ALL["headline"].jobs(Plan(headline.SEEDS))).filter(pl.col("mark") == pl.col("horizon"))
    keys = ["profile", "mapping", "adversary", "schedule", "rate"]
    cells = []
    for key, of in last.group_by(keys, maintain_order=True):
        ours, told = (
            of.filter(pl.col("omniscient") == known).sort("seed")["regret"].to_numpy() for known in (False, True)
        )
        cells.append((dict(zip(keys, key, strict=True)), ours, told))
    stretches = [c for c in cells if c[0]["rate"] > 0 and c[0]["schedule"] not in ("spread", "swing")]
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
    command = f"steadyrank reproduce --study headline --seeds {headline.SEEDS}"
    return _about(store, command, str(headline.SEEDS)) | {"groups": rows}


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
            for row in evidence["headline"]["groups"]
        ],
    )


def headline_sentence(evidence: dict[str, Any]) -> str:
    """What README says of the study `headline`."""
    rows = {row["group"]: row for row in evidence["headline"]["groups"]}
    of = evidence["headline"]
    attacked, honest = rows["attacks in stretches"], rows["honest users"]
    text = (
        f"Under {attacked['cells']} attacks in stretches it has {attacked['mean']:.2f} ± {attacked['half']:.2f} "
        f"times the regret of a Thompson sampler that never sees a false click, at most {attacked['worst']:.1f} "
        f"times, and with honest users {honest['mean']:.2f} ± {honest['half']:.2f} times "
        f"([measured](docs/steadyrank.md#measured) with {of['seeds']} seeds by `{of['command']}`)."
    )
    return textwrap.fill(text, 120)


def frontier_table(profile: str) -> Callable[[dict[str, Any]], str]:
    """Regret of each learner of the study `frontier` by the clicks that may be hidden; the least in bold."""

    def table(evidence: dict[str, Any]) -> str:
        cells = [cell for cell in evidence["frontier"]["cells"] if cell["profile"] == profile]
        rates = sorted({cell["rate"] for cell in cells})
        least = {rate: min(cell["regret"] for cell in cells if cell["rate"] == rate) for rate in rates}
        rows: dict[str, list[str]] = {}
        for cell in cells:
            name = cell["who"].replace("revisit=0.0)", "revisit=0)")
            text = f"{cell['regret']:,.0f}"
            best = cell["regret"] == least[cell["rate"]]
            rows.setdefault(name, [f"`{name}`"]).append(f"**{text}**" if best else text)
        return _markdown(["", *(f"{rate * 1e6:,.0f}" for rate in rates)], list(rows.values()))

    return table


def _about(store: Any, command: str, seeds: str) -> dict[str, Any]:
    from steadyrank.evaluation.lab.results import versions

    return {"command": command, "seeds": seeds, "source": store.source, "versions": versions()}


MEASURES: dict[str, Callable[[pathlib.Path], dict[str, Any]]] = {
    "reproduce": measure_reproduce,
    "headline": measure_headline,
    "frontier": measure_finals("frontier", 4),
    "own-settings": measure_finals("own-settings", 10),
    "readings": measure_finals("readings", 3),
}


def sentence(place: int) -> Callable[[dict[str, Any]], str]:
    """One of the sentences with which the report begins."""
    return lambda evidence: textwrap.fill(evidence["reproduce"]["answer"][place], 120)


def estimator_table(evidence: dict[str, Any]) -> str:
    """Bias and error of each estimate of an item of attraction 0.1."""
    table = evidence["reproduce"]["estimators"]
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
        for cell in evidence["own-settings"]["cells"]:
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
        for c in evidence["readings"]["cells"]
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


BLOCKS: dict[str, Callable[[dict[str, Any]], str]] = {
    "scorecard": sentence(0),
    "places": sentence(1),
    "estimators": estimator_table,
    "readings": readings_table,
    "headline": headline_table,
    "headline-sentence": headline_sentence,
    "frontier-yelp": frontier_table("yelp-pizza"),
    "frontier-movielens": frontier_table("movielens"),
    "own-settings-rac": own_settings(
        "synthetic-two-levels", {("", 0.0): "honest", ("Demote", 0.003): "3,000 clicks may be hidden"}, "hidden"
    ),
    "own-settings-forc": own_settings(
        "synthetic-spread", {("", 0.0): "0 %", ("FakeUser", 0.01): "1 %", ("FakeUser", 0.1): "10 %"}
    ),
    "own-settings-cbarbar": own_settings(
        "synthetic-five-items", {("", 0.0): "0 %", ("PrefixFlip", 0.3): "30 %", ("PrefixFlip", 0.4): "40 %"}
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
        return f"{found[1]}{BLOCKS[found[2]](evidence)}\n{found[3]}"

    return _MARKED.sub(block, text)


def load_evidence() -> dict[str, Any]:
    """All files of evidence by name."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(EVIDENCE.glob("*.json"))}


def main(arguments: list[str]) -> None:
    """Measure, or write the pages."""
    if arguments and arguments[0] == "measure":
        folder, *names = arguments[1:]
        EVIDENCE.mkdir(exist_ok=True)
        for name in names or ["reproduce"]:
            content = MEASURES[name](pathlib.Path(folder))
            (EVIDENCE / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        return
    evidence = load_evidence()
    for page in pages():
        text = page.read_text(encoding="utf-8")
        if (new := rewritten(text, evidence)) != text:
            page.write_text(new, encoding="utf-8")
            sys.stdout.write(f"{page.relative_to(ROOT)} rewritten\n")


if __name__ == "__main__":
    main(sys.argv[1:])
