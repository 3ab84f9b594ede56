"""Functions that make arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.testing.gpu import dlpack, operations
from disco_magic.testing.gpu.memory import UnownedMemory

if TYPE_CHECKING:
    from collections.abc import Callable

    from disco_magic.testing.gpu.world import World


def _empty(world: World, shape: Any, dtype: Any = float, order: str = "C") -> Any:
    return operations.empty(world, shape, dtype, order)


def _full(world: World, shape: Any, fill_value: Any, dtype: Any = None, order: str = "C") -> Any:
    value = operations.operand(world, fill_value)
    kind = np.asarray(operations.stand_in(value)).dtype if dtype is None else dtype
    return operations.put(world, _empty(world, shape, kind, order), lambda: value)


def _zeros(world: World, shape: Any, dtype: Any = float, order: str = "C") -> Any:
    return _full(world, shape, 0, dtype, order)


def _ones(world: World, shape: Any, dtype: Any = float, order: str = "C") -> Any:
    return _full(world, shape, 1, dtype, order)


def _empty_like(  # noqa: PLR0917 - CuPy's signature
    world: World,
    prototype: Any,
    dtype: Any = None,
    order: str = "K",
    subok: object = None,
    shape: Any = None,
) -> Any:
    raw = prototype if isinstance(prototype, np.ndarray) else prototype.raw
    wanted = raw.shape if shape is None else shape
    return _empty(world, wanted, raw.dtype if dtype is None else dtype, operations.kept_order(raw, order))


def _full_like(world: World, a: Any, fill_value: Any, dtype: Any = None, order: str = "K") -> Any:
    made = _empty_like(world, a, dtype, order)
    made.fill(fill_value)
    return made


def _zeros_like(world: World, a: Any, dtype: Any = None, order: str = "K") -> Any:
    return _full_like(world, a, 0, dtype, order)


def _ones_like(world: World, a: Any, dtype: Any = None, order: str = "K") -> Any:
    return _full_like(world, a, 1, dtype, order)


def _array(  # noqa: PLR0917 - CuPy's signature
    world: World,
    obj: Any,
    dtype: Any = None,
    copy: bool = True,
    order: str | None = "K",
    subok: object = False,
    ndmin: int = 0,
    *,
    blocking: bool = False,
) -> Any:
    """Make an array on the current device; an array on the host is read now."""
    if not isinstance(obj, world.cupy.ndarray) and hasattr(obj, "__cuda_array_interface__"):
        obj = _adopt(world, obj)
    if isinstance(obj, world.cupy.ndarray):
        if obj.data.device_id != world.device.id:
            obj, copy = obj.copy(), False
        made = obj.astype(obj.dtype if dtype is None else dtype, order or "K", copy=copy)
    else:
        made = operations.from_host(world, obj, dtype, order)
        if blocking:
            world.queue.synchronize()
    return made.reshape((1,) * (ndmin - made.ndim) + made.shape) if ndmin > made.ndim else made


def _asarray(
    world: World,
    a: Any,
    dtype: Any = None,
    order: str | None = None,
    *,
    copy: bool | None = None,
    blocking: bool = False,
) -> Any:
    return _array(world, a, dtype, bool(copy), order, blocking=blocking)


def _ascontiguousarray(world: World, a: Any, dtype: Any = None) -> Any:
    return _array(world, a, dtype, False, "C", ndmin=1)  # noqa: FBT003 - CuPy's signature


def _adopt(world: World, foreign: Any) -> Any:
    """Wrap the memory of another library's array; wait for the stream that it names."""
    interface = foreign.__cuda_array_interface__
    (ptr, _), shape, dtype = interface["data"], interface["shape"], np.dtype(interface["typestr"])
    strides, stream = interface.get("strides"), interface.get("stream")
    if stream is not None:
        world.queue_at(stream).synchronize()
    reach = (
        1
        + sum((size - 1) * abs(step) for size, step in zip(shape, strides or (), strict=False))
        // dtype.itemsize
    )
    nbytes = reach * dtype.itemsize if strides else operations.nbytes_of(shape, dtype)
    device = next((d.id for d in world.devices if d.pool.holds(ptr, nbytes)), world.device.id)
    memory = UnownedMemory(ptr, nbytes, foreign, device)
    return world.cupy.ndarray(shape, dtype, world.cupy.cuda.MemoryPointer(memory, 0), strides)


def _arange(world: World, start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Any:
    first, last = (0, start) if stop is None else (start, stop)
    return operations.from_host(world, np.arange(first, last, step, dtype), None, "C")  # type: ignore[call-overload]


def _from_dlpack(world: World, x: Any) -> Any:
    """An array over the same memory; for our own arrays, without DLPack."""
    return x.as_view(x.raw) if isinstance(x, world.cupy.ndarray) else dlpack.take(world, x)


CREATION: Final[tuple[Callable[..., Any], ...]] = (
    _empty, _full, _zeros, _ones, _empty_like, _full_like, _zeros_like, _ones_like, _array, _asarray,
    _ascontiguousarray, _arange, _from_dlpack,
)  # fmt: skip
