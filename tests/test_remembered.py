"""What passed is left out while all that decides it is as it was, and no longer."""

import ast
import pathlib
import types

import pytest

import remembered
from steadyrank.core.compiling import jit
from steadyrank.guards.quota import Quota


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Two modules of tests with what one of them imports, and an empty folder for what passed."""
    (tmp_path / "test_one.py").write_text("import helper\nfrom steadyrank.core import rounds\n")
    (tmp_path / "test_two.py").write_text("import math\n")
    (tmp_path / "helper.py").write_text("SEED = 1\n")
    monkeypatch.setattr(remembered, "_FOLDERS", [tmp_path])
    monkeypatch.setattr(jit, "cache_root", lambda: tmp_path / "cache")
    monkeypatch.delenv("STEADYRANK_KILLS", raising=False)
    return tmp_path


def test_a_module_of_tests_reaches_what_it_imports_and_what_is_found_by_name():
    reached = remembered.reached({"steadyrank.simulator.simulate"})
    assert {"steadyrank.learners.cascade_ts", "steadyrank.guards.quota", "steadyrank.core.rounds"} <= reached
    assert {"steadyrank.simulator", "steadyrank.core.compiling"} <= reached
    assert not any(name.startswith(("steadyrank.service", "steadyrank.audit")) for name in reached)
    assert "steadyrank.live.ranker" in remembered.reached({"steadyrank"})
    names = remembered.imported("from steadyrank.core import rounds\nimport duels, math\n")
    assert names == {"steadyrank.core", "steadyrank.core.rounds", "duels", "math"}


def test_an_edit_to_what_a_test_imports_makes_it_run_again_and_no_other(folder):
    def digests():
        return [remembered.digest_of.__wrapped__(name) for name in ("test_one", "test_two")]

    one, two = digests()
    assert digests() == [one, two]
    (folder / "helper.py").write_text("SEED = 2\n")
    assert digests()[0] != one
    assert digests()[1] == two


def test_a_check_that_passed_is_left_out_and_one_that_failed_is_not(folder, monkeypatch):
    calls, wrong = [], [True]

    def check(cls, **settings):
        calls.append(settings)
        assert not wrong

    for _ in range(2):
        with pytest.raises(AssertionError):
            remembered.once(check, Quota, visits=1)
    wrong.clear()
    for visits in (1, 1, 2, 1):
        remembered.once(check, Quota, visits=visits)
    assert [one["visits"] for one in calls] == [1, 1, 1, 2]
    monkeypatch.setenv("STEADYRANK_KILLS", "50")  # as in `make soak`
    remembered.once(check, Quota, visits=1)
    assert len(calls) == 5


OUTSIDE = {"browser", "nursery", "real_tables", "socket", "subprocess", "threading", "time"}
DATABASE = "database"  # the fixture, as an argument or asked for by its name
PROCESSES = {"AS_USERS", "Server", "free_port"}  # of service_tools


def outside(text):
    """What a module marked `pure` names of servers, processes, threads, the clock or where it lies, outside of tests
    marked `always`."""
    tree, names = ast.parse(text), {"__file__", "cwd"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.asname or alias.name for alias in node.names if alias.name in OUTSIDE}
        if isinstance(node, ast.ImportFrom) and node.module in {*OUTSIDE, "service_tools"}:
            given = {alias.name: alias.asname or alias.name for alias in node.names}
            names |= {given[name] for name in given if node.module in OUTSIDE or name in PROCESSES}
    for part in tree.body:
        decorators = getattr(part, "decorator_list", [])
        if any(ast.unparse(decorator) == "pytest.mark.always" for decorator in decorators):
            continue
        for node in ast.walk(part):
            found = getattr(node, "id", getattr(node, "attr", getattr(node, "arg", None)))
            if found in names or DATABASE in (isinstance(node, ast.arg) and found, getattr(node, "value", None)):
                yield getattr(part, "name", None), found


def test_no_module_that_is_pure_asks_for_files_of_the_repository_servers_or_the_clock():
    """It would be left out although what it reads is another."""
    modules = 0
    for path in pathlib.Path(__file__).parent.glob("test_*.py"):
        text = path.read_text()
        if "\npytestmark = pytest.mark.pure\n" in text:
            assert list(outside(text)) == [], path.name
            modules += 1
    assert modules > 60


def test_what_is_not_pure_is_found_and_what_always_runs_may_be_so():
    text = "import time\nimport pytest\nfrom service_tools import Server, serving\n\n{}def test_one():\n    {}()\n"
    for call in ("time.time", "Server", "path.cwd"):
        found = set(outside(text.format("", call)))
        assert found
        assert all(test == "test_one" and name in call for test, name in found)
        assert not list(outside(text.format("@pytest.mark.always\n", call)))
    assert not list(outside(text.format("", "serving")))
    assert list(outside("def test_one(database): ..."))
    assert list(outside("def test_one(request):\n    request.getfixturevalue('database')"))
    assert not list(outside("database = 3\nprint(database)"))


@pytest.mark.parametrize("marks", [["pure"], ["interpreted"], ["pure", "always"], ["pure", "slow"], []])
def test_what_is_marked_decides_what_is_kept(folder, marks):
    given = types.SimpleNamespace(
        path=folder / "test_one.py", nodeid="test_one.py::test", get_closest_marker=marks.count
    )
    assert (remembered.record_of(given) is not None) == (len(marks) == 1)
