"""Copies of values that cross between controller and worker: no object is ever shared by accident.

`copy.deepcopy` must not copy TVM's objects: using such a copy ends the process. With tvm_ffi 0.1 that is so
for tensors and for nodes of TVM's intermediate representation. `copy` and `pickle` are taught to copy
tensors, wherever they are; nodes, which are immutable, and functions are shared.
"""

from __future__ import annotations

import copy
import copyreg
import sys
import types
from collections import deque
from typing import Any

import numpy as np

from disco_magic.errors import UsageMistake
from disco_magic.functions.aligned import aligned_empty, new_copy
from disco_magic.functions.cell_copies import ATOMS, copy_cells
from disco_magic.isolation.own_classes import (
    NOBODY,
    Receiver,
    all_inside,
    hand_over,
    refuse,
    stand_ins,
    successors_in,
)
from disco_magic.isolation.own_functions import own_classes_inside, own_definition, own_definitions
from disco_magic.phrases import words
from disco_magic.values.kinds import LAZY_IMPORT, is_gpu_array
from disco_magic.values.tensors import elements_of_computed, lent

_SHARED = (np.generic, np.dtype, type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)


def is_shared(value: Any) -> bool:
    """Whether the object itself may be handed to all: it cannot be changed, or is meant to be shared by all.

    Looks only at types, so that no code of the value's class or its metaclass runs.
    """
    kind = type(value)
    if kind is tuple:  # a shape, for instance
        return all(type(type(each)) is type and type(each) in ATOMS for each in value)
    if type(kind) is type and kind in ATOMS:
        return True
    if kind is types.BuiltinFunctionType:
        return _is_of_nothing(value)
    return issubclass(kind, _SHARED) and not issubclass(kind, np.void)  # a void's fields can be set


def _is_of_nothing(function: types.BuiltinFunctionType) -> bool:
    """Whether it is a function of C, and no method bound to an object, such as ``[].append``."""
    return function.__self__ is None or isinstance(function.__self__, types.ModuleType | type)


def copy_of(value: Any, receiver: Receiver = NOBODY) -> Any:
    """Return an independent copy of `value`.

    Numbers, strings, bytes, dtypes, functions, classes and modules are returned as they are. Arrays are
    copied with the GIL released (memory speed); containers and other objects by `copy.deepcopy`
    (microseconds per element). Arrays of cupy, also in containers, have been copied when this returns: the
    copy may be read on any stream, and the original be dropped. Lists and other objects in the cells and
    labels of a table are copied, too, attributes of arrays of derived classes, and tensors of TVM; of a
    tensor with a history (`grad_fn`), the elements.
    Objects of classes that cells define become objects of `receiver`'s classes of the same names; functions
    and classes of cells become its own if it is a worker. Of a lazy import, what it imports is copied.
    """
    kind = type(value)
    if is_shared(value):
        return value if kind in ATOMS else own_definition(value, receiver)
    if kind is np.ndarray and not value.dtype.hasobject:
        return new_copy(value)
    if kind is LAZY_IMPORT:  # code that reads the name would import it
        return copy_of(value.resolve(), receiver)
    if kind is types.BuiltinFunctionType:  # `deepcopy` would return it, bound to the original
        return getattr(copy_of(value.__self__, receiver), value.__name__)
    try:
        copied, memo = _deep_copy(value, {})
        inside = tuple(all_inside(copied, memo)) if receiver.strict else ()
        successors = successors_in(copied, memo, receiver, inside)
        definitions = own_definitions(inside, receiver)
        if successors and not receiver.strict:
            definitions = own_classes_inside(all_inside(copied, memo), receiver)
        if successors:
            copied, memo = _converted(value, memo, successors, definitions, receiver) or (copied, memo)
        elif definitions:
            copied, memo = _deep_copy(value, definitions)
        _await_copies(memo)
        copied = own_definition(copied, receiver)  # `deepcopy` leaves a method its original function
    except UsageMistake:
        raise
    except Exception as reason:  # whatever a user's __deepcopy__ or __reduce__ raises means the same here
        raise _refusal(kind, reason) from reason
    return copied


def _refusal(kind: type, reason: Exception) -> UsageMistake:
    instead = "copy the arrays or plain data inside it instead"
    if kind is types.CoroutineType:
        instead = "`await` the call in a cell, which gives its result"
    return UsageMistake(
        f"a value of type {kind.__name__} cannot be copied between controller and worker: "
        f"{words(reason)}; {instead}"
    )


def _deep_copy(value: Any, known: dict[int, Any]) -> tuple[Any, dict[int, Any]]:
    """Return a copy, and the memo of what was copied; `known` holds what counts as copied, by `id`."""
    taken = {**shared_in(value), **_arrays_of(value), **known}
    memo = dict(taken)
    try:
        copied = copy.deepcopy(value, memo)
    except RuntimeError:  # PyTorch copies no tensor that was computed from one that requires grad
        elements = elements_of_computed(value)
        if not elements:
            raise
        memo = {**taken, **elements}
        copied = copy.deepcopy(value, memo)
    copy_cells(memo)
    return copied, memo


def _arrays_of(value: Any) -> dict[int, Any]:
    """Copies, by `id`, of the arrays directly in a tuple: each is copied as it would be by itself."""
    if type(value) is not tuple:
        return {}
    return {
        id(each): new_copy(each) for each in value if type(each) is np.ndarray and not each.dtype.hasobject
    }


def _converted(
    value: Any,
    former: dict[int, Any],
    successors: dict[type, type],
    definitions: dict[int, Any],
    receiver: Receiver,
) -> tuple[Any, dict[int, Any]] | None:
    """Like `_deep_copy`, with objects of the receiver's classes; None if that fails and is not required."""
    try:
        copied, memo = _deep_copy(value, definitions | stand_ins(successors))
        hand_over(copied, memo, successors, former)
    except Exception as reason:  # noqa: BLE001 - whatever a class says to the other's state, they do not fit
        if receiver.strict:
            refuse(successors, reason)
        return None
    return copied, memo


def _await_copies(memo: dict[int, Any]) -> None:
    """Wait until arrays of cupy are copied: copies are only queued, on the calling thread's streams."""
    made = {array.device.id: array for array in memo.values() if is_gpu_array(type(array)) and array.size}
    for array in made.values():
        # Fetching an element waits for the thread's stream on that GPU, and needs no module of cupy's.
        array[(slice(0, 1),) * array.ndim].get()


_SEQUENCES = (list, tuple, set, frozenset, deque)


def shared_in(value: Any) -> dict[int, Any]:
    """What `copy.deepcopy` must take for copied, by `id`: TVM's nodes and functions in `value`, as they are.

    They are looked for in lists, tuples, sets and dicts, not in the fields of other objects. Empty if TVM is
    not imported. Cost: 0.3 us per element.
    """
    core = getattr(sys.modules.get("tvm_ffi"), "core", None)
    shared: dict[int, Any] = {}
    if core is None:
        return shared
    _teach(core.Tensor)
    seen: set[int] = set()
    rest = [value]
    while rest:
        each = rest.pop()
        if id(each) in seen:
            continue
        if isinstance(each, (core.Object, core.Function)):
            if not hasattr(type(each), "__deepcopy__"):
                shared[id(each)] = each
        elif isinstance(each, _SEQUENCES):
            seen.add(id(each))
            rest.extend(each)
        elif isinstance(each, dict):
            seen.add(id(each))
            rest.extend(each.keys())
            rest.extend(each.values())
    return shared


def _teach(tensor: type) -> None:
    """Teach `copy` and `pickle` about TVM's tensors, including those of ``tvm.runtime`` once imported."""
    for kind in (tensor, *tensor.__subclasses__()):
        if kind not in copyreg.dispatch_table:
            copyreg.pickle(kind, _taken_apart)


def _taken_apart(tensor: Any) -> tuple[Any, ...]:
    try:
        return _made_anew, (lent(tensor),)
    except (RuntimeError, BufferError) as reason:
        raise UsageMistake(
            f"a tensor of TVM of dtype {tensor.dtype} on {tensor.device} cannot be copied between controller "
            f"and worker: {words(reason)}; pass an array of NumPy"
        ) from reason


def _made_anew(array: np.ndarray[Any, Any]) -> Any:
    import tvm_ffi  # type: ignore[import-not-found, import-untyped, unused-ignore]

    fresh = aligned_empty(array.shape, array.dtype)
    np.copyto(fresh, array)
    return tvm_ffi.from_dlpack(fresh)
