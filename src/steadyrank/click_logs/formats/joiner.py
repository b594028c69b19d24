"""Lists that some rows show and clicks that others tell of, brought together. Needs no polars."""

import bisect
import collections
import math
from dataclasses import dataclass, field
from typing import Any

from .fields import number, seconds


@dataclass(slots=True)
class ShownList:
    """A list from the top, and what is known of its visit."""

    row: int  # the first that tells of it
    items: list[Any]
    time: float | None  # NaN for one that cannot be read
    client: Any
    board: Any
    segment: Any = None
    features: Any = None
    query: Any = None  # what was asked
    places: list[float] | None = None  # of its items, where it is told of item by item
    bits: list[int] = field(default_factory=list)  # whether each item was clicked, once joined
    value: float = 0.0  # of what came of its clicks, once joined


@dataclass(slots=True)
class _Click:
    row: int
    key: Any
    item: str
    time: float | None
    client: Any
    board: Any


class EventJoiner:
    """Takes lists, single shown items and clicks, and gives the lists with what of them was clicked."""

    def __init__(self) -> None:
        self.lists: list[ShownList] = []
        self._by_key: dict[Any, int] = {}
        self._clicks: list[_Click] = []
        self._outcomes: dict[tuple[Any, str], dict[str, float]] = {}  # by list and item, each by its id
        self._others: collections.Counter[str] = collections.Counter()  # rows that are neither, by what they are

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
        """A list from the top, and what is known of its visit. One that is told of twice, by its key, is one."""
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
        """An item of a list that is told of item by item."""
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
        """A click; without a key it belongs to the last list of its client that shows the item."""
        self._clicks.append(_Click(row, key, str(item), _time(time), client, board))

    def add_outcome(self, key: Any, item: Any, id_: str, amount: float) -> None:
        """What came of a click on an item of a list, once by its id; less than 0 for a return."""
        self._outcomes.setdefault((key, str(item)), {}).setdefault(id_, amount)

    def add_other(self, what: Any) -> None:
        """A row that tells of neither."""
        self._others[str(what)] += 1

    def join(self) -> list[str]:
        """Put the items of each list in order and give it its clicks; what is to be said of rows that are in none."""
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
            notes.append(f"Rows that tell neither of a list nor of a click were left out: {kinds}.")
        return notes

    def _give_values(self, clicked: dict[int, set[str]]) -> int:
        """Give each list what came of its clicks, of none less than 0; how many outcomes have no click."""
        unclicked = 0
        for (key, item), amounts in self._outcomes.items():
            i = self._by_key.get(key, -1)
            if item in clicked.get(i, ()):
                self.lists[i].value += max(math.fsum(amounts.values()), 0.0)
            else:
                unclicked += len(amounts)
        return unclicked

    def _clicked(self) -> tuple[dict[int, set[str]], int]:
        """What was clicked of each list, by its number, and how many clicks have no list."""
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
    """A time to compare by: without one, the number of the row."""
    return float(one.row) if one.time is None or math.isnan(one.time) else one.time
