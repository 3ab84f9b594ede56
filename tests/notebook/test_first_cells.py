"""The first cell starts a session, also where two are the first."""

from __future__ import annotations

import threading

from disco_magic.notebook.keeper import SessionKeeper
from disco_magic.session.current import open_sessions
from tests.conftest import DEADLINE_S


def test_two_first_cells_have_one_session(shell, monkeypatch):
    start, waiting = SessionKeeper.start, threading.Event()
    begun = []

    def slow(keeper, *args):
        begun.append(threading.Thread(target=second))
        begun[0].start()
        assert waiting.wait(DEADLINE_S)
        return start(keeper, *args)

    def second():
        waiting.set()
        shell.ip.run_cell_magic("disco", "", "y = 1")

    monkeypatch.setattr(SessionKeeper, "start", slow)
    shell.run("%config DiscoMagics.workers = 2")
    shell.run("%%disco\nx = 1")
    begun[0].join(DEADLINE_S)
    assert len(begun) == 1
    assert len(open_sessions()) == 1
    assert shell.run("%%disco\nx + y").values == [2, 2]
