"""`steadyrank audit`: find signs of click fraud in existing logs."""

import argparse
import contextlib
import json
import os
import pathlib
import sys
import time
from typing import Any

from ..core.files import replacing, writable_through
from ..core.progress import duration
from .choices import require_report_extra
from .logs import COLUMNS, add_options, how_to_read, share

CLIENTS = 5  # clients listed on the terminal
BOARDS = 5  # boards whose rankings are printed
NOTHING: dict[str, Any] = {"few_outcomes": [], "never_buy": []}  # outcomes, if they are unknown
RANKED = 10  # items of a trending list
UNITS = {"reading": "rows", "auditing": "boards", "searching": "passes"}  # of progress, by step
LISTS_ONLY = (  # options without effect on events without lists
    *COLUMNS.keys() - {"item", "time", "client"},
    *("network", "referrer", "value", "first_position", "format", "propensities", "clean", "since", "on"),
)
EXCEEDED = 3  # exit code: more is suspect than --fail-above allows


def add(commands: Any) -> None:
    """Add the command."""
    sub = commands.add_parser(
        "audit",
        help="find sudden or odd clicks in existing logs",
        description="Report when click behaviour in a log changed suddenly, on which items, which clients click "
        "unlike others, with what certainty, and what the ranking is without them. Changes that all items share, or "
        "that lists and places explain, are not suspect. Who is to blame is for you to find out. Columns are guessed "
        "from their names and first values, and listed in the output.",
        epilog="exit codes: 0, 2 for bad input, 3 if more is suspect than --fail-above allows. "
        "example: steadyrank audit clicks.parquet --page audit.html",
    )
    add_options(sub, several_boards=True)
    sub.add_argument(
        "--explain-columns",
        action="store_true",
        help="print how columns would be interpreted, from the first rows, and stop",
    )
    sub.add_argument(
        "--event",
        nargs=2,
        action="append",
        default=None,
        metavar=("DATE", "NAME"),
        dest="events",
        help="leave out a day known to differ, such as 2026-11-27 sale, or days 2026-11-27..2026-11-30",
    )
    sub.add_argument(
        "--propensities",
        default=None,
        metavar="CHANCES",
        help="probability that each place is looked at, such as 1,0.6,0.4 (default: estimated from the log)",
    )
    sub.add_argument(
        "--counts",
        action="store_true",
        help="rows are events without lists, such as downloads, votes or plays: --item, --time, --client",
    )
    sub.add_argument(
        "--recent",
        type=float,
        default=None,
        metavar="DAYS",
        help="with --counts: days that the trending list covers (default: 7)",
    )
    sub.add_argument("--json", action="store_true", help="print JSON and nothing else")
    sub.add_argument(
        "--page",
        type=pathlib.Path,
        default=None,
        help="write the report, one HTML page, to this file (default: audit.html; none with --json)",
    )
    sub.add_argument("--parquet", type=pathlib.Path, default=None, metavar="FOLDER", help="write flagged rows there")
    sub.add_argument(
        "--clean", type=pathlib.Path, default=None, metavar="FILE", help="write the log without suspect impressions"
    )
    sub.add_argument(
        "--since",
        type=pathlib.Path,
        default=None,
        metavar="STATE",
        help="read only files that are new since the last run; this file holds its state, and is created if missing",
    )
    sub.add_argument(
        "--keep",
        type=pathlib.Path,
        default=None,
        metavar="FOLDER",
        help="save checkpoints there, so that the same command resumes after an interruption; removed at the end",
    )
    sub.add_argument(
        "--fail-above", default=None, metavar="SHARE", help="exit with code 3 if certainly more is suspect"
    )
    sub.add_argument("--on", default="local", help="where boards are audited: local, ray or ray://HOST")
    sub.add_argument("--quiet", action="store_true", help="show no progress")
    sub.set_defaults(run=_run)


def parse_propensities(text: str) -> list[float]:
    """Parse propensities such as 1,0.6,0.4."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"--propensities must be chances such as 1,0.6,0.4, not {text!r}") from None


def _run(options: argparse.Namespace) -> int:
    limit = None if options.fail_above is None else share("--fail-above", options.fail_above)
    broken = share("--most-broken", options.most_broken)
    looks = None if options.propensities is None else parse_propensities(options.propensities)
    if options.page is None and not options.json:
        options.page = pathlib.Path("audit.html")
    require_report_extra("polars")
    if not options.logs:
        raise ValueError("name a log to audit, for instance: steadyrank audit clicks.parquet")
    _refuse_unused(options)
    if options.explain_columns:
        return _explain(options)
    _check_places(options.page, options.parquet, options.clean)
    if not options.counts:
        _check_places(options.since)
    from ..core.compiling.announcing import unannounced

    progress = _Progress(shown=not options.quiet and not options.json)
    try:
        with unannounced() if options.quiet else contextlib.nullcontext():
            return _audit(options, limit, broken, looks, progress)
    except KeyboardInterrupt:
        if options.keep is not None:
            print(f"{options.keep} holds a checkpoint: the same command resumes from there", file=sys.stderr)
        raise


def _audit(options: argparse.Namespace, limit: float | None, broken: float, looks: Any, progress: "_Progress") -> int:
    """Audit, write and print; returns the exit code."""
    if options.counts:
        result, lines, surely = _counts(options, broken, progress.show)
        progress.close()
        code = _output(result, lines, surely, limit, options)
        if result.checkpoint is not None:
            result.checkpoint.remove()
        return code
    from ..audit.pipeline import run
    from ..audit.since import NothingNewError

    try:
        result = _audited(run, options, broken, looks, progress.show)
    except NothingNewError as error:
        print(json.dumps({"summary": str(error)}) if options.json else str(error))
        return 0
    progress.close()
    code = _output(result, _lines, result.suspect_share[0], limit, options)
    if result.state is not None:  # only after the output: files of an interrupted run must stay new to the next
        result.state.write()
    if result.checkpoint is not None:
        result.checkpoint.remove()
    return code


def _audited(run: Any, options: argparse.Namespace, broken: float, looks: Any, progress: Any) -> Any:
    return run(
        options.logs,
        most_broken=broken,
        events=options.events or (),
        propensities=looks,
        clean=options.clean,
        since=options.since,
        keep=options.keep,
        on=options.on,
        progress=progress,
        **how_to_read(options),
        **{name: getattr(options, name) for name in (*COLUMNS, "user_agent", "network", "referrer", "value")},
    )


def _refuse_unused(options: argparse.Namespace) -> None:
    """Raise ValueError for options without effect."""
    if not options.counts:
        if options.recent is not None:
            raise ValueError(f"--recent {options.recent:g} has no effect without --counts")
        return
    from ..click_logs.columns import not_of_events

    for name in sorted(LISTS_ONLY):
        value = getattr(options, name)
        if value not in (None, "local"):
            raise ValueError(not_of_events(name, value))


def _counts(options: argparse.Namespace, broken: float, progress: Any) -> tuple[Any, Any, float]:
    """Run an audit of counts. Returns it, the function that formats it, and the least suspect share."""
    from ..audit import audit_counts

    result = audit_counts(
        options.logs,
        most_broken=broken,
        events=options.events or (),
        time_format=options.time_format,
        keep=options.keep,
        progress=progress,
        **({} if options.recent is None else {"recent": options.recent}),
        **{name: getattr(options, name) for name in ("item", "time", "client", "user_agent")},
    )
    return result, _count_lines, result.suspect_share[0]


def _output(result: Any, lines: Any, surely: float, limit: float | None, options: argparse.Namespace) -> int:
    """Write and print the findings; returns the exit code."""
    try:
        written = _write_all(result, options.page, options.parquet, options.counts)
    finally:  # print the findings even if the disk is full
        print(result.to_json() if options.json else "\n".join(lines(result)))
    if not options.json:
        print("report: " + ", ".join(map(str, written)))
    return EXCEEDED if limit is not None and surely > limit else 0


def _explain(options: argparse.Namespace) -> int:
    """Print how columns would be interpreted."""
    from ..click_logs.click_log import explained
    from ..click_logs.files import sources_of

    columns = {name: getattr(options, name) for name in (*COLUMNS, "user_agent", "network", "referrer", "value")}
    meanings = explained(sources_of(options.logs), columns, events=options.counts, **how_to_read(options))
    print("\n".join(_printable(f"{what}: {name}") for what, name in meanings.items()))
    return 0


def _check_places(
    page: pathlib.Path | None, folder: pathlib.Path | None = None, clean: pathlib.Path | None = None
) -> None:
    """Raise ValueError, before any work, for output paths that cannot be written."""
    for path in (page, folder, clean):
        if path is None or writable_through(path):
            continue
        place = path if path is folder and path.is_dir() else path.parent
        if not place.is_dir():
            raise ValueError(f"{place} is not a folder: {path} cannot be written")
        if not os.access(place, os.W_OK):
            raise ValueError(f"{place} is not writable: choose another place than {path}")
    if page is not None and page.is_dir():
        raise ValueError(f"--page {page} is a folder; name a file, for instance {page / 'audit.html'}")
    if folder is not None and folder.exists() and not folder.is_dir():
        raise ValueError(f"--parquet {folder} is a file; name a folder")


def _write_all(
    result: Any, page: pathlib.Path | None, folder: pathlib.Path | None, counts: bool
) -> list[pathlib.Path]:
    from ..audit.show import audit_page, counts_page

    drawn: Any = counts_page.page if counts else audit_page.page
    if page is not None:
        with replacing(page) as file:
            file.write(drawn(result).encode(errors="backslashreplace"))
    tables: list[pathlib.Path] = [] if folder is None else result.write_parquet(folder)
    return [*([] if page is None else [page]), *tables]


class _Progress:
    """Shows progress on one line of a terminal, with the time left in a step if known; else shows nothing."""

    def __init__(self, shown: bool = True) -> None:
        self.shown = shown and sys.stderr.isatty()
        self.step, self.first, self.done, self.since = "", 0, 0, 0.0

    def show(self, step: str, done: int, of: int) -> None:
        if not self.shown:
            return
        if step != self.step or done < self.done:
            self.step, self.first, self.since = step, done, time.monotonic()
        self.done = done
        spent, made = time.monotonic() - self.since, done - self.first  # without what a previous run did
        left = f", {duration(spent / made * (of - done))} left" if made and done < of else ""
        much = f": {done:,}{f' of {of:,}' if of else ''} {UNITS.get(step, '')}{left}" if done or of else ""
        print(f"\r\033[K{step}{much}", end="\n" if of and done == of else "", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Clear the line."""
        if self.shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def _reading(result: Any) -> list[str]:
    """Lines on how a log was read, and the verdict."""
    from ..audit.visitors import describe_visitors

    lines = ["read as: " + ", ".join(f"{what}: {name}" for what, name in result.columns.items())]
    if result.broken:
        row, why, text = result.examples[0]
        lines.append(f"{result.broken:,} of {result.rows:,} rows could not be used; row {row}: {why}: {text}")
    if result.visitors is not None:
        lines.append(describe_visitors(result.visitors))
    return [*lines, *result.notes, result.summary]


def _count_lines(result: Any) -> list[str]:
    """Lines on the findings in events."""
    from ..audit.sentences import certainty_text, time_range
    from ..audit.show.counts_page import why_not

    lines = _reading(result)
    for part in result.intervals:
        up = [str(item["item"]) for item in part.items if item["events"] > item["expected"]]
        when = time_range(part.start_time, part.end_time)
        lines.append(
            f"  {when}: {part.events:,} events, more of {', '.join(up[:3])}; {certainty_text(part.certainty)} sure"
        )
    for one in result.clients[:CLIENTS]:
        lines.append(f"  sender {one.client}: {one.events:,} events, all for {one.item}")
    if result.n_clients > CLIENTS:
        lines.append(f"  and {result.n_clients - CLIENTS:,} more senders: see the page or --json")
    for part in result.changes:
        lines.append(f"  not suspect: {time_range(part.start_time, part.end_time)}: {why_not(part)}")
    trending = result.trending["item"].head(RANKED).to_list()
    lines.append(f"clean trending list of {result.recent_days:g} days: {', '.join(map(str, trending)) or 'nothing'}")
    return list(map(_printable, lines))


def _lines(result: Any) -> list[str]:
    """Lines on the findings in lists."""
    from ..audit.sentences import (
        certainty_text,
        describe_change,
        describe_clean_log,
        describe_interval,
        describe_outcomes,
        place,
        rankings,
    )

    lines = _reading(result)
    for part in result.intervals:
        where = "" if part.board is None else f"board {part.board}, "
        lines.append(f"  {where}{place(part)}: {describe_interval(part)}; {certainty_text(part.certainty)} sure")
    for one in result.clients[:CLIENTS]:
        lines.append(f"  client {one.client}: {one.reason}")
    if result.n_clients > CLIENTS:
        lines.append(f"  and {result.n_clients - CLIENTS:,} more clients: see the page or --json")
    for role, seen in result.cohorts.items():
        name = role.replace("_", " ")
        for group in seen.named[:CLIENTS]:
            lines.append(f"  {name} {group.value}, {group.clients:,} clients together: {group.reason}")
        if seen.note:
            lines.append(f"  by {name}: {seen.note}")
    for change in result.changes:
        where = "" if change.board is None else f"board {change.board}, "
        lines.append(f"  not suspect: {where}{place(change)}: {describe_change(change)}")
    for board in result.boards:
        lines += [f"  {line}" for line in describe_outcomes(board.outcomes or NOTHING)[:CLIENTS]]
    if result.clean is not None:
        lines.append(describe_clean_log(result.clean, result))
        for board in result.boards[:BOARDS]:
            where = "" if board.board is None else f"board {board.board}, "
            lines += [f"  {where}{line}" for line in rankings(board)]
    return list(map(_printable, lines))


def _printable(line: str) -> str:
    """Escape control characters and those the terminal cannot show: names in a line come from the log."""
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
    return line.encode(sys.stdout.encoding or "utf-8", "backslashreplace").decode(sys.stdout.encoding or "utf-8")
