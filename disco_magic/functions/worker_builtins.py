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
from disco_magic.functions.destinations import are_of_one_dtype, write
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
