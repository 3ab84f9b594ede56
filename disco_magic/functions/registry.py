"""Global functions by name: what `call_packed` and `get_global_func` find.

A name that is not registered here is looked up among TVM's global functions, if `tvm_ffi` is installed; it is
imported for that if necessary.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeVar, overload

from disco_magic.callers.namespaces import CELL_MODULE
from disco_magic.core.numbers import truth
from disco_magic.errors import UnknownName, UsageMistake
from disco_magic.functions.installed import has_package
from disco_magic.phrases import near_misses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

F = TypeVar("F", bound="Callable[..., Any]")
_functions: dict[str, Callable[..., Any]] = {}


@overload
def register_func(name: F) -> F: ...
@overload
def register_func(name: str, function: F, *, override: bool = False) -> F: ...
@overload
def register_func(name: str, function: None = None, *, override: bool = False) -> Callable[[F], F]: ...
def register_func(
    name: str | F, function: F | None = None, *, override: bool = False
) -> F | Callable[[F], F]:
    """Register a function under `name` for all sessions of this process.

    Use it as a decorator, ``@register_func("demo.scale")``, or ``@register_func`` for the function's own
    name, or with the function as second argument.

    Args:
        name: by convention dotted, ``"demo.scale"``.
        function: any callable; None returns a decorator.
        override: replace a function of that name instead of refusing. A function with the same module and
            qualified name is always replaced, because a notebook's cell that registers one is run again and
            again.

    Raises:
        UsageMistake: the name is missing or taken by another function, `function` cannot be called, or a cell
            defined it on a worker: names belong to the process, and such a function to one worker.

    Example:
        >>> @disco.register_func("demo.double")
        ... def double(x):
        ...     return 2 * x
        >>> session.call_packed("demo.double", 21).get(0)
        42
        >>> disco.remove_func("demo.double")
    """
    override = truth("register_func", "override", override)
    if not isinstance(name, str):
        if function is not None or not callable(name):
            raise UsageMistake(f"register_func takes a name and a function, got {type(name).__name__} first")
        return register_func(getattr(name, "__name__", ""), name, override=override)
    if not name:
        raise UsageMistake("register_func needs a name: @register_func('demo.scale')")
    if function is None:
        return lambda f: register_func(name, f, override=override)
    if not callable(function):
        raise UsageMistake(f"register_func('{name}') got {type(function).__name__}, expected a callable")
    if getattr(function, "__module__", None) == CELL_MODULE:
        raise UsageMistake(
            f"register_func('{name}') was called in a %%disco cell: a registered function is one for the "
            "whole process, what a cell defines is every worker's own; register it in the notebook, or call "
            "the register: session.call_packed(session['name_of_the_function'], ...)"
        )
    known = _functions.get(name)
    if known is not None and not override and _identity(known) != _identity(function):
        raise UsageMistake(
            f"a function named '{name}' is registered already ({_identity(known)}); "
            "choose another name or pass override=True"
        )
    _functions[name] = function
    return function


def _identity(function: Callable[..., Any]) -> str:
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return f"{getattr(function, '__module__', '?')}.{name}"


def find_func(name: str) -> Callable[..., Any]:
    """Return the function registered as `name`: here, or else with `tvm_ffi` if that is installed.

    `tvm_ffi` is imported for that, once (0.1 s). TVM's functions take and return NumPy arrays, see
    `tvm_values.TVMFunction`.
    """
    if not isinstance(name, str):
        raise UsageMistake(f"a function's name is text, got {type(name).__name__}")
    function = _functions.get(name)
    if function is not None:
        return function
    others: list[str] = []
    if sys.modules.get("tvm_ffi") is not None or has_package("tvm_ffi"):
        from disco_magic.functions import tvm_modules

        try:
            foreign = tvm_modules.global_function(name)
            others = tvm_modules.global_names() if foreign is None else []
        except Exception as reason:  # broken, or made for another machine: its loading may raise anything
            raise _unknown(name, _functions) from reason
        if foreign is not None:
            return foreign
    raise _unknown(name, [*_functions, *others])


def _unknown(name: str, known: Iterable[str]) -> UnknownName:
    module, _, function = str(name).rpartition(".")
    # Not by `getattr`: lazy packages import what they are asked for, which may raise anything.
    inside = getattr(sys.modules.get(module), "__dict__", {})
    hint = near_misses(str(name), list(known)) or "see disco_magic.list_funcs()"
    if callable(inside.get(function)):
        hint = f"pass the function itself, {name}, without quotation marks"
    return UnknownName(f"no function is registered as '{name}'; {hint}")


def list_funcs(prefix: str = "") -> list[str]:
    """Names of all functions registered here (not of TVM's) that start with `prefix`, sorted.

    Example:
        >>> disco.list_funcs("runtime.disco.allr")
        ['runtime.disco.allreduce']
    """
    return sorted(name for name in list(_functions) if name.startswith(prefix))


def remove_func(name: str) -> None:
    """Remove a registered function; registers that hold it keep it.

    Raises:
        UnknownName: there is no function of that name.

    Example:
        >>> function = disco.register_func("demo.gone", lambda x: x)
        >>> disco.remove_func("demo.gone")
        >>> disco.list_funcs("demo.gone")
        []
    """
    if _functions.pop(name, None) is None:
        raise _unknown(name, _functions)
