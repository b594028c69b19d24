"""Mix the caller's own list with ours. Who drafts first is a coin that the board's secret tosses for each list:
any worker can tell afterwards, and nobody outside."""

from collections.abc import Sequence

from ... import interleaving
from ...refusals import Refused
from .board_session import BoardSession
from .impression_ids import ImpressionId, Signer

_COINS = 256  # of a signature


def check_theirs(session: BoardSession, theirs: Sequence[str], client: str | None) -> None:
    """Refuse a list that cannot be mixed with ours."""
    if not session.board.config.interleave:
        raise Refused(422, "theirs is mixed with our list where the board has interleave: PUT it with that first")
    if client is None:
        raise Refused(422, "theirs needs a client: a verdict counts one credit a client and day")
    if not theirs or len(set(theirs)) < len(theirs):
        raise Refused(422, f"theirs must be a list of different items, at least one, not {list(theirs)!r:.200}")


def slots_of(session: BoardSession, theirs: Sequence[str]) -> list[int]:
    """The slots of a list's items; refused if one is no item of the board."""
    slots = session.board.learner_state.slots
    for item in theirs:
        if item not in slots:
            raise Refused(422, f"item {item!r:.80} of theirs is no item of the board: unknown says what to do")
    return [slots[item] for item in theirs]


def mix(session: BoardSession, key: int, ours: Sequence[int], theirs: Sequence[int], size: int) -> interleaving.Mix:
    """Our list and theirs, mixed into one of at most `size` places, for the impression with this key."""
    return interleaving.draft(ours, theirs[:size], size, _coins(session, key, size))


def teams_of(session: BoardSession, shown: ImpressionId) -> list[int]:
    """Which places of a list are whose; none if it is not mixed."""
    if shown.draft is None:
        return []
    size = len(shown.ranking)
    return interleaving.teams(size, *shown.draft, _coins(session, shown.key, size))


def _coins(session: BoardSession, key: int, size: int) -> bytes:
    signer = Signer(session.secret, "interleave")
    return b"".join(signer.sign(key.to_bytes(8) + bytes([part])) for part in range(1 + size // (2 * _COINS)))
