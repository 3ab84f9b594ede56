"""Provoke random faults under load: nothing may hang, no session may be lost, no result may be wrong.

``python -m benchmarks.chaos --minutes 10``

Several clients, one of them the main thread, use every feature of several sessions at once while faults are
provoked: errors of every kind before, in and after collectives, workers that leave, objects that fail, cells
that are cancelled, interrupts, SIGINTs, timeouts, threads stuck in C code, restarts, garbage with finalizers.
Every value is predicted by a model and compared; every error must be explained by a provoked fault: its
class, its worker, its command. After each episode every session has to do an allreduce on all workers.

    chaos_target.py   a session and its model         chaos_client.py   sends requests, checks the answers
    chaos_faults.py   what goes wrong on workers      chaos_load.py     acts that should succeed
    chaos_watch.py    the tally, the watchdog         chaos_harm.py, chaos_siege.py   acts that should fail

The exit status is 1 if anything hung, was lost or was wrong, or if threads are left at the end. Ctrl-C is
one of the faults here: end a run with SIGTERM. SIGUSR1 shows where all threads are.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import os
import random
import signal
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

import psutil

from benchmarks.chaos_siege import Siege
from benchmarks.chaos_target import Target
from benchmarks.chaos_watch import Tally, Watchdog, watch_the_interpreter
from disco_magic.core.words import human_bytes, human_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SESSIONS = ((1, 1, 20), (3, 1, 10_000), (4, 2, 50), (8, 1, 500))  # workers, groups, max_outstanding
CLIENTS = 4  # besides the main thread
MOMENTS = 20  # how many progress lines a run prints
SWITCHES_S = (5e-3, 1e-3, 1e-4, 1e-5)  # switch intervals of the GIL; each gives other interleavings
SETTLING = 20  # waits after which an idle session must have no errors left
THREADS_END_S = 10.0


class Fire:
    """Sends SIGINTs at random moments; the main thread accepts them only where it expects them.

    Attributes:
        pressed, late: how many were sent; how many arrived when they were no longer expected.
    """

    def __init__(self) -> None:
        self.pressed = self.late = 0
        self._exposed = False
        signal.signal(signal.SIGINT, self._strike)

    def _strike(self, *_: object) -> None:
        if self._exposed:
            raise KeyboardInterrupt("provoked")
        self.late += 1

    def under(self, ask: Callable[[], Any]) -> Any:
        """Call `ask` while a SIGINT may strike; main thread only."""
        try:
            self._exposed = True
            return ask()
        finally:
            self._exposed = False

    def press(self) -> None:
        """Send a SIGINT, if the main thread expects one now; called from another thread."""
        if self._exposed:
            self.pressed += 1
            os.kill(os.getpid(), signal.SIGINT)


class Chaos:
    """One run: sessions, clients, dice and the tally."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.dice = random.Random(options.seed)  # noqa: S311 - reproducible, not secret
        self.tally = Tally()
        watch_the_interpreter(self.tally)
        self.fire = Fire()
        self.threads, self.rss = threading.active_count(), rss()
        self.targets = [Target(*size, self.tally) for size in SESSIONS]
        self.watchdog = Watchdog(options.hang_after, self.tally, self.targets, self.report)
        self.waste: SimpleQueue[Any] = SimpleQueue()
        self.episodes = 0
        self.start = time.monotonic()

    def client(self, number: int) -> Siege:
        """Make a client of this episode; the main thread's has number 0."""
        client = Siege(
            number,
            f"{self.options.seed}/{self.episodes}/{number}",
            self.targets,
            self.tally,
            self.watchdog,
            waste=self.waste,
            under_fire=None if number else self.fire.under,
            fire_at_calls=self.options.sigint_in_calls,
        )
        client.calls_in_finalizers = self.options.calls_in_finalizers
        return client

    def run(self) -> None:
        """Run episodes until the time is over, printing progress now and then."""
        self.watchdog.start()
        seconds = self.options.minutes * 60
        moment = 0
        while (elapsed := time.monotonic() - self.start) < seconds:
            self.episode()
            if elapsed >= moment * seconds / MOMENTS:
                moment += 1
                print(self.progress(), flush=True)
        self.end()

    # --- an episode ------------------------------------------------------------------------------------

    def episode(self) -> None:
        """Apply a few seconds of load and harm, then check that every session still works."""
        self.episodes += 1
        until = time.monotonic() + self.dice.uniform(1.0, 3.0)
        harm = self.dice.choice((0.02, 0.1, 0.3))
        sys.setswitchinterval(self.dice.choice(SWITCHES_S))
        over = threading.Event()
        clients = [self.client(number) for number in range(CLIENTS + 1)]
        disturbers = [self.sweep, *(act for act in (self.interrupt, self.press) if self.dice.random() < 0.4)]
        jobs = [partial(self.use, client, until, harm) for client in clients[1:]]
        jobs += [partial(act, self.client(CLIENTS + 1), over) for act in disturbers]
        threads = [threading.Thread(target=job, daemon=True) for job in jobs]
        for thread in threads:
            thread.start()
        self.use(clients[0], until, harm)
        over.set()
        for thread in threads:
            with self.watchdog.operation(f"{thread.name} of the episode, ending"):
                thread.join()
        sys.setswitchinterval(SWITCHES_S[0])
        for target in self.targets:
            self.settle(target)

    def use(self, client: Siege, until: float, harm: float) -> None:
        """Act as one client during an episode."""
        while time.monotonic() < until:
            with self.watchdog.operation(f"client {client.register}, between two operations"):
                (client.harm if client.dice.random() < harm else client.act)()

    def sweep(self, client: Siege, over: threading.Event) -> None:
        """Drop references that clients gave away, and collect garbage.

        In one thread only: with several waiters, CPython's `SimpleQueue.get` may ignore its timeout for ever.
        """
        while not over.is_set():
            with self.watchdog.operation("dropping references and garbage"), suppress(Empty):
                self.waste.get(timeout=0.05)
                if client.dice.random() < 0.02:
                    client.collect()

    def interrupt(self, client: Siege, over: threading.Event) -> None:
        """Interrupt a session at random moments."""
        while not over.wait(client.dice.uniform(0.0, 0.2)):
            client.aim()
            client.interrupt()

    def press(self, client: Siege, over: threading.Event) -> None:
        """Send SIGINTs at random moments."""
        while not over.wait(client.dice.uniform(0.0, 0.2)):
            self.fire.press()

    def settle(self, target: Target) -> None:
        """Raise the remaining errors, explain all of them, and do an allreduce on all workers."""
        client = self.client(CLIENTS + 2)
        client.targets = [target]
        client.aim()
        for _ in range(SETTLING):
            _, error = client.attempt("settling", target.session.sync_all)
            if error is None:
                break
        target.judge()
        salt = self.dice.randrange(1000)
        code = f"allreduce(worker_id + {salt}, in_group=False)"
        result, error = client.attempt("allreduce after the episode", lambda: target.session.run(code).values)
        n = target.workers
        if result != [n * salt + n * (n - 1) // 2] * n:
            self.tally.note_lost(
                f"{target.name} cannot do an allreduce: {error or result}\n{target.whereabouts()}"
            )
            target.turn(target.session, lambda: target.replace(0.0))

    # --- the end ---------------------------------------------------------------------------------------

    def end(self) -> None:
        """Shut everything down, drop all references, and wait for all threads."""
        for target in self.targets:
            with self.watchdog.operation(f"the last shutdown of {target.name}"):
                target.session.shutdown()
            target.pool.clear()
        self.watchdog.stop()
        while not self.waste.empty():
            self.waste.get()
        gc.collect()
        deadline = time.monotonic() + THREADS_END_S
        pause = threading.Event()
        while threading.active_count() > self.threads and time.monotonic() < deadline:
            pause.wait(0.05)

    def progress(self) -> str:
        """Return a progress line."""
        tally = self.tally
        return "  ".join(
            (
                f"{human_seconds(time.monotonic() - self.start):>8}",
                f"{self.episodes:4} episodes",
                f"{tally.operations:9,} operations",
                f"{tally.values:8,} values",
                f"{sum(tally.faults.values()):6,} faults",
                f"{human_bytes(rss()):>8}",
                f"{threading.active_count():3} threads",
                f"{len(tally.hangs)} hangs, {len(tally.lost)} lost, {len(tally.wrong)} wrong",
            )
        )

    def report(self) -> None:
        """Print the final table."""
        tally = self.tally
        print(f"\n{'fault':36}{'times':>8}{'worst time to its error':>26}")
        for kind, times in sorted(tally.faults.items()):
            print(f"{kind:36}{times:8,}{human_seconds(tally.worst_s[kind]):>26}")
        print(f"{'SIGINT':36}{self.fire.pressed:8,}{f'{self.fire.late} too late':>26}")
        print(f"\n{'failure of a worker':36}{'times':>8}")
        for name, times in sorted(tally.errors.items()):
            print(f"{name:36}{times:8,}")
        rows: Sequence[tuple[str, object]] = (
            ("episodes", self.episodes),
            ("operations", f"{tally.operations:,}"),
            ("values compared", f"{tally.values:,}"),
            ("faults", f"{sum(tally.faults.values()) + self.fire.pressed:,}"),
            ("errors that struck in a finalizer", tally.swallowed),
            ("memory", f"{human_bytes(self.rss)} -> {human_bytes(rss())}"),
            ("threads", f"{self.threads} -> {threading.active_count()}"),
            ("hangs", len(tally.hangs)),
            ("lost sessions", len(tally.lost)),
            ("wrong results", len(tally.wrong)),
        )
        print()
        for name, value in rows:
            print(f"{name:36}{value!s:>16}")
        for said in tally.unsaid:
            print(said)
        print(f"seed {self.options.seed}, {human_seconds(time.monotonic() - self.start)}", flush=True)


def rss() -> int:
    """Memory of this process in bytes."""
    return int(psutil.Process().memory_info().rss)


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description="Random faults under load; nothing may hang, be lost or wrong."
    )
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hang-after", type=float, default=30.0, help="seconds that an operation may take")
    yes = argparse.BooleanOptionalAction
    parser.add_argument("--sigint-in-calls", action=yes, default=True, help="SIGINTs outside of cells too")
    parser.add_argument("--calls-in-finalizers", action=yes, default=True, help="garbage may call a session")
    faulthandler.register(signal.SIGUSR1)
    chaos = Chaos(parser.parse_args())
    chaos.run()
    chaos.report()
    left = threading.active_count() != chaos.threads
    if left:
        print(f"threads are left: {[thread.name for thread in threading.enumerate()]}", flush=True)
        faulthandler.dump_traceback(all_threads=True)
    return 1 if chaos.tally.bad or left else 0


if __name__ == "__main__":
    sys.exit(main())
