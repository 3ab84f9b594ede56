"""The contract of a place: where a worker's arrays are and its work is queued, the host or a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from disco_magic.core.device import Device


class Place(Protocol):
    """Where one worker's arrays are and its work is queued: the host's memory, or a stream of a GPU.

    Only the worker's own thread calls it, unless it says otherwise.

    Attributes:
        device: of the arrays that the worker makes.
        xp: the array module for it, numpy or cupy.
    """

    device: Device
    xp: Any

    def enter(self) -> None:
        """The calling thread works here from now on: a worker's first thread, or one that took over."""

    def beside(self) -> AbstractContextManager[object]:
        """Lets another thread compute where the calling one does now, in a block, once.

        It keeps nothing of the worker. What is queued in it lies between what the caller has queued and what
        the caller queues next.
        """

    def finish(self) -> None:
        """Return when everything that the worker has queued is done.

        An injected exception ends the wait, not the work. Raises what the device reports of work that failed.
        """

    def settle(self) -> None:
        """As `finish`, in the midst of a cell: what is current, device and stream, stays that."""

    def incomplete(self) -> Sequence[tuple[Any, bool, BaseException]]:
        """Arrays that calls before were to fill and never will; whether they made them, and why. Once."""

    def is_idle(self) -> bool:
        """Whether everything that the worker has queued is done; never waits. From any thread.

        False as well where the device cannot say.
        """

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """An array that nothing was written to."""

    def read(self, value: Any) -> Any | None:
        """`value` as an array of `xp`, without a copy, if its elements are on a device of this kind.

        None if they are not; for the host's place always, where NumPy reads what it can.
        """

    def adopt(self, value: Any) -> Any:
        """A copy of a controller's value for this worker; arrays of numbers become arrays of `xp`."""

    def move_in(self, array: Any) -> Any:
        """An array of NumPy that nobody else holds, as one of `xp`; itself where that is NumPy's too."""

    def take(self, value: Any) -> Any:
        """A copy of a worker's value for the controller; arrays of `xp` become arrays of NumPy."""

    def copy(self, target: Any, source: Any) -> None:
        """Copy between arrays of one shape and dtype, of NumPy or `xp`; one of NumPy is free again then."""

    def memory(self) -> tuple[int, int] | None:
        """Bytes of the device that are in use, by anybody, and in all; None for the host. From any thread."""
