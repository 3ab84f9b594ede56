"""Disco's own worker functions, registered as ``runtime.disco.*``: destination passing, on registers.

They compare element counts, not shapes, where Disco does (scatter, gather, allgather into a destination):
(3, 4, 3) scatters into two registers of (3, 3, 2). The verbs of `WorkerContext` beneath are stricter.

Collectives are called by all `n` workers of the group (``in_group``) or the session, with arrays of any dtype
without Python objects, the same on all. They return `dst`, or a fresh array if it is None. Errors and costs
are those of the verb beneath; PlaneMismatch also if `dst` has another element count (nothing is written) or
dtype (found out after the move: it stays as it is, the other workers go on).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from disco_magic.errors import PlaneMismatch, UsageMistake
from disco_magic.functions import worker_builtins  # noqa: F401 - registers the rest of Disco's functions
from disco_magic.functions.aligned import aligned_empty
from disco_magic.functions.context import worker
from disco_magic.functions.copies import copy_of
from disco_magic.functions.registry import register_func

Array = np.ndarray[Any, Any]


class CopyingCall:
    """A call whose operands at `positions` came from the controller: every worker takes copies of its own."""

    __slots__ = ("disco_name", "positions")

    def __init__(self, name: str, positions: tuple[int, ...]) -> None:
        self.disco_name = name
        self.positions = positions

    def __call__(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call `function` with copies; positions count keyword values after positional ones."""
        values = [*args, *kwargs.values()]
        for position in self.positions:
            values[position] = copy_of(values[position])
        split = len(args)
        return function(*values[:split], **dict(zip(kwargs, values[split:], strict=True)))


@register_func("runtime.disco.empty")
def empty(dtype: np.dtype[Any], who: str, *shape: int) -> Array | None:
    """Uninitialised array that begins at a multiple of 64 bytes, as compiled code wants it.

    `who` gets one: ``all``, ``group`` (the first worker of each group) or ``first``.
    """
    me = worker()
    if (who == "group" and me.group_rank) or (who == "first" and me.id):
        return None
    return aligned_empty(shape, dtype)


@register_func("runtime.disco.allreduce")
def allreduce(src: Array, dst: Array | None, op: str, in_group: bool) -> Any:  # noqa: FBT001 - Disco's order
    """Reduce `src` element by element: `src`, `dst` and the result have one shape `s`. `dst` may be `src`."""
    return worker().allreduce(src, op, out=dst, in_group=in_group)


@register_func("runtime.disco.reduce_scatter")
def reduce_scatter(src: Array, dst: Array | None, op: str, in_group: bool) -> Any:  # noqa: FBT001 - Disco's order
    """Reduce `src` of shape `(n * k, *s)`, then split along axis 0: `dst` and the result have `(k, *s)`."""
    return worker().reduce_scatter(src, op, out=dst, in_group=in_group)


@register_func("runtime.disco.alltoall")
def alltoall(src: Array, dst: Array | None, in_group: bool) -> Any:  # noqa: FBT001 - Disco's order
    """Exchange parts along axis 0: `src`, `dst` and the result have one shape `(n * k, *s)`."""
    return worker().alltoall(src, out=dst, in_group=in_group)


@register_func("runtime.disco.barrier")
def barrier(in_group: bool) -> None:  # noqa: FBT001 - Disco's order
    """Return when the group, or all workers, have called it."""
    worker().barrier(in_group=in_group)


@register_func("runtime.disco.broadcast_from_worker0")
def broadcast_from_worker0(src: Array | None, dst: Array | None, in_group: bool) -> Any:  # noqa: FBT001 - Disco's order
    """Copy the first worker's `src` of shape `s` to all; `dst` has exactly shape `s`."""
    return worker().broadcast(src if _rank(in_group=in_group) == 0 else None, out=dst, in_group=in_group)


@register_func("runtime.disco.allgather")
def allgather(src: Array, dst: Array | None, in_group: bool) -> Any:  # noqa: FBT001 - Disco's order
    """Join the workers' arrays everywhere, in rank order.

    Without `dst` shapes `(k_i, *s)` give `(sum(k_i), *s)`. With it all have one size and fill
    ``n * src.size`` elements of any shape in C order, which costs one more copy of the whole.
    """
    me = worker()
    if dst is None:
        return me.allgather(src, in_group=in_group)
    _same_count("allgather", np.size(src) * _size(in_group=in_group), dst)
    return _into(dst, me.allgather(np.ravel(src), in_group=in_group))


@register_func("runtime.disco.gather_to_worker0")
def gather_to_worker0(src: Array, dst: Array | None, in_group: bool) -> Any:  # noqa: FBT001 - Disco's order
    """As `allgather`, on the first worker only; the others return their `dst`, or None."""
    me = worker()
    if dst is None:
        return me.gather(src, in_group=in_group)
    if _rank(in_group=in_group) == 0:
        _same_count("gather_to_worker0", np.size(src) * _size(in_group=in_group), dst)
    joined = me.gather(np.ravel(src), in_group=in_group)
    return dst if joined is None else _into(dst, joined)


@register_func("runtime.disco.scatter_from_worker0")
def scatter_from_worker0(src: Array | None, dst: Array | None, in_group: bool) -> Any:  # noqa: FBT001 - Disco's order
    """Split `src` of the first worker (of each group) evenly; that of the others is not looked at.

    Without `dst` shape `(n, *s)` gives each worker `s`, which is broadcast besides. With it the elements, in
    C order, fill `n` arrays of any shape of ``src.size / n`` elements, one more copy of each part.

    Raises:
        UsageMistake: `src` of the first worker is None.
        PlaneMismatch: `src` has not `n` parts, or does not fill `dst`.
    """
    me = worker()
    size = _size(in_group=in_group)
    flat = None
    if _rank(in_group=in_group) == 0:
        flat = _flat_parts(src, dst, size)
    part = me.scatter(flat, in_group=in_group)
    if dst is not None:
        return _into(dst, part)
    tail = None if src is None or flat is None else np.array(src.shape[1:], np.int64)
    shape = me.broadcast(tail, in_group=in_group)
    return part.reshape(tuple(shape))


def _flat_parts(src: Array | None, dst: Array | None, size: int) -> Array:
    if src is None:
        raise UsageMistake("scatter: the first worker's register holds None, expected an array")
    if dst is not None:
        _same_count("scatter_from_worker0", np.size(src), dst, times=size)
    elif np.ndim(src) == 0 or src.shape[0] != size:
        raise PlaneMismatch(
            f"scatter: the array has shape {np.shape(src)}, expected a first axis of length {size}, "
            "one part per worker; reshape it or pass a destination"
        )
    return np.ascontiguousarray(src).reshape(size, -1)


def _same_count(verb: str, count: int, dst: Array, *, times: int = 1) -> None:
    if count != dst.size * times:
        raise PlaneMismatch(
            f"{verb}: {count} elements do not fill a destination of shape {dst.shape}"
            + (f" on each of {times} workers" if times > 1 else "")
        )


def _into(dst: Array, values: Array) -> Array:
    if dst.dtype != values.dtype:
        raise PlaneMismatch(f"the destination has dtype {dst.dtype}, the source {values.dtype}")
    np.copyto(dst, values.reshape(dst.shape))
    return dst


def _size(*, in_group: bool) -> int:
    me = worker()
    return me.group_size if in_group else me.num_workers


def _rank(*, in_group: bool) -> int:
    me = worker()
    return me.group_rank if in_group else me.id


def copy_array(dst: Array, src: Array) -> None:
    """Copy between a register and a host array of the same shape and dtype, without a detour.

    Raises:
        UsageMistake: shape or dtype differ, or one of them is no array; nothing was written.
    """
    for what, value in (("destination", dst), ("source", src)):
        if not isinstance(value, np.ndarray):
            raise UsageMistake(f"copy: the {what} is {type(value).__name__}, expected a NumPy array")
    if dst.shape != src.shape or dst.dtype != src.dtype:
        raise UsageMistake(
            f"copy: the destination is {dst.dtype} {dst.shape}, the source {src.dtype} {src.shape}; "
            "they must be equal"
        )
    np.copyto(dst, src)
