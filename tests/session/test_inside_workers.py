"""What a worker may not ask of its own session: it would wait for itself."""

from __future__ import annotations

import pytest

from disco_magic.errors import CellError, UsageMistake
from tests.conftest import until


@pytest.mark.parametrize(
    "call",
    ["s.sync_all()", "s.run('1')", "ref.get(0)", "s.shutdown()", "s.restart()", "pending.wait()"],
)
def test_a_wait_for_the_own_session_is_refused(session, call):
    s = session(2)
    ref = s.call_packed(int)
    pending = s.run_nowait("1")
    pending_result = pending.wait()
    namespaces = [worker.registers.names for worker in s._launcher.workers]
    for names in namespaces:
        names.update(s=s, ref=ref, pending=s.run_nowait("2"))
    with pytest.raises(CellError) as caught:
        s.run(call)
    assert {type(failure.exception) for failure in caught.value.failures.values()} == {UsageMistake}
    assert "would wait for itself" in str(caught.value)
    assert s.run("worker_id").values == [0, 1]
    assert pending_result.values == [1, 1]
    for names in namespaces:
        names.clear()


def test_an_asynchronous_call_from_a_worker_is_executed_after_the_cell(session):
    s = session(1)
    s._launcher.workers[0].registers.names.update(s=s, done=[])
    s.run("s.call_packed(done.append, 7)\nbefore = list(done)")
    s.sync_all()
    assert s.run("(before, done)").values == [([], [7])]
    s._launcher.workers[0].registers.names.clear()


@pytest.mark.parametrize("ask", ["inner.run(LOOP)", "inner.run_nowait(LOOP).wait()"])
def test_who_stops_a_cell_stops_the_cell_of_another_session_that_it_waits_for(session, gated, gate, ask):
    outer, inner = session(1), gated(2)
    outer.put("LOOP", "gate()\nwhile True: pass")
    outer._launcher.workers[0].registers.names.update(inner=inner)
    waiting = outer.run_nowait(ask)
    gate.arrived(2)
    gate.open()
    waiting.cancel()
    with pytest.raises(CellError):
        waiting.wait()
    until(lambda: {each.state for each in inner.doctor().positions} == {"idle"})
    assert inner.run("allreduce(1)").values == [2, 2]
    outer._launcher.workers[0].registers.names.clear()
