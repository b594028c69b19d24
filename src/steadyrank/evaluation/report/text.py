"""Plain text for a terminal; needs nothing but the standard library."""

import math
from collections.abc import Sequence


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their content, the first to the left, the others to the right."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    lines = []
    for row in [header, ["-" * w for w in widths], *rows]:
        cells = [row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def plus_minus(half: float, digits: int) -> str:
    """`± half`, or `± -` where one run alone says nothing of the spread."""
    return "± -" if math.isnan(half) else f"± {half:,.{digits}f}"
