"""Where arrays are: on which device, and where in memory; which of them may overlap. Needs no GPU call."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.core.device import Device
from disco_magic.values.kinds import home_of, is_gpu_array, is_tensor

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    Span = tuple[int, int]


def span_of(array: Any) -> Span:
    """The addresses at which the array's bytes begin and end."""
    start = _address(array)
    if array.flags.c_contiguous:
        return start, start + array.nbytes
    steps = [(length - 1) * stride for length, stride in zip(array.shape, array.strides, strict=True)]
    backward = sum([step for step in steps if step < 0])
    return start + backward, start + sum(steps) - backward + array.itemsize


def layout_of(array: Any) -> Hashable:
    """A key that is equal for arrays with the very same elements, each in the same place of both."""
    return _address(array), array.shape, array.strides, array.dtype


def ground_of(array: Any) -> Hashable | None:
    """A key that is equal for arrays with the same elements in memory, whatever their shapes and order.

    Those of PyTorch, too. None for other values, and for arrays without elements or memory.
    """
    try:
        if is_tensor(type(array)):
            start, steps = array.data_ptr(), array.stride()
        elif isinstance(array, np.ndarray) or is_gpu_array(type(array)):
            start, steps = _address(array), array.strides
        else:
            return None
    except Exception:  # noqa: BLE001 - PyTorch's sparse tensors and those without data refuse in many ways
        return None
    axes: list[tuple[int, int]] = []
    for step, length in sorted(zip(steps, array.shape, strict=True)):
        if axes and axes[-1][0] * axes[-1][1] == step:  # it goes on where the one before ends
            axes[-1] = axes[-1][0], axes[-1][1] * length
        elif length != 1:
            axes.append((step, length))
    return (start, str(array.dtype), *axes) if start and math.prod(array.shape) else None


def _address(array: Any) -> int:
    return int(array.__array_interface__["data"][0] if isinstance(array, np.ndarray) else array.data.ptr)


def entangled(written: Iterable[tuple[int, Span]], read: Iterable[tuple[int, Span]]) -> set[int]:
    """Return the owners of memory that may overlap with another owner's where one of them writes.

    Args:
        written: (owner, what of its memory is written).
        read: (owner, what of its memory is only read).
    """
    spans = sorted(
        [(*span, who, True) for who, span in written] + [(*span, who, False) for who, span in read]
    )
    found = set[int]()
    together: list[tuple[int, bool]] = []  # each begins before all earlier ones of these have ended
    end = 0
    for start, stop, who, is_written in spans:
        if start >= end:
            found |= _tied(together)
            together, end = [], stop
        if stop > start:
            together.append((who, is_written))
            end = max(end, stop)
    return found | _tied(together)


def _tied(together: list[tuple[int, bool]]) -> set[int]:
    everybody = {who for who, _ in together}
    is_any_written = any(is_written for _, is_written in together)
    return everybody if len(everybody) > 1 and is_any_written else set()


_DLPACK: Final = ("cupy", "jax", "jaxlib")
_ON_DEVICES: Final = ("torch", *_DLPACK)


def device_of(value: Any) -> str:
    """The device of another library's array, ``"cuda:0"``; ``"cpu"`` if it does not say."""
    # PyTorch writes devices as we do. CuPy and JAX do not, but identify them by DLPack's numbers.
    if home_of(type(value)) in _DLPACK:
        with suppress(Exception):  # the array is spread over devices, is being traced, or was deleted
            return str(Device.from_dlpack(value.__dlpack_device__()))
    with suppress(Exception):  # as above
        return str(getattr(value, "device", "cpu"))
    return "cpu"


def common_device(items: Sequence[Any]) -> str | None:
    """The GPU of the cupy arrays among these; None if there are none, or if they are on several."""
    arrays = {each.device.id: each for each in items if is_gpu_array(type(each))}
    return device_of(*arrays.values()) if len(arrays) == 1 else None


def lies_on(value: Any, device: Device) -> bool:
    """Whether a value is an array whose elements are on that GPU; always False for the CPU. Takes 2 us."""
    if device.kind == "cpu":
        return False
    kind = type(value)
    if is_gpu_array(kind):
        return bool(value.device.id == device.index)
    return home_of(kind) in _ON_DEVICES and device_of(value) == str(device)
