"""The value of a cell that nobody waits for stands below the cell itself."""

from __future__ import annotations

import io
import threading
from contextlib import redirect_stdout
from types import SimpleNamespace
from weakref import ref

import pytest

from disco_magic.errors import CellError, SyncTimeout
from disco_magic.notebook import handle as handles
from disco_magic.notebook.output.afterwards import Afterwards
from disco_magic.notebook.output.page import Page
from disco_magic.notebook.output.scope import NotebookScope
from disco_magic.session.current import session
from tests.conftest import DEADLINE_S, until
from tests.notebook.handles.cells import GATE, WAITING

SENT = "h = get_ipython().run_cell_magic('disco', '--nowait {}', '''{}''')\nwhile not h.done(): pass\n"
# In the same cell: what is shown without being asked for is shown by then.
REPORTED = SENT + "h.report()\n"


def shown_by(kernel, cell, text):
    """The cell's display that has this text in one of its forms."""

    def is_it(message):
        mine = message["parent_header"].get("msg_id") == cell
        return mine and any(text in str(data) for data in message["content"].get("data", {}).values())

    return kernel.until(is_it)[-1]


def test_it_is_shown_in_the_cell_s_own_output_when_another_has_run(fresh):
    fresh.ok(GATE)
    cell = fresh.send(f"{WAITING}worker_id // 2")
    fresh.finish(cell)
    fresh.ok("builtins.gate.set()")
    shown = shown_by(fresh, cell, "[2-3] 1")
    assert shown["msg_type"] == "display_data"
    assert shown["content"]["data"]["text/plain"] == "[0-1] 0\n[2-3] 1"


def test_it_is_shown_in_its_richest_form(fresh):
    cell = fresh.send("%%disco --nowait\nfrom IPython.display import HTML\nHTML('<b>rich</b>')")
    shown_by(fresh, cell, "<b>rich</b>")


@pytest.mark.parametrize("ask", ["h.wait()", "await h", "h.result(5)", "h.cancel()"])
def test_who_asks_does_not_get_it_twice(four, ask):
    four.run(f"{SENT.format('', '5')}{ask};\nh.report()")
    assert "[0-3] 5" not in four.out


def test_a_next_cell_may_still_ask(four):
    # In "Run all" the value stood twice.
    handle = four.run("%%disco --nowait -o h\nworker_id // 4 + 100")
    until(handle.done)
    four.run("pass")
    assert four.shown == []
    four.run("h.wait()")
    assert four.out.count("[0-3] 100") == 1
    handle.report()
    assert four.read() == ""


@pytest.fixture
def reported(monkeypatch):
    """Set when a cell has reported its end; reading what is printed meanwhile would lose some of it."""
    event, report = threading.Event(), handles.CellHandle.report

    def noted(handle):
        report(handle)
        if handle.is_told:
            event.set()

    monkeypatch.setattr(handles.CellHandle, "report", noted)
    return event


def test_it_is_kept_until_it_was_reported_whoever_else_keeps_it(four, monkeypatch):
    # A real timer could end beside the next cell: what it printed there was not looked at.
    timers = []
    monkeypatch.setattr(handles.LATER, "call", lambda _, report: timers.append(report))
    four.run("%%disco --nowait\n5;\n6")
    session().sync_all()
    until(lambda: timers)
    four.run("pass")
    four.run("_ = __ = ___ = None\nOut.clear()")
    while timers:
        timers.pop()()
    assert "[0-3] 6" in four.read()


def test_it_is_shown_once_and_of_those_who_are_shown(four):
    four.run(REPORTED.format("--show 1,2", "worker_id") + "h.report()")
    assert four.lines == ["[1] 1", "[2] 2"]
    four.run(REPORTED.format("--output worker0 -w 2,3", "worker_id"))
    assert four.lines == ["[2] 2"]
    four.run(REPORTED.format("--output none", "worker_id // 4"))
    assert four.lines == ["[0-3] 0"]


def test_where_there_is_none_nothing_is_shown(four):
    for source in ("None", "x = 1", "5;"):
        four.run(REPORTED.format("", source))
        assert four.out == ""


def test_a_cell_that_has_ended_before_anybody_could_be_told_shows_it_too(four, monkeypatch, reported):
    class Late(handles.CellHandle):
        def __init__(self, shell, pending, scope, *, asked):
            until(lambda: not scope.page.running)
            super().__init__(shell, pending, scope, asked=asked)

    monkeypatch.setattr(handles, "_ASKED_WITHIN_S", 0.0)
    monkeypatch.setattr("disco_magic.notebook.execution.CellHandle", Late)
    four.run("%%disco --nowait -o h\n5")
    assert reported.wait(DEADLINE_S)
    assert "[0-3] 5" in four.out + four.read()


def test_one_that_ends_while_it_is_looked_at_is_reported(four, monkeypatch, reported):
    monkeypatch.setattr(handles, "_ASKED_WITHIN_S", 3600.0)  # not by its own timer
    looks = iter([False])  # the first look finds it running, the next one ended
    ended = handles.CellHandle.done
    handle = four.run("%%disco --nowait -o h\n5")
    until(handle.done)
    monkeypatch.setattr(handles.CellHandle, "done", lambda self: next(looks, ended(self)))
    monkeypatch.setattr(handles, "_ASKED_WITHIN_S", 0.0)
    handles._report(ref(handle))
    assert reported.wait(DEADLINE_S)
    assert "[0-3] 5" in four.read()


def test_one_that_is_skipped_while_the_console_looks_is_closed_and_reported(four, monkeypatch):
    four.run(GATE)
    four.run(WAITING)
    skipped = four.run("%%disco --nowait\n5")
    running, struck = NotebookScope.running, []

    def ends_after_the_first_look(scope):
        was = running(scope)
        if scope is skipped._scope and not struck:
            struck.append(session().interrupt())
            four.ip.user_ns["builtins"].gate.set()  # an interrupt does not end a call into C
            until(skipped.done)
        return was

    monkeypatch.setattr(NotebookScope, "running", ends_after_the_first_look)
    four.run("pass")
    four.run("pass")
    assert struck
    assert skipped.is_told
    assert not skipped._scope.page.running


def test_one_whose_end_fails_has_ended_all_the_same(four, monkeypatch):
    monkeypatch.setattr("disco_magic.notebook.output.scope.show_all", lambda: 1 / 0)
    four.run(GATE)
    handle = four.run(WAITING)
    four.ip.user_ns["builtins"].gate.set()
    with pytest.raises(CellError, match="division by zero"):
        handle.wait()
    assert handle.finished == {0, 1, 2, 3}


def test_of_two_threads_that_would_report_it_one_does(four, monkeypatch):
    monkeypatch.setattr(handles, "_ASKED_WITHIN_S", 3600.0)
    handle = four.run("%%disco --nowait\n5")
    until(handle.done)
    four.read()
    heard = handle.pending.heard

    def while_another_does():
        handle.report()
        heard()

    monkeypatch.setattr(handle.pending, "heard", while_another_does)
    handle.report()
    assert four.read() == "[0-3] 5\n"


def test_a_wait_that_times_out_takes_nothing_from_one_that_goes_on(four):
    four.run(GATE)
    handle = four.run(WAITING)
    with handle._asking():
        with pytest.raises(SyncTimeout):
            handle.wait(0.01)
        assert handle.asked
    assert not handle.asked
    four.ip.user_ns["builtins"].gate.set()


def test_one_that_ends_just_after_the_wait_for_it_has_timed_out_is_reported(four, monkeypatch, reported):
    monkeypatch.setattr(handles, "_ASKED_WITHIN_S", 0.0)
    four.run(GATE)
    handle = four.run(f"{WAITING}5")
    wait = handle.pending.wait

    def late(*args, **options):
        try:
            return wait(0.01)
        finally:
            four.ip.user_ns["builtins"].gate.set()
            until(lambda: not handle._scope.page.running)

    monkeypatch.setattr(handle.pending, "wait", late)
    with pytest.raises(SyncTimeout):
        handle.wait()
    assert reported.wait(DEADLINE_S)
    assert "[0-3] 5" in four.read()


def test_who_has_waited_needs_no_timer(four, monkeypatch):
    started = []
    monkeypatch.setattr(handles.LATER, "call", lambda *asked: started.append(asked))
    assert four.run("%%disco\n5").values == [5] * 4
    four.fail("%%disco\n1 / 0")
    assert started == []


def test_a_cell_whose_output_was_a_file_that_is_closed_has_it_in_its_handle(four):
    with redirect_stdout(io.StringIO()) as file:
        handle = four.ip.run_cell_magic("disco", "--nowait", "5")
    until(handle.done)
    file.close()
    handle.report()
    assert handle.wait().values == [5] * 4


def test_a_value_that_is_reported_just_when_a_cell_of_an_executed_notebook_ends_is_there_once(four):
    handle, shown = four.run("%%disco --nowait\n5"), []
    until(handle.done)
    place = Afterwards(lambda data, **_: shown.append(data["text/plain"]))
    page = Page((0,), (0,), SimpleNamespace(publish=None), afterwards=place)
    handle._scope = SimpleNamespace(page=page, show=None)
    handle.offer_value()
    handle.report()
    for _ in range(2):
        place.bring_up_to_date("")
        handle.offer_value()
    assert shown == ["[0-3] 5"]
