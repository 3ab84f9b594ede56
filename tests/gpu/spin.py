"""Work for a GPU that takes as long as one wants and needs next to none of it."""

from __future__ import annotations

from functools import cached_property
from typing import Any

# Every step needs the one before it, so that no compiler and no other thread can make it shorter.
_SOURCE = """
extern "C" __global__ void spin(unsigned long long *state, long long steps) {
    unsigned long long x = *state;
    for (long long step = 0; step < steps; ++step) x = x * 6364136223846793005ull + 1442695040888963407ull;
    *state = x;
}
"""
_LONG_ENOUGH_S = 0.02  # to know the speed by; a GPU that was idle has raised its clock by then


class Spin:
    """``spin(0.5)`` queues half a second of work on the current stream, and returns at once.

    Args:
        cupy: the module.
    """

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self._kernel = cupy.RawModule(code=_SOURCE, options=(), backend="nvrtc").get_function("spin")

    def __deepcopy__(self, memo: dict[int, Any]) -> Spin:
        return self  # a handle: cells of all workers share it

    def __call__(self, seconds: float) -> None:
        """Queue that much work, give or take a tenth."""
        self._queue(int(seconds * self.steps_per_s))

    def _queue(self, steps: int) -> None:
        self._kernel((1,), (1,), (self._cupy.ones(1, "uint64"), steps))

    @cached_property
    def steps_per_s(self) -> float:
        """How fast this GPU is at it; found out by doing."""
        events = [self._cupy.cuda.Event(), self._cupy.cuda.Event()]
        steps, spent_s = 1000, 0.0
        with self._cupy.cuda.Stream(non_blocking=True) as stream:
            self._queue(1)  # the first launch loads the kernel, which takes longer than all of it
            stream.synchronize()
            while spent_s < _LONG_ENOUGH_S:
                steps *= 4
                events[0].record(stream)
                self._queue(steps)
                events[1].record(stream)
                events[1].synchronize()
                spent_s = self._cupy.cuda.get_elapsed_time(*events) / 1e3
        return steps / spent_s
