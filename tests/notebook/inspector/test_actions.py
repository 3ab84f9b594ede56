"""What an inspector's buttons do, and what it says when they cannot."""

from __future__ import annotations

import threading

from disco_magic.core.snapshot import RegisterInfo
from disco_magic.notebook.inspector.table import PIN
from disco_magic.notebook.inspector.watch import Watch
from tests.notebook.inspector.user import PATIENCE_S, detail, look_at, message, press, table, until


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


def test_what_was_said_fades_two_cells_later_and_at_once_if_it_is_about_another_session(
    inspector, session, front
):
    look_at(inspector, "x")
    press(inspector, "Delete")
    front.shell.execution_count += 1
    inspector.refresh()
    assert "click again to delete x" in message(inspector)
    front.shell.execution_count += 1
    inspector.refresh()
    assert message(inspector) == ""
    press(inspector, "Pin")
    assert "stays on top" in message(inspector)
    session.restart()
    inspector.refresh()
    assert message(inspector) == ""


def test_what_was_said_fades_when_the_user_looks_at_something_else(inspector):
    look_at(inspector, "x")
    press(inspector, "Pin")
    assert "stays on top" in message(inspector)
    look_at(inspector, "same")
    assert message(inspector) == ""


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
    assert table(inspector).index(f"{PIN} n") < table(inspector).index("| same")
    press(inspector, "Unpin")
    assert f"{PIN} n" not in table(inspector)
    assert "| n" not in table(inspector)


def test_a_picture_that_is_told_twice_for_one_cell_is_one_point():
    watch, small, large = Watch(), RegisterInfo("int", text="1"), RegisterInfo("int", text="100")
    watch.add("x")
    for label, picture in (("[1]", small), ("[1]", small), ("[1]", large), ("[2]", large), ("[2]", large)):
        watch.note("x", label, [picture])
    assert list(watch.points["x"]) == [("[1]", (small,)), ("[1]", (large,)), ("[2]", (large,))]


def test_a_name_that_goes_to_another_watched_register_is_watched():
    watch = Watch()
    watch.add("x")
    watch.add("y")
    watch.rename("x", "y")
    assert watch.names == set(watch.points) == {"y"}


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
