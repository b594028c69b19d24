"""Give out a list, and take its answer."""

from collections.abc import Sequence

import numpy as np

from ...contract import ANYONE, Visit
from ...live.answers import Given
from ...refusals import Refused
from ..board import events
from ..board.board import NOT_OURS
from ..storage import Sender, Unavailable
from .board_session import BoardSession
from .impression_ids import ImpressionId, seal
from .log_writer import MOST_BEHIND
from .worker import Worker


def rank(
    worker: Worker, session: BoardSession, candidates: Sequence[str] | None, length: int | None, client: str | None
) -> tuple[str, list[str], float]:
    """Impression id, items from the top, and when the id expires. Logged without waiting for the disk."""
    if worker.log_writer.behind >= MOST_BEHIND:
        raise Unavailable("too many impressions wait to be written")
    board, now = session.board, worker.clock()
    size = board.learner_state.length if length is None else length
    if not 1 <= size <= board.learner_state.length:
        raise Refused(422, f"length must be from 1 to {board.learner_state.length}, not {length!r}")
    round_ = max(session.round, board.impressions.rounds) + 1
    hashed = 0 if client is None else session.hash_client(client)
    visit = Visit(round_, session.client_number(hashed))
    ranking, note = board.learner_state.rank(visit, candidates, size, worker.chance)
    session.round = round_  # nothing is refused from here on
    key, slots, notes = worker.next_key(), ranking.tolist(), []
    if np.count_nonzero(note):
        notes = [(int(i), float(note[i])) for i in np.flatnonzero(note)]
    base, generation = board.impressions.last, board.generation
    event = events.ListShown(key, round_, base, generation, slots, notes, now)
    worker.log_writer.put(session.number, event, sender=Sender(hashed, now) if hashed else None)
    expires = now + board.config.lifetime
    shown = ImpressionId(key, round_, base, generation, expires, hashed, slots, notes)
    return seal(shown, session.signer), board.learner_state.items_at(slots), expires


async def answer(worker: Worker, session: BoardSession, shown: ImpressionId, said: Given) -> str:
    """Answer an impression; the outcome, once it is on the disk."""
    if shown.expires < worker.clock():
        raise Refused(410, "the impression has expired")
    if shown.client:
        session.count_client(shown.client, worker.monotonic())
    if max(shown.ranking) >= len(session.board.learner_state.names):
        await worker.catch_up()  # an item was added at another worker a moment ago
    state = session.board.learner_state
    if max(shown.ranking) >= len(state.names):
        raise Refused(422, NOT_OURS)
    found = said.to(state.items_at(shown.ranking))
    time = shown.expires - session.board.config.lifetime
    client, sender = session.board.impressions.client_of(shown.key), None
    if client is None and shown.client:  # the list is not in the log yet, or never will be
        sender = Sender(shown.client, time, visits=0)
    head = shown.key, shown.round, shown.base, shown.generation, shown.ranking, shown.note
    event = events.Answered(*head, found.positions, found.examined, time, ANYONE if client is None else client)
    return session.board.known(event) or await worker.write(session, event, sender)
