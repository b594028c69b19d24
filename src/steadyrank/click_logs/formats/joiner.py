"""Lists that were shown and clicks that were told of elsewhere, brought together."""

import bisect
import collections
import json
import math
from typing import Any

import polars as pl

from ..event_rows import seconds
from ..files import ROW

_ABOUT = ("time", "client", "board", "segment", "features")  # columns, where a list has them


class Pile:
    """Takes lists, single shown items and clicks, and gives one row a list."""

    def __init__(self) -> None:
        self.lists: list[dict[str, Any]] = []
        self.by_key: dict[Any, int] = {}
        self.clicks: list[dict[str, Any]] = []
        self.others: collections.Counter[str] = collections.Counter()  # rows that are neither, by what they are

    def shown(
        self,
        row: int,
        key: Any,
        items: list[Any],
        time: Any,
        client: Any,
        board: Any,
        segment: Any = None,
        features: Any = None,
    ) -> None:
        """A list from the top, and what is known of its visit. One that is told of twice, by its key, is one."""
        if key is not None and key in self.by_key:
            known = self.lists[self.by_key[key]]
            if len(known["items"]) < len(items):
                known["items"], known["places"] = items, None
            known["segment"] = segment if known["segment"] is None else known["segment"]
            known["features"] = features if known["features"] is None else known["features"]
            return
        if key is not None:
            self.by_key[key] = len(self.lists)
        about = {"time": time, "client": client, "board": board, "segment": segment, "features": features}
        self.lists.append({ROW: row, "items": items, **about, "places": None})

    def piece(self, row: int, key: Any, item: Any, place: Any, time: Any, client: Any, board: Any) -> None:
        """An item of a list that is told of item by item."""
        if key not in self.by_key:
            self.shown(row, key, [], time, client, board)
            self.lists[-1]["places"] = []
        one = self.lists[self.by_key[key]]
        if one["places"] is not None and item not in one["items"]:
            one["items"].append(item)
            one["places"].append(seconds(place))

    def click(self, row: int, key: Any, item: Any, time: Any = None, client: Any = None, board: Any = None) -> None:
        """A click; without a key it belongs to the last list of its client that shows the item."""
        self.clicks.append({ROW: row, "key": key, "item": item, "time": time, "client": client, "board": board})

    def other(self, what: Any) -> None:
        """A row that tells of neither."""
        self.others[str(what)] += 1

    def log(self) -> tuple[pl.DataFrame, list[str]]:
        """One row a list, with a bit a place, and what is to be said of rows that are not in it."""
        for one in self.lists:
            if one["places"] and not any(map(math.isnan, one["places"])):
                order = sorted(range(len(one["items"])), key=one["places"].__getitem__)
                one["items"] = [one["items"][i] for i in order]
        hits: dict[int, set[str]] = collections.defaultdict(set)
        lost = self._join(hits)
        bits = []
        for i, one in enumerate(self.lists):
            one["items"] = list(map(str, one["items"]))
            bits.append([int(name in hits[i]) for name in one["items"]] if i in hits else [0] * len(one["items"]))
        frame = pl.DataFrame(
            {
                "items": pl.Series([one["items"] for one in self.lists], dtype=pl.List(pl.String)),
                "clicked": pl.Series(bits, dtype=pl.List(pl.Int64)),
                **{name: self._column(name) for name in _ABOUT if self._has(name)},
                ROW: pl.Series([one[ROW] for one in self.lists], dtype=pl.Int64),
            }
        )
        notes = [f"{lost:,} of {len(self.clicks):,} clicks belong to no list in the log."] if lost else []
        if self.others:
            kinds = ", ".join(f"{count:,} {what}" for what, count in self.others.most_common(5))
            notes.append(f"Rows that tell neither of a list nor of a click were left out: {kinds}.")
        return frame.filter(pl.col("items").list.len() > 0), notes

    def _has(self, name: str) -> bool:
        return any(one[name] is not None for one in self.lists)

    def _column(self, name: str) -> pl.Series:
        values = [one[name] for one in self.lists]
        if name == "features":
            values = [None if value is None else json.dumps(value) for value in values]
        if name != "time":
            return pl.Series([None if value is None else str(value) for value in values], dtype=pl.String)
        numbers = [seconds(value) for value in values]
        return pl.Series(numbers, dtype=pl.Float64)

    def _join(self, hits: dict[int, set[str]]) -> int:
        """Give clicks to their lists; how many have none."""
        lost = 0
        names = [set(map(str, one["items"])) for one in self.lists]
        times: dict[Any, list[tuple[float, int]]] = collections.defaultdict(list)
        for i, one in enumerate(self.lists):
            times[one["client"], one["board"]].append((self._when(one), i))
        for queue in times.values():
            queue.sort()
        for click in self.clicks:
            item = str(click["item"])
            if click["key"] is not None:
                i = self.by_key.get(click["key"], -1)
            else:
                queue = times.get((click["client"], click["board"]), [])
                at = bisect.bisect_right(queue, (self._when(click), len(self.lists)))
                i = next((i for _, i in reversed(queue[:at]) if item in names[i]), -1)
            if i >= 0 and item in names[i]:
                hits[i].add(item)
            else:
                lost += 1
        return lost

    def _when(self, one: dict[str, Any]) -> float:
        time = seconds(one["time"])
        return float(one[ROW]) if math.isnan(time) else time
