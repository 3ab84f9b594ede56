"""The one exception tree: a class per thing the caller can do about it.

Messages have one form: *what happened - where (worker, command, register, cell line) - expected and
got - what to do*. The class says where to act: in your request, before anything was sent (`UsageMistake`), in
your code on a worker (`WorkerError`), where the workers disagree (`PlaneMismatch`), or by starting the
session again (`SessionClosed`, `SessionBroken`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from disco_magic.errors.causes import origin
from disco_magic.errors.pickling import portable, portable_state
from disco_magic.errors.summaries import describe
from disco_magic.phrases import headline

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from disco_magic.errors.operands import Operands

INTERRUPTED: Final = "the command was interrupted"
"""The text of an interrupt that has no message."""


class DiscoError(Exception):
    """Anything disco_magic raises on purpose. Can be pickled; what its session has is left out then."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.args, portable_state(self)


class UsageMistake(DiscoError, ValueError):
    """The request is impossible; nothing was sent and nothing has changed."""


class UnknownName(UsageMistake, KeyError):
    """A register or function of that name does not exist; near misses are in the message."""

    __str__ = Exception.__str__  # KeyError's shows repr(args[0]), which would wrap the sentence in quotes


def is_told(excinfo: Any) -> bool:
    """Whether the message says enough without our frames: pytest asks modules' ``__tracebackhide__``."""
    return issubclass(excinfo.type, DiscoError)


class SessionClosed(DiscoError):
    """The session was shut down; start another one."""


class SessionBroken(DiscoError):
    """The session cannot go on by itself; `restart` it."""


class LaunchError(DiscoError):
    """Workers could not be started; whatever had started was taken down again."""


class SyncTimeout(DiscoError, TimeoutError):
    """A wait timed out. The message says what each worker is doing, since when, and whom the others wait for.

    Attributes:
        diagnosis: the same as a `disco_magic.core.doctor.Diagnosis`, taken when the time was over.
        failures: worker id -> `Failure`, of workers that had failed in the cell by then, perhaps the reason
            for the wait. The error's ``__cause__`` is a `CellError` of them.
    """

    diagnosis: Any = None
    failures: Mapping[int, Failure] = MappingProxyType({})


class WorkerLost(SessionBroken):
    """A worker is gone; the message says which and why.

    Attributes:
        worker: its id.
        reason: why, as its launcher knows it.
    """

    def __init__(self, worker: int, reason: str) -> None:
        super().__init__(worker, reason)
        self.worker = worker
        self.reason = reason

    def __str__(self) -> str:
        return f"worker {self.worker} is gone: {self.reason}; restart the session to go on"


class PlaneError(DiscoError):
    """A collective or a point-to-point call could not be carried out."""


class PlaneMismatch(PlaneError):
    """Workers called different collectives, or the same one with arguments that do not fit.

    Attributes:
        astray: the worker whose call differs from that of most others; None if that cannot be said.
    """

    astray: int | None = None


class PlaneAborted(PlaneError):
    """A worker that this call needs has failed, finished without joining, or was interrupted.

    Attributes:
        failure: what went wrong on the worker that this call needs; None if nothing did.
        unmet: the call as a `disco_magic.core.unmet.Unmet`; None if it was no collective.
    """

    failure: Failure | None = None
    unmet: Any = None


class PlaneUnavailable(PlaneError):
    """The chosen data plane cannot be used here; the message says what is missing."""


class NoPicture(UsageMistake):
    """A value cannot be shown in the way that was asked for; the message says why."""


class Stopped(DiscoError):
    """Looking at all elements was ended by the caller's `progress`; there is no result."""


class MissingDependency(DiscoError, ImportError):
    """An optional package is not installed; the message names the extra that brings it."""


class Interrupted(Enum):
    """Where an interrupt stopped a worker; the value says it in words."""

    STRUCK = INTERRUPTED
    """In user code, or in a library's."""
    SKIPPED = "interrupted before it began"
    """An interrupt stopped an earlier command."""
    WITHDRAWN = "withdrawn before it began"
    """A cell was stopped while an earlier command went on."""
    BEFORE_COLLECTIVE = "interrupted before a collective"
    """It called one after it was interrupted: the others are stopped as well."""
    IN_COLLECTIVE = "interrupted in a collective"
    """Usually while it waited for others."""
    BETWEEN_STEPS = "stopped after step"
    """In a loop of `WorkerContext.steps`; all other workers are, too."""
    ELSEWHERE = "interrupted"
    """In code of ours, which has its own words for it."""


class WorkerInterrupt(KeyboardInterrupt):
    """Raised inside a worker to end the command it is executing.

    It derives from KeyboardInterrupt, not from DiscoError, so that a user's ``except Exception`` lets
    it through and ``except KeyboardInterrupt`` can clean up.
    """

    # No `__init__`: an injected one has no arguments, and would execute it wherever it strikes.
    @classmethod
    def at(cls, met: Interrupted, detail: object = "") -> WorkerInterrupt:
        """Make one that stopped the worker there; `detail` follows the words."""
        made = cls(f"{met.value} {detail}".rstrip())
        vars(made)["met"] = met
        return made

    def __str__(self) -> str:
        return super().__str__() or INTERRUPTED


def interrupted_at(error: BaseException) -> Interrupted | None:
    """Where an interrupt stopped the worker; None if it is none."""
    if not issubclass(type(error), WorkerInterrupt):
        return None
    met: Interrupted = vars(error).get("met", Interrupted.ELSEWHERE if error.args else Interrupted.STRUCK)
    return met


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong on one worker.

    Attributes:
        worker: the worker's id.
        seq: sequence number of the command it was executing.
        command: the command in words, e.g. ``call demo.scale`` or ``Cell In[7]``.
        exception: the exception object itself; unpickled, perhaps one that stands in for it.
        traceback_text: formatted traceback without the runtime's own frames.
        operands: what the expression that failed had read, described then; None if that is unknown.
        summary: ``TypeName: message``, the line a traceback ends with (first line of the message only).
    """

    worker: int
    seq: int
    command: str
    exception: BaseException
    traceback_text: str = field(repr=False)
    operands: Operands | None = field(default=None, repr=False, compare=False)
    summary: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Now, by the thread that failed: others read it with the plane's lock held, where no __str__ may run.
        cause = handled_by(self.exception)
        handling = "" if cause is None else f" - while handling {headline(cause)}"
        object.__setattr__(self, "summary", f"{headline(self.exception)}{origin(self.exception)}{handling}")

    def __reduce__(self) -> tuple[Any, ...]:
        error = portable(self.exception, self.summary)
        given = error, self.traceback_text, self.operands
        return _restored, (self.summary, self.worker, self.seq, self.command, *given)

    @property
    def first(self) -> Failure:
        """The failure that this one follows from, of a worker that it waited for; itself if there is none."""
        error: Any = self.exception
        before: Failure | None = error.failure if is_by(self, PlaneAborted) else None
        return self if before is None else before.first


def handled_by(error: BaseException) -> BaseException | None:
    """The user's exception that propagated when a collective failed: ``finally: barrier()``; else None."""
    link: BaseException | None = error
    while link is not None and issubclass(type(link), PlaneError):
        link = link.__context__
    return None if link is error or issubclass(type(link), DiscoError | WorkerInterrupt) else link


def _restored(summary: str, *given: Any) -> Failure:
    made = Failure(*given)
    object.__setattr__(made, "summary", summary)  # that of the exception, if this is what stands in for it
    return made


def is_by(failure: Failure, *kinds: type[BaseException]) -> bool:
    """Whether its exception is one of these; `isinstance` would run the exception's own ``__class__``."""
    return issubclass(type(failure.exception), kinds)


def is_of_interrupt(failure: Failure) -> bool:
    """Whether an interrupt ended it, there or on a worker that it waited for."""
    return is_by(failure.first, WorkerInterrupt)


class WorkerError(DiscoError):
    """User code raised on one or more workers.

    Attributes:
        failures: worker id -> `Failure`, the origin first; a worker that was only released because
            another one failed comes after it.
        others: failures of other commands by then: the first of each kind.
        stopped: ``"cancelled"`` by its handle, or ``"interrupted"``; "" if anything else went wrong in it.
    """

    def __init__(
        self, failures: Mapping[int, Failure], others: Sequence[Failure] = (), *, cancelled: bool = False
    ) -> None:
        if not failures:
            raise UsageMistake("WorkerError needs at least one failure")
        self.failures: dict[int, Failure] = dict(failures)
        self.others = tuple(others)
        is_struck = all(map(is_of_interrupt, self.failures.values()))
        self.stopped = "cancelled" if cancelled else "interrupted" * is_struck
        super().__init__(describe(self.failures, self.others, stopped=self.stopped))

    @property
    def told(self) -> tuple[Failure, ...]:
        """All of `failures` and `others`."""
        return *self.failures.values(), *self.others

    @property
    def origin(self) -> Failure:
        """The failure that came first; the others may be its consequences."""
        return next(iter(self.failures.values()))

    def __reduce__(self) -> tuple[Any, ...]:
        made = partial(type(self), cancelled=self.stopped == "cancelled")
        return made, (self.failures, self.others), portable_state(self, but=("failures", "others", "stopped"))


class CellError(WorkerError):
    """`WorkerError` of a cell."""


class Divergence(DiscoError):
    """Registers that should agree, or values or lines that a cell compares, differ; nothing was changed.

    Attributes:
        report: the `CheckReport`, row by row; None if lines differ.
        result: the `CellResult` of the cell after which they differ; None: it was no cell's check.
    """

    result: Any = None

    def __init__(self, message: str, report: Any = None) -> None:
        super().__init__(message)
        self.report = report
