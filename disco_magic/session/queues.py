"""Numbers commands and puts them on the workers' queues; all of a session's methods are built on this.

Ids, sequence numbers and the order on all queues are decided under one lock (`refusing_lock.py`), so every
method can be called from several threads and sends to all named workers or to none. The lock is never held
while waiting.

A command goes to all of them or to none even when Ctrl-C strikes half-way. CPython checks for signals after a
call and at a backward jump, so in ``for send in rest: send(command)`` nothing strikes between taking a `send`
and having called it. If an exception ends the loop, the loop is resumed where it was and the exception raised
afterwards.

Kills of registers that are no longer referenced travel with the next command that goes to every worker, or
in a command of their own before one that does not.
"""

from __future__ import annotations

import operator
from itertools import islice
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final

from disco_magic.core.ledger import Ledger
from disco_magic.core.messages import Kill
from disco_magic.core.numbers import whole_number
from disco_magic.errors import SessionClosed, UsageMistake
from disco_magic.session.arguments import Arguments
from disco_magic.session.known import Known
from disco_magic.session.pump import Pump
from disco_magic.session.refusing_lock import RefusingLock

# Commands that one worker may be behind. A call takes about 250 bytes, plus its operands.
MAX_OUTSTANDING: Final = 10_000
KEPT: Final = (1 << 12) - 1
"""Of so many commands, the last ones, it is kept where they were sent; a mask for their numbers."""
_REGISTER: Final = operator.attrgetter("register")

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType
    from weakref import ref

    from disco_magic.core.interfaces import Launcher
    from disco_magic.core.messages import Command
    from disco_magic.core.topology import Topology
    from disco_magic.session.arguments import Life
    from disco_magic.session.dref import Drop
    from disco_magic.session.failures import Unheard
    from disco_magic.session.pending import PendingCell
    from disco_magic.session.pump import Mark


class Queues(Arguments):
    """What the controller knows, and the sending end of the queues.

    Attributes:
        life: identifies the session's life, which a restart ends: registers and sequence numbers of one mean
            nothing in another. It is the ``put`` of the queue into which references of that life die.
        end: if the session is closed, why nothing can be sent any more, in words.
        ledger: what the controller knows; read-only.
        sent_from: number, code and offset in it of the calls that were sent last, by ``number & KEPT``.
        max_outstanding: how many commands a worker may be behind before the controller waits for it.
    """

    def __init__(
        self, topology: Topology, max_outstanding: int = MAX_OUTSTANDING, timeout: float | None = None
    ) -> None:
        super().__init__(topology, timeout)
        most = whole_number(max_outstanding)
        if most is None or most < 1:
            raise UsageMistake(
                f"max_outstanding is {max_outstanding!r}, expected a whole number of commands >= 1"
            )
        self.max_outstanding = most
        self.end = "it was shut down"
        self.forsaken = False  # whether this is a forked process, which has no workers
        self._taken_down = True
        self._is_restarting = False
        self._locked = RefusingLock()

    def open(self, launcher: Launcher) -> None:
        """Begin a life: create a fresh ledger and start workers with `launcher`."""
        self.ledger = Ledger(self.num_workers)
        # A new queue per life: a reference from the life before cannot free a register of this one.
        self._dead: SimpleQueue[Drop] = SimpleQueue()
        self.life = self._dead.put
        self._pump = Pump(self.ledger, self._locked)  # after `life`: see `Session.withdraw`
        self.sent_from: list[tuple[int, CodeType, int] | None] = [None] * (KEPT + 1)
        self.drops: dict[int, Drop] = {}  # by register; a free register keeps its last one
        self._deaths = map(_REGISTER, iter(self._dead.get_nowait, None))
        self._dying: list[int] = []  # taken from `_deaths`, on no queue yet
        self._orphans: SimpleQueue[Unheard] = SimpleQueue()
        self.orphan: Callable[[Unheard], None] = self._orphans.put
        self.unheard: dict[int, Unheard] = {}  # by sequence number
        self.unraised: dict[int, ref[PendingCell]] = {}  # by sequence number; dropped with the handle
        self.known = Known()  # what checks after cells have found
        self._channels = launcher.start(self._pump.deliver)
        self._launcher = launcher  # not before it has all workers: other threads look at them meanwhile
        self._sends = tuple(channel.send for channel in self._channels)
        self._partial = 0  # commands that were not sent to every worker
        self._partial_to = [0] * self.num_workers  # worker -> how many of those were sent to it
        self._pace_at = self.max_outstanding
        self._marks: dict[int, Mark] = {}  # by worker; see `Dispatch.keep_pace`
        self.forsaken = False
        self._taken_down = False  # closed, and the launcher has ended its workers
        self.closed = False

    @property
    def former_names(self) -> frozenset[str]:
        """The names that restarts took, and that nothing has bound since."""
        return self.ledger.names.lost

    def flush(self) -> None:
        """Tell the workers which registers are no longer referenced, if there are any."""
        if self._dead.empty() and not self._dying:
            return

        def act() -> None:
            # Checked again: another thread may have been faster.
            if not self.closed and (self._dying or not self._dead.empty()):
                self._flush()

        self._locked(act)

    # --- called under the lock ---------------------------------------------------------------------------

    def _send(self, command: Command, workers: tuple[int, ...]) -> None:
        sends = self._sends
        if len(workers) < self.num_workers:
            sends = tuple([sends[worker] for worker in workers])
            self._partial += 1
            for worker in workers:
                self._partial_to[worker] += 1
        rest = iter(sends)
        del self._dying[:]  # `command` carries them; nothing strikes from here to the end of the first `send`
        try:
            for send in rest:
                send(command)
        except BaseException:
            while True:
                try:
                    for send in rest:
                        send(command)
                except BaseException:  # noqa: BLE001, S112 - the first exception is raised: see the module
                    continue
                break
            raise

    def _ordinal(self, workers: tuple[int, ...], life: Life | None = None) -> tuple[int, tuple[int, ...]]:
        """Return the sequence number and the kills of a command to `workers`."""
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
        """Return the registers to kill; if interrupted, they stay in `_dying` for the next command."""
        dying = self._dying
        known = len(dying)
        dying += islice(self._deaths, self._dead.qsize())  # C code throughout: an interrupt loses none
        self.ledger.retire(dying[known:])
        return tuple(dying)

    def _refuse(self) -> None:
        if not self.closed or self._is_restarting:
            raise SessionClosed(f"session {self.id} was restarted meanwhile; nothing was sent")
        raise SessionClosed(f"session {self.id} is closed: {self.end}; start another one or call restart()")
