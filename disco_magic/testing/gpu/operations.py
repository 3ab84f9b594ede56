"""The common parts of functions on arrays: shape and dtype are known at once, the data is computed later.

The dtype is found by running the NumPy function on arrays of one element, the shape by NumPy's rules. Work
on a stream refers to *views of memory*, never to arrays: as on a GPU, the caller has to keep an array alive
until its data was read.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from disco_magic.testing.gpu.errors import MISALIGNED, CUDARuntimeError, NotSimulated

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from disco_magic.testing.gpu.world import World

SCALARS = (bool, int, float, complex, np.generic)


def empty(world: World, shape: Any, dtype: Any, order: str = "C") -> Any:
    """Allocate an array on the current device, from the arena of the current stream; nothing is written."""
    return world.cupy.ndarray(shape, dtype, order=order)


def operand(world: World, value: Any) -> Any:
    """The operand that a kernel reads for `value`: a view of memory, or a scalar.

    If its elements lie where no kernel can read them, the kernel fails, and with it the device.

    Raises:
        TypeError: it is neither an array on a device nor a scalar.
        ValueError: the current device may not access its device.
    """
    if isinstance(value, world.cupy.ndarray):
        world.check_access(value.data.device_id)
        raw = value.raw
        if raw.size and _is_misaligned(raw):
            world.launch(_fail_at_misaligned)
        return raw
    if isinstance(value, SCALARS):
        return value
    raise TypeError(f"Unsupported type {type(value)}")


def _is_misaligned(raw: np.ndarray[Any, Any]) -> bool:
    need = raw.itemsize if raw.dtype.kind == "c" else raw.dtype.alignment
    steps = [step for step, length in zip(raw.strides, raw.shape, strict=True) if length > 1]
    return any(each % need for each in (raw.ctypes.data, *steps))


def _fail_at_misaligned() -> None:
    raise CUDARuntimeError(MISALIGNED)


def array_operand(world: World, value: Any) -> Any:
    """As `operand`, but only for an array."""
    if not isinstance(value, world.cupy.ndarray):
        raise TypeError(f"Unsupported type {type(value)}")
    return operand(world, value)


def stand_in(value: Any) -> Any:
    """A small value for which functions return the same dtype as for `value`."""
    return np.ones((1,) * value.ndim, value.dtype) if isinstance(value, np.ndarray) else value


def _order_of(raws: Sequence[Any]) -> str:
    arrays = [raw for raw in raws if isinstance(raw, np.ndarray) and raw.ndim > 1]
    return "F" if arrays and all(a.flags.f_contiguous and not a.flags.c_contiguous for a in arrays) else "C"


def kept_order(raw: Any, order: str) -> str:
    """C or F, for CuPy's orders C, F, A and K."""
    if order in ("C", "F"):
        return order
    return "F" if raw.flags.f_contiguous and not raw.flags.c_contiguous else "C"


def shape_of(value: Any) -> tuple[int, ...]:
    """The shape of a view or a scalar."""
    return value.shape if isinstance(value, np.ndarray) else ()


def put(world: World, out: Any, compute: Callable[[], Any]) -> Any:
    """Queue writing the result of `compute` to `out` on the current stream; return `out`."""
    target = out.raw

    def work() -> None:
        np.copyto(target, compute(), casting="unsafe")

    world.launch(work)
    return out


def into(world: World, out: Any, shape: tuple[int, ...], dtype: Any, order: str = "C") -> Any:
    """Return `out` after checking that the result fits, or a new array if it is None."""
    if out is None:
        return empty(world, shape, dtype, order)
    array_operand(world, out)
    if out.shape != shape:
        raise ValueError(f"non-broadcastable output operand with shape {out.shape} doesn't match {shape}")
    if not np.can_cast(dtype, out.dtype, "same_kind"):
        raise TypeError(f"output ({dtype}) could not be coerced to provided output parameter ({out.dtype})")
    return out


def elementwise(
    world: World, function: Callable[..., Any], *args: Any, out: Any = None, dtype: Any = None
) -> Any:
    """Apply `function` element by element to broadcast arguments."""
    raws = [operand(world, value) for value in args]
    options = {} if dtype is None else {"dtype": np.dtype(dtype)}
    with np.errstate(all="ignore"):
        result_dtype = np.asarray(function(*map(stand_in, raws), **options)).dtype
    shape = np.broadcast_shapes(*map(shape_of, raws))
    out = into(world, out, shape, result_dtype, _order_of(raws))
    return put(world, out, lambda: function(*raws, **options))


def reduce(
    world: World,
    function: Callable[..., Any],
    array: Any,
    axis: Any = None,
    *,
    out: Any = None,
    **options: Any,
) -> Any:
    """Reduce with `function` over `axis`, None: over all axes; the result is always on the device."""
    raw = array_operand(world, array)
    options = {name: value for name, value in options.items() if value is not None}
    with np.errstate(all="ignore"):
        small = np.asarray(function(raw if not raw.size else stand_in(raw), axis=axis, **options))
    axes = range(raw.ndim) if axis is None else [_axis(a, raw.ndim) for a in np.atleast_1d(axis)]
    kept = options.get("keepdims", False)
    shape = tuple(1 if n in axes else size for n, size in enumerate(raw.shape) if kept or n not in axes)
    out = into(world, out, shape, small.dtype)
    return put(world, out, lambda: function(raw, axis=axis, **options))


def _axis(axis: int, ndim: int) -> int:
    return int(axis) % ndim


def product_shape(a: Sequence[int], b: Sequence[int], *, is_dot: bool) -> tuple[int, ...]:
    """The shape of ``a @ b``, or of ``dot(a, b)``, which combines leading axes instead of broadcasting."""
    if not a or not b:
        if is_dot:
            return (*a, *b)
        raise ValueError("matmul: an operand has no dimensions")
    rows, columns = tuple(a[:-1])[-1:], tuple(b[-1:]) if len(b) > 1 else ()
    if a[-1] != (b[-2] if len(b) > 1 else b[0]):
        raise ValueError(f"matmul: shapes {tuple(a)} and {tuple(b)} do not fit: the inner axes differ")
    if is_dot:
        return (*a[:-1], *b[:-2], *columns)
    return (*np.broadcast_shapes(tuple(a[:-2]), tuple(b[:-2])), *rows, *columns)


def product(world: World, function: Callable[..., Any], a: Any, b: Any, out: Any = None) -> Any:
    """Compute `np.matmul` or `np.dot`."""
    left, right = array_operand(world, a), array_operand(world, b)
    dtype = np.asarray(function(stand_in(left), stand_in(right))).dtype
    shape = product_shape(left.shape, right.shape, is_dot=function is np.dot)
    return put(world, into(world, out, shape, dtype), lambda: function(left, right))


def concatenate(
    world: World, arrays: Sequence[Any], axis: int | None = 0, out: Any = None, dtype: Any = None
) -> Any:
    """Join arrays along an axis, None: flattened."""
    raws = [array_operand(world, array) for array in arrays]
    if axis is None:
        raws, axis = [raw.reshape(-1) for raw in raws], 0
    common = np.concatenate([np.empty((0,) * raw.ndim, raw.dtype) for raw in raws], axis=axis).dtype
    number = _axis(axis, raws[0].ndim)
    rests = {raw.shape[:number] + raw.shape[number + 1 :] for raw in raws}
    if len(rests) > 1:
        raise ValueError(f"concatenate: all axes but {axis} must be equal, got {[raw.shape for raw in raws]}")
    shape = list(raws[0].shape)
    shape[number] = sum(raw.shape[number] for raw in raws)
    out = into(world, out, tuple(shape), common if dtype is None else np.dtype(dtype))
    return put(world, out, lambda: np.concatenate(raws, axis=number))


def copyto(world: World, dst: Any, src: Any, casting: Any = "same_kind", where: Any = None) -> None:
    """Copy values, also from another device.

    As in CuPy, copies of contiguous memory, with a mask or of a scalar use the current stream of the current
    device, all others the current stream of the device of `dst`.
    """
    if isinstance(src, np.ndarray):
        if src.size != 1:
            raise ValueError("non-scalar numpy.ndarray cannot be used for copyto")
        src = src.reshape(())[()]
    is_array = isinstance(src, world.cupy.ndarray)
    source, target = src.raw if is_array else operand(world, src), dst.raw
    np.copyto(
        np.empty((1,) * dst.ndim, dst.dtype), stand_in(source), casting=casting
    )  # NumPy's rule, its error
    np.broadcast_to(np.broadcast_to(np.empty((), np.uint8), shape_of(source)), target.shape)
    if where is not None or not is_array:
        operand(world, dst), operand(world, src)  # on the current device
        _copy(world, target, source, True if where is None else array_operand(world, where))
    elif _is_plain_copy(target, source):
        _copy(world, target, source.reshape(target.shape))
    else:
        with dst.device:
            _copy(world, target, source if src.device == dst.device else src.copy().raw)


def _copy(world: World, target: Any, source: Any, where: Any = True) -> None:
    world.queue.put(partial(np.copyto, target, source, casting="unsafe", where=where))


def _is_plain_copy(target: Any, source: Any) -> bool:
    if target.size != source.size or target.dtype != source.dtype:
        return False
    a, b = target.flags, source.flags
    both_c, both_f = a.c_contiguous and b.c_contiguous, a.f_contiguous and b.f_contiguous
    return bool(both_c or (both_f and target.shape == source.shape))


def from_host(world: World, value: Any, dtype: Any, order: str | None) -> Any:
    """Make an array with the present content of `value`, which the caller may change at once."""
    if isinstance(value, (list, tuple)) and any(isinstance(each, world.cupy.ndarray) for each in value):
        raise NotSimulated("array() of a list of arrays")
    snapshot = np.array(value, dtype, order="K" if order in (None, "A") else order)  # type: ignore[call-overload]
    fortran = snapshot.flags.f_contiguous and not snapshot.flags.c_contiguous
    return put(world, empty(world, snapshot.shape, snapshot.dtype, "F" if fortran else "C"), lambda: snapshot)


def nbytes_of(shape: Sequence[int], dtype: np.dtype[Any]) -> int:
    """The size in bytes of a contiguous array."""
    return math.prod(shape) * dtype.itemsize
