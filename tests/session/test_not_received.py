"""Whoever waits in a collective is told what it was sent meanwhile and has not received."""

from __future__ import annotations

import re

import pytest

from disco_magic.core.doctor import Diagnosis, Position
from disco_magic.errors import CellError, SyncTimeout
from disco_magic.notebook.tables.reports import diagnosis_html
from tests.conftest import until

SENT = "not received by worker 1: float64 (2,) from worker 0, sent at "


def failed(s, cell):
    with pytest.raises(CellError) as caught:
        s.run(cell)
    return caught.value


def test_where_a_member_has_finished_that_has_sent_one_a_message(session):
    error = failed(session(3), "if worker_id == 0:\n    send(np.ones(2), 1)\nelse:\n    barrier()")
    assert "worker 0 finished without joining barrier()" in str(error)
    assert re.search(re.escape(SENT) + r"Cell \d+, line 2$", str(error).rstrip())


def test_where_workers_wait_for_each_other(session):
    error = failed(
        session(2), "if worker_id == 0:\n    send(np.ones(2), 1)\n    recv(1)\nelse:\n    barrier()"
    )
    assert "workers [0-1] wait for each other in a circle" in str(error)
    assert f"\n  {SENT}" in str(error)


def test_not_where_a_member_has_failed_which_explains_it(session):
    error = failed(session(2), "if worker_id == 0:\n    send(1, 1)\n    1 / 0\nbarrier()")
    assert "not received" not in str(error)


def test_the_first_of_many(session):
    cell = "if worker_id == 0:\n    for _ in range(1001): send(np.ones(2), 1)\nelse:\n    barrier()"
    lines = str(failed(session(2), cell)).splitlines()
    assert sum(SENT in line for line in lines) == 4
    assert lines[-1] == "  not received by worker 1: 997 more"


def test_while_it_waits(gated):
    s = gated(2)
    cell = s.run_nowait("if worker_id == 0:\n    send(np.ones(2), 1)\n    gate()\nbarrier()")
    until(lambda: s.doctor().positions[1].unread)
    line = f"  not received yet by worker 1: float64 (2,) from worker 0, sent at {cell.label}, line 2"
    assert str(s.doctor()).splitlines()[-1] == line
    with pytest.raises(SyncTimeout) as caught:
        s.sync_all(timeout=0)
    assert line in str(caught.value)


def test_in_the_table_of_a_notebook():
    waiting = Position(0, "waiting", "Cell 1", "Cell 1, line 6", "barrier()", (1,), 1.5, unread=("<x> from",))
    html = diagnosis_html(Diagnosis(3, (waiting, Position(1, "executing", "Cell 1"))))
    assert "<br>not received yet by worker 0: &lt;x&gt; from</caption>" in html
