"""Building blocks of an audit's page: the page around a body, tables, and SVG figures. It loads no resources."""

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from ..results import BoardAudit

WIDTH, HEIGHT = 1000, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 50, 10, 10, 30
_CSS = """
:root { color-scheme: light dark; --back: #fdfdfc; --ink: #1c1c1a; --soft: #5d5d58; --line: #d9d9d4; --card: #f4f4f1;
  --up: #00694d; --down: #a63c00; --mark: #0072b2; --band: #d55e00; }
@media (prefers-color-scheme: dark) { :root { --back: #141413; --ink: #ecece8; --soft: #a5a59e; --line: #3a3a37;
  --card: #1f1f1d; --up: #4fd0a5; --down: #ff9a66; --mark: #6cb8e6; --band: #ff9a66; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main, header { max-width: 1200px; margin: 0 auto; padding: 0 16px; }
h1 { font-size: 1.5rem; margin: 20px 0 4px; } h2 { font-size: 1.25rem; margin: 36px 0 4px; }
h3 { font-size: 1rem; margin: 24px 0 4px; } p, li { max-width: 80ch; }
.soft, figcaption, caption { color: var(--soft); font-size: .85rem; }
.verdict { font-size: 1.15rem; padding: 12px 16px; border-left: 4px solid var(--up); background: var(--card); }
.verdict.found { border-color: var(--band); }
figure { margin: 12px 0; padding: 8px; border: 1px solid var(--line); border-radius: 6px; }
figure svg { width: 100%; height: auto; display: block; color: var(--ink); }
.scroll { overflow-x: auto; margin: 8px 0; } table { border-collapse: collapse; font-size: .9rem; }
caption { text-align: left; padding: 4px 0; }
th, td { padding: 3px 14px 3px 0; text-align: left; white-space: nowrap; border-bottom: 1px solid var(--line);
  font-variant-numeric: tabular-nums; } thead th { border-bottom: 2px solid var(--line); }
.number { text-align: right; } .up { color: var(--up); } .down { color: var(--down); }
summary { cursor: pointer; }
"""


class Html(str):
    """Text that is HTML and must not be escaped."""


class WrittenNumber(str):
    """A number that is already formatted."""


def shell(title: str, head: str, body: Html) -> str:
    """A whole page around a body; it loads no resources."""
    rules = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{rules}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>{escape(title)}</title><style>{_CSS}</style></head>'
        f"<body><header><h1>{escape(title)}</h1>{head}</header><main>{body}</main></body></html>\n"
    )


def table(head: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "") -> str:
    """A table; numbers are right-aligned, `Html` cells are not escaped."""
    rows = list(rows)

    def kind(value: Any) -> str:
        return ' class="number"' if isinstance(value, (int, float, WrittenNumber)) else ""

    def cell(value: Any) -> str:
        text = "-" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
        if isinstance(value, float):
            text = f"{value:.3f}"
        return f"<td{kind(value)}>{text if isinstance(value, Html) else escape(text)}</td>"

    kinds = map(kind, rows[0] if rows else head)
    heads = "".join(f'<th scope="col"{of}>{escape(name)}</th>' for name, of in zip(head, kinds, strict=True))
    body = "".join(f"<tr>{''.join(map(cell, row))}</tr>" for row in rows)
    words = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f'<div class="scroll"><table>{words}<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>'


_HATCH = (
    '<defs><pattern id="hatch" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="8" height="8" fill="var(--band)" fill-opacity=".12"/>'
    '<line x1="0" y1="0" x2="0" y2="8" stroke="var(--band)" stroke-width="2" stroke-opacity=".5"/></pattern></defs>'
)


def axes(top: float, labels: Sequence[tuple[float, str]], words: str) -> str:
    """Axes: a scale from 0 to `top`, and labels at positions from 0 to 1. The SVG element is left open."""
    low, high = HEIGHT - _BOTTOM, _TOP
    style = ",.0f" if top >= 100 else ".3g"
    lines = "".join(
        f'<line x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="var(--line)"/>'
        f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:{style}}</text>'
        for value, y in ((top * part, low + (high - low) * part) for part in (0.0, 0.5, 1.0))
    )
    marks = "".join(
        f'<text x="{x_of(share):.1f}" y="{HEIGHT - 8}" text-anchor="{anchor}">{escape(label)}</text>'
        for share, label in labels
        for anchor in ["start" if share < 0.1 else "end" if share > 0.9 else "middle"]
    )
    title = f"<title>{escape(words)}</title>"
    head = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" font-size="12" fill="currentColor">{title}'
    return f"{head}{lines}{marks}"


def x_of(share: float) -> float:
    """The x coordinate of a position from 0 to 1."""
    return _LEFT + share * (WIDTH - _LEFT - _RIGHT)


def y_of(value: float, top: float) -> float:
    """The y coordinate of a value on a scale from 0 to `top`."""
    return HEIGHT - _BOTTOM - min(value / top, 1.0) * (HEIGHT - _TOP - _BOTTOM)


def line(points: Sequence[tuple[float, float]], top: float, colour: str, dash: str = "") -> str:
    """A line through points, each a position from 0 to 1 and a value."""
    path = " ".join(f"{x_of(x):.1f},{y_of(y, top):.1f}" for x, y in points)
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dashed}/>'


def round_up(value: float) -> float:
    """The end of a scale: a round number, at least `value`, whose half is round, too; 1 for 0."""
    if value <= 0.0:
        return 1.0
    unit = 10.0 ** math.floor(math.log10(value))
    return next(round(step * unit, 12) for step in (1, 1.2, 1.6, 2, 3, 4, 5, 6, 8, 10, 12) if step * unit >= value)


def visitors_figure(visitors: dict[str, Any] | None) -> str:
    """Shares of people, suspects and declared agents over time; empty if user agents are unknown."""
    if visitors is None:
        return ""
    counts = ", ".join(f"{name}: {count:,}" for name, count in visitors["counts"].items())
    words = "Shares of people, suspects, AI agents and crawlers over time"
    caption = f"{words}, by the list of {visitors['list']}. {counts}."
    return f"<h2>Who came</h2>{shares_figure(visitors['columns'], visitors['points'], words, caption)}"


_STYLES = (
    ("var(--mark)", ""),
    ("var(--band)", "8 4"),
    ("var(--up)", "2 4"),
    ("var(--soft)", "6 2 2 2"),
    ("var(--ink)", "1 3"),
)
_NAME = 18  # longest name in a legend, in characters


def shares_figure(columns: Sequence[str], points: list[list[int]], words: str, caption: str) -> str:
    """Shares over time: one line for each of the first five columns; `points`: counts of all columns."""
    totals = [max(sum(counts), 1) for counts in points]
    shares = [
        [((j + 0.5) / len(points), counts[i] / totals[j]) for j, counts in enumerate(points)]
        for i in range(min(len(columns), len(_STYLES)))
    ]
    top = min(round_up(max(share for of in shares for _, share in of)), 1.0)
    lines = legend = ""
    for i, (name, of, style) in enumerate(zip(columns, shares, _STYLES, strict=False)):
        lines += line(of, top, *style)
        x, height = 0.02 + 0.2 * i, 0.55 * top
        legend += line([(x, height), (x + 0.03, height)], top, *style)
        short = name if len(name) <= _NAME else f"{name[: _NAME - 3]}..."
        legend += f'<text x="{x_of(x + 0.035):.1f}" y="{y_of(height, top) + 4:.1f}">{escape(short)}</text>'
    drawn = f"{axes(top, [(0.0, 'first'), (1.0, 'last')], words)}{lines}{legend}</svg>"
    return f"<figure>{drawn}<figcaption>{escape(caption)}</figcaption></figure>"


def timeline(board: BoardAudit) -> str:
    """Clicks per impression along the log, observed and expected, with suspect intervals hatched."""
    total = max(sum(count for count, _, _ in board.points), 1)
    so_far, seen, usual = 0.0, [], []
    for count, clicks, expected in board.points:
        middle = (so_far + count / 2) / total
        seen.append((middle, clicks / max(count, 1)))
        usual.append((middle, expected / max(count, 1)))
        so_far += count
    top = round_up(max([value for _, value in [*seen, *usual]], default=0.0))
    labels = board.ticks or [(0.0, "first impression"), (1.0, f"impression {board.impressions:,}")]
    bands = numbers = ""
    for number, (start, end) in enumerate(board.places, 1):
        x, width = x_of(start / total), max(x_of(end / total) - x_of(start / total), 2.0)
        size = f'width="{width:.1f}" height="{HEIGHT - _TOP - _BOTTOM}"'
        bands += f'<rect x="{x:.1f}" y="{_TOP}" {size} fill="url(#hatch)"/>'
        numbers += (
            f'<text x="{x + width / 2:.1f}" y="{_TOP + 14}" text-anchor="middle" font-weight="bold" '
            f'stroke="var(--back)" stroke-width="4" paint-order="stroke">{number}</text>'
        )
    words = f"Clicks an impression along {board.impressions:,} impressions; {len(board.places)} suspect intervals"
    lines = line(usual, top, "var(--soft)", "2 4") + line(seen, top, "var(--mark)")
    return f"{axes(top, labels, words)}{_HATCH}{bands}{lines}{numbers}</svg>"
