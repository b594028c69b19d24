"""Figures: one colour and one marker a learner, everywhere."""

import pathlib

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..results import Comparison

# Okabe and Ito's colours, safe for colour-blind readers; markers tell apart what shares one.
_LOOKS = {
    "M2UCBV": ("#D55E00", "o"), "CascadeUCBV": ("#0072B2", "^"), "FTRL": ("#E69F00", "*"),
    "CascadeRAC": ("#56B4E9", "s"), "CascadeCBARBAR": ("#8C6D1F", "p"), "CascadeTS": ("#009E73", "P"),
    "TimeBlocks": ("#CC79A7", "h"),
    "MUCBV": ("#D55E00", "s"), "CascadeUCB1": ("#0072B2", "v"), "CascadeKLUCB": ("#0072B2", "D"),
    "TSCascade": ("#009E73", "X"), "TopRank": ("#E69F00", "d"), "BatchRank": ("#E69F00", "s"),
    "CascadeRKC": ("#56B4E9", "v"), "FAR": ("#CC79A7", "^"), "FORC": ("#CC79A7", "D"), "Random": ("#777777", "x"),
}  # fmt: skip
_STRANGER = ("#000000", ".")
_PAPER = {"M2UCBV", "CascadeUCBV", "FTRL", "CascadeRAC", "CascadeCBARBAR", "CascadeTS", "TimeBlocks", "Random"}


def draw_comparison(result: Comparison, path: pathlib.Path) -> list[pathlib.Path]:
    """Final regret against corruption rate, as SVG and PNG beside `path`; returns the files written.

    Left the paper's learners with the strongest clean and the most robust one, right all others; `Random` in both.
    `Oracle`, which has no regret, has no place on a log axis.
    """
    figure = Figure(figsize=(11.0, 5.6), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    drawn = [name for name in result.final if result.summary(name)[0].max() > 1e-6]
    _draw(left, result, [name for name in drawn if name in _PAPER], "the paper's learners, CascadeTS and TimeBlocks")
    _draw(right, result, [name for name in drawn if name not in _PAPER or name == "Random"], "all others")
    left.set_ylabel(f"regret after {result.horizon:,} rounds")
    figure.suptitle(
        f"{result.profile}, {result.mapping}: {result.adversary} at the front, lists of {result.length}, "
        f"mean and 95 % interval over {len(result.seeds)} seeds", fontsize=10, x=0.01, ha="left",
    )  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    files = [path.with_suffix(".svg"), path.with_suffix(".png")]
    for file in files:
        metadata = {"Date": None} if file.suffix == ".svg" else None
        with matplotlib.rc_context({"svg.hashsalt": "steadyrank"}):
            figure.savefig(file, dpi=110, metadata=metadata)
    return files


def _draw(axes: Axes, result: Comparison, learners: list[str], title: str) -> None:
    percent = [100 * rate for rate in result.rates]
    for learner in sorted(learners, key=lambda name: -result.summary(name)[0][-1]):
        mean, half = result.summary(learner)
        half = np.nan_to_num(half)
        colour, marker = _LOOKS.get(learner, _STRANGER)
        style = "--" if learner == "Random" else "-"
        axes.plot(percent, mean, style, color=colour, marker=marker, markersize=6, linewidth=1.5, label=learner)
        axes.fill_between(percent, (mean - half).clip(mean * 0.1), mean + half, color=colour, alpha=0.15, linewidth=0)
    axes.set_yscale("log")
    axes.set_title(title, fontsize=10)
    axes.set_xlabel("corrupted rounds, % of the horizon")
    axes.set_xticks(percent)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=3, frameon=False, fontsize=9)
