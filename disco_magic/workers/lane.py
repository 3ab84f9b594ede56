"""How a command and an interrupt agree on who ends it, without a lock on the path of every command.

  1. Before executing, the worker's thread puts the command into `running`, and then looks at the worker's
     `skip_through`. An interrupt raises `skip_through` first and looks at `running` second: at least one of
     them sees the other.
  2. After executing, the thread takes the command out with ``running.pop()``. An interrupt takes it out with
     the same operation, which CPython makes atomic. Exactly one of them gets it; the other sees IndexError.
  3. If the interrupt got it (`seize`), it may inject, and the thread, on its IndexError, calls `end`, which
     lets an injection strike that has not struck yet; only then does the worker change any state.
  4. An injection that strikes between user code and step 3 escapes from `Serving.serve`; `Serving.run` ends
     the command.

An interrupt strikes once. A thread that was claimed may come out of a plane call, or a wait for a GPU, which
raises, before it is struck: `tell` notes that, and then the strike leaves the user's clean-up alone.

`seize` and `end` are called with the worker's mutex held, and so is everything that injects. `PlaneGuard`
keeps injections out of plane calls; `bridges.py` does for calls of libraries.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from disco_magic.core.messages import full
from disco_magic.errors import Interrupted, UsageMistake, WorkerInterrupt
from disco_magic.functions.bridges import AGAIN_S
from disco_magic.threads.locks import new_lock
from disco_magic.workers import injection

if TYPE_CHECKING:
    from disco_magic.core.messages import Command, Message
    from disco_magic.workers.serving import Serving


class Lane:
    """One thread's hold on a worker; a thread that is stuck loses it to a new thread.

    Attributes:
        running: the command being executed, as it came, or empty.
        interrupted: the command that an interrupt has taken out of `running`, until the thread has ended it.
        abandoned: the thread was given up; it must not touch the worker any more.
        crossing: how deep the thread is in calls of libraries.
        forked: this process is a fork made by the thread, its only one.
        released: the plane was told of the interrupt, and has released the workers that wait for it.
        withheld: an interrupt waits until the thread is back from a library's call.
        pursued: what stands for the thread that tries to strike it, as it was where nothing may strike, see
            `fragile`; None: there is none, or it need not any more.
        shielded: how deep the thread is in what nothing is injected into: plane calls, asyncio.
        thread_id: of the thread; 0 before it began.
        told: a plane call has raised the interrupt in the thread, see `tell`.
        left_over: registers that the previous thread may not have dropped.
        inject_at: when the command may be injected into again, on the monotonic clock.
    """

    __slots__ = (
        "abandoned",
        "crossing",
        "forked",
        "inject_at",
        "interrupted",
        "left_over",
        "pursued",
        "released",
        "running",
        "shielded",
        "thread_id",
        "told",
        "withheld",
    )

    def __init__(self, left_over: tuple[int, ...] = ()) -> None:
        self.left_over = left_over
        self.running: list[Message] = []
        self.interrupted: Command | None = None
        self.abandoned = False
        self.forked = False
        self.shielded = 0
        self.crossing = 0
        self.released = False
        self.withheld = False
        self.pursued: object = None
        self.told = False
        self.thread_id = 0
        self.inject_at = 0.0

    def seize(self, through: int) -> Command | None:
        """Take the command being executed away from its thread, if its `seq` is ``<= through``."""
        try:
            if self.running[-1][0] > through:
                return None  # not meant
            command = self.running.pop()
        except IndexError:
            return None  # idle, or it ended in this moment
        if command[0] > through:
            # The thread moved on between the two looks: put the claim back. A thread that missed it meanwhile
            # waits for the mutex, which we hold, before it calls `end`.
            self.running.append(command)
            return None
        self.interrupted = full(command)
        return self.interrupted

    def tell(self) -> None:
        """Note that a plane call, or a wait for a GPU, raises it; nothing else of it may end the clean-up.

        Only the first time: a loop that catches what each of its plane calls raises must be struck.
        """
        if self.interrupted is not None and not self.told:
            self.told = True
            self.pursued = None
            self.inject_at = time.monotonic() + AGAIN_S

    def end(self) -> bool:
        """End the thread's command; return whether it was interrupted. Nothing is injected any more."""
        interrupted = self.interrupted is not None
        if interrupted:
            try:  # noqa: SIM105 - suppress() is Python code of its own, in which it could strike
                injection.let_strike()
            except WorkerInterrupt:
                pass  # expected here, and only here: injecting threads hold the mutex
        self.interrupted = None
        self.released = False
        self.withheld = False
        self.told = False
        self.inject_at = 0.0
        self.running.clear()
        return interrupted


class Withdrawals:
    """Commands that must not begin any more, while those before them go on.

    The worker's thread notes that a command begins, then looks whether it was withdrawn. A thread
    that withdraws it notes that first, then looks whether it has begun: one of them sees the other. The
    answer to the first such thread holds for the others, too: the worker may not have looked yet.
    """

    def __init__(self) -> None:
        self._lock = new_lock()  # between withdrawing threads
        self._withdrawn: set[int] = set()
        self._begun = 0

    def add(self, seq: int) -> bool:
        """Withdraw command `seq`; whether it had not begun, and so never will."""
        with self._lock:
            if seq in self._withdrawn:
                return True
            self._withdrawn.add(seq)
            if self._begun < seq:
                return True
            self._withdrawn.discard(seq)
            return False

    def __len__(self) -> int:
        """How many withdrawn commands are still in the queue."""
        return len(self._withdrawn)

    def begin(self, seq: int) -> None:
        """Note that command `seq` begins, or would if it were not skipped; by the worker's thread, in order.

        Raises:
            WorkerInterrupt: it was withdrawn.
        """
        self._begun = max(self._begun, seq)  # a thread that was given up may come late
        if seq in self._withdrawn:
            self._withdrawn.discard(seq)
            raise WorkerInterrupt.at(Interrupted.WITHDRAWN)


def _of_gradients() -> str:
    """Advice for a thread made by PyTorch, which Python did not start."""
    if "torch" not in sys.modules or type(threading.current_thread()) is not threading._DummyThread:  # noqa: SLF001 - nothing else tells
        return ""
    return "; gradients: with torch.autograd.set_multithreading_enabled(False): loss.backward()"


def _where() -> str:
    main = threading.get_ident() == threading.main_thread().ident
    return "in the main thread, the controller's" if main else "in another thread"


class PlaneGuard:
    """Shields a worker's plane calls; implements `disco_magic.functions.calling.Guard`.

    Nothing is injected between `enter` and `leave`: an interrupt ends the wait through the plane instead.
    """

    def __init__(self, worker: Serving) -> None:
        self._worker = worker

    def enter(self) -> tuple[int, tuple[int, ...] | None]:
        """Begin a plane call; return the command's sequence number and the workers it was sent to."""
        with self._worker.mutex:
            lane = self._worker.lane
            if threading.get_ident() != lane.thread_id:
                raise UsageMistake(
                    f"a collective of worker {self._worker.id} was called {_where()}, not in the "
                    f"worker's own; call it in the cell or function itself{_of_gradients()}"
                )
            if lane.interrupted is not None or not lane.running:
                lane.tell()
                raise WorkerInterrupt.at(Interrupted.BEFORE_COLLECTIVE)
            lane.shielded += 1
            command: Any = lane.running[-1]
        return command[0], None if type(command) is tuple else command.workers

    def at(self) -> int | None:
        """See `Guard.at`; an interrupted command counts until it has ended."""
        lane = self._worker.lane
        command = lane.interrupted
        try:
            return lane.running[-1][0] if command is None else command.seq
        except IndexError:
            return None

    def leave(self) -> None:
        """End a plane call; an interrupt that came meanwhile strikes here."""
        with self._worker.mutex:
            lane = self._worker.lane
            if threading.get_ident() != lane.thread_id:
                raise WorkerInterrupt("this thread was given up while it was in a collective")
            if lane.shielded:  # asyncio's part may have been given up meanwhile
                lane.shielded -= 1
            if lane.interrupted is None:
                return
            lane.tell()
        raise WorkerInterrupt.at(Interrupted.IN_COLLECTIVE) from None
