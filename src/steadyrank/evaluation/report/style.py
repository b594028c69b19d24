"""One colour and one marker for each learner in all figures; text and axes take their colour from the page."""

import colorsys
from typing import NamedTuple

INK = "#010203"  # replaced by currentColor in SVG, so that figures work in dark mode

# Okabe and Ito's colours, safe for colour-blind readers; markers distinguish learners that share one
_LEARNERS = {
    "M2UCBV": ("#D55E00", "o"),
    "CascadeUCBV": ("#0072B2", "^"),
    "FTRL": ("#E69F00", "*"),
    "CascadeRAC": ("#56B4E9", "s"),
    "CascadeCBARBAR": ("#9A7B2F", "p"),
    "CascadeTS": ("#009E73", "P"),
    "TimeBlocks": ("#CC79A7", "h"),
    "SteadyRank": ("#7A4FBF", "D"),
    "MUCBV": ("#D55E00", "s"),
    "CascadeUCB1": ("#0072B2", "v"),
    "CascadeKLUCB": ("#0072B2", "D"),
    "TSCascade": ("#009E73", "X"),
    "TopRank": ("#E69F00", "d"),
    "BatchRank": ("#E69F00", "s"),
    "CascadeRKC": ("#56B4E9", "v"),
    "FAR": ("#CC79A7", "^"),
    "FORC": ("#CC79A7", "D"),
    "DCMKLUCB": ("#0072B2", "p"),
    "PBMUCB": ("#0072B2", "*"),
    "PBMPIE": ("#9A7B2F", "d"),
    "PBMTS": ("#009E73", "o"),
    "PBMHB": ("#009E73", "s"),
    "GRAB": ("#CC79A7", "p"),
    "UniRank": ("#E69F00", "p"),
    "PIE": ("#9A7B2F", "^"),
    "PBMFTRL": ("#E69F00", "v"),
    "CascadeLinUCB": ("#0072B2", "h"),
    "CascadeLinTS": ("#009E73", "h"),
    "C3UCB": ("#56B4E9", "h"),
    "CascadeWOFUL": ("#D55E00", "h"),
    "VAC2UCB": ("#E69F00", "h"),
    "UCBCLB": ("#9A7B2F", "h"),
    "CascadeMixedTS": ("#7A4FBF", "h"),
    "SteadyRankLinear": ("#7A4FBF", "s"),
    "SteadyRankSegments": ("#7A4FBF", "^"),
    "CascadeDUCB": ("#0072B2", "X"),
    "CascadeSWUCB": ("#0072B2", "P"),
    "GLRTCascadeUCB": ("#56B4E9", "o"),
    "GLRTCascadeKLUCB": ("#56B4E9", "D"),
    "ChangePointTS": ("#009E73", "d"),
    "BubbleRank": ("#E69F00", "o"),
    "Random": ("#A3A3A3", "x"),
}
_DASHED = {"Random"}
_MARKERS = "ov^sPXdp*h"
_STRANGER = (INK, ".")


class LineStyle(NamedTuple):
    """The style of a line."""

    colour: str
    marker: str
    dash: str
    width: float = 1.4


def line_style(who: str, variants: list[str]) -> LineStyle:
    """The style of a learner; `variants`, the same learner with settings, have its colour from dark to light."""
    name, _, marks = who.partition(" (")
    colour, marker = _LEARNERS.get(name, _STRANGER)
    if marks == "omniscient)":
        return LineStyle(colour, marker, ":")
    if who in variants and len(variants) > 1:
        place = variants.index(who)
        colour = _shade(colour, 0.32 + 0.30 * place / (len(variants) - 1))
        marker = _MARKERS[place % len(_MARKERS)]
    if name in _DASHED:  # wide and pale, so that a learner that does no better remains visible on top of it
        return LineStyle(colour, marker, "--", 2.6)
    return LineStyle(colour, marker, "-", 2.0 if name == "SteadyRank" else 1.4)


def _shade(colour: str, lightness: float) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    hue, _, saturation = colorsys.rgb_to_hls(red, green, blue)
    return "#" + "".join(f"{round(255 * part):02X}" for part in colorsys.hls_to_rgb(hue, lightness, saturation))
