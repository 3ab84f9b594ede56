"""One reduction by NumPy and by the kernel of the device plane, over arrays that lie in all ways.

A test file that imports this is skipped where ml_dtypes is not installed.
"""

from __future__ import annotations

import numpy as np
import pytest

from disco_magic.planes.kernels import Folder
from disco_magic.planes.reductions import reduction
from tests.planes.fold_host import HostCupy, lent

ml_dtypes = pytest.importorskip("ml_dtypes")

BF16 = np.dtype(ml_dtypes.bfloat16)
LAYOUTS = ["flat", "misaligned", "columns", "odd columns"]
F4 = reduction("", "sum", np.dtype("f4"))


def real(dtype):
    """The dtype of a complex number's parts; other dtypes are their own."""
    return np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype


def numbers(rng, dtype, size):
    """`size` numbers; of the inexact ones a third are NaN, infinite, zero or of an extreme size."""
    if dtype.kind == "c":
        return numbers(rng, real(dtype), 2 * size).view(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, size).astype(bool)
    raw = rng.integers(0, 256, size * dtype.itemsize, dtype=np.uint8).view(dtype)
    if dtype.kind in "iu":
        return raw
    info = ml_dtypes.finfo(dtype)
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, info.max, info.smallest_subnormal, 1, -1], dtype)
    usual = rng.standard_normal(size).astype(dtype)
    kind = rng.integers(0, 6, size)
    return np.where(kind == 0, rng.choice(special, size), np.where(kind == 1, raw, usual))


class Yard:
    """Memory for the arrays of one fold. Two that are made alike hold the same bytes, between arrays too."""

    def __init__(self, layout):
        self.layout = layout
        self.blocks = []
        self.arrays = []

    def array(self, dtype, length):
        """An array of about `length` elements, at a place and pitch that no other array of the yard has."""
        number = len(self.arrays)
        if self.layout in ("flat", "misaligned"):
            odd = real(dtype).itemsize * (number % 3) if self.layout == "misaligned" else 0
            made = self._memory(dtype, length, odd)
        else:
            unit = 1 if self.layout == "odd columns" else 16
            rows, inner = 7, max(1, length // 7 // 16) * 16 + (unit == 1)
            pitch = inner + unit * (number % 3)
            made = self._memory(dtype, rows * pitch, 0).reshape(rows, pitch)[:, pitch - inner :]
        self.arrays.append(made)
        return made

    def _memory(self, dtype, length, misaligned_by):
        nbytes = length * dtype.itemsize
        block = np.full(nbytes + 272, 0xA5, np.uint8)
        self.blocks.append(block[-block.ctypes.data % 16 :][: nbytes + 256])
        start = 16 + misaligned_by
        return self.blocks[-1][start : start + nbytes].view(dtype)

    def content(self):
        """All bytes, after every NaN was replaced by the same one: processors differ in their bits."""
        for array in self.arrays:
            if array.dtype.kind in "fcV":
                parts = array.view(real(array.dtype))
                with np.errstate(invalid="ignore"):
                    parts[np.isnan(parts)] = np.nan
        return self.blocks


def scene(layout, dtype, rule, count, seed):
    """A yard with `count` sources and three targets, one of them in place if that is possible."""
    yard, rng = Yard(layout), np.random.default_rng(seed)
    length = 1200 * max(1, 16 // dtype.itemsize) + 3
    sources = [yard.array(dtype, length) for _ in range(count)]
    for source in sources:
        source[...] = numbers(rng, dtype, source.size).reshape(source.shape)
    targets = [yard.array(rule.result, length) for _ in range(2)]
    if rule.result == dtype:
        targets.insert(1, sources[count // 2])
    return yard, sources, targets


def compare(layout, dtype, op, count, *, seed=0, cupy=None):
    """One fold by NumPy and by the kernel, in two yards that must be the same afterwards."""
    rule = reduction("allreduce", op, dtype)
    yard, sources, targets = scene(layout, dtype, rule, count, seed)
    with np.errstate(all="ignore"):
        rule.fold(sources, targets, np.empty((2, *sources[0].shape), rule.accumulator))
    other, sources, targets = scene(layout, dtype, rule, count, seed)
    Folder(cupy or HostCupy(1)).launch(lent(sources), lent(targets), rule)
    for number, (got, expected) in enumerate(zip(other.content(), yard.content(), strict=True)):
        wrong = np.flatnonzero(got != expected)
        assert not wrong.size, f"bytes {wrong[:20]} of array {number}"
