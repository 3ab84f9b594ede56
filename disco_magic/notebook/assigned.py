"""Whether the value of a line magic is assigned, as in ``r = %disco get x``, or would only be shown.

IPython calls a magic alike in both cases, and shows what a line of its own returns.
"""

from __future__ import annotations

import dis
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import FrameType

_CALLS: Final = ("run_line_magic", "run_cell_magic")
# What CPython does with the value of an expression that is a statement: it drops it, or gives it to
# `sys.displayhook` (3.11; later versions).
_ENDS: Final = ("POP_TOP", "PRINT_EXPR", "CALL_INTRINSIC_1")


def is_assigned() -> bool:
    """Whether code uses the value of the line magic that calls this; a line of its own does not."""
    frame = _calling(sys._getframe(1))  # noqa: SLF001 - inspect.currentframe is the same call
    while frame is not None and _evaluates(frame):
        frame = frame.f_back
        # `%time` evaluates its line, and has the value of that.
        if frame is not None and frame.f_globals.get("__name__", "").startswith("IPython."):
            frame = _calling(frame)
    return frame is not None and _next_step(frame) not in (None, *_ENDS)


def _calling(frame: FrameType | None) -> FrameType | None:
    """The frame that asks IPython for the magic."""
    while frame is not None and frame.f_code.co_name not in _CALLS:
        frame = frame.f_back
    while frame is not None and frame.f_code.co_name in _CALLS:  # of a derived shell, and IPython's own
        frame = frame.f_back
    return frame


def _evaluates(frame: FrameType) -> bool:
    """Whether the value is that of an `eval`: a module that is executed returns None."""
    return frame.f_code.co_name == "<module>" and _next_step(frame) == "RETURN_VALUE"


def _next_step(frame: FrameType) -> str | None:
    """What the frame does with the value that it waits for."""
    steps = dis.get_instructions(frame.f_code)
    return next((step.opname for step in steps if step.offset > frame.f_lasti), None)
