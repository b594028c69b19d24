"""SteadyRank: change points found across items, Thompson sampling within a regime, lists hedged between views."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from ...core.compiling.intrinsics import stack_bools, stack_ints
from ...core.compiling.jit import kernel, no_refcount
from ...core.contract import ANSWER, KIND, SILENCE, Problem
from ...core.places import by_place
from ...core.settings import choice, real, whole
from ...core.views import View, Worths
from ..shared.thompson import Posteriors, check_bar
from .attention import (
    BAR,
    Attention,
    deal_places,
    goes_on,
    learn_attention,
    looked_at,
    note_looks,
    place_by_attention,
    rewatch,
    scans_all,
    watch,
)
from .click_values import ClickValues, add_click, add_outcome, take_click, worth_of_items
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
from .value_list import learn_values, most_valued

Looks: TypeAlias = Literal["cascade", "positions", "learn"]
CASCADE, POSITIONS, LEARN = range(3)  # as in Looks
Goal: TypeAlias = Literal["click", "value"]
CLICK, VALUE = range(2)  # as in Goal


@kernel
def valued_alone(values, regimes, favourites, posteriors, attention, ends, allowed, ranking, t, rng):
    """Fill `ranking` with the most valuable list by the current regime alone."""
    view = view_of_regime(regimes, favourites, 0)
    most_valued(values, posteriors, attention, ends, view, np.ones(1), allowed, ranking, t, rng)


@no_refcount
def one_view(values, regimes, favourites, posteriors, attention, ends, allowed, ranking, t, rng):
    """Fill `ranking` by the current regime alone, for clicks or for their value."""
    if values is None:
        drawn_list(posteriors, allowed, ranking, rng)
    else:
        valued_alone(values, regimes, favourites, posteriors, attention, ends, allowed, ranking, t, rng)


@no_refcount
def several_views(values, posteriors, attention, ends, rival, weights, allowed, ranking, t, rng):
    """Fill `ranking` so that it serves several views, for clicks or for their value."""
    if values is None:
        hedged_list(posteriors, rival, weights, allowed, ranking, rng)
    else:
        most_valued(values, posteriors, attention, ends, rival, weights, allowed, ranking, t, rng)


@no_refcount
def place_items(values, attention, ranking, rng):
    """Rearrange a list that is ranked best first; a list made for value has its places already."""
    if values is None:
        place_by_attention(attention, ranking, rng)
    else:
        deal_places(attention, ranking, rng)


@no_refcount
def count_clicks(values, items, bits, n, t):
    """Count the clicks of round t, which may lead to outcomes."""
    if values is not None:
        for i in range(n):
            if bits[i]:
                add_click(values, items[i], t)


@no_refcount
def take_clicks(values, items, bits, n, t):
    """Retract the clicks of round t."""
    if values is not None:
        for i in range(n):
            if bits[i]:
                take_click(values, items[i], t)


@no_refcount
def count_outcome(values, k, shown, t, before, after):
    """Count the outcome of a click."""
    if values is not None:
        add_outcome(values, k, shown, t, before, after)


@kernel
def end_value_window(values, posteriors, attention, t, window):
    """Update the worth of clicks after a window."""
    if values is not None:
        learn_values(values, posteriors, attention.chance, not goes_on(attention), t, window)


@kernel
def judge_window(regimes, rule, window, t):
    """Test the recent feedback after a window, and change the regime if it fits another; returns whether it changed.

    `learn_priors` fits the current regime's priors afterwards. O(items of the spans R) Beta functions;
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
    """Count the feedback to the list of round t; returns whether a window ends. O(length log G) of G groups."""
    if examined == 0:
        return False  # no place was examined
    regimes, posteriors = steady.regimes, steady.posteriors
    if note[KIND] == ANSWER and steady.looks != CASCADE:
        watch(steady.attention, ranking, clicks, examined)
    if steady.revisit > 0.0 and note[KIND] != SILENCE:
        learn_trial(steady.trial, regimes, posteriors, steady.revisit, ranking, note, clicks, examined, t)
    items, bits = stack_ints(examined), stack_bools(examined)
    n = looked_at(ranking, note, clicks, examined, t, items, bits)
    count_clicks(steady.values, items, bits, n, t)
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
    """Update attention, regime and priors after a window that ends with round t. O(K)."""
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
    end_value_window(steady.values, posteriors, steady.attention, t, steady.window)


class SteadyRank(NamedTuple):
    """Learns from clicks of which an unknown part is false (ours: docs/steadyrank.md).

    An attack is an event in time that touches many items at once. Feedback that the past does not explain opens a new
    regime, or resumes a stored one; each regime keeps what it learnt to itself. Lists are drawn by Thompson sampling
    from the current regime, with a prior fitted across items; while another regime is longer, the list serves both.
    Places that it can spare are insured: they go to users who like exactly what was learnt to be bad.

    `looks`: how people look at lists. `cascade`: from the top, everything up to the first click. `positions`: each
    place with a chance of its own, which is learnt, or given by `attention`. `learn`: as a cascade, until clicks show
    otherwise. `insurance`: weight in the list of the view that everything learnt is inverted, falling after 10,000
    rounds of a regime; 0 disables it, and it does not apply if feedback continues after clicks.
    `revisit`: the share of the visits whose clicks may be spent on trying dropped items again, so that what an
    attack has hidden comes back; 0 tries none.
    `goal`: what lists are made for. `click`: as many clicks as possible. `value`: as much value as possible from the
    outcomes of clicks, such as money, as reported to `outcome`; a click then has a different worth on each item.
    `caution`: largest weight of a longer regime in the list; 0 follows every change at once, 1 hardly follows one
    that has just begun. `window`: rounds between tests; shorter ones detect changes sooner and take more time.
    """

    regimes: Regimes
    posteriors: Posteriors  # of the current regime
    favourites: Favourites  # of another regime
    attention: Attention
    trial: Trial
    rule: Rule
    values: ClickValues | None  # None: clicks are the goal
    insurance: float
    caution: float
    window: int
    length: int
    looks: int  # CASCADE: attention is not learnt
    revisit: float

    live = True
    VERSION = 14  # of the memory

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
        goal: Goal = "click",
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
        valued = choice("goal", goal, get_args(Goal)) == VALUE
        return cls(
            regimes,
            posteriors,
            best,
            places,
            trial,
            Rule(),
            ClickValues.create(problem.n_items, problem.length) if valued else None,
            insurance,
            caution,
            window,
            problem.length,
            mode,
            revisit,
        )

    def rank(self, visit, allowed, ranking, note, rng):
        regimes, values, ends = self.regimes, self.values, not goes_on(self.attention)
        other = rival(regimes, self.window) if self.caution > 0.0 else -1
        insured = self.insurance if ends else 0.0
        if other < 0 and insured == 0.0:
            places = self.posteriors, self.attention, ends
            one_view(values, regimes, self.favourites, *places, allowed, ranking, visit.t, rng)
        else:
            weights = np.zeros(2 if other < 0 else 3)
            current = regimes.tally[CURRENT]
            weigh_views(weights, regimes.rounds, current, other, insured, self.caution, self.window)
            view = view_of_regime(regimes, self.favourites, max(other, 0))
            several_views(
                values, self.posteriors, self.attention, ends, view, weights, allowed, ranking, visit.t, rng
            )
        if self.revisit > 0.0:
            first = scans_all(self.attention)
            try_dropped(self.trial, regimes, self.posteriors, self.revisit, first, allowed, ranking, note, rng)
        place_items(values, self.attention, ranking, rng)
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
            take_clicks(self.values, items, bits, n, visit.t)
            n = still_count(self.trial, items, bits, n, visit.t)
            if note[KIND] == ANSWER:
                uncount(self.regimes, items, bits, n, visit.t)
            else:
                uncount_untested(self.regimes, items, bits, n, visit.t, note[KIND] == SILENCE)
            drop_favourites(self.regimes, self.favourites, visit.t)
            learn_items(self.regimes, self.posteriors, ranking, examined)
            check_bar(self.posteriors, self.length)

    def outcome(self, item, shown, t, before, after):
        count_outcome(self.values, item, shown, t, before, after)

    def view(self) -> View:
        """A copy of the regimes, what they imply for the feedback, item estimates, and how far people look.

        If value is the goal, also the worth of clicks.
        """
        view = view_of(self.regimes, self.rule, self.attention)
        if self.values is None:
            return view
        return replace(
            view, worths=Worths(*worth_of_items(self.values, self.posteriors), not goes_on(self.attention))
        )
