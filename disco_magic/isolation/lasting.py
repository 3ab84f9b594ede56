"""Context variables that cells have set on a worker: NumPy's print options, decimal's context.

Every cell of a notebook runs in a copy of the context that it was sent from, so that its output finds it.
What a cell sets there would be gone with the cell, although in a plain notebook it lasts.
"""

from __future__ import annotations

from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextvars import ContextVar

_UNSET: Final = object()


class LastingVariables:
    """Those of one worker; `begin` and `end` are called in the cell's context. Costs 2 us per cell."""

    def __init__(self) -> None:
        # What the notebook had when a cell set it, and what the cell set.
        self._lasting: dict[ContextVar[Any], tuple[Any, Any]] = {}
        self._before: Mapping[ContextVar[Any], Any] | None = None
        # Of cells in the thread's own context: what the last one left, what another thread's did.
        self._left: Mapping[ContextVar[Any], Any] | None = None
        self._inherited: Mapping[ContextVar[Any], Any] | None = None

    def succeed(self) -> LastingVariables:
        """For a thread that takes another one's place: what cells have set there that have ended."""
        heir = LastingVariables()
        heir._lasting.update(self._lasting)
        heir._left = heir._inherited = self._left
        return heir

    def take_over(self) -> None:
        """A cell begins in the thread's own context, where everything lasts but what another thread had."""
        inherited, self._inherited = self._inherited, None
        here = copy_context()
        for variable, value in (inherited or {}).items():
            if variable not in here:
                variable.set(value)

    def leave(self) -> None:
        """It has ended: this is what a successor takes over."""
        self._left = copy_context()

    def begin(self) -> None:
        """A cell begins: what former cells have set holds, unless the notebook has set it anew since."""
        self._before = before = copy_context()
        for variable, (notebooks, ours) in list(self._lasting.items()):
            if before.get(variable, _UNSET) is notebooks:
                variable.set(ours)
            else:
                del self._lasting[variable]

    def end(self) -> None:
        """It has ended: keep what it has set. One that did not come to `begin` has set nothing."""
        before, self._before = self._before, None
        if before is None:
            return
        for variable, value in copy_context().items():
            notebooks = before.get(variable, _UNSET)
            if value is not notebooks:
                self._lasting[variable] = notebooks, value
            else:
                self._lasting.pop(variable, None)
