"""Ctrl-C and the stop button while a handle is awaited; handles in a kernel."""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
import weakref

import pytest
from IPython.core.async_helpers import get_asyncio_loop

from disco_magic.session.ear import EAR, Ear
from tests.notebook.handles.cells import GATE, SPIN, WAITING, begun, outcome

# Interrupts the process when so many threads wait: as a person who looks at a cell that awaits.
STRIKE = """
import signal, threading
if worker_id == 0:
    while [each.name for each in threading.enumerate()].count("disco-await") < {tasks}:
        pass
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
while True:
    i = 1
    i += 1
"""


def test_ctrl_c_in_an_awaiting_cell_of_a_terminal_stops_the_cell(four):
    before = signal.getsignal(signal.SIGINT)
    four.run(f"%%disco --nowait -o h\n{STRIKE.format(tasks=1)}")
    error = four.fail("await h")
    assert type(error) is KeyboardInterrupt
    assert str(error).startswith("Cell In[3] was stopped on workers [0-3]; registers may differ between them")
    assert ".py" not in four.out
    assert signal.getsignal(signal.SIGINT) is before
    four.run("%%disco\nworker_id // 4")
    assert four.lines[-1] == "[0-3] 0"


def test_ctrl_c_stops_all_that_are_awaited_together(four):
    four.ip.user_ns["asyncio"] = asyncio
    four.ip.user_ns["a"] = four.ip.run_cell_magic("disco", "--nowait", STRIKE.format(tasks=2))
    four.run(f"%%disco --nowait -o b\n{SPIN}")
    assert type(four.fail("await asyncio.gather(a, b)")) is asyncio.CancelledError
    # What was interrupted once is so for everybody; out of a task it must not end the loop of a kernel.
    assert type(four.fail("await asyncio.gather(a)")) is asyncio.CancelledError
    assert type(four.fail("await a")) is KeyboardInterrupt


def test_ctrl_c_in_asyncio_run_stops_the_cell_and_is_a_keyboard_interrupt(four):
    handle = four.run(f"%%disco --nowait\n{STRIKE.format(tasks=1)}")
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(outcome(handle))
    assert handle.done()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_in_another_thread_nobody_listens_for_ctrl_c(four, background):
    handle = four.run("%%disco --nowait\n5")
    assert repr(background(asyncio.run, outcome(handle))()) == "[0-3] 5"


@pytest.fixture
def sigint():
    """Puts the handler of Ctrl-C back."""
    before = signal.getsignal(signal.SIGINT)
    yield before
    signal.signal(signal.SIGINT, before)


def awaited_in_loop(handle, gate, meanwhile):
    """What `meanwhile` gives while a task awaits the handle, in a loop that has no handler of its own."""

    async def main():
        waiting = asyncio.ensure_future(handle)
        for _ in range(3):
            await asyncio.sleep(0)
        found = meanwhile()
        gate.open()
        await waiting
        return found

    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(main())
    finally:
        loop.close()


def test_a_handler_that_came_later_is_left_alone(gated, gate, sigint):
    def later(*_):
        """Somebody else's."""

    def meanwhile():
        assert signal.getsignal(signal.SIGINT) == EAR._hear
        signal.signal(signal.SIGINT, later)

    awaited_in_loop(begun(gated, "gate()\n5"), gate, meanwhile)
    assert signal.getsignal(signal.SIGINT) is later


def test_where_ctrl_c_is_ignored_nothing_is_replaced(gated, gate, sigint):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    handle = begun(gated, "gate()\n5")
    assert awaited_in_loop(handle, gate, lambda: signal.getsignal(signal.SIGINT)) is signal.SIG_IGN


def test_where_somebody_else_hears_ctrl_c_it_goes_there(gated, gate, sigint):
    heard = []

    def theirs(*_):
        heard.append(True)

    signal.signal(signal.SIGINT, theirs)
    handle = begun(gated, "gate()\n5")
    awaited_in_loop(handle, gate, lambda: signal.raise_signal(signal.SIGINT))
    assert heard == [True]
    assert signal.getsignal(signal.SIGINT) is theirs


def test_one_that_is_put_back_too_late_does_what_python_does():
    with pytest.raises(KeyboardInterrupt):
        Ear()._hear(signal.SIGINT, None)


@pytest.fixture
def left(four):
    """A terminal in which a cell was awaited by a task as the loop stopped."""
    four.ip.user_ns["asyncio"] = asyncio
    four.run(f"%%disco --nowait -o h\n{STRIKE.format(tasks=2)}")
    four.run("task = asyncio.ensure_future(h)\nawait asyncio.sleep(0)\nawait asyncio.sleep(0)")
    yield four
    four.run("h.cancel()\nawait asyncio.wait([task])")


def test_a_task_that_is_left_in_a_loop_that_stands_leaves_ctrl_c_to_python(left):
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert type(left.fail("import signal\nsignal.raise_signal(signal.SIGINT)")) is KeyboardInterrupt
    assert left.run("task.done(), h.done()") == (False, False)


def test_a_cell_that_is_awaited_beside_it_is_left_out_alone(left):
    left.run(f"%%disco --nowait -o other\n{SPIN}")
    error = left.fail("await other")
    assert type(error) is KeyboardInterrupt
    assert "was stopped before any worker had begun it. Cell In[" in str(error)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert left.run("await asyncio.sleep(0)\nother.done(), h.done(), task.done()") == (True, False, False)


def strike_soon():
    """Ctrl-C in the main thread when its loop runs again, in a later cell, and the task has found that."""
    loop = get_asyncio_loop()

    def turn():
        if signal.getsignal(signal.SIGINT) == EAR._hear:
            signal.raise_signal(signal.SIGINT)
        else:
            loop.call_later(0.01, turn)

    loop.call_soon(turn)


def test_ctrl_c_in_a_later_cell_that_awaits_it_stops_it_and_ends_that_cell(left):
    strike_soon()
    assert type(left.fail("await task\nwrong = 1")) is asyncio.CancelledError
    left.run("await asyncio.sleep(0)")
    assert left.run("'wrong' in globals(), h.done(), task.cancelled()") == (False, True, True)


def test_ctrl_c_in_a_later_cell_that_awaits_something_else_leaves_it_alone(left):
    strike_soon()
    assert type(left.fail("await asyncio.sleep(60)\nwrong = 1")) is asyncio.CancelledError
    left.run("await asyncio.sleep(0)")
    assert left.run("'wrong' in globals(), h.done(), task.done()") == (False, False, False)


def test_one_that_the_loop_does_not_come_to_any_more_stops_nothing_later(left):
    left.ip.user_ns["heard"] = lambda: signal.getsignal(signal.SIGINT) == EAR._hear
    left.run(
        "while not heard(): await asyncio.sleep(0.01)\nimport signal\nsignal.raise_signal(signal.SIGINT)"
    )
    left.run("await asyncio.sleep(0.1)")
    assert left.run("task.done(), h.done()") == (False, False)


def test_a_loop_that_stands_collects_no_wake_ups(left):
    threading.Event().wait(0.5)
    assert len(get_asyncio_loop()._ready) <= 2


@pytest.fixture
def ear(sigint):
    """One that has the handler, with two tasks in a loop that does not run."""
    ear, loop = Ear(), asyncio.new_event_loop()
    cancelled = []

    async def listen(name):
        with ear.listening():
            while cancelled.count(name) < ear.times:
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    cancelled.append(name)

    ear.times = 1
    ear.tasks = [loop.create_task(listen(name)) for name in "ab"]
    loop.run_until_complete(asyncio.sleep(0))
    assert signal.getsignal(signal.SIGINT) == ear._hear
    ear.loop, ear.cancelled = loop, cancelled
    yield ear
    ear.times = 0
    if not loop.is_closed():
        for task in ear.tasks:
            task.cancel()
        loop.run_until_complete(asyncio.wait(ear.tasks, timeout=5))
        loop.close()


def forever(ear, *actions):
    """Run the loop with one action per turn, without a task that anybody waits for."""

    failed = []

    def act(left):
        try:
            if left:
                left[0]()
                ear.loop.call_soon(act, left[1:])
                return
        except Exception as error:  # noqa: BLE001 - raised below
            failed.append(error)
        ear.loop.stop()

    ear.loop.call_soon(act, actions)
    ear.loop.run_forever()
    if failed:
        raise failed[0]


def strike():
    signal.raise_signal(signal.SIGINT)


def nothing():
    pass


def test_what_no_loop_can_cancel_is_python_s_already_the_first_time(ear):
    with pytest.raises(KeyboardInterrupt):
        strike()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert ear.cancelled == []


def test_a_loop_that_runs_in_another_thread_is_none_of_ours(ear, background):
    stopped = threading.Event()
    ear.loop.call_soon(stopped.wait, 20)
    ear.loop.call_soon(ear.loop.stop)
    running = background(ear.loop.run_forever)
    try:
        with pytest.raises(KeyboardInterrupt):
            strike()
    finally:
        stopped.set()
        running()
    assert ear.cancelled == []


def test_in_another_thread_nothing_is_replaced(ear, background):
    background(ear.rest)()
    assert signal.getsignal(signal.SIGINT) == ear._hear
    ear.rest()
    background(forever, ear, ear.listen)()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_cancellation_that_the_loop_did_not_come_to_is_none(ear):
    ear.loop.call_soon(lambda: (strike(), ear.loop.stop()))
    ear.loop.run_forever()
    ear.rest()
    forever(ear, nothing, nothing)
    assert ear.cancelled == []


def test_one_that_hears_of_a_running_loop_goes_on_listening(ear):
    heard = []
    forever(ear, ear.rest, lambda: heard.append(signal.getsignal(signal.SIGINT)))
    assert heard == [ear._hear]
    ear.rest()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    forever(ear, ear.listen, lambda: heard.append(signal.getsignal(signal.SIGINT)))
    assert heard == [ear._hear] * 2


def test_where_nobody_waits_for_one_task_all_are_cancelled(ear):
    forever(ear, strike, nothing, nothing)
    assert ear.cancelled == ["a", "b"]


def test_where_somebody_waits_for_a_task_that_one_is_cancelled(ear):
    async def waits():
        strike()
        await asyncio.sleep(60)

    with pytest.raises(asyncio.CancelledError):
        ear.loop.run_until_complete(waits())
    assert ear.cancelled == []


def test_a_second_one_ends_what_keeps_the_loop_from_the_first(ear):
    with pytest.raises(KeyboardInterrupt):
        forever(ear, lambda: (strike(), strike()))
    forever(ear, nothing, nothing)
    assert ear.cancelled == []  # it was told by the KeyboardInterrupt
    forever(ear, ear.listen, strike, nothing, nothing)
    assert ear.cancelled == ["a", "b"]


def test_a_second_one_that_comes_later_is_another_cancellation(ear):
    ear.times = 2
    forever(ear, strike, nothing, nothing, strike, nothing, nothing)
    assert ear.cancelled == ["a", "b", "a", "b"]


def test_a_loop_that_was_closed_with_a_task_in_it_is_left_alone(ear):
    ear.loop.close()
    with pytest.raises(KeyboardInterrupt):
        strike()


def test_what_a_loop_has_left_for_ever_goes(ear):
    tasks = [weakref.ref(task) for task in ear.tasks]
    ear.loop.close()
    ear.tasks.clear()
    gc.collect()
    assert ([task() for task in tasks], ear._tasks) == ([None, None], [])
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


# --- in a kernel ---------------------------------------------------------------------------------------


def test_a_cell_of_a_kernel_can_await_a_handle(fresh):
    fresh.ok("%%disco --nowait -o h\nprint('mine')\nworker_id // 4")
    ran = fresh.ok("await h")
    assert (ran.value, ran.text()) == ("[0-3] 0", "")


@pytest.mark.parametrize(
    ("await_", "name"),
    [("await h", "KeyboardInterrupt"), ("import asyncio\nawait asyncio.gather(h)", "CancelledError")],
)
def test_the_stop_button_ends_an_awaiting_cell_and_what_it_awaits(fresh, await_, name):
    # Without help the kernel would hear of it when its loop wakes up by itself: never.
    started = fresh.send(f"%%disco --nowait -o h\nprint('ready', flush=True)\n{SPIN}")
    fresh.finish(started, fresh.until_text(started, "ready\n", times=4))
    cell = fresh.send(
        "import threading\n"
        "def say():\n"
        "    while 'disco-await' not in [each.name for each in threading.enumerate()]: pass\n"
        "    print('awaits', flush=True)\n"
        f"threading.Thread(target=say).start()\n{await_}"
    )
    before = fresh.until_text(cell, "awaits\n")
    fresh.interrupt()
    ran = fresh.finish(cell, before)
    assert (ran.status, ran.error["ename"]) == ("error", name)
    assert "was stopped on workers [0-3]" in ran.traceback
    assert ".py" not in ran.traceback
    assert fresh.ok("h.done()").value == "True"
    assert fresh.ok("%%disco\nworker_id // 4").value == "[0-3] 0"
    fresh.interrupt()  # while nothing runs
    assert (
        fresh.ok("import signal\nsignal.getsignal(signal.SIGINT) is signal.default_int_handler").value
        == "True"
    )


def test_a_task_can_await_across_cells_of_a_kernel(fresh):
    fresh.ok(GATE)
    started = fresh.send(f"{WAITING}print('late')\nworker_id // 4")
    fresh.finish(started)
    fresh.ok(
        "import asyncio\ntask = asyncio.ensure_future(h)\nawait asyncio.sleep(0)\nawait asyncio.sleep(0)"
    )
    fresh.interrupt()  # between cells; the task is nobody's cell
    assert fresh.ok("task.done()").value == "False"
    assert fresh.ok("builtins.gate.set()\nawait task").value == "[0-3] 0"


def test_what_a_tool_lost_can_be_shown_in_a_later_cell(fresh):
    fresh.ok(GATE)
    started = fresh.send(f"{WAITING}print('late')")
    fresh.finish(started)
    assert fresh.ok("builtins.gate.set()\nh.wait()\nh.show()").lines == ["[0-3] late"]
