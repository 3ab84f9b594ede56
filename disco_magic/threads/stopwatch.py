"""Time that a thread spends in something, readable from other threads while it lasts."""

from __future__ import annotations

from time import perf_counter


class Stopwatch:
    """Adds up intervals, in seconds. One thread starts and stops it; any thread may read it.

    Total, start and last end are one tuple, replaced at once, so that no reader sees half of a change.
    """

    __slots__ = ("_state",)

    def __init__(self) -> None:
        self._state: tuple[float, float | None, float | None] = (0.0, None, None)

    @property
    def is_running(self) -> bool:
        """Whether an interval has begun and not ended."""
        return self._state[1] is not None

    def start(self) -> float:
        """Begin an interval, adding one that is running to the total; return the time of `perf_counter`."""
        total, since, _ = self._state
        now = perf_counter()
        self._state = (total if since is None else total + now - since, now, None)
        return now

    def stop(self) -> float:
        """End the interval, if one is running; return the time of `perf_counter`."""
        total, since, _ = self._state
        now = perf_counter()
        self._state = (total if since is None else total + now - since, None, now)
        return now

    def seconds(self) -> float:
        """All intervals together, including one that is running."""
        total, since, _ = self._state
        return total if since is None else total + perf_counter() - since

    def lap(self) -> float | None:
        """The running interval so far; None if there is none."""
        since = self._state[1]
        return None if since is None else perf_counter() - since

    def pause(self) -> float | None:
        """The time since the last interval ended; None if one is running, or none has ended yet."""
        ended = self._state[2]
        return None if ended is None else perf_counter() - ended
