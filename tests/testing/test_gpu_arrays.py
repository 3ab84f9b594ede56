"""Arrays of the simulated GPU give what NumPy gives and refuse what CuPy refuses."""

from __future__ import annotations

import copy
import operator
import pickle

import numpy as np
import pytest

HOST = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture
def x(cupy):
    return cupy.asarray(HOST)


def same(device, host):
    """Whether an array on the device has shape, dtype and elements of one on the host."""
    got = device.get()
    assert (got.dtype, got.shape) == (host.dtype, host.shape)
    assert (device.dtype, device.shape) == (host.dtype, host.shape)
    np.testing.assert_array_equal(got, host)
    return True


# --- what an array is --------------------------------------------------------------------------------------


def test_the_class_is_called_as_cupys(cupy, x):
    assert (type(x).__module__, type(x).__name__, type(x)) == ("cupy", "ndarray", cupy.ndarray)


def test_an_array_tells_what_it_is(x):
    assert (x.shape, x.dtype, x.ndim, x.size, x.nbytes, x.itemsize, x.strides, len(x)) == (
        (3, 4), np.float32, 2, 12, 48, 4, (16, 4), 3,
    )  # fmt: skip
    assert (x.flags.c_contiguous, x.flags.f_contiguous, x.flags.owndata, x.base) == (True, False, True, None)
    assert (x.T.flags.c_contiguous, x.T.flags.f_contiguous, x.T.flags.owndata) == (False, True, False)
    assert x.T[1:].base is x


def test_its_numbers_are_not_converted_by_themselves(x):
    for convert in (np.asarray, np.array, lambda a: np.concatenate([HOST, a.get(), a.__array__()])):
        with pytest.raises(TypeError, match="Implicit conversion to a NumPy array is not allowed"):
            convert(x)
    with pytest.raises(TypeError, match=r"Unsupported type.*numpy.ndarray"):
        x + HOST
    with pytest.raises(TypeError, match=r"Unsupported type.*numpy.ndarray"):
        HOST + x


def test_an_array_shows_its_elements(x):
    assert (repr(x), str(x), f"{x[0, 1]:.1f}") == (repr(HOST), str(HOST), "1.0")


def test_one_element_is_a_number(x):
    one = x[0, 1:2]
    assert (float(one[0]), int(one[0]), complex(one[0]), bool(one[0]), one.item(), x.item(5)) == (
        1,
        1,
        1,
        True,
        1,
        5,
    )
    assert [10, 20][x.astype(int)[0, 1]] == 20
    with pytest.raises(ValueError, match="ambiguous"):
        bool(x)
    with pytest.raises(TypeError):
        hash(x)


def test_an_array_gives_lists_and_bytes(x):
    assert (x.tolist(), x.tobytes(), [row.tolist() for row in x]) == (
        HOST.tolist(),
        HOST.tobytes(),
        HOST.tolist(),
    )


def test_copies_are_on_the_device_of_the_original(cupy):
    with cupy.cuda.Device(1):
        x = cupy.ones(3)
    made = copy.deepcopy({"a": x})["a"]
    cupy.cuda.Device(1).synchronize()
    assert (made.device.id, made.data.ptr != x.data.ptr) == (1, True)
    assert copy.copy(x).device.id == 0
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(x)


# --- to and from the host ----------------------------------------------------------------------------------


def test_an_array_of_the_host_may_change_at_once(gpus, cupy):
    stream = cupy.cuda.Stream(non_blocking=True)
    host = np.ones(3)
    with stream, gpus.hold(stream):
        x, y = cupy.asarray(host), cupy.zeros(3)
        y.set(host)
        host[:] = 2
    assert (x.get(stream=stream).tolist(), y.get(stream=stream).tolist()) == ([1, 1, 1], [1, 1, 1])


def test_get_waits_for_the_current_stream_and_no_other(gpus, cupy, two_streams):
    a, b = two_streams
    x = cupy.zeros(2)
    cupy.cuda.runtime.deviceSynchronize()
    with gpus.hold(a):
        with a:
            x.fill(1)
        with b:
            assert x.get().tolist() == [0, 0]
    with a:
        assert x.get().tolist() == [1, 1]


@pytest.mark.parametrize("order", ["C", "F", "A"])
def test_get_gives_the_order_that_was_asked_for(x, order):
    for each, host in ((x, HOST), (x.T, HOST.T), (x[:, ::2], HOST[:, ::2])):
        got = each.get(order=order)
        np.testing.assert_array_equal(got, host)
        assert got.flags.f_contiguous == (order == "F" or (order == "A" and each.flags.f_contiguous))


def test_get_writes_where_it_is_told(cupy, x):
    out = np.empty((3, 4), np.float32, order="F")
    assert x.get(out=out) is out
    assert cupy.asnumpy(x, out=out) is out
    np.testing.assert_array_equal(out, HOST)


@pytest.mark.parametrize(
    ("out", "error"),
    [
        ([1], TypeError),
        (np.empty((3, 4)), TypeError),
        (np.empty((4, 3), np.float32), ValueError),
        (np.empty((3, 8), np.float32)[:, ::2], RuntimeError),
    ],
)
def test_get_refuses_what_it_cannot_write_to(x, out, error):
    with pytest.raises(error, match=r"obtained from|Shape mismatch|non-contiguous"):
        x.get(out=out)


def test_set_takes_arrays_of_its_shape_and_dtype(cupy, x):
    x.set(HOST * 2)
    assert same(x, HOST * 2)
    x.T.set(np.asfortranarray(HOST.T))
    x[:] = HOST[::-1]
    assert same(x, HOST[::-1])
    for host, error in (([1], TypeError), (HOST.astype(int), TypeError), (HOST[:2], ValueError)):
        with pytest.raises(error, match=r"set to|Shape mismatch"):
            x.set(host)
    with pytest.raises(RuntimeError, match="non-contiguous"):
        x[:, ::2].set(HOST[:, ::2])


# --- views and parts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "index",
    [1, (1, 2), np.s_[:, 1], np.s_[::-1], np.s_[..., None, 0], None, (), np.int64(2), np.s_[1:3, 0:0]],
    ids=str,
)
def test_basic_indices_give_views(cupy, x, index):
    part = x[index]
    assert same(part, HOST[index] if isinstance(HOST[index], np.ndarray) else np.asarray(HOST[index]))
    assert part.size == 0 or cupy.shares_memory(part, x)
    x[index] = -1
    changed = HOST.copy()
    changed[index] = -1
    assert same(x, changed)


@pytest.mark.parametrize("kind", ["device", "host", "list"])
@pytest.mark.parametrize("index", [[2, 0], [[0, 1], [1, 1]], [True, False, True]], ids=str)
def test_arrays_as_indices_give_copies(cupy, x, index, kind):
    used = {"device": cupy.asarray(index), "host": np.asarray(index), "list": index}[kind]
    assert same(x[used], HOST[np.asarray(index)])
    assert not cupy.may_share_memory(x[used], x)
    x[used] = 0
    changed = HOST.copy()
    changed[np.asarray(index)] = 0
    assert same(x, changed)


def test_a_mask_of_all_axes_and_one_beside_a_slice(cupy, x):
    assert same(x[x > 5], HOST[HOST > 5])
    assert same(x[1:, cupy.asarray([True, False, True, False])], HOST[1:, ::2])
    x[x > 5] = x[x > 5] * 2
    assert same(x, np.where(HOST > 5, HOST * 2, HOST))


def test_integers_as_indices_do_not_wait_and_masks_do(gpus, cupy, background):
    stream = cupy.cuda.Stream(non_blocking=True)

    def masked():
        with stream:
            return (x[x > 0]).shape

    with stream:
        x, index = cupy.ones(3), cupy.asarray([0, 2])
    with gpus.hold(stream) as hold:
        with stream:
            assert x[index].shape == (2,)
        shape = background(masked)
        hold.release()
        assert shape() == (3,)


def test_an_index_beyond_the_end_breaks_the_device(cupy, x):
    x[cupy.asarray([7])]
    with pytest.raises(cupy.cuda.runtime.CUDARuntimeError, match="IndexError"):
        cupy.cuda.runtime.deviceSynchronize()


def test_what_is_written_has_to_fit(cupy, x):
    with pytest.raises(ValueError, match="broadcast"):
        x[0] = cupy.zeros(3)
    with pytest.raises(ValueError, match="cannot be used for fill"):
        x[0] = np.zeros(4)
    with pytest.raises(TypeError, match="Unsupported type"):
        x[0] = "a"
    x[0] = np.float32(7)
    x[1] = np.asarray(8)
    x[2] = cupy.arange(4)
    assert x.sum().item() == 28 + 32 + 6


def test_views_share_memory_and_copies_do_not(cupy, x):
    views = [
        *(x.T, x.reshape(4, 3), x.reshape((2, -1)), x.ravel(), x.transpose(1, 0), x.view(np.int32), x.view()),
        *(
            x[None].squeeze(0),
            cupy.expand_dims(x, 0),
            cupy.split(x, 3)[1],
            cupy.from_dlpack(x),
            x.T.T.ravel(),
        ),
        *(cupy.broadcast_to(x, (2, 3, 4)), cupy.swapaxes(x, 0, 1), x.T.reshape(4, 1, 3), cupy.reshape(x, 12)),
        *(cupy.ravel(x), x.astype(np.float32, copy=False), cupy.asarray(x)),
    ]
    copies = [
        *(x.T.reshape(12), x.T.ravel(), x.flatten(), x.copy(), cupy.ascontiguousarray(x.T)),
        *(x.astype(np.float32), cupy.array(x)),
    ]
    assert [cupy.may_share_memory(each, x) for each in views] == [True] * len(views)
    assert [cupy.may_share_memory(each, x) for each in copies] == [False] * len(copies)
    assert same(x.T.reshape(12), HOST.T.reshape(12))
    assert not cupy.may_share_memory(x, HOST)


@pytest.mark.parametrize("order", ["C", "F", "K", "A"])
def test_copies_have_the_order_that_was_asked_for(x, order):
    for each, host in ((x, HOST), (x.T, HOST.T)):
        made = each.astype(np.int32, order)
        assert same(made, host.astype(np.int32))
        assert made.flags.f_contiguous == (order == "F" or (order in "KA" and each.flags.f_contiguous))


def test_a_cast_that_is_not_allowed_is_an_error(x):
    with pytest.raises(TypeError, match="Cannot cast array data"):
        x.astype(np.int32, casting="same_kind")


def test_a_shape_that_does_not_fit_is_an_error(x):
    with pytest.raises(ValueError, match="cannot reshape"):
        x.reshape(5)


# --- arithmetic --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("other", [2, 0.5, np.float64(3), "array", "row"])
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
    "name", ["exp", "log", "sqrt", "tanh", "isnan", "isfinite", "absolute", "square", "sign"]
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
    assert np.logaddexp2(1, 1)  # NumPy's own functions still are for its own
    with pytest.raises(TypeError, match=r"no implementation found|returned NotImplemented"):
        np.logaddexp2(x, x)
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


# --- other libraries ---------------------------------------------------------------------------------------


class Foreign:
    """An array of another library, which lends its memory by one of two protocols."""

    def __init__(self, array, *, by_interface):
        self.array = array
        if by_interface:
            self.__cuda_array_interface__ = array.__cuda_array_interface__

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, *, stream):
        return self.array.__dlpack__(stream=stream)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("code", "?bhilBHILefdFD")
def test_memory_of_another_library_is_taken_as_it_is(cupy, code, transposed):
    with cupy.cuda.Device(1):
        lent = cupy.asarray(np.arange(6).reshape(2, 3).astype(code))
        lent = lent.T if transposed else lent
        for take in (cupy.from_dlpack, cupy.asarray):
            taken = take(Foreign(lent, by_interface=take is cupy.asarray))
            assert (taken.data.ptr, taken.strides, taken.device.id) == (lent.data.ptr, lent.strides, 1)
            assert same(taken, lent.get())


def test_memory_that_was_lent_is_kept_until_the_borrower_lets_go(cupy):
    lent = cupy.ones(3)
    ptr = lent.data.ptr
    taken = cupy.from_dlpack(Foreign(lent, by_interface=False))
    del lent
    assert cupy.empty(3).data.ptr != ptr
    del taken
    assert cupy.empty(3).data.ptr == ptr


def test_a_capsule_that_nobody_takes_lets_go_of_the_array(cupy):
    lent = cupy.ones(3)
    ptr, capsule = lent.data.ptr, lent.__dlpack__(stream=-1)
    del lent
    assert cupy.empty(3).data.ptr != ptr
    del capsule
    assert cupy.empty(3).data.ptr == ptr


def test_the_borrowers_stream_waits_for_the_lenders(gpus, cupy, two_streams):
    a, b = two_streams
    with a:
        lent = cupy.zeros(3)
        a.synchronize()
    with gpus.hold(a):
        with a:
            lent.fill(5)
            capsule = lent.__dlpack__(stream=b.ptr)
        with b:
            seen = cupy.zeros(3)
            seen += lent
            assert not b.done
    assert seen.get(stream=b).tolist() == [5, 5, 5]
    del capsule


def test_a_stream_of_dlpack_is_never_0(x):
    with pytest.raises(ValueError, match="ambiguous"):
        x.__dlpack__(stream=0)
    assert x.__dlpack_device__() == (2, 0)


def test_memory_of_the_host_is_not_taken(cupy):
    class Near:
        def __dlpack_device__(self):
            return 1, 0

    with pytest.raises(BufferError, match=r"\(1, 0\)"):
        cupy.from_dlpack(Near())


def test_the_interface_names_the_current_stream(cupy, x):
    interface = x.T.__cuda_array_interface__
    assert interface["data"] == (x.data.ptr, False)
    assert (interface["shape"], interface["typestr"], interface["strides"]) == ((4, 3), "<f4", (4, 16))
    assert (interface["version"], interface["stream"]) == (3, 1)
    with cupy.cuda.Stream() as stream:
        assert x.__cuda_array_interface__["stream"] == stream.ptr
        assert x.__cuda_array_interface__["strides"] is None


def test_an_array_of_the_interface_is_waited_for(gpus, cupy, background):
    stream, order = cupy.cuda.Stream(non_blocking=True), []
    with stream:
        lent = Foreign(cupy.ones(3), by_interface=True)
    with gpus.hold(stream) as hold:
        stream.launch_host_func(order.append, "lender")
        taken = background(lambda: (cupy.asarray(lent), order.append("taken")))
        hold.release()
        taken()
    assert order == ["lender", "taken"]
