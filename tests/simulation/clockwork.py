"""What the runtime asks of threads and clocks, answered by the scheduler; and the parts a world is built of.

Nothing here runs a thread. The "calling thread" is whoever the scheduler lets do a step, time goes on by
steps, and an injected exception is a note that the victim finds at its next step of user code.
"""

from __future__ import annotations

import sys
import threading
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from unittest import mock

from disco_magic.core.interpreter import Interpreter
from disco_magic.core.ledger import Ledger
from disco_magic.core.registers import RegisterFile
from disco_magic.errors import WorkerInterrupt
from disco_magic.launchers import threads as launchers
from disco_magic.planes import threads as planes
from disco_magic.planes.board import Board
from disco_magic.planes.mailbox import Mailbox
from disco_magic.planes.rendezvous import Rendezvous
from disco_magic.session import queues
from disco_magic.workers import injection, lane, serving
from disco_magic.workers.worker import Worker
from tests.simulation.stepped import SteppedWorker

CONTROLLER = 0


@dataclass(frozen=True)
class Parts:
    """The classes under test; a mutation check replaces one of them."""

    ledger: type[Ledger] = Ledger
    interpreter: type[Interpreter] = Interpreter
    registers: type[RegisterFile] = RegisterFile
    board: type[Board] = Board
    rendezvous: type[Rendezvous] = Rendezvous
    mailbox: type[Mailbox] = Mailbox
    worker: type[SteppedWorker] = SteppedWorker


class Clockwork:
    """Stands in for `threading.get_ident`, `time.monotonic`, `injection.inject` and `injection.let_strike`.

    Attributes:
        ident: the thread that does the current step.
        now: seconds.
        pending: threads with an injected exception that has not struck yet.
    """

    Lock = threading.Lock
    main_thread = staticmethod(threading.main_thread)

    def __init__(self):
        self.ident = CONTROLLER
        self.now = 0.0
        self.pending = set()

    def get_ident(self):
        return self.ident

    def monotonic(self):
        return self.now

    perf_counter = monotonic

    def inject(self, thread_id, _):
        self.pending.add(thread_id)
        return True

    def let_strike(self):
        if self.ident in self.pending:
            self.pending.discard(self.ident)
            raise WorkerInterrupt

    @contextmanager
    def acting(self, ident):
        """What happens inside is done by that thread."""
        before, self.ident = self.ident, ident
        try:
            yield
        finally:
            self.ident = before


class Parked(BaseException):
    """Raised where a thread would go to sleep in a plane call."""

    def __init__(self, call, wait):
        super().__init__()
        self.call = call
        self.wait = wait

    @property
    def is_called(self):
        """It was woken, or will be by somebody who was."""
        return not self.call.gate.locked() or self.call.gate in self.wait.to_wake


def parking(board):
    """A board whose `sleep` does not block: a closed gate raises `Parked`."""

    class ParkingBoard(board):
        def sleep(self, call, wait):
            parked_in = self.waiting.get(call.worker)
            if not call.gate.acquire(blocking=False):
                raise Parked(call, parked_in)
            self.pass_on(wait)

    return ParkingBoard


def installed(clock, parts):
    """Everything that is replaced while a world lives; the stack to close at its end."""
    replaced = [
        (lane, "threading", clock),
        (sys.modules[Worker.__module__], "time", clock),  # `disco_magic.worker` is a function
        (launchers, "time", clock),
        (injection, "inject", clock.inject),
        (injection, "let_strike", clock.let_strike),
        (queues, "Ledger", parts.ledger),
        (serving, "Interpreter", parts.interpreter),
        (serving, "RegisterFile", parts.registers),
        (launchers, "Worker", parts.worker),
        (planes, "Board", parking(parts.board)),
        (planes, "Rendezvous", parts.rendezvous),
        (planes, "Mailbox", parts.mailbox),
    ]
    stack = ExitStack()
    for module, name, stand_in in replaced:
        stack.enter_context(mock.patch.object(module, name, stand_in))
    return stack
