"""The driver of one worker, fed by hand in the test's own thread: races forced one step at a time."""

from __future__ import annotations

import contextvars
import threading

import pytest

from disco_magic import injection
from disco_magic.core.messages import Call, CellDone, Failed, Reached, Run, Stop, Sync
from disco_magic.errors import UsageMistake, WorkerInterrupt
from disco_magic.functions.cells import compile_cell
from disco_magic.functions.context import Topology
from disco_magic.worker import Worker, own_frames


class Plane:
    """Keeps who left which command, and how often a departure was told."""

    def __init__(self):
        self.left = [-1, -1]
        self.waiting = {}
        self.told = []
        self.messages = []

    def leave(self, worker, scope, failure=None):
        self.left[worker] = scope
        self.told.append((scope, None if failure is None else failure.summary))

    def unread(self, worker, scope):
        return self.messages


class Bench:
    """A worker whose commands come from a list; `serve` returns when they are used up."""

    def __init__(self):
        self.events = []
        self.plane = Plane()
        self.worker = Worker(1, Topology(2), self.plane, self.events.append, session_id=9998)

    def serve(self, *commands):
        source = iter([*commands, Stop(10_000)])
        contextvars.copy_context().run(self.worker.run, self.worker.lane, lambda: next(source))
        return self.events

    @property
    def values(self):
        return self.worker.registers.values


@pytest.fixture
def bench():
    made = Bench()
    dispose, made.worker.dispose = made.worker.dispose, lambda: None  # the test looks at the registers afterwards
    yield made
    dispose()


def boom():
    raise ValueError("boom")


# --- ordinary commands -----------------------------------------------------------------------------


def test_a_call_leaves_its_value_and_says_that_its_command_is_over(bench):
    assert bench.serve(Call(1, 5, int, ("7",))) == []
    assert bench.values == {5: 7}


def test_nobody_is_told_of_a_departure_unless_somebody_waits(bench):
    bench.serve(Call(1, 5, int, ()))
    assert bench.plane.told == [(10_000, None)]
    bench.plane.waiting[0] = "somebody"
    bench.serve(Call(2, 6, int, ()))
    assert (2, None) in bench.plane.told


def test_a_failure_is_told_to_the_plane_before_the_controller(bench):
    told_when_delivered = []
    bench.worker._deliver = lambda event: told_when_delivered.append(list(bench.plane.told))
    bench.serve(Call(1, 5, boom, ()))
    assert told_when_delivered == [[(1, "ValueError: boom")]]


def test_a_skipped_command_tells_the_plane_the_origin(bench):
    events = bench.serve(Call(1, 5, boom, ()), Call(2, 6, int, (5,), (0,)))
    assert [type(event) for event in events] == [Failed]
    assert (2, "ValueError: boom") in bench.plane.told


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), MemoryError()], ids=repr)
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
    (event,) = bench.serve(Run(1, 5, compile_cell("5")))
    assert "worker 1 finished without receiving float32 (3,) from worker 0" in str(event.failure.exception)


def test_a_key_of_the_namespace_that_is_no_text_does_not_end_the_worker(bench):
    events = bench.serve(Run(1, 5, compile_cell("globals()[5] = 1\nx = 2")), Sync(2))
    assert events[0].names == ("x",)
    assert events[1] == Reached(1, 2)


# --- interrupts, step by step ----------------------------------------------------------------------


def test_a_command_that_was_interrupted_before_it_began_is_not_executed(bench):
    ran = []
    assert bench.worker.interrupt(2) is False
    events = bench.serve(Call(1, 5, ran.append, (1,)), Run(2, 6, compile_cell("x = 1")), Call(3, 7, ran.append, (3,)))
    assert ran == [3]
    assert [str(event.failure.exception) for event in events] == ["interrupted before it began"] * 2


def test_an_older_interrupt_does_not_shorten_a_newer_one(bench):
    bench.worker.interrupt(5)
    bench.worker.interrupt(2)
    assert bench.worker.skip_through == 5


def test_an_interrupt_does_not_mean_a_later_command(bench):
    outcome = []
    bench.serve(Call(7, 5, lambda: outcome.append(bench.worker.interrupt(6)), ()))
    assert outcome == [False]
    assert bench.values == {5: None}


def test_an_injected_exception_ends_the_function_it_is_meant_for(bench):
    def interrupt_myself():
        assert bench.worker.interrupt(1)
        while True:
            pass

    (event,) = bench.serve(Call(1, 5, interrupt_myself, ()))
    assert isinstance(event.failure.exception, WorkerInterrupt)
    assert bench.worker.lane.running == []
    assert bench.worker.lane.interrupted is None


def test_an_interrupt_between_the_functions_end_and_the_bookkeeping_counts(bench, monkeypatch):
    # Step 3 without an injection: interrupt takes the command out, the function has returned already.
    monkeypatch.setattr(injection, "inject", lambda thread_id: None)
    (event,) = bench.serve(Call(1, 5, bench.worker.interrupt, (1,)))
    assert event.failure.summary == "WorkerInterrupt: the command was interrupted"
    assert bench.values == {}


@pytest.mark.parametrize(
    ("command", "event"),
    [(lambda f: Call(7, 5, f, ()), None), (lambda f: Run(7, 5, compile_cell("f()")), CellDone)],
    ids=["call", "cell"],
)
def test_a_command_taken_out_by_mistake_is_finished_all_the_same(bench, command, event):
    # `interrupt` looked at an older command, popped this one, and saw that it was not meant.
    def popped():
        bench.worker.lane.running.pop()
        return "fine"

    bench.worker.registers.names["f"] = popped
    events = bench.serve(command(popped))
    assert bench.values == {5: "fine"}
    assert [type(e) for e in events] == ([] if event is None else [event])
    assert all(e.failure is None for e in events)


def test_an_interrupt_that_finds_another_command_leaves_it_alone(bench):
    class Moving(list):
        """The worker moves on to command 9 between the two looks."""

        def pop(self, *args):
            super().pop()
            return Sync(9)

    bench.worker.lane.running = Moving([Sync(1)])
    assert bench.worker.interrupt(3) is False
    assert bench.worker.lane.interrupted is None


def test_an_interrupt_that_finds_nothing_any_more_does_nothing(bench):
    class Vanishing(list):
        """The worker ends its command between the two looks."""

        def pop(self, *args):
            raise IndexError

    bench.worker.lane.running = Vanishing([Sync(1)])
    assert bench.worker.interrupt(3) is False
    assert bench.worker.lane.interrupted is None


def test_an_exception_that_strikes_outside_of_the_loop_settles_its_command(bench):
    # Step 4: injected after the function ended, before serve noticed.
    lane = bench.worker.lane
    calls = []

    def get():
        calls.append(len(calls))
        if len(calls) == 1:
            command = Call(1, 5, boom, ())
            bench.worker.interpreter.feed(command)
            lane.interrupted = command
            raise WorkerInterrupt("late")
        if len(calls) == 2:
            raise WorkerInterrupt("meant for nothing any more")
        return Stop(2)

    contextvars.copy_context().run(bench.worker.run, lane, get)
    (event,) = bench.events
    assert isinstance(event.failure.exception, WorkerInterrupt)
    assert len(calls) == 3


def test_an_await_that_ended_in_this_moment_is_injected_instead(bench, monkeypatch):
    injected = []
    monkeypatch.setattr(injection, "inject", injected.append)

    def closed():
        raise RuntimeError("Event loop is closed")

    bench.worker.lane.running.append(Sync(1))
    bench.worker.cells.cancel = closed
    assert bench.worker.interrupt(1)
    assert injected == [bench.worker.lane.thread_id]


def test_a_second_interrupt_injects_although_an_await_could_be_cancelled(bench, monkeypatch):
    injected, cancelled = [], []
    monkeypatch.setattr(injection, "inject", injected.append)
    bench.worker.lane.running.append(Sync(1))
    bench.worker.cells.cancel = lambda: cancelled.append(1)
    bench.worker.interrupt(1)
    assert (len(cancelled), len(injected)) == (1, 0)
    bench.worker.interrupt(1)
    assert (len(cancelled), len(injected)) == (1, 1)


# --- plane calls -----------------------------------------------------------------------------------


def in_command(bench, function):
    """Call `function` inside of a command; what it returned."""
    outcome = []
    bench.serve(Call(1, 5, lambda: outcome.append(function()), ()))
    return outcome[0]


def test_nothing_is_injected_inside_of_a_plane_call(bench, monkeypatch):
    injected = []
    monkeypatch.setattr(injection, "inject", injected.append)

    def program():
        assert bench.worker.enter() == (1, None)
        assert bench.worker.interrupt(1)
        assert injected == []
        with pytest.raises(WorkerInterrupt, match="interrupted in a collective"):
            bench.worker.leave()
        with pytest.raises(WorkerInterrupt, match="interrupted before a collective"):
            bench.worker.enter()
        return "done"

    assert in_command(bench, program) == "done"


def test_an_undisturbed_plane_call_is_left_quietly(bench):
    def program():
        bench.worker.enter()
        bench.worker.leave()
        return bench.worker.lane.shielded

    assert in_command(bench, program) is False


def test_a_plane_call_outside_of_a_command_is_refused(bench):
    bench.worker.lane.thread_id = threading.get_ident()
    with pytest.raises(WorkerInterrupt, match="before a collective"):
        bench.worker.enter()


def test_a_plane_call_of_another_thread_is_refused(bench):
    with pytest.raises(UsageMistake, match="a collective of worker 1 was called in another thread"):
        bench.worker.enter()


# --- giving a thread up ----------------------------------------------------------------------------


def test_only_an_interrupted_worker_can_be_abandoned(bench):
    assert bench.worker.abandon() is None


def test_an_abandoned_thread_ends_when_its_call_returns(bench, monkeypatch):
    monkeypatch.setattr(injection, "inject", lambda thread_id: None)

    def stuck():
        bench.worker.interrupt(1)
        assert bench.worker.abandon() is bench.worker.lane
        return "late"

    events = bench.serve(Call(1, 5, stuck, ()), Call(2, 6, int, ()))
    assert "its thread was stuck" in str(events[0].failure.exception)
    assert bench.values == {}
    assert 5 in bench.worker.registers.poisons


def test_an_abandoned_cell_says_how_long_it_ran(bench, monkeypatch):
    monkeypatch.setattr(injection, "inject", lambda thread_id: None)

    def stuck():
        bench.worker.interrupt(1)
        bench.worker.abandon()

    bench.worker.registers.names["stuck"] = stuck
    (event,) = bench.serve(Run(1, 5, compile_cell("stuck()")))
    assert event.elapsed_s > 0


def test_an_abandoned_thread_that_an_exception_ends_late_touches_nothing(bench):
    lane = bench.worker.lane

    def get():
        command = Call(1, 5, boom, ())
        bench.worker.interpreter.feed(command)
        lane.interrupted = command
        assert bench.worker.abandon() is not None
        raise WorkerInterrupt("late")

    contextvars.copy_context().run(bench.worker.run, lane, get)
    assert len(bench.events) == 1


# --- where it is -----------------------------------------------------------------------------------


class Wait:
    def seen_by(self, worker):
        return f"the collective that worker {worker} called"


def test_a_worker_says_what_it_executes_and_in_what_it_waits(bench):
    def look():
        free = bench.worker.position()
        bench.plane.waiting[1] = Wait()
        return free, bench.worker.position()

    free, waiting = in_command(bench, look)
    assert free.startswith("executing call ")
    assert waiting == f"{free}, waiting in the collective that worker 1 called"
    del bench.plane.waiting[1]
    assert bench.worker.position() == "idle"


# --- tracebacks ------------------------------------------------------------------------------------


def test_an_error_of_the_runtime_without_a_line_of_the_user_has_no_traceback():
    try:
        injection.inject("no thread id")
    except Exception as error:  # noqa: BLE001 - ctypes' own error class
        trace = error.__traceback__.tb_next
        assert own_frames(error.with_traceback(trace)) is trace
    raised = WorkerInterrupt("x").with_traceback(trace)
    assert own_frames(raised) is None


def test_injecting_into_a_thread_that_has_ended_does_nothing():
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
    injection.inject(thread.ident)
    assert not thread.is_alive()
