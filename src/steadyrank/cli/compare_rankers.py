"""`steadyrank compare-rankers`: estimate the clicks our ranker would have got on the lists another ranker showed."""

import argparse
import json
import pathlib
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..click_logs.formats.fields import opened
from ..core.progress import Progress
from .choices import parse_choice, require_report_extra
from .logs import add_options, board_of, given_options, read_log, whole_lists

if TYPE_CHECKING:
    from ..comparison.off_policy import Interval
    from ..comparison.ranker_comparison import Comparison, Part, Row
    from ..live import Ranker

_MEMBERS = ("items", "clicked", "clicks", "examined", "client", "candidates", "propensities", "marginals")
_IGNORED = ("id", "time", "cohort")
_IN_COLUMNS = ("candidates", "propensities", "marginals")


def add(commands: Any) -> None:
    """Add the command."""
    sub = commands.add_parser(
        "compare-rankers",
        help="estimate what our ranker would have got in place of another",
        description="Run the lists that another ranker showed through a learner, in order, and estimate how many "
        "clicks its own lists would have got, with 95 % intervals. It makes each list before it learns from theirs.",
        epilog="Logs are read as by `steadyrank audit`, or as one JSON object per line, oldest first, in the format "
        "of `observe`: items, clicked (or clicks and examined), and client, candidates, propensities and marginals "
        "if known. See docs/shadow.md.",
    )
    add_options(sub)
    sub.add_argument("--learner", default="SteadyRank", help="NAME or NAME:setting=value,...; must be a live learner")
    sub.add_argument(
        "--guard",
        action="append",
        help="NAME or NAME:setting=value,...; `steadyrank guards`; may be repeated (default: ClientTrust)",
    )
    sub.add_argument("--seed", type=int, default=0, help="seed of the learner's random choices")
    sub.add_argument("--json", action="store_true", help="print JSON and nothing else")
    sub.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    from ..comparison.ranker_comparison import compare, lists_of
    from ..live import Ranker

    learner, settings = parse_choice(options.learner)
    guards = [parse_choice(text) for text in options.guard or ["ClientTrust"]]
    rows = _rows(options)
    if len(rows) < 2:
        raise ValueError(f"{options.logs[0]} has {len(rows)} lists: two are needed at least")
    names = list(dict.fromkeys(item for row in rows for item in row["items"]))
    length = max(len(row["items"]) for row in rows)
    ranker = Ranker(
        names,
        length,
        learner,
        seed=options.seed,
        settings=settings,
        guard=guards,
        most_open=1_000,
    )
    observed = _observed(ranker, rows, {name: k for k, name in enumerate(names)})
    comparison = compare(lists_of(observed), _suspect(ranker, observed), names)
    print(json.dumps(_plain(comparison), indent=2) if options.json else _text(comparison))


def _rows(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Read the lists with their answers, oldest first."""
    if all(map(_as_observed, options.logs)):
        _refuse_unused(options)
        return [row for path in options.logs for row in _read(path)]
    require_report_extra("polars")
    log = read_log(options)
    print("\n".join(log.notes), end="\n" if log.notes else "", file=sys.stderr)
    which = board_of(log, options.of)
    there = [name for name in _IN_COLUMNS if name in log.columns.unused]
    cells = log.cells(there) if there else {}
    rows = []
    for i, items, clicks, examined in whole_lists(log, which):
        client = None if log.client is None or log.client[i] < 0 else int(log.client[i])
        features = {name: opened(cell) for name, cell in cells.get(int(log.row[i]), {}).items()}
        row = {"items": items, "clicks": clicks, "examined": examined, "client": client, **features}
        try:
            _check(row)
        except ValueError as error:
            raise ValueError(f"row {log.row[i]} of the log: {error}") from None
        rows.append(row)
    return rows


def _refuse_unused(options: argparse.Namespace) -> None:
    """Raise ValueError for options on how to read a log, which lists in `observe` format do not need."""
    for name, value in given_options(options):
        lines = "has lists as `observe` takes them, one a line, with names of their own for everything"
        raise ValueError(f"{name} {value} has no effect: {options.logs[0]} {lines}; leave it out")


def _as_observed(path: pathlib.Path) -> bool:
    """Whether a file holds lists in the format of `observe`: JSON lines with its members and no others."""
    if path.suffix.lower() not in (".jsonl", ".ndjson", ".json"):
        return False
    with open(path, encoding="utf-8") as file:
        line = next((line for line in file if line.strip()), "{}")
    try:
        row = json.loads(line)
    except ValueError:
        return path.suffix.lower() != ".json"  # a broken line is reported when it is read
    listed = isinstance(row, dict) and isinstance(row.get("items"), list)
    return listed and row.keys() <= {*_MEMBERS, *_IGNORED} and isinstance(row.get("clicked", ""), str | None)


def _read(path: pathlib.Path) -> Iterator[dict[str, Any]]:
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = _named(json.loads(line))
                _check(row)
            except ValueError as error:
                raise ValueError(f"{path}, line {number}: {error}") from None
            yield row


def _named(row: Any) -> Any:
    """Convert whole numbers among the items of a line to text, as for all other formats."""
    if not isinstance(row, dict):
        return row
    lists = {name: row[name] for name in ("items", "candidates") if isinstance(row.get(name), list)}
    return row | {name: [str(one) if type(one) is int else one for one in items] for name, items in lists.items()}


def _check(row: Any) -> None:
    if not isinstance(row, dict) or not isinstance(row.get("items"), list):
        raise ValueError(f'a line is an object with "items", a list of names, not {row!r:.80}')
    if not all(isinstance(item, str) and item for item in row["items"]) or not row["items"]:
        raise ValueError(f"items must be names, at least one, not {row['items']!r:.80}")
    if not isinstance(row.get("client"), str | int | None) or isinstance(row.get("client"), bool):
        raise ValueError(f"client must be text, a whole number or null, not {row['client']!r:.80}")
    if unknown := sorted(row.keys() - {*_MEMBERS, *_IGNORED}):
        raise ValueError(f"{unknown[0]!r} is not known here: {', '.join(_MEMBERS)}")
    if "clicked" not in row and "clicks" not in row:
        raise ValueError("a list needs its answer: clicked (an item or null) or clicks (a bit a place)")
    for name in ("propensities", "marginals"):
        if row.get(name) is not None:
            _check_chances(name, row[name], len(row["items"]))


def _check_chances(name: str, given: Any, size: int) -> None:
    from ..comparison.off_policy import check_chances

    numbers = isinstance(given, list) and all(type(chance) in (int, float) for chance in given)
    if not numbers or len(given) != size:
        raise ValueError(f"{name} must be numbers, one for each of the {size} items, not {given!r:.80}")
    check_chances(name, given)


def _observed(ranker: "Ranker", rows: Sequence[dict[str, Any]], slots: dict[str, int]) -> "list[Row]":
    """Run the lists through the ranker; each row holds what it would have shown before it learnt from the list."""
    from ..comparison.ranker_comparison import Row
    from ..live import answers

    clients: dict[str, int] = {}
    observed = []
    progress = Progress(len(rows), "comparing", sys.stderr) if sys.stderr.isatty() else None
    for number, row in enumerate(rows, 1):
        client = row.get("client")
        sender = -1 if client is None else clients.setdefault(str(client), len(clients))
        some = row.get("candidates")
        given = {name: row[name] for name in ("clicked", "clicks", "examined") if row.get(name) is not None}
        given |= {"clicked": None} if "clicks" not in given and "clicked" not in given else {}
        try:
            answer = answers.given(answers.IN_PROCESS, **given).to(row["items"])
            one = ranker.observe(
                row["items"],
                **given,
                client=None if sender < 0 else sender,
                candidates=None if some is None else [item for item in some if item in slots],
            )
        except ValueError as error:
            raise ValueError(f"list {number}: {error}") from None
        ours = [slots[item] for item in one.ours]
        shown = [slots[item] for item in row["items"]]
        chances = row.get("propensities") or (), row.get("marginals") or ()
        observed.append(Row(shown, ours, answer.positions, answer.examined, *chances, sender))
        if progress:
            progress.step()
    if progress:
        progress.close()
    return observed


def _suspect(ranker: "Ranker", rows: "Sequence[Row]") -> Any:
    """Which lists, bool[n], are of clients the guard has excluded by now, or outside the trusted regime."""
    import numpy as np

    from ..core.views import bands

    judged, view = ranker.guard_view(), ranker.view()
    silenced = set() if judged is None else {one.client for one in judged.suspects}
    suspect = np.array([row.sender in silenced for row in rows], np.bool_)
    for band in [] if view is None else bands(view, len(rows)):
        if not band.trusted:
            suspect[band.start - 1 : band.end] = True
    return suspect


def _plain(comparison: "Comparison") -> dict[str, Any]:
    def part(one: "Part | None") -> dict[str, Any] | None:
        if one is None:
            return None
        rows = [
            {**row._asdict(), "spread": row.spread._asdict(), "ours": _numbers(row.ours), "gain": _numbers(row.gain)}
            for row in one.estimates
        ]
        return {"lists": one.lists, "theirs": _numbers(one.theirs), "alike": one.alike, "estimates": rows}

    verdict = comparison.verdict._asdict()
    verdict |= {name: _numbers(verdict[name]) for name in ("theirs", "ours", "gain")}
    return {
        **comparison._asdict(),
        "verdict": verdict,
        "whole": part(comparison.whole),
        "trusted": part(comparison.trusted),
    }


def _numbers(interval: "Interval") -> dict[str, float | None]:
    return {name: None if value != value else value for name, value in interval._asdict().items()}  # JSON has no NaN


def _text(comparison: "Comparison") -> str:
    lines = [
        comparison.verdict.says,
        f"By the {comparison.verdict.model} model, doubly robust, over {comparison.verdict.lists:,} lists"
        f"{' that are not suspect' if comparison.trusted else ''}.",
        "",
        f"theirs, most often: {', '.join(comparison.theirs)}",
        f"ours, most often:   {', '.join(comparison.ours)}",
    ]
    for title, part in (("all lists", comparison.whole), ("without suspect lists", comparison.trusted)):
        if part is None:
            continue
        lines += ["", f"{title}: {part.lists:,}; the same item at the same place: {part.alike:.0%}"]
        lines.append(f"  clicks on a list of theirs {_words(part.theirs)}")
        for one in part.estimates:
            chances = "" if one.given else ", shares for propensities"
            lines.append(
                f"  ours, {one.model}, {one.method}{chances}: {_words(one.ours)}; gain {_words(one.gain)}; "
                f"covered {one.spread.covered:.0%}, as much as {one.spread.effective:,.0f} lists of ours"
            )
    return "\n".join([*lines, "", *comparison.says]).rstrip()


def _words(interval: "Interval") -> str:
    low_to_high = "no interval" if interval.low != interval.low else f"{interval.low:.3f} to {interval.high:.3f}"
    return f"{interval.value:.3f} ({low_to_high})"
