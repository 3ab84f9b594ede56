"""What workers do one after the other."""

from __future__ import annotations

import re
import threading

import pytest

from disco_magic.errors import CellError, UsageMistake, WorkerInterrupt
from disco_magic.functions.turns import Turns
from tests.conftest import until
from tests.session.conftest import stopped


@pytest.fixture
def turns():
    return Turns("models are baked")


def test_one_thread_at_a_time_has_it_and_may_take_it_again(turns):
    inside, most, lock = [0], [0], threading.Lock()

    def work():
        for _ in range(20):
            with turns.taken(), turns.taken():
                with lock:
                    inside[0] += 1
                    most[0] = max(most)
                    assert inside == [1]
                with lock:
                    inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert inside == [0]


def test_what_is_raised_in_it_ends_it(turns):
    with pytest.raises(KeyError), turns.taken():
        raise KeyError
    other = threading.Thread(target=lambda: turns.taken().__enter__())
    other.start()
    other.join()
    with turns.taken():  # of a thread that has ended
        pass


def test_who_waits_for_it_can_be_interrupted(gated, gate, turns):
    s = gated(2, turns=turns)
    pending = s.run_nowait("with turns.taken():\n    gate() if worker_id == 0 else None", workers=[0])
    gate.arrived()
    waiting = s.run_nowait("with turns.taken(): pass", workers=[1])
    until(lambda: s.diagnosis().positions[1].state == "executing")
    waiting.cancel()
    assert isinstance(stopped(waiting)[1].exception, WorkerInterrupt)
    gate.open()
    pending.wait()
    assert s.run("with turns.taken(): got = worker_id\ngot").values == [0, 1]


def test_a_turn_of_a_thread_that_was_given_up_is_the_next_one_s(gated, gate, turns):
    s = gated(2, turns=turns)
    pending = s.run_nowait("with turns.taken():\n    gate()", workers=[0])
    gate.arrived()
    pending.cancel()
    with pytest.raises(CellError, match="given up"):
        pending.wait()
    assert s.run("with turns.taken(): got = worker_id\ngot").values == [0, 1]


def test_who_waits_in_it_for_others_that_wait_for_it_is_told_of(session, turns):
    s = session(2, extras=lambda _: {"turns": turns})
    with pytest.raises(CellError) as caught:
        s.run("with turns.taken():\n    allreduce(1)")
    told = [each for each in caught.value.failures.values() if isinstance(each.exception, UsageMistake)]
    assert len(told) == 1
    waits, other = told[0].worker, 1 - told[0].worker
    assert re.fullmatch(
        f"UsageMistake: models are baked by one worker after the other, and worker {other}, whose turn it is,"
        r" waits in allreduce\(int64 \(\), op=sum\) at Cell \d+, line 2,"
        f" to which worker {waits} cannot come - call that before or after",
        told[0].summary,
    )


def test_the_notebook_and_workers_of_another_session_only_wait(session, gate, turns):
    one = session(1, extras=lambda _: {"turns": turns, "gate": gate})
    other = session(1, extras=lambda _: {"turns": turns})
    pending = one.run_nowait("with turns.taken(): gate()")
    gate.arrived()
    waiting = other.run_nowait("with turns.taken(): pass")
    until(lambda: other.diagnosis().positions[0].state == "executing")
    gate.open()
    pending.wait()
    with turns.taken():
        waiting.done()
    waiting.wait()
