"""The ordered lane of a worker: executes one command after the other, and survives all of them.

Guarantees
  * No lock is held while user code runs, and the path of an ordinary call takes no lock at all.
  * An exception is injected only into the command it is meant for, and never inside a plane call.
  * Whatever user code raises ends its command, not the worker.

`lane.py` explains how a command and an interrupt agree; "step" below means a step there.
"""

from __future__ import annotations

import threading
from functools import partial
from queue import Empty, SimpleQueue
from time import perf_counter
from typing import TYPE_CHECKING, Any

from disco_magic.core.interpreter import EXECUTE, SKIP, STOP, Interpreter
from disco_magic.core.messages import full
from disco_magic.core.recorded import ASLEEP
from disco_magic.core.registers import RegisterFile
from disco_magic.devices.events import lost_gpus_ignored
from disco_magic.errors import Interrupted, WorkerInterrupt
from disco_magic.functions.context import WorkerContext, enter_worker
from disco_magic.functions.execution.running import CellRunner
from disco_magic.functions.execution.worker_namespace import new_namespace
from disco_magic.functions.places import HOST_PLACE
from disco_magic.isolation.pytorch.compiler import clear_names
from disco_magic.recorder import SHORT_S
from disco_magic.threads.locks import new_rlock
from disco_magic.threads.stopwatch import Stopwatch
from disco_magic.workers.ending import NOTHING, Ending
from disco_magic.workers.lane import Lane, PlaneGuard, Withdrawals

if TYPE_CHECKING:
    import contextvars
    from collections.abc import Callable, Mapping

    from disco_magic.core.interfaces import Plane
    from disco_magic.core.messages import Command, Event, Message, Run
    from disco_magic.core.place import Place
    from disco_magic.core.topology import Topology
    from disco_magic.functions.execution.running import CellScope, CellValue

    # A queue's get; with False it does not wait, and may raise Empty.
    Get = Callable[[bool], Message]
    Extras = Callable[[WorkerContext], Mapping[str, Any]]


class _Rare(Exception):
    """An operand has no value."""


_EMPTY: SimpleQueue[Message] = SimpleQueue()


class Serving(Ending):
    """The ordered half of a `Worker`.

    Args:
        worker: its id.
        topology, plane, session_id: shown by its context.
        deliver: takes the worker's events; called from the worker's thread.
        extras: returns names the front end adds behind the namespace.
        place: where its arrays are.

    Attributes:
        lane: the hold of the thread that serves; replaced by `abandon`.
        mutex: guards what `lane.py` says; reentrant, for finalizers. Taken by threads that inject, and at
            both ends of a plane call.
        guard: shields plane calls.
        skip_through: commands up to this number fail instead of beginning; only ever raised, by any thread.
        withdrawals: single cells that fail instead of beginning.
        scopes: cell -> where it runs, written before the cell is sent; without a context once it has begun.
        alive, idle: seconds since the first thread began, and without a command; started by that thread.
        recorder: what it did and when; the context's; replaced by `abandon`.
        plane, deliver: the data plane; takes events.
        context, cells, registers, interpreter: the parts of the worker; used by its own thread only.
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
        place: Place = HOST_PLACE,
    ) -> None:
        self.id = worker
        self.lane = Lane()
        self.skip_through = 0
        self.withdrawals = Withdrawals()
        self.scopes: dict[int, tuple[CellScope, contextvars.Context | None]] = {}
        self.mutex = new_rlock()
        self.guard = PlaneGuard(self)
        self.alive, self.idle = Stopwatch(), Stopwatch()
        self.plane = plane
        self.deliver = deliver
        self.context = WorkerContext(worker, topology, plane, self.guard, session_id=session_id, place=place)
        self.recorder = self.context.recorder
        names = new_namespace(self.context, extras(self.context) if extras else {})
        self.cells = CellRunner(self.context, names, self)
        self.registers = RegisterFile(names, self.context.marks.names)
        reach = None if place is HOST_PLACE else place.finish  # on the host nothing is queued
        self.interpreter = Interpreter(
            worker, self.registers, copy=place.adopt, run=self._run_cell, take=place.take, reach=reach
        )

    def run(self, lane: Lane, get: Get) -> None:
        """Serve until Stop, then release everything; or until this lane is abandoned."""
        lane.thread_id = threading.get_ident()
        if not self.alive.is_running:
            self.alive.start()
        with lost_gpus_ignored():  # each command says it, and values on the host can still be fetched
            enter_worker(self.context)
        self.registers.kill(lane.left_over)
        self.recorder.begin(max(0, self.plane.left[self.id]) + 1)
        while True:
            try:
                self.serve(lane, get)
                break
            except WorkerInterrupt as late:
                if not self._end_struck(lane, late):
                    break
        if not lane.abandoned:
            self.recorder.end()
            self.dispose()

    def serve(self, lane: Lane, get: Get) -> None:  # noqa: C901, PLR0912, PLR0915 - see there
        """The loop, with the ordinary call written out: its cost is the cost of every command.

        What `Interpreter` does with a call whose operands all have values is done here without it, in two
        thirds of the time; all other commands go to the interpreter. The worker's tests send each of their
        calls both ways.
        """
        values, poisons, kill = self.registers.values, self.registers.poisons, self.registers.kill
        running = lane.running
        plane, me = self.plane, self.id
        left, waiting, mail = plane.left, plane.waiting, plane.mail[me]
        command: Any
        function: Any
        arguments: Any
        value: Any
        command = function = arguments = value = NOTHING
        receive = get
        while True:
            try:
                command = get(False)
            except Empty:
                get = receive
                command = self._sleep(receive)
            if type(command) is tuple:
                seq, dest, function, arguments, refs, kills = command
                running.append(command)
                try:
                    if kills:  # within the claim: a finalizer that runs as a register dies may block
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
                        raise WorkerInterrupt.at(Interrupted.SKIPPED)  # noqa: TRY301 - one way out
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
                if self._answer is not None:
                    get = _EMPTY.get  # lead to `_sleep`, which sends the answer
            left[me] = seq
            if waiting:
                plane.leave(me, seq)
            # Operands must not outlive their registers while the worker is idle.
            command = function = arguments = value = NOTHING

    def _sleep(self, get: Get) -> Message:
        """Return the next command, which is not there yet, or only just.

        A waiting caller gets its answer last. It wakes at once, and could not go on while this thread still
        had something to do: this way a sync of four workers takes 58 us, the other way round 70.
        """
        recorder, now = self.recorder, perf_counter()
        if now - recorder.spell[0] >= SHORT_S:
            recorder.rests(now, self.plane.left[self.id], self.interpreter.describe)
        recorder.spell = ASLEEP  # releases the function that was called, whose finalizer may take long
        self.idle.start()  # not before: it says that the worker has done everything
        self._give_answer()
        command = get(True)
        called = command[2] if type(command) is tuple else None
        recorder.spell = self.idle.stop(), command[0], called, recorder.quiet
        return command

    def _odd(self, lane: Lane, command: Command, error: BaseException, value: Any) -> bool:
        """End a call that failed, or execute one that is not ordinary after all; False ends the loop."""
        if type(error) is not _Rare:
            return self._settle(lane, command, error, value)
        return self._unclaim(lane) and self._rare(lane, command)

    def _unclaim(self, lane: Lane) -> bool:
        """Withdraw the claim on a command that is to be taken up again; False if this lane was abandoned."""
        try:
            lane.running.pop()
        except IndexError:
            with self.mutex:
                lane.end()
        return not lane.abandoned

    def _release(self, lane: Lane, command: Command, release: Callable[[], None]) -> bool:
        """Release values within a claim, because a finalizer may block; False if this lane was abandoned."""
        lane.running.append(command)
        try:
            release()
        except WorkerInterrupt:  # it ended a finalizer; whether the command may begin is checked when it does
            return self._unclaim(lane) and self._release(lane, command, release)
        return self._unclaim(lane)

    def _rare(self, lane: Lane, command: Command) -> bool:
        """Handle everything that is no ordinary call; False ends the loop."""
        if command.kills and not self._release(lane, command, partial(self.registers.kill, command.kills)):
            return False
        step: Any = self.interpreter.feed(command)
        if self.interpreter.replaced and not self._release(lane, command, self.interpreter.replaced.clear):
            return False
        if step is EXECUTE:
            return self._execute(lane, command)
        self.recorder.passes(command, self.interpreter.describe)
        if step is STOP:
            self.plane.leave(self.id, command.seq)
            return False
        if step is SKIP:
            events, origin = self.interpreter.inherited()
            for event in events:
                self.deliver(event)
            self.plane.leave(self.id, command.seq, origin)
        else:
            self._answer = step
        return True

    def _execute(self, lane: Lane, command: Command) -> bool:
        """Execute any other command that runs user code, as `serve`, written out, does for ordinary calls."""
        value: Any = NOTHING
        lane.running.append(command)
        try:
            self.recorder.opens(command, self.interpreter.describe)
            self.withdrawals.begin(command.seq)
            if command.seq <= self.skip_through:
                raise WorkerInterrupt.at(Interrupted.SKIPPED)  # noqa: TRY301 - one way out
            value = self.interpreter.function(*self.interpreter.arguments)
            lane.running.pop()
        except BaseException as error:  # noqa: BLE001 - a worker survives whatever user code raises
            return self._settle(lane, command, error, value)
        if not self.plane.mail[self.id] or self._has_read_all(command):
            self._complete(command, value)
        return True

    def _run_cell(self, command: Run) -> CellValue:
        scope, context = self.scopes.get(command.seq, (None, None))
        if scope is not None:
            self.scopes[command.seq] = scope, None
        cell = command.cell
        value = self.cells(cell, scope) if context is None else context.run(self.cells, cell, scope)
        if self.plane.mail[self.id]:
            self._check_mail(command)
        return value

    def dispose(self) -> None:
        """Release all registers, and what cells have bound."""
        self.cells.end()
        clear_names(self.registers.names)
        self.registers.clear()
