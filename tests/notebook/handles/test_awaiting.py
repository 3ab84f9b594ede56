"""Handles that are awaited, in cells and in asyncio code."""

from __future__ import annotations

import asyncio
import gc
import weakref
from contextlib import nullcontext

import pytest

from disco_magic.errors import CellError, SyncTimeout, UsageMistake
from disco_magic.session import awaiting
from disco_magic.session.current import session
from tests.conftest import until
from tests.notebook.handles.cells import SPIN, begun, outcome


def test_a_handle_can_be_awaited_in_a_cell(crew):
    crew.run("%%disco --nowait -o h\nworker_id * 2")
    crew.run("x = await h\ny = await h")
    assert crew.ip.user_ns["x"].values == [2 * worker for worker in range(crew.n)]
    assert crew.ip.user_ns["y"] is crew.ip.user_ns["x"]


def test_awaiting_raises_what_the_cell_raised(four):
    four.run("%%disco --nowait -o h\n1 / 0")
    assert isinstance(four.fail("await h"), CellError)
    assert "Cell In[3]" not in four.err
    assert "ZeroDivisionError: division by zero" in four.out
    four.run("1")
    assert "failed after its cell" not in four.err


def test_one_that_takes_longer_than_the_session_waits_goes_on(gated, gate):
    begun(gated, "gate()\n5")
    gated.run("import disco_magic\ndisco_magic.session().timeout = 0.01")
    assert isinstance(gated.fail("await h"), SyncTimeout)
    assert "SyncTimeout: Cell In[4] takes longer than 0.01 s and goes on - .cancel() stops it" in gated.out
    assert "disco_magic/session" not in gated.out  # no frames of ours
    gate.open()
    gated.run("disco_magic.session().timeout = None\nx = await h")
    assert repr(gated.ip.user_ns["x"]) == "[0-3] 5"


def test_several_can_be_awaited_together(four):
    four.run("import asyncio")
    for number in range(3):
        four.run(f"%%disco --nowait -o h{number}\n{number}")
    four.run("both = await asyncio.gather(h2, h0, h1)")
    assert [result[0] for result in four.ip.user_ns["both"]] == [2, 0, 1]


def test_other_tasks_go_on_meanwhile(gated, gate):
    begun(gated, "gate()\n5")
    gated.run("import asyncio\nasync def opens():\n    gate.open()")
    gated.run("result, _ = await asyncio.gather(h, opens())")
    assert repr(gated.ip.user_ns["result"]) == "[0-3] 5"


def test_a_wait_that_is_cancelled_stops_the_cell(four):
    handle = four.run(f"%%disco --nowait\n{SPIN}")

    async def main():
        await asyncio.wait_for(handle, 0.01)

    with pytest.raises(TimeoutError):
        asyncio.run(main())
    with pytest.raises(CellError, match=r"was cancelled on workers \[0-3\]"):
        handle.wait()
    four.run("%%disco\nworker_id // 4")
    assert four.lines[-1] == "[0-3] 0"


def test_a_shield_keeps_the_cell_from_being_stopped(gated, gate):
    handle = begun(gated, "gate()\n5")

    async def main():
        waiting = asyncio.ensure_future(handle)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(waiting), 0.01)
        assert not handle.done()
        gate.open()
        return await waiting

    assert repr(asyncio.run(main())) == "[0-3] 5"


def test_a_cancellation_that_comes_when_the_cell_has_ended_is_one(gated, gate):
    handle = begun(gated, "gate()")

    async def main():
        waiting = asyncio.ensure_future(handle)
        await asyncio.sleep(0)
        gate.open()
        while not handle.done():
            pass
        waiting.cancel()
        await waiting

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())


def test_a_loop_that_ends_stops_what_its_tasks_await(gated, gate):
    handle = begun(gated, "gate()\n" + SPIN)

    async def main():
        waiting.append(asyncio.ensure_future(handle))
        for _ in range(3):
            await asyncio.sleep(0)

    waiting = []
    asyncio.run(main())  # cancels the tasks that are left
    assert waiting[0].cancelled()
    gate.open()
    with pytest.raises(CellError, match="was cancelled"):
        handle.wait()


def test_a_loop_that_ticks_wakes_up_again_and_again_until_it_does_not(monkeypatch):
    monkeypatch.setattr(awaiting, "LOOK_UP_S", 0.001)
    ticks, enough = [], []

    def tick():
        ticks.append(None)
        if len(ticks) == 5:
            enough[0].set_result(None)

    async def main():
        enough.append(asyncio.get_running_loop().create_future())
        with awaiting.ticking(tick), awaiting.ticking():
            await enough[0]
        seen = len(ticks)
        await asyncio.sleep(0.05)
        return seen

    assert asyncio.run(main()) == len(ticks) == 5


def test_a_handle_cannot_be_awaited_on_its_own_workers(four):
    four.run("%%disco --nowait -o h\n5").wait()

    def awaited():
        with pytest.raises(UsageMistake, match="await was called on worker"):
            asyncio.run(outcome(four.ip.user_ns["h"]))
        return True

    assert session().call_packed(awaited, workers=[0]).get(0)


def seen_error(shell):
    """A weak reference to the error of a cell that was awaited; nobody has its handle any more."""
    handed = [shell.ip.run_cell_magic("disco", "--nowait", "1 / 0")]

    async def main():
        try:
            await handed.pop()
        except CellError as error:
            return weakref.ref(error)

    return asyncio.run(main())


@pytest.mark.parametrize("has_rows", [False, True])
def test_an_awaited_error_and_what_it_keeps_die_with_their_last_reference(four, terminal, onto, has_rows):
    # What shows rows while the cell is awaited refers to the cell, and so to its error.
    gc.disable()
    try:
        with onto(terminal, terminal) if has_rows else nullcontext():
            seen = seen_error(four)
            four.run("1")  # the end of a notebook's cell is when asynchronous ones are looked after
        until(lambda: seen() is None)  # a worker may be on its way out of its own cell
    finally:
        gc.enable()
