"""The report as one self-contained HTML page: the result in a few sentences, the scorecard, then every study."""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape

import numpy as np
import polars as pl

from ..lab.cells import LENGTH, Study
from ..studies import lineup
from . import steadiness
from .claims import ASKED
from .exhibits import Exhibit
from .finals import BLOCKS, PAPER, Finals, best_value
from .sources import world_of
from .verdicts import Claim, Outcome

_MANY = 0.25  # "many items": at least this share of them attracts more than half of the users


def answer(rows: Mapping[str, pl.DataFrame], claims: Sequence[Claim]) -> list[str]:
    """The result in sentences: how many claims hold, where M2UCB-V is ahead and by how much, what the paper omits."""
    kinds = Counter(claim.kind for claim in claims)
    sentences = [
        f"Of {len(claims)} claims {kinds['holds']} hold under every reading tried, {kinds['partly']} under some, "
        f"{kinds['fails']} under none, {kinds['undecided']} stay undecided, and {kinds['cannot']} cannot be tested."
    ]
    many, few = _count_first_places(rows["corruption"])
    if many["settings"] and few["settings"]:
        sentences.append(
            "Under attack M2UCB-V, in the best of three readings of its blocks, has the least regret of the paper's "
            f"five learners in {many['first']} of {many['settings']} settings where at least a quarter of the items "
            f"attract more than half of the users, and there a list drawn at random has {many['worth']:.1%} of the "
            f"best list's value; where fewer do, it has the least in {few['first']} of {few['settings']}, and random "
            f"lists are worth {few['worth']:.0%}."
        )
    sentences += _steadyrank_sentence(rows.get("attacks"))
    tried = sum(claim.tried for claim in claims)
    sentences.append(
        "The paper gives neither its sigmoid nor its widths, and its text allows several algorithms: each claim was "
        f"judged under up to {max((claim.tried for claim in claims), default=0)} readings, {tried} verdicts in all, "
        "and the table says under which it comes closest."
    )
    return sentences


def _steadyrank_sentence(rows: pl.DataFrame | None) -> list[str]:
    """A sentence on SteadyRank under attack, if that was measured."""
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


def _count_first_places(rows: pl.DataFrame) -> list[dict[str, float]]:
    """How often M2UCB-V has the least mean regret under attack, in settings with many and with few attractive items.

    For the best of its three readings: in how many it is `first`, out of how many `settings`, and what random lists
    are `worth` there, as a share of the best list's value.
    """
    final_runs = Finals(rows)
    settings: dict[bool, list[tuple[bool, float]]] = {True: [], False: []}
    for name, mapping, rate in itertools.product(lineup.DATA_SETS, lineup.JUDGED, lineup.RATES[1:]):
        means = {who: final_runs.get(who, name, mapping, rate) for who in [*PAPER[1:], *BLOCKS.values(), "Random"]}
        finished = {who: mean for who, mean in means.items() if mean is not None}
        if len(finished) < len(means):
            continue
        attraction = world_of(rows.filter(pl.col("profile") == name, pl.col("mapping") == mapping)).attraction
        first = min(finished[who] for who in BLOCKS.values()) < min(finished[who] for who in PAPER[1:])
        worth = 1.0 - finished["Random"] / final_runs.horizon / best_value(attraction, LENGTH)
        settings[bool(np.mean(attraction > 0.5) >= _MANY)].append((first, worth))
    return [
        {
            "first": sum(first for first, _ in kind),
            "settings": len(kind),
            "worth": sum(worth for _, worth in kind) / max(len(kind), 1),
        }
        for kind in (settings[True], settings[False])
    ]


_SIGNS = {
    "holds": ("yes", "✓"),
    "partly": ("part", "◐"),
    "fails": ("no", "✗"),
    "undecided": ("part", "≈"),
    "open": ("open", "·"),
    "cannot": ("open", "?"),
}
_SHOWN = 4  # figures of a study that are not collapsed
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

    `answer`: the result in a few sentences; `made`: sources and versions; `state`: how complete the results are.
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
        f'{escape(state)}</p><p class="soft">{escape(ASKED)}</p></header>'
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
        '<p class="soft">Regret is compared seed by seed among the paper\'s five learners; a comparison is decided '
        "where the 97.5 % interval of the mean difference holds no 0 (each may be looked at twice, after 3 seeds and "
        "after 10; not corrected for their number). Mappings "
        "from ratings to attraction: saturated = sigmoid(r - 3), centred = sigmoid((r - mean) / sd), moderate = "
        "sigmoid(r - 5), sparse = sigmoid(3 (r - mean) - 3). The paper does not give its own.</p>"
    )


def _verdict(claim: Claim) -> str:
    kind, sign = _SIGNS[claim.kind]
    text = f'<span class="{kind}"><span aria-hidden="true">{sign} </span>{escape(claim.verdict)}</span>'
    text += f"<small>{claim.held} of {claim.tried} readings</small>" if claim.tried > 1 else ""
    return text + (f"<small>rests on {escape(claim.rests_on)}</small>" if claim.rests_on else "")


def _figures(claim: Claim) -> str:
    if not claim.outcomes:
        return escape(claim.tested)
    near = claim.closest
    short = escape(claim.tested)
    if near is not None and near.verdict != "holds":
        short += f"<small>closest: {escape(near.under)}: {escape(near.figures.partition('. ')[0])}</small>"
    long = "".join(f"<p>{escape(_outcome_paragraph(outcome))}</p>" for outcome in claim.outcomes)
    link = f'<p><a href="#{claim.study}">the study</a>; <code>{escape(claim.command)}</code></p>'
    return f"<details><summary>{short}</summary>{long}{link if claim.study else ''}</details>"


def _outcome_paragraph(outcome: Outcome) -> str:
    """One outcome as a paragraph: reading, verdict, data, seeds, the deciding interval, figures."""
    seeds = outcome.seeds if not outcome.seeds or outcome.seeds[-1].isalpha() else f"{outcome.seeds} seeds"
    about = "; ".join(part for part in (outcome.data, seeds, outcome.interval) if part)
    return f"{outcome.under}: {outcome.verdict}{f' ({about})' if about else ''}. {outcome.figures}"


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
