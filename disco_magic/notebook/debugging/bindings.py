"""Names that are bound at a debugger's prompt: what the function goes on with.

Before Python 3.13 ``frame.f_locals`` of a function is a copy, which every look at it makes anew. pdb binds
names there. The interpreter takes them over where a trace function returns, if nobody has looked meanwhile;
at a prompt that `breakpoint` opens no trace function is being called, so that they would be lost. Here they
are taken over after every line, in whichever frame that was typed, as Python does it since 3.13.
"""

from __future__ import annotations

import ctypes
import inspect
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_IS_COPY: Final = sys.version_info < (3, 13)
# From 3.12 on compiled code does not look again whether a name is bound that it has found bound before.
_CAN_UNBIND: Final = sys.version_info < (3, 12)

_NOTHING: Final = object()


@contextmanager
def bound_in_frame(debugger: Any) -> Iterator[None]:
    """Within this a debugger executes a line: what that binds is bound in its present frame.

    What it deletes is unbound there, if Python can do that; else the user is told, as Python 3.13 does.
    """
    frame = debugger.curframe
    if not _IS_COPY or frame is None or not frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        yield
        return
    seen = debugger.curframe_locals
    before = dict(seen)
    try:
        yield
    finally:
        bound = {name: value for name, value in seen.items() if before.get(name, _NOTHING) is not value}
        deleted = before.keys() - seen.keys()
        # First as the frame is: what the line has called may have bound names there, by `nonlocal`.
        names = frame.f_locals
        names.update(bound)
        stay = sorted(deleted & names.keys())
        if _CAN_UNBIND:
            for name in stay:
                del names[name]
        elif stay:
            debugger.error(f"{', '.join(stay)}: not deleted, Python cannot do that to a function that runs")
        _take_over(frame)


def _take_over(frame: FrameType) -> None:
    """Let the function go on with what is bound in the copy; what is not there is unbound, if that can be."""
    ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(_CAN_UNBIND))
