"""How far all workers are with a load, and whether it is still wanted; shared by controller and workers."""

from __future__ import annotations

from typing import Any

import numpy as np


class Tally:
    """A number per worker, which only that worker writes, and one flag that any thread may set.

    The controller reads while workers write: each is a single 8-byte word with a single writer, so nothing is
    torn or lost and no lock is needed. Workers in other processes can use a block of shared memory, 8 bytes
    per worker and 8 for the flag: pass its buffer as `slots`.

    Args:
        num_workers: of the session.
        slots: ``num_workers + 1`` 64-bit integers, zero; None: made here.
    """

    def __init__(self, num_workers: int, slots: np.ndarray[Any, Any] | None = None) -> None:
        self._slots = np.zeros(num_workers + 1, np.int64) if slots is None else slots

    def add(self, worker: int, nbytes: int) -> None:
        """Add the bytes that `worker` has loaded; called only by that worker."""
        self._slots[worker] += nbytes

    @property
    def done(self) -> int:
        """Bytes that all workers together have loaded."""
        return int(self._slots[:-1].sum())

    def stop(self) -> None:
        """Stop the load, which has failed or is no longer wanted: the rest need not be read."""
        self._slots[-1] = 1

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return bool(self._slots[-1])

    def __deepcopy__(self, memo: dict[int, Any]) -> Tally:
        return self  # a handle, not a value: the counts of a copy would never be read
