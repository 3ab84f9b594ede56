"""The host as the place where workers compute: NumPy's arrays, no queue."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.core.device import Device
from disco_magic.core.device import device as device_of
from disco_magic.errors import UsageMistake
from disco_magic.functions.aligned import aligned_empty
from disco_magic.functions.copies import copy_of
from disco_magic.isolation.own_classes import CALLER, NOTEBOOK
from disco_magic.values.kinds import module_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

_CPU: Final = Device("cpu")


class HostPlace:
    """A worker on the CPU; implements `disco_magic.core.place.Place`."""

    device = _CPU
    xp: Any = np

    def enter(self) -> None:
        """Nothing to prepare."""

    def beside(self) -> AbstractContextManager[object]:
        """Do nothing, as in `enter`."""
        return nullcontext()

    def finish(self) -> None:
        """Do nothing: NumPy's work is done when it returns."""

    settle = finish

    def incomplete(self) -> Sequence[tuple[Any, bool, BaseException]]:
        """Empty: NumPy's callers wait."""
        return ()

    def explain(self, error: BaseException) -> None:
        """See `Place.explain`: nothing."""

    def is_idle(self) -> bool:
        """True: NumPy's work is done when it returns."""
        return True

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """See `aligned_empty`."""
        return aligned_empty(shape, dtype)

    def read(self, value: Any) -> Any | None:  # noqa: ARG002 - see there
        """See `Place.read`."""
        return None

    def adopt(self, value: Any) -> Any:
        """See `copy_of`."""
        return copy_of(value, CALLER)

    def move_in(self, array: Any) -> Any:
        """Return `array`, which is there."""
        return array

    def take(self, value: Any) -> Any:
        """See `copy_of`."""
        return copy_of(value, NOTEBOOK)

    def copy(self, target: Any, source: Any) -> None:
        """One copy at memory speed, without the GIL."""
        np.copyto(target, source)

    def memory(self) -> tuple[int, int] | None:
        """None: the host's memory is not the worker's own."""
        return None


HOST_PLACE: Final = HostPlace()
"""Shared by all workers, because it holds nothing."""


def check_there(verb: str, device: object, there: Sequence[Device]) -> Device:
    """Return the device of that name, which has to be the host or one that workers have."""
    known: Any = device
    if not isinstance(device, Device) and module_of(type(device)) != "builtins":
        known = str(device)  # another library's: all of them write ``cpu:0``
    wanted = device_of(known)
    if wanted == _CPU or wanted in there:
        return wanted
    gpus = ", ".join(dict.fromkeys(f"'{each}'" for each in there if each != _CPU))
    have = f"the workers have {gpus} and 'cpu'" if gpus else "workers without a GPU have 'cpu'"
    raise UsageMistake(f"{verb}: device '{wanted}' does not exist; {have}")
