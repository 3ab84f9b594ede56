"""Interrupts and plane calls of one worker, one step at a time in the test's own thread."""

from __future__ import annotations

import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from disco_magic.core.messages import Call, CellDone, Run, Stop, Sync
from disco_magic.errors import UsageMistake, WorkerInterrupt
from disco_magic.functions.execution.cells import compile_cell
from disco_magic.workers import injection, lane, striking
from tests.conftest import DEADLINE_S
from tests.worker.conftest import noted


def boom():
    raise ValueError("boom")


# --- interrupts, step by step ----------------------------------------------------------------------


def test_a_command_that_was_interrupted_before_it_began_is_not_executed(bench):
    ran = []
    assert bench.worker.interrupt(2) is False
    events = bench.serve(
        Call(1, 5, ran.append, (1,)), Run(2, 6, compile_cell("x = 1")), Call(3, 7, ran.append, (3,))
    )
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
    monkeypatch.setattr(injection, "inject", lambda *_: True)
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

    def get(block):
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


def test_further_strikes_before_a_command_is_ended_end_nothing_else(bench, monkeypatch):
    # On a machine so busy that the thread runs a few instructions between two injections of one stop.
    worker, strikes = bench.worker, [WorkerInterrupt("second"), WorkerInterrupt("third")]
    settle = worker._settle

    def struck(*args):
        if strikes:
            raise strikes.pop()
        return settle(*args)

    def get(block):
        if worker.lane.interrupted is None and not bench.events:
            command = Call(1, 5, boom, ())
            worker.interpreter.feed(command)
            worker.lane.interrupted = command
            raise WorkerInterrupt("first")
        return Stop(2)

    monkeypatch.setattr(worker, "_settle", struck)
    contextvars.copy_context().run(worker.run, worker.lane, get)
    (event,) = bench.events
    assert isinstance(event.failure.exception, WorkerInterrupt)
    assert strikes == []


def test_an_await_that_ended_in_this_moment_is_injected_instead(bench, monkeypatch):
    injected = []
    monkeypatch.setattr(injection, "inject", noted(injected))

    def closed():
        raise RuntimeError("Event loop is closed")

    bench.worker.lane.running.append(Sync(1))
    bench.worker.cells.cancel = closed
    assert bench.worker.interrupt(1)
    assert injected == [bench.worker.lane.thread_id]


def test_a_second_interrupt_injects_although_an_await_could_be_cancelled(bench, monkeypatch):
    injected, cancelled = [], []
    monkeypatch.setattr(injection, "inject", noted(injected))
    bench.worker.lane.running.append(Sync(1))
    bench.worker.cells.cancel = lambda: cancelled.append(1)
    bench.worker.interrupt(1)
    assert (len(cancelled), len(injected)) == (1, 0)
    bench.worker.interrupt(1)
    assert (len(cancelled), len(injected)) == (2, 1)


# --- plane calls -----------------------------------------------------------------------------------


def test_nothing_is_injected_inside_of_a_plane_call(bench, monkeypatch):
    injected = []
    monkeypatch.setattr(injection, "inject", noted(injected))

    def program():
        assert bench.worker.guard.enter() == (1, None)
        assert bench.worker.interrupt(1)
        assert injected == []
        with pytest.raises(WorkerInterrupt, match="interrupted in a collective"):
            bench.worker.guard.leave()
        with pytest.raises(WorkerInterrupt, match="interrupted before a collective"):
            bench.worker.guard.enter()
        return "done"

    assert bench.call(program) == "done"


def in_a_plane_call(worker):
    worker.guard.enter()
    worker.claim(1)
    with pytest.raises(WorkerInterrupt, match="interrupted in a collective"):
        worker.guard.leave()


def test_what_a_plane_call_has_raised_is_not_injected_too_until_the_next_interrupt(bench, monkeypatch):
    injected = []
    monkeypatch.setattr(injection, "inject", noted(injected))
    monkeypatch.setattr(lane, "AGAIN_S", 0.0)

    def program():
        in_a_plane_call(bench.worker)
        assert bench.worker.strike()
        assert injected == []
        with pytest.raises(WorkerInterrupt):  # of the clean-up
            bench.worker.guard.enter()
        assert bench.worker.interrupt(1)
        return injected

    assert bench.call(program) == [threading.get_ident()]


def test_an_interrupt_that_a_plane_call_has_raised_is_not_repeated_at_once(bench, monkeypatch):
    injected = []
    monkeypatch.setattr(injection, "inject", noted(injected))
    monkeypatch.setattr(lane, "AGAIN_S", DEADLINE_S)

    def program():
        in_a_plane_call(bench.worker)
        bench.worker.strike()
        bench.worker.interrupt(1)  # of a second thread that stops it, too
        return injected

    assert bench.call(program) == []


def test_an_await_that_ended_as_a_plane_call_raised_is_left_alone(bench, monkeypatch):
    injected = []
    monkeypatch.setattr(injection, "inject", noted(injected))

    def closed():
        raise RuntimeError("Event loop is closed")

    def program():
        in_a_plane_call(bench.worker)
        with monkeypatch.context() as patch:
            patch.setattr(bench.worker.cells, "cancel", closed)
            bench.worker.strike()
        return injected

    assert bench.call(program) == []


def test_who_pursues_a_thread_leaves_it_alone_once_a_plane_call_has_raised(bench, monkeypatch):
    attempts, module = [], striking
    monkeypatch.setattr(module, "strike", lambda _: False)
    monkeypatch.setattr(module.PURSUITS, "begin", lambda _, attempt: attempts.append(attempt))
    monkeypatch.setattr(lane, "AGAIN_S", 0.0)

    def program():
        worker = bench.worker
        worker.interrupt(1)
        assert not attempts[0](True)
        with pytest.raises(WorkerInterrupt):
            worker.guard.enter()
        worker.interrupt(1)  # the next one has a pursuit of its own
        monkeypatch.setattr(module, "strike", lambda _: struck.append(1) or True)
        struck = []
        assert attempts[0](True)
        assert struck == []
        assert not attempts[1](False)
        assert struck == []
        assert attempts[1](True)
        return struck

    assert bench.call(program) == [1]


def test_a_plane_call_that_raised_does_not_spare_the_next_command(bench, monkeypatch):
    injected = []
    monkeypatch.setattr(injection, "inject", noted(injected))
    bench.serve(
        Call(1, 5, lambda: in_a_plane_call(bench.worker), ()),
        Call(2, 6, lambda: bench.worker.interrupt(2), ()),
    )
    assert len(injected) == 1


def test_an_undisturbed_plane_call_is_left_quietly(bench):
    def program():
        bench.worker.guard.enter()
        bench.worker.guard.leave()
        return bench.worker.lane.shielded

    assert bench.call(program) == 0


def test_a_plane_call_inside_of_another_one_leaves_that_one_shielded(bench):
    # An argument's `__array__` may make one.
    def program():
        guard, lane = bench.worker.guard, bench.worker.lane
        seen = []
        for step in (guard.enter, guard.enter, guard.leave, guard.leave):
            step()
            seen.append(lane.shielded)
        return seen

    assert bench.call(program) == [1, 2, 1, 0]


def test_a_plane_call_outside_of_a_command_is_refused(bench):
    bench.worker.lane.thread_id = threading.get_ident()
    with pytest.raises(WorkerInterrupt, match="before a collective"):
        bench.worker.guard.enter()


def test_a_plane_call_of_another_thread_is_refused(bench):
    with pytest.raises(UsageMistake, match="worker 1 was called in the main thread, the controller's"):
        bench.worker.guard.enter()
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(bench.worker.guard.enter)
        with pytest.raises(UsageMistake, match="a collective of worker 1 was called in another thread"):
            asked.result()
