"""The package as a whole: names, imports, sizes."""

import importlib.metadata
import pathlib
import re
import subprocess
import sys
import tomllib

import numpy as np
import pytest
from packaging.specifiers import SpecifierSet

import steadyrank as sr

ROOT = pathlib.Path(__file__).parent.parent
SOURCE = ROOT / "src" / "steadyrank"


def test_import_loads_nothing_heavy():
    """Nor does the command line, before it knows the command."""
    for module in ("steadyrank", "steadyrank.cli"):
        script = f"import sys, {module}; print({{'numba', 'numpy', 'scipy', 'matplotlib'}} & set(sys.modules))"
        found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        assert found.stdout.strip() == "set()", module


def test_public_names():
    assert re.fullmatch(r"\d+\.\d+\.\d+", sr.__version__)
    assert set(sr.__all__) <= set(dir(sr))
    for name in sr.__all__:
        assert callable(getattr(sr, name)), name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = sr.nothing
    assert sr.profiles() == [
        "contextual-films", "lastfm", "lastfm-listeners", "movielens", "movielens-32m", "synthetic-five-items",
        "synthetic-low", "synthetic-mid", "synthetic-spread", "synthetic-two-levels", "yelp-pizza",
    ]  # fmt: skip
    assert {"Random", "Oracle", "CascadeUCB1", "CascadeKLUCB", "CascadeUCBV", "CascadeTS", "TSCascade"} <= set(
        sr.learners()
    )
    assert {"MUCBV", "M2UCBV", "TimeBlocks"} <= set(sr.learners())
    assert {"Honest", "PrefixFlip", "AttractionFlip"} <= set(sr.adversaries())
    assert {"Cascade", "DriftingCascade", "SemiBandit"} <= set(sr.users())
    assert {"Anyone", "ClickLimit", "ClientTrust", "Plausible", "Quota"} <= set(sr.guards())


def test_profiles_have_the_stated_shape():
    """The range of the best ten, and how many items lie above 1/2."""
    for name, low, high, above in [
        ("synthetic-low", 0.20, 0.38, 0), ("synthetic-spread", 0.62, 0.85, 24), ("synthetic-mid", 0.73, 0.83, 250),
    ]:  # fmt: skip
        p = sr.profile(name)
        best = np.sort(p.attraction)[-10:]
        assert p.attraction.size == 500
        assert low <= best.min() <= best.max() <= high
        assert (p.attraction > 0.5).sum() == above
        assert np.array_equal(p.attraction, np.round(p.attraction, 12))
        assert abs(np.corrcoef(np.arange(500), p.attraction)[0, 1]) < 0.15  # not sorted
        assert np.array_equal(p.attraction, sr.profile(name).attraction)
        assert p.mapping.startswith("sigmoid(N(")
        assert sr.profile(name, mapping=p.mapping).mapping == p.mapping


def test_profiles_of_levels_hold_what_their_mapping_says():
    world = sr.profile("synthetic-two-levels")
    assert world.mapping == "5 of 0.9, 495 of 0.1"
    assert np.sort(world.attraction).tolist() == [0.1] * 495 + [0.9] * 5
    assert np.flatnonzero(world.attraction == 0.9).tolist() != list(range(5))  # not sorted
    assert np.sort(sr.profile("synthetic-five-items").attraction).tolist() == [0.1, 0.1, 0.1, 0.8, 0.9]


def test_profile_numbers_are_pinned():
    """The same numbers on every machine."""
    assert sr.profile("synthetic-spread").attraction[:3].tolist() == [0.115157355557, 0.141412212165, 0.054208563207]


def test_unknown_profiles_and_mappings():
    with pytest.raises(KeyError, match="unknown profile 'synthetic-lo': did you mean 'synthetic-low'"):
        sr.profile("synthetic-lo")
    with pytest.raises(ValueError, match="has the one mapping"):
        sr.profile("synthetic-low", mapping="sparse")


def test_the_formatter_decides_how_code_looks():
    for path in SOURCE.rglob("*.py"):
        assert "fmt: skip" not in path.read_text(), path


def test_tracked_files_name_no_registry_and_no_unfinished_work():
    files = [ROOT / "constraints.txt", ROOT / "pyproject.toml", ROOT / "Makefile", *SOURCE.rglob("*.py")]
    for path in files:
        text = path.read_text()
        assert "://" not in text or path.suffix == ".py", path
        assert not re.search(r"\b(TODO|FIXME|XXX)\b", text), path


def test_constraints_pin_every_dependency():
    lines = (ROOT / "constraints.txt").read_text().splitlines()[1:]
    assert lines == sorted(lines, key=str.lower)
    pinned = {}
    for line in lines:
        name, version = re.fullmatch(r"([\w.-]+)==([\w.]+)", line).groups()
        pinned[name.lower().replace("_", "-")] = version
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = whole["project"]
    extras = project["optional-dependencies"].values()
    needs = [*project["dependencies"], *(need for extra in extras for need in extra)]
    wanted = {re.match(r"[\w-]+", need)[0] for need in needs} - {"steadyrank"}
    assert {"numba", "numpy", "matplotlib", "mkdocstrings", "psycopg"} <= wanted
    assert wanted <= set(pinned)
    assert whole["build-system"]["requires"] == [f"hatchling=={pinned['hatchling']}"]


def test_without_the_extras_ranking_in_process_works_and_commands_say_what_is_missing(tmp_path):
    """Everything that an extra brings is hidden from a fresh interpreter."""
    script = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"starlette", "uvicorn", "msgspec", "prometheus_client", "psycopg", "polars",
                                  "matplotlib", "ray", "httpx", "scipy"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
import steadyrank as sr
import steadyrank.client
from steadyrank.cli import main
shown = (ranker := sr.Ranker(["a", "b"], 1, "CascadeUCB1")).rank()
ranker.feedback(shown.id, clicked=None)
codes = [main(command.split()) for command in ("serve", "audit log.csv", "reproduce", "results")]
sys.exit(2 if set(codes) == {2} else 1)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    asked = re.findall(r"^steadyrank (\w+): .*pip install 'steadyrank\[(\w+)\]'", done.stderr, re.MULTILINE)
    assert [extra for _, extra in asked] == ["service", "report", "report", "report"], done.stderr


def test_every_pinned_version_can_be_installed_on_debian():
    """Its Python is 3.11.2; a pin that asks for a later patch would stop `make` there, and only there."""
    pins = [line.split("==") for line in (ROOT / "constraints.txt").read_text().split() if "==" in line]
    assert len(pins) > 100
    for name, _ in pins:
        try:
            needs = importlib.metadata.metadata(name).get("Requires-Python")
        except importlib.metadata.PackageNotFoundError:
            continue  # for another system
        assert needs is None or SpecifierSet(needs).contains("3.11.2"), (name, needs)
