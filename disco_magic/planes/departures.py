"""Explain why a wait is hopeless once a worker has left: a sentence, and a table of where each worker is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from disco_magic.errors import PlaneAborted
from disco_magic.phrases import people, ranges
from disco_magic.planes.mail import LoneWait
from disco_magic.planes.meeting import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from disco_magic.errors import Failure
    from disco_magic.planes.meeting import Wait

_MOST: Final = 4


def gone(worker: int, wait: Wait, failure: Failure | None, whereabouts: Callable[[int], str]) -> Verdict:
    """The verdict on `wait`, which cannot complete without `worker`.

    Args:
        worker: has left the command; it is missing, or was taken out of `wait` itself.
        wait: what the other workers wait in.
        failure: why it left, if it failed.
        whereabouts: says in words where a missing worker is.
    """
    missing = wait.missing()
    failure, through = _origin(failure)
    if failure is not None:
        who = worker if not through else failure.worker
        link = f", for which worker {worker} waited" if through else ""
        text = f"worker {who} failed: {failure.summary}{link} - without it, {wait.describe()} cannot complete"
    elif worker in missing and isinstance(wait, LoneWait):
        which = f"one of {people(missing)}" if len(missing) > 1 else people(missing)
        text = (
            f"{people(missing)} finished without a {wait.lacks.partition('(')[0]} for {wait.describe()} - "
            f"it needs a {wait.lacks} on {which} in the same command{_before(wait)}"
        )
    elif worker in missing:
        members = people(sorted([*(present for present, _ in wait.gates()), *missing]))
        unmet = f"{wait.describe()} - {members} all have to make this call"
        text = f"worker {worker} finished without joining {unmet}"
    else:
        text = f"worker {worker} left while it was in {wait.describe()}"
    rows: dict[str, list[int]] = {}
    left = "finished" if failure is None else f"failed: {failure.summary}"
    for present, _ in wait.gates():
        waiting = "waiting in {} at {}".format(*wait.call_of(present))
        rows.setdefault(left if present == worker else waiting, []).append(present)
    for absent in missing:
        rows.setdefault(left if absent == worker else whereabouts(absent), []).append(absent)
    table = "\n".join(f"  {ranges(workers)} {row}" for row, workers in rows.items())
    return Verdict(PlaneAborted, f"{text}\n{table}{_beside(wait)}", failure)


def _before(wait: LoneWait) -> str:
    """How many messages were received before the one that will not come, in words."""
    if not wait.before:
        return ""
    were = "which was" if wait.before == 1 else "all of which were"
    return f"; it has sent {wait.before:,} before, {were} received"


def _beside(wait: Wait) -> str:
    """The first unread messages of the waiting worker, with other tags or from other workers: a line each."""
    others = wait.others() if isinstance(wait, LoneWait) else []
    more = [f"  and {len(others) - _MOST:,} more"] if len(others) > _MOST else []
    lines = [f"  not received: {each.describe()}" for each in others[:_MOST]]
    return "".join(f"\n{line}" for line in lines + more)


def _origin(failure: Failure | None) -> tuple[Failure | None, bool]:
    """The failure that came first, and whether that is another worker's, for which this one waited."""
    first = None if failure is None else failure.first
    return first, first is not failure
