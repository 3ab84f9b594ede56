"""What fails, continued: stages at which all workers do something together, and memory that is not there."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

import disco_magic as disco
from disco_magic.errors import PlaneError, PlaneMismatch, UsageMistake
from disco_magic.functions.builtins import empty
from tests.faults.stages import Stage, here
from tests.faults.ways import ITS_OWN

if TYPE_CHECKING:
    from collections.abc import Callable

# No machine has that much, not even as addresses: such an allocation fails whatever the system promises.
TOO_MUCH = 1 << 58


class Reading(Stage):
    name = "collective's argument"
    title = "`__array__` of what a collective is given"
    told = "as of a function; an `Exception` is the cause of a `UsageMistake`; the others are released"
    joint = True
    wraps = UsageMistake

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
        self.fail()
        return np.ones(2)

    def work(self) -> Any:
        disco.worker().allreduce(self)


class Check(Stage):
    name = "collective's check"
    title = "calls of a collective that do not fit together"
    told = "as of a function: `PlaneMismatch` on all workers"
    ways = (ITS_OWN,)
    joint = True
    spreads = True

    def work(self) -> Any:
        self.fail()
        disco.worker().allreduce(1.0)

    def strike(self) -> None:
        me = disco.worker()
        (me.barrier, lambda: me.allgather(1.0), lambda: me.alltoall(np.ones(me.num_workers)))[me.id]()

    def is_told(self, seen: BaseException, is_error: Callable[[object, object], bool]) -> bool:
        return type(seen) is PlaneMismatch


class Allocation(Stage):
    name = "allocation"
    title = "memory that a worker has not got"
    told = "as of a function: `MemoryError`"
    ways = (ITS_OWN,)

    def strike(self) -> None:
        empty((TOO_MUCH,), "uint8")

    def is_told(self, seen: BaseException, is_error: Callable[[object, object], bool]) -> bool:
        return isinstance(seen, MemoryError)


class Result(Stage):
    name = "collective's result"
    title = "memory for the result of a collective"
    told = "as of a function: `PlaneError` on all workers, with the `MemoryError` as its cause"
    ways = (ITS_OWN,)
    joint = True
    spreads = True

    def work(self) -> Any:
        self.fail()
        disco.worker().allgather(np.ones(1, np.int8))

    def strike(self) -> None:
        disco.worker().allgather(_looks_huge())

    def is_told(self, seen: BaseException, is_error: Callable[[object, object], bool]) -> bool:
        return type(seen) is PlaneError and isinstance(seen.__cause__, MemoryError)


def _looks_huge() -> np.ndarray[Any, Any]:
    """An array that says it is huge; nobody may read it, and nobody gets so far."""
    one = ctypes.c_int8(here() or 0)
    return np.frombuffer((ctypes.c_int8 * TOO_MUCH).from_address(ctypes.addressof(one)), np.int8)
