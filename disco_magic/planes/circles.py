"""Who waits for whom: finding workers that wait for each other and can never go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from disco_magic.planes.meeting import Wait


def circle(waiting: Mapping[int, Wait], start: int) -> list[int]:
    """The workers of a circle through `start`, each waiting for the next one; empty if there is none.

    A worker waits for *all* who are missing, so one circle is a certain deadlock. Circles are only closed by
    a worker that begins to wait (arrivals and messages take edges away), so it is enough that every worker
    looks for a circle through itself when it does.

    Args:
        waiting: worker -> what it waits for.
        start: the worker that has just begun to wait.
    """
    seen: set[int] = set()
    path: list[int] = []

    def leads_back(worker: int) -> bool:
        wait = waiting.get(worker)
        if wait is None or wait.complete or wait.verdict is not None:
            return False
        path.append(worker)
        for needed in wait.missing():
            if needed == start:
                return True
            if needed not in seen:
                seen.add(needed)
                if leads_back(needed):
                    return True
        path.pop()
        return False

    return path if leads_back(start) else []


def describe(waiting: Mapping[int, Wait], workers: list[int]) -> str:
    """The circle in words: one line per worker with what it waits in and for whom."""
    pairs = zip(workers, workers[1:] + workers[:1], strict=True)
    return "\n".join(
        f"  worker {worker} waits in {waiting[worker].seen_by(worker)} - it needs worker {needed}"
        for worker, needed in pairs
    )
