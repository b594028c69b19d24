"""Hypothesis draws the same examples on every machine; nothing here depends on the clock."""

import sys

import pytest
from hypothesis import settings

settings.register_profile("steady", derandomize=True, deadline=None, max_examples=100)
settings.load_profile("steady")


@pytest.fixture(autouse=True)
def no_server_is_left():
    """A test that fails leaves no process behind."""
    yield
    if "service_tools" in sys.modules:
        sys.modules["service_tools"].Server.kill_all()
