"""Compilation: one decorator, and a disk cache that cannot become stale.

Numba's own disk cache does not detect edits in other files, nor flags such as bounds checking, and two
processes that save at once can swap their code. Here each compiled function is a file of its own, named after
everything that determines its machine code: its sources, those of its callees and of the records in its signature,
versions and flags. What one process compiles, others wait for.
"""

import contextlib
import fcntl
import functools
import hashlib
import os
import pathlib
import pickle
import re
import sys
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from types import FunctionType, SimpleNamespace
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba import types
from numba.core import config, event
from numba.core.caching import CompileResultCacheImpl, NullCache
from numba.core.serialize import dumps

from . import sources
from .late_linking import ACTIVE, linked_late

F = TypeVar("F", bound=Callable[..., Any])

_NAME = __name__.partition(".")[0]
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
_MOST_BYTES = 1 << 30  # size limit of the cache: all learners take a tenth of it
_PATIENCE = 120.0  # seconds to wait for code that another process compiles, which may have been stopped
_PLAIN_TYPES = (  # types allowed in a signature besides records: they contain no code
    types.Array,
    types.Boolean,
    types.NoneType,
    types.Number,
    types.NumPyRandomGeneratorType,
    types.Omitted,
    types.UnicodeType,
)


def surroundings() -> str:
    """What determines compiled code besides the sources, as text: versions and flags."""
    flags = "".join(f"{flag}={getattr(config, flag, None)};" for flag in _FLAGS)
    return f"{numba.__version__} {np.__version__}{flags}"


def _version() -> str:
    """Twelve hexadecimal digits that depend on Python, numba, numpy and whatever else affects all compiled code."""
    whole = f"{sys.implementation.cache_tag} {surroundings()} late={ACTIVE}"
    return hashlib.sha256(whole.encode()).hexdigest()[:12]


def cache_root() -> pathlib.Path:
    """The cache directory: STEADYRANK_CACHE, else steadyrank below the user's cache directory."""
    if chosen := os.environ.get("STEADYRANK_CACHE"):
        return pathlib.Path(chosen).expanduser()
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "steadyrank"


@functools.cache  # once per process, and only if it compiles: listing all files takes longer than loading some
def _make_room(root: pathlib.Path) -> None:
    """Evict the least recently used files if the cache is too large; only in folders named like ours.

    A wrong clock changes only the order: nothing is evicted because of its age.
    """
    files = []
    for path in root.glob("*/*"):
        with contextlib.suppress(FileNotFoundError):  # other processes save and remove concurrently
            if re.fullmatch("[0-9a-f]{12}", path.parent.name) and (about := path.stat()):
                files.append((about.st_mtime, about.st_size, path))
    too_much = sum(size for _, size, _ in files) - _MOST_BYTES
    if too_much <= 0:
        return
    too_much += _MOST_BYTES // 5  # leaves room, so that it is not soon too large again
    for _, size, path in sorted(files):
        with contextlib.suppress(OSError):  # another process removed it first
            path.unlink()
            path.parent.rmdir()  # succeeds only if the folder is empty
        if (too_much := too_much - size) <= 0:
            break


def _prepare(root: pathlib.Path) -> pathlib.Path | None:
    """Create this version's directory; None, with a warning, if it is not writable."""
    home = root / _version()
    try:
        home.mkdir(parents=True, exist_ok=True)
        if not os.access(home, os.W_OK):
            raise PermissionError(f"{home} is not writable")
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


class _Implementation(CompileResultCacheImpl):
    """Numba's serialization of compiled code, without its choice of a location."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._lineno = function.__code__.co_firstlineno
        self._locator = SimpleNamespace(_py_file=function.__code__.co_filename)  # for its warnings


def _records(kinds: Any) -> Iterator[type | None]:
    """The record classes among the types, at any depth; None for a type that may contain foreign code."""
    for kind in kinds:
        if isinstance(kind, types.BaseTuple):
            if (own := getattr(kind, "instance_class", None)) is not None:
                yield own
            yield from _records(getattr(kind, "types", ()))
        elif not isinstance(kind, _PLAIN_TYPES):
            yield None


class _Cache(NullCache):
    """Cache of a dispatcher's compiled code: one file per signature.

    The file name determines the content. Code for records from outside this package, for functions
    passed as arguments, or with closure variables of such a function is not cached: no digest covers it.

    Missing code is claimed before it is compiled: other processes wait, then load it. Functions are claimed
    before their callees, so processes cannot deadlock. Claims end with the process, and time out.
    """

    kind = "outer"

    def __init__(self, function: Callable[..., Any], home: pathlib.Path, options: dict[str, Any]) -> None:
        self._function, self._home, self._options = function, home, sorted(options.items())
        self._implementation = _Implementation(function)
        self._claims: dict[Any, Any] = {}

    @property
    def cache_path(self) -> str:
        """The folder, for numba's statistics of a function."""
        return str(self._home)

    def _file(self, sig: Any, codegen: Any) -> pathlib.Path | None:
        """The file for these types; None if their code is not cached."""
        function, records = self._function, list(_records(getattr(sig, "args", sig)))
        if function.__closure__ is not None or None in records:
            return None
        modules = dict.fromkeys([function.__module__, *(record.__module__ for record in records if record)])
        digests = [sources.digest(module) for module in modules]
        if None in digests:
            return None
        name = f"{function.__module__.rpartition('.')[2]}.{re.sub('[<>]', '', function.__qualname__)}"
        which = [f"{record.__module__}.{record.__qualname__}" for record in records if record]
        what = (function.__module__, name, function.__code__.co_firstlineno, self.kind, self._options)
        whole = repr((what, str(sig), which, digests, codegen.magic_tuple()))
        key = hashlib.sha256(whole.encode()).hexdigest()
        return self._home / f"{name}-{self.kind}-{key[:32]}.code"

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load the code for these types, if it is cached or another process is compiling it."""
        target_context.refresh()
        file = self._file(sig, target_context.codegen())
        if file is None:
            return None
        code = self._load(file, sig, target_context)
        return self._load(file, sig, target_context) if code is None and self._claim(sig, file) else code

    def _claim(self, sig: Any, file: pathlib.Path) -> bool:
        """Whether this process should compile for these types, possibly after waiting for another one."""
        if sig in self._claims:
            return False
        try:
            claim = open(f"{file}.claim", "a")  # noqa: SIM115  (held while compiling)
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
        """Wrap a dispatcher's `compile` so that it releases the claim, whether or not compilation succeeds."""

        def compile_once(sig: Any) -> Any:
            try:
                return compile_(sig)
            finally:
                if claim := self._claims.pop(sig, None):
                    fcntl.flock(claim, fcntl.LOCK_UN)  # waiting processes have it open, and will find the code
                    with contextlib.suppress(OSError), claim:
                        os.unlink(claim.name)

        return compile_once

    def _load(self, file: pathlib.Path, sig: Any, target_context: Any) -> Any:
        try:
            kept_for, code = pickle.loads(file.read_bytes())
            if kept_for != sig:
                return None
            with contextlib.suppress(OSError):
                os.utime(file)  # marks it as recently used
            return self._implementation.rebuild(target_context, code)
        except FileNotFoundError:
            return None
        except Exception as error:  # a torn or foreign file: on any error it is useless
            warnings.warn(f"compiled code was unreadable and is made anew: {error!r}", RuntimeWarning, stacklevel=2)
            with contextlib.suppress(OSError):
                file.unlink()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save the code for these types, or warn that it cannot be saved."""
        file = self._file(sig, data.codegen)
        if file is None or not self._implementation.check_cachable(data):
            return
        content = dumps((sig, self._implementation.reduce(data)))
        part = pathlib.Path(f"{file}.{uuid.uuid4().hex[:16]}")
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            try:
                part.write_bytes(content)
                part.replace(file)  # atomic
            finally:
                part.unlink(missing_ok=True)
            _make_room(self._home.parent)
        except OSError as error:
            warnings.warn(f"compiled code was not kept: {error}", RuntimeWarning, stacklevel=2)


class _InnerCache(_Cache):
    """Cache of code called only from compiled code, stored beside the code called from Python."""

    kind = "inner"

    def save_overload(self, sig: Any, data: Any) -> None:
        if ACTIVE:
            data.library.linkable = True
        super().save_overload(sig, data)


def _compiled(function: F, counting: bool, kept: bool) -> F:
    """Compile `function` twice over: for Python with a wrapper that unpacks records, and without for compiled code.

    Most functions are called by compiled code alone, and the wrapper is a fifth of the time to compile one.
    """
    home = _HOME if kept and function.__module__.partition(".")[0] == _NAME else None
    # no wrapper for C: nobody takes these functions' addresses
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, "_nrt": counting}

    def made(cache: type[_Cache], **more: Any) -> Any:
        compiled: Any = numba.njit(**options, **more)(function)
        if not _INTERPRETED:
            compiled.compile = linked_late(compiled.compile)
        if home is not None:
            compiled._cache = cache(function, home, options)
            compiled.compile = compiled._cache.releasing(compiled.compile)
        return compiled

    outer = made(_Cache)
    if not _INTERPRETED:
        inner = functools.cache(lambda: made(_InnerCache, no_cpython_wrapper=True))
        # a constant is a number like all others: else numba compiles once more for each that is handed over
        outer.get_call_template = lambda given, named: inner().get_call_template(
            [types.unliteral(kind) for kind in given], {name: types.unliteral(kind) for name, kind in named.items()}
        )
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

    Functions of this package are cached on disk between processes. Others are not: an edit of a user's file, or
    of anything it calls, takes effect at the next call.
    """
    return _compiled(function, counting=True, kept=True)


def no_refcount(function: F) -> F:
    """`kernel` without reference counting, for functions that allocate nothing and return no array but borrowed ones.

    In a loop that runs a million times a second, counting would take most of the time. Numba refuses to compile
    a function that allocates.
    """
    return _compiled(function, counting=False, kept=True)


def inlined(function: F) -> F:
    """Inline `function` into each function that calls it, so that its arguments need not be passed.

    A record of twenty arrays is a few hundred words, and passing it in each round is measurable. Only for
    compiled callers: calls from Python are refused, since passing generators from there has crashed the process.
    """
    compiled: Any = numba.njit(inline="always", nogil=True, error_model="numpy")(function)

    def refuse(*arguments: Any, **named: Any) -> None:
        raise TypeError(f"{function.__name__} is part of compiled functions: call it from one, not from Python")

    if not _INTERPRETED:
        compiled._compile_for_args = refuse
    return cast(F, compiled)


def in_python(function: F) -> F:
    """A compiled function, and all that it calls, as interpreted Python: for short code that runs once."""
    plain: Any = getattr(function, "py_func", function)
    named = {name: plain.__globals__.get(name) for name in plain.__code__.co_names}
    calls = {name: in_python(value) for name, value in named.items() if hasattr(value, "py_func")}
    return cast(F, FunctionType(plain.__code__, plain.__globals__ | calls)) if calls else cast(F, plain)


def uncached(function: F) -> F:
    """Compile `function` on first call and cache nothing on disk, whoever wrote it."""
    return _compiled(function, counting=True, kept=False)
