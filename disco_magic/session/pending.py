"""The handle of a running cell: waits for it, stops it, and has its outcome."""

from __future__ import annotations

import weakref
from functools import partial
from queue import Empty
from typing import TYPE_CHECKING, Any

from disco_magic.callers.current import refuse_in_worker
from disco_magic.errors import SyncTimeout, WorkerError, WorkerInterrupt, is_told
from disco_magic.offers import Offers
from disco_magic.phrases import ranges
from disco_magic.session.failures import Unheard
from disco_magic.session.judging import Verdict
from disco_magic.session.pump import INTERRUPT, sigint_held_back, take
from disco_magic.session.results import CellResult, HasResult
from disco_magic.session.sigint import interrupt, sigint_to
from disco_magic.session.stop import SentCell, Stop, sentence, tell
from disco_magic.session.stopping import Stopping

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from disco_magic.core.doctor import Diagnosis
    from disco_magic.core.ledger import Expectation
    from disco_magic.errors import Failure
    from disco_magic.functions.execution.cells import Cell
    from disco_magic.functions.execution.running import CellScope
    from disco_magic.session.arguments import Limit
    from disco_magic.session.dref import DRef
    from disco_magic.session.pump import CellInbox
    from disco_magic.session.session import Session

__tracebackhide__ = is_told


class PendingCell(HasResult, Offers):
    """Handle of a running cell: wait for it, await it, cancel it.

    Attributes:
        seq: sequence number of its command.
        workers: ids of the workers it was sent to.
        label: ``Cell In[7]``.
        session: the session of the workers.
    """

    # `Verdict` and `Stopping` have no reference to this, because a cycle would keep it alive.
    _not_offered = frozenset(
        {"ending", "failures", "heard", "is_ended_by_session", "is_outlived", "note_late_sigint"}
        | {"session_ends", "spares", "stop_soon", "was_withdrawn"}
    )

    def __init__(
        self,
        session: Session,
        cell: Cell,
        *,
        seq: int,
        workers: tuple[int, ...],
        inbox: CellInbox,
        values: DRef,
        scope: CellScope | None,
    ) -> None:
        self.seq = seq
        self.workers = workers
        self.label = cell.label
        self.session = session
        # Made under the lock under which the cell is sent, so everything belongs to the same life.
        sent = SentCell(session, seq, self.label, workers, session.life, session.unheard, session.orphan)
        self._verdict = Verdict(sent, inbox, values, scope)
        self._stopping = Stopping(self._verdict)
        self._unraised = session.unraised
        note = Unheard(self, sent.orphan)
        note.seq, note.inbox = seq, inbox
        sent.unheard[seq] = note
        self._unraised[seq] = weakref.ref(self, partial(self._unraised.pop, seq))

    def __repr__(self) -> str:
        state = "done" if self.done() else "running"
        state = getattr(self.outcome, "stopped", "") or state
        return f"<{self.label} on workers {ranges(self.workers)}: {state}>"

    def done(self) -> bool:
        """Whether every worker has ended the cell, successfully or not."""
        if self._verdict.outcome is not None or self._verdict.inbox.empty():
            return self._verdict.outcome is not None
        with sigint_held_back():  # between taking an answer and noting it, Ctrl-C would lose the answer
            return self._verdict.look()

    @property
    def outcome(self) -> CellResult | BaseException | None:
        """What `wait` returns or raises; None until `done` or `wait` has seen the end of the cell."""
        return self._verdict.outcome

    def failures(self) -> list[Failure] | None:
        """What failed in the cell itself; None if it has not ended. Takes nothing away from waiters."""
        return self._verdict.failures()

    @property
    def is_outlived(self) -> bool:
        """Whether its session was shut down or restarted after the cell was sent."""
        return self._verdict.cell.is_outlived

    @property
    def is_ended_by_session(self) -> bool:
        """Whether it had not ended when its session was shut down or restarted."""
        return self.is_outlived and not self._verdict.is_before_end

    def session_ends(self) -> None:
        """Note whether it has ended by itself, before the session ends and that cannot be seen any more."""
        self._verdict.is_before_end |= self.failures() is not None

    def ending(self) -> str:
        """When it will end, in words, if it was asked to end between two steps; else ""."""
        last = self._verdict.stop.last_step
        return "" if last is None else f"ends after step {last:,} \u00b7 press again to stop at once"

    def spares(self, diagnosis: Diagnosis) -> list[str]:
        """See `Stopping.spares`."""
        return self._stopping.spares(diagnosis)

    @property
    def was_withdrawn(self) -> bool:
        """Whether it was stopped before any worker had begun it."""
        return self._verdict.stop.was_withdrawn

    def stop_soon(self) -> None:
        """Tell the waiting thread to stop the cell, as Ctrl-C does; from any thread, returns at once."""
        self._verdict.stop.why = Stop.interrupted  # even if another stop ends it before this one begins
        self._verdict.inbox.put(INTERRUPT)

    def cancel(self) -> None:
        """Stop the cell on all its workers and wait until they have; `wait` then raises CellError.

        The error says that it was cancelled. Workers that have not begun it skip it; earlier commands go on.

        Raises:
            KeyboardInterrupt: Ctrl-C came meanwhile; the cell was stopped all the same. A third one gives up
                waiting for threads that do not end.
        """
        if self.done():
            return
        self.session.check_present()
        self._unraised.pop(self.seq, None)  # the caller knows how it ended
        # Ctrl-C in this thread; the inbox also has those of other threads, and of cancelled awaits.
        pressed: list[bool] = []
        verdict, stop = self._verdict, self._verdict.stop

        def hear() -> None:
            pressed.append(True)
            verdict.inbox.put(INTERRUPT)

        stop.was_cancelled = True
        with sigint_to(hear):
            self._stopping.until_ended(self._stopping.withdraw)
            stop.struck |= verdict.take_sigint(lambda: pressed.append(True))
            if not verdict.ended:
                # Given up by Ctrl-C, it may still end, so nothing is said about the workers.
                kind = KeyboardInterrupt if stop.struck else SyncTimeout
                verdict.fail(kind(stop.sentence(verdict.ended)))
        if pressed:
            raise interrupt(stop.sentence(verdict.ended))

    def heard(self) -> None:
        """Note that the outcome was reported: nothing else has to raise or log it."""
        self._unraised.pop(self.seq, None)

    def wait(
        self,
        timeout: float | Limit | None = None,
        *,
        on_look: Callable[[], None] | None = None,
        stop: bool = False,
    ) -> CellResult:
        """Wait for the cell.

        The error of a cell that has ended or was stopped has the attribute `result`, a `CellResult` of what
        there is, or None. The SyncTimeout of a cell that goes on has none.

        Args:
            timeout: seconds; a cell that takes longer goes on, and can be waited for again. None: the
                session's `timeout`.
            stop: True stops a cell that takes longer, as `cancel` does.
            on_look: called after every `pump.LOOK_UP_S` seconds of waiting, by the waiting thread. It must
                not raise, and should be quick, because Ctrl-C is not heard meanwhile. None: a front end
                shows the wait.

        Raises:
            CellError: it failed on some worker (or a command before it did).
            SyncTimeout: `timeout` ran out; a TimeoutError that says what each worker is doing.
            KeyboardInterrupt: Ctrl-C or the stop button; the cell was stopped on all workers, and so were
                earlier calls. Earlier cells with handles go on.
        """
        if self._verdict.outcome is None:
            refuse_in_worker(self.session.id, "wait")
            if self.session.forsaken and not self.done():
                self.session.check_present()
            limit = self.session.patience(timeout)
            self._wait_attentively(limit, on_look, stop=stop)
            self.note_late_sigint()
        outcome = self._verdict.hand_over()
        self._unraised.pop(self.seq, None)
        if not isinstance(outcome, BaseException):
            try:
                outcome.tell_apart()
            except KeyboardInterrupt as struck:
                struck.result = outcome  # type: ignore[attr-defined]  # as all errors of a cell have it
                raise
            return outcome
        self._verdict.add_notes(outcome)
        try:
            raise outcome.with_traceback(None)  # the traceback would grow with every wait
        finally:
            del outcome, self  # error -> traceback -> this frame -> error would keep the cell's arrays

    def result(self, timeout: float | None = None) -> CellResult:
        """The same as `wait`, under the name that futures have for it."""
        return self.wait(timeout)

    def __await__(self) -> Generator[Any, None, CellResult]:
        """Await it for what `wait` returns and raises; cancelling the await stops the cell."""
        return self._awaited().__await__()

    async def _awaited(self) -> CellResult:
        import asyncio  # takes 30 ms, so only where it is needed

        from disco_magic.session.awaiting import awaited

        try:
            return await awaited(self, self.wait)
        except KeyboardInterrupt as stopped:  # out of a task it would end the event loop
            raise asyncio.CancelledError(str(stopped)) from None
        finally:
            del self  # error -> traceback -> this frame -> error would keep the cell's arrays

    def _wait_attentively(self, limit: Limit, on_look: Callable[[], None] | None, *, stop: bool) -> None:
        wait = partial(self._verdict.shown, self, on_look, partial(self._wait, limit, stop))
        while True:
            late = self._verdict.inbox.heard(self.stop_soon, wait)
            if late is None:
                return
            if not self._verdict.take_sigint():
                break
            self._verdict.inbox.put(INTERRUPT)  # it came after the last look, and there might be no other
        try:
            raise late
        finally:
            del late, self, wait  # error -> traceback -> this frame -> error

    def _wait(self, limit: Limit, stop: bool, on_look: Callable[[], None] | None) -> SyncTimeout | None:  # noqa: FBT001
        """Wait for an outcome; return an error if time ran out and the cell is not to be stopped."""
        verdict, asked = self._verdict, self._verdict.stop
        while verdict.ended is None and verdict.outcome is None:
            try:
                item = take(verdict.inbox, limit.left(), on_look)
            except WorkerInterrupt:  # the caller is a worker of another session, whose cell is stopped
                self._stopping.leave()
                raise
            except Empty:
                then = self.session.diagnosis()
                failed = [] if self.is_outlived else self.session.ledger.failed_in(self.seq)
                if self.done():  # it has just ended, or another thread had the answer in hand
                    break
                if not stop:
                    late = f"{self.label} takes longer than {limit} and goes on - .cancel() stops it"
                    return tell(self.session.too_late(late, then, sentence(failed)), failed)
                why = partial(Stop.late, limit=limit, then=then, failed=failed)
                self._stop_for(why, self._stopping.withdraw)
                return None
            if item is INTERRUPT:
                if self._stopping.ask():
                    continue
                asked.struck, asked.last_step, asked.why = True, None, None
                self._stop_for(Stop.interrupted, self._stopping.press)
                return None
            verdict.accept(item)
        verdict.settle()
        return None

    def _stop_for(
        self, why: Callable[[Stop, Expectation | None], BaseException], strike: Callable[[], None]
    ) -> None:
        verdict = self._verdict
        verdict.stop.why = verdict.stop.why or why
        self._stopping.until_ended(strike)
        verdict.fail(why(verdict.stop, verdict.ended))  # the stop may know more by now

    def note_late_sigint(self) -> None:
        """Let `wait` raise a SIGINT that came as the cell ended; call it when SIGINT is not heard any more.

        Raises:
            KeyboardInterrupt: for the SIGINT, if the outcome was handed to another thread already.
        """
        # Another waiting thread took it; or it ended a child process, and so the cell; or it came later.
        verdict = self._verdict
        if (verdict.stop.struck or (verdict.inbox.was_struck and verdict.take_sigint())) and isinstance(
            verdict.outcome, CellResult | WorkerError | SyncTimeout
        ):
            verdict.fail(verdict.stop.as_it_ended())
