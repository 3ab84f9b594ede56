"""Where in the user's code a call was made, in the words the user knows: ``Cell In[7], line 4``."""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from types import FrameType

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_RUNTIME = (_PACKAGE, threading.__file__)
_labels: dict[str, str] = {}


class Site(NamedTuple):
    """A line of the user's code."""

    filename: str
    line: int

    @property
    def is_labelled(self) -> bool:
        """Whether it is a line of a cell."""
        return self.filename in _labels

    def __str__(self) -> str:
        label = _labels.get(self.filename)
        if label is None:
            label = f'File "{self.filename}"' if self.filename else "a command of the session"
        return f"{label}, line {self.line}" if self.line else label


def label(filename: str, text: str) -> None:
    """Show lines of `filename` under the name `text` from now on, e.g. ``Cell In[7]``."""
    _labels[filename] = text


def label_of(filename: str) -> str | None:
    """The name that lines of `filename` are shown under, if it has one."""
    return _labels.get(filename)


def forget(filename: str) -> None:
    """Show lines of `filename` under its own name again."""
    _labels.pop(filename, None)


def runtime_file(filename: str) -> bool:
    """Whether a file belongs to disco_magic or to what starts its threads, not to the user."""
    return filename.startswith(_RUNTIME)


def call_site() -> Site:
    """The innermost line of the calling thread that is not part of disco_magic. Costs about 0.5 us."""
    return innermost_site(sys._getframe(1))  # noqa: SLF001 - inspect.currentframe is the same, a frame slower


def innermost_site(frame: FrameType | None) -> Site:
    """The innermost line of a stack that is not part of disco_magic."""
    while frame is not None:
        filename = frame.f_code.co_filename
        if not filename.startswith(_RUNTIME):
            return Site(filename, frame.f_lineno)
        frame = frame.f_back
    return Site("", 0)


def cell_site(frame: FrameType | None) -> Site | None:
    """The innermost line of a stack that is shown under a label: a cell's; None if there is none."""
    while frame is not None:
        if frame.f_code.co_filename in _labels:
            return Site(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return None
