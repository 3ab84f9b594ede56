"""An interrupt that nobody hears: Python swallows what is raised in code that it calls on its own account.

A callback of the garbage collector, or of a weak reference, and a ``__del__``: what strikes there is told to
``sys.unraisablehook``, and the thread goes on. So while sessions run there is a hook that has it struck
again, and says nothing of it.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any, Final, TypeVar

from disco_magic.errors import Interrupted, interrupted_at

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

    _Function = TypeVar("_Function", bound=Callable[..., object])

SPARED: Final[set[CodeType]] = set()
"""Short functions of ours in which nothing may strike, see `fragile`; what they call is marked by itself."""


def spared(function: _Function) -> _Function:
    """Mark such a function: Python tells nobody of what is raised in a hook."""
    SPARED.add(function.__code__)
    return function


class _Here(threading.local):
    """Of the calling thread: what strikes it again."""

    again: Callable[[], bool] | None = None


_here: Final = _Here()


def listen(again: Callable[[], bool]) -> None:
    """The calling thread is a worker's.

    Args:
        again: has the thread struck once more; whether it will be. Called in the midst of anything, so it
            takes no locks; and is marked by `spared`.
    """
    _here.again = again


class _Hook:
    """What is told meanwhile; `below` was there before.

    A new one each time: somebody may have kept the last one, and call it.
    """

    def __init__(self, below: Callable[[Any], object]) -> None:
        self.below = below

    @spared
    def __call__(self, ignored: Any, /) -> None:
        error = ignored.exc_value
        # Others are what a collective says in such code.
        if error is not None and interrupted_at(error) is Interrupted.STRUCK:
            again = _here.again
            if again is not None and again():
                return
        self.below(ignored)


_present: Final[list[_Hook]] = []  # one, or none


def begin() -> None:
    """From now on it is so. Idempotent."""
    if not _present:
        _present.append(_Hook(sys.unraisablehook))
        sys.unraisablehook = _present[0]


def end() -> None:
    """No more, unless somebody has put another one over it. Idempotent."""
    if _present and sys.unraisablehook is (ours := _present.pop()):
        sys.unraisablehook = ours.below
