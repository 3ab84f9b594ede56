"""Choose the variant of ``fold.cu`` that carries out a fold, and compute how much work it has.

Types, operation, number of sources and width of an access are fixed when a kernel is compiled: so its loops
are unrolled, all loads are in flight together, and an access of 16 bytes is one instruction.

The arrays of a fold are laid out in memory as rows of contiguous elements, with a pitch per array.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from disco_magic.errors import UsageMistake

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disco_magic.planes.reductions import Reduction

GROUP = 8  # as in fold.cu: sources that are read together
ACCESS_NBYTES = 16  # the widest access of a GPU
COUNTED_IN_32_BITS = 2**31  # accesses; a thread's counter may run to nearly twice as many

_TYPES = {
    np.dtype(code): name
    for code, name in {
        "?": "flag",
        **{f"{kind}{size}": f"{kind}{8 * size}" for kind in "iu" for size in (1, 2, 4, 8)},
        **{f"f{size}": f"f{8 * size}" for size in (2, 4, 8)},
        **{f"c{size}": f"c{8 * size}" for size in (8, 16)},
    }.items()
}


class Variant(NamedTuple):
    """What is fixed when the kernel is compiled; the names are those of the macros in ``fold.cu``.

    Attributes:
        op: function that combines two numbers; "" copies bytes.
        average: 1 to divide by the number of sources.
        source, accumulator, result: types by their names in ``fold.cu``.
        sources: number of sources up to `GROUP`, 0 for more.
        vector: elements per access.
        align: 16, or the alignment of complex numbers that are not aligned to their own size.
        unroll: accesses per array that a thread has in flight at a time.
        flat: 1 if every array is one row.
        counter: type that counts accesses.
    """

    op: str
    average: int
    source: str
    accumulator: str
    result: str
    sources: int
    vector: int
    align: int
    unroll: int
    flat: int
    counter: str

    def options(self) -> tuple[str, ...]:
        """The macros as compiler options."""
        return tuple(f"-D{name.upper()}={value}" for name, value in self._asdict().items() if value != "")


class Work(NamedTuple):
    """A variant and its work: `accesses` per array in rows of `width`, then `tail` single elements."""

    variant: Variant
    accesses: int
    width: int
    tail: int


def supported(dtype: np.dtype[Any], op: str | None) -> bool:
    """Whether the kernel can reduce arrays of `dtype` with `op`, or copy them if `op` is None.

    Bytes of any dtype are copied, except references to Python objects. Long doubles, other byte orders and
    dtypes that `reductions.reduction` refuses are not reduced.
    """
    return not dtype.hasobject if op is None else _type(dtype) is not None


def refusal(dtype: np.dtype[Any]) -> str:
    """Say why arrays of `dtype` are not reduced, and what to do instead."""
    return (
        f"arrays of dtype {dtype} cannot be reduced on a GPU - expected bool, integer, float16, bfloat16,"
        f" float32, float64, complex64 or complex128, in native byte order; convert first, e.g."
        f" x.astype('float64')"
    )


def work(
    pointers: Sequence[int], rows: Rows, itemsizes: tuple[int, int], sources: int, reduction: Reduction | None
) -> Work:
    """The best variant for a fold, and its work.

    Args:
        pointers: addresses of the sources, then of the targets.
        rows: the layout of these arrays.
        itemsizes: bytes per element of a source and of a target.
        sources: number of sources.
        reduction: None to copy.

    Raises:
        UsageMistake: the kernel cannot reduce such elements, or not at such addresses.
    """
    pitches = () if rows.rows == 1 else rows.pitches
    source_align = _alignment(*pointers[:sources], *pitches[:sources])
    target_align = _alignment(*pointers[sources:], *pitches[sources:])
    return _work((rows.rows, rows.inner), (source_align, target_align), itemsizes, sources, reduction)


# Cached, because a program calls its collectives with the same shapes again and again: a hit takes 1 us.
@lru_cache(maxsize=1024)
def _work(
    lengths: tuple[int, int],
    alignments: tuple[int, int],
    itemsizes: tuple[int, int],
    sources: int,
    reduction: Reduction | None,
) -> Work:
    (rows, inner), halves = lengths, False
    if reduction is None or (sources == 1 and reduction.source == reduction.result):
        names = ("", 0, "u8", "u8", "u8")
        inner *= itemsizes[0]
        itemsizes = (1, 1)
    else:
        names = _names(reduction)
        halves = reduction.source.kind == "c"
    vector, align = _access(*alignments, *itemsizes, halves=halves)
    if rows > 1:
        vector = min(vector, _alignment(inner))
    width, tail = divmod(inner, vector)
    accesses = rows * width
    variant = Variant(
        *names,
        sources=sources if sources <= GROUP else 0,
        vector=vector,
        align=align,
        unroll=max(1, min(4, GROUP // sources)),  # a thread has up to 8 loads in flight
        flat=int(rows == 1),
        counter="u32" if accesses < COUNTED_IN_32_BITS else "u64",
    )
    return Work(variant, accesses, width, tail)


@lru_cache(maxsize=256)
def _type(dtype: np.dtype[Any]) -> str | None:
    """The name in ``fold.cu`` of the type for elements of `dtype`; None if there is none."""
    if dtype.kind == "V" and dtype.name == "bfloat16":
        return "bf16"
    return _TYPES.get(dtype)


def _names(reduction: Reduction) -> tuple[str, int, str, str, str]:
    """The first five fields of a `Variant`."""
    source, accumulator, result = map(_type, (reduction.source, reduction.accumulator, reduction.result))
    if source is None or accumulator is None or result is None:
        raise UsageMistake(refusal(reduction.source))
    return reduction.ufunc.__name__, int(reduction.average), source, accumulator, result


def _alignment(*numbers: int) -> int:
    """The greatest power of 2, up to `ACCESS_NBYTES`, that divides all `numbers`."""
    bits = ACCESS_NBYTES
    for number in numbers:
        bits |= number
    return bits & -bits


def _access(
    source_align: int, target_align: int, source: int, target: int, *, halves: bool
) -> tuple[int, int]:
    """Elements per access, and the macro ALIGN."""
    vector = min(source_align // source, target_align // target, ACCESS_NBYTES // max(source, target))
    if vector:
        return vector, ACCESS_NBYTES
    if halves and min(source_align, target_align) >= source // 2:  # one access per part of a complex number
        return 1, min(source_align, target_align)
    size, align = (source, source_align) if source_align < source else (target, target_align)
    raise UsageMistake(
        f"an array whose elements have {size} bytes lies at a multiple of {align} bytes only - a GPU reads"
        f" numbers at multiples of their size; copy that array first"
    )


class Rows(NamedTuple):
    """Arrays of one shape, each as `rows` rows of `inner` contiguous elements.

    Attributes:
        rows: 1 if all arrays are contiguous.
        inner: elements per row.
        pitches: bytes from row to row, per array.
    """

    rows: int
    inner: int
    pitches: tuple[int, ...]


def rows_of(arrays: Sequence[Any]) -> Rows | None:
    """`arrays`, all of one shape, as rows; None if one pitch per array does not describe them.

    Contiguous arrays are one row. Views of contiguous arrays that were cut along one axis can always be laid
    out, also together with contiguous arrays. Other views only by chance: copy them first.

    Args:
        arrays: at least one, of any kind that has `shape`, `strides` (in bytes) and `itemsize`; none empty.
    """
    strides = tuple([array.strides for array in arrays])
    return _rows(arrays[0].shape, strides, tuple([array.itemsize for array in arrays]))


# Cached, because a program calls its collectives with the same shapes again and again: a hit takes 1 us.
@lru_cache(maxsize=1024)
def _rows(
    shape: tuple[int, ...], strides: tuple[tuple[int, ...], ...], sizes: tuple[int, ...]
) -> Rows | None:
    axes = _merged(shape, strides)
    inner = axes.pop()[0] if axes and axes[-1][1] == sizes else 1
    if len(axes) > 1:
        return None
    length, pitches = axes[0] if axes else (1, (0,) * len(sizes))
    return Rows(length, inner, pitches)


def _merged(
    shape: tuple[int, ...], strides: tuple[tuple[int, ...], ...]
) -> list[tuple[int, tuple[int, ...]]]:
    """Length and strides of the axes; neighbouring axes are merged where they form one in every array."""
    axes: list[tuple[int, tuple[int, ...]]] = []
    for length, steps in zip(shape, zip(*strides, strict=True), strict=True):
        if length == 1:
            continue
        if axes and axes[-1][1] == tuple(length * step for step in steps):
            axes[-1] = (axes[-1][0] * length, steps)
        else:
            axes.append((length, steps))
    return axes
