"""Functions of the module `cupy`: `functions(world)` returns them by name."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.testing.gpu import operations
from disco_magic.testing.gpu.creation import CREATION

if TYPE_CHECKING:
    from collections.abc import Callable

    from disco_magic.testing.gpu.world import World

# CuPy has NumPy's elementwise functions, except these.
_ABSENT: Final = ("isnat", "spacing")
# Positional parameters after the axis, in CuPy's order; the dtype of argmax and argmin is not simulated.
_REDUCTIONS: Final = {
    **dict.fromkeys(("sum", "mean", "prod", "argmax", "argmin"), ("dtype", "out", "keepdims")),
    **dict.fromkeys(("std", "var"), ("dtype", "out", "ddof", "keepdims")),
    **dict.fromkeys(("max", "min", "amax", "amin", "any", "all"), ("out", "keepdims")),
}
_VIEWS: Final = ("transpose", "swapaxes", "moveaxis", "expand_dims", "squeeze", "broadcast_to", "atleast_1d")
_FROM_NUMPY: Final = [
    "bool_",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
    "dtype",
    "newaxis",
    "pi",
    "e",
    "inf",
    "nan",
    "finfo",
    "iinfo",
    "can_cast",
    "promote_types",
    "issubdtype",
    "generic",
    "number",
    "integer",
    "signedinteger",
    "unsignedinteger",
    "floating",
    "inexact",
    "complexfloating",
]


def functions(world: World) -> dict[str, Any]:
    """The module's functions and constants, by name."""
    made: dict[str, Any] = {name: getattr(np, name) for name in _FROM_NUMPY}
    for name, each in vars(np).items():
        # Those with a signature, such as `matmul`, are not elementwise; those with two results not simulated.
        if isinstance(each, np.ufunc) and each.nout == 1 and not each.signature and name not in _ABSENT:
            made[name] = partial(_elementwise, world, each)
    for name, options in _REDUCTIONS.items():
        made[name] = partial(_reduction, world, getattr(np, name), options)
    for name in _VIEWS:
        made[name] = partial(_view, world, getattr(np, name))
    for name in ("matmul", "dot"):
        made[name] = partial(operations.product, world, getattr(np, name))
    for name in ("may_share_memory", "shares_memory"):
        made[name] = partial(_sharing, world, getattr(np, name))
    made["copyto"] = partial(operations.copyto, world)
    made["where"] = partial(operations.elementwise, world, np.where)
    made["is_available"] = lambda: bool(world.devices)
    for function in (*CREATION, *_OTHERS):
        made[function.__name__.strip("_")] = partial(function, world)
    return made


def _elementwise(
    world: World, function: Any, *args: Any, out: Any = None, dtype: Any = None, casting: str = "same_kind"
) -> Any:
    if casting != "same_kind":
        raise NotImplementedError(f"casting={casting!r} is not simulated")
    if len(args) > function.nin:
        *args, out = args  # type: ignore[assignment]
    return operations.elementwise(world, function, *args, out=out, dtype=dtype)


def _reduction(
    world: World, function: Any, names: tuple[str, ...], a: Any, axis: Any = None, *args: Any, **options: Any
) -> Any:
    return operations.reduce(world, function, a, axis, **dict(zip(names, args, strict=False)), **options)


def _view(world: World, function: Any, a: Any, *args: Any, **options: Any) -> Any:
    operations.array_operand(world, a)
    return a.as_view(function(a.raw, *args, **options))


def _asnumpy(
    world: World, a: Any, stream: Any = None, order: str = "C", out: Any = None, *, blocking: bool = True
) -> Any:
    if isinstance(a, world.cupy.ndarray):
        return a.get(stream=stream, order=order, out=out, blocking=blocking)
    return np.asarray(a)


def _concatenate(
    world: World,
    tup: Any,
    axis: int | None = 0,
    out: Any = None,
    *,
    dtype: Any = None,
    casting: str = "same_kind",
) -> Any:
    return operations.concatenate(world, list(tup), axis, out, dtype)


def _stack(world: World, tup: Any, axis: int = 0, out: Any = None, *, dtype: Any = None) -> Any:
    """Join arrays along a new axis."""
    arrays = list(tup)
    if len({each.shape for each in arrays}) > 1:
        raise ValueError("all input arrays must have the same shape")
    return operations.concatenate(
        world, [_view(world, np.expand_dims, a, axis) for a in arrays], axis, out, dtype
    )


def _split(world: World, ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Split an array into views."""
    operations.array_operand(world, ary)
    return [ary.as_view(part) for part in np.split(ary.raw, indices_or_sections, axis)]


def _clip(world: World, a: Any, a_min: Any = None, a_max: Any = None, out: Any = None) -> Any:
    if a_min is not None:
        a = operations.elementwise(world, np.maximum, a, a_min, out=out if a_max is None else None)
    return a if a_max is None else operations.elementwise(world, np.minimum, a, a_max, out=out)


def _isclose(world: World, a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8) -> Any:
    return operations.elementwise(world, partial(np.isclose, rtol=rtol, atol=atol), a, b)


def _allclose(world: World, a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8) -> Any:
    return _isclose(world, a, b, rtol, atol).all()


def _array_equal(world: World, a1: Any, a2: Any) -> Any:
    if a1.shape != a2.shape:
        return world.cupy.zeros((), np.bool_)
    return (a1 == a2).all()


def _reshape(world: World, a: Any, newshape: Any, order: str = "C") -> Any:
    operations.array_operand(world, a)
    return a.reshape(newshape, order=order)


def _ravel(world: World, a: Any, order: str = "C") -> Any:
    return _reshape(world, a, -1, order)


def _sharing(world: World, function: Any, a: Any, b: Any) -> bool:
    return all(isinstance(each, world.cupy.ndarray) for each in (a, b)) and function(a.raw, b.raw)


def _get_array_module(world: World, *args: Any) -> Any:
    return world.cupy if any(isinstance(each, world.cupy.ndarray) for each in args) else np


_OTHERS: Final[tuple[Callable[..., Any], ...]] = (
    _asnumpy, _concatenate, _stack, _split, _clip, _isclose, _allclose, _array_equal, _reshape, _ravel,
    _get_array_module,
)  # fmt: skip
