"""The handle of `session.run_nowait` in asyncio code."""

from __future__ import annotations

import asyncio
import signal
import threading

import pytest

from disco_magic.errors import CellError, SyncTimeout, WorkerError
from tests.conftest import DEADLINE_S


def test_it_can_be_awaited_and_gathered(session):
    s = session(2)

    async def main():
        one = await s.run_nowait("worker_id + 1")
        both = await asyncio.gather(s.run_nowait("1"), s.run_nowait("2"))
        return one.values, [result[0] for result in both]

    assert asyncio.run(main()) == ([1, 2], [1, 2])


def test_awaiting_it_raises_what_the_cell_raised_and_keeps_nothing(session):
    s = session(1)

    async def main():
        await s.run_nowait("class Big: pass\nbig = Big()\nimport weakref\ngone = weakref.ref(big)\n1 / 0")

    with pytest.raises(CellError, match="ZeroDivisionError"):
        asyncio.run(main())
    assert s.run("del big\ngone() is None")[0] is True


def test_an_await_that_is_cancelled_stops_the_cell(session):
    s = session(2)
    pending = s.run_nowait("while True:\n    i = 1\n    i += 1")

    async def main():
        await asyncio.wait_for(pending, 0.01)

    with pytest.raises(TimeoutError):
        asyncio.run(main())
    assert pending.done()
    assert s.run("int(allreduce(1))").values == [2, 2]


def test_one_that_is_awaited_for_longer_than_the_session_waits_goes_on(gated, gate):
    s = gated(1)
    pending = s.run_nowait("gate()\n5")
    s.timeout = 0.01

    async def main():
        with pytest.raises(SyncTimeout, match=r"longer than 0\.01 s and goes on"):
            await pending
        assert not pending.done()
        gate.open()
        s.timeout = 60
        return await pending

    assert asyncio.run(main())[0] == 5


def test_an_await_that_is_cancelled_as_its_time_ends_stops_the_cell(session, monkeypatch):
    s = session(1, timeout=0.05)
    pending = s.run_nowait("while True:\n    i = 1\n    i += 1")
    wait_for_it, begun, ends = pending.wait, threading.Event(), threading.Event()

    def in_time(**options):
        begun.set()
        ends.wait(DEADLINE_S)
        return wait_for_it(**options)

    monkeypatch.setattr(pending, "wait", in_time)

    async def main():
        async def wait():
            await pending

        waiter = asyncio.ensure_future(wait())
        while not begun.is_set():
            await asyncio.sleep(0)
        (waits,) = [each for each in threading.enumerate() if each.name == "disco-await"]
        ends.set()
        waits.join(DEADLINE_S)  # the loop stands still while time runs out
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter

    asyncio.run(main())
    assert pending.done()
    assert s.run("1", timeout=60).values == [1]


def test_its_result_comes_within_the_timeout_or_the_cell_goes_on(gated, gate):
    s = gated(1)
    pending = s.run_nowait("gate()\n5")
    with pytest.raises(TimeoutError, match="goes on"):
        pending.result(0.01)
    assert not pending.done()
    gate.open()
    assert pending.result(60)[0] == 5


def test_awaited_on_a_worker_it_would_wait_for_itself(session):
    s = session(1)
    pending = s.run_nowait("1")

    async def main():
        await pending

    with pytest.raises(WorkerError, match="which would wait for itself"):
        s.call_packed(lambda: asyncio.run(main())).get(0)


def test_a_cancelled_await_stops_its_cell_alone_and_is_no_ctrl_c(gated, gate):
    s = gated(2)
    earlier = s.call_packed(gate, 0)
    pending = s.run_nowait("1")

    async def main():
        other = asyncio.ensure_future(pending)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(pending, 0.01)
        with pytest.raises(CellError, match="was cancelled"):
            await other

    asyncio.run(main())
    with pytest.raises(CellError, match="was cancelled"):
        pending.wait()
    gate.open()
    assert earlier.get_all() == [None, None]


def test_ctrl_c_in_an_await_stops_what_was_sent_before_too(gated, gate):
    s = gated(2)
    earlier = s.run_nowait("while True: pass")
    pending = s.run_nowait("1")

    async def main():
        asyncio.get_running_loop().call_later(0.01, signal.raise_signal, signal.SIGINT)
        await pending

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    with pytest.raises(KeyboardInterrupt):
        pending.wait()
    earlier.cancel()
