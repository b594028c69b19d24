"""The most recent rounds of the current regime, counted apart: which items each span of them has looks at."""

from .._jit import uncounted

SPANS = 4  # recent counts are kept for 1, 4, 16 and 64 windows
SPAN_FACTOR = 4  # from one of them to the next


@uncounted
def touch(regimes, j, ranking, examined):
    """Note the items that span j is about to have its first looks at."""
    some_apart = regimes.span_apart_rounds[j] > 0
    for p in range(examined):
        k = ranking[p]
        if regimes.span_looks[j, k] == 0 and not (some_apart and regimes.span_apart_looks[j, k] > 0):
            regimes.span_items[j, regimes.span_size[j]] = k
            regimes.span_size[j] += 1


@uncounted
def untouch(regimes, j, ranking, examined):
    """Leave out the items that span j has no look at any more. O(items of the span) for each of them."""
    for p in range(examined):
        k = ranking[p]
        n = regimes.span_size[j]
        i = n if regimes.span_looks[j, k] > 0 or regimes.span_apart_looks[j, k] > 0 else 0
        while i < n and regimes.span_items[j, i] != k:
            i += 1
        if i < n:
            regimes.span_items[j, i] = regimes.span_items[j, n - 1]
            regimes.span_size[j] -= 1


@uncounted
def copy_span(regimes, source, target):
    """Make a span hold the rounds of another."""
    clear_span(regimes, target)
    regimes.span_rounds[target] = regimes.span_rounds[source]
    regimes.span_apart_rounds[target] = regimes.span_apart_rounds[source]
    regimes.span_silent_rounds[target] = regimes.span_silent_rounds[source]
    regimes.span_start[target] = regimes.span_start[source]
    regimes.span_size[target] = regimes.span_size[source]
    for i in range(regimes.span_size[source]):
        k = regimes.span_items[source, i]
        regimes.span_items[target, i] = k
        regimes.span_looks[target, k] = regimes.span_looks[source, k]
        regimes.span_clicks[target, k] = regimes.span_clicks[source, k]
        regimes.span_apart_looks[target, k] = regimes.span_apart_looks[source, k]
        regimes.span_apart_clicks[target, k] = regimes.span_apart_clicks[source, k]


@uncounted
def clear_span(regimes, j):
    """Let a span start afresh."""
    regimes.span_rounds[j] = 0
    regimes.span_apart_rounds[j] = 0
    regimes.span_silent_rounds[j] = 0
    for i in range(regimes.span_size[j]):
        k = regimes.span_items[j, i]
        regimes.span_looks[j, k] = 0
        regimes.span_clicks[j, k] = 0
        regimes.span_apart_looks[j, k] = 0
        regimes.span_apart_clicks[j, k] = 0
    regimes.span_size[j] = 0
