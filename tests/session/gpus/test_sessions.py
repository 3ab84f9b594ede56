"""Sessions whose workers compute on GPUs, on simulated ones."""

from __future__ import annotations

import numpy as np
import pytest

import disco_magic as disco
from disco_magic.devices.gpu import GpuPlace
from disco_magic.errors import CellError, LaunchError, UsageMistake, WorkerError
from disco_magic.testing.gpu import SimulatedGpus
from tests.conftest import given_up_comes_back
from tests.gpus import found, host


def test_a_session_says_where_it_computes(shared):
    assert repr(shared) == f"Disco session {shared.id}: 4 workers · threads · cuda:0 · plane device"
    assert shared.devices == (0, 0, 0, 0)
    assert shared.why == "the workers share one GPU"


def test_cells_see_the_gpu(shared):
    result = shared.run("[xp.__name__, worker.device, repr(worker), str(xp.cuda.Device())]")
    assert result.values[1] == [
        "cupy",
        "cuda:0",
        "<worker 1 of 4 on cuda:0>",
        "<CUDA Device 0>",
    ]


def test_collectives_in_cells_stay_on_the_gpu(shared):
    shared.run(
        """
        x = xp.full((2, 3), worker_id + 1, dtype="float32")
        total = allreduce(x)
        part = reduce_scatter(xp.arange(8) * x[0, 0])
        everyone = allgather(x[:1, :1])
        swapped = alltoall(xp.arange(4) + 10 * worker_id)
        first = broadcast(x if worker_id == 0 else None)
        mine = scatter(xp.arange(8) if worker_id == 0 else None)
        there = gather(x[0], root=2)
        kinds = [type(a) is xp.ndarray for a in (total, part, everyone, swapped, first, mine)]
        """.replace("\n        ", "\n")
    )
    assert shared["kinds"].get_all() == [[True] * 6] * 4
    assert host(shared["total"]) == [[[10] * 3] * 2] * 4
    assert host(shared["part"]) == [[10 * i, 10 * i + 10] for i in (0, 2, 4, 6)]
    assert host(shared["everyone"])[3] == [[1], [2], [3], [4]]
    assert host(shared["swapped"])[2] == [2, 12, 22, 32]
    assert host(shared["first"])[3] == [[1] * 3] * 2
    assert host(shared["mine"]) == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert host(shared["there"]) == [None, None, [1] * 3 + [2] * 3 + [3] * 3 + [4] * 3, None]


def test_an_array_of_the_workers_own_library_is_taken_as_it_is(shared, monkeypatch):
    """Each look at it costs, on every worker, and workers take turns."""
    shared.run("x, out = xp.ones(2), xp.zeros(2)")
    looked = []
    monkeypatch.setattr(GpuPlace, "read", lambda place, value: looked.append(value) or value)
    shared.run("total = allreduce(x, out=out)")
    assert host(shared["total"]) == [[4.0, 4.0]] * 4
    assert not looked


def test_tokens_go_to_the_workers_with_their_experts_and_back(shared):
    shared.run(
        """
        rng = np.random.default_rng(worker_id)
        tokens, expert = xp.asarray(rng.standard_normal((50, 3))), rng.integers(3, size=50)
        order = xp.asarray(np.argsort(expert, kind="stable"))
        counts = xp.asarray(np.bincount(expert, minlength=num_workers))
        mine = alltoall(tokens[order], counts=counts)
        y = xp.empty_like(tokens)
        y[order] = alltoall(mine * (worker_id + 1), counts=alltoall(counts))
        """.replace("\n        ", "\n")
    )
    lengths = [len(each) for each in shared["mine"].get_all()]
    assert (sum(lengths), lengths[3]) == (200, 0)
    assert shared.run("type(mine) is xp.ndarray").values == [True] * 4
    expected = "xp.asarray(tokens.get() * (expert + 1)[:, None])"
    assert shared.run(f"bool((y == {expected}).all())").values == [True] * 4


def test_a_view_of_all_of_an_array_marks_it(shared):
    shared.run("w = xp.zeros((2, 3))\nworker.replicated(w.T)")
    shared.run("w[0] += worker_id == 2")
    assert [row.name for row in shared.check(values=True).differing] == ["w"]


def test_what_is_on_the_host_is_carried_there(shared):
    shared.run("a, b = allreduce(np.arange(3) + worker_id), allreduce(0.5)\nk = type(a).__module__")
    assert shared["k"].get_all() == ["numpy"] * 4
    assert host(shared["a"])[0] == [6, 10, 14]
    assert shared["b"].get(3) == 2


def test_one_worker_with_an_array_elsewhere_is_named(shared):
    with pytest.raises(CellError, match=r"worker 3 gave device=cpu, workers \[0-2\] gave device=cuda:0"):
        shared.run("allreduce(xp.ones(2) if worker_id < 3 else np.ones(2))")
    with pytest.raises(CellError, match="out of worker 1 is on cpu, the result on cuda:0"):
        shared.run(
            "x = xp.ones(2) if worker_id == 0 else None\n"
            "broadcast(x, out=np.empty(2) if worker_id == 1 else None)"
        )
    assert list(shared.run("allreduce(1)").values) == [4] * 4


def test_messages(shared):
    shared.run(
        "x = xp.full(3, worker_id)\nsend(x, (worker_id + 1) % 4)\nx[...] = -1\n"
        "out = xp.empty(3, int)\ngot = recv((worker_id - 1) % 4, out)\nsame = got is out"
    )
    assert host(shared["got"]) == [[3] * 3, [0] * 3, [1] * 3, [2] * 3]
    assert shared["same"].get(0) is True


def test_a_message_outlives_what_was_sent(shared):
    # Freed and taken again while the receiver has not copied it yet: another stream's memory.
    shared.run(
        """
for i in range(20):
    if worker_id == 0:
        send(xp.full(1000, i), 1)
        junk = xp.full(1000, -1)
    elif worker_id == 1:
        assert int(recv(0).sum()) == 1000 * i
"""
    )


def test_groups(gpus, session):
    s = session(4, 2, devices="0,0,0,0")
    assert host(
        s.call_packed(lambda: disco.worker().allreduce(disco.worker().xp.full(1, disco.worker().id)))
    ) == [
        [1],
        [1],
        [5],
        [5],
    ]
    x = s.scatter(np.arange(4.0).reshape(4, 1), in_group=False)
    assert host(s.send_to_next_group(x))[2:] == [[0], [1]]


def test_axes_of_a_mesh_and_workers_that_are_named(gpus, session):
    s = session(4, mesh="dp=2,tp=2", devices="0,0,0,0")
    assert s.plane_name == "device"
    cell = """
x = xp.full(3, worker_id, dtype="float32")
got = [allreduce(x, over=each) for each in ("tp", "dp", ("dp", "tp"))]
if worker_id in (0, 3):
    got.append(allreduce(x, over=[0, 3]))
[each[0].item() for each in got]
"""
    assert s.run(cell).values == [[1, 2, 6, 3], [1, 4, 6], [5, 2, 6], [5, 4, 6, 3]]
    y = s.scatter(np.arange(4.0).reshape(2, 2), over="tp")
    assert host(s.allreduce(y, over="dp")) == [[0, 2], [4, 6]] * 2


# --- where arrays are made -------------------------------------------------------------------------


def test_empty_is_on_the_workers_gpu_or_on_the_host(shared):
    shared["a"], shared["b"] = shared.empty((2,)), shared.empty((2,), device="cpu")
    shared["c"] = shared.empty((2,), device="cuda:0")
    shared.run("where = [type(v).__module__ for v in (a, b, c)]")
    assert shared["where"].get(3) == ["cupy", "numpy", "cupy"]
    with pytest.raises(UsageMistake, match=r"'cuda:1' does not exist"):
        shared.empty((2,), device="cuda:1")
    with pytest.raises(WorkerError, match=r"cuda:0 has no arrays of dtype (complex256|float128)"):
        shared.empty((2,), "longdouble").get(0)


def test_init_ccl_knows_the_gpus(shared):
    shared.init_ccl("device", 0, 0, 0, 0)
    shared.init_ccl("auto")
    with pytest.raises(
        UsageMistake, match=r"have the GPUs \[0, 0, 0, 0\], which it keeps; for \[0, 1, 0, 1\]"
    ):
        shared.init_ccl("device", 0, 1, 0, 1)


def test_an_array_on_another_gpu_is_refused_with_advice(shared):
    with pytest.raises(CellError, match=r"worker 2 is on cuda:1, the worker computes on cuda:0 - copy it"):
        shared.run("with xp.cuda.Device(1 if worker_id == 2 else 0): y = xp.ones(2)\nallreduce(y)")


def test_a_session_on_the_cpu_beside_it_is_not_changed(shared, session):
    assert session(2).run("xp.__name__, worker.device").values[0] == ("numpy", "cpu")


# --- what goes wrong -------------------------------------------------------------------------------


def test_a_worker_that_fails_releases_those_in_a_collective(shared):
    with pytest.raises(CellError, match=r"ZeroDivisionError") as caught:
        shared.run("x = xp.ones(2) / (1 if worker_id != 1 else 1 // 0)\nallreduce(x)")
    assert set(caught.value.failures) == {0, 1, 2, 3}
    assert host(shared.allreduce(shared.broadcast(np.ones(1))))[0] == [4]


def test_out_of_memory_is_an_error_of_that_worker(shared):
    with pytest.raises(CellError, match="OutOfMemoryError"):
        shared.run("x = xp.empty(1 << 40, 'u1') if worker_id == 2 else None")
    assert shared.run("1").values[2] == 1


def test_a_worker_whose_thread_is_replaced_on_a_lost_gpu_keeps_its_registers(monkeypatch, session, gate):
    """Its new thread found no GPU to compute on when it began, and ended: the worker was lost."""
    with SimulatedGpus(count=1) as gpus:
        found(monkeypatch, gpus, 1)
        s = session(2, devices="0,0", extras=lambda context: {"gate": gate})
        s.run("kept = worker_id + 5")
        pending = s.run_nowait("gate(0) if worker_id == 0 else None")
        gate.arrived()
        gpus.fail(0, gpus.cupy.cuda.runtime.CUDARuntimeError(700))
        pending.cancel()
        with pytest.raises(CellError):
            pending.wait()
        with pytest.raises(CellError, match="cuda:0 can no longer be used by this process"):
            s.run("1")
        assert [each.text for each in s.registers().row("kept").cells] == ["5", "6"]
        given_up_comes_back(s, gate)
        s.shutdown()


def test_a_kernel_that_fails_is_an_error_of_its_cell_and_says_that_the_gpu_is_lost(monkeypatch, session):
    with SimulatedGpus(count=1) as gpus:
        found(monkeypatch, gpus, 1)
        s = session(2, devices="0,0")
        s.run("x = xp.ones(2)")
        gpus.fail(0, gpus.cupy.cuda.runtime.CUDARuntimeError(700))
        with pytest.raises(CellError, match="cudaErrorIllegalAddress") as caught:
            s.run("y = 1")
        assert "cuda:0 can no longer be used by this process" in str(caught.value)
        with pytest.raises(CellError, match="cudaErrorIllegalAddress") as caught:
            s.run("x + 1")
        assert str(caught.value).count("cuda:0 can no longer be used by this process") == 1
        with pytest.raises(WorkerError, match="cudaErrorIllegalAddress"):
            s.sync_all()
        with pytest.raises(CellError, match=r"ZeroDivisionError|cudaErrorIllegalAddress"):
            s.run("1 / 0")
        done = s.call_packed(lambda: 5)
        with pytest.raises(WorkerError, match="cudaErrorIllegalAddress"):
            done.get_all()
        assert [place.state for place in s.doctor().positions] == ["idle", "idle"]
        with pytest.raises(LaunchError, match="this process has lost that GPU: restart the kernel"):
            session(2, devices="0,0")
        s.shutdown()


def test_what_cannot_be_lent_is_refused_and_the_advice_for_out_is_the_gpu_s(shared):
    broken = "class Broken:\n    def __dlpack__(self): ...\n    def __dlpack_device__(self): return 3\n"
    with pytest.raises(CellError, match="Broken cannot be used through DLPack"):
        shared.run(broken + "allreduce(Broken())")
    with pytest.raises(CellError, match=r"pass xp\.empty\(\(2,\), 'float64'\)"):
        shared.run("allreduce(xp.ones(2), out=xp.ones(3))")


def test_a_worker_on_a_gpu_is_asked_for_its_work_may_go_on_while_it_sleeps(shared):
    ref = shared.call_packed(lambda: 7)
    shared.sync_all()
    before = shared.ledger.seq
    assert ref.get(1) == 7
    shared.sync_all()
    assert shared.ledger.seq == before + 2


@pytest.mark.parametrize("made", ["[x.sum(), x.max()]", "(x.sum(), 1.0)"])
def test_a_list_of_arrays_on_a_gpu_is_refused_with_what_makes_one_of_them(shared, made):
    with pytest.raises(CellError, match=r"cannot be read .*- xp.stack\(\[...\]\) makes one array of several"):
        shared.run(f"x = xp.ones(2)\nallreduce({made})")


# --- AMD's -----------------------------------------------------------------------------------------


@pytest.fixture
def amd(gpus, monkeypatch):
    """These GPUs, as a cupy that was built for ROCm has them."""
    monkeypatch.setattr(gpus.cupy.cuda.runtime, "is_hip", True)
    return gpus


@pytest.mark.usefixtures("amd")
def test_amds_gpus_are_called_rocm_everywhere(session):
    s = session(2, devices="rocm:0,rocm:0")
    assert s.device == "rocm:0"
    assert s.run("worker.device").values == ["rocm:0"] * 2
    s["there"] = s.empty((3,), "float32", device="rocm:0")
    assert s.run("type(there) is xp.ndarray").values == [True, True]
    with pytest.raises(UsageMistake, match=r"the workers have 'rocm:0' and 'cpu'"):
        s.empty((3,), "float32", device="cuda:0")
    assert host_of_sum(s) == [3.0, 3.0]


def host_of_sum(session):
    session.run("y = float(allreduce(xp.full(1, worker_id + 1.0))[0])")
    return session["y"].get_all()
