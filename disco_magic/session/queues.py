"""Numbers commands and puts them on the workers' queues: what all of a session's methods stand on.

Ids, sequence numbers and the order on all queues are decided under one lock (`refusing_lock.py`), so that
every method may be called from several threads and sends to all named workers or to none. It is never held
while waiting.

To all or to none, also when Ctrl-C strikes half-way: CPython looks for signals after a call and at a jump
back, so that in ``for send in rest: send(command)`` nothing strikes between taking a `send` and having
called it. If something ends the loop, it is taken up where it was, and only then the exception goes on.

Kills of registers nobody refers to any more travel with the next command that goes to every worker, or
alone before one that does not.
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
from disco_magic.session.pump import Pump
from disco_magic.session.refusing_lock import RefusingLock

# Commands that one worker may be behind. A call takes about 250 bytes, plus its operands.
MAX_OUTSTANDING: Final = 10_000
_REGISTER: Final = operator.attrgetter("register")

if TYPE_CHECKING:
    from collections.abc import Callable
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
    """What the controller knows, and its end of the queues.

    Attributes:
        end: why nothing can be sent any more, in words, if it is closed.
        ledger: what the controller knows; read it, do not write.
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
        self.forsaken = False  # the workers are not in this process: it was forked
        self._taken_down = True
        self._locked = RefusingLock()

    def open(self, launcher: Launcher) -> None:
        """Begin a life: a fresh ledger, and workers brought up by `launcher`."""
        self.ledger = Ledger(self.num_workers)
        # A queue per life of the session: a reference of the life before cannot free a register of this one.
        self._dead: SimpleQueue[Drop] = SimpleQueue()
        self.life = self._dead.put
        self._pump = Pump(self.ledger, self._locked)  # after `life`: see `Session.withdraw`
        self.drops: dict[int, Drop] = {}  # by register; of one that is free, the last one
        self._deaths = map(_REGISTER, iter(self._dead.get_nowait, None))
        self._dying: list[int] = []  # taken from there, on no queue yet
        self._orphans: SimpleQueue[Unheard] = SimpleQueue()
        self.orphan: Callable[[Unheard], None] = self._orphans.put
        self.unheard: dict[int, Unheard] = {}  # by sequence number
        self.unraised: dict[int, ref[PendingCell]] = {}  # by sequence number; dropped with the handle
        self._launcher = launcher
        self._channels = launcher.start(self._pump.deliver)
        self._sends = tuple(channel.send for channel in self._channels)
        self._partial = 0  # commands that were not sent to every worker
        self._partial_to = [0] * self.num_workers  # worker -> those of them that were sent to it
        self._pace_at = self.max_outstanding
        self._marks: dict[int, Mark] = {}  # by worker; see `Dispatch.keep_pace`
        self.forsaken = False
        self._taken_down = False  # closed, and the launcher has taken its workers down
        self.closed = False

    def flush(self) -> None:
        """Tell the workers which registers nobody refers to any more, if there are any."""
        if self._dead.empty() and not self._dying:
            return

        def act() -> None:
            # Again: another thread may have been faster.
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
