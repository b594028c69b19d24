"""SteadyRank: regimes found across items, Thompson sampling inside one, a list hedged between views."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from ...core.compiling.intrinsics import stack_bools, stack_ints
from ...core.compiling.jit import kernel, no_refcount
from ...core.contract import ANSWER, KIND, SILENCE, Problem
from ...core.places import by_place
from ...core.settings import choice, real, whole
from ...core.views import View
from ..shared.thompson import Posteriors, check_bar
from .attention import (
    BAR,
    Attention,
    goes_on,
    learn_attention,
    looked_at,
    note_looks,
    place_by_attention,
    rewatch,
    scans_all,
    watch,
)
from .evidence import NONE, Rule, changes_too_often, due, end_spans, forecast_of_counts, no_verdict, update_verdict
from .explain import view_of
from .hedge import (
    Favourites,
    drawn_list,
    drop_favourites,
    hedged_list,
    keep_favourites,
    view_of_regime,
    weigh_views,
)
from .regime_posteriors import fit_priors, learn_items, learn_priors, learn_regime
from .regimes import (
    CURRENT,
    SPANS,
    STORED,
    Regimes,
    count,
    count_untested,
    move,
    recount,
    rival,
    room,
    uncount,
    uncount_untested,
)
from .revisit import Trial, learn_trial, still_count, try_dropped

Looks: TypeAlias = Literal["cascade", "positions", "learn"]
CASCADE, POSITIONS, LEARN = range(3)  # as in Looks


@kernel
def judge_window(regimes, rule, window, t):
    """Test the recent feedback after a window, and change the regime if it fits another; returns whether it did so.

    The current one's priors are fitted afterwards, by `learn_priors`. O(items of the spans R) with Beta functions;
    O(K) if the regime changes.
    """
    verdict, turns = no_verdict(), changes_too_often(regimes, window, t)
    for j in range(SPANS):
        if due(regimes, window, j):
            update_verdict(verdict, forecast_of_counts(regimes, rule, j), regimes, rule, j, turns, None)
    to = verdict.regime[0]
    if to != NONE:
        left = regimes.tally[CURRENT]
        move(regimes, room(regimes) if to == regimes.tally[STORED] else to, verdict.span[0], t)
        fit_priors(regimes, left)
    end_spans(regimes, window)
    return to != NONE


@no_refcount
def learn_answer(steady, t, ranking, note, clicks, examined):
    """Count what the list of round t tells; whether a window ends with it. O(length log G) of G groups."""
    if examined == 0:
        return False  # nothing was looked at
    regimes, posteriors = steady.regimes, steady.posteriors
    if note[KIND] == ANSWER and steady.looks != CASCADE:
        watch(steady.attention, ranking, clicks, examined)
    if steady.revisit > 0.0 and note[KIND] != SILENCE:
        learn_trial(steady.trial, regimes, posteriors, ranking, note, clicks, examined, t)
    items, bits = stack_ints(examined), stack_bools(examined)
    n = looked_at(ranking, note, clicks, examined, t, items, bits)
    if note[KIND] == ANSWER:
        count(regimes, items, bits, n, t)
    else:
        count_untested(regimes, items, bits, n, t, note[KIND] == SILENCE)
        drop_favourites(regimes, steady.favourites, t)
    learn_items(regimes, posteriors, ranking, examined)
    ends = regimes.span_rounds[0] >= steady.window
    if not ends:
        check_bar(posteriors, steady.length)
    return ends


@kernel
def learn_window(steady, t):
    """After a window that ends with round t: how people look, which regime they are of, and its priors. O(K)."""
    regimes, posteriors = steady.regimes, steady.posteriors
    share = 1.0
    if steady.looks != CASCADE:
        share = learn_attention(steady.attention, posteriors.prior[0], BAR if steady.looks == LEARN else 0.0)
        recount(regimes, share)
    changed = judge_window(regimes, steady.rule, steady.window, t)
    if changed:
        rewatch(steady.attention)
    if changed or share != 1.0:
        learn_regime(regimes, posteriors)
    learn_priors(regimes, posteriors, steady.length)
    keep_favourites(regimes, steady.favourites, steady.window, changed or share != 1.0)


class SteadyRank(NamedTuple):
    """Learns from clicks of which an unknown part is false, at no cost when none is (ours: docs/steadyrank.md).

    An attack is an event in time that touches many items at once. Feedback that the past does not explain opens a new
    regime, or takes up a stored one; what was learnt in each is kept apart. The list is drawn by Thompson sampling
    from the current regime, with a prior fitted across items; while another regime is longer, the list serves both.
    Places that it can spare are insured: they go to users who like just what was learnt to be bad.

    `looks`: how people look at lists. `cascade`: from the top, everything up to the first click. `positions`: each
    place with a chance of its own, which is learnt, or given by `attention`. `learn`: as a cascade, until clicks say
    otherwise. `insurance`: weight in the list of the view that everything learnt is inverted, falling after 10,000
    rounds of a regime; 0 insures nothing, and nothing is insured where feedback goes on after clicks.
    `revisit`: the share of the visits that may be lost, in clicks, to trying again what was dropped, so that what an
    attack has hidden comes back; 0 tries nothing again.
    `caution`: weight of that longer regime in the list, at most; 0 follows every change at once, 1 hardly follows one
    that has just begun. `window`: rounds between tests; shorter notices sooner and takes more time.
    """

    regimes: Regimes
    posteriors: Posteriors  # of the current regime
    favourites: Favourites  # of another one
    attention: Attention
    trial: Trial
    rule: Rule
    insurance: float
    caution: float
    window: int
    length: int
    looks: int  # CASCADE: nothing of it is learnt
    revisit: float

    live = True
    VERSION = 12  # of the memory

    @classmethod
    def create(
        cls,
        problem: Problem,
        *,
        insurance: float = 0.3,
        revisit: float = 0.0,
        caution: float = 0.5,
        window: int = 50,
        looks: Looks = "learn",
        attention: Sequence[float] | str | None = None,
    ) -> "SteadyRank":
        insurance = real("insurance", insurance, 0.0, 0.5)
        caution = real("caution", caution, 0.0, 1.0)
        window = whole("window", window, 1, 1_000_000)
        regimes = Regimes.create(problem.n_items)
        posteriors = Posteriors.create(problem.n_items, problem.length, 1.0, 1.0)
        mode, given = choice("looks", looks, get_args(Looks)), None
        if attention is not None:
            if mode != POSITIONS:
                raise ValueError(f"attention is of looks='positions', not of looks={looks!r}")
            mode, given = CASCADE, by_place("attention", attention, problem.length)
        places = Attention.create(problem.n_items, problem.length, given)
        best = Favourites.create(problem.n_items, problem.length)
        revisit = real("revisit", revisit, 0.0, 1.0)
        trial = Trial.create(problem.n_items if revisit > 0.0 else 0)
        return cls(
            regimes,
            posteriors,
            best,
            places,
            trial,
            Rule(),
            insurance,
            caution,
            window,
            problem.length,
            mode,
            revisit,
        )

    def rank(self, visit, allowed, ranking, note, rng):
        regimes = self.regimes
        other = rival(regimes, self.window) if self.caution > 0.0 else -1
        insured = 0.0 if goes_on(self.attention) else self.insurance
        if other < 0 and insured == 0.0:
            drawn_list(self.posteriors, allowed, ranking, rng)
        else:
            weights = np.zeros(2 if other < 0 else 3)
            current = regimes.tally[CURRENT]
            weigh_views(weights, regimes.rounds, current, other, insured, self.caution, self.window)
            view = view_of_regime(regimes, self.favourites, max(other, 0))
            hedged_list(self.posteriors, view, weights, allowed, ranking, rng)
        if self.revisit > 0.0:
            first = scans_all(self.attention)
            try_dropped(self.trial, regimes, self.posteriors, self.revisit, first, allowed, ranking, note, rng)
        place_by_attention(self.attention, ranking, rng)
        note_looks(self.attention, self.posteriors, ranking, note)

    def update(self, visit, ranking, note, clicks, examined):
        if learn_answer(self, visit.t, ranking, note, clicks, examined):
            learn_window(self, visit.t)

    def count_answer(self, visit, ranking, note, clicks, examined):
        return learn_answer(self, visit.t, ranking, note, clicks, examined)

    def end_window(self, visit):
        learn_window(self, visit.t)

    def forget(self, visit, ranking, note, clicks, examined):
        if examined > 0:
            items, bits = np.empty(examined, np.int64), np.empty(examined, np.bool_)
            n = looked_at(ranking, note, clicks, examined, visit.t, items, bits)
            n = still_count(self.trial, items, bits, n, visit.t)
            if note[KIND] == ANSWER:
                uncount(self.regimes, items, bits, n, visit.t)
            else:
                uncount_untested(self.regimes, items, bits, n, visit.t, note[KIND] == SILENCE)
            drop_favourites(self.regimes, self.favourites, visit.t)
            learn_items(self.regimes, self.posteriors, ranking, examined)
            check_bar(self.posteriors, self.length)

    def view(self) -> View:
        """Regimes and what they imply for the feedback, with item estimates, and how far people look: a copy."""
        return view_of(self.regimes, self.rule, self.attention)
