"""Explain why a wait is hopeless once a worker has left: a sentence, and a table of where each worker is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disco_magic.errors import PlaneAborted
from disco_magic.phrases import people, ranges
from disco_magic.planes.mail import LoneWait, unread_by
from disco_magic.planes.meeting import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from disco_magic.errors import Failure
    from disco_magic.planes.meeting import Wait


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
        link = f", for which worker {worker} waited" if through else ""
        text = f"{_told(failure)}{link} - without it, {wait.describe()} cannot complete"
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
    beside = unread_by(wait) if isinstance(wait, LoneWait) else ""
    return Verdict(PlaneAborted, f"{text}\n{table}{beside}", failure)


def without(failure: Failure, text: str) -> Verdict:
    """The verdict on waits that the failed worker could have ended; `text` says why no other one does."""
    first, _ = _origin(failure)
    return Verdict(PlaneAborted, f"{_told(first or failure)} - without it, {text}", first)


def unreceived(receiver: int, what: str, failure: Failure | None) -> Verdict:
    """The verdict on a message that comes when its receiver has left; `failure`: why, if it failed."""
    first, _ = _origin(failure)
    if first is None:
        return Verdict(PlaneAborted, f"worker {receiver} has finished without receiving {what}")
    text = f"worker {receiver} has failed without receiving {what} - {_told(first)}"
    return Verdict(PlaneAborted, text, first)


def _told(failure: Failure) -> str:
    return f"worker {failure.worker} failed: {failure.summary}"


def _before(wait: LoneWait) -> str:
    """How many messages were received before the one that will not come, in words."""
    if not wait.before:
        return ""
    were = "which was" if wait.before == 1 else "all of which were"
    return f"; it has sent {wait.before:,} before, {were} received"


def _origin(failure: Failure | None) -> tuple[Failure | None, bool]:
    """The failure that came first, and whether that is another worker's, for which this one waited."""
    first = None if failure is None else failure.first
    return first, first is not failure
