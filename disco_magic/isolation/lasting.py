"""What lasts of what cells, and modules that programs import, have set on a worker.

Context variables that cells have set: NumPy's print options, decimal's context.
Every cell of a notebook runs in a copy of the context that it was sent from, so that its output goes to the
right cell. What a cell sets there would vanish with the cell, although it lasts in a plain notebook.

What bodies of a worker's own modules set, while a program imports them, stays after the program, although all
else that a program sets ends with it: its modules stay imported. A second run does not execute ``config.py``
again, which sets the precision, and would silently compute without it.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.current import calling_worker, is_beside, is_given_up
from disco_magic.callers.per_worker import PerWorker
from disco_magic.isolation import settings
from disco_magic.isolation.imported import is_imported
from disco_magic.isolation.pytorch.switches import switches_now

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextvars import ContextVar

    from disco_magic.callers.current import CallingWorker

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
        lasting = self._lasting
        for variable, value in copy_context().items():
            notebooks = before.get(variable, _UNSET)
            if value is not notebooks:
                lasting[variable] = notebooks, value
            elif lasting:
                lasting.pop(variable, None)


_VARIABLES: Final[PerWorker[dict[ContextVar[Any], Any]]] = PerWorker(dict)
_SWITCHES: Final[PerWorker[dict[Any, Any]]] = PerWorker(dict)


@contextmanager
def kept() -> Iterator[None]:
    """Note what is set in a ``with`` block, in which the body of a module is executed. Takes 40 us."""
    me = calling_worker()
    if me is None or is_beside():
        yield
        return
    switches, variables = switches_now(me, lasting=True), _variables()
    with settings.kept():
        try:
            yield
        finally:
            if not is_given_up():
                _note(me, switches, variables)


def _note(me: CallingWorker, switches: dict[Any, Any], variables: dict[Any, Any]) -> None:
    for each, wanted in switches_now(me, lasting=True).items():
        if switches.get(each) != wanted:
            _SWITCHES.of(me)[each] = wanted
    for variable, (value, text) in _variables().items():
        before, said = variables.get(variable, (None, ""))
        if before is not value or said != text:
            _VARIABLES.of(me)[variable] = value if text is None else value.copy()


def _variables() -> dict[ContextVar[Any], tuple[Any, str | None]]:
    """The caller's context variables; of decimal's, which is changed in place, also its text."""
    kind = getattr(sys.modules.get("decimal"), "Context", ())
    return {
        variable: (value, repr(value) if isinstance(value, kind) else None)
        for variable, value in copy_context().items()
    }


def switches_of(worker: CallingWorker) -> dict[Any, Any]:
    """Return what modules have set of PyTorch's switches since this was asked, and forget it."""
    noted: dict[Any, Any] = worker.belongings.pop(_SWITCHES, {})
    return noted


def set_variables(worker: CallingWorker) -> None:
    """Set, in the caller's context, what modules have set since this was called."""
    for variable, value in worker.belongings.pop(_VARIABLES, {}).items():
        variable.set(value)
