"""Whether a result, or a message, can be written to the `out` that its receiver passes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from disco_magic.core.seat import PICKLE
from disco_magic.planes.calls import describe_array
from disco_magic.planes.layout import Expected

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from disco_magic.planes.mail import Message
    from disco_magic.planes.memory import Memory


def check_message_fits(message: Message, worker: int, out: NDArray[Any], memory: Memory) -> str | None:
    """A sentence if `message` cannot be written to the `out` of its receiver `worker`, else None."""
    sender, own = message.call.worker, message.call.memory
    if message.call.seat.library == PICKLE:
        return f"recv: out of worker {worker} is an array, but worker {sender} sent an object - pass no out"
    if own is not memory:
        return (
            f"recv: out of worker {worker} is on {memory.name}, what worker {sender} sent on {own.name}"
            " - pass an array that is there, or no out"
        )
    array = message.array
    return check_out_fits("recv", f"out of worker {worker}", out, Expected(array.shape, array.dtype), memory)


def check_out_fits(
    kind: str, named: str, out: NDArray[Any], expected: Expected, memory: Memory
) -> str | None:
    """A sentence if the `expected` result cannot be written to `out`, of any byte order, else None.

    `named` is the name of `out` in the sentence.
    """
    shape, dtype = expected
    own = out.dtype if out.dtype.isnative else out.dtype.newbyteorder("=")
    if out.shape != shape or own != dtype:
        return (
            f"{kind}: {named} is {describe_array(out)}, the result is {dtype} {shape}"
            f" - pass {memory.library}.empty({shape}, {str(dtype)!r}), or no out"
        )
    if not memory.is_writeable(out):
        return f"{kind}: {named} is read-only - pass a writeable array, or no out"
    if _overlaps_itself(out):
        return (
            f"{kind}: elements of {named} share memory with each other (strides {out.strides})"
            f" - pass an array of its own, or no out"
        )
    return None


def _overlaps_itself(array: NDArray[Any]) -> bool:
    """Whether elements may share memory, as in the result of `broadcast_to`."""
    if not array.size:
        return False
    reach = array.itemsize  # bytes spanned by all axes with smaller strides together
    for stride, length in sorted(zip(map(abs, array.strides), array.shape, strict=True)):
        if length > 1 and stride < reach:
            return True
        reach += stride * (length - 1)
    return False
