"""What NCCL cannot do: who is told, what has no value afterwards, and what the others wait for meanwhile."""

from __future__ import annotations

import threading
from contextlib import suppress

import numpy as np
import pytest

import disco_magic as disco
from disco_magic.errors import CellError, WorkerError
from disco_magic.planes import flights, nccl_errors
from disco_magic.workers import fragile
from tests.conftest import DEADLINE_S, until
from tests.doubles import nccl as doubles
from tests.session.gpus.nccl.conftest import aborted, connecting, stalled, until_waiting_in, works

reason = doubles.available()
if reason:
    pytest.skip(reason, allow_module_level=True)


def left_waiting(gpus, crew):
    """An array, and its sum, left on the GPUs by an earlier command: rank 1 comes when it is released."""
    assert works(crew)
    array = crew.scatter(np.arange(4.0))
    crew.sync_all()
    gpus.double.stall(1)
    left = crew.allreduce(array)
    gpus.double.until_waiting(3)
    return array, left


def assert_cancelling_gives_up(gpus, pending, left):
    pending.cancel()
    with pytest.raises(CellError):
        pending.wait()
    gpus.double.release(1)
    with pytest.raises(WorkerError, match="given up while it was being carried out"):
        left.get(0, DEADLINE_S)


def test_an_interrupt_ends_what_an_earlier_command_has_left_on_the_gpu(gpus, crew):
    _operand, left = left_waiting(gpus, crew)
    pending = crew.run_nowait("1 + 1")  # it has nothing to do with NCCL, and its end waits for the GPU
    until_waiting_in(pending)
    pending.cancel()
    with pytest.raises(CellError):
        pending.wait()
    for worker in range(4):
        with pytest.raises(
            WorkerError, match=r"given up while it was being carried out: worker \d was inter"
        ):
            left.get(worker, DEADLINE_S)
    gpus.double.release(1)
    with suppress(WorkerError):  # also of workers that were skipped
        crew.sync_all()
    assert works(crew)


def test_an_interrupt_that_is_raised_before_it_asks_what_is_waited_for_gives_that_up_too(
    gpus, crew, monkeypatch
):
    # All workers are struck first. By the time it was asked what a worker waits for, that had come out of it.
    _operand, left = left_waiting(gpus, crew)
    pending = crew.run_nowait("worker.place.finish()")
    strike_all = fragile.strike_all

    def late(threads):
        struck = strike_all(threads)
        until(lambda: not crew._launcher.plane.waiting)
        return struck

    until_waiting_in(pending)
    monkeypatch.setattr(fragile, "strike_all", late)
    assert_cancelling_gives_up(gpus, pending, left)


def test_an_interrupt_gives_up_what_a_worker_waits_for_before_it_is_shown_what_that_is(
    gpus, crew, monkeypatch
):
    # For a third of a millisecond a worker only looks for the end. Struck then, it had waited for nothing.
    _operand, left = left_waiting(gpus, crew)
    waits, wait_until = [], flights.wait_until

    def seen(is_done, timeout_s=None):
        waits.append(timeout_s)
        return wait_until(is_done, timeout_s)

    monkeypatch.setattr(flights, "_AT_ONCE_S", DEADLINE_S)
    monkeypatch.setattr(flights, "wait_until", seen)
    pending = crew.run_nowait("worker.place.finish()")
    until(lambda: waits.count(DEADLINE_S) == 4)
    assert_cancelling_gives_up(gpus, pending, left)


def test_registers_of_a_call_that_was_given_up_have_no_value(gpus, crew):
    assert works(crew)
    a, out = crew.scatter(np.arange(4.0)), crew.scatter(np.zeros(4))
    crew.sync_all()
    gpus.double.stall(2)
    queued = gpus.double.calls("AllReduce") + 12
    left = crew.allreduce(a)
    crew.allreduce(a, out)
    crew["named"] = crew.allreduce(a)
    until(lambda: gpus.double.calls("AllReduce") == queued)
    gpus.double.async_error(3, doubles.SYSTEM_ERROR)
    with pytest.raises(WorkerError, match="could not be carried out on worker 3"):
        crew.sync_all()
    gpus.double.release(2)
    for ref in (left, out, left, out):
        for worker in range(4):
            with pytest.raises(WorkerError, match=r"could not be carried out on worker 3|with another call"):
                ref.get(worker)
    assert crew.run("'named' in globals()").values == [False] * 4
    assert [x.shape for x in a.get_all()] == [()] * 4
    assert works(crew)


def test_a_worker_that_cannot_connect_raises_and_says_why_the_others_wait(gpus, session):
    s = aborted(gpus, session)
    gpus.double.release(1)
    gpus.double.fail("CommInitRankConfig", doubles.SYSTEM_ERROR, rank=2)
    pending = s.run_nowait("allreduce(xp.ones(3))")
    # Who has not come to NCCL when worker 2 fails need not wait for it.
    until(lambda: "failed on worker 2: NcclError" in str(s.doctor()) or pending.done())
    # The others would wait for it for ever, one that comes to NCCL only now included.
    until(lambda: gpus.double.fail_forming(doubles.SYSTEM_ERROR) or pending.done())
    with pytest.raises(
        CellError, match=r"connecting workers \[0-3\] by NCCL failed on worker .: NcclError"
    ) as caught:
        pending.wait(DEADLINE_S)
    assert "was not started" in str(caught.value)
    assert works(s)


def test_who_connects_is_shown_to_do_that(gpus, session):
    gpus.double.set_device(0, 0)
    s, pending = connecting(gpus, session)
    until(lambda: "connecting workers [0-3] by NCCL for allreduce(float64 (3,) on cuda" in str(s.doctor()))
    gpus.double.release(3)
    pending.wait(DEADLINE_S)
    assert works(s)


def test_a_status_that_cupy_has_no_name_for_is_named(gpus, crew):
    assert works(crew)
    pending = stalled(gpus, crew, "allreduce(xp.ones(3))")
    gpus.double.async_error(0, 8)
    with pytest.raises(CellError, match="RuntimeError: NCCL_TIMEOUT: NCCL has given up waiting"):
        pending.wait(DEADLINE_S)
    gpus.double.release(1)
    assert works(crew)


def test_a_session_that_is_dropped_aborts_its_communicators(gpus):
    s = disco.ThreadedSession(4, ccl="nccl")
    assert works(s)
    aborted = gpus.double.calls("CommAbort")
    del s
    until(lambda: gpus.double.alive == 0)
    assert gpus.double.calls("CommAbort") == aborted + 4
    assert gpus.double.calls("CommDestroy") == 0


@pytest.mark.parametrize("ccl", ["nccl", "device"])
def test_elements_that_lie_oddly_are_copied_or_refused_before_anything_starts(gpus, session, ccl):
    s = session(4, ccl=ccl)
    s.run(
        "odd, x = xp.arange(13, dtype='u1')[1:].view('f4'), xp.ones(3, 'f4')\n"
        "m = odd if worker_id == 2 else x"
    )
    bits = np.arange(1, 13, dtype="u1").view("f4")
    for got in s.run("allgather(m).get()").values:
        np.testing.assert_array_equal(got[6:9], bits)
    for got in s.run("allreduce(m, op='max').get()").values:
        np.testing.assert_array_equal(got, np.maximum(bits, 1))
    for code in ("allreduce(x, out=m)", "allgather(m[::2])"):
        with pytest.raises(
            CellError, match="of worker 2 has elements of float32 that lie at no multiples of 4"
        ):
            s.run(code)
    assert gpus.double.mistakes == []
    assert s.run("allreduce(xp.ones(1)).get().tolist()").values == [[4]] * 4


@pytest.mark.parametrize("ccl", ["nccl", "device"])
@pytest.mark.parametrize(
    ("make", "need"),
    [
        ("buffer[4:44].view('c8')", 8),
        ("buffer[8:88].view('c16')", 16),
        ("xp.ndarray((5,), 'f4', buffer.data, strides=(5,))", 4),
    ],
)
def test_parts_of_complex_numbers_and_strides_count_too(gpus, session, ccl, make, need):
    s = session(2, ccl=ccl)
    s.run(f"buffer = xp.arange(128, dtype='u1')\nm = {make}")
    if "strides" not in make:
        expected = s.run("m.tobytes() if isinstance(m, np.ndarray) else bytes(m.view('u1').get())")[0]
        for line in ("allgather(m)", "(send(m, worker_id), recv(worker_id))[1]"):
            assert s.run(f"bytes({line}.view('u1').get())")[0][: len(expected)] == expected
    for line in ("allgather(m[::2])", "send(m[::2], worker_id)", "allreduce(xp.ones_like(m), out=m)"):
        with pytest.raises(CellError, match=f"lie at no multiples of {need} bytes"):
            s.run(line)
    assert s.run("float(allreduce(xp.ones(1)).get()[0])").values == [2.0] * 2


def test_where_an_out_lies_is_said_and_not_its_class_alone(gpus, crew):
    with pytest.raises(CellError, match="out must be a cupy array, got"):
        crew.run("allreduce(xp.ones(2), out=np.ones(2))")
    with pytest.raises(CellError, match="out must be a NumPy array, got a cupy array"):
        crew.run("allreduce(np.ones(2), out=xp.ones(2))")


def test_what_a_caught_error_has_told_of_has_no_value_either(gpus, crew):
    assert works(crew)
    a = crew.scatter(np.arange(4.0))
    crew.sync_all()
    gpus.double.stall(2)
    queued = gpus.double.calls("AllReduce") + 4
    left = crew.allreduce(a)
    until(lambda: gpus.double.calls("AllReduce") == queued)
    pending = crew.run_nowait(
        "from disco_magic.errors import PlaneError\ntry:\n    worker.place.finish()\nexcept PlaneError: pass"
    )
    until_waiting_in(pending)
    gpus.double.async_error(3, doubles.SYSTEM_ERROR)
    pending.wait(DEADLINE_S)
    gpus.double.release(2)
    for worker in range(4):
        with pytest.raises(WorkerError, match="could not be carried out on worker 3"):
            left.get(worker, DEADLINE_S)
    assert works(crew)


def test_what_is_aborted_while_a_worker_looks_whether_it_is_done_has_no_value(gpus, crew, monkeypatch):
    # 1. Worker 0 reads that its part has no verdict. 2. Another worker sees NCCL's error: the part gets a
    # verdict, and is aborted. 3. Worker 0 reads that its GPU has come past the part, and took it for done.
    assert works(crew)
    a = crew.scatter(np.arange(4.0))
    crew.sync_all()
    gpus.double.stall(2)
    left = crew.allreduce(a)
    pending = crew.run_nowait(
        "from disco_magic.errors import PlaneError\ntry:\n    worker.place.finish()\nexcept PlaneError: pass"
    )
    until_waiting_in(pending)
    has_passed, looking, thread = flights.has_passed, [], crew._launcher.workers[0].lane.thread_id

    def late(cupy, event):
        if threading.get_ident() == thread and not looking:
            looking.append(True)
            gpus.double.async_error(3, doubles.SYSTEM_ERROR)
            until(lambda: has_passed(cupy, event))
        return has_passed(cupy, event)

    monkeypatch.setattr(flights, "has_passed", late)
    pending.wait(DEADLINE_S)
    assert looking
    gpus.double.release(2)
    with pytest.raises(WorkerError, match="could not be carried out on worker 3"):
        left.get(0, DEADLINE_S)
    assert works(crew)


def test_an_error_is_seen_behind_a_collective_that_is_done_while_workers_wait_in_c_code(gpus, session, gate):
    # A worker in cupy's own wait removes no flight that is done; the watchdog looked only at the oldest one.
    crew = session(4, devices="auto", extras=lambda context: {"gate": gate})
    assert works(crew)
    gpus.double.stall(2)
    pending = crew.run_nowait(
        "x = allreduce(xp.ones(3))\n"
        "if worker_id == 1: xp.cuda.get_current_stream().launch_host_func(lambda _: gate(), None)\n"
        "float(allreduce(x)[0])"
    )
    gpus.double.until_in_flight(8)
    gpus.double.release(2)
    gate.arrived(1)
    until(lambda: gpus.double.in_flight == 4)
    gpus.double.async_error(3, doubles.SYSTEM_ERROR)
    # Of the member whose part cannot end. Parts may be noted after they have begun, and those of others end.
    until(lambda: any(each.fate.verdict for each in list(crew._launcher.plane._flights._of[1])))
    gate.open()
    with pytest.raises(CellError, match="could not be carried out on worker 3"):
        pending.wait(DEADLINE_S)
    assert works(crew)


def test_an_interrupt_while_others_connect_is_told_as_that(gpus, session):
    s, pending = connecting(gpus, session)
    until(lambda: "connecting workers [0-3]" in str(s.doctor()))
    s.interrupt(workers=[1])
    gpus.double.release(3)
    with pytest.raises(CellError) as caught:
        pending.wait(DEADLINE_S)
    assert "failed on worker 1: PlaneAborted" not in str(caught.value)
    assert caught.value.origin.worker == 1 or "worker 1" in str(caught.value)
    assert works(s)


def test_the_cell_after_an_interrupt_reads_nothing_that_was_given_up(gpus, crew):
    assert works(crew)
    pending = stalled(gpus, crew, "y = allreduce(xp.full(3, worker_id + 1.0))")
    pending.cancel()
    with pytest.raises(CellError):
        pending.wait()
    gpus.double.release(1)
    # Not only from the second cell on: what is computed from it would stay.
    assert crew.run("'y' in globals()").values == [False] * 4
    assert works(crew)


def test_a_failure_of_an_earlier_command_is_told_although_a_later_one_failed_as_well(gpus, crew):
    assert works(crew)
    a = crew.scatter(np.arange(4.0))
    crew.sync_all()
    gpus.double.stall(2)
    left = crew.allreduce(a)
    flights = crew._launcher.plane._flights
    until(lambda: all(flights._of))  # to be queued is not enough: what is given up are flights
    flights.abort(10_000, "the machine is needed")
    # A thread condemns them; released before, the part of worker 0 would be done.
    until(lambda: all(each[0].fate.verdict for each in list(flights._of) if each))
    gpus.double.release(2)
    with pytest.raises(WorkerError, match="ZeroDivisionError"):
        crew.run("1 / 0")
    with pytest.raises(WorkerError, match="the machine is needed"):
        left.get(0)
    with suppress(WorkerError):
        crew.sync_all()
    assert works(crew)


@pytest.fixture
def watched(monkeypatch):
    monkeypatch.setattr(nccl_errors, "PERIOD_S", 0.01)


@pytest.mark.usefixtures("watched")
def test_an_error_of_nccl_ends_what_waits_for_the_gpu_in_cupys_own_way(gpus, crew):
    assert works(crew)
    pending = stalled(gpus, crew, "y = allreduce(xp.ones(3))\nloss = float(y[0])")
    gpus.double.async_error(0, doubles.SYSTEM_ERROR)
    with pytest.raises(CellError, match="could not be carried out on worker 0: NcclError"):
        pending.wait(DEADLINE_S)
    gpus.double.release(1)
    assert crew.run("'y' in globals()").values == [False] * 4
    assert works(crew)


def test_a_worker_that_leaves_while_it_connects_splits_off_its_group_for_the_others(gpus, session):
    gpus.double.stall(1)
    s = session(4, 2, devices="auto")
    until(lambda: "connecting" in str(s.doctor()))
    s.interrupt([0])
    gpus.double.release(1)
    with suppress(WorkerError, CellError):
        s.run("allreduce(xp.ones(1), in_group=False)", timeout=DEADLINE_S)
    with suppress(WorkerError):
        s.sync_all(DEADLINE_S)
    total = s.run("allreduce(xp.ones(1), in_group=False).get().tolist()", timeout=DEADLINE_S)
    assert total.values == [[4]] * 4
    assert s.run("allreduce(xp.ones(1)).get().tolist()", timeout=DEADLINE_S).values == [[2]] * 4
