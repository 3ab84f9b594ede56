"""Where a GPU can read and write elements: only at multiples of their size, or of their parts'."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from disco_magic.errors import UsageMistake

if TYPE_CHECKING:
    import numpy as np


def _alignment(dtype: np.dtype[Any]) -> int:
    """Of which multiples a GPU reads and writes elements; both parts of a complex number are read at once."""
    return dtype.itemsize if dtype.kind == "c" else dtype.alignment


def lies_oddly(array: Any) -> bool:
    """Whether some elements are not aligned as a GPU needs them to read and write them."""
    need = _alignment(array.dtype)
    if array.data.ptr % need or array.flags.c_contiguous:
        return bool(array.data.ptr % need)
    return any(step % need for step, length in zip(array.strides, array.shape, strict=True) if length > 1)


def check_alignment(kind: str, worker: int, array: Any) -> None:
    """Refuse an array that kernels could not read or write; what they do there ends all work of the GPU."""
    if lies_oddly(array):
        raise UsageMistake(
            f"{kind}: an array of worker {worker} has elements of {array.dtype} that lie at no multiples of"
            f" {_alignment(array.dtype)} bytes - a GPU reads and writes them there only; copy the bytes first"
        )
