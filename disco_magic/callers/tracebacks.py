"""An error as the user sees it: without the runtime's frames, and with the names that the user knows."""

from __future__ import annotations

import re
import traceback
from itertools import pairwise
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.namespaces import CELL_MODULE
from disco_magic.callers.sites import Site, is_in_between, label_of, line_at, runtime_file
from disco_magic.errors import DiscoError, WorkerInterrupt
from disco_magic.libraries import OURS
from disco_magic.phrases import class_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

# From BaseException, because a class of the user's may have properties of these names.
_TRACEBACK: Final = BaseException.__dict__["__traceback__"]
_LED_TO: Final = [BaseException.__dict__[name] for name in ("__cause__", "__context__")]
_PARTS: Final = BaseExceptionGroup.__dict__["exceptions"]
# Files that call what the user gave us: if that is written in C, or has no such parameter, the last frame is
# theirs.
_CALLERS: Final = frozenset(
    OURS + file
    for file in (
        "core/interpreter.py",
        "workers/serving.py",
        "functions/execution/running.py",
        "functions/execution/awaits.py",
    )
)
# Files between the user's code and what it calls; so is the import system, whose frames Python drops.
_BETWEEN: Final = frozenset(
    OURS + file
    for file in (
        "callers/replaced.py",
        "callers/stand_ins.py",
        "isolation/own_imports.py",
        "isolation/own_modules.py",
        "isolation/pytorch/generators.py",
        "isolation/random_states.py",
    )
)
# Where an exception's class is named, also within a group. Python leaves out ``__main__`` there, which the
# module is for whoever wrote the cell.
_CELL_MODULE: Final = re.compile(rf"^([ |]*){CELL_MODULE}\.", re.MULTILINE)
_IMPORTS: Final = "<frozen importlib"
# Their messages say enough where the runtime has called what raises them: a file that it reads, say.
_TELLING: Final = (MemoryError, OSError, SyntaxError, ImportError)


def traceback_of(error: BaseException) -> TracebackType | None:
    """``error.__traceback__``, even if a class of the user's redefines that."""
    trace: TracebackType | None = _TRACEBACK.__get__(error)
    return trace


def steps_of(trace: TracebackType | None) -> Iterator[TracebackType]:
    """Yield a traceback's entries, the innermost last."""
    while trace is not None:
        yield trace
        trace = trace.tb_next


def frames_of(trace: TracebackType | None) -> list[FrameType]:
    """The frames of a traceback, the innermost last."""
    return [frame for frame, _ in traceback.walk_tb(trace)]


def site_of_error(error: BaseException) -> Site:
    """The innermost line of a cell that an error came through; without one, the innermost of user code."""
    steps = [
        Site(frame.f_code.co_filename, line or 0) for frame, line in traceback.walk_tb(traceback_of(error))
    ]
    own = [step for step in reversed(steps) if not runtime_file(step.filename)]
    return next((step for step in own if step.is_labelled), own[0] if own else Site("", 0))


def shorten(error: BaseException) -> None:
    """Reduce `error`, what led to it, and the parts of groups to `own_frames`, each with its line."""
    for each in _family(error):
        # Not by assignment: an exception may be a frozen dataclass, which refuses it.
        BaseException.with_traceback(each, with_lines(own_frames(each)))


def with_lines(trace: TracebackType | None) -> TracebackType | None:
    """`trace`, or a copy in which every entry has a line: an interrupt may strike where the code has none.

    IPython cannot show an entry without a line.
    """
    steps = list(steps_of(trace))
    if all(step.tb_lineno for step in steps):
        return steps[0] if steps else None
    copied: TracebackType | None = None
    for step in reversed(steps):
        line = step.tb_lineno or line_at(step.tb_frame.f_code, step.tb_lasti)
        copied = TracebackType(copied, step.tb_frame, step.tb_lasti, line)
    return copied


def _family(error: BaseException) -> Iterator[BaseException]:
    """Yield `error`, what led to it, and the parts of groups, each once."""
    seen: set[int] = set()
    found: list[Any] = [error]
    while found:
        each = found.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        found += [before.__get__(each) for before in _LED_TO]
        if issubclass(type(each), BaseExceptionGroup):
            found += _PARTS.__get__(each)


def own_frames(error: BaseException) -> TracebackType | None:
    """The traceback of `error` without the runtime's frames before the user's first one and between theirs.

    An error that the runtime itself raises on purpose also loses the runtime's frames after the user's last
    one, and PyTorch's and Numba's: its reader wants to see the line that called the collective. If all frames
    are the runtime's, they are kept if they may show a mistake of ours.
    """
    whole = trace = traceback_of(error)
    ours = issubclass(type(error), DiscoError | WorkerInterrupt)
    innermost = ""
    while trace is not None and runtime_file(trace.tb_frame.f_code.co_filename):
        innermost = trace.tb_frame.f_code.co_filename
        trace = trace.tb_next
    if trace is None:
        told = ours or issubclass(type(error), _TELLING)
        return None if told or innermost in _CALLERS else whole
    kept, imports = [trace], list[TracebackType]()
    is_between = False
    for step in steps_of(trace.tb_next):
        frame, file = step.tb_frame, step.tb_frame.f_code.co_filename
        if runtime_file(file):
            is_between = file in _BETWEEN
            if is_between:
                imports.clear()
        elif file.startswith(_IMPORTS):
            imports += [] if is_between else [step]
        elif not (ours and is_in_between(frame)):
            kept += [*imports, step]
            imports.clear()
            is_between = False
    kept += imports
    for last, step in pairwise(kept):
        last.tb_next = step
    if ours or is_between:
        kept[-1].tb_next = None
    return trace


def error_text(error: BaseException) -> str:
    """`error` as Python prints it, with ``File "Cell In[7]"`` for the file a cell was compiled as.

    A class that a cell defines has no module's name in front, as one of ``__main__``.

    If reading an exception's parts runs user code, and that fails, the text has only its type.
    """
    try:
        return _told(error)
    except WorkerInterrupt:
        raise
    except BaseException as odd:  # noqa: BLE001 - whatever that code raises must not end the worker
        return f"{class_name(error)}: <traceback unavailable: {class_name(odd)}>"


def _told(error: BaseException) -> str:
    text = traceback.TracebackException.from_exception(error)
    told: list[traceback.TracebackException | None] = [text]
    while told:
        each = told.pop()
        if each is not None:
            for frame in each.stack:
                frame.filename = label_of(frame.filename) or frame.filename
            told += [each.__cause__, each.__context__, *(each.exceptions or ())]
    return _CELL_MODULE.sub(r"\1", "".join(text.format()))
