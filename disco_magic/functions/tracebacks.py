"""An error as the user sees it: their own lines, under the names they know, without the runtime's frames."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Final

from disco_magic.errors import DiscoError, Failure, WorkerInterrupt, class_name
from disco_magic.functions.sites import label_of, runtime_file

if TYPE_CHECKING:
    from types import FrameType, TracebackType

_TRACEBACK: Final = BaseException.__dict__["__traceback__"]


def traceback_of(error: BaseException) -> TracebackType | None:
    """``error.__traceback__``, whatever a class of the user's says to that."""
    trace: TracebackType | None = _TRACEBACK.__get__(error)
    return trace


def frames_of(trace: TracebackType | None) -> list[FrameType]:
    """The frames of a traceback, the innermost last."""
    return [frame for frame, _ in traceback.walk_tb(trace)]


def failure_of(worker: int, seq: int, command: str, error: BaseException) -> Failure:
    """What `error` means on a worker, with the user's own frames only; `command` in words."""
    # Not by assignment: a frozen dataclass may be an exception too, and refuses it.
    BaseException.with_traceback(error, own_frames(error))
    return Failure(worker, seq, command, error, error_text(error))


def own_frames(error: BaseException) -> TracebackType | None:
    """The traceback of `error` without the runtime's frames before the user's first one.

    An error that the runtime itself raises on purpose loses the runtime's frames after the user's last one
    too: the line that called the collective is what its reader wants to see.
    """
    whole = trace = traceback_of(error)
    ours = issubclass(type(error), DiscoError | WorkerInterrupt)
    while trace is not None and runtime_file(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    if trace is None:
        return None if ours else whole
    if ours:
        last = trace
        step: TracebackType | None = trace
        while step is not None:
            if not runtime_file(step.tb_frame.f_code.co_filename):
                last = step
            step = step.tb_next
        last.tb_next = None
    return trace


def error_text(error: BaseException) -> str:
    """`error` as Python prints it, with ``File "Cell In[7]"`` for the file a cell was compiled as.

    An exception whose class runs code of the user's where it is asked for its parts, and fails there, is told
    by its type alone.
    """
    try:
        return _told(error)
    except WorkerInterrupt:
        raise
    except BaseException as odd:  # noqa: BLE001 - whatever that code raises must not end the worker
        return f"{class_name(error)}: <its traceback could not be told: {class_name(odd)}>"


def _told(error: BaseException) -> str:
    told: traceback.TracebackException | None = traceback.TracebackException.from_exception(error)
    text = told
    while told is not None:
        for frame in told.stack:
            frame.filename = label_of(frame.filename) or frame.filename
        told = told.__cause__ or told.__context__
    return "".join(text.format()) if text is not None else ""
