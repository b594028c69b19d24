"""Hypothesis draws the same examples on every machine; nothing here depends on the clock."""

from hypothesis import settings

settings.register_profile("steady", derandomize=True, deadline=None, max_examples=100)
settings.load_profile("steady")
