"""Senders that wait until their message is asked for."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from disco_magic.core.seat import Seat
from disco_magic.errors import Failure, PlaneAborted, PlaneMismatch


def seat(worker, scope=1, count=3, **more):
    return Seat(worker, tuple(range(count)), scope, rendezvous=True, **more)


@pytest.fixture
def waiting(make, until_parked):
    """A plane, and a thread in which worker 0 sends to worker 1, asleep; what it has raised."""
    plane, raised = make(3), []

    def send():
        try:
            plane.send(seat(0), np.ones(2, "f4"), 1)
        except PlaneAborted as error:
            raised.append(error)

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    until_parked(plane, 1)
    yield plane, thread, raised
    plane.close()
    thread.join()


def test_the_sender_sleeps_until_its_message_is_received(waiting):
    plane, thread, raised = waiting
    assert plane.waiting[0].missing() == [1]
    np.testing.assert_array_equal(plane.recv(seat(1), 0, None), np.ones(2, "f4"))
    thread.join()
    assert raised == []
    assert plane.waiting == {}


def test_it_is_told_what_it_waits_in(waiting):
    plane, _, _ = waiting
    said, site = plane.waiting[0].call_of(0)
    assert said == "send to worker 1 of float32 (2,)"
    assert "test_deliveries.py" in site


def test_a_receiver_that_will_come_is_enough(waiting):
    plane, thread, raised = waiting
    plane.announce(seat(1), 0)
    thread.join()
    assert raised == []
    assert plane.unread(1, 1) != []


def test_other_messages_that_are_received_do_not_wake_it(waiting):
    plane, thread, _ = waiting
    plane.send(seat(0)._replace(tag="b", rendezvous=False), 5.0, 1)
    assert plane.recv(seat(1)._replace(tag="b"), 0, None) == 5.0
    assert list(plane.waiting) == [0]
    plane.recv(seat(1), 0, None)
    thread.join()


def test_a_receiver_that_finishes_releases_it(waiting):
    plane, thread, raised = waiting
    plane.leave(1, 1)
    thread.join()
    first, *table = str(raised[0]).splitlines()
    assert first.startswith(
        "worker 1 finished without a recv for send to worker 1 of float32 (2,) that worker 0 waits in at "
    )
    assert first.endswith(" - it needs a recv(0) on worker 1 in the same command")
    assert [line.split()[:2] for line in table] == [["[0]", "waiting"], ["[1]", "finished"]]


def test_a_receiver_that_fails_releases_it_with_the_reason(waiting):
    plane, thread, raised = waiting
    plane.leave(1, 1, Failure(1, 1, "Cell 1", ValueError("boom"), ""))
    thread.join()
    assert str(raised[0]).startswith("worker 1 failed: ValueError: boom - without it, send to worker 1 of")


def test_an_abort_releases_it(waiting):
    plane, thread, raised = waiting
    plane.abort(1, "stopped")
    thread.join()
    assert str(raised[0]).startswith("stopped - send to worker 1 of float32 (2,) that worker 0 waits in")


def test_one_that_is_interrupted_itself_is_released(waiting):
    plane, thread, raised = waiting
    plane.leave(0, 1)
    thread.join()
    assert str(raised[0]).startswith("worker 0 left while it was in send to worker 1")


def test_the_tag_is_named_in_what_is_missing(make):
    plane = make(3)
    sent = plane.send(seat(0, tag=3)._replace(rendezvous=False), 1, 1)
    plane.leave(1, 1)
    with pytest.raises(
        PlaneAborted, match=r" with tag 3 that worker 0 .* it needs a recv\(0, tag=3\) on worker 1"
    ):
        plane.deliver(seat(0, tag=3), sent)


def test_an_announcement_holds_for_one_message(make, until_parked):
    plane = make(3)
    plane.announce(seat(1), 0)
    plane.send(seat(0), 1, 1)  # does not wait
    thread = threading.Thread(target=plane.send, args=(seat(0), 2, 1), daemon=True)
    thread.start()
    until_parked(plane, 1)
    assert plane.recv(seat(1), 0, None) == 1
    assert list(plane.waiting) == [0]
    assert plane.recv(seat(1), 0, None) == 2
    thread.join()


def test_who_has_announced_a_message_and_waits_for_it_has_announced_no_other(make, until_parked):
    plane, got = make(3), []
    plane.announce(seat(1), 0)
    receiver = threading.Thread(target=lambda: got.append(plane.recv(seat(1), 0, None)), daemon=True)
    receiver.start()
    until_parked(plane, 1)
    plane.send(seat(0), 1, 1)
    receiver.join()
    sender = threading.Thread(target=plane.send, args=(seat(0), 2, 1), daemon=True)
    sender.start()
    until_parked(plane, 1)
    assert plane.recv(seat(1), 0, None) == 2
    sender.join()
    assert got == [1]


def test_announcements_end_with_their_scope(make, until_parked):
    plane = make(3)
    plane.announce(seat(1, scope=1), 0)
    for worker in range(3):
        plane.leave(worker, 1)
    thread = threading.Thread(target=plane.send, args=(seat(0, scope=2), 2, 1), daemon=True)
    thread.start()
    until_parked(plane, 1)
    assert plane.recv(seat(1, scope=2), 0, None) == 2
    thread.join()
    assert plane._mailbox._announced == [{}, {}, {}]


def test_who_sends_to_itself_is_told_that_nobody_else_receives_it(make):
    with pytest.raises(
        PlaneMismatch, match=r"worker 2 waits for itself in send to worker 2 .* nobody else can"
    ):
        make(3).send(seat(2), 1, 2)


def test_one_that_has_gone_on_to_another_scope_hears_that_nobody_will_receive_it(make):
    plane = make(3)
    sent = plane.send(seat(0)._replace(rendezvous=False), 1, 1)
    plane.leave(0, 1)
    plane.leave(1, 1)
    with pytest.raises(PlaneAborted, match="worker 1 finished without a recv"):
        plane.deliver(seat(0, scope=2), sent)


def test_senders_that_wait_for_each_other_are_told_so(make, run):
    def exchange(plane, seat):
        other = 1 - seat.worker
        plane.send(seat._replace(rendezvous=True), np.ones(3), other)
        return plane.recv(seat, other, None)

    outcomes = run(make(2), exchange, 1)
    assert {type(each) for each in outcomes} == {PlaneMismatch}
    first, *rows, why, hint = str(outcomes[0]).splitlines()
    assert first == "workers [0-1] wait for each other in a circle, and none can continue"
    assert sorted(row.split(" at ")[0] for row in rows) == [
        "  worker 0 waits in send to worker 1 of float64 (3,)",
        "  worker 1 waits in send to worker 0 of float64 (3,)",
    ]
    assert why == "  In this cell (--rendezvous) a send waits until the receiver asks for its message."
    assert hint == "  Let one of them receive first."


def test_a_sender_and_a_receiver_with_another_tag_are_told_of_the_tag(make, run):
    def program(plane, mine):
        if mine.worker == 0:
            plane.send(mine._replace(tag=2, rendezvous=True), np.ones(2), 1)
        else:
            plane.recv(mine._replace(tag=1), 0, None)

    for error in run(make(2), program, 1):
        *_, unread, hint = str(error).splitlines()
        assert unread.startswith("  not received: float64 (2,) from worker 0 with tag 2, sent at ")
        assert hint == "  Receive what was sent: from the worker that has sent it, with the same tag."


def test_a_sender_and_a_collective_that_wait_for_each_other_are_told_of_the_order(make, run):
    def crossed(plane, seat):
        if seat.worker == 0:
            plane.send(seat._replace(rendezvous=True), 1, 1)
        plane.barrier(seat)

    outcomes = run(make(2), crossed, 1)
    assert {type(each) for each in outcomes} == {PlaneMismatch}
    assert str(outcomes[0]).endswith("send and recv in the same order on all workers.")
    assert "(--rendezvous)" in str(outcomes[0])
