"""Find and describe deadlocks: workers that wait for each other in a circle and can never go on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from disco_magic.phrases import people
from disco_magic.planes.mail import Delivery, Receive
from disco_magic.planes.meeting import Meeting

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from disco_magic.planes.mail import Sent
    from disco_magic.planes.meeting import Wait

_IN_ORDER: Final = "  Make calls on different communicators, send and recv in the same order on all workers."
_ALL_MAKE_GROUPS: Final = (
    "  These are different groups of the same workers: make and use them in the same order on all.\n"
    "  Every worker has to call new_group for every group, also for groups that it is not in."
)
_SEND_FIRST: Final = "  Send before you receive: send does not wait."
_RENDEZVOUS: Final = "  In this cell (--rendezvous) a send waits until the receiver asks for its message."
_RECEIVE_FIRST: Final = (
    "  Let one of them receive first, or post the receive before the send (irecv, batch_isend_irecv)."
)
_SENT_ELSEWHERE: Final = "  Each has sent a message: perhaps to the wrong worker, or another recv took it."


def circle(waiting: Mapping[int, Wait], start: int) -> list[int]:
    """The workers of a circle through `start`, each waiting for the next one; empty if there is none.

    A worker waits for *all* missing workers, so any circle is a certain deadlock. Only a worker that begins
    to wait can close a circle (arrivals and messages remove edges), so it is enough that every worker looks
    for a circle through itself at that moment.

    Args:
        waiting: worker -> what it waits for.
        start: the worker that has just begun to wait.
    """
    # Not recursive: a thousand workers may wait for each other in one chain.
    path, ahead, seen = [start], [_needed(waiting, start)], set[int]()
    while path:
        for needed in ahead[-1]:
            if needed == start:
                return path
            if needed not in seen:
                seen.add(needed)
                path.append(needed)
                ahead.append(_needed(waiting, needed))
                break
        else:
            path.pop()
            ahead.pop()
    return []


def _needed(waiting: Mapping[int, Wait], worker: int) -> Iterator[int]:
    """The workers that `worker` waits for; none if its wait is over."""
    wait = waiting.get(worker)
    return iter(() if wait is None or wait.complete or wait.verdict is not None else wait.missing())


def _received(wait: Wait) -> str:
    """How many messages were received before the awaited one, in words."""
    return f", of which it has received {wait.before:,}" if isinstance(wait, Receive) and wait.before else ""


def _are_twins(waiting: Mapping[int, Wait], workers: list[int]) -> bool:
    """Whether some of `workers` wait in different groups with the same members."""
    seats = {
        (wait.members, wait.calls[worker].seat.tag)
        for worker in workers
        if isinstance(wait := waiting[worker], Meeting)
    }
    return len({members for members, _ in seats}) < len(seats)


def describe(waiting: Mapping[int, Wait], workers: list[int], sent: Mapping[int, Sent]) -> str:
    """Describe a deadlock: per worker a line with the call that it waits in and the worker that it needs.

    Args:
        waiting: worker -> what it waits for.
        workers: the workers of a circle.
        sent: worker -> its last message.
    """
    if len(workers) == 1:
        wait = waiting[workers[0]]
        hint = "nobody else can receive it" if type(wait) is Delivery else "send before recv"
        return f"worker {workers[0]} waits for itself in {wait} - {hint}"
    pairs = zip(workers, workers[1:] + workers[:1], strict=True)
    said = [f"{people(sorted(workers))} wait for each other in a circle, none of them can go on"]
    said += [
        f"  worker {worker} waits in {waiting[worker].seen_by(worker)} - it needs worker {needed}"
        f"{_received(waiting[worker])}"
        for worker, needed in pairs
    ]
    kinds = {type(waiting[worker]) for worker in workers}
    if Delivery in kinds:
        said.append(_RENDEZVOUS)
    if not kinds <= {Receive, Delivery}:
        return "\n".join([*said, _ALL_MAKE_GROUPS if _are_twins(waiting, workers) else _IN_ORDER])
    if Delivery in kinds:
        return "\n".join([*said, _RECEIVE_FIRST])
    last = [
        each
        for each in map(sent.get, workers)
        if each is not None and each.call.seat.scope == waiting[each.call.worker].scope
    ]
    said += [f"  {each.describe()}" for each in last]
    return "\n".join([*said, _SEND_FIRST if len(last) < len(workers) else _SENT_ELSEWHERE])
