"""What of the feedback enters a board's learner, and what of it people see over time."""

import numpy as np

from ...contract import ANSWER, VOUCHED, Bools, Floats, Ints, Visit
from ...live.learner_state import LearnerState
from .labels import FRAUD, HONEST, Spans
from .timeline import Timeline


class LabelledFeedback:
    """A learner that is told of feedback as labels say: nothing of fraud; for honest rounds a person vouches.

    What a person vouches for is learnt from without opening a regime.
    """

    def __init__(self, learner_state: LearnerState) -> None:
        self.learner_state = learner_state
        self.spans = Spans()  # the labels that it is folded with
        self.reached = 0  # the largest round whose feedback was learnt from or left out
        self.timeline = Timeline()
        self._rejecting: bool = getattr(
            learner_state.learner, "reject_impossible", False
        )  # a look a time costs too much

    def learn(self, visit: Visit, ranking: Ints, note: Floats, clicks: Bools, examined: int, kind: float) -> None:
        """Take one impression's feedback, as `LearnerState.learn` does."""
        t = visit.t
        word = self.spans.word(t) if self.spans else None
        if t > self.reached:
            self.reached = t
        if word == FRAUD:
            self.timeline.learn(t, int(np.count_nonzero(clicks)), examined, 0, 1)
            return
        before = self.learner_state.rejected if self._rejecting else 0
        if word == HONEST and kind == ANSWER:
            kind = VOUCHED
        self.learner_state.learn(visit, ranking, note, clicks, examined, kind)
        rejected = self.learner_state.rejected - before if self._rejecting else 0
        self.timeline.learn(t, int(np.count_nonzero(clicks)), examined, rejected, 0)

    def follow(self, spans: Spans, anyway: bool = False) -> bool:
        """Go on with other labels, if no feedback taken so far has another one, or `anyway`; whether it does."""
        first = self.spans.differs_from(spans)
        if first is not None and first <= self.reached and not anyway:
            return False
        self.spans = spans
        return True
