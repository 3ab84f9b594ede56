"""How planes move cupy's arrays: the stream that each array belongs to, and the order of work on streams.

A member's arrays belong to the stream that was current when the member made the call: results are allocated
there, and work on these arrays in other streams is queued between two events of that stream. Anything else
would be a race, because cupy reuses freed memory at once for the next allocation on the same stream.
"""

from __future__ import annotations

from itertools import filterfalse
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from disco_magic.devices.events import has_passed, is_captured
from disco_magic.errors import UsageMistake
from disco_magic.planes.copier import Copier, check_alignment, misaligned
from disco_magic.planes.kernels import Folder
from disco_magic.planes.memory import HOST
from disco_magic.planes.verdicts import Broken
from disco_magic.threads.locks import new_lock
from disco_magic.values.spans import span_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disco_magic.devices.gpu import GpuPlace
    from disco_magic.planes.blocks import Fold
    from disco_magic.planes.calls import Call
    from disco_magic.planes.layout import Expected
    from disco_magic.planes.mail import Message
    from disco_magic.planes.reductions import Reduction

_PER_THREAD = 2  # cudaStreamPerThread: the same number represents every thread's stream


class Sent(NamedTuple):
    """An event after which a message's copy is complete, and its memory's stream."""

    ready: Any
    stream: Any


class DeviceMemory:
    """Arrays of cupy; implements `disco_magic.planes.memory.Memory`.

    Args:
        places: the workers' places, in the order of their ids.
    """

    library = "xp"
    shared = False

    def __init__(self, places: Sequence[GpuPlace]) -> None:
        self.places = places
        self.name = str(places[0].device)
        self.cupy = places[0].xp
        self.arrays: type = self.cupy.ndarray
        self.folder = Folder(self.cupy)
        self.copier = Copier(self.cupy)
        # worker -> its current stream at its last call; written before it meets the others.
        self.streams: list[Any] = [place.stream for place in places]
        self._keeping = new_lock()
        self._kept: list[tuple[Any, Any]] = []  # events, and the arrays of messages that are kept until these

    def arrive(self, worker: int) -> None:
        """Note the current stream of `worker`, which makes a call."""
        device, here = self.places[worker].device, self.cupy.cuda.runtime.getDevice()
        if here != device.index:
            raise UsageMistake(
                f"a collective of worker {worker} was called while its current GPU is {device.kind}:{here};"
                f" it computes on {device} - call it outside of `with xp.cuda.Device({here})`"
            )
        stream = self.cupy.cuda.get_current_stream()
        if stream.ptr == _PER_THREAD:
            raise UsageMistake(
                f"a collective of worker {worker} was called on the per-thread default stream, which nothing"
                " tells from that of another worker - use worker.place.stream or one of your own"
            )
        if is_captured(self.cupy, stream):
            raise UsageMistake(
                f"a collective of worker {worker} was called while its stream is captured for a CUDA graph -"
                " members meet on the host, which no graph replays: capture only what is between collectives"
            )
        self.streams[worker] = stream

    def read(self, kind: str, worker: int, x: Any) -> tuple[Any, bool]:
        """See `Memory.read`."""
        near = x if type(x) is self.arrays else self.places[worker].read(x)
        if near is None:  # None itself, where the verb needs an array
            return HOST.read(kind, worker, x)
        array = self._here(kind, worker, near)
        if not array.flags.c_contiguous:
            check_alignment(kind, worker, array)
            array = self.cupy.ascontiguousarray(array)
        elif misaligned(array):
            array = self._bytes_of(array, self.cupy.cuda.get_current_stream())
        return array, False

    def check_out(self, kind: str, worker: int, out: Any) -> Any:
        """See `Memory.check_out`."""
        if not isinstance(out, self.cupy.ndarray):
            what = "a NumPy array" if isinstance(out, np.ndarray) else type(out).__name__
            raise UsageMistake(f"{kind}: out must be a cupy array, got {what}")
        check_alignment(kind, worker, out)
        return self._here(kind, worker, out)

    def _here(self, kind: str, worker: int, array: Any) -> Any:
        place = self.places[worker]
        if array.device.id != place.device.index:
            raise UsageMistake(
                f"{kind}: the array of worker {worker} is on {place.device.kind}:{array.device.id}, the"
                f" worker computes on {place.device} - copy it there first, with xp.array(x)"
            )
        return array

    def check_reduction(self, kind: str, op: str, dtype: np.dtype[Any]) -> None:
        """See `Memory.check_reduction`."""
        self.folder.check(kind, op, dtype)

    def empty(self, call: Call, expected: Expected) -> Any:
        """Allocate from the memory of the caller's stream, whichever thread calls this."""
        mine = self.cupy.cuda.get_current_stream()
        self.streams[call.worker].use()
        try:
            return self.cupy.empty(expected.shape, expected.dtype)
        finally:
            mine.use()

    def overlap(self, a: Any, b: Any) -> bool:
        """See `Memory.overlap`."""
        return HOST.overlap(_shadow(a), _shadow(b))

    def share(self, a: Any, b: Any) -> bool:
        """See `Memory.share`."""
        return HOST.share(_shadow(a), _shadow(b))

    def are_apart(self, arrays: Sequence[Any]) -> bool:
        """Whether the memory spans of the arrays are disjoint."""
        if len(arrays) < 2:
            return True
        spans = []
        for array in arrays:
            # The beginning of `span_of`, inlined: every collective with an `out` asks for all its arrays.
            start = array.data.ptr
            spans.append((start, start + array.nbytes) if array.flags.c_contiguous else span_of(array))
        spans.sort()
        before = 0
        for start, end in spans:
            if start < before:
                return False
            before = end
        return True

    def address(self, array: Any) -> int:
        """See `Memory.address`."""
        return int(array.data.ptr)

    def is_writeable(self, array: Any) -> bool:  # noqa: ARG002 - cupy has no read-only arrays
        """See `Memory.is_writeable`."""
        return True

    def move(self, folds: Sequence[Fold], reduction: Reduction | None, calls: Sequence[Call]) -> None:
        """Queue `folds` on the calling thread's stream, between all members' earlier and later work."""
        mine = self.cupy.cuda.get_current_stream()
        others = [call for call in calls if self.streams[call.worker].ptr != mine.ptr]
        copies = reduction is None and len(folds) > 1 and all(_is_copy(whole) for whole in folds)
        self._after(others, mine)
        try:
            if copies:
                self.copier.launch([(whole.sources[0], whole.targets[0]) for whole in folds])
            else:
                for whole in folds:
                    self.folder.launch(whole.sources, whole.targets, reduction)
        finally:  # also after an error: what was already queued uses the members' arrays
            self._before(others, mine)

    def order(self, calls: Sequence[Call]) -> None:
        """Let the members' later work run after the earlier work of all of them; no thread waits."""
        here, mine = self.cupy.cuda.runtime.getDevice(), self.cupy.cuda.get_current_stream()
        # With the GPU: the null stream is 0 on every GPU.
        others = [
            call
            for call in calls
            if (self.places[call.worker].device.index, self.streams[call.worker].ptr) != (here, mine.ptr)
        ]
        self._after(others, mine)
        self._before(others, mine)

    def _after(self, others: Sequence[Call], mine: Any) -> None:
        """Let the stream `mine` wait for the streams of `others`."""
        for call in others:
            try:
                fence = self.fenced(call.worker)
            except self.cupy.cuda.runtime.CUDARuntimeError as error:  # the GPU of that member failed
                raise Broken(call, error) from None
            mine.wait_event(fence)

    def _before(self, others: Sequence[Call], mine: Any) -> None:
        """Let the streams of `others` wait for `mine`."""
        if others:
            done = self.cupy.cuda.Event(disable_timing=True)
            done.record(mine)
            for call in others:
                try:
                    self.let_wait(call.worker, done)
                except self.cupy.cuda.runtime.CUDARuntimeError as error:
                    raise Broken(call, error) from None

    def fenced(self, worker: int) -> Any:
        """An event that passes when everything that `worker` has queued so far is done."""
        fence = self.places[worker].fence
        fence.record(self.streams[worker])
        return fence

    def let_wait(self, worker: int, event: Any) -> None:
        """Let everything that `worker` queues from now on run after `event`."""
        self.streams[worker].wait_event(event)

    def copy(self, target: Any, source: Any) -> None:
        """See `Memory.copy`."""
        self.cupy.copyto(target, source)

    def parcel(self, worker: int, array: Any, x: Any) -> tuple[Any, Sent]:
        """See `Memory.parcel`."""
        copied = isinstance(x, self.cupy.ndarray) and not self.overlap(array, x)
        sent = array if copied else array.copy()
        ready = self.cupy.cuda.Event(disable_timing=True)
        ready.record(self.streams[worker])
        return sent, Sent(ready, self.streams[worker])

    def unpack(self, worker: int, message: Message) -> Any:
        """See `Memory.unpack`. The receiver copies, because the memory belongs to the sender's stream."""
        self.arrive(worker)  # not done yet if `out` is on the host
        sent, stream, source = message.token, self.streams[worker], cast("Any", message.array)
        stream.wait_event(sent.ready)
        array = self._bytes_of(source, stream)
        copied = self.cupy.cuda.Event(disable_timing=True)
        copied.record(stream)
        with self.cupy.cuda.Device(source.device.id):  # the null stream is 0 on every GPU
            self._keep_until(copied, source, sent.stream)
        return array

    def _keep_until(self, copied: Any, source: Any, stream: Any) -> None:
        """Let no memory of `stream` be reused for what `source` has before `copied` passes.

        Its worker may be recording a CUDA graph on it by now, which must not wait for anything outside: then
        the memory is kept, until a later message finds that the copy was made.
        """
        recorded = is_captured(self.cupy, stream)
        if not recorded:
            stream.wait_event(copied)
        if recorded or self._kept:
            with self._keeping:
                self._kept = [*filterfalse(lambda each: has_passed(self.cupy, each[0]), self._kept)]
                if recorded:
                    self._kept.append((copied, source))

    def _bytes_of(self, source: Any, stream: Any) -> Any:
        """A copy of a contiguous array, made on `stream`, which is current; of any alignment, from any GPU.

        cupy's own ``source.copy()`` reads the elements in a kernel, which needs them aligned.
        """
        array = self.cupy.empty(source.shape, source.dtype)
        runtime = self.cupy.cuda.runtime
        # The address says on which GPU the source is.
        runtime.memcpyAsync(
            array.data.ptr, source.data.ptr, array.nbytes, runtime.memcpyDeviceToDevice, stream.ptr
        )
        return array


def _is_copy(whole: Fold) -> bool:
    """Whether `whole` has one source and one target."""
    return len(whole.sources) == len(whole.targets) == 1


class _Shadow:
    """The address and layout of a device array, as NumPy's array interface."""

    def __init__(self, array: Any) -> None:
        self.__array_interface__ = {
            "version": 3,
            "data": (int(array.data.ptr), False),
            "shape": array.shape,
            "strides": array.strides,
            "typestr": f"|V{array.dtype.itemsize}",
        }


def _shadow(array: Any) -> np.ndarray[Any, Any]:
    """A NumPy array at the same address, for overlap tests only: its elements must not be accessed."""
    return np.asarray(_Shadow(array))
