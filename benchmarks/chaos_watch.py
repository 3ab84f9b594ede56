"""What came of it all: what was counted, what was wrong, and a watchdog that declares a hang."""

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
    """The account of a run; every method may be called from any thread.

    Attributes:
        operations, values: calls of a session that were made; values that came and were as predicted.
        faults: kind -> how many were provoked.
        worst_s: kind -> the longest time from a fault to its error, seconds.
        errors: class -> failures of workers that were seen, and explained.
        swallowed: exceptions that struck in a finalizer, where Python can only print them.
        wrong, lost, hangs: what should not be, in words.
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
        """A session was asked for something."""
        with self._lock:
            self.operations += 1

    def value(self) -> None:
        """A value came and was as predicted."""
        with self._lock:
            self.values += 1

    def fault(self, kind: str, elapsed_s: float) -> None:
        """A fault was provoked; its error came `elapsed_s` later."""
        with self._lock:
            self.faults[kind] += 1
            self.worst_s[kind] = max(elapsed_s, self.worst_s.get(kind, 0.0))

    def note_wrong(self, what: str) -> None:
        """Something is not as predicted; said at once."""
        self._note(self.wrong, "wrong", what)

    def note_lost(self, what: str) -> None:
        """A session cannot go on; said at once."""
        self._note(self.lost, "lost", what)

    def _note(self, found: list[str], kind: str, what: str) -> None:
        found.append(what)  # a list's append is atomic; a lock here would meet the finalizers' hook
        with suppress(RecursionError):  # it may be noted where there is no room for a print: see `unsaid`
            print(f"{kind}: {what}", flush=True)
            return
        self.unsaid.append(f"{kind}: {what}")

    @property
    def bad(self) -> bool:
        """Whether anything was not as it should be."""
        return bool(self.wrong or self.lost or self.hangs)


class Operation:
    """What one thread does, since when; while one inside it runs that one counts, and then it begins anew.

    Written out: `contextlib.contextmanager` assigns to the exceptions that pass, which some refuse.
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
        limit_s: the longest that anything may take.
        tally: where the hang is noted.
        targets: the sessions that are asked where they are.
        report: prints the table, as far as it has come.
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
        """Watch what the calling thread does inside."""
        return Operation(self._running, what)

    def stop(self) -> None:
        """Watch no more."""
        self._over.set()
        self.join()
        faulthandler.cancel_dump_traceback_later()

    def run(self) -> None:
        """Look twice a second; a process whose threads cannot run at all is ended by faulthandler."""
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
    """Note what ends a thread, and what a finalizer raises; both would only be printed."""

    def of_thread(args: threading.ExceptHookArgs) -> None:
        name = args.thread.name if args.thread is not None else "?"
        tally.note_wrong(f"thread {name} ended with {args.exc_type.__name__}: {args.exc_value}")
        sys.excepthook(args.exc_type, args.exc_value or args.exc_type(), args.exc_traceback)

    def of_finalizer(args: sys.UnraisableHookArgs) -> None:
        error = args.exc_value
        interrupted = isinstance(error, WorkerInterrupt | KeyboardInterrupt)
        # An event loop that an interrupt struck while it was made or closed closes itself, as far as it goes.
        name = getattr(args.object, "__qualname__", "")
        half_made = name == "BaseEventLoop.__del__"
        # The collector calls it wherever it runs, at the bottom of a recursion without end, too.
        too_deep = isinstance(error, RecursionError) and name == "Litter.__del__"
        if mark_of(error) is not None or interrupted or half_made or too_deep:
            tally.swallowed += 1
        else:
            tally.note_wrong(f"the finalizer {name} raised {args.exc_type.__name__}: {error}")

    threading.excepthook = of_thread
    sys.unraisablehook = of_finalizer
