"""How each kind of study is shown: figures as SVG, tables as frames, captions that say what made them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl

from ..cells import Study
from ..profiles import profile
from . import figures
from .tables import by_rate, finals

_BOUNDS = {  # the paper's Table 1, without and with corruption
    "M2UCBV": ("K log T / gap", "K C + K log T / gap"),
    "CascadeUCBV": ("sum log T / gap", "none stated"),
    "FTRL": ("not in the table", "not in the table"),
    "CascadeRAC": ("sum d log T log(KT) / gap", "sum d (C K log(KT) + log T) log(KT) / gap"),
    "CascadeCBARBAR": ("d^2 K log^2 T / gap", "d C + d^2 K log^2 T / gap"),
}
_GROWTH = {
    "T": ("horizon", "rounds T"), "K": ("n_items", "items K"), "d": ("length", "length d"),
    "C": ("corrupted", "corrupted rounds C"),
}  # fmt: skip
_GROWTH_USUAL = {"n_items": 0, "length": 10, "corrupted": 0}


@dataclass(frozen=True)
class Exhibit:
    """One figure or one table with its caption."""

    name: str
    caption: str
    svg: str = ""
    table: pl.DataFrame | None = None


def show(study: Study, rows: pl.DataFrame) -> list[Exhibit]:
    """All exhibits of a study from what is finished of it; none while nothing is."""
    return _VIEWS[study.view](study, rows) if not rows.is_empty() else []


def _caption(study: Study, rows: pl.DataFrame, what: str, varied: str = "") -> str:
    """Profile, mapping, attack, seeds and the command that makes it; what is `varied` is not said."""
    first = rows.row(0, named=True)
    world = profile(first["profile"], first["mapping"] or None)
    parts = {
        "mapping": world.title if varied != "mapping" else f"{world.name} (modelled)",
        "attack": f"{first['adversary']}, {first['schedule']}",
        "length": f"lists of {first['length']}",
        "horizon": f"{first['horizon']:,} rounds",
    }
    shown = "; ".join(text for name, text in parts.items() if name != varied or name == "mapping")
    seeds = rows["seed"].n_unique()
    return (
        f"{what} {shown}; mean and 95 % interval over {seeds} seed{'s' * (seeds > 1)}. "
        f"steadyrank reproduce --study {study.name} --seeds {seeds}"
    )


def _rates(study: Study, rows: pl.DataFrame) -> list[Exhibit]:
    out = []
    for (name, mapping), part in finals(rows).group_by("profile", "mapping", maintain_order=True):
        where = f"{study.name}-{name}-{mapping}"
        title = f"{name}, {mapping}"
        out.append(Exhibit(where, _caption(study, part, "Final regret."), svg=figures.rates(where, part, title)))
        out.append(Exhibit(where, _caption(study, part, "Final regret."), table=by_rate(part)))
    return out


def _curves(study: Study, rows: pl.DataFrame) -> list[Exhibit]:
    out = []
    for (name, mapping, rate), part in rows.group_by("profile", "mapping", "rate", maintain_order=True):
        where = f"{study.name}-{mapping}-{rate:.0%}".replace("%", "")
        svg = figures.curves(where, part, f"{name}, {mapping}, {rate:.0%} corrupted")
        out.append(Exhibit(where, _caption(study, part, f"Regret over the rounds, {rate:.0%} corrupted."), svg=svg))
    return out


def _ranks(study: Study, rows: pl.DataFrame) -> list[Exhibit]:
    last, out = finals(rows), []
    mappings = last["mapping"].unique(maintain_order=True).to_list()
    for (name, rate), part in last.group_by("profile", "rate", maintain_order=True):
        where = f"{study.name}-{name}-{rate:.0%}".replace("%", "")
        caption = _caption(study, part, f"Final regret under each mapping, {rate:.0%} corrupted.", "mapping")
        out.append(Exhibit(where, caption, svg=figures.ranks(where, part, f"{name}, {rate:.0%} corrupted", mappings)))
    table = last.group_by("who", "profile", "mapping", "rate", maintain_order=True).agg(
        pl.col("regret").mean().round(1)
    )
    wide = table.with_columns(
        world=pl.format("{} {} {}%", "profile", "mapping", (100 * pl.col("rate")).cast(pl.Int64))
    )
    pivot = wide.pivot("world", index="who", values="regret", maintain_order=True).rename({"who": "learner"})
    return [*out, Exhibit(study.name, f"Mean final regret. steadyrank reproduce --study {study.name}", table=pivot)]


def growth_rows(rows: pl.DataFrame, axis: str) -> pl.DataFrame:
    """The final rows of the growth study in which only that axis differs from its usual value."""
    column = _GROWTH[axis][0]
    last = finals(rows).with_columns(corrupted=(pl.col("rate") * pl.col("horizon")).round())
    usual = int(last["horizon"].mode().max())  # type: ignore[arg-type]  # a quick run has shorter horizons
    for name, value in {**_GROWTH_USUAL, "horizon": usual}.items():
        if name != column:
            last = last.filter(pl.col(name) == value)
    size = profile(last["profile"][0], last["mapping"][0]).attraction.size
    return last.with_columns(pl.when(pl.col("n_items") == 0).then(size).otherwise("n_items").alias("n_items"))


def exponent(part: pl.DataFrame, column: str) -> float:
    """The power by which regret grows: slope of the logarithms; in C, of what an attack adds to regret."""
    x, mean, _ = figures.summary(part, column)
    if column == "corrupted":
        x, mean = x[1:], mean[1:] - mean[0]
    if x.size < 2 or (mean <= 0).any():
        return float("nan")
    return float(np.polyfit(np.log(x), np.log(mean), 1)[0])


def _growth(study: Study, rows: pl.DataFrame) -> list[Exhibit]:
    if rows["horizon"].n_unique() < 2:
        return []  # not enough of it is finished to say what grows
    out, powers = [], {}
    for axis, (column, label) in _GROWTH.items():
        part = growth_rows(rows, axis)
        if part[column].n_unique() < 2:
            continue
        where = f"{study.name}-{axis}"
        caption = _caption(study, part, f"Final regret against {label}.", column)
        out.append(Exhibit(where, caption, svg=figures.growth(where, part, column, label)))
        powers[axis] = {w[0]: exponent(of, column) for w, of in part.group_by("who", maintain_order=True)}
    learners = [name for name in _BOUNDS if name in next(iter(powers.values()))]
    table = {"learner": learners, "bound": [_BOUNDS[name][0] for name in learners]}
    table |= {"bound under corruption": [_BOUNDS[name][1] for name in learners]}
    for axis, found in powers.items():
        table[f"power of {axis}"] = [
            f"{found[name]:.2f}" if found.get(name, 0) == found.get(name, 0) else "-" for name in learners
        ]
    caption = "Measured powers: regret ~ T^a, K^b, d^c; in C, of the regret that the attack adds. '-': it adds none."
    return [*out, Exhibit(study.name, caption, table=pl.DataFrame(table))]


def _errors(study: Study, rows: pl.DataFrame) -> list[Exhibit]:
    out = []
    for (p,), part in rows.group_by("p", maintain_order=True):
        where, caption = f"{study.name}-{p}", f"An item of attraction {p}. steadyrank reproduce --study {study.name}"
        out.append(Exhibit(where, caption, svg=figures.errors(where, part, f"attraction {p}")))
        words = part.with_columns(value=pl.format("{} ({})", pl.col("bias").round(3), pl.col("rmse").round(3)))
        table = words.pivot("case", index="estimate", values="value", maintain_order=True)
        out.append(Exhibit(where, f"{caption}: bias (root mean square error).", table=table))
    return out


def _lemmas(study: Study, rows: pl.DataFrame) -> list[Exhibit]:
    command = f"steadyrank reproduce --study {study.name}"
    first = rows.filter(pl.col("kind") == "lemma1").select(
        "reading", "samples", "corrupted", "blocks", "size", "tried", "least", "most", "stated"
    )
    second = rows.filter(pl.col("kind") == "lemma2").select(
        "bits", "flipped", "p", "bias", "bound", "covered", "stated"
    )
    texts = (
        "Lemma 1: chance that some block has no honest majority. alpha log s is the number of blocks, or their size; "
        "tried in 2,000 partitions; the exact value lies between least and most.",
        "Lemma 2 with xi = mu: share of 400 runs within the bound, a share of the bits inverted at random.",
    )
    both = (("lemma-1", texts[0], first), ("lemma-2", texts[1], second))
    return [
        Exhibit(name, f"{text} {command}", table=_short(part)) for name, text, part in both if not part.is_empty()
    ]


def _short(table: pl.DataFrame) -> pl.DataFrame:
    return table.with_columns(
        pl.col(c).map_elements(lambda x: f"{x:.3g}", return_dtype=pl.String)
        for c, kind in table.schema.items()
        if kind == pl.Float64
    )


def ratios(rows: pl.DataFrame) -> pl.DataFrame:
    """Mean final regret of each learner in each scenario divided by the omniscient learner's there."""
    scenario = ["profile", "mapping", "adversary", "schedule", "rate"]
    mean = finals(rows).group_by("who", *scenario, maintain_order=True).agg(pl.col("regret").mean())
    best = mean.filter(pl.col("who") == "CascadeTS (omniscient)").drop("who").rename({"regret": "least"})
    joined = mean.filter(pl.col("who") != "CascadeTS (omniscient)").join(best, on=scenario, maintain_order="left")
    return joined.with_columns(ratio=pl.col("regret") / pl.col("least"))


def _matrix(study: Study, rows: pl.DataFrame) -> list[Exhibit]:
    table, out = ratios(rows), []
    named = table.with_columns(
        scenario=pl.format("{} {} {}%", "adversary", "schedule", (100 * pl.col("rate")).round().cast(pl.Int64))
    )
    for (name, mapping), part in named.group_by("profile", "mapping", maintain_order=True):
        where = f"{study.name}-{name}-{mapping}".rstrip("-")
        wide = part.pivot("who", index="scenario", values="ratio", maintain_order=True)
        caption = _caption(
            study, rows.filter((pl.col("profile") == name) & (pl.col("mapping") == mapping)), "Ratios."
        )
        out.append(Exhibit(where, caption, svg=figures.matrix(where, wide, f"{name} {mapping}".strip())))
        out.append(Exhibit(where, caption, table=_short(wide)))
    attacked = pl.col("ratio").filter((pl.col("rate") > 0) & (pl.col("schedule") != "spread"))
    total = table.group_by("who", maintain_order=True).agg(
        attacked.log().mean().exp().alias("geometric mean"), attacked.max().alias("worst cell"),
        pl.col("ratio").filter(pl.col("rate") == 0).log().mean().exp().alias("without attack"),
        pl.col("ratio").filter(pl.col("schedule") == "spread").log().mean().exp().alias("spread attacks"),
    ).sort("geometric mean")  # fmt: skip
    caption = "Regret as a multiple of CascadeTS that never sees a false click; spread attacks apart."
    return [Exhibit(study.name, f"{caption} steadyrank reproduce --study {study.name}", table=_short(total)), *out]


_VIEWS: dict[str, Callable[[Study, pl.DataFrame], list[Exhibit]]] = {
    "rates": _rates, "curves": _curves, "ranks": _ranks, "growth": _growth, "errors": _errors, "lemmas": _lemmas,
    "matrix": _matrix,
}  # fmt: skip
