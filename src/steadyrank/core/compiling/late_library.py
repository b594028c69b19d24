"""Generate machine code only for functions that Python calls, with their compiled callees linked in.

Numba optimises each function together with all its callees, and generates machine code for it, at every level of
calls. For a function called only from compiled code that work is wasted: its caller takes the intermediate code and
starts over. SteadyRank has 170 such functions up to ten levels deep, and it was two fifths of the time to compile it.
Here such a function is only linked; results are the same, since optimisation may not change them.

This depends on numba's internals, and is only an optimisation: `late_linking` decides whether it is used.
"""

import contextlib
import ctypes
import threading
from collections.abc import Iterator
from typing import Any, cast

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.environment import lookup_environment
from numba.core.registry import cpu_target

_ENVIRONMENT = "_ZN08NumbaEnv"  # prefix of environment names; environments hold a function's constants and exceptions
_LINKABLE = "linkable"  # a kind of cached object besides numba's own
# The methods that are replaced: without one of these names, a replacement would never be called.
_REPLACED = (
    "_ensure_finalized",
    "_unserialize",
    "codegen",
    "finalize",
    "get_pointer_to_function",
    "serialize_using_object_code",
)
_OF_THE_CODEGEN = ("create_library", "set_env", "unserialize_library")
_here = threading.local()


def _inside() -> bool:
    """Whether this thread is compiling this package's code."""
    return getattr(_here, "inside", False)


@contextlib.contextmanager
def late(wait: bool = True) -> Iterator[None]:
    """What this thread compiles meanwhile becomes machine code only if Python asks for it; at once without `wait`.

    Numba compiles under one lock. Held here, it keeps code of other threads from being compiled meanwhile; outside,
    numba makes its libraries as ever.
    """
    with global_compiler_lock:
        context: Any = cpu_target.target_context
        codegen = context.codegen()
        before = getattr(_here, "inside", False), getattr(_here, "waits", False)
        _here.inside, _here.waits = True, wait
        if not before[0]:
            codegen.create_library = lambda name, **options: LateLibrary(codegen, name, **options)
            codegen.unserialize_library = lambda state: LateLibrary._unserialize(codegen, state)
            context.create_cfunc_wrapper = lambda *given: None  # nobody takes these functions' addresses
        try:
            yield
        finally:
            _here.inside, _here.waits = before
            if not before[0]:
                del codegen.create_library, codegen.unserialize_library, context.create_cfunc_wrapper


class _TolerantCodegen:
    """A codegen for late libraries: skips environments of functions that have no address yet."""

    def __init__(self, codegen: Any) -> None:
        self._codegen = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, name: str, environment: Any) -> None:
        if self._codegen._engine.get_global_value_address(name):
            self._codegen.set_env(name, environment)


class LateLibrary(JITCodeLibrary):
    """A function with all that it calls: optimised, and made machine code, when its address is first asked for.

    Also when code of others links it, so that they find what numba would have made. `linkable`: kept on disk as it
    is, to be linked by others of this package.
    """

    def __init__(self, codegen: Any, name: str) -> None:
        super().__init__(codegen, name)
        self._waits = getattr(_here, "waits", False)
        self.linkable = False

    @property
    def codegen(self) -> Any:
        return _TolerantCodegen(self._codegen)

    def _ensure_finalized(self) -> None:
        if not self._waits:
            super()._ensure_finalized()
            return
        if not self._finalized:
            for library in dict.fromkeys(self._linking_libraries):
                self._reload_init.update(library._reload_init)
                self._final_module.link_in(library._get_module_for_linking(), preserve=True)
            self._finalize_dynamic_globals()
            self._finalized = True
        if not _inside():
            self._emit()

    def finalize(self) -> None:
        self._waits = False  # whoever asks for it by name needs the symbols
        super().finalize()

    def _emit(self) -> None:
        """Generate the machine code."""
        self._waits = False
        self._get_module_for_linking()  # as it is: others may have linked it before
        self._dynamic_globals.clear()
        self._optimize_final_module()
        self._final_module.verify()
        self._finalize_final_module()
        for variable in self._final_module.global_variables:
            if variable.name.startswith(_ENVIRONMENT) and (known := lookup_environment(variable.name)) is not None:
                self.codegen.set_env(variable.name, known)

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        if self._waits:
            try:
                if self._final_module.get_function(name).is_declaration:
                    return 0
            except NameError:  # no wrapper for Python was made
                return 0
            self._emit()
        return cast(int, super().get_pointer_to_function(name))

    def serialize_using_object_code(self) -> tuple[str, str, Any]:
        self._ensure_finalized()
        if self._waits and self.linkable:
            return self.name, _LINKABLE, self._get_module_for_linking().as_bitcode()
        if self._waits:
            self._emit()
        return cast(tuple[str, str, Any], super().serialize_using_object_code())

    @classmethod
    def _unserialize(cls, codegen: Any, state: tuple[str, str, Any]) -> Any:
        name, kind, data = state
        if kind != _LINKABLE:
            with late(False):
                return super()._unserialize(codegen, state)
        with late():
            library = codegen.create_library(name)
        library._final_module = library._shared_module = llvm.parse_bitcode(data)
        library._finalized = True
        library._finalize_dynamic_globals()
        return library


def works() -> bool:
    """Whether numba has everything that is replaced here, and two small functions work: takes about 20 ms."""
    try:
        codegen: Any = cpu_target.target_context.codegen()
        replaced = all(hasattr(JITCodeLibrary, name) for name in _REPLACED)
        return replaced and all(hasattr(codegen, name) for name in _OF_THE_CODEGEN) and _links_late(codegen)
    except Exception:  # whatever the error, numba has changed
        return False


def _links_late(codegen: Any) -> bool:
    """Whether a callee is deferred, cached and read back, and its caller works."""
    with late():
        called = codegen.create_library("steadyrank.twice")
        called.linkable = True
        called.add_ir_module(_adding(called, "steadyrank.twice", None))
        read = codegen.unserialize_library(called.serialize_using_object_code())
        caller = codegen.create_library("steadyrank.thrice")
        caller.add_linking_library(read)
        caller.add_ir_module(_adding(caller, "steadyrank.thrice", "steadyrank.twice"))
        address = caller.get_pointer_to_function("steadyrank.thrice")
        absent = read.get_pointer_to_function("steadyrank.nothing")
        caller.codegen.set_env("steadyrank.nothing", None)  # has no address, so it is ignored
    if not address or absent or not (called._waits and read._waits) or caller._waits:
        return False
    return bool(ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)(14) == 42)


def _adding(library: Any, name: str, other: str | None) -> Any:
    """IR of a function that adds its argument to the result of `other`, or to itself."""
    module, number = library.create_ir_module(name), ir.IntType(64)
    kind = ir.FunctionType(number, [number])
    function = ir.Function(module, kind, name)
    builder, argument = ir.IRBuilder(function.append_basic_block()), function.args[0]
    given = builder.call(ir.Function(module, kind, other), [argument]) if other else argument
    builder.ret(builder.add(argument, given))
    return module
