"""Sessions whose workers compute on GPUs, on simulated ones."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import disco_magic as disco
from disco_magic.devices import find, staging
from disco_magic.errors import CellError, LaunchError, UsageMistake, WorkerError
from disco_magic.testing.gpu import SimulatedGpus

LENGTHS = [0, 1, 3, 15, 16, 17, 96, 97, 1000]


@pytest.fixture(scope="module", params=[None, 11], ids=["prompt", "lagging"])
def machine(request):
    with SimulatedGpus(count=2, lag=request.param) as made:
        yield made


@pytest.fixture
def gpus(machine, monkeypatch):
    monkeypatch.setattr(find, "load_cupy", lambda: machine.cupy)
    monkeypatch.setattr(find, "count_gpus", lambda: 2)
    return machine


@pytest.fixture
def shared(gpus, session):
    """Four workers on one GPU."""
    return session(4, devices=[0] * 4)


def until(holds):
    pause = threading.Event()
    for _ in range(20_000):
        if holds():
            return
        pause.wait(0.001)
    pytest.fail("it did not come to that")


def host(value):
    """A register's value as a list, through the session's own copies."""
    return [None if each is None else each.tolist() for each in value.get_all()]


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


# --- copies ----------------------------------------------------------------------------------------


def test_verbs_put_arrays_on_the_gpu_and_bring_them_back(shared):
    x = shared.scatter(np.arange(8.0).reshape(4, 2))
    assert shared.call_packed(lambda x: type(x).__module__, x).get_all() == ["cupy"] * 4
    assert host(x) == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert isinstance(x.get(1), np.ndarray)
    assert host(shared.allreduce(x))[2] == [12, 16]
    assert shared.gather_to_worker0(x).get(0).tolist() == list(range(8))
    assert host(shared.broadcast(np.float32([[1, 2]])))[3] == [[1, 2]]
    out = shared.empty((2, 2))
    assert host(shared.broadcast(np.float32([[1, 2], [3, 4]]), out))[1] == [[1, 2], [3, 4]]
    assert host(shared.alltoall(shared.broadcast(np.arange(4))))[1] == [1] * 4
    assert host(shared.reduce_scatter(shared.broadcast(np.arange(4))))[3] == [12]
    assert host(shared.allgather(x, shared.empty((4, 2), "float64")))[0] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert shared.send_to_worker(x, 2).get(2).tolist() == [0, 1]
    with shared:
        pass


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("dtype", ["float32", "uint8", "bool", "complex128", ">i4"])
def test_copies_of_every_length_arrive_whole(shared, monkeypatch, length, dtype):
    monkeypatch.setattr(staging, "CHUNK_NBYTES", 64)
    given = (np.arange(length) % 251).astype(dtype)
    there = shared.copy_to_worker_0(given)
    expected = given.copy()
    given[...] = 0
    back = np.full(length, 7, dtype=expected.dtype.newbyteorder("="))
    shared.copy_from_worker_0(back, there)
    np.testing.assert_array_equal(back, expected)
    shared.copy_to_worker_0(back + back, there)
    np.testing.assert_array_equal(there.get(0), back + back)


def test_a_large_array_goes_through_several_buffers(shared):
    given = np.random.default_rng(0).integers(0, 255, 7 * staging.CHUNK_NBYTES + 12345, np.uint8)
    there = shared.copy_to_worker_0(given)
    back = np.zeros_like(given)
    shared.copy_from_worker_0(back, there)
    assert (back == given).all()


def test_arrays_with_gaps_are_copied_both_ways(shared):
    wide = np.arange(24.0).reshape(4, 6)
    there = shared.copy_to_worker_0(wide[:, ::2])
    back = np.zeros((4, 6))
    shared.copy_from_worker_0(back[:, ::2], there)
    assert (back[:, ::2] == wide[:, ::2]).all()
    assert (back[:, 1::2] == 0).all()
    shared["x"] = shared.call_packed(lambda: disco.worker().xp.zeros((4, 6))[:, 1::2])
    shared.copy_to_worker_0(wide[:, ::2], shared["x"])
    assert (shared["x"].get(0) == wide[:, ::2]).all()


def test_a_destination_that_does_not_fit_is_refused(shared):
    there = shared.copy_to_worker_0(np.zeros(3))
    with pytest.raises(WorkerError, match=r"the source float64 \(4,\)"):
        shared.copy_to_worker_0(np.zeros(4), there)
    shared.put("words", "no array")
    with pytest.raises(WorkerError, match="expected an array of NumPy or cupy"):
        shared.copy_from_worker_0(np.zeros(3), shared["words"])


def test_values_come_back_as_arrays_of_numpy_wherever_they_are(shared):
    shared.run("tree = {'w': [xp.ones(2), (xp.zeros(1), 'text')], 'n': 3}")
    tree = shared["tree"].get(2)
    assert tree["w"][0].tolist() == [1, 1]
    assert isinstance(tree["w"][1][0], np.ndarray)
    assert (tree["w"][1][1], tree["n"]) == ("text", 3)


def test_names_that_are_set_are_on_the_gpu(shared):
    shared.put("x", np.arange(3))
    shared.put("label", ["a", np.arange(2)])
    shared.run("kinds = type(x).__module__, type(label[1]).__module__")
    assert shared["kinds"].get(1) == ("cupy", "numpy")
    x = shared["x"]
    x.set(2, np.arange(3) * 2)
    assert host(x)[1:3] == [[0, 1, 2], [0, 2, 4]]
    assert shared.call_packed(lambda x: type(x).__module__, x).get(2) == "cupy"


@pytest.mark.parametrize("dtype", ["S3", "M8[s]", object, "g"])
def test_what_no_gpu_has_stays_on_the_host(shared, dtype):
    shared.put("x", np.zeros(2, dtype))
    assert shared.call_packed(lambda x: type(x).__module__, shared["x"]).get(0) == "numpy"


# --- where arrays are made -------------------------------------------------------------------------


def test_empty_is_on_the_workers_gpu_or_on_the_host(shared):
    shared["a"], shared["b"] = shared.empty((2,)), shared.empty((2,), device="cpu")
    shared["c"] = shared.empty((2,), device="cuda:0")
    shared.run("where = [type(v).__module__ for v in (a, b, c)]")
    assert shared["where"].get(3) == ["cupy", "numpy", "cupy"]
    with pytest.raises(UsageMistake, match=r"'cuda:1' is not there"):
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


# --- time ------------------------------------------------------------------------------------------


def test_a_cell_ends_when_its_work_on_the_gpu_has(gpus, shared, background):
    shared.run("stream = worker.place.stream")
    stream = shared._launcher.workers[1].context.place.stream
    with gpus.hold(stream) as hold:
        pending = shared.run_nowait("x = xp.ones(4) * 2")
        hold.arrived()
        assert not pending.done()
    assert pending.wait().errors == {}


def test_sync_waits_for_the_gpu(gpus, shared, background):
    stream = shared._launcher.workers[2].context.place.stream
    with gpus.hold(stream) as hold:
        shared.call_packed(lambda: disco.worker().xp.ones(4) * 2)
        waiting = background(shared.sync_all)
        hold.arrived()
        shared.sync_worker(0)
        hold.release()
    waiting()


def test_an_interrupt_ends_the_wait_for_a_gpu_and_the_session_goes_on(gpus, shared):
    stream = shared._launcher.workers[0].context.place.stream
    with gpus.hold(stream):
        pending = shared.run_nowait("x = xp.ones(4)")
        until(lambda: "x" in shared._launcher.workers[0].registers.names)
        pending.cancel()
        with pytest.raises(CellError, match="interrupted"):
            pending.wait()
        assert shared.call_packed(lambda: 5).get(1) == 5
    assert shared["x"].get(0).tolist() == [1] * 4


def test_streams_of_the_user_last_as_long_as_their_cell(shared):
    shared.run("other = xp.cuda.Stream(non_blocking=True)\nother.use()\na = allreduce(xp.ones(2))")
    shared.run("mine = xp.cuda.get_current_stream().ptr == worker.place.stream.ptr")
    assert shared["mine"].get_all() == [True] * 4
    shared.run(
        "with other:\n    b = allreduce(xp.full(2, 3.0))\n    c = (b + 1).get()\n"
        "mine = xp.cuda.get_current_stream().ptr == worker.place.stream.ptr"
    )
    assert shared["mine"].get_all() == [True] * 4
    assert host(shared["c"])[1] == [13, 13]
    assert host(shared["a"])[3] == [4, 4]


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


def test_restart_gives_new_streams(shared):
    before = {worker.context.place.stream.ptr for worker in shared._launcher.workers}
    shared.restart()
    after = {worker.context.place.stream.ptr for worker in shared._launcher.workers}
    assert not before & after
    assert host(shared.allreduce(shared.broadcast(np.ones(1))))[0] == [4]


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


def test_a_kernel_that_fails_is_an_error_of_its_cell_and_says_that_the_gpu_is_lost(monkeypatch, session):
    with SimulatedGpus(count=1) as gpus:
        monkeypatch.setattr(find, "load_cupy", lambda: gpus.cupy)
        monkeypatch.setattr(find, "count_gpus", lambda: 1)
        s = session(2, devices="0,0")
        s.run("x = xp.ones(2)")
        gpus.fail(0, gpus.cupy.cuda.runtime.CUDARuntimeError(700))
        with pytest.raises(CellError, match="cudaErrorIllegalAddress") as caught:
            s.run("y = 1")
        assert "cuda:0 can no longer be used by this process" in str(caught.value)
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


def test_parameters_are_loaded_onto_the_gpu(shared, tmp_path):
    path = tmp_path / "model.safetensors"
    header = (
        '{"w":{"dtype":"F32","shape":[4,2],"data_offsets":[0,32]},'
        '"b":{"dtype":"I16","shape":[3],"data_offsets":[32,38]}}'
    )
    head = header.encode().ljust(-(-len(header) // 8) * 8)
    path.write_bytes(
        len(head).to_bytes(8, "little")
        + head
        + np.arange(8, dtype="f4").tobytes()
        + np.int16([1, 2, 3]).tobytes()
    )
    loaded = shared.load_safetensors(path, plan={"w": disco.Shard(axis=0), "b": disco.REPLICATE})
    assert host(loaded["w"]) == [[[0, 1]], [[2, 3]], [[4, 5]], [[6, 7]]]
    assert host(loaded["b"]) == [[1, 2, 3]] * 4
    assert shared.call_packed(
        lambda *arrays: {type(a).__module__ for a in arrays}, loaded["w"], loaded["b"]
    ).get(3) == {"cupy"}
    loaded_names = {"w": loaded["w"], "b": loaded["b"]}
    for name, dref in loaded_names.items():
        shared[name] = dref
    shared.check(values=True)


def test_functions_of_tvm_get_the_gpu_s_arrays_and_give_them_back(shared):
    ffi = pytest.importorskip("tvm_ffi", reason="apache-tvm is not installed")
    seen = []

    def same(tensor):
        seen.append((type(tensor).__module__, ffi.get_raw_stream(ffi.device("cuda:0"))))
        return tensor

    ffi.register_global_func("disco_test.same", same, override=True)
    x = shared.scatter(np.arange(8.0).reshape(4, 2))
    y = shared.call_packed("disco_test.same", x)
    assert host(y) == host(x)
    assert (
        shared.call_packed(lambda x, y: (type(y).__module__, x.data.ptr == y.data.ptr), x, y).get_all()
        == [("cupy", True)] * 4
    )
    streams = {worker.context.place.stream.ptr for worker in shared._launcher.workers}
    assert {stream for _, stream in seen} == streams


@pytest.mark.parametrize("ending", ["", "1 / 0"])
def test_a_stream_that_a_cell_leaves_current_is_not_that_of_the_calls_after_it(shared, ending):
    for step in range(10):
        code = f"other = xp.cuda.Stream(non_blocking=True)\nother.use()\nx = xp.full(1000, {step})\n{ending}"
        if ending:
            with pytest.raises(CellError, match="ZeroDivisionError"):
                shared.run(code)
        else:
            shared.run(code)
        y = shared.call_packed(lambda x: x + disco.worker().xp.ones(1000, int), shared["x"])
        assert [int(each.sum()) for each in shared.allreduce(y).get_all()] == [4000 * (step + 1)] * 4


def test_an_array_of_the_notebook_s_own_gpu_is_copied_to_the_workers_gpu(gpus, session):
    s = session(2, devices="1,1")
    with gpus.cupy.cuda.Device(0):
        mine = gpus.cupy.arange(1000) * 2
    gpus.allow_peer_access()
    s.put("x", mine)
    mine[...] = 0
    s.run("there = x.device.id, int(x.sum())")
    assert s["there"].get_all() == [(1, 999_000)] * 2


def test_a_sync_that_is_interrupted_does_not_say_that_all_is_done(gpus, shared, background):
    stream = shared._launcher.workers[1].context.place.stream
    with gpus.hold(stream) as hold:
        shared.call_packed(lambda: disco.worker().xp.ones(4) * 2)
        waiting = background(shared.sync_all)
        hold.arrived()
        until(lambda: shared._launcher.workers[1].is_executing)
        shared.interrupt()
        with pytest.raises(WorkerError, match="WorkerInterrupt"):
            waiting()
    shared.sync_all()


def test_arrays_of_the_notebook_s_gpu_are_broadcast_and_named_tuples_come_back(gpus, shared):
    assert host(shared.broadcast(gpus.cupy.arange(3)))[2] == [0, 1, 2]
    shared.run(
        "from collections import namedtuple\nPair = namedtuple('Pair', 'a b')\np = Pair(xp.ones(2), 'b')"
    )
    pair = shared["p"].get(1)
    assert (type(pair).__name__, pair.a.tolist(), type(pair.a)) == ("Pair", [1, 1], np.ndarray)


def test_what_cannot_be_lent_is_refused_and_the_advice_for_out_is_the_gpu_s(shared):
    broken = "class Broken:\n    def __dlpack__(self): ...\n    def __dlpack_device__(self): return 3\n"
    with pytest.raises(CellError, match="Broken cannot be taken over through DLPack"):
        shared.run(broken + "allreduce(Broken())")
    with pytest.raises(CellError, match=r"pass xp\.empty\(\(2,\), 'float64'\)"):
        shared.run("allreduce(xp.ones(2), out=xp.ones(3))")
