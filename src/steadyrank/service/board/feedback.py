"""What feedback reaches a board's learner: according to labels, and each reported list or past batch only once."""

import hashlib
import math
from collections.abc import Container, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from ...core.arrays import Bools, Floats, Ints
from ...core.contract import ANSWER, SILENCE, VOUCHED, Visit
from ...core.refusals import Refused
from ...live.learner_state import LearnerState, add_clicks
from . import events
from .labels import FRAUD, HONEST, Spans
from .timeline import Timeline

MOST_STREAMS = 1_000  # stream partitions from which a board accepts lists
MOST_PARTS = 10_000  # parts of past batches remembered; the oldest are forgotten first
OTHER_ITEMS = "a list of other items was reported with this id before"
_encode = msgspec.msgpack.Encoder(order="sorted").encode  # independent of the order of features


class LeftOut(NamedTuple):
    """Feedback left out of a sender labelled as fraud: since which round, how many answers, and clicks in them."""

    since: int
    visits: int
    clicks: int


class LabelledFeedback:
    """Passes feedback to a learner according to labels: skips fraud, and vouches for rounds labelled honest.

    Vouched feedback is learnt from without opening a regime. A client labelled honest is heard whatever guards say; a
    labelled cohort, whatever its own guard says. The label of a client overrides those of its cohorts.
    """

    def __init__(self, learner_state: LearnerState) -> None:
        self.learner_state = learner_state
        self.spans = Spans()  # labelled rounds that the board was folded with
        self.words: dict[int, str] = {}  # labels of clients and cohorts, by number
        self.left_out: dict[int, LeftOut] = {}  # by number, of senders labelled as fraud
        self.reached = 0  # the latest round whose feedback was learnt from or left out
        self.timeline = Timeline()

    def learn(
        self,
        visit: Visit,
        ranking: Ints,
        note: Floats,
        clicks: Bools,
        examined: int,
        kind: float,
        cohorts: Sequence[tuple[str, int]],
    ) -> bool:
        """Take the feedback of one impression, as `LearnerState.learn` does. Returns whether it was learnt from."""
        t, clicked, vouched = visit.t, int(np.count_nonzero(clicks)), False
        word = self.spans.word(t) if self.spans else None
        if t > self.reached:
            self.reached = t
        if self.words and word != FRAUD:
            fraud = self._fraud_of(visit.client, cohorts)
            if fraud is not None:
                self._leave_out(fraud, t, clicked, kind)
                word = FRAUD
            vouched = self.words.get(visit.client) == HONEST
            cohorts = [(kind, number) for kind, number in cohorts if self.words.get(number) != HONEST]
        if word == FRAUD:
            add_clicks(self.learner_state.condemned, ranking[:examined], clicks[:examined])
            if self.learner_state.outcomes is not None:
                self.learner_state.outcomes.click(t, ranking[:examined][clicks[:examined]].tolist(), False)
            self.timeline.learn(t, clicked, examined, 0, 1)
            return False
        taken_as = VOUCHED if word == HONEST and kind == ANSWER else kind
        learnt = self.learner_state.learn(visit, ranking, note, clicks, examined, taken_as, cohorts, vouched)
        self.timeline.learn(t, clicked, examined, int(not learnt and kind != SILENCE), 0)
        return learnt

    def _fraud_of(self, client: int, cohorts: Sequence[tuple[str, int]]) -> int | None:
        """The client if it is labelled as fraud, or else a cohort of it that is; None if neither is."""
        own = self.words.get(client)
        if own is not None:
            return client if own == FRAUD else None
        return next((number for _, number in cohorts if self.words.get(number) == FRAUD), None)

    def _leave_out(self, sender: int, t: int, clicked: int, kind: float) -> None:
        since, visits, clicks = self.left_out.get(sender, (t, 0, 0))
        self.left_out[sender] = LeftOut(min(since, t), visits + (kind != SILENCE), clicks + clicked)

    def follow(self, spans: Spans, words: dict[int, str], anyway: bool = False) -> bool:
        """Adopt other labels if no feedback taken so far has a different label now, or `anyway`.

        Returns whether it did.

        Which feedback a client or cohort has had is not recorded, so any change to the label of one counts as
        different.
        """
        first = self.spans.differs_from(spans)
        if not anyway and (words != self.words or (first is not None and first <= self.reached)):
            return False
        self.spans, self.words = spans, words
        self.left_out = {sender: counts for sender, counts in self.left_out.items() if words.get(sender) == FRAUD}
        return True

    def keep(self) -> dict[str, Any]:
        """Everything but the timeline, as JSON-compatible data."""
        condemned = self.learner_state.condemned
        return {
            "spans": self.spans.spans,
            "words": list(self.words.items()),
            "left_out": [[sender, *counts] for sender, counts in self.left_out.items()],
            "reached": self.reached,
            **({"condemned": list(condemned.items())} if condemned else {}),
        }

    def restore(self, kept: dict[str, Any], arrays: dict[str, Any]) -> None:
        """Restore the state from `keep` and the arrays of the timeline."""
        self.spans, self.reached = Spans(kept["spans"]), kept["reached"]
        self.words = dict(kept["words"])
        self.learner_state.condemned = dict(kept.get("condemned", []))
        self.left_out = {sender: LeftOut(*counts) for sender, *counts in kept["left_out"]}
        self.timeline = Timeline.restore(arrays)


class Reported:
    """Which lists of another ranker were reported, by keys made of the callers' ids, so that none is learnt twice.

    Lists that the board remembers are kept with their times, in the order of their arrival. Of forgotten lists only
    the latest time is kept: a list that was not shown later may be one of them. Lists from a stream are deduplicated
    by offset instead, whatever their times: for each partition the highest forgotten offset is kept, and a list that
    does not lie beyond it may be one of the forgotten.
    """

    def __init__(self) -> None:
        self.times: dict[int, float] = {}
        self.latest = -math.inf
        self.places: dict[int, tuple[str, int]] = {}  # by key: stream and offset of lists from streams
        self.offsets: dict[str, int] = {}  # by stream: the highest forgotten offset, -1 for none

    def refuse_forgotten(self, key: int, time: float, stream: str = "", offset: int = 0) -> None:
        """Raise Refused if a list unknown to the board may have been reported before."""
        passed = offset <= self.offsets.get(stream, -1) if stream else time <= self.latest
        if key in self.times or passed:
            raise Refused(410, "the list has expired: one with this id may have been learnt from before")
        if stream and stream not in self.offsets and len(self.offsets) >= MOST_STREAMS:
            raise Refused(
                422, f"a board takes lists from at most {MOST_STREAMS} stream partitions: {stream!r:.80} is another"
            )

    def add(self, key: int, time: float, remembered: Container[int], stream: str = "", offset: int = 0) -> None:
        """Record a reported list; `remembered`: the keys that the board remembers, including this one."""
        self.times[key] = time
        if stream:
            self.offsets.setdefault(stream, -1)
            self.places[key] = stream, offset
        while (oldest := next(iter(self.times))) not in remembered:
            self.latest = max(self.latest, self.times.pop(oldest))
            if oldest in self.places:
                stream, offset = self.places.pop(oldest)
                self.offsets[stream] = max(self.offsets[stream], offset)

    def arrays(self) -> dict[str, Any]:
        """Everything but the names of streams, as arrays; empty if nothing was ever reported."""
        if not self.times:
            return {}
        keys = np.fromiter(self.times, np.uint64, len(self.times))
        arrays = {"reported.key": keys, "reported.time": np.array([self.latest, *self.times.values()])}
        if self.offsets:
            numbers = {stream: number for number, stream in enumerate(self.offsets)}
            rows = [(key, numbers[stream], offset) for key, (stream, offset) in self.places.items()]
            arrays["reported.from"] = np.array([key for key, _, _ in rows], np.uint64)
            arrays["reported.place"] = np.array([row[1:] for row in rows], np.int64).reshape(-1, 2)
        return arrays

    def keep(self) -> dict[str, Any]:
        """The names of streams with their forgotten offsets, as JSON-compatible data; empty if there are none."""
        return {"streams": list(self.offsets.items())} if self.offsets else {}

    @classmethod
    def restore(cls, header: dict[str, Any], arrays: dict[str, Any]) -> "Reported":
        """Restore the state from `keep` and `arrays`."""
        reported = cls()
        reported.offsets = dict(header.get("streams", []))
        if "reported.key" in arrays:
            reported.latest, *times = arrays["reported.time"].tolist()
            reported.times = dict(zip(arrays["reported.key"].tolist(), times, strict=True))
        if "reported.from" in arrays:
            names = list(reported.offsets)
            pairs = zip(arrays["reported.from"].tolist(), arrays["reported.place"].tolist(), strict=True)
            reported.places = {key: (names[number], offset) for key, (number, offset) in pairs}
        return reported


class _Part(NamedTuple):
    """What came under the name of a part: a digest of its rows, and the size of the whole batch, 0 if unknown."""

    digest: str
    total: int


class PastBatches:
    """The parts of past batches that a board has learnt from, by name in order of arrival.

    No part is learnt twice, and no name can stand for two parts.
    """

    def __init__(self, kept: Iterable[Any] = ()) -> None:
        """`kept`: the return value of `keep`."""
        self._parts = {name: _Part(digest, total) for name, digest, total in kept}

    def includes(self, event: events.History) -> bool:
        """Return whether a part was learnt from before. Raises Refused (409) if other rows came under its name."""
        before = self._parts.get(event.batch)
        if before is None:
            return False
        if before.digest != _digest(event.rows) or 0 != before.total != event.total != 0:
            batch = event.batch.rpartition("#")[0] or event.batch
            raise Refused(409, f"batch {batch!r:.80} came before with other rows: give these rows another name")
        return True

    def add(self, event: events.History) -> None:
        """Record that a part is learnt from; parts without a name are not recorded."""
        if not event.batch:
            return
        self._parts[event.batch] = _Part(_digest(event.rows), event.total)
        if len(self._parts) > MOST_PARTS:
            del self._parts[next(iter(self._parts))]

    def keep(self) -> list[list[Any]]:
        """Everything, as JSON-compatible data for a snapshot."""
        return [[name, *part] for name, part in self._parts.items()]


def _digest(rows: list[events.Past]) -> str:
    return hashlib.sha256(_encode(rows)).hexdigest()[:32]
