"""Arrays of JAX on the host, stood in for: described, shown, compared; who only looks does not wait."""

from __future__ import annotations

import numpy as np
import pytest

from disco_magic.errors import NoPicture, UsageMistake
from disco_magic.functions.arrays import read_array
from disco_magic.functions.places import HOST_PLACE
from disco_magic.values.describe import describe
from disco_magic.values.differences import difference_of
from disco_magic.values.divergence import look
from disco_magic.values.elements import elements_of
from disco_magic.values.fingerprint import fingerprint
from disco_magic.values.tensors import bits_of, numbers_of, read_out
from disco_magic.values.windows import Window
from tests.doubles.arrays import jax_array
from tests.values.test_gpu_values import foreign


def test_a_table_says_of_it_what_it_says_of_an_array_of_numpy():
    info, own = describe(jax_array(np.arange(12.0))), describe(np.arange(12.0))
    assert (info.type, info.shape, info.dtype, info.device) == ("ArrayImpl", (12,), "float64", "cpu")
    assert (info.minimum, info.mean, info.maximum, info.histogram) == (0, 5.5, 11, own.histogram)
    assert info.fingerprint != describe(jax_array(np.zeros(12))).fingerprint


def test_few_elements_are_written_out():
    assert describe(jax_array(np.arange(3))).text == "[0 1 2]"


def test_a_look_at_one_that_is_still_computed_waits_for_nothing():
    late = jax_array(np.ones(3), ready=False)
    info = describe(late)
    assert (info.shape, info.dtype, info.mean, info.fingerprint) == ((3,), "float64", None, b"")
    with pytest.raises(NoPicture, match="its elements are still being computed"):
        elements_of(late)


def test_one_that_was_given_away_is_described_without_its_elements():
    array = jax_array(np.ones(3))
    array.delete()
    info = describe(array)
    assert (info.shape, info.dtype, info.mean, bits_of(array)) == ((3,), "float64", None, None)
    with pytest.raises(NoPicture, match="or were donated"):
        elements_of(array)


def test_what_jax_raises_of_one_that_it_has_taken_is_no_reason_to_wait():
    array = jax_array(np.ones(3))
    array.is_deleted = lambda: 1 / 0
    assert describe(array).mean is None


def test_its_bits_are_its_memory_and_its_numbers_are_they():
    array = jax_array(np.ones(3))
    assert np.shares_memory(bits_of(array), array._array)
    assert numbers_of(array) is bits_of(array)


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "complex64", "bfloat16"])
def test_values_are_compared_bit_for_bit(dtype):
    dtype = np.dtype(getattr(pytest.importorskip("ml_dtypes"), dtype, dtype))
    first, same, other = (jax_array(np.array(each, dtype)) for each in ([0, 1], [0, 1], [0, 0]))
    looks = [look(each, values=True) for each in (first, same, other)]
    assert looks[0].opaque == ""
    assert looks[0].digest == looks[1].digest != looks[2].digest
    assert fingerprint(first) == fingerprint(same) != fingerprint(other)
    assert fingerprint(first) != fingerprint(np.array([0, 1], dtype))
    assert difference_of(first, other, Window()).differing == 1


def test_a_weak_type_is_seen_as_in_its_repr():
    weak = jax_array(np.ones(2))
    weak.weak_type = True
    assert fingerprint(weak) != fingerprint(jax_array(np.ones(2)))


def test_it_cannot_be_filled():
    with pytest.raises(
        UsageMistake, match="nothing can be written to out, an array of JAX - take what is returned"
    ):
        read_out("allreduce", jax_array(np.ones(2)), HOST_PLACE)


def test_a_call_in_code_that_jax_traces_is_told_where_it_belongs():
    tracer = foreign("jax._src.interpreters.partial_eval", __array__=lambda *_: 1 / 0)
    type(tracer).__name__ = "DynamicJaxprTracer"
    with pytest.raises(UsageMistake, match="broadcast was called in code that JAX traces") as caught:
        read_array("broadcast", tracer)
    assert caught.value.__cause__ is None
