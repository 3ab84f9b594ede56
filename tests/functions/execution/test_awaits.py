"""Cells that await: what of them can be struck, and how requests to stop end their awaits."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from types import SimpleNamespace

import pytest

from disco_magic.core.messages import Run
from disco_magic.core.topology import Topology
from disco_magic.errors import WorkerInterrupt
from disco_magic.functions.execution import awaits
from disco_magic.functions.execution.cells import compile_cell
from disco_magic.functions.execution.running import CellRunner
from disco_magic.workers import injection
from disco_magic.workers.worker import Worker
from tests.worker.conftest import Plane, noted


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
