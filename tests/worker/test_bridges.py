"""Calls of libraries that call back into Python: an interrupt strikes the user's code, never the bridge."""

from __future__ import annotations

import contextlib
import threading

import pytest

from disco_magic.errors import WorkerInterrupt
from disco_magic.functions import bridges
from disco_magic.functions.bridges import cross, land, lands
from disco_magic.workers import injection
from disco_magic.workers.lane import Lane
from tests.worker.bridging import AT_THE_END, STRUCK, code_of, ended
from tests.worker.conftest import noted

pytestmark = pytest.mark.usefixtures("served")


@pytest.fixture
def injected(monkeypatch):
    """Threads that would have been injected into; they are the test's own, and look for it at once."""
    seen = []
    monkeypatch.setattr(bridges, "_looks", lambda frame: True)
    monkeypatch.setattr(injection, "inject", noted(seen))
    return seen


# --- where it strikes ------------------------------------------------------------------------------


def test_nothing_strikes_while_the_library_computes(bench, injected):
    assert ended(bench, lambda: cross(bench.worker.interrupt, 1)) == AT_THE_END
    assert injected == []
    assert (bench.worker.lane.crossing, bench.worker.lane.withheld) == (0, False)


@pytest.mark.parametrize(
    "module", ["tvm_ffi", "tvm_ffi.core", "tvm.runtime.vm", "importlib", "disco_magic.x"]
)
def test_nothing_strikes_on_the_bridge(bench, injected, module):
    bridge = code_of(module, lambda: bench.worker.interrupt(1))
    assert ended(bench, lambda: cross(bridge)) == AT_THE_END
    assert injected == []


def test_nothing_strikes_in_what_the_bridge_itself_calls(bench, injected):
    # A tracer's function, or a finalizer.
    def tracer():
        bench.worker.interrupt(1)

    assert ended(bench, lambda: cross(code_of("tvm_ffi.core", lambda: [tracer()]))) == AT_THE_END
    assert injected == []


@pytest.mark.parametrize("module", ["__main__", "numpy.linalg", "tvmish", "disco_magician", None])
def test_code_that_the_library_calls_is_struck(bench, injected, module):
    ended(bench, lambda: cross(code_of(module, lambda: bench.worker.interrupt(1))))
    assert injected == [threading.get_ident()]
    assert not bench.worker.lane.withheld


def test_library_code_that_this_calls_is_struck_too(bench, injected):
    library = code_of("tvm_ffi.core", lambda: bench.worker.interrupt(1))
    ended(bench, lambda: cross(lambda: [library()]))
    assert injected == [threading.get_ident()]


def test_code_behind_a_function_that_lands_is_struck(bench, injected):
    def users():
        bench.worker.interrupt(1)

    ended(bench, lambda: cross(lands(code_of("disco_magic.x", lambda: [users()]))))
    assert injected == [threading.get_ident()]


def test_nothing_strikes_in_what_a_function_that_lands_does_itself(bench, injected):
    assert ended(bench, lambda: cross(lands(lambda: bench.worker.interrupt(1)))) == AT_THE_END
    assert injected == []


def test_a_bridge_in_code_that_the_library_calls_is_one_too(bench, injected):
    assert ended(bench, lambda: cross(lambda: cross(bench.worker.interrupt, 1))) == AT_THE_END
    assert injected == []
    assert bench.worker.lane.crossing == 0


def test_behind_that_bridge_the_code_that_the_library_called_is_struck_again(bench, injected):
    def users():
        assert cross(abs, -1) == 1
        assert bench.worker.lane.crossing == 1
        bench.worker.interrupt(1)

    ended(bench, lambda: cross(users))
    assert injected == [threading.get_ident()]


def test_where_there_is_no_bridge_the_librarys_python_code_is_struck(bench, injected):
    ended(bench, code_of("tvm.relax", lambda: bench.worker.interrupt(1)))
    assert injected == [threading.get_ident()]


def test_behind_a_bridge_everything_is_as_before(bench, injected):
    def program():
        assert cross(abs, -1) == 1
        bench.worker.interrupt(1)

    ended(bench, program)
    assert injected == [threading.get_ident()]


def test_a_thread_that_is_no_workers_is_not_held_up(bench, background):
    seen = []

    def elsewhere():
        land()
        return cross(lambda: seen.append(bench.worker.lane.crossing) or "value")

    def program():
        bench.worker.lane.withheld = True
        value = background(elsewhere)()
        bench.worker.lane.withheld = False
        return value

    assert bench.call(program) == "value"
    assert seen == [0]


def test_a_finalizer_may_cross_a_bridge_while_the_thread_holds_the_mutex(bench):
    def program():
        with bench.worker.mutex:
            return cross(abs, -1)

    assert bench.call(program) == 1


def test_the_threads_of_a_session_are_served(session):
    def mine():
        return bridges._here.lane.thread_id == threading.get_ident()

    assert session(2).call_packed(mine).get_all() == [True, True]


# --- when it is raised -----------------------------------------------------------------------------


def test_a_function_that_the_library_calls_begins_with_what_was_withheld(bench, injected):
    began = []

    def callback():
        land()
        began.append("undisturbed")
        bench.worker.interrupt(1)
        land()
        began.append("in spite of it")

    def program():
        with pytest.raises(WorkerInterrupt, match=AT_THE_END):
            cross(lands(callback))
        return bench.worker.lane.withheld

    assert ended(bench, program) == STRUCK
    assert (began, injected) == (["undisturbed"], [])


def test_it_is_raised_once(bench, injected):
    def program():
        with pytest.raises(WorkerInterrupt, match=AT_THE_END):
            cross(bench.worker.interrupt, 1)
        land()
        assert cross(abs, -1) == 1
        bench.worker.interrupt(1)  # so soon that it would strike the clean-up

    assert ended(bench, program) == STRUCK
    assert injected == []


def test_an_error_of_the_library_does_not_hide_it(bench, injected):
    def fails():
        bench.worker.interrupt(1)
        raise ArithmeticError("of the library")

    def program():
        with contextlib.suppress(ArithmeticError):  # as users do
            cross(code_of("tvm_ffi", fails))

    assert ended(bench, program) == AT_THE_END
    assert injected == []
    assert bench.worker.lane.crossing == 0


def test_an_error_of_the_library_comes_out_if_there_is_nothing_to_hide(bench):
    def program():
        with pytest.raises(ZeroDivisionError):
            cross(divmod, 1, 0)
        return bench.worker.lane.crossing

    assert bench.call(program) == 0


def test_an_interrupt_that_comes_out_is_not_followed_by_another(bench, injected):
    def fails():
        bench.worker.interrupt(1)
        raise WorkerInterrupt("in a collective")

    seen = []

    def program():
        with pytest.raises(WorkerInterrupt) as caught:
            cross(code_of("tvm_ffi", fails))
        seen.append(str(caught.value))
        land()
        seen.append("went on")

    ended(bench, program)
    assert seen == ["in a collective", "went on"]


def test_what_is_pending_strikes_before_the_bridge(bench, monkeypatch):
    ran = []

    class Jumps:
        def __iter__(self):
            ran.append(bench.worker.lane.crossing)  # nothing can be injected any more
            raise WorkerInterrupt("pending")

    monkeypatch.setattr(bridges, "_JUMPS", Jumps())
    assert ended(bench, lambda: cross(ran.append, "library")) == "pending"
    assert ran == [1]
    assert bench.worker.lane.crossing == 0


def test_a_command_does_not_inherit_what_was_withheld():
    lane = Lane()
    lane.withheld = True
    lane.end()
    assert not lane.withheld
