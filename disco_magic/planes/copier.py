"""Many copies within one GPU in few launches, by the kernel in ``copies.cu``.

An alltoall of eight workers is 64 copies, and to launch a kernel takes the host longer than a copy of some
kilobytes takes the GPU.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from disco_magic.errors import UsageMistake
from disco_magic.planes.kernel_source import BLOCK, KernelSource, Parameters
from disco_magic.planes.rows import rows_of
from disco_magic.planes.variants import work

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disco_magic.planes.variants import Variant, Work

    Entry = tuple[int, int, int, int, int, int, int]

# As in copies.cu: copies per launch, which take 3.5 KiB of the 4 KiB that a kernel's parameters may have.
MOST = 64
COPY = struct.Struct("=QQqqqqq")
NBYTES = MOST * COPY.size


class Copier:
    """Copies arrays on one GPU. Any thread may use it, several at a time.

    Args:
        cupy: as `Folder` takes it.
    """

    def __init__(self, cupy: Any) -> None:
        self._source = KernelSource(cupy, "copies")
        self._job = Parameters(NBYTES)

    def launch(self, pairs: Sequence[tuple[Any, Any]]) -> None:
        """Queue copies of bytes on the calling thread's current stream; they are not waited for.

        Costs one launch per `MOST` copies whose addresses and lengths allow accesses of the same width.

        Args:
            pairs: source and target of each: arrays on the GPU, of one shape and dtype, as `rows_of` can lay
                out. No target overlaps a source or another target.

        Raises:
            UsageMistake: two arrays of a pair differ, or are no rows; nothing was queued.
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
    """What is to be done for a copy, and what the kernel is to know of it."""
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
