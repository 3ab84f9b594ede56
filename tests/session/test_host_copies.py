"""Empty arrays, and copies between host arrays and worker 0."""

from __future__ import annotations

import numpy as np
import pytest

from disco_magic.errors import UsageMistake


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda s: s.empty((2,), device="cuda:0"), "device 'cuda:0' does not exist"),
        (lambda s: s.empty((2,), "flote"), "empty"),
        (lambda s: s.empty(("a",)), "empty"),
        (lambda s: s.empty(2.5), "empty"),
        (lambda s: s.empty((2, -1)), r"shape \(2, -1\): it has a negative length"),
        (
            lambda s: s.allreduce(s.empty((2,)), op="mean"),
            r"allreduce: there is no reduction 'mean'; op is one of sum, prod, .* - did you mean 'avg'\?",
        ),
        (lambda s: s.reduce_scatter(s.empty((2,)), op="summ"), "reduce_scatter: .* did you mean 'sum'"),
        (lambda s: s.allreduce(s.empty((2,)), op="MEAN"), "allreduce: .* did you mean 'avg'"),
        (
            lambda s: s.scatter(np.zeros((3, 2))),
            r"the array has shape \(3, 2\), expected a first axis of length 2",
        ),
        (lambda s: s.scatter(5.0), "expected a first axis of length 2"),
        (lambda s: s.broadcast([object()]), "broadcast: got list, which NumPy can only hold as objects"),
        (lambda s: s.broadcast(np.array([None])), "broadcast: got ndarray of object; expected an array of"),
        (lambda s: s.broadcast(s.empty((2,))), r"session\.broadcast_from_worker0\(ref\) takes it from there"),
        (lambda s: s.scatter(s.empty((2,))), r"session\.scatter_from_worker0\(ref\) takes it from there"),
        (lambda s: s.copy_to_worker_0({"a": 1}), "copy_to_worker_0: got dict"),
        (lambda s: s.copy_from_worker_0([1], s.empty((1,))), "must be a writeable array on the CPU"),
        (
            lambda s: s.copy_from_worker_0(np.broadcast_to(1.0, 2), s.empty((2,))),
            "must be a writeable array on the CPU",
        ),
    ],
    ids=range(17),
)
def test_an_impossible_request_is_refused_at_once(session, call, text):
    s = session(2)
    with pytest.raises(UsageMistake, match=text):
        call(s)
    s.sync_all()


class Lender:
    """Another library's tensor over memory of NumPy's."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_tensors_of_other_libraries_are_filled_through_dlpack(session):
    if not np.from_dlpack(Lender(np.zeros(3))).flags.writeable:
        pytest.skip("this NumPy takes all memory of others as read-only")
    s = session(2)
    array = np.zeros(3)
    s.copy_from_worker_0(Lender(array), s.copy_to_worker_0(Lender(np.arange(3.0))))
    assert array.tolist() == [0, 1, 2]


def test_read_only_memory_of_other_libraries_is_not_written(session, tmp_path):
    s = session(1)
    np.zeros(4096).tofile(tmp_path / "x")
    there = s.copy_to_worker_0(np.ones(4096))
    with pytest.raises(UsageMistake, match="writeable array on the CPU, got Lender"):
        s.copy_from_worker_0(Lender(np.memmap(tmp_path / "x", "f8", "r")), there)


@pytest.mark.parametrize("verb", ["broadcast", "scatter"])
@pytest.mark.parametrize(
    ("host", "said"),
    [
        ([1, "a"], "would turn the numbers"),
        (["a\0", "b"], "would drop the zeros at the end"),
        ([2**63, -1], "would round these integers"),
    ],
)
def test_what_numpy_would_change_is_refused_as_on_workers(session, verb, host, said):
    with pytest.raises(UsageMistake, match=f"{verb}: NumPy {said}.*; use session.put"):
        getattr(session(2), verb)(host)
