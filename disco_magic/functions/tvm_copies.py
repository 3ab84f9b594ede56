"""Copies of TVM's objects, which `copy.deepcopy` must not make: using such a copy ends the process.

With tvm_ffi 0.1 that is so for tensors and for nodes of TVM's intermediate representation. `copy` and
`pickle` are taught to copy tensors, wherever they are; nodes, which are immutable, and functions are shared.
"""

from __future__ import annotations

import copyreg
import sys
from collections import deque
from typing import Any

import numpy as np

from disco_magic.errors import UsageMistake
from disco_magic.functions.aligned import aligned_empty
from disco_magic.phrases import words
from disco_magic.values.tensors import lent

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
