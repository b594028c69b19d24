"""Drawings of an audit as SVG, in the colours of the page around them."""

import math
from collections.abc import Sequence
from html import escape

from ..verdicts import BoardAudit

WIDTH, HEIGHT = 1000, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 50, 10, 10, 30
_LINES = (("var(--mark)", ""), ("var(--band)", "8 4"), ("var(--up)", "2 4"))
_HATCH = (
    '<defs><pattern id="hatch" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="8" height="8" fill="var(--band)" fill-opacity=".12"/>'
    '<line x1="0" y1="0" x2="0" y2="8" stroke="var(--band)" stroke-width="2" stroke-opacity=".5"/></pattern></defs>'
)


def _frame(top: float, labels: Sequence[tuple[float, str]], words: str) -> str:
    """Axes: a scale from 0 to `top`, and labels at shares of the width."""
    low, high = HEIGHT - _BOTTOM, _TOP
    lines = "".join(
        f'<line x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="var(--line)"/>'
        f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.3g}</text>'
        for value, y in ((top * part, low + (high - low) * part) for part in (0.0, 0.5, 1.0))
    )
    marks = "".join(
        f'<text x="{_x(share):.1f}" y="{HEIGHT - 8}" text-anchor="{_anchor(share)}">{escape(label)}</text>'
        for share, label in labels
    )
    title = f"<title>{escape(words)}</title>"
    head = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" font-size="12" fill="currentColor">{title}'
    return f"{head}{lines}{marks}"


def _x(share: float) -> float:
    return _LEFT + share * (WIDTH - _LEFT - _RIGHT)


def _y(value: float, top: float) -> float:
    return HEIGHT - _BOTTOM - min(value / top, 1.0) * (HEIGHT - _TOP - _BOTTOM)


def _anchor(share: float) -> str:
    return "start" if share < 0.1 else "end" if share > 0.9 else "middle"


def line(points: Sequence[tuple[float, float]], top: float, colour: str, dash: str = "") -> str:
    """A line through points given as a share of the width and a value."""
    path = " ".join(f"{_x(x):.1f},{_y(y, top):.1f}" for x, y in points)
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dashed}/>'


def round_up(value: float) -> float:
    """The end of a scale: a number as large at least that is short to write, and so is its half; 1 for 0."""
    if value <= 0.0:
        return 1.0
    unit = 10.0 ** math.floor(math.log10(value))
    return next(round(step * unit, 12) for step in (1, 1.2, 1.6, 2, 3, 4, 5, 6, 8, 10, 12) if step * unit >= value)


def timeline(board: BoardAudit) -> str:
    """Clicks an impression along the log, expected ones beside them, suspect intervals hatched."""
    total = max(sum(count for count, _, _ in board.points), 1)
    so_far, found, usual = 0.0, [], []
    for count, clicks, expected in board.points:
        middle = (so_far + count / 2) / total
        found.append((middle, clicks / max(count, 1)))
        usual.append((middle, expected / max(count, 1)))
        so_far += count
    top = round_up(max([value for _, value in [*found, *usual]], default=0.0))
    labels = board.ticks or [(0.0, "first impression"), (1.0, f"impression {board.impressions:,}")]
    bands = numbers = ""
    for number, (start, end) in enumerate(board.places, 1):
        x, width = _x(start / total), max(_x(end / total) - _x(start / total), 2.0)
        size = f'width="{width:.1f}" height="{HEIGHT - _TOP - _BOTTOM}"'
        bands += f'<rect x="{x:.1f}" y="{_TOP}" {size} fill="url(#hatch)"/>'
        numbers += (
            f'<text x="{x + width / 2:.1f}" y="{_TOP + 14}" text-anchor="middle" font-weight="bold" '
            f'stroke="var(--back)" stroke-width="4" paint-order="stroke">{number}</text>'
        )
    words = f"Clicks an impression along {board.impressions:,} impressions; {len(board.places)} suspect intervals"
    lines = line(usual, top, "var(--soft)", "2 4") + line(found, top, "var(--mark)")
    return f"{_frame(top, labels, words)}{_HATCH}{bands}{lines}{numbers}</svg>"


def curves(lines: dict[str, list[tuple[float, float]]], words: str) -> str:
    """Shares found (0 to 1) by share of false impressions in percent, on a logarithmic scale from 1 to 25."""

    def place(percent: float) -> float:
        return math.log(percent) / math.log(25.0)

    out = _frame(1.0, [(place(p), f"{p} %") for p in (1, 2, 5, 10, 25)], words)
    for i, (name, points) in enumerate(lines.items()):
        colour, dash = _LINES[i % len(_LINES)]
        out += line([(place(100 * share), found) for share, found in points], 1.0, colour, dash)
        height = 0.4 - 0.1 * i  # the legend stands where curves of use do not go
        out += line([(0.8, height), (0.86, height)], 1.0, colour, dash)
        out += f'<text x="{_x(0.87):.1f}" y="{_y(height, 1.0) + 4:.1f}">{escape(name)}</text>'
    return out + "</svg>"
