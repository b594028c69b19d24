"""Exhibits for each kind of study: figures as SVG, tables as frames, captions with the command that made them."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from ..lab import cells
from ..lab.cells import Study
from ..studies import changing_users, click_models, lineup, readings, recovery
from . import figures, standings, steadiness
from .finals import BLOCKS, PAPER, Finals, Lens, best_value, mean
from .paired import all_of, place_of, seeds_in_words
from .sources import world_of
from .tables import by_price, by_rate, by_taste, final_cells, finals, last_quarters
from .verdicts import verdict_of

_BOUNDS = {  # the paper's Table 1, without and with corruption
    "M2UCBV": ("K log T / gap", "K C + K log T / gap"),
    "CascadeUCBV": ("sum log T / gap", "none stated"),
    "CascadeRAC": ("sum d log T log(KT) / gap", "sum d (C K log(KT) + log T) log(KT) / gap"),
    "FORC": ("sum over pairs log T log(KT) / gap", "sum d (C K log(KT) + log T) log(KT) / gap"),
    "CascadeCBARBAR": ("d^2 K log^2 T / gap", "d C + d^2 K log^2 T / gap"),
}
_GROWTH = {
    "T": ("horizon", "rounds T"),
    "K": ("n_items", "items K"),
    "d": ("length", "length d"),
    "C": ("corrupted", "corrupted rounds C"),
}


_READING = "M2UCBV: the block size of the paragraph commented out, practical selection"


@dataclass(frozen=True)
class Exhibit:
    """One figure or one table with its caption."""

    name: str
    caption: str
    svg: str = ""
    table: pl.DataFrame | None = None


def show(study: Study, rows: pl.DataFrame, quick: bool) -> list[Exhibit]:
    """All exhibits of a study from its finished cells; none if no cell is finished."""
    return _SHOWN_AS[study.exhibit](study, rows, quick) if not rows.is_empty() else []


def _command(study: Study, quick: bool, seeds: int = 0) -> str:
    return f"steadyrank reproduce --study {study.name}{f' --seeds {seeds}' if seeds else ''}{' --quick' * quick}"


def _caption(study: Study, rows: pl.DataFrame, quick: bool, what: str, varied: str = "") -> str:
    """Caption with profile, mapping, attack, reading, seeds and command; leaves out the quantity that is `varied`."""
    first = rows.row(0, named=True)
    world = world_of(rows)
    attacks = rows.filter(pl.col("rate") > 0).select("adversary", "schedule").unique().rows()
    counts = set(rows.group_by("who").agg(pl.col("seed").n_unique())["seed"])
    parts = [world.title if varied != "mapping" else f"{world.name}{' (modelled)' * (not first['data'])}"]
    parts += ["no attack" if not attacks else f"{attacks[0][0]}, {attacks[0][1]}"] if len(attacks) < 2 else []
    parts += [f"lists of {first['length']}"] if varied != "length" else []
    parts += [f"{first['horizon']:,} rounds"] if varied != "horizon" else []
    parts += [_READING] if "M2UCBV" in rows["who"] else []
    counted = f"{seeds_in_words(counts)} seed{'s' * (max(counts) > 1)}"
    parts.append(counted if varied == "attack" else f"mean over {counted}, shaded from the lowest to the highest")
    same = max(counts) if len(counts) == 1 else 0
    return f"{what} {'; '.join(parts)}. {_command(study, quick, same)}"


def _rates(study: Study, rows: pl.DataFrame, quick: bool) -> list[Exhibit]:
    out = []
    for (name, mapping), part in finals(rows).group_by("profile", "mapping", maintain_order=True):
        where = f"{study.name}-{name}-{mapping}".rstrip("-")
        size = part["n_items"][0]
        caption = _caption(study, part, quick, f"Final regret{f', {size} of the items' if size else ''}.")
        title = f"{name}, {mapping}" if mapping else str(name)
        out.append(Exhibit(where, caption, svg=figures.rates(where, part, title)))
        out.append(Exhibit(where, caption, table=by_rate(part)))
    return out


def _frontier(study: Study, rows: pl.DataFrame, quick: bool) -> list[Exhibit]:
    """Regret by the number of clicks that may be hidden: a figure and a table for each world."""
    out = []
    hidden = (pl.col("rate") * pl.col("horizon")).round().cast(pl.Int64).alias("hidden")
    for (name, mapping), part in (
        finals(rows).with_columns(hidden).group_by("profile", "mapping", maintain_order=True)
    ):
        where = f"{study.name}-{name}-{mapping}".rstrip("-")
        caption = _caption(study, part, quick, "Regret by the clicks that the attacker may hide.")
        out.append(Exhibit(where, caption, svg=figures.frontier(where, part, f"{name}, {mapping}")))
        out.append(Exhibit(where, caption, table=by_rate(part, "hidden")))
    return out


def _curves(study: Study, rows: pl.DataFrame, quick: bool) -> list[Exhibit]:
    out = []
    for (name, mapping, rate), part in rows.group_by("profile", "mapping", "rate", maintain_order=True):
        where = f"{study.name}-{mapping}-{rate:.0%}".replace("%", "")
        svg = figures.curves(where, part, f"{name}, {mapping}, {rate:.0%} corrupted")
        out.append(
            Exhibit(where, _caption(study, part, quick, f"Regret over the rounds, {rate:.0%} corrupted."), svg=svg)
        )
    return out


def _shares(study: Study, rows: pl.DataFrame, quick: bool) -> list[Exhibit]:
    last, lines = finals(rows), []
    if not {"M2UCBV", "Random"} <= set(last["who"]):
        return []  # not enough of it is finished
    for (_name, mapping), part in last.group_by("profile", "mapping", maintain_order=True):
        world = world_of(part)
        best = best_value(world.attraction, part["length"][0])
        means = dict(part.group_by("who").agg(pl.col("regret").mean()).rows())
        rivals = [means[who] for who in PAPER[1:] if who in means]
        for who in (*BLOCKS.values(), "SteadyRank", "Random"):
            if who in means:
                against = (means[who] + 1) / (min(rivals) + 1) if len(rivals) == len(PAPER) - 1 else None
                lines.append(
                    {
                        "mapping": mapping,
                        "above": 100.0 * float(np.mean(world.attraction > 0.5)),
                        "who": who,
                        "ratio": against if who != "Random" else None,
                        "worth": 100.0 * (1.0 - means[who] / part["horizon"][0] / best),
                    }
                )
    table = pl.DataFrame(lines, schema_overrides={"ratio": pl.Float64}, infer_schema_length=None)
    rate = f"{last['rate'][0]:.0%}"
    text = (
        f"Regret against that of the best of the paper's four rivals, {rate} corrupted, a click added to both, and "
        "what lists are worth, as the sigmoid moves so that more items attract more than half of the users."
    )
    caption = _caption(study, last, quick, text, "mapping")
    svg = figures.shares(study.name, table, f"{last['profile'][0]}, {rate} corrupted")
    return [Exhibit(study.name, caption, svg=svg), Exhibit(study.name, caption, table=_short(table))]


def _search(study: Study, rows: pl.DataFrame, quick: bool) -> list[Exhibit]:
    """One line per reading: M2UCB-V's regret by that of its best rival, and the claims whose verdict changes."""
    final_runs, lines = Finals(rows), []
    judged: dict[str, dict[str, bool | None]] = {}
    for reading in readings.READINGS:
        line: dict[str, str] = {"part": reading.part, "reading": reading.name}
        holds: dict[str, dict[str, bool | None]] = {"clean": {}, "best": {}}
        for mapping in lineup.JUDGED:
            lens = Lens(final_runs, mapping, reading.names(), "", *reading.where(), readings.RATES)
            seen = [lens.at(("yelp-pizza", rate)) for rate in readings.RATES]
            for rate, runs in zip(readings.RATES, seen, strict=True):
                best = max(min(mean(runs[w]) for w in PAPER[1:]), 1e-9) if runs else math.nan
                line[f"{mapping} {rate:.0%}"] = f"{mean(runs['M2UCBV']) / best:.3g}" if runs else "-"
            if all(seen):
                clean, *attacked = (runs for runs in seen if runs)
                holds["clean"][mapping] = place_of("M2UCBV", 2)(clean).truth
                holds["best"][mapping] = all_of(place_of("M2UCBV", 1)(runs).truth for runs in attacked)
        judged = judged or holds
        line["moves"] = _moved(judged, holds) if reading.part != "none" else "-"
        lines.append(line)
    caption = (
        f"{len(readings.READINGS)} readings on Yelp: M2UCBV's regret as a multiple of its best rival's at 0, 10 and "
        "25 %, and the claims that come out otherwise than under the reading judged (clean: among the best two at 0 "
        f"%; best: first at 10 and 25 %). {_command(study, quick)}"
    )
    return [Exhibit(study.name, caption, table=pl.DataFrame(lines))]


def _moved(judged: Mapping[str, Mapping[str, bool | None]], held: Mapping[str, Mapping[str, bool | None]]) -> str:
    words = [
        f"{claim} {verdict_of(now)} ({mapping})"
        for claim, by_mapping in held.items()
        for mapping, now in by_mapping.items()
        if now != judged[claim].get(mapping, now)
    ]
    return "; ".join(words) or "none"


def growth_rows(rows: pl.DataFrame, axis: str, quick: bool) -> pl.DataFrame:
    """The final rows of the growth study in which only this axis differs from its usual value."""
    column = _GROWTH[axis][0]
    last = finals(rows).with_columns(corrupted=(pl.col("rate") * pl.col("horizon")).round())
    usual = {"n_items": 0, "length": 10, "corrupted": 0, "horizon": cells.QUICK_HORIZON if quick else cells.HORIZON}
    for name, value in usual.items():
        if name != column:
            last = last.filter(pl.col(name) == value)
    size = world_of(rows).attraction.size
    return last.with_columns(pl.when(pl.col("n_items") == 0).then(size).otherwise("n_items").alias("n_items"))


def exponent(part: pl.DataFrame, column: str) -> float:
    """The exponent of regret's growth: slope in logarithms; for C, of the regret an attack adds; NaN if unknown."""
    x, mean, _, _ = figures.summary(part, column)
    if column == "corrupted":
        if x.size == 0 or x[0] != 0:
            return float("nan")
        x, mean = x[1:], mean[1:] - mean[0]
    if x.size < 2 or (mean <= 0).any():
        return float("nan")
    return float(np.polyfit(np.log(x), np.log(mean), 1)[0])


def _growth(study: Study, rows: pl.DataFrame, quick: bool) -> list[Exhibit]:
    out, powers = [], {}
    for axis, (column, label) in _GROWTH.items():
        part = growth_rows(rows, axis, quick)
        if part[column].n_unique() < 2:
            continue  # not enough of it is finished to say how it grows
        where = f"{study.name}-{axis}"
        caption = _caption(study, part, quick, f"Final regret against {label}.", column)
        out.append(Exhibit(where, caption, svg=figures.growth(where, part, column, label)))
        powers[axis] = {w[0]: exponent(of, column) for w, of in part.group_by("who", maintain_order=True)}
    table = {"learner": list(_BOUNDS), "bound": [bound for bound, _ in _BOUNDS.values()]}
    table |= {"bound under corruption": [bound for _, bound in _BOUNDS.values()]}
    for axis, exponents in powers.items():
        finite = {name: power for name, power in exponents.items() if not math.isnan(power)}
        table[f"power of {axis}"] = [f"{finite[name]:.2f}" if name in finite else "-" for name in _BOUNDS]
    caption = (
        "Measured powers: regret ~ T^a, K^b, d^c; in C, of the regret that the attack adds ('-': none, or unknown)."
    )
    return [*out, Exhibit(study.name, f"{caption} {_command(study, quick)}", table=pl.DataFrame(table))]


def _errors(study: Study, rows: pl.DataFrame, quick: bool) -> list[Exhibit]:
    out = []
    for (p,), part in rows.filter(pl.col("kind") == "errors").group_by("p", maintain_order=True):
        where, caption = f"{study.name}-{p}", f"An item of attraction {p}. {_command(study, quick)}"
        out.append(Exhibit(where, caption, svg=figures.errors(where, part, f"attraction {p}")))
        words = part.with_columns(value=pl.format("{} ({})", pl.col("bias").round(3), pl.col("rmse").round(3)))
        table = words.pivot("case", index="estimate", values="value", maintain_order=True)
        out.append(Exhibit(where, f"{caption}: bias (root mean square error).", table=table))
    changed = rows.filter(pl.col("kind") == "changed_medians")
    if changed.height:
        text = "Share of the medians of random blocks that change when a tenth of the bits is inverted, and its "
        text += f"standard error. {_command(study, quick)}"
        columns = ["p", "block", "changed", "error"]
        out.append(Exhibit("changed-medians", text, table=_short(changed.select(columns))))
    return out


def _lemmas(study: Study, rows: pl.DataFrame, quick: bool) -> list[Exhibit]:
    columns = {
        "lemma1": ["reading", "samples", "corrupted", "blocks", "size", "tried", "least", "most", "stated"],
        "lemma2": ["bits", "flipped", "p", "bias", "width", "covered", "stated"],
        "lemma3": ["bits", "flipped", "p", "error", "bound", "covered", "stated"],
        "variance": ["b", "excess"],
    }
    texts = {
        "lemma1": "Lemma 1: chance that some block has no honest majority. alpha log s is the number of blocks, or "
        "their size; tried in {:,} partitions; the exact value lies between least and most.",
        "lemma2": "Lemma 2 before g_b is applied, where it does not depend on xi: share of {:,} runs in which the "
        "mean of medians is within its width of q_b(p), a share of the bits inverted at random.",
        "lemma3": "Lemma 3: share of {:,} runs in which the error is within A sqrt(v log t / s) + B log t / s, with "
        "the A and B of its proof; error and bound in the median.",
        "variance": "The step q (1 - q) <= p (1 - p) in the proof of Lemma 3: largest excess over {:,} values of p.",
    }
    out = []
    for kind, names in columns.items():
        part = rows.filter(pl.col("kind") == kind)
        if part.height:
            text = texts[kind].format(part["repetitions"][0])
            out.append(Exhibit(kind, f"{text} {_command(study, quick)}", table=_short(part.select(names))))
    return out


def _short(table: pl.DataFrame) -> pl.DataFrame:
    return table.with_columns(
        pl.col(c).map_elements(lambda x: f"{x:.3g}", return_dtype=pl.String).fill_null("-")
        for c, kind in table.schema.items()
        if kind == pl.Float64
    )


def _by_profile(study: Study, rows: pl.DataFrame, quick: bool, table: pl.DataFrame) -> list[Exhibit]:
    out = []
    for (name, mapping), part in table.group_by("profile", "mapping", maintain_order=True):
        where = f"{study.name}-{name}-{mapping}".rstrip("-")
        there = rows.filter((pl.col("profile") == name) & (pl.col("mapping") == mapping))
        title = f"{name} {mapping}".strip()
        if steadiness.is_nearly_always_clicked(str(name), str(mapping)):
            wide = part.pivot("who", index="scenario", values="regret", maintain_order=True)
            caption = _caption(study, there, quick, "Regret in clicks: nearly every list is clicked here.", "attack")
        else:
            wide = part.pivot("who", index="scenario", values="ratio", maintain_order=True)
            caption = _caption(study, there, quick, "Regret as a multiple of the omniscient learner's.", "attack")
            out.append(Exhibit(where, caption, svg=figures.matrix(where, wide, title)))
        out.append(Exhibit(where, caption, table=_short(wide)))
    return out


def _matrix(study: Study, rows: pl.DataFrame, quick: bool) -> list[Exhibit]:
    table = steadiness.ratios(rows)
    first = (
        "All profiles and attacks. Regret + 20 clicks as a multiple of that of CascadeTS that never sees a false "
        "click, geometric means; the last column is (regret - 20) / Random's. The held-out third is what no choice "
        f"made for the insurance has looked at. {_command(study, quick)}"
    )
    second = (
        "Five profiles, four attacks. Regret as a multiple of that of CascadeTS that never sees a false click; "
        "spread attacks apart. Held-out cells are those that no choice made for SteadyRank's regimes has looked at. "
        f"{_command(study, quick)}"
    )
    tables = [
        Exhibit(study.name, first, table=_short(steadiness.all_profiles(table))),
        Exhibit(f"{study.name}-five", second, table=_short(steadiness.five_profiles(table))),
    ]
    return [*tables, *_by_profile(study, rows, quick, table)]


def _attacks(study: Study, rows: pl.DataFrame, quick: bool) -> list[Exhibit]:
    table = steadiness.ratios(rows)
    text = "Regret as a multiple of that of CascadeTS that never sees a false click; the study matrix has far more."
    text = f"{text} {_command(study, quick)}"
    out = [Exhibit(study.name, text, table=_short(steadiness.attacked(table)))]
    return out + _by_profile(study, rows, quick, table)


def _looking(study: Study, rows: pl.DataFrame, quick: bool) -> list[Exhibit]:
    table, out = steadiness.multiples(rows), []
    worlds = " and ".join(
        " ".join(world).strip() for world in rows.select("profile", "mapping").unique().sort("*").rows()
    )
    made = f"{worlds} (modelled); lists of {rows['length'][0]}; {rows['horizon'][0]:,} rounds. "
    made += _command(study, quick, rows["seed"].n_unique())
    what = "clicks lost, as a multiple of the least that any learner here loses with honest clicks"
    columns = "Columns: what people do with a list; * is told how places are looked at, as 'look at places' do."
    for place, attack in enumerate(click_models.ATTACKS):
        wide = steadiness.by_users(table, attack)
        if not wide.is_empty():
            name, head = f"{study.name}-{place}", f"{attack[0].upper()}{attack[1:]}: {what}."
            text = f"{head} 1 is best; the least of a column is framed. {columns} {made}"
            out.append(Exhibit(name, text, svg=steadiness.picture(name, wide, attack), table=_short(wide)))
    if out:
        out.insert(0, Exhibit(study.name, f"Whom to take: {what}. {made}", table=steadiness.choices(table)))
    return [*out, Exhibit(f"{study.name}-regret", f"Regret in clicks. {made}", table=steadiness.regrets(table))]


def _standings(study: Study, rows: pl.DataFrame, quick: bool) -> list[Exhibit]:
    everybody = standings.standings(rows)
    if not everybody:
        return []  # not enough of it is finished
    text = "Regret over that of CascadeTS that never sees a false click, one click added to both; geometric means "
    made = _command(study, quick, rows["seed"].n_unique())
    return [
        Exhibit(study.name, f"{text}over all attacks, 95 % intervals. {made}", table=standings.as_table(everybody)),
        Exhibit(f"{study.name}-families", f"{text}for each kind. {made}", table=standings.by_family(everybody)),
    ]


def _recovery(study: Study, rows: pl.DataFrame, quick: bool) -> list[Exhibit]:
    """The lasting effect of attacks that ended long ago."""
    quarters = last_quarters(rows, recovery.PRICE_OF)
    if not quarters:
        return []
    text = "Regret of the last quarter of the rounds, and what it may be: 1.5 times what honest users cost, and the "
    caption = f"{text}price of trials. {_command(study, quick, rows['seed'].n_unique())}"
    return [Exhibit(study.name, caption, table=by_price(quarters))]


def _tastes(study: Study, rows: pl.DataFrame, quick: bool) -> list[Exhibit]:
    """Honest users whose taste changes."""
    caption = f"Regret in clicks, 95 % intervals. {_command(study, quick, rows['seed'].n_unique())}"
    return [Exhibit(study.name, caption, table=by_taste(final_cells(rows), changing_users.COLUMNS))]


_SHOWN_AS: dict[str, Callable[[Study, pl.DataFrame, bool], list[Exhibit]]] = {
    "rates": _rates,
    "frontier": _frontier,
    "curves": _curves,
    "shares": _shares,
    "search": _search,
    "growth": _growth,
    "errors": _errors,
    "lemmas": _lemmas,
    "matrix": _matrix,
    "attacks": _attacks,
    "looking": _looking,
    "standings": _standings,
    "recovery": _recovery,
    "tastes": _tastes,
}
