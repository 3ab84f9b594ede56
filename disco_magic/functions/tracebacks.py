"""An error as the user sees it: their own lines, under the names they know, without the runtime's frames."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

from disco_magic.errors import DiscoError, WorkerInterrupt
from disco_magic.functions.sites import label_of, runtime_file

if TYPE_CHECKING:
    from types import TracebackType


def own_frames(error: BaseException) -> TracebackType | None:
    """The traceback of `error` without the runtime's frames before the user's first one.

    An error that the runtime itself raises on purpose loses the runtime's frames after the user's last one
    too: the line that called the collective is what its reader wants to see.
    """
    trace = error.__traceback__
    while trace is not None and runtime_file(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    if trace is None:
        return None if isinstance(error, DiscoError | WorkerInterrupt) else error.__traceback__
    if isinstance(error, DiscoError | WorkerInterrupt):
        last = step = trace
        while step is not None:
            if not runtime_file(step.tb_frame.f_code.co_filename):
                last = step
            step = step.tb_next  # type: ignore[assignment]
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
        return f"{type(error).__name__}: <its traceback could not be told: {type(odd).__name__}>"


def _told(error: BaseException) -> str:
    told: traceback.TracebackException | None = traceback.TracebackException.from_exception(error)
    text = told
    while told is not None:
        for frame in told.stack:
            frame.filename = label_of(frame.filename) or frame.filename
        told = told.__cause__ or told.__context__
    return "".join(text.format()) if text is not None else ""
