"""Join lists from some rows with clicks and outcomes from others. Needs no polars."""

import bisect
import collections
import math
from dataclasses import dataclass, field
from typing import Any

from .fields import number, seconds


@dataclass(slots=True)
class ShownList:
    """A list from the top, and its visit."""

    row: int  # the first row of the list
    items: list[Any]
    time: float | None  # NaN if it cannot be parsed
    client: Any
    board: Any
    segment: Any = None
    features: Any = None
    query: Any = None  # text of the query
    places: list[float] | None = None  # of its items, if these came in separate rows
    bits: list[int] = field(default_factory=list)  # whether each item was clicked, after joining
    value: float = 0.0  # total value of outcomes of its clicks, after joining


@dataclass(slots=True)
class _Click:
    row: int
    key: Any
    item: str
    time: float | None
    client: Any
    board: Any


class EventJoiner:
    """Collects lists, single shown items, clicks and outcomes, and joins them."""

    def __init__(self) -> None:
        self.lists: list[ShownList] = []
        self._by_key: dict[Any, int] = {}
        self._clicks: list[_Click] = []
        self._outcomes: dict[tuple[Any, str], dict[str, float]] = {}  # by list and item, then by id of the outcome
        self._others: collections.Counter[str] = collections.Counter()  # counts of all other rows by kind

    def add_list(
        self,
        row: int,
        key: Any,
        items: list[Any],
        time: Any,
        client: Any,
        board: Any,
        segment: Any = None,
        features: Any = None,
        query: Any = None,
    ) -> None:
        """Add a list from the top, with its visit. Lists with the same key are merged."""
        if key is not None and key in self._by_key:
            before = self.lists[self._by_key[key]]
            if len(before.items) < len(items):
                before.items, before.places = items, None
            before.segment = segment if before.segment is None else before.segment
            before.features = features if before.features is None else before.features
            before.query = query if before.query is None else before.query
            return
        if key is not None:
            self._by_key[key] = len(self.lists)
        self.lists.append(ShownList(row, items, _time(time), client, board, segment, features, query))

    def add_shown_item(self, row: int, key: Any, item: Any, place: Any, time: Any, client: Any, board: Any) -> None:
        """Add an item to a list whose items come in separate rows."""
        if key not in self._by_key:
            self.add_list(row, key, [], time, client, board)
            self.lists[-1].places = []
        one = self.lists[self._by_key[key]]
        if one.places is not None and item not in one.items:
            one.items.append(item)
            one.places.append(number(place))

    def add_click(
        self, row: int, key: Any, item: Any, time: Any = None, client: Any = None, board: Any = None
    ) -> None:
        """Add a click; without a key it belongs to the last list of its client that shows the item."""
        self._clicks.append(_Click(row, key, str(item), _time(time), client, board))

    def add_outcome(self, key: Any, item: Any, id_: str, amount: float) -> None:
        """Add an outcome of a click on an item of a list, below 0 for a return; repeated ids are ignored."""
        self._outcomes.setdefault((key, str(item)), {}).setdefault(id_, amount)

    def add_other(self, what: Any) -> None:
        """Count a row of another kind."""
        self._others[str(what)] += 1

    def join(self) -> list[str]:
        """Order the items of each list, and assign clicks and outcomes to lists; returns notes on unused rows."""
        for one in self.lists:
            if one.places and not any(map(math.isnan, one.places)):
                order = sorted(range(len(one.items)), key=one.places.__getitem__)
                one.items = [one.items[i] for i in order]
            one.items = list(map(str, one.items))
        clicked, lost = self._clicked()
        for i, one in enumerate(self.lists):
            one.bits = [int(name in clicked[i]) for name in one.items] if i in clicked else [0] * len(one.items)
        notes = [f"{lost:,} of {len(self._clicks):,} clicks belong to no list in the log."] if lost else []
        if unclicked := self._give_values(clicked):
            of = sum(map(len, self._outcomes.values()))
            notes.append(f"{unclicked:,} of {of:,} outcomes belong to no click in the log.")
        if self._others:
            kinds = ", ".join(f"{count:,} {what}" for what, count in self._others.most_common(5))
            notes.append(f"Rows that are neither lists nor clicks were left out: {kinds}.")
        return notes

    def _give_values(self, clicked: dict[int, set[str]]) -> int:
        """Add up the outcomes of each list, at least 0 per click; returns the number of outcomes without a click."""
        unclicked = 0
        for (key, item), amounts in self._outcomes.items():
            i = self._by_key.get(key, -1)
            if item in clicked.get(i, ()):
                self.lists[i].value += max(math.fsum(amounts.values()), 0.0)
            else:
                unclicked += len(amounts)
        return unclicked

    def _clicked(self) -> tuple[dict[int, set[str]], int]:
        """Return the items clicked by number of the list, and the number of clicks without a list."""
        clicked: dict[int, set[str]] = collections.defaultdict(set)
        lost = 0
        names = [set(one.items) for one in self.lists]
        times: dict[Any, list[tuple[float, int]]] = collections.defaultdict(list)
        for i, one in enumerate(self.lists):
            times[one.client, one.board].append((_when(one), i))
        for queue in times.values():
            queue.sort()
        for click in self._clicks:
            if click.key is not None:
                i = self._by_key.get(click.key, -1)
            else:
                queue = times.get((click.client, click.board), [])
                at = bisect.bisect_right(queue, (_when(click), len(self.lists)))
                i = next((i for _, i in reversed(queue[:at]) if click.item in names[i]), -1)
            if i >= 0 and click.item in names[i]:
                clicked[i].add(click.item)
            else:
                lost += 1
        return clicked, lost


def _time(given: Any) -> float | None:
    return None if given is None else seconds(given)


def _when(one: ShownList | _Click) -> float:
    """The time to sort by, or the row number without a time."""
    return float(one.row) if one.time is None or math.isnan(one.time) else one.time
