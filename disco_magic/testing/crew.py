"""The workers of a launcher under test, with a minimal controller."""

from __future__ import annotations

from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from disco_magic.core.messages import Answer, CellDone, Fetch, Run, Stop
from disco_magic.functions.execution.cells import compile_cell
from disco_magic.testing.stage import expect

if TYPE_CHECKING:
    from collections.abc import Callable

    from disco_magic.core.interfaces import Launcher
    from disco_magic.core.messages import Command, Event

DEADLINE_S = 60.0


class Crew:
    """The workers of a launcher, with a minimal controller."""

    def __init__(self, launcher: Launcher, size: int) -> None:
        self.launcher = launcher
        self.size = size
        self.seq = 0
        self._events: SimpleQueue[Event] = SimpleQueue()
        self.channels = launcher.start(self._events.put)

    def send(self, make: Callable[[int], Command]) -> int:
        """Send ``make(seq)`` to all workers and return `seq`."""
        self.seq += 1
        for channel in self.channels:
            channel.send(make(self.seq))
        return self.seq

    def events(self, count: int) -> list[Event]:
        """Wait for the next `count` events."""
        try:
            return [self._events.get(timeout=DEADLINE_S) for _ in range(count)]
        except Empty:
            raise AssertionError(f"fewer than {count} events came within {DEADLINE_S:g} s") from None

    def one_each(self) -> list[Any]:
        """The next events, which have to be one of each worker, sorted by worker."""
        events = sorted(self.events(self.size), key=lambda event: event.worker)
        expect([event.worker for event in events] == list(range(self.size)), f"one event each, got {events}")
        return events

    def ask(self, register: int) -> list[Any]:
        """Fetch the workers' values of a register."""
        self.send(lambda seq: Fetch(seq, register))
        answers = self.one_each()
        expect(all(isinstance(a, Answer) and a.failure is None for a in answers), f"got {answers}")
        return [answer.value for answer in answers]

    def run(self, source: str) -> list[CellDone]:
        """Execute a cell into register 1; return how it ended on each worker."""
        cell = compile_cell(source)
        self.send(lambda seq: Run(seq, 1, cell))
        done = self.one_each()
        expect(all(isinstance(event, CellDone) for event in done), f"expected CellDone, got {done}")
        return done

    def stop(self, timeout_s: float = DEADLINE_S) -> None:
        """Stop as a session does: commands that were sent have `timeout_s` seconds, then are interrupted."""
        through = self.send(Stop)
        for channel in self.channels:
            channel.close()
        self.launcher.stop(timeout_s, through)
