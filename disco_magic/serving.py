"""The ordered lane of a worker: takes one command after the other, executes it, survives everything.

Guarantees
  * No lock is held while user code runs, and the path of an ordinary call takes no lock at all.
  * An exception is injected only into the command it is meant for, and never inside a plane call.
  * Whatever user code raises ends its command, not the worker.

`lane.py` tells how a command and an interrupt agree; "step" below means a step there.
"""

from __future__ import annotations

import threading
from queue import Empty
from typing import TYPE_CHECKING, Any, Final

from disco_magic.core.interpreter import EXECUTE, SKIP, STOP, Interpreter
from disco_magic.core.messages import full
from disco_magic.core.registers import RegisterFile
from disco_magic.errors import PlaneMismatch, WorkerInterrupt
from disco_magic.functions.context import WorkerContext, enter_worker
from disco_magic.functions.copies import copy_of
from disco_magic.functions.running import CellRunner, drop_namespace, new_namespace
from disco_magic.functions.tracebacks import failure_of, traceback_of
from disco_magic.lane import Lane, PlaneGuard
from disco_magic.stopwatch import Stopwatch

if TYPE_CHECKING:
    import contextvars
    from collections.abc import Callable, Mapping

    from disco_magic.core.interfaces import Plane
    from disco_magic.core.messages import Command, Event, Message, Run
    from disco_magic.errors import Failure
    from disco_magic.functions.context import Topology
    from disco_magic.functions.running import CellScope, CellValue

    # A queue's get: without waiting, which may raise Empty, or waiting.
    Get = Callable[[bool], Message]
    Extras = Callable[[WorkerContext], Mapping[str, Any]]

_NOTHING: Final = object()


class _Rare(Exception):
    """An operand has no value."""


class Serving:
    """The ordered half of a `Worker`.

    Args:
        worker: its id.
        topology, plane, session_id: what its context shows.
        deliver: takes the worker's events; called from the worker's thread.
        extras: names the front end adds behind the namespace.

    Attributes:
        lane: the hold of the thread that serves; another one after `abandon`.
        mutex: guards what `lane.py` says; taken by whoever injects, and at both ends of a plane call.
        guard: shields plane calls.
        skip_through: commands up to this number fail instead of beginning; only ever raised, by any thread.
        scopes: cell -> where it runs, written before the cell is sent.
        alive, idle: seconds since the first thread began, and without a command; started by that thread.
        plane, deliver: the data plane; takes events.
        context, cells, registers, interpreter: what the worker consists of; its own thread's alone.
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
        self.mutex = threading.Lock()
        self.guard = PlaneGuard(self)
        self.alive, self.idle = Stopwatch(), Stopwatch()
        self.plane = plane
        self.deliver = deliver
        self.context = WorkerContext(worker, topology, plane, self.guard, session_id=session_id)
        names = new_namespace(self.context, extras(self.context) if extras else {})
        self.cells = CellRunner(self.context, names)
        self.registers = RegisterFile(names, self.context.marks.names)
        self.interpreter = Interpreter(worker, self.registers, copy=copy_of, run=self._run_cell)

    def run(self, lane: Lane, get: Get) -> None:
        """Serve until Stop, then let go of everything; or until this lane is abandoned."""
        lane.thread_id = threading.get_ident()
        if not self.alive.is_running:
            self.alive.start()
        enter_worker(self.context)
        self.registers.kill(lane.left_over)
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

    def serve(self, lane: Lane, get: Get) -> None:  # noqa: C901, PLR0912 - see there
        """The loop, with the ordinary call written out: its cost is the cost of every command.

        What `Interpreter` does with a call whose operands all have values is done here without it, in
        two thirds of the time; whatever is not quite so ordinary goes there. The worker's tests send each of
        their calls both ways.
        """
        values, poisons, kill = self.registers.values, self.registers.poisons, self.registers.kill
        running = lane.running
        plane, me = self.plane, self.id
        left, waiting, mail = plane.left, plane.waiting, plane.mail[me]
        command: Any
        function: Any
        arguments: Any
        value: Any
        command = function = arguments = value = _NOTHING
        while True:
            try:
                command = get(False)
            except Empty:
                command = self._sleep(get)
            if type(command) is tuple:
                seq, dest, function, arguments, refs, kills = command
                running.append(command)
                try:
                    if kills:  # claimed too: what dies with a register may have a finalizer that blocks
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
                        raise _Rare from None
                    if seq <= self.skip_through:
                        raise WorkerInterrupt("interrupted before it began")  # noqa: TRY301 - one way out
                    value = function(*arguments)
                    running.pop()
                except BaseException as error:  # noqa: BLE001 - a worker survives whatever user code raises
                    if not self._odd(lane, full(command), error, value):
                        return
                else:
                    if not mail or self._has_read_all(full(command)):
                        values[dest] = value
            else:
                seq = command.seq
                if not self._rare(lane, command):
                    return
            left[me] = seq
            if waiting:
                plane.leave(me, seq)
            # What came with them must not outlive its registers while the worker is idle.
            command = function = arguments = value = _NOTHING

    def _sleep(self, get: Get) -> Message:
        """The next command, which is not there yet."""
        self.idle.start()
        command = get(True)
        self.idle.stop()
        return command

    def _odd(self, lane: Lane, command: Command, error: BaseException, value: Any) -> bool:
        """A call that did not end well, or turned out not to be ordinary; False ends the loop."""
        if type(error) is not _Rare:
            return self._settle(lane, command, error, value)
        return self._unclaim(lane) and self._rare(lane, command)

    def _unclaim(self, lane: Lane) -> bool:
        """Give the claim on a command back that is to be taken up again; False if this lane was abandoned."""
        try:
            lane.running.pop()
        except IndexError:
            with self.mutex:
                lane.end()
        return not lane.abandoned

    def _kill(self, lane: Lane, command: Command) -> bool:
        """Drop registers before a command begins; False if this lane was abandoned."""
        lane.running.append(command)
        try:
            self.registers.kill(command.kills)
        except WorkerInterrupt:  # it ends a finalizer; whether the command is to begin is seen when it does
            return self._unclaim(lane) and self._kill(lane, command)
        return self._unclaim(lane)

    def _let_go(self, lane: Lane, command: Command) -> bool:
        """Let go of what a command has replaced, in a claim as `_kill`: a finalizer may block."""
        lane.running.append(command)
        try:
            self.interpreter.replaced.clear()
        except WorkerInterrupt:
            return self._unclaim(lane) and self._let_go(lane, command)
        return self._unclaim(lane)

    def _rare(self, lane: Lane, command: Command) -> bool:
        """Everything that is no ordinary call; False ends the loop."""
        if command.kills and not self._kill(lane, command):
            return False
        step: Any = self.interpreter.feed(command)
        if self.interpreter.replaced and not self._let_go(lane, command):
            return False
        if step is STOP:
            self.plane.leave(self.id, command.seq)
            return False
        if step is SKIP:
            for event in self.interpreter.events:
                self.deliver(event)
            self.plane.leave(self.id, command.seq, self.interpreter.origin)
        elif step is EXECUTE:
            return self._execute(lane, command)
        elif step is not None:
            self.deliver(step)
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
        if not self.plane.mail[self.id] or self._has_read_all(command):
            self._complete(command, value)
        return True

    def _complete(self, command: Command, value: Any) -> None:
        event = self.interpreter.finish(command, value)
        self.scopes.pop(command.seq, None)
        # Before anybody is told that the command is over; as in `serve`.
        self.plane.left[self.id] = command.seq
        if self.plane.waiting:
            self.plane.leave(self.id, command.seq)
        if event is not None:
            self.deliver(event)

    def _run_cell(self, command: Run) -> CellValue:
        scope, context = self.scopes.get(command.seq, (None, None))
        if context is None:
            value = self.cells(command.cell, scope)
        else:
            value = context.run(self.cells, command.cell, scope)
        self._check_mail(command)
        return value

    def _check_mail(self, command: Command) -> None:
        unread = self.plane.unread(self.id, command.seq)
        if unread:
            raise PlaneMismatch(f"worker {self.id} finished without receiving {'; '.join(unread)}")

    def _has_read_all(self, command: Command) -> bool:
        """Whether a call that returned has received all messages sent to it; otherwise it has failed."""
        try:
            self._check_mail(command)
        except PlaneMismatch as error:
            self.fail(command, error)
            return False
        return True

    def _settle(self, lane: Lane, command: Command, error: BaseException, value: Any) -> bool:
        """End a command that did not end by itself; False if this lane was abandoned meanwhile."""
        failure: Failure | None = None
        if value is _NOTHING and lane.interrupted is None:
            try:  # while the claim stands: telling an error runs its __str__, which may block
                failure = self.failure(command, error)
            except WorkerInterrupt as struck:
                error = struck
        with self.mutex:
            interrupted = lane.end()
            if lane.abandoned:
                return False
        if value is not _NOTHING and not interrupted:
            # Step 2 without step 3: interrupt took the command out, saw that it was not meant, let it be.
            self._complete(command, value)
            return True
        self.registers.kill(command.kills)  # what struck may have struck there
        if interrupted and not issubclass(type(error), WorkerInterrupt):
            # Whatever came out of interrupted code, a cancelled await for instance, came out because of it.
            error, failure = WorkerInterrupt().with_traceback(traceback_of(error)), None
        self.fail(command, error, failure)
        return True

    def fail(self, command: Command, error: BaseException, failure: Failure | None = None) -> None:
        """End `command` with `error`: poison its register, tell the plane and the controller."""
        failure = failure or self.failure(command, error)
        elapsed_s, self.cells.failed_after_s = self.cells.failed_after_s, 0.0
        event = self.interpreter.fail(command, failure, elapsed_s)
        self.scopes.pop(command.seq, None)
        self.plane.leave(self.id, command.seq, failure)
        self.deliver(event)

    def failure(self, command: Command, error: BaseException) -> Failure:
        """What `error` means on this worker, with the user's own frames only."""
        return failure_of(self.id, command.seq, self.interpreter.describe(command), error)

    def dispose(self) -> None:
        """Let go of all registers and of the namespace's module."""
        drop_namespace(self.context, self.cells.namespace)
        self.registers.names.clear()
        self.registers.values.clear()
        self.registers.poisons.clear()
