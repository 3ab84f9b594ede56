"""Rows about arrays of one worker: `empty`, and the way in and out through worker 0."""

from __future__ import annotations

import numpy as np
import pytest

import disco_magic as disco
from tests.surface.conftest import groupings


@pytest.mark.parametrize("dtype", ["float16", "float32", "int64", np.dtype("bool"), np.uint8])
def test_empty(session, dtype):
    values = session(3).empty((2, 3), dtype).get_all()
    assert [(value.shape, value.dtype) for value in values] == [((2, 3), np.dtype(dtype))] * 3


@pytest.mark.parametrize("shape", [(), (0,), (2,), [2, 3], (1, 2, 3, 4), np.zeros((3, 1)).shape], ids=str)
def test_empty_takes_any_shape(session, shape):
    assert session(2).empty(shape, "float32").get(1).shape == tuple(shape)


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ((2, -1), r"no array of shape \(2, -1\): it has a negative length"),
        ((2**62, 2**62), r"it takes 2\^126 bytes or more"),
        ((0, 2**62), r"it takes 2\^64 bytes or more"),
        ((1,) * 65, r"65 axes, NumPy has at most"),
        (True, r"a shape is given as whole numbers"),
        ((2, "3"), r"cannot be interpreted as an integer"),
    ],
)
def test_empty_of_an_impossible_shape_is_refused_at_once(session, shape, text):
    s = session(2)
    before = s.ledger.seq
    with pytest.raises(disco.errors.UsageMistake, match=text):
        s.empty(shape)
    assert s.ledger.seq == before


def test_empty_gives_every_worker_its_own(session):
    s = session(2)
    ref = s.empty((2,), "int64")
    s.call_packed(lambda x: x.fill(disco.worker().id), ref)
    assert [value.tolist() for value in ref.get_all()] == [[0, 0], [1, 1]]


@groupings
def test_worker0_only(session, n, groups):
    s = session(n, groups)
    ref = s.empty((2,), "float32", worker0_only=True)
    assert [value is not None for value in ref.get_all()] == [w % (n // groups) == 0 for w in range(n)]


@groupings
def test_worker0_only_of_all_groups(session, n, groups):
    s = session(n, groups)
    by_name = s.empty((2,), "float32", worker0_only=True, in_group=False)
    by_position = s.empty((2,), "float32", None, True, False)
    for ref in (by_name, by_position):
        assert [value is not None for value in ref.get_all()] == [True] + [False] * (n - 1)


@pytest.mark.parametrize("dtype", ["float32", "int8", "complex128", "S3", "bool"])
def test_copy_to_worker_0(session, dtype):
    s = session(3)
    host = np.arange(6).astype(dtype).reshape(2, 3)
    ref = s.copy_to_worker_0(host)
    first, *others = ref.get_all()
    assert (first.tolist(), first.dtype) == (host.tolist(), host.dtype)
    assert others == [None, None]


def test_copy_to_worker_0_into_a_register(session):
    s = session(2)
    ref = s.call_packed(np.ones, (2, 2))
    assert s.copy_to_worker_0(np.full((2, 2), 7.0), ref) is ref
    assert [value.tolist() for value in ref.get_all()] == [[[7, 7], [7, 7]], [[1, 1], [1, 1]]]


@pytest.mark.parametrize("order", ["rows", "columns", "reversed", "every second"])
def test_copy_to_worker_0_takes_arrays_of_any_strides(session, order):
    s = session(1)
    ways = {
        "rows": np.s_[:],
        "columns": np.s_[:, ::1],
        "reversed": np.s_[::-1],
        "every second": np.s_[:, ::2],
    }
    host = np.arange(12.0).reshape(3, 4)[ways[order]]
    host = host.T if order == "columns" else host
    into = s.copy_to_worker_0(host, s.empty(host.shape, host.dtype))
    assert into.get(0).tolist() == s.copy_to_worker_0(host).get(0).tolist() == host.tolist()


# The same number of bytes each time: that alone is what Disco compares.
SAME_BYTES = {
    "shape": np.zeros((3, 2), "float32"),
    "axes": np.zeros(6, "float32"),
    "dtype": np.zeros((2, 3), "int32"),
    "both": np.zeros((2, 3, 2), "float16"),
}


@pytest.mark.parametrize("differs", SAME_BYTES)
def test_copy_to_worker_0_checks_shape_and_dtype(session, differs):
    s, host = session(2), SAME_BYTES[differs]
    ref = s.call_packed(np.ones, (2, 3), "float32")
    assert host.nbytes == ref.get(0).nbytes
    with pytest.raises(
        disco.WorkerError, match=r"the destination is float32 \(2, 3\), the source .* must be equal"
    ):
        s.copy_to_worker_0(host, ref)
    assert ref.get(0).tolist() == [[1, 1, 1]] * 2


def test_copy_to_worker_0_lets_the_caller_reuse_host_at_once(session, gate):
    s = session(2)
    s.call_packed(gate)
    gate.arrived(2)
    host = np.arange(3.0)
    ref = s.copy_to_worker_0(host)  # returns although worker 0 is held: nothing has been read there yet
    host[:] = -1
    gate.open()
    assert ref.get(0).tolist() == [0, 1, 2]


def test_copy_to_worker_0_into_a_register_lets_the_caller_reuse_host_at_once(session):
    s = session(2)
    ref, host = s.empty((3,), "float64"), np.arange(3.0)
    s.copy_to_worker_0(host, ref)
    host[:] = -1
    assert ref.get(0).tolist() == [0, 1, 2]


def test_copy_to_worker_0_into_a_register_without_an_array_says_what_is_there(session):
    s = session(2)
    with pytest.raises(disco.WorkerError, match="the destination is dict, expected an array of NumPy"):
        s.copy_to_worker_0(np.zeros(2), s.call_packed(dict))
    s.sync_all()


def test_copy_from_worker_0(session):
    s = session(2)
    ref = s.call_packed(lambda: np.arange(4.0) + 10 * disco.worker().id)
    host = np.full(4, -1.0)
    s.copy_from_worker_0(host, ref)
    assert host.tolist() == [0, 1, 2, 3]
    host[:] = 9
    assert ref.get(0).tolist() == [0, 1, 2, 3]


def test_copy_from_worker_0_writes_into_a_part_of_an_array(session):
    s, host = session(1), np.zeros((2, 4))
    s.copy_from_worker_0(host[1, ::2], s.call_packed(np.ones, 2))
    assert host.tolist() == [[0, 0, 0, 0], [1, 0, 1, 0]]


@pytest.mark.parametrize("differs", SAME_BYTES)
def test_copy_from_worker_0_checks_shape_and_dtype(session, differs):
    s, host = session(2), SAME_BYTES[differs].copy()
    ref = s.call_packed(np.ones, (2, 3), "float32")
    with pytest.raises(disco.WorkerError, match=r"the source float32 \(2, 3\); they must be equal"):
        s.copy_from_worker_0(host, ref)
    assert not host.any()
    s.sync_all()
