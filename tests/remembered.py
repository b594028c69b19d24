"""Skip what passed before while nothing that determines it has changed.

That is checks of a class, and tests that depend only on sources and seeds, which are marked `pure` or `interpreted`.
A service inside the test, whose clocks the test controls, is one of these; a server on the network is not.

Results are kept beside the compiled code. `make soak` runs everything.
"""

import functools
import hashlib
import os
import pathlib
import re
import sys

import llvmlite.binding
import numpy as np

from steadyrank import _HOME
from steadyrank.core.compiling import jit, sources

_CHECKS = ("steadyrank.testing", "steadyrank.core.dispatch", "steadyrank.core.rounds")
_FOUND = (
    "learners",
    "users",
    "adversaries",
    "guards",
    "evaluation.studies",
)  # discovered in a folder
_FOLDERS = [pathlib.Path(__file__).parents[1] / name for name in ("tests", "bench", "docs")]
_ALWAYS = ("conftest", "interpreted", "remembered")
_VARIABLES = ("COLUMNS", "LANG", "LC_", "NUMBA", "PYTHON", "STEADYRANK", "TZ")


def once(check, cls, **settings):
    """Run a public check of the contract, unless it passed with the same sources, versions and settings."""
    digests = [sources.digest(module) for module in (cls.__module__, *_CHECKS)]
    record = None if None in digests else _record(check.__name__, cls.__name__, sorted(settings.items()), digests)
    if record is None or not record.exists():
        check(cls, **settings)
        keep(record)


def record_of(item):
    """The file that exists if this test passed with the same sources and environment; None if it always runs."""
    marks = [item.get_closest_marker(name) for name in ("pure", "interpreted")]
    if not any(marks) or item.get_closest_marker("slow") or item.get_closest_marker("always"):
        return None
    digest = digest_of(item.path.stem)
    given = item.callspec.params.values() if hasattr(item, "callspec") else ()
    texts = [value for value in given if isinstance(value, str)]  # such as pages, which are not sources
    return None if digest is None else _record(item.nodeid, texts, digest)


def keep(record):
    """Record that it passed."""
    if record is not None:
        record.parent.mkdir(parents=True, exist_ok=True)
        record.touch()


@functools.cache
def digest_of(test):
    """A digest of all sources that a test module reaches; None if unknown."""
    files, package = [], set()
    ahead, seen = [test, *_ALWAYS], set()
    while ahead:
        if (name := ahead.pop()) in seen:
            continue
        seen.add(name)
        file = next((path for folder in _FOLDERS if (path := folder / f"{name}.py").exists()), None)
        if file is None:
            continue
        files.append(file)
        imports = imported(file.read_text())
        ahead += [target for target in imports if "." not in target]
        package |= imports & sources._SOURCES.keys()
    digests = [sources.digest(module) for module in sorted(reached(package))]
    if None in digests:
        return None
    files += (path for path in sources._PACKAGE.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc"))
    texts = [(file.name, hashlib.sha256(file.read_bytes()).hexdigest()) for file in sorted(files)]
    return hashlib.sha256(repr((texts, digests)).encode()).hexdigest()


def imported(text):
    """Names of the modules that a source text may import."""
    names = set()
    for home, inside, plain in sources._IMPORT.findall(text):
        names.update(re.findall(r"[\w.]+", plain))
        if home:
            names |= {home, *(f"{home}.{name}" for name in re.findall(r"\w+", inside))}
    return names


def reached(package):
    """Modules that these import, at any depth, including discovered ones."""
    if "steadyrank" in package:
        package = package | {f"steadyrank.{home}" for home in (*_HOME.values(), *_FOUND)}
    while True:
        every = set().union(*map(sources.reached, package))
        every |= {part for name in every for part in _packages_of(name)} & sources._SOURCES.keys()
        for folder in _FOUND:
            if f"steadyrank.{folder}" in every:
                every |= {name for name in sources._SOURCES if name.startswith(f"steadyrank.{folder}.")}
        if every == package:
            return every
        package = every


def _packages_of(module):
    """The packages imported with a module, except the top one, which imports lazily."""
    parts = module.split(".")
    return {".".join(parts[:n]) for n in range(2, len(parts))}


def _record(*what):
    """Path of the record that something passed, by everything that determines it; None in `make soak`."""
    if "STEADYRANK_KILLS" in os.environ:
        return None
    whole = hashlib.sha256(repr((what, _surroundings())).encode()).hexdigest()
    return jit.cache_root() / "passed" / whole


@functools.cache
def _surroundings():
    """Versions of Python and of all installed packages, relevant variables, and the kind of processor."""
    installed = sorted(path.name for path in pathlib.Path(np.__file__).parents[1].glob("*.dist-info"))
    variables = sorted((name, value) for name, value in os.environ.items() if name.startswith(_VARIABLES))
    return sys.version, installed, variables, jit._version(), llvmlite.binding.get_host_cpu_name()
