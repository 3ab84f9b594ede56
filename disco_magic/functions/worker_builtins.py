"""The rest of Disco's worker functions, ``runtime.disco.*``: who a worker is, and messages between workers.

Names and order of arguments are Disco's. What differs, and why:
  * `worker_id` returns a number; Disco's returns a Shape that holds it, `worker_rank` its number.
  * A destination may be None: the array is returned as a fresh one. With one, element counts are compared,
    not shapes, as everywhere in Disco.
  * A message is received in the command in which it is sent: both ends belong in one function or cell. Disco
    pairs any send with any later receive, and waits forever if one of them is missing.
  * Sending does not wait, so that a worker may send to itself; Disco refuses that.
  * A call without another end (to the next group in the last one, `recv_from_worker0` on worker 0) is an
    error of that worker; Disco ends the process.
`reduce`, `copy_to_worker` and `shift_to_next_group` are what the session's methods are made of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from disco_magic.errors import PlaneMismatch, UsageMistake
from disco_magic.functions.arrays import shared
from disco_magic.functions.context import worker
from disco_magic.functions.participants import Who, who
from disco_magic.functions.registry import register_func
from disco_magic.values.tensors import filled, read_out

if TYPE_CHECKING:
    from collections.abc import Sequence


Array = np.ndarray[Any, Any]


@register_func("runtime.disco.worker_id")
def worker_id() -> int:
    """The calling worker's number among all workers of the session."""
    return worker().id


@register_func("runtime.disco.worker_rank")
def worker_rank() -> int:
    """The same as `worker_id`."""
    return worker().id


@register_func("runtime.disco.world_size")
def world_size() -> int:
    """The number of workers of the session, whatever its groups are."""
    return worker().num_workers


@register_func("runtime.disco.device")
def device() -> Any:
    """The device of the calling worker's arrays."""
    return worker().device


@register_func("runtime.disco.bind_worker_to_cpu_core")
def bind_worker_to_cpu_core(cpu_ids: Sequence[int]) -> None:
    """Bind the calling worker's thread to core ``cpu_ids[its id]``; see `WorkerContext.bind_to_cpu_core`."""
    me = worker()
    if me.id >= len(cpu_ids):
        raise UsageMistake(
            f"bind_worker_to_cpu_core: {len(cpu_ids)} cores do not reach worker {me.id}; "
            f"expected one for each of {me.num_workers} workers"
        )
    me.bind_to_cpu_core(cpu_ids[me.id])


@register_func("runtime.disco.send_to_worker")
def send_to_worker(array: Array, receiver_id: int) -> None:
    """Send a copy of `array` to worker `receiver_id`, for its `recv_from_worker`; do not wait."""
    worker().send(array, receiver_id)


@register_func("runtime.disco.recv_from_worker")
def recv_from_worker(dst: Array | None, sender_id: int) -> Array:
    """Wait for the next array of worker `sender_id` and return it, in `dst` if there is one.

    Raises:
        PlaneMismatch: `dst` has another element count or dtype; nothing was written, the message is used up.
        UsageMistake: nothing can be written to `dst`: it is read-only, or of JAX; the message is used up.
    """
    return _into(dst, worker().recv(sender_id), f"worker {sender_id}")


@register_func("runtime.disco.recv_from_worker0")
def recv_from_worker0(dst: Array | None) -> Array:
    """Like `recv_from_worker`, from worker 0; raises UsageMistake on worker 0 itself."""
    return _into(dst, worker().recv_from_worker0(), "worker 0")


@register_func("runtime.disco.send_to_next_group")
def send_to_next_group(array: Array) -> None:
    """Send a copy of `array` to the worker of the same rank in the next group; do not wait."""
    worker().send_to_next_group(array)


@register_func("runtime.disco.recv_from_prev_group")
def recv_from_prev_group(dst: Array | None) -> Array:
    """Like `recv_from_worker`, from the worker of the same rank in the previous group."""
    me = worker()
    return _into(dst, me.recv_from_prev_group(), f"worker {me.id - me.group_size}")


def _into(dst: Array | None, values: Array, sender: str) -> Array:
    if dst is None:
        return values
    place = worker().place
    source = shared("recv", values, place)
    target = read_out("recv", dst, place) if hasattr(dst, "shape") else None
    if target is None or target.size != source.size or not are_of_one_dtype(target, source):
        here = type(dst).__name__ if target is None else f"{target.dtype} {target.shape}"
        raise PlaneMismatch(
            f"worker {worker().id} received {source.dtype} {source.shape} from {sender}, but the destination "
            f"is {here}; expected an array of that dtype and as many elements"
        )
    write("recv", target, source)
    if target is not dst or source is not values:
        place.settle()  # from now on their libraries may read or free them, on streams of their own
    filled(dst)
    return dst


# --- both ends in one command: what a controller can ask for -----------------------------------------


@register_func("runtime.disco.reduce")
def reduce(src: Array, op: str, root: int, in_group: Who, dst: Array | None = None) -> Any:
    """Like `allreduce`, for rank `root` only; the others return their `dst`, or None."""
    reduced = worker().reduce(src, op, root, out=dst, **who(in_group))
    return dst if reduced is None else reduced


@register_func("runtime.disco.copy_to_worker")
def copy_to_worker(src: Array, dst: Array | None, sender_id: int, receiver_id: int) -> Array | None:
    """Copy worker `sender_id`'s `src` to worker `receiver_id`; the others return their `dst`, or None."""
    me = worker()
    if me.id == sender_id:
        me.send(src, receiver_id)
    return recv_from_worker(dst, sender_id) if me.id == receiver_id else dst


@register_func("runtime.disco.shift_to_next_group")
def shift_to_next_group(src: Array, dst: Array | None) -> Array | None:
    """Copy every group's `src` to the next group; the first group returns its `dst`, or None."""
    me = worker()
    if me.group + 1 < me.num_groups:
        me.send_to_next_group(src)
    return recv_from_prev_group(dst) if me.group else dst


# --- destinations: read, checked and filled; copying converts the order of bytes ----------------------


def target_of(verb: str, dst: Any) -> Array:
    """The destination, as an array over its memory.

    Raises:
        UsageMistake: it is no array, or one that cannot be written to.
    """
    check_array(verb, "destination's", dst)
    return read_out(verb, dst, worker().place)  # type: ignore[no-any-return]  # or one that looks like NumPy's


def check_array(verb: str, whose: str, value: Any) -> None:
    """Raise UsageMistake if a register holds no array."""
    if not hasattr(value, "shape"):
        what = "None" if value is None else type(value).__name__
        raise UsageMistake(f"{verb}: the {whose} register holds {what}, expected an array")


def check_count(verb: str, count: int, dst: Array, *, times: int = 1) -> None:
    """Raise PlaneMismatch if `count` elements do not fill `dst` on each of `times` workers."""
    if count != dst.size * times:
        raise PlaneMismatch(
            f"{verb}: {count} elements do not fill a destination of shape {dst.shape}"
            + (f" on each of {times} workers" if times > 1 else "")
        )


def fill(verb: str, dst: Any, target: Array, values: Array) -> Any:
    """Copy `values` into `target`, which is the caller's `dst` as an array, in C order; return `dst`.

    Raises:
        PlaneMismatch: element counts or dtypes differ.
        UsageMistake: `target` is read-only.
    """
    check_count(verb, values.size, target)  # the others' arrays may have another size than this worker's
    if not are_of_one_dtype(target, values):
        raise PlaneMismatch(f"{verb}: the destination has dtype {target.dtype}, the source {values.dtype}")
    write(verb, target, values)
    if target is not dst:  # from now on its library may read it, on a stream of its own
        worker().place.settle()
    return filled(dst)


def write(verb: str, target: Array, values: Array) -> None:
    """Copy `values` into `target`, which takes as many elements of that dtype."""
    if not getattr(target.flags, "writeable", True):  # cupy has no read-only arrays
        raise UsageMistake(f"{verb}: the destination is read-only; pass a writeable array, or none")
    worker().place.copy(target, values.reshape(target.shape))


def are_of_one_dtype(dst: Array, values: Array) -> bool:
    """Whether elements can be copied as they are, apart from the order of their bytes."""
    return bool(dst.dtype.newbyteorder("=") == values.dtype.newbyteorder("="))
