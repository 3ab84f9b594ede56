"""A GPU as the place where a worker computes: cupy's arrays, on a stream of the worker's own.

The module `cupy` is passed in: the real one, or a simulated GPU of `disco_magic.testing`.

Memory belongs to the stream that it was allocated on: cupy hands a freed block to the next allocation of that
stream at once, before the device has done what was queued with it. That is right as long as only this stream
uses the block. Code that uses a worker's array on another stream (`planes.device`) orders the two by events.
"""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict, defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.core.device import Device
from disco_magic.devices import streams
from disco_magic.devices.events import has_passed, is_captured, is_lost
from disco_magic.devices.find import gpu_kind
from disco_magic.devices.staging import Staging
from disco_magic.devices.visiting import on_stream
from disco_magic.errors import UsageMistake
from disco_magic.functions.copies import copy_of
from disco_magic.isolation.own_classes import CALLER, NOTEBOOK
from disco_magic.phrases import words
from disco_magic.threads.patience import pause_precisely, wait_until
from disco_magic.values.device_digests import DeviceDigests
from disco_magic.values.digests import use_gpus
from disco_magic.values.kinds import is_tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

# Kinds of dtype that cupy has arrays of: bool, integers, floats, complex.
_KINDS: Final = frozenset("biufc")
# Only NumPy's own classes: what a subclass adds, a mask for instance, would be lost.
_NUMPYS: Final = (np.ndarray, np.memmap)
# How other libraries share arrays; the first one that a class has is used.
_LENDS: Final = {"__dlpack__": "DLPack", "__cuda_array_interface__": "the CUDA array interface"}


class GpuPlace:
    """One worker's device and stream; implements `disco_magic.core.place.Place`.

    Args:
        cupy: the module.
        index: which GPU, from 0, as the CUDA runtime numbers those that this process sees.

    Attributes:
        stream: where the worker's work is queued; does not wait for the default stream.
        fence: an event that other threads may record on the stream, while the worker waits for them.
        wait: waits for the GPU until a function returns true; `wait_until`, unless a plane has work there
            that may fail, or may need help to end.
    """

    def __init__(self, cupy: Any, index: int) -> None:
        self.xp = cupy
        self.device = Device(gpu_kind(cupy), index)
        self._device = cupy.cuda.Device(index)
        with self._device:
            self.stream = streams.take(cupy, index)
            self.fence = cupy.cuda.Event(disable_timing=True)
            self._done = cupy.cuda.Event(disable_timing=True)
            self._left = cupy.cuda.Event(disable_timing=True)
            self._staging = Staging(cupy, self.stream, self._device)
        self._has_bfloat16 = int(cupy.__version__.partition(".")[0]) >= 14
        self._digests = DeviceDigests(cupy)
        self._thread = 0
        self._to_return = [self.stream]
        self._threads: list[threading.Thread] = []  # the worker's, also those that were given up
        self.wait: Callable[[Callable[[], bool]], object] = wait_until
        self.incomplete: Callable[[], Sequence[tuple[Any, bool, BaseException]]] = tuple

    def enter(self) -> None:
        """See `Place.enter`. Costs 2 us."""
        thread = threading.get_ident()
        if thread == self._thread:
            self._come_back()
        else:
            pause_precisely()
            self._threads.append(threading.current_thread())
            self._device.use()
            # As `with stream:` would: when a stream block of the user's ends, cupy goes back to the
            # last stream entered this way; after a mere `use` that is the default stream.
            self.stream.__enter__()
            # A thread that was given up may still be in the middle of a copy, and keeps its buffers for it.
            self._staging = Staging(self.xp, self.stream, self._device)
            self._done = self.xp.cuda.Event(disable_timing=True)
            self._digests = DeviceDigests(self.xp)
            use_gpus(self._digests)
            self._thread = thread

    def end(self) -> None:
        """Let a later worker have the stream, with the memory that cupy keeps for it. Idempotent."""
        with suppress(IndexError):
            streams.give_back(self.xp, self.device.index, self._to_return.pop(), self._threads)

    def beside(self) -> AbstractContextManager[object]:
        """See `Place.beside`: on the caller's current device and stream, which may be the user's."""
        return on_stream(self.xp.cuda.Device(), self.xp.cuda.get_current_stream())

    def finish(self) -> None:
        """See `Place.finish`. Of the user's streams it waits only for the current one, which it leaves."""
        self._come_back()
        if not is_captured(self.xp, self.stream):  # else there is nothing that could be waited for
            self._done.record(self.stream)
            self.wait(lambda: has_passed(self.xp, self._done))

    def explain(self, error: BaseException) -> None:
        """See `Place.explain`. Whichever call of CUDA comes next reports what has broken the GPU."""
        note = (
            f"{self.device} can no longer be used by this process, in this or any other session: restart the"
            " kernel. A GPU does not recover from a kernel that reads or writes out of bounds."
        )
        if is_lost(error) and note not in getattr(error, "__notes__", ()):
            error.add_note(note)

    def settle(self) -> None:
        """See `Place.settle`: in a block of a stream of the user's, what follows is still queued there."""
        device = self.xp.cuda.Device()
        self._device.use()
        current = self.xp.cuda.get_current_stream()
        try:
            self.finish()
        finally:
            if current.ptr != self.stream.ptr:
                current.use()
            device.use()

    def is_idle(self) -> bool:
        """See `Place.is_idle`. Costs 1 us."""
        try:
            return not is_captured(self.xp, self.stream) and bool(self.stream.done)
        except self.xp.cuda.runtime.CUDARuntimeError:  # the GPU is lost
            return False

    def _come_back(self) -> None:
        """Return to our own device and stream, after what is queued on the current one."""
        self._device.use()
        current = self.xp.cuda.get_current_stream()
        if current.ptr != self.stream.ptr:
            if not (is_captured(self.xp, current) or is_captured(self.xp, self.stream)):
                self._left.record(current)
                self.stream.wait_event(self._left)
            self.stream.use()

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """See `Place.empty`."""
        kind = np.dtype(dtype).newbyteorder("=")
        if not self._can_hold(kind):
            raise UsageMistake(
                f"{self.device} has no arrays of dtype {kind}; use bool, integers, floats, complex"
            )
        return self.xp.empty(shape, kind)

    def read(self, value: Any) -> Any | None:
        """See `Place.read`."""
        if isinstance(value, self.xp.ndarray):
            return value
        if isinstance(value, np.ndarray | np.generic):
            return None
        kind = type(value)
        way = next((name for name in _LENDS if hasattr(kind, name)), None)
        if way is None:
            return None
        try:
            if way == "__cuda_array_interface__":
                return self.xp.asarray(value)  # no copy; it waits for the stream that the other library names
            code, _ = value.__dlpack_device__()
            if code != self.device.type_code:
                return None
            _refuse_recorded(kind)
            return self.xp.from_dlpack(value)  # on our stream, which waits for that of the other library
        except Exception as reason:
            raise UsageMistake(
                f"{kind.__name__} cannot be used through {_LENDS[way]}: {words(reason)}"
            ) from reason

    def adopt(self, value: Any) -> Any:
        """See `Place.adopt`. Only `value` itself becomes an array of cupy, not arrays inside it."""
        if type(value) in _NUMPYS and self._can_hold(value.dtype):
            return self.move_in(value)
        if isinstance(value, self.xp.ndarray):
            self.finish()  # so that the wait below is for this copy only
            mine = self.xp.array(value)
            self.finish()  # the original may be dropped now
            return mine
        return copy_of(value, CALLER)

    def move_in(self, array: Any) -> Any:
        """See `Place.move_in`. Arrays of dtypes that cupy does not have stay on the host."""
        if not self._can_hold(array.dtype):
            return array
        self._come_back()
        there = self.xp.empty(array.shape, array.dtype.newbyteorder("="))
        self.copy(there, array)
        return there

    def take(self, value: Any) -> Any:
        """See `Place.take`. Arrays in lists, tuples and dictionaries become arrays of NumPy, too."""
        self.finish()  # so that the copies below wait for nothing that an interrupt could not end
        return self._taken(value)

    def _taken(self, value: Any) -> Any:
        kind = type(value)
        if issubclass(kind, self.xp.ndarray):
            host = np.empty(value.shape, value.dtype)
            self.copy(host, value)
            return host
        if kind in (list, tuple):
            return kind(map(self._taken, value))
        if issubclass(kind, tuple) and hasattr(kind, "_make"):
            return kind._make(map(self._taken, value))  # a named tuple
        if kind in (dict, OrderedDict):
            return kind((copy_of(key, NOTEBOOK), self._taken(each)) for key, each in value.items())
        if kind is defaultdict:
            taken = ((copy_of(key, NOTEBOOK), self._taken(each)) for key, each in value.items())
            return defaultdict(copy_of(value.default_factory, NOTEBOOK), taken)
        return copy_of(value, NOTEBOOK)

    def copy(self, target: Any, source: Any) -> None:
        """See `Place.copy`."""
        if not target.size:
            return
        near, far = (isinstance(array, np.ndarray) for array in (target, source))
        if near and far:
            np.copyto(target, source)
            return
        self._come_back()
        if is_captured(self.xp, self.stream):
            raise UsageMistake(
                f"nothing is copied to or from {self.device} while the worker's stream is captured for a CUDA"
                " graph - end the capture first"
            )
        for array, is_host in ((target, near), (source, far)):
            if not is_host:
                self._follow(array)
        if near:
            self._download(target, source)
        elif far:
            self._upload(target, source)
        else:
            self.xp.copyto(target, source)

    def _follow(self, array: Any) -> None:
        """Let our stream come after what the caller has queued on another GPU, if `array` is there."""
        if array.device.id != self.device.index:
            with self.xp.cuda.Device(array.device.id):
                reached = self.xp.cuda.Event(disable_timing=True)
                reached.record()
            self.stream.wait_event(reached)

    def _upload(self, target: Any, host: np.ndarray[Any, Any]) -> None:
        native = np.ascontiguousarray(host, host.dtype.newbyteorder("="))
        if target.flags.c_contiguous:
            self._staging.upload(target, native)
            return
        whole = self.xp.empty(target.shape, target.dtype)
        self._staging.upload(whole, native)
        self.xp.copyto(target, whole)

    def _download(self, host: np.ndarray[Any, Any], source: Any) -> None:
        whole = self.xp.ascontiguousarray(source)
        if host.flags.c_contiguous and host.dtype.isnative:
            self._staging.download(host, whole)
            return
        dense = np.empty(host.shape, host.dtype.newbyteorder("="))  # as it is on the GPU
        self._staging.download(dense, whole)
        np.copyto(host, dense)

    def memory(self) -> tuple[int, int] | None:
        """See `Place.memory`."""
        free, total = self._device.mem_info
        return total - free, total

    def _can_hold(self, dtype: np.dtype[Any]) -> bool:
        if dtype.type.__module__ != "numpy":  # ml_dtypes, where one float8 claims kind f
            return dtype.name == "bfloat16" and self._has_bfloat16
        # No long double: neither float128 nor complex256.
        return dtype.kind in _KINDS and dtype.itemsize <= (16 if dtype.kind == "c" else 8)


def _refuse_recorded(kind: type) -> None:
    """Raise UsageMistake if `kind` is PyTorch's, and that records a CUDA graph: by DLPack, we would, too."""
    if is_tensor(kind) and sys.modules["torch"].cuda.is_current_stream_capturing():
        raise UsageMistake(
            "PyTorch records a CUDA graph, which would not repeat the call - capture only what is between"
            " collectives"
        )
