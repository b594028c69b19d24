"""Write tables and figures of the benches to build/bench."""

import csv
import pathlib

import matplotlib.pyplot as plt

HOME = pathlib.Path(__file__).parent.parent / "build" / "bench"


def write_table(name, rows):
    """Write dictionaries with the same keys as NAME.csv."""
    HOME.mkdir(parents=True, exist_ok=True)
    with open(HOME / f"{name}.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def draw_bars(name, title, values):
    """Horizontal bars on a logarithmic axis, largest on top; `values` maps labels to numbers."""
    figure, axes = plt.subplots(figsize=(7, 0.5 + 0.42 * len(values)), layout="constrained")
    order = sorted(values, key=values.__getitem__)
    bars = axes.barh(order, [values[label] for label in order], color="#3b6fb6", height=0.62)
    axes.bar_label(bars, [f"{values[label]:,.0f}" for label in order], padding=4)
    axes.set_xscale("log")
    axes.margins(x=0.12)
    axes.set_title(title, loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    _save(figure, name)


def draw_lines(name, title, x_label, y_label, curves):
    """Curves on two logarithmic axes; `curves` maps labels to (x, y)."""
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for marker, (label, (x, y)) in zip("osD^vPX*", curves.items(), strict=False):
        axes.plot(x, y, marker=marker, markersize=5, label=label)
    axes.set(xscale="log", yscale="log", xlabel=x_label, ylabel=y_label)
    axes.set_title(title, loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    _save(figure, name)


def _save(figure, name):
    HOME.mkdir(parents=True, exist_ok=True)
    figure.savefig(HOME / f"{name}.svg", metadata={"Date": None})
    plt.close(figure)
    print(f"figure and table: build/bench/{name}.svg, .csv")
