"""SteadyRankLinear: SteadyRank's regimes and hedged lists, over models that know features."""

from typing import NamedTuple

import numpy as np

from ...core.contract import ANSWER, KIND, SILENCE, Floats, Problem
from ...core.settings import real, whole
from ...core.views import View
from .evidence import Rule, close_window_of_visits
from .explain import view_of_models
from .hedge import hedged_by_models
from .regime_models import Models, VisitLog, find_visit, model_of, tell, tell_anew, untell, untell_unknown, write_down
from .regimes import (
    CURRENT,
    MOST_REGIMES,
    SPANS,
    STORED,
    Regimes,
    count,
    count_apart,
    find_place,
    number_at,
    place_of,
    rival,
    uncount,
    uncount_apart,
)


class SteadyRankLinear(NamedTuple):
    """SteadyRank for items and visitors of whom something is known (ours: docs/context.md).

    Each regime has the model of CascadeMixedTS: the logit of a click is z' theta + e_k, with weights that all items
    share and an effect of each item's own. Recent visits that the current regime's model does not explain open a new
    regime, or take up a stored one; the list is drawn from the current model, serves a longer regime beside it, and
    places to spare are insured. `insurance`, `caution`, `window`: as of SteadyRank. `width`: as of CascadeMixedTS.
    Users look at lists from the top to the first click. Without features, items have effects of their own alone.
    """

    regimes: Regimes
    models: Models
    visits: VisitLog
    rule: Rule
    insurance: float
    caution: float
    window: int
    width: float

    live = True
    VERSION = 1

    @classmethod
    def create(
        cls,
        problem: Problem,
        *,
        insurance: float = 0.1,
        caution: float = 0.5,
        window: int = 50,
        width: float = 0.7,
    ) -> "SteadyRankLinear":
        insurance = real("insurance", insurance, 0.0, 0.5)
        caution = real("caution", caution, 0.0, 1.0)
        window = whole("window", window, 1, 10_000)
        width = real("width", width, 0.0, 10.0)
        known = problem.features if problem.features.shape[0] else np.zeros((problem.n_items, 0))
        models = Models.create(known, MOST_REGIMES)
        visits = VisitLog.create(window, known.shape[1], problem.length, SPANS)
        return cls(Regimes.create(problem.n_items), models, visits, Rule(), insurance, caution, window, width)

    def rank(self, visit, allowed, ranking, note, rng):
        regimes, current = self.regimes, self.regimes.tally[CURRENT]
        other = rival(regimes, self.window) if self.caution > 0.0 else -1
        weights = np.zeros(2 if other < 0 else 3)
        weights[1] = self.insurance
        if other >= 0:
            younger = 1.0 - (regimes.rounds[current] + self.window) / regimes.rounds[other]
            weights[2] = (1.0 - self.insurance) * self.caution * younger
        weights[0] = 1.0 - weights.sum()
        model, longer = model_of(self.models, current), model_of(self.models, max(other, 0))
        hedged_by_models(model, longer, weights, visit, self.width, allowed, ranking, rng)

    def update(self, visit, ranking, note, clicks, examined):
        if examined == 0:
            return  # says nothing
        regimes, answer = self.regimes, note[KIND] == ANSWER
        r = regimes.tally[CURRENT] if answer else place_of(regimes, visit.t)
        if answer:
            count(regimes, ranking, clicks, examined, visit.t)
        else:
            count_apart(regimes, ranking, clicks, examined, visit.t, note[KIND] == SILENCE)
        i = write_down(self.models, self.visits, visit, ranking, clicks, examined, regimes.number[r], answer)
        tell(self.models, self.visits, i, r, regimes.apart_rounds[r] > 0)
        if regimes.span_rounds[0] >= self.window:
            close_window_of_visits(regimes, self.models, self.visits, self.rule, self.window, visit.t)

    def forget(self, visit, ranking, note, clicks, examined):
        if examined == 0:
            return
        regimes, i = self.regimes, find_visit(self.visits, visit.t, ranking, clicks, examined)
        if i >= 0:
            at = i % self.visits.round.size
            r = find_place(regimes, self.visits.regime[at])
            if r >= 0:
                untell(self.models, self.visits, i, r)
            self.visits.examined[at] = 0
        else:
            r = find_place(regimes, number_at(regimes, visit.t))
            if r >= 0:
                untell_unknown(self.models, r, ranking, clicks, examined)
        if note[KIND] == ANSWER:
            uncount(regimes, ranking, clicks, examined, visit.t)
        else:
            uncount_apart(regimes, ranking, clicks, examined, visit.t, note[KIND] == SILENCE)

    def describe(self, item: int, features: Floats) -> None:
        """What is known of an item from now on; the latest visits are learnt anew with it, if it was in them."""
        known = features / self.models.scale
        if not self.models.weight[:, item].any():
            self.models.features[:-1, item] = known
        elif not np.array_equal(known, self.models.features[:-1, item]):
            numbers = self.regimes.number[: self.regimes.tally[STORED]]
            tell_anew(self.models, self.visits, numbers, item, known)

    def view(self) -> View:
        """Regimes and what they say of the feedback, with estimates for the visitor between all so far: a copy."""
        return view_of_models(self.regimes, self.rule, self.models)
