"""How far two values are apart, over all their elements."""

from __future__ import annotations

import threading
import warnings
from itertools import pairwise, product

import numpy as np
import pytest

from disco_magic.callers.namespaces import CELL_MODULE
from disco_magic.errors import UsageMistake
from disco_magic.values.peek import Stopped, Window, difference_of
from tests.doubles.arrays import cupy_array, tensor
from tests.sampled import in_turn
from tests.values.values import ALL, MAKERS, NO_NUMBERS, NUMBERS, Touchy, grid, wherever


def facts(difference):
    return difference.max_abs, difference.where, difference.values, difference.differing, difference.size


@pytest.mark.parametrize(
    ("case", "make"),
    in_turn([*product([(), (9,), (4, 5), (3, 4, 5), (2, 1, 3, 2)], [1, 7, 64, 1 << 20])], MAKERS),
)
def test_the_one_odd_element_is_found(case, make):
    shape, chunk = case
    a, b = grid(*shape), grid(*shape)
    spot = tuple(length // 2 for length in shape)
    b[spot] += 3
    found = difference_of(make(a), make(b), ALL, chunk=chunk)
    assert facts(found) == (3.0, spot, (str(a[spot]), str(b[spot])), 1, a.size)
    assert found.max_rel == pytest.approx(3 / b[spot])
    assert (found.reason, found.note) == ("", "")


@wherever
def test_equal_arrays_are_not_apart(make):
    found = difference_of(make(grid(4, 5)), make(grid(4, 5)), ALL)
    assert facts(found) == (0.0, None, None, 0, 20)
    assert found.max_rel == 0.0
    assert found.picture.values.tolist() == [[0.0] * 5] * 4


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_numbers_of_every_type_are_compared(dtype):
    a, b = np.array([0, 1, 1, 0]).astype(dtype), np.array([0, 1, 0, 1]).astype(dtype)
    found = difference_of(a, b, ALL)
    assert (found.max_abs, found.max_rel, found.where, found.differing) == (1.0, 1.0, (2,), 2)
    assert found.picture.values.tolist() == [[0.0, 0.0, 1.0, 1.0]]


def test_the_first_of_the_furthest_is_told_and_all_that_differ_are_counted():
    a = np.zeros((3, 4))
    b = np.array([[0, 1, 0, 0], [0, -5, 5, 0], [0, 0, 0, 2]], float)
    assert facts(difference_of(a, b, ALL, chunk=3)) == (5.0, (1, 1), ("0.0", "-5.0"), 4, 12)


def test_unsigned_integers_do_not_wrap_around():
    found = difference_of(np.array([0, 5], "u8"), np.array([2**64 - 1, 4], "u8"), ALL)
    assert facts(found) == (2.0**64, (0,), ("0", "18446744073709551615"), 2, 2)


def test_nan_equals_nan_and_is_infinitely_far_from_a_number():
    a, b = np.array([np.nan, np.nan, 1, np.inf]), np.array([np.nan, 1, 1.5, np.inf])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = difference_of(a, b, ALL)
    assert facts(found) == (np.inf, (1,), ("nan", "1.0"), 2, 4)
    assert found.max_rel == np.inf
    assert found.picture.values.tolist() == [[0.0, np.inf, 0.5, 0.0]]


def test_complex_numbers_are_apart_by_the_magnitude():
    found = difference_of(np.array([3 + 4j, 1j], "c8"), np.array([0, 1j], "c8"), ALL)
    assert (found.max_abs, found.max_rel, found.differing) == (5.0, 1.0, 1)
    assert (found.picture.what, found.picture.values.tolist()) == ("|complex64|", [[5.0, 0.0]])


def test_the_relative_difference_is_of_the_larger_one():
    found = difference_of(np.array([1.0, 100.0, -1.0]), np.array([2.0, 101.0, 1.0]), ALL)
    assert (found.max_abs, found.max_rel) == (2.0, 2.0)


def test_arrays_of_different_types_are_compared_with_a_note():
    found = difference_of(np.array([1, 2], "i4"), np.array([1, 2.5], "f4"), ALL)
    assert facts(found) == (0.5, (1,), ("2", "2.5"), 1, 2)
    assert found.note == "int32 and float32 were compared as float64"
    across = difference_of(cupy_array(np.ones(2)), tensor(np.ones(2), "torch.bfloat16"), ALL)
    assert (across.differing, across.note) == (0, "float64 and bfloat16 were compared as float64")


def test_arrays_of_different_shapes_are_not_compared():
    found = difference_of(np.zeros(3), np.zeros((3, 1)), ALL)
    assert found.reason == "their shapes differ: (3,) and (3, 1)"
    assert (found.picture, found.max_abs, found.differing, found.size) == (None, None, None, 3)


@pytest.mark.parametrize("shape", [(0,), (3, 0)])
def test_arrays_without_elements_are_equal(shape):
    found = difference_of(np.zeros(shape), np.zeros(shape), ALL)
    assert (found.differing, found.size, found.picture, found.reason) == (0, 0, None, "")


# --- pictures --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("case", "make"),
    in_turn([*product([(50,), (13, 29), (29, 13), (1, 40)], [1, 2, 7, 128], [1, 5, 37, 1 << 20])], MAKERS),
)
def test_every_tile_shows_its_largest_difference(case, make):
    shape, limit, chunk = case
    apart = np.random.default_rng(1).integers(0, 1000, shape).astype("f8")
    picture = difference_of(make(np.zeros(shape)), make(apart), ALL, limit, chunk=chunk).picture
    plane = apart.reshape(-1, shape[-1])
    assert picture.values.shape == tuple(min(limit, length) for length in plane.shape)
    rows, columns = [*picture.rows, plane.shape[0]], [*picture.columns, plane.shape[1]]
    wanted = [
        [plane[top:bottom, left:right].max() for left, right in pairwise(columns)]
        for top, bottom in pairwise(rows)
    ]
    assert picture.values.tolist() == wanted
    assert picture.thinned is (limit < max(plane.shape))


def test_the_picture_is_of_the_window_and_the_rest_of_the_whole():
    a, b = grid(4, 6, 8), grid(4, 6, 8)
    b[3, 5, 7] += 1
    b[2, 1, 4] += 0.5
    found = difference_of(a, b, Window((1, 3), (3, 8), (0, 2), (1,)))
    assert (found.max_abs, found.where, found.differing) == (1.0, (3, 5, 7), 2)
    assert found.picture.values.tolist() == [[0.0] * 5, [0.0, 0.5, 0.0, 0.0, 0.0]]
    assert (found.picture.rows.tolist(), found.picture.columns.tolist()) == ([1, 2], [3, 4, 5, 6, 7])
    turned = difference_of(a, b, Window((3, 8), (1, 3), (2, 0), (1,)))
    assert turned.picture.values.tolist() == found.picture.values.T.tolist()


def test_a_window_that_does_not_fit_is_refused():
    with pytest.raises(UsageMistake, match="rows expected"):
        difference_of(np.zeros((2, 2)), np.zeros((2, 2)), Window((0, 3)))
    with pytest.raises(UsageMistake, match="limit is 0"):
        difference_of(np.zeros(2), np.zeros(2), ALL, 0)
    with pytest.raises(UsageMistake, match="chunk is 0"):
        difference_of(np.zeros(2), np.zeros(2), ALL, chunk=0)


def test_progress_goes_through_all_elements_and_then_the_picture():
    told = []
    difference_of(grid(10), grid(10), ALL, 128, lambda *args: told.append(args), chunk=4)
    assert [total for _, total in told] == [20] * len(told)
    assert [done for done, _ in told] == [4, 8, 10, 14, 18, 20]
    for last in (4, 14):
        with pytest.raises(Stopped):
            difference_of(grid(10), grid(10), ALL, 128, lambda done, total, last=last: done < last, chunk=4)


# --- what cannot be subtracted ---------------------------------------------------------------------


@pytest.mark.parametrize("dtype", NO_NUMBERS, ids=str)
def test_elements_that_are_no_numbers_are_equal_or_not(dtype):
    a = np.zeros(10, dtype)
    b = a.copy()
    b.view(np.uint8).reshape(10, -1)[7, 0] = 65
    same, other = difference_of(a, a.copy(), ALL, chunk=3), difference_of(a, b, ALL, chunk=3)
    assert same.reason == f"elements of type {a.dtype} cannot be subtracted; they are equal"
    assert other.reason == f"elements of type {a.dtype} cannot be subtracted; 1 of 10 differ"
    assert (other.where, other.differing, other.max_abs, other.picture) == ((7,), 1, None, None)
    assert other.values[0] != other.values[1]


@pytest.mark.parametrize(
    ("a", "b", "names"),
    [
        (np.array([None]), np.array([None]), "object"),
        (np.array(["a"]), np.array([1]), "<U1 and int64"),
        (np.array(["a"]), np.array(["bc"]), "<U1 and <U2"),
    ],
    ids=["objects", "text and numbers", "texts"],
)
def test_elements_that_only_their_own_code_could_compare_are_not_compared(a, b, names):
    found = difference_of(a, b, ALL)
    assert found.reason == f"elements of type {names} cannot be compared"
    assert (found.differing, found.size) == (None, 1)


def nested(depth, value):
    for _ in range(depth):
        value = [value]
    return value


class Own(list):
    """A list with code of its own."""


@pytest.mark.parametrize(
    ("a", "b", "differing"),
    [
        (1, 1, 0),
        (1, 2, 1),
        (1, 1.0, 1),
        ("a", "a", 0),
        (None, None, 0),
        ([1, [2.5, "x"]], [1, [2.5, "x"]], 0),
        ([1, [2.5, "x"]], [1, [2.5, "y"]], 1),
        ({"w": np.ones(3)}, {"w": np.ones(3)}, 0),
        ({"w": np.ones(3)}, {"w": np.zeros(3)}, 1),
        ({1, 2}, {2, 1}, 0),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, 0),
        ({(1,): 2}, {(1,): 2}, 0),
        (nested(20, {"a": 1, "b": 2}), nested(20, {"b": 2, "a": 1}), 0),
        pytest.param(10**5000, 10**5000, 0, id="digits"),
        ([float("nan")] * 2000, [float("nan")] * 2000, 0),
        (frozenset("a"), frozenset("b"), 1),
        ((1,), [1], 1),
        (np.ones(1), [1.0], 1),
        (5, np.int64(5), 1),
    ],
    ids=repr,
)
def test_plain_values_are_equal_or_not(a, b, differing):
    found = difference_of(a, b, ALL)
    assert (found.differing, found.size, found.picture) == (differing, 1, None)
    told, _, where = found.reason.partition(": ")
    assert told.endswith("they differ" if differing else "they are equal")
    assert "cannot be subtracted" in told
    assert bool(where) == (differing and type(a) is type(b) and type(a) in (list, dict))


class Layer:
    def __init__(self, w):
        self.w = w


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (
            [0, Layer({"a": np.ones(3) + 1e-9})],
            "[1].w['a']: 3 of 3 elements differ from the first one's, by up",
        ),
        ([0, Layer({"a": [1]})], "[1].w['a']: list, the first one's is ndarray"),
        ([2, Layer({"a": np.ones(3)})], "[0]: 2, the first one's is 0"),
    ],
)
def test_of_containers_and_objects_the_first_part_that_differs_is_told(other, told):
    found = difference_of([0, Layer({"a": np.ones(3)})], other, ALL)
    assert found.differing == 1
    assert found.reason.startswith(f"values of type list cannot be subtracted; they differ: {told}")


def looped():
    value = []
    value.append(value)
    return value


OPAQUE = {
    "object": Touchy,
    "object with a lock": lambda: Layer(threading.Lock()),
    "lock": threading.Lock,
    "in a list": lambda: [Touchy()],
    "in a dict": lambda: {"a": Touchy()},
    "own class": lambda: Own([1]),
    "objects": lambda: [np.array([threading.Lock()])],
    "masked": lambda: np.ma.masked_array([1], [0]),
}
TOO_LARGE = {
    "itself": looped,
    "long": lambda: [1] * 100_001,
    "long in all": lambda: [[1] * 60_000, [1] * 60_000],
}


@pytest.mark.parametrize("name", OPAQUE)
def test_what_only_its_own_code_could_compare_is_not_compared(name):
    found = difference_of(OPAQUE[name](), OPAQUE[name](), ALL)
    assert found.reason == (
        f"values of type {type(OPAQUE[name]()).__name__} cannot be subtracted;"
        " what is in them is not compared as a whole"
    )
    assert found.differing is None


@pytest.mark.parametrize("make", TOO_LARGE.values(), ids=TOO_LARGE)
def test_of_what_is_too_large_it_is_said_that_it_is_not_compared(make):
    found = difference_of(make(), make(), ALL)
    assert found.reason.endswith("cannot be subtracted; what is in them is not compared as a whole")
    assert found.differing is None


def test_objects_of_classes_that_each_worker_has_defined_are_compared():
    def made(weights, name="Net"):
        return type(name, (Layer,), {"__module__": CELL_MODULE})(weights)

    found = difference_of(made(np.zeros(3)), made(np.ones(3)), ALL)
    assert found.differing == 1
    told = "they differ: .w: 3 of 3 elements differ from the first one's, by up to 1"
    assert found.reason == f"values of type Net cannot be subtracted; {told}"
    found = difference_of(made(np.zeros(3)), made(np.zeros(3)), ALL)
    assert (found.differing, found.reason) == (0, "values of type Net cannot be subtracted; they are equal")
    found = difference_of(made(np.zeros(3)), made(np.zeros(3), "Other"), ALL)
    assert found.reason == "values of type Net and Other cannot be subtracted; they differ"


def test_what_is_found_equal_in_a_part_only_is_not_called_equal():
    def made(end):
        return Layer("x" * 5000 + end)

    found = difference_of(made("a"), made("a"), ALL)
    assert found.differing is None
    assert found.reason.endswith("; no difference was found in the elements that were compared")
    assert difference_of(made("a"), made("bc"), ALL).differing == 1


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_tables_are_equal_or_not(library):
    frames = pytest.importorskip(library)
    kinds = [frames.Series, lambda items: frames.DataFrame({"a": items})]
    for make in kinds:
        for items, others in (([1.0, 2.0], [1.0, 3.0]), (["a", "b"], ["a", "c"])):
            assert difference_of(make(items), make(items), ALL).differing == 0
            assert difference_of(make(items), make(others), ALL).differing == 1


def test_tables_with_other_labels_differ():
    pd = pytest.importorskip("pandas")
    found = difference_of(pd.Series(["a", "b"]), pd.Series(["a", "b"], index=[5, 6]), ALL)
    told = "values of type Series cannot be subtracted; their labels differ"
    assert (found.differing, found.reason) == (1, told)


def test_values_of_two_types_are_both_named():
    assert difference_of(1, "a", ALL).reason.startswith("values of type int and str cannot be subtracted")


@pytest.mark.parametrize(
    ("window", "spot"),
    [
        (Window(), (1, 2)),
        (Window(axes=(2, 1)), (2, 1)),
        (Window(axes=(0, 2)), None),
        (Window(axes=(0, 2), fixed=(1,)), (0, 2)),
        (Window(fixed=(1,)), None),
    ],
)
def test_the_spot_is_where_the_largest_difference_lies_in_the_plane_that_is_shown(window, spot):
    a, b = np.zeros((2, 3, 4)), np.zeros((2, 3, 4))
    b[0, 1, 2] = 5
    found = difference_of(a, b, window)
    assert found.where == (0, 1, 2)
    assert found.spot == spot


def test_the_spot_of_one_axis_is_in_the_only_row():
    assert difference_of(np.zeros(3), np.array([0.0, 0, 1]), Window()).spot == (0, 2)
    assert difference_of(np.zeros(3), np.zeros(3), Window()).spot is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.array([2**62 + 1]), np.array([2**62], "u8")),
        (np.array([2**60], ">i8"), np.array([2**60 + 1], "<i8")),
        (np.array([2**53 + 1]), np.array([2.0**53])),
        (np.array([-1]), np.array([2**64 - 1], "u8")),
    ],
)
def test_whole_numbers_of_64_bits_are_not_rounded_to_others(one, other):
    if np.finfo(np.longdouble).nmant < 63:
        pytest.skip("no type has enough bits here")
    assert difference_of(one, other, Window()).differing == 1


@pytest.mark.parametrize(
    ("a", "b"),
    [({1}, {True}), ({1: "a"}, {True: "a"}), ([{"a": {(1, 2): 3}}], [{"a": {(1, 2.0): 3}}])],
    ids=repr,
)
def test_what_only_python_takes_for_the_same_key_differs(a, b):
    # `==` was asked, for which these are equal; tables say that they differ.
    assert difference_of(a, b, ALL).differing == 1


def test_a_dict_has_no_order():
    one, other = {1: 2, 3: {"a": 1, "b": [2]}}, {3: {"b": [2], "a": 1}, 1: 2}
    assert difference_of(one, other, Window()).differing == 0
    assert difference_of(one, {**other, 1: 3}, Window()).differing == 1
