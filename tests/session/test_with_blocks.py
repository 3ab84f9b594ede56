"""The end of a session's ``with`` block: what it waits for, and what it raises."""

from __future__ import annotations

import threading

import pytest

import disco_magic as disco
from tests.session.conftest import interrupt_main


def test_a_with_block_raises_what_failed_in_cells_that_nobody_waited_for():
    with pytest.raises(disco.WorkerError, match="ZeroDivisionError"), disco.ThreadedSession(2) as s:
        handle = s.run_nowait("1 / 0")
    assert handle.done()


def test_a_with_block_does_not_raise_again_what_a_handle_has_told():
    with disco.ThreadedSession(2) as s:
        told, fine, cancelled = s.run_nowait("1 / 0"), s.run_nowait("1"), s.run_nowait("while True: pass")
        with pytest.raises(disco.CellError):
            told.wait()
        cancelled.cancel()
    assert fine.done()


def test_ctrl_c_at_the_end_of_a_with_block_does_not_wait_for_those_who_go_on(gate, monkeypatch):
    grace, shutdown = [], disco.ThreadedSession.shutdown

    def noted(self, timeout=5.0):
        grace.append(timeout)
        shutdown(self, timeout=0.0)

    monkeypatch.setattr(disco.ThreadedSession, "shutdown", noted)
    presser = threading.Thread(target=interrupt_main)

    def program():
        with disco.ThreadedSession(2) as s:
            s.call_packed(gate)
            gate.arrived(2)
            presser.start()

    with pytest.raises(KeyboardInterrupt):
        program()
    presser.join()
    gate.open()
    assert grace[0] == 0.0
