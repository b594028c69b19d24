"""Give out a list, and take its answer."""

from collections.abc import Sequence

import numpy as np

from ...contract import Visit
from ...live.answers import Given
from ...refusals import Refused
from ..board import events
from ..board.board import NOT_OURS
from ..storage import Unavailable
from .board_session import BoardSession
from .impression_ids import ImpressionId, open_sealed, seal
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
    session.round = max(session.round, board.impressions.rounds) + 1
    ranking, note = board.learner_state.rank(Visit(session.round), candidates, size, worker.chance)
    key, slots, notes = worker.next_key(), ranking.tolist(), []
    if np.count_nonzero(note):
        notes = [(int(i), float(note[i])) for i in np.flatnonzero(note)]
    hashed = 0 if client is None else session.hash_client(client)
    if hashed:
        worker.note_client(session.number, hashed, key, now)
    base, generation = board.impressions.last, board.generation
    worker.log_writer.put(session.number, events.ListShown(key, session.round, base, generation, slots, notes, now))
    expires = now + board.config.lifetime
    shown = ImpressionId(key, session.round, base, generation, expires, hashed, slots, notes)
    return seal(shown, session.signer), board.learner_state.items_at(slots), expires


async def answer(worker: Worker, session: BoardSession, impression: str, said: Given) -> str:
    """Answer an impression; the outcome, once it is on the disk."""
    shown = open_sealed(impression, session.signer)
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
    event = events.Answered(*shown[:4], shown.ranking, shown.note, found.positions, found.examined, time)
    return session.board.known(event) or await worker.write(session, event)
