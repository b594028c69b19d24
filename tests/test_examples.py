"""The examples run, and show what they promise."""

import importlib.util
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent
SHORT = {
    "compare_learners.py": ["SteadyRank", "Random", "--horizon", "2000"],
    "own_learner.py": ["--horizon", "1000"],
    "own_adversary.py": ["--horizon", "1000", "--learners", "CascadeTS"],
    "web_app.py": ["--visits", "300", "--save", "ranker.steadyrank"],
    "audit_log.py": [],
    "cold_start.py": ["--visits", "300"],
}


def said(name, folder):
    command = [sys.executable, "-W", "error", ROOT / "examples" / name, *SHORT[name]]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_there_are_no_others():
    assert sorted(SHORT) == sorted(path.name for path in (ROOT / "examples").glob("*.py"))
    text = (ROOT / "docs" / "quick-start.md").read_text()
    assert all(f"`{name}`" in text for name in (*SHORT, "shop/"))  # test_shop.py


@pytest.mark.slow  # the README's lines do the same
def test_compare_learners(tmp_path):
    rows = dict(re.findall(r"^(\w+) +([\d,]+ .*)$", said("compare_learners.py", tmp_path), re.MULTILINE))
    steady, random = ([int(n.replace(",", "")) for n in rows[name].split()] for name in ("SteadyRank", "Random"))
    assert len(steady) == 4
    assert all(a < b for a, b in zip(steady, random, strict=True))


@pytest.mark.slow  # the page about it has the same
def test_own_learner(tmp_path):
    assert re.search(r"^Forgetful +regret \d+\nCascadeTS +regret \d+\nlive: \(", said("own_learner.py", tmp_path))


@pytest.mark.slow  # the page about it has the same
def test_own_adversary(tmp_path):
    spent = re.findall(r"depth \d: regret +[\d,]+, spent ([\d,]+)", said("own_adversary.py", tmp_path))
    assert len(spent) == 2
    assert all(0 < int(number) <= 200 for number in spent)


def test_web_app(tmp_path):
    text = said("web_app.py", tmp_path)
    assert "offer 1," in re.search(r"next list: (.*)", text)[1] + ","
    assert (tmp_path / "ranker.steadyrank").stat().st_size > 0
    assert "refused" not in text


def test_cold_start(tmp_path):
    text = said("cold_start.py", tmp_path)
    plain, knowing = (int(number) for number in re.search(r"in all: (\d+) and (\d+) clicks", text).groups())
    assert knowing > 1.1 * plain  # 1.26 to 1.55 times as many with seeds 1 to 4


def test_audit_log(tmp_path):
    text = said("audit_log.py", tmp_path)
    found = re.search(r"rows ([\d,]+) to ([\d,]+), \S+ sure: (.*)", text)
    start, end = (int(found[i].replace(",", "")) for i in (1, 2))
    assert abs(start - 3_600) < 40
    assert abs(end - 4_199) < 40
    assert {"item 17", "item 18", "item 19"} <= set(found[3].split(", "))


@pytest.mark.parametrize("name", SHORT)
def test_every_example_says_how_it_is_run(name):
    text = (ROOT / "examples" / name).read_text()
    assert f"python examples/{name}" in text.split('"""')[1]


def notebooks():
    spec = importlib.util.spec_from_file_location("notebooks", ROOT / "docs" / "notebooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", [pytest.param("own-learner", marks=pytest.mark.slow), "audit", "shadow-week"])
def test_a_notebook_shows_what_is_kept_in_it(name):
    """Every digit and table; of a figure, that there is one."""

    def told(shown):
        return [(one["output_type"], one.get("text"), one.get("data", {}).get("text/plain")) for one in shown]

    module = notebooks()
    kept = [cell for cell in module.load(name)["cells"] if cell["cell_type"] == "code"]
    for cell, shown in zip(kept, module.outputs(module.load(name)), strict=True):
        assert told(shown) == told(cell["outputs"]), "".join(cell["source"])
    assert sum("image/png" in one.get("data", {}) for cell in kept for one in cell["outputs"]) == 1
    assert [cell["execution_count"] for cell in kept] == list(range(1, len(kept) + 1))


def test_every_notebook_is_on_the_site_and_run_here():
    names = sorted(path.stem for path in (ROOT / "examples" / "notebooks").glob("*.ipynb"))
    assert names == ["audit", "own-learner", "shadow-week"]
    nav, start = (ROOT / "mkdocs.yml").read_text(), (ROOT / "docs" / "quick-start.md").read_text()
    for name in names:
        assert f": notebook-{name}.md" in nav
        assert f"`{name}.ipynb`" in start
