"""What SteadyRank does when a window of rounds is full."""

from .._jit import kernel
from .attention import learn_attention, rewatch
from .evidence import close_window
from .favourites import keep_favourites
from .regime_posteriors import learn_priors, learn_regime
from .regimes import recount


@kernel
def end_window(learner, bar, t):
    """Learn how far people look, take up another regime if the feedback says so, and fit its prior.

    `bar`: nats of evidence before attention is believed; below 0, nothing is learnt of it. O(G + items of the spans)
    with G groups of items of equal counts; O(K) if the regime changes.
    """
    share = 1.0
    if bar >= 0.0:
        share = learn_attention(learner.attention, learner.posteriors.prior[0], bar)
        recount(learner.regimes, share)
    changed = close_window(learner.regimes, learner.rule, learner.window, t)
    if changed:
        rewatch(learner.attention)
    if changed or share != 1.0:
        learn_regime(learner.regimes, learner.posteriors)
    learn_priors(learner.regimes, learner.posteriors, learner.length)
    keep_favourites(learner.regimes, learner.favourites, learner.window, changed or share != 1.0)
