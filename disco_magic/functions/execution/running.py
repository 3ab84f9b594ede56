"""Executes cells on one worker, in its namespace.

An interrupt may strike where a ``with`` block begins or ends. So a stopped cell restores what it has found of
state that is changed for a while; if its thread is given up, the successor does, and nothing that the old
thread still does changes that.
"""

from __future__ import annotations

import inspect
import os
import sys
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from disco_magic.callers.current import is_given_up
from disco_magic.callers.per_worker import restore_settings, settings_now
from disco_magic.callers.sites import led_by
from disco_magic.errors import Interrupted, WorkerInterrupt, interrupted_at
from disco_magic.functions.context import WorkerContext, enter_worker
from disco_magic.functions.execution.awaits import Await
from disco_magic.functions.execution.bindings import Watch
from disco_magic.functions.execution.forked import end_if_forked
from disco_magic.functions.execution.program_runs import ProgramRun
from disco_magic.functions.execution.worker_namespace import drop_namespace
from disco_magic.isolation.lasting import LastingVariables
from disco_magic.isolation.own_functions import with_own_code
from disco_magic.isolation.own_streams import OwnStreams, end_all
from disco_magic.isolation.own_warnings import filters_restored
from disco_magic.isolation.pytorch.losses import leave_losses
from disco_magic.isolation.pytorch.modes import modes_now, restore_modes
from disco_magic.isolation.pytorch.switches import restore_switches, switches_now
from disco_magic.isolation.streams import own_streams
from disco_magic.values.alike import digest_of_result

if TYPE_CHECKING:
    import contextvars
    import types
    from collections.abc import Callable, Mapping

    from disco_magic.functions.execution.awaits import Holder
    from disco_magic.functions.execution.cells import Cell


@dataclass(frozen=True, slots=True)
class CellValue:
    """How a cell ended on one worker.

    Attributes:
        value, shown, digest: its last value, the rendering of that, and its `digest_of_result`.
        elapsed_s: seconds taken.
        caught: the collective that failed although the cell went on; else "".
    """

    value: Any
    shown: Mapping[str, Any] | None
    digest: bytes
    elapsed_s: float
    caught: str = ""


class CellScope(Protocol):
    """What a front end adds to the execution of a cell: where output goes, how a value is shown."""

    @property
    def stdout(self) -> Mapping[int, str]:
        """Text written per worker."""

    def context(self, worker: int) -> contextvars.Context:
        """The context variables that the cell runs with, or an object with their `run`.

        Called once per worker, in the thread that submits the cell.
        """

    def render(self, value: Any) -> Mapping[str, Any]:
        """The last value as MIME type -> data; called on the worker, in the cell's context."""

    def ended(self, worker: int) -> None:
        """Called when the cell is over on `worker`; on the worker, in the cell's context."""

    def skipped(self, worker: int) -> None:
        """Called instead if `worker` does not begin the cell; on the worker, in its own context."""

    def abandoned(self, worker: int) -> None:
        """Called when the thread of `worker` is stuck and was replaced; later output is not the cell's."""


def text_of(value: Any) -> str:
    """The text with which a cell shows a value: its repr; of a NumPy scalar the number, without its type."""
    return str(value) if isinstance(value, np.generic) else repr(value)


class CellRunner:
    """Executes cells on one worker.

    Args:
        context, namespace: the worker's.
        holder: injects exceptions into its thread: the worker; None: there are no injections.

    Attributes:
        awaits: the running cell, if it awaits.
        cancel: ends an awaiting cell at once, from any thread; None while none awaits.
        started: when the running cell began, seconds of the performance counter; None while none runs.
        failed_after_s: how long the last failed cell took; reset to 0 by what reports it.
    """

    def __init__(
        self, context: WorkerContext, namespace: dict[str, Any], holder: Holder | None = None
    ) -> None:
        self.context = context
        self._holder = holder
        self.namespace = namespace
        self.cancel: Callable[[], object] | None = None
        self.awaits: Await | None = None
        self.started: float | None = None
        self.failed_after_s = 0.0
        self._variables = LastingVariables()
        self._streams = OwnStreams()
        self._streams_before: Mapping[str, Any] = {}
        self._found: AsFound | None = None  # what the running cell has found
        self._program: ProgramRun | None = None  # the last one
        # Restored for every cell: one that clears its globals() must not remove np and the verbs for good.
        self._fixed: dict[str, Any] = {
            name: namespace[name] for name in ("__builtins__", "__name__") if name in namespace
        }

    def succeed(self) -> CellRunner:
        """Return the runner for a thread that replaces this runner's thread."""
        if self._program is not None:
            self._program.end()  # the thread, which may be writing to its streams, will find it over
        self.context.rendezvous = False  # set for the cell, which ends with its thread
        heir = CellRunner(self.context, self.namespace, self._holder)
        heir._variables = self._variables.succeed()
        heir._streams.inherit(self._streams_before)  # streams that the stuck cell assigned go with it
        if self._found is not None:
            leave_losses(self.context)
            self._found.succeed()
        if self.started is not None:
            heir.failed_after_s = time.perf_counter() - self.started
        return heir

    def end(self) -> None:
        """Release what belongs to the worker, which has ended."""
        ended = self._streams.restore({})
        drop_namespace(self.context, self.namespace)
        end_all(ended)

    def __call__(self, cell: Cell, scope: CellScope | None) -> CellValue:
        """Execute a cell, in the scope's context; raise whatever it raises."""
        recorder, start = self.context.recorder, time.perf_counter()
        try:
            self._begin(cell, scope, start)
            value = self._followed(cell)
            self.context.place.finish()  # a failure on a GPU, and the time that it took, are this cell's
            shown, digest = None, b""
            if cell.last is not None:
                shown = self._shown(value, scope)
                digest = digest_of_result(value, shown)
            return CellValue(value, shown, digest, time.perf_counter() - start, recorder.broken)
        except BaseException as error:
            self.failed_after_s = time.perf_counter() - start
            self._give_back(error)
            raise
        finally:
            self._found = None
            recorder.led_by = None
            if not is_given_up():
                self.context.rendezvous = False
            try:
                if scope is not None:
                    try:
                        self._variables.end()
                    finally:
                        scope.ended(self.context.id)
                else:
                    self._variables.leave()
            finally:
                self.started = None  # last: what a front end still draws counts as part of the cell

    def _begin(self, cell: Cell, scope: CellScope | None, start: float) -> None:
        """Make the worker's thread ready for the code of a cell."""
        enter_worker(self.context)
        recorder = self.context.recorder
        recorder.broken, recorder.led_by = "", led_by if cell.watched else None
        own_streams.set(self._streams)
        self._streams_before = self._streams.now if self._streams.instead else {}
        self.started = start
        self._found = AsFound(self.context)
        self.namespace.update(self._fixed)
        self.context.rendezvous = cell.rendezvous
        if scope is not None:
            self._variables.begin()
        else:
            self._variables.take_over()
        if cell.before is not None:
            cell.before()

    def _shown(self, value: Any, scope: CellScope | None) -> Mapping[str, Any] | None:
        """The last value as it is shown; None shows nothing."""
        if value is None:  # as in IPython, where `_` keeps the last value that was shown
            return None
        self.namespace["_"] = value
        return scope.render(value) if scope is not None else {"text/plain": text_of(value)}

    def _give_back(self, error: BaseException) -> None:
        """After a cell that failed, restore what it has changed for a while."""
        is_mine = not is_given_up()  # else its successor restores it
        if is_mine:
            leave_losses(self.context)
        if not issubclass(type(error), WorkerInterrupt):
            return
        # Libraries assign a stream before they enter the `try` that restores the former one.
        end_all(self._streams.restore(self._streams_before))
        if is_mine and self._found is not None and interrupted_at(error) is not Interrupted.BETWEEN_STEPS:
            self._found.restore()

    def _followed(self, cell: Cell) -> Any:
        """Execute all of a cell; keep its marks and bound names up to date where they are wanted."""
        context = self.context
        if context.marks:
            context.marks.cell_begins()
        watch = Watch(self.namespace) if cell.watched else None
        if cell.program is None:
            value = self._evaluate(cell.codes)
        else:
            value = None
            self._program = ProgramRun(self.context, cell.program, self._streams)
            self._program.execute(partial(self._evaluate, cell.codes), self.namespace, self._holder)
        if context.marks:
            context.marks.cell_ended(cell.codes)
        if watch is not None:
            context.bound = watch.bound(cell.codes)
        return value

    def _evaluate(self, codes: list[types.CodeType]) -> Any:
        """Execute all of a cell; return the last expression's value."""
        codes, value, process = list(map(with_own_code, codes)), None, os.getpid()
        try:
            if any(map(_is_coroutine, codes)):
                value = self._await(codes)
            else:
                for code in codes:
                    value = eval(code, self.namespace)  # noqa: S307 - executing the user's cell is the purpose
        except BaseException as error:
            end_if_forked(process, error)
            raise
        end_if_forked(process)
        return value

    def _await(self, codes: list[types.CodeType]) -> Any:
        cell = Await(codes, self.namespace, self._holder)
        self.awaits, self.cancel = cell, cell.cancel
        try:
            value = cell.run()
        finally:
            self.awaits = self.cancel = None
        if cell.requests:
            raise WorkerInterrupt("interrupted in an await")
        return value


def _is_coroutine(code: types.CodeType) -> bool:
    return bool(code.co_flags & inspect.CO_COROUTINE)


class AsFound:
    """A snapshot of PyTorch's switches, own values and modes, and of the filters of warnings.

    Args:
        me: the worker, whose own thread takes it. Costs 5 us.
    """

    def __init__(self, me: WorkerContext) -> None:
        self._me, self._settings = me, settings_now(me, passing=True)
        is_loaded = "torch" in sys.modules
        self._switches = switches_now(me, lasting=False) if is_loaded else {}
        self._modes = modes_now() if is_loaded else None

    def restore(self) -> None:
        """Restore the state, in the same thread."""
        self.succeed()
        restore_modes(self._modes)

    def succeed(self) -> None:
        """Restore the state in a thread that replaces the original one; not modes, which are per thread."""
        restore_switches(self._me, self._switches)
        has_changed = settings_now(self._me, passing=True) != self._settings
        restore_settings(self._me, self._settings)
        if has_changed:
            filters_restored()
