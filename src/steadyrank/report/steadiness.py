"""The study `matrix` as tables: regret under every attack against that of a learner that never sees a false click."""

from typing import Any

import polars as pl

from ..lab.cells import Cell
from ..studies import matrix
from .tables import finals

SMALL = 20.0  # clicks: what is added to both regrets of a ratio, so that a handful of clicks is not a multiple
_BEST = "CascadeTS (omniscient)"
_SCENARIO = ["profile", "mapping", "users", "adversary", "schedule", "rate"]


def ratios(rows: pl.DataFrame) -> pl.DataFrame:
    """Mean final regret of each learner in each scenario, and its ratios to the omniscient learner's and to Random's.

    `ratio` is plain; `eased` has `SMALL` clicks added to both; `of_random` is (regret - SMALL) / Random's.
    """
    mean = finals(rows).group_by("who", *_SCENARIO, maintain_order=True).agg(pl.col("regret").mean())
    least, chance = (
        mean.filter(pl.col("who") == name).drop("who").rename({"regret": column})
        for name, column in ((_BEST, "least"), ("Random", "random"))
    )
    joined = mean.filter(pl.col("who") != _BEST).join(least, on=_SCENARIO, how="left", maintain_order="left")
    joined = joined.join(chance, on=_SCENARIO, how="left", maintain_order="left")
    return joined.with_columns(
        ratio=pl.col("regret") / pl.col("least"),
        eased=(pl.col("regret") + SMALL) / (pl.col("least") + SMALL),
        of_random=(pl.col("regret") - SMALL) / pl.col("random"),
        scenario=pl.format("{} {} {}%", "adversary", "schedule", (100 * pl.col("rate")).round().cast(pl.Int64)),
    )


def is_served(profile: str, mapping: str) -> bool:
    """Whether nearly every list is clicked there, so that regret is shown in clicks."""
    return {"profile": profile, "mapping": mapping} in matrix.SERVED


def _mean(column: str, which: pl.Expr) -> pl.Expr:
    return pl.col(column).filter(which).log().mean().exp()


def five_profiles(table: pl.DataFrame) -> pl.DataFrame:
    """Every learner over the five profiles and four attacks with which SteadyRank's regimes were made."""
    place = pl.format("{} {} {}", "profile", "mapping", "scenario").str.replace("  ", " ", literal=True)
    held = [f"{p} {a} {t}" for p, attacks in matrix.HELD_OUT.items() for a, whens in attacks.items() for t in whens]
    known = pl.col("adversary").is_in([*matrix.ATTACKS, "Honest"])
    served = pl.struct("profile", "mapping").is_in(matrix.SERVED)
    stretch = (pl.col("rate") > 0) & (pl.col("schedule") != "spread")
    unseen = place.is_in(held)
    return (
        table.filter(known & ~served)
        .group_by("who", maintain_order=True)
        .agg(
            _mean("ratio", stretch).alias("geometric mean"),
            pl.col("ratio").filter(stretch).max().alias("worst cell"),
            _mean("ratio", unseen).alias("held-out cells"),
            pl.col("ratio").filter(unseen).max().alias("worst of these"),
            _mean("ratio", pl.col("rate") == 0).alias("without attack"),
            _mean("ratio", pl.col("schedule") == "spread").alias("spread attacks"),
        )
        .sort("geometric mean")
    )


def all_profiles(table: pl.DataFrame) -> pl.DataFrame:
    """The learners that ran everywhere: over all profiles and attacks, with `SMALL` clicks added to both regrets."""
    names = [Cell(profile="", **who).who for who in matrix.WIDER]
    drawn = [(c["profile"], c.get("mapping", ""), Cell("", "", **_attack(c)).foe, *_when(c)) for c in matrix.unseen()]
    held = pl.DataFrame(drawn, schema=["profile", "mapping", "adversary", "schedule", "rate"], orient="row")
    marked = table.filter(pl.col("who").is_in(names)).join(
        held.with_columns(held=True), on=held.columns, how="left", maintain_order="left"
    )
    slow = pl.col("adversary").is_in(["SlowRamp", "Flicker"])
    spread = pl.col("schedule") == "spread"
    stretch = (pl.col("rate") > 0) & ~slow & ~spread
    unseen = pl.col("held").fill_null(False)
    honest = (pl.col("rate") == 0) & ~pl.struct("profile", "mapping").is_in(matrix.SERVED)
    return (
        marked.group_by("who", maintain_order=True)
        .agg(
            _mean("eased", stretch).alias("in stretches"),
            pl.col("eased").filter(stretch).max().alias("worst cell"),
            _mean("eased", unseen).alias("held-out third"),
            pl.col("eased").filter(unseen).max().alias("worst of these"),
            _mean("eased", stretch & (pl.col("schedule") == "front")).alias("from round 1"),
            _mean("eased", spread).alias("spread"),
            _mean("eased", slow).alias("slow, flickering"),
            _mean("eased", honest).alias("honest, five profiles"),
            pl.col("of_random").max().alias("of Random's, at most"),
        )
        .sort("in stretches")
    )


def attacked(table: pl.DataFrame) -> pl.DataFrame:
    """The learners of the study `attacks`: regret as a multiple of the omniscient learner's, attacked and not."""
    attack = pl.col("rate") > 0
    return (
        table.group_by("who", maintain_order=True)
        .agg(
            _mean("ratio", attack).alias("geometric mean of attacks"),
            pl.col("ratio").filter(attack).max().alias("worst attack"),
            _mean("ratio", ~attack).alias("without attack"),
        )
        .sort("geometric mean of attacks")
    )


def _attack(cell: dict[str, Any]) -> dict[str, Any]:
    return {name: cell[name] for name in ("adversary", "adversary_settings") if name in cell}


def _when(cell: dict[str, Any]) -> tuple[str, float]:
    return cell["schedule"], cell["rate"]
