"""The driver of one worker: feeds the interpreter, executes what it says, survives everything.

Ordered lane: `serve` takes one command after the other from a queue. Urgent lane: `interrupt`, `abandon`,
`position` and `contents`, called from other threads; they never run user code.

Guarantees
  * No lock is held while user code runs, and the path of an ordinary call takes no lock at all.
  * An exception is injected only into the command it is meant for, and never inside a plane call.
  * Whatever user code raises ends its command, not the worker.

`lane.py` tells how a command and an interrupt agree; "step" below means a step there.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from disco_magic import injection
from disco_magic.core.interpreter import EXECUTE, SKIP, STOP, Interpreter
from disco_magic.core.messages import full
from disco_magic.core.registers import RegisterFile
from disco_magic.errors import Failure, PlaneMismatch, UsageMistake, WorkerInterrupt
from disco_magic.functions.cells import CellRunner, drop_namespace, new_namespace
from disco_magic.functions.context import WorkerContext, enter_worker
from disco_magic.functions.copies import copy_of
from disco_magic.functions.sites import innermost_site
from disco_magic.functions.tracebacks import error_text, own_frames
from disco_magic.lane import Lane

if TYPE_CHECKING:
    import contextvars
    from collections.abc import Callable, Mapping

    from disco_magic.core.interfaces import Plane
    from disco_magic.core.messages import Command, Event, Message, Run
    from disco_magic.functions.cells import CellScope, CellValue
    from disco_magic.functions.context import Topology

    Extras = Callable[[WorkerContext], Mapping[str, Any]]

IDLE: Final = "idle"
_NOTHING: Final = object()


class Worker:
    """One worker: interpreter, registers, context, and the thread that serves it.

    Args:
        worker: its id.
        topology, plane, session_id: what its context shows.
        deliver: takes the worker's events; called from the worker's thread.
        extras: names the front end adds behind the namespace.
    """

    def __init__(
        self,
        worker: int,
        topology: Topology,
        plane: Plane,
        deliver: Callable[[Event], None],
        *,
        session_id: int = 0,
        extras: Extras | None = None,
    ) -> None:
        self.id = worker
        self.lane = Lane()
        self.skip_through = 0
        self.scopes: dict[int, tuple[CellScope, contextvars.Context]] = {}
        self._mutex = threading.Lock()
        self._plane = plane
        self._deliver = deliver
        self.context = WorkerContext(worker, topology, plane, self, session_id=session_id)
        names = new_namespace(self.context, extras(self.context) if extras else {})
        self.cells = CellRunner(self.context, names)
        self.registers = RegisterFile(names)
        self.interpreter = Interpreter(worker, self.registers, copy=copy_of, run=self._run_cell)

    # --- ordered lane --------------------------------------------------------------------------

    def run(self, lane: Lane, get: Callable[[], Message]) -> None:
        """Serve until Stop, then let go of everything; or until this lane is abandoned."""
        lane.thread_id = threading.get_ident()
        enter_worker(self.context)
        while True:
            try:
                self.serve(lane, get)
                break
            except WorkerInterrupt as late:
                # Step 4. Nobody but an injection raises here: user code is caught in serve.
                command = lane.interrupted
                error = late.__context__ or late  # what it struck had something of its own to say
                if command is not None and not self._settle(lane, command, error, _NOTHING):
                    break
                del command, error  # this frame lives as long as the worker
        if not lane.abandoned:
            self.dispose()

    def serve(self, lane: Lane, get: Callable[[], Message]) -> None:  # noqa: C901, PLR0912 - see there
        """The loop, with the ordinary call written out: its cost is the cost of every command.

        What `Interpreter` does with a call whose operands all have values is done here without it, in
        two thirds of the time; whatever is not quite so ordinary goes there. The worker's tests send each of
        their calls both ways.
        """
        values, poisons, kill = self.registers.values, self.registers.poisons, self.registers.kill
        running = lane.running
        plane, me = self._plane, self.id
        left, waiting, mail = plane.left, plane.waiting, plane.mail[me]
        command: Any
        function: Any
        arguments: Any
        value: Any
        command = function = arguments = value = _NOTHING
        while True:
            command = get()
            if type(command) is tuple:
                seq, dest, function, arguments, refs, kills = command
                if kills:
                    for register in kills:
                        values.pop(register, None)
                    if poisons:
                        kill(kills)
                try:
                    if type(function) is int:
                        function = values[function]
                    if refs:
                        arguments = list(arguments)
                        for position in refs:
                            arguments[position] = values[arguments[position]]
                except KeyError:
                    function = _NOTHING
            else:
                seq = command.seq
            if function is _NOTHING:
                if not self._rare(lane, full(command)):
                    return
            else:
                running.append(command)
                try:
                    if seq <= self.skip_through:
                        raise WorkerInterrupt("interrupted before it began")  # noqa: TRY301 - one way out
                    value = function(*arguments)
                    running.pop()
                except BaseException as error:  # noqa: BLE001 - a worker survives whatever user code raises
                    if not self._settle(lane, full(command), error, value):
                        return
                else:
                    if not mail or self._has_read_all(full(command)):
                        values[dest] = value
            left[me] = seq
            if waiting:
                plane.leave(me, seq)
            # What came with them must not outlive its registers while the worker is idle.
            command = function = arguments = value = _NOTHING

    def _rare(self, lane: Lane, command: Command) -> bool:
        """Everything that is no ordinary call; False ends the loop."""
        step: Any = self.interpreter.feed(command)
        if step is STOP:
            self._plane.leave(self.id, command.seq)
            return False
        if step is SKIP:
            for event in self.interpreter.events:
                self._deliver(event)
            self._plane.leave(self.id, command.seq, self.interpreter.origin)
        elif step is EXECUTE:
            return self._execute(lane, command)
        elif step is not None:
            self._deliver(step)
        return True

    def _execute(self, lane: Lane, command: Command) -> bool:
        """What `serve` does for a call, which has it written out, for everything else that runs user code."""
        value: Any = _NOTHING
        lane.running.append(command)
        try:
            if command.seq <= self.skip_through:
                raise WorkerInterrupt("interrupted before it began")  # noqa: TRY301 - one way out
            value = self.interpreter.function(*self.interpreter.arguments)
            lane.running.pop()
        except BaseException as error:  # noqa: BLE001 - a worker survives whatever user code raises
            return self._settle(lane, command, error, value)
        self._complete(command, value)
        return True

    def _complete(self, command: Command, value: Any) -> None:
        event = self.interpreter.finish(command, value)
        self.scopes.pop(command.seq, None)
        self._plane.leave(self.id, command.seq)
        if event is not None:
            self._deliver(event)

    def _run_cell(self, command: Run) -> CellValue:
        scope, context = self.scopes.get(command.seq, (None, None))
        if context is None:
            value = self.cells(command.cell, scope)
        else:
            value = context.run(self.cells, command.cell, scope)
        self._check_mail(command)
        return value

    def _check_mail(self, command: Command) -> None:
        unread = self._plane.unread(self.id, command.seq)
        if unread:
            raise PlaneMismatch(f"worker {self.id} finished without receiving {'; '.join(unread)}")

    def _has_read_all(self, command: Command) -> bool:
        """Whether a call that returned has received all messages sent to it; otherwise it has failed."""
        try:
            self._check_mail(command)
        except PlaneMismatch as error:
            self._fail(command, error)
            return False
        return True

    def _settle(self, lane: Lane, command: Command, error: BaseException, value: Any) -> bool:
        """End a command that did not end by itself; False if this lane was abandoned meanwhile."""
        with self._mutex:
            interrupted = lane.end()
            if lane.abandoned:
                return False
        if value is not _NOTHING and not interrupted:
            # Step 2 without step 3: interrupt took the command out, saw that it was not meant, let it be.
            self._complete(command, value)
            return True
        if interrupted and not isinstance(error, WorkerInterrupt):
            # Whatever came out of interrupted code, a cancelled await for instance, came out because of it.
            error = WorkerInterrupt().with_traceback(error.__traceback__)
        self._fail(command, error)
        return True

    def _fail(self, command: Command, error: BaseException) -> None:
        failure = self._failure(command, error)
        elapsed_s, self.cells.failed_after_s = self.cells.failed_after_s, 0.0
        event = self.interpreter.fail(command, failure, elapsed_s)
        self.scopes.pop(command.seq, None)
        self._plane.leave(self.id, command.seq, failure)
        self._deliver(event)

    def _failure(self, command: Command, error: BaseException) -> Failure:
        error.__traceback__ = own_frames(error)
        return Failure(self.id, command.seq, self.interpreter.describe(command), error, error_text(error))

    # --- plane calls (Guard) -------------------------------------------------------------------

    def enter(self) -> tuple[int, tuple[int, ...] | None]:
        """Begin a plane call: no injection from here to `leave`; an interrupt ends the wait instead."""
        with self._mutex:
            lane = self.lane
            if threading.get_ident() != lane.thread_id:
                raise UsageMistake(
                    f"a collective of worker {self.id} was called in another thread than the worker's own; "
                    "call it in the cell or function itself"
                )
            if lane.interrupted is not None or not lane.running:
                raise WorkerInterrupt("interrupted before a collective")
            lane.shielded = True
            command = full(lane.running[-1])
        return command.seq, command.workers

    def leave(self) -> None:
        """End a plane call; an interrupt that came meanwhile strikes here."""
        with self._mutex:
            lane = self.lane
            if threading.get_ident() != lane.thread_id:
                raise WorkerInterrupt("this thread was given up while it was in a collective")
            lane.shielded = False
            if lane.interrupted is None:
                return
        raise WorkerInterrupt("interrupted in a collective")

    # --- urgent lane ---------------------------------------------------------------------------

    def interrupt(self, through: int) -> bool:
        """End what is executing if its `seq` is ``<= through``, skip what has not begun.

        Whoever waits for this worker in a collective of that command is released.

        Returns whether something was executing; it may still be, if it is stuck in C code. Call again to
        inject again: the first call only cancels a cell that awaits, so that its ``finally`` can await too.
        """
        self.skip_through = max(self.skip_through, through)
        with self._mutex:
            lane = self.lane
            cancel = self.cells.cancel if lane.interrupted is None else None
            if lane.interrupted is None:
                command = lane.seize(through)
                if command is None:
                    return False
                self._plane.leave(self.id, command.seq, self._failure(command, WorkerInterrupt()))
            if cancel is not None:
                try:
                    cancel()
                except RuntimeError:
                    cancel = None  # the loop was closed in this moment: the await is over
            if cancel is None and not lane.shielded:
                injection.inject(lane.thread_id)
            return True

    def abandon(self) -> Lane | None:
        """Give up the thread that an interrupt did not end; the lane for its successor, or None if it ended.

        The stuck thread keeps its pending exception, or gets one at the end of its plane call, and dies of
        it unless it catches that too. Whatever it does, nothing of it reaches the interpreter or the plane;
        names that it binds in an ``except`` or ``finally`` of its own do reach the namespace.
        """
        with self._mutex:
            lane = self.lane
            command = lane.interrupted
            if command is None:
                return None
            lane.abandoned = True
            self.lane = Lane()
        # The stuck thread keeps its own runner, so that it cannot end what its successor executes.
        started = self.cells.started
        self.cells = CellRunner(self.context, self.cells.namespace)
        if started is not None:
            self.cells.failed_after_s = time.perf_counter() - started
        scope, _ = self.scopes.get(command.seq, (None, None))
        if scope is not None:
            scope.abandoned(self.id)
        at = innermost_site(sys._current_frames().get(lane.thread_id))  # noqa: SLF001 - the documented way
        self._fail(
            command, WorkerInterrupt(f"its thread was stuck in a call that Python cannot end, at {at}")
        )
        return self.lane

    def position(self) -> str:
        """What the worker is doing now, in words."""
        try:
            command = self.lane.interrupted or full(self.lane.running[-1])
        except IndexError:
            return IDLE
        at = self._plane.waiting.get(self.id)
        where = f", waiting in {at.seen_by(self.id)}" if at is not None else ""
        return f"executing {self.interpreter.describe(command)}{where}"

    def dispose(self) -> None:
        """Let go of all registers and of the namespace's module."""
        drop_namespace(self.context, self.cells.namespace)
        self.registers.names.clear()
        self.registers.values.clear()
        self.registers.poisons.clear()
