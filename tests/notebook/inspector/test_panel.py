"""The inspector as a whole: its table, and that nothing is left of it."""

from __future__ import annotations

import gc
import re
import sys
import threading
import types
import weakref

import pytest
from ipywidgets.widgets.widget import _instances

from disco_magic import worker
from disco_magic.errors import CellError
from disco_magic.functions.execution.cells import compile_cell
from disco_magic.notebook.commands.looking import FACE_OPTIONS
from disco_magic.notebook.inspector.detail import FACES
from disco_magic.notebook.inspector.panel import MOST_ROWS, Inspector
from disco_magic.notebook.live.views import everything_in
from disco_magic.session.config import ThreadedSession
from tests.notebook.inspector.conftest import text_of
from tests.notebook.inspector.user import PATIENCE_S, detail, look_at, message, table, until

# --- the table -------------------------------------------------------------------------------------


def test_it_shows_every_register_and_what_the_workers_do(inspector, session):
    session.sync_all()
    inspector.refresh()
    assert "3 workers" in inspector._head.value
    assert "idle" not in inspector._head.value  # it would still stand there when the next cell runs
    assert inspector._doctor.value == ""
    shown = table(inspector)
    assert all(name in shown for name in ("x", "same", "n"))
    assert "the same on all" in shown


def test_what_the_workers_do_comes_and_goes_below_what_somebody_looks_at(inspector):
    for name in ("", "x"):
        look_at(inspector, name)
        children = list(inspector.widget.children)
        above = (inspector._head, inspector._all, inspector._one)
        assert all(children.index(each) < children.index(inspector._doctor) for each in above)


def test_it_shows_what_is_there_after_a_refresh(inspector, session):
    session.run("later = 1")
    assert "later" not in table(inspector)
    inspector.refresh()
    assert "later" in table(inspector)


def test_a_cell_that_ends_is_shown_without_a_click(inspector, session, refresher):
    shown = threading.Event()
    inspector._table.observe(lambda change: shown.set() if "later" in change["new"] else None, "value")
    session.run("later = 1")
    refresher.cell_ended()
    assert shown.wait(PATIENCE_S)


def test_a_register_that_was_asked_for_is_above_the_table(inspector):
    def order():
        shown = everything_in(inspector.widget)
        return sorted((inspector._table, inspector._detail.register), key=shown.index)

    look_at(inspector, None)
    assert order() == [inspector._table, inspector._detail.register]
    look_at(inspector, "x")
    assert order() == [inspector._detail.register, inspector._table]


def test_search_and_lists_choose_what_is_shown(inspector):
    inspector._toolbar._search.value = "sam"
    assert "same" in table(inspector)
    assert " x " not in table(inspector)
    inspector._toolbar._search.value = ""
    inspector._toolbar._kind.value = "differs between workers"
    assert " same " not in table(inspector)
    assert "3 registers on [0-2], 1 shown" in inspector._head.value
    inspector._toolbar._kind.value = "everything"
    inspector._toolbar._dtype.value = "float64"
    assert "| n" not in table(inspector)


def test_dtypes_on_offer_are_those_that_occur_and_the_chosen_one_stays(inspector, session):
    inspector._toolbar._dtype.value = "float64"
    session.run("del x, same; small = np.ones(2, 'int8')")
    inspector.refresh()
    assert [value for _, value in inspector._toolbar._dtype.options] == ["", "float64", "int8"]
    assert inspector._toolbar._dtype.value == "float64"


def test_references_are_shown_with_who_keeps_them(inspector, session, front):
    front.shell.user_ns["kept"] = session.store(5)
    session.sync_all()
    inspector.refresh()
    assert "kept" in table(inspector)
    inspector._toolbar.numbered.value = False
    inspector.refresh()
    assert "kept" not in table(inspector)


def test_references_that_are_none_wherever_they_are_anything_are_left_out(inspector, session, front):
    front.shell.user_ns["nothing"] = session.call_packed(lambda: None)
    front.shell.user_ns["mixed"] = session.call_packed(lambda: None if worker().id else 5)
    failed = session.run_nowait("if worker_id == 1: raise ValueError")
    with pytest.raises(CellError) as caught:
        failed.wait()
    inspector.refresh()
    assert "mixed" in table(inspector)
    assert "nothing" not in table(inspector)
    assert failed.label not in table(inspector)
    assert len(session.registers(numbered=True).rows) > len(inspector.snapshot.rows)
    del caught


def test_it_looks_while_a_cell_runs(inspector, session, monkeypatch):
    gates = types.ModuleType("disco_test_gates")
    gates.go, gates.bound = threading.Event(), threading.Barrier(4)
    monkeypatch.setitem(sys.modules, gates.__name__, gates)
    source = "import disco_test_gates as gates\nx = np.full(2, 9.0)\n"
    source += f"gates.bound.wait({PATIENCE_S})\ngates.go.wait({PATIENCE_S})"
    cell = session.run_nowait(compile_cell(source))
    gates.bound.wait(PATIENCE_S)
    try:
        look_at(inspector, "x", "heatmap")
        inspector.refresh()
        assert "float64 2 |" in table(inspector)
        assert "executing" in inspector._doctor.value
        assert "workers [0-2] are executing" in inspector._head.value
        assert "<img" in inspector._detail.html
        assert message(inspector) == ""
        assert inspector.is_busy  # so that the refresher goes on, also for cells with --nowait
    finally:
        gates.go.set()
    cell.wait()
    inspector.refresh()
    assert not inspector.is_busy


# --- life ------------------------------------------------------------------------------------------


def test_live_is_asked_for_by_its_switch(inspector):
    inspector.set_live(True)
    assert inspector.live
    inspector._toolbar.live.value = False
    assert not inspector.live


def test_a_closed_inspector_leaves_no_widget_and_no_thread(front, session, refresher):
    before = set(_instances)
    inspector = Inspector(front)
    assert set(_instances) != before
    inspector.close()
    inspector.close()
    refresher.join()
    assert set(_instances) == before
    assert not [thread for thread in threading.enumerate() if thread.name == "disco-inspector"]
    inspector.refresh()
    assert repr(inspector) == f"<Inspector of Disco session {session.id}: closed>"


def test_a_closed_inspector_goes_while_another_one_is_open(inspector, front, session, refresher):
    drawn = threading.Event()
    gone = Inspector(front)
    gone._table.observe(lambda change: drawn.set() if "later" in change["new"] else None, "value")
    session.run("later = 1")
    refresher.cell_ended()
    drawn.wait(PATIENCE_S)
    gone.close()
    alive = weakref.ref(gone)
    del gone
    gc.collect()
    assert alive() is None


def test_two_inspectors_look_at_different_things(inspector, front, refresher):
    other = Inspector(front)
    look_at(inspector, "x")
    look_at(other, "same", "heatmap")
    inspector._toolbar._search.value = "x"
    assert "same" in table(other)
    assert "same" not in table(inspector)


def test_it_is_displayed_as_a_still_and_a_widget_that_hides_the_still(inspector):
    look_at(inspector, "x", "heatmap")
    still, widget = inspector.bundles()
    assert "<table" in still["text/html"]
    assert "<img" in still["text/html"]
    assert "x" in still["text/plain"]
    assert "application/vnd.jupyter.widget-view+json" not in still
    assert "application/vnd.jupyter.widget-view+json" in widget
    name = re.search(r'class="(disco-still-\w+)"', still["text/html"])[1]
    assert f".{name}," in inspector.hiding
    inspector.close()
    (still,) = inspector.bundles()
    assert "<table" in still["text/html"]


def test_without_a_chosen_register_the_still_is_the_table_of_all(inspector):
    still, _ = inspector.bundles()
    assert all(f"<code>{name}</code>" in still["text/html"] for name in ("x", "same", "n"))


def test_the_still_lists_what_the_widget_lists(inspector, session, front):
    session.run("import math; other = 1")
    front.shell.user_ns["kept"] = kept = session.store(5)
    session.sync_all()
    inspector.refresh()
    still, _ = inspector.bundles()
    for shown in (still["text/html"], still["text/plain"]):
        assert "math" not in shown
        assert "kept" in shown
    assert still["text/plain"].splitlines()[0] == (
        f"Disco session {session.id}: 6 registers, 1 differs between workers (\u2260), 5 shown"
    )
    assert any(
        line.startswith(f"  #{kept.register} (kept)  [0-2] int") for line in still["text/plain"].splitlines()
    )
    inspector._toolbar._search.value = "other"
    assert text_of(inspector.bundles()[0]["text/html"]).count("| other |") == 1
    assert "<code>x</code>" not in inspector.bundles()[0]["text/html"]


def test_every_option_has_its_face():
    assert tuple(face.option for face in FACES.values() if face.option) == FACE_OPTIONS


def test_more_rows_than_fit_are_counted_not_sent(inspector, session):
    session.run(f"for i in range({MOST_ROWS} + 3): globals()[f'more{{i}}'] = i")
    inspector.refresh()
    assert table(inspector).count("the same on all") == MOST_ROWS - 1  # `x` differs
    assert "| and 7 more; search for a name |" in table(inspector)


def test_it_is_small_enough_to_be_sent_every_second(front, session, refresher):
    session.run(
        "for i in range(200): globals()[f'layer{i}'] = np.random.default_rng(worker_id).normal(size=(64, 64))"
    )
    inspector = Inspector(front)
    assert len(inspector._table.value.encode()) < 100_000


def test_comms_answer_where_a_click_was_sent_to():
    from disco_magic.notebook.live.views import answer_while_busy

    class Comm:
        def _reply_subshell_for(self, data, default):
            return "the shell that is busy"

    widget, other = types.SimpleNamespace(comm=Comm()), types.SimpleNamespace(comm=object())
    answer_while_busy([widget, other, types.SimpleNamespace(comm=None)])
    assert widget.comm._reply_subshell_for({}, "as sent") == "as sent"


def test_in_a_mesh_the_columns_say_where_a_worker_is(front, refresher):
    with ThreadedSession(mesh={"dp": 2, "tp": 2}) as session:
        front.sessions.session = session
        session.run(
            "w = worker.replicated(np.full(3, worker.coordinates['tp']), over='dp')\nw[0] += worker_id == 3"
        )
        shown = Inspector(front)._table.value
        assert "worker 2<br><i>dp=1 tp=0</i>" in shown
        assert [cell.startswith('class="o"') for cell in re.findall(r"<td ?([^>]*)>", shown)[2:6]] == [
            False,
            True,
            False,
            True,
        ]


@pytest.mark.parametrize("face", ["difference", "heatmap"])
def test_in_a_mesh_whose_replicas_have_all_drifted_two_replicas_are_compared(front, refresher, face):
    with ThreadedSession(mesh={"dp": 2, "tp": 2}) as session:
        session.run(
            "w = worker.replicated(np.full((4, 4), worker.coordinates['tp'], 'f8'), over='dp')\n"
            "w += worker_id > 1"
        )
        front.sessions.session = session
        inspector = Inspector(front)
        look_at(inspector, "w", face)
        assert (inspector._detail._one.value, inspector._detail._other.value) == (2, 0)
        until(lambda: "<img" in inspector._detail.html, inspector)
        assert face == "heatmap" or "16 of 16 elements differ" in detail(inspector)
        assert message(inspector) == ""


def test_where_only_text_is_shown_it_is_said_that_there_is_a_picture(inspector):
    look_at(inspector, "x", "heatmap")
    text = inspector.bundles()[0]["text/plain"]
    assert text.splitlines()[-1] == "(Heat map: shown where there is HTML)"
