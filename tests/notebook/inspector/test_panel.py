"""The inspector as a whole: what it shows, that clicks do what they say, and that nothing is left of it."""

from __future__ import annotations

import gc
import re
import sys
import threading
import types
import weakref

import ipywidgets
import pytest
from ipywidgets.widgets.widget import _instances

from disco_magic.functions.cells import compile_cell
from disco_magic.notebook.inspector import faces
from disco_magic.notebook.inspector.detail import _BY_OPTION
from disco_magic.notebook.inspector.faces import FACES
from disco_magic.notebook.inspector.panel import Inspector
from disco_magic.notebook.options import FACE_OPTIONS
from tests.notebook.inspector.conftest import text_of

PATIENCE_S = 30


def table(inspector):
    return text_of(inspector._table.value)


def detail(inspector):
    return text_of(inspector._detail.html)


def message(inspector):
    return text_of(inspector._message.value).replace("| ", "")


def until(condition, inspector):
    """Wait for what another thread draws."""
    drawn = threading.Event()
    inspector._detail._picture.observe(lambda _: drawn.set(), "value")
    while not condition():
        assert drawn.wait(PATIENCE_S)
        drawn.clear()


def press(inspector, label):
    """Click the button that says `label`."""
    (button,) = [
        widget
        for widget in inspector._actions.of_register.children
        if isinstance(widget, ipywidgets.Button) and widget.description == label
    ]
    button.click()


def look_at(inspector, name, face="summary", workers=()):
    inspector.look_at(name, face, workers)


# --- the table -------------------------------------------------------------------------------------


def test_it_shows_every_register_and_what_the_workers_do(inspector, session):
    session.sync_all()
    inspector.refresh()
    assert "3 workers" in inspector._head.value
    assert "all workers are idle" in inspector._head.value
    assert inspector._doctor.value == ""
    shown = table(inspector)
    assert all(name in shown for name in ("x", "same", "n"))
    assert "the same on all" in shown


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


def test_without_a_session_it_says_how_to_start_one_and_follows_the_next(
    front, inspector, session, refresher
):
    front.sessions.session = None
    inspector.refresh()
    assert "no session is running; %disco start makes one" in inspector._head.value
    assert table(inspector) == detail(inspector) == ""
    front.sessions.session = session
    inspector.refresh()
    assert " x " in table(inspector)
    look_at(inspector, "x")
    front.sessions.session = None
    inspector.refresh()
    assert detail(inspector) == ""


def test_it_survives_a_restart_of_the_session(inspector, session):
    look_at(inspector, "x")
    session.restart()
    inspector.refresh()
    assert "no register to show" in table(inspector)
    assert message(inspector) == ""
    session.run("y = 1")
    inspector.refresh()
    assert "y" in table(inspector)


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
        assert "<img" in inspector._detail.html
        assert message(inspector) == ""
    finally:
        gates.go.set()
    cell.wait()


# --- one register ----------------------------------------------------------------------------------


def test_nothing_is_looked_at_closely_until_a_register_is_chosen(inspector):
    assert inspector._detail.html == ""
    assert inspector._detail._below.layout.display == "none"
    assert inspector._actions.of_register.layout.display == "none"
    look_at(inspector, "x")
    assert inspector._detail._below.layout.display is None


@pytest.mark.parametrize("face", ["summary", "heatmap", "histogram", "values", "difference"])
@pytest.mark.parametrize("name", ["x", "same", "n", "text", "things", "nothing", "cube", "z", "flags"])
def test_every_face_draws_every_value_or_says_why_not(inspector, session, face, name):
    session.run(
        "text = 'abc'; things = [1, object()]; nothing = np.zeros((0, 3)); cube = np.ones((2, 3, 4, 5))\n"
        "z = np.ones(4) * 1j; flags = np.array([True, False])"
    )
    inspector.refresh()
    look_at(inspector, name, face)
    until(lambda: name in inspector._detail.html, inspector)
    assert message(inspector) == ""


def test_what_is_no_array_is_shown_by_its_repr_when_asked_for(inspector, session):
    session.run(
        "class Odd:\n    asked = 0\n"
        "    def __repr__(self):\n        Odd.asked += 1\n        return f'<odd {Odd.asked}>'\n"
        "class Bad:\n    def __repr__(self):\n        raise KeyError('no')\n"
        "odd, bad, things = Odd(), Bad(), {'a': [1, 2], 'b': list(range(1000))}"
    )
    inspector.refresh()
    look_at(inspector, "things", "values", (0,))
    until(lambda: "{'a': [1, 2], 'b': [0, 1," in detail(inspector), inspector)
    assert len(detail(inspector)) < 2000
    look_at(inspector, "odd", "values", (0,))
    until(lambda: "<odd 1>" in detail(inspector), inspector)
    inspector.refresh()
    assert "<odd 1>" in detail(inspector)
    inspector._toolbar.refresh.click()
    until(lambda: "<odd 2>" in detail(inspector), inspector)
    look_at(inspector, "bad", "values", (0,))
    until(lambda: "its __repr__ raised KeyError: 'no'" in detail(inspector), inspector)


def test_a_face_that_cannot_draw_one_workers_value_draws_the_others(inspector, session):
    session.run("x = 'text' if worker_id == 1 else x")
    inspector.refresh()
    look_at(inspector, "x", "heatmap")
    assert inspector._detail.html.count("<img") >= 2
    assert message(inspector) == ""


@pytest.mark.parametrize(
    ("values", "ends", "around"),
    [
        ("[-2.0, 1.0]", ("-2", "2"), ("-2", "2")),
        ("[-0.1, 1.0]", ("-0.1", "1"), ("-1", "1")),
        ("[1.0, 3.0]", ("0.5", "3"), ("-3", "3")),
    ],
)
def test_values_on_both_sides_of_0_get_a_scale_around_0(inspector, session, values, ends, around):
    session.run(f"y = np.array({values}) * (1 if worker_id else 0.5)")
    inspector.refresh()
    look_at(inspector, "y", "heatmap", ())
    assert re.search(rf" {ends[0]} [\d.e+-]+ {ends[1]} ", detail(inspector))
    inspector._detail._scale.value = "symmetric around 0"
    assert re.search(rf" {around[0]} 0 {around[1]} ", detail(inspector))


def test_workers_of_different_shapes_are_not_compared(inspector, session):
    session.run("y = np.zeros((2, 3) if worker_id else (2, 2))")
    inspector.refresh()
    look_at(inspector, "y", "difference", (1, 0))
    assert "shape" in detail(inspector)
    assert message(inspector) == ""


@pytest.mark.parametrize("face", ["heatmap", "values"])
def test_a_worker_with_another_shape_gets_its_picture(inspector, session, face):
    session.run("w = np.ones((8, 4) if worker_id == 1 else (4, 8))")
    inspector.refresh()
    look_at(inspector, "w", face, (1,))
    assert "does not fit" not in detail(inspector)
    look_at(inspector, "w", face)
    assert "does not fit" not in detail(inspector)
    inspector._detail._slices.rows.value = (2, 4)
    inspector._detail._slices.columns.value = (5, 8)
    inspector._detail.face.value = "Heat map"
    assert "does not fit into shape (8, 4)" in detail(inspector)  # what was narrowed is meant


def test_sliders_offer_the_axes_of_the_register(inspector, session):
    session.run("cube = np.arange(120.0).reshape(2, 3, 4, 5)")
    inspector.refresh()
    look_at(inspector, "cube", "values")
    picker = inspector._detail._slices
    assert [slider.max for slider in picker.further if slider.layout.display is None] == [1, 2]
    assert "119" not in detail(inspector)
    picker.further[0].value, picker.further[1].value = 1, 2
    assert "119" in detail(inspector)
    picker.rows.value = (1, 2)
    assert "105" in detail(inspector)
    assert "119" not in detail(inspector)


def test_any_two_axes_can_be_shown_in_either_order(inspector, session):
    session.run("cube = np.arange(120.0).reshape(2, 3, 4, 5)")
    inspector.refresh()
    look_at(inspector, "cube", "values", (0,))
    picker = inspector._detail._slices
    assert picker.axes.value == (2, 3)
    picker.axes.value = (1, 0)
    assert [slider.description for slider in picker.further if slider.layout.display is None] == [
        "axis 2",
        "axis 3",
    ]
    assert (picker.rows.value, picker.columns.value) == ((0, 3), (0, 2))
    head, _, cells = detail(inspector).partition(" | | | ")
    assert head == "| cube on [0]: 2\u00d73\u00d74\u00d75"
    assert cells == "0 | 1 | | 0 | 0.0 | 60.0 | | 1 | 20.0 | 80.0 | | 2 | 40.0 | 100.0"
    picker.further[1].value = 4
    assert "104" in detail(inspector)


def test_a_row_is_shown_of_an_array_with_one_axis_and_an_element_of_one_with_none(inspector, session):
    session.run("line = np.arange(3.0); dot = np.array(5.0)")
    inspector.refresh()
    for name, element in (("line", "2"), ("dot", "5")):
        look_at(inspector, name, "values", (0,))
        assert element in detail(inspector)
        assert inspector._detail._slices.axes.layout.display == "none"


def test_where_the_sliders_are_stays_while_the_shape_stays(inspector, session):
    look_at(inspector, "x", "values", (0,))
    inspector._detail._slices.columns.value = (2, 4)
    session.run("x += 100")
    inspector.refresh()
    assert inspector._detail._slices.columns.value == (2, 4)
    assert "102" in detail(inspector)
    session.run("x = np.zeros((2, 2))")
    inspector.refresh()
    assert inspector._detail._slices.columns.value == (0, 2)


def test_the_difference_of_two_workers_says_how_much_and_where(inspector, session):
    session.run("x = np.zeros((3, 4)); x[2, 1] = 5 * worker_id")
    inspector.refresh()
    look_at(inspector, "x", "difference", (2, 0))
    assert "(2, 1)" in detail(inspector)
    assert "10" in detail(inspector)
    inspector._detail._other.value = 2
    assert "choose two different workers" in detail(inspector)


def test_the_worker_that_differs_is_compared_with_one_that_does_not(inspector, session):
    session.run("y = np.full(3, worker_id == 1)")
    inspector.refresh()
    look_at(inspector, "y", "difference")
    assert (inspector._detail._one.value, inspector._detail._other.value) == (1, 0)
    look_at(inspector, "x", "difference")
    assert (inspector._detail._one.value, inspector._detail._other.value) == (1, 0)
    look_at(inspector, "y", "difference", (2, 1))
    assert (inspector._detail._one.value, inspector._detail._other.value) == (2, 1)


def test_exact_statistics_are_those_of_all_elements_and_stay_until_asked_again(inspector, session):
    session.run("large = np.zeros(200_001); large[-1] = 7 + worker_id")
    inspector.refresh()
    look_at(inspector, "large")
    assert "a sample of 65,536" in detail(inspector)
    inspector._detail._exact.click()
    until(lambda: "200,001" in detail(inspector), inspector)
    assert "| [2] | 0 | " in detail(inspector)
    assert "| 9 |" in detail(inspector)
    inspector.refresh()
    assert "200,001" in detail(inspector)
    inspector._toolbar.refresh.click()
    assert "a sample of 65,536" in detail(inspector)


def test_large_arrays_are_compared_in_a_thread_and_only_when_asked(inspector, session, monkeypatch):
    monkeypatch.setattr("disco_magic.notebook.inspector.detail.AT_ONCE", 50)
    compared = []
    real = faces.difference_of
    monkeypatch.setattr(
        faces,
        "difference_of",
        lambda *given, **named: compared.append(threading.current_thread().name) or real(*given, **named),
    )
    look_at(inspector, "x", "difference", (2, 0))
    until(lambda: "elements differ" in detail(inspector), inspector)
    inspector.refresh()
    inspector.refresh()
    assert compared == ["disco-long-look"]
    assert "elements differ" in detail(inspector)
    inspector._toolbar.refresh.click()
    until(lambda: "elements differ" in detail(inspector), inspector)
    assert len(compared) == 2


def test_only_the_controls_that_a_face_has_use_for_are_shown(inspector):
    look_at(inspector, "x", "summary")
    controls = inspector._detail._controls
    assert [name for name, control in controls.items() if control.layout.display is None] == ["exact"]
    inspector._detail.face.value = "Difference"
    shown = {name for name, control in controls.items() if control.layout.display is None}
    assert shown == {"one", "other", "slice"}


def test_a_register_that_is_gone_is_not_looked_at_any_more(inspector, session):
    look_at(inspector, "x")
    del session["x"]
    session.sync_all()
    inspector.refresh()
    assert inspector._detail.name == ""
    assert detail(inspector) == ""


# --- acts ------------------------------------------------------------------------------------------


def test_buttons_act_on_the_register_that_is_looked_at(inspector, session, front):
    look_at(inspector, "x")
    inspector._actions._source.value = 2
    inspector._actions._text.value = "mine"
    press(inspector, "To notebook")
    assert front.shell.user_ns["mine"][0, 0] == 2.0
    assert "is a copy of x on [2]" in message(inspector)
    press(inspector, "To all workers")
    session.sync_all()
    inspector.refresh()
    assert session["x"].get(0)[0, 0] == 2.0


def test_only_the_second_click_deletes(inspector, session):
    look_at(inspector, "x")
    press(inspector, "Delete")
    session.sync_all()
    assert "x" in session
    assert "click again to delete x" in message(inspector)
    press(inspector, "Really delete x?")
    session.sync_all()
    assert "x" not in session


def test_another_register_must_be_asked_for_again_before_it_is_deleted(inspector):
    look_at(inspector, "x")
    press(inspector, "Delete")
    look_at(inspector, "same")
    assert inspector._actions._delete.description == "Delete"


def test_a_refusal_is_shown_not_raised(inspector, front):
    front.shell.user_ns["x"] = "precious"
    look_at(inspector, "x")
    press(inspector, "To notebook")
    assert message(inspector).startswith("\u26a0 the notebook has a variable 'x' already")


def test_a_bug_is_shown_not_raised(inspector, session, monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(type(session), "registers", broken)
    inspector.refresh()
    assert message(inspector) == "\u26a0 ZeroDivisionError: oops"


def test_a_complaint_goes_away_when_looking_works_again(inspector, session, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(type(session), "registers", lambda *_, **__: 1 / 0)
        inspector.refresh()
    inspector.refresh()
    assert message(inspector) == ""


def test_a_pinned_register_stays_on_top_whatever_is_searched_for(inspector):
    look_at(inspector, "n")
    press(inspector, "Pin")
    inspector._toolbar._search.value = "same"
    assert table(inspector).index("| n") < table(inspector).index("| same")
    press(inspector, "Unpin")
    assert "| n" not in table(inspector)


def test_a_watched_register_has_a_point_per_cell_and_worker(inspector, session, front):
    look_at(inspector, "x")
    press(inspector, "Watch")
    inspector._detail.face.value = "Over cells"
    assert "run a cell to see the first point" in detail(inspector)
    for step in range(3):
        front.shell.execution_count = step + 2
        session.run("x += 1")
        inspector.cell_ended()
        inspector.cell_ended()
    lines = inspector._watch.lines("x", "mean")
    assert [label for label, _ in lines[0]] == ["[1]", "[2]", "[3]"]
    assert [number for _, number in lines[2]] == [8.5, 9.5, 10.5]
    inspector.refresh()
    assert "<svg" in inspector._detail.html
    press(inspector, "Unwatch")
    assert "is not watched" in detail(inspector)


def test_a_register_that_is_renamed_stays_pinned_watched_and_looked_at(inspector, session):
    look_at(inspector, "x")
    press(inspector, "Pin")
    press(inspector, "Watch")
    session.run("pass")
    inspector.cell_ended()
    inspector._actions._text.value = "y"
    press(inspector, "Rename")
    session.sync_all()
    inspector.refresh()
    assert inspector._detail.name == "y"
    assert "y" in inspector._actions.pinned
    assert len(inspector._watch.lines("y", "mean")[0]) == 1


def test_what_would_fail_on_a_worker_is_refused_and_the_next_cell_works(inspector, session):
    session.run("if worker_id < 2: part = np.ones(3)")
    inspector.refresh()
    look_at(inspector, "part")
    inspector._actions._text.value = "other"
    for button in ("To worker 0", "Rename"):
        press(inspector, button)
        assert "part has no value on [2]; To all workers gives it one" in message(inspector)
    inspector._actions._source.value = 2
    for button in ("To all workers", "To notebook"):
        press(inspector, button)
        assert "part has no value on [2]; choose another worker" in message(inspector)
    assert session.run("1").values == [1, 1, 1]
    assert session.registers().row("part").cells[0].shape == (3,)


def test_acts_do_not_wait_for_a_table_that_is_drawn(inspector, session):
    drawing, go = threading.Event(), threading.Event()

    def slow(_):
        drawing.set()
        go.wait(PATIENCE_S)

    inspector._head.observe(slow, "value")
    session.run("later = 1")
    refresh = threading.Thread(target=inspector.refresh)
    refresh.start()
    drawing.wait(PATIENCE_S)
    stopped = threading.Event()
    inspector._actions._acts.interrupt = lambda *_: stopped.set() or "stopped"
    click = threading.Thread(target=inspector._actions._stop.click)
    click.start()
    assert stopped.wait(PATIENCE_S)
    go.set()
    refresh.join()
    click.join()


def test_a_register_that_goes_while_it_is_chosen_leaves_nothing_chosen(inspector):
    look_at(inspector, "gone")
    assert inspector._detail.name == ""


def test_a_watched_register_that_is_gone_is_a_gap_in_its_own_line_only(inspector, session):
    for name in ("x", "same"):
        look_at(inspector, name)
        press(inspector, "Watch")
    session.run("del x; same += 1")
    inspector.cell_ended()
    assert [number for _, number in inspector._watch.lines("x", "mean")[0]] == [None]
    assert [number for _, number in inspector._watch.lines("same", "mean")[0]] == [2.0]
    inspector.refresh()
    assert message(inspector).count("\u26a0") == 0


def test_typing_a_search_reads_nothing_again(inspector, session):
    session.run(
        "class Odd:\n    asked = 0\n"
        "    def __repr__(self):\n        Odd.asked += 1\n        return f'<{Odd.asked}>'\n"
        "odd = Odd()"
    )
    inspector.refresh()
    look_at(inspector, "odd", "values", (0,))
    until(lambda: "<1>" in detail(inspector), inspector)
    for text in ("o", "od", "odd"):
        inspector._toolbar._search.value = text
    assert "<1>" in detail(inspector)


def test_what_was_read_before_later_commands_says_so_until_it_is_read_again(inspector, session):
    look_at(inspector, "x")
    inspector._detail._exact.click()
    until(lambda: "statistics of all elements, when they were read" in detail(inspector), inspector)
    older = inspector._detail._older.layout
    assert older.display == "none"
    session.run("x[:] = 7")
    inspector.refresh()
    assert older.display is None
    inspector._toolbar.refresh.click()
    assert older.display == "none"


def test_a_restart_keeps_nothing_that_was_read_before(inspector, session):
    session.run("y = {'before': 1}")
    inspector.refresh()
    look_at(inspector, "y", "values", (0,))
    until(lambda: "before" in detail(inspector), inspector)
    session.restart()
    session.run("y = {'after': 1}")
    inspector.refresh()
    until(lambda: "after" in detail(inspector), inspector)


# --- life ------------------------------------------------------------------------------------------


def test_live_is_asked_for_by_its_switch(inspector):
    inspector.set_live(True)
    assert inspector.live
    inspector._toolbar.live.value = False
    assert not inspector.live


def test_a_closed_inspector_leaves_no_widget_and_no_thread(front, session, refresher):
    before = set(_instances)
    inspector = Inspector(front, refresher)
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
    gone = Inspector(front, refresher)
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
    other = Inspector(front, refresher)
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
    assert f".{name}," in inspector._still.hiding
    inspector.close()
    (still,) = inspector.bundles()
    assert "<table" in still["text/html"]


def test_without_a_chosen_register_the_still_is_the_table_of_all(inspector):
    still, _ = inspector.bundles()
    assert all(f"<code>{name}</code>" in still["text/html"] for name in ("x", "same", "n"))


def test_every_option_has_its_face():
    assert tuple(_BY_OPTION) == FACE_OPTIONS
    assert set(_BY_OPTION.values()) == set(FACES) - {"Over cells"}


def test_it_is_small_enough_to_be_sent_every_second(front, session, refresher):
    session.run(
        "for i in range(200): globals()[f'layer{i}'] = np.random.default_rng(worker_id).normal(size=(64, 64))"
    )
    inspector = Inspector(front, refresher)
    assert len(inspector._table.value.encode()) < 100_000


def test_comms_answer_where_a_click_was_sent_to():
    from disco_magic.notebook.live.comms import answer_while_busy

    class Comm:
        def _reply_subshell_for(self, data, default):
            return "the shell that is busy"

    widget, other = types.SimpleNamespace(comm=Comm()), types.SimpleNamespace(comm=object())
    answer_while_busy([widget, other, types.SimpleNamespace(comm=None)])
    assert widget.comm._reply_subshell_for({}, "as sent") == "as sent"
