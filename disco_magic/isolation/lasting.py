"""Context variables that cells have set on a worker: NumPy's print options, decimal's context.

Every cell of a notebook runs in a copy of the context that it was sent from, so that its output goes to the
right cell. What a cell sets there would vanish with the cell, although it lasts in a plain notebook.
"""

from __future__ import annotations

import sys
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Final

from disco_magic.isolation.imported import is_imported

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextvars import ContextVar

_UNSET: Final = object()


def part_decimals() -> None:
    """Let the caller's copied context have its own decimal context: the variable holds a mutable object."""
    if is_imported("decimal"):
        decimal: Any = sys.modules["decimal"]
        decimal.setcontext(decimal.getcontext().copy())


class LastingVariables:
    """The variables of one worker; `begin` and `end` run in the cell's context. Costs 2 us per cell."""

    def __init__(self) -> None:
        # Variable -> (the notebook's value when a cell set it, the cell's value).
        self._lasting: dict[ContextVar[Any], tuple[Any, Any]] = {}
        self._before: Mapping[ContextVar[Any], Any] | None = None
        # For cells in the thread's own context: what the last one left, and what the former thread's left.
        self._left: Mapping[ContextVar[Any], Any] | None = None
        self._inherited: Mapping[ContextVar[Any], Any] | None = None

    def succeed(self) -> LastingVariables:
        """Return the variables for a successor of the thread, with what ended cells have set."""
        heir = LastingVariables()
        heir._lasting.update(self._lasting)
        heir._left = heir._inherited = self._left
        return heir

    def take_over(self) -> None:
        """Begin a cell in the thread's own context, where all lasts: set once what a former thread left."""
        inherited, self._inherited = self._inherited, None
        here = copy_context()
        for variable, value in (inherited or {}).items():
            if variable not in here:
                variable.set(value)

    def leave(self) -> None:
        """End such a cell: note what a successor takes over."""
        self._left = copy_context()

    def begin(self) -> None:
        """Begin a cell: set what earlier cells have set, unless the notebook has set it anew since."""
        self._before = before = copy_context()
        for variable, (notebooks, ours) in list(self._lasting.items()):
            if before.get(variable, _UNSET) is notebooks:
                variable.set(ours)
            else:
                del self._lasting[variable]

    def end(self) -> None:
        """End a cell: keep what it has set. A cell that did not reach `begin` has set nothing."""
        before, self._before = self._before, None
        if before is None:
            return
        for variable, value in copy_context().items():
            notebooks = before.get(variable, _UNSET)
            if value is not notebooks:
                self._lasting[variable] = notebooks, value
            else:
                self._lasting.pop(variable, None)
