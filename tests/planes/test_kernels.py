"""The kernel of the device plane against NumPy, compiled by g++; see `tests.planes.fold_host`."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from disco_magic.errors import UsageMistake
from disco_magic.planes import kernels, variants
from disco_magic.planes.kernels import JOB, MOST, Folder
from disco_magic.planes.layout import part
from disco_magic.planes.reductions import OPS, Reduction, reduction
from disco_magic.planes.rows import Rows, rows_of
from disco_magic.planes.variants import supported, work
from tests.conftest import DEADLINE_S
from tests.planes.fold_host import GXX, HostCupy, lent

ml_dtypes = pytest.importorskip("ml_dtypes")
pytestmark = pytest.mark.skipif(GXX is None, reason="no g++")

BF16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = [np.dtype(code) for code in "?bBhHiIlLefdFD"] + [BF16]
COUNTS = [*range(1, 10), 33]
LAYOUTS = ["flat", "misaligned", "columns", "odd columns"]
F4 = reduction("", "sum", np.dtype("f4"))
CASES = list(itertools.product(DTYPES, OPS))
# Everything with everything takes minutes; otherwise each dtype and operation meets two counts and layouts.
WHOLE_MATRIX = bool(os.environ.get("DISCO_FOLD_MATRIX"))


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


def differs(dtype, op):
    """Why NumPy has other bits on this processor than the kernel, which follows x86 with FMA; or None."""
    z = np.array([0.1 + 0.1j])
    if dtype.kind == "c" and op == "prod" and not (z * z).real[0]:
        return "complex products are rounded twice here"
    zero = np.array([0.0])
    later = not np.signbit(np.minimum(-zero, zero))[0] and np.signbit(np.maximum(zero, -zero))[0]
    if dtype.kind in "fV" and op in ("min", "max") and not later:
        return "of 0.0 and -0.0 the later one is not taken here"
    return None


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


def combinations():
    chosen = []
    for number, (dtype, op) in enumerate(CASES):
        for count, layout in itertools.product(COUNTS, LAYOUTS):
            # Neighbours in the list of dtypes and in that of operations meet other counts and layouts.
            turn = COUNTS.index(count) - number - number // len(OPS)
            mine = turn % 5 == 0 and LAYOUTS.index(layout) == (number + count) % 4
            if WHOLE_MATRIX or mine:
                chosen.append(pytest.param(dtype, op, count, layout, id=f"{dtype}-{op}-{count}-{layout}"))
    return chosen


@pytest.mark.parametrize(("dtype", "op", "count", "layout"), combinations())
def test_a_fold_gives_the_bits_that_numpy_gives_and_touches_nothing_else(dtype, op, count, layout):
    if reason := differs(dtype, op):
        pytest.skip(reason)
    # Whichever thread comes first: no thread may read what another one writes.
    compare(layout, dtype, op, count, seed=count, cupy=HostCupy(1, backwards=bool(count % 2)))


EXTREMES = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, 5e-324, 1.0, -1.0, 3e38, 1e308]


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype.kind in "fcV"], ids=str)
def test_every_pair_of_extreme_numbers_gives_the_bits_that_numpy_gives(dtype, op):
    if reason := differs(dtype, op):
        pytest.skip(reason)
    with np.errstate(all="ignore"):
        some = np.array(EXTREMES).astype(real(dtype))
    if dtype.kind == "c":
        some = np.stack(np.meshgrid(some, some), axis=-1).reshape(-1).view(dtype)
    pair = [np.ascontiguousarray(each.reshape(-1)) for each in np.meshgrid(some, some)]
    rule = reduction("allreduce", op, dtype)
    expected, got = np.empty_like(pair[0]), np.empty_like(pair[0])
    with np.errstate(all="ignore"):
        rule.fold(pair, [expected], np.empty((2, got.size), rule.accumulator))
    Folder(HostCupy(1)).launch(lent(pair), lent([got]), rule)
    assert_same(got.view(real(dtype)), expected.view(real(dtype)))


def test_blocks_go_on_with_what_is_left_when_there_are_fewer_of_them_than_work(monkeypatch):
    monkeypatch.setattr(kernels, "_BLOCKS_PER_MULTIPROCESSOR", 1)
    cupy = HostCupy(1)
    compare("flat", np.dtype("i2"), "sum", 9, cupy=cupy)
    ((_, grid, _, _),) = cupy.launches
    assert grid == (1,)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_kernel_can_count_in_64_bits(monkeypatch, layout):
    monkeypatch.setattr(variants, "COUNTED_IN_32_BITS", 0)
    monkeypatch.setattr(
        variants, "_work", variants._work.__wrapped__
    )  # as if it had not been looked up before
    cupy = HostCupy(1)
    compare(layout, np.dtype("f4"), "sum", 2, cupy=cupy)
    assert "-DCOUNTER=u64" in cupy.launches[0][0]


def test_more_than_two_thousand_million_accesses_are_counted_in_64_bits():
    pointers, rows = [0, 0], Rows(1, 2**35, (0, 0))
    assert work(pointers, rows, (1, 1), 1, None).variant.counter == "u64"
    assert work(pointers, rows._replace(inner=2**35 - 1), (1, 1), 1, None).variant.counter == "u32"


# --- Conversions -----------------------------------------------------------------------------------


def convert(values, dtype):
    """`values` through the kernel's conversions to float32 and to `dtype`; between them, -0.0 is added."""
    rule = Reduction(np.add, values.dtype, np.dtype("f4"), dtype, average=False)
    got, zeros = np.empty(values.shape, dtype), np.full(values.shape, -0.0, values.dtype)
    Folder(HostCupy(1)).launch(lent([values, zeros]), lent([got]), rule)
    return got


def assert_same(got, expected):
    """The same bits, or NaN on both sides."""
    assert got.dtype == expected.dtype
    for array in (got, expected):
        array[np.isnan(array)] = np.nan
    assert got.tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", [np.dtype("f2"), BF16], ids=str)
def test_every_half_precision_number_is_widened_exactly(dtype):
    every = np.arange(65536, dtype=np.uint16).view(dtype)
    with np.errstate(invalid="ignore"):
        assert_same(convert(every, np.dtype("f4")), every.astype("f4"))


@pytest.mark.parametrize("dtype", [np.dtype("f2"), BF16], ids=str)
def test_every_half_precision_number_comes_back_from_float32(dtype):
    every = np.arange(65536, dtype=np.uint16).view(dtype)
    with np.errstate(invalid="ignore"):
        assert_same(convert(every.astype("f4"), dtype), every.copy())


@pytest.mark.parametrize("dtype", [np.dtype("f2"), BF16], ids=str)
@settings(deadline=None)
@given(bits=st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=50))
def test_float32_is_rounded_to_half_precision_as_numpy_rounds(dtype, bits):
    values = np.array(bits, np.uint32).view("f4")
    with np.errstate(all="ignore"):
        assert_same(convert(values, dtype), values.astype(dtype))


@pytest.mark.parametrize("dtype", [np.dtype("f2"), BF16], ids=str)
def test_half_way_between_two_numbers_and_beside_it_rounding_goes_the_right_way(dtype):
    every = np.arange(65536, dtype=np.uint16).view(dtype)
    with np.errstate(all="ignore"):
        wide = every.astype("f4")
        middle = wide + (wide - np.nextafter(every, dtype.type(0)).astype("f4")) / 2
        beside = [np.nextafter(middle, np.float32(0)), np.nextafter(middle, middle * 2)]
        values = np.concatenate([middle, *beside])
        assert_same(convert(values, dtype), values.astype(dtype))


# --- Copies and layouts ----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["V1", "f2", "V3", "f4", "S5", "M8[s]", "i4,f8", "c16", "V48"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_copy_moves_the_bytes_of_any_dtype(dtype, layout):
    dtype, yards = np.dtype(dtype), []
    for copy in (np.copyto, lambda to, source: Folder(HostCupy(1)).launch(lent([source]), lent([to]), None)):
        yard, rng = Yard(layout), np.random.default_rng(3)
        source, first, second = (yard.array(dtype, 1000) for _ in range(3))
        source.view(np.uint8)[...] = rng.integers(0, 256, source.view(np.uint8).shape)
        for target in (first, second):
            copy(target, source)
        yards.append(yard)
    for got, expected in zip(yards[1].blocks, yards[0].blocks, strict=True):
        assert got.tobytes() == expected.tobytes()


@st.composite
def views(draw):
    """Four arrays of one shape, each cut from a larger one of its own along the same axis."""
    shape = draw(st.lists(st.integers(1, 5), max_size=4).map(tuple))
    axis = draw(st.integers(0, max(0, len(shape) - 1)))
    made = []
    for number in range(4):
        before, after = draw(st.tuples(st.integers(0, 3), st.integers(0, 3)))
        whole = tuple(n + (before + after) * (i == axis) for i, n in enumerate(shape))
        array = np.random.default_rng(number).standard_normal(whole).astype("f4")
        made.append(part(array, axis, before, before + shape[axis]) if shape else array)
    return made


@settings(deadline=None)
@given(arrays=views())
def test_views_cut_along_one_axis_are_folded_wherever_they_lie(arrays):
    first, second, third, fourth = arrays
    expected = first + second
    Folder(HostCupy(1)).launch(lent([first, second]), lent([third, fourth]), F4)
    np.testing.assert_array_equal(third, expected)
    np.testing.assert_array_equal(fourth, expected)


@pytest.mark.parametrize(
    ("shape", "strides", "expected"),
    [
        ((), [(), ()], Rows(1, 1, (0, 0))),
        ((2, 1, 3), [(12, 99, 4), (12, 12, 4)], Rows(1, 6, (0, 0))),
        ((2, 3), [(12, 4), (12, 4)], Rows(1, 6, (0, 0))),
        ((1, 3), [(99, 4), (12, 4)], Rows(1, 3, (0, 0))),
        ((2, 3), [(12, 4), (40, 4)], Rows(2, 3, (12, 40))),
        ((2, 3, 4), [(48, 16, 4), (96, 32, 4)], Rows(6, 4, (16, 32))),
        ((2, 3, 4), [(48, 16, 4), (96, 16, 4)], Rows(2, 12, (48, 96))),
        ((5,), [(4,), (8,)], Rows(5, 1, (4, 8))),
        ((5,), [(4,), (-4,)], Rows(5, 1, (4, -4))),
        ((2, 3), [(12, 4), (4, 8)], None),
        ((2, 3, 4), [(48, 16, 4), (200, 32, 4)], None),
    ],
)
def test_arrays_are_laid_out_in_as_few_and_long_rows_as_all_of_them_allow(shape, strides, expected):
    arrays = [SimpleNamespace(shape=shape, strides=each, itemsize=4) for each in strides]
    assert rows_of(arrays) == expected


@pytest.mark.parametrize(
    ("addresses", "inner", "itemsizes", "vector", "tail"),
    [
        ((0, 0), 1024, (4, 4), 4, 0),
        ((0, 0), 1023, (4, 4), 4, 3),
        ((8, 0), 1024, (4, 4), 2, 0),
        ((0, 4), 1024, (4, 4), 1, 0),
        ((0, 0), 1024, (1, 1), 16, 0),
        ((0, 0), 1024, (1, 8), 2, 0),
        ((1, 0), 1024, (1, 8), 1, 0),
        ((0, 0), 1024, (16, 16), 1, 0),
    ],
)
def test_accesses_are_as_wide_as_addresses_allow(addresses, inner, itemsizes, vector, tail):
    rule = reduction("", "sum", np.dtype("u1"))  # the names of the types play no part
    todo = work([64, *addresses], Rows(1, inner, ()), itemsizes, 2, rule)
    assert (todo.variant.vector, todo.tail, todo.accesses) == (vector, tail, inner // vector)


def test_rows_are_accessed_as_widely_as_every_one_of_them_allows():
    rule = reduction("", "sum", np.dtype("f4"))
    pointers = [0, 0, 0]
    assert work(pointers, Rows(9, 8, (32, 64, 48)), (4, 4), 2, rule).variant.vector == 4
    assert work(pointers, Rows(9, 6, (32, 64, 48)), (4, 4), 2, rule).variant.vector == 2
    assert work(pointers, Rows(9, 8, (32, 64, 40)), (4, 4), 2, rule).variant.vector == 2
    assert work(pointers, Rows(9, 8, (36, 64, 48)), (4, 4), 2, rule).variant.vector == 1


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3)])
def test_nothing_is_launched_for_arrays_without_elements(shape):
    cupy, array = HostCupy(1), np.empty(shape, "f4")
    Folder(cupy).launch(lent([array, array]), lent([array]), reduction("", "sum", array.dtype))
    assert not cupy.launches


def test_nothing_is_launched_for_nobody():
    cupy = HostCupy(1)
    Folder(cupy).launch(lent([np.zeros(3)]), [], None)
    assert not cupy.launches


@pytest.mark.parametrize("op", OPS)
def test_a_bool_is_any_byte_that_is_not_zero(op):
    odd = [np.array(values, np.uint8).view(bool) for values in ([0, 2, 0, 255], [0, 0, 4, 1])]
    rule = reduction("", op, np.dtype(bool))
    expected, got = np.zeros(4, rule.result), np.zeros(4, rule.result)
    rule.fold(odd, [expected], np.empty((2, 4), rule.accumulator))
    Folder(HostCupy(1)).launch(lent(odd), lent([got]), rule)
    assert got.tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    ("count", "sources", "unroll"), [(1, 1, 4), (2, 2, 4), (3, 3, 2), (8, 8, 1), (9, 0, 1)]
)
def test_the_number_of_sources_is_compiled_in_up_to_eight(count, sources, unroll):
    rule = reduction("", "avg", np.dtype("i1"))
    variant = work([0] * (count + 1), Rows(1, 99, (0,) * (count + 1)), (1, 8), count, rule).variant
    assert (variant.sources, variant.unroll) == (sources, unroll)


# --- Many threads ----------------------------------------------------------------------------------


class WatchedLock:
    """A lock that tells how many have come to it."""

    def __init__(self):
        self._lock, self.comers = threading.Lock(), threading.Semaphore(0)

    def __enter__(self):
        self.comers.release()
        self._lock.acquire()

    def __exit__(self, *exc):
        self._lock.release()


def test_threads_that_meet_a_new_variant_together_compile_it_once_and_keep_to_their_own_arrays():
    cupy, compilations, lock = HostCupy(1), [], WatchedLock()
    folder = Folder(cupy)
    folder._compiling = lock

    def compiling(options):
        compilations.append(options)
        for _ in range(4):  # all threads have found that the variant is new
            assert lock.comers.acquire(timeout=DEADLINE_S)

    cupy.compiling = compiling
    pairs = [(np.full(1001, n, "f4"), np.full(1001, 10, "f4")) for n in range(4)]

    def work_on(pair):
        for _ in range(50):
            folder.launch(lent(pair), lent([pair[0]]), F4)

    threads = [threading.Thread(target=work_on, args=(pair,)) for pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert [pair[0].tolist() for pair in pairs] == [[n + 500.0] * 1001 for n in range(4)]
    assert len(compilations) == 1


# --- What is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "reduced", "copied"),
    [
        ("f2", True, True),
        (BF16, True, True),
        ("?", True, True),
        (">f4", False, True),
        ("g", False, True),
        ("G", False, True),
        ("i4,f8", False, True),
        ("M8[s]", False, True),
        ("O", False, False),
    ],
)
def test_what_is_supported_is_told_beforehand(dtype, reduced, copied):
    dtype = np.dtype(dtype)
    assert (supported(dtype, "sum"), supported(dtype, None)) == (reduced, copied)
    if reduced:
        Folder.check("allreduce", "sum", dtype)
    else:
        with pytest.raises(UsageMistake, match=r"^allreduce: arrays of dtype .* cannot be reduced on a GPU"):
            Folder.check("allreduce", "sum", dtype)


def refused(sources, targets, rule, match):
    cupy = HostCupy(1)
    with pytest.raises(UsageMistake, match=match):
        Folder(cupy).launch(lent(sources), lent(targets), rule)
    assert not cupy.launches


def test_long_doubles_are_refused():
    arrays = [np.zeros(3, "g")] * 2
    rule = reduction("", "sum", np.dtype("g"))
    refused(arrays, arrays[:1], rule, "cannot be reduced on a GPU - expected bool")


def test_more_arrays_than_parameters_hold_are_refused():
    array = np.zeros(3, "f4")
    match = r"65 sources to 64 targets - a GPU takes 128 arrays .* 64 workers"
    refused([array] * 65, [array] * 64, F4, match)
    Folder(HostCupy(1)).launch(lent([array] * 64), lent([array] * 64), F4)


def test_a_copy_of_several_sources_is_refused():
    array = np.zeros(3, "f4")
    refused([array] * 2, [array], None, "a copy of 2 sources - expected one")


@pytest.mark.parametrize("other", [np.zeros(4, "f4"), np.zeros((1, 3), "f4"), np.zeros(3, "f8")])
def test_arrays_that_differ_are_refused(other):
    array = np.zeros(3, "f4")
    expected = r"expected \(3,\) and float32, as the others have"
    refused([array, other], [array], F4, "array 1 of a fold has .* - " + expected)
    refused([array], [array, other], None, "array 2 of a fold has .* - " + expected)


def test_arrays_that_are_no_rows_are_refused():
    array = np.zeros((4, 4), "f4")
    refused([array, array.T], [array], F4, r"strides \[\(16, 4\), \(4, 16\), .* make them contiguous")


@pytest.mark.parametrize(("dtype", "by"), [("f4", 2), ("c8", 2), ("u8", 4), ("f2", 1)])
def test_numbers_at_addresses_that_a_gpu_cannot_read_are_refused(dtype, by):
    dtype = np.dtype(dtype)
    odd = Yard("flat")._memory(dtype, 5, by)
    refused([odd, odd], [odd], reduction("", "sum", dtype), f"lies at a multiple of {by} bytes only")


# --- What CUDA's compiler makes of it --------------------------------------------------------------

NVCC = shutil.which("nvcc")


def test_python_and_the_source_have_the_same_constants():
    (line,) = re.findall(r"enum \{ (BLOCK .*) \};", kernels._source())
    assert line == f"BLOCK = {kernels.BLOCK}, GROUP = {variants.GROUP}, MOST = {MOST}"
    assert JOB.itemsize <= 4096  # what the parameters of a kernel may have


@pytest.mark.skipif(NVCC is None, reason="no nvcc")
@pytest.mark.parametrize(
    ("dtype", "op", "count", "layout"),
    [
        ("f4", "min", 2, "flat"),
        ("c8", "prod", 3, "flat"),
        ("c8", "avg", 2, "columns"),
        ("c8", "max", 9, "flat"),
        (BF16, "avg", 8, "columns"),
        ("i1", "max", 33, "flat"),
        ("f2", "sum", 1, "flat"),
    ],
)
def test_nvcc_makes_wide_accesses_in_registers_and_flushes_nothing(dtype, op, count, layout, tmp_path):
    cupy = HostCupy(1)
    compare(layout, np.dtype(dtype), op, count, cupy=cupy)
    ((options, _, _, _),) = cupy.launches
    # -ftz=true is what cupy adds to all options.
    command = [NVCC, "-arch=sm_90", "-ftz=true", *options, str(Path(kernels.__file__).with_name("fold.cu"))]
    for kind in ("-ptx", "-cubin"):
        todo = [*command, kind, "-Xptxas", "-v", "-o", str(tmp_path / kind)]
        done = subprocess.run(todo, capture_output=True, text=True, check=False)  # noqa: S603 - our own command
        assert done.returncode == 0, done.stderr
    assert "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads" in done.stderr
    code = (tmp_path / "-ptx").read_text()
    flushing = re.findall(r"\S+\.ftz\S*", code)
    assert set(flushing) <= {"setp.nan.ftz.f32", "setp.num.ftz.f32"}  # whether it is NaN
    assert "ld.global.v2.u64" in code
    assert "st.global.v2.u64" in code
    assert ".local" not in code
