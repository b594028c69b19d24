"""Compiled code that only compiled code calls becomes machine code once: as part of what Python calls.

Numba optimises each function together with all that it calls, and makes machine code of it, at every level of calls.
Where nobody but compiled code calls a function, that work is thrown away: its caller takes the intermediate code and
begins anew. SteadyRank has 170 such functions up to ten levels deep, and it was two fifths of the time to compile it.
Here such a function is only put together; results are the same, since optimisation may not change them.

Only what is compiled within `late` is treated so. Code of other packages in the same process is numba's alone.
"""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any, cast

import llvmlite.binding as llvm
from numba.core.codegen import JITCodeLibrary
from numba.core.environment import lookup_environment
from numba.core.registry import cpu_target

_ENVIRONMENT = "_ZN08NumbaEnv"  # how names of environments begin: what a function raises, and its constants
_LINKABLE = "linkable"  # beside numba's own kinds of what is kept on disk
_here = threading.local()


@contextlib.contextmanager
def late(wait: bool = True) -> Iterator[None]:
    """What this thread compiles meanwhile becomes machine code only if Python asks for it; at once without `wait`."""
    before = getattr(_here, "late", False)
    _here.late = wait
    try:
        yield
    finally:
        _here.late = before


class LateLibrary(JITCodeLibrary):
    """A function with all that it calls: optimised, and made machine code, when its address is first asked for.

    `linkable`: kept on disk as it is, to be linked by others of this package.
    """

    def __init__(self, codegen: Any, name: str) -> None:
        super().__init__(codegen, name)
        self._waits = getattr(_here, "late", False)
        self.linkable = False

    def _ensure_finalized(self) -> None:
        if not self._waits:
            super()._ensure_finalized()
        elif not self._finalized:
            for library in dict.fromkeys(self._linking_libraries):
                self._reload_init.update(library._reload_init)
                self._final_module.link_in(library._get_module_for_linking(), preserve=True)
            self._finalize_dynamic_globals()
            self._finalized = True

    def finalize(self) -> None:
        self._waits = False  # whoever asks for it by name needs the symbols
        super().finalize()

    def _emit(self) -> None:
        """Make machine code of what was put together."""
        self._ensure_finalized()
        self._get_module_for_linking()  # as it is: others may have linked it before
        self._waits = False
        self._dynamic_globals.clear()
        self._optimize_final_module()
        self._final_module.verify()
        self._finalize_final_module()
        for variable in self._final_module.global_variables:
            if variable.name.startswith(_ENVIRONMENT) and (known := lookup_environment(variable.name)) is not None:
                cast(Any, self._codegen).set_env(variable.name, known)

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


def install() -> None:
    """Let numba make its libraries of this class, and wait with environments until they have an address."""
    codegen: Any = cpu_target.target_context.codegen()
    set_env = codegen.set_env

    def set_env_if_there(name: str, environment: Any) -> None:
        if codegen._engine.get_global_value_address(name):
            set_env(name, environment)

    if codegen._library_class is JITCodeLibrary:
        codegen._library_class, codegen.set_env = LateLibrary, set_env_if_there
