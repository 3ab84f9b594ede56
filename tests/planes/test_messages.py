"""Messages between workers: who gets which, and what those who wait in vain are told."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from disco_magic.errors import Failure, PlaneAborted, PlaneMismatch, UsageMistake
from tests.planes.conftest import finish, seat, until_parked


def test_messages_of_different_senders_are_kept_apart(make):
    plane = make(3)
    plane.send(seat(1), 11, 0)
    plane.send(seat(2), 22, 0)
    assert plane.recv(seat(0), 2, None) == 22
    assert plane.recv(seat(0), 1, None) == 11


def test_an_empty_array_is_not_the_sender_s_own(make):
    plane, empty = make(2), np.empty((0, 3))
    plane.send(seat(1, count=2), empty, 0)
    got = plane.recv(seat(0, count=2), 1, None)
    assert (got is empty, got.shape, got.dtype) == (False, (0, 3), np.float64)


def test_messages_of_different_scopes_never_meet(make):
    plane = make(3)
    plane.send(seat(1, scope=2), "later", 0)
    plane.send(seat(1, scope=1), "now", 0)
    assert plane.recv(seat(0, scope=1), 1, None) == "now"
    plane.leave(0, 1)
    assert plane.recv(seat(0, scope=2), 1, None) == "later"


def test_a_message_outlives_its_senders_departure(make):
    plane = make(3)
    plane.send(seat(1), 5, 0)
    plane.leave(1, 1)
    assert plane.recv(seat(0), 1, None) == 5
    with pytest.raises(PlaneAborted, match="worker 1 finished without a send for recv from worker 1"):
        plane.recv(seat(0), 1, None)


def test_a_message_that_is_never_sent_is_asked_of_its_sender(make):
    plane = make(3)
    plane.leave(1, 1)
    with pytest.raises(PlaneAborted) as caught:
        plane.recv(seat(0), 1, None)
    first, *table = str(caught.value).splitlines()
    assert first.startswith("worker 1 finished without a send for recv from worker 1 that worker 0 waits in")
    assert first.endswith(" - it needs a send(..., 0) on worker 1 in the same command")
    assert [line.split()[:2] for line in table] == [["[0]", "waiting"], ["[1]", "finished"]]


def test_who_waits_for_the_wrong_worker_is_told_who_has_sent_it_a_message(make):
    plane = make(4)
    for sender in (2, 3):
        plane.send(seat(sender), np.zeros(3), 0)
    plane.send(seat(3)._replace(tag=1), np.zeros(3), 0)
    plane.leave(1, 1)
    with pytest.raises(PlaneAborted, match=r"same command; but workers \[2-3\] have sent it a message\n"):
        plane.recv(seat(0), 1, None)
    with pytest.raises(PlaneMismatch, match=r"is float64 \(2,\), what was sent is float64 \(3,\)"):
        plane.recv(seat(0), 2, np.empty(2))


def test_who_waits_in_vain_is_told_what_it_was_sent_instead(make):
    plane = make(3)
    plane.send(seat(1)._replace(tag="grads"), np.zeros(2), 0)
    plane.send(seat(2), np.zeros(3), 0)
    plane.send(seat(2, scope=2), np.zeros(4), 0)
    plane.leave(1, 1)
    with pytest.raises(PlaneAborted) as caught:
        plane.recv(seat(0)._replace(tag="grad"), 1, None)
    lines = [line.split(", sent at")[0] for line in str(caught.value).splitlines()[3:]]
    assert lines == [
        "  not received: float64 (2,) from worker 1 with tag 'grads'",
        "  not received: float64 (3,) from worker 2",
    ]


def test_of_many_messages_that_were_not_received_the_first_are_told(make):
    plane = make(3)
    for tag in range(1, 8):
        plane.send(seat(1)._replace(tag=tag), 1, 0)
    plane.leave(1, 1)
    with pytest.raises(PlaneAborted) as caught:
        plane.recv(seat(0), 1, None)
    *_, last, more = str(caught.value).splitlines()
    assert "tag 4" in last
    assert more == "  and 3 more"


@pytest.mark.parametrize(
    ("count", "told"),
    [(0, ""), (1, "; it has sent 1 before, which was"), (3, "; it has sent 3 before, all of")],
)
def test_who_waits_for_one_message_too_many_is_told_how_many_came(make, count, told):
    plane = make(3)
    for number in range(count):
        plane.send(seat(1), number, 0)
    assert [plane.recv(seat(0), 1, None) for _ in range(count)] == list(range(count))
    plane.leave(1, 1)
    with pytest.raises(PlaneAborted) as caught:
        plane.recv(seat(0), 1, None)
    first, *_ = str(caught.value).splitlines()
    assert first.partition(" in the same command")[2].startswith(told)
    assert ("before" in first) == bool(count)
    for worker in range(3):
        plane.leave(worker, 1)
    assert plane._mailbox._sent == [{}, {}, {}]


def test_what_was_sent_before_is_forgotten_with_the_next_message(make):
    plane = make(2)
    for scope in (1, 2, 3):
        for tag in range(4):
            plane.send(seat(1, scope=scope, count=2)._replace(tag=tag), 1, 0)
            plane.recv(seat(0, scope=scope, count=2)._replace(tag=tag), 1, None)
        plane.left[:] = [scope, scope]  # as a driver does where nobody waits
    assert len(plane._mailbox._sent[0]) == 4


def test_workers_that_wait_for_each_other_are_told_how_many_messages_came(make, run):
    def one_too_many(plane, seat):
        if seat.worker == 0:
            for _ in range(2):
                plane.send(seat, 1, 1)
            return plane.recv(seat, 1, None)
        return [plane.recv(seat, 0, None) for _ in range(3)]

    said = str(run(make(2), one_too_many, 1)[0])
    assert " - it needs worker 0, of which it has received 2\n" in said
    assert said.count("of which it has received") == 1


def test_messages_with_a_tag_are_told_by_it(make):
    plane = make(3)
    plane.send(seat(1)._replace(tag=3), np.zeros(2), 0)
    [text] = plane.unread(0, 1)
    assert text.startswith("float64 (2,) from worker 1 with tag 3, sent at ")
    plane.leave(1, 1)
    said = "recv from worker 1 with tag 'grad' that .* is for tag 'grad', and worker 1 finished"
    with pytest.raises(PlaneAborted, match=f"{said} after sending with tag 3 - send and receive with the"):
        plane.recv(seat(0)._replace(tag="grad"), 1, None)
    plane.leave(2, 1)
    asked = (
        "for recv from worker 2 with tag 'grad' that .* it needs a send\\(..., 0, tag='grad'\\) on worker 2"
    )
    with pytest.raises(PlaneAborted, match=asked):
        plane.recv(seat(0)._replace(tag="grad"), 2, None)


def test_those_who_wait_for_each_others_tags_are_told_which(make, run):
    plane = make(2)

    def program(plane, mine):
        plane.send(mine._replace(tag=1), 1, 1 - mine.worker)
        plane.recv(mine._replace(tag=2), 1 - mine.worker, None)

    for error in run(plane, program, 1):
        assert isinstance(error, PlaneMismatch)
        assert "worker 1 waits in recv from worker 0 with tag 2 at" in str(error)
        assert "not received: int64 () from worker 1 with tag 1, sent at" in str(error)
        assert str(error).endswith(
            "Receive what was sent: from the worker that has sent it, with the same tag."
        )


@pytest.mark.parametrize(("tag", "said"), [(0, ""), (1, " with tag 1"), ("grad", " with tag 'grad'")])
def test_sending_to_a_worker_that_has_finished_names_both(make, tag, said):
    plane = make(3)
    plane.leave(2, 1)
    text = (
        rf"worker 2 has finished without receiving the int64 \(3,\){said} that worker 0 sends it at .*, line "
    )
    with pytest.raises(PlaneAborted, match=rf"{text}\d+ - each send needs a recv on worker 2 in the same"):
        plane.send(seat(0)._replace(tag=tag), np.arange(3), 2)


def test_sending_to_a_worker_that_has_failed_says_so(make):
    plane = make(2)
    failed = Failure(1, 1, "Cell 1", ValueError("boom"), "ValueError: boom")
    plane.leave(1, 1, failed)
    text = "worker 1 has failed without receiving .* - worker 1 failed: ValueError: boom"
    with pytest.raises(PlaneAborted, match=text) as caught:
        plane.send(seat(0), np.arange(3), 1)
    assert caught.value.failure is failed  # who has sent it follows from that one


def test_a_received_array_is_the_receivers_own(make):
    plane = make(3)
    for x in (np.arange(6.0), np.arange(6.0)[::2], np.arange(6.0).reshape(2, 3).T):
        plane.send(seat(0), x, 0)
        got = plane.recv(seat(0), 0, None)
        assert not np.may_share_memory(got, x)
        got += 1
        np.testing.assert_array_equal(got, x + 1)


def test_an_object_that_lends_its_own_array_is_copied(make):
    class Lender:
        array = np.zeros(3)

        def __array__(self, dtype=None, copy=None):
            return self.array

    plane = make(3)
    plane.send(seat(0), Lender(), 1)
    Lender.array += 1
    assert plane.recv(seat(1), 0, None).tolist() == [0, 0, 0]


@pytest.mark.parametrize("out", [np.empty(4), np.empty(3, "f4"), np.frombuffer(bytes(24))])
def test_an_out_that_does_not_fit_names_what_came_and_from_where(make, out):
    plane = make(3)
    plane.send(seat(1), np.zeros(3), 0)
    with pytest.raises(
        PlaneMismatch, match=r"(?s)recv: out of worker 0 .*received: float64 \(3,\) from worker 1, sent"
    ):
        plane.recv(seat(0), 1, out)


def test_unread_names_the_messages_of_that_scope_only(make):
    plane = make(3)
    plane.send(seat(1, scope=1), np.zeros(3), 0)
    plane.send(seat(1, scope=2), 1, 0)
    [text] = plane.unread(0, 1)
    assert text.startswith("float64 (3,) from worker 1, sent at ")
    plane.leave(0, 1)
    assert plane.unread(0, 1) == []
    assert len(plane.unread(0, 2)) == 1


def test_who_has_received_everything_has_nothing_unread_while_messages_of_the_next_scope_wait(make):
    plane = make(2)
    plane.send(seat(1, scope=1), 1.0, 0)
    assert plane.recv(seat(0, scope=1), 1, None) == 1.0
    plane.send(seat(1, scope=2), 2.0, 0)
    assert plane.unread(0, 1) == []


def test_of_many_unread_messages_the_first_are_named(make):
    # A pipeline whose `recv` is missing leaves one for each of its thousands of micro-batches.
    plane = make(2)
    for k in range(3_000):
        plane.send(seat(1), np.zeros(k), 0)
    first, *others, more = plane.unread(0, seat(0).scope)
    assert first.startswith("float64 (0,) from worker 1, sent at ")
    assert len(others) < 10
    assert more == f"{3_000 - 1 - len(others):,} more"


def test_a_worker_that_did_not_get_the_command_cannot_be_written_to(make):
    plane = make(3)
    with pytest.raises(UsageMistake, match=r"to=2, but this command was sent to workers \[0-1\] only"):
        plane.send(seat(0, present=(0, 1)), 1, 2)
    with pytest.raises(UsageMistake, match="source=2"):
        plane.recv(seat(0, present=(0, 1)), 2, None)


def test_an_announcement_for_any_worker_releases_whoever_sends(make):
    plane = make(3)
    waiting = seat(1)._replace(rendezvous=True)
    plane.announce(seat(0), None)
    plane.send(waiting, 1, 0)
    sent = plane.send(seat(2), 2, 0)
    assert sent.taken is None
    plane.announce(seat(0), None)
    assert sent.taken is not None
    assert [plane.recv(seat(0), source, None) for source in (1, 2)] == [1, 2]
    for worker in range(3):
        plane.leave(worker, 1)
    assert plane._mailbox._announced == [{}, {}, {}]


def test_announcements_are_taken_in_their_order_whether_they_name_a_source_or_not(make):
    plane = make(3)
    plane.announce(seat(0), None)
    plane.announce(seat(0), 1)
    sent = [plane.send(seat(source), source, 0) for source in (1, 2, 1)]
    assert [each.taken is not None for each in sent] == [True, False, True]


def test_the_failure_that_ended_a_collective_is_told_also_if_another_one_has_just_finished(make):
    plane = make(3)
    told = []

    def waits():
        try:
            plane.barrier(seat(0))
        except PlaneAborted as error:
            told.append(error)

    thread = threading.Thread(target=waits, daemon=True)
    thread.start()
    until_parked(plane, 1)
    plane.left[1] = 1  # as a driver does before it calls `leave`
    plane.leave(2, 1, Failure(2, 1, "Cell 1", ValueError("boom"), ""))
    finish(plane, [thread])
    assert str(told[0]).startswith("worker 2 failed: ValueError: boom - without it, barrier()")
    assert told[0].failure.worker == 2
