"""Sends commands and waits for answers; limits how far the controller may run ahead of the workers."""

from __future__ import annotations

from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar, cast

from disco_magic.callers.current import on_worker_of, refuse_in_worker
from disco_magic.core.doctor import Diagnosis
from disco_magic.core.messages import Lost, Sync
from disco_magic.core.registers import ABSENT
from disco_magic.errors import SyncTimeout, WorkerLost
from disco_magic.phrases import people, people_who
from disco_magic.session.dref import GIVEN_UP, DRef
from disco_magic.session.pump import Mark, take
from disco_magic.session.queues import Queues

D = TypeVar("D", bound=DRef)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from disco_magic.core.ledger import Expectation
    from disco_magic.core.messages import Command
    from disco_magic.session.arguments import Life, Limit
    from disco_magic.session.pump import Inbox, Pump

    Look = Callable[[], None]
    ShowWait = Callable[..., AbstractContextManager[Look]]
    Make = Callable[[int, tuple[int, ...]], Command]
    MakeInto = Callable[[int, int, tuple[int, ...]], Command]


class Dispatch(Queues):
    """Mixed into `Session`.

    Attributes:
        interrupting: the call, as users write it, that ends what the workers are doing; front ends change it.
        show_wait: makes, of the session and the workers that are waited for, a context manager that gives
            the `on_look` of waits that have none of their own; front ends set it. Of a cell that prints,
            `quiet_since` says since when nothing was printed, as `time.monotonic`, and `cell` is its handle.
    """

    interrupting = "session.interrupt()"
    show_wait: ShowWait | None = None

    # `life`: the life of the registers that the command names; refused if a restart came between.

    def send(self, make: Make, workers: tuple[int, ...] | None = None, life: Life | None = None) -> None:
        """Send ``make(seq, kills)`` to `workers`; None: to all."""
        chosen = workers or self._everybody
        self.keep_pace()
        self._locked(lambda: self._send(make(*self._ordinal(chosen, life)), chosen))

    def issue(self, make: MakeInto, workers: tuple[int, ...] | None = None, life: Life | None = None) -> DRef:
        """Send ``make(seq, new register, kills)`` to `workers`; return the new register's reference."""
        chosen = workers or self._everybody

        def act() -> DRef:
            seq, kills = self._ordinal(chosen, life)
            dref = DRef(self, self.ledger.new_register())  # type: ignore[arg-type] # before it is sent: see `call_all`
            if len(chosen) < self.num_workers:
                dref.sent_to = chosen
            self._send(make(seq, dref.register, kills), chosen)
            return dref

        self.keep_pace()
        return self._locked(act)

    def ask(
        self,
        make: Make,
        workers: tuple[int, ...],
        timeout: float | Limit | None,
        verb: str,
        life: Life | None = None,
        *,
        on_look: Look | None = None,
    ) -> Expectation:
        """Send ``make(seq, kills)`` and wait for the replies of `workers`; `on_look`: see `take`.

        Raises:
            SyncTimeout: `timeout` seconds went by; says what every worker is doing. If one of `workers` was
                `max_outstanding` commands behind all the while, nothing was sent.
            WorkerLost: a worker is gone.
            UsageMistake: called on a worker of this session.
            KeyboardInterrupt: Ctrl-C or the stop button; says what every worker is doing.
        """
        refuse_in_worker(self.id, verb)
        if on_look is None and self.show_wait is not None:
            with self.show_wait(self, workers) as look:
                return self.ask(make, workers, timeout, verb, life, on_look=look)
        limit = self.patience(timeout)
        if self.ledger.seq >= self._pace_at:
            self.keep_pace(limit, verb, workers)
        inbox: Inbox = SimpleQueue()
        asked: tuple[Pump, int] | None = None  # with its pump: after a restart the same numbers come again
        locked = self._locked
        try:
            # `RefusingLock.__call__` inlined: workers woken by a call contend for the GIL until this thread
            # waits, so each us spent here costs a call + sync several.
            with locked.lock:
                if locked.taken:
                    locked.refuse()
                locked.taken = True
                try:
                    seq, kills = self._ordinal(workers, life)
                    asked = self._pump, seq
                    self._pump.expect(seq, workers, inbox)
                    self._send(make(seq, kills), workers)
                finally:
                    locked.taken = False
            item = take(inbox, limit.left(), on_look)
            if isinstance(item, Lost):
                raise WorkerLost(item.worker, item.reason)  # noqa: TRY301 - one way out
        except BaseException as error:  # nothing waits for the answers any more
            missing = self._locked(partial(asked[0].forget, asked[1])) if asked is not None else ()
            if isinstance(error, Empty):
                if missing:
                    raise self._no_answer(verb, missing, limit) from None
                item = take(inbox, 0)  # the last answer came when the time was over
                if isinstance(item, Lost):
                    raise WorkerLost(item.worker, item.reason) from None
            elif asked is not None and type(error) is KeyboardInterrupt and not error.args:
                raise KeyboardInterrupt(self._given_up(verb, missing)) from None
            else:
                raise
        return cast("Expectation", item)

    def _no_answer(self, verb: str, workers: tuple[int, ...], limit: Limit) -> SyncTimeout:
        goes = "goes" if len(workers) == 1 else "go"
        return self.too_late(f"{verb}: {people(workers)} did not answer within {limit} and {goes} on")

    def _given_up(self, verb: str, workers: tuple[int, ...]) -> str:
        if not workers:
            return f"{verb} was interrupted when everything had been answered"
        return (
            f"{verb} was interrupted, and {people_who(workers, 'goes', 'go')} on ({self.interrupting} ends "
            f"that); {self.diagnosis()}"
        )

    def diagnosis(self) -> Diagnosis:
        """Where every worker is now; works on a closed session, too."""
        return Diagnosis(self.id, tuple(self._launcher.positions()), self._launcher.given_up())

    def too_late(self, sentence: str, diagnosis: Diagnosis | None = None, further: str = "") -> SyncTimeout:
        """Make the error of a wait that ran out of time; without `diagnosis` it says where workers are."""
        diagnosis = diagnosis or self.diagnosis()
        error = SyncTimeout("\n".join(filter(None, (f"{sentence}; {diagnosis}", further))))
        error.diagnosis = diagnosis
        return error

    def succeed(self, dref: DRef, make: Callable[[Any, int], D]) -> D:
        """Return ``make(session, register)``, a reference that takes over `dref`'s register in the same life.

        Raises:
            UsageMistake, SessionClosed: as `own`.
        """

        def act() -> D:  # under the lock: no restart comes between the check and the new reference
            register = self.own(dref)
            if self.closed:
                self._refuse()
            heir = make(self, register)
            heir.seq = dref.seq
            if hasattr(dref, "sent_to"):
                heir.sent_to = dref.sent_to
            dref.life = GIVEN_UP
            return heir

        return self._locked(act)

    def keep_pace(
        self,
        timeout: float | Limit | None = None,
        verb: str = "a call",
        workers: Sequence[int] | None = None,
    ) -> None:
        """Wait if one of `workers` is `max_outstanding` commands behind; call before sending, outside turns.

        Looks at the queues only after as many commands as the fullest one had room for at the last look: a
        controller that is not far ahead pays one comparison. A worker that is behind has to finish everything
        it had been sent when the first thread began to wait for it. A call from a worker of this session is
        never held up: it would wait for itself.

        Args:
            timeout: seconds; None: the session's.
            verb: how the error begins.
            workers: those that will be asked; None: all.

        Raises:
            SyncTimeout: that took longer than `timeout`. Only the marker that is waited for was sent.
            WorkerLost: a worker is gone.
        """
        if self.ledger.seq < self._pace_at or self.closed or on_worker_of(self.id):
            return
        limit = self.patience(timeout)
        # The number first: commands that other threads send between the two reads must not count as room.
        sent, backlog = self.ledger.seq, self._launcher.backlog()
        asked = self._everybody if workers is None else workers
        behind = tuple(worker for worker in asked if backlog[worker] >= self.max_outstanding)
        if behind:
            marks = self._locked(lambda: [self._mark_of(worker) for worker in behind])
            for mark in marks:
                item = mark.wait(limit)
                late = [worker for worker, each in zip(behind, marks, strict=True) if not each.is_passed]
                if item is None and late:
                    raise self.too_late(
                        f"{verb} was not sent: {people_who(late, 'was', 'were')}"
                        f" {self.max_outstanding} commands behind (max_outstanding) and did not catch up"
                        f" within {limit}"
                    )
                if isinstance(item, Lost):
                    raise WorkerLost(item.worker, item.reason)
            sent, backlog = self.ledger.seq, self._launcher.backlog()
        self._pace_at = sent + max(1, self.max_outstanding - max(backlog))

    def _mark_of(self, worker: int) -> Mark:
        """Return the mark that all threads too far ahead of `worker` wait for; under the lock.

        Shared by all: a caller that gives up and asks again, repeatedly, would otherwise get further ahead.
        """
        mark, lost = self._marks.get(worker), self.ledger.lost
        if lost is not None:
            raise WorkerLost(lost.worker, lost.reason)
        if mark is None or mark.is_passed:
            only, mark = (worker,), Mark()
            if self.closed:
                self._refuse()
            if self._dying:
                self._flush()  # `_send` takes them for sent
            seq = self.ledger.issue()  # other kills can wait; sending them would cost one more command
            try:
                self._pump.expect(seq, only, mark)
                self._send(Sync(seq, (), only), only)
                self._marks[worker] = mark
            except BaseException:
                self._pump.forget(seq)
                raise
        return mark

    # Shortcuts without a message: sleeping workers have done everything, and their values can be read where
    # they are. Waking a thread and being woken by it costs 40 to 60 us, these checks 2.

    def _have_rested(self, workers: Sequence[int], timeout: float | Limit | None) -> bool:
        """Whether `workers` have executed everything sent so far and reported the results; sends nothing.

        False if a command is needed: the last command went to others only, registers are to be dropped, a
        worker is gone, or the session is closed. `timeout` is only checked: there is nothing to wait for.
        """
        seem = self._seem_at_rest(workers, timeout, "sync")
        return seem and self._locked(lambda: self._are_at_rest(workers))

    def _glance(
        self, register: int, workers: Sequence[int], timeout: float | Limit | None, life: Life
    ) -> dict[int, Any] | None:
        """Map `workers` to what the register holds there, if all have rested and nothing can change it.

        None otherwise. `life`: the register's; the rest as in `_have_rested`.
        """

        def act() -> dict[int, Any] | None:  # under the lock: no command that would change it can be sent
            if life is not self.life or not self._are_at_rest(workers):
                return None
            values = {worker: self._launcher.glance(worker, register) for worker in workers}
            return None if any(value is ABSENT for value in values.values()) else values

        return self._locked(act) if self._seem_at_rest(workers, timeout, "get") else None

    def _seem_at_rest(self, workers: Sequence[int], timeout: float | Limit | None, verb: str) -> bool:
        """Whether taking the lock is worthwhile, judged by one worker: a busy one needs this thread to wait.

        Raises what `ask` would raise.
        """
        if not self._has_rested(workers[0]):
            return False
        refuse_in_worker(self.id, verb)
        self.patience(timeout)
        return True

    def _are_at_rest(self, workers: Sequence[int]) -> bool:
        if self.closed or self.ledger.lost is not None or self._dying or not self._dead.empty():
            return False
        return all(map(self._has_rested, workers))

    def _has_rested(self, worker: int) -> bool:
        return self._launcher.has_rested(worker, self.ledger.seq)
