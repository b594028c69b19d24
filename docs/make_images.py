"""The pictures of README and docs, from a finished report: python docs/make_images.py [results]."""

import pathlib
import sys

FIGURES = ["corruption-yelp-pizza-moderate", "corruption-yelp-pizza-saturated"]


def main() -> None:
    """Copy each figure with a light background of its own."""
    results = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "results")
    for name in FIGURES:
        svg = (results / "report" / "figures" / f"{name}.svg").read_text()
        light = svg.replace("<svg ", '<svg style="background: #fdfdfc; color: #1c1c1a" ', 1)  # on any page
        folder = pathlib.Path(__file__).parent / "images"
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.svg").write_text(light)


if __name__ == "__main__":
    main()
