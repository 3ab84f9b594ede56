"""Find and describe deadlocks: workers that wait for each other in a circle and can never go on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from disco_magic.core.seat import hopes
from disco_magic.phrases import people, people_who
from disco_magic.planes.mail import Delivery, LoneWait, Probe, Receive, not_received_in, unread_by
from disco_magic.planes.meeting import Meeting

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from disco_magic.planes.mail import Sent
    from disco_magic.planes.meeting import Wait

_IN_ORDER: Final = "  Make calls on different communicators, send and recv in the same order on all workers."
_ALL_MAKE_GROUPS: Final = (
    "  These are different groups of the same workers: make and use them in the same order on all.\n"
    "  Every worker has to call new_group for every group, also for groups that it is not in."
)
_SEND_FIRST: Final = "  Send before you receive: send does not wait."
_RENDEZVOUS: Final = "  In this cell (--rendezvous) a send waits until the receiver asks for its message."
_RECEIVE_FIRST: Final = "  Let one of them receive first."
_ASK_FIRST: Final = (
    "  Let one of them receive first, or post the receive before the send (irecv, batch_isend_irecv)."
)
_AS_SENT: Final = "  Receive what was sent: from the worker that has sent it, with the same tag."
_SENT_ELSEWHERE: Final = "  Each has sent a message: perhaps to the wrong worker, or another recv took it."


def circle(waiting: Mapping[int, Wait], start: int) -> list[int]:
    """The workers of a circle through `start`, each waiting for the next one; empty if there is none.

    Its workers wait for *all* missing workers, so it is a certain deadlock; for those that wait for any of
    several there is `stuck`. Only a worker that begins to wait can close a circle (arrivals and messages
    remove edges), so it is enough that every worker looks for a circle through itself at that moment.

    Args:
        waiting: worker -> what it waits for.
        start: the worker that has just begun to wait.
    """
    # Not recursive: a thousand workers may wait for each other in one chain.
    path, ahead, seen = [start], [_needed(waiting, start)], set[int]()
    while path:
        for needed in ahead[-1]:
            if needed == start:
                first = path.index(min(path))  # who closed it is chance
                return path[first:] + path[:first]
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
    over = wait is None or wait.complete or wait.verdict is not None or wait.any_suffices
    return iter(() if wait is None or over else wait.missing())


def stuck(waiting: Mapping[int, Wait], start: int, left: Sequence[int]) -> list[int]:
    """The workers that can never go on, among `start` and those that it waits for; empty if it can.

    One that waits for any of several workers can go on as long as one of these can. It may also become stuck
    because one of them leaves.

    Args:
        waiting: worker -> what it waits for.
        start: a worker that waits.
        left: worker -> the last scope that it has left.
    """
    first = waiting.get(start)
    if (
        first is not None
        and first.any_suffices
        and any(_may_come(each, first, waiting, left) for each in first.missing())
    ):
        return []  # the usual case: to look at all that wait takes longer the more there are
    ways: dict[int, list[int]] = {}
    for worker, wait in waiting.items():
        missing, here = wait.missing(), hopes(wait, left)
        # Else it is about to be released: who it needs has left.
        if not wait.ends and (here if wait.any_suffices else missing and here == missing):
            ways[worker] = here
    held = set(ways)
    while freed := {worker for worker in held if _can_go_on(waiting[worker], ways[worker], held)}:
        held -= freed
    reached, ahead = set[int](), [start] if start in held else []
    while ahead:
        worker = ahead.pop()
        reached.add(worker)
        ahead += [way for way in ways[worker] if way in held and way not in reached]
    return sorted(reached)


def _may_come(worker: int, wait: Wait, waiting: Mapping[int, Wait], left: Sequence[int]) -> bool:
    """Whether a worker that `wait` needs waits for nobody itself."""
    return worker not in waiting and left[worker] < wait.scope


def _can_go_on(wait: Wait, ways: list[int], held: set[int]) -> bool:
    """Whether a worker can, in which one of `ways` or all of them must not be `held`."""
    return not held.issuperset(ways) if wait.any_suffices else held.isdisjoint(ways)


def _needs(wait: Wait, following: int, workers: Sequence[int]) -> str:
    """Whom a worker of a circle needs, and how many messages it has received from there."""
    if not isinstance(wait, Probe):
        missing = wait.missing()
        needed = [following] if following in missing else [each for each in missing if each in workers]
        before = wait.before if isinstance(wait, LoneWait) else 0
        return people(needed) + (f", of which it has received {before:,}" if before else "")
    left = [peer for peer in wait.peers if peer not in workers]
    away = f"; {people_who(left, 'has', 'have')} left the command" if left else ""
    rest = [peer for peer in wait.peers if peer in workers]
    return ("" if len(rest) == 1 else "one of ") + people(rest) + away


def _are_twins(waiting: Mapping[int, Wait], workers: list[int]) -> bool:
    """Whether some of `workers` wait in different groups with the same members."""
    seats = {
        (wait.members, wait.calls[worker].seat.tag)
        for worker in workers
        if isinstance(wait := waiting[worker], Meeting)
    }
    return len({members for members, _ in seats}) < len(seats)


def describe(
    waiting: Mapping[int, Wait],
    workers: list[int],
    sent: Mapping[int, Sent],
    mail: Sequence[Mapping[Any, Any]],
) -> str:
    """Describe a deadlock: per worker a line with the call that it waits in and the worker that it needs.

    Args:
        waiting: worker -> what it waits for.
        workers: the workers of a circle.
        sent: worker -> its last message.
        mail: see `Plane.mail`.
    """
    if len(workers) == 1:
        return _alone(workers[0], waiting[workers[0]])
    pairs = zip(workers, workers[1:] + workers[:1], strict=True)
    waits = [waiting[worker] for worker in workers]
    kinds = set(map(type, waits))
    in_a_circle = "" if Probe in kinds else " in a circle"
    said = [f"{people(sorted(workers))} wait for each other{in_a_circle}, and none can continue"]
    said += [
        f"  worker {worker} waits in {waiting[worker].seen_by(worker)} - it needs "
        f"{_needs(waiting[worker], following, workers)}"
        for worker, following in pairs
    ]
    if Delivery in kinds:
        said.append(_RENDEZVOUS)
    if kinds <= {Receive, Probe, Delivery}:
        further = _of_messages(waiting, workers, sent)
    else:
        further = "".join(not_received_in(waiting[each], [each], mail) for each in workers)
        further += f"\n{_ALL_MAKE_GROUPS if _are_twins(waiting, workers) else _IN_ORDER}"
    return "\n".join(said) + further


def _alone(worker: int, wait: Wait) -> str:
    """Describe the deadlock of a worker that waits for itself."""
    hint = "nobody else can receive it" if type(wait) is Delivery else "send before recv"
    if isinstance(wait, Probe) and wait.call.seat.present is not None:
        hint = "the command was sent to this worker only, so no other one can send it a message"
    return f"worker {worker} waits for itself in {wait} - {hint}"


def _of_messages(waiting: Mapping[int, Wait], workers: list[int], sent: Mapping[int, Sent]) -> str:
    """Further lines about workers that all wait for messages, or for receivers: what there is, and advice."""
    waits = [waiting[worker] for worker in workers]
    alone = [wait for wait in waits if isinstance(wait, LoneWait)]
    if any(each.call.worker in wait.peers for wait in alone for each in wait.others()):  # with another tag
        return "".join(map(unread_by, alone)) + f"\n{_AS_SENT}"
    deliveries = [wait for wait in waits if isinstance(wait, Delivery)]
    if deliveries:
        of_torch = any(wait.sent.call.seat.theirs for wait in deliveries)
        return f"\n{_ASK_FIRST if of_torch else _RECEIVE_FIRST}"
    last = [
        each
        for each in map(sent.get, workers)
        if each is not None and each.call.seat.scope == waiting[each.call.worker].scope
    ]
    lines = [f"  {each.describe()}" for each in last]
    lines.append(_SEND_FIRST if len(last) < len(workers) else _SENT_ELSEWHERE)
    return "".join(f"\n{line}" for line in lines)
