"""Hypothesis draws the same examples on every machine; nothing here depends on the clock."""

import asyncio
import gc
import inspect
import os
import sys

import pytest
from hypothesis import settings

import interpreted

# Most of a run with nothing compiled yet is compiling, in which numba makes thousands of objects, and of errors that
# nobody reads. Errors are left plain, and garbage is looked for less often, never among what was there before.
os.environ.setdefault("NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "1")
gc.set_threshold(20_000, 20, 20)

settings.register_profile("steady", derandomize=True, deadline=None, max_examples=100)
settings.load_profile("steady")


def pytest_collection_finish():
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """A test may be a coroutine: it gets an event loop of its own. One marked `interpreted` runs where nothing is
    compiled, except in `make soak`, where tests marked `slow` are."""
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    compiled = interpreted.SOAK or pyfuncitem.get_closest_marker("slow")
    if pyfuncitem.get_closest_marker("interpreted") and not compiled:
        interpreted.run_test(pyfuncitem.module.__name__, pyfuncitem.originalname, arguments)
        return True
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    asyncio.run(pyfuncitem.obj(**arguments))
    return True


@pytest.fixture(autouse=True)
def no_server_is_left():
    """A test that fails leaves no process behind."""
    yield
    if "service_tools" in sys.modules:
        sys.modules["service_tools"].Server.kill_all()


def pytest_sessionfinish():
    """What the tests of this process shared ends with them."""
    if "browser" in sys.modules:
        sys.modules["browser"].close()
    interpreted.Interpreter.close()
    if "service_tools" in sys.modules and (nursery := sys.modules["service_tools"].Server.nursery):
        nursery.close()
