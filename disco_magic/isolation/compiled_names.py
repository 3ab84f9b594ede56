"""Names that code of cells finds without import, ``np`` and ``worker_id``, for what Numba compiles of it.

They are in the `__builtins__` of a worker's namespace. Numba looks in the module `builtins` instead, and says
"NameError: name 'np' is not defined" of a cell in which `np` works.
"""

from __future__ import annotations

import builtins
import sys
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.replaced import in_place_of
from disco_magic.callers.sites import Site
from disco_magic.errors import UsageMistake

if TYPE_CHECKING:
    from collections.abc import Callable

    Below = Callable[..., Any]

_NOTHING: Final = object()


@in_place_of("get_global_value", within="Interpreter")
def fit_numba(below: Below, self: Any, name: str) -> Any:
    """Let Numba find them, as constants like globals; in ``numba.core.interpreter``."""
    value = below(self, name)
    given = _given(self.func_id, name) if value is _numba("interpreter").ir.UNDEFINED else _NOTHING
    return value if given is _NOTHING else given


@in_place_of("typeof_global", within="TypeInferer")
def fit_numba_types(below: Below, self: Any, inst: Any, target: Any, gvar: Any) -> Any:
    """Refuse to compile those that are functions; in ``numba.core.typeinfer``."""
    try:
        return below(self, inst, target, gvar)
    except _numba("typeinfer").TypingError:
        if _given(self.func_id, gvar.name) is _NOTHING:
            raise
    at = f" at {Site(self.func_id.func.__code__.co_filename, inst.loc.line)}"
    raise UsageMistake(
        f"Numba cannot compile {gvar.name}{at} - call it outside of the compiled function or in its `objmode`"
    )


@in_place_of("lower_global", within="PyLower")
def fit_numba_objects(below: Below, self: Any, name: str, value: Any) -> Any:
    """Let code in ``objmode``, which is not compiled, find them; in ``numba.core.pylowering``."""
    is_given = _given(self.func_ir.func_id, name) is not _NOTHING
    return self.get_builtin_obj(name) if is_given else below(self, name, value)


@in_place_of("_index_key", within="Cache")
def fit_numba_cache(below: Below, self: Any, *what: Any) -> Any:
    """Keep compiled code in files for each worker apart, because its number is a constant in that code.

    With ``cache=True`` Numba finds it by the function's own code alone: all workers would get the code of the
    first one, without a word, and so would the next session, of another number of workers. In
    ``numba.core.caching``.
    """
    behind = self._py_func.__globals__.get("__builtins__")
    numbers = behind.items() if isinstance(behind, dict) else ()
    mine = tuple(sorted((name, value) for name, value in numbers if type(value) is int))
    key = below(self, *what)
    return (key, mine) if mine else key


def _numba(module: str) -> Any:
    return sys.modules[f"numba.core.{module}"]


def _given(identity: Any, name: str) -> Any:
    """What a function finds by that name though it is neither a global variable nor Python's."""
    names = identity.func.__globals__
    behind = names.get("__builtins__")
    if not isinstance(behind, dict) or name in names or hasattr(builtins, name):
        return _NOTHING
    return behind.get(name, _NOTHING)
