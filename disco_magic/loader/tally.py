"""How far all workers are with a load, and whether it is still wanted: what controller and workers share."""

from __future__ import annotations

from typing import Any

import numpy as np


class Tally:
    """A number per worker that only that worker writes, and one flag that anybody may raise.

    The controller reads while workers write: single 8-byte words, a single writer each, so that nothing is
    torn or lost and no lock is needed. Workers that are other processes can have the same over a block of
    shared memory, 8 bytes per worker and 8 for the flag: pass its buffer as `slots`.

    Args:
        num_workers: of the session.
        slots: ``num_workers + 1`` 64-bit integers, zero; None makes them.
    """

    def __init__(self, num_workers: int, slots: np.ndarray[Any, Any] | None = None) -> None:
        self._slots = np.zeros(num_workers + 1, np.int64) if slots is None else slots

    def add(self, worker: int, nbytes: int) -> None:
        """`worker`, and nobody else for it, says that it has got so many more bytes."""
        self._slots[worker] += nbytes

    @property
    def done(self) -> int:
        """Bytes that all workers together have got."""
        return int(self._slots[:-1].sum())

    def stop(self) -> None:
        """The load has failed or is not wanted any more: what is not there yet need not be read."""
        self._slots[-1] = 1

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return bool(self._slots[-1])

    def __deepcopy__(self, memo: dict[int, Any]) -> Tally:
        return self  # a handle, not a value: a copy would count for nobody
