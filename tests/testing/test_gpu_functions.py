"""Operators and functions of the simulated GPU's arrays give what NumPy's give."""

from __future__ import annotations

import operator

import numpy as np
import pytest

from tests.testing.arrays import HOST, same

# --- arithmetic --------------------------------------------------------------------------------------------


# Not 0.5, for which NumPy 2.0 takes square roots instead of powers.
@pytest.mark.parametrize("other", [2, 1.5, np.float64(3), "array", "row"])
@pytest.mark.parametrize(
    "name",
    [
        "add",
        "sub",
        "mul",
        "truediv",
        "floordiv",
        "mod",
        "pow",
        "lt",
        "le",
        "gt",
        "ge",
        "eq",
        "ne",
        "iadd",
        "isub",
        "imul",
        "itruediv",
        "ifloordiv",
        "imod",
        "ipow",
    ],
)
def test_operators_give_what_numpys_give(cupy, name, other):
    host = HOST + 1
    on_host = {"array": host * 2, "row": host[0]}.get(other, other)
    on_device = cupy.asarray(on_host) if isinstance(on_host, np.ndarray) else on_host
    function = getattr(operator, name)
    result = function(cupy.asarray(host), on_device)
    assert same(result, function(host.copy(), on_host))
    if not name.startswith("i"):
        assert same(function(on_device, cupy.asarray(host)), function(on_host, host))


@pytest.mark.parametrize(
    "name", ["and_", "or_", "xor", "lshift", "rshift", "iand", "ior", "ixor", "ilshift", "irshift"]
)
def test_operators_of_integers(cupy, name):
    host, function = np.arange(1, 5), getattr(operator, name)
    assert same(function(cupy.asarray(host), 3), function(host.copy(), 3))
    assert same(function(cupy.asarray(host), cupy.asarray(host)), function(host.copy(), host))


@pytest.mark.parametrize("name", ["neg", "pos", "abs"])
def test_operators_of_one_array(x, name):
    assert same(getattr(operator, name)(x - 5), getattr(operator, name)(HOST - 5))
    assert same(~(x > 5), ~(HOST > 5))


def test_an_operator_in_place_keeps_memory_and_dtype(cupy):
    x = cupy.ones(3, np.float32)
    y = x
    x += 1.5
    x *= cupy.asarray([1.0, 2.0, 3.0])
    assert y is x
    assert same(x, np.asarray([2.5, 5, 7.5], np.float32))
    with pytest.raises(TypeError, match="could not be coerced"):
        cupy.ones(3, np.int32).__iadd__(1.5)
    with pytest.raises(ValueError, match="non-broadcastable output"):
        x += cupy.ones((2, 3))


def test_a_stranger_may_do_the_operation_itself(x):
    class Stranger:
        def __radd__(self, other):
            return "mine"

        def __add__(self, other):
            return NotImplemented

    assert x + Stranger() == "mine"
    with pytest.raises(TypeError, match="unsupported operand"):
        Stranger() + x
    with pytest.raises(TypeError, match="unsupported operand"):
        x += object()


@pytest.mark.parametrize(
    ("a", "b"), [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4))]
)
def test_products(cupy, a, b):
    left, right = np.random.default_rng(0).standard_normal(a), np.ones(b, np.float32)
    for name in ("matmul", "dot"):
        expected = np.asarray(getattr(np, name)(left, right))
        result = getattr(cupy, name)(cupy.asarray(left), cupy.asarray(right))
        np.testing.assert_allclose(result.get(), expected)
        assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
    assert (cupy.asarray(left) @ cupy.asarray(right)).shape == expected.shape
    assert cupy.asarray(left).dot(cupy.asarray(right)).shape == expected.shape


def test_products_that_do_not_fit(cupy, x):
    assert same(cupy.dot(cupy.asarray(2.0), x), np.dot(2.0, HOST).astype(np.float64))
    for a, b in ((x, x), (x, cupy.asarray(1.0))):
        with pytest.raises(ValueError, match="matmul"):
            a @ b


# --- functions ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["exp", "log", "sqrt", "tanh", "isnan", "isfinite", "absolute", "square", "sign", "degrees"]
)
def test_functions_of_one_array(cupy, x, name):
    with np.errstate(all="ignore"):
        assert same(getattr(cupy, name)(x), getattr(np, name)(HOST))
        assert same(getattr(np, name)(x), getattr(np, name)(HOST))


def test_functions_of_two_arrays_and_an_output(cupy, x):
    out = cupy.empty((3, 4))
    assert cupy.maximum(x, 5, out=out) is out
    assert same(out, np.maximum(HOST, 5).astype(np.float64))
    assert cupy.minimum(x, 5, out) is out
    assert np.add(x, 5, out=out) is out
    assert same(out, HOST.astype(np.float64) + 5)
    assert same(cupy.add(x, 1, dtype=np.float64), np.add(HOST, 1, dtype=np.float64))
    assert np.spacing(1.0)  # NumPy's own functions still are for its own
    with pytest.raises(TypeError, match=r"no implementation found|returned NotImplemented"):
        np.spacing(x)
    with pytest.raises(NotImplementedError, match="casting"):
        cupy.add(x, 1, casting="unsafe")


REDUCTIONS = [
    *(
        (name, axis)
        for name in ["sum", "mean", "prod", "min", "max", "any", "all", "std", "var"]
        for axis in (None, 0, (0, -1))
    ),
    *((name, axis) for name in ("argmax", "argmin") for axis in (None, 0, -1)),
]


@pytest.mark.parametrize(("name", "axis"), REDUCTIONS)
def test_reductions(cupy, x, name, axis):
    host = HOST + 1
    for keepdims in (False, True):
        expected = np.asarray(getattr(np, name)(host, axis=axis, keepdims=keepdims))
        assert same(getattr(x + 1, name)(axis, keepdims=keepdims), expected)
        assert same(getattr(cupy, name)(x + 1, axis, keepdims=keepdims), expected)
    assert same(getattr(np, name)(x + 1), np.asarray(getattr(np, name)(host)))


def test_a_reduction_of_nothing_fails_as_in_numpy(cupy):
    with pytest.raises(ValueError, match="zero-size array"):
        cupy.empty((0, 3)).max()
    assert same(cupy.empty((0, 3)).sum(axis=0), np.zeros(3))
    with pytest.raises(np.exceptions.AxisError):
        cupy.ones(3).sum(axis=1)


def test_a_reduction_takes_dtype_and_output(cupy, x):
    out = cupy.empty(4)
    assert cupy.sum(x, 0, None, out) is out
    assert same(out, HOST.sum(axis=0).astype(np.float64))
    assert same(x.sum(dtype=np.float64), np.asarray(HOST.sum(dtype=np.float64)))
    assert same(x.max(0, None), HOST.max(0))


def test_new_arrays(cupy, x):
    assert same(cupy.zeros((2, 3)), np.zeros((2, 3)))
    assert same(cupy.ones(3, np.int8), np.ones(3, np.int8))
    assert same(cupy.full(2, 3), np.full(2, 3))
    assert same(cupy.full(2, cupy.asarray(np.float32(3))), np.full(2, 3, np.float32))
    assert same(cupy.arange(5), np.arange(5))
    assert same(cupy.arange(1, 2, 0.25), np.arange(1, 2, 0.25))
    assert same(cupy.zeros_like(x), np.zeros_like(HOST))
    assert same(cupy.ones_like(HOST, int), np.ones((3, 4), int))
    assert same(cupy.full_like(x, 2), np.full_like(HOST, 2))
    assert same(cupy.array([[1, 2]], np.float16, ndmin=3), np.array([[1, 2]], np.float16, ndmin=3))
    assert same(cupy.asarray(HOST.T), HOST.T)
    assert same(cupy.asarray(2.5, blocking=True), np.asarray(2.5))
    assert cupy.empty_like(x.T).flags.f_contiguous
    assert cupy.empty_like(x, shape=(2,)).shape == (2,)
    assert cupy.empty((2, 3), order="F").flags.f_contiguous
    assert same(cupy.ascontiguousarray(x.T), np.ascontiguousarray(HOST.T))


def test_arrays_have_the_dtypes_of_cupy(cupy):
    for code in "?bhilqBHILQefdFD":
        assert same(cupy.ones(2, code), np.ones(2, code))
    for wrong in ("S3", "M8[s]", "O", [("a", int)]):
        with pytest.raises(ValueError, match="Unsupported dtype"):
            cupy.empty(2, wrong)


def test_arrays_are_joined_chosen_and_compared(cupy, x):
    assert same(cupy.concatenate([x, x[:1]]), np.concatenate([HOST, HOST[:1]]))
    assert same(cupy.concatenate([x, x.astype(int)], 1), np.concatenate([HOST, HOST.astype(int)], 1))
    assert same(
        cupy.concatenate([x, x], None, dtype=np.float64), np.concatenate([HOST, HOST], None).astype(float)
    )
    assert same(cupy.stack([x, x], axis=-1), np.stack([HOST, HOST], axis=-1))
    assert same(cupy.where(x > 5, x, 0), np.where(HOST > 5, HOST, 0))
    assert same(cupy.clip(x, 2, 5), np.clip(HOST, 2, 5))
    assert same(x.clip(2), np.clip(HOST, 2, None))
    assert bool(cupy.array_equal(x, x))
    assert not bool(cupy.array_equal(x, x[:2]))
    assert bool(cupy.allclose(x, x + 1e-9))
    assert [part.shape for part in cupy.split(x, [1], axis=1)] == [(3, 1), (3, 3)]
    with pytest.raises(ValueError, match="all axes but 0 must be equal"):
        cupy.concatenate([x, x[:, :1]])
    with pytest.raises(ValueError, match="same shape"):
        cupy.stack([x, x[:1]])
    with pytest.raises(NotImplementedError, match="list of arrays"):
        cupy.asarray([x, x])


def test_copyto(cupy, x):
    y = cupy.empty((3, 4))
    cupy.copyto(y, x)
    assert same(y, HOST.astype(float))
    cupy.copyto(y, 1)
    cupy.copyto(y, np.asarray([3.0]), where=x > 5)
    assert same(y, np.where(HOST > 5, 3.0, 1.0))
    cupy.copyto(x[0], x[1])
    cupy.copyto(x.reshape(12)[8:], x[1])
    assert same(x, np.stack([HOST[1]] * 3))
    for wrong, error in (
        (cupy.ones((3, 4), complex), TypeError),
        (HOST, ValueError),
        (cupy.ones(3), ValueError),
    ):
        with pytest.raises(error):
            cupy.copyto(x, wrong)
    with pytest.raises(TypeError):
        cupy.copyto(cupy.ones(3, int), 1.5)


def test_random_numbers_are_those_of_numpy(cupy):
    assert same(
        cupy.random.default_rng(3).standard_normal((2, 3)), np.random.default_rng(3).standard_normal((2, 3))
    )
    with pytest.raises(NotImplementedError, match=r"Generator\.uniform"):
        cupy.random.default_rng(3).uniform()


def test_the_module_of_an_array(cupy, x):
    assert cupy.get_array_module(1, x) is cupy
    assert cupy.get_array_module(HOST) is np
    assert cupy.asnumpy(HOST) is HOST


def test_functions_refuse_what_is_on_the_host(cupy):
    with pytest.raises(TypeError, match="Unsupported type"):
        cupy.exp(HOST)
    with pytest.raises(TypeError, match="Unsupported type"):
        cupy.sum(HOST)
