"""Numbers commands, puts them on the queues, collects replies: what all of a session's methods stand on.

Ids, sequence numbers and the order on all queues are decided under one lock (`turn.py`), so that every method
may be called from several threads and sends to all named workers or to none. It is never held while waiting.

To all or to none, also when Ctrl-C strikes half-way: CPython looks for signals after a call and at a jump
back, so that in ``for send in rest: send(command)`` nothing strikes between taking a `send` and having
called it. If something ends the loop, it is taken up where it was, and only then the exception goes on.

Kills of registers nobody refers to any more travel with the next command that goes to every worker, or
alone before one that does not.
"""

from __future__ import annotations

import operator
from functools import partial
from itertools import islice
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from disco_magic.core.doctor import Diagnosis
from disco_magic.core.ledger import Expectation, Ledger
from disco_magic.core.messages import Kill, Lost, Sync
from disco_magic.errors import SessionClosed, SyncTimeout, UsageMistake, WorkerLost, people
from disco_magic.functions.context import on_worker_of, refuse_in_worker
from disco_magic.session.arguments import Arguments
from disco_magic.session.dref import GIVEN_UP, DRef
from disco_magic.session.pump import Pump, take
from disco_magic.session.turn import Turn

# Commands that one worker may be behind. A call takes about 250 bytes, plus its operands.
MAX_OUTSTANDING: Final = 10_000
_REGISTER: Final = operator.attrgetter("register")

D = TypeVar("D", bound=DRef)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from disco_magic.core.interfaces import Launcher
    from disco_magic.core.messages import Command
    from disco_magic.functions.context import Topology
    from disco_magic.session.arguments import Life, Limit
    from disco_magic.session.dref import Drop
    from disco_magic.session.failures import Unheard
    from disco_magic.session.pump import Inbox

    Make = Callable[[int, tuple[int, ...]], Command]
    MakeInto = Callable[[int, int, tuple[int, ...]], Command]


def _goes(workers: Sequence[int]) -> str:
    return "goes" if len(workers) == 1 else "go"


class Dispatch(Arguments):
    """The sending half of a session.

    Attributes:
        end: why nothing can be sent any more, in words, if it is closed.
        ledger: what the controller knows; read it, do not write.
        max_outstanding: how many commands a worker may be behind before the controller waits for it.
    """

    def __init__(
        self, topology: Topology, max_outstanding: int = MAX_OUTSTANDING, timeout: float | None = None
    ) -> None:
        super().__init__(topology, timeout)
        if not isinstance(max_outstanding, int) or isinstance(max_outstanding, bool) or max_outstanding < 1:
            raise UsageMistake(
                f"max_outstanding is {max_outstanding!r}, expected a whole number of commands >= 1"
            )
        self.max_outstanding = max_outstanding
        self.end = "it was shut down"
        self.forsaken = False  # the workers are not in this process: it was forked
        self._taken_down = True
        self._turn = Turn()

    def open(self, launcher: Launcher) -> None:
        """Begin a life: a fresh ledger, and workers brought up by `launcher`."""
        self.ledger = Ledger(self.num_workers)
        self._pump = Pump(self.ledger, self._turn)
        # A queue per life of the session: a reference of the life before cannot free a register of this one.
        self._dead: SimpleQueue[Drop] = SimpleQueue()
        self.life = self._dead.put
        self.drops: dict[int, Drop] = {}  # by register; of one that is free, the last one
        self._deaths = map(_REGISTER, iter(self._dead.get_nowait, None))
        self._dying: list[int] = []  # taken from there, on no queue yet
        self._orphans: SimpleQueue[Unheard] = SimpleQueue()
        self.orphan: Callable[[Unheard], None] = self._orphans.put
        self.unheard: dict[int, Unheard] = {}  # by sequence number
        self._launcher = launcher
        self._channels = launcher.start(self._pump.deliver)
        self._sends = tuple(channel.send for channel in self._channels)
        self._partial = 0  # commands that were not sent to every worker
        self._partial_to = [0] * self.num_workers  # worker -> those of them that were sent to it
        self._pace_at = self.max_outstanding
        self.forsaken = False
        self._taken_down = False  # closed, and the launcher has taken its workers down
        self.closed = False

    # --- sending; `_send`, `_ordinal`, `_flush` and `_drain` are called in a turn ------------------------

    # `life`: that of the registers which the command names; after a restart meanwhile it is refused.

    def send(self, make: Make, workers: tuple[int, ...] | None = None, life: Life | None = None) -> None:
        """Send ``make(seq, kills)`` to `workers`, None: to all."""
        chosen = workers or self._everybody
        self.keep_pace()
        self._turn(lambda: self._send(make(*self._ordinal(chosen, life)), chosen))

    def issue(self, make: MakeInto, workers: tuple[int, ...] | None = None, life: Life | None = None) -> DRef:
        """Send ``make(seq, new register, kills)`` to `workers`; the new register's reference."""
        chosen = workers or self._everybody

        def act() -> DRef:
            seq, kills = self._ordinal(chosen, life)
            dref = DRef(self, self.ledger.new_register())  # type: ignore[arg-type] # before it is sent: see `call_all`
            self._send(make(seq, dref.register, kills), chosen)
            return dref

        self.keep_pace()
        return self._turn(act)

    def ask(
        self,
        make: Make,
        workers: tuple[int, ...],
        timeout: float | Limit | None,
        verb: str,
        life: Life | None = None,
    ) -> Expectation:
        """Send ``make(seq, kills)`` and wait for the replies of `workers`.

        Raises:
            SyncTimeout: `timeout` seconds went by; says what everybody is doing.
            WorkerLost: a worker is gone.
            UsageMistake: called on a worker of this session.
        """
        refuse_in_worker(self.id, verb)
        limit = self.patience(timeout)
        inbox: Inbox = SimpleQueue()
        asked: tuple[Pump, int] | None = None  # a restart begins another life, with equal numbers
        turn = self._turn
        try:
            # `Turn.__call__` written out: workers that a call has woken stand at the interpreter's lock until
            # this thread waits, and each us of it costs a call + sync several.
            with turn.lock:
                if turn.taken:
                    turn.refuse()
                turn.taken = True
                try:
                    seq, kills = self._ordinal(workers, life)
                    asked = self._pump, seq
                    self._pump.expect(seq, workers, inbox)
                    self._send(make(seq, kills), workers)
                finally:
                    turn.taken = False
            item = take(inbox, limit.left())
            if isinstance(item, Lost):
                raise WorkerLost(item.worker, item.reason)  # noqa: TRY301 - one way out
        except BaseException as error:  # nobody waits for it any more
            if asked is not None:
                self._turn(partial(asked[0].forget, asked[1]))
            if not isinstance(error, Empty):
                raise
            raise self.too_late(
                f"{verb}: {people(workers)} did not answer within {limit} and {_goes(workers)} on"
            ) from None
        return cast("Expectation", item)

    def _diagnosis(self) -> Diagnosis:
        return Diagnosis(self.id, tuple(self._launcher.positions()), self._launcher.given_up())

    def too_late(self, sentence: str) -> SyncTimeout:
        """The error of a wait that ran out of time: `sentence`, and who is where now."""
        diagnosis = self._diagnosis()  # of a closed session, too
        error = SyncTimeout(f"{sentence}; {diagnosis}")
        error.diagnosis = diagnosis
        return error

    def succeed(self, dref: DRef, make: Callable[[Any, int], D]) -> D:
        """``make(session, register)``, a reference that takes over the register of `dref`, in the same life.

        Raises:
            UsageMistake, SessionClosed: as `own`.
        """

        def act() -> D:  # in a turn: no restart comes between the look and the new reference
            register = self.own(dref)
            if self.closed:
                self._refuse()
            heir = make(self, register)
            heir.seq = dref.seq
            dref.life = GIVEN_UP
            return heir

        return self._turn(act)

    def flush(self) -> None:
        """Tell the workers which registers nobody refers to any more, if there are any."""
        if self._dead.empty() and not self._dying:
            return

        def act() -> None:
            # Again: another thread may have been faster.
            if not self.closed and (self._dying or not self._dead.empty()):
                self._flush()

        self._turn(act)

    def keep_pace(self, timeout: float | Limit | None = None) -> None:
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
        sends = self._sends
        if len(workers) < self.num_workers:
            sends = tuple([sends[worker] for worker in workers])
            self._partial += 1
            for worker in workers:
                self._partial_to[worker] += 1
        rest = iter(sends)
        del self._dying[:]  # in `command` now; nothing strikes from here to the end of the first `send`
        try:
            for send in rest:
                send(command)
        except BaseException:
            while True:
                try:
                    for send in rest:
                        send(command)
                except BaseException:  # noqa: BLE001, S112 - the first one is raised, see the head
                    continue
                break
            raise

    def _ordinal(self, workers: tuple[int, ...], life: Life | None = None) -> tuple[int, tuple[int, ...]]:
        """Sequence number and kills of a command to `workers`."""
        if self.closed or not (life is None or life is self.life):
            self._refuse()
        if self._dead.empty() and not self._dying:
            return self.ledger.issue(), ()
        if len(workers) < self.num_workers:
            self._flush()
            return self.ledger.issue(), ()
        return self.ledger.issue(), self._drain()

    def _flush(self) -> None:
        kills = self._drain()
        self._send(Kill(self.ledger.issue(), kills), self._everybody)

    def _drain(self) -> tuple[int, ...]:
        """Registers to kill; they stay in `_dying` until a command takes them along, whatever strikes."""
        dying = self._dying
        known = len(dying)
        dying += islice(self._deaths, self._dead.qsize())  # C code from end to end: none is lost on the way
        self.ledger.retire(dying[known:])
        return tuple(dying)

    def _refuse(self) -> None:
        if not self.closed:
            raise SessionClosed(f"session {self.id} was restarted meanwhile; nothing was sent")
        raise SessionClosed(f"session {self.id} is closed: {self.end}; start another one or call restart()")
