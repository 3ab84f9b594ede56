"""Probes: who looks for a message of any of several, and what it is told if none can come."""

from __future__ import annotations

import numpy as np
import pytest

from disco_magic.errors import Failure, PlaneAborted, PlaneMismatch, UsageMistake
from tests.planes.conftest import seat


def test_a_probe_finds_the_sender_of_the_oldest_message_and_leaves_it_there(make):
    plane = make(3)
    plane.send(seat(2), 22, 0)
    plane.send(seat(1), 11, 0)
    plane.send(seat(0), 0, 0)
    assert [plane.probe(seat(0), None) for _ in range(2)] == [2, 2]
    assert plane.probe(seat(0), [1]) == 1
    assert plane.recv(seat(0), 2, None) == 22
    assert plane.probe(seat(0), [0, 1, 2]) == 1
    assert plane.recv(seat(0), 1, None) == 11
    assert plane.probe(seat(0), None) == 0


def test_a_probe_looks_for_one_tag_in_one_scope(make):
    plane = make(3)
    plane.send(seat(1, scope=2), 1, 0)
    plane.send(seat(1)._replace(tag="a"), 1, 0)
    plane.send(seat(2), 1, 0)
    assert plane.probe(seat(0), None) == 2
    assert plane.probe(seat(0)._replace(tag="a"), None) == 1


def test_a_probe_whose_sources_have_all_left_tells_what_came_instead(make):
    plane = make(3)
    plane.send(seat(1)._replace(tag="grads"), np.zeros(2), 0)
    plane.leave(1, 1)
    plane.leave(2, 1, Failure(2, 1, "cell", ValueError("no data"), "Traceback ..."))
    with pytest.raises(PlaneAborted) as caught:
        plane.probe(seat(0)._replace(tag="grad"), None)
    first, *rest = str(caught.value).splitlines()
    assert first.startswith(
        "worker 2 failed: ValueError: no data - without it, probe of workers [1-2] with tag 'grad'"
    )
    assert rest[-1].startswith("  not received: float64 (2,) from worker 1 with tag 'grads', sent at")
    with pytest.raises(
        PlaneAborted, match="is for tag 0, and worker 1 finished after sending with tag 'grads'"
    ):
        plane.probe(seat(0), [1])


def test_a_probe_of_nobody_but_present_workers(make):
    plane = make(3)
    with pytest.raises(UsageMistake, match=r"probe: source=2, but this command was sent to workers \[0-1\]"):
        plane.probe(seat(0, present=(0, 1)), [2])
    with pytest.raises(UsageMistake, match="probe: source=3 is not a worker"):
        plane.probe(seat(0), [3])
    with pytest.raises(UsageMistake, match=r"from 0 to 2 - probe\(\) takes a message from any worker$"):
        plane.probe(seat(0), [-1])
    plane.leave(1, 1)
    with pytest.raises(PlaneAborted, match="worker 1 finished without a send for probe of wor"):
        plane.probe(seat(0, present=(0, 1)), None)
    with pytest.raises(PlaneMismatch, match="worker 0 waits for itself in probe of worker 0"):
        plane.probe(seat(0, present=(0,)), None)


def test_a_source_that_is_named_twice_is_one(make):
    plane = make(3)
    plane.leave(1, 1)
    with pytest.raises(PlaneMismatch, match="worker 0 waits for itself"):
        plane.probe(seat(0), [0, 0])
    with pytest.raises(PlaneAborted, match="worker 1 finished without a send for probe of worker 1 that"):
        plane.probe(seat(0), [1, 1])


def test_the_failure_of_one_that_could_have_sent_is_told_to_those_that_wait_for_each_other(make, run):
    def farm(plane, mine):
        if mine.worker == 0:
            plane.probe(mine, None)
        elif mine.worker == 1:
            plane.recv(mine, 0, None)
        else:
            raise ValueError("no data")

    errors = run(make(3), farm, 1)
    assert [type(error) for error in errors] == [PlaneAborted, PlaneAborted, ValueError]
    assert {error.failure.worker for error in errors[:2]} == {2}
    first, *rest = str(errors[0]).splitlines()
    assert first.startswith("worker 2 failed: ValueError: no data - without it, workers [0-1] wait for each ")
    assert " - it needs worker 1; worker 2 has left the command" in rest[0]


def test_who_has_come_to_a_collective_of_a_circle_by_chance_is_not_told(make, run):
    def crossed(plane, mine):
        if mine.worker == 0:
            plane.probe(mine, [2])
        else:
            plane.barrier(mine)

    said = str(run(make(3), crossed, 1)[1])
    assert said.startswith("workers [0,2] wait for each other, and none can continue\n")
    assert "  worker 2 waits in barrier() of workers [0-2] at " in said
    assert "worker 1" not in said


def test_a_look_for_a_message_does_not_wait(make):
    plane = make(3)
    assert plane.iprobe(seat(0), None) is None
    plane.send(seat(2), 22, 0)
    assert plane.iprobe(seat(0), None) == 2
    assert plane.iprobe(seat(0), [1]) is None
    assert plane.recv(seat(0), 2, None) == 22
    plane.leave(1, 1)
    assert plane.iprobe(seat(0), None) is None
    plane.leave(2, 1)
    with pytest.raises(PlaneAborted, match=r"workers \[1-2\] finished without a send for iprobe of wor"):
        plane.iprobe(seat(0), None)
    with pytest.raises(UsageMistake, match="iprobe: source=3 is not a worker"):
        plane.iprobe(seat(0), [3])


def test_workers_of_whom_one_waits_for_any_are_told_what_each_needs(make, run):
    def nobody_sends(plane, seat):
        if seat.worker == 0:
            plane.probe(seat, None)
        elif seat.worker == 1:
            plane.recv(seat, 0, None)

    said = str(run(make(3), nobody_sends, 1)[0])
    assert said.startswith("workers [0-1] wait for each other, and none can continue\n")
    assert " - it needs worker 1; worker 2 has left the command\n" in said
    assert " - it needs worker 0\n" in said
    assert said.endswith("Send before you receive: send does not wait.")


def test_a_message_that_is_beside_the_point_changes_no_advice(make, run):
    def program(plane, mine):
        if mine.worker == 2:
            plane.send(mine._replace(tag="later"), 1, 0)
        plane.barrier(mine)
        if mine.worker < 2:
            plane.recv(mine, 1 - mine.worker, None)

    assert str(run(make(3), program, 1)[0]).endswith("Send before you receive: send does not wait.")
