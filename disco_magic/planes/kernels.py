"""One fold over arrays on one GPU: what `Reduction.fold` does with NumPy, by the kernel in ``fold.cu``.

Results are bitwise equal to NumPy's on x86 processors with FMA. On other processors NumPy itself differs in
whether a product of complex numbers is fused, and in whether 0.0 or -0.0 is the minimum (here the later
rank's). The bits of a NaN are never guaranteed.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from disco_magic.errors import UsageMistake
from disco_magic.planes.kernel_source import BLOCK, KernelSource, Parameters
from disco_magic.planes.rows import rows_of
from disco_magic.planes.variants import refusal, supported, work

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disco_magic.planes.reductions import Reduction
    from disco_magic.planes.variants import Work

# As in fold.cu: the most sources and targets, which take 2 KiB of the 4 KiB that a kernel's parameters may
# have; the layout of these parameters.
MOST = 128
JOB = np.dtype(
    [
        ("accesses", "i8"),
        ("width", "i8"),
        ("tail", "i4"),
        ("sources", "i4"),
        ("targets", "i4"),
        ("unused", "i4"),
        ("data", "u8", MOST),
        ("pitch", "i8", MOST),
    ]
)
_HEADER = struct.Struct("=qqiii4x")
_DATA = _HEADER.size
_PITCH = _DATA + 8 * MOST


class Folder:
    """Carries out folds on one GPU. Thread-safe.

    Args:
        cupy: the module, or an object with the same `RawModule` and `cuda.Device`. Folds are launched while
            the GPU is its current device.
    """

    def __init__(self, cupy: Any) -> None:
        self._source = KernelSource(cupy, "fold")
        self._job = Parameters(JOB.itemsize)

    @staticmethod
    def check(verb: str, op: str, dtype: np.dtype[Any]) -> None:
        """Raise UsageMistake, which begins with `verb`, if arrays of `dtype` cannot be reduced on a GPU."""
        if not supported(dtype, op):
            raise UsageMistake(f"{verb}: {refusal(dtype)}")

    def launch(self, sources: Sequence[Any], targets: Sequence[Any], reduction: Reduction | None) -> None:
        """Queue one fold on the calling thread's current stream, without waiting for it.

        Args:
            sources: arrays of one shape on the GPU, in rank order; exactly one if nothing is reduced. Views
                must be such that `rows_of` can lay them out.
            targets: arrays of that shape. A target may be exactly the memory of a source, with the same
                strides; otherwise no target overlaps any other array.
            reduction: None to copy the bytes of the source.

        Raises:
            UsageMistake: the kernel does not support these dtypes, shapes or layouts, or there are more than
                `MOST` arrays; nothing was queued.
        """
        arrays = [*sources, *targets]
        itemsizes = _checked(arrays, len(sources), reduction)
        if not targets or 0 in arrays[0].shape:
            return
        rows = rows_of(arrays)
        if rows is None:
            raise UsageMistake(
                f"arrays of shape {arrays[0].shape} with strides {[a.strides for a in arrays]} - a fold on"
                f" a GPU expects rows of neighbouring elements, at one pitch per array; make them contiguous"
            )
        pointers = [array.data.ptr for array in arrays]
        todo = work(pointers, rows, itemsizes, len(sources), reduction)
        function = self._source.function(todo.variant)
        _fill(self._job.memory, todo, pointers, rows.pitches, len(sources))
        function((self._source.blocks(todo),), (BLOCK,), (self._job.value,))


def _fill(memory: Any, todo: Work, pointers: Sequence[int], pitches: Sequence[int], sources: int) -> None:
    """Write the kernel's parameters."""
    arrays = len(pointers)
    _HEADER.pack_into(memory, 0, todo.accesses, todo.width, todo.tail, sources, arrays - sources)
    struct.pack_into(f"={arrays}Q", memory, _DATA, *pointers)
    if not todo.variant.flat:
        struct.pack_into(f"={arrays}q", memory, _PITCH, *pitches)


def _checked(arrays: Sequence[Any], sources: int, reduction: Reduction | None) -> tuple[int, int]:
    """Item sizes of sources and targets, which are checked: a wrong one would be accessed out of bounds."""
    if len(arrays) > MOST:
        raise UsageMistake(
            f"a fold of {sources} sources to {len(arrays) - sources} targets - a GPU takes {MOST} arrays at a"
            f" time, which is enough for {MOST // 2} workers on it; use fewer of them"
        )
    if reduction is None and sources != 1:
        raise UsageMistake(f"a copy of {sources} sources - expected one; give a reduction to combine them")
    shape = arrays[0].shape
    source = arrays[0].dtype if reduction is None else reduction.source
    result = source if reduction is None else reduction.result
    for position, array in enumerate(arrays):
        expected = source if position < sources else result
        if array.shape != shape or array.dtype != expected:
            raise UsageMistake(
                f"array {position} of a fold has shape {array.shape} and dtype {array.dtype} - expected"
                f" {shape} and {expected}, as the others have"
            )
    return source.itemsize, result.itemsize
