"""The kernel of the device plane against NumPy, compiled by g++; see `tests.planes.fold_host`."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from disco_magic.planes import kernels, variants
from disco_magic.planes.kernels import JOB, MOST, Folder
from disco_magic.planes.reductions import OPS, Reduction, reduction
from disco_magic.planes.variants import Rows, work
from tests.conftest import DEADLINE_S
from tests.planes.fold_host import GXX, HostCupy, lent
from tests.planes.folds import BF16, F4, LAYOUTS, compare, real

pytestmark = pytest.mark.skipif(GXX is None, reason="no g++")

DTYPES = [np.dtype(code) for code in "?bBhHiIlLefdFD"] + [BF16]
COUNTS = [*range(1, 10), 33]
CASES = list(itertools.product(DTYPES, OPS))
# Everything with everything takes minutes; otherwise each dtype and operation meets two counts and layouts.
WHOLE_MATRIX = bool(os.environ.get("DISCO_FOLD_MATRIX"))
EXTREMES = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, 5e-324, 1.0, -1.0, 3e38, 1e308]


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


def assert_same(got, expected):
    """The same bits, or NaN on both sides."""
    assert got.dtype == expected.dtype
    for array in (got, expected):
        array[np.isnan(array)] = np.nan
    assert got.tobytes() == expected.tobytes()


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


@pytest.mark.parametrize("op", OPS)
def test_a_bool_is_any_byte_that_is_not_zero(op):
    odd = [np.array(values, np.uint8).view(bool) for values in ([0, 2, 0, 255], [0, 0, 4, 1])]
    rule = reduction("", op, np.dtype(bool))
    expected, got = np.zeros(4, rule.result), np.zeros(4, rule.result)
    rule.fold(odd, [expected], np.empty((2, 4), rule.accumulator))
    Folder(HostCupy(1)).launch(lent(odd), lent([got]), rule)
    assert got.tobytes() == expected.tobytes()


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
    folder._source._compiling = lock

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


# --- What CUDA's compiler makes of it --------------------------------------------------------------


NVCC = shutil.which("nvcc")


def test_python_and_the_source_have_the_same_constants():
    (line,) = re.findall(r"enum \{ (BLOCK .*) \};", Folder(HostCupy())._source.code)
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
    # Of one run, for most of it is what comes before both.
    command += ["-cubin", "-keep", "-keep-dir", str(tmp_path), "-Xptxas", "-v", "-o", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own command
    assert done.returncode == 0, done.stderr
    assert "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads" in done.stderr
    code = (tmp_path / "fold.ptx").read_text()
    flushing = re.findall(r"\S+\.ftz\S*", code)
    assert set(flushing) <= {"setp.nan.ftz.f32", "setp.num.ftz.f32"}  # whether it is NaN
    assert "ld.global.v2.u64" in code
    assert "st.global.v2.u64" in code
    assert ".local" not in code
