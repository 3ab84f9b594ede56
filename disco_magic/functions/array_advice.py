"""What to pass to a collective instead of what is no array of numbers."""

from __future__ import annotations

from collections.abc import Mapping
from types import BuiltinFunctionType, FunctionType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from disco_magic.values.content import kinds_of
from disco_magic.values.kinds import home_of, is_gpu_array, is_of_framework

if TYPE_CHECKING:
    from collections.abc import Sequence

ARRAYS: Final = "an array, a number or a regular list of numbers"
# Alternatives for several arrays at once, in cells and functions.
_ALL_AT_ONCE: Final = {
    "allreduce": "in cells allreduce_tree(x) reduces every array in it; or ",
    "broadcast": "in cells broadcast_object(x) takes any object; or ",
    **dict.fromkeys(("allgather", "gather"), "in cells allgather_objects(x) takes any object; or "),
    "scatter": "in cells broadcast_object(x)[worker_id] takes a list of any objects; or ",
    "send": "in cells send_object(x, to) takes any object; or ",
}
_DIVIDED: Final = ("alltoall", "reduce_scatter", "scatter")
_JOINS: Final = {"torch": "torch.cat(x)", "jax": "jnp.concatenate(x)"}


def advice(kind: str, x: Any) -> str:
    """Say what to pass to a collective instead of `x`, which is no array of numbers."""
    whole = _ALL_AT_ONCE.get(kind, "")
    if isinstance(x, Mapping):
        if kind == "send":
            return f"{whole}send one value after the other, in an order that the receiver knows"
        one = f"{{key: {kind}(x[key]) for key in sorted(x)}}"
        return f"{whole}make one call per value, in one order on all: {one}"
    if type(x) in (list, tuple):
        kinds = kinds_of(x)
        if any(is_of_framework(each) or issubclass(each, np.ndarray) for each in kinds):
            return whole + _instead_of_a_list(kind, kinds)
        if any(map(is_gpu_array, kinds)):
            return "xp.stack([...]) makes one array of several on a GPU"
    if kind == "reduce" and isinstance(x, FunctionType | BuiltinFunctionType):
        return "in cells this is a collective; Python's own reduce is functools.reduce"
    return f"{'' if kind == 'allreduce' else whole}pass {ARRAYS}"


def _instead_of_a_list(kind: str, kinds: Sequence[type]) -> str:
    if kind in _DIVIDED:  # a list of parts is what other libraries take there
        joins = {_JOINS.get(home_of(each), "np.concatenate(x)") for each in kinds}
        joined = f"{kind}({joins.pop()}, counts=[len(each) for each in x])"
        return f"pass one array with a part for each rank: {joined}"
    return f"make one call per array, [{kind}(each) for each in x], or stack those of one shape first"
