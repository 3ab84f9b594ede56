"""Whether a result, or a message, can be written to the `out` that its receiver passes."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Final

from disco_magic.core.seat import PICKLE
from disco_magic.planes.calls import describe_array
from disco_magic.planes.layout import Expected

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from disco_magic.core.seat import Theirs
    from disco_magic.planes.mail import Message
    from disco_magic.planes.memory import Memory


_COMES: Final = {"recv": "what was sent"}


def check_message_fits(
    message: Message, worker: int, out: NDArray[Any], memory: Memory, theirs: Theirs | None = None
) -> str | None:
    """A sentence if `message` cannot be written to the `out` of its receiver `worker`, else None."""
    sender, own = message.call.worker, message.call.memory
    if message.call.seat.library == PICKLE:
        return f"recv: out of worker {worker} is an array, but worker {sender} sent an object - pass no out"
    if own is not memory:
        return (
            f"recv: out of worker {worker} is on {memory.name}, what worker {sender} sent on {own.name}"
            " - pass an array that is there, or no out"
        )
    expected = Expected(message.array.shape, message.array.dtype)
    named, sent = f"out of worker {worker}", message.sent.shape
    return check_out_fits("recv", named, out, expected, memory, theirs, sent)


def check_out_fits(  # noqa: PLR0917 - what is compared, and the words for it
    kind: str,
    named: str,
    out: NDArray[Any],
    expected: Expected,
    memory: Memory,
    theirs: Theirs | None = None,
    sent: tuple[int, ...] | None = None,
) -> str | None:
    """A sentence if the `expected` result cannot be written to `out`, of any byte order, else None.

    `named` is the name of `out` in the sentence; `theirs` and the shape that was `sent` are what PyTorch's
    user knows.
    """
    shape, dtype = expected
    own = out.dtype if out.dtype.isnative else out.dtype.newbyteorder("=")
    if theirs is not None:
        kind = theirs.verb
        named = named.replace("out", "the output") if sent is None else "the tensor to receive into"
    if out.shape != shape or own != dtype:
        if theirs is not None:
            return _unlike(f"{kind}: {named}", theirs, Expected(out.shape, own), expected, sent)
        return (
            f"{kind}: {named} is {describe_array(out)}, {_COMES.get(kind, 'the result')} is {dtype} {shape}"
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


def _unlike(
    begun: str, theirs: Theirs, own: Expected, expected: Expected, sent: tuple[int, ...] | None
) -> str:
    """How what comes differs from a tensor of PyTorch's that is to be filled, whatever its shape is."""
    size, came = prod(own.shape), prod(expected.shape)
    if size == came:
        return f"{begun} is {own.dtype}, what comes is {expected.dtype} - pass one of that dtype"
    if theirs.objects:
        return (
            f"{theirs.verb}: the list has {size} places, and {came} objects were sent - pass one of as many"
        )
    comes = f"{came} come" if sent is None else f"{came} {sent} were sent"
    given = own.shape if theirs.out is None else theirs.out
    return f"{begun} has {size} elements {given}, and {comes} - pass one of as many elements"


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
