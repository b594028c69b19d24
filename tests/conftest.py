"""Shared fixtures and hooks. Hypothesis draws the same examples on every machine; nothing depends on the clock."""

import asyncio
import collections
import fcntl
import gc
import inspect
import os
import pathlib
import sys
import tempfile

import pytest
from hypothesis import settings

import processor_time

# With an empty cache most of a run is compiling, in which numba creates thousands of objects, and error messages that
# nobody reads. So errors stay plain, and garbage collection runs less often, never over what existed before.
os.environ.setdefault("NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "1")
gc.set_threshold(20_000, 20, 20)

settings.register_profile("steady", derandomize=True, deadline=None, max_examples=100)
settings.load_profile("steady")


ACCOUNT, SECONDS = processor_time.Account(), collections.Counter()
RECORD = pytest.StashKey()  # the file that records that a test passed, if it need not run again


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    """Let the processes of a run collect in turn: the first one writes bytecode, the others load it."""
    with open(__file__) as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if not session.config.pluginmanager.hasplugin("dsession"):  # which only distributes tests
            import quick_compiling

            quick_compiling.compile_quickly()
        result = yield
    gc.freeze()
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item):
    ACCOUNT.turn_to(item.nodeid.partition("::")[0])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Skip a test that depends only on sources if it passed with the same sources."""
    import remembered  # not in the process that distributes tests, which needs no code of ours

    record = remembered.record_of(item)
    if record is not None and record.exists():
        pytest.skip("passed before with the same sources, versions and seeds")
    item.stash[RECORD] = record


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    import remembered

    result = yield
    remembered.keep(item.stash[RECORD])
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """A test may be a coroutine: it gets an event loop of its own. One marked `interpreted` runs where nothing is
    compiled, except in `make soak`, where tests marked `slow` are."""
    import interpreted

    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    compiled = interpreted.SOAK or pyfuncitem.get_closest_marker("slow")
    if pyfuncitem.get_closest_marker("interpreted") and not compiled:
        interpreted.run_test(pyfuncitem.module.__name__, pyfuncitem.originalname, arguments)
        return True
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    asyncio.run(pyfuncitem.obj(**arguments))
    return True


@pytest.fixture(scope="session")
def database():
    """A PostgreSQL server of this process. It runs as another user, to whom pytest's folder is closed by each run
    that begins meanwhile: it has a folder elsewhere."""
    from test_stores import Database

    with tempfile.TemporaryDirectory(prefix="steadyrank-") as folder:
        found = Database(pathlib.Path(folder))
        yield found
        found.server.cleanup()


@pytest.fixture(autouse=True)
def no_server_is_left():
    """Kill server processes left by a failing test."""
    yield
    if "service_tools" in sys.modules:
        sys.modules["service_tools"].Server.kill_all()


def pytest_sessionfinish(session):
    """End what the tests of this process shared, and report their processor time."""
    if "browser" in sys.modules:
        sys.modules["browser"].close()
    if "interpreted" in sys.modules:
        sys.modules["interpreted"].Interpreter.close()
    if "service_tools" in sys.modules and (nursery := sys.modules["service_tools"].Server.nursery):
        nursery.close()
    if hasattr(session.config, "workerinput"):
        session.config.workeroutput["seconds"] = ACCOUNT.close()
    elif session.config.pluginmanager.hasplugin("dsession"):
        SECONDS[""] += sum(os.times()[:2])  # other processes ran the tests
    else:
        SECONDS.update(ACCOUNT.close())


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    SECONDS.update(getattr(node, "workeroutput", {}).get("seconds", {}))


def pytest_terminal_summary(terminalreporter):
    terminalreporter.section("processor time")
    for line in processor_time.told(SECONDS):
        terminalreporter.line(line)
