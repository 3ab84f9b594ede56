"""How a worker starts processes is its own: `multiprocessing.set_start_method`.

Each program calls it once, and a second call is an error. In one process, all workers but the first would get
that error. A worker that has set nothing uses what the process has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.per_worker import PerProgram

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

_OWN: Final = PerProgram()
_CHOSEN: Final = "_actual_context"
_FIRST: Final = "_default_context"


def _chosen(self: Any) -> Any:
    """The context that was set, or used first; None: not yet."""
    mine = _OWN.mine()
    return vars(self)[_CHOSEN] if mine is None else mine.get(_CHOSEN)


def _choose(self: Any, context: Any) -> None:
    mine = _OWN.mine()
    if mine is None:
        vars(self)[_CHOSEN] = context
    else:
        mine[_CHOSEN] = context


def _first(self: Any) -> Any:
    """The context that is used if none was set."""
    process = None if _OWN.mine() is None else vars(self)[_CHOSEN]
    return process or vars(self)[_FIRST]


def fit_start_methods(module: ModuleType) -> Callable[[], None]:
    """Let each worker set its own start method; `module` is ``multiprocessing.context``.

    Raises:
        KeyError: the module has no such contexts.
    """
    everybodys = vars(module)[_FIRST]
    kind = type(everybodys)
    vars(everybodys)[_CHOSEN], vars(everybodys)[_FIRST]
    own = {_CHOSEN: property(_chosen, _choose), _FIRST: property(_first)}
    everybodys.__class__ = type(kind.__name__, (kind,), {"__module__": kind.__module__, **own})

    def undo() -> None:
        everybodys.__class__ = kind

    return undo
