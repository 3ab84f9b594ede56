"""What tables show of a value, and how values are compared."""

from __future__ import annotations

import functools
import threading
import types

import numpy as np
import pytest

from disco_magic.core.registers import Poison
from disco_magic.errors import Failure
from disco_magic.functions.describe import SAMPLE, describe, sample_of, statistics
from disco_magic.functions.fingerprint import fingerprint
from tests.functions.conftest import without_address

ml_dtypes = pytest.importorskip("ml_dtypes")


class Touchy:
    """Fails when any of its own code runs."""

    def _no(self, *_):
        raise AssertionError("a user's code ran")

    __repr__ = __str__ = __len__ = __array__ = __hash__ = __eq__ = __iter__ = __getattr__ = _no
    shape = dtype = nbytes = device = __class__ = property(_no)


class TouchyList(list):
    __repr__ = __len__ = __iter__ = Touchy._no


class Nameless:
    __module__ = None


def describe_text(value):
    return describe(value).text


# --- pictures --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [Touchy, lambda: TouchyList([1]), lambda: [Touchy()], lambda: (Touchy(),), lambda: {"k": Touchy()}],
    ids=["object", "subclass of list", "in a list", "in a tuple", "in a dict"],
)
def test_describing_runs_no_code_of_the_value(make):
    value = make()
    assert describe(value).type == type(value).__name__


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "None"),
        (True, "True"),
        (-5, "-5"),
        (2.5, "2.5"),
        (1j, "1j"),
        ("text", "'text'"),
        (b"raw", "b'raw'"),
        ([1, 2], "2 items"),
        ((), "0 items"),
        ({"a": 1}, "1 items"),
        ({1}, "1 items"),
        (frozenset(), "0 items"),
        (len, "len"),
        (describe, "describe"),
        (int, "int"),
        (types, "types"),
        (functools.partial(len), "functools.partial"),
        (Nameless(), "None.Nameless"),
    ],
    ids=without_address,
)
def test_a_value_has_a_short_text(value, text):
    assert describe(value).text == text


def test_a_text_is_at_most_sixty_characters_on_one_line():
    text = describe_text("word\n" * 100)
    assert len(text) == 60
    assert text.endswith("…")
    assert "\n" not in text


@pytest.mark.parametrize("value", [10**5000, -(10**5000), 2**100_000], ids=["big", "negative", "bigger"])
def test_an_integer_too_long_to_write_is_described_and_compared(value):
    assert describe(value).text.startswith(("0x", "-0x"))
    assert fingerprint(value) == fingerprint(value + 0)
    assert fingerprint(value) != fingerprint(value + 1)


def test_an_array_is_described_by_shape_dtype_bytes_and_statistics():
    info = describe(np.array([[1, 2], [3, 4]], "f4"))
    assert (info.type, info.shape, info.dtype, info.device) == ("ndarray", (2, 2), "float32", "cpu")
    assert (info.nbytes, info.minimum, info.mean, info.maximum) == (16, 1.0, 2.5, 4.0)
    assert info.text == "[[1. 2.] [3. 4.]]"
    assert not info.sampled


def test_a_numpy_scalar_is_an_array_of_no_axes():
    info = describe(np.float64(2.5))
    assert (info.type, info.shape, info.dtype, info.minimum) == ("float64", (), "float64", 2.5)


def test_a_long_array_has_no_text_and_is_sampled():
    info = describe(np.zeros(SAMPLE + 1))
    assert info.text == ""
    assert info.sampled


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        ("V8", (2,)),
        ([("a", "i4")], (2,)),
        ("O", (2,)),
        ("S3", (2,)),
        ("U2", (2,)),
        ("M8[s]", (2,)),
        ("c8", (2,)),
        ("f8", (0,)),
    ],
    ids=str,
)
def test_a_dtype_without_order_has_no_statistics(dtype, shape):
    info = describe(np.zeros(shape, dtype))
    assert (info.minimum, info.mean, info.maximum) == (None, None, None)
    assert info.shape == shape


def test_bfloat16_has_statistics():
    assert describe(np.array([1, 3], ml_dtypes.bfloat16)).mean == 2.0


def test_booleans_have_statistics():
    assert describe(np.array([True, False])).mean == 0.5


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="NumPy 2 has it")
def test_numpys_variable_text_is_described():
    info = describe(np.array(["a", "bc"], np.dtypes.StringDType()))
    assert info.shape == (2,)


def test_statistics_leave_out_what_is_not_finite():
    assert statistics(np.array([1.0, np.nan, np.inf, 3.0])) == (1.0, 2.0, 3.0)


def test_nothing_finite_means_no_statistics():
    assert statistics(np.array([np.nan])) == (None, None, None)


def test_a_failed_register_shows_its_failure():
    poison = Poison(Failure(0, 1, "call f", ValueError("boom"), ""), reported=True)
    info = describe(poison)
    assert (info.type, info.text) == ("failed", "ValueError: boom")


def test_an_array_of_another_library_is_described_by_its_attributes():
    def tensor(name, **attributes):
        return type("Tensor", (), {"__module__": name, **attributes})()

    info = describe(tensor("torch", shape=(2, 3), dtype="torch.float32", device="cuda:0", nbytes=24))
    assert (info.type, info.shape, info.dtype) == ("Tensor", (2, 3), "torch.float32")
    assert (info.device, info.nbytes) == ("cuda:0", 24)
    bare = describe(tensor("jax.thing", nbytes="unknown"))
    assert (bare.shape, bare.dtype, bare.device, bare.nbytes) == (None, None, "cpu", 0)


# --- samples ---------------------------------------------------------------------------------------


def test_a_small_array_is_its_own_sample():
    sample, sampled = sample_of(np.arange(6).reshape(2, 3))
    assert sample.tolist() == [0, 1, 2, 3, 4, 5]
    assert not sampled


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_sample_is_spread_over_all_columns(order):
    array = np.asarray(np.broadcast_to(np.arange(1024), (1024, 1024)), order=order)
    sample, sampled = sample_of(array)
    assert sampled
    assert sample.size <= SAMPLE
    assert len(np.unique(sample)) == 1024


def test_a_difference_between_workers_that_the_sample_saw_is_in_the_fingerprint():
    a = np.zeros(4)
    b = a.copy()
    b[3] = 1
    assert describe(a).fingerprint != describe(b).fingerprint
    assert describe(a).fingerprint == describe(a.copy()).fingerprint


def test_long_texts_that_differ_in_length_differ():
    a, b = describe("x" * SAMPLE), describe("x" * (SAMPLE + 1))
    assert a.fingerprint != b.fingerprint
    assert (a.sampled, b.sampled) == (False, True)


def test_objects_in_an_array_are_not_compared():
    assert describe(np.array([object()])).fingerprint == b""


# --- fingerprints ----------------------------------------------------------------------------------


def looped(value):
    loop = [value]
    loop.append(loop)
    return loop


class Twin:
    """Shows every value alike."""

    def __init__(self, value):
        self.value = value

    def __repr__(self):
        return "Twin"


class Locked:
    def __init__(self, name):
        self.lock = threading.Lock()
        self.name = name

    def __repr__(self):
        return f"Locked {self.name}"


MAKERS = [
    lambda v: v,
    lambda v: np.full(3, v),
    lambda v: np.full(100_000, v),
    lambda v: np.array([v], object),
    np.float64,
    lambda v: [1, v],
    lambda v: (v, [v, {"k": v}]),
    lambda v: {v: 1},
    lambda v: "text" * v,
    Twin,
    Locked,
    looped,
]


@pytest.mark.parametrize("make", MAKERS, ids=range(len(MAKERS)))
def test_fingerprints_are_equal_for_equal_values_and_differ_for_others(make):
    assert fingerprint(make(1)) == fingerprint(make(1))
    assert fingerprint(make(1)) != fingerprint(make(2))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (1, True),
        (1, 1.0),
        ("1", b"1"),
        ([1], (1,)),
        (np.zeros(4), np.zeros((2, 2))),
        (np.zeros(2, "f4"), np.zeros(2, "i4")),
        (np.float32(0), np.zeros((), "f4")),
        ([[1], [2]], [[1, 2]]),
        (0.1 + 0.2, 0.3),
        ("\ud800", "\ud801"),
    ],
    ids=repr,
)
def test_values_that_look_alike_but_differ_have_other_fingerprints(a, b):
    assert fingerprint(a) != fingerprint(b)


def test_strides_do_not_matter():
    array = np.arange(6).reshape(2, 3)
    assert fingerprint(array) == fingerprint(np.asfortranarray(array))


def test_a_deep_container_is_compared_to_its_end():
    def deep(value):
        for _ in range(100):
            value = [value]
        return value

    assert fingerprint(deep(1)) == fingerprint(deep(1))
    assert fingerprint(deep(1)) != fingerprint(deep(2))
