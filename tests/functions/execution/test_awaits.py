"""Cells that await, struck at every moment: asyncio's loop is made, run and closed undisturbed."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
import os
import sys
import threading
import warnings
from types import SimpleNamespace

import pytest

from disco_magic.core.messages import Run, Stop
from disco_magic.core.topology import Topology
from disco_magic.errors import WorkerInterrupt
from disco_magic.functions.execution import awaits
from disco_magic.functions.execution.cells import compile_cell
from disco_magic.functions.execution.running import CellRunner
from disco_magic.workers import injection
from disco_magic.workers.worker import Worker
from tests.sampled import one_in
from tests.session.test_refusing_lock import LOOKS, instructions
from tests.worker.conftest import Plane, noted

OURS = awaits.__file__
ASYNCIO = os.path.dirname(asyncio.__file__) + os.sep
CELLS_FILES = "<disco cell "


class Striker:
    """Interrupts a worker, in its own thread, at a moment of its cell that is counted out.

    A moment is any instruction of `awaits.py` and any line of asyncio at which the worker's mutex is free, as
    an interrupt needs it. What it injects strikes where CPython looks for it next: after a call or a jump
    backwards, in asyncio at the next line. The lines of the cell, with all that they call, are left out: a
    coroutine that they have made and not awaited yet is the user's.
    """

    def __init__(self, worker, number, *, again):
        self.worker = worker
        self.again = again  # a moment of a cell that is being stopped already
        self.left = number
        self.moments = []
        self.pending = False
        self.steps = {}
        self.lines = set()

    def inject(self, _):
        self.pending = True

    def __call__(self, frame, event, _):
        place = frame.f_code.co_filename
        if event == "call":
            frame.f_trace_opcodes = place == OURS
        elif event == "opcode":
            self.moment(frame, looks=self.looks(frame))
        elif event == "line" and place.startswith(ASYNCIO):
            self.moment(frame, looks=True)
        return self

    def moment(self, frame, *, looks):
        if self.left > 0 and not self.worker.mutex._is_owned() and self.counts(frame):
            self.left -= 1
            self.moments.append((frame.f_code, frame.f_lasti))
            if self.left == 0:
                self.worker.interrupt(1)
        if looks and self.pending:
            self.pending = False
            raise WorkerInterrupt

    def looks(self, frame):
        """Whether CPython has just looked for what is pending, and it would be raised here."""
        name, handler = instructions(frame.f_code)[frame.f_lasti]
        came_from = self.steps.get(frame)
        self.steps[frame] = name, handler
        return came_from is not None and came_from[0] in LOOKS and came_from[1] == handler

    def counts(self, frame):
        if self.again and self.worker.lane.interrupted is None:
            return False
        line = frame.f_code, frame.f_lineno
        if frame.f_code.co_filename != OURS and line in self.lines:
            return False
        self.lines.add(line)
        while frame is not None and not frame.f_code.co_filename.startswith(CELLS_FILES):
            frame = frame.f_back
        return frame is None


class Traced(CellRunner):
    """A worker's cells; what awaits is executed under a striker."""

    striker = None

    def _await(self, codes):
        measuring = sys.gettrace()
        sys.settrace(self.striker)
        try:
            return super()._await(codes)
        finally:
            sys.settrace(measuring)


class Stage:
    """A worker whose cells are struck, and all that CPython and asyncio have to say about it."""

    def __init__(self, monkeypatch):
        self.said = []
        self.events = []
        self.striker = None
        monkeypatch.setattr(sys, "unraisablehook", lambda args: self.said.append(str(args)))
        monkeypatch.setattr(logging.getLogger("asyncio"), "handle", self.said.append)
        monkeypatch.setattr(warnings, "showwarning", lambda *args, **_: self.said.append(args[:2]))
        monkeypatch.setattr(injection, "inject", self.inject)

    def inject(self, thread, _):
        self.striker.inject(thread)
        return True

    def run(self, source, number):
        """Run a cell, struck at the `number`-th moment, and another one; what was executed at each moment."""
        self.events.clear()
        worker = Worker(0, Topology(1), Plane(), self.events.append, session_id=9997)
        namespace = worker.cells.namespace
        self.striker = Striker(worker, number, again="stop()" in source)
        worker.cells = Traced(worker.context, namespace, worker)
        worker.cells.striker = self.striker
        namespace.update(asyncio=asyncio, stop=lambda: worker.interrupt(1))
        commands = iter([Run(1, 1, compile_cell(source)), Run(2, 2, compile_cell("6 * 7"))])
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            contextvars.copy_context().run(worker.run, worker.lane, lambda _: next(commands, Stop(9)))
            moments, self.striker = self.striker.moments, None
            del worker.cells.striker
            gc.collect()
        assert not worker.lane.shielded
        assert worker.cells.cancel is None
        assert asyncio._get_running_loop() is None
        return moments


@pytest.fixture
def stage(monkeypatch):
    gc.collect()
    gc.freeze()  # what is here already need not be looked at again after every cell
    yield Stage(monkeypatch)
    gc.unfreeze()


CELLS = {
    "an await": "x = 1\nawait asyncio.sleep(0)",
    "tasks and generators that a stopped cell leaves behind": (
        "async def child():\n"
        "    try: await asyncio.sleep(3600)\n"
        "    finally: await asyncio.sleep(0)\n"
        "async def numbers():\n"
        "    yield 1\n"
        "task = asyncio.ensure_future(child())\n"
        "few = numbers()\n"
        "async for n in few: break\n"
        "stop()\n"
        "await asyncio.sleep(3600)\n"
    ),
}


def first_and_last(moments):
    """Numbers of the moments at which something is executed for the first or the last time, from 1."""
    first = {what: number for number, what in reversed(list(enumerate(moments, 1)))}
    return sorted({*first.values(), *{what: number for number, what in enumerate(moments, 1)}.values()})


# CPython looks for what is pending now and then: two moments in a row mostly end a cell at the same place.
@pytest.mark.unmeasured
@pytest.mark.parametrize(("cell", "step"), list(zip(CELLS, (2, 4), strict=True)), ids=list(CELLS))
def test_an_interrupt_at_any_moment_leaves_no_loop_task_or_coroutine_behind(stage, cell, step):
    numbers = one_in(step, first_and_last(stage.run(CELLS[cell], float("inf"))))
    not_struck = 0
    for number in numbers:
        reached = len(stage.run(CELLS[cell], number)) == number
        not_struck += not reached
        assert stage.said == [], f"struck at moment {number}"
        first, second = stage.events
        if reached:
            assert isinstance(first.failure.exception, WorkerInterrupt)
        assert second.shown == {"text/plain": "42"}
    assert len(numbers) > 100
    assert not_struck < len(numbers) / 10  # the first run does a little more: what is done once in a process


@pytest.fixture
def worker():
    """A worker whose cells run in this thread, and which is being interrupted already."""
    made = Worker(0, Topology(1), Plane(), lambda _: None, session_id=9996)
    made.cells = CellRunner(made.context, made.cells.namespace, made)
    made.lane.thread_id = threading.get_ident()
    made.lane.running.append(Run(1, 1, compile_cell("")))
    made.cells.namespace.update(asyncio=asyncio, stop=lambda: made.interrupt(1), lane=made.lane)
    yield made
    made.dispose()


def run(worker, source):
    return contextvars.copy_context().run(worker.cells, compile_cell(source), None).value


def test_steps_of_the_cell_and_of_its_tasks_can_be_struck_and_asyncio_cannot(worker):
    source = (
        "seen = [lane.shielded]\n"
        "async def look(): seen.append(lane.shielded)\n"
        "asyncio.get_running_loop().call_soon(lambda: seen.append(lane.shielded))\n"
        "await asyncio.create_task(look())\n"
        "seen.append(lane.shielded)\n"
        "seen"
    )
    assert run(worker, source) == [0, 1, 0, 0]
    assert not worker.lane.shielded


def test_a_plain_last_expression_of_a_cell_that_awaits_can_be_struck(worker):
    assert run(worker, "await asyncio.sleep(0)\nlane.shielded") == 0


def test_a_plane_call_of_a_callback_leaves_asyncio_shielded(worker):
    source = (
        "seen = []\n"
        "def call():\n"
        "    seen.extend([guard.enter() and lane.shielded, guard.leave(), lane.shielded])\n"
        "asyncio.get_running_loop().call_soon(call)\n"
        "await asyncio.sleep(0)\n"
        "seen + [lane.shielded]"
    )
    worker.cells.namespace["guard"] = worker.guard
    assert run(worker, source) == [2, None, 1, 0]


@pytest.mark.parametrize("strikes", ["in the call", "before it", "after it"])
def test_a_plane_call_that_raises_an_interrupt_leaves_the_awaits_of_the_clean_up_alone(worker, strikes):
    source = (
        "await asyncio.sleep(0)\n"
        "try:\n"
        "    if strikes == 'before it': stop()\n"
        "    guard.enter()\n"
        "    stop() if strikes == 'in the call' else claim()\n"
        "    guard.leave()\n"
        "finally:\n"
        "    if strikes == 'after it': strike()\n"
        "    await asyncio.sleep(0)\n"
        "    await asyncio.sleep(0)\n"
        "    saved = True\n"
    )
    names = worker.cells.namespace
    names.update(guard=worker.guard, claim=lambda: worker.claim(1), strike=worker.strike, strikes=strikes)
    with pytest.raises(WorkerInterrupt, match="a collective"):
        run(worker, source)
    assert names["saved"]


def test_the_next_interrupt_ends_the_awaits_of_a_clean_up(worker):
    source = (
        "try:\n"
        "    guard.enter()\n"
        "    stop()\n"
        "    guard.leave()\n"
        "finally:\n"
        "    await asyncio.sleep(0)\n"
        "    asyncio.get_running_loop().call_soon(stop)\n"
        "    await asyncio.sleep(3600)\n"
    )
    worker.cells.namespace["guard"] = worker.guard
    with pytest.raises(WorkerInterrupt, match="interrupted in an await"):
        run(worker, source)


def test_a_plane_call_of_a_task_that_raises_an_interrupt_lets_it_cancel_the_cell(worker):
    source = (
        "async def child():\n"
        "    guard.enter()\n"
        "    stop()\n"
        "    guard.leave()\n"
        "task = asyncio.create_task(child())\n"
        "await asyncio.sleep(3600)\n"
    )
    worker.cells.namespace["guard"] = worker.guard
    with pytest.raises(asyncio.CancelledError):
        run(worker, source)


def test_a_plane_call_whose_shield_was_given_up_leaves_no_debt(worker):
    source = (
        "async def step():\n"
        "    guard.enter()\n"
        "    lane.shielded = 0\n"
        "    guard.leave()\n"
        "    return lane.shielded\n"
        "await step()"
    )
    worker.cells.namespace["guard"] = worker.guard
    assert run(worker, source) == 0


def test_an_await_that_survives_being_cancelled_is_ended_by_the_next_request(worker, monkeypatch):
    monkeypatch.setattr(injection, "inject", None)  # asyncio waits: nothing may be injected
    source = (
        "said = []\n"
        "while True:\n"
        "    asyncio.get_running_loop().call_soon(stop)\n"
        "    try:\n"
        "        await asyncio.sleep(3600)\n"
        "    except asyncio.CancelledError:\n"
        "        said.append('cancelled')\n"
    )
    with pytest.raises(WorkerInterrupt, match="interrupted in an await"):
        run(worker, source)
    assert worker.cells.namespace["said"] == ["cancelled"]


def test_a_step_that_does_not_end_is_injected_into_by_the_next_request(worker, monkeypatch):
    injected = []
    monkeypatch.setattr(injection, "inject", noted(injected))
    with pytest.raises(asyncio.CancelledError):
        run(worker, "stop()\nstop()\nawait asyncio.sleep(3600)")
    assert injected == [threading.get_ident()]


@pytest.mark.parametrize(("pause", "times"), [(0.35, 1), (0.001, 0)])
def test_a_callback_that_does_not_end_is_injected_into_too(worker, monkeypatch, pause, times):
    # Nothing else could end it: its thread would go on beside the one that takes its worker over.
    injected, now = [], [100.0]
    monkeypatch.setattr(injection, "inject", noted(injected))
    monkeypatch.setattr(awaits, "time", SimpleNamespace(monotonic=lambda: now[0]))
    worker.cells.namespace["later"] = lambda: now.append(now.pop() + pause)
    source = (
        "def callback():\n"
        "    for _ in range(3):\n"
        "        stop()\n"
        "        later()\n"
        "asyncio.get_running_loop().call_soon(callback)\n"
        "await asyncio.sleep(3600)\n"
    )
    with pytest.raises((asyncio.CancelledError, WorkerInterrupt)):
        run(worker, source)
    assert injected == [threading.get_ident()] * times
    assert not worker.lane.shielded


def test_tasks_that_a_stopped_cell_has_left_are_ended_by_the_next_requests(worker, monkeypatch):
    # They were waited for without end while the loop was closed.
    monkeypatch.setattr(injection, "inject", None)
    source = (
        "async def stubborn():\n"
        "    for _ in range(2):\n"
        "        try:\n"
        "            await asyncio.sleep(3600)\n"
        "        except asyncio.CancelledError:\n"
        "            asyncio.get_running_loop().call_soon(stop)\n"
        "    await asyncio.sleep(3600)\n"
        "task = asyncio.create_task(stubborn())\n"
        "await asyncio.sleep(0)\n"
        "asyncio.get_running_loop().call_soon(stop)\n"
        "await asyncio.sleep(3600)\n"
    )
    with pytest.raises(asyncio.CancelledError):
        run(worker, source)
    assert worker.cells.namespace["task"].cancelled()


def test_a_task_that_is_struck_counts_as_cancelled_and_the_cell_goes_on(worker):
    worker.cells.namespace["WorkerInterrupt"] = WorkerInterrupt
    source = (
        "async def struck(): raise WorkerInterrupt\n"
        "task = asyncio.create_task(struck())\n"
        "await asyncio.wait([task])\n"
        "task.cancelled()"
    )
    assert run(worker, source) is True


def test_a_thread_that_was_given_up_goes_no_step_further(worker):
    source = "lane.abandoned = True\nawait asyncio.sleep(0)\nlane = None"
    with pytest.raises(WorkerInterrupt, match="interrupted in an await"):
        run(worker, source)
    assert worker.cells.namespace["lane"] is not None
    worker.lane.thread_id = 0
    with pytest.raises(WorkerInterrupt, match="given up before it began to await"):
        run(worker, source)


def test_a_task_still_tells_what_it_executes(worker):
    source = (
        "async def named(): await asyncio.sleep(0)\n"
        "task = asyncio.create_task(named(), name='mine')\n"
        "await asyncio.sleep(0)\n"
        "told = repr(task), len(task.get_stack()), asyncio.iscoroutine(task.get_coro())\n"
        "await task\n"
        "told"
    )
    text, frames, is_coroutine = run(worker, source)
    assert "mine" in text
    assert "named()" in text
    assert (frames, is_coroutine) == (1, True)


def test_an_await_that_nobody_can_inject_into_is_cancelled_all_the_same(monkeypatch):
    now = iter(range(100, 200))
    monkeypatch.setattr(awaits, "time", SimpleNamespace(monotonic=lambda: next(now)))
    source = "call_soon(lambda: (cancel(), cancel()))\nawait asyncio.sleep(3600)"
    namespace = {"asyncio": asyncio, "call_soon": lambda call: asyncio.get_running_loop().call_soon(call)}
    cell = awaits.Await(compile_cell(source).codes, namespace, None)
    namespace["cancel"] = cell.cancel
    with pytest.raises(WorkerInterrupt):
        cell.run()


def test_a_coroutine_that_is_not_gone_through_with_is_closed():
    async def wait():
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append(1)

    ended = []
    steps = awaits.Steps(wait(), awaits.Shield(None))
    steps.close()
    assert steps.cr_frame is None
    assert ended == []
