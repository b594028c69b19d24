"""Compare learner states by digest."""

from steadyrank.live import snapshot


def digest_of(state):
    """Sixteen digits that differ if items or learnt memory differ."""
    return snapshot.digest({"items": state.names}, state.arrays())
