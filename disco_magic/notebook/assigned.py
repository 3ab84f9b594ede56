"""Whether the value of a line magic is assigned, as in ``r = %disco get x``, or would only be shown.

IPython calls a magic alike in both cases, and shows what a line of its own returns.
"""

from __future__ import annotations

import dis
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import CodeType, FrameType

_CALL: Final = "run_line_magic"
# What CPython does with the value of an expression that is a statement: it drops it, or gives it to
# `sys.displayhook` (3.11; later versions). `%time` evaluates a whole module that is one expression.
_ENDS: Final = ("POP_TOP", "PRINT_EXPR", "CALL_INTRINSIC_1")


def is_assigned() -> bool:
    """Whether code uses the value of the line magic that calls this; a line of its own does not."""
    frame = _calling(sys._getframe(1))  # noqa: SLF001 - inspect.currentframe is the same call
    return frame is not None and not _ends_statement(frame.f_code, frame.f_lasti)


def _calling(frame: FrameType | None) -> FrameType | None:
    """The frame that asks IPython for the magic."""
    while frame is not None and frame.f_code.co_name != _CALL:
        frame = frame.f_back
    while frame is not None and frame.f_code.co_name == _CALL:  # of a derived shell, and IPython's own
        frame = frame.f_back
    return frame


def _ends_statement(code: CodeType, called_at: int) -> bool:
    after = (step for step in dis.get_instructions(code) if step.offset > called_at)
    following = next(after, None)
    if following is None or following.opname in _ENDS:
        return True
    return following.opname == "RETURN_VALUE" and code.co_name == "<module>"
