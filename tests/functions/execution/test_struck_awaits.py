"""Cells that await, struck at every moment: asyncio's loop is made, run and closed undisturbed."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
import os
import sys
import warnings

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
from tests.worker.conftest import Plane

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
        # Not on to pytest's own frames below: for a thousand moments of hundreds of cells that took long.
        while frame.f_code is not Traced._await.__code__:
            if frame.f_code.co_filename.startswith(CELLS_FILES):
                return False
            frame = frame.f_back
        return True


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


# CPython looks for what is pending now and then: moments in a row mostly end a cell at the same place.
@pytest.mark.unmeasured
@pytest.mark.parametrize(("cell", "step"), list(zip(CELLS, (4, 6), strict=True)), ids=list(CELLS))
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
