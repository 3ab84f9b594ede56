"""Many copies within one GPU in few launches, by the kernel in ``copies.cu``.

An alltoall of eight workers is 64 copies, and the host needs longer to launch a kernel than the GPU needs to
copy a few kilobytes.

A GPU can read and write elements only at multiples of their size, or of their parts'.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from disco_magic.errors import UsageMistake
from disco_magic.planes.kernels import BLOCK, KernelSource, Parameters
from disco_magic.planes.variants import rows_of, work

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disco_magic.planes.variants import Variant, Work

    Entry = tuple[int, int, int, int, int, int, int]

# Copies per launch, as in copies.cu: they take 3.5 KiB of the 4 KiB that a kernel's parameters may have.
MOST = 64
COPY = struct.Struct("=QQqqqqq")
NBYTES = MOST * COPY.size


class Copier:
    """Copies arrays on one GPU. Thread-safe.

    Args:
        cupy: see `Folder`.
    """

    def __init__(self, cupy: Any) -> None:
        self._source = KernelSource(cupy, "copies")
        self._job = Parameters(NBYTES)

    def launch(self, pairs: Sequence[tuple[Any, Any]]) -> None:
        """Queue byte copies on the calling thread's current stream, without waiting for them.

        Costs one launch per `MOST` copies whose addresses and lengths allow accesses of the same width.

        Args:
            pairs: (source, target) of each copy: arrays on the GPU, of one shape and dtype, that `rows_of`
                can lay out. No target overlaps a source or another target.

        Raises:
            UsageMistake: two arrays of a pair differ, or `rows_of` cannot lay them out; nothing was queued.
        """
        groups: dict[Variant, list[tuple[Work, Entry]]] = {}
        for source, target in pairs:
            if 0 not in source.shape:
                todo, entry = _read(source, target)
                groups.setdefault(todo.variant, []).append((todo, entry))
        for variant, copies in groups.items():
            function = self._source.function(variant)
            for first in range(0, len(copies), MOST):
                part = copies[first : first + MOST]
                most = max([todo for todo, _ in part], key=lambda todo: todo.accesses)
                for number, (_, entry) in enumerate(part):
                    COPY.pack_into(self._job.memory, number * COPY.size, *entry)
                function((self._source.blocks(most, len(part)), len(part)), (BLOCK,), (self._job.value,))


def _read(source: Any, target: Any) -> tuple[Work, Entry]:
    """The work of one copy, and its entry in the kernel's parameters."""
    arrays = [source, target]
    rows = rows_of(arrays) if (source.shape, source.dtype) == (target.shape, target.dtype) else None
    if rows is None:
        of_both = [f"{each.dtype} {each.shape} with strides {each.strides}" for each in arrays]
        raise UsageMistake(
            f"a copy of {of_both[0]} to {of_both[1]} - expected arrays of one shape and dtype, each of rows"
            " of neighbouring elements at one pitch; make them contiguous"
        )
    pointers = (source.data.ptr, target.data.ptr)
    todo = work(pointers, rows, (source.itemsize, source.itemsize), 1, None)
    return todo, (*pointers, todo.accesses, todo.width, *rows.pitches, todo.tail)


def misaligned(array: Any) -> int:
    """The bytes at whose multiples a GPU reads and writes the elements, if some lie elsewhere; else 0."""
    dtype, start = array.dtype, array.data.ptr
    need: int = dtype.itemsize if dtype.kind == "c" else dtype.alignment  # both parts are read at once
    if not start % need:
        if array.flags.c_contiguous:
            return 0
        steps = zip(array.strides, array.shape, strict=True)
        if not any(step % need for step, length in steps if length > 1):
            return 0
    return need


def check_alignment(kind: str, worker: int, array: Any) -> None:
    """Refuse an array that kernels could not read or write; what they do there ends all work of the GPU."""
    if need := misaligned(array):
        raise UsageMistake(
            f"{kind}: an array of worker {worker} has elements of {array.dtype} that lie at no multiples of"
            f" {need} bytes - a GPU reads and writes them there only; copy the bytes first"
        )
