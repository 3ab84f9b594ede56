"""The contract of a place: where a worker's arrays are and its work is queued, the host or a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from disco_magic.core.device import Device


class Place(Protocol):
    """Where one worker's arrays are and its work is queued: the host's memory, or a stream of a GPU.

    Methods are for the worker's own thread, unless they say otherwise.

    Attributes:
        device: of the arrays that the worker makes.
        xp: the array module for it, numpy or cupy.
    """

    device: Device
    xp: Any

    def enter(self) -> None:
        """Make the calling thread work here from now on: a worker's first thread, or a successor."""

    def beside(self) -> AbstractContextManager[object]:
        """A context, usable once, in which another thread computes where the caller does now.

        It keeps nothing of the worker alive. Work queued in it runs between what the caller has queued and
        what the caller queues next.
        """

    def finish(self) -> None:
        """Return when everything that the worker has queued is done.

        An injected exception ends the wait, not the work. Raises what the device reports of work that failed.
        """

    def settle(self) -> None:
        """Like `finish`, in the middle of a cell: the current device and stream stay current."""

    def incomplete(self) -> Sequence[tuple[Any, bool, BaseException]]:
        """Arrays that earlier calls will never fill, whether the calls made them, and why; returned once."""

    def explain(self, error: BaseException) -> None:
        """Say in a note of `error`, with which a command ends, what it means if the device is broken."""

    def is_idle(self) -> bool:
        """Whether everything that the worker has queued is done; never waits. From any thread.

        Also False if the device cannot say.
        """

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """An uninitialised array."""

    def read(self, value: Any) -> Any | None:
        """`value` as an array of `xp`, without a copy, if its elements are on a device of this kind.

        None if they are not; always None for the host's place, where NumPy reads what it can.
        """

    def adopt(self, value: Any) -> Any:
        """A copy of a controller's value for this worker; arrays of numbers become arrays of `xp`."""

    def move_in(self, array: Any) -> Any:
        """A NumPy array that nothing else refers to, as an array of `xp`; itself if `xp` is NumPy."""

    def take(self, value: Any) -> Any:
        """A copy of a worker's value for the controller; arrays of `xp` become arrays of NumPy."""

    def copy(self, target: Any, source: Any) -> None:
        """Copy between NumPy or `xp` arrays of one shape and dtype; then a NumPy one may be reused."""

    def memory(self) -> tuple[int, int] | None:
        """Bytes of the device in use by any process, and in all; None for the host. From any thread."""
