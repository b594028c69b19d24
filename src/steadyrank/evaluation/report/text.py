"""Plain text for a terminal; needs only the standard library."""

import math
from collections.abc import Sequence


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Align columns, the first to the left, the others to the right."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    lines = []
    for row in [header, ["-" * w for w in widths], *rows]:
        cells = [row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def plus_minus(half: float, digits: int) -> str:
    """`± half`, or `± -` if there is no interval, as with a single run."""
    return "± -" if math.isnan(half) else f"± {half:,.{digits}f}"
