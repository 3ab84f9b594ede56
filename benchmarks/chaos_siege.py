"""Harm from outside: stopped cells, stuck threads, waits that time out, sessions that end."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from benchmarks.chaos_harm import Harm
from disco_magic.errors import SyncTimeout

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.chaos_faults import Fault
    from benchmarks.chaos_harm import Acts
    from disco_magic.session.pending import PendingCell

PATIENCE_S = 5.0  # for workers to get where a fault wants them; interrupted ones may never

# Endless cells, which first note that they run.
HERE = "faults[{number}].caught.append(worker_id)\n"
LOOP = "_n = 0\nwhile True:\n    _n += 1\n"
ASYNC = "import asyncio as _asyncio\n"
ENDLESS = {
    "loop": HERE + LOOP,
    "await": ASYNC + HERE + "await _asyncio.sleep(3600)",
    "awaits": ASYNC + HERE + "while True:\n    await _asyncio.sleep(0)",
    "collective": HERE + "if worker_id: barrier(in_group=False)\n" + LOOP,
    "collectives": HERE + "while True: allreduce(1.0)",
    "message": HERE + "if worker_id: recv(0)\n" + LOOP,
    "clean-up": HERE
    + "def _f():\n    while True: _g()\n_g = int\ntry:\n    _f()\nfinally:\n    _h = sorted('clean')",
}

# Cells that an interrupt does not end; {victim}: one worker.
SWALLOWS = """\
def _spin():
    while not faults[{number}].opened:
        _n = 1
while not faults[{number}].opened:
    try:
        _spin()
    except BaseException:
        pass
"""
STICKING = {
    "trap": "faults[{number}].trap()",
    "trap of one": "if worker_id == {victim}: faults[{number}].trap()\nallreduce(1, in_group=False)",
    "sleep": "import time as _time\n" + HERE + "_time.sleep(1.5)",
    "swallows": HERE + SWALLOWS,
}


class Siege(Harm):
    """A client that can do everything."""

    def harms(self) -> Acts:
        """Return the possible acts with their weights."""
        return (
            *super().harms(),
            (10, self.cancel),
            (8, self.interrupt),
            (6, self.time_out_cell),
            (6, self.time_out_wait),
            (3, self.stick),
            (1, self.restart),
            (1, self.replace),
        )

    # --- stopping --------------------------------------------------------------------------------------

    def gathered(self, fault: Fault, pending: PendingCell, count: int) -> None:
        """Wait until `count` workers have reached the fault, or the cell is over."""
        pause = threading.Event()
        deadline = time.monotonic() + PATIENCE_S
        while len(fault.caught) < count and not pending.done() and time.monotonic() < deadline:
            pause.wait(0.002)

    def _start(self, kind: str, fault: Fault, source: str, **names: object) -> PendingCell | None:
        cell = self.cell_of(fault, source, **names)
        # A SIGINT between `run_nowait` and here must not lose the only handle of an endless cell.
        kept: list[PendingCell] = []
        self.attempt(kind, lambda: kept.append(self.session.run_nowait(cell)))
        return kept[0] if kept else None

    def _cancelled(self, kind: str, pending: PendingCell, certain: frozenset[int]) -> None:
        since = time.monotonic()
        _, error = self.attempt(kind, pending.cancel)
        if isinstance(error, KeyboardInterrupt):  # perhaps before `cancel` did anything
            self.attempt(kind, pending.cancel)
        self.provoked(kind, since)
        self.stopped(pending.workers, pending.seq)
        if error is None:
            _, error = self.attempt("wait", pending.wait)
            self.check(kind, error, certain)

    def cancel(self) -> None:
        """Cancel an endless cell, while it runs or before."""
        kind, fault = self.dice.choice(list(ENDLESS)), self.arm()
        source = ENDLESS["loop" if self.target.workers == 1 and kind == "message" else kind]
        pending = self._start("an endless cell", fault, source)
        if pending is None:
            return
        if self.dice.random() < 0.7:
            with self.watchdog.operation(f"an endless cell on {self.target.name}"):
                self.gathered(fault, pending, self.target.workers)
        self._cancelled(f"cancel: {kind}", pending, frozenset(self.everybody))

    def stick(self) -> None:
        """Make threads ignore interrupts: they are replaced, and end when they are released."""
        kind, fault = self.dice.choice(list(STICKING)), self.arm()
        victim = self.dice.choice(self.everybody)
        pending = self._start("a sticking cell", fault, STICKING[kind], victim=victim)
        try:
            if pending is None:
                return
            with self.watchdog.operation(f"a sticking cell on {self.target.name}"):
                self.gathered(fault, pending, 1 if kind == "trap of one" else self.target.workers)
            ends = self.dice.random()
            if ends < 0.7:
                self._cancelled(f"stuck: {kind}", pending, frozenset())
            elif ends < 0.8:
                self.restart()
            elif ends < 0.9:
                self.replace()
        finally:
            fault.open()
        if pending is not None:
            self.attempt("wait", pending.wait)

    def interrupt(self) -> None:
        """Interrupt whatever some or all workers do."""
        chosen = None
        if self.dice.random() < 0.3:
            chosen = self.dice.sample(self.everybody, self.dice.randint(1, self.target.workers))
        since = time.monotonic()
        self.attempt("interrupt", lambda: self.session.interrupt(chosen))
        self.provoked("interrupt", since)
        self.stopped(chosen)

    def time_out_cell(self) -> None:
        """Run an endless cell with a timeout."""
        fault, timeout = self.arm(), self.dice.choice((0.0, 0.01, 0.05))
        cell = self.cell_of(fault, ENDLESS[self.dice.choice(("loop", "awaits", "collectives"))])
        since = time.monotonic()
        _, error = self.attempt(
            "cell with a timeout", lambda: self.session.run(cell, timeout=timeout), SyncTimeout, cell=True
        )
        self.stopped()
        self.provoked("timeout of a cell", since + timeout)
        if error is None:
            self.tally.note_wrong(f"a cell without end ended on {self.target.name}")

    def time_out_wait(self) -> None:
        """Wait with almost no time."""
        held = self.one()
        since = time.monotonic()
        self.attempt("sync_all with a timeout", lambda: self.session.sync_all(0.0), SyncTimeout)
        if held is not None:
            self.attempt("get with a timeout", lambda: held.ref.get(0, 0.001), SyncTimeout)
        self.provoked("timeout of a wait", since)

    # --- ends ------------------------------------------------------------------------------------------

    def restart(self) -> None:
        """Restart the session, whatever it is doing."""
        self._turned("restart", self.session.restart)

    def replace(self) -> None:
        """Shut the session down while it is busy, and start another in its place."""
        timeout = self.dice.choice((0.0, 0.01, 0.2))
        self._turned("shutdown while busy", lambda: self.target.replace(timeout))

    def _turned(self, kind: str, act: Callable[[], object]) -> None:
        since = time.monotonic()
        with self.watchdog.operation(f"{kind} of {self.target.name}"):
            if self.target.turn(self.session, act):
                self.provoked(kind, since)
