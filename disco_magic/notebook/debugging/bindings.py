"""Lets a function continue with the names that were bound at a debugger's prompt.

Before Python 3.13, ``frame.f_locals`` of a function is a copy that every access renews, and pdb binds names
in it. The interpreter copies them back when a trace function returns, unless something has accessed the copy
since. At a prompt that `breakpoint` opens, no trace function is being called, so they would be lost. Here
they are copied back after every line, in whichever frame it was typed, as Python does since 3.13.
"""

from __future__ import annotations

import ctypes
import inspect
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import FrameType

_IS_COPY: Final = sys.version_info < (3, 13)
# From 3.12 on, compiled code does not check again whether a name is bound after finding it bound once.
_CAN_UNBIND: Final = sys.version_info < (3, 12)

_NOTHING: Final = object()


@contextmanager
def bound_in_frame(debugger: Any) -> Iterator[None]:
    """Execute a line of a debugger in this block; names that it binds are bound in the current frame.

    Deleted names are unbound if Python can do that; otherwise a message says so, as in Python 3.13.
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
        bound = _bound_since(before, seen)
        deleted = before.keys() - seen.keys()
        # Renew the copy first: functions that the line calls may have bound names in the frame (`nonlocal`).
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
    """Copy the names back into the frame; unbind those that are missing, if that is possible."""
    ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(_CAN_UNBIND))


def _bound_since(before: Mapping[str, Any], seen: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in seen.items() if before.get(name, _NOTHING) is not value}
