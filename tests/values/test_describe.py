"""What tables show of a value, and the fingerprint of what they have looked at."""

from __future__ import annotations

import abc
import enum
import functools
import types

import numpy as np
import pytest

from disco_magic.core.register_text import content
from disco_magic.core.registers import Poison
from disco_magic.errors import Failure
from disco_magic.values.describe import describe, describe_all
from disco_magic.values.fingerprint import fingerprint
from disco_magic.values.samples import SAMPLE
from tests.doubles.arrays import cupy_array, tensor
from tests.values.conftest import without_address
from tests.values.values import Touchy

ml_dtypes = pytest.importorskip("ml_dtypes")


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
        ("m8[s]", (2,)),
    ],
    ids=str,
)
def test_what_is_no_number_has_no_statistics(dtype, shape):
    info = describe(np.zeros(shape, dtype))
    assert (info.minimum, info.mean, info.maximum, info.nans, info.infs) == (None,) * 5
    assert info.histogram == ()
    assert info.shape == shape


def test_an_array_without_elements_has_no_statistics():
    info = describe(np.zeros((0, 3)))
    assert (info.minimum, info.mean, info.maximum, info.nans, info.infs) == (None, None, None, 0, 0)
    assert (info.histogram, info.shape, info.sampled) == ((), (0, 3), False)


def test_bfloat16_has_statistics():
    assert describe(np.array([1, 3], ml_dtypes.bfloat16)).mean == 2.0


def test_booleans_have_statistics():
    assert describe(np.array([True, False])).mean == 0.5


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="NumPy 2 has it")
def test_numpys_variable_text_is_described():
    info = describe(np.array(["a", "bc"], np.dtypes.StringDType()))
    assert info.shape == (2,)


def test_statistics_leave_out_what_is_not_finite_and_count_it():
    info = describe(np.array([1.0, np.nan, np.inf, 3.0, -np.inf]))
    assert (info.minimum, info.mean, info.maximum) == (1.0, 2.0, 3.0)
    assert (info.nans, info.infs) == (1, 2)


def test_nothing_finite_means_no_statistics():
    info = describe(np.array([np.nan]))
    assert (info.minimum, info.mean, info.maximum) == (None, None, None)
    assert (info.nans, info.infs, info.histogram) == (1, 0, ())


def test_complex_numbers_count_by_their_magnitude():
    info = describe(np.array([3 + 4j, 0, 0, 1j]))
    assert (info.minimum, info.mean, info.maximum) == (0.0, 1.5, 5.0)
    assert content(info).endswith("|x| min 0 mean 1.5 max 5")
    assert not content(describe(np.arange(9.0))).startswith("|x|")


def test_a_histogram_has_sixteen_bins_from_the_least_to_the_greatest():
    assert describe(np.arange(32)).histogram == (2,) * 16
    assert describe(np.full(5, 2.5)).histogram == (*(0,) * 8, 5, *(0,) * 7)


@pytest.mark.parametrize("size", [0, 1, 100, 10_000])
@pytest.mark.parametrize("sample", [1, 64, 2048])
def test_so_many_elements_are_looked_at_at_most(size, sample):
    info = describe(np.zeros(size), sample)
    assert sum(info.histogram) <= sample
    assert info.sampled is (size > sample)


@pytest.mark.parametrize(
    "value", [np.ones((2, 3)), np.float32(2), 5, "text", b"raw", [1], None, np.array([None])], ids=repr
)
def test_a_header_alone_says_what_it_is_and_looks_into_nothing(value):
    full, header = describe(value), describe(value, 0)
    assert (header.type, header.shape, header.dtype, header.device) == (
        full.type,
        full.shape,
        full.dtype,
        full.device,
    )
    assert header.nbytes == full.nbytes
    assert header.fingerprint == b""
    assert (header.minimum, header.mean, header.maximum, header.nans, header.histogram) == (*(None,) * 4, ())
    assert not header.sampled


def test_elements_of_a_tensor_on_the_host_are_looked_at_where_they_are():
    array = np.arange(6, dtype="f4").reshape(2, 3)
    info = describe(tensor(array, device="cpu"))
    assert (info.type, info.shape, info.dtype, info.device) == ("Tensor", (2, 3), "torch.float32", "cpu")
    assert (info.minimum, info.maximum, info.nans, info.nbytes) == (0.0, 5.0, 0, 24)
    assert info.fingerprint == describe(tensor(array.copy(), device="cpu")).fingerprint
    assert info.fingerprint != describe(tensor(array + 1, device="cpu")).fingerprint
    assert info.fingerprint != describe(array).fingerprint


def test_a_tensor_of_numbers_that_numpy_lacks_has_a_header():
    info = describe(tensor(np.ones(3), "torch.bfloat16", "cpu"))
    assert (info.shape, info.dtype, info.minimum, info.fingerprint) == ((3,), "torch.bfloat16", None, b"")


def test_what_cannot_tell_its_shape_or_place_is_described_by_its_name():
    class Lazy:
        __dlpack_device__ = None

        @property
        def shape(self):
            raise RuntimeError("it has none yet")

        dtype = device = shape

    for library in ("torch", "jaxlib"):
        Lazy.__module__ = library
        info = describe(Lazy())
        assert (info.type, info.shape, info.dtype, info.device) == ("Lazy", None, None, "cpu")


def test_where_no_element_is_asked_for_none_of_a_tensor_is_touched():
    made, touched = tensor(np.ones((2, 3)), device="cpu"), []
    made.detach = lambda: touched.append(made)  # each call of PyTorch's lets go of the interpreter
    info = describe(made, 0)
    assert not touched
    assert (info.shape, info.dtype, info.device, info.nbytes) == ((2, 3), "torch.float64", "cpu", 48)


def test_a_tensor_that_cannot_tell_its_bytes_is_described():
    class Sparse:
        shape, dtype, device = (2,), "torch.float32", "cpu"

        @property
        def nbytes(self):
            raise RuntimeError("nbytes is not defined for sparse tensors")

    Sparse.__module__, Sparse.__name__ = "torch", "Tensor"
    info = describe(Sparse())
    assert (info.type, info.shape, info.nbytes, info.minimum) == ("Tensor", (2,), 0, None)


def test_many_values_are_described_as_each_by_itself():
    values = [np.arange(7), None, "text", np.ones(7), [1], np.ones((3, 4), "f4"), np.float64(1), Touchy()]
    values += [
        np.ma.masked_array([1, 2], [0, 1]),
        np.array(["a"]),
        np.full(7, np.nan),
        np.zeros(0),
        tensor([1.0]),
    ]
    assert describe_all(values) == [describe(value) for value in values]
    assert describe_all([]) == []


def test_more_elements_than_are_looked_at_together():
    values = [np.full(SAMPLE, number) for number in range(140)]
    values[70] = "text"
    infos = describe_all(values)
    assert [info.maximum for info in infos] == [None if number == 70 else number for number in range(140)]


def test_a_users_own_scalar_is_not_asked():
    class Own(np.float64):
        dtype = shape = nbytes = property(Touchy._no)
        __str__ = __repr__ = __float__ = Touchy._no

    info = describe(Own(2.5))
    assert (info.type, info.dtype, info.text, info.maximum) == ("Own", "float64", "2.5", 2.5)


def test_a_mask_hides_what_would_be_told():
    info = describe(np.ma.masked_array([1, 2], [0, 1]))
    assert (info.type, info.shape, info.minimum, info.nans, info.fingerprint) == (
        "MaskedArray",
        (2,),
        None,
        None,
        b"",
    )


@pytest.mark.parametrize(("make", "kind"), [(cupy_array, "ndarray"), (tensor, "Tensor")])
def test_of_an_array_on_a_device_nothing_is_fetched(make, kind):
    array = make(np.ones((2, 3), "f4"))
    info = describe(array)
    assert (info.type, info.shape, info.nbytes, info.minimum) == (kind, (2, 3), 24, None)
    assert array.fetched == []


class Odd(type):
    """A metaclass that says nothing, and has a library's name."""

    device = shape = dtype = property(lambda _: 1 / 0)

    def __eq__(cls, other):
        raise AssertionError("a user's code ran")

    __hash__ = None


Odd.__module__ = "torch.odd"


@pytest.mark.parametrize("metaclass", [type, abc.ABCMeta, enum.EnumMeta, Odd])
def test_a_class_is_described_as_one_whatever_its_metaclass_is(metaclass):
    bases = (enum.Enum,) if metaclass is enum.EnumMeta else ()
    made = types.new_class("Made", bases, {"metaclass": metaclass})
    info = describe(made)
    assert (info.type, info.text, info.shape, info.device) == ("type", "Made", None, None)


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


# --- fingerprints of samples -----------------------------------------------------------------------


def test_a_difference_between_workers_that_the_sample_saw_is_in_the_fingerprint():
    a = np.zeros(4)
    b = a.copy()
    b[3] = 1
    assert describe(a).fingerprint != describe(b).fingerprint
    assert describe(a).fingerprint == describe(a.copy()).fingerprint


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (np.zeros(4), np.zeros((2, 2))),
        (np.zeros(2, "f4"), np.zeros(2, "i4")),
        (np.zeros(2, "f4"), np.zeros(2, ">f4")),
        (np.zeros(2, ml_dtypes.bfloat16), np.zeros(2, "V2")),
        (np.zeros(2, [("a", "i4")]), np.zeros(2, [("b", "i4")])),
        (np.float32(0), np.zeros((), "f4")),
        (np.zeros(70_000), np.zeros(70_001)),
    ],
    ids=repr,
)
def test_arrays_of_other_kinds_have_other_fingerprints(a, b):
    assert describe(a).fingerprint != describe(b).fingerprint


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["f4", "g", "G", [("a", "i1"), ("b", "f8")]], ids=str)
def test_equal_arrays_have_equal_fingerprints_whatever_lies_between_their_elements(dtype, order):
    dtype = np.dtype(dtype, align=True) if isinstance(dtype, list) else dtype
    one = np.zeros(100_000, dtype)
    raw = np.full(100_000 * one.itemsize, 85, np.uint8).view(one.dtype)
    raw[:] = one if one.dtype.names is None else raw
    for name in one.dtype.names or ():
        raw[name] = one[name]
    other = np.asarray(raw.reshape(100, 1000), order=order)
    assert describe(one.reshape(100, 1000)).fingerprint == describe(other).fingerprint


def test_long_texts_that_differ_in_length_differ():
    a, b = describe("x" * SAMPLE), describe("x" * (SAMPLE + 1))
    assert a.fingerprint != b.fingerprint
    assert (a.sampled, b.sampled) == (False, True)


def test_objects_in_an_array_are_not_compared():
    assert describe(np.array([object()])).fingerprint == b""
