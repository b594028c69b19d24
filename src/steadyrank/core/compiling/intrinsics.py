"""Operations for compiled code that numba lacks: borrowing without reference counts, stack memory, generators.

Interpreted versions are defined beside the compiled ones: with compilation disabled they do the same, more slowly.
"""

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.core import cgutils, config
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

_INTERPRETED = bool(getattr(config, "DISABLE_JIT", 0))


def _borrow(typing_context: Any, value: Any) -> Any:
    def borrow(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _without_owner(context, builder, value, arguments[0])

    return value(value), borrow


def _without_owner(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    if isinstance(kind, types.BaseTuple):
        for place, inner in enumerate(getattr(kind, "types", ())):
            part = _without_owner(context, builder, inner, builder.extract_value(value, place))
            value = builder.insert_value(value, part, place)
        return value
    if isinstance(kind, types.Array | types.NumPyRandomGeneratorType):
        view = cgutils.create_struct_proxy(kind)(context, builder, value)
        view.meminfo = cgutils.get_null_value(view.meminfo.type)
        return view._getvalue()
    return value


def _on_stack(kind: Any) -> Callable[[Any, Any], Any]:
    array = types.Array(kind, 1, "C")

    def allocate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        item = context.get_data_type(kind)
        view = make_array(array)(context, builder)
        width = context.get_constant(types.intp, context.get_abi_sizeof(item))
        populate_array(view, builder.alloca(item, arguments[0]), [arguments[0]], [width], width, None)
        return view._getvalue()

    return lambda typing_context, size: (array(types.intp), allocate)


def _row(typing_context: Any, record: Any, s: Any) -> Any:
    def take(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value, place = arguments
        return _row_of(context, builder, record, value, context.cast(builder, place, s, types.intp))

    return _row_type(record)(record, s), take


def _row_type(kind: Any) -> Any:
    if isinstance(kind, types.Array):
        return kind.copy(ndim=kind.ndim - 1)
    if hasattr(kind, "instance_class"):
        return types.BaseTuple.from_types([_row_type(inner) for inner in kind.types], kind.instance_class)
    return kind


def _row_of(context: Any, builder: Any, kind: Any, value: Any, s: Any) -> Any:
    if isinstance(kind, types.Array):
        whole, found = make_array(kind)(context, builder, value), make_array(_row_type(kind))(context, builder)
        shape, strides = (cgutils.unpack_tuple(builder, part) for part in (whole.shape, whole.strides))
        data = cgutils.pointer_add(builder, whole.data, builder.mul(s, strides[0]))
        populate_array(found, data, shape[1:], strides[1:], whole.itemsize, None)
        return found._getvalue()
    if hasattr(kind, "instance_class"):
        parts = enumerate(kind.types)
        rows = [_row_of(context, builder, inner, builder.extract_value(value, i), s) for i, inner in parts]
        return context.make_tuple(builder, _row_type(kind), rows)
    return value


def addresses(rng: np.random.Generator) -> Any:
    """Addresses of a generator's state and functions, int64[5], for `generator_at`; valid while it lives."""
    found: Any = rng.bit_generator.ctypes
    functions = (found.next_uint64, found.next_uint32, found.next_double)
    pointers = [ctypes.cast(function, ctypes.c_void_p).value for function in functions]
    return np.array([found.state_address, found.state.value, *pointers], np.uint64).view(np.int64)


def _generator_at(typing_context: Any, places: Any) -> Any:
    rng, bits = types.NumPyRandomGeneratorType("rng"), types.NumPyRandomBitGeneratorType("bit_generator")

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = make_array(places)(context, builder, arguments[0])
        whole, inner = (cgutils.create_struct_proxy(kind)(context, builder) for kind in (rng, bits))
        parts = ("state_address", "state", "fnptr_next_uint64", "fnptr_next_uint32", "fnptr_next_double")
        for i, part in enumerate(parts):
            setattr(inner, part, builder.load(cgutils.gep(builder, array.data, i)))
        for struct, name in ((inner, "parent"), (inner, "bit_generator"), (whole, "parent"), (whole, "meminfo")):
            setattr(struct, name, cgutils.get_null_value(getattr(struct, name).type))
        whole.bit_generator = inner._getvalue()
        return whole._getvalue()

    return rng(places), generate


# The generator with these `addresses`, borrowed. Passing the generator itself takes six microseconds a
# call, because numba looks up and casts its functions one by one each time.
generator_at: Any = intrinsic(_generator_at)

# The same array, generator or record of these without its reference count, valid while the owner lives: in a loop,
# each call with an array would otherwise count up and down with atomic instructions.
borrowed: Any = (lambda value: value) if _INTERPRETED else intrinsic(_borrow)

# A record whose arrays are row s of the given ones, borrowed; scalars stay. Only in compiled code: `core.segments`.
row_of: Any = intrinsic(_row)

# Like np.empty, but on the stack: for scratch memory of a few kilobytes, freed on return, never inside a loop.
stack_floats: Any = np.empty if _INTERPRETED else intrinsic(_on_stack(types.float64))
stack_ints: Any = (lambda size: np.empty(size, np.int64)) if _INTERPRETED else intrinsic(_on_stack(types.int64))
stack_bools: Any = (lambda size: np.empty(size, np.bool_)) if _INTERPRETED else intrinsic(_on_stack(types.boolean))
