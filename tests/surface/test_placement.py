"""Rows about where workers compute and what carries their collectives: devices, CPU cores, `init_ccl`."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest

import disco_magic as disco
from tests.surface.conftest import unchanged_by

only_linux = pytest.mark.skipif(sys.platform != "linux", reason="binding threads to cores is Linux's")


# --- devices ---------------------------------------------------------------------------------------


def test_device(session):
    s = session(3)
    assert s.call_packed(lambda: str(disco.worker().device)).get_all() == ["cpu"] * 3
    assert [str(value) for value in s.get_global_func("runtime.disco.device")().get_all()] == ["cpu"] * 3
    assert str(s.device) == "cpu"


@pytest.mark.parametrize("device", [None, "cpu", "cpu:0", "Device"])
def test_device_of_empty(session, device):
    device = disco.device("cpu", 0) if device == "Device" else device
    assert session(2).empty((2,), "float32", device).get(1).shape == (2,)


@pytest.mark.parametrize("device", ["cuda:0", "cpu:1", "gpu", "cpuu", 5])
def test_device_that_the_workers_have_not_got_is_refused(session, device):
    s = session(2)

    def refused():
        with pytest.raises(disco.UsageMistake, match="device"):
            s.empty((2,), "float32", device)

    assert unchanged_by(s, refused)


def test_device_is_an_argument_type(session):
    s = session(2)
    device = disco.device("cuda:1")
    assert s.call_packed(lambda d: (d, d.kind, d.index), device).get_all() == [(device, "cuda", 1)] * 2


# --- cores -----------------------------------------------------------------------------------------


@only_linux
def test_bind_worker_to_cpu_core(session):
    s = session(3)
    mine = os.sched_getaffinity(0)
    cores = [sorted(mine)[worker % len(mine)] for worker in range(3)]
    s.bind_worker_to_cpu_core(cores)
    assert s.call_packed(lambda: os.sched_getaffinity(0)).get_all() == [{core} for core in cores]
    assert os.sched_getaffinity(0) == mine


@only_linux
def test_bind_worker_to_cpu_core_by_its_registered_name(session):
    s = session(2)
    core = max(os.sched_getaffinity(0))
    s.get_global_func("runtime.disco.bind_worker_to_cpu_core")((core, core))
    assert s.call_packed(lambda: os.sched_getaffinity(0)).get_all() == [{core}] * 2


@only_linux
@pytest.mark.parametrize("cores", [(), (0,), (0, 10**6), (0, -1), ("0", "1"), 0], ids=str)
def test_bind_worker_to_cpu_core_that_is_not_there_is_refused(session, cores):
    s = session(2)

    def refused():
        with pytest.raises(disco.UsageMistake, match=r"core"):
            s.bind_worker_to_cpu_core(cores)

    assert unchanged_by(s, refused)


# --- the data plane --------------------------------------------------------------------------------


@pytest.mark.parametrize("ccl", ["threads", "auto"])
@pytest.mark.parametrize("device_ids", [(), (0, 0)], ids=["no ids", "ids"])
def test_init_ccl(session, ccl, device_ids):
    s = session(2)
    s.init_ccl(ccl, *device_ids)
    s.init_ccl(ccl, *device_ids)
    assert s.allreduce(s.call_packed(np.ones, 2)).get(1).tolist() == [2, 2]


@pytest.mark.parametrize("ccl", ["nccl", "rccl", "mpi", "device"])
def test_init_ccl_of_a_plane_the_session_has_not_got_is_an_error(session, ccl):
    s = session(2)

    def refused():
        with pytest.raises(disco.PlaneError, match=f"has the data plane threads, not {ccl}"):
            s.init_ccl(ccl, 0, 1)

    assert unchanged_by(s, refused)
    assert s.allreduce(s.call_packed(np.ones, 2)).get(0).tolist() == [2, 2]


@pytest.mark.parametrize(
    "request_", [("nickel",), ("threads", 0), ("threads", 0, 1), ("auto", "0", "1")], ids=str
)
def test_init_ccl_with_what_cannot_be_meant_is_refused(session, request_):
    s = session(2)

    def refused():
        with pytest.raises(disco.UsageMistake, match="init_ccl"):
            s.init_ccl(*request_)

    assert unchanged_by(s, refused)


def test_collectives_need_no_init_ccl(session):
    # In Disco a collective before `init_ccl` ends the process.
    s = session(2)
    assert s.allreduce(s.call_packed(np.ones, 2)).get(0).tolist() == [2, 2]
