"""Bind threads to CPU cores. Only Linux lets a program do this per thread."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from disco_magic.errors import UsageMistake
from disco_magic.phrases import ranges
from disco_magic.threads.own_threads import start_thread

if TYPE_CHECKING:
    from collections.abc import Iterable


def cores() -> int:
    """How many CPU cores the calling thread may use: the process's, unless the thread was bound."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def bind_thread(core: int) -> None:
    """Let the calling thread, and threads that it starts from now on, run on one core only. Costs 1 us.

    Existing threads, such as those of a BLAS library, are not affected.
    """
    if sys.platform != "linux":
        raise UsageMistake(
            f"a thread cannot be bound to CPU core {core}: {sys.platform} has no call for it, only Linux "
            "has; leave the binding out"
        )
    try:
        os.sched_setaffinity(0, {core})
    except (OSError, OverflowError, ValueError) as reason:
        own = sorted(os.sched_getaffinity(os.getpid()))  # the main thread's, which nothing here binds
        raise UsageMistake(
            f"a thread cannot be bound to CPU core {core}: there is no such core, or this process may not "
            f"use it ({reason}); name some of {ranges(own)}, which the main thread may use"
        ) from None


def check_cores(wanted: Iterable[int]) -> None:
    """Raise what `bind_thread` would raise for one of `wanted`; the calling thread is not bound.

    The cores that a process may use are recorded nowhere (a thread's mask is what it was given last, not what
    it may have), so binding is tried out in a thread that ends at once. Costs 100 us.
    """
    mistakes: list[UsageMistake] = []

    def attempt() -> None:
        for core in sorted(set(wanted)):
            try:
                bind_thread(core)
            except UsageMistake as mistake:
                mistakes.append(mistake)

    start_thread("disco-cores", attempt).join()
    if mistakes:
        raise mistakes[0]
