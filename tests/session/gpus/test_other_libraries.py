"""Arrays of other libraries on simulated GPUs: who brings one gets one, which is complete."""

from __future__ import annotations

import ctypes
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import disco_magic as disco
from tests.doubles import arrays
from tests.gpus import host


class Tensor:
    """As PyTorch lends its memory."""

    dtype, device, requires_grad = "torch.float64", "cuda:0", False

    def __init__(self, array):
        self.array = array
        self.shape = array.shape

    def clone(self):
        return Tensor(self.array.copy())

    def is_inference(self):
        return True

    def __dlpack__(self, **kwargs):
        return self.array.__dlpack__(**kwargs)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


Tensor.__module__ = "torch"


def capturing():
    """As if PyTorch computed on the stream that is cupy's current one."""
    return disco.worker().xp.cuda.get_current_stream().is_capturing()


CUDA = SimpleNamespace(
    current_stream=lambda _: SimpleNamespace(synchronize=disco.worker().place.settle),
    is_current_stream_capturing=capturing,
)


@pytest.fixture
def taken(monkeypatch):
    """What the memory of each worker's result holds at the moment when it becomes a tensor."""
    seen = {}

    def from_dlpack(array):
        seen[disco.worker().id] = list((ctypes.c_double * array.size).from_address(array.data.ptr))
        return Tensor(array)

    monkeypatch.setitem(
        sys.modules, "torch", SimpleNamespace(Tensor=Tensor, from_dlpack=from_dlpack, cuda=CUDA)
    )
    return seen


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("allreduce(t)", [[10, 10]] * 4),
        ("broadcast(t if worker_id == 1 else None, root=1)", [[2, 2]] * 4),
        ("scatter(torch.Tensor(xp.arange(4.0)) if worker_id == 1 else None, root=1)", [[0], [1], [2], [3]]),
        ("(send(t, (worker_id + 1) % 4), recv((worker_id - 1) % 4))[1]", [[4, 4], [1, 1], [2, 2], [3, 3]]),
    ],
)
def test_who_brings_a_tensor_gets_one_that_is_complete(shared, taken, call, expected):
    shared.run(f"import torch\nt = torch.Tensor(xp.full(2, worker_id + 1.0))\ny = {call}\nz = y.array")
    assert shared.run("type(y) is torch.Tensor").values == [True] * 4
    assert host(shared["z"]) == expected
    assert [taken[worker] for worker in range(4)] == expected


@pytest.mark.parametrize("call", ["allreduce(t)", "allreduce_tree([t])", "worker.check(1)"])
def test_what_comes_after_in_a_block_of_a_stream_is_queued_there(shared, taken, call):
    shared.run(
        "import torch\nother = xp.cuda.Stream(non_blocking=True)\n"
        f"with other:\n    t = torch.Tensor(xp.ones(2))\n    {call}\n"
        "    there = xp.cuda.get_current_stream().ptr == other.ptr\n"
        "mine = xp.cuda.get_current_stream().ptr == worker.place.stream.ptr"
    )
    assert shared.run("there, mine").values == [(True, True)] * 4


@pytest.mark.parametrize(
    "call", ["allreduce(t, out=t)", "broadcast(t, root=1, out=t)", "recv((worker_id - 1) % 4, t)"]
)
def test_a_tensor_is_filled_in_place_and_complete(shared, taken, call):
    shared.run(f"""
import ctypes, torch
t = torch.Tensor(xp.full(2, worker_id + 1.0))
if "recv" in {call!r}: send(t, (worker_id + 1) % 4)
y = {call}
same = y is t
now = list((ctypes.c_double * 2).from_address(t.array.data.ptr))
""")
    assert shared["same"].get_all() == [True] * 4
    each = {"allreduce": [10] * 4, "broadcast": [2] * 4, "recv": [4, 1, 2, 3]}[call.partition("(")[0]]
    assert shared["now"].get_all() == [[number] * 2 for number in each]
    assert not taken


def test_who_brings_an_array_of_cupy_gets_one(shared, taken):
    shared.run("import torch\ny = allreduce(torch.Tensor(xp.ones(2)) if worker_id else xp.ones(2))")
    assert shared.run("type(y) is xp.ndarray").values == [True, False, False, False]
    assert [*sorted(taken)] == [1, 2, 3]


def test_what_a_session_sends_of_tensors_becomes_tensors_on_the_worker_s_gpu(shared, taken):
    given = arrays.tensor(np.arange(8.0).reshape(4, 2), device="cpu")
    shared["whole"], shared["part"] = shared.broadcast(given), shared.scatter(given)
    shared.run("kinds = [(type(t).__name__, type(t.array) is xp.ndarray) for t in (whole, part)]")
    assert shared["kinds"].get_all() == [[("Tensor", True)] * 2] * 4
    shared.run("w, p = whole.array, part.array")
    assert (host(shared["w"]), host(shared["p"])) == ([given.numpy().tolist()] * 4, given.numpy().tolist())
    assert [taken[worker] for worker in range(4)] == given.numpy().tolist()


def test_a_tensor_that_a_session_sends_fills_what_is_on_the_gpus(shared, taken):
    given = arrays.tensor(np.arange(4.0), device="cpu")
    d, e = shared.empty(4, "f8"), shared.empty(1, "f8")
    assert host(shared.broadcast(given, d)) == [[0, 1, 2, 3]] * 4
    assert host(shared.scatter(given, e)) == [[0], [1], [2], [3]]
    assert host(shared.broadcast_from_worker0(shared.copy_to_worker_0(given), d)) == [[0, 1, 2, 3]] * 4
    assert not taken


def test_a_tensor_is_filled_from_the_first_worker_and_copied_out_of_registers(shared, taken):
    shared.run("import torch\nt = torch.Tensor(xp.arange(8.0).reshape(4, 2))\nd = xp.zeros(2)")
    shared.scatter_from_worker0(shared["t"], shared["d"])
    assert host(shared["d"]) == [[0, 1], [2, 3], [4, 5], [6, 7]]


RECORDED = """
import torch
t, x = torch.Tensor(xp.ones(2)), xp.ones(2)
worker.place.settle()
with xp.cuda.Stream(non_blocking=True) as other:
    other.begin_capture()
    try: {call}
    except ValueError as error: said = str(error)
    x += 1
    graph = other.end_capture()
    graph.launch()
    graph.launch()
    other.synchronize()
"""


@pytest.mark.parametrize("call", ["allreduce(t)", "broadcast(t, out=t)", "send(t, 0)"])
def test_a_tensor_of_a_graph_that_is_recorded_is_refused_and_the_graph_is_complete(shared, taken, call):
    shared.run(RECORDED.format(call=call))
    said = shared["said"].get(2)
    assert said.startswith("Tensor cannot be used through DLPack: PyTorch records a CUDA graph")
    assert said.endswith("capture only what is between collectives")
    assert host(shared["x"]) == [[3, 3]] * 4
