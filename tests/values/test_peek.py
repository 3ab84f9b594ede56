"""Pictures and elements of values, wherever they live."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from disco_magic.errors import UsageMistake
from disco_magic.values.peek import NoPicture, Window, block_of, histogram_of, picture_of, statistics_of
from tests.doubles.arrays import cupy_array, tensor
from tests.sampled import in_turn
from tests.values.values import ALL, MAKERS, NO_NUMBERS, NUMBERS, Touchy, grid, wherever

ml_dtypes = pytest.importorskip("ml_dtypes")
# Made in the test: pytest looks at its parameters.
NO_ARRAYS = {
    "int": lambda: 1,
    "float": lambda: 2.5,
    "NoneType": lambda: None,
    "str": lambda: "text",
    "list": lambda: [1, 2],
    "dict": lambda: {"a": 1},
    "Touchy": Touchy,
    "MaskedArray": lambda: np.ma.masked_array([1], [1]),
}


# --- windows ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "axes", "fixed"),
    [
        ((), (), ()),
        ((4,), (0,), ()),
        ((4, 5), (0, 1), ()),
        ((2, 4, 5), (1, 2), (0,)),
        ((2, 3, 4, 5), (2, 3), (0, 0)),
    ],
)
def test_the_default_is_all_of_the_last_two_axes(shape, axes, fixed):
    assert Window.of(shape) == Window(None, None, axes, fixed)
    assert Window.of(shape).fit(shape) == ALL.fit(shape)


@pytest.mark.parametrize(
    ("window", "shape", "says"),
    [
        (Window(rows=(0, 5)), (4, 4), r"rows expected .* <= 4, got \(0, 5\)"),
        (Window(rows=(2, 2)), (4, 4), r"rows expected"),
        (Window(rows=(-1, 2)), (4, 4), r"rows expected"),
        (Window(rows=(0,)), (4, 4), r"rows expected"),
        (Window(rows=5), (4, 4), r"rows expected"),
        (Window(columns=(0, 2.5)), (4, 4), r"columns expected"),
        (Window(rows=(0, 2)), (4,), r"rows expected .* <= 1"),
        (Window(columns=(1, 2)), (), r"columns expected"),
        (Window(axes=(0, 0)), (4, 4), r"axes expected 2 of the axes \(0, 1\), got \(0, 0\)"),
        (Window(axes=(0, 2)), (4, 4), r"axes expected"),
        (Window(axes=(-2, -1)), (4, 4), r"axes expected"),
        (Window(axes=(1,)), (4, 4), r"axes expected"),
        (Window(axes=(0, 1)), (4,), r"axes expected 1 of"),
        (Window(axes="ab"), (4, 4), r"axes expected"),
        (
            Window(fixed=(4,)),
            (4, 4, 4),
            r"fixed expected an index for each of 1 further axes, below \(4,\), got \(4,\)",
        ),
        (Window(fixed=(-1,)), (4, 4, 4), r"fixed expected"),
        (Window(fixed=()), (4, 4, 4), r"fixed expected"),
        (Window(fixed=(0, 0)), (4, 4, 4), r"fixed expected"),
        (Window(fixed=0), (4, 4, 4), r"fixed expected"),
    ],
    ids=repr,
)
def test_a_window_that_does_not_fit_is_refused_with_what_would(window, shape, says):
    with pytest.raises(UsageMistake, match=rf"does not fit into shape \({shape[0] if shape else ''}.*{says}"):
        picture_of(np.zeros(shape), window)
    with pytest.raises(NoPicture):
        block_of(np.zeros(shape), window)


# --- pictures --------------------------------------------------------------------------------------


@wherever
@pytest.mark.parametrize(
    ("shape", "window", "wanted"),
    [
        ((3, 4), ALL, np.s_[:, :]),
        ((3, 4), Window((1, 3), (0, 2)), np.s_[1:3, 0:2]),
        ((2, 3, 4), ALL, np.s_[0, :, :]),
        ((2, 3, 4), Window(fixed=(1,)), np.s_[1, :, :]),
        ((2, 3, 4), Window(axes=(0, 2), fixed=(2,), columns=(1, 3)), np.s_[:, 2, 1:3]),
        ((2, 3, 4, 5), Window(axes=(0, 1), fixed=(3, 4)), np.s_[:, :, 3, 4]),
        ((5,), ALL, np.s_[None, :]),
        ((5,), Window((0, 1), (2, 4), (0,)), np.s_[None, 2:4]),
        ((), ALL, np.s_[None, None]),
        ((), Window((0, 1), (0, 1), (), ()), np.s_[None, None]),
    ],
)
def test_a_window_is_shown(make, shape, window, wanted):
    array = grid(*shape)
    picture = picture_of(make(array), window)
    assert picture.values.tolist() == array[wanted].tolist()
    assert picture.values.dtype == np.float64
    assert picture.shape == shape
    assert picture.what == "float64"
    assert not picture.thinned


@wherever
def test_axes_in_the_other_order_turn_the_picture(make):
    array = grid(2, 3, 4)
    picture = picture_of(make(array), Window((0, 4), (0, 2), (2, 0), (1,)))
    assert picture.values.tolist() == array[:, 1, :].T.tolist()


LARGE = [
    ((300, 5), ALL),
    ((5, 300), ALL),
    ((129, 130), Window((1, 129), (1, 130))),
    ((300, 3, 200), Window(axes=(2, 0))),
]


@pytest.mark.parametrize(("case", "make"), in_turn([*product([1, 2, 3, 7, 128], LARGE)], MAKERS))
def test_of_many_lines_some_are_shown_the_first_and_the_last_too(case, make):
    limit, (shape, window) = case
    array = grid(*shape)
    picture = picture_of(make(array), window, limit)
    cut = window.fit(shape)
    plane = np.moveaxis(array, cut.axes, (0, 1)).reshape(shape[cut.axes[0]], shape[cut.axes[1]], -1)[:, :, 0]
    assert picture.values.tolist() == plane[np.ix_(picture.rows, picture.columns)].tolist()
    for lines, span in ((picture.rows, cut.rows), (picture.columns, cut.columns)):
        assert lines.dtype == np.int64
        assert len(lines) == min(limit, len(span))
        assert lines[0] == span[0]
        assert limit == 1 or lines[-1] == span[-1]
        assert (np.diff(lines) > 0).all()
    assert picture.thinned is (limit < max(len(cut.rows), len(cut.columns)))


@pytest.mark.parametrize("make", [cupy_array, tensor])
def test_from_a_device_comes_only_what_is_shown(make):
    array = make(np.zeros((2000, 3000), "f4"))
    picture_of(array, ALL, 10)
    block_of(array, ALL)
    histogram_of(array, sample=1000)
    assert array.fetched[:2] == [100, 160]
    assert array.fetched[2] <= 1000


def test_an_array_whose_library_cannot_give_its_elements_is_not_shown(monkeypatch):
    def fail(self):
        raise RuntimeError("out of memory")

    array = cupy_array(np.zeros(3))
    monkeypatch.setattr(type(array), "get", fail)
    for look in (lambda: picture_of(array, ALL), lambda: statistics_of(array), lambda: histogram_of(array)):
        with pytest.raises(NoPicture, match="its elements cannot be read: out of memory"):
            look()


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_numbers_of_every_type_have_a_picture(dtype):
    array = np.array([[0, 1], [1, 2]]).astype(dtype)
    picture = picture_of(array, ALL)
    assert picture.values.tolist() == array.astype("f8").tolist()
    assert picture.what == str(np.dtype(dtype))


def test_complex_numbers_are_shown_by_their_magnitude():
    picture = picture_of(np.array([[3 + 4j, np.nan]], "c8"), ALL)
    assert picture.values[0, 0] == 5.0
    assert np.isnan(picture.values[0, 1])
    assert picture.what == "|complex64|"


def test_what_is_not_finite_is_kept():
    assert str(picture_of(np.array([np.nan, np.inf, -np.inf]), ALL).values) == "[[ nan  inf -inf]]"


def test_a_number_of_numpys_is_one_element():
    assert picture_of(np.float32(2.5), ALL).values.tolist() == [[2.5]]


def test_numbers_that_numpy_lacks_are_shown_as_pytorch_calls_them():
    picture = picture_of(tensor(np.ones((2, 2)), "torch.bfloat16"), ALL)
    assert (picture.what, picture.values.tolist()) == ("bfloat16", [[1.0, 1.0], [1.0, 1.0]])


@pytest.mark.parametrize("name", NO_ARRAYS)
@pytest.mark.parametrize("look", [picture_of, block_of], ids=lambda look: look.__name__)
def test_what_is_no_array_is_not_shown(look, name):
    value = NO_ARRAYS[name]()
    with pytest.raises(NoPicture, match=f"type {name} has no elements|masked arrays are not shown"):
        look(value, ALL)
    for other in (histogram_of, statistics_of):
        with pytest.raises(NoPicture):
            other(value)


@pytest.mark.parametrize("dtype", [*NO_NUMBERS, "O"], ids=str)
def test_what_is_no_number_has_no_picture(dtype):
    array = np.zeros((2, 2), dtype)
    for look in (lambda: picture_of(array, ALL), lambda: histogram_of(array), lambda: statistics_of(array)):
        with pytest.raises(NoPicture, match="are not numbers"):
            look()


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 3)])
def test_an_array_without_elements_is_not_shown(shape):
    for look in (picture_of, block_of):
        with pytest.raises(NoPicture, match="has no elements"):
            look(np.zeros(shape), ALL)


@pytest.mark.parametrize("limit", [0, -1, 2.0, None, True])
def test_a_limit_is_a_whole_number(limit):
    for look in (
        lambda: picture_of(np.zeros(3), ALL, limit),
        lambda: block_of(np.zeros(3), ALL, (limit, 3)),
        lambda: histogram_of(np.zeros(3), limit),
        lambda: histogram_of(np.zeros(3), 3, limit),
        lambda: statistics_of(np.zeros(3), None, limit),
    ):
        with pytest.raises(UsageMistake, match="expected a whole number of at least 1"):
            look()


def holding(value, dtype):
    """An array with one element, which NumPy does not look into."""
    array = np.empty(1, dtype)
    array[0] = value
    return array


# --- blocks ----------------------------------------------------------------------------------------


@wherever
def test_a_block_begins_at_the_corner_of_the_window(make):
    block = block_of(make(grid(30, 40, dtype="i4")), Window((5, 30), (38, 40)))
    assert block.cells[0] == ("238", "239")
    assert len(block.cells) == 16
    assert (block.rows, block.columns, block.shape) == (range(5, 21), range(38, 40), (30, 40))


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.array([0.1], "f4"), "0.1"),
        (np.array([1 / 3]), "0.3333333333333333"),
        (np.array([np.nan]), "nan"),
        (np.array([1e300]), "1e+300"),
        (np.array([1 + 2j]), "(1+2j)"),
        (np.array([True]), "True"),
        (np.array([2**64 - 1], "u8"), "18446744073709551615"),
        (np.array([1.5], ml_dtypes.bfloat16), "1.5"),
        (np.array(["it's"]), '"it\'s"'),
        (np.array([b"raw"]), "b'raw'"),
        (np.array(["x" * 100]), "'" + "x" * 22 + "\u2026"),
        (np.array(["2020-01-02"], "M8[D]"), "2020-01-02"),
        (np.array([5], "m8[s]"), "5 seconds"),
        (np.array([(1, 2.5)], [("a", "i4"), ("b", "f8")]), "(1, 2.5)"),
        (holding(Touchy(), "O"), "Touchy"),
        (np.array([None]), "NoneType"),
        (holding(Touchy(), "O").reshape(()), "Touchy"),
        (holding((Touchy(), 1), [("a", "O"), ("b", "i4")]), "objects"),
        (np.array(7), "7"),
    ],
    ids=lambda value: value if isinstance(value, str) else str(value.dtype),
)
def test_an_element_is_written_exactly_and_shortly(array, text):
    assert block_of(array, ALL).cells == ((text,),)


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="NumPy 2 has it")
def test_numpys_variable_text_is_written():
    assert block_of(np.array(["a", "bc"], np.dtypes.StringDType()), ALL).cells == (("'a'", "'bc'"),)


# --- the stand-ins ---------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [cupy_array, tensor])
def test_a_stand_in_is_not_read_by_numpy_itself(make):
    with pytest.raises(TypeError, match="is not converted"):
        np.asarray(make(np.zeros(3)))


def test_a_stand_in_for_a_tensor_has_to_be_forced_and_numpy_lacks_its_bfloat16():
    assert tensor(np.ones(2)).numpy(force=True).tolist() == [1.0, 1.0]
    for refused in (
        lambda: tensor(np.ones(2)).numpy(),
        lambda: tensor([1], "torch.bfloat16").numpy(force=True),
    ):
        with pytest.raises(TypeError):
            refused()


def test_a_stand_in_says_where_it_is():
    assert str(cupy_array([1]).device) == "<CUDA Device 0>"
    assert tensor([1]).device == "cuda:0"
