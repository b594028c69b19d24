"""What passed is left out while all that decides it is as it was, and no longer."""

import pathlib

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


def test_no_module_that_is_pure_asks_for_files_of_the_repository_servers_or_the_clock():
    """It would be left out although what it reads is another."""
    for path in pathlib.Path(__file__).parent.glob("test_*.py"):
        text = path.read_text()
        if "\npytestmark = pytest.mark.pure\n" in text:
            assert not remembered.imported(text) & {"service_tools", "browser", "nursery", "socket", "time"}, (
                path.name
            )
            assert "__file__" not in text, path.name
            assert "cwd" not in text, path.name
