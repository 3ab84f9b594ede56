"""What broke sessions on GPUs once: streams of others, threads that come back, communicators made anew."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import disco_magic as disco
from disco_magic.errors import CellError, UsageMistake
from disco_magic.planes.kernels import KernelSource
from disco_magic.testing.gpu import SimulatedGpus
from tests.conftest import DEADLINE_S, until
from tests.doubles import nccl as doubles
from tests.gpus import found, streams, with_nccl

LENT = """
class Lent:
    def __init__(self, array): self.array = array
    def __dlpack__(self, **kwargs):
        with theirs:  # another library takes its own stream for the current one
            return self.array.__dlpack__(**kwargs)
    def __dlpack_device__(self): return self.array.__dlpack_device__()
theirs = xp.cuda.Stream.null
"""
# As numba and PyCUDA lend theirs.
LENT_OTHERWISE = """
class Lent:
    def __init__(self, array): self.array = array
    @property
    def __cuda_array_interface__(self):
        with theirs:
            return self.array.__cuda_array_interface__
theirs = xp.cuda.Stream.null
"""


@pytest.fixture
def machine(monkeypatch):
    """Makes simulated GPUs; with an NCCL, if that is asked for."""
    made = []

    def make(count=2, *, nccl=False, **options):
        gpus = SimulatedGpus(count, **options)
        made.append(gpus)
        if nccl:
            gpus.double = with_nccl(gpus)
            gpus.double.reset()
        found(monkeypatch, gpus, count)
        return gpus

    yield make
    for gpus in made:
        gpus.close()


# --- streams of others -----------------------------------------------------------------------------


@pytest.mark.parametrize("direction", ["to the host", "to the GPU"])
def test_a_stream_that_a_function_has_chosen_is_waited_for(machine, session, background, direction):
    gpus = machine(1)
    s, chosen = session(2, devices="0,0"), {}

    def choose():
        chosen[disco.worker().id] = gpus.cupy.cuda.Stream(non_blocking=True)
        chosen[disco.worker().id].use()

    s.call_packed(choose)
    until(lambda: len(chosen) == 2)
    with gpus.hold(chosen[0]) as hold:
        x = s.call_packed(lambda: gpus.cupy.full(8, 7.0))
        if direction == "to the host":
            copied = background(x.get, 0)
        else:
            copied = background(s.copy_to_worker_0, np.full(8, 1.0), x)
        until(lambda: s._launcher.positions()[0].state == "executing")
        hold.arrived()
    copied()
    s.run("xp.cuda.Device().synchronize()")
    assert x.get(0).tolist() == [7.0 if direction == "to the host" else 1.0] * 8


def test_a_cell_ends_when_work_on_a_stream_of_its_own_has(machine, session):
    gpus = machine(1)
    s = session(2, devices="0,0")
    s.run("other = xp.cuda.Stream()")
    other = s._launcher.workers[0].registers.names["other"]
    with gpus.hold(other) as hold:
        pending = s.run_nowait("other.use()\nz = xp.full(4, 3.0)\nqueued = True")
        until(lambda: "queued" in s._launcher.workers[0].registers.names)
        hold.arrived()
        assert not pending.done()
    pending.wait()
    assert s["z"].get(0).tolist() == [3] * 4


def test_another_current_gpu_is_refused(machine, session):
    machine(2).allow_peer_access()
    s = session(2, devices="0,0")
    with pytest.raises(CellError, match=r"current GPU is cuda:1; it computes on cuda:0"):
        s.run("x = xp.ones(4)\nwith xp.cuda.Device(1): allreduce(x)")
    assert [each.tolist() for each in s.run("allreduce(x)").values] == [[2] * 4] * 2


@pytest.mark.parametrize("lent", [LENT, LENT_OTHERWISE], ids=["DLPack", "CUDA array interface"])
@pytest.mark.parametrize("call", ["y = allreduce(Lent(t))", "send(Lent(t), worker_id)"])
def test_what_was_lent_can_be_changed_after_the_call(machine, session, background, call, lent):
    gpus = machine(1)
    s = session(2, devices="0,0")
    s.run(lent)
    known = set(s._launcher.workers[0].registers.names)
    holds = [gpus.hold(stream) for stream in streams(s)]
    pending = s.run_nowait(
        f"with theirs: t = xp.full(4, 3.0)\n{call}\nwith theirs: t[...] = 1000.0\n"
        "if 'y' not in globals(): y = 2 * recv(worker_id)"
    )
    until(lambda: set(s._launcher.workers[0].registers.names) > known)
    for hold in holds:
        hold.release()
    pending.wait()
    assert [each.tolist() for each in s["y"].get_all()] == [[6] * 4] * 2


def test_arrays_of_the_notebook_arrive_as_they_were(machine, session, background):
    gpus = machine(1)
    s, xp = session(2, devices="0,0"), gpus.cupy
    with gpus.hold(xp.cuda.Stream.null) as hold:
        x = xp.full(8, 7.0)
        put = background(s.put, "x", {"a": x})
        until(lambda: gpus.queues()[0].pending > 2)  # the hold, the array, its copy
        s.sync_all()
        hold.arrived()
    put()
    del x
    xp.full(8, -1.0)
    assert s["x"].get(0)["a"].tolist() == [7] * 8


def test_a_message_that_nobody_can_take_touches_nothing_else(machine, session):
    gpus = machine(1)
    s = session(2, devices="0,0")
    s.run("other = xp.cuda.Stream(non_blocking=True)")
    with gpus.hold(streams(s)[1]):
        pending = s.run_nowait(
            "if worker_id == 0: send(xp.arange(4.0) + 1, 1)\nelse:\n  with other:\n"
            "    try: recv(0, out=np.empty(4))\n    except Exception: pass\n"
            "    z = xp.zeros(4)\n    seen = z.get()"
        )
        until(lambda: "seen" in s._launcher.workers[1].registers.names)
    pending.wait()
    assert s["z"].get(1).tolist() == [0] * 4


# --- what is left ----------------------------------------------------------------------------------


def test_a_collective_that_runs_out_of_memory_keeps_none(machine, session):
    gpus = machine(1, memory_nbytes=1 << 24)
    s = session(4, devices=[0] * 4)
    gc.collect()
    gc.disable()
    try:
        with pytest.raises(CellError, match="OutOfMemoryError"):
            s.run("x = xp.ones(250_000)\ny = allreduce(x)\nz = allreduce(x)")
        s.run("x = y = z = None")
        assert gpus.cupy.get_default_memory_pool().used_bytes() == 0
    finally:
        gc.enable()


@pytest.mark.leaves_threads("they sit in a compiler")
def test_threads_that_wait_for_a_stuck_one_end_with_it(machine, session, gate, monkeypatch):
    gpus = machine(1)
    compiled, stuck = KernelSource._compiled, [True]

    def slowly(self, variant):
        if stuck:
            stuck.clear()
            gate(0)
        return compiled(self, variant)

    monkeypatch.setattr(KernelSource, "_compiled", slowly)
    s = session(4, devices=[0] * 4)
    pending = s.run_nowait("allreduce(xp.ones(1000))")
    gate.arrived(1)
    pending.cancel()
    with pytest.raises(CellError, match="did not end and was given up"):
        pending.wait()
    assert list(s.run("float(allreduce(np.ones(3)).sum())").values) == [12] * 4
    gate.open()
    for thread in s._launcher.stuck:
        thread.join(DEADLINE_S)
        assert not thread.is_alive()
    s.run("1")
    assert gpus.cupy.get_default_memory_pool().used_bytes() == 0


# --- NCCL ------------------------------------------------------------------------------------------

SUM = "allreduce(xp.full(2, worker_id + 1.0)).get().tolist()"


def test_groups_connect_anew_while_others_still_leave_a_failed_call(machine, session):
    gpus = machine(4, nccl=True)
    s = session(4, 2, devices="auto")
    s.sync_all()
    for _ in range(20):
        gpus.double.fail("AllReduce", doubles.SYSTEM_ERROR, rank=2)
        result = s.run(
            "from disco_magic.errors import PlaneError\n"
            "try: allreduce(xp.ones(3), in_group=False)\n"
            f"except PlaneError: pass\n{SUM}",
            timeout=DEADLINE_S,
        )
        assert list(result.values) == [[3, 3], [3, 3], [7, 7], [7, 7]]
        s.run("allreduce(xp.ones(1), in_group=False)")


def test_axes_of_a_mesh_connect_anew_after_a_failed_call(machine, session):
    gpus = machine(4, nccl=True)
    s = session(4, mesh="dp=2,tp=2", devices="auto")
    assert s.plane_name == "nccl"
    cell = "[allreduce(xp.full(2, worker_id + 1.0), over=each)[0].item() for each in ('dp', 'tp')]"
    wanted = [[4, 3], [6, 3], [4, 7], [6, 7]]
    assert s.run(cell).values == wanted
    for over in ("'dp'", "'tp'", "('dp', 'tp')"):
        gpus.double.fail("AllReduce", doubles.SYSTEM_ERROR, rank=1)
        s.run(
            "from disco_magic.errors import PlaneError\n"
            f"try: allreduce(xp.ones(3), over={over})\n"
            "except PlaneError: pass",
            timeout=DEADLINE_S,
        )
        assert s.run(cell, timeout=DEADLINE_S).values == wanted


@pytest.mark.parametrize("moment", ["while the others park", "before anything"])
@pytest.mark.leaves_threads("they connect")
def test_threads_that_come_back_from_connecting_are_in_nobodys_way(machine, session, gate, moment):
    gpus = machine(4, nccl=True)
    gpus.double.stall(1)
    s = session(4, devices="auto", extras=lambda context: {"gate": gate})
    pending = s.run_nowait("1")
    gpus.double.until_waiting(4)
    pending.stop_soon()
    with pytest.raises(KeyboardInterrupt):
        pending.wait()
    stuck = list(s._launcher.stuck)
    assert len(stuck) == 4
    if moment == "before anything":
        gate.open()
        gpus.double.release(1)
    pending = s.run_nowait(f"if worker_id == 3: gate(3)\n{SUM}")
    if moment != "before anything":
        gate.arrived(1)
        until(lambda: len(s._launcher.plane.waiting) == 4)
        gpus.double.release(1)
        stuck[0].join(DEADLINE_S)
        gate.open()
    assert list(pending.wait(timeout=20).values) == [[10, 10]] * 4
    for thread in stuck:
        thread.join(DEADLINE_S)
        assert not thread.is_alive()
    assert list(s.run(SUM, timeout=20).values) == [[10, 10]] * 4
    assert gpus.double.alive == 4
    assert gpus.double.mistakes == []


def test_devices_as_an_array_of_numpy(machine, session):
    machine(1)
    assert session(None, devices=np.array([0, 0])).devices == (0, 0)
    with pytest.raises(UsageMistake, match="expected GPU numbers"):
        disco.ThreadedSession(devices=np.array([0.5, 0]))
