"""Workers on simulated GPUs wait for their work there, and compute on streams of their own."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest

import disco_magic as disco
from disco_magic.errors import CellError, WorkerError
from disco_magic.testing.gpu import SimulatedGpus
from tests.conftest import DEADLINE_S, until
from tests.gpus import done_after_a_barrier, found, host, streams


@contextmanager
def syncing(gpus, shared, background, worker):
    """A worker whose stream is held, and a `sync_all` in the background that has come to it."""
    with gpus.hold(streams(shared)[worker]) as hold:
        shared.call_packed(lambda: disco.worker().xp.ones(4) * 2)
        waiting = background(shared.sync_all)
        hold.arrived()
        yield hold, waiting


# --- when work is done -----------------------------------------------------------------------------


def test_a_cell_ends_when_its_work_on_the_gpu_has(gpus, shared, background):
    shared.run("stream = worker.place.stream")
    stream = streams(shared)[1]
    with gpus.hold(stream) as hold:
        pending = shared.run_nowait("x = xp.ones(4) * 2")
        hold.arrived()
        assert not pending.done()
    assert pending.wait().errors == {}


def test_sync_waits_for_the_gpu(gpus, shared, background):
    with syncing(gpus, shared, background, 2) as (hold, waiting):
        shared.sync_worker(0)
        hold.release()
    waiting()


def test_a_sync_that_is_interrupted_does_not_say_that_all_is_done(gpus, shared, background):
    with syncing(gpus, shared, background, 1) as (_, waiting):
        until(lambda: shared._launcher.workers[1].is_executing)
        shared.interrupt()
        with pytest.raises(WorkerError, match="WorkerInterrupt"):
            waiting()
    shared.sync_all()


def test_an_interrupt_ends_the_wait_for_a_gpu_and_the_session_goes_on(gpus, shared):
    stream = streams(shared)[0]
    with gpus.hold(stream):
        pending = shared.run_nowait("x = xp.ones(4)")
        until(lambda: "x" in shared._launcher.workers[0].registers.names)
        pending.cancel()
        with pytest.raises(CellError, match="interrupted"):
            pending.wait()
        assert shared.call_packed(lambda: 5).get(1) == 5
    assert shared["x"].get(0).tolist() == [1] * 4


def test_what_is_queued_after_a_barrier_runs_after_what_all_queued_before(shared):
    table = {}

    def program(me):
        if me.worker_id == 1:
            table["x"] = me.xp.zeros(1 << 18)
            for _ in range(20):  # so that its stream is behind those of the others
                table["x"] += 1
        me.barrier()
        return table["x"] + me.worker_id

    shared["got"] = shared.call_packed(lambda: program(disco.worker()))
    sums = [worker * 2.0**18 for worker in range(20, 24)]
    assert shared.run("got.sum().item()").values == sums


def test_a_barrier_orders_streams_that_have_nothing_queued(gpus, shared):
    assert done_after_a_barrier(shared, gpus.hold(streams(shared)[1])) == dict.fromkeys(range(4), False)


# --- CUDA graphs -----------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["allreduce(xp.ones(2))", "barrier()", "send(xp.ones(2), 0)"])
def test_a_stream_that_is_captured_takes_no_collective(shared, call):
    with pytest.raises(
        CellError, match=r"captured for a CUDA graph.*capture only what is between collectives"
    ):
        shared.run(
            f"worker.place.stream.begin_capture()\ntry: {call}\nfinally: worker.place.stream.end_capture()"
        )
    assert host(shared.allreduce(shared.broadcast(np.ones(1))))[0] == [4]


def test_who_looks_does_not_spoil_a_graph_that_is_recorded(shared):
    shared.run("x = xp.zeros(2)\nx += 1\nworker.place.stream.begin_capture()\nx += 1")
    (cell, *_) = shared.registers().row("x").cells
    assert (cell.shape, cell.text) == ((2,), "")
    shared.run("graph = worker.place.stream.end_capture()\ngraph.launch()\ngraph.launch()")
    assert host(shared["x"]) == [[3, 3]] * 4


@pytest.mark.parametrize("stream", ["xp.cuda.Stream(non_blocking=True)", "worker.place.stream"])
def test_a_graph_may_be_recorded_in_several_cells(shared, stream):
    shared.run(f"x = xp.zeros(2)\nx += 1\nx *= 1\nmine = {stream}\nmine.use()\nmine.begin_capture()\nx += 1")
    shared.sync_all()
    shared.run("mine.use()\nx *= 3\nworker.place.settle()\ngraph = mine.end_capture()\ngraph.launch()")
    assert host(shared["x"]) == [[6, 6]] * 4


def test_a_copy_is_refused_while_a_graph_is_recorded_and_does_not_spoil_it(shared):
    shared.run("x = xp.zeros(2)\nx += 1\nworker.place.stream.begin_capture()\nx += 1")
    with pytest.raises(
        WorkerError, match="the worker's stream is captured for a CUDA graph - end the capture"
    ):
        shared["x"].get(0)
    shared.run("graph = worker.place.stream.end_capture()\ngraph.launch()")
    assert host(shared["x"]) == [[2, 2]] * 4


EXCHANGE = """
if worker_id == 0:
    send(xp.arange(4) + 1, 1)
    worker.place.stream.begin_capture()
    sent.set()
    received.wait()
    worker.place.stream.end_capture()
else:
    sent.wait()
    got = recv(0).get().tolist()
    received.set()
"""


def test_a_message_is_received_while_its_sender_records_a_graph(gpus, session):
    names = {"sent": threading.Event(), "received": threading.Event()}
    s = session(2, devices=[0, 0], extras=lambda _: names)
    s.run(EXCHANGE)
    assert s["got"].get(1) == [1, 2, 3, 4]
    kept = s._launcher.plane._memory
    assert len(kept._kept) == 1
    s.run("send(xp.ones(2), 1) if worker_id == 0 else recv(0)")
    assert kept._kept == []


# --- whose stream it is ----------------------------------------------------------------------------


@pytest.mark.parametrize("stream", ["xp.cuda.Stream(non_blocking=True)", "xp.cuda.Stream.null"])
def test_threads_that_a_cell_starts_on_a_stream_of_its_own_compute_there(shared, stream):
    shared.run(
        f"import threading\nfrom concurrent.futures import ThreadPoolExecutor\nother, out = {stream}, []\n"
        "def work(): out.append((xp.cuda.get_current_stream().ptr == other.ptr, a.sum().item()))\n"
        "with other, ThreadPoolExecutor(1) as pool:\n"
        "    a = xp.arange(4.0) + worker_id\n"
        "    thread = threading.Thread(target=work)\n"
        "    thread.start()\n"
        "    thread.join()\n"
        "    pool.submit(work).result()"
    )
    assert shared["out"].get_all() == [[(True, 6.0 + 4 * worker)] * 2 for worker in range(4)]


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


@pytest.fixture
def fresh(monkeypatch):
    """A GPU whose streams nobody has used."""
    with SimulatedGpus(count=1) as made:
        found(monkeypatch, made, 1)
        yield made


def test_who_starts_again_takes_no_more_of_the_gpu_s_memory(fresh, session):
    pool = fresh.cupy.get_default_memory_pool()

    def used():
        two.run("x = xp.ones(1 << 20, 'uint8')")
        total.append(pool.total_bytes())

    total = []
    two = session(2, devices=[0] * 2)
    used()
    for _ in range(2):
        two.restart()
        used()
    two.shutdown()
    two = session(2, devices=[0] * 2)
    used()
    assert len(set(total)) == 1
    assert host(two.allreduce(two.broadcast(np.ones(1))))[0] == [2]


def test_who_restarts_beside_work_that_does_not_end_gets_a_stream_without_it(fresh, session):
    two = session(2, devices=[0] * 2)
    busy, idle = streams(two)
    with fresh.hold(busy):
        two.restart()
        assert busy not in streams(two)
        assert idle in streams(two)
        assert host(two.allreduce(two.broadcast(np.ones(1))))[0] == [2]
    busy.synchronize()  # it is released, but its thread may not have noticed
    two.restart()
    assert busy in streams(two)


def test_a_stream_waits_for_a_thread_that_was_given_up_and_may_still_use_it(fresh, session, gate):
    two = session(2, devices=[0] * 2, extras=lambda context: {"gate": gate})
    first, second = streams(two)
    pending = two.run_nowait("gate(0) if worker_id == 0 else None")
    gate.arrived()
    pending.cancel()
    with pytest.raises(CellError):
        pending.wait()
    (stuck,) = two._launcher.stuck
    two.restart()
    assert first not in streams(two)
    assert second in streams(two)
    gate.open()
    stuck.join(DEADLINE_S)
    two.restart()
    assert streams(two) == [first, second]


# --- threads that cells start ----------------------------------------------------------------------

THREADS = """
import threading
from concurrent.futures import ThreadPoolExecutor
def here():
    place = worker.place
    return (
        xp.cuda.get_current_stream().ptr == place.stream.ptr,
        xp.cuda.runtime.getDevice() == place.device.index,
        int(xp.ones(1).device.id) == place.device.index,
    )
found = []
thread = threading.Thread(target=lambda: found.append(here()))
thread.start()
thread.join()
with ThreadPoolExecutor(1) as pool:
    found.append(pool.submit(here).result())
"""


def test_threads_of_a_cell_and_pools_compute_on_their_worker_s_stream(shared):
    shared.run(THREADS)
    assert shared["found"].get_all() == [[(True, True, True)] * 2] * 4


def test_what_a_pool_computes_is_used_without_any_waiting(shared):
    shared.run("from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(2)")
    for step in range(1, 6):
        shared.run(
            f"parts = list(pool.map(lambda n: xp.full(5000, n + worker_id) * {step}, range(4)))\n"
            "total = allreduce(sum(parts)[:2])"
        )
        assert host(shared["total"])[2] == [48 * step] * 2
    shared.run("pool.shutdown()")


@pytest.mark.usefixtures("gpus")
def test_threads_of_a_cell_compute_on_their_worker_s_gpu(session):
    s = session(2, devices=[1, 1])  # where cupy alone would take GPU 0
    s.run(THREADS)
    assert s["found"].get_all() == [[(True, True, True)] * 2] * 2


def test_a_pool_s_thread_goes_back_to_where_it_was(gpus, shared):
    with ThreadPoolExecutor(1) as pool:
        before = pool.submit(lambda: gpus.cupy.cuda.get_current_stream().ptr).result()
        mine = shared.call_packed(
            lambda: pool.submit(lambda: gpus.cupy.cuda.get_current_stream().ptr).result()
        ).get_all()
        after = pool.submit(lambda: gpus.cupy.cuda.get_current_stream().ptr).result()
    assert mine == [stream.ptr for stream in streams(shared)]
    assert before == after
    assert before not in mine
