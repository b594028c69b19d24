"""Figures: one colour and one marker a learner, everywhere."""

import pathlib

import matplotlib

matplotlib.use("Agg")
from matplotlib.figure import Figure

from ..results import Comparison

# Okabe and Ito's colours, safe for colour-blind readers; markers tell apart what shares one.
_LOOKS = {
    "M2UCBV": ("#D55E00", "o"), "MUCBV": ("#E69F00", "s"), "CascadeUCBV": ("#0072B2", "^"),
    "CascadeUCB1": ("#56B4E9", "v"), "CascadeKLUCB": ("#56B4E9", "D"), "CascadeTS": ("#009E73", "P"),
    "TSCascade": ("#009E73", "X"), "TimeBlocks": ("#CC79A7", "h"), "Random": ("#777777", "x"),
    "Oracle": ("#000000", "+"),
}  # fmt: skip
_STRANGER = ("#000000", ".")


def draw_comparison(result: Comparison, path: pathlib.Path) -> list[pathlib.Path]:
    """Final regret against corruption rate, as SVG and PNG beside `path`; returns the files written."""
    figure = Figure(figsize=(8.4, 4.8), layout="constrained")
    axes = figure.add_subplot()
    percent = [100 * rate for rate in result.rates]
    ends = {}
    for learner in result.final:
        mean, half = result.summary(learner)
        if mean.max() < 1e-6:
            continue  # no regret at all (Oracle) has no place on a log axis
        colour, marker = _LOOKS.get(learner, _STRANGER)
        style = "--" if learner == "Random" else "-"
        (line,) = axes.plot(percent, mean, style, color=colour, marker=marker, markersize=6, linewidth=1.6)
        axes.fill_between(percent, (mean - half).clip(mean * 0.1), mean + half, color=colour, alpha=0.15, linewidth=0)
        ends[(float(mean[-1]), learner)] = line, learner
    axes.set_yscale("log")
    axes.set_xlabel("corrupted rounds, % of the horizon, all at the front")
    axes.set_ylabel(f"regret after {result.horizon:,} rounds")
    axes.set_xticks(percent)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    handles, names = zip(*(ends[end] for end in sorted(ends, reverse=True)), strict=True)
    axes.legend(
        handles, names, loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False,
        title="highest at the end first", title_fontsize=8, alignment="left",
    )  # fmt: skip
    axes.set_title(
        f"{result.profile}, {result.mapping}: {result.adversary}, lists of {result.length}, "
        f"mean and 95 % interval over {len(result.seeds)} seeds", fontsize=9, loc="left",
    )  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    files = [path.with_suffix(".svg"), path.with_suffix(".png")]
    for file in files:
        metadata = {"Date": None} if file.suffix == ".svg" else None
        with matplotlib.rc_context({"svg.hashsalt": "steadyrank"}):
            figure.savefig(file, dpi=120, metadata=metadata)
    return files
