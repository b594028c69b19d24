"""The wheel and the sdist hold what they should. `make dist` tries the wheel in an empty environment."""

import email
import pathlib
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest

import steadyrank as sr

ROOT = pathlib.Path(__file__).parent.parent


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Built from a copy of what is tracked or would be."""
    folder = tmp_path_factory.mktemp("dist")
    ignored = shutil.ignore_patterns(
        "__pycache__", ".venv", ".git", "build", "dist", "results", ".*_cache", ".hypothesis"
    )
    shutil.copytree(ROOT, folder / "source", ignore=ignored)
    command = [sys.executable, "-m", "hatchling", "build", "-d", folder / "out"]
    done = subprocess.run(command, cwd=folder / "source", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "out"


def test_the_wheel_holds_the_package_and_nothing_else(built):
    (path,) = built.glob("*.whl")
    assert path.name == f"steadyrank-{sr.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(path) as wheel:
        names = set(wheel.namelist())
        about = email.message_from_bytes(wheel.read(f"steadyrank-{sr.__version__}.dist-info/METADATA"))
    package = ROOT / "src" / "steadyrank"
    wanted = {
        f"steadyrank/{file.relative_to(package)}"
        for file in package.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert {name for name in names if ".dist-info/" not in name} == wanted
    assert "steadyrank/py.typed" in wanted
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    assert set(about.get_all("Provides-Extra")) == {
        *("service", "postgres", "kafka", "redis", "otel", "ray", "report", "release", "dev")
    }
    base = {need.split(">")[0].split("<")[0] for need in about.get_all("Requires-Dist") if "extra ==" not in need}
    assert base == {"numba", "numpy"}
    assert "://" not in "".join(about.get_all("Requires-Dist"))


def test_the_sdist_can_be_worked_with(built):
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    for wanted in (
        "Makefile", "constraints.txt", "mkdocs.yml", "CHANGELOG.md", "CONTRIBUTING.md", "CITATION.cff", "README.md",
        "tests/test_wheel.py", "docs/index.md", "examples/web_app.py", "bench/speed.py",
    ):  # fmt: skip
        assert wanted in names
