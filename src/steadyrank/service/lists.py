"""Give out a list, and take its answer."""

from collections.abc import Sequence

import numpy as np

from ..live.ranker import read_answer
from ..refusals import Refused
from . import events
from .held import Held
from .host import Host
from .journal import MOST_BEHIND
from .sql import Unavailable
from .tickets import Ticket, open_sealed, seal


def rank(
    host: Host, held: Held, candidates: Sequence[str] | None, length: int | None, client: str | None
) -> tuple[str, list[str], float]:
    """Impression id, items from the top, and when the id expires. Logged without waiting for the disk."""
    if host.journal.behind >= MOST_BEHIND:
        raise Unavailable("too many impressions wait to be written")
    board, now = held.board, host.clock()
    size = board.fold.length if length is None else length
    if not 1 <= size <= board.fold.length:
        raise Refused(422, f"length must be from 1 to {board.fold.length}, not {length!r}")
    held.round = max(held.round, board.intake.rounds) + 1
    ranking, note = board.fold.rank(held.round, candidates, size, host.chance)
    key, slots, notes = host.next_key(), ranking.tolist(), []
    if np.count_nonzero(note):
        notes = [(int(i), float(note[i])) for i in np.flatnonzero(note)]
    hashed = 0 if client is None else held.hash_client(client)
    if hashed:
        host.note_client(held.number, hashed, key, now)
    base, generation = board.intake.last, board.generation
    host.journal.put(held.number, events.Shown(key, held.round, base, generation, slots, notes, now))
    expires = now + board.config.lifetime
    ticket = Ticket(key, held.round, base, generation, expires, hashed, slots, notes)
    return seal(ticket, held.signer), [board.fold.names[slot] for slot in slots], expires


async def answer(
    host: Host,
    held: Held,
    impression: str,
    *,
    clicked: str | None = None,
    clicks: Sequence[int] | None = None,
    examined: int | None = None,
) -> str:
    """Answer an impression; the outcome, once it is on the disk."""
    ticket = open_sealed(impression, held.signer)
    if ticket.expires < host.clock():
        raise Refused(410, "the impression has expired")
    if ticket.client:
        held.count_client(ticket.client, host.monotonic())
    if max(ticket.ranking) >= len(held.board.fold.names):
        await host.catch_up()  # an item was added at another worker a moment ago
    positions: list[int] = []
    looked = len(ticket.ranking)
    if clicks is not None:
        bits, looked = read_answer(looked, None, clicks, examined)
        positions = np.flatnonzero(bits).tolist()
    elif clicked is not None:
        slot = held.board.fold.slots.get(clicked, -1)
        if slot not in ticket.ranking:
            raise Refused(422, f"item {clicked!r:.80} was not shown")
        positions = [ticket.ranking.index(slot)]
        looked = positions[0] + 1
    time = ticket.expires - held.board.config.lifetime
    event = events.Answered(*ticket[:4], ticket.ranking, ticket.note, positions, looked, time)
    return held.board.known(event) or await host.write(held, event)
