"""Changes of a board's settings and labels: those that change what was learnt fold its log again."""

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

_FROM_THE_EDGE = 2**63  # a round after all: what is to be learnt otherwise is so as far as the log is kept


async def configure(worker: Worker, session: BoardSession, changes: dict[str, Setting]) -> None:
    """Change some of a board's settings; if that changes what is learnt, fold its log again and wait for it."""
    config = await asyncio.to_thread(session.board.after, changes)  # refuses what is wrong, and compiles the learner
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
                "the beginning of the board's log is no longer kept, so another learner cannot be told of it: "
                "make a new board",
            )
        await asyncio.to_thread(session.board.after, changes)  # in log order they may not go together with another's
    elif config != session.board.latest:
        await worker.write_event(session, events.Configured(changes))
    if session.refolding is not None:
        await asyncio.shield(session.refolding)


async def label(worker: Worker, session: BoardSession, start: int, end: int, word: str) -> Label:
    """Label the feedback of the rounds from `start` to `end`; the log is folded again meanwhile."""
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
    """Label all feedback of a client or a cohort, by number or name; folds the log again, as far as it is kept."""
    if word not in WORDS:
        raise Refused(422, f"label must be {' or '.join(WORDS)}, not {word!r:.80}")
    kind, client = cohort or "", await _number_of(worker, session, client, cohort)
    await worker.catch_up()
    return await _add_label(worker, session, _FROM_THE_EDGE, 0, 0, word, client, kind)


async def _add_label(worker: Worker, session: BoardSession, since: int, start: int, end: int, *rest: Any) -> Label:
    """A label of rounds, or of a sender; what was learnt from round `since` on is learnt otherwise."""
    key, labels = worker.next_key(), session.board.labels
    number = labels.after(key, start, end, *rest)  # refuses one too many
    if number > labels.count:
        edge = await _write(worker, session, events.Labelled(key, start, end, *rest), since)
        if edge is not None:
            raise _kept_no_longer(edge, f"{start} to {end}")
        number = session.board.labels.numbers.get(key, 0)
    if not number or session.number not in worker.cache.by_number:
        raise Refused(409, "the board was deleted, or labelled by others, at the same moment: look again")
    return Label(number, start, end, *rest)


async def _number_of(worker: Worker, session: BoardSession, client: int | str, kind: str | None) -> int:
    """The number of a client or a cohort who came, given itself or by name."""
    if isinstance(client, str):
        hashed = session.hash_client(client) if kind is None else session.hash_cohort(kind, client)
        number: int | None = await worker.log_writer.run_chore(
            lambda store: store.client_number(session.number, hashed)
        )
        if number is None:
            raise Refused(422, f"nobody of this name came, or it is no longer known which number {client!r:.80} has")
        return number
    count: int = await worker.log_writer.run_chore(lambda store: store.clients(session.number))
    if not 0 <= client < count:
        raise Refused(422, f"client must be the number of one who came, less than {count}, or a name, not {client}")
    return client


async def unlabel(worker: Worker, session: BoardSession, number: int) -> None:
    """Take a label back; one that was taken back before stays so."""
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
    """Write and apply an event that changes what was learnt from a round on, 0: of everything.

    Where the log was shortened beyond that round, it is not written, and the edge is the answer. Looking and writing
    are one transaction: the log cannot be shortened in between.
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
