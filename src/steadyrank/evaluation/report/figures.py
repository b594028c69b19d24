"""Draw frames of results as small panels, each readable on a phone."""

import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
import polars as pl

matplotlib.use("Agg")
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .style import INK, line_style

_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.size": 8.5,
    "font.family": "sans-serif",
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9,
    "legend.frameon": False,
    "legend.fontsize": 7.5,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
}
_WIDTH = 5.2  # inches: 500 pixels in a browser
_HEIGHT = 3.3
_LEAST = 0.1  # clicks: lower end of a logarithmic axis


def panel(name: str, draw: Callable[[Axes], None], *, height: float = _HEIGHT, width: float = _WIDTH) -> str:
    """One panel as SVG text; the same input gives the same bytes."""
    return panels(name, lambda axes: draw(axes[0]), rows=1, height=height, width=width)


def panels(
    name: str, draw: Callable[[Sequence[Axes]], None], *, rows: int, height: float, width: float = _WIDTH
) -> str:
    """Stacked panels that share their horizontal axis, as one SVG text."""
    with matplotlib.rc_context({**_STYLE, "svg.hashsalt": name}):
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(np.atleast_1d(figure.subplots(rows, 1, sharex=True)).tolist())
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": "steadyrank"})
    text = out.getvalue()
    return text[text.index("<svg") :].replace(INK, "currentColor")


def name_ends(axes: Axes, ends: Mapping[str, tuple[float, str]], height: float) -> None:
    """Label each line at its end (a value and a colour), moving labels apart where they would overlap.

    Call it when the axis limits are final; `height` is that of the panel in inches.
    """
    gap = 0.145 / height
    to_axes = axes.transData + axes.transAxes.inverted()
    x = axes.get_xlim()[1]
    wanted = sorted((float(to_axes.transform((x, value))[1]), who) for who, (value, _) in ends.items())
    places = [min(max(y, 0.0), 1.0) for y, _ in wanted]
    for _ in range(200):  # move neighbours apart until all have room
        moved = False
        for i in range(len(places) - 1):
            lack = gap - (places[i + 1] - places[i])
            if lack > 1e-6:
                places[i] -= lack / 2
                places[i + 1] += lack / 2
                moved = True
        if not moved:
            break
    for (y, who), place in zip(wanted, places, strict=True):
        colour = ends[who][1]
        axes.plot([1.0, 1.03], [y, place], transform=axes.transAxes, color=colour, linewidth=0.7, clip_on=False)
        axes.text(1.04, place, who, transform=axes.transAxes, color=colour, fontsize=7, va="center")


def variants(names: Sequence[str]) -> list[str]:
    """The names that belong to a learner with several settings."""
    plain = [name.partition(" (")[0] for name in names]
    return [n for n, p in zip(names, plain, strict=True) if plain.count(p) > 1 and not n.endswith("(omniscient)")]


def summary(rows: pl.DataFrame, by: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Values of `by`, and at each the mean, lowest and highest regret over seeds."""
    regret = pl.col("regret")
    table = rows.group_by(by).agg(mean=regret.mean(), low=regret.min(), high=regret.max()).sort(by)
    return table[by].to_numpy(), table["mean"].to_numpy(), table["low"].to_numpy(), table["high"].to_numpy()


def _lines(
    axes: Axes, rows: pl.DataFrame, by: str, *, scale: float = 1.0, markers: bool = True
) -> dict[str, tuple[float, str]]:
    """Draw one line per learner; returns the last value and the colour of each."""
    names, ends = rows["who"].unique(maintain_order=True).to_list(), {}
    for who in names:
        x, mean, low, high = summary(rows.filter(pl.col("who") == who), by)
        style = line_style(who, variants(names))
        marker = style.marker if markers else ""
        mean = np.maximum(mean, _LEAST)
        axes.plot(scale * x, mean, style.dash, color=style.colour, marker=marker, markersize=4, linewidth=style.width)
        axes.fill_between(
            scale * x, np.maximum(low, _LEAST), np.maximum(high, _LEAST), color=style.colour, alpha=0.15, linewidth=0
        )
        ends[who] = (float(mean[-1]), style.colour)
    return ends


def log_axis(axes: Axes, values: Sequence[float], least: float = _LEAST) -> None:
    """Make the vertical axis logarithmic, with plain numbers as tick labels; it ends near `least` clicks."""
    low, high = 0.75 * max(min(values, default=1.0), least), 1.35 * max([*values, 10.0 * least])
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1,) if math.log10(high / low) > 2.5 else (1, 2, 5)
    ticks = [step * 10.0**power for power in powers for step in steps if low <= step * 10.0**power <= high]
    axes.set_yticks(ticks, labels=[f"{tick:,.10g}" for tick in ticks])
    axes.set_yticks([], minor=True)
    axes.grid(alpha=0.2)


def _regret_axis(axes: Axes, rows: pl.DataFrame, by: Sequence[str] = ("who", "rate"), early: float = 1.0) -> None:
    last = rows.filter(pl.col("mark") == pl.col("horizon"))
    means = last.group_by(by).agg(pl.col("regret").mean())
    values = means["regret"].to_list()
    log_axis(axes, [*values, *([early * min(values)] if values else [])])
    axes.set_ylabel("regret: clicks lost")


def rates(name: str, rows: pl.DataFrame, title: str) -> str:
    """Final regret against the share of corrupted rounds."""

    def draw(axes: Axes) -> None:
        ends = _lines(axes, rows, "rate", scale=100)
        _regret_axis(axes, rows)
        axes.set_title(title, loc="left")
        axes.set_xlabel("corrupted rounds, %")
        axes.set_xticks(sorted(100 * rate for rate in rows["rate"].unique()))
        name_ends(axes, ends, _HEIGHT)

    return panel(name, draw)


def curves(name: str, rows: pl.DataFrame, title: str) -> str:
    """Regret over the rounds, with the corrupted ones shaded."""

    def draw(axes: Axes) -> None:
        ends = _lines(axes, rows, "mark", markers=False)
        _regret_axis(axes, rows, early=0.1)
        end = float(rows["rate"][0]) * int(rows["horizon"][0])
        axes.axvspan(0, end, color=INK, alpha=0.08, linewidth=0)
        axes.set_title(title, loc="left")
        axes.set_xlabel("round (shaded: corrupted)")
        axes.set_xlim(0, int(rows["horizon"][0]))
        ticks = [int(rows["horizon"][0]) * i // 4 for i in range(5)]
        axes.set_xticks(ticks, labels=[f"{tick:,}" for tick in ticks])
        name_ends(axes, ends, _HEIGHT)

    return panel(name, draw)


def shares(name: str, table: pl.DataFrame, title: str) -> str:
    """Ratios of M2UCB-V's regret to its best rival's, and below them the value of lists, against `above`.

    `above`: percentage of items that attract more than half of the users. Columns `ratio` and `worth` by `who`, the
    latter in percent of the best list's value.
    """

    def draw(both: Sequence[Axes]) -> None:
        upper, lower = both
        for axes, column in ((upper, "ratio"), (lower, "worth")):
            ends, part = {}, table.drop_nulls(column)
            names = part["who"].unique(maintain_order=True).to_list()
            for who in names:
                line = part.filter(pl.col("who") == who).sort("above")
                style = line_style(who, variants(names))
                axes.plot(
                    line["above"],
                    line[column],
                    style.dash,
                    color=style.colour,
                    marker=style.marker,
                    markersize=4.5,
                    linewidth=style.width,
                )
                ends[who] = (float(line[column][-1]), style.colour)
            if column == "ratio":
                log_axis(axes, part[column].to_list(), 0.001)
                axes.axhline(1.0, color=INK, linewidth=0.8)
            axes.grid(alpha=0.2)
            name_ends(axes, ends, 2.1)
        upper.set_ylabel("(regret + 1) /\n(best rival's + 1)")
        upper.set_title(title, loc="left")
        lower.set_ylabel("value of its lists,\n% of the best list's")
        lower.set_xlabel("items that attract more than half of the users, %")

    return panels(name, draw, rows=2, height=4.9)


def growth(name: str, rows: pl.DataFrame, by: str, label: str) -> str:
    """Final regret against one quantity, on a logarithmic axis if that is never 0."""

    def draw(axes: Axes) -> None:
        ends = _lines(axes, rows, by)
        _regret_axis(axes, rows, ("who", by))
        ticks = sorted(rows[by].unique())
        if ticks[0] > 0:
            axes.set_xscale("log", base=2)
        axes.set_xticks(ticks, labels=[f"{tick:,.0f}" for tick in ticks])
        axes.set_xticks([], minor=True)
        axes.set_title(label, loc="left")
        name_ends(axes, ends, _HEIGHT)

    return panel(name, draw)


def frontier(name: str, rows: pl.DataFrame, title: str) -> str:
    """Final regret against the clicks that the attacker may hide, `hidden`; linear up to the least above 0."""

    def draw(axes: Axes) -> None:
        ends = _lines(axes, rows, "hidden")
        _regret_axis(axes, rows, ("who", "hidden"))
        ticks = sorted(rows["hidden"].unique())
        axes.set_xscale("symlog", linthresh=ticks[1] if len(ticks) > 1 else 1)
        axes.set_xticks(ticks, labels=[f"{tick:,.0f}" for tick in ticks])
        axes.set_xticks([], minor=True)
        axes.set_xlabel("clicks that the attacker may hide")
        axes.set_title(title, loc="left")
        name_ends(axes, ends, 1.4 * _HEIGHT)

    return panel(name, draw, height=1.4 * _HEIGHT)


def errors(name: str, rows: pl.DataFrame, title: str) -> str:
    """Bias of each estimate in each case, with its root mean square error as an error bar."""
    cases = rows["case"].unique(maintain_order=True).to_list()
    colours = ["#0072B2", "#E69F00", "#D55E00", "#882255", "#6A3D9A", "#CC79A7", "#9A7B2F", "#009E73", "#117733"]
    colours += ["#56B4E9"]

    def draw(axes: Axes) -> None:
        for i, (estimate, of) in enumerate(rows.group_by("estimate", maintain_order=True)):
            x = np.arange(len(cases)) + 0.08 * (i - 4.5)
            axes.plot(
                x,
                of["bias"],
                linestyle="",
                marker="ov^<>sPXpd"[i],
                color=colours[i],
                markersize=4.5,
                label=estimate[0],
            )
            axes.vlines(
                x, of["bias"] - of["rmse"], of["bias"] + of["rmse"], color=colours[i], alpha=0.35, linewidth=1
            )
        axes.axhline(0.0, color=INK, linewidth=0.8)
        axes.set_xticks(range(len(cases)), labels=[re.sub(" (?=[0-9]+ %)", "\n", case) for case in cases])
        axes.set_ylabel("bias (bar: root mean square error)")
        axes.set_title(title, loc="left")
        axes.grid(alpha=0.2, axis="y")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=1, handlelength=2.6)

    return panel(name, draw, height=5.4)


def matrix(name: str, ratios: pl.DataFrame, title: str) -> str:
    """Ratios as a heat map: scenarios as rows, learners as columns; blank if a learner did not run."""
    learners = [column for column in ratios.columns if column != "scenario"]
    values = ratios.select(learners).cast(pl.Float64).to_numpy()

    def draw(axes: Axes) -> None:
        shown = np.log2(np.clip(values, 0.5, 32.0))
        axes.imshow(shown, cmap="cividis_r", vmin=-1, vmax=5, aspect="auto")
        for i, j in np.argwhere(np.isfinite(values)).tolist():
            axes.text(
                j,
                i,
                f"{values[i, j]:.{2 if values[i, j] < 9.95 else 0}f}",
                ha="center",
                va="center",
                fontsize=6,
                color="#FFFFFF" if shown[i, j] > 2 else "#000000",
            )
        axes.set_xticks(range(len(learners)), labels=learners, rotation=40, ha="right")
        axes.set_yticks(range(values.shape[0]), labels=ratios["scenario"].to_list())
        axes.set_title(title, loc="left")

    return panel(name, draw, height=1.4 + 0.2 * values.shape[0], width=2.2 + 0.36 * len(learners))
