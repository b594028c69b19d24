"""How many answers or lists a client may have in a minute, at all workers together as far as the log tells."""

from ...core.contract import ANYONE

_MOST = 100_000  # clients counted


class Allowances:
    """Uses of each client in this minute: a table of bounded size that never forgets who has used up its share.

    A use is an answer, or a list. Those here are counted by the hash of their client's name, 0 without a name, when
    they come; those at other workers by the number of their client, when the log brings them. A new minute begins a
    new table.
    """

    def __init__(self) -> None:
        self._minute = 0
        self._counts: dict[int, int] = {}

    def spend(self, client: int, number: int | None, most: int, now: float) -> bool:
        """Count a use of a client, by its hash and its number if it is known; False if that is one too many."""
        self._turn(now)
        used = self._counts.get(client, 0)
        if client == 0 or (number is not None and number != ANYONE):
            used += self._counts.get(_elsewhere(ANYONE if number is None else number), 0)
        return used < most and self._add(client, most)

    def give_back(self, client: int) -> None:
        """A use was counted that did not come about."""
        if self._counts.get(client, 0) > 0:
            self._counts[client] -= 1

    def note(self, number: int, most: int, now: float) -> None:
        """At another worker there was a use of the client with this number."""
        self._turn(now)
        self._add(_elsewhere(number), most)

    def used(self, now: float) -> int:
        """Clients counted in this minute."""
        self._turn(now)
        return len(self._counts)

    def forget(self, client: int) -> None:
        """Keep nothing of a client."""
        self._counts.pop(client, None)

    def _turn(self, now: float) -> None:
        minute = int(now // 60)
        if minute != self._minute:
            self._minute, self._counts = minute, {}

    def _add(self, who: int, most: int) -> bool:
        if who not in self._counts and len(self._counts) >= _MOST and not self._make_room(most):
            return False
        self._counts[who] = self._counts.get(who, 0) + 1
        return True

    def _make_room(self, most: int) -> bool:
        """Forget the half with the fewest uses, but nobody whose share is used up; whether there is room."""
        middle = sorted(self._counts.values())[len(self._counts) // 2]
        self._counts = {who: count for who, count in self._counts.items() if count > middle or count >= most}
        return len(self._counts) < _MOST


def _elsewhere(number: int) -> int:
    """What stands for the client of this number in the table: below 0, where no hash is."""
    return -2 - number
