"""Frames of results as figures: small panels, each readable on a phone."""

import io
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib
import numpy as np
import polars as pl

matplotlib.use("Agg")
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..intervals import half_width
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
_WIDTH = 4.4  # inches: 420 pixels in a browser


def panel(
    name: str, draw: Callable[[Axes], None], *, height: float = 3.3, columns: int = 2, width: float = _WIDTH
) -> str:
    """One panel as SVG text, its legend below in so many columns (0: none); the same input gives the same bytes."""
    with matplotlib.rc_context({**_STYLE, "svg.hashsalt": name}):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots()
        draw(axes)
        if columns:
            handles, labels = axes.get_legend_handles_labels()
            rows = -(-len(labels) // columns)
            figure.set_size_inches(width, height + 0.17 * rows)
            figure.legend(handles, labels, loc="outside lower center", ncols=columns, handlelength=2.6)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": "steadyrank"})
    text = out.getvalue()
    return text[text.index("<svg") :].replace(INK, "currentColor")


def variants(names: Sequence[str]) -> list[str]:
    """Those of the names that are one learner with several settings."""
    plain = [name.partition(" (")[0] for name in names]
    return [n for n, p in zip(names, plain, strict=True) if plain.count(p) > 1 and not n.endswith("(omniscient)")]


def summary(rows: pl.DataFrame, by: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values of `by`, the mean regret over seeds at each, and half its 95 % interval (0 for one seed)."""
    table = rows.group_by(by).agg(pl.col("regret")).sort(by)
    values = [np.array(regrets) for regrets in table["regret"]]
    halves = np.nan_to_num([float(half_width(regrets)) for regrets in values])
    return table[by].to_numpy(), np.array([regrets.mean() for regrets in values]), halves


def _lines(axes: Axes, rows: pl.DataFrame, by: str, *, scale: float = 1.0, markers: bool = True) -> None:
    names = rows["who"].unique(maintain_order=True).to_list()
    for who in names:
        x, mean, half = summary(rows.filter(pl.col("who") == who), by)
        style = line_style(who, variants(names))
        marker = style.marker if markers else ""
        axes.plot(
            scale * x, mean, style.dash, color=style.colour, marker=marker, markersize=4.5, linewidth=1.4, label=who
        )
        axes.fill_between(scale * x, mean - half, mean + half, color=style.colour, alpha=0.15, linewidth=0)


def _from_zero(axes: Axes, values: Sequence[float]) -> None:
    """Logarithmic, and linear below the smallest of the values, so that 0 has a place."""
    positive = [value for value in values if value > 1e-9] or [1.0]
    lowest, highest = math.floor(math.log10(min(positive))), math.floor(math.log10(1.8 * max(positive)))
    axes.set_yscale("symlog", linthresh=10.0**lowest, linscale=0.5)
    axes.set_ylim(0, 1.8 * max(positive))
    axes.set_yticks([0.0, *(10.0**power for power in range(lowest, highest + 1))])
    axes.grid(alpha=0.2)


def _regret_axis(axes: Axes, rows: pl.DataFrame, by: Sequence[str] = ("who", "rate")) -> None:
    last = rows.filter(pl.col("mark") == pl.col("horizon"))
    _from_zero(axes, last.group_by(by).agg(pl.col("regret").mean())["regret"].to_list())
    axes.set_ylabel("regret")


def rates(name: str, rows: pl.DataFrame, title: str) -> str:
    """Final regret against the share of corrupted rounds."""

    def draw(axes: Axes) -> None:
        _lines(axes, rows, "rate", scale=100)
        _regret_axis(axes, rows)
        axes.set_title(title, loc="left")
        axes.set_xlabel("corrupted rounds, %")
        axes.set_xticks(sorted(100 * rate for rate in rows["rate"].unique()))

    return panel(name, draw)


def curves(name: str, rows: pl.DataFrame, title: str) -> str:
    """Regret over the rounds; the corrupted ones shaded."""

    def draw(axes: Axes) -> None:
        _lines(axes, rows, "mark", markers=False)
        _regret_axis(axes, rows)
        end = float(rows["rate"][0]) * int(rows["horizon"][0])
        axes.axvspan(0, end, color=INK, alpha=0.08, linewidth=0)
        axes.set_title(title, loc="left")
        axes.set_xlabel("round (shaded: corrupted)")

    return panel(name, draw)


def ranks(name: str, rows: pl.DataFrame, title: str, mappings: Sequence[str]) -> str:
    """Final regret as a share of Random's under each mapping."""
    names = rows["who"].unique(maintain_order=True).to_list()
    shares = {who: [_share_of_random(rows.filter(pl.col("mapping") == m), who) for m in mappings] for who in names}

    def draw(axes: Axes) -> None:
        for who, values in shares.items():
            style = line_style(who, variants(names))
            axes.plot(
                range(len(mappings)),
                values,
                style.dash,
                color=style.colour,
                marker=style.marker,
                markersize=5,
                linewidth=1.4,
                label=who,
            )
        _from_zero(axes, [value for values in shares.values() for value in values])
        axes.set_ylabel("regret / regret of Random")
        axes.set_xticks(range(len(mappings)), labels=list(mappings))
        axes.set_title(title, loc="left")

    return panel(name, draw)


def _share_of_random(rows: pl.DataFrame, who: str) -> float:
    """nan while one of the two is not finished."""
    mean = {name: rows.filter(pl.col("who") == name)["regret"].mean() for name in (who, "Random")}
    return float("nan") if None in mean.values() else mean[who] / mean["Random"]  # type: ignore[operator, return-value]


def growth(name: str, rows: pl.DataFrame, by: str, label: str) -> str:
    """Final regret against one quantity, logarithmic where that is never 0."""

    def draw(axes: Axes) -> None:
        _lines(axes, rows, by)
        _regret_axis(axes, rows, ("who", by))
        ticks = sorted(rows[by].unique())
        if ticks[0] > 0:
            axes.set_xscale("log", base=2)
        axes.set_xticks(ticks, labels=[f"{tick:,.0f}" for tick in ticks])
        axes.set_xticks([], minor=True)
        axes.set_title(label, loc="left")

    return panel(name, draw)


def errors(name: str, rows: pl.DataFrame, title: str) -> str:
    """Bias of each estimate in each case, with its root mean square error as a bar."""
    cases = rows["case"].unique(maintain_order=True).to_list()
    colours = ["#0072B2", "#E69F00", "#D55E00", "#CC79A7", "#9A7B2F", "#009E73", "#56B4E9"]

    def draw(axes: Axes) -> None:
        for i, (estimate, of) in enumerate(rows.group_by("estimate", maintain_order=True)):
            x = np.arange(len(cases)) + 0.11 * (i - 3)
            axes.plot(
                x, of["bias"], linestyle="", marker="ov^sPXd"[i], color=colours[i], markersize=4.5, label=estimate[0]
            )
            axes.vlines(
                x, of["bias"] - of["rmse"], of["bias"] + of["rmse"], color=colours[i], alpha=0.35, linewidth=1
            )
        axes.axhline(0.0, color=INK, linewidth=0.8)
        axes.set_xticks(range(len(cases)), labels=[re.sub(" (?=[0-9]+ %)", "\n", case) for case in cases])
        axes.set_ylabel("bias (bar: root mean square error)")
        axes.set_title(title, loc="left")
        axes.grid(alpha=0.2, axis="y")

    return panel(name, draw, columns=1)


def matrix(name: str, ratios: pl.DataFrame, title: str) -> str:
    """Ratios as a heat map: a row a scenario, a column a learner; blank where a learner did not run."""
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

    return panel(name, draw, height=1.4 + 0.2 * values.shape[0], columns=0, width=2.2 + 0.36 * len(learners))
