"""What carries collectives, which core a worker runs on, and verbs between single workers or groups."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest

import disco_magic as disco
from disco_magic.errors import PlaneUnavailable, SessionClosed, UsageMistake, WorkerError
from tests.doubles.scripted import scripted_session

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux binds threads to cores")
CORES = sorted(os.sched_getaffinity(0)) if sys.platform == "linux" else [0]


def mine(shape=(2,)):
    return np.full(shape, disco.worker().id + 1.0)


# --- init_ccl --------------------------------------------------------------------------------------


@pytest.mark.parametrize("ccl", ["rccl", "mpi"])
def test_a_plane_that_the_session_cannot_have_says_what_it_has(session, ccl):
    s = session(2)
    with pytest.raises(PlaneUnavailable, match=f"the data plane threads, not {ccl} .*init_ccl\\('auto'\\)"):
        s.init_ccl(ccl, 0, 1)
    assert s.allreduce(s.call_packed(mine)).get(0).tolist() == [3, 3]


@pytest.mark.parametrize("ccl", ["nccl", "device"])
def test_a_plane_that_another_session_of_this_kind_could_have_says_how(session, ccl):
    with pytest.raises(PlaneUnavailable, match=f"start another session of kind threads with ccl='{ccl}'"):
        session(1).init_ccl(ccl)


@pytest.mark.parametrize(
    ("ccl", "hint"),
    [
        ("ncc", "did you mean 'nccl'"),
        ("NCCL", "did you mean 'nccl'"),
        ("gloo", "expected one of auto, threads, device, nccl, rccl, mpi"),
        (3, "expected one of auto"),
    ],
)
def test_an_unknown_plane_is_refused_with_those_that_exist(session, ccl, hint):
    with pytest.raises(UsageMistake, match=f"no data plane {ccl!r}; {hint}"):
        session(1).init_ccl(ccl)


@pytest.mark.parametrize(
    ("devices", "text"),
    [
        ((0,), "1 device ids for 2 workers; give one for each, or none"),
        ((0, 1), r"live on the CPU, .* there is no device 1\. Leave the ids out"),
        ((-1, 5), "there is no device -1, 5"),
        (("0", "0"), "expected whole numbers, one per worker"),
        (([0, 0],), "expected whole numbers, one per worker"),
    ],
)
@pytest.mark.parametrize("ccl", ["threads", "auto"])
def test_devices_that_the_workers_cannot_have_are_refused(session, ccl, devices, text):
    with pytest.raises(UsageMistake, match=text):
        session(2).init_ccl(ccl, *devices)


def test_nothing_is_sent_whatever_is_asked_for():
    s, launcher = scripted_session(2)
    s.init_ccl("auto")
    with pytest.raises(PlaneUnavailable, match="sessions of kind scripted can have none"):
        s.init_ccl("nccl", 0, 1)
    assert launcher.commands == []
    s.shutdown()


def test_a_session_on_gpus_takes_any_device_ids():
    s, _ = scripted_session(2)
    s.device = "cuda"
    s.init_ccl("auto", 3, 5)
    with pytest.raises(UsageMistake, match="3 device ids for 2 workers"):
        s.init_ccl("auto", 3, 5, 7)
    s.shutdown()


def test_a_closed_session_has_no_plane(session):
    s = session(1)
    s.shutdown()
    with pytest.raises(SessionClosed):
        s.init_ccl("auto")


# --- bind_worker_to_cpu_core -----------------------------------------------------------------------


@needs_linux
@pytest.mark.parametrize("kind", [list, tuple, np.array])
def test_every_worker_runs_on_its_core(session, kind):
    s = session(2)
    wanted = [CORES[-1], CORES[0]]
    assert s.bind_worker_to_cpu_core(kind([*wanted, 10_000])) is None
    assert s.call_packed(os.sched_getaffinity, 0).get_all() == [{core} for core in wanted]
    assert sorted(os.sched_getaffinity(0)) == CORES


@needs_linux
def test_after_a_restart_workers_run_anywhere_again(session):
    s = session(1)
    s.bind_worker_to_cpu_core(CORES[:1])
    s.restart()
    assert s.call_packed(os.sched_getaffinity, 0).get(0) == set(CORES)


@needs_linux
@pytest.mark.parametrize(
    ("cores", "text"),
    [
        ([0], "1 cores for 2 workers; give one for each, two workers may share one"),
        ([], "0 cores for 2 workers"),
        ([0, 4000], "cannot be bound to CPU core 4000"),
        ([0, -1], "cannot be bound to CPU core -1"),
        ("01", "the cores are '01', expected whole numbers"),
        ([0.0, 1.0], "expected whole numbers"),
        (0, "the cores are 0, expected whole numbers"),
    ],
)
def test_impossible_cores_are_refused_and_nothing_is_sent(cores, text):
    s, launcher = scripted_session(2)
    with pytest.raises(UsageMistake, match=text):
        s.bind_worker_to_cpu_core(cores)
    assert launcher.commands == []
    s.shutdown()


# --- reduce ----------------------------------------------------------------------------------------


def test_reduce_into_a_destination_that_only_the_first_worker_has(session):
    s = session(3)
    dst = s.empty((2,), "float64", worker0_only=True)
    out = s.reduce(s.call_packed(mine), dst)
    assert [dst.get(0).tolist(), dst.get(1), out.get(2)] == [[6, 6], None, None]
    assert s.call_packed(lambda a, b: a is b, dst, out).get(0) is True


# --- send_to_worker --------------------------------------------------------------------------------


def test_a_worker_may_send_to_itself(session):
    s = session(2)
    src = s.call_packed(mine)
    out = s.send_to_worker(src, 1, sender_id=1)
    assert (out.get(0), out.get(1).tolist()) == (None, [2, 2])
    assert s.call_packed(lambda a, b: a is not b, src, out).get(1) is True


def test_a_worker_that_has_failed_before_is_named_as_the_origin(session):
    s = session(2)
    src = s.call_packed(lambda: 1 / (1 - disco.worker().id))
    s.send_to_worker(src, 0, 1)
    with pytest.raises(WorkerError, match="ZeroDivisionError") as caught:
        s.sync_all()
    assert caught.value.origin.worker == 1


# --- send_to_next_group ----------------------------------------------------------------------------


def test_the_first_group_keeps_what_its_destination_holds(session):
    s = session(6, 3)
    dst = s.call_packed(lambda: np.zeros((1, 2)))
    out = s.send_to_next_group(s.call_packed(mine), dst)
    assert [v.ravel().tolist() for v in out.get_all()] == [[w, w] for w in (0, 0, 1, 2, 3, 4)]
    assert s.call_packed(lambda a, b: a is b, dst, out).get_all() == [True] * 6


# --- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (lambda s, x: s.reduce(x, root=2), r"reduce: root is 2, expected a rank from 0 to 1"),
        (lambda s, x: s.reduce(x, root=4, in_group=False), "root is 4, expected a rank from 0 to 3"),
        (lambda s, x: s.reduce(x, root="0"), "root is '0', expected a rank"),
        (lambda s, x: s.reduce(x, op="mean"), "mean"),
        (lambda s, x: s.send_to_worker(x, 4), "receiver_id is 4, expected a worker id from 0 to 3"),
        (lambda s, x: s.send_to_worker(x, -1), "receiver_id is -1"),
        (lambda s, x: s.send_to_worker(x, 1, None), "sender_id is None, expected a worker id from 0 to 3"),
    ],
)
def test_an_impossible_exchange_is_refused_and_nothing_is_sent(ask, text):
    s, launcher = scripted_session(4, 2)
    x = s.call_packed(len, "x")
    sent = len(launcher.commands)
    with pytest.raises(UsageMistake, match=text):
        ask(s, x)
    assert len(launcher.commands) == sent
    s.shutdown()
