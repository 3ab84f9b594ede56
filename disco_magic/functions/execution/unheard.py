"""Interrupts that Python swallows: it does so with what is raised in code that it calls on its own account.

What strikes in a callback of the garbage collector or of a weak reference, or in a ``__del__``, goes to
``sys.unraisablehook``, and the thread goes on. So while sessions run, a hook has the thread struck again, and
does not report the interrupt.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final, TypeVar

from disco_magic.callers.replaced import Replaced, replace_all
from disco_magic.errors import Interrupted, interrupted_at

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

    _Function = TypeVar("_Function", bound=Callable[..., object])

SPARED: Final[set[CodeType]] = set()
"""Short functions of ours in which nothing may strike, see `fragile`; their callees need marks, too."""


def spared(function: _Function) -> _Function:
    """Mark such a function: what is raised in a hook is lost."""
    SPARED.add(function.__code__)
    return function


class _Here(threading.local):
    """For the calling thread: the function that has it struck again."""

    again: Callable[[], bool] | None = None


_here: Final = _Here()


def listen(again: Callable[[], bool]) -> None:
    """Register the calling thread as a worker's.

    Args:
        again: has the thread struck once more; returns whether it will be. Called in the midst of anything,
            so it takes no locks; and is marked by `spared`.
    """
    _here.again = again


class _Hook:
    """The hook that is installed meanwhile; `below` was there before.

    A new object each time: other code may have kept the last one, and call it.
    """

    def __init__(self, below: Callable[[Any], object]) -> None:
        self.below = below

    @spared
    def __call__(self, ignored: Any, /) -> None:
        error = ignored.exc_value
        # Collectives raise the others in such code.
        if error is not None and interrupted_at(error) is Interrupted.STRUCK:
            again = _here.again
            if again is not None and again():
                return
        self.below(ignored)


def fit_unraisable(module: Any) -> Callable[[], None]:
    """Install the hook; `module` is `sys`. It stays if another one is installed over it."""
    return replace_all([Replaced(module, "unraisablehook", _Hook(module.unraisablehook))])
