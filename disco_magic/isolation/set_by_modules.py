"""What bodies of a worker's own modules set, while a program imports them, stays after the program.

All else that a program sets ends with it. But its modules stay imported: a second run does not execute
``config.py`` again, which sets the precision, and would silently compute without it.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.current import calling_worker, is_beside, is_given_up
from disco_magic.callers.per_worker import PerWorker
from disco_magic.isolation import settings
from disco_magic.isolation.pytorch.switches import every_switch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextvars import ContextVar

    from disco_magic.callers.current import CallingWorker

_VARIABLES: Final[PerWorker[dict[ContextVar[Any], Any]]] = PerWorker(dict)
_SWITCHES: Final[PerWorker[dict[Any, Any]]] = PerWorker(dict)


@contextmanager
def kept() -> Iterator[None]:
    """Note what is set in a ``with`` block, in which the body of a module is executed. Takes 40 us."""
    me = calling_worker()
    if me is None or is_beside():
        yield
        return
    switches, variables = every_switch(me), _variables()
    with settings.kept():
        try:
            yield
        finally:
            if not is_given_up():
                _note(me, switches, variables)


def _note(me: CallingWorker, switches: dict[Any, Any], variables: dict[Any, Any]) -> None:
    for each, wanted in every_switch(me).items():
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
