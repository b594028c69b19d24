"""The sources that determine a module's compiled code: its own, and those that it imports, at any depth.

Compiled code contains the functions that it calls and the constants that it reads. Both are imported, so a module
and everything that it reaches by imports cover them. Packages that discover their modules in a folder
reach none of them: the record types of a signature identify the relevant ones.
"""

import functools
import hashlib
import importlib.util
import os
import pathlib
import re
from collections.abc import Iterator
from typing import NamedTuple

_NAME = __name__.partition(".")[0]
_PACKAGE = pathlib.Path(__file__).parents[__name__.count(".") - 1]
# Regular expressions, because parsing takes sixty times as long. Imports for type checkers only are left out.
_LEFT_OUT = re.compile(r"#[^\n]*|^if TYPE_CHECKING:\n(?:[ \t]+[^\n]*\n|\n)*", re.MULTILINE)
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]*(\([^)]*\)|(?:\\\n|[^\n])*)|import[ \t]+([\w., \t]+))",
    re.MULTILINE,
)


class _Source(NamedTuple):
    path: str
    folder: str  # package for relative imports
    stamp: tuple[int, ...]


def _stamp(path: str) -> tuple[int, ...]:
    about = os.stat(path)
    return about.st_mtime_ns, about.st_size, about.st_ino


def _all_sources() -> dict[str, _Source]:
    """Every module of this package by its name, in its current state."""
    sources = {}
    for folder, _, files in os.walk(_PACKAGE):
        package = ".".join((_NAME, *pathlib.Path(folder).relative_to(_PACKAGE).parts))
        for file in files:
            if file.endswith(".py"):
                module = package if file == "__init__.py" else f"{package}.{file[:-3]}"
                path = os.path.join(folder, file)
                sources[module] = _Source(path, package, _stamp(path))
    return sources


_SOURCES = _all_sources()  # taken before any compiled module is imported, to detect later edits


@functools.cache
def _read(module: str) -> tuple[bytes, frozenset[str]]:
    """The digest of a module's text, and the modules of this package that it imports."""
    text = pathlib.Path(_SOURCES[module].path).read_bytes()
    return hashlib.sha256(text).digest(), frozenset(_imports(module, text.decode()))


def _imports(module: str, text: str) -> Iterator[str]:
    for whole, names, plain in _IMPORT.findall(_LEFT_OUT.sub("", text)):
        targets = re.findall(r"[\w.]+", plain)
        if whole:
            home = importlib.util.resolve_name(whole, _SOURCES[module].folder)
            targets = [home, *(f"{home}.{name}" for name in re.findall(r"\w+", names))]
        yield from (target for target in targets if target in _SOURCES)


@functools.cache
def reached(module: str) -> frozenset[str]:
    """The module and all modules of this package that it imports, at any depth."""
    seen, ahead = {module}, [module]
    while ahead:
        new = _read(ahead.pop())[1] - seen
        seen |= new
        ahead += new
    return frozenset(seen)


@functools.cache
def digest(module: str) -> str | None:
    """A digest of all sources that determine the module's compiled code; None if it is unknown.

    It is unknown for modules from elsewhere, and if a file has changed since this process started: the
    imported text may be the old or the new one.
    """
    if module not in _SOURCES:
        return None
    whole = hashlib.sha256()
    try:
        for name in sorted(reached(module)):
            whole.update(f"{name}:".encode() + _read(name)[0])
            if _stamp(_SOURCES[name].path) != _SOURCES[name].stamp:
                return None
    except OSError:
        return None
    return whole.hexdigest()
