"""Functions and classes of cells that come to a worker as values become the worker's own.

A function reads and sets the registers of the worker whose cell has defined it. Handed on as it is, worker
0's would go on with worker 0's registers on every worker: ``worker_id`` would be 0 everywhere. What the
notebook gets stays the sender's, for that is what a person asks for.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any, cast

from disco_magic.functions.kinds import module_of
from disco_magic.functions.namespaces import CELL_MODULE, found_in
from disco_magic.functions.own_classes import all_inside, own_class

if TYPE_CHECKING:
    from collections.abc import Mapping

    from disco_magic.functions.own_classes import Receiver

    Names = dict[str, Any]


def own_definition(value: Any, receiver: Receiver) -> Any:
    """`value`, or of another worker's function or class the receiver's own."""
    if not receiver.strict or not is_of_cells(value):
        return value
    for namespace in receiver.namespaces():
        if type(value) is types.FunctionType:
            return value if value.__globals__ is namespace else _own_function(value, cast("Names", namespace))
        return own_class(value, [namespace]) or value
    return value


def own_definitions(copied: Any, memo: Mapping[int, Any], receiver: Receiver) -> dict[int, Any]:
    """By `id`, the receiver's own for those functions and classes of other workers that stand in a copy.

    Args:
        copied: what `copy.deepcopy` gave.
        memo: what it has copied.
        receiver: who gets it.

    Cost: 50 ns per element.
    """
    if not receiver.strict:
        return {}
    found: dict[int, Any] = {}
    for kinds, inside in all_inside(copied, memo):
        if types.FunctionType in kinds or any(issubclass(kind, type) for kind in kinds):
            # Classes of what is copied stand here, too: objects of theirs are for `own_classes`.
            theirs = {id(each): each for each in inside if is_of_cells(each)}
            own = {key: own_definition(each, receiver) for key, each in theirs.items()}
            found.update({key: each for key, each in own.items() if each is not theirs[key]})
    return found


def is_of_cells(value: Any) -> bool:
    """Whether it is a function or a class that a cell has defined."""
    kind = type(value)
    if kind is types.FunctionType:
        home = value.__globals__.get("__name__")  # `__module__` is copied by `functools.wraps`
        return bool(home == CELL_MODULE or (home is None and value.__module__ == CELL_MODULE))  # it has ended
    return issubclass(kind, type) and module_of(value) == CELL_MODULE


def _own_function(function: types.FunctionType, namespace: Names) -> types.FunctionType:
    """What its name means there, if that is the same code, else the same code, which runs there."""
    own = found_in(namespace, function.__qualname__)
    if type(own) is types.FunctionType and own.__code__ == function.__code__ and own.__closure__ is None:
        return own
    made = types.FunctionType(
        function.__code__, namespace, function.__name__, function.__defaults__, function.__closure__
    )
    made.__kwdefaults__ = function.__kwdefaults__
    made.__annotations__ = function.__annotations__
    made.__qualname__, made.__doc__ = function.__qualname__, function.__doc__
    made.__dict__.update(function.__dict__)
    return made
