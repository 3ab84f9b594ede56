"""Our CUDA sources; and one fold over arrays on one GPU, by the kernel in ``fold.cu``.

That does what `Reduction.fold` does with NumPy. Results are bitwise equal to NumPy's on x86 processors with
FMA. On other processors NumPy itself differs in whether a product of complex numbers is fused, and in whether
0.0 or -0.0 is the minimum (here the later rank's). The bits of a NaN are never guaranteed.

NVRTC compiles a kernel for each `Variant` that is used, in a few tenths of a second. cupy keeps the result on
disk, so this happens once per machine.
"""

from __future__ import annotations

import struct
import threading
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from disco_magic.errors import UsageMistake
from disco_magic.planes.variants import refusal, rows_of, supported, work
from disco_magic.threads.locks import new_lock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disco_magic.planes.reductions import Reduction
    from disco_magic.planes.variants import Variant, Work

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


BLOCK = 256  # threads per block, as in the sources
# More blocks than a multiprocessor holds at a time, so that one that is done early gets another.
_BLOCKS_PER_MULTIPROCESSOR = 32


class Parameters(threading.local):
    """A kernel's parameters, thread-local: making new ones would take as long as the rest of a launch.

    Args:
        nbytes: size of the parameters in bytes.

    Attributes:
        value: the kernel's argument. Bytes without fields: cupy asks NumPy to describe its argument, and
            with fields that takes 20 us.
        memory: the same bytes, for writing. A launch copies them before it returns.
    """

    def __init__(self, nbytes: int) -> None:
        self.value = np.zeros((), f"V{nbytes}")
        self.memory = self.value.reshape(1).view(np.uint8).data


class KernelSource:
    """A file ``NAME.cu`` next to this one, whose kernel is called NAME. Thread-safe.

    Args:
        cupy: the module, or an object with the same `RawModule` and `cuda.Device`.
        name: name of the file and of the kernel.
    """

    def __init__(self, cupy: Any, name: str) -> None:
        self._cupy, self._name = cupy, name
        self._functions: dict[Variant, Any] = {}
        self._compiling = new_lock()

    @cached_property
    def code(self) -> str:
        """The file's text."""
        return Path(__file__).with_name(f"{self._name}.cu").read_text(encoding="utf-8")

    def function(self, variant: Variant) -> Any:
        """The kernel compiled as `variant`; compiled only once."""
        return self._functions.get(variant) or self._compiled(variant)

    def _compiled(self, variant: Variant) -> Any:
        with self._compiling:
            if variant not in self._functions:
                module = self._cupy.RawModule(code=self.code, options=variant.options(), backend="nvrtc")
                self._functions[variant] = module.get_function(self._name)
            return self._functions[variant]

    def blocks(self, todo: Work, beside: int = 1) -> int:
        """How many blocks to launch for `todo` if `beside` such rows of blocks share the current GPU."""
        wanted = -(-todo.accesses // (BLOCK * todo.variant.unroll))
        return max(1, min(wanted, self._most_blocks // beside))

    @cached_property
    def _most_blocks(self) -> int:
        device = self._cupy.cuda.Device()
        return _BLOCKS_PER_MULTIPROCESSOR * int(device.attributes["MultiProcessorCount"])
