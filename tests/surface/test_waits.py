"""Rows about waiting, and about values that come back or are set."""

from __future__ import annotations

import signal
import threading

import numpy as np
import pytest

import disco_magic as disco
from disco_magic.threads.stacks import frames
from tests.surface.conftest import fail_on, who

WAITS = {
    "sync_worker": lambda s, ref, **options: s.sync_worker(1, **options),
    "sync_worker_0": lambda s, ref, **options: s.sync_worker_0(**options),
    "sync_all": lambda s, ref, **options: s.sync_all(**options),
    "get": lambda s, ref, **options: ref.get(1, **options),
}


def test_sync_worker(session, gate, background):
    s, noted = session(3), []
    s.call_packed(gate, workers=[1])
    gate.arrived()
    s.call_packed(lambda: noted.append(who()))
    s.sync_worker(0)
    s.sync_worker(2)  # worker 1 is held: it is not waited for
    assert sorted(noted) == [0, 2]
    waited = background(s.sync_worker, 1)
    gate.open()
    waited()
    assert sorted(noted) == [0, 1, 2]


def test_sync_worker_0(session, gate):
    s, noted = session(2), []
    s.call_packed(gate, workers=[1])
    gate.arrived()
    s.call_packed(lambda: noted.append(who()))
    s.sync_worker_0()
    assert noted == [0]
    gate.open()


def test_sync_all(session):
    s = session(3)
    steps = []
    for _ in range(30):
        s.call_packed(lambda: steps.append(who()))
    s.sync_all()
    assert sorted(steps) == sorted(list(range(3)) * 30)


@pytest.mark.parametrize("wait", WAITS)
def test_sync_with_a_timeout_says_who_is_where(session, gate, wait):
    s = session(2)

    def held():
        gate()

    ref = s.call_packed(held)
    gate.arrived(2)
    with pytest.raises(disco.SyncTimeout, match=r"did not answer within 0 s and goe?s? on; ") as caught:
        WAITS[wait](s, ref, timeout=0)
    assert "executing call test_sync_with_a_timeout_says_who_is_where.<locals>.held" in str(caught.value)
    assert [each.state for each in caught.value.diagnosis.positions] == ["executing"] * 2
    gate.open()
    WAITS[wait](s, ref, timeout=60)
    assert ref.get_all() == [None, None]


@pytest.mark.parametrize("wait", WAITS)
@pytest.mark.parametrize("timeout", [-1, "1", float("nan")], ids=str)
def test_sync_with_an_impossible_timeout_is_refused(session, wait, timeout):
    s = session(2)
    with pytest.raises(disco.UsageMistake, match="expected a number of seconds"):
        WAITS[wait](s, s.call_packed(who), timeout=timeout)


def press_ctrl_c_in(name):
    """Press Ctrl-C as soon as the main thread is in a function called `name`."""
    main, pause = threading.main_thread().ident, threading.Event()
    for _ in range(60_000):
        frame = frames()[main]
        while frame is not None:
            if frame.f_code.co_name == name:
                signal.pthread_kill(main, signal.SIGINT)
                return
            frame = frame.f_back
        pause.wait(0.001)


@pytest.mark.parametrize("wait", WAITS)
def test_sync_is_interruptible(session, gate, background, wait):
    s = session(2)
    ref = s.call_packed(gate)
    gate.arrived(2)
    pressed = background(press_ctrl_c_in, wait)
    goes_on = r"was interrupted, and worker.* goe?s? on \(session.interrupt\(\) ends that\);"
    with pytest.raises(KeyboardInterrupt, match=rf"{goes_on} workers \[0-1\] are executing call"):
        WAITS[wait](s, ref)
    pressed()
    gate.open()  # the workers go on with what they do: a wait was ended, not a command
    assert ref.get_all() == [None, None]
    assert s.call_packed(who).get_all() == [0, 1]


@pytest.mark.parametrize("wait", WAITS)
def test_sync_raises_what_failed_once(session, wait):
    s = session(2)
    good = s.call_packed(who)
    s.call_packed(fail_on, 0 if wait == "sync_worker_0" else 1)
    with pytest.raises(disco.WorkerError, match="call fail_on failed on worker"):
        WAITS[wait](s, good)
    WAITS[wait](s, good)
    assert good.get_all() == [0, 1]


@pytest.mark.parametrize("worker", [2, -1, "0", 1.0])
def test_sync_of_a_worker_that_is_not_there_is_refused(session, worker):
    with pytest.raises(disco.UsageMistake, match=r"this session has workers \[0-1\]"):
        session(2).sync_worker(worker)


# --- values ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3])
def test_debug_get_from_remote(session, n):
    s = session(n)
    ref = s.call_packed(lambda: (who(), np.full(2, who())))
    for worker in range(n):
        number, array = ref.debug_get_from_remote(worker)
        assert (number, array.tolist()) == (worker, [worker, worker])


@pytest.mark.parametrize(
    "make", [lambda: np.zeros(2), lambda: [0, 0], lambda: [[0, 0]]], ids=["array", "list", "nested"]
)
def test_debug_get_from_remote_gives_a_copy(session, make):
    s = session(2)
    ref = s.call_packed(make)
    mine = ref.debug_get_from_remote(1)
    (mine[0] if isinstance(mine[0], list) else mine)[0] = 7
    again = ref.debug_get_from_remote(1)
    assert np.asarray(again).ravel().tolist() == [0, 0]
    s.call_packed(lambda x: x.__setitem__(0, 5), ref)
    s.sync_all()
    assert np.asarray(mine).ravel().tolist() == [7, 0]


def test_debug_get_from_remote_waits_for_the_value(session, gate, background):
    s = session(2)
    s.call_packed(gate)
    ref = s.call_packed(who)
    value = background(ref.debug_get_from_remote, 1)
    gate.arrived(2)
    gate.open()
    assert value() == 1


def test_debug_get_from_remote_of_what_cannot_be_copied_is_an_error_of_that_get(session):
    s = session(2)
    ref = s.call_packed(threading.Lock)
    with pytest.raises(disco.WorkerError, match="cannot be copied between controller and worker") as caught:
        ref.debug_get_from_remote(0)
    assert isinstance(caught.value.origin.exception, disco.UsageMistake)
    s.sync_all()


def test_debug_copy_from(session):
    s = session(3)
    ref = s.call_packed(np.zeros, 2)
    mine = np.array([1.0, 2.0])
    ref.debug_copy_from(1, mine)
    mine[:] = -1
    assert [value.tolist() for value in ref.get_all()] == [[0, 0], [1, 2], [0, 0]]


def test_debug_copy_from_takes_any_value_that_can_travel(session):
    s = session(2)
    ref = s.call_packed(who)
    ref.debug_copy_from(0, {"a": [1]})
    assert s.call_packed(lambda x: x, ref).get_all() == [{"a": [1]}, 1]
