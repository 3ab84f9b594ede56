"""The driver of one worker, fed by hand in the test's own thread: races forced one step at a time."""

from __future__ import annotations

import contextvars
import ctypes
import threading

import pytest

from disco_magic.callers.tracebacks import own_frames
from disco_magic.core.doctor import Position
from disco_magic.core.messages import Call, Failed, Reached, Run, Sync
from disco_magic.errors import WorkerInterrupt
from disco_magic.functions.execution.cells import compile_cell
from disco_magic.workers import injection


def boom():
    raise ValueError("boom")


# --- ordinary commands -----------------------------------------------------------------------------


def test_a_call_leaves_its_value_and_says_that_its_command_is_over(bench):
    assert bench.serve(Call(1, 5, int, ("7",))) == []
    assert bench.values == {5: 7}


def test_nobody_is_told_of_a_departure_unless_somebody_waits(bench):
    bench.serve((1, 5, int, (), (), ()))
    assert bench.plane.told == [(10_000, None)]
    bench.plane.waiting[0] = "somebody"
    bench.serve((2, 6, int, (), (), ()))
    assert (2, None) in bench.plane.told


def test_a_failure_is_told_to_the_plane_before_the_controller(bench):
    told_when_delivered = []
    bench.worker.deliver = lambda event: told_when_delivered.append(list(bench.plane.told))
    bench.serve(Call(1, 5, boom, ()))
    assert told_when_delivered == [[(1, "ValueError: boom")]]


def test_a_skipped_command_tells_the_plane_the_origin(bench):
    events = bench.serve(Call(1, 5, boom, ()), Call(2, 6, int, (5,), (0,)))
    assert [type(event) for event in events] == [Failed]
    assert (2, "ValueError: boom") in bench.plane.told


@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), MemoryError()], ids=repr
)
def test_whatever_a_function_raises_ends_its_command_only(bench, error):
    def fail():
        raise error

    events = bench.serve(Call(1, 5, fail, ()), Sync(2))
    assert events[0].failure.exception is error
    assert events[1] == Reached(1, 2)


def test_a_callable_without_manners_can_be_described(bench):
    class Rude:
        def __getattr__(self, name):
            raise RuntimeError("no")

        def __repr__(self):
            raise RuntimeError("no")

        def __call__(self):
            raise ValueError("boom")

    (event,) = bench.serve(Call(1, 5, Rude(), ()))
    assert event.failure.command.endswith("Rude")


def test_an_unread_message_fails_the_cell(bench):
    bench.plane.messages = ["float32 (3,) from worker 0"]
    bench.plane.mail[1]["from 0"] = bench.plane.messages
    (event,) = bench.serve(Run(1, 5, compile_cell("5")))
    assert "worker 1 finished without receiving float32 (3,) from worker 0" in str(event.failure.exception)


def test_a_key_of_the_namespace_that_is_no_text_does_not_end_the_worker(bench):
    events = bench.serve(Run(1, 5, compile_cell("globals()[5] = 1\nx = 2")), Sync(2))
    assert events[0].names == ("x",)
    assert events[1] == Reached(1, 2)


# --- giving a thread up ----------------------------------------------------------------------------


def test_only_an_interrupted_worker_can_be_abandoned(bench):
    assert bench.worker.abandon() is None


def test_an_abandoned_thread_ends_when_its_call_returns(bench, monkeypatch):
    monkeypatch.setattr(injection, "inject", lambda *_: True)

    def stuck():
        bench.worker.interrupt(1)
        assert bench.worker.abandon() is bench.worker.lane
        return "late"

    events = bench.serve(Call(1, 5, stuck, ()), Call(2, 6, int, ()))
    assert "given up" in str(events[0].failure.exception)
    assert bench.values == {}
    assert 5 in bench.worker.registers.poisons


def test_an_abandoned_cell_says_how_long_it_ran(bench, monkeypatch):
    monkeypatch.setattr(injection, "inject", lambda *_: True)

    def stuck():
        bench.worker.interrupt(1)
        bench.worker.abandon()

    bench.worker.registers.names["stuck"] = stuck
    (event,) = bench.serve(Run(1, 5, compile_cell("stuck()")))
    assert event.elapsed_s > 0


def test_an_abandoned_thread_that_an_exception_ends_late_touches_nothing(bench):
    lane = bench.worker.lane

    def get(block):
        command = Call(1, 5, boom, ())
        bench.worker.interpreter.feed(command)
        lane.interrupted = command
        assert bench.worker.abandon() is not None
        raise WorkerInterrupt("late")

    contextvars.copy_context().run(bench.worker.run, lane, get)
    assert len(bench.events) == 1


# --- where it is -----------------------------------------------------------------------------------


class Wait:
    """What the worker waits in; the members of `absent` have not come."""

    scope = 1

    def __init__(self, *absent):
        self.absent = absent

    def call_of(self, worker):
        return f"the collective of worker {worker}", "Cell In[3], line 4"

    def missing(self):
        return list(self.absent)


def test_a_worker_says_what_it_executes_and_in_what_it_waits(bench):
    def look():
        free = bench.worker.position()
        bench.plane.waiting[1] = Wait(0)
        waiting = bench.worker.position()
        bench.plane.waiting[1] = Wait()
        moving = bench.worker.position()
        del bench.plane.waiting[1]
        return free, waiting, moving

    free, waiting, moving = bench.call(look)
    assert (free.worker, free.state) == (1, "executing")
    assert [each.seq for each in (free, waiting, moving)] == [1, 1, 1]
    assert free.command.startswith("call ")
    assert "test_worker.py" in free.site
    assert f"{waiting}" == (
        "waiting in the collective of worker 1 for worker 0 at Cell In[3], line 4 for 1.50 s"
    )
    assert f"{moving}" == "moving data in the collective of worker 1 at Cell In[3], line 4 for 1.50 s"
    assert bench.worker.position() == Position(1, "idle")


def test_a_worker_that_is_being_stopped_says_so(bench):
    def look():
        bench.worker.lane.interrupted = Call(1, 5, look, ())
        try:
            return bench.worker.position(), bench.worker.missing_because()
        finally:
            bench.worker.lane.interrupted = None

    position, because = bench.call(look)
    assert (position.state, position.seq) == ("stopping", 1)
    assert because.startswith("being stopped in call ")
    assert bench.worker.missing_because() == "not yet at this command"


# --- tracebacks ------------------------------------------------------------------------------------


def test_an_error_of_the_runtime_without_a_line_of_the_user_has_no_traceback():
    with pytest.raises(ctypes.ArgumentError) as caught:
        injection.inject("no thread id")
    trace = caught.value.__traceback__.tb_next
    assert own_frames(caught.value.with_traceback(trace)) is trace
    assert own_frames(WorkerInterrupt("x").with_traceback(trace)) is None


def test_injecting_into_a_thread_that_has_ended_does_nothing():
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
    injection.inject(thread.ident)
    assert not thread.is_alive()
