"""Says why workers waited in vain in a collective: while a cell runs, and once it has ended on all of them.

A worker is released as soon as it is certain that a member will not come. Who waited by then, and who was the
first to leave, is chance. When the cell has ended, all that is known, and the error says the same every time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from disco_magic.core.blame import is_consequence, standing
from disco_magic.core.seat import not_received
from disco_magic.errors import PlaneAborted, is_by, is_of_interrupt
from disco_magic.phrases import people, people_who, ranges, who_has

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from disco_magic.core.messages import CellDone
    from disco_magic.errors import Failure


class Unmet(NamedTuple):
    """A collective that one of its members has come to, and that cannot complete.

    Attributes:
        call: ``allreduce(float32 (3,), op=sum)``.
        site: ``Cell In[3], line 4``.
        members: ids of the workers that have to make it.
        scope: the number of the command that it was made in.
        unread: what was sent to the member in that command, and not received, in words.
    """

    call: str
    site: str
    members: tuple[int, ...]
    scope: int
    unread: tuple[str, ...] = ()


def described(waits: Iterable[tuple[int, tuple[str, str]]]) -> str:
    """``allreduce(float32 (3,), op=sum) that workers [0-1] wait in at Cell In[3], line 4``.

    Args:
        waits: worker, and call and site of its wait.
    """
    return " and ".join(
        f"{call} that {people_who(workers, 'waits', 'wait')} in at {site}"
        for (call, site), workers in who_has(waits).items()
    )


def waiting_in(call: str, site: str) -> str:
    """What a member that has come does, for `table`."""
    return f"waiting in {call} at {site}"


def left(failure: Failure | None) -> str:
    """What a member did that will not come, for `table`."""
    return "finished" if failure is None else f"failed: {failure.summary}"


def table(rows: Iterable[tuple[int, str]]) -> str:
    """A line per group of workers that do, or did, the same."""
    return "\n".join(f"  {ranges(workers)} {row}" for row, workers in who_has(rows).items())


def told(failure: Failure) -> str:
    """``worker 1 failed: ValueError: no``."""
    return f"worker {failure.worker} failed: {failure.summary}"


def without_failed(failure: Failure, waits: str, through: int | None = None) -> str:
    """That `waits` cannot complete: a member has failed, or `through`, which waited for it, was released."""
    link = "" if through is None else f", for which worker {through} waited"
    return f"{told(failure)}{link} - without it, {waits} cannot complete"


def without_absent(absent: Sequence[int], waits: str, members: Sequence[int]) -> str:
    """That `waits` cannot complete, because `absent` have ended without making the call."""
    return f"{people(absent)} finished without joining {waits} - {people(members)} all have to make this call"


def settled(replies: Mapping[int, CellDone]) -> dict[int, Failure]:
    """What failed in a cell that has ended on all its workers: worker -> its failure.

    Those that waited in vain say for whom and with whom, as it has turned out; their errors get that text,
    too. Failures stay as they are if the cell was interrupted, or a worker went on after such a failure.
    """
    failures = {worker: reply.failure for worker, reply in replies.items() if reply.failure is not None}
    if (
        not failures
        or any(reply.caught for reply in replies.values())
        or any(map(is_of_interrupt, failures.values()))
    ):
        return failures
    unmet = {worker: wait for worker, each in failures.items() if (wait := _unmet(each)) is not None}
    left = {members: here for members, here in _together(unmet).items() if replies.keys() >= set(members)}
    while left:
        # First those that waited for nobody who waited elsewhere: the others' texts contain theirs.
        where = {worker: members for members, here in left.items() for worker in here}
        ready = [members for members in left if not _waits_for(members, where)] or [*left]
        for members in ready:
            _retell(members, left.pop(members), unmet, failures)
    return failures


def _together(unmet: Mapping[int, Unmet]) -> dict[tuple[int, ...], list[int]]:
    """Members of collectives -> those of them that waited in one."""
    known: dict[int, list[int]] = {}  # by identity: comparing the members of each takes time in their number
    found: dict[tuple[int, ...], list[int]] = {}
    for worker, wait in unmet.items():
        if id(wait.members) not in known:
            known[id(wait.members)] = found.setdefault(wait.members, [])
        known[id(wait.members)].append(worker)
    return {members: sorted(here) for members, here in found.items()}


def _waits_for(members: tuple[int, ...], where: Mapping[int, tuple[int, ...]]) -> bool:
    """Whether one of `members` has waited in another collective; `where`: worker -> the members of that."""
    return any(where.get(worker, members) is not members for worker in members)


def _unmet(failure: Failure) -> Unmet | None:
    """What a worker waited in whose failure is that it waited in vain, in that command itself."""
    error = failure.exception
    wait: Unmet | None = error.unmet if is_by(failure, PlaneAborted) else None  # type: ignore[attr-defined]  # it is one
    return wait if wait is not None and wait.scope == failure.seq else None


def _retell(
    members: tuple[int, ...], here: Sequence[int], unmet: Mapping[int, Unmet], failures: dict[int, Failure]
) -> None:
    """Put what is known now into the failures of those that waited, `here`; nothing if it explains nothing.

    The text is that of all of them: made for each it took time in the square of how many there are.
    """
    waits = described((worker, unmet[worker][:2]) for worker in here)
    waited = {*here}
    failed = [failures[worker] for worker in members if worker in failures and worker not in waited]
    finished = [worker for worker in members if worker not in failures]
    # One that was released from another wait tells less than one that has failed, or has finished.
    failed.sort(key=standing)
    unread: list[str] = []
    if failed and not (finished and is_consequence(failed[0])):
        first, origin = failed[0], failed[0].first
        text = without_failed(origin, waits, None if origin is first else first.worker)
    elif finished:
        origin, text = None, without_absent(finished, waits, members)
        unread = not_received((worker, unmet[worker].unread) for worker in here)
    else:
        return
    rows = [
        (worker, waiting_in(*unmet[worker][:2]) if worker in unmet else left(failures.get(worker)))
        for worker in members
    ]
    text = "\n  ".join([f"{text}\n{table(rows)}", *unread])
    failures.update({worker: _with_text(failures[worker], text, origin) for worker in here})


def _with_text(failure: Failure, text: str, origin: Failure | None) -> Failure:
    """`failure` with another text, which its exception gets as well: it is what front ends show."""
    error = failure.exception
    before, error.args = str(error), (text,)
    error.failure = origin  # type: ignore[attr-defined]  # it is a PlaneAborted
    return replace(failure, traceback_text=failure.traceback_text.replace(before, text))
