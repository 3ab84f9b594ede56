"""Copies behind cells that are on their way: who waits sees for whom, and knows what was not sent."""

from __future__ import annotations

import _thread
from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from math import inf

import pytest

from disco_magic.errors import SessionClosed, SyncTimeout, UnknownName, WorkerError
from disco_magic.functions.execution.printed import Printed
from disco_magic.notebook.output import arrival, page
from disco_magic.notebook.output.arrival import ShownWait
from disco_magic.session.current import session
from disco_magic.session.session import Session
from tests.notebook.handles.cells import begun
from tests.session.conftest import time_begins_when_only

COMMANDS = ["put x", "broadcast x", "scatter x", "get x", "gather x"]
SENDING = COMMANDS[:3]


@pytest.fixture
def busy(gated, gate):
    """A shell whose workers are at the gate in a cell, and have ``x``; so has the notebook."""
    gated.run("%%disco\nx = [0]")
    gated.ip.user_ns["x"] = [1, 2, 3, 4]
    begun(gated, "gate()")
    yield gated
    gate.open()
    gated.run("h.wait()")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_timeout_says_who_is_where_and_that_nothing_was_sent(busy, gate, command):
    error = busy.fail(f"%disco {command} --timeout 0.05", SyncTimeout)
    assert ("'x' was not sent: %disco" in str(error)) == (command in SENDING)
    assert f"%disco {command.split()[0]}: " in str(error)
    assert "executing Cell In[" in str(error)
    gate.open()
    busy.run("h.wait()")
    assert session()["x"].get_all() == [[0]] * 4
    assert busy.ip.user_ns["x"] == [1, 2, 3, 4]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_stop_button_ends_the_wait_and_says_that_nothing_was_sent(busy, gate, command, monkeypatch):
    # It said that a sync was interrupted, as if the copy were on its way; the next steps had the old value.
    wait = Session.await_all
    monkeypatch.setattr(Session, "await_all", lambda each, _, *how: wait(each, _thread.interrupt_main, *how))
    error = busy.fail(f"%disco {command}", KeyboardInterrupt)
    assert str(error).startswith("'x' was not sent: " if command in SENDING else "%disco")
    assert f"%disco {command.split()[0]} was interrupted, and worker" in str(error)
    gate.open()
    busy.run("h.wait()")
    assert session()["x"].get_all() == [[0]] * 4


@pytest.mark.parametrize("command", SENDING)
def test_what_had_failed_before_is_told_and_that_nothing_was_sent(four, command):
    # It said what had failed, and nothing of the value: the next cell had the old one.
    four.ip.user_ns["x"] = [1, 2, 3, 4]
    session().call_packed(lambda: 1 / 0)
    error = four.fail(f"%disco {command}", WorkerError)
    assert str(error).startswith("'x' was not sent: call test_what_had_failed_before")
    assert "'x' was not sent: call " in four.out
    assert session().names() == ()
    four.run(f"%disco {command}")
    assert session().names() == ("x",)


@pytest.mark.parametrize("command", SENDING)
def test_a_session_that_has_ended_gets_nothing(four, command):
    four.ip.user_ns.update(x=[1, 2, 3, 4], other=session())
    session().shutdown()
    error = four.fail(f"%disco {command} --session other", SessionClosed)
    assert str(error).startswith("'x' was not sent: ")


class Screen:
    """A screen that opens the gate when it is shown rows; keeps them."""

    waited = False
    stopped_by = "the stop button"

    def __init__(self, gate):
        self.rows, self._gate = [], gate

    def show(self, rows):
        self.rows += [row.text for row in rows]
        if rows:
            self._gate.open()

    def covered(self):
        return False


@pytest.mark.parametrize("command", ["broadcast x", "sync", "check x"])
def test_it_is_shown_who_keeps_a_command_waiting(busy, gate, monkeypatch, command):
    monkeypatch.setattr(arrival, "AFTER_S", 0.0)
    if command == "check x":
        session()["x"] = session().store_copy(1)
    screen = Screen(gate)
    monkeypatch.setattr(page, "screen_for", lambda *_: screen)
    busy.run(f"%disco {command}")
    assert "Cell In[" in screen.rows[0]
    if command == "broadcast x":
        assert session()["x"].get_all() == [[1, 2, 3, 4]] * 4


OF_PYTHON = ["session['late']", "session.sync_all()", "session['x'].get()", "session.sync_worker(2)"]


@pytest.mark.parametrize("call", OF_PYTHON)
def test_it_is_shown_who_keeps_a_call_of_python_waiting(busy, gate, monkeypatch, call):
    # Only magics showed it: a cell that asked for a register of a --nowait cell stood still, without a word.
    monkeypatch.setattr(arrival, "AFTER_S", 0.0)
    screen = Screen(gate)
    monkeypatch.setattr(page, "screen_for", lambda *_: screen)
    busy.ip.user_ns["session"] = session()
    if "late" in call:
        busy.fail(call, UnknownName)
    else:
        busy.run(call)
    assert "Cell In[" in screen.rows[0]


def test_it_is_shown_where_the_workers_of_a_cell_of_python_are(gated, gate, monkeypatch):
    # `%%disco` showed it; `session.run` of the same cell stood still, without a word.
    monkeypatch.setattr(arrival, "AFTER_S", 0.0)
    screen = Screen(gate)
    monkeypatch.setattr(page, "screen_for", lambda *_: screen)
    gated.ip.user_ns["session"] = session()
    gated.run("session.run('gate()', workers=[1, 2])")
    (text,) = set(screen.rows)
    assert text.startswith("Cell ")


def test_a_wait_for_the_handle_of_a_cell_of_python_shows_where_its_workers_are(gated, gate, monkeypatch):
    # `session.run` showed it; the wait for what `session.run_nowait` had sent stood still.
    monkeypatch.setattr(arrival, "AFTER_S", 0.0)
    screen = Screen(gate)
    monkeypatch.setattr(page, "screen_for", lambda *_: screen)
    handle = session().run_nowait("gate()", workers=[1, 2])
    assert handle.wait().workers == (1, 2)
    (text,) = set(screen.rows)
    assert text.startswith(handle.label)


def test_a_wait_for_a_cell_of_python_says_what_it_comes_after(busy, gate, monkeypatch):
    monkeypatch.setattr(arrival, "AFTER_S", 0.0)
    screen = Screen(gate)
    monkeypatch.setattr(page, "screen_for", lambda *_: screen)
    session().run("1")
    assert any(row.startswith("comes after Cell In[") for row in screen.rows)


def test_a_wait_for_a_cell_of_python_says_at_once_when_it_will_end(gated, gate, monkeypatch):
    monkeypatch.setattr(arrival, "AFTER_S", inf)
    screen = Screen(gate)
    monkeypatch.setattr(page, "screen_for", lambda *_: screen)
    handle = session().run_nowait("for step in worker.steps(range(9)): gate()")
    gate.arrived(4)
    handle.stop_soon()
    with pytest.raises(KeyboardInterrupt, match="between two steps"):
        handle.wait()
    assert "ends after step 1 \u00b7 press again to stop at once" in screen.rows


def test_of_a_cell_of_python_that_prints_only_its_output_is_shown(gated, gate, monkeypatch):
    monkeypatch.setattr(arrival, "AFTER_S", 0.0)
    screen = Screen(gate)
    monkeypatch.setattr(page, "screen_for", lambda *_: screen)
    monkeypatch.setattr(Printed, "quiet_since", lambda _: inf)
    with pytest.raises(SyncTimeout):
        session().run("gate()", timeout=0.3)
    assert screen.rows == []


def test_a_cell_that_prints_is_quiet_since_its_last_line():
    printed, stream = Printed((0, 1)), StringIO()
    since = [printed.quiet_since()]
    for text in ("unfinished", " line\n", "rest"):
        printed.texts[1].writer("stdout", stream)(text)
        since.append(printed.quiet_since())
    assert since[0] == since[1] < since[2] == since[3]


def test_also_a_terminal_shows_where_the_workers_of_a_cell_of_python_are(gated, gate, monkeypatch):
    monkeypatch.setattr(arrival, "AFTER_S", 0.0)
    screen = Screen(gate)
    screen.waited = True
    monkeypatch.setattr(page, "screen_for", lambda *_: screen)
    session().run("gate()")
    assert screen.rows


def test_with_output_that_is_the_same_every_time_it_is_not_shown(busy, gate, monkeypatch):
    monkeypatch.setattr(arrival, "AFTER_S", 0.0)
    screen = Screen(gate)
    monkeypatch.setattr(page, "screen_for", lambda *_: screen)
    busy.run("%config DiscoMagics.output = 'ordered'")
    with pytest.raises(SyncTimeout):
        session().sync_all(timeout=0.3)
    assert screen.rows == []


def test_a_wait_of_another_thread_than_the_main_one_is_not_shown(busy, gate, monkeypatch):
    monkeypatch.setattr(arrival, "AFTER_S", 0.0)
    screen = Screen(gate)
    monkeypatch.setattr(page, "screen_for", lambda *_: screen)
    with ThreadPoolExecutor(1) as pool, pytest.raises(SyncTimeout):
        pool.submit(session().sync_all, timeout=0.3).result()
    assert screen.rows == []


def test_who_looks_a_name_up_and_loses_patience_is_told_what_was_waited_for(busy, gate, monkeypatch):
    monkeypatch.setattr(arrival, "AFTER_S", 0.0)
    monkeypatch.setattr(ShownWait, "_opened", lambda _: _thread.interrupt_main)
    with pytest.raises(
        KeyboardInterrupt, match=r"^session\['late'\] was interrupted, and workers \[0-3\] go on"
    ):
        session()["late"]
    gate.open()


def test_who_fetches_of_one_worker_waits_for_no_other(gated, gate):
    gated.run("%%disco\nx = worker_id")
    gated.run("%%disco --nowait -w 1 -o h\ngate()")
    gate.arrived(1)
    gated.run("%disco get x")
    assert gated.ip.user_ns["x"] == 0
    gate.open()
    gated.run("h.wait()")


def test_several_names_are_told(busy):
    busy.ip.user_ns["y"] = 1
    error = busy.fail("%disco broadcast x y --timeout 0.05", SyncTimeout)
    assert "'x', 'y' were not sent: " in str(error)


def test_a_cell_that_did_not_begin_in_time_says_what_it_had_pushed(busy, gate):
    error = busy.fail("%%disco --push x --timeout 0.05\ny = 1", SyncTimeout)
    assert "did not begin within" in str(error)
    assert str(error).endswith("What --push has sent is on its way all the same: x")
    gate.open()
    busy.run("h.wait()")
    assert session()["x"].get_all() == [[1, 2, 3, 4]] * 4


def test_only_who_keeps_it_waiting_is_named(gated, gate, monkeypatch):
    # All were, and who had nothing to do was "about to begin".
    monkeypatch.setattr(arrival, "AFTER_S", 0.0)
    gated.ip.user_ns["x"] = 1
    gated.run("%%disco --nowait -w 1 -o h\ngate()")
    gate.arrived(1)
    time_begins_when_only(monkeypatch, session(), 1)
    error = gated.fail("%disco put x --timeout 0.05", SyncTimeout)
    assert "'x' was not sent: %disco put: worker 1 did not answer within 0.05 s and goes on" in str(error)
    screen = Screen(gate)
    monkeypatch.setattr(page, "screen_for", lambda *_: screen)
    gated.run("%disco put x")
    assert "done" in screen.rows[:2]
    assert not any("about to begin" in text for text in screen.rows)
    gated.run("h.wait()")


class Slow:
    """Takes long to be copied: the stop button strikes."""

    def __deepcopy__(self, memo):
        raise KeyboardInterrupt


@pytest.mark.parametrize("command", ["put", "broadcast"])
def test_the_stop_button_while_the_notebook_copies_says_so_too(four, command):
    four.ip.user_ns["x"] = Slow()
    error = four.fail(f"%disco {command} x", KeyboardInterrupt)
    assert str(error) == f"'x' was not sent: %disco {command} was interrupted"
