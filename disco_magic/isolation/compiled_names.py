"""Names that code of cells finds without import, ``np`` and ``worker_id``, for what Numba compiles of it.

They are in the `__builtins__` of a worker's namespace. Numba looks in the module `builtins` instead, and says
"NameError: name 'np' is not defined" of a cell in which `np` works.
"""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any, Final

from disco_magic.callers.replaced import replace_all, replacing
from disco_magic.callers.sites import Site
from disco_magic.errors import UsageMistake

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

_NOTHING: Final = object()


def fit_numba(module: ModuleType) -> Callable[[], None]:
    """Let Numba find them, as constants like globals; `module` is ``numba.core.interpreter``."""

    @replacing(module.Interpreter, "get_global_value")
    def get_global_value(self: Any, name: str) -> Any:
        value = get_global_value.below(self, name)
        given = _given(self.func_id, name) if value is module.ir.UNDEFINED else _NOTHING
        return value if given is _NOTHING else given

    return replace_all([get_global_value])


def fit_numba_types(module: ModuleType) -> Callable[[], None]:
    """Refuse to compile those that are functions; `module` is ``numba.core.typeinfer``."""

    @replacing(module.TypeInferer, "typeof_global")
    def typeof_global(self: Any, inst: Any, target: Any, gvar: Any) -> Any:
        try:
            return typeof_global.below(self, inst, target, gvar)
        except module.TypingError:
            if _given(self.func_id, gvar.name) is _NOTHING:
                raise
        at = f" at {Site(self.func_id.func.__code__.co_filename, inst.loc.line)}"
        raise UsageMistake(
            f"Numba cannot compile {gvar.name}{at} - call it outside of the compiled function or in its "
            "`objmode`"
        )

    return replace_all([typeof_global])


def fit_numba_objects(module: ModuleType) -> Callable[[], None]:
    """Let code in ``objmode``, which is not compiled, find them; `module` is ``numba.core.pylowering``."""

    @replacing(module.PyLower, "lower_global")
    def lower_global(self: Any, name: str, value: Any) -> Any:
        is_given = _given(self.func_ir.func_id, name) is not _NOTHING
        return self.get_builtin_obj(name) if is_given else lower_global.below(self, name, value)

    return replace_all([lower_global])


def fit_numba_cache(module: ModuleType) -> Callable[[], None]:
    """Keep compiled code in files for each worker apart, because its number is a constant in that code.

    With ``cache=True`` Numba finds it by the function's own code alone: all workers would get the code of the
    first one, without a word, and so would the next session, of another number of workers. `module` is
    ``numba.core.caching``.
    """

    @replacing(module.Cache, "_index_key")
    def _index_key(self: Any, *what: Any) -> Any:
        behind = self._py_func.__globals__.get("__builtins__")
        numbers = behind.items() if isinstance(behind, dict) else ()
        mine = tuple(sorted((name, value) for name, value in numbers if type(value) is int))
        key = _index_key.below(self, *what)
        return (key, mine) if mine else key

    return replace_all([_index_key])


def _given(identity: Any, name: str) -> Any:
    """What a function finds by that name though it is neither a global variable nor Python's."""
    names = identity.func.__globals__
    behind = names.get("__builtins__")
    if not isinstance(behind, dict) or name in names or hasattr(builtins, name):
        return _NOTHING
    return behind.get(name, _NOTHING)
