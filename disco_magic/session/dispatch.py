"""Numbers commands, puts them on the queues, collects replies: what all of a session's methods stand on.

Ids, sequence numbers and the order on all queues are decided under one lock, so that every method may be
called from several threads and sends to all named workers or to none. The lock is never held while waiting.

Kills of registers nobody refers to any more travel with the next command that goes to every worker, or
alone before one that does not.
"""

from __future__ import annotations

import operator
import threading
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final, cast

from disco_magic.core.ledger import Expectation, Ledger
from disco_magic.core.messages import Kill, Lost, Sync
from disco_magic.errors import SessionClosed, SyncTimeout, UsageMistake, WorkerError, WorkerLost, ranges
from disco_magic.functions.context import on_worker_of, refuse_in_worker
from disco_magic.session.dref import DRef
from disco_magic.session.pump import Pump, take

# Commands that one worker may be behind. A call takes about 250 bytes, plus its operands.
MAX_OUTSTANDING: Final = 10_000

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from disco_magic.core.interfaces import Launcher
    from disco_magic.core.messages import Command
    from disco_magic.errors import Failure
    from disco_magic.functions.context import Topology
    from disco_magic.session.pump import Inbox

    Make = Callable[[int, tuple[int, ...]], Command]
    MakeInto = Callable[[int, int, tuple[int, ...]], Command]


def seconds(timeout: object) -> float | None:
    """`timeout` as a number of seconds; None: for ever.

    Raises:
        UsageMistake: it is no number, or a negative one.
    """
    if timeout is None:
        return None
    try:
        number = float(timeout)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = -1.0
    if isinstance(timeout, str | bytes) or not number >= 0:
        raise UsageMistake(f"timeout is {timeout!r}, expected a number of seconds >= 0, or None")
    return number


class Dispatch:
    """The sending half of a session.

    Attributes:
        id: number of the session in this process.
        num_workers: how many workers there are.
        closed: whether nothing can be sent any more.
        end: why, in words, if it is closed.
        ledger: what the controller knows; read it, do not write.
        max_outstanding: how many commands a worker may be behind before the controller waits for it.
    """

    id: int

    def __init__(self, topology: Topology, max_outstanding: int = MAX_OUTSTANDING) -> None:
        if not isinstance(max_outstanding, int) or isinstance(max_outstanding, bool) or max_outstanding < 1:
            raise UsageMistake(
                f"max_outstanding is {max_outstanding!r}, expected a whole number of commands >= 1"
            )
        self.max_outstanding = max_outstanding
        self.topology = topology
        self.num_workers = topology.num_workers
        self.num_groups = topology.num_groups
        self.group_size = topology.group_size
        self.closed = True
        self.end = "it was shut down"
        self._everybody = tuple(range(self.num_workers))

    def open(self, launcher: Launcher) -> None:
        """Begin a life: a fresh ledger, and workers brought up by `launcher`."""
        self._lock = threading.Lock()
        self.ledger = Ledger(self.num_workers)
        self._pump = Pump(self.ledger, self._lock)
        # A queue per life of the session: a reference of the life before cannot free a register of this one.
        self._dead: SimpleQueue[int] = SimpleQueue()
        self.drop_register: Callable[[int], None] = self._dead.put
        self._orphans: SimpleQueue[tuple[int, Inbox]] = SimpleQueue()
        self.orphan: Callable[[tuple[int, Inbox]], None] = self._orphans.put
        self._launcher = launcher
        self._channels = launcher.start(self._pump.deliver)
        self._sends = tuple(channel.send for channel in self._channels)
        self._spared = [0] * self.num_workers  # worker -> commands that were not sent to it
        self._pace_at = self.max_outstanding
        self.closed = False

    def check_workers(self, workers: Sequence[int]) -> tuple[int, ...]:
        """Worker ids, ascending, each once.

        Raises:
            UsageMistake: none given, or a number that is no worker's.
        """
        everybody = self._everybody
        if (
            type(workers) is tuple
            and len(workers) == 1
            and type(workers[0]) is int
            and workers[0] in everybody
        ):
            return workers  # the usual case, in a fifth of the time
        try:
            chosen = tuple(sorted({operator.index(worker) for worker in workers}))
        except TypeError:
            what = f"workers are given as a list of whole numbers, not as {workers!r}"
        else:
            wrong = [worker for worker in chosen if not 0 <= worker < self.num_workers]
            if chosen and not wrong:
                return chosen
            what = f"there is no worker {', '.join(map(str, wrong))}" if wrong else "no worker was named"
        raise UsageMistake(f"{what}; this session has workers {ranges(self._everybody)}")

    def own(self, dref: DRef) -> int:
        """The register of one of this session's own references.

        Raises:
            UsageMistake: it belongs to another session.
            SessionClosed: it was made before the session's restart.
        """
        if not isinstance(dref, DRef):
            raise UsageMistake(f"expected a DRef of session {self.id}, got {type(dref).__name__}")
        if dref.session is not self:
            raise UsageMistake(f"{dref!r} belongs to session {dref.session.id}, this is session {self.id}")
        if dref.drop_from is not self.drop_register:
            raise SessionClosed(f"{dref!r} went with the restart of session {self.id}")
        return dref.register

    # --- sending; `_send`, `_ordinal`, `_flush` and `_drain` are called with the lock held -------------

    def send(self, make: Make, workers: tuple[int, ...] | None = None) -> None:
        """Send ``make(seq, kills)`` to `workers`, None: to all."""
        chosen = workers or self._everybody
        self.keep_pace()
        with self._lock:
            self._send(make(*self._ordinal(chosen)), chosen)

    def issue(self, make: MakeInto, workers: tuple[int, ...] | None = None) -> DRef:
        """Send ``make(seq, new register, kills)`` to `workers`; the new register's reference."""
        chosen = workers or self._everybody
        self.keep_pace()
        with self._lock:
            seq, kills = self._ordinal(chosen)
            dref = DRef(self, self.ledger.new_register())  # type: ignore[arg-type] # before it is sent: see `call_all`
            self._send(make(seq, dref.register, kills), chosen)
        return dref

    def ask(self, make: Make, workers: tuple[int, ...], timeout: float | None, verb: str) -> Expectation:
        """Send ``make(seq, kills)`` and wait for the replies of `workers`.

        Raises:
            SyncTimeout: `timeout` seconds went by; says what everybody is doing.
            WorkerLost: a worker is gone.
            UsageMistake: called on a worker of this session.
        """
        refuse_in_worker(self.id, verb)
        timeout = seconds(timeout)
        lock = self._lock
        with lock:
            pump = self._pump  # of this life: a restart meanwhile begins another one, with equal numbers
            seq, kills = self._ordinal(workers)
            inbox = pump.expect(seq, workers)
            try:
                self._send(make(seq, kills), workers)
            except BaseException:  # a KeyboardInterrupt: nobody will wait for it
                pump.forget(seq)
                raise
        try:
            item = take(inbox, timeout)
        except BaseException as error:
            with lock:
                pump.forget(seq)
            if not isinstance(error, Empty):
                raise
            raise SyncTimeout(
                f"{verb}: workers {ranges(workers)} did not answer within {timeout:g} s and go on; "
                f"they are here:\n{self.whereabouts()}"
            ) from None
        if isinstance(item, Lost):
            with lock:
                pump.forget(seq)
            raise WorkerLost(item.worker, item.reason)
        return cast("Expectation", item)

    def flush(self) -> None:
        """Tell the workers which registers nobody refers to any more, if there are any."""
        if self._dead.empty():
            return
        with self._lock:
            if not self.closed and not self._dead.empty():  # another thread may have been faster
                self._flush()

    def keep_pace(self, timeout: float | None = None) -> None:
        """Wait if a worker is `max_outstanding` commands behind; call it without the lock, before sending.

        Looks at the queues only after as many commands as the fullest one had room for then: a controller
        that is not far ahead pays one comparison. Whoever is behind is waited for until it has done all that
        it was sent. A worker that calls its own session is never held up: it would wait for itself.

        Raises:
            SyncTimeout: that took longer than `timeout` seconds; None: as long as it takes.
            WorkerLost: a worker that is behind is gone.
        """
        if self.ledger.seq < self._pace_at or self.closed or on_worker_of(self.id):
            return
        # The number first: what other threads send between the two looks must not count as room.
        sent, backlog = self.ledger.seq, self._launcher.backlog()
        if max(backlog) >= self.max_outstanding:
            behind = tuple(w for w, count in enumerate(backlog) if 2 * count >= self.max_outstanding)
            self.ask(lambda seq, kills: Sync(seq, kills, behind), behind, timeout, "a call")
            sent, backlog = self.ledger.seq, self._launcher.backlog()
        self._pace_at = sent + max(1, self.max_outstanding - max(backlog))

    def _send(self, command: Command, workers: tuple[int, ...]) -> None:
        if len(workers) < self.num_workers:
            for worker in set(self._everybody).difference(workers):
                self._spared[worker] += 1
        for worker in workers:
            self._sends[worker](command)

    def _ordinal(self, workers: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
        """Sequence number and kills of a command to `workers`."""
        if self.closed:
            self._refuse()
        if self._dead.empty():
            return self.ledger.issue(), ()
        if len(workers) < self.num_workers:
            self._flush()
            return self.ledger.issue(), ()
        return self.ledger.issue(), self._drain()

    def _flush(self) -> None:
        kills = self._drain()
        self._send(Kill(self.ledger.issue(), kills), self._everybody)

    def _drain(self) -> tuple[int, ...]:
        dead = self._dead
        kills: tuple[int, ...] = (dead.get_nowait(),)
        if not dead.empty():
            kills += tuple([dead.get_nowait() for _ in range(dead.qsize())])
        self.ledger.retire(kills)
        return kills

    def _refuse(self) -> None:
        raise SessionClosed(f"session {self.id} is closed: {self.end}; start another one or call restart()")

    # --- failures and whereabouts ----------------------------------------------------------------

    def take_failures(self, further: Iterable[Failure] = ()) -> dict[int, Failure]:
        """Failures not raised yet, and `further` ones: worker -> failure, the origin first."""
        with self._lock:
            while not self._orphans.empty():
                self._adopt(*self._orphans.get_nowait())
            return self.ledger.take_failures(further)

    def _adopt(self, seq: int, inbox: Inbox) -> None:
        """A cell's handle was dropped before anybody waited for it: its failures are the session's now."""
        self._pump.forget(seq)
        while not inbox.empty():
            item = inbox.get_nowait()
            if isinstance(item, Expectation):
                self.ledger.keep_failures(item)

    def raise_failures(self, further: Sequence[Failure] = ()) -> None:
        """Raise WorkerError if anything failed since errors were last raised."""
        # Without the lock: whoever answered has told its failures before.
        if not further and self._orphans.empty() and not self.ledger.has_failures:
            return
        failures = self.take_failures(further)
        if failures:
            raise WorkerError(failures)

    def whereabouts(self) -> str:
        """What every worker is doing now, a line each."""
        positions = self._launcher.positions()
        return "\n".join(f"  worker {worker}: {text}" for worker, text in enumerate(positions))
