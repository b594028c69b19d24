"""One self-contained HTML page: the result in a few sentences, the scorecard, then every study."""

import itertools
from collections.abc import Mapping, Sequence
from html import escape

import numpy as np
import polars as pl

from ..lab.cells import LENGTH, Study
from ..profiles import profile
from ..studies import lineup
from . import steadiness
from .exhibits import Exhibit
from .finals import APPENDIX, PAPER, Finals, best_value
from .verdicts import Claim

_MANY = 0.25  # "many items": at least this share of them attracts more than half of the users


def answer(rows: Mapping[str, pl.DataFrame], claims: Sequence[Claim]) -> list[str]:
    """How many claims hold, where M2UCB-V is ahead and what that is worth, and what was not given."""
    kinds = {
        kind: sum(claim.verdict.startswith(kind) for claim in claims) for kind in ("holds where", "fails", "cannot")
    }
    whole = sum(claim.verdict == "holds" for claim in claims)
    sentences = [
        f"Of {len(claims)} measurable claims {whole} hold under every reading tried here, {kinds['holds where']} "
        f"under some, {kinds['fails']} under none, and {kinds['cannot']} cannot be tested."
    ]
    many, few = _places(Finals(rows["corruption"]))
    if many and few:
        sentences.append(
            "Under attack M2UCB-V, in the better of two readings of its blocks, has the least regret of the paper's "
            f"five learners in {_won(many)} of {len(many)} settings where at least a quarter of the items attract "
            f"more than half of the users, and there a list drawn at random has {_worth(many):.1%} of the best "
            "list's value; where fewer do, it has the least in "
            f"{_won(few)} of {len(few)}, and random lists are worth {_worth(few):.0%}."
        )
    sentences += _beyond(rows.get("attacks"))
    tried = sum(claim.tried for claim in claims)
    sentences.append(
        "The paper gives neither its sigmoid nor its widths, and its text allows several algorithms: each claim was "
        f"judged under up to {max((claim.tried for claim in claims), default=0)} readings, {tried} verdicts in all, "
        "and the table says under which it comes closest."
    )
    return sentences


def _beyond(rows: pl.DataFrame | None) -> list[str]:
    """How the learner of this project bears attacks, if that was measured."""
    if rows is None or rows.is_empty():
        return []
    ratios = steadiness.ratios(rows)
    attacks = ratios.filter(pl.col("rate") > 0, pl.col("who") == "SteadyRank").height
    means = dict(steadiness.attacked(ratios).select("who", "geometric mean of attacks").rows())
    if any(means.get(who) is None for who in ("SteadyRank", "CascadeTS", "M2UCBV")):
        return []
    return [
        f"Beyond the paper: under {attacks} attacks of 15 % of the rounds SteadyRank, the learner of this project, "
        f"has {means['SteadyRank']:.2f} times the regret of a Thompson sampler that never sees a false click; the "
        f"same sampler that believes every click {means['CascadeTS']:.2f} times, M2UCB-V {means['M2UCBV']:.2f} times."
    ]


def _places(final_means: Finals) -> tuple[list[tuple[bool, float]], list[tuple[bool, float]]]:
    """Whether M2UCB-V is first (in the better of its two readings), and what Random's lists are worth, by setting."""
    many: list[tuple[bool, float]] = []
    few: list[tuple[bool, float]] = []
    for name, mapping, rate in itertools.product(lineup.DATA_SETS, lineup.JUDGED, lineup.RATES[1:]):
        means = {who: final_means.get(who, name, mapping, rate) for who in [*PAPER, APPENDIX, "Random"]}
        finished = {who: mean for who, mean in means.items() if mean is not None}
        if len(finished) < len(means):
            continue
        attraction = profile(name, mapping).attraction
        first = min(finished["M2UCBV"], finished[APPENDIX]) < min(finished[who] for who in PAPER[1:])
        worth = 1.0 - finished["Random"] / final_means.horizon / best_value(attraction, LENGTH)
        (many if np.mean(attraction > 0.5) >= _MANY else few).append((first, worth))
    return many, few


def _won(places: Sequence[tuple[bool, float]]) -> int:
    return sum(first for first, _ in places)


def _worth(places: Sequence[tuple[bool, float]]) -> float:
    return sum(worth for _, worth in places) / len(places)


_SIGNS = {"holds": ("yes", "✓"), "fails": ("no", "✗"), "not measured": ("open", "·"), "cannot": ("open", "?")}
_SHOWN = 4  # figures of a study that are not folded
_CSS = """
:root { color-scheme: light dark; --back: #fdfdfc; --ink: #1c1c1a; --soft: #5d5d58; --line: #d9d9d4; --card: #f4f4f1;
  --yes: #00694d; --no: #a63c00; --part: #7a5600; }
@media (prefers-color-scheme: dark) { :root { --back: #141413; --ink: #ecece8; --soft: #a5a59e; --line: #3a3a37;
  --card: #1f1f1d; --yes: #4fd0a5; --no: #ff9a66; --part: #e8b84a; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main, header { max-width: 1500px; margin: 0 auto; padding: 0 16px; }
h1 { font-size: 1.5rem; margin: 20px 0 4px; } h2 { font-size: 1.25rem; margin: 40px 0 4px; }
p { max-width: 80ch; } .soft, figcaption, caption { color: var(--soft); font-size: .8rem; }
a { color: inherit; } nav { display: flex; flex-wrap: wrap; gap: 4px 14px; font-size: .9rem; margin: 8px 0 16px; }
.grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 420px), 1fr)); gap: 16px; }
figure { margin: 0; padding: 8px; border: 1px solid var(--line); border-radius: 6px; break-inside: avoid; }
figure svg { width: 100%; height: auto; max-width: 520px; display: block; margin: 0 auto; color: var(--ink); }
.scroll { overflow-x: auto; margin: 8px 0; } table { border-collapse: collapse; font-size: .85rem; }
caption { text-align: left; padding: 4px 0; }
th, td { padding: 3px 10px 3px 0; text-align: right; white-space: nowrap;
  border-bottom: 1px solid var(--line); font-variant-numeric: tabular-nums; }
th:first-child, td:first-child { text-align: left; } thead th { border-bottom: 2px solid var(--line); }
.score td, .score th { white-space: normal; text-align: left; vertical-align: top; min-width: 9em; }
.score td:first-child { min-width: 14em; } .score summary { cursor: pointer; }
.score details p { margin: 4px 0; font-size: .8rem; color: var(--soft); }
.top { display: flex; flex-wrap: wrap; gap: 8px 32px; align-items: start; } .top > * { flex: 1 1 min(100%, 480px); }
.lead { font-size: 1.05rem; margin: 0; }
.score small { color: var(--soft); display: block; }
.yes { color: var(--yes); } .no { color: var(--no); } .part { color: var(--part); } .open { color: var(--soft); }
@media print { figure { border: none; }
  details::details-content { content-visibility: visible; display: block; } nav { display: none; } }
"""


def page(
    studies: Sequence[Study],
    exhibits: Mapping[str, Sequence[Exhibit]],
    claims: Sequence[Claim],
    answer: Sequence[str],
    made: str,
    state: str,
) -> str:
    """The whole page as text.

    `answer`: the result in a few sentences; `made` says from which sources and versions, `state` how complete it is.
    """
    first, *others = studies
    links = "".join(f'<a href="#{study.name}">{escape(study.title)}</a>' for study in others)
    picture = "".join(_figure(exhibit) for exhibit in exhibits[first.name] if exhibit.svg)
    sections = "".join(_section(study, exhibits[study.name]) for study in others)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,"><title>steadyrank: the paper, re-run</title>'
        f"<style>{_CSS}</style></head><body><header><h1>Which claims of the paper hold?</h1>"
        f'<div class="top"><p class="lead">{" ".join(map(escape, answer))}</p>'
        f'<div id="{first.name}">{picture}</div></div>'
        '<p class="soft">F. Ghaffari, S. Sitaraman, X. Liu, X. Wang, M. Hajiesmaili: Online Learning to Rank under '
        "Corruption: A Robust Cascading Bandits Approach (2025, arXiv 2511.03074), its evaluation re-run. "
        f"{escape(state)}</p></header>"
        f"<main>{_scorecard(claims)}<nav>{links}</nav>{sections}"
        f'<p class="soft">{escape(made)}</p></main></body></html>\n'
    )


def _scorecard(claims: Sequence[Claim]) -> str:
    rows = "".join(
        f'<tr id="claim-{claim.id}"><td>{escape(claim.text)}<small>{escape(claim.place)}</small></td>'
        f"<td>{_verdict(claim)}</td><td>{_figures(claim)}</td></tr>"
        for claim in claims
    )
    return (
        '<div class="scroll"><table class="score" id="scorecard"><thead><tr><th scope="col">claim, and where it '
        'stands</th><th scope="col">verdict</th><th scope="col">what was tested, and what came out</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
        '<p class="soft">Regret is judged by its mean over the seeds, among the paper\'s five learners. Mappings '
        "from ratings to attraction: saturated = sigmoid(r - 3), centred = sigmoid((r - mean) / sd), moderate = "
        "sigmoid(r - 5), sparse = sigmoid(3 (r - mean) - 3). The paper does not give its own.</p>"
    )


def _verdict(claim: Claim) -> str:
    words = claim.verdict
    kind, sign = _SIGNS.get("cannot" if claim.because else words, ("part", "◐"))
    text = f'<span class="{kind}"><span aria-hidden="true">{sign} </span>{escape(words)}</span>'
    return text + (f"<small>{claim.held} of {claim.tried} readings</small>" if claim.tried > 1 else "")


def _figures(claim: Claim) -> str:
    if claim.because:
        return escape(claim.tested)
    words = {True: "yes", False: "no", None: "not measured"}
    near = claim.closest
    short = escape(claim.tested)
    if near is not None and not near.holds:
        short += f"<small>closest: {escape(near.under)}: {escape(near.figures.partition('. ')[0])}</small>"
    long = "".join(f"<p>{escape(o.under)}: {words[o.holds]}; {escape(o.figures)}</p>" for o in claim.outcomes)
    link = f'<p><a href="#{claim.study}">the study</a></p>' if claim.study else ""
    return f"<details><summary>{short}</summary>{long}{link}</details>"


def _section(study: Study, exhibits: Sequence[Exhibit]) -> str:
    head = f'<section id="{study.name}"><h2>{escape(study.title)}</h2><p>{escape(study.question)} '
    head += f'<span class="soft">({escape(study.paper)})</span></p>'
    if not exhibits:
        return f'{head}<p class="soft">Nothing finished yet: steadyrank reproduce --study {study.name}</p></section>'
    drawn = [_figure(exhibit) for exhibit in exhibits if exhibit.svg]
    figures, more = "".join(drawn[:_SHOWN]), drawn[_SHOWN:]
    tables = "".join(_table(exhibit) for exhibit in exhibits if exhibit.table is not None)
    grid = f'<div class="grid">{figures}</div>' if figures else ""
    if more:
        grid += (
            f'<details><summary>{len(more)} more figures</summary><div class="grid">{"".join(more)}</div></details>'
        )
    fold = f"<details><summary>tables</summary>{tables}</details>" if figures else tables
    return f"{head}{grid}{fold if tables else ''}</section>"


def _figure(exhibit: Exhibit) -> str:
    label = escape(exhibit.caption, quote=True)
    svg = exhibit.svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
    return f'<figure id="figure-{exhibit.name}">{svg}<figcaption>{escape(exhibit.caption)}</figcaption></figure>'


def _table(exhibit: Exhibit) -> str:
    assert isinstance(exhibit.table, pl.DataFrame)
    head = "".join(f'<th scope="col">{escape(str(name))}</th>' for name in exhibit.table.columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape('-' if value is None else str(value))}</td>" for value in row) + "</tr>"
        for row in exhibit.table.rows()
    )
    return (
        f'<div class="scroll"><table><caption>{escape(exhibit.caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )
