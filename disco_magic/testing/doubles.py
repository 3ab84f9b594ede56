"""A double that forces an order of events without sleeps."""

from __future__ import annotations

from collections import deque
from functools import partial
from operator import call
from queue import Empty, SimpleQueue
from typing import Any

DEADLINE_S = 60.0


class Gate:
    """Blocks its callers until it is opened, and reports which ones arrived; an open gate does not block.

    A blocked caller sits in a C call that an interrupt cannot end, like a thread that is stuck in foreign
    code. A copy of a gate is the gate itself, so that it can be an argument of `call_packed`.
    """

    def __init__(self) -> None:
        self._arrivals: SimpleQueue[object] = SimpleQueue()
        self._tickets: list[SimpleQueue[None]] = []
        self._is_open = False

    def __call__(self, point: object = None) -> None:
        """Report that `point` was reached; return when the gate is open.

        Raises:
            TimeoutError: the gate was not opened within `DEADLINE_S`.
        """
        # Write the ticket before reading `_is_open`: `open` writes `_is_open` before it reads the tickets.
        ticket: SimpleQueue[None] = SimpleQueue()
        self._tickets.append(ticket)
        arrive, wait = partial(self._arrivals.put, point), partial(ticket.get, timeout=DEADLINE_S)
        steps = (arrive,) if self._is_open else (arrive, wait)
        try:
            # In C: between the two, an interrupt would find a caller in Python.
            deque(map(call, steps), maxlen=0)
        except Empty:
            raise TimeoutError(f"nobody opened the gate at {point!r} within {DEADLINE_S:g} s") from None

    def arrived(self, count: int = 1) -> list[object]:
        """Wait for the next `count` callers; return the points that they reached, in order of arrival.

        Raises:
            TimeoutError: fewer came within `DEADLINE_S`.
        """
        points: list[object] = []
        try:
            for _ in range(count):
                points.append(self._arrivals.get(timeout=DEADLINE_S))  # noqa: PERF401 - a partial list is the message
        except Empty:
            raise TimeoutError(f"{len(points)} of {count} came to the gate: {points}") from None
        return points

    def open(self) -> None:
        """Let all callers through from now on. Idempotent."""
        self._is_open = True
        for ticket in list(self._tickets):
            ticket.put(None)

    def __deepcopy__(self, memo: dict[int, Any]) -> Gate:
        return self
