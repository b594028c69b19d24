"""The pictures of README and docs: python docs/make_images.py [results].

From a finished report, from what `make bench` left in build/bench, from evidence/frontier.json, and from three
learners under one attack.
"""

import pathlib
import sys

import polars as pl
from matplotlib.axes import Axes
from write_numbers import load_evidence

import steadyrank as sr
from steadyrank.evaluation.report.figures import frontier, name_ends, panel
from steadyrank.evaluation.report.style import line_style
from steadyrank.evaluation.studies.frontier import HORIZON as HIDDEN_OF

BENCHES = ["peers", "scaling-us", "scaling-thompson"]
FIGURES = ["corruption-yelp-pizza-moderate", "when", "estimators-0.1"]
HEIGHT, WIDTH = 2.9, 6.6  # inches
HORIZON, FALSE = 40_000, 6_000


def attack() -> str:
    """Clicks lost by three learners, while each visit of 6,000 is inverted from round 20,000 on."""
    world = sr.profile("yelp-pizza", mapping="sparse")
    runs = [
        sr.simulate(
            name,
            world.attraction,
            length=10,
            horizon=HORIZON,
            adversary="PrefixFlip",
            schedule="late",
            budget=FALSE,
            seeds=range(5),
            marks=200,
        )
        for name in ("SteadyRank", "CascadeTS", "M2UCBV")
    ]
    begin, end = HORIZON // 2, HORIZON // 2 + FALSE

    def draw(axes: Axes) -> None:
        for run in runs:
            style = line_style(run.learner, [])
            run.plot(axes, color=style.colour, linestyle=style.dash, linewidth=style.width)
        axes.axvspan(begin, end, alpha=0.15, linewidth=0, color="tab:red")
        axes.set_xlim(0, HORIZON)
        axes.set_ylim(0)
        axes.text((begin + end) / 2, axes.get_ylim()[1], "every click\nis false", ha="center", va="top")
        axes.set_xlabel("visits")
        axes.set_ylabel("clicks lost so far")
        ends = {run.learner: (float(run.final.mean()), line_style(run.learner, []).colour) for run in runs}
        name_ends(axes, ends, HEIGHT)

    return panel("attack", draw, height=HEIGHT, width=WIDTH)


def hidden_clicks(world: str) -> str:
    """Regret of the learners of the study `frontier` by the clicks that may be hidden, in one world."""
    cells = [cell for cell in load_evidence()["frontier"]["cells"] if cell["profile"] == world]
    columns = {name: [cell[name] for cell in cells] for name in ("who", "regret")}
    hidden = [round(cell["rate"] * HIDDEN_OF) for cell in cells]
    rows = pl.DataFrame(columns | {"hidden": hidden, "mark": HIDDEN_OF, "horizon": HIDDEN_OF})
    return frontier(f"frontier-{world}-sparse", rows.sort("who", "hidden"), f"{world}, sparse")


def main() -> None:
    """Write each figure with a light background of its own."""
    results = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "results")
    sources = {name: results / "report" / "figures" / f"{name}.svg" for name in FIGURES}
    sources |= {name: pathlib.Path("build", "bench", f"{name}.svg") for name in BENCHES}
    pictures = {"attack": attack(), "frontier-movielens-sparse": hidden_clicks("movielens")}
    for name, source in sources.items():
        if source.exists():
            pictures[name] = source.read_text()
        else:
            sys.stderr.write(f"{source} is missing: {name}.svg stays as it is\n")
    folder = pathlib.Path(__file__).parent / "images"
    folder.mkdir(exist_ok=True)
    for name, svg in pictures.items():
        light = svg.replace("<svg ", '<svg style="background: #fdfdfc; color: #1c1c1a" ', 1)  # on any page
        (folder / f"{name}.svg").write_text(light)


if __name__ == "__main__":
    main()
