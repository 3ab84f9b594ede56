"""Which arrays the kernel of the device plane takes, how it walks through them, and which are refused."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from disco_magic.errors import UsageMistake
from disco_magic.planes.kernels import Folder
from disco_magic.planes.layout import part
from disco_magic.planes.reductions import reduction
from disco_magic.planes.variants import Rows, rows_of, supported, work
from tests.planes.fold_host import GXX, HostCupy, lent
from tests.planes.folds import BF16, F4, LAYOUTS, Yard

pytestmark = pytest.mark.skipif(GXX is None, reason="no g++")


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


@pytest.mark.parametrize(
    ("count", "sources", "unroll"), [(1, 1, 4), (2, 2, 4), (3, 3, 2), (8, 8, 1), (9, 0, 1)]
)
def test_the_number_of_sources_is_compiled_in_up_to_eight(count, sources, unroll):
    rule = reduction("", "avg", np.dtype("i1"))
    variant = work([0] * (count + 1), Rows(1, 99, (0,) * (count + 1)), (1, 8), count, rule).variant
    assert (variant.sources, variant.unroll) == (sources, unroll)


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
