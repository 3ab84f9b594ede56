"""What a worker finds in its registers, part by part, and how far two workers are apart."""

from __future__ import annotations

import numpy as np
import pytest

from disco_magic.values import divergence
from disco_magic.values.distances import gap
from disco_magic.values.divergence import look, survey
from tests.values.conftest import without_address

ml_dtypes = pytest.importorskip("ml_dtypes")
MASKED = f"{np.ma.MaskedArray.__module__}.MaskedArray"  # of `numpy.ma.core` before NumPy 2


def held(value, *, values=True):
    return look(value, values=values)


def parts(value, *, values=False):
    return dict(survey("v", value, values=values))


# --- what a value is -------------------------------------------------------------------------------


class Raising:
    """Raises whatever it is asked, also for its shape, its hash and its class."""

    def __getattribute__(self, name):
        raise RuntimeError(name)

    def __eq__(self, other):
        raise RuntimeError("==")

    def __hash__(self):
        raise RuntimeError("hash")

    def __repr__(self):
        raise RuntimeError("repr")


class Tensor:
    """Looks like another library's array."""

    def __init__(self, shape=(2, 3), dtype="half", device="cuda:0"):
        self.shape, self.dtype, self.device = shape, dtype, device


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (np.zeros((2, 3), "float32"), "float32 (2, 3)"),
        (np.ma.zeros(2), f"{MASKED} float64 (2,)"),
        (np.float32(1), "numpy.float32"),
        (3, "int"),
        (None, "NoneType"),
        ([1, "a", 2.0], "list of 3 (float, int, str)"),
        ({"a": 1, "b": np.zeros(2)}, "dict of 2 (int)"),
        ({1, 2}, "set of 2 (int)"),
        (Tensor(), "tests.values.test_divergence.Tensor half (2, 3) cuda:0"),
        (Tensor(device=None), "tests.values.test_divergence.Tensor half (2, 3)"),
        (Tensor(shape=[2, 3]), "tests.values.test_divergence.Tensor"),
        (Tensor(shape=("?", 3)), "tests.values.test_divergence.Tensor"),
        (Tensor(dtype=None), "tests.values.test_divergence.Tensor"),
        (len, "builtin_function_or_method"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_a_value_is_described_by_type_shape_and_dtype(value, kind):
    assert held(value, values=False).kind == kind
    assert held(value).kind == kind


def test_objects_that_raise_whatever_they_are_asked_are_described_by_their_type():
    assert held(Raising()).kind == "tests.values.test_divergence.Raising"
    assert held(Raising()).opaque == "values of type tests.values.test_divergence.Raising cannot be compared"
    found = held(Tensor(dtype=Raising()))
    assert found.kind == "tests.values.test_divergence.Tensor (2, 3)"
    assert parts({"a": Raising()})["v['a']"].kind == "tests.values.test_divergence.Raising"


def test_a_value_is_not_digested_unless_it_was_asked_for():
    assert held(np.zeros(3), values=False).digest == b""
    assert held([1, 2], values=False).digest == b""
    assert held(3, values=False) == divergence.Held("int")


# --- digests of other values -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 2),
        ("a", "b"),
        ([1, 2], [2, 1]),
        ([1, np.float32(2)], [1, np.float32(3)]),
        ({"a": 1}, {"b": 1}),
        ({1, 2}, {1, 3}),
        (np.zeros(2), np.ones(2)),
        (np.zeros(2).view(np.matrix), np.ones(2).view(np.matrix)),
    ],
    ids=lambda part: type(part).__name__,
)
def test_values_that_differ_have_different_digests(one, other):
    assert held(one).digest != held(other).digest
    assert held(one).digest == held(one).digest


def test_the_order_in_which_a_dict_was_filled_is_not_part_of_its_value():
    assert held({"a": 1, "b": 2}).digest == held({"b": 2, "a": 1}).digest


def test_short_values_are_shown_beside_their_digest():
    assert held(0.5).text == "0.5"
    assert held(np.array([1, 2])).text == "[1 2]"
    assert held(np.zeros(100)).text == ""


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (Tensor(), "values of type tests.values.test_divergence.Tensor cannot be compared"),
        (np.ma.zeros(2), f"values of type {MASKED} cannot be compared"),
        (np.array([object()]), "its elements are Python objects"),
        ({frozenset(): 1}, "its keys are objects"),
        ({float("nan"): 1, float("nan"): 2}, "several of its keys are written alike"),
        ({(1, 2)}, "it is a set of objects"),
    ],
    ids=["foreign", "masked", "objects", "keys", "NaN", "set"],
)
def test_what_cannot_be_compared_says_why(value, why):
    found = held(value)
    assert (found.digest, found.opaque) == (b"", why)


# --- parts -----------------------------------------------------------------------------------------


def test_arrays_containers_and_objects_in_containers_are_parts():
    nested = {"w": np.zeros(2), "n": 3, "layers": [np.zeros(3), "name", Tensor()]}
    assert {path: part.kind for path, part in parts(nested).items()} == {
        "v": "dict of 3 (int)",
        "v['w']": "float64 (2,)",
        "v['layers']": "list of 3 (str)",
        "v['layers'][0]": "float64 (3,)",
        "v['layers'][2]": "tests.values.test_divergence.Tensor half (2, 3) cuda:0",
    }


def test_a_list_that_contains_itself_comes_to_an_end_and_is_compared_as_such():
    endless = []
    endless.append(endless)
    found = parts(endless, values=True)
    assert [(part.kind, part.text, part.opaque) for part in found.values()] == [
        ("list of 1", "", ""),
        ("itself", "v", ""),
    ]
    other = [[]]
    other[0].append(other[0])
    assert parts(other, values=True)["v[0][0]"].digest != parts([other], values=True)["v[0][0]"].digest


@pytest.mark.parametrize(
    ("value", "unseen"),
    [
        (object(), "what is in object"),
        (Tensor(), ""),
        (len, ""),
        (np, ""),
        (Tensor, ""),
        (np.array([object()]), "objects in an array"),
        ({(1, 2)}, "objects in a set"),
        ({frozenset(): 1}, ""),
        ({frozenset(): []}, "objects in a dict"),
        ({1: 2}, ""),
    ],
    ids=without_address,
)
@pytest.mark.parametrize("values", [False, True])
def test_what_is_not_looked_into_is_said_whether_values_are_compared_or_not(value, unseen, values):
    assert held(value, values=values).unseen == unseen


def test_what_lies_too_deep_or_comes_too_late_is_said_in_all_modes():
    deep = [[]]
    for _ in range(8):
        deep = [deep]
    assert [part.unseen for part in parts(deep).values()] == [""] * 8 + ["parts in more than 8 containers"]
    assert parts([[] for _ in range(1001)])["v"].unseen == "parts after the first 1,000"
    assert parts([[] for _ in range(1000)])["v"].unseen == ""


def test_of_very_many_parts_the_rest_is_said_to_be_left_out(monkeypatch):
    assert divergence.PARTS_BY_VALUE == 10_000
    monkeypatch.setattr(divergence, "PARTS_BY_VALUE", 1_100)  # more than are looked at without their values
    many = [[] for _ in range(1_101)]
    assert parts(many[:1_100], values=True)["v"].opaque == ""
    assert parts(many, values=True)["v"].opaque == "it has more than 1,100 parts"
    assert (parts(many, values=True)["v"].cut, parts(many[:3], values=True)["v"].cut) == (True, False)
    assert parts(many)["v"].opaque == ""


# --- gaps ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("samples", "shape", "words"),
    [
        (
            [[1.0, 2.0], [1.0, 2.5]],
            (2, 1),
            "1 of 2 elements differs from the first worker's, by up to 0.5, at [1, 0]",
        ),
        (
            [[1, 2, 3, 4], [1, 2, 3, 5], [1, 2, 0, 4]],
            (2, 2),
            "2 of 4 elements differ from the first worker's, by up to 3, the first at [1, 0]",
        ),
        ([[1, 2], [2, 3], [1, 9]], (2,), "2 of 2 elements differ from the first worker's, by up to 7"),
        (
            [[1.0, np.nan], [1.0, 2.0]],
            (2,),
            "1 of 2 elements differs from the first worker's, at [1]; 1 is NaN in some only",
        ),
        (
            [[1.0, 2.0, np.nan], [1.5, np.nan, 3.0], [1.5, np.nan, 3.0]],
            (3,),
            (
                "3 of 3 elements differ from the first worker's, by up to 0.5 where both are finite"
                "; 2 are NaN in some only"
            ),
        ),
        (
            [[1.0, np.inf], [3.0, 2.0]],
            (9,),
            "2 of 2 sampled elements differ from the first worker's, by up to 2 where both are finite",
        ),
        (
            [[0.0, np.nan], [-0.0, np.nan]],
            (2,),
            "as numbers they are equal: signs of zeros differ, or bits of NaNs",
        ),
        ([[0.0], [0.0]], (9,), "none of the 1 elements that were compared, of 9, differs as a number"),
        ([["a"], ["b"]], (), "1 of 1 elements differs from the first worker's"),
        ([[1 + 1j], [1 - 1j]], (1,), "1 of 1 elements differs from the first worker's, by up to 2"),
    ],
)
def test_a_gap_says_how_many_elements_differ_how_far_and_where(samples, shape, words):
    assert gap([np.array(sample) for sample in samples], shape) == words


def test_the_gap_of_records_counts_them():
    assert gap([np.array([(1, 2)], "i4,i4"), np.array([(1, 3)], "i4,i4")], (1,)).startswith(
        "1 of 1 elements differs"
    )
    assert gap([np.array([1], ml_dtypes.bfloat16), np.array([3], ml_dtypes.bfloat16)], (1,)).endswith(
        "by up to 2"
    )
