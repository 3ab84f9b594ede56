"""Calls of libraries that call back into Python: an interrupt strikes the user's code, never the bridge."""

from __future__ import annotations

import contextlib
import threading
import types

import pytest

from disco_magic import bridges, injection
from disco_magic.core.messages import Call, Stop
from disco_magic.errors import WorkerInterrupt
from disco_magic.lane import Lane

AT_THE_END = "interrupted in a call of a library"


@pytest.fixture
def injected(monkeypatch):
    """Threads that would have been injected into."""
    seen = []
    monkeypatch.setattr(injection, "inject", seen.append)
    return seen


@pytest.fixture
def cross(bench):
    return bench.worker.guard.cross


def code_of(module, function):
    """`function`, as if `module` had defined it."""
    names = {**function.__globals__, "__name__": module}
    return types.FunctionType(function.__code__, names, closure=function.__closure__)


def ended(bench, program):
    """What a command that executes `program` ended with."""
    (event,) = bench.serve(Call(1, 5, program, ()))
    return str(event.failure.exception)


# --- where it strikes ------------------------------------------------------------------------------


def test_nothing_strikes_while_the_library_computes(bench, cross, injected):
    assert ended(bench, lambda: cross(bench.worker.interrupt, 1)) == AT_THE_END
    assert injected == []
    assert (bench.worker.lane.crossing, bench.worker.lane.withheld) == (0, False)


@pytest.mark.parametrize("module", ["tvm_ffi", "tvm_ffi.core", "tvm.runtime.vm", "disco_magic.functions"])
def test_nothing_strikes_on_the_bridge(bench, cross, injected, module):
    bridge = code_of(module, lambda: bench.worker.interrupt(1))
    assert ended(bench, lambda: cross(bridge)) == AT_THE_END
    assert injected == []


def test_nothing_strikes_in_the_bridges_code_that_the_users_code_has_called(bench, cross, injected):
    bridge = code_of("tvm_ffi.core", lambda: bench.worker.interrupt(1))
    assert ended(bench, lambda: cross(lambda: [bridge()])) == AT_THE_END
    assert injected == []


@pytest.mark.parametrize("module", ["__main__", "numpy.linalg", "tvmish", "disco_magician", None])
def test_code_that_the_library_calls_is_struck(bench, cross, injected, module):
    users = code_of(module, lambda: bench.worker.interrupt(1))
    ended(bench, lambda: cross(code_of("tvm_ffi.core", lambda: [users()])))
    assert injected == [threading.get_ident()]
    assert not bench.worker.lane.withheld


def test_a_bridge_in_code_that_the_library_calls_is_one_too(bench, cross, injected):
    assert ended(bench, lambda: cross(lambda: cross(bench.worker.interrupt, 1))) == AT_THE_END
    assert injected == []
    assert bench.worker.lane.crossing == 0


def test_behind_that_bridge_the_code_that_the_library_called_is_struck_again(bench, cross, injected):
    def users():
        assert cross(abs, -1) == 1
        assert bench.worker.lane.crossing == 1
        bench.worker.interrupt(1)

    ended(bench, lambda: cross(users))
    assert injected == [threading.get_ident()]


def test_where_there_is_no_bridge_the_librarys_python_code_is_struck(bench, injected):
    ended(bench, code_of("tvm.relax", lambda: bench.worker.interrupt(1)))
    assert injected == [threading.get_ident()]


def test_behind_a_bridge_everything_is_as_before(bench, cross, injected):
    def program():
        assert cross(abs, -1) == 1
        bench.worker.interrupt(1)

    ended(bench, program)
    assert injected == [threading.get_ident()]


def test_a_thread_that_is_no_workers_is_not_held_up(bench, cross, background):
    seen = []

    def elsewhere():
        return cross(lambda: seen.append(bench.worker.lane.crossing) or "value")

    def program():
        bench.worker.lane.withheld = True
        background(bench.worker.guard.land)()
        bench.worker.lane.withheld = False
        return background(elsewhere)()

    assert bench.call(program) == "value"
    assert seen == [0]


# --- when it is raised -----------------------------------------------------------------------------


def test_a_function_that_the_library_calls_begins_with_what_was_withheld(bench, cross, injected):
    began = []

    def callback():
        bench.worker.guard.land()
        began.append("undisturbed")
        bench.worker.interrupt(1)
        bench.worker.guard.land()
        began.append("in spite of it")

    def program():
        with pytest.raises(WorkerInterrupt, match=AT_THE_END):
            cross(code_of("disco_magic", callback))
        return bench.worker.lane.withheld

    assert ended(bench, program) == "the command was interrupted"
    assert (began, injected) == (["undisturbed"], [])


def test_it_is_raised_once(bench, cross, injected):
    def program():
        with pytest.raises(WorkerInterrupt, match=AT_THE_END):
            cross(bench.worker.interrupt, 1)
        bench.worker.guard.land()
        assert cross(abs, -1) == 1
        bench.worker.interrupt(1)  # so soon that it would strike the clean-up

    assert ended(bench, program) == "the command was interrupted"
    assert injected == []


def test_an_error_of_the_library_comes_out_first(bench, cross, injected, monkeypatch):
    monkeypatch.setattr(injection, "AGAIN_S", 0)

    def fails():
        bench.worker.interrupt(1)
        raise ArithmeticError("of the library")

    def program():
        with pytest.raises(ArithmeticError, match="of the library"):
            cross(code_of("tvm_ffi", fails))
        assert (bench.worker.lane.crossing, bench.worker.lane.withheld) == (0, False)
        assert injected == []
        bench.worker.interrupt(1)

    ended(bench, program)
    assert injected == [threading.get_ident()]


def test_what_is_pending_strikes_before_the_bridge(bench, cross, monkeypatch):
    ran = []

    def strikes():
        ran.append(bench.worker.lane.crossing)  # nothing can be injected any more
        raise WorkerInterrupt("pending")

    monkeypatch.setattr(bridges, "let_strike", strikes)
    assert ended(bench, lambda: cross(ran.append, "library")) == "pending"
    assert ran == [1]
    assert bench.worker.lane.crossing == 0


def test_a_command_does_not_inherit_what_was_withheld():
    lane = Lane()
    lane.withheld = True
    lane.end()
    assert not lane.withheld


# --- with a thread that interrupts -----------------------------------------------------------------


def test_an_interrupt_waits_for_the_library_and_strikes_behind_it(bench, cross, background, gate):
    inside = threading.Event()

    def library():
        inside.set()
        gate(0)

    def interrupts():
        assert inside.wait(60)
        assert bench.worker.interrupt(1)
        gate.open()

    wait = background(interrupts)
    assert ended(bench, lambda: cross(code_of("tvm_ffi", library))) == AT_THE_END
    wait()


def test_an_interrupt_ends_a_loop_of_the_users_in_the_library(bench, cross, background):
    inside = threading.Event()

    def users():
        inside.set()
        while True:
            pass

    def interrupts():
        assert inside.wait(60)
        assert bench.worker.interrupt(1)

    wait = background(interrupts)
    assert ended(bench, lambda: cross(users)) == "the command was interrupted"
    wait()


@pytest.mark.parametrize("withheld", [True, False])
def test_a_thread_that_was_given_up_in_the_library_ends_behind_it(bench, cross, withheld):
    behind = []

    def gives_up():
        bench.worker.interrupt(1)
        assert bench.worker.abandon() is not None
        lane.withheld = withheld  # or it was struck in the user's code, which caught that
        bench.worker.lane.thread_id = -1  # its successor's

    def program():
        with contextlib.suppress(ValueError):
            cross(code_of("tvm_ffi", gives_up))
            behind.append("went on")

    lane = bench.worker.lane
    source = iter([Call(1, 5, program, ()), Stop(2)])
    bench.worker.run(lane, lambda block: next(source))
    assert behind == []
    assert lane.abandoned
    assert lane.crossing == 0
