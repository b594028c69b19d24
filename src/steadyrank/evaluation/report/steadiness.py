"""Tables and figures of the studies `matrix` and `click-models`.

`matrix`: regret under every attack, relative to a learner that never sees a false click. `click-models`: which
learner suits which click model.
"""

from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from ..lab.cells import Cell
from ..studies import click_models, matrix
from .figures import panel
from .tables import finals, number

ALL = "all of them"  # the last column: the geometric mean over click models
_WORLD = ["profile", "mapping", "users"]
_LEAST = 1e-9  # clicks


def multiples(rows: pl.DataFrame) -> pl.DataFrame:
    """Mean final regret of each learner by profile, users and attack, and as a `multiple`.

    The multiple is of the least regret of any learner with the same profile and users and honest clicks; null if no
    learner has finished there.
    """
    kind = pl.when(pl.col("rate") == 0).then(pl.lit("")).otherwise("schedule")
    names = {when.get("schedule", ""): words for words, when in click_models.ATTACKS.items()}
    mean = (
        finals(rows)
        .with_columns(attack=kind.replace_strict(names, return_dtype=pl.String))
        .group_by("who", *_WORLD, "attack", maintain_order=True)
        .agg(pl.col("regret").mean())
    )
    honest = mean.filter(pl.col("attack") == next(iter(click_models.ATTACKS)))
    least = honest.group_by(_WORLD).agg(least=pl.col("regret").min().clip(_LEAST))
    joined = mean.join(least, on=_WORLD, how="left", maintain_order="left")
    return joined.with_columns(multiple=pl.col("regret").clip(_LEAST) / pl.col("least"))


def by_users(table: pl.DataFrame, attack: str) -> pl.DataFrame:
    """Geometric means of the multiples over profiles: learners as rows, best first, click models as columns.

    The last column is the mean over click models, null if one is missing; such rows come last.
    """
    there = table.filter(pl.col("attack") == attack, pl.col("multiple").is_not_null())
    if there.is_empty():
        return pl.DataFrame()
    mean = there.group_by("who", "users", maintain_order=True).agg(pl.col("multiple").log().mean().exp())
    wide = mean.pivot("users", index="who", values="multiple", maintain_order=True)
    columns = [name for name in click_models.USERS if name in wide.columns]
    every = pl.concat_list(pl.col(name).log() for name in columns).list.mean().exp()
    full = pl.all_horizontal(pl.col(name).is_not_null() for name in columns)
    with_mean = wide.select("who", *columns).with_columns(pl.when(full).then(every).alias(ALL))
    return with_mean.sort(ALL, nulls_last=True, maintain_order=True)


def choices(table: pl.DataFrame) -> pl.DataFrame:
    """For each click model and attack, the learner with least regret: of all, and of those told nothing of users."""
    lines = []
    for attack in click_models.ATTACKS:
        wide = by_users(table, attack)
        for users in [name for name in click_models.USERS if name in wide.columns]:
            by_learner = {who: m for who, m in wide.select("who", users).rows() if m is not None}
            blind = {who: m for who, m in by_learner.items() if who not in click_models.TOLD_ATTENTION}
            lines.append(
                {
                    "people": f"{click_models.USERS[users]} ({users})",
                    "clicks": attack,
                    "least regret": _named(by_learner),
                    "least, of those told nothing": _named(blind),
                    "SteadyRank": _times(by_learner.get("SteadyRank")),
                    "Random": _times(by_learner.get("Random")),
                }
            )
    return pl.DataFrame(lines)


def regrets(table: pl.DataFrame) -> pl.DataFrame:
    """Mean final regret as text: one row per profile, users and attack, one column per learner."""
    words = pl.col("regret").map_elements(number, return_dtype=pl.String)
    index = [*_WORLD, "attack"]
    wide = table.with_columns(words).pivot("who", index=index, values="regret", maintain_order=True)
    return wide.fill_null("-")


def _named(by_learner: dict[str, float]) -> str:
    who = min(by_learner, key=by_learner.__getitem__, default="")
    return f"{who} {_times(by_learner[who])}" if who else "-"


def _times(multiple: float | None) -> str:
    if multiple is None:
        return "-"
    return f"{multiple:.2f}" if multiple < 9.95 else f"{multiple:,.0f}"


def picture(name: str, wide: pl.DataFrame, title: str) -> str:
    """A heat map of learners by click models: darker for more clicks lost; the least of each column is framed."""
    columns = wide.columns[1:]
    values = wide.select(columns).cast(pl.Float64).to_numpy()
    words = [click_models.USERS.get(column, column) for column in columns]

    def draw(axes: Axes) -> None:
        shown = np.log2(np.clip(values, 1.0, 32.0))
        axes.imshow(shown, cmap="cividis_r", vmin=0, vmax=5, aspect="auto")
        for i, j in np.argwhere(np.isfinite(values)).tolist():
            best = bool(values[i, j] <= np.nanmin(values[:, j]))
            ink, weight = "#FFFFFF" if shown[i, j] > 2.4 else "#000000", "bold" if best else "normal"
            axes.text(j, i, _times(values[i, j]), ha="center", va="center", fontsize=7.5, color=ink, weight=weight)
            if best:
                axes.add_patch(Rectangle((j - 0.48, i - 0.46), 0.96, 0.92, fill=False, color="#D55E00", linewidth=2))
        axes.set_xticks(range(len(columns)), labels=words, rotation=35, ha="right")
        axes.set_yticks(
            range(values.shape[0]),
            labels=[f"{who}{' *' * (who in click_models.TOLD_ATTENTION)}" for who in wide["who"]],
        )
        axes.tick_params(length=0)
        axes.axvline(len(columns) - 1.5, color="#FFFFFF", linewidth=3)
        axes.set_title(title, loc="left")

    return panel(name, draw, height=1.7 + 0.22 * values.shape[0])


SMALL = 20.0  # clicks added to both regrets of a ratio, so that a few clicks do not make a large ratio
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


def is_nearly_always_clicked(profile: str, mapping: str) -> bool:
    """Whether nearly every list is clicked with this profile, so that regret is shown in clicks."""
    return {"profile": profile, "mapping": mapping} in matrix.NEARLY_ALWAYS_CLICKED


def _mean(column: str, which: pl.Expr) -> pl.Expr:
    return pl.col(column).filter(which).log().mean().exp()


def five_profiles(table: pl.DataFrame) -> pl.DataFrame:
    """Every learner over the five profiles and four attacks with which SteadyRank's regimes were developed."""
    place = pl.format("{} {} {}", "profile", "mapping", "scenario").str.replace("  ", " ", literal=True)
    held_out = [
        f"{p} {a} {t}" for p, attacks in matrix.HELD_OUT.items() for a, whens in attacks.items() for t in whens
    ]
    of_four_attacks = pl.col("adversary").is_in([*matrix.ATTACKS, "Honest"])
    served = pl.struct("profile", "mapping").is_in(matrix.NEARLY_ALWAYS_CLICKED)
    stretch = (pl.col("rate") > 0) & (pl.col("schedule") != "spread")
    unseen = place.is_in(held_out)
    return (
        table.filter(of_four_attacks & ~served)
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
    honest = (pl.col("rate") == 0) & ~pl.struct("profile", "mapping").is_in(matrix.NEARLY_ALWAYS_CLICKED)
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
