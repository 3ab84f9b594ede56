"""The handle of a running cell: ``%%disco --nowait`` returns one; every cell is waited for through one."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, cast
from weakref import WeakSet, ref

from disco_magic.errors import DiscoError, SessionClosed, SyncTimeout, WorkerError, WorkerInterrupt, is_by
from disco_magic.errors.summaries import grouped
from disco_magic.notebook.later import LATER
from disco_magic.notebook.output.arrival import looking_at
from disco_magic.notebook.output.outlet import Outlet
from disco_magic.notebook.tables.results import shown_bundle
from disco_magic.notebook.tables.standing import Standings, standing_of
from disco_magic.notebook.tracebacks import dress
from disco_magic.offers import Offers
from disco_magic.phrases import people, who_has
from disco_magic.session.results import HasResult
from disco_magic.threads.locks import new_rlock

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from typing import Any

    from disco_magic.errors import Failure
    from disco_magic.notebook.output.scope import NotebookScope
    from disco_magic.notebook.shell import Shell
    from disco_magic.session.arguments import Limit
    from disco_magic.session.pending import PendingCell
    from disco_magic.session.results import CellResult
    from disco_magic.session.session import Session

# With "Run all" the next cell may wait for the handle; until then this cell should show no complaint.
_ASKED_WITHIN_S: Final = 1.0
# Weak, to keep neither handles nor what their errors refer to. The console keeps the cells that run.
_handles: WeakSet[CellHandle] = WeakSet()
# Another thread may send a cell during an iteration. Reentrant, because a finalizer may run during one.
_handles_lock = new_rlock()


class CellHandle(HasResult, Offers):
    """A running cell. Its output goes to the notebook cell that started it, even after that has ended.

    You need not keep the handle: the cell runs anyway, and a second after its end its value or its failure is
    shown in its output, unless you have asked before. Await the handle in a cell or in any asyncio code for
    what `wait` returns and raises; cancelling that await stops the cell.

    Attributes:
        pending: the session's own handle.
        sent_s: when it was sent, on the performance counter.
    """

    _not_offered = frozenset(
        {"asked", "failures_unasked", "finished", "is_told", "offer_value", "pending", "report"}
        | {"report_soon", "sent_s"}
    )

    def __init__(self, shell: Shell, pending: PendingCell, scope: NotebookScope, *, asked: bool) -> None:
        self.pending = pending
        self.sent_s = time.perf_counter()
        self._waits: list[object] = []  # marks of those in progress
        self._is_about_to_wait = asked
        self._was_asked = self._was_reported = self._has_told_caught = False
        self._sent_in = None if asked else shell.execution_count  # the cell that shows the handle
        self._shell, self._scope = shell, scope
        with _handles_lock:
            _handles.add(self)

    def wait(
        self,
        timeout: float | Limit | None = None,
        *,
        on_look: Callable[[], None] | None = None,
        stop: bool = False,
    ) -> CellResult:
        """Wait for the cell and return its result.

        Args:
            timeout: seconds; a cell that takes longer goes on, and can be waited for again. None: the
                session's `timeout`, or as long as it takes.
            on_look: called ten times a second; None: see `looking_at`.
            stop: True stops a cell that takes longer, and nothing before it.

        Raises:
            SyncTimeout: a TimeoutError that says who is where: `timeout` ran out.
            CellError, KeyboardInterrupt: the cell's own error, as without ``--nowait``. Like the SyncTimeout
                of a cell that was stopped, it has the attribute `result`: a `CellResult` of what there is, or
                None.
            SessionClosed: the cell was stopped because its session was shut down or restarted.
        """
        look = None
        try:
            with self._asking() as look:
                result = self.pending.wait(timeout, on_look=on_look or look, stop=stop)
        except (DiscoError, KeyboardInterrupt) as error:
            shell, shown = self._shell, [self._told_apart(error)]
            # error -> traceback -> this frame -> handle or look -> error would keep the cell's arrays
            del self, on_look, look
            raise dress(shell, shown.pop())  # noqa: B904 - the same exception, made presentable
        self._tell_caught(result)
        return result

    @contextmanager
    def _asking(self) -> Iterator[Callable[[], None]]:
        """In the ``with`` block, wait for the cell: its outcome is not reported meanwhile."""
        self._waits.append(mark := object())
        self._is_about_to_wait = False
        try:
            with self._scope.page.waited_for(), looking_at(self.pending, self._scope.page) as look:
                yield look
        finally:
            # Not `done`: it may end just after its time was up, and then nobody has been told.
            self._was_asked |= self.pending.outcome is not None
            self._waits.remove(mark)
            if not (self._was_asked or self._scope.page.running):  # its end was not reported: this waited
                self.report_soon()

    def _tell_caught(self, result: CellResult) -> None:
        """Report once that a collective failed and the cell went on, so that numbers may be wrong."""
        told = result.caught_by() if result.caught and not self._has_told_caught else {}
        self._has_told_caught = True
        for words, workers in told.items():
            self._scope.page.note(workers, [f"caught {words}"])

    def __await__(self) -> Generator[Any, None, CellResult]:
        return self._awaited().__await__()

    def result(self, timeout: float | None = None) -> CellResult:
        """The same as `wait`, under the name that futures have for it."""
        try:
            return self.wait(timeout)
        finally:
            del self  # as in `wait`

    async def _awaited(self) -> CellResult:
        import asyncio

        from disco_magic.session.awaiting import awaited

        task, look = asyncio.current_task(), None
        try:
            with self._asking() as look:
                return await awaited(self.pending, self.wait, look)
        except SyncTimeout as late:
            raise dress(self._shell, late) from None
        except KeyboardInterrupt as stopped:
            # IPython shows it where it executes a cell; raised by another task, it would end the event loop
            # and with it the kernel.
            running = getattr(task.get_coro(), "cr_code", None) if task is not None else None
            if running is type(self._shell).run_cell_async.__code__:
                raise
            raise dress(self._shell, asyncio.CancelledError(str(stopped))) from None
        finally:
            del self, look  # as in `wait`

    def done(self) -> bool:
        """Whether every worker has ended the cell, successfully or not."""
        return self.pending.done()

    def cancel(self) -> None:
        """Stop the cell on all its workers and wait until it has ended; does nothing if it has.

        Workers that have not begun the cell skip it, and what was sent before goes on. `wait` then raises a
        CellError that says that the cell was cancelled.
        """
        self._was_asked = True
        self.pending.cancel()

    @property
    def stdout(self) -> dict[int, str]:
        """Worker -> its output so far."""
        return dict(self._scope.stdout)

    def show(self) -> None:
        """Print the output so far in the current cell, worker by worker, equal text once.

        Text only, no displays.
        """
        outlet = Outlet(sys.stdout, self.pending.session.num_workers)
        for text, workers in who_has(self.stdout.items()).items():
            if text:
                outlet.lines(workers, text.removesuffix("\n").split("\n"))

    @property
    def finished(self) -> frozenset[int]:
        """The workers that have ended the cell."""
        return self._scope.page.finished

    @property
    def error(self) -> BaseException | None:
        """The error that `wait` raises; None if there is none or the cell has not ended."""
        outcome = self.pending.outcome
        return self._told_apart(outcome) if isinstance(outcome, BaseException) else None

    def _told_apart(self, error: BaseException) -> BaseException:
        """`error`, or a `SessionClosed` if the cell failed only because its session ended."""
        if not isinstance(error, WorkerError) or not self.pending.is_ended_by_session:
            return error
        if not all(is_by(failure, WorkerInterrupt) for failure in error.failures.values()):
            return error
        session = self.pending.session
        ended = SessionClosed(
            f"{self.pending.label} was stopped on {people(tuple(error.failures))}: session {session.id} was "
            f"{'shut down' if session.closed else 'restarted'}"
        )
        ended.result = getattr(error, "result", None)  # type: ignore[attr-defined]  # as all errors of a cell that was stopped have it
        return ended

    def failures_unasked(self, session: Session) -> list[Failure]:
        """The failures of the cell, if it is of `session` and nothing has asked; this counts as asking."""
        if self.asked or self.pending.session is not session:
            return []
        failures = self.pending.failures() or []
        self._was_asked |= bool(failures)
        return failures

    def report_soon(self) -> None:
        """Call `report` after a while, unless the outcome is asked for before."""
        if not self.asked:
            LATER.call(_ASKED_WITHIN_S, partial(_report, ref(self)))

    @property
    def asked(self) -> bool:
        """Whether the outcome has been asked for, is being waited for, or is about to be."""
        return self._was_asked or self._is_about_to_wait or bool(self._waits)

    @property
    def is_told(self) -> bool:
        """Whether the outcome is known: it was asked for or reported."""
        return self._was_reported or self.asked

    def report(self) -> None:
        """Show the cell's value or failure in its own output, unless the outcome was asked for."""
        if not self.done() or self._scope.page.is_gone:
            return
        error = self.error
        with self._scope.page.lock:  # who else reports, or offers the value, comes before or after
            if not self.is_told:
                self._was_reported = True
                self.pending.heard()
                self._report(error)

    def _report(self, error: BaseException | None) -> None:
        if (place := self._scope.page.afterwards) is not None:
            place.value = {}  # what was offered
        workers, note = self.pending.workers, self._scope.page.note
        if error is None:
            result = cast("CellResult", self.pending.outcome)
            self._tell_caught(result)
            if bundle := shown_bundle(result, self._scope.show):
                self._scope.page.publish(result.workers, bundle, {}, labelled=True)
            return
        if isinstance(error, WorkerError):
            workers = tuple(error.failures)
            for summary, failed in grouped(error.failures).items():
                note(failed, [summary])
        else:  # a worker or the session is gone: nothing failed, but there is no result either
            note(workers, f"{type(error).__name__}: {error}".splitlines())
        if not isinstance(error, SessionClosed):
            note(workers, ["failed after its cell; the handle's .wait() shows where"])

    def offer_value(self) -> None:
        """Where the output is collected, add the value until somebody asks for it: no time may be left."""
        place, result = self._scope.page.afterwards, self.pending.outcome
        if place is None or result is None or isinstance(result, BaseException):
            return
        with self._scope.page.lock:
            if not self.is_told:
                self._tell_caught(result)
                place.value = shown_bundle(result, self._scope.show)

    def __repr__(self) -> str:
        return f"<{standing_of(self).sentence}>"

    def _repr_mimebundle_(self, *_: object, **__: object) -> dict[str, str]:
        # The repr below the cell that sent it is read, and saved, long after this moment.
        if self._shell.execution_count == self._sent_in:
            return {"text/plain": f"<{self.pending.label} was sent to {people(self.pending.workers)}>"}
        return Standings("", (standing_of(self),))._repr_mimebundle_()


def _report(handle: ref[CellHandle]) -> None:
    if (alive := handle()) is None:
        return
    # Asked once: what ends between two questions would be reported by neither answer.
    if alive.done():
        alive.report()
    else:  # the last answers of the workers have not arrived
        alive.report_soon()


def handles_of(shell: Shell) -> list[CellHandle]:
    """The cells of a notebook that run, or whose handle is kept."""
    with _handles_lock:
        handles = list(_handles)
    return [handle for handle in handles if handle._shell is shell]  # noqa: SLF001 - its own
