"""Time that a thread spends in something, readable from other threads while it lasts."""

from __future__ import annotations

from time import perf_counter


class Stopwatch:
    """Adds up intervals, in seconds. One thread starts and stops it; any thread may read it.

    Total and beginning are one tuple, replaced at once, so that no reader sees half of a change.
    """

    __slots__ = ("_state",)

    def __init__(self) -> None:
        self._state: tuple[float, float | None] = (0.0, None)

    @property
    def is_running(self) -> bool:
        """Whether an interval has begun and not ended."""
        return self._state[1] is not None

    def start(self) -> None:
        """Begin an interval; one that lasts is kept."""
        self._state = (self.seconds(), perf_counter())

    def stop(self) -> None:
        """End the interval; nothing if none has begun."""
        self._state = (self.seconds(), None)

    def seconds(self) -> float:
        """All intervals together, with the one that lasts."""
        total, since = self._state
        return total if since is None else total + perf_counter() - since
