"""Functions and classes of cells that reach a worker as values become the worker's own.

A function reads and sets the registers of the worker whose cell defined it. If it were passed on unchanged,
worker 0's function would use worker 0's registers on every worker: ``worker_id`` would be 0 everywhere. What
the notebook gets stays the sender's: that is what a person asks for.
"""

from __future__ import annotations

import functools
import types
from typing import TYPE_CHECKING, Any, Final, cast

from disco_magic.callers.namespaces import CELL_MODULE, found_in
from disco_magic.isolation.own_classes import homes_of, is_of_workers, own_class
from disco_magic.values.kinds import module_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from disco_magic.isolation.own_classes import Inside, Receiver

    Names = dict[str, Any]

_CACHED: Final = type(functools.lru_cache(lambda: None))
_DEFINING: Final = (types.FunctionType, _CACHED)
# The attribute with the function that they call.
_INSIDE: Final = {types.MethodType: "__func__", functools.partial: "func", _CACHED: "__wrapped__"}


def own_definition(value: Any, receiver: Receiver) -> Any:
    """Return the receiver's own for another worker's function or class, or what calls one; else `value`."""
    if not receiver.strict or not is_of_cells(value):
        return value
    for namespace in receiver.namespaces():
        make = _OWN.get(type(value))
        if make is not None:
            return make(value, receiver, namespace)
        return own_class(value, [namespace], receiver) or value
    return value


def _own_method(method: Any, receiver: Receiver, _: Mapping[str, Any]) -> Any:
    own = own_definition(method.__func__, receiver)
    return (
        method if own is method.__func__ else types.MethodType(own, own_definition(method.__self__, receiver))
    )


def _own_partial(partial: Any, receiver: Receiver, _: Mapping[str, Any]) -> Any:
    own = own_definition(partial.func, receiver)
    return partial if own is partial.func else functools.partial(own, *partial.args, **partial.keywords)


def _own_cached(cached: Any, receiver: Receiver, namespace: Mapping[str, Any]) -> Any:
    inner = own_definition(cached.__wrapped__, receiver)
    if inner is cached.__wrapped__:
        return cached
    own = next((found_in(each, cached.__qualname__) for each in _homes_of(inner, namespace)), None)
    if type(own) is _CACHED and _is_same(own.__wrapped__, inner):
        return own
    return functools.lru_cache(**cached.cache_parameters())(inner)


def own_definitions(inside: Iterable[Inside], receiver: Receiver) -> dict[int, Any]:
    """Map, by `id`, functions and classes of other workers that a copy contains to the receiver's own."""
    found: dict[int, Any] = {}
    for kinds, things in inside:
        if not kinds.isdisjoint(_DEFINING) or any(issubclass(kind, type) for kind in kinds):
            # Classes of copied objects are among these, too: `own_classes` handles their objects.
            theirs = {id(each): each for each in things if is_of_cells(each)}
            own = {key: own_definition(each, receiver) for key, each in theirs.items()}
            found.update({key: each for key, each in own.items() if each is not theirs[key]})
    return found


def own_classes_inside(inside: Iterable[Inside], receiver: Receiver) -> dict[int, Any]:
    """Map, by `id`, classes of cells that a copy contains to the receiver's of these names.

    For the notebook, which gets objects of worker 0's classes: a class beside them would be another worker's.
    """
    namespaces = list(receiver.namespaces())
    classes = (
        each
        for kinds, things in inside
        if any(issubclass(kind, type) for kind in kinds)
        for each in things
        if issubclass(type(each), type) and is_of_workers(module_of(each))
    )
    own = {id(each): own_class(each, namespaces, receiver) for each in classes}
    return {key: each for key, each in own.items() if each is not None}


def is_of_cells(value: Any) -> bool:
    """Whether `value` is a function or a class that a cell has defined, or calls one."""
    kind = type(value)
    inner = _INSIDE.get(kind)
    if inner is not None:
        return is_of_cells(getattr(value, inner))
    if kind is types.FunctionType:
        home = value.__globals__.get("__name__")  # `__module__` is copied by `functools.wraps`
        return is_of_workers(value.__module__ if home is None else home)  # None: its session has ended
    return issubclass(kind, type) and is_of_workers(module_of(value))


def _homes_of(function: types.FunctionType, namespace: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The worker's namespace, in a list, for functions of that module; `namespace` is that of its cells."""
    home = function.__globals__.get("__name__")
    return homes_of(home, [namespace]) if type(home) is str and home != CELL_MODULE else [namespace]


def _own_function(
    function: types.FunctionType, _: Receiver, namespace: Mapping[str, Any]
) -> types.FunctionType:
    """Return the function of that name there, if it has the same code; else a copy that runs there."""
    homes = _homes_of(function, namespace)
    if not homes or function.__globals__ is homes[0]:
        return function
    namespace = homes[0]
    own = found_in(namespace, function.__qualname__)
    if type(own) is types.FunctionType and _is_same(own, function):
        return own
    made = types.FunctionType(
        own_code(function.__code__),
        cast("Names", namespace),
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    made.__kwdefaults__ = function.__kwdefaults__
    made.__annotations__ = function.__annotations__
    made.__qualname__, made.__doc__ = function.__qualname__, function.__doc__
    made.__dict__.update(function.__dict__)
    return made


def fit_copy(module: types.ModuleType) -> Callable[[], None] | None:
    """Let `copy.deepcopy` look functions and classes up in its memo; `module` is ``copy``.

    Since Python 3.14 it takes them as they are before it looks there.
    """
    known: dict[type, Callable[[Any, object], Any]] = module._deepcopy_dispatch  # noqa: SLF001 - no public way
    atoms: frozenset[type] | None = vars(module).get("_atomic_types")
    if atoms is None and types.FunctionType in known:
        return None
    looked_up = frozenset({types.FunctionType, type})
    known.update(dict.fromkeys(looked_up, lambda value, _: value))
    vars(module)["_atomic_types"] = module._atomic_types - looked_up  # noqa: SLF001 - as above
    # What is known stays: a thread may have looked up the atoms already.
    return functools.partial(setattr, module, "_atomic_types", atoms)


def own_code(code: types.CodeType) -> types.CodeType:
    """Return a copy of a code object, with copies of the functions in it. Costs 1 us each.

    PyTorch's compiler stores compiled code with the code object, and finds it there by a name that it has
    bound in one worker's namespace.
    """
    inner = [own_code(each) if type(each) is types.CodeType else each for each in code.co_consts]
    return code.replace(co_consts=tuple(inner))


def with_own_code(cell: types.CodeType) -> types.CodeType:
    """Return the code of a cell, so that its functions are the worker's own."""
    return own_code(cell) if types.CodeType in map(type, cell.co_consts) else cell


def _is_same(own: Any, other: Any) -> bool:
    """Whether both come from one definition: functions made in a loop differ only in their defaults."""
    kept = own.__kwdefaults__ or {}, other.__kwdefaults__ or {}
    return (
        own.__code__ == other.__code__
        and _are_alike(own.__defaults__ or (), other.__defaults__ or ())
        and list(kept[0]) == list(kept[1])
        and _are_alike(tuple(kept[0].values()), tuple(kept[1].values()))
    )


def _are_alike(mine: tuple[Any, ...], theirs: tuple[Any, ...]) -> bool:
    # Each worker has its own list or array as a default: whether these are meant to be equal is unknown.
    return len(mine) == len(theirs) and all(
        one is other or _are_equal(one, other) for one, other in zip(mine, theirs, strict=True)
    )


def _are_equal(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    return type(one) not in (bool, int, float, complex, str, bytes) or bool(one == other)


_OWN: Final[dict[type, Callable[[Any, Receiver, Mapping[str, Any]], Any]]] = {
    types.FunctionType: _own_function,
    types.MethodType: _own_method,
    functools.partial: _own_partial,
    _CACHED: _own_cached,
}
