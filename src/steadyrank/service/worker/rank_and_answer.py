"""Give out lists, alone or interleaved with the caller's own, and process their answers."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...comparison import interleaving
from ...core.contract import ANYONE, Visit
from ...core.refusals import Refused
from ...live.answers import Given
from ...live.collection.collection_state import ShownItems
from ...live.features import Values
from ...live.impression_buffer import MOST_KINDS, NO_OUTCOMES
from ...live.ruled_list import FREE, PINNED, SlotRules
from ...live.rules import Rules
from ..board import events
from ..board.board import NOT_OURS
from ..board.checks import as_logged
from ..storage import Sender, Unavailable
from .board_session import BoardSession
from .impression_ids import FORGED, ImpressionId, Signer, seal
from .listing import BoardListing, EngineResult, Listing, query_listing
from .log_writer import MOST_BEHIND
from .replicas import Replicas
from .worker import Worker

TOO_MANY_LISTS = "more lists for this client in a minute than client_lists"
TOO_MANY = "more answers of this client in a minute than client_minute"
TOO_MANY_UNNAMED = "more answers without a client in a minute than anonymous_minute"
_COINS = 256  # per signature
_DAY = 86_400.0  # seconds


class GivenList(NamedTuple):
    """A list given out: the id of its impression with its expiry, the items from the top, and the rules it breaks."""

    impression: str
    items: list[str]
    expires: float
    unkept: list[str]


def rank(
    worker: Worker | Replicas,
    session: BoardSession,
    candidates: Sequence[str] | None,
    length: int | None,
    client: str | None,
    cohort: Mapping[str, str] | None = None,
    theirs: Sequence[str] | None = None,
    features: Values | None = None,
    engine_result: EngineResult | None = None,
    rules: Rules | None = None,
) -> GivenList:
    """Make a list with an impression id. It is logged asynchronously.

    `client`: the name of the visitor; `cohort`: the names of its cohorts, by kind. `theirs`: the caller's own list,
    to be interleaved with ours. `features`: of the visit. `engine_result`: for a collection, what to rank instead of
    candidates. `rules`: for this list, in addition to the board's.
    """
    if worker.log_writer.behind >= MOST_BEHIND:
        raise Unavailable("too many impressions wait to be written")
    session.check_served()
    board, now, seen = session.board, worker.clock(), worker.seen(session)
    rules = board.rules(rules)
    listing: Listing = (
        BoardListing(board, candidates, rules)
        if engine_result is None
        else query_listing(session, engine_result, rules)
    )
    size, visit_features = list_length(session, length), board.learner_state.features.of_visit(features)
    others, size = [] if theirs is None else listing.places_of(theirs), min(size, listing.most)
    round_ = max(session.round, board.impressions.rounds) + 1
    hashed = 0 if client is None else session.hash_client(client)
    cohorts = {kind: session.hash_cohort(kind, name) for kind, name in (cohort or {}).items()}
    check_kinds(cohorts, board.impressions.kinds, board.config.cohorts)
    if hashed and not session.may_look(hashed, worker.monotonic()):
        raise Refused(429, TOO_MANY_LISTS)
    visit = Visit(round_, session.client_number(hashed), visit_features)
    try:
        slots, note = listing.draw(visit, size, worker.chance)
    except Refused:
        session.lists.give_back(hashed)
        raise
    session.round = round_  # no refusal can follow
    key, notes, mixed, draft = worker.next_key(), [], None, None
    if others:  # no learner made the mixed list, so it has no note
        mix, pins = _mix(session, key, slots, others, size, listing.placed, listing.kept)
        mixed, draft = events.Mixed(mix.teams, slots, others), (mix.first, mix.end)
        # for reconstructing the teams; meaningless to learners
        slots, notes = mix.ranking, [(place, 1.0) for place in pins]
        listing.placed = [PINNED if place in pins else FREE for place in range(len(slots))] if pins else []
    elif np.count_nonzero(note):
        notes = [(int(i), float(note[i])) for i in np.flatnonzero(note)]
    base, generation = board.impressions.last, 0 if others else board.generation
    who, given, of = (ANYONE, dict.fromkeys(cohorts, ANYONE)), as_logged(features), listing.shown(slots)
    event = events.ListShown(key, round_, base, generation, slots, notes, now, *who, mixed, given, of, listing.placed)
    sender = Sender(hashed, seen, cohorts=tuple(cohorts.values())) if hashed or cohorts else None
    worker.log_writer.put_event(session.number, event, sender=sender)
    expires = now + board.config.lifetime
    visitor = cohorts, draft, given, 0 if sender is None else seen, of and (of.query, of.items)
    shown = ImpressionId(key, round_, base, generation, expires, hashed, slots, notes, *visitor)
    impression = seal(shown, session.signer, session.id_room())
    return GivenList(impression, listing.names_of(slots), expires, listing.unkept)


def list_length(session: BoardSession, length: int | None) -> int:
    """The number of places of a list. Raises Refused if the requested length is invalid."""
    most = session.board.length
    if length is not None and not 1 <= length <= most:
        raise Refused(422, f"length must be from 1 to {most}, not {length!r}")
    return most if length is None else length


def check_kinds(given: Iterable[str], known: Sequence[str], declared: Sequence[str] | None) -> None:
    """Raise Refused for kinds of cohort that the board does not declare.

    If it declares none, refuse more kinds than a board may have, counting those known here.
    """
    if declared is not None:
        if others := [kind for kind in given if kind not in declared]:
            has = f"cohorts declares {', '.join(declared)}" if declared else "cohorts declares none"
            raise Refused(422, f"cohort {others[0]!r} is no kind that this board has: {has}")
        return
    if len({*given, *known}) > MOST_KINDS:
        cure = "; declare the kinds you want in its setting cohorts, which drops the others"
        has = f"this board has {', '.join(known)}{cure}" if known else f"not {len(list(given))}"
        raise Refused(422, f"a board has at most {MOST_KINDS} kinds of cohorts: {has}")


async def answer(worker: Worker, session: BoardSession, shown: ImpressionId, said: Given) -> str:
    """Answer an impression. Returns the outcome once it is on disk.

    Answers to one impression are serialized: a later one waits, and a duplicate does not count against the client's
    limit.
    """
    await look_for_items(worker, session, shown)
    while (before := session.answering.get(shown.key)) is not None:
        await asyncio.wait([before])
    outcome = put_answer(worker, session, shown, said)
    try:
        return outcome if isinstance(outcome, str) else await outcome
    finally:
        del outcome  # an exception in it refers to this frame, and so keeps the board alive


def has_new_items(session: BoardSession, shown: ImpressionId) -> bool:
    """Return whether a list has an item unknown here, which was just added at another worker."""
    return session.keys is None and max(shown.ranking) >= len(session.board.learner_state.names)


async def look_for_items(worker: Worker, session: BoardSession, shown: ImpressionId) -> None:
    """Catch up with the log if a list has an item unknown here."""
    if has_new_items(session, shown):
        await worker.catch_up()


def items_of(session: BoardSession, shown: ImpressionId, wanted: Sequence[str]) -> list[str]:
    """The names of a list's items; in a collection, which only stores ids, of those among `wanted`."""
    if session.keys is not None:
        if shown.of is None:
            raise Refused(403, FORGED)
        return session.keys.names(shown.of[1], wanted)
    if has_new_items(session, shown):
        raise Refused(422, NOT_OURS)
    return session.board.learner_state.items_at(shown.ranking)


def put_answer(worker: Worker, session: BoardSession, shown: ImpressionId, said: Given) -> str | asyncio.Future[str]:
    """Put an answer into the log. Returns its outcome if known already, else a future for when it is on disk.

    No other answer to the impression may be in progress. An answer beyond its client's limit is refused with 429, and
    the log records that there was one, so that the impression does not count as seen without a click.
    """
    if shown.expires < worker.clock():
        session.lateness.count(True)
        raise Refused(410, "the impression has expired")
    given = said.to(items_of(session, shown, [said.item] if isinstance(said.item, str) else []))
    head, who, sender, features, of = _repeated_fields(session, shown)
    client = session.board.impressions.client_of(shown.key)
    event = events.Answered(*head, given.positions, given.examined, *who, _teams_of(session, shown), features, of)
    try:
        outcome = session.board.known_outcome(event)
    except Refused as refusal:
        session.lateness.count_refusal(refusal)
        raise
    if outcome is not None:
        return outcome
    if session.may_answer(shown.client, client, worker.monotonic()):
        return _written(worker, session, shown, event, sender)
    if session.board.impressions.withheld(shown.key):
        raise Refused(429, TOO_MANY if shown.client else TOO_MANY_UNNAMED)
    return _withheld(worker, session, shown, events.Withheld(*head, *who, features, of), sender)


def _written(
    worker: Worker, session: BoardSession, shown: ImpressionId, event: events.Answered, sender: Sender | None
) -> asyncio.Future[str]:
    """Write an answer, holding the board in memory. Returns a future of the outcome.

    If writing fails, the answer does not count against its client's limit.
    """

    def done(written: asyncio.Future[str]) -> None:
        del session.answering[shown.key]
        session.users -= 1
        error = None if written.cancelled() else written.exception()
        if isinstance(error, Refused):
            session.lateness.count_refusal(error)
        elif isinstance(error, Unavailable):
            session.answers.give_back(shown.client)

    written = worker.put_event(session, event, sender)
    session.answering[shown.key] = written
    session.users += 1
    written.add_done_callback(done)
    return written


def _withheld(
    worker: Worker, session: BoardSession, shown: ImpressionId, event: events.Withheld, sender: Sender | None
) -> asyncio.Future[str]:
    """Refuse an answer once the log records that there was one."""
    refused: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def done(written: asyncio.Future[str]) -> None:
        del session.answering[shown.key]
        error = None if written.cancelled() else written.exception()
        if not refused.done():
            refused.set_exception(error or Refused(429, TOO_MANY if shown.client else TOO_MANY_UNNAMED))

    written = worker.put_event(session, event, sender)
    session.answering[shown.key] = written
    written.add_done_callback(done)
    return refused


def _repeated_fields(
    session: BoardSession, shown: ImpressionId
) -> tuple[
    tuple[int, int, int, int, list[int], list[tuple[int, float]]],
    tuple[float, int, dict[str, int]],
    Sender | None,
    dict[str, Any],
    ShownItems | None,
]:
    """The fields that repeat the list in an event, and the sender if the log does not have it yet."""
    client, sender = session.board.impressions.client_of(shown.key), None
    if client is None and (shown.client or shown.cohorts):  # the list is not in the log yet, or never will be
        sender = Sender(shown.client, shown.seen, visits=0, cohorts=tuple(shown.cohorts.values()))
    head = shown.key, shown.round, shown.base, shown.generation, shown.ranking, shown.note
    time = shown.expires - session.board.config.lifetime
    who = time, ANYONE if client is None else client, dict.fromkeys(shown.cohorts, ANYONE) if sender else {}
    features = dict(shown.features) if client is None else {}
    return head, who, sender, features, ShownItems(*shown.of) if shown.of and client is None else None


def check_outcome(worker: Worker, session: BoardSession, shown_at: float) -> None:
    """Raise Refused for outcomes on boards that take none, or too late."""
    if session.board.learner_state.outcomes is None:
        raise Refused(409, NO_OUTCOMES)
    days = session.board.config.outcome_days
    if worker.clock() > shown_at + days * _DAY:
        raise Refused(410, f"the list was shown more than outcome_days ago, {days:g}")


async def outcome(
    worker: Worker, session: BoardSession, shown: ImpressionId, item: str, id_: str, amount: float
) -> str:
    """Report an outcome of a click. Returns its result once it is on disk."""
    check_outcome(worker, session, shown.expires - session.board.config.lifetime)
    if has_new_items(session, shown):
        await worker.catch_up()  # the item was just added at another worker
    items = items_of(session, shown, [item])
    if item not in items:
        raise Refused(422, f"the list did not show {item!r:.80}")
    head, who, sender, features, of = _repeated_fields(session, shown)
    slot, number = shown.ranking[items.index(item)], session.hash_outcome(id_)
    event = events.Outcome(*head, slot, number, amount, *who, features, of)
    return await worker.write_event(session, event, sender)


def check_theirs(session: BoardSession, theirs: Sequence[str], client: str | None) -> None:
    """Raise Refused if the caller's list cannot be interleaved with ours."""
    if not session.board.config.interleave:
        raise Refused(422, "theirs needs a board with interleave: PUT the board with that setting first")
    if client is None:
        raise Refused(422, "theirs needs a client: a verdict counts one credit per client and day")
    if not theirs or len(set(theirs)) < len(theirs):
        raise Refused(422, f"theirs must be a list of different items, at least one, not {list(theirs)!r:.200}")


def _mix(
    session: BoardSession,
    key: int,
    ours: Sequence[int],
    theirs: Sequence[int],
    size: int,
    placed: Sequence[int],
    rules: SlotRules | None,
) -> tuple[interleaving.Mix, list[int]]:
    """Interleave our list and theirs into one of at most `size` places; also returns the pinned places.

    Under rules, pinned items stay in place and belong to no team, and others are mixed as far as groups allow. If the
    mixed list would be shorter, or violate includes that ours keeps, ours is shown and no place belongs to a team.
    """
    coins = _coins(session, key, size)
    if rules is None:
        return interleaving.draft(ours, theirs[:size], size, coins), []
    pins = [place for place, whose in enumerate(placed) if whose == PINNED]
    fixed = [ours[place] for place in pins]
    own = [slot for place, slot in enumerate(ours) if place not in pins]
    rest = [slot for slot in theirs if slot not in fixed and slot not in rules.out]
    mix = interleaving.draft(
        own, rest[: len(own)], len(own), coins, lambda items, item: rules.fits([*fixed, *items], item)
    )
    state = session.board.learner_state
    if len(mix.ranking) < len(own) or not rules.includes_as([*fixed, *mix.ranking], ours, state):
        mix = interleaving.Mix(own, [interleaving.NEITHER] * len(own), 0, 0)
    ranking, whose = iter(mix.ranking), _around(pins, mix.teams, len(ours))
    full = [ours[place] if place in pins else next(ranking) for place in range(len(ours))]
    return mix._replace(ranking=full, teams=whose), pins


def _around(pins: Collection[int], teams: Sequence[int], size: int) -> list[int]:
    """The team of each place; pinned places belong to none."""
    rest = iter(teams)
    return [interleaving.NEITHER if place in pins else next(rest) for place in range(size)]


def _teams_of(session: BoardSession, shown: ImpressionId) -> list[int]:
    """The team of each place; empty if the list is not mixed."""
    if shown.draft is None:
        return []
    size, pins = len(shown.ranking), [place for place, _ in shown.note]
    teams = interleaving.teams(size - len(pins), *shown.draft, _coins(session, shown.key, size))
    return _around(pins, teams, size)


def _coins(session: BoardSession, key: int, size: int) -> bytes:
    """Pseudo-random bits that decide who drafts first in each pair of places; the same at every worker."""
    signer = Signer(session.secret, "interleave")
    return b"".join(signer.sign(key.to_bytes(8) + bytes([part])) for part in range(1 + size // (2 * _COINS)))
