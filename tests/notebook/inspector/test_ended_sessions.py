"""The inspector without a session, and when its session ends or begins anew."""

from __future__ import annotations

import threading

from disco_magic.notebook.inspector.panel import Inspector
from disco_magic.notebook.live.views import everything_in
from disco_magic.session.config import ThreadedSession
from tests.notebook.inspector.user import PATIENCE_S, detail, look_at, message, table


def test_without_a_session_it_says_how_to_start_one_and_follows_the_first(front, session, refresher):
    front.sessions.session = None
    inspector = Inspector(front)
    assert "no session is running; %disco start makes one" in inspector._head.value
    assert table(inspector) == detail(inspector) == ""
    front.sessions.session = session
    session["x"] = session.store(5)
    session.sync_all()
    inspector.refresh()
    assert " x " in table(inspector)
    inspector.close()


def test_workers_that_were_busy_as_their_session_ended_are_not_looked_at_for_ever(front, inspector, session):
    began, go = threading.Barrier(4), threading.Event()
    session.call_packed(lambda: [began.wait(PATIENCE_S), go.wait(PATIENCE_S)])
    began.wait(PATIENCE_S)
    try:
        inspector.refresh()
        assert inspector.is_busy
        front.sessions.session = None
        inspector.refresh()
        assert not inspector.is_busy
    finally:
        go.set()


def test_what_a_session_had_at_its_end_stays_until_there_is_another_one(front, inspector, session):
    look_at(inspector, "x", "heatmap")
    drawn = inspector._detail.html
    front.sessions.session = None
    inspector.refresh()
    assert f"session {session.id} has ended; its registers as last seen" in inspector._head.value
    assert " x " in table(inspector)
    assert "<img" in inspector.bundles()[0]["text/html"]
    assert inspector._detail.html == drawn
    inspector._toolbar._search.value = "nothing like it"
    assert " x " not in table(inspector)
    inspector._toolbar._search.value = ""
    assert inspector._detail.html == drawn
    with ThreadedSession(2) as another:
        another.run("y = 1")
        front.sessions.session = another
        inspector.refresh()
        assert " x " not in table(inspector)
        assert detail(inspector) == ""
        look_at(inspector, "y")
        assert "y" in detail(inspector)


def test_a_last_look_while_the_session_ends_does_not_replace_the_one_before(
    inspector, session, front, monkeypatch
):
    look_at(inspector, "x", "heatmap")
    drawn, looked = inspector._detail.html, session.registers

    def too_late(**options):
        snapshot = looked(**options)
        session.shutdown()
        return type(snapshot)(snapshot.session_id, snapshot.num_workers, ())

    with monkeypatch.context() as ending:
        ending.setattr(session, "registers", too_late)
        inspector.refresh()
    assert " x " in table(inspector)
    assert inspector._detail.html == drawn
    with ThreadedSession(3) as another:
        another.run("x = np.eye(4)")
        front.sessions.session = another
        look_at(inspector, "x", "heatmap")
        drawn = inspector._detail.html
        monkeypatch.setattr(another, "examine", lambda *_, **__: another.shutdown() or [None] * 3)
        inspector.refresh()
        assert inspector._detail.html == drawn


def test_controls_that_ask_a_session_for_something_are_hidden_where_there_is_none(front, inspector, session):
    look_at(inspector, "x", "heatmap")
    asking = [
        inspector._toolbar.refresh,
        inspector._toolbar.live,
        inspector._toolbar.numbered,
        *inspector._actions.of_workers,
        inspector._actions.of_register,
        *inspector._detail._rows,
        inspector._detail._slices.box,
    ]
    before = [control.layout.display for control in asking]
    assert "none" not in before
    front.sessions.session = None
    inspector.refresh()
    assert {control.layout.display for control in asking} == {"none"}
    assert inspector._toolbar._search.layout.display != "none"
    assert inspector._detail._picture in everything_in(inspector._detail.box)
    assert inspector._detail._below.layout.display != "none"
    front.sessions.session = session
    inspector.refresh()
    assert [control.layout.display for control in asking] == before


def test_a_look_that_the_end_of_the_session_cuts_off_says_so(front, inspector, session):
    look_at(inspector, "x")
    begun, ended = threading.Event(), threading.Event()

    def endless(share):
        begun.set()
        while share(0.5):
            pass
        ended.set()
        return "all of it"

    inspector._detail._long.start(endless)
    begun.wait(PATIENCE_S)
    front.sessions.session = None
    inspector.refresh()
    assert ended.wait(PATIENCE_S)
    assert detail(inspector) == "| the session ended before all elements were read"
    inspector.refresh()
    assert detail(inspector) == "| the session ended before all elements were read"


def test_it_survives_a_restart_of_the_session(inspector, session):
    look_at(inspector, "x")
    session.restart()
    inspector.refresh()
    assert "no register to show" in table(inspector)
    assert message(inspector) == ""
    session.run("y = 1")
    inspector.refresh()
    assert "y" in table(inspector)
