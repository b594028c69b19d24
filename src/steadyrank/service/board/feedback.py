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

    def learn(self, visit: Visit, ranking: Ints, note: Floats, clicks: Bools, examined: int, kind: float) -> None:
        """Take one impression's feedback, as `LearnerState.learn` does."""
        t = visit.t
        word = self.spans.word(t) if self.spans else None
        if t > self.reached:
            self.reached = t
        if word == FRAUD:
            self.timeline.learn(t, int(np.count_nonzero(clicks)), examined, 0, 1)
            return
        if word == HONEST and kind == ANSWER:
            kind = VOUCHED
        guarded = self.learner_state.guarded
        before = int(self.learner_state.refused[0]) if guarded else 0
        self.learner_state.learn(visit, ranking, note, clicks, examined, kind)
        rejected = int(self.learner_state.refused[0]) - before if guarded else 0
        self.timeline.learn(t, int(np.count_nonzero(clicks)), examined, rejected, 0)

    def follow(self, spans: Spans, anyway: bool = False) -> bool:
        """Go on with other labels, if no feedback taken so far has another one, or `anyway`; whether it does."""
        first = self.spans.differs_from(spans)
        if first is not None and first <= self.reached and not anyway:
            return False
        self.spans = spans
        return True
