"""Elements of arrays on a GPU, fetched by whoever looks at them: the right ones, in time, without a trace."""

from __future__ import annotations

import numpy as np
import pytest

from disco_magic.testing.gpu import SimulatedGpus
from disco_magic.values import gathering
from disco_magic.values.gathering import Gatherer
from disco_magic.values.samples import sample_of
from disco_magic.values.wanted import Axis, Wanted, sampled, whole
from tests.gpus import LAGS

ml_dtypes = pytest.importorskip("ml_dtypes")

DTYPES = ["?", "i1", "u2", "f2", "f4", "i8", "c8", "c16", ml_dtypes.bfloat16]
LAYOUTS = {
    "contiguous": lambda array: array,
    "transposed": lambda array: array.T,
    "reversed": lambda array: array[::-1, ::-2],
    "every third": lambda array: array[:, 1::3],
    "one column": lambda array: array[:, 2],
}


@pytest.fixture(params=LAGS.values(), ids=LAGS)
def gpus(request):
    with SimulatedGpus(count=2, memory_nbytes=1 << 24, lag=request.param) as made:
        yield made


@pytest.fixture
def cupy(gpus):
    return gpus.cupy


def settled(cupy, array):
    """The same array on device 0, all of it computed."""
    there = cupy.asarray(array)
    cupy.cuda.Device(0).synchronize()
    return there


def fetched(gatherer, *wanted):
    found = gatherer.gather(wanted)
    assert found is not None
    return found


# --- which elements --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("sample", [1, 100, 700, 5000])
def test_the_elements_are_those_of_a_sample_on_the_host(cupy, dtype, sample):
    host = np.random.default_rng(3).integers(0, 2, (40, 50)).astype(dtype)
    there = settled(cupy, host)
    gatherer = Gatherer(cupy, 0)
    wanted = [sampled(layout(there), sample) for layout in LAYOUTS.values()]
    for layout, found in zip(LAYOUTS.values(), fetched(gatherer, *wanted), strict=True):
        expected = sample_of(layout(host), sample)
        assert found.dtype == host.dtype
        assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_a_large_array_is_sampled_in_the_same_places(cupy, layout):
    host = np.arange(600_000, dtype="f4").reshape(600, 1000)
    (found,) = fetched(Gatherer(cupy, 0), sampled(layout(settled(cupy, host)), 65_536))
    assert found.tolist() == sample_of(layout(host), 65_536).tolist()


@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0), (2, 3, 4)], ids=str)
def test_all_elements_of_an_array_come_whatever_its_shape(cupy, shape):
    host = np.arange(np.prod(shape, dtype=int), dtype="i4").reshape(shape)
    (found,) = fetched(Gatherer(cupy, 0), whole(settled(cupy, host)))
    assert found.tolist() == host.reshape(-1).tolist()


def test_lines_are_chosen_by_lists(cupy):
    host = np.arange(60, dtype="i8").reshape(6, 10)
    there = settled(cupy, host)
    axes = (Axis(3, 80, np.array([5, 0, 2])), Axis(2, 8, np.array([9, 1])))
    (found,) = fetched(Gatherer(cupy, 0), Wanted(there, axes))
    assert found.tolist() == host[np.ix_([5, 0, 2], [9, 1])].reshape(-1).tolist()


def test_elements_that_lie_at_odd_addresses_are_moved_byte_by_byte(cupy):
    raw = settled(cupy, np.arange(81, dtype="u1"))
    odd = raw[1:]
    whole_words = cupy.ndarray((10,), "i8", odd.data)
    (found,) = fetched(Gatherer(cupy, 0), whole(whole_words))
    assert found.tobytes() == bytes(range(1, 81))
    assert gathering._unit(odd.data.ptr, 8, ()) == 1


def test_an_array_that_is_broadcast_is_read_where_it_is(cupy):
    there = settled(cupy, np.array([7, 8], "i4"))
    (found,) = fetched(Gatherer(cupy, 0), Wanted(there, (Axis(3, 0), Axis(2, 4))))
    assert found.tolist() == [7, 8] * 3


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("room", [256, 2048, 20_000])
def test_what_does_not_fit_comes_in_pieces(cupy, monkeypatch, layout, room):
    monkeypatch.setattr(gathering, "_ROOM", room)
    host = np.arange(3000, dtype="i4").reshape(50, 60)
    there = settled(cupy, host)
    gatherer = Gatherer(cupy, 0)
    wanted = [whole(layout(there)), sampled(layout(there), 700), whole(there[:1])]
    expected = [layout(host), sample_of(layout(host), 700), host[:1]]
    for found, array in zip(fetched(gatherer, *wanted), expected, strict=True):
        assert found.tolist() == array.reshape(-1).tolist()


def test_a_hundred_arrays_come_with_one_launch(cupy, gpus, monkeypatch):
    there = [settled(cupy, np.full(n, n, "f4")) for n in range(1, 101)]
    gatherer = Gatherer(cupy, 0)
    fetched(gatherer, whole(there[0]))
    launches = []
    launch = gathering._Bench.launch
    monkeypatch.setattr(
        gathering._Bench, "launch", lambda bench, batch: (launches.append(len(batch)), launch(bench, batch))
    )
    found = fetched(gatherer, *map(whole, there))
    assert [each.tolist() for each in found] == [[n] * n for n in range(1, 101)]
    assert launches == [100]


# --- without a trace -------------------------------------------------------------------------------


def test_the_calling_thread_keeps_its_device_and_stream(cupy):
    there = settled(cupy, np.arange(3))
    with cupy.cuda.Device(1):
        mine = cupy.cuda.Stream(non_blocking=True)
        mine.use()
        fetched(Gatherer(cupy, 0), whole(there))
        assert cupy.cuda.Device().id == 1
        assert cupy.cuda.get_current_stream() == mine
        cupy.cuda.Stream.null.use()
    other = cupy.cuda.Stream(non_blocking=True)
    with other:
        fetched(Gatherer(cupy, 0), whole(there))
        assert cupy.cuda.get_current_stream() == other
    assert cupy.cuda.get_current_stream() == cupy.cuda.Stream.null
    assert cupy.cuda.Device().id == 0


def test_it_takes_no_memory_of_the_gpu_also_where_there_is_none(cupy):
    there = settled(cupy, np.arange(1000.0))
    pool = cupy.get_default_memory_pool()
    taken = [cupy.empty(1 << 22, "u1") for _ in range(3)]  # of 16 MiB
    before = pool.total_bytes()
    (found,) = fetched(Gatherer(cupy, 0), sampled(there, 500))
    assert found.tolist() == sample_of(np.arange(1000.0), 500).tolist()
    assert pool.total_bytes() == before
    assert len(taken) == 3


def test_nothing_is_kept_of_arrays_that_were_fetched(cupy):
    gatherer = Gatherer(cupy, 0)
    there = settled(cupy, np.arange(3))
    used = cupy.get_default_memory_pool().used_bytes()
    fetched(gatherer, whole(there))
    del there
    assert cupy.get_default_memory_pool().used_bytes() < used


# --- in time ---------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """What is not held up comes in time, however busy this machine is."""
    monkeypatch.setattr(gathering, "PATIENCE_S", 60.0)


def test_a_gpu_that_does_not_come_to_it_is_given_up_and_not_asked_again(cupy, gpus, monkeypatch):
    host = np.arange(5)
    there = settled(cupy, host)
    gatherer = Gatherer(cupy, 0)
    fetched(gatherer, whole(there))
    stream = gatherer._bench.stream
    with gpus.hold(stream) as hold:
        hold.arrived()
        monkeypatch.setattr(gathering, "PATIENCE_S", 0.01)
        assert gatherer.gather([whole(there)]) is None
        pending = stream.queue.pending
        assert gatherer.gather([whole(there)]) is None
        assert stream.queue.pending == pending
    monkeypatch.setattr(gathering, "PATIENCE_S", 60.0)
    stream.synchronize()
    assert fetched(gatherer, whole(there))[0].tolist() == host.tolist()


def test_memory_that_the_gpu_still_writes_to_stays_when_everything_else_is_dropped(cupy, gpus, monkeypatch):
    there = settled(cupy, np.full(1000, 7, "u1"))
    gatherer = Gatherer(cupy, 0)
    fetched(gatherer, whole(there))
    stream, memory = gatherer._bench.stream, cupy.get_default_pinned_memory_pool()
    monkeypatch.setattr(gathering, "PATIENCE_S", 0.01)
    with gpus.hold(stream):
        assert gatherer.gather([whole(there)]) is None
        free, used = memory.n_free_blocks(), cupy.get_default_memory_pool().used_bytes()
        del gatherer, there
        assert memory.n_free_blocks() == free
        assert cupy.get_default_memory_pool().used_bytes() == used
    stream.synchronize()
    (bench,) = gathering._flying
    assert bench.is_free()
    assert gathering._flying == []


def test_what_a_broken_gpu_says_comes_out(cupy, gpus):
    there = settled(cupy, np.arange(3))
    gatherer = Gatherer(cupy, 0)
    fetched(gatherer, whole(there))
    gpus.fail(0, RuntimeError("on fire"))
    with pytest.raises(cupy.cuda.runtime.CUDARuntimeError, match="on fire"):
        gatherer.gather([whole(there)])
    assert cupy.cuda.Device().id == 0
