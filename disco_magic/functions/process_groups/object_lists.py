"""PyTorch's functions for objects, whose collectives carry lengths and pickles: which one makes a call."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.sites import is_of_torch
from disco_magic.core.seat import Theirs

if TYPE_CHECKING:
    from types import FrameType

_FUNCTIONS: Final = frozenset(
    {
        *("all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list"),
        *("send_object_list", "recv_object_list"),
    }
)
_OF_LISTS: Final = ("broadcast_object_list", "recv_object_list")
_DEPTH: Final = 9  # frames between one of them and ours; to look at each takes 0.05 us


def object_call() -> str:
    """The name of the function for objects that makes this call of a group's method; "" if none does."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - there is no other way to know
    for _ in range(_DEPTH):
        if frame is None:
            break
        if frame.f_code.co_name in _FUNCTIONS and is_of_torch(frame):
            return frame.f_code.co_name
        frame = frame.f_back
    return ""


def as_called(verb: str, given: Any, theirs: Theirs | None) -> Theirs | None:
    """A group's call of `verb` as the user knows it, who may have called a function for objects."""
    name = object_call()
    if not name:
        return theirs
    theirs = (theirs or Theirs(verb))._replace(verb=name)
    # First comes how long the pickles are, a number for each object.
    is_lengths = name in _OF_LISTS and str(given.dtype).endswith("int64")
    return theirs._replace(objects=given.shape[0]) if is_lengths else theirs
