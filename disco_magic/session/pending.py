"""A cell on its way: wait for it, and what came of it."""

from __future__ import annotations

import threading
import weakref
from contextlib import suppress
from functools import partial
from queue import Empty
from typing import TYPE_CHECKING, cast

from disco_magic.core.ledger import Expectation
from disco_magic.core.messages import CellDone, Lost
from disco_magic.errors import CellError, SyncTimeout, WorkerError, WorkerLost, ranges
from disco_magic.functions.context import refuse_in_worker
from disco_magic.session.failures import Unheard
from disco_magic.session.pump import INTERRUPT, sigint_held_back, sigint_into, sigint_to, take, take_sigint
from disco_magic.session.results import CellResult
from disco_magic.session.stopping import Stopping

if TYPE_CHECKING:
    from collections.abc import Callable

    from disco_magic.errors import Failure
    from disco_magic.functions.cells import Cell
    from disco_magic.functions.running import CellScope
    from disco_magic.session.arguments import Limit
    from disco_magic.session.dref import DRef
    from disco_magic.session.pump import Inbox
    from disco_magic.session.session import Session


class PendingCell(Stopping):
    """Handle of a running cell.

    Attributes:
        seq: sequence number of its command.
        workers: ids of the workers it was sent to.
        label: ``Cell In[7]``.
        session: whose workers.
    """

    def __init__(
        self,
        session: Session,
        cell: Cell,
        *,
        seq: int,
        workers: tuple[int, ...],
        inbox: Inbox,
        values: DRef,
        scope: CellScope | None,
    ) -> None:
        self.seq = seq
        self.workers = workers
        self.label = cell.label
        self.session = session
        self._life = session.life  # made in the turn that sends it
        self._inbox = inbox
        self._values: DRef | None = values
        self._scope = scope
        # Of this life, too.
        self._orphan, self._unheard, self._unraised = session.orphan, session.unheard, session.unraised
        note = Unheard(self, self._orphan)
        note.seq, note.inbox = seq, inbox
        self._unheard[seq] = note
        self._unraised[seq] = weakref.ref(self, partial(self._unraised.pop, seq))
        super().__init__()
        self._outcome: CellResult | BaseException | None = None
        self._settling = threading.Lock()
        self._why: Callable[[], BaseException] | None = None  # a wait stops it, or will

    def __repr__(self) -> str:
        state = "done" if self.done() else "running"
        return f"<{self.label} on workers {ranges(self.workers)}: {state}>"

    def done(self) -> bool:
        """Whether every worker has ended the cell, well or not."""
        if self._outcome is not None or self._inbox.empty():
            return self._outcome is not None
        with sigint_held_back():  # between taking an answer and noting it, it would lose that
            return self._take()

    @property
    def outcome(self) -> CellResult | BaseException | None:
        """What `wait` gives or raises; None before the cell has ended, as far as `done` or `wait` saw."""
        return self._outcome

    def failures(self) -> list[Failure] | None:
        """What failed in the cell itself; None if it has not ended. Nothing is taken from who waits."""
        if isinstance(self._outcome, WorkerError):
            return [each for each in self._outcome.told if each.seq == self.seq]
        if self._outcome is not None:
            return []
        with sigint_held_back(), suppress(Empty):
            item = self._inbox.get_nowait()
            self._inbox.put(item)
            if isinstance(item, Expectation):
                replies = [cast("CellDone", reply) for reply in item.replies.values()]
                return [reply.failure for reply in replies if reply.failure is not None]
        return None

    @property
    def is_outlived(self) -> bool:
        """Whether its session was shut down or restarted since the cell was sent."""
        return self.session.closed or self.session.life is not self._life

    def stop_soon(self) -> None:
        """Tell whoever waits for the cell to stop it, as Ctrl-C does; from any thread, returns at once."""
        if self._outcome is None:
            self._why = self._interrupted  # also of one that another stop ends before that has begun
        self._inbox.put(INTERRUPT)

    def cancel(self) -> None:
        """Stop the cell on all its workers and wait until they have; `wait` then raises CellError.

        Who has not begun it leaves it out, and what was sent before it goes on.

        Raises:
            KeyboardInterrupt: Ctrl-C came meanwhile; the cell was stopped all the same. A third one gives up
                waiting for threads that do not end.
        """
        if self.done():
            return
        self.session.check_present()
        self._unraised.pop(self.seq, None)  # who cancels it knows
        with sigint_into(self._inbox):
            self._stop(self._withdraw)
            struck = take_sigint(self._inbox) or self._struck
            if not self._ended:
                # Given up by Ctrl-C, it may still end: nothing is said of the worker.
                self._fail((KeyboardInterrupt if struck else SyncTimeout)(self._stopped_sentence()))
        if struck or take_sigint(self._inbox):
            raise KeyboardInterrupt(self._stopped_sentence())

    def wait(
        self,
        timeout: float | Limit | None = None,
        *,
        on_look: Callable[[], None] | None = None,
        stop: bool = True,
    ) -> CellResult:
        """Wait for the cell.

        What this raises of a cell that has ended or was stopped has the attribute `result`, a `CellResult` of
        what there is or None. The SyncTimeout of ``stop=False`` has not: the cell goes on.

        Args:
            timeout: seconds; a cell that takes longer is stopped, as by `cancel`. None: the session's
                `timeout`.
            stop: False lets a cell that takes longer go on; it can be waited for again.
            on_look: called after every `pump.LOOK_UP_S` seconds of waiting, by the thread that waits. It
                must not raise, and should be quick: meanwhile nobody listens to Ctrl-C.

        Raises:
            CellError: it failed on some worker (or a command before it did).
            SyncTimeout: `timeout` ran out; the cell was stopped, if it was to be.
            KeyboardInterrupt: Ctrl-C or the stop button; the cell was stopped on all workers, and what was
                sent before it.
        """
        if self._outcome is None:
            refuse_in_worker(self.session.id, "wait")
            if not self.done():
                self.session.check_present()
            limit = self.session.patience(timeout)
            with sigint_to(self.stop_soon):
                self._wait(limit, on_look, stop=stop)
            self.note_late_sigint()
        outcome = self._outcome
        self._unraised.pop(self.seq, None)
        if not isinstance(outcome, BaseException):
            return cast("CellResult", outcome)
        try:
            raise outcome.with_traceback(None)  # else it grows with every wait
        finally:
            del outcome, self  # error -> traceback -> this frame -> error would keep the cell's arrays

    def _wait(self, limit: Limit, on_look: Callable[[], None] | None, *, stop: bool) -> None:
        while not self._ended:
            try:
                item = take(self._inbox, limit.left(), on_look)
            except Empty:
                if not stop:
                    late = f"{self.label} takes longer than {limit} and goes on"
                    raise self.session.too_late(late) from None
                then = self.session.diagnosis()
                self._stop_for(partial(self._late, limit, then), self._withdraw)
                return
            if item is INTERRUPT:
                self._struck = True
                self._stop_for(self._interrupted, self._interrupt)
                return
            self._accept(item)
        self._settle()

    def _stop_for(self, why: Callable[[], BaseException], strike: Callable[[], None]) -> None:
        self._why = self._why or why
        self._stop(strike)
        self._fail(why())  # which may know more by now

    def note_late_sigint(self) -> None:
        """Let `wait` raise a SIGINT that came as the cell ended; call it when none is heard any more."""
        # Another thread that waits took it; or it ended a child process, and so the cell; or it came later.
        if (self._struck or take_sigint(self._inbox)) and isinstance(
            self._outcome, CellResult | WorkerError | SyncTimeout
        ):
            self._fail(KeyboardInterrupt(f"{self.label} was interrupted as it ended"))

    def _take(self) -> bool:
        try:
            item = self._inbox.get_nowait()
        except Empty:
            return False
        if item is INTERRUPT:
            self._inbox.put(item)  # it is meant for the one who waits
            return False
        self._accept(item)
        self._settle()
        return True

    def _accept(self, item: object) -> None:
        if isinstance(item, Lost):
            self._ended = Expectation(self.seq, set())
            self._end(WorkerLost(item.worker, item.reason))
        elif isinstance(item, Expectation):
            self._ended = item
        else:
            return
        self._inbox.put(item)  # whoever waits in another thread needs it too

    def _settle(self) -> None:
        with self._settling:  # of several waiters the first one makes the outcome
            if self._outcome is None and self._ended is not None:
                self._judge()

    def _judge(self) -> None:
        result = self._result()
        failures, others = self.session.take_failures(result.errors.values())
        outcome: CellResult | BaseException = result
        if failures:
            outcome = (CellError if result.errors else WorkerError)(failures, others)
            outcome.result = result  # type: ignore[attr-defined]
        why = self._why  # nobody is to see how it ends otherwise, not for a moment
        self._end(outcome if why is None else self._in_place_of(outcome, why()))

    def _end(self, outcome: CellResult | BaseException) -> None:
        self._outcome = outcome
        self._why = None  # it refers to this
        self._unheard.pop(self.seq, None)

    def _result(self) -> CellResult:
        ended = cast("Expectation", self._ended)
        replies = {worker: cast("CellDone", reply) for worker, reply in ended.replies.items()}
        result = CellResult(self.label, replies, self._values)
        self._values = None
        if self._scope is not None:
            result.stdout.update(self._scope.stdout)
        return result

    def _fail(self, error: BaseException) -> None:
        self._end(self._in_place_of(self._outcome, error))

    def _in_place_of(
        self, previous: CellResult | BaseException | None, error: BaseException
    ) -> BaseException:
        if isinstance(previous, WorkerError) and self.session.life is self._life:
            self.session.give_back([each for each in previous.told if each.seq != self.seq])  # not the cell's
        result = previous if isinstance(previous, CellResult) else getattr(previous, "result", None)
        error.result = result  # type: ignore[attr-defined]
        return error
