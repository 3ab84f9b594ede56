"""The line of the user's code that made a call, in words the user knows: ``Cell In[7], line 4``."""

from __future__ import annotations

import os
import sys
import threading
import types
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from disco_magic.libraries import OURS, is_of_library

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

    from disco_magic.core.recorded import Led
    from disco_magic.core.seat import Spot

_CODE_UNIT: Final = 2  # bytes: offsets count bytes, `co_positions` has an entry for each unit
_DEEPEST: Final = 100
_OF_TORCH: Final = frozenset({"torch", "typing_extensions"})
_IN_BETWEEN: Final = _OF_TORCH | {"numba"}
_HERE: Final = "/proc/self/cwd"
_RUNTIME = (OURS, threading.__file__)
# Attributes: its frame, and what it waits for.
_SUSPENDED: Final[dict[type, tuple[str, str]]] = {
    types.CoroutineType: ("cr_frame", "cr_await"),
    types.GeneratorType: ("gi_frame", "gi_yieldfrom"),
}
_labels: dict[str, str] = {}
_labellers: list[Callable[[str], str | None]] = []


class Site(NamedTuple):
    """A line of the user's code."""

    filename: str
    line: int

    @property
    def is_labelled(self) -> bool:
        """Whether it is a line of a cell."""
        return label_of(self.filename) is not None

    def __str__(self) -> str:
        label = label_of(self.filename)
        if label is None:
            label = _path_of(self.filename) if self.filename else "a command of the session"
        return f"{label}, line {self.line}" if self.line else label


def _path_of(filename: str) -> str:
    """A file without a label; from the notebook's working directory if it is the user's and below that."""
    with suppress(OSError):  # the directory was removed
        # Not the calling thread's: a worker may have its own, and the text must not depend on the thread.
        here = os.readlink(_HERE) if os.path.islink(_HERE) else os.getcwd()
        below = here + os.sep
        if filename.startswith(below) and not is_of_library(filename):
            return filename.removeprefix(below)
    return f'File "{filename}"'


def label(filename: str, text: str) -> None:
    """Show lines of `filename` under the name `text` from now on, e.g. ``Cell In[7]``."""
    _labels[filename] = text


def label_of(filename: str) -> str | None:
    """The name under which lines of `filename` are shown, if it has one; see `label`, `add_labeller`."""
    found = _labels.get(filename)
    if found is None:
        for labeller in _labellers:
            found = found or labeller(filename)
    return found


def add_labeller(labeller: Callable[[str], str | None]) -> None:
    """Let a front end name the files that it compiles itself, such as the plain cells of a notebook.

    Args:
        labeller: returns the name of a file, ``Cell In[7]``, or None if it is not the front end's. Called
            from any thread, for files of any kind; it must not raise, and should be no more than a look-up.
    """
    _labellers.append(labeller)


def remove_labeller(labeller: Callable[[str], str | None]) -> None:
    """Remove `labeller`; do nothing if it was not added."""
    with suppress(ValueError):
        _labellers.remove(labeller)


def forget(filename: str) -> None:
    """Show lines of `filename` under its own name again."""
    _labels.pop(filename, None)


@lru_cache(maxsize=1024)
def runtime_file(filename: str) -> bool:
    """Whether a file belongs to disco_magic or to what starts its threads, not to the user."""
    return filename.startswith(_RUNTIME)


def call_spot() -> Spot | None:
    """The innermost place of the calling thread that is not part of disco_magic; None if there is none.

    Costs 0.3 us per frame of ours in between. `site_of` finds the line, which takes as long again.
    """
    frame = _innermost(sys._getframe(1))  # noqa: SLF001 - inspect.currentframe is the same, a frame slower
    return None if frame is None else (frame.f_code, frame.f_lasti)


def callers_of(code: CodeType) -> tuple[Spot, ...]:
    """The places in the calling thread's code that led to the innermost call of `code`, the nearest first.

    Without ours and PyTorch's, and at most 100. Costs 0.1 us per frame.
    """
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - inspect.currentframe is the same call
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    found: list[Spot] = []
    while frame is not None and (frame := frame.f_back) is not None and len(found) < _DEEPEST:
        if not runtime_file(frame.f_code.co_filename) and not is_of_torch(frame):
            found.append((frame.f_code, frame.f_lasti))
    return tuple(found)


def led_by(code: CodeType) -> Led:
    """What led to a call of `code`: the name of the thread's asyncio task, "" for none, and `callers_of`."""
    asyncio: Any = sys.modules.get("asyncio")  # who has tasks has imported it
    try:
        task = asyncio.current_task()
    except (AttributeError, RuntimeError):  # not imported; no event loop runs
        task = None
    return "" if task is None else task.get_name(), callers_of(code)


class Stand(NamedTuple):
    """Where a thread is, in plain facts: the variables of a frame that is kept would die in another thread.

    Attributes:
        cell: see `cell_site`.
        own: see `own_site`.
        innermost: see `innermost_site`.
    """

    cell: Site | None
    own: Site | None
    innermost: Site


def stand_of(frame: FrameType | None) -> Stand:
    """Where the thread with that innermost frame is."""
    if frame is not None and label_of(frame.f_code.co_filename) is not None:
        site = _site_at(frame)  # the usual case; a look at all workers is to fit into one time slice
        return Stand(site, site, site)
    return Stand(cell_site(frame), own_site(frame), innermost_site(frame))


def site_of(spot: Spot | None) -> Site:
    """The line of a place in code."""
    if spot is None:
        return Site("", 0)
    code, offset = spot
    return Site(code.co_filename, line_at(code, offset))


def place_at(code: CodeType, offset: int) -> tuple[int | None, int | None, int | None, int | None]:
    """Where an instruction of `code` is written: first and last line, first and last column, in bytes."""
    return next(islice(code.co_positions(), offset // _CODE_UNIT, None), (None, None, None, None))


def line_at(code: CodeType, offset: int) -> int:
    """The line of an instruction of `code`; if it has none, as where a loop jumps back, the one before."""
    line = place_at(code, max(0, offset))[0]
    if line is None:
        before = [each for start, _, each in code.co_lines() if start <= offset and each is not None]
        line = before[-1] if before else code.co_firstlineno
    return line


def innermost_site(frame: FrameType | None) -> Site:
    """The innermost line of a stack that is not part of disco_magic."""
    frame = _innermost(frame)
    return Site("", 0) if frame is None else _site_at(frame)


def is_of_torch(frame: FrameType) -> bool:
    """Whether a frame executes code of PyTorch, or of what wraps its deprecated functions."""
    return package_of(frame) in _OF_TORCH


def is_in_between(frame: FrameType) -> bool:
    """Whether a frame executes code of a library through which we are called: PyTorch's, or Numba's."""
    return package_of(frame) in _IN_BETWEEN


def package_of(frame: FrameType) -> str:
    """The package of a frame's code; "" if that is not known."""
    name = frame.f_globals.get("__name__")
    return name.partition(".")[0] if type(name) is str else ""


def _site_at(frame: FrameType) -> Site:
    # Where a loop jumps back f_lineno is None, despite its type.
    return Site(frame.f_code.co_filename, frame.f_lineno or line_at(frame.f_code, frame.f_lasti))


def _innermost(frame: FrameType | None) -> FrameType | None:
    while frame is not None and runtime_file(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def awaited_site(coroutine: Any) -> Site | None:
    """The innermost line of a cell at which a coroutine, or one that it awaits, waits; None if there is none.

    From any thread: for a coroutine that is running now it is where that runs, within its own code.
    """
    found = None
    while (names := _SUSPENDED.get(type(coroutine))) is not None:
        frame, coroutine = (getattr(coroutine, name) for name in names)
        if frame is not None and label_of(frame.f_code.co_filename) is not None:
            found = _site_at(frame)
    return found


def cell_site(frame: FrameType | None) -> Site | None:
    """The innermost line of a stack that has a label, which is a cell's; None if there is none."""
    while frame is not None:
        if label_of(frame.f_code.co_filename) is not None:
            return _site_at(frame)
        frame = frame.f_back
    return None


def is_own(filename: str) -> bool:
    """Whether code of a file was written by the user, in a cell or a module."""
    # A name in brackets without a label is code made by a library: dataclasses, namedtuples.
    return label_of(filename) is not None or not (filename.startswith("<") or is_of_library(filename))


def own_site(frame: FrameType | None) -> Site | None:
    """The innermost line of a stack that the user has written, in a cell or a module; None if none."""
    while frame is not None:
        if is_own(frame.f_code.co_filename):
            return _site_at(frame)
        frame = frame.f_back
    return None
