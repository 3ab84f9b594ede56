"""How cells on their way look, alone and in ``%disco status``."""

from __future__ import annotations

from weakref import WeakSet
from xml.etree import ElementTree as ET

import pytest

from disco_magic.core.messages import Lost
from disco_magic.errors import CellError, SessionClosed, WorkerLost
from disco_magic.notebook import handle as module
from disco_magic.notebook.handle import handles_of
from disco_magic.notebook.tables.standing import MOST, Standing, Standings, standing_of, standings_of
from disco_magic.session.current import session
from tests.conftest import until
from tests.notebook.handles.cells import SPIN, begun


def words_of(handle):
    found = standing_of(handle)
    return found.state, dict(found.groups)


def test_a_handle_says_where_its_workers_are(gated, gate):
    handle = begun(
        gated, "if worker_id == 3:\n    gate()\nif worker_id:\n    barrier(workers=None) if 0 else None", 1
    )
    while not {0, 1, 2} <= handle.finished:
        pass
    state, said = words_of(handle)
    assert (state, said) == ("running", {(0, 1, 2): "done", (3,): "at Cell In[4], line 3"})
    assert "on workers [0-3]: running for " in repr(handle)
    second = gated.run("%%disco --nowait -w 3\npass")
    assert words_of(second) == ("queued", {(3,): "queued behind Cell In[4]"})
    gate.open()
    second.wait()
    assert words_of(handle) == ("done", {(0, 1, 2, 3): "done"})
    assert repr(handle).startswith("<Cell In[4] on workers [0-3]: done after ")


def test_two_cells_of_one_notebook_cell_are_told_apart(gated, gate):
    first, second = (gated.ip.run_cell_magic("disco", "--nowait", "gate()") for _ in range(2))
    gate.arrived(4)
    assert first.pending.label == second.pending.label == "Cell In[4]"
    assert words_of(first) == ("running", {(0, 1, 2, 3): "at Cell In[4], line 2"})
    assert words_of(second) == ("queued", {(0, 1, 2, 3): "queued behind Cell In[4]"})
    gated.run("%disco log -n 1")
    assert [line.split()[-1] for line in gated.lines[2:]] == ["running", "queued"]
    gate.open()
    second.wait()


def test_workers_that_wait_say_for_whom(gated, gate):
    handle = begun(gated, "if worker_id == 3:\n    gate()\nbarrier()", 1)
    while len(session()._launcher.plane.waiting) < 3:
        pass
    assert words_of(handle)[1][0, 1, 2] == "waiting in barrier() for worker 3, Cell In[4], line 4"
    gate.open()
    handle.wait()


def test_one_that_failed_says_who_and_why(four):
    handle = four.run("%%disco --nowait\nif worker_id == 2:\n    raise ValueError('boom')")
    with pytest.raises(CellError):
        handle.wait()
    assert words_of(handle) == ("failed", {(0, 1, 3): "done", (2,): "failed: ValueError: boom"})


def test_one_that_was_cancelled_says_so_everywhere(gated, gate):
    handle = begun(gated, "if worker_id:\n    gate()\n    while True:\n        pass", 3)
    gate.open()
    while 0 not in handle.finished:
        pass
    handle.cancel()
    assert words_of(handle) == ("cancelled", {(0,): "done", (1, 2, 3): "cancelled"})
    assert repr(handle).startswith("<Cell In[4] on workers [0-3]: cancelled after ")
    for ask in (handle.wait, handle.result):
        with pytest.raises(CellError, match=r"^Cell In\[4\] was cancelled on workers \[1-3\]\n") as caught:
            ask()
    assert "Cell In[4] was cancelled on workers [1-3]" in caught.value._render_traceback_()


def test_one_that_was_interrupted_is_told_as_stopped_and_not_as_failed(gated, gate):
    handle = begun(gated, "for step in worker.steps(range(9)): gate()", 4)
    gated.run("%disco interrupt")
    gate.open()
    until(handle.done)
    assert words_of(handle)[1] == {(0, 1, 2, 3): "stopped after step 1"}
    other = gated.run(f"%%disco --nowait\n{SPIN}")
    until(lambda: all(each.site for each in session().doctor().positions))
    gated.run("%disco interrupt")
    until(other.done)
    assert words_of(other)[1] == {(0, 1, 2, 3): "stopped: the command was interrupted"}
    for each in (handle, other):
        with pytest.raises(CellError):
            each.wait()


def test_one_that_was_left_out_says_so_in_one_sentence(gated, gate):
    first = begun(gated, "gate()", 4)
    left = gated.run("%%disco --nowait\n1")
    left.pending.stop_soon()
    with pytest.raises(KeyboardInterrupt, match="goes on"):
        left.wait()
    (said,) = words_of(left)[1].values()
    assert said.endswith("was stopped before any worker had begun it")
    gate.open()
    first.wait()


def test_one_that_failed_by_itself_is_not_told_as_cancelled(gated, gate):
    handle = begun(gated, "if worker_id:\n    gate()\n    while True:\n        pass\n1 / 0", 3)
    gate.open()
    until(lambda: session().ledger.failed_in(handle.pending.seq))  # told, after the end of its output
    handle.cancel()
    assert words_of(handle)[0] == "failed"
    with pytest.raises(CellError, match=r"^Cell In\[4\] failed on worker 0 \(and 3 others\)\n"):
        handle.wait()


def test_one_whose_worker_is_gone_says_so(gated, gate):
    handle = begun(gated, "gate()")
    session()._launcher._deliver(Lost(1, 0, "killed by signal 9"))
    with pytest.raises(WorkerLost):
        handle.wait()
    state, said = words_of(handle)
    assert (state, standing_of(handle).seconds) == ("failed", None)
    assert said[0, 1, 2, 3].startswith("WorkerLost: worker 1 is gone: killed by signal 9")
    assert repr(handle) == "<Cell In[4] on workers [0-3]: failed>"
    gate.open()


def test_one_whose_session_ends_just_now_is_being_stopped(gated, gate, monkeypatch):
    handle = begun(gated, "gate()")
    with monkeypatch.context() as patch:
        patch.setattr(type(handle.pending), "is_outlived", True)
        assert words_of(handle) == ("running", {(0, 1, 2, 3): "being stopped with its session"})

    def doctor():
        raise SessionClosed("it was shut down between the two looks")

    monkeypatch.setattr(session(), "doctor", doctor)
    assert words_of(handle) == ("running", {(0, 1, 2, 3): "being stopped with its session"})
    gate.open()
    handle.wait()


def test_the_text_has_a_line_per_state_and_html_a_row(four):
    cell = Standing("Cell <3>", (0, 1), "running", (((0,), "at a"), ((1,), "at b")), 2.0)
    bundle = Standings("", (cell,))._repr_mimebundle_()
    assert bundle["text/plain"] == "Cell <3>  [0]  at a  for 2.00 s\n          [1]  at b"
    page = ET.fromstring(f"<page>{bundle['text/html']}</page>")  # noqa: S314 - our own
    rows = [["".join(part.itertext()) for part in row] for row in page.findall(".//tbody/tr")]
    assert rows == [["Cell <3>", "[0]", "at a", "for 2.00 s"], ["[1]", "at b"]]


def test_a_notebook_shows_a_handle_as_a_table(four):
    handle = four.run("%%disco --nowait\n5")
    handle.wait()
    four.run("shown = 1")
    data, _ = four.ip.display_formatter.format(handle)
    assert "disco-cells" in data["text/html"]
    assert data["text/plain"].startswith("Cell In[3]  [0-3]  done  took ")


def test_cells_can_be_sent_while_another_thread_goes_through_them(four, background, monkeypatch):
    free = []

    class Watched(WeakSet):
        def add(self, item):
            free.append(background(module._handles_lock.acquire, False)())
            super().add(item)

        def __iter__(self):
            free.append(background(module._handles_lock.acquire, False)())
            return super().__iter__()

    monkeypatch.setattr(module, "_handles", Watched())
    handle = four.run("%%disco --nowait -o h\n5")
    assert handles_of(four.ip) == [handle]
    assert free == [False, False]
    handle.wait()


# --- %disco status -------------------------------------------------------------------------------------


def test_status_lists_what_runs_and_what_nobody_has_asked_about(gated, gate):
    failed = gated.run("%%disco --nowait\n1 / 0")
    asked = gated.run("%%disco --nowait\n5")
    asked.wait()
    running = begun(gated, "gate()")
    gated.run("%disco status")
    lines = gated.lines[
        gated.lines.index("cells on their way; ended, and nobody has asked how (.wait(), .result())") :
    ]
    assert [line.split("  ")[1] for line in lines[1:]] == ["Cell In[4]", "Cell In[6]"]
    assert "failed: ZeroDivisionError: division by zero" in lines[1]
    assert "[0-3]  at Cell In[6], line 2" in lines[2]
    gate.open()
    running.wait()
    with pytest.raises(CellError):
        failed.wait()
    gated.run("%disco status")
    assert "Cell In" not in gated.out


def test_status_without_a_session_still_says_what_nobody_has_asked_about(four):
    handle = four.run(f"%%disco --nowait\n{SPIN}")
    four.run("%disco stop")
    four.run("%disco status")
    assert "no session is running" in four.lines[0]
    assert four.lines[1].startswith("ended, and nobody has asked how")
    four.run("%disco start")
    four.run("%disco status")
    assert "nobody has asked how" not in four.out
    with pytest.raises(SessionClosed):
        handle.wait()


def test_of_many_that_ended_the_last_ones_are_listed_and_the_rest_counted(four):
    kept = [four.run("%%disco --nowait\npass;") for _ in range(MOST + 3)]
    kept[-1].pending.wait()
    listed = standings_of(handles_of(four.ip))
    assert len(listed.cells) == MOST
    assert listed.title.endswith("3 more of those")
    assert listed.cells[-1].label == f"Cell In[{MOST + 5}]"


def test_handles_of_another_notebook_are_not_listed(four):
    four.run("%%disco --nowait -o h\n5").pending.wait()
    assert standings_of(handles_of(object())) is None


def test_tab_offers_of_a_handle_what_a_user_asks_it(four):
    handle = four.run("%%disco --nowait\n1")
    assert all(hasattr(handle, name) for name in handle._not_offered)
    assert {"wait", "cancel", "done", "result", "show", "stdout"} <= set(dir(handle))
    assert not handle._not_offered & set(dir(handle))
    handle.wait()
