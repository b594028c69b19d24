"""Labels: a person's word on some rounds, a client or a cohort, and how labels combine."""

import bisect
import heapq
import itertools
from collections.abc import Iterable
from typing import Any, NamedTuple

from ...core.contract import ANYONE
from ...core.refusals import Refused

FRAUD, HONEST = WORDS = ("fraud", "honest")
MOST = 1_000  # labels in force
_KEYS = 10_000  # of labels, remembered to deduplicate requests


class Label(NamedTuple):
    """A label; rounds count from 1 and the range includes both ends. One of a sender holds in all rounds."""

    number: int
    start: int
    end: int
    label: str
    client: int = ANYONE  # number of a client or a cohort; ANYONE: the label is for rounds
    kind: str = ""  # of cohort

    def touches(self, other: "Label") -> bool:
        """Return whether two labels share rounds, or their sender."""
        return self.client == other.client and self.start <= other.end and other.start <= self.end


class Spans:
    """The labels of rounds as sorted disjoint intervals; neighbours with the same label are merged."""

    def __init__(self, spans: Iterable[tuple[int, int, str]] = ()) -> None:
        self.spans = tuple((int(start), int(end), str(word)) for start, end, word in spans)
        self._starts = [start for start, _, _ in self.spans]

    def __bool__(self) -> bool:
        return bool(self.spans)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spans) and self.spans == other.spans

    def __hash__(self) -> int:
        return hash(self.spans)

    def word(self, t: int) -> str | None:
        """The label of a round; None if it has none."""
        place = bisect.bisect_right(self._starts, t) - 1
        if place >= 0 and t <= self.spans[place][1]:
            return self.spans[place][2]
        return None

    def differs_from(self, other: "Spans") -> int | None:
        """The first round where the two differ; None if they are equal."""
        ends = {t for spans in (self.spans, other.spans) for start, end, _ in spans for t in (start, end + 1)}
        return next((t for t in sorted(ends) if self.word(t) != other.word(t)), None)


def combine(labels: Iterable[Label]) -> Spans:
    """Combine labels of rounds: where they overlap, the one with the larger number counts. O(n log n)."""
    waiting = sorted(
        (label for label in labels if label.client == ANYONE), key=lambda label: label.start, reverse=True
    )
    bounds = sorted({t for label in waiting for t in (label.start, label.end + 1)})
    over: list[tuple[int, Label]] = []  # heap of the open labels, largest number first
    spans: list[tuple[int, int, str]] = []
    for start, after in itertools.pairwise(bounds):
        while waiting and waiting[-1].start <= start:
            label = waiting.pop()
            heapq.heappush(over, (-label.number, label))
        while over and over[0][1].end < start:
            heapq.heappop(over)
        if not over:
            continue
        word = over[0][1].label
        if spans and spans[-1][1] == start - 1 and spans[-1][2] == word:
            spans[-1] = (spans[-1][0], after - 1, word)
        else:
            spans.append((start, after - 1, word))
    return Spans(spans)


class Labels:
    """All labels of a board in its log; they are numbered 1, 2, ..., and no number is reused."""

    def __init__(self, kept: dict[str, Any] | None = None) -> None:
        kept = kept or {"count": 0, "labels": [], "keys": []}
        self.count: int = kept["count"]
        self.labels = {row[0]: Label(*row) for row in kept["labels"]}  # in force, by number
        self.numbers: dict[int, int] = dict(kept["keys"])
        self._lay()

    def _lay(self) -> None:
        self.spans = combine(self.labels.values())
        of_senders = sorted(label for label in self.labels.values() if label.client != ANYONE)
        self.words = {label.client: label.label for label in of_senders}  # of senders, the latest label of each

    def keep(self) -> dict[str, Any]:
        """Everything, as JSON-compatible data."""
        rows = [list(label) for label in self.labels.values()]
        return {"count": self.count, "labels": rows, "keys": [list(pair) for pair in self.numbers.items()]}

    def add(self, key: int, start: int, end: int, word: str, client: int = ANYONE, kind: str = "") -> int:
        """Add a label and return its number, or that of an existing label with the same key or content.

        Same content: a label in force with the same rounds, or sender, and the same word, if no later label touches
        it.
        """
        if key in self.numbers:
            return self.numbers[key]
        label = Label(self.count + 1, start, end, word, client, kind)
        if not (1 <= start <= end or (client != ANYONE and start == end == 0)) or word not in WORDS:
            raise Refused(422, f"rounds {start} to {end} cannot be labelled {word!r:.80}")
        above = next((x for x in sorted(self.labels.values(), reverse=True) if x.touches(label)), None)
        if above is not None and above[1:] == label[1:]:
            label = above
        elif len(self.labels) >= MOST:
            raise Refused(422, f"a board has at most {MOST} labels: take some back")
        else:
            self.count = label.number
            self.labels[label.number] = label
            self._lay()
        self.numbers[key] = label.number
        if len(self.numbers) > _KEYS:
            del self.numbers[next(iter(self.numbers))]
        return label.number

    def after(self, key: int, start: int, end: int, word: str, client: int = ANYONE, kind: str = "") -> int:
        """The number that `add` would return, or its refusal; nothing changes."""
        return Labels(self.keep()).add(key, start, end, word, client, kind)

    def remove(self, number: int) -> None:
        """Remove a label; a number that is not in force is ignored."""
        if self.labels.pop(number, None) is not None:
            self._lay()
