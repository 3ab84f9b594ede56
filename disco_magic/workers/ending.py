"""How a worker's command ends: what it leaves in registers, and who is told.

The order is: the worker's own record, the plane (workers that wait there for this one), the controller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.tracebacks import traceback_of
from disco_magic.core.messages import Call, Failed, Sync
from disco_magic.core.registers import Poison
from disco_magic.errors import PlaneMismatch, WorkerInterrupt
from disco_magic.functions.context import VERBS
from disco_magic.functions.execution.forked import end_fork
from disco_magic.functions.places import HOST_PLACE
from disco_magic.values.operands import failure_of
from disco_magic.workers.kept_locks import give_back_locks

if TYPE_CHECKING:
    import contextvars
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from disco_magic.core.interfaces import Plane
    from disco_magic.core.interpreter import Interpreter
    from disco_magic.core.messages import Command, Event
    from disco_magic.core.registers import RegisterFile
    from disco_magic.errors import Failure
    from disco_magic.functions.context import WorkerContext
    from disco_magic.functions.execution.running import CellRunner, CellScope
    from disco_magic.recorder import Recorder
    from disco_magic.workers.lane import Lane

# Names that cells have, and what gives the same in functions that are called.
_OF_CELLS: Final = {
    **{verb: f"disco_magic.worker().{verb}" for verb in (*VERBS, "num_workers", "xp")},
    "worker": "disco_magic.worker()",
    "worker_id": "disco_magic.worker().id",
}
NOTHING: Final = object()
"""The value of a command that has no value yet."""


class Ending:
    """The ends of commands; mixed into `Serving`, which has these attributes."""

    id: int
    lane: Lane
    mutex: AbstractContextManager[object]
    plane: Plane
    deliver: Callable[[Event], None]
    scopes: dict[int, tuple[CellScope, contextvars.Context | None]]
    recorder: Recorder
    context: WorkerContext
    cells: CellRunner
    registers: RegisterFile
    interpreter: Interpreter
    _answer: Event | None = None  # to the previous command, not sent yet

    def _give_answer(self) -> None:
        """Send the answer kept for the moment in which the worker has nothing to do."""
        if self.lane.forked:
            end_fork()
        answer = self._answer
        if answer is not None:
            self._answer = None
            self.deliver(answer)

    def _complete(self, command: Command, value: Any) -> None:
        self.recorder.closes(command, self.interpreter.describe)
        if self.context.place is not HOST_PLACE:
            self._drop_incomplete(command)  # whatever became of the error that reported it
        event = self.interpreter.finish(command, value)
        self.scopes.pop(command.seq, None)
        # Before the end of the command is reported; as in `serve`.
        self.plane.left[self.id] = command.seq
        if self.plane.waiting:
            self.plane.leave(self.id, command.seq)
        if event is not None:
            self.deliver(event)

    def _check_mail(self, command: Command) -> None:
        unread = self.plane.unread(self.id, command.seq)
        if unread:
            asked = self.context._unwaited(command.seq)  # noqa: SLF001 - no verb, and for nobody else
            missing = asked or f" - each send needs a recv on worker {self.id} in the same command"
            raise PlaneMismatch(f"worker {self.id} finished without receiving {'; '.join(unread)}{missing}")

    def _has_read_all(self, command: Command) -> bool:
        """Whether a call that returned has received all messages sent to it; if not, it has failed."""
        try:
            self._check_mail(command)
        except PlaneMismatch as error:
            self.fail(command, error)
            return False
        return True

    def _settle(self, lane: Lane, command: Command, error: BaseException, value: Any) -> bool:
        """End a command that did not end by itself; False if this lane was abandoned meanwhile."""
        failure: Failure | None = None
        if lane.forked:
            end_fork(error)
        if value is NOTHING and lane.interrupted is None:
            try:  # within the claim, because formatting an error runs its __str__, which may block
                failure = self.failure(command, error)
            except WorkerInterrupt as struck:
                error = struck
        with self.mutex:
            interrupted = lane.end()
        if interrupted:
            give_back_locks()
        if lane.abandoned:
            return False
        try:
            self.context.place.enter()  # the command may have made another stream or device current
        except Exception as late:  # noqa: BLE001 - a lost GPU is reported with the failure
            error.__context__ = error.__context__ or late
        if value is not NOTHING and not interrupted:
            # Step 2 without step 3: an interrupt took the command, saw that it was not meant, put it back.
            self._complete(command, value)
            return True
        self.registers.kill(command.kills)  # may have been interrupted before
        if interrupted and not issubclass(type(error), WorkerInterrupt):
            # Whatever interrupted code raises, a cancelled await for instance, is due to the interrupt.
            error, failure = WorkerInterrupt().with_traceback(traceback_of(error)), None
        self.fail(command, error, failure)
        return True

    def _end_struck(self, lane: Lane, late: WorkerInterrupt) -> bool:
        """Step 4 of `lane.py`: end a command that was struck outside of `serve`; False as in `_settle`.

        Only an injection raises there: what user code raises is caught in `serve`.
        """
        error = late.__context__ or late  # the exception that was being handled when it struck
        while (command := lane.interrupted) is not None:
            try:
                return self._settle(lane, command, error, NOTHING)
            except WorkerInterrupt:  # the next interrupt of the same stop, if the machine is so busy
                continue
        return True

    def fail(self, command: Command, error: BaseException, failure: Failure | None = None) -> None:
        """End `command` with `error`: poison its register, tell the plane and the controller."""
        failure = failure or self.failure(command, error)
        elapsed_s, self.cells.failed_after_s = self.cells.failed_after_s, 0.0
        event = self.interpreter.fail(command, failure, elapsed_s)
        scope, unused = self.scopes.pop(command.seq, (None, None))
        if scope is not None and unused is not None:
            scope.skipped(self.id)
        self.recorder.fails(command, failure.summary, self.interpreter.describe)
        self.plane.leave(self.id, command.seq, failure)
        self._drop_incomplete(command)  # also what the plane gave up just now because of an interrupt
        if isinstance(command, Sync) and self.context.place is not HOST_PLACE:
            # Its wait was ended, so not all is done; or what it waited for has failed.
            self.deliver(Failed(self.id, command.seq, failure))
        self.deliver(event)

    def _drop_incomplete(self, command: Command) -> None:
        """Make arrays unreadable that earlier calls were to fill and left incomplete."""
        registers = self.registers
        for array, is_new, why in self.context.place.incomplete():
            poison = Poison(self.failure(command, why), reported=True)
            for register in [key for key, value in registers.values.copy().items() if value is array]:
                registers.poison(register, poison)
            # Names cannot be poisoned. One that the caller passed as `out` stays, whatever it contains.
            for name in [key for key, value in dict(registers.names).items() if value is array and is_new]:
                registers.drop(name)

    def failure(self, command: Command, error: BaseException) -> Failure:
        """The `Failure` for `error` on this worker, without the runtime's frames."""
        if type(command) is Call and type(error) is NameError and error.name in _OF_CELLS:
            instead = _OF_CELLS[error.name]
            error.add_note(f"only cells have the name {error.name}; a function that is called uses {instead}")
        self.context.place.explain(error)
        return failure_of(self.id, command.seq, self.interpreter.describe(command), error)
