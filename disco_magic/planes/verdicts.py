"""Verdicts: why a call fails, on all its members or on those that wait for it.

Why a wait is hopeless once a worker has left is a sentence, and a table of where each worker is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from disco_magic.core import unmet
from disco_magic.errors import PlaneAborted, PlaneError, PlaneMismatch, SyncTimeout
from disco_magic.phrases import class_name, people, people_who, words
from disco_magic.planes.mail import LoneWait, not_received_in, unread_by

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from disco_magic.core.unmet import Unmet
    from disco_magic.errors import Failure
    from disco_magic.planes.calls import Call
    from disco_magic.planes.meeting import Wait

INCOMPLETE: Final = "results and out arrays of all members are incomplete"


class Verdict(NamedTuple):
    """Why a call fails; each caller concerned raises its own exception object."""

    kind: type[PlaneError]
    text: str
    failure: Failure | None = None
    cause: BaseException | None = None
    astray: int | None = None

    def error(self, unmet: Unmet | None = None) -> PlaneError:
        """Return a new exception; `unmet`: the caller's part, if it waited in a collective."""
        error = self.kind(self.text)
        if isinstance(error, PlaneAborted):
            error.failure, error.unmet = self.failure, unmet
        if isinstance(error, PlaneMismatch):
            error.astray = self.astray
        if self.cause is not None:  # even None would hide what the caller is handling: `finally: barrier()`
            error.__cause__ = self.cause
        return error


class Broken(Exception):
    """A plan could not be carried out, and it is known whose part failed.

    Attributes:
        call: the call of that member.
        reason: what its part raised.
    """

    def __init__(self, call: Call, reason: BaseException) -> None:
        super().__init__(call, reason)
        self.call = call
        self.reason = reason


def broken(call: Call, error: BaseException) -> Verdict:
    """The verdict for all members if one could not carry out its part: that of `call`, or of `Broken`."""
    if isinstance(error, Broken):
        call, error = error.call, error.reason
    return broken_on(call.worker, f"{call.describe()} at {call.site}", error)


def broken_on(worker: int, what: str, error: BaseException) -> Verdict:
    """As `broken`, for a call that is only known in words."""
    text = (
        f"{what} could not be carried out on worker {worker}:"
        f" {class_name(error)}: {words(error)} - {INCOMPLETE}"
    )
    return Verdict(PlaneError, text, cause=_without_frames(error))


def _without_frames(error: BaseException) -> BaseException:
    """Remove the tracebacks of `error` and what led to it; return it.

    Their frames hold the meeting, which holds the verdict, which holds the error: a reference cycle that
    would keep the members' arrays alive until the garbage collector runs.
    """
    link: BaseException | None = error
    while link is not None:
        link.__traceback__ = None
        link = link.__cause__ or link.__context__
    return error


def gone(
    worker: int,
    wait: Wait,
    failure: Failure | None,
    whereabouts: Callable[[int], str],
    mail: Sequence[Mapping[Any, Any]],
) -> Verdict:
    """The verdict on `wait`, which cannot complete without `worker`.

    Args:
        worker: has left the command; it is missing, or was taken out of `wait` itself.
        wait: what the other workers wait in.
        failure: why it left, if it failed.
        whereabouts: says in words where a missing worker is.
        mail: see `Plane.mail`.
    """
    missing = wait.missing()
    failure, through = _origin(failure)
    if failure is not None:
        text = unmet.without_failed(failure, wait.describe(), worker if through else None)
    elif worker in missing and isinstance(wait, LoneWait):
        text = _unsent(wait, missing)
    elif worker in missing:
        members = sorted([*(present for present, _ in wait.gates()), *missing])
        text = unmet.without_absent([worker], wait.describe(), members)
    else:
        text = f"worker {worker} left while it was in {wait.describe()}"
    left = unmet.left(failure)
    rows = [
        (each, left if each == worker else unmet.waiting_in(*wait.call_of(each))) for each, _ in wait.gates()
    ]
    rows += [(absent, left if absent == worker else whereabouts(absent)) for absent in missing]
    beside = unread_by(wait) if isinstance(wait, LoneWait) else ""
    if not beside and failure is None:  # perhaps a `recv` was meant to be made there
        beside = not_received_in(wait, [each for each, _ in wait.gates()], mail)
    return Verdict(PlaneAborted, f"{text}\n{unmet.table(rows)}{beside}", failure)


def late(wait: LoneWait, limit_s: float, whereabouts: Callable[[int], str]) -> SyncTimeout:
    """The error of a worker that has waited for so many seconds; see `gone`."""
    rows = unmet.table((each, whereabouts(each)) for each in wait.missing())
    return SyncTimeout(
        f"{wait}: no message came to worker {wait.call.worker} within {limit_s:g} s - what is sent later "
        f"is for the next recv\n{rows}{unread_by(wait)}"
    )


def _unsent(wait: LoneWait, missing: list[int]) -> str:
    """Why a message, or a receiver, does not come of workers that have finished."""
    tags = dict.fromkeys(each.call.seat.tag for each in wait.others() if each.call.worker in missing)
    if tags:
        had = f"tag{'s' * (len(tags) > 1)} {', '.join(map(repr, tags))}"
        return (
            f"{wait.describe()} is for tag {wait.tag!r}, and {people(missing)} finished after sending with "
            f"{had} - send and receive with the same tag{_before(wait)}"
        )
    which = f"one of {people(missing)}" if len(missing) > 1 else people(missing)
    return (
        f"{people(missing)} finished without a {wait.lacks.partition('(')[0]} for {wait.describe()} - "
        f"it needs a {wait.lacks} on {which} in the same command{_before(wait)}{_from_others(wait)}"
    )


def _from_others(wait: LoneWait) -> str:
    """That others have sent the waiting worker what it could receive with that tag."""
    senders = sorted({each.call.worker for each in wait.others() if each.call.seat.tag == wait.tag})
    return f"; but {people_who(senders, 'has', 'have')} sent it a message" if senders else ""


def without(failure: Failure, text: str) -> Verdict:
    """The verdict on waits that the failed worker could have ended; `text` says why no other one does."""
    first, _ = _origin(failure)
    return Verdict(PlaneAborted, f"{unmet.told(first or failure)} - without it, {text}", first)


def unreceived(receiver: int, what: str, why: str, failure: Failure | None) -> Verdict:
    """The verdict on a message that comes when its receiver has left.

    `why`: what it asked for instead, see `Mailbox.why_not`; `failure`: why it left, if it failed.
    """
    first, _ = _origin(failure)
    if first is None:
        why = why or f" - each send needs a recv on worker {receiver} in the same command"
        return Verdict(PlaneAborted, f"worker {receiver} has finished without receiving {what}{why}")
    text = f"worker {receiver} has failed without receiving {what}{why} - {unmet.told(first)}"
    return Verdict(PlaneAborted, text, first)


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
