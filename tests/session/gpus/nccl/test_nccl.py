"""Sessions with a GPU per worker: simulated ones, the unmodified `cupy.cuda.nccl`, a double of NCCL."""

from __future__ import annotations

import re

import numpy as np
import pytest

import disco_magic as disco
from disco_magic.errors import CellError, PlaneUnavailable, WorkerError
from disco_magic.testing.gpu import SimulatedGpus
from tests.conftest import DEADLINE_S, until
from tests.doubles import nccl as doubles
from tests.gpus import done_after_a_barrier, found, host, streams, with_nccl
from tests.session.gpus.nccl.conftest import stalled, works

reason = doubles.available()
if reason:
    pytest.skip(reason, allow_module_level=True)


def test_a_session_says_where_it_computes_and_connects_at_once(gpus, crew):
    assert repr(crew) == f"Disco session {crew.id}: 4 workers · threads · cuda:[0-3] · plane nccl"
    assert (crew.devices, crew.why) == ((0, 1, 2, 3), "one GPU per worker")
    crew.sync_all()
    assert gpus.double.alive == 4
    assert crew.run("worker.device").values[2] == "cuda:2"
    crew.shutdown()
    assert gpus.double.alive == 0


def test_a_session_tells_its_gpus_in_the_order_of_its_workers(gpus, session):
    assert session(2, devices="3,1").device == "cuda:[3,1]"
    assert session(2, devices="2,3").device == "cuda:[2-3]"


def test_every_verb(crew):
    assert works(crew)
    x = crew.scatter(np.arange(8.0).reshape(4, 2))
    assert host(x) == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert host(crew.allreduce(x))[3] == [12, 16]
    assert host(crew.allgather(x))[1] == list(range(8))
    assert crew.gather_to_worker0(x).get(0).tolist() == list(range(8))
    assert host(crew.broadcast(np.float32([[1, 2]])))[3] == [[1, 2]]
    assert host(crew.alltoall(crew.broadcast(np.arange(4))))[2] == [2] * 4
    assert host(crew.reduce_scatter(crew.broadcast(np.arange(4))))[3] == [12]
    assert host(crew.reduce(x, root=2)) == [None, None, [12, 16], None]
    assert crew.send_to_worker(x, 3, 1).get(3).tolist() == [2, 3]


def test_cells_along_other_axes_into_arrays_with_gaps(crew):
    crew.run(
        "x = xp.arange(24).reshape(2, 4, 3) + 100 * worker_id\n"
        "a, b, c = allgather(x, axis=1), reduce_scatter(x, axis=1), alltoall(x, axis=1)\n"
        "wide = xp.zeros((2, 4, 6), int)\nd = allreduce(x, out=wide[:, :, ::2])\n"
        "e = scatter(x if worker_id == 1 else None, root=1, axis=1)\nf = gather(x, root=3, axis=2)"
    )
    base = np.arange(24).reshape(2, 4, 3)
    xs = [base + 100 * worker for worker in range(4)]
    assert (crew["a"].get(2) == np.concatenate(xs, axis=1)).all()
    assert (crew["b"].get(1) == sum(xs)[:, 1:2]).all()
    assert (crew["c"].get(3) == np.concatenate([x[:, 3:4] for x in xs], axis=1)).all()
    assert (crew["wide"].get(0)[:, :, ::2] == sum(xs)).all()
    assert (crew["wide"].get(0)[:, :, 1::2] == 0).all()
    assert (crew["e"].get(2) == xs[1][:, 2:3]).all()
    assert (crew["f"].get(3) == np.concatenate(xs, axis=2)).all()


def test_nothing_is_sent_where_a_part_is_empty(gpus, crew):
    before = gpus.double.calls("Send"), gpus.double.calls("Recv")
    crew.run("y = alltoall(xp.full(2, worker_id), counts=[2, 0, 0, 0])")
    assert host(crew["y"]) == [[0, 0, 1, 1, 2, 2, 3, 3], [], [], []]
    assert (gpus.double.calls("Send") - before[0], gpus.double.calls("Recv") - before[1]) == (4, 4)


def test_groups_have_communicators_of_their_own(gpus, session):
    s = session(4, 2, ccl="nccl")
    assert list(s.run("float(allreduce(xp.full(1, worker_id))[0])").values) == [1, 1, 5, 5]
    assert gpus.double.calls("CommSplit") == 4
    assert gpus.double.calls("GetUniqueId") == 1


def test_torch_like_arrays_are_read_through_dlpack(crew):
    crew.run(
        """
class Lent:
    def __init__(self, array): self.array = array
    def __dlpack__(self, **kwargs): return self.array.__dlpack__(**kwargs)
    def __dlpack_device__(self): return self.array.__dlpack_device__()
y = allreduce(Lent(xp.ones(3)))
"""
    )
    assert host(crew["y"])[0] == [4] * 3


def test_an_interrupt_of_a_collective_in_flight_leaves_a_session_that_works(gpus, crew):
    assert works(crew)
    pending = stalled(gpus, crew, "allreduce(xp.ones(3))")
    until(lambda: all(place.state == "moving" for place in crew.doctor().positions))
    places = crew.doctor().positions
    assert "allreduce" in places[0].call
    pending.cancel()
    with pytest.raises(CellError):
        pending.wait()
    gpus.double.release(1)
    assert works(crew)


def test_one_worker_is_interrupted_and_releases_the_others(gpus, crew):
    assert works(crew)
    pending = stalled(gpus, crew, "allreduce(xp.ones(3))")
    crew.interrupt([2])
    with pytest.raises(CellError) as caught:
        pending.wait()
    assert set(caught.value.failures) == {0, 1, 2, 3}
    gpus.double.release(1)
    assert works(crew)


def test_an_error_of_nccl_is_raised_with_its_words(gpus, crew):
    assert works(crew)
    gpus.double.fail("AllReduce", doubles.SYSTEM_ERROR, rank=2)
    with pytest.raises(CellError, match="could not be carried out on worker 2: NcclError"):
        crew.run("allreduce(xp.ones(3))")
    assert works(crew)


def test_a_worker_that_fails_before_releases_those_who_wait(crew):
    with pytest.raises(CellError, match="ZeroDivisionError"):
        crew.run("1 / 0 if worker_id == 3 else allreduce(xp.ones(3))")
    assert works(crew)


def test_different_calls_are_refused_before_anything_starts(gpus, crew):
    assert works(crew)
    before = gpus.double.calls("AllReduce")
    with pytest.raises(CellError, match="disagree on dtype"):
        crew.run("allreduce(xp.ones(3, dtype='f4' if worker_id else 'f8'))")
    assert gpus.double.calls("AllReduce") == before
    assert works(crew)


def test_connecting_that_fails_is_told_at_the_first_wait(gpus, session):
    gpus.double.fail("GetUniqueId", doubles.SYSTEM_ERROR)
    s = session(4, ccl="nccl")
    with pytest.raises(WorkerError, match="NcclError"):
        s.sync_all()
    assert works(s)


def test_restart_connects_anew(gpus, crew):
    assert works(crew)
    crew.restart()
    crew.sync_all()
    assert gpus.double.alive == 4
    assert works(crew)


def test_a_thread_that_takes_over_finds_the_gpu_and_the_stream(gpus, session, gate):
    s = session(4, devices="auto", extras=lambda context: {"gate": gate})
    s.sync_all()  # they have connected
    pending = s.run_nowait("if worker_id == 2:\n    gate(2)\n    allreduce(xp.ones(1))")
    gate.arrived(1)
    pending.cancel()
    with pytest.raises(CellError, match="did not end and was given up"):
        pending.wait()
    s.run("place = str(xp.cuda.Device()), xp.cuda.get_current_stream().ptr == worker.place.stream.ptr")
    assert s["place"].get(2) == ("<CUDA Device 2>", True)
    assert works(s)
    gate.open()
    for thread in s._launcher.stuck:
        thread.join(DEADLINE_S)
        assert not thread.is_alive()
    assert works(s)


def test_who_lacks_memory_is_named_whoever_finds_out(session, monkeypatch):
    """The last member to arrive finds the memory for all of them."""
    with SimulatedGpus(count=2, memory_nbytes=1 << 20) as small:
        with_nccl(small)
        found(monkeypatch, small, 2)
        s = session(2, devices="auto")
        s.run("x = xp.ones(40_000)\nif worker_id == 0: rest = xp.ones(60_000)")
        with pytest.raises(CellError, match="MemoryError: worker 0, on cuda:0: "):
            s.run("y = allreduce(x)")
        s.run("rest = None\ny = allreduce(x)")
        assert s["y"].get(1)[0] == 2


def test_a_call_returns_while_nccl_still_works(gpus, session, gate):
    s = session(4, devices="auto", extras=lambda context: {"gate": gate})
    assert works(s)
    gpus.double.stall(1)
    pending = s.run_nowait("y = allreduce(xp.full(3, worker_id))\ngate()")
    gate.arrived(4)  # all have what they called for; nobody's GPU has
    gate.open()
    gpus.double.release(1)
    pending.wait()
    assert host(s["y"]) == [[6] * 3] * 4


def test_what_nccl_reports_later_is_raised_by_the_same_cell(gpus, crew):
    assert works(crew)
    pending = stalled(gpus, crew, "y = allreduce(xp.ones(3))\nz = 1")
    gpus.double.async_error(0, doubles.REMOTE_ERROR)
    with pytest.raises(
        CellError, match=r"allreduce\(float64 \(3,\) on cuda, op=sum\) at .* line 1 could not be"
    ):
        pending.wait()
    gpus.double.release(1)
    assert works(crew)


def test_what_a_call_leaves_undone_is_raised_by_the_next_wait(gpus, crew):
    assert works(crew)
    x = crew.scatter(np.arange(4.0))
    crew.sync_all()
    gpus.double.stall(2)
    crew.allreduce(x)
    gpus.double.until_waiting(3)
    gpus.double.async_error(3, doubles.SYSTEM_ERROR)
    with pytest.raises(WorkerError, match="could not be carried out on worker 3: NcclError"):
        crew.sync_all()
    gpus.double.release(2)
    crew.sync_all()
    assert works(crew)


def test_stops_at_random_moments_of_a_queue_of_collectives_leave_a_session_that_works(gpus, crew):
    assert works(crew)
    body = "x = xp.ones(64)\nwhile True:\n    x = allreduce(x, op='max')"
    for stop in range(12):
        pending = crew.run_nowait(body)
        if stop % 3:
            enough = gpus.double.calls("AllReduce") + 10 * stop
            until(lambda enough=enough: gpus.double.calls("AllReduce") > enough)
        if stop % 2:
            crew.interrupt([stop % 4])
        else:
            pending.cancel()
        with pytest.raises(CellError):
            pending.wait()
        assert works(crew)


def test_a_group_s_collective_on_its_way_survives_that_all_connect_anew(gpus, session):
    s = session(4, 2, ccl="nccl")
    s.run("allreduce(xp.ones(1), in_group=False)\nallreduce(xp.ones(1))")
    pending = stalled(gpus, s, "allreduce(xp.ones(3), in_group=False)")
    pending.cancel()
    gpus.double.release(1)
    s.run("allreduce(xp.ones(1))")
    made = gpus.double.calls("CommSplit")
    with gpus.hold(streams(s)[1]) as hold:
        pending = s.run_nowait(
            "x = allreduce(xp.full(3, worker_id + 1))\ny = allreduce(xp.ones(3), in_group=False)"
        )
        hold.arrived()
        until(lambda: gpus.double.calls("AllReduce") >= 4)
        hold.release()
        pending.wait()
    assert [x[0] for x in host(s["x"])] == [3, 3, 7, 7]
    assert host(s["y"]) == [[4] * 3] * 4
    assert gpus.double.calls("CommSplit") == made
    assert gpus.double.mistakes == []


def test_a_call_that_is_skipped_for_what_was_interrupted_long_ago_stops_nothing(gpus, session, gate):
    s = session(4, devices="auto")
    assert works(s)
    a = s.scatter(np.arange(4.0))
    s.sync_all()
    spoiled = s.call_packed(lambda: gate() if disco.worker().id == 2 else 1)
    gate.arrived(1)
    s.interrupt()
    gate.open()
    with pytest.raises(WorkerError):
        s.sync_all()
    assert works(s)
    with gpus.hold(streams(s)[1]) as hold:
        x = s.allreduce(a)
        until(lambda: gpus.double.in_flight)
        s.call_packed(lambda value: value, spoiled)
        ran = []
        s.call_packed(lambda: ran.append(disco.worker().id))
        until(lambda: len(ran) == 4)
        hold.release()
        s.sync_all()  # the interrupt has been told
    assert host(x) == [6] * 4


def test_what_fails_for_another_reason_hides_no_collective_that_was_given_up(gpus, crew):
    assert works(crew)
    a = crew.scatter(np.arange(4.0))
    crew.sync_all()
    gpus.double.stall(1)
    crew.allreduce(a)
    gpus.double.until_waiting(3)
    ran = []
    crew.call_packed(lambda: (ran.append(disco.worker().id), 1 // disco.worker().id))
    until(lambda: len(ran) == 4)
    gpus.double.async_error(3, doubles.SYSTEM_ERROR)
    with pytest.raises(WorkerError) as caught:
        crew.sync_all()
    told = "\n".join(str(failure.exception) for failure in caught.value.failures.values())
    assert "could not be carried out on worker 3: NcclError" in told
    gpus.double.release(1)
    assert works(crew)


def test_a_worker_waits_for_its_own_while_another_one_s_communicator_takes_long_to_abort(gpus, crew, gate):
    assert works(crew)
    communicators = crew._launcher.plane._communicators
    pending = stalled(gpus, crew, "allreduce(xp.ones(3))")
    communicators.in_thread(gate)
    gate.arrived(1)
    pending.cancel()
    with pytest.raises(CellError) as caught:
        pending.wait()
    assert "stuck" not in str(caught.value)
    assert crew.run("int(xp.ones(3).sum())").values == [3] * 4
    later = crew.run_nowait("allreduce(xp.full(2, worker_id + 1)).get().tolist()")
    gate.open()
    gpus.double.release(1)
    assert later.wait().values == [[10, 10]] * 4


def test_on_amds_gpus_it_is_called_rccl(gpus, session, monkeypatch):
    monkeypatch.setattr(gpus.cupy.cuda.runtime, "is_hip", True)
    s = session(2, devices="auto")
    assert (s.plane_name, s.device) == ("rccl", "rocm:[0-1]")
    s.init_ccl("rccl", 0, 1)
    with pytest.raises(PlaneUnavailable, match="has the data plane rccl"):
        s.init_ccl("nccl")
    assert s.run("allreduce(xp.ones(1)).get().tolist()").values == [[2.0]] * 2


def test_a_barrier_orders_the_streams_of_several_gpus(gpus, crew):
    held = gpus.hold(streams(crew)[1])
    assert done_after_a_barrier(crew, held) == dict.fromkeys(range(4), False)
    assert works(crew)


def test_a_barrier_orders_null_streams_of_several_gpus_too(gpus, crew):
    held = gpus.queues(1)[0].hold()
    done = done_after_a_barrier(crew, held, stream=lambda me: me.xp.cuda.Stream.null)
    assert done == dict.fromkeys(range(4), False)
    assert works(crew)


@pytest.mark.parametrize("last", [0, 3])
def test_a_barrier_names_the_worker_whose_gpu_is_lost_before_it(session, monkeypatch, last):
    with SimulatedGpus(count=4) as gpus:
        with_nccl(gpus)
        found(monkeypatch, gpus, 4)
        made = []
        names = {
            "parked": lambda: made[0]._launcher.plane.waiting,
            "lose": lambda: gpus.fail(3, gpus.cupy.cuda.runtime.CUDARuntimeError(700)),
        }
        s = session(4, devices="auto", extras=lambda _: names)
        made.append(s)
        s.sync_all()
        with pytest.raises(CellError) as caught:
            s.run(f"if worker_id == {last}:\n while len(parked()) < 3: pass\n lose()\nbarrier()")
        told = str(caught.value)
        if last == 3:  # its own call of CUDA says so
            assert "[3] CUDARuntimeError: cudaErrorIllegalAddress" in told
            assert "cuda:3 can no longer be used" in told
        else:
            assert re.search(r"barrier\(\).*could not be carried out on worker 3: CUDA", told)
        s.shutdown()
