"""Where the elements of other libraries' arrays are; needs no GPU call."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from disco_magic.core.device import Device
from disco_magic.values.kinds import home_of, is_gpu_array

if TYPE_CHECKING:
    from collections.abc import Sequence

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
