"""The tally of a run, of what was counted and what was wrong, and a watchdog that declares hangs."""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from benchmarks.chaos_faults import mark_of
from disco_magic.core.words import human_seconds
from disco_magic.errors import WorkerInterrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.chaos_target import Target

_LOOK_S = 0.5


@dataclass
class Tally:
    """The counts of a run; every method may be called from any thread.

    Attributes:
        operations, values: calls made on sessions; values received that were as predicted.
        faults: kind -> how many were provoked.
        worst_s: kind -> the longest time from a fault to its error, seconds.
        errors: class -> failures of workers that were seen and explained.
        swallowed: exceptions raised in a finalizer, where Python can only print them.
        wrong, lost, hangs: what must not happen, in words.
        unsaid: those of them that could not be printed when they were noted.
    """

    operations: int = 0
    values: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    worst_s: dict[str, float] = field(default_factory=dict)
    errors: Counter[str] = field(default_factory=Counter)
    swallowed: int = 0
    wrong: list[str] = field(default_factory=list)
    unsaid: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    hangs: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def operation(self) -> None:
        """Count an operation on a session."""
        with self._lock:
            self.operations += 1

    def value(self) -> None:
        """Count a value that was as predicted."""
        with self._lock:
            self.values += 1

    def fault(self, kind: str, elapsed_s: float) -> None:
        """Count a provoked fault whose error came after `elapsed_s`."""
        with self._lock:
            self.faults[kind] += 1
            self.worst_s[kind] = max(elapsed_s, self.worst_s.get(kind, 0.0))

    def note_wrong(self, what: str) -> None:
        """Record and print something that is not as predicted."""
        self._note(self.wrong, "wrong", what)

    def note_lost(self, what: str) -> None:
        """Record and print a session that cannot go on."""
        self._note(self.lost, "lost", what)

    def _note(self, found: list[str], kind: str, what: str) -> None:
        found.append(what)  # appending to a list is atomic; a lock could deadlock in the finalizers' hook
        with suppress(RecursionError):  # there may be too little stack left to print: see `unsaid`
            print(f"{kind}: {what}", flush=True)
            return
        self.unsaid.append(f"{kind}: {what}")

    @property
    def bad(self) -> bool:
        """Whether anything was not as it should be."""
        return bool(self.wrong or self.lost or self.hangs)


class Operation:
    """What a thread is doing, and since when; a nested operation counts instead, then this one starts anew.

    Not a `contextlib.contextmanager`: that assigns to exceptions passing through, which some refuse.
    """

    def __init__(self, running: dict[int, tuple[float, str]], what: str) -> None:
        self._running, self._what = running, what

    def __enter__(self) -> None:
        me = threading.get_ident()
        self._outer = self._running.get(me)
        self._running[me] = (time.monotonic(), self._what)

    def __exit__(self, *_: object) -> None:
        me = threading.get_ident()
        if self._outer is None:
            del self._running[me]
        else:
            self._running[me] = (time.monotonic(), self._outer[1])


class Watchdog(threading.Thread):
    """Ends the process with status 1 when an operation takes longer than `limit_s` seconds.

    Args:
        limit_s: the longest that any operation may take.
        tally: where the hang is noted.
        targets: the sessions, which are asked what they are doing.
        report: prints the table with the results so far.
    """

    def __init__(
        self, limit_s: float, tally: Tally, targets: Sequence[Target], report: Callable[[], None]
    ) -> None:
        super().__init__(name="chaos-watchdog", daemon=True)
        self._limit_s, self._tally = limit_s, tally
        self._targets, self._report = targets, report
        self._running: dict[int, tuple[float, str]] = {}  # thread -> since when, what
        self._over = threading.Event()

    def operation(self, what: str) -> Operation:
        """Watch what the calling thread does within the context."""
        return Operation(self._running, what)

    def stop(self) -> None:
        """Stop watching."""
        self._over.set()
        self.join()
        faulthandler.cancel_dump_traceback_later()

    def run(self) -> None:
        """Check twice a second; if no thread of the process can run, faulthandler ends it."""
        while not self._over.wait(_LOOK_S):
            faulthandler.dump_traceback_later(4 * self._limit_s, exit=True)
            now = time.monotonic()
            for since, what in list(self._running.values()):
                if now - since > self._limit_s:
                    self._declare(what, now - since)

    def _declare(self, what: str, elapsed_s: float) -> None:
        self._tally.hangs.append(what)
        print(f"\nhang: {what} has taken {human_seconds(elapsed_s)}", flush=True)
        faulthandler.dump_traceback(all_threads=True)
        for target in self._targets:
            print(f"\n{target.name}:\n{target.whereabouts()}", flush=True)
        self._report()
        sys.stdout.flush()
        os._exit(1)


def watch_the_interpreter(tally: Tally) -> None:
    """Record exceptions that end threads or are raised by finalizers; Python would only print them."""

    def of_thread(args: threading.ExceptHookArgs) -> None:
        name = args.thread.name if args.thread is not None else "?"
        tally.note_wrong(f"thread {name} ended with {args.exc_type.__name__}: {args.exc_value}")
        sys.excepthook(args.exc_type, args.exc_value or args.exc_type(), args.exc_traceback)

    def of_finalizer(args: sys.UnraisableHookArgs) -> None:
        error = args.exc_value
        interrupted = isinstance(error, WorkerInterrupt | KeyboardInterrupt)
        # An event loop interrupted while being made or closed can only partly close itself.
        name = getattr(args.object, "__qualname__", "")
        half_made = name == "BaseEventLoop.__del__"
        # The collector may run it anywhere, even at the bottom of an endless recursion.
        too_deep = isinstance(error, RecursionError) and name == "Litter.__del__"
        if mark_of(error) is not None or interrupted or half_made or too_deep:
            tally.swallowed += 1
        else:
            tally.note_wrong(f"the finalizer {name} raised {args.exc_type.__name__}: {error}")

    threading.excepthook = of_thread
    sys.unraisablehook = of_finalizer
