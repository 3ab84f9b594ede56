"""Streams as threads: the stream's own thread does the work later, in order.

    any thread                                    thread "gpu-0-stream-1"
    put(work)     -->  [piece, piece, marker]  -->  lag, work(), finished
    C: enqueue()  -->                               a marker wakes the threads waiting for it

What callers may rely on:

* A piece is started after all pieces that were put before it have finished.
* `put` never waits. The work is either in the queue or not, even if an injected exception ends the caller:
  the step that decides is a single call of a C function.

What the code relies on: `deque.append`, `popleft` and ``deque[0]`` are atomic; until the thread has ended, it
alone removes pieces.
"""

from __future__ import annotations

import ctypes
import random
import threading
from collections import deque
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from disco_magic.testing.gpu.errors import CAPTURE_UNSUPPORTED, INVALID_HANDLE, CUDARuntimeError
from disco_magic.testing.gpu.pieces import DEADLINE_S, Hold, Marker, Piece, RecordedMarker, nothing

if TYPE_CHECKING:
    from collections.abc import Callable

    from disco_magic.testing.gpu.device import SimulatedDevice
    from disco_magic.testing.gpu.pieces import Capture

Lag: TypeAlias = "Callable[[], float] | int | None"

# Long enough for other streams to overtake, short enough for tests with thousands of pieces.
_LONGEST_LAG_S: Final = 0.002

_WORK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_ENQUEUE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


class DiscoStream(ctypes.Structure):
    """The C struct at `Stream.ptr`: ``int (*enqueue)(self, work, argument); int device``, for C."""

    _fields_ = (("enqueue", _ENQUEUE), ("device", ctypes.c_int))


def _lag_of(lag: Lag, name: str) -> Callable[[], float] | None:
    """A function for the delay before each piece, in seconds; a seed is combined with the stream's `name`."""
    if lag is None or callable(lag):
        return lag
    numbers = random.Random(f"{lag} {name}")  # noqa: S311 - no secret
    # Half of the pieces are not delayed: streams that are always late would be late by similar amounts.
    return lambda: max(0.0, numbers.uniform(-_LONGEST_LAG_S, _LONGEST_LAG_S))


class WorkQueue:
    """One stream: its queue, its thread and its C handle.

    Attributes:
        name: name of the thread.
        handle: the address of its `DiscoStream`.
        ptr: what CUDA calls it by: that address; 0 for the null stream.
        blocking: whether it and the null stream wait for each other.
        capture: what records its work; None: the work is done.
    """

    def __init__(self, device: SimulatedDevice, number: int, lag: Lag, *, blocking: bool) -> None:
        self.device = device
        self.number = number
        self.blocking = blocking
        self.name = f"gpu-{device.id}-stream-{number}"
        self.capture: Capture | None = None
        self._lag = _lag_of(lag, self.name)
        self._never = threading.Event()
        self._pieces: deque[Piece] = deque()
        self._news: SimpleQueue[None] = SimpleQueue()
        self._retired = False
        self._ended = False
        self._last = Piece(nothing)
        self._holds: list[Hold] = []
        # Kept here, because ctypes keeps neither the function nor the struct alive for users of the address.
        self._struct = DiscoStream(_ENQUEUE(self._enqueue_c), device.id)
        self.handle = ctypes.addressof(self._struct)
        self.ptr = self.handle if number else 0
        self.thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self.thread.start()

    def put(self, work: Callable[[], object]) -> None:
        """Queue `work` after everything that was put before.

        Raises:
            CUDARuntimeError: the stream was destroyed, or its device is broken.
        """
        self.device.check()
        if self.capture is not None:
            self.capture.work.append(work)
        else:
            self._put(Piece(work, needs_health=True))

    def mark(self) -> Marker:
        """Put a marker after everything that was put before; works on a broken device, too."""
        if self.capture is not None:
            return RecordedMarker(self.capture, self)
        marker = Marker()
        self._put(marker)
        return marker

    def mark_alone(self) -> Marker:
        """Put a marker without regard to the null stream's rule, even in a stream that was destroyed."""
        marker = Marker()
        self._append(marker)
        return marker

    def wait_for(self, marker: Marker) -> None:
        """Let all work that is put from now on wait for `marker`."""
        self.device.check()
        capture = marker.capture if isinstance(marker, RecordedMarker) else self.capture
        if capture is not None:
            capture.joins(self, marker)
        else:
            self._put(Piece(marker.wait))

    def hold(self) -> Hold:
        """Stop here until the hold is released."""
        hold = Hold()
        self._holds.append(hold)
        self._put(Piece(hold.block))
        return hold

    def synchronize(self) -> None:
        """Return when everything that was put before is done.

        Raises:
            CUDARuntimeError: the device is broken, or the work is recorded.
            TimeoutError: it is not done after `DEADLINE_S`; a real GPU would wait for ever.
        """
        self.device.check()
        if self.capture is not None:
            self.capture.is_spoilt = True
            raise CUDARuntimeError(CAPTURE_UNSUPPORTED)
        self.await_marker(self.mark())

    def await_marker(self, marker: Marker) -> None:
        """Wait for `marker`; see `synchronize`."""
        if not marker.wait(DEADLINE_S):
            raise TimeoutError(f"{self.name} did not get there within {DEADLINE_S:g} s: who holds it?")
        self.device.check()

    @property
    def done(self) -> bool:
        """Whether everything that was put so far is done; to ask while it is recorded spoils that."""
        if self.capture is not None:
            self.capture.is_spoilt = True
            return False
        try:
            # All pieces are done if the last one is. It may be finished and still be in the queue.
            return self._pieces[-1].finished
        except IndexError:
            return True

    @property
    def held(self) -> bool:
        """Whether a hold is not released yet."""
        return any(not hold.released for hold in self._holds)

    @property
    def pending(self) -> int:
        """The number of unfinished pieces, for messages."""
        return sum(not piece.finished and piece is not self._last for piece in list(self._pieces))

    def release(self) -> None:
        """Release every hold."""
        for hold in self._holds:
            hold.release()

    def retire(self) -> None:
        """Refuse further work, and end the thread once all work in the queue is done. Idempotent."""
        if not self._retired:
            self._retired = True
            self._append(self._last)

    def _put(self, piece: Piece) -> None:
        if self._retired:
            raise CUDARuntimeError(INVALID_HANDLE, (f"{self.name} was destroyed",))
        for marker in self.device.before(self):
            self._append(Piece(marker.wait))
        self._append(piece)

    def _append(self, piece: Piece) -> None:
        try:
            self._pieces.append(piece)
        finally:
            # Even if an injected exception strikes here, the thread has to be notified of the piece.
            self._news.put(None)
        # Either we see here that the thread has ended, or the thread sees the piece before it ends.
        if self._ended:
            self._flush()

    def _flush(self) -> None:
        """Finish what came after the thread's end, so that nothing waits for it."""
        while self._pieces:
            with suppress(IndexError):  # the stream's thread and one that puts work may both be here
                self._pieces.popleft().finish()

    def _enqueue_c(self, _: int, work: int, argument: int) -> int:
        """Implement `DiscoStream.enqueue`. Queued C work runs on a broken device, too: it may free memory."""
        if self._retired or self.device.error is not None:
            return INVALID_HANDLE
        self._put(Piece(partial(_WORK(work), argument)))
        return 0

    def _run(self) -> None:
        np.seterr(all="ignore")  # a GPU divides by zero without a warning
        while True:
            self._news.get()
            while self._pieces:
                if self._pieces[0] is self._last:
                    self._ended = True
                    self._flush()
                    return
                self._do(self._pieces[0])
                self._pieces.popleft()

    def _do(self, piece: Piece) -> None:
        if self._lag is not None:
            self._never.wait(self._lag())
        try:
            if self.device.error is None or not piece.needs_health:
                piece.work()
        except BaseException as error:  # noqa: BLE001 - whatever work raises breaks the device
            self.device.fail(error)
        # Drop the closure, which may be all that keeps an object alive.
        piece.work = nothing
        piece.finish()
