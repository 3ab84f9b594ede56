"""The arrays that callers of Disco's worker functions pass for results: read, checked and filled.

Element counts are compared, not shapes, as everywhere in Disco. Copying converts the order of bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from disco_magic.errors import PlaneMismatch, UsageMistake
from disco_magic.functions.context import worker
from disco_magic.values.tensors import filled, read_out

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.generic]


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
    return dst.dtype.newbyteorder("=") == values.dtype.newbyteorder("=")
