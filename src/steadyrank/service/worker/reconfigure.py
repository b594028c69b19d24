"""Change the settings and labels of a board; changes that affect learning replay its log."""

import asyncio
from typing import Any

from ...core.contract import ANYONE
from ...core.refusals import Refused
from ..board import events
from ..board.checks import check_memory
from ..board.config import Setting
from ..board.events import AnyEvent
from ..board.labels import WORDS, Label
from ..storage import SqlStore
from .board_session import BoardSession, Edge
from .recovery import read_edge
from .resealing import promise
from .worker import Worker

_FROM_THE_EDGE = 2**63  # as start: replay as far as the log is kept


async def configure(worker: Worker, session: BoardSession, changes: dict[str, Setting]) -> None:
    """Change settings of a board; if that affects learning, replay its log and wait for it."""
    # raises Refused if invalid, and compiles the learner
    config = await asyncio.to_thread(session.board.after, changes)
    before, state = session.board.latest, session.board.learner_state
    if config.learner_part() != before.learner_part() or config.most_open > before.most_open:
        items = len(state.names), worker.most_bytes, state.capacity
        await asyncio.to_thread(check_memory, config, *items)
    if config.lifetime < before.lifetime:
        await promise(worker.log_writer, session, worker.clock())
    if config.learning() != before.learning():
        start = 0 if config.learner_part() != before.learner_part() else _FROM_THE_EDGE
        edge = await _write(worker, session, events.Configured(changes), start)
        if edge is not None:
            raise Refused(
                409,
                "the beginning of the board's log is no longer kept, so another learner cannot learn from it: "
                "make a new board",
            )
        await asyncio.to_thread(session.board.after, changes)  # another change may have come first in the log
    elif config != session.board.latest:
        await worker.write_event(session, events.Configured(changes))
    if session.refolding is not None:
        await asyncio.shield(session.refolding)


async def label(worker: Worker, session: BoardSession, start: int, end: int, word: str) -> Label:
    """Label the feedback of rounds `start` to `end`; the log is replayed in the background."""
    if word not in WORDS:
        raise Refused(422, f"label must be {' or '.join(WORDS)}, not {word!r:.80}")
    await worker.catch_up()
    rounds = session.board.impressions.rounds
    if not 1 <= start <= rounds:
        raise Refused(422, f"start must be a round from 1 to the latest, {rounds}, not {start}")
    if not start <= end <= rounds:
        raise Refused(422, f"end must be a round from start, {start}, to the latest, {rounds}, not {end}")
    return await _add_label(worker, session, start, start, end, word)


async def label_client(
    worker: Worker, session: BoardSession, client: int | str, cohort: str | None, word: str
) -> Label:
    """Label all feedback of a client or cohort, by number or name; replays the log as far as it is kept."""
    if word not in WORDS:
        raise Refused(422, f"label must be {' or '.join(WORDS)}, not {word!r:.80}")
    kind, client = cohort or "", await _number_of(worker, session, client, cohort)
    await worker.catch_up()
    return await _add_label(worker, session, _FROM_THE_EDGE, 0, 0, word, client, kind)


async def _add_label(worker: Worker, session: BoardSession, since: int, start: int, end: int, *rest: Any) -> Label:
    """Add a label of rounds or of a sender; it changes what was learnt from round `since` on."""
    key, labels = worker.next_key(), session.board.labels
    number = labels.after(key, start, end, *rest)  # raises Refused if there are too many
    if number > labels.count:
        edge = await _write(worker, session, events.Labelled(key, start, end, *rest), since)
        if edge is not None:
            raise _kept_no_longer(edge, f"{start} to {end}")
        number = session.board.labels.numbers.get(key, 0)
    if not number or session.number not in worker.cache.by_number:
        raise Refused(409, "the board was deleted, or labelled by others, at the same moment: look again")
    return Label(number, start, end, *rest)


async def _number_of(worker: Worker, session: BoardSession, client: int | str, kind: str | None) -> int:
    """The number of a known client or cohort, given its number or name."""
    if isinstance(client, str):
        hashed = session.hash_client(client) if kind is None else session.hash_cohort(kind, client)
        number: int | None = await worker.log_writer.run_chore(
            lambda store: store.client_number(session.number, hashed)
        )
        if number is None:
            raise Refused(422, f"no number is known for the name {client!r:.80}: it never came, or was forgotten")
        return number
    count: int = await worker.log_writer.run_chore(lambda store: store.clients(session.number))
    if not 0 <= client < count:
        raise Refused(422, f"client must be a name, or a number less than {count}, not {client}")
    return client


async def unlabel(worker: Worker, session: BoardSession, number: int) -> None:
    """Remove a label; removing it again has no effect."""
    await worker.catch_up()
    labels = session.board.labels
    if not 1 <= number <= labels.count:
        raise Refused(404, f"no label {number}")
    taken_back = labels.labels.get(number)
    if taken_back is None:
        return
    start = taken_back.start if taken_back.client == ANYONE else _FROM_THE_EDGE
    edge = await _write(worker, session, events.Unlabelled(number), start)
    if edge is not None:
        raise _kept_no_longer(edge, f"{taken_back.start} to {taken_back.end}")


def _kept_no_longer(edge: Edge, rounds: str) -> Refused:
    return Refused(
        409,
        f"the beginning of the board's log is no longer kept, so rounds {rounds} cannot be judged otherwise: "
        f"the first round that can be is {edge.first_round}",
    )


async def _write(worker: Worker, session: BoardSession, event: AnyEvent, start: int) -> Edge | None:
    """Write and apply an event that changes what was learnt from round `start` on (0: everything).

    If the log was shortened beyond that round, nothing is written, and its edge is returned. The check and the write
    are one transaction, so the log cannot be shortened in between.
    """
    session.check_served()
    body = events.encode(event)

    def write(store: SqlStore) -> Edge | None:
        while True:
            edge = (
                session.edge
                if store.shortened(session.number) == session.edge.seq
                else read_edge(store, session.number)
            )
            if edge.seq and start < edge.first_round:
                return edge
            if store.append_if(session.number, edge.seq, body, worker.clock()):
                return None
            if session.number not in store.edges([session.number]):
                raise Refused(404, "the board was deleted")

    edge: Edge | None = await worker.log_writer.run_chore(write)
    await worker.catch_up()
    session.check_served()
    return edge
