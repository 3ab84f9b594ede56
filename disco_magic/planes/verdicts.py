"""Verdicts: why a call fails, on all its members or on those that wait for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from disco_magic.errors import PlaneAborted, PlaneError, PlaneMismatch
from disco_magic.phrases import class_name, words

if TYPE_CHECKING:
    from disco_magic.core.unmet import Unmet
    from disco_magic.errors import Failure
    from disco_magic.planes.calls import Call

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
