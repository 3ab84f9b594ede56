"""Handles of asynchronous cells: asked, dropped, stopped with their session, shown."""

from __future__ import annotations

import concurrent.futures
import gc
import re
import weakref

import pytest

from disco_magic.errors import CellError, SessionClosed, SyncTimeout
from disco_magic.notebook.tables.standing import Standings, standing_of
from disco_magic.session.current import session
from tests.conftest import until
from tests.notebook.handles.cells import SPIN, begun


def test_result_is_what_wait_gives(crew):
    handle = crew.run("%%disco --nowait\nworker_id")
    assert handle.result() is handle.wait()
    assert handle.result().values == list(range(crew.n))


HINTS = {
    "values": "'values' is the result's, which .wait() returns: write .wait().values",
    "errors": "'errors' is the result's; .wait() returns it, or raises an error with it as .result",
    "get": "a handle has no 'get': .wait() gives the result, .done() tells whether there is one",
    "nonsense": "object has no attribute 'nonsense'",
}


@pytest.mark.parametrize("name", HINTS)
@pytest.mark.parametrize("which", ["the notebook's", "the session's"])
def test_who_asks_a_handle_for_what_the_result_has_is_told_where_that_is(crew, name, which):
    handle = crew.run("%%disco --nowait\n1 + 1")
    asked = handle if which == "the notebook's" else handle.pending
    with pytest.raises(AttributeError, match=re.escape(HINTS[name])):
        getattr(asked, name)
    assert handle.wait().values == [2] * crew.n


@pytest.mark.parametrize(
    "wait", [concurrent.futures.wait, lambda each: next(concurrent.futures.as_completed(each))]
)
@pytest.mark.parametrize("which", ["the notebook's", "the session's"])
def test_who_waits_for_handles_as_for_futures_of_a_pool_is_told_what_to_write(crew, wait, which):
    """`result` and `done` make a handle look like such a future; these calls reach into its inside."""
    handle = crew.run("%%disco --nowait\n1 + 1")
    told = r"write \[each.wait\(\) for each in handles\]; asyncio.gather"
    with pytest.raises(AttributeError, match=told):
        wait([handle if which == "the notebook's" else handle.pending])
    handle.wait()


def test_result_raises_what_the_cell_raised_as_often_as_it_is_asked(four):
    handle = four.run("%%disco --nowait\n1 / 0")
    for ask in (handle.result, handle.wait, handle.result):
        with pytest.raises(CellError, match="ZeroDivisionError"):
            ask()


@pytest.mark.parametrize("way", ["wait", "result"])
def test_what_is_not_there_in_time_goes_on(gated, gate, way):
    handle = begun(gated, "gate()\nworker_id")
    ask = getattr(handle, way)
    words = r"takes longer than 0 s and goes on - .cancel\(\) stops it; workers \[0-3\] are executing"
    with pytest.raises(TimeoutError, match=words):
        ask(timeout=0)
    assert not handle.done()
    gate.open()
    assert ask(timeout=60).values == [0, 1, 2, 3]


def test_a_short_wait_takes_nothing_from_one_that_goes_on(gated, gate, background):
    handle = begun(gated, "gate()\n1 / 0")
    waits = background(handle.wait)
    until(lambda: handle._waits)
    with pytest.raises(SyncTimeout):
        handle.wait(timeout=0.01)
    assert handle.asked
    gate.open()
    with pytest.raises(CellError, match="ZeroDivisionError"):
        waits()


def test_a_wait_that_is_to_stop_what_is_not_there_in_time_does(four):
    handle = four.run(f"%%disco --nowait\n{SPIN}")
    # The workers may not have come to it yet.
    with pytest.raises(SyncTimeout, match=r"(took longer than|did not begin within) 0 s and was"):
        handle.wait(timeout=0, stop=True)
    assert handle.done()
    with pytest.raises(SyncTimeout):
        handle.result()


def test_several_run_in_the_order_in_which_they_were_sent(crew):
    asked = [crew.run(f"%%disco --nowait -o h{n}\nx = ({n}, globals().get('x'))\nx") for n in range(3)]
    assert asked[2].wait().values == [(2, (1, (0, None)))] * crew.n
    assert all(handle.done() for handle in asked)
    assert asked[0].wait().values == [(0, None)] * crew.n


def test_cancelling_one_that_has_ended_does_nothing(crew):
    handle = crew.run("%%disco --nowait\n5")
    handle.wait()
    handle.cancel()
    assert handle.result().values == [5] * crew.n


# --- nobody asks ---------------------------------------------------------------------------------------


def test_a_handle_that_is_dropped_lets_its_cell_run_and_say_that_it_failed(gated, gate):
    source = "gate()\nkept = worker_id\nif worker_id == 1:\n    1 / 0"
    dropped = weakref.ref(gated.ip.run_cell_magic("disco", "--nowait", source))
    gate.arrived(4)
    gc.collect()
    handle = dropped()
    assert handle is not None  # the console needs it
    gate.open()
    while not handle.done():
        pass
    del handle
    gated.run("1")
    assert gated.err.splitlines() == [
        "[1] ZeroDivisionError: division by zero",
        "[1] failed after its cell; the handle's .wait() shows where",
    ]
    gc.collect()
    assert dropped() is None
    gated.run("%%disco\nkept")
    assert gated.lines[-4:] == [f"[{worker}] {worker}" for worker in range(4)]


def test_who_has_asked_hears_it_once(four):
    handle = four.run("%%disco --nowait\n1 / 0")
    with pytest.raises(CellError):
        handle.result()
    four.run("1")
    assert "failed after its cell" not in four.err


def test_a_result_that_came_too_late_was_not_asked_for(gated, gate):
    handle = begun(gated, "gate()\n1 / 0")
    with pytest.raises(SyncTimeout):
        handle.result(0)
    gate.open()
    while not handle.done():
        pass
    gated.run("1")
    assert "failed after its cell" in gated.err


# --- the session ends ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "word"),
    [
        ("%disco stop", "shut down"),
        ("%disco restart", "restarted"),
        ("%unload_ext disco_magic", "shut down"),
    ],
)
def test_a_handle_says_that_its_session_has_ended(four, command, word):
    number = session().id
    running = four.run(f"%%disco --nowait\n{SPIN}")
    queued = four.run("%%disco --nowait -w 1\n5")
    four.run(command)
    for handle, where in ((running, r"workers \[0-3\]"), (queued, "worker 1")):
        with pytest.raises(
            SessionClosed, match=f"was stopped on {where}: session {number} was {word}"
        ) as caught:
            handle.wait()
        assert caught.value.result.workers == handle.pending.workers
        assert "SessionClosed" in repr(Standings("", (standing_of(handle),)))


@pytest.mark.parametrize("command", ["%disco stop", "%disco restart"])
@pytest.mark.parametrize("look", ["", "%disco status"])
def test_a_cell_that_was_interrupted_before_was_not_stopped_with_its_session(four, command, look):
    # Its handle said of it that the session's end had stopped it, and no more where it was.
    handle = four.run(f"%%disco --nowait\n{SPIN}")
    four.run("%disco interrupt")
    until(lambda: not handle.pending._verdict.inbox.empty())
    four.run(look)
    four.run(command)
    with pytest.raises(CellError, match="WorkerInterrupt: "):
        handle.wait()


def test_an_unasked_handle_says_so_in_its_own_output(four):
    four.run(f"%%disco --nowait\n{SPIN}")
    four.run("%disco restart")
    assert four.err.splitlines() == [
        f"[0-3] SessionClosed: Cell In[3] was stopped on workers [0-3]: session {session().id} was restarted"
    ]


def test_what_failed_before_its_session_ended_has_failed(four):
    handle = four.run("%%disco --nowait\n1 / 0")
    while not handle.done():
        pass
    four.run("%disco stop")
    with pytest.raises(CellError, match="ZeroDivisionError"):
        handle.wait()


def test_a_cell_that_ended_well_keeps_its_result_when_the_session_is_gone(four):
    handle = four.run("%%disco --nowait\n5")
    handle.wait()
    four.run("%disco stop")
    assert repr(handle.result()) == "[0-3] 5"


# --- what it wrote -------------------------------------------------------------------------------------


def test_show_prints_what_was_written_so_far_where_it_is_called(gated, gate):
    handle = begun(gated, "print('a')\nprint('b' if worker_id else 'c')\ngate()\nprint('d', end='')")
    gated.run("h.show()")
    assert gated.lines == ["[0] a", "[0] c", "[1-3] a", "[1-3] b"]
    gate.open()
    handle.wait()
    gated.run("h.show()")
    assert gated.lines == ["[0] a", "[0] c", "[0] d", "[1-3] a", "[1-3] b", "[1-3] d"]


def test_show_of_a_silent_cell_prints_nothing(four):
    four.run("%%disco --nowait -o h\n5").wait()
    four.run("h.show()")
    assert four.out == ""
