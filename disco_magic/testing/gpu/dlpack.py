"""DLPack capsules: device arrays to and from other libraries without a copy.

The layout is that of ``dlpack.h`` up to version 0.8, which every library still accepts.
"""

from __future__ import annotations

import ctypes
import math
import weakref
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.testing.gpu.memory import UnownedMemory

if TYPE_CHECKING:
    from disco_magic.testing.gpu.world import World

CUDA: Final = 2
_CODES: Final = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_KINDS: Final = {code: kind for kind, code in _CODES.items()}
_FRESH, _USED = b"dltensor", b"used_dltensor"


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _DELETER))


# Address of the struct, which a consumer releases -> the struct, and its array.
_exported: dict[int, tuple[_Managed, object]] = {}


def _forget(address: int) -> None:
    _exported.pop(address, None)


_delete = _DELETER(_forget)


def _api(name: str, result: Any, *arguments: Any) -> Any:
    # Our own prototype: attributes of `ctypes.pythonapi` are shared with other users.
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_new = _api("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_pointer = _api("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
_rename = _api("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
# By address, because a capsule that is being destroyed must not become a Python object again.
_is_valid_at = _api("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
_pointer_at = _api("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)


def _drop_unused(capsule: int) -> None:
    """Release a capsule that was never consumed."""
    if _is_valid_at(capsule, _FRESH):
        _forget(_pointer_at(capsule, _FRESH))


_drop = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_drop_unused)


def export(world: World, array: Any, stream: int | None) -> Any:
    """Make a capsule of an array; let the stream at address `stream` wait for the current one (-1: none)."""
    if stream == 0:
        raise ValueError("stream=0 is ambiguous: expected 1 for the null stream, or an address")
    if stream != -1:
        world.queue_at(1 if stream is None else stream).wait_for(world.queue.mark())
    if array.dtype.kind not in _CODES:
        raise BufferError(f"arrays of dtype {array.dtype} cannot be lent through DLPack")
    axes = ctypes.c_int64 * array.ndim
    tensor = _Tensor(
        array.data.ptr, CUDA, array.device.id, array.ndim, _CODES[array.dtype.kind], 8 * array.itemsize, 1
    )
    tensor.shape, tensor.strides = (
        axes(*array.shape),
        axes(*(step // array.itemsize for step in array.strides)),
    )
    managed = _Managed(tensor, None, _delete)
    address = ctypes.addressof(managed)
    _exported[address] = managed, array
    return _new(address, _FRESH, ctypes.cast(_drop, ctypes.c_void_p))


class _Owner:
    """Owner of another library's tensor; releases it when it is itself collected."""

    def __init__(self, address: int) -> None:
        self.tensor = _Managed.from_address(address).tensor
        weakref.finalize(self, _Managed.from_address(address).deleter, address)


def take(world: World, foreign: Any) -> Any:
    """Make an array over another library's memory; the current stream of the device waits for its content."""
    kind, number = foreign.__dlpack_device__()
    if kind != CUDA:
        raise BufferError(
            f"cannot take memory of the DLPack device {(int(kind), number)}: expected {CUDA}, CUDA"
        )
    with world.cupy.cuda.Device(number):
        capsule = foreign.__dlpack__(stream=world.stream().ptr or 1)
    owner = _Owner(_pointer(capsule, _FRESH))
    _rename(capsule, _USED)
    tensor = owner.tensor
    if tensor.code not in _KINDS or tensor.lanes != 1:
        raise BufferError(f"cupy has no dtype with DLPack's code {tensor.code}, {tensor.lanes} lanes")
    dtype = np.dtype(f"{_KINDS[tensor.code]}{tensor.bits // 8}")
    shape = tensor.shape[: tensor.ndim]
    steps = tensor.strides[: tensor.ndim] if tensor.strides else None
    reach = (
        math.prod(shape) if steps is None else 1 + sum((n - 1) * s for n, s in zip(shape, steps, strict=True))
    )
    ptr = (tensor.data or 0) + tensor.byte_offset
    memory = UnownedMemory(ptr, reach * dtype.itemsize if math.prod(shape) else 0, owner, number)
    strides = None if steps is None else tuple(step * dtype.itemsize for step in steps)
    return world.cupy.ndarray(shape, dtype, world.cupy.cuda.MemoryPointer(memory, 0), strides)
