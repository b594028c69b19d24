"""How this package compiles: one decorator, and a disk cache that cannot go stale.

Numba's own disk cache does not see edits made in other files, nor flags such as bounds checking, and two
processes that save at once can exchange their code. Here the directory is named after a digest of everything
that decides the machine code, and saving takes a lock. What one process compiles, others wait for.
"""

import contextlib
import fcntl
import functools
import hashlib
import os
import pathlib
import re
import shutil
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba import types
from numba.core import config, event
from numba.core.caching import CompileResultCacheImpl, FunctionCache, UserProvidedCacheLocator

from .late_linking import ACTIVE, linked_late

F = TypeVar("F", bound=Callable[..., Any])

_NAME = __name__.partition(".")[0]
_PACKAGE = pathlib.Path(__file__).parents[__name__.count(".") - 1]
_RECORDS = ("adversaries", "guards", "learners", "users")
_FLAGS = (
    "BOUNDSCHECK",
    "CPU_FEATURES",
    "CPU_NAME",
    "DEBUGINFO_DEFAULT",
    "DISABLE_INTEL_SVML",
    "ENABLE_AVX",
    "LOOP_VECTORIZE",
    "OPT",
    "SLP_VECTORIZE",
    "USING_SVML",
)
_FORGET_AFTER = 30 * 24 * 3600.0  # seconds without use
_PATIENCE = 120.0  # seconds that a process waits for what another compiles, which may have been stopped


def _sources() -> list[pathlib.Path]:
    """Every file whose text can change compiled code."""
    found = []
    for path in sorted(_PACKAGE.rglob("*.py")):
        record = path.relative_to(_PACKAGE).parts[0] in _RECORDS
        if (
            record
            or path.parent == pathlib.Path(__file__).parent
            or re.search(r"^@(kernel|uncounted|inlined|Dispatcher)$", path.read_text(), re.MULTILINE)
        ):
            found.append(path)
    return found


def surroundings() -> str:
    """What decides compiled code beside the sources: versions and flags, as text."""
    flags = "".join(f"{flag}={getattr(config, flag, None)};" for flag in _FLAGS)
    return f"{numba.__version__} {np.__version__}{flags}"


def digest() -> str:
    """Twelve hexadecimal digits that change with the compiled sources, numba, numpy and code-changing flags."""
    h = hashlib.sha256(f"{surroundings()} {ACTIVE}".encode())
    for path in _sources():
        h.update(f"{path.relative_to(_PACKAGE)}:".encode() + path.read_bytes())
    return h.hexdigest()[:12]


def cache_root() -> pathlib.Path:
    """Where compiled code is kept: STEADYRANK_CACHE, else steadyrank below the user's cache directory."""
    if chosen := os.environ.get("STEADYRANK_CACHE"):
        return pathlib.Path(chosen).expanduser()
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "steadyrank"


def _forget(root: pathlib.Path) -> None:
    """Remove versions long unused; only folders named like ours, whatever else the user keeps there."""
    for other in root.iterdir():
        try:
            if re.fullmatch("[0-9a-f]{12}", other.name) and time.time() - other.stat().st_mtime > _FORGET_AFTER:
                shutil.rmtree(other, ignore_errors=True)
        except FileNotFoundError:  # another process was faster
            continue


def _prepare(root: pathlib.Path) -> pathlib.Path | None:
    """Make this version's directory, mark it as used, and remove those of versions long unused."""
    home = root / digest()
    try:
        home.mkdir(parents=True, exist_ok=True)
        os.utime(home)
        if not os.access(home, os.W_OK):
            raise PermissionError(f"{home} is not writable")
        _forget(root)
    except OSError as error:
        warnings.warn(
            f"compiled code cannot be kept ({error}); it is compiled anew in every process. "
            "Set STEADYRANK_CACHE to a writable directory.",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
    return home


_INTERPRETED = bool(getattr(config, "DISABLE_JIT", 0))
_HOME = None if _INTERPRETED else _prepare(cache_root())


class _Locator(UserProvidedCacheLocator):
    """Puts compiled code below `_HOME`; its name carries the digest, so the stamp need not look at the clock."""

    def __init__(self, py_func: Callable[..., Any], py_file: str) -> None:
        self._py_file = py_file
        self._lineno = py_func.__code__.co_firstlineno
        self._cache_path = str(_HOME)

    def get_source_stamp(self) -> str:
        return pathlib.Path(self._cache_path).name

    def get_disambiguator(self) -> str:
        folder = pathlib.Path(self._py_file).resolve().parent.name
        return f"{folder}-{self._lineno}"

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> "_Locator":
        return cls(py_func, py_file)


class _Implementation(CompileResultCacheImpl):
    _locator_classes = [_Locator]  # noqa: RUF012  (numba declares it so)


def _foreign(kinds: Any) -> bool:
    """Whether a record class from outside this package is among the types, at any depth."""
    for kind in kinds:
        if isinstance(kind, types.BaseTuple):
            own = getattr(kind, "instance_class", None)
            if own is not None and own.__module__.partition(".")[0] != _NAME:
                return True
            if _foreign(getattr(kind, "types", ())):
                return True
    return False


class _InnerImplementation(_Implementation):
    """Of code that only compiled code calls: kept beside that which Python calls."""

    def get_filename_base(self, fullname: str, abiflags: str) -> str:
        return f"{super().get_filename_base(fullname, abiflags)}-inner"


class _Cache(FunctionCache):
    """Numba's cache of one function, saved by one process at a time.

    Without the lock two processes may pick the same file for different signatures, and the next process runs the
    wrong one. Code for records from outside this package is neither saved nor loaded: no digest covers them.

    What is missing is claimed before it is compiled: others that need it wait, then load it. Functions are claimed
    before those that they call, so nobody waits in a circle. Claims end with the process, and are ignored after long.
    """

    _impl_class = _Implementation

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._claims: dict[Any, Any] = {}

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        if _foreign(getattr(sig, "args", sig)):
            return None
        found = self._load(sig, target_context)
        return self._load(sig, target_context) if found is None and self._claim(sig) else found

    def _claim(self, sig: Any) -> bool:
        """Whether this process, perhaps after a wait for another, is the one to compile for these types."""
        if sig in self._claims:
            return False
        name = hashlib.sha256(f"{self._impl.filename_base} {sig}".encode()).hexdigest()[:24]
        try:
            claim = open(pathlib.Path(self.cache_path) / f"{name}.claim", "a")  # noqa: SIM115  (held while compiling)
        except OSError:
            return False
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            with contextlib.suppress(OSError):
                fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._claims[sig] = claim
                return True
            time.sleep(0.02)
        claim.close()
        return False

    def releasing(self, compile_: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """A dispatcher's `compile` that ends the claim: the code is there, or could not be made."""

        def compile_once(sig: Any) -> Any:
            try:
                return compile_(sig)
            finally:
                if claim := self._claims.pop(sig, None):
                    fcntl.flock(claim, fcntl.LOCK_UN)  # who waits has it open, and will find the code
                    with contextlib.suppress(OSError), claim:
                        os.unlink(claim.name)

        return compile_once

    def _load(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:  # a torn or foreign file: any error means that it is of no use
            warnings.warn(f"compiled code was unreadable and is made anew: {error!r}", RuntimeWarning, stacklevel=2)
            with self._lock():
                self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        if _foreign(getattr(sig, "args", sig)):
            return
        try:
            with self._lock():
                super().save_overload(sig, data)
        except OSError as error:
            warnings.warn(f"compiled code was not kept: {error}", RuntimeWarning, stacklevel=2)

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        with open(pathlib.Path(self.cache_path) / "lock", "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


class _InnerCache(_Cache):
    _impl_class = _InnerImplementation

    def save_overload(self, sig: Any, data: Any) -> None:
        if ACTIVE:
            data.library.linkable = True
        super().save_overload(sig, data)


def _compiled(function: F, counting: bool, kept: bool) -> F:
    """Compile `function` twice over: for Python with a wrapper that unpacks records, and without for compiled code.

    Most functions are called by compiled code alone, and the wrapper is a fifth of the time to compile one.
    """
    kept = kept and _HOME is not None and function.__module__.partition(".")[0] == _NAME
    # no wrapper for C: nobody takes these functions' addresses
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, "_nrt": counting}

    def made(cache: type[_Cache], **more: Any) -> Any:
        compiled: Any = numba.njit(**options, **more)(function)
        if not _INTERPRETED:
            compiled.compile = linked_late(compiled.compile)
        if kept:
            compiled._cache = cache(function)
            compiled.compile = compiled._cache.releasing(compiled.compile)
        return compiled

    outer = made(_Cache)
    if not _INTERPRETED:
        inner = functools.cache(lambda: made(_InnerCache, no_cpython_wrapper=True))
        outer.get_call_template = lambda *arguments: inner().get_call_template(*arguments)
        outer.get_overload = lambda signature: inner().get_overload(signature)
    return cast(F, outer)


class _Told(event.Listener):
    """Passes on when a function begins and ends to be compiled."""

    def __init__(self, tell: Callable[[bool], None]) -> None:
        self.tell = tell

    def on_start(self, event: Any) -> None:
        self.tell(True)

    def on_end(self, event: Any) -> None:
        self.tell(False)


def told_of_compiling(tell: Callable[[bool], None]) -> contextlib.AbstractContextManager[None]:
    """While open, call `tell(True)` before and `tell(False)` after each function that is compiled and not loaded."""
    return cast(contextlib.AbstractContextManager[None], event.install_listener("numba:compile", _Told(tell)))


def kernel(function: F) -> F:
    """Compile `function` on first call, without the GIL.

    Functions of this package are kept on disk between processes. Others are not: an edit of a user's file, or
    of anything it calls, takes effect at the next call.
    """
    return _compiled(function, counting=True, kept=True)


def uncounted(function: F) -> F:
    """`kernel` for functions that allocate nothing and return no array but a borrowed one: they count no references.

    In a loop that runs a million times a second, the counting would be most of the work. Numba refuses to compile
    one that allocates.
    """
    return _compiled(function, counting=False, kept=True)


def inlined(function: F) -> F:
    """Compile `function` as part of each function that calls it: what it is given is not handed over.

    A record of twenty arrays is a few hundred words, and a loop that hands it over in each round feels it.
    """
    return cast(F, numba.njit(inline="always", nogil=True, error_model="numpy")(function))


def uncached(function: F) -> F:
    """Compile `function` on first call and keep nothing on disk, whoever wrote it."""
    return _compiled(function, counting=True, kept=False)
