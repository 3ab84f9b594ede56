"""The memory in which a call's arrays are: the host's is here, that of GPUs in `device_memory`.

What a plane does with arrays is written once, in `arguments`, `checks`, `plans`; a `Memory` does what depends
on where the arrays are. Arrays of both kinds have NumPy's attributes `shape`, `dtype`, `flags`, `nbytes`, and
slices that are views.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from disco_magic.errors import UsageMistake
from disco_magic.functions.aligned import new_array, new_copy
from disco_magic.functions.array_advice import advice
from disco_magic.functions.arrays import beyond_64_bits, read_array
from disco_magic.planes.blocks import Mover
from disco_magic.values.kinds import is_gpu_array

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disco_magic.planes.blocks import Fold
    from disco_magic.planes.calls import Call
    from disco_magic.planes.layout import Expected
    from disco_magic.planes.mail import Message
    from disco_magic.planes.reductions import Reduction


# Interleaved views (columns of one matrix) are fine, and so much work finds them to be apart. Arrays for
# which it gives no answer are taken to be apart, too. Any: NumPy's stubs know the type only since 2.5.
_WORK: Final[Any] = 1000


class Memory(Protocol):
    """What planes need to do with arrays in one kind of memory.

    Attributes:
        name: its name in errors.
        library: the name under which users import the module of its arrays.
        shared: whether members move parts of large arrays at the same time, each in its own thread.
    """

    name: str
    library: str
    shared: bool

    def read(self, kind: str, worker: int, x: Any) -> tuple[Any, bool]:
        """`x` as a C-contiguous array of native byte order, and whether it was a bare number.

        An array that already is one is returned itself; everything else is copied once.

        Raises:
            UsageMistake: `x` is no array that the worker may pass.
        """

    def check_out(self, kind: str, worker: int, out: Any) -> Any:
        """Return `out`, or raise UsageMistake if it is no array that the worker may pass."""

    def check_reduction(self, kind: str, op: str, dtype: np.dtype[Any]) -> None:
        """Raise UsageMistake if arrays of `dtype` cannot be reduced in this memory."""

    def empty(self, call: Call, expected: Expected) -> Any:
        """A new array for the result of `call`."""

    def overlap(self, a: Any, b: Any) -> bool:
        """Whether two arrays may share memory, by their bounds."""

    def share(self, a: Any, b: Any) -> bool:
        """Whether two arrays have an element in common, as far as that can be found out quickly."""

    def are_apart(self, arrays: Sequence[Any]) -> bool:
        """Whether it is obvious that no two arrays share memory; if False, compare them pair by pair."""

    def address(self, array: Any) -> int:
        """The first element's address."""

    def is_writeable(self, array: Any) -> bool:
        """Whether results may be written to `array`."""

    def move(self, folds: Sequence[Fold], reduction: Reduction | None, calls: Sequence[Call]) -> None:
        """Carry out `folds`; called by the last member to arrive, while the others wait."""

    def copy(self, target: Any, source: Any) -> None:
        """Copy between arrays of the calling worker."""

    def parcel(self, worker: int, array: Any, x: Any) -> tuple[Any, Any]:
        """A copy to send of `array`, which `worker` gave as `x`, and a token that `unpack` needs."""

    def unpack(self, worker: int, message: Message) -> Any:
        """The sent array, as one that the receiver owns."""


class HostMemory:
    """NumPy's arrays."""

    name = "cpu"
    library = "np"
    shared = True

    def read(self, kind: str, worker: int, x: Any) -> tuple[Any, bool]:  # noqa: ARG002 - all workers have the same memory
        """See `Memory.read`."""
        array = x if type(x) is np.ndarray else read_array(kind, x)
        dtype = array.dtype
        if dtype.hasobject:
            if too_large := beyond_64_bits(kind, x):
                raise UsageMistake(f"{kind}: {too_large}")
            held = f"NumPy can only hold this {type(x).__name__} as objects, which no data plane carries"
            if x is None or isinstance(x, np.ndarray):
                what = "None" if x is None else f"an array of dtype {dtype}"
                held = f"{what} is not an array of numbers"
            raise UsageMistake(f"{kind}: {held} - {advice(kind, x)}")
        if not dtype.isnative:
            array = array.astype(dtype.newbyteorder("="))
        if not array.flags.c_contiguous:
            array = array.copy(order="C")
        return array, array is not x and isinstance(x, (bool, int, float, complex, str, bytes, np.generic))

    def check_out(self, kind: str, worker: int, out: Any) -> Any:  # noqa: ARG002 - as above
        """See `Memory.check_out`."""
        if type(out) is np.ndarray:
            return out
        if isinstance(out, np.ndarray) and not isinstance(out, np.ma.MaskedArray):
            return out
        what = "a cupy array" if is_gpu_array(type(out)) else type(out).__name__
        raise UsageMistake(f"{kind}: out must be a NumPy array, got {what}")

    def check_reduction(self, kind: str, op: str, dtype: np.dtype[Any]) -> None:
        """Accept all: every dtype with a `Reduction` can be reduced here."""

    def empty(self, call: Call, expected: Expected) -> Any:  # noqa: ARG002 - as above
        """Map memory without touching it: the thread that writes a page first faults it in."""
        return new_array(expected.shape, expected.dtype)

    def overlap(self, a: Any, b: Any) -> bool:
        """See `Memory.overlap`."""
        return np.may_share_memory(a, b)

    def share(self, a: Any, b: Any) -> bool:
        """See `Memory.share`."""
        if not np.may_share_memory(a, b):
            return False
        try:
            return bool(np.shares_memory(a, b, max_work=_WORK))
        except np.exceptions.TooHardError:
            return False

    def are_apart(self, arrays: Sequence[Any]) -> bool:
        """Whether each array has its own memory; costs a third of comparing two arrays."""
        owners = {id(array) for array in arrays if array.flags.owndata}
        return len(owners) == len(arrays)

    def address(self, array: Any) -> int:
        """See `Memory.address`."""
        address: int = array.__array_interface__["data"][0]
        return address

    def is_writeable(self, array: Any) -> bool:
        """See `Memory.is_writeable`."""
        return bool(array.flags.writeable)

    def move(self, folds: Sequence[Fold], reduction: Reduction | None, calls: Sequence[Call]) -> None:  # noqa: ARG002 - as above
        """Carry out `folds` on the calling thread."""
        mover = Mover(reduction)
        for whole in folds:
            mover.move(whole)

    def copy(self, target: Any, source: Any) -> None:
        """See `Memory.copy`."""
        np.copyto(target, source)

    def parcel(self, worker: int, array: Any, x: Any) -> tuple[Any, Any]:  # noqa: ARG002 - as above
        """See `Memory.parcel`."""
        # Empty arrays share no memory, not even one with itself.
        copied = array is not x and isinstance(x, np.ndarray) and not np.may_share_memory(array, x)
        return array if copied else new_copy(array), None

    def unpack(self, worker: int, message: Message) -> Any:  # noqa: ARG002 - as above
        """The sender's copy becomes the receiver's own."""
        return message.array[()] if message.scalar else message.array


HOST: Final = HostMemory()
