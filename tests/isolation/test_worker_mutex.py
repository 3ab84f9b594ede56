"""What workers do one after the other."""

from __future__ import annotations

import re
import threading

import pytest

from disco_magic.errors import CellError, UsageMistake, WorkerInterrupt
from disco_magic.isolation.worker_mutex import WorkerMutex
from tests.conftest import until
from tests.session.conftest import stopped


class Named(WorkerMutex):
    """Which cells enter by ``with mutex():``."""

    def __call__(self):
        return self.taken("models are baked")

    @property
    def is_free(self):
        return not self._inside and not self._waiting


@pytest.fixture
def mutex():
    made = Named()
    yield made
    assert made.is_free


@pytest.fixture
def crew(gated, mutex):
    """Starts sessions whose cells have `mutex`."""
    return lambda count: gated(count, mutex=mutex)


def waiting(mutex, count=1):
    until(lambda: len(mutex._waiting) == count)


def test_one_thread_at_a_time_has_it_and_may_take_it_again(mutex, gate):
    inside = []

    def work(number):
        with mutex(), mutex():
            inside.append(number)
            gate()
            inside.remove(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    gate.arrived()
    waiting(mutex, 2)
    assert len(inside) == 1
    gate.open()
    for thread in threads:
        thread.join()


def test_who_has_waited_longest_comes_next(mutex):
    order, threads = [], []

    def work(number):
        with mutex():
            order.append(number)

    with mutex():
        for number in range(4):
            threads.append(threading.Thread(target=work, args=(number,)))
            threads[-1].start()
            waiting(mutex, number + 1)
    for thread in threads:
        thread.join()
    assert order == [0, 1, 2, 3]


def test_what_is_raised_in_it_ends_it(mutex):
    with pytest.raises(KeyError), mutex():
        raise KeyError
    assert mutex.is_free


def test_a_thread_that_has_ended_in_it_does_not_keep_it(mutex):
    other = threading.Thread(target=lambda: mutex().__enter__())
    other.start()
    other.join()
    with mutex():
        pass


def test_who_waits_for_it_can_be_interrupted(crew, gate, mutex):
    s = crew(2)
    pending = s.run_nowait("with mutex():\n    gate()", workers=[0])
    gate.arrived()
    other = s.run_nowait("with mutex(): pass", workers=[1])
    waiting(mutex)
    other.cancel()
    assert isinstance(stopped(other)[1].exception, WorkerInterrupt)
    gate.open()
    pending.wait()
    assert s.run("with mutex(): got = worker_id\ngot").values == [0, 1]


def test_a_turn_of_a_thread_that_was_given_up_is_the_next_one_s(crew, gate):
    s = crew(2)
    pending = s.run_nowait("with mutex():\n    gate()", workers=[0])
    gate.arrived()
    pending.cancel()
    with pytest.raises(CellError, match="given up"):
        pending.wait()
    assert s.run("with mutex(): got = worker_id\ngot").values == [0, 1]


@pytest.mark.parametrize("lost", ["_enter", "_leave"])
def test_an_interrupt_at_its_beginning_or_end_leaves_it_to_nobody(crew, mutex, monkeypatch, lost):
    # As an injection does that strikes when it was taken, or before it is given back.
    method, s = getattr(WorkerMutex, lost), crew(2)

    def struck(self, entry):
        if lost == "_enter":
            method(self, entry)
        raise WorkerInterrupt

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(WorkerMutex, lost, struck)
        with pytest.raises(CellError):
            s.run("with mutex(): pass", workers=[0])
    assert s.run("with mutex(): got = worker_id\ngot").values == [0, 1]


def test_threads_of_a_worker_have_the_mutex_of_their_worker(crew, gate, mutex):
    s = crew(2)
    s.run(
        "from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(1)\n"
        "def within(then=lambda: None):\n    with mutex(): return then()"
    )
    pending = s.run_nowait("pool.submit(within, gate).result()", workers=[0])
    gate.arrived()
    assert s.run_nowait("within()", workers=[1]).done() is False
    waiting(mutex)
    gate.open()
    pending.wait()
    assert s.run("with mutex(): got = pool.submit(within, lambda: 5).result()\ngot").values == [5, 5]
    s.run("pool.shutdown()")


def test_a_thread_of_a_worker_s_own_may_have_it_while_the_worker_waits_for_others(crew, gate, mutex):
    s = crew(2)
    pending = s.run_nowait(
        "import threading\n"
        "def within():\n    with mutex(): gate()\n"
        "thread = threading.Thread(target=within)\n"
        "if worker_id == 0:\n    thread.start()\n    barrier()\n"
        "else:\n    with mutex(): got = 1\n    barrier()\n"
        "if worker_id == 0: thread.join()"
    )
    gate.arrived()
    gate.open()
    pending.wait()


def told_of(s, cell):
    with pytest.raises(CellError) as caught:
        s.run(cell)
    return [each for each in caught.value.failures.values() if isinstance(each.exception, UsageMistake)]


def test_who_waits_in_it_for_others_that_wait_for_it_is_told_of(crew):
    (told,) = told_of(crew(2), "with mutex():\n    allreduce(1)")
    waits, other = told.worker, 1 - told.worker
    assert re.fullmatch(
        f"UsageMistake: models are baked by one worker after the other, and worker {other}, whose turn it is,"
        r" waits in allreduce\(int64 \(\), op=sum\) at Cell \d+, line 2,"
        f" which needs worker {waits} - call that before or after",
        told.summary,
    )


def test_who_waits_for_it_through_others_is_told_of_too(crew):
    s = crew(3)
    (told,) = told_of(
        s,
        "if worker_id == 0:\n    with mutex():\n        send(1, 1)\n        recv(2)\n"
        "elif worker_id == 2:\n    recv(1)\n    send(1, 0)\n"
        "else:\n    recv(0)\n    with mutex(): send(1, 2)",
    )
    assert told.worker == 1
    assert "worker 0, whose turn it is, waits in recv from worker 2" in told.summary


def test_those_who_come_together_go_on_together(crew, gate, mutex):
    s = crew(3)
    s.run("def load():\n    with mutex(): gate() if worker_id == 0 else None\n    mutex.await_others()")
    pending = s.run_nowait(
        "while worker_id == 1 and not mutex._inside: pass\nload() if worker_id < 2 else None\n"
        "free = mutex.is_free"
    )
    gate.arrived()
    waiting(mutex)
    gate.open()
    pending.wait()
    assert s["free"].get(0) is True
    assert s["free"].get(1) is True


def test_nobody_awaits_one_that_waits_for_it_nor_others_while_it_has_it(crew, mutex):
    s = crew(2)
    s.run("with mutex():\n    mutex.await_others()")
    s.run(
        "if worker_id == 0:\n    with mutex(): recv(1)\n"
        "else:\n    import time\n    mutex.await_others()\n    send(1, 0)"
    )
    mutex.await_others()


def test_the_notebook_and_workers_of_another_session_only_wait(crew, gate, mutex):
    one, other = crew(1), crew(1)
    pending = one.run_nowait("with mutex(): gate()")
    gate.arrived()
    behind = other.run_nowait("with mutex(): pass")
    waiting(mutex)
    gate.open()
    pending.wait()
    behind.wait()
    with mutex():
        pass


def test_who_waits_for_the_notebook_that_waits_for_it_is_told(crew, mutex, monkeypatch):
    monkeypatch.setattr("disco_magic.isolation.worker_mutex._PATIENCE_S", 0.0)
    s = crew(1)
    with (
        mutex(),
        pytest.raises(CellError, match="MainThread, which has begun that and is no worker's, waits"),
    ):
        s.run("with mutex(): pass")
    assert s.run("with mutex(): pass\n5").values == [5]
