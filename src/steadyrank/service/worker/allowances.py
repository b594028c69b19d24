"""Rate limits per client and minute on answers and lists, across workers as far as the log tells."""

from ...core.contract import ANYONE

_MOST = 100_000  # clients counted


class Allowances:
    """Counts the uses of each client in this minute, in a bounded table that never forgets a client at its limit.

    A use is an answer, or a list. Local uses are counted at once, by the hash of the client's name, 0 without a name;
    uses at other workers by the client's number, when the log brings them. Each minute starts a new table.
    """

    def __init__(self) -> None:
        self._minute = 0
        self._counts: dict[int, int] = {}

    def spend(self, client: int, number: int | None, most: int, now: float) -> bool:
        """Count a use of a client, by its hash, and its number if known. Returns False if it exceeds the limit."""
        self._turn(now)
        used = self._counts.get(client, 0)
        if client == 0 or (number is not None and number != ANYONE):
            used += self._counts.get(_elsewhere(ANYONE if number is None else number), 0)
        return used < most and self._add(client, most)

    def give_back(self, client: int) -> None:
        """Undo the count of a use that did not happen."""
        if self._counts.get(client, 0) > 0:
            self._counts[client] -= 1

    def note(self, number: int, most: int, now: float) -> None:
        """Count a use at another worker by the client with this number."""
        self._turn(now)
        self._add(_elsewhere(number), most)

    def used(self, now: float) -> int:
        """The number of clients counted in this minute."""
        self._turn(now)
        return len(self._counts)

    def forget(self, client: int) -> None:
        """Remove a client."""
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
        """Drop the half with the fewest uses, except clients at their limit. Returns whether there is room."""
        middle = sorted(self._counts.values())[len(self._counts) // 2]
        self._counts = {who: count for who, count in self._counts.items() if count > middle or count >= most}
        return len(self._counts) < _MOST


def _elsewhere(number: int) -> int:
    """The table key for a client's number: negative, so that it differs from all hashes."""
    return -2 - number
