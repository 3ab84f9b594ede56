"""Messages between workers in `session.timeline()`: who waited for whom."""

from __future__ import annotations

import pytest

from tests.session.conftest import asleep, cancelled, until


def test_messages_between_two_are_shown_with_the_waiting(gated, gate, clock):
    s = gated(2)
    pending = s.run_nowait("if worker_id:\n    gate(1)\n    send(1.0, 0)\nelse:\n    recv(1)")
    gate.arrived()
    asleep(s, 0)
    clock.now = 3.0
    gate.open()
    pending.wait()
    timeline = s.timeline()
    assert [span.label for span in timeline.lane(0)[1:]] == ["recv(source=1)"] * 2
    assert [span.source for span in timeline.lane(0)[1:]] == [None, 1]
    assert [span.label for span in timeline.lane(1)[1:]] == ["send(float, to=0)"]
    assert timeline.summary().workers[0].waiting_s == 3.0
    assert timeline.summary().collectives == 0


def test_messages_are_shown_with_their_tags(session):
    s = session(2)
    s.run("if worker_id:\n    send(1.0, 0, tag='loss')\nelse:\n    recv(1, tag='loss')")
    lanes = [s.timeline().lane(worker)[-1].label for worker in range(2)]
    assert lanes == ["recv(source=1, tag='loss')", "send(float, to=0, tag='loss')"]


def test_who_kept_those_that_were_stopped_in_messages_is_named(gated, gate, clock):
    s = gated(4)
    pending = s.run_nowait("if worker_id == 3: gate(0)\nelse: recv(worker_id + 1)")
    until(lambda: str(s.doctor()).count("waiting in recv") == 3)
    clock.now = 10.0  # long after all have begun
    cancelled(pending, gate)
    whole = s.timeline()
    assert [span.label for span in whole.lane(0) if span.failure] == ["recv(source=1)"]
    assert "for worker 3 in recv, all together" in whole.summary().sentence


@pytest.mark.parametrize(
    ("call", "waits", "label"),
    [
        ("recv(probe())", "probe of workers [1-2]", "probe(from=2)"),
        ("recv()", "recv from any of workers [1-2]", "recv's probe(from=2)"),
    ],
)
def test_the_wait_for_any_message_is_the_sender_s_in_the_timeline(gated, gate, call, waits, label):
    s = gated(3)
    cell = f"{call} if worker_id == 0 else (gate(0), send(1, 0)) if worker_id == 2 else None"
    pending = s.run_nowait(cell)
    until(lambda: f"waiting in {waits}" in str(s.doctor()))
    gate.arrived()
    gate.open()
    pending.wait()
    spans = [span for span in s.timeline().lane(0) if span.kind == "waiting"]
    assert [(span.label, span.source) for span in spans] == [(label, 2)]
    assert f"for worker 2 in {waits.partition(' ')[0]}, all together" in s.timeline().summary().sentence
