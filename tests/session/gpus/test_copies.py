"""Arrays that cross the border between the notebook and workers on simulated GPUs."""

from __future__ import annotations

import numpy as np
import pytest

import disco_magic as disco
from disco_magic.devices import staging
from disco_magic.errors import WorkerError
from disco_magic.notebook.variables import fetched, stored
from tests.conftest import until
from tests.gpus import host, in_small_chunks, streams

LENGTHS = [0, 1, 3, 15, 16, 17, 96, 97, 1000]


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
    in_small_chunks(monkeypatch, 64)
    given = (np.arange(length) % 251).astype(dtype)
    there = shared.copy_to_worker_0(given)
    expected = given.copy()
    given[...] = 0
    back = np.full(length, 7, dtype=expected.dtype.newbyteorder("="))
    shared.copy_from_worker_0(back, there)
    np.testing.assert_array_equal(back, expected)
    shared.copy_to_worker_0(back + back, there)
    np.testing.assert_array_equal(there.get(0), back + back)


@pytest.mark.parametrize("layout", ["whole", "every other"])
def test_arrays_of_the_other_byte_order_are_copied_both_ways(shared, layout):
    # A GPU has the machine's order only. What came back was refused, or had its bytes the wrong way round.
    given = np.arange(40.0).astype(">f8")
    there = shared.copy_to_worker_0(given)
    back = np.zeros(80, ">f8")[:40] if layout == "whole" else np.zeros(80, ">f8")[::2]
    shared.copy_from_worker_0(back, there)
    assert back.tolist() == given.tolist()
    shared.copy_to_worker_0(back + 1, there)
    assert there.get(0).tolist() == (given + 1).tolist()


def test_a_worker_s_host_array_of_the_other_byte_order_is_filled_from_its_gpu(shared):
    shared.run("got = np.zeros(5, '>f8')\nworker.place.copy(got, xp.arange(5.0))\nlistened = got.tolist()")
    assert shared["listened"].get(1) == [0.0, 1.0, 2.0, 3.0, 4.0]


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


# --- values and names ------------------------------------------------------------------------------


def test_values_come_back_as_arrays_of_numpy_wherever_they_are(shared):
    shared.run("tree = {'w': [xp.ones(2), (xp.zeros(1), 'text')], 'n': 3}")
    tree = shared["tree"].get(2)
    assert tree["w"][0].tolist() == [1, 1]
    assert isinstance(tree["w"][1][0], np.ndarray)
    assert (tree["w"][1][1], tree["n"]) == ("text", 3)


def test_dictionaries_of_both_kinds_that_hold_a_state_come_back_with_arrays_of_numpy(shared):
    shared.run(
        "from collections import OrderedDict, defaultdict\n"
        "o = OrderedDict(b=xp.ones(2), a=[xp.zeros(1)])\nd = defaultdict(list, w=xp.ones(2))"
    )
    state, found = shared["o"].get(1), shared["d"].get(2)
    assert (type(state).__name__, list(state)) == ("OrderedDict", ["b", "a"])
    assert {type(each) for each in (state["b"], state["a"][0], found["w"])} == {np.ndarray}
    assert (type(found).__name__, found.default_factory) == ("defaultdict", list)
    assert type(shared.run("o")[0]["b"]) is np.ndarray


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


def test_an_array_that_is_a_map_of_a_file_arrives_on_the_gpu(shared, tmp_path):
    np.save(tmp_path / "x.npy", np.arange(3.0))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    shared.put("x", mapped)
    x = shared["x"]
    x.set(0, mapped)
    assert shared.call_packed(lambda x: type(x).__module__, x).get_all() == ["cupy"] * 4
    assert host(x) == [[0, 1, 2]] * 4


def test_an_array_of_the_notebook_s_own_gpu_is_copied_to_the_workers_gpu(gpus, session):
    s = session(2, devices="1,1")
    with gpus.cupy.cuda.Device(0):
        mine = gpus.cupy.arange(1000) * 2
    gpus.allow_peer_access()
    s.put("x", mine)
    mine[...] = 0
    s.run("there = x.device.id, int(x.sum())")
    assert s["there"].get_all() == [(1, 999_000)] * 2


def test_arrays_of_the_notebook_s_gpu_are_broadcast_and_named_tuples_come_back(gpus, shared):
    assert host(shared.broadcast(gpus.cupy.arange(3)))[2] == [0, 1, 2]
    shared.run(
        "from collections import namedtuple\nPair = namedtuple('Pair', 'a b')\np = Pair(xp.ones(2), 'b')"
    )
    pair = shared["p"].get(1)
    assert (type(pair).__name__, pair.a.tolist(), type(pair.a)) == ("Pair", [1, 1], np.ndarray)


# --- files and other libraries ---------------------------------------------------------------------


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
    assert {stream for _, stream in seen} == {stream.ptr for stream in streams(shared)}


@pytest.fixture
def pinned(cupy):
    """Makes arrays of NumPy in memory that the system may not move."""

    def make(values):
        values = np.asarray(values, float)
        array = np.frombuffer(cupy.cuda.alloc_pinned_memory(values.nbytes), float, values.size)
        array[:] = values
        return array

    return make


def test_a_pinned_array_is_its_owners_again_when_a_copy_was_interrupted(gpus, shared, pinned, background):
    there, array = shared.copy_to_worker_0(np.full(100, 5.0)), pinned(np.ones(100))
    shared.sync_all()
    for copy in (shared.copy_from_worker_0, shared.copy_to_worker_0):
        with gpus.hold(streams(shared)[0]) as hold:
            copied = background(copy, array, there)
            until(lambda: shared.doctor().positions[0].state == "executing")
            shared.interrupt()
            with pytest.raises(WorkerError, match="WorkerInterrupt"):
                copied()
            array[:] = 7
            hold.release()
        shared.sync_all()
        assert set(array) == {7.0}
        assert set(there.get(0)) == {5.0}


def test_a_pinned_array_is_copied_both_ways(shared, pinned):
    array, back = pinned(np.arange(1000.0)), pinned(np.zeros(1000))
    there = shared.copy_to_worker_0(array)
    array[:] = 0
    shared.copy_from_worker_0(back, there)
    assert back.tolist() == list(range(1000))


def test_an_array_that_only_begins_or_ends_in_pinned_memory_takes_the_detour(
    gpus, shared, pinned, monkeypatch
):
    cupy = gpus.cupy  # the simulated one: a real one's module has no class of its own
    there, array, asked = shared.copy_to_worker_0(np.zeros(4)), pinned(np.arange(4.0)), []
    runtime = type(cupy.cuda.runtime)
    ask = runtime.pointerGetAttributes

    def of_the_first_half(self, address):
        asked.append(address - array.ctypes.data)
        known = ask(self, address)
        return known if asked[-1] < array.nbytes // 2 else known._replace(type=self.memoryTypeUnregistered)

    monkeypatch.setattr(runtime, "pointerGetAttributes", of_the_first_half)
    monkeypatch.setattr(staging.Staging, "_straight", lambda *_: pytest.fail("not all of it is pinned"))
    shared.copy_to_worker_0(array, there)
    assert there.get(0).tolist() == [0, 1, 2, 3]
    assert {0, array.nbytes - 1} <= set(asked)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "int4"])
def test_what_cupy_has_no_arrays_of_stays_on_the_host(shared, dtype):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = shared.broadcast(np.ones(3, getattr(ml_dtypes, dtype)))
    assert shared.call_packed(lambda x: (type(x).__module__, x.dtype.name), x).get(1) == ("numpy", dtype)
    assert x.get(2).astype(float).tolist() == [1, 1, 1]


def test_an_array_that_is_sent_with_other_values_goes_to_the_gpu_as_alone(shared):
    values = {"w": np.arange(4.0), "held": {"w": [1]}, "more": [np.zeros(2)]}
    for name, register in stored(shared, values).items():
        shared[name] = register
    assert (
        shared.run("isinstance(w, xp.ndarray), isinstance(more[0], np.ndarray)").values == [(True, True)] * 4
    )
    shared.run("v = [xp.full(2, worker_id)]")
    assert [v[0].tolist() for v in fetched(shared, {"v": "v", "w": "w"}, (1, 3))["v"]] == [[1, 1], [3, 3]]


def test_what_a_cell_computes_on_another_gpu_is_copied_when_it_is_there(
    gpus, session, background, monkeypatch
):
    s = session(1, devices=[0])
    s.run("with xp.cuda.Device(1): x = xp.zeros(3); xp.cuda.Stream.null.synchronize()")
    with gpus.cupy.cuda.Device(1):
        hold = gpus.hold(gpus.cupy.cuda.Stream.null)
    with hold:
        s.run("with xp.cuda.Device(1): x += 1")
        wait_event, told = gpus.cupy.cuda.Stream.wait_event, []
        monkeypatch.setattr(
            gpus.cupy.cuda.Stream, "wait_event", lambda *given: told.append("waits") or wait_event(*given)
        )
        asked = background(lambda: told.append(s["x"].get(0).tolist()))
        until(lambda: told)
    asked()
    assert told == ["waits", [1, 1, 1]]
