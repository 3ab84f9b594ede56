"""Arrays of the simulated GPU are what CuPy's are, give what NumPy gives and refuse what CuPy refuses."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from tests.testing.arrays import HOST, same

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
