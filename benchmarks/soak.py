"""Runs one session for long: random calls, drops, groups, collectives, errors, interrupts, restarts.

``python -m benchmarks.soak --minutes 60``

Every value is predicted by a model in the controller and compared; every error is a provoked one. At twenty
moments memory, threads and registers are recorded. The exit status is 1 if anything was not as predicted, or
if memory grew or the number of threads changed.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import threading
import time
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil

import disco_magic as disco
from disco_magic.core.words import human_bytes, human_seconds
from disco_magic.errors import WorkerInterrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from disco_magic import DRef

Array = np.ndarray[Any, Any]

PRIME = 1_000_003
LENGTH = 8  # elements of every array; divisible by the number of workers and the size of a group
POOL = 200
MOMENTS = 20
RESTART_AFTER = 3000  # rounds
# How much memory may grow from the run's second quarter to its last: allocators keep some.
SLACK_NBYTES = 8 * 2**20


def begin(salt: int) -> Array:
    """Make this worker's own array."""
    return (np.arange(LENGTH, dtype=np.int64) + 31 * disco.worker().id + salt) % PRIME


def mix(x: Array, y: Array, factor: int) -> Array:
    """Combine two operands and a number."""
    return (x * factor + y) % PRIME


def wrap(x: Array) -> Array:
    """Reduce modulo the prime."""
    return x % PRIME


def boom_on(x: Array, worker: int) -> Array:
    """Raise on one worker."""
    if disco.worker().id == worker:
        raise ValueError(f"provoked on worker {worker}")
    return x


def nothing() -> None:
    """Do nothing; called by bursts."""


@dataclass
class Held:
    """A reference and what it must hold: row w is worker w's array."""

    ref: DRef
    expected: Array


@dataclass(frozen=True)
class Moment:
    """What was recorded at one moment."""

    elapsed_s: float
    commands: int
    errors: int
    rss: int
    threads: int
    held: int
    registers: int

    def cells(self) -> tuple[str, ...]:
        """Return the cells of its row."""
        return (
            human_seconds(self.elapsed_s),
            f"{self.commands:,}",
            f"{self.commands / self.elapsed_s:,.0f}",
            f"{self.errors:,}",
            human_bytes(self.rss),
            str(self.threads),
            str(self.held),
            str(self.registers),
        )


HEADER = ("after", "commands", "per second", "errors", "memory", "threads", "held", "registers")


class Soak:
    """One run: the session, the model, and the dice."""

    def __init__(self, workers: int, groups: int, seed: int) -> None:
        self.dice = random.Random(seed)  # noqa: S311 - reproducible, not secret
        self.session = disco.ThreadedSession(workers, groups, max_outstanding=500)
        self.workers, self.size = workers, workers // groups
        self.pool: list[Held] = []
        self.errors = 0
        self._commands_before = 0
        self._rounds = 0
        self._acts: Sequence[tuple[int, Callable[[], None]]] = (
            (20, self.call),
            (8, self.burst),
            (8, self.allreduce),
            (4, self.alltoall),
            (4, self.broadcast),
            (6, self.look),
            (4, self.cell),
            (3, self.fail),
            (1, self.mismatch),
            (1, self.interrupt),
        )
        for salt in range(10):
            self.begin(salt)

    @property
    def commands(self) -> int:
        """How many commands were sent to each worker, over all restarts."""
        return self._commands_before + self.session.ledger.seq

    def round(self) -> None:
        """Perform one act, and perhaps drop a few references."""
        weights = [weight for weight, _ in self._acts]
        (act,) = self.dice.choices([act for _, act in self._acts], weights)
        act()
        while len(self.pool) > POOL or (len(self.pool) > 10 and self.dice.random() < 0.4):
            self.pool.pop(self.dice.randrange(len(self.pool)))
        self._rounds += 1
        if self._rounds % RESTART_AFTER == 0:
            self.restart()

    def check(self, got: Any, expected: Any, what: str) -> None:
        """Stop the run if a value is not the predicted one."""
        if not np.array_equal(np.asarray(got), np.asarray(expected)):
            raise SystemExit(f"{what}: expected\n{expected}\ngot\n{got}")

    def pick(self) -> Held:
        """Return a random held reference."""
        return self.dice.choice(self.pool)

    # --- acts --------------------------------------------------------------------------------------

    def begin(self, salt: int) -> None:
        """Make a new array."""
        rows = [
            (np.arange(LENGTH, dtype=np.int64) + 31 * worker + salt) % PRIME for worker in range(self.workers)
        ]
        self.pool.append(Held(self.session.call_packed(begin, salt), np.stack(rows)))

    def call(self) -> None:
        """Call with registers and a number as operands."""
        x, y, factor = self.pick(), self.pick(), self.dice.randrange(PRIME)
        ref = self.session.call_packed(mix, x.ref, y.ref, factor)
        self.pool.append(Held(ref, (x.expected * factor + y.expected) % PRIME))

    def burst(self) -> None:
        """Make many calls, whose results are dropped at once or soon."""
        kept = []
        for _ in range(self.dice.randrange(2000)):
            ref = self.session.call_packed(nothing)
            if self.dice.random() < 0.1:
                kept.append(ref)

    def allreduce(self) -> None:
        """Sum inside the groups or over all workers."""
        x, in_group = self.pick(), self.dice.random() < 0.5
        ref = self.session.call_packed(wrap, self.session.allreduce(x.ref, in_group=in_group))
        size = self.size if in_group else self.workers
        sums = x.expected.reshape(-1, size, LENGTH).sum(axis=1, keepdims=True) % PRIME
        expected = np.broadcast_to(sums, (self.workers // size, size, LENGTH)).reshape(self.workers, LENGTH)
        self.pool.append(Held(ref, expected))

    def alltoall(self) -> None:
        """Exchange parts inside the groups or between all workers."""
        x, in_group = self.pick(), self.dice.random() < 0.5
        ref = self.session.alltoall(x.ref, in_group=in_group)
        size = self.size if in_group else self.workers
        parts = x.expected.reshape(-1, size, size, LENGTH // size)
        self.pool.append(Held(ref, parts.swapaxes(1, 2).reshape(self.workers, LENGTH)))

    def broadcast(self) -> None:
        """Copy the first worker's array to its group or to all."""
        x, in_group = self.pick(), self.dice.random() < 0.5
        ref = self.session.broadcast_from_worker0(x.ref, in_group=in_group)
        size = self.size if in_group else self.workers
        firsts = np.repeat(x.expected[::size], size, axis=0)
        self.pool.append(Held(ref, firsts))

    def look(self) -> None:
        """Fetch from all workers and compare."""
        held = self.pick()
        self.check(held.ref.get_all(), held.expected, f"register #{held.ref.register}")

    def cell(self) -> None:
        """Run a cell that binds a name, read the name, and unbind it."""
        number = self.dice.randrange(PRIME)
        result = self.session.run(f"soaked = worker_id + {number}\nsoaked * 2")
        self.check(result.values, [2 * (w + number) for w in range(self.workers)], "a cell's values")
        self.check(self.session["soaked"].get(1), 1 + number, "a named register")
        del self.session["soaked"]

    def fail(self) -> None:
        """Make a call that raises on one worker and another that needs it; check the error's origin."""
        worker, x = self.dice.randrange(self.workers), self.pick()
        poisoned = self.session.call_packed(boom_on, x.ref, worker)
        dependent = self.session.call_packed(mix, poisoned, x.ref, 3)
        failures = self.expect(self.session.sync_all, ValueError)
        if set(failures) != {worker}:
            raise SystemExit(f"workers {set(failures)} failed, expected {worker} alone")
        other = (worker + 1) % self.workers
        self.check(dependent.get(other), (4 * x.expected[other]) % PRIME, "beside a failed worker")

    def mismatch(self) -> None:
        """Make one worker call another collective than the others."""
        worker = self.dice.randrange(self.workers)
        code = f"barrier(in_group=False) if worker_id == {worker} else allreduce(1, in_group=False)"
        failures = self.expect(lambda: self.session.run(code), disco.PlaneMismatch)
        if len(failures) != self.workers:
            raise SystemExit(f"a mismatch was raised on {set(failures)} only")

    def interrupt(self) -> None:
        """Run an endless cell and stop it."""
        begun = threading.Semaphore(0)
        self.session["begun"] = self.session.call_packed(lambda: begun.release)
        running = self.session.run_nowait("begun()\nwhile True:\n    pass")
        for _ in range(self.workers):
            begun.acquire()
        running.cancel()
        failures = self.expect(running.wait, WorkerInterrupt)
        if len(failures) != self.workers:
            raise SystemExit(f"an interrupt ended {set(failures)} only")
        del self.session["begun"]

    def expect(self, act: Callable[[], object], kind: type[BaseException]) -> dict[int, Any]:
        """Return the failures that `act` must raise, all of that kind."""
        try:
            act()
        except disco.WorkerError as error:
            if not all(isinstance(failure.exception, kind) for failure in error.failures.values()):
                raise SystemExit(f"expected {kind.__name__}, got {error}") from error
            self.errors += 1
            return error.failures
        raise SystemExit("an error that was provoked did not come")

    def restart(self) -> None:
        """Restart the session."""
        self.pool.clear()
        self._commands_before += self.session.ledger.seq
        self.session.restart()
        for salt in range(10):
            self.begin(salt)

    # --- checks and records ------------------------------------------------------------------------

    def moment(self, elapsed_s: float) -> Moment:
        """Compare all held values, and record the counts."""
        for held in self.pool:
            self.check(held.ref.get_all(), held.expected, f"register #{held.ref.register}")
        gc.collect()  # failed cells leave cycles of exceptions and frames
        self.session.flush()
        self.session.sync_all()
        registers = {each.registers for each in self.session.stats()}
        if registers != {len(self.pool)} or self.session.ledger.live_registers != len(self.pool):
            raise SystemExit(
                f"{len(self.pool)} references are held, the workers have {registers} registers, "
                f"the controller counts {self.session.ledger.live_registers}"
            )
        return Moment(
            elapsed_s,
            self.commands,
            self.errors,
            psutil.Process().memory_info().rss,
            threading.active_count(),
            len(self.pool),
            registers.pop(),
        )


def soak(minutes: float, workers: int, groups: int, seed: int) -> list[Moment]:
    """Run, printing a line per moment; return the moments."""
    run = Soak(workers, groups, seed)
    start = time.perf_counter()
    moments: list[Moment] = []
    width = [12] * len(HEADER)
    print("  ".join(name.rjust(w) for name, w in zip(HEADER, width, strict=True)), flush=True)
    while len(moments) < MOMENTS:
        due = start + (len(moments) + 1) * minutes * 60 / MOMENTS
        while time.perf_counter() < due:
            run.round()
        moments.append(run.moment(time.perf_counter() - start))
        cells = moments[-1].cells()
        print("  ".join(cell.rjust(w) for cell, w in zip(cells, width, strict=True)), flush=True)
    run.session.shutdown()
    return moments


def verdict(moments: Sequence[Moment]) -> list[str]:
    """Say what grew; empty if nothing did."""
    quarter = len(moments) // 4
    early, late = moments[quarter : 2 * quarter], moments[-quarter:]
    grown = median(m.rss for m in late) - median(m.rss for m in early)
    found = []
    if grown > SLACK_NBYTES:
        found.append(f"memory grew by {human_bytes(int(grown))} from the second quarter to the last")
    if len({m.threads for m in moments}) > 1:
        found.append(f"the number of threads was {sorted({m.threads for m in moments})}")
    return found


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Random work in one session; nothing may grow or be wrong.")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--groups", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.workers < 2 or LENGTH % options.workers or options.workers % options.groups:
        parser.error(f"--workers must divide {LENGTH} and be at least 2, --groups must divide --workers")
    moments = soak(options.minutes, options.workers, options.groups, options.seed)
    found = verdict(moments)
    last = moments[-1]
    print(
        f"\n{last.commands:,} commands to each of {options.workers} workers, {last.errors:,} errors, "
        f"{human_seconds(last.elapsed_s)}, seed {options.seed}: {'; '.join(found) or 'nothing grew'}."
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
