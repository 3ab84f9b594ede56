"""How much GPU memory values keep: each allocation once, however many arrays use it. Needs no GPU call."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from disco_magic.values.kinds import home_of, is_gpu_array
from disco_magic.values.located import lies_on
from disco_magic.values.sizes import nbytes_of, sized_parts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from disco_magic.core.device import Device


def nbytes_kept(values: Iterable[Any], device: Device) -> int:
    """Bytes of `device` that are not free as long as these values live; 0 for the CPU.

    A view keeps the whole array that it is a view of. cupy allocates in units of 512 bytes.

    Takes 2 us for each array.
    """
    if device.kind == "cpu":
        return 0
    parts = (part for value in values for part in sized_parts(value) if lies_on(part, device))
    return sum(dict(map(_allocation, parts)).values())


def _allocation(array: Any) -> tuple[object, int]:
    """A key of the array's allocation, and its bytes."""
    kind = type(array)
    with suppress(Exception):  # a sparse tensor of PyTorch has no storage
        if is_gpu_array(kind):
            memory = array.data.mem
            return int(memory.ptr), int(memory.size)
        if home_of(kind) == "torch":
            storage = array.untyped_storage()
            return int(storage.data_ptr()), int(storage.nbytes())
    return ("array", id(array)), nbytes_of(array)
