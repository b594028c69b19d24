"""HTML of an audit's pages: the page around a body, tables, and shares in percent."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

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
    """Text that is HTML already."""


class WrittenNumber(str):
    """A number that is written already."""


def shell(title: str, head: str, body: Html) -> str:
    """A whole page around a body; it loads nothing."""
    rules = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{rules}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>{escape(title)}</title><style>{_CSS}</style></head>'
        f"<body><header><h1>{escape(title)}</h1>{head}</header><main>{body}</main></body></html>\n"
    )


def table(head: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "") -> str:
    """A table; numbers stand on the right, cells of `Html` stand as they are."""
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
