"""Lists shown by another ranker: learnt from like ours, and compared with the lists we would have shown."""

import collections
import contextlib
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from ...comparison.off_policy import LEAST_CHANCE, Interval
from ...comparison.ranker_comparison import Part, Row, Verdict, compare, lists_of
from ...core.arrays import Bools
from ...core.contract import ANYONE, Visit
from ...core.refusals import Refused
from ...live.answers import Given
from ...live.collection.collection_state import CollectionState, ShownItems
from ...live.collection.re_ranker import QUERY
from ...live.features import Values
from ..board import events
from ..board.checks import as_logged
from ..board.feedback import OTHER_ITEMS
from ..board.guard_summary import Suspects
from ..board.schema import IntervalOut, Schema
from ..storage import Sender, Unavailable, open_store
from .board_session import BoardSession
from .impression_ids import ImpressionId, seal
from .listing import EngineResult, query_listing
from .log_rows import read_event
from .rank_and_answer import TOO_MANY, TOO_MANY_LISTS, TOO_MANY_UNNAMED, check_kinds
from .worker import Worker

MOST_EVENTS = 500_000  # of the log, the latest
_MOST_NUMBERED = 20_000  # pairs of query and item with a number of their own in a comparison
_AHEAD = 60.0  # seconds; the reporter's clock may be fast by so much


class Report(NamedTuple):
    """A list as reported; `said` is None if it has not been answered yet."""

    id: str
    items: Sequence[str]
    said: Given | None
    time: float | None
    client: str | None
    cohort: Mapping[str, str]
    candidates: Sequence[str] | None
    propensities: Sequence[float]
    marginals: Sequence[float]
    features: Values | None = None
    stream: str = ""  # the stream partition and offset it came from; empty: not from a stream
    offset: int = 0
    engine_result: EngineResult | None = None  # in a collection: the candidates the list was chosen from


class ObserveOut(Schema):
    """`outcome`: shown (not answered yet), learnt, waiting, late or duplicate.

    `impression` can be used to answer the list later, like one of our own, until `expires`; `ours`: the list that
    this board would have shown.
    """

    outcome: str
    impression: str
    expires: float
    ours: list[str]


async def observe(worker: Worker, session: BoardSession, report: Report) -> ObserveOut:
    """Learn from a list of another ranker, adding unknown items. Returns the outcome once it is on disk."""
    with session.lateness.refusals():
        return await _observe(worker, session, report)


async def _observe(worker: Worker, session: BoardSession, report: Report) -> ObserveOut:
    board, now, seen = session.board, worker.clock(), worker.seen(session)
    time = now if report.time is None else report.time
    expires = time + board.config.lifetime
    answer = None if report.said is None else report.said.to(report.items)
    if time > now + _AHEAD:
        raise Refused(422, f"time must be in the past, in seconds since 1970: now is {now:.0f}, not {time!r}")
    if expires < now:
        raise Refused(410, "the list has expired: past clicks are taken by history")
    cohorts = {kind: session.hash_cohort(kind, name) for kind, name in report.cohort.items()}
    check_kinds(cohorts, board.impressions.kinds, board.config.cohorts)
    board.learner_state.features.check_visit(report.features)
    key = session.hash_report(report.id)
    async with session.alone(key):
        if session.keys is None:
            await _add_items(worker, session, report, key, time)
        impressions, lists = session.board.impressions, _both_lists(worker, session, report)
        number = impressions.numbers.get(key, impressions.last + 1)
        event = events.Observed(
            key,
            impressions.round_of(number) or max(session.round, impressions.rounds) + 1,
            number - 1,  # so an id made from it is answerable no longer than this very list is remembered
            lists.ranking,
            None if answer is None else answer.positions,
            0 if answer is None else answer.examined,
            time,
            lists.ours,
            list(report.propensities),
            list(report.marginals),
            ANYONE,
            dict.fromkeys(cohorts, ANYONE),
            as_logged(report.features),
            report.stream,
            report.offset,
            lists.of,
        )
        hashed = 0 if report.client is None else session.hash_client(report.client)
        names = hashed, *cohorts.values()
        sender = Sender(hashed, seen, cohorts=names[1:], time=report.time) if any(names) else None
        outcome = await _write(worker, session, event, sender)
    head = key, event.round, event.base, event.generation, expires
    of = lists.of and (lists.of.query, lists.of.items)
    shown = ImpressionId(*head, hashed, event.ranking, event.note, cohorts, of=of)
    impression = seal(shown, session.signer, session.id_room())
    return ObserveOut(outcome=outcome, impression=impression, expires=expires, ours=lists.names)


class _BothLists(NamedTuple):
    """A reported list and ours, as logged; `names`: the items of ours."""

    ranking: list[int]
    ours: list[int]
    of: ShownItems | None
    names: list[str]


def _both_lists(worker: Worker, session: BoardSession, report: Report) -> _BothLists:
    state = session.board.learner_state
    if session.keys is None:
        ours = _our_list(worker, session, report)
        return _BothLists([state.slots[item] for item in report.items], ours, None, state.items_at(ours))
    if report.engine_result is None:
        return _known_list(session, report)
    listing = query_listing(session, report.engine_result)
    ranking = listing.places_of(report.items)
    places, _ = listing.draw(Visit(1), len(report.items), worker.chance)
    return _BothLists(ranking, listing.codes[places].tolist(), listing.shown(ranking), listing.names_of(places))


def _known_list(session: BoardSession, report: Report) -> _BothLists:
    """The list reported under the same id before, for a follow-up report that omits the query."""
    impressions, state = session.board.impressions, session.board.learner_state
    number = impressions.numbers.get(session.hash_report(report.id))
    if number is None or not isinstance(state, CollectionState):
        raise Refused(422, "a list of a collection needs the query that it was for")
    place = number % impressions.places
    ranking = impressions.ranking[place, : impressions.size[place]].tolist()
    items = state.codes_of(impressions.note[place], len(ranking))
    return _BothLists(ranking, [], ShownItems(int(impressions.note[place, QUERY]), items), [])


def known_impression(session: BoardSession, id_: str) -> ImpressionId | None:
    """The decoded impression id of a list reported under an id; None if the list is not remembered."""
    key, impressions, state = session.hash_report(id_), session.board.impressions, session.board.learner_state
    number, time = impressions.numbers.get(key), session.board.reported.times.get(key)
    if number is None or time is None:
        return None
    place = number % impressions.places
    ranking = impressions.ranking[place, : impressions.size[place]].tolist()
    of = None
    if isinstance(state, CollectionState):
        of = int(impressions.note[place, QUERY]), state.codes_of(impressions.note[place], len(ranking))
    expires = time + session.board.config.lifetime
    return ImpressionId(key, impressions.round_of(number), number - 1, 0, expires, 0, ranking, [], of=of)


async def _add_items(worker: Worker, session: BoardSession, report: Report, key: int, time: float) -> None:
    """Add unknown items, unless the report will be refused: then nothing may change."""
    fresh = [item for item in report.items if item not in session.board.learner_state.slots]
    if not fresh:
        return
    if key in session.board.impressions.numbers:  # the list of this id has only known items
        raise Refused(409, OTHER_ITEMS)
    session.board.reported.refuse_forgotten(key, time, report.stream, report.offset)
    session.board.check_listed(fresh)
    await worker.check_room(session, len(fresh))
    await worker.write_event(session, events.Added(fresh, by_lists=True))


def _our_list(worker: Worker, session: BoardSession, report: Report) -> list[int]:
    """The list that this board would show now, from the known candidates; empty if it may show nothing."""
    state, size = session.board.learner_state, len(report.items)
    some = None if report.candidates is None else [item for item in report.candidates if item in state.slots]
    hashed = 0 if report.client is None else session.hash_client(report.client)
    features = state.features.of_visit_then(report.features or {})
    visit = Visit(session.board.impressions.rounds + 1, session.client_number(hashed), features)
    try:
        ranking = session.board.rank(visit, some, size, worker.chance, session.board.rules(best=True)).ranking
    except Refused:
        return []
    slots: list[int] = ranking.tolist()
    return slots


async def _write(worker: Worker, session: BoardSession, event: events.Observed, sender: Sender | None) -> str:
    """Write a report if its client is within its limits, and if it is not known already."""
    outcome = session.board.known_outcome(event)
    if outcome is not None:
        return outcome
    hashed, now = 0 if sender is None else sender.hash, worker.monotonic()
    client = session.board.impressions.client_of(event.key)
    if client is not None:  # the list is in the log, without an answer
        sender, event = None, msgspec.structs.replace(event, client=client, cohorts={}, features={})
    if event.clicks is None:
        if hashed and not session.may_look(hashed, now):
            raise Refused(429, TOO_MANY_LISTS)
    elif not session.may_answer(hashed, session.client_number(hashed) if client is None else client, now):
        if client is not None and not session.board.impressions.withheld(event.key):
            head = event.key, event.round, event.base, event.generation, event.ranking, event.note
            await worker.write_event(session, events.Withheld(*head, event.time, client))
        raise Refused(429, TOO_MANY if hashed else TOO_MANY_UNNAMED)
    session.round = max(session.round, event.round)
    try:
        return await worker.write_event(session, event, sender)
    except Unavailable:
        (session.lists if event.clicks is None else session.answers).give_back(hashed)
        raise


class Reported(NamedTuple):
    """A list of another ranker in the log, and its answer if there is one."""

    event: events.Observed
    clicks: list[int] | None
    examined: int


class EstimateOut(Schema):
    """Estimated clicks on a list of ours, by a user model and a method; `gain`: the difference to theirs.

    `given`: whether propensities were given; `covered`: the mean weight, about 1 if the other ranker may show
    everything that ours does; `effective`: the effective sample size, in lists of ours; `clipped`: the number of
    lists whose weight was clipped. `cut`: the estimate was below 0 or above the length of a list, and was cut to that
    range.
    """

    model: str
    method: str
    given: bool
    covered: float
    effective: float
    clipped: int
    cut: bool
    ours: IntervalOut
    gain: IntervalOut


class PartOut(Schema):
    """Some lists: clicks on a list of theirs, the share of places where both show the same item, and estimates."""

    lists: int
    theirs: IntervalOut
    alike: float
    estimates: list[EstimateOut]


class VerdictOut(Schema):
    """Whose lists get more clicks: `better` is ours, theirs or open, by a doubly robust estimate."""

    better: str
    model: str
    lists: int
    theirs: IntervalOut
    ours: IntervalOut
    gain: IntervalOut
    says: str


class ComparisonOut(Schema):
    """A comparison of the other ranker with ours on its lists: on all, and without the suspect ones.

    `theirs` and `ours`: for each place, the item most often there; empty for a collection.
    """

    verdict: VerdictOut
    whole: PartOut
    trusted: PartOut | None
    suspect: int
    unanswered: int
    since: float
    until: float
    theirs: list[str]
    ours: list[str]
    says: list[str]


def read_reported(url: str, number: int) -> list[Reported]:
    """Read the reported lists among the latest events of a board's log, in order."""
    reported: dict[int, Reported] = {}
    with contextlib.closing(open_store(url)) as store, store.reading():
        start = max(store.edge(number, 0.0, MOST_EVENTS), store.shortened(number))
        for entry in store.entries(start, store.head(), number):
            event = read_event(entry)
            if isinstance(event, events.Observed):
                reported.setdefault(event.key, Reported(event, None, 0))
            if isinstance(event, events.Answered | events.Observed) and event.clicks is not None:
                before = reported.get(event.key)
                if before is not None and before.clicks is None:
                    reported[event.key] = before._replace(clicks=event.clicks, examined=event.examined)
    return list(reported.values())


def compare_rankers(
    reported: list[Reported], names: list[str], suspects: Suspects, over: float | None
) -> ComparisonOut:
    """Compare the rankers. `names`: of items by slot; empty for a collection.

    `over`: lists shown before this time without an answer count as examined and not clicked.
    """
    rows, odd, chosen, queries = [], [], [], list[int]()
    for one in reported:
        event, examined = one.event, one.examined
        if one.clicks is None:
            if over is None or event.time >= over:
                continue
            examined = len(event.ranking)
        if event.ours and examined and (event.of is None or event.propensities or event.marginals):
            sender = event.client if event.client != ANYONE else -1
            chances = _accepted(event.propensities), _accepted(event.marginals)
            shown = event.ranking if event.of is None else event.of.items
            rows.append(Row(shown, event.ours, one.clicks or [], examined, *chances, sender))
            queries.append(-1 if event.of is None else event.of.query)
            odd.append(suspects.among(event.round, (event.client, *event.cohorts.values())))
            chosen.append(event.time)
    if len(rows) < 2:
        need = "two are needed" if names else "two are needed, with propensities; or mix lists (interleave)"
        raise Refused(409, f"{len(rows)} lists of another ranker are answered and kept in the log: {need}")
    if not names:
        rows, names = _by_query(rows, queries)
    flags: Bools = np.array(odd, np.bool_)
    unanswered = sum(one.clicks is None for one in reported)
    comparison = compare(lists_of(rows), flags, names)
    return ComparisonOut.of(
        comparison,
        verdict=_verdict(comparison.verdict),
        whole=_part(comparison.whole),
        trusted=None if comparison.trusted is None else _part(comparison.trusted),
        unanswered=unanswered,
        since=min(chosen),
        until=max(chosen),
        **({"theirs": [], "ours": []} if queries[0] != -1 else {}),
    )


def _by_query(rows: list[Row], queries: list[int]) -> tuple[list[Row], list[str]]:
    """Number each item of a query that is in several lists; returns the rows with these numbers, and names for them.

    Any other item gets the number of its position: among the items of its list, followed by ours.
    """
    count = collections.Counter(
        (query, item) for row, query in zip(rows, queries, strict=True) for item in {*row.shown, *row.ours}
    )
    often = {pair: number for number, (pair, lists) in enumerate(count.most_common(_MOST_NUMBERED)) if lists > 1}
    length = max(len(row.shown) for row in rows)

    def numbered(row: Row, query: int) -> Row:
        rest = {item: len(often) + place for place, item in enumerate(dict.fromkeys([*row.shown, *row.ours]))}
        numbers = [[often.get((query, item), rest[item]) for item in part] for part in (row.shown, row.ours)]
        return row._replace(shown=numbers[0], ours=numbers[1])

    return list(map(numbered, rows, queries)), [""] * (len(often) + 2 * length)


def _accepted(chances: list[float]) -> list[float]:
    """Raise chances to the minimum accepted now; earlier versions accepted smaller ones."""
    return [max(chance, LEAST_CHANCE) for chance in chances]


def _part(part: Part) -> PartOut:
    rows = [
        EstimateOut.of(
            one,
            covered=one.spread.covered,
            effective=one.spread.effective,
            clipped=one.spread.clipped,
            ours=_interval(one.ours),
            gain=_interval(one.gain),
        )
        for one in part.estimates
    ]
    return PartOut.of(part, theirs=_interval(part.theirs), estimates=rows)


def _verdict(verdict: Verdict) -> VerdictOut:
    intervals = {name: _interval(getattr(verdict, name)) for name in ("theirs", "ours", "gain")}
    return VerdictOut.of(verdict, **intervals)


def _interval(interval: Interval) -> IntervalOut:
    value, low, high = (None if math.isnan(x) else x for x in interval)
    return IntervalOut(value=value, low=low, high=high)
