"""Disco's own worker functions, registered as ``runtime.disco.*``: they write into destination registers.

Where Disco compares element counts instead of shapes (scatter, gather, allgather into a destination), so do
they: (3, 4, 3) scatters into two registers of (3, 3, 2). The verbs of `WorkerContext` beneath are stricter.

A collective is called by all `n` workers of the group (``in_group``) or of the session, with arrays of one
dtype, any without Python objects. It returns `dst`, or a fresh array if `dst` is None. Errors and costs are
those of the verb beneath; also UsageMistake if a register holds no array, and PlaneMismatch if `dst` has
another element count (nothing is written) or dtype (found after the move: `dst` stays as it is, the other
workers go on). `in_group` may name axes of the mesh instead. `into` says whether the controller gave a
destination, which every worker has to know, even one whose own `dst` is None; if it is None, this worker's
`dst` decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from disco_magic.errors import PlaneMismatch, UsageMistake
from disco_magic.functions import worker_builtins  # noqa: F401 - registers the rest of Disco's functions
from disco_magic.functions.arrays import shared
from disco_magic.functions.context import worker
from disco_magic.functions.copies import copy_of
from disco_magic.functions.participants import Who, who
from disco_magic.functions.places import HOST_PLACE, check_there
from disco_magic.functions.registry import register_func
from disco_magic.functions.returned import as_array_of
from disco_magic.functions.worker_builtins import are_of_one_dtype, check_array, check_count, fill, target_of
from disco_magic.isolation.own_classes import CALLER
from disco_magic.isolation.own_functions import own_definition
from disco_magic.values.tensors import read_out

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disco_magic.core.device import Device

Array = np.ndarray[Any, Any]


class CopyingCall:
    """A call whose operands at `positions` came from the controller: each worker takes its own copies."""

    __slots__ = ("disco_name", "positions")

    def __init__(self, name: str, positions: tuple[int, ...]) -> None:
        self.disco_name = name
        self.positions = positions

    def __call__(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call `function` with copies; for a cell's function, the worker's own version of it.

        Positions count keyword values after positional ones.
        """
        values = [*args, *kwargs.values()]
        for position in self.positions:
            values[position] = copy_of(values[position], CALLER)
        split, own = len(args), own_definition(function, CALLER)
        return own(*values[:split], **dict(zip(kwargs, values[split:], strict=True)))


@register_func("runtime.disco.empty")
def empty(
    shape: Sequence[int],
    dtype: Any = "float32",
    device: str | Device | None = None,
    worker0_only: bool = False,  # noqa: FBT001, FBT002 - Disco's order
    in_group: Who = True,  # noqa: FBT002 - Disco's order
) -> Array | None:
    """Return an uninitialised array that begins at a multiple of 64 bytes, as compiled code wants it.

    With `worker0_only` the first worker of each group gets one (without `in_group` only worker 0), and the
    others None. Raises UsageMistake for a device that the worker does not have.
    """
    place = worker().place
    if device is not None and check_there("empty", device, (place.device,)) == HOST_PLACE.device:
        place = HOST_PLACE
    if worker0_only and _rank(in_group):
        return None
    return place.empty(tuple(shape), dtype)  # type: ignore[no-any-return]  # NumPy's or cupy's


@register_func("runtime.disco.allreduce")
def allreduce(src: Array, op: str, in_group: Who, dst: Array | None = None) -> Any:
    """Reduce `src` element by element: `src`, `dst` and the result have one shape `s`. `dst` may be `src`."""
    return worker().allreduce(src, op, out=dst, **who(in_group))


@register_func("runtime.disco.reduce_scatter")
def reduce_scatter(src: Array, op: str, in_group: Who, dst: Array | None = None, counts: Any = None) -> Any:
    """Reduce `src` of shape `(n * k, *s)`, then split along axis 0: `dst` and the result have `(k, *s)`.

    With `counts`, the first axis is as long as their sum, and `k` is that of the worker's rank.
    """
    return worker().reduce_scatter(src, op, counts=counts, out=dst, **who(in_group))


@register_func("runtime.disco.alltoall")
def alltoall(src: Array, in_group: Who, dst: Array | None = None, counts: Any = None) -> Any:
    """Exchange parts along axis 0: `src`, `dst` and the result have one shape `(n * k, *s)`.

    With `counts`, the lengths of this worker's parts, first axes may differ, also between `src` and `dst`.
    """
    return worker().alltoall(src, counts=counts, out=dst, **who(in_group))


@register_func("runtime.disco.barrier")
def barrier(in_group: Who) -> None:
    """Wait until the group, or all workers, have called it."""
    worker().barrier(**who(in_group))


def connect() -> None:
    """Let the data plane set up what it needs between all workers: NCCL's communicators, in seconds."""
    me = worker()
    me.allreduce(me.xp.zeros(1), in_group=False)


@register_func("runtime.disco.broadcast_from_worker0")
def broadcast_from_worker0(src: Array | None, in_group: Who, dst: Array | None = None) -> Any:
    """Copy the first worker's `src` of shape `s` to all; `dst` has exactly shape `s`."""
    return worker().broadcast(src if _rank(in_group) == 0 else None, out=dst, **who(in_group))


@register_func("runtime.disco.allgather")
def allgather(
    src: Array,
    in_group: Who,
    dst: Array | None = None,
    into: bool | None = None,  # noqa: FBT001 - ours, after Disco's
) -> Any:
    """Concatenate the workers' arrays in rank order, on all of them.

    Without `dst`, shapes `(k_i, *s)` give `(sum(k_i), *s)`. With it, all arrays have one size and fill its
    ``n * src.size`` elements, of any shape, in C order: one more copy of the whole.
    """
    me = worker()
    if not _is_given(dst, into):
        return me.allgather(src, **who(in_group))
    flat = _flat("allgather", src)
    target = _sized_target("allgather", dst, flat.size * _size(in_group))
    return fill("allgather", dst, target, me.allgather(flat, **who(in_group)))


@register_func("runtime.disco.gather_to_worker0")
def gather_to_worker0(
    src: Array,
    in_group: Who,
    dst: Array | None = None,
    into: bool | None = None,  # noqa: FBT001 - ours, after Disco's
) -> Any:
    """Like `allgather`, on the first worker only; the others need no `dst`, and return the one they have."""
    me = worker()
    if not _is_given(dst, into):
        return me.gather(src, **who(in_group))
    flat = _flat("gather_to_worker0", src)
    if _rank(in_group):
        me.gather(flat, **who(in_group))
        return dst
    target = _sized_target("gather_to_worker0", dst, flat.size * _size(in_group))
    joined: Any = me.gather(flat, **who(in_group))
    return fill("gather_to_worker0", dst, target, joined)


@register_func("runtime.disco.scatter_from_worker0")
def scatter_from_worker0(
    src: Array | None,
    in_group: Who,
    dst: Array | None = None,
    into: bool | None = None,  # noqa: FBT001 - ours, after Disco's
) -> Any:
    """Split `src` of the first worker (of each group) evenly; that of the others is ignored.

    Without `dst`, shape `(n, *s)` gives each worker `s`; the shape is broadcast, too. With it, the elements,
    in C order, fill `n` arrays of any shape of ``src.size / n`` elements: one more copy of each part.

    Raises:
        UsageMistake: `src` of the first worker, or `dst` of any worker, is no array.
        PlaneMismatch: `src` does not have `n` parts, or does not fill `dst`.
    """
    me = worker()
    size = _size(in_group)
    given = _is_given(dst, into)
    target = target_of("scatter_from_worker0", dst) if given else None
    flat = None
    if _rank(in_group) == 0:
        check_array("scatter_from_worker0", "first worker's", src)
        whole = shared("scatter_from_worker0", src, me.place) if given else src
        flat = _flat_parts(whole, target, size)
    part = me.scatter(flat, **who(in_group))
    if target is not None:
        return fill("scatter_from_worker0", dst, target, part)
    tail = None if src is None or flat is None else np.array(src.shape[1:], np.int64)
    shape = me.broadcast(tail, **who(in_group))
    return part.reshape(tuple(shape))


def _flat_parts(src: Any, dst: Array | None, size: int) -> Any:
    if dst is not None:
        check_count("scatter_from_worker0", src.size, dst, times=size)
    elif not src.shape or src.shape[0] != size:
        raise PlaneMismatch(
            f"scatter: the array has shape {src.shape}, expected a first axis of length {size}, "
            "one part per worker; reshape it or pass a destination"
        )
    return src.reshape(size, -1)


def _flat(verb: str, src: Any) -> Any:
    """`src`, flattened in C order, as an array that planes carry."""
    array = shared(verb, src, worker().place)
    return array.reshape(-1) if hasattr(array, "reshape") else np.ravel(array)


def _is_given(dst: object, into: bool | None) -> bool:  # noqa: FBT001 - a tri-state, always named here
    return dst is not None if into is None else into


def _sized_target(verb: str, dst: Any, count: int) -> Array:
    """The destination, checked to have `count` elements."""
    target = target_of(verb, dst)
    check_count(verb, count, target)
    return target


def _size(in_group: Who) -> int:
    return len(worker().members(**who(in_group)))


def _rank(in_group: Who) -> int:
    return worker().rank(**who(in_group))


def as_library(array: Array, library: str) -> Any:
    """Convert an array that has no other owner to PyTorch or JAX, on its device, over its memory."""
    if not isinstance(array, np.ndarray):
        worker().place.finish()  # an error on its way could no longer be found in registers
    return as_array_of(library, array)


def copy_array(dst: Array, src: Array) -> None:
    """Copy between a register, on the host or the worker's GPU, and a host array of the same shape and dtype.

    The order of bytes may differ: a GPU has native ones only.

    Raises:
        UsageMistake: shapes or dtypes differ, or one of them is no array; nothing was written.
    """
    place = worker().place
    dst, src = read_out("copy", dst, place), shared("copy", src, place)
    for what, value in (("destination", dst), ("source", src)):
        if not isinstance(value, np.ndarray | place.xp.ndarray):
            library = "NumPy" if place is HOST_PLACE else f"NumPy or {place.xp.__name__}"
            raise UsageMistake(f"copy: the {what} is {type(value).__name__}, expected an array of {library}")
    if dst.shape != src.shape or not are_of_one_dtype(dst, src):
        raise UsageMistake(
            f"copy: the destination is {dst.dtype} {dst.shape}, the source {src.dtype} {src.shape}; "
            "they must be equal"
        )
    place.copy(dst, src)
