"""Run a whole audit: read the log, analyse each board, and assemble the findings."""

import contextlib
import os
import pathlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..click_logs import mapped
from ..click_logs.agents import check_package, without_declared
from ..click_logs.checkpoint import Checkpoint, fingerprint
from ..click_logs.click_log import BoardLog, ClickLog, by_board, read
from ..click_logs.files import sources_of
from ..click_logs.holidays import holiday, time_unit, without_holidays
from ..click_logs.looks import Impressions, ItemNumbers
from ..core import workers
from ..core.arrays import Bools, Floats, Ints
from ..core.compiling.announcing import announcing
from ..core.settings import real
from .assembly import assembled
from .clean import check_clean, weights, write_clean
from .cohorts import audit_cohorts, with_cohorts
from .detect.clients import NO_ODD_CLIENTS, OddClients, stand_out
from .detect.findings import BoardTask, Finding, analyse
from .detect.reloads import reloads
from .detect.stretches import OnProgress, always_compute, ignore_progress
from .results import Audit
from .since import FileIdentity, State, restrict_clients_to_new, restrict_to_new
from .visitors import count_visitors

FEWEST_CLICKS = 30  # clicks below which a note warns that the log shows hardly anything


@announcing("the audit")
def run(
    log: Any,
    *,
    first_position: int | None = None,
    time_format: str | None = None,
    format: str | None = None,
    most_broken: float = 0.01,
    events: Sequence[tuple[str, str]] = (),
    propensities: Sequence[float] | None = None,
    clean: str | pathlib.Path | None = None,
    since: str | pathlib.Path | None = None,
    keep: str | pathlib.Path | None = None,
    on: str = "local",
    progress: OnProgress | None = None,
    **columns: str | None,
) -> Audit:
    """Audit logs: Parquet, CSV or JSON, or frames of polars or pandas, oldest rows first unless there are times.

    `columns`: names of columns by role: `items`, `item`, `clicked`, `impression`, `position`, `time`, `client`,
    `board`, unless they are to be guessed; `user_agent`, by which declared crawlers and AI agents are removed first;
    `network` and `referrer`, by which, as by user agent, clients form cohorts; `value`, the outcome of a row, such as
    a purchase. `first_position`: number of the top position, 0 or 1. `time_format`: `strptime` format of dates, if
    one is needed. `format`: schema of another system, one of `conversion.FORMATS`, or "plain"; guessed by default.
    `most_broken`: share of rows that may be unusable. `events`: days known to differ, with names, such as
    ("2026-11-27", "sale"), to leave out. `propensities`: the probability that each place is looked at, from the top,
    the last for all below; by default estimated from the log. `clean`: a Parquet file to write, the log without
    suspect impressions. `since`: file with the state of earlier audits; only files that are new to it are read and
    reported. The caller writes the next state: `Audit.state`. `keep`: a folder for checkpoints, from which an
    interrupted audit of the same files with the same options resumes. The caller removes them: `Audit.checkpoint`.
    `on`: where boards are audited, "local" or "ray". `progress(step, done, of)` is called from time to time, also
    within a board if it is the only one; `of` is 0 while unknown.
    """
    logs = sources_of(log)
    real("most_broken", most_broken, 0.0, 1.0)
    workers.check_place(on)
    if first_position not in (None, 0, 1):
        raise ValueError(f"first_position must be 0 or 1, not {first_position!r}")
    if clean is not None:
        check_clean(pathlib.Path(clean), logs)
    looks = None if propensities is None else _chances(propensities)
    if columns.get("user_agent"):
        check_package()
    holidays = [holiday(*one) for one in events]
    report_progress = progress or ignore_progress
    state = None if since is None else State.load(pathlib.Path(since))
    files: dict[str, FileIdentity] = {}
    if state is not None:
        logs, files = state.new_logs(logs)
    checkpoint = None
    if keep is not None:
        read_as = {"columns": columns, "position": first_position, "time": time_format, "format": format}
        judged = {"broken": most_broken, "events": events, "looks": propensities}
        before = {"state": None if state is None else fingerprint(state.path)}
        checkpoint = Checkpoint(pathlib.Path(keep), logs, read_as | judged | before)
    with contextlib.closing(checkpoint) if checkpoint is not None else contextlib.nullcontext():
        cached = always_compute if checkpoint is None else checkpoint.cached
        click_log = read(
            logs,
            columns,
            first_position=first_position,
            time_format=time_format,
            format=format,
            most_broken=most_broken,
            by_query=True,
            checkpoint=checkpoint,
            progress=lambda rows, of: report_progress("reading", rows, of),
        )
        click_log, left_out = without_holidays(click_log, holidays)
        click_log, visitors = without_declared(click_log)
        whole = click_log if state is None else state.prepend_to(click_log)
        boards = by_board(whole)
        reloaded = _reloaded(whole)
        everywhere: OddClients = cached("everywhere", lambda: _on_all_boards(whole, boards, reloaded))
        tasks = _tasks(whole, boards, everywhere, looks, reloaded)
        if len(tasks) == 1 and on == "local":
            tasks = [tasks[0]._replace(on_progress=report_progress, cached=cached)]
        findings = _findings(tasks, on, report_progress, checkpoint)
        notes = [*_notes(click_log), *left_out]
        if checkpoint is not None and checkpoint.replaced_other:
            notes.append(
                f"{checkpoint.folder} held the checkpoint of an audit of other files or with other options, "
                "which was discarded."
            )
        if state is not None:
            next_state = state.next_state(whole, files, boards, findings)
            findings = [restrict_to_new(part, finding, whole) for part, finding in zip(boards, findings, strict=True)]
            everywhere = restrict_clients_to_new(everywhere, whole)
            if earlier := whole.impressions.n - click_log.impressions.n:
                notes.append(
                    f"Judged together with {earlier:,} impressions of earlier audits ({state.path}); only findings "
                    "in new ones are reported."
                )
        audit = assembled(whole, boards, findings, everywhere, notes)
        if state is not None:
            audit = replace(audit, state=next_state)
        if click_log.cohorts:
            suspect = np.isin(click_log.row, audit.flagged["row"].to_numpy())
            if visitors is not None:
                audit = replace(audit, visitors=count_visitors(visitors, click_log, suspect))
            report_progress("judging cohorts", 0, 0)
            audit = with_cohorts(audit, audit_cohorts(click_log, *_as_one_board(click_log), suspect, cached))
        audit = replace(audit, checkpoint=checkpoint)
        if clean is None:
            return audit
        report_progress("writing", 0, 0)
        return replace(audit, clean=write_clean(pathlib.Path(clean), whole, weights(boards, findings, whole)))


def _findings(
    tasks: list[BoardTask], on: str, report_progress: OnProgress, checkpoint: Checkpoint | None
) -> list[Finding]:
    """Analyse boards in parallel, except those in `checkpoint`; returns findings in the order of tasks."""
    findings: dict[int, Finding] = {}
    left = []
    for task in tasks:
        if checkpoint is not None and checkpoint.holds(f"board-{task.board}"):
            findings[task.board] = checkpoint.get(f"board-{task.board}")
        else:
            left.append(task)
    report_progress("auditing", len(findings), len(tasks))
    with contextlib.closing(workers.run(analyse, left, on=on)) as ended:
        for task, finding in ended:
            findings[task.board] = finding
            if checkpoint is not None:
                checkpoint.put(f"board-{task.board}", finding)
            report_progress("auditing", len(findings), len(tasks))
    return [findings[task.board] for task in tasks]


def _reloaded(log: ClickLog) -> Bools | None:
    """Which impressions reload an earlier one, bool[n]; None unless clients and times are known."""
    unit = time_unit(log)
    if log.client is None or log.time is None or unit is None:
        return None
    return reloads(log.impressions, log.client, len(log.clients), log.board, log.time, unit)


def _on_all_boards(log: ClickLog, boards: list[BoardLog], reloaded: Bools | None) -> OddClients:
    """Clients that stand out over several boards together; the same item on two boards counts as two items."""
    if len(boards) < 2 or log.client is None:
        return NO_ODD_CLIENTS
    shown, names = _as_one_board(log)
    return stand_out(shown, log.client, log.clients, names, reloaded=reloaded)


def _as_one_board(log: ClickLog) -> tuple[Impressions, list[Any]]:
    """All boards as one, and the names of its items; the same item on two boards counts as two items."""
    if len(log.boards) < 2:
        return log.impressions, log.items
    numbers, item = _items_by_board(log)
    names = [log.items[k] for k in (numbers % max(log.impressions.n_items, 1)).tolist()]
    return log.impressions._replace(item=item, n_items=numbers.size), names


def _items_by_board(log: ClickLog) -> tuple[Ints, ItemNumbers]:
    """Number the pairs of board and item: returns their codes, sorted, and the index of each look's pair."""
    shown = log.impressions

    def pairs(some: slice, part: Impressions) -> Ints:
        board: Ints = np.repeat(log.board[some].astype(np.int64), np.diff(part.first))
        return board * shown.n_items + part.item

    numbers: Ints = np.zeros(0, np.int64)
    for some, part in shown.parts():
        numbers = np.union1d(numbers, pairs(some, part))
    item: ItemNumbers = mapped.empty(shown.item.size, np.int32)
    for some, part in shown.parts():
        item[shown.first[some.start] : shown.first[some.stop]] = np.searchsorted(numbers, pairs(some, part))
    return numbers, item


def _chances(given: Sequence[float]) -> Floats:
    """Propensities as an array. Raises ValueError if there are none or one is not from 1e-6 to 1."""
    if not len(given):
        raise ValueError("propensities must be chances from the first place on, such as 1,0.6,0.4: there are none")
    return np.array([real("propensities", value, 1e-6, 1.0) for value in given])


def _tasks(
    log: ClickLog, boards: list[BoardLog], everywhere: OddClients, looks: Floats | None, reloaded: Bools | None
) -> list[BoardTask]:
    threads = max(1, (os.cpu_count() or 1) // len(boards))
    tasks = []
    for part in boards:
        clients = [log.clients[c] for c in part.clients.tolist()]
        items = [log.items[k] for k in part.items.tolist()]
        named = np.flatnonzero(np.isin(part.clients, everywhere.named))
        bought, again = (None if of is None else part.of(of, slice(None)) for of in (log.bought, reloaded))
        sizes = threads, items, len(boards)
        task = BoardTask(part.board, part.impressions, part.client, clients, *sizes, named, looks, bought, again)
        tasks.append(task)
    return tasks


def _notes(log: ClickLog) -> list[str]:
    """Notes on how the log was read, and on what an audit of it cannot tell."""
    notes = list(log.notes)
    shown = log.impressions
    clicks = int(shown.bits.sum())
    shown.release()
    if shown.n and shown.item.size == clicks and shown.item.size == shown.n and bool((shown.lengths() == 1).all()):
        notes.append(
            "Every row is a click, and nothing says what else was shown: how often items were seen and not clicked "
            "cannot be known, so neither can click rates, clients who never click, or a ranking by rate. --counts "
            "audits such events."
        )
    elif clicks == shown.n and shown.n and all(bool((part.clicks() > 0).all()) for _, part in shown.parts()):
        notes.append(
            "Every list has a click: lists without one seem to be missing. Rates are higher than they were, and who "
            "never clicks cannot be seen."
        )
    elif clicks < FEWEST_CLICKS:
        notes.append(f"The log has {clicks:,} clicks: too few for anything but a crude attack to show.")
    if log.repeats:
        notes.append(f"{log.repeats:,} impressions show an item twice: each of its places counts as a separate look.")
    if log.columns.items is None and log.columns.impression is None:
        notes.append(
            "No column says which rows were shown together, so each is an impression of its own; name it with "
            "--impression if there is one."
        )
    if len(log.boards) > 1:
        sizes = np.bincount(log.board, minlength=len(log.boards))
        if np.median(sizes) < FEWEST_CLICKS:
            notes.append(
                f"Half of the {len(log.boards):,} boards have fewer than {int(np.median(sizes)) + 1:,} impressions: "
                "nothing can be found on those alone. --board '' audits all of them as one."
            )
    return notes
