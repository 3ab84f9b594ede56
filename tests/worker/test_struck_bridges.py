"""A thread that interrupts a call of a library: it is struck in the user's code, or behind the bridge."""

from __future__ import annotations

import contextlib
import contextvars
import dis
import os
import signal
import sys
import threading
from collections import defaultdict

import pytest

from disco_magic.core.messages import Call, Stop
from disco_magic.errors import WorkerInterrupt
from disco_magic.functions.bridges import cross, land, lands
from disco_magic.threads.stacks import frames
from tests.conftest import DEADLINE_S, until
from tests.worker.bridging import AT_THE_END, STRUCK, code_of, ended

pytestmark = pytest.mark.usefixtures("served")


@pytest.fixture
def interrupts(bench, background):
    """Interrupts the command as soon as its thread is where ``there()`` is true, and then calls `then`."""
    me = threading.get_ident()
    waits = []

    def start(there, then=lambda: None):
        def run():
            until(lambda: there(frames()[me]))
            assert bench.worker.interrupt(1)
            then()

        waits.append(background(run))

    yield start
    for wait in waits:
        wait()


@pytest.fixture
def lock():
    """Who takes it waits, in C code, until it is released."""
    made = threading.Lock()
    made.acquire()
    return made


def is_in(function):
    return lambda frame: frame.f_code is function.__code__


def test_an_interrupt_waits_for_the_library_and_strikes_behind_it(bench, interrupts, lock):
    def library():
        lock.acquire()

    interrupts(is_in(library), lock.release)
    assert ended(bench, lambda: cross(code_of("tvm_ffi", library))) == AT_THE_END


def test_a_function_that_would_be_back_on_the_bridge_first_is_not_struck(bench, interrupts, lock):
    # Behind a subscript nobody looks for what is pending, nor behind a return.
    blocks = defaultdict(lock.acquire)

    def users():
        return blocks[0]

    def there(frame):
        return is_in(users)(frame) and dis.opname[users.__code__.co_code[frame.f_lasti]].startswith("BINARY")

    interrupts(there, lock.release)
    assert ended(bench, lambda: cross(users)) == AT_THE_END


def test_a_function_that_looks_before_it_is_back_is_struck(bench, interrupts, lock):
    behind = []

    def users():
        lock.acquire()
        behind.append("went on")

    interrupts(is_in(users), lock.release)
    assert ended(bench, lambda: cross(users)) == STRUCK
    assert behind == []


def test_a_function_behind_one_that_lands_is_struck_wherever_it_is(bench, interrupts, lock):
    blocks = defaultdict(lock.acquire)

    def users():
        return blocks[0]

    def callback():
        return list(map(str, [users()]))

    interrupts(is_in(users), lock.release)
    assert ended(bench, lambda: cross(lands(callback))) == STRUCK


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="it is given up like a call into C, after a second")
def test_an_interrupt_ends_a_loop_of_the_users_in_the_library(bench, interrupts):
    def users():
        while True:
            pass

    interrupts(is_in(users))
    assert ended(bench, lambda: cross(users)) == STRUCK


def test_an_interrupt_ends_a_loop_behind_a_function_that_lands(bench, interrupts):
    def users():
        while True:
            pass

    interrupts(is_in(users))
    assert ended(bench, lambda: cross(lands(lambda: [users()]))) == STRUCK


@pytest.mark.parametrize("withheld", [True, False])
def test_a_thread_that_was_given_up_in_the_library_ends_behind_it(bench, withheld):
    behind = []

    def gives_up():
        bench.worker.interrupt(1)
        assert bench.worker.abandon() is not None
        lane.withheld = withheld  # or it was struck in the user's code, which caught that
        bench.worker.lane.thread_id = -1  # its successor's
        with contextlib.suppress(WorkerInterrupt):
            land()
            behind.append("called another function of the user's")

    def program():
        with contextlib.suppress(ValueError):
            cross(code_of("tvm_ffi", gives_up))
            behind.append("went on")

    lane = bench.worker.lane
    source = iter([Call(1, 5, program, ()), Stop(2)])
    contextvars.copy_context().run(bench.worker.run, lane, lambda block: next(source))
    assert behind == []
    assert lane.abandoned
    assert lane.crossing == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing is forked here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_process_makes_such_calls_whoever_was_interrupting_the_worker(bench):
    held, done = threading.Event(), threading.Event()

    def interrupting():
        with bench.worker.mutex:
            held.set()
            done.wait(DEADLINE_S)

    thread = threading.Thread(target=interrupting)
    thread.start()
    held.wait(DEADLINE_S)
    number = os.fork()
    if not number:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(10)
        os._exit(cross(len, "abc"))
    try:
        assert os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]) == 3
    finally:
        done.set()
        thread.join()
