"""The pictures of README and docs: python docs/make_images.py [results].

From a finished report, and from what `make bench` left in build/bench.
"""

import pathlib
import sys

BENCHES = ["peers", "scaling-us"]
FIGURES = ["corruption-yelp-pizza-moderate", "when", "estimators-0.1"]


def main() -> None:
    """Copy each figure with a light background of its own."""
    results = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "results")
    sources = {name: results / "report" / "figures" / f"{name}.svg" for name in FIGURES}
    sources |= {name: pathlib.Path("build", "bench", f"{name}.svg") for name in BENCHES}
    for name, source in sources.items():
        if not source.exists():
            sys.stderr.write(f"{source} is missing: {name}.svg stays as it is\n")
            continue
        svg = source.read_text()
        light = svg.replace("<svg ", '<svg style="background: #fdfdfc; color: #1c1c1a" ', 1)  # on any page
        folder = pathlib.Path(__file__).parent / "images"
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.svg").write_text(light)


if __name__ == "__main__":
    main()
