"""Who waits for whom: finding workers that wait for each other and can never go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disco_magic.phrases import people
from disco_magic.planes.meeting import Receive

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
    """What is wrong, in words: one line per worker with what it waits in and for whom."""
    if len(workers) == 1:
        return f"worker {workers[0]} waits for itself in {waiting[workers[0]]} - send before recv"
    pairs = zip(workers, workers[1:] + workers[:1], strict=True)
    said = [f"{people(sorted(workers))} wait for each other in a circle, none of them can go on"]
    said += [
        f"  worker {worker} waits in {waiting[worker].seen_by(worker)} - it needs worker {needed}"
        for worker, needed in pairs
    ]
    receives = [type(waiting[worker]) is Receive for worker in workers]
    said += (
        ["  Send before you receive: send does not wait."]
        if all(receives)
        else ["  Make calls on different communicators, send and recv in the same order on all workers."]
    )
    return "\n".join(said)
