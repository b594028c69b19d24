"""Hypothesis draws the same examples on every machine; nothing here depends on the clock."""

import asyncio
import inspect
import sys

import pytest
from hypothesis import settings

settings.register_profile("steady", derandomize=True, deadline=None, max_examples=100)
settings.load_profile("steady")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """A test may be a coroutine: it gets an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}))
    return True


@pytest.fixture(autouse=True)
def no_server_is_left():
    """A test that fails leaves no process behind."""
    yield
    if "service_tools" in sys.modules:
        sys.modules["service_tools"].Server.kill_all()
