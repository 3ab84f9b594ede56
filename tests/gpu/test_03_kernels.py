"""Our kernels against NumPy, bit for bit, compiled by NVRTC and run by a real GPU."""

from __future__ import annotations

import numpy as np
import pytest

from disco_magic.planes.copier import Copier
from disco_magic.planes.kernels import MOST, Folder
from disco_magic.planes.reductions import OPS, reduction
from disco_magic.values.device_digests import DeviceDigests
from tests.digests import expected
from tests.gpu.machine import QUICK

try:
    from ml_dtypes import bfloat16
except ImportError:
    HALVES = []
else:
    HALVES = [np.dtype(bfloat16)]

DTYPES = [np.dtype(code) for code in "?bBhHiIqQefdFD"] + HALVES
CASES = [(dtype, op) for dtype in DTYPES for op in OPS]
if QUICK:
    CASES = [(np.dtype("f4"), "sum"), (np.dtype("f2"), "avg")]
LENGTH = 5003
LARGE = [] if QUICK else [1 << 20]  # a simulated GPU has a thread at a time
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0]


@pytest.fixture(scope="module")
def folder(cupy):
    return Folder(cupy)


def parts_of(array):
    """Complex numbers as pairs; other arrays as they are."""
    return array.view(f"f{array.dtype.itemsize // 2}") if array.dtype.kind == "c" else array


def numbers(seed, dtype, size=LENGTH):
    """Any bits; of inexact numbers a quarter is NaN, infinite, a zero or one, and half is moderate."""
    rng = np.random.default_rng(seed)
    if dtype.kind == "b":
        return rng.integers(0, 2, size).astype(bool)
    array = rng.integers(0, 256, size * dtype.itemsize, np.uint8).view(dtype)
    if dtype.kind in "fcV":
        parts = parts_of(array)
        parts[1::2] = rng.standard_normal(parts[1::2].size).astype(parts.dtype)
        parts[::4] = rng.choice(SPECIAL, parts[::4].size).astype(parts.dtype)
    return array


def bits(array):
    """The bytes of an array, with the same NaN wherever it has one: no two processors agree on its bits."""
    array = np.ascontiguousarray(array)
    if array.dtype.kind in "fcV":
        parts = parts_of(array)
        with np.errstate(invalid="ignore"):
            parts[np.isnan(parts)] = np.nan
    return array.view(np.uint8)


def folded(rule, sources, count=2):
    """What NumPy makes of it."""
    targets = [np.empty(sources[0].shape, rule.result) for _ in range(count)]
    with np.errstate(all="ignore"):
        rule.fold(sources, targets, np.empty((2, *sources[0].shape), rule.accumulator))
    return targets


def there(cupy, array, offset=0):
    """A copy on the GPU, `offset` bytes behind what every access is aligned to."""
    nbytes = array.nbytes
    memory = cupy.empty(nbytes + 16, "uint8")
    memory[offset : offset + nbytes] = cupy.asarray(np.ascontiguousarray(array).reshape(-1).view("uint8"))
    return memory[offset : offset + nbytes].view(array.dtype).reshape(array.shape)


def here(array):
    """A copy on the host."""
    return array.view("uint8").get().view(array.dtype) if array.dtype.kind == "V" else array.get()


def agree(cupy, folder, rule, sources, offset=0):
    expected = folded(rule, sources)
    given = [there(cupy, source, offset) for source in sources]
    targets = [there(cupy, np.full(each.shape, 7).astype(each.dtype), offset) for each in expected]
    folder.launch(given, targets, rule)
    for target, wanted in zip(targets, expected, strict=True):
        wrong = np.flatnonzero(bits(here(target)) != bits(wanted))
        assert not wrong.size, f"bytes {wrong[:8]} of {rule}, {len(sources)} sources"


@pytest.mark.parametrize(("dtype", "op"), CASES, ids=str)
def test_reductions_have_the_bits_of_numpy(cupy, folder, dtype, op):
    z = np.array([0.1 + 0.1j])
    if dtype.kind == "c" and op == "prod" and not (z * z).real[0]:
        pytest.skip("NumPy rounds products of complex numbers twice on this processor")
    rule = reduction("allreduce", op, dtype)
    for count in (2,) if QUICK else (3, 9):
        agree(cupy, folder, rule, [numbers(seed, dtype) for seed in range(count)])


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 255, 256, 257, 4096, 1_000_003])
def test_every_length(cupy, folder, length):
    dtype = np.dtype("f4")
    agree(cupy, folder, reduction("", "sum", dtype), [numbers(seed, dtype, length) for seed in range(2)])


@pytest.mark.parametrize("offset", [4, 8, 12])
def test_arrays_that_lie_across(cupy, folder, offset):
    dtype = np.dtype("f4")
    agree(cupy, folder, reduction("", "sum", dtype), [numbers(seed, dtype) for seed in range(2)], offset)


@pytest.mark.parametrize("columns", [16, 13])
def test_sections_of_wider_arrays(cupy, folder, columns):
    wide = [numbers(seed, np.dtype("f4"), 40 * 40).reshape(40, 40) for seed in range(2)]
    rule = reduction("", "sum", np.dtype("f4"))
    given = [there(cupy, each)[:, :columns] for each in wide]
    target = cupy.zeros((40, 40), "float32")
    folder.launch(given, [target[:, 3 : 3 + columns]], rule)
    expected = np.zeros((40, 40), "f4")
    expected[:, 3 : 3 + columns] = folded(rule, [np.ascontiguousarray(each[:, :columns]) for each in wide])[0]
    assert (bits(target.get()) == bits(expected)).all()


@pytest.mark.parametrize("nbytes", [1, 15, 16, 17, 1_000_001])
def test_copies_to_several(cupy, folder, nbytes):
    source = numbers(0, np.dtype("B"), nbytes)
    targets = [cupy.zeros(nbytes, "uint8") for _ in range(3)]
    folder.launch([cupy.asarray(source)], targets, None)
    assert all((target.get() == source).all() for target in targets)


@pytest.mark.parametrize("offset", [0, 4, 5])
def test_many_copies_at_once(cupy, offset):
    lengths = [1, 15, 16, 17, 4096, 0, 100_001] * 10
    sources = [numbers(seed, np.dtype("B"), length) for seed, length in enumerate(lengths)]
    targets = [there(cupy, np.zeros(length, "B"), offset) for length in lengths]
    Copier(cupy).launch(
        [(cupy.asarray(source), target) for source, target in zip(sources, targets, strict=True)]
    )
    assert all((target.get() == source).all() for source, target in zip(sources, targets, strict=True))


def test_many_sections_of_wider_arrays_at_once(cupy):
    wide = numbers(0, np.dtype("f4"), 64 * 128).reshape(64, 128)
    source, target = cupy.asarray(wide), cupy.zeros((64, 128), "float32")
    sections = [slice(start, start + 8) for start in range(0, 128, 8)]
    Copier(cupy).launch(
        [(source[:, s], target[:, t]) for s, t in zip(sections, reversed(sections), strict=True)]
    )
    expected = np.concatenate([wide[:, s] for s in reversed(sections)], axis=1)
    assert (bits(target.get()) == bits(expected)).all()


def test_in_place(cupy, folder):
    dtype = np.dtype("f4")
    sources = [numbers(seed, dtype) for seed in range(3)]
    expected = folded(reduction("", "sum", dtype), sources)[0]
    given = [there(cupy, source) for source in sources]
    folder.launch(given, given, reduction("", "sum", dtype))
    assert all((bits(here(each)) == bits(expected)).all() for each in given)


def test_as_many_arrays_as_a_kernel_takes(cupy, folder):
    sources = [cupy.full(10, number, "int32") for number in range(MOST // 2)]
    targets = [cupy.zeros(10, "int32") for _ in range(MOST // 2)]
    folder.launch(sources, targets, reduction("", "sum", np.dtype("i4")))
    assert all(target.get().tolist() == [sum(range(MOST // 2))] * 10 for target in targets)


# --- digests ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", [0, 1, 7, LENGTH, *LARGE])
def test_a_digest_counts_every_byte(cupy, dtype, size):
    host = numbers(size, dtype, size)
    assert DeviceDigests(cupy).digest_of(cupy.asarray(host)) == expected(host)


@pytest.mark.parametrize("layout", ["transposed", "reversed", "a section", "at an odd address"])
def test_a_digest_is_the_same_for_every_layout(cupy, layout):
    host = numbers(3, np.dtype("f2"), 300 * 101).reshape(300, 101)
    wide, long = cupy.zeros((306, 107), host.dtype), cupy.zeros(host.size + 1, host.dtype)
    array = {
        "transposed": cupy.asarray(np.ascontiguousarray(host.T)).T,
        "reversed": cupy.asarray(np.ascontiguousarray(host[::-1, ::-1]))[::-1, ::-1],
        "a section": wide[3:-3, 3:-3],
        "at an odd address": long[1:].reshape(host.shape),
    }[layout]
    if layout.startswith("a"):
        array[...] = cupy.asarray(host)
    assert DeviceDigests(cupy).digest_of(array) == expected(host)
