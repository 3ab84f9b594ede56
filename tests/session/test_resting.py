"""Workers that have done everything are not woken to say so, and what they hold is read where it is."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest

import disco_magic as disco
from disco_magic.errors import SessionClosed, UsageMistake, WorkerError, WorkerLost
from disco_magic.threads.patience import pause
from tests.sampled import EVERY_CASE
from tests.session.conftest import until, who


def at_rest(s):
    """A session whose workers sleep."""
    until(lambda: s._have_rested(range(s.num_workers), None))
    return s


def sent(s, act):
    """What `act` returns, and how many commands it has sent."""
    before = s.ledger.seq
    return act(), s.ledger.seq - before


@pytest.fixture
def four(session):
    return session(4)


def test_a_number_of_workers_at_rest_is_read_without_a_command(four):
    ref = four.call_packed(who)
    four.sync_all()
    at_rest(four)
    assert sent(four, lambda: ref.get(3)) == (3, 0)
    assert sent(four, ref.get_all) == ([0, 1, 2, 3], 0)
    assert sent(four, lambda: ref.debug_get_from_remote(1)) == (1, 0)


@pytest.mark.parametrize(
    "value", [None, True, 2.5, 1j, "text", b"bytes", (2, 3), np.float32(4), np.dtype("i4"), int]
)
def test_what_nobody_can_change_is_the_object_itself(four, value):
    ref = four.call_packed(lambda: value)
    four.sync_all()
    at_rest(four)
    seen, count = sent(four, lambda: ref.get(2))
    assert seen is value
    assert count == 0


@pytest.mark.parametrize("value", [np.arange(3), [1, 2], {"a": 1}, ([],), bytearray(b"x")])
def test_what_can_be_changed_is_asked_for_and_copied(four, value):
    ref = four.call_packed(lambda: value)
    four.sync_all()
    at_rest(four)
    seen, count = sent(four, lambda: ref.get(2))
    assert count == 1
    assert seen is not value
    np.testing.assert_equal(seen, value)


def test_a_sync_of_workers_at_rest_sends_nothing(four):
    four.call_packed(who)
    four.sync_all()
    at_rest(four)
    for wait in (four.sync_all, four.sync_worker_0, lambda: four.sync_worker(2)):
        assert sent(four, wait) == (None, 0)


def test_registers_to_drop_are_dropped_by_a_sync_all_the_same(four):
    ref = four.call_packed(who)
    kept = four.call_packed(who)
    four.sync_all()
    at_rest(four)
    del ref
    assert sent(four, four.sync_all) == (None, 1)
    assert [row.registers for row in four.stats().workers] == [1] * 4
    at_rest(four)
    assert sent(four, kept.get_all) == ([0, 1, 2, 3], 0)


def test_a_worker_that_the_last_command_did_not_go_to_is_asked(four):
    ref = four.call_packed(who)
    four.set_register(ref, 1, 10)
    assert sent(four, lambda: ref.get(2)) == (2, 1)
    assert ref.get(1) == 10


def test_a_value_is_never_older_than_the_last_call(four):
    ref = four.call_packed(lambda: 0)
    for expected in range(1, 2000):
        ref = four.call_packed(lambda x: x + 1, ref)
        assert ref.get(expected % 4) == expected
        if expected % 3 == 0:
            assert ref.get_all() == [expected] * 4


def test_nor_than_a_value_that_was_set(four):
    ref = four.call_packed(lambda: 0)
    for expected in range(500):
        ref.set(1, expected)
        assert ref.get(1) == expected
        four.sync_all()
        assert ref.get(1) == expected


def test_threads_that_call_and_read_at_once_read_their_own(four):
    wrong = []

    def work(number):
        for count in range(300):
            ref = four.call_packed(lambda x: x, number * 1000 + count)
            seen = ref.get(count % 4)
            if seen != number * 1000 + count:
                wrong.append((number, count, seen))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_failure_is_raised_however_soon_one_waits(four):
    good = four.call_packed(who)
    for _ in range(100):
        four.call_packed(lambda: 1 / 0)
        with pytest.raises(WorkerError, match="ZeroDivisionError"):
            four.sync_all()
        four.call_packed(lambda: 1 / 0)
        with pytest.raises(WorkerError, match="ZeroDivisionError"):
            good.get_all()
        assert good.get(1) == 1


def test_a_failure_that_nobody_has_raised_is_raised_by_a_look(four):
    good = four.call_packed(who)
    bad = four.call_packed(lambda: 1 / 0)
    at_rest(four)
    with pytest.raises(WorkerError, match="ZeroDivisionError"):
        sent(four, lambda: good.get(1))
    assert sent(four, lambda: good.get(1)) == (1, 0)
    del bad


def test_a_poisoned_register_raises_each_time(four):
    bad = four.call_packed(lambda: 1 / 0)
    for _ in range(3):
        with pytest.raises(WorkerError, match="ZeroDivisionError"):
            bad.get(1)
        until(lambda: four._have_rested((1,), None))


def test_while_a_worker_executes_it_is_waited_for(gated, gate):
    s = gated(2)
    ref = s.call_packed(who)
    s.sync_all()
    s.run_nowait("if worker_id == 1: gate()")
    gate.arrived()
    assert not s._have_rested((1,), None)
    assert not s._have_rested((0, 1), None)
    for wait in (lambda: ref.get(1, timeout=0), lambda: s.sync_all(timeout=0)):
        with pytest.raises(disco.SyncTimeout, match="did not answer"):
            wait()
    gate.open()
    s.sync_all()
    assert ref.get(1) == 1


def test_mistakes_are_refused_as_by_workers_that_are_busy(four):
    ref = four.call_packed(who)
    four.sync_all()
    at_rest(four)
    for wait in (lambda t: four.sync_all(timeout=t), lambda t: ref.get(0, timeout=t)):
        with pytest.raises(UsageMistake, match="timeout is -1"):
            wait(-1)
    other = disco.ThreadedSession(1)
    with other, pytest.raises(UsageMistake, match="belongs to session"):
        other.call_packed(who, ref)


def test_a_worker_may_not_wait_for_its_own_session(four):
    ref = four.call_packed(who)
    four.sync_all()

    def peek(wait):
        if who() == 0:
            until(lambda: four._launcher.has_rested(1, four.ledger.seq))
            wait()

    kept = []  # else there would be something to drop, and nobody at rest
    for wait in (lambda: four.sync_worker(1), lambda: ref.get(1)):
        kept.append(four.call_packed(peek, wait))
        until(lambda: four.ledger.has_failures)  # nothing is sent meanwhile: worker 1 stays at rest
        with pytest.raises(WorkerError, match="called on worker 0 of the same session"):
            kept[-1].get(0)


def test_a_call_that_strikes_in_a_turn_is_refused_asked_or_not(four):
    ref = four.call_packed(who)
    four.sync_all()
    at_rest(four)
    for wait in (four.sync_all, ref.get_all):
        with pytest.raises(UsageMistake, match="finalizer or a signal handler"):
            four._locked(wait)
    four.set_register(ref, 0, [1])
    for wait in (four.sync_all, ref.get_all):
        with pytest.raises(UsageMistake, match="finalizer or a signal handler"):
            four._locked(wait)
    assert not four._locked.taken
    assert ref.get(0) == [1]


class Slow:
    """What is called; its finalizer takes a moment."""

    def __init__(self, ended):
        self.ended = ended

    def __call__(self):
        return 7

    def __del__(self):
        pause(0.005)
        self.ended.append(1)


def test_a_worker_has_not_rested_before_it_has_let_go_of_what_it_called(session):
    s = session(1)
    ended, refs = [], []
    for count in range(1, 40):
        refs.append(s.call_packed(Slow(ended)))
        pause(0.001)
        s.sync_all()
        assert len(ended) == count


ASKED = []


class Proxy:
    """Stands for something that only workers can look into."""

    @property
    def __class__(self):
        ASKED.append(disco.worker().id)
        return int

    def __deepcopy__(self, memo):
        return f"copied on {disco.worker().id}"


class Vain(type):
    """A metaclass that runs code when it is asked for a hash."""

    def __hash__(cls):
        ASKED.append(cls)
        return hash("int")


def test_no_code_of_the_values_class_runs_on_the_controller(four):
    ref = four.call_packed(Proxy)
    four.sync_all()
    at_rest(four)
    ASKED.clear()
    assert four._glance(ref.register, (2,), None, four.life) is None
    assert ASKED == []
    ref = four.call_packed(Vain("Made", (), {}))
    four.sync_all()
    at_rest(four)
    ASKED.clear()
    assert four._glance(ref.register, (2,), None, four.life) is None
    assert ASKED == []


def test_what_a_restart_has_taken_away_is_not_looked_at(four):
    ref = four.call_packed(who)
    four.sync_all()
    at_rest(four)
    assert four._glance(ref.register, (1,), None, four.life) == {1: 1}
    assert four._glance(ref.register, (1,), None, lambda drop: None) is None


@pytest.mark.parametrize("what", ["closed", "dying"])
def test_what_has_to_be_said_or_told_is_not_passed_over(four, what):
    ref = four.call_packed(who)
    four.sync_all()
    at_rest(four)
    if what == "closed":
        four.closed = True
    else:
        four._dying.append(0)
    assert not four._have_rested((1,), None)
    assert four._glance(ref.register, (1,), None, four.life) is None
    four.closed = False
    four._dying.clear()
    assert four._glance(ref.register, (1,), None, four.life) == {1: 1}


def test_a_session_that_restarts_in_another_thread_is_closed_or_there(session):
    s = session(2)
    ended, found = threading.Event(), set()

    def work():
        while not ended.is_set():
            try:
                s.sync_all()
            except SessionClosed:
                pass
            except BaseException as error:  # noqa: BLE001 - whatever else comes is wrong
                found.add(repr(error))

    thread = threading.Thread(target=work)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        thread.start()
        for _ in range(30 if EVERY_CASE else 10):
            s.restart()
    finally:
        sys.setswitchinterval(interval)
        ended.set()
        thread.join()
    assert found == set()


def test_a_session_that_is_closed_says_so(session):
    s = session(2)
    ref = s.call_packed(who)
    s.sync_all()
    at_rest(s)
    s.shutdown()
    with pytest.raises(SessionClosed):
        ref.get(0)
    with pytest.raises(SessionClosed):
        s.sync_all()


def test_a_reference_of_the_life_before_a_restart_reads_nothing(session):
    s = session(2)
    ref = s.call_packed(who)
    s.sync_all()
    s.restart()
    s.call_packed(lambda: "another").get_all()
    with pytest.raises(SessionClosed):
        ref.get(0)


def test_the_loss_of_a_worker_is_told_by_the_next_wait(session):
    s = session(2)
    ref = s.call_packed(who)
    s.sync_all()
    at_rest(s)
    s._pump.deliver(disco.core.messages.Lost(1, 0, "killed"))
    with pytest.raises(WorkerLost, match="killed"):
        ref.get(0)
    with pytest.raises(WorkerLost, match="killed"):
        s.sync_all()
