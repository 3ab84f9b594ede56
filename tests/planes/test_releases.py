from __future__ import annotations

import threading

import numpy as np
import pytest

from disco_magic.callers import sites
from disco_magic.core.seat import Seat
from disco_magic.errors import Failure, PlaneAborted, PlaneError, PlaneMismatch, WorkerInterrupt

sites.label("<cell 3>", "Cell In[3]")


def cell(source, line):
    """A program made of `source` at that line of Cell In[3]."""
    code = compile("\n" * (line - 1) + source, "<cell 3>", "eval")
    return lambda plane, seat: eval(code, {"plane": plane, "seat": seat, "np": np})  # noqa: S307 - the cell


ALLREDUCE = cell("plane.allreduce(seat, np.zeros(3, 'f4'), 'sum', None)", 4)


def failure(worker, error):
    return Failure(worker, 1, "Cell In[3]", error, "")


def background(plane, program, worker, scope=1, size=None):
    """Start one worker; a list that gets its outcome, and its thread."""
    outcome = []

    def work():
        try:
            outcome.append(program(plane, Seat(worker, tuple(range(size or len(plane.left))), scope)))
        except PlaneError as error:
            outcome.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return outcome, thread


def ended(*started):
    for _, thread in started:
        thread.join(30)
        assert not thread.is_alive()
    return [outcome[0] for outcome, _ in started]


def test_a_worker_that_leaves_is_named_with_what_the_others_wait_in(make, until_parked):
    plane = make(3)
    waiting = [background(plane, ALLREDUCE, worker) for worker in (0, 1)]
    until_parked(plane, 2)
    plane.leave(2, 1)
    for error in ended(*waiting):
        assert type(error) is PlaneAborted
        assert str(error) == (
            "worker 2 finished without joining allreduce(float32 (3,), op=sum) that workers [0-1] wait in at"
            " Cell In[3], line 4 - workers [0-2] all have to make this call\n"
            "  [0-1] waiting in allreduce(float32 (3,), op=sum) at Cell In[3], line 4\n"
            "  [2] finished"
        )
        assert error.failure is None


def test_a_worker_that_fails_is_named_with_its_error(make, until_parked):
    plane = make(2)
    waiting = background(plane, ALLREDUCE, 0)
    until_parked(plane, 1)
    origin = failure(1, ZeroDivisionError("division by zero"))
    plane.leave(1, 1, origin)
    [error] = ended(waiting)
    assert str(error) == (
        "worker 1 failed: ZeroDivisionError: division by zero - without it, allreduce(float32 (3,), op=sum)"
        " that worker 0 waits in at Cell In[3], line 4 cannot complete\n"
        "  [0] waiting in allreduce(float32 (3,), op=sum) at Cell In[3], line 4\n"
        "  [1] failed: ZeroDivisionError: division by zero"
    )
    assert error.failure is origin


def test_who_comes_after_a_member_left_is_told_at_once_and_why(make):
    plane = make(2)
    origin = failure(1, ValueError("late"))
    plane.leave(1, 1, origin)
    with pytest.raises(PlaneAborted, match="worker 1 failed: ValueError: late") as raised:
        ALLREDUCE(plane, Seat(0, (0, 1), 1))
    assert raised.value.failure is origin
    assert plane.waiting == {}


def test_a_departure_written_without_a_call_is_seen_by_who_comes_later(make):
    plane = make(2)
    plane.left[1] = 1
    with pytest.raises(PlaneAborted, match="worker 1 finished without joining"):
        ALLREDUCE(plane, Seat(0, (0, 1), 1))


def test_leaving_an_earlier_scope_releases_nobody(make, until_parked):
    plane = make(2)
    waiting = background(plane, ALLREDUCE, 0, scope=2)
    until_parked(plane, 1)
    plane.leave(1, 1)
    assert list(plane.waiting) == [0]
    joined = background(plane, ALLREDUCE, 1, scope=2)
    for got in ended(waiting, joined):
        assert got.tolist() == [0, 0, 0]


def test_members_that_come_after_the_release_get_the_same_answer(make, until_parked):
    plane = make(3)
    waiting = background(plane, ALLREDUCE, 0)
    until_parked(plane, 1)
    plane.abort(0, "an older command")
    assert list(plane.waiting) == [0]
    plane.leave(2, 1)
    ended(waiting)
    with pytest.raises(PlaneAborted, match="worker 2 finished without joining"):
        ALLREDUCE(plane, Seat(1, (0, 1, 2), 1))


def test_a_worker_cannot_call_after_it_left(make):
    plane = make(2)
    plane.leave(0, 1)
    with pytest.raises(PlaneAborted, match="worker has already left this command"):
        ALLREDUCE(plane, Seat(0, (0, 1), 1))


def test_a_parked_worker_that_is_declared_gone_is_released(make, until_parked):
    plane = make(2)
    waiting = background(plane, cell("plane.recv(seat, 1, None)", 2), 0)
    until_parked(plane, 1)
    plane.leave(0, 1)
    [error] = ended(waiting)
    assert "worker 0 left while it was in recv from worker 1" in str(error)


def test_abort_names_the_reason_and_what_was_given_up(make, until_parked):
    plane = make(2)
    waiting = background(plane, ALLREDUCE, 0)
    until_parked(plane, 1)
    plane.abort(1, "the command was interrupted")
    [error] = ended(waiting)
    assert type(error) is PlaneAborted
    assert str(error) == (
        "the command was interrupted - allreduce(float32 (3,), op=sum) that worker 0 waits in at"
        " Cell In[3], line 4 was given up"
    )


def test_a_circle_lists_who_waits_where(make, until_parked):
    plane = make(3)
    first = background(plane, cell("plane.barrier(seat)", 5), 0)
    until_parked(plane, 1)
    with pytest.raises(PlaneMismatch) as raised:
        cell("plane.recv(seat, 0, None)", 6)(plane, Seat(1, (0, 1, 2), 1))
    [error] = ended(first)
    assert type(error) is PlaneMismatch
    assert error is not raised.value
    assert str(error).splitlines() == [
        "workers [0-1] wait for each other in a circle, and none can continue",
        "  worker 0 waits in barrier() of workers [0-2] at Cell In[3], line 5 - it needs worker 1",
        "  worker 1 waits in recv from worker 0 at Cell In[3], line 6 - it needs worker 0",
        "  Make calls on different communicators, send and recv in the same order on all workers.",
    ]
    with pytest.raises(PlaneMismatch, match="in a circle"):  # a member of the failed barrier that comes later
        cell("plane.barrier(seat)", 5)(plane, Seat(2, (0, 1, 2), 1))
    for worker in range(3):
        plane.leave(worker, 1)
    assert plane.statistics()["meetings"] == 0


def test_those_who_all_receive_are_told_to_send_first(make, until_parked):
    plane = make(2)
    first = background(plane, cell("plane.recv(seat, 1, None)", 1), 0)
    until_parked(plane, 1)
    with pytest.raises(PlaneMismatch, match="in a circle"):
        cell("plane.recv(seat, 0, None)", 1)(plane, Seat(1, (0, 1), 1))
    [error] = ended(first)
    assert str(error).splitlines()[-1] == "  Send before you receive: send does not wait."
    assert "sent last" not in str(error)


def test_those_who_have_sent_to_somebody_else_are_told_whom_and_where_it_was_received(make, until_parked):
    # 1 means what it sends to 2 for 0, and 2 takes it for what 1 owes it.
    plane = make(3)
    seats = [Seat(worker, (0, 1, 2), 1) for worker in range(3)]
    cell("plane.send(seat, np.ones(2), 2)", 4)(plane, seats[1])
    cell("plane.recv(seat, 1, None)", 7)(plane, seats[2])
    cell("plane.send(seat, np.ones(2), 1)", 3)(plane, seats[0])
    cell("plane.recv(seat, 0, None)", 5)(plane, seats[1])
    cell("plane.send(seat, np.ones(2), 1)", 3)(plane, seats[0])
    cell("plane.recv(seat, 0, None)", 5)(plane, seats[1])
    first = background(plane, cell("plane.recv(seat, 1, None)", 6), 0)
    until_parked(plane, 1)
    with pytest.raises(PlaneMismatch, match="in a circle"):
        cell("plane.recv(seat, 0, None)", 8)(plane, seats[1])
    [error] = ended(first)
    assert str(error).splitlines()[3:] == [
        "  what worker 0 sent last, to worker 1 at Cell In[3], line 3, was received at Cell In[3], line 5",
        "  what worker 1 sent last, to worker 2 at Cell In[3], line 4, was received at Cell In[3], line 7",
        "  Each has sent a message: perhaps to the wrong worker, or another recv took it.",
    ]


def test_a_message_that_nobody_took_is_told_of_and_one_of_another_command_is_not(make, until_parked):
    plane = make(3)
    cell("plane.send(seat, np.ones(2), 1)", 2)(plane, Seat(0, (0, 1, 2), 1))
    cell("plane.recv(seat, 0, None)", 2)(plane, Seat(1, (0, 1, 2), 1))
    for worker in range(3):
        plane.leave(worker, 1)
    cell("plane.send(seat, np.ones(2), 2)", 4)(plane, Seat(1, (0, 1, 2), 2))
    first = background(plane, cell("plane.recv(seat, 1, None)", 6), 0, scope=2)
    until_parked(plane, 1)
    with pytest.raises(PlaneMismatch, match="in a circle"):
        cell("plane.recv(seat, 0, None)", 8)(plane, Seat(1, (0, 1, 2), 2))
    [error] = ended(first)
    assert str(error).splitlines()[3:] == [
        "  what worker 1 sent last, to worker 2 at Cell In[3], line 4, has not been received",
        "  Send before you receive: send does not wait.",
    ]


def test_waiting_for_a_worker_that_waits_for_a_third_is_no_circle(make, until_parked):
    plane = make(3)
    first = background(plane, cell("plane.recv(seat, 1, None)", 1), 0)
    until_parked(plane, 1)
    second = background(plane, cell("(plane.recv(seat, 2, None), plane.send(seat, 5, 0))", 1), 1)
    until_parked(plane, 2)
    plane.send(Seat(2, (0, 1, 2), 1), 4, 1)
    assert ended(first, second)[0] == 5


def test_what_a_worker_waits_in_can_be_shown(make, until_parked):
    plane = make(2)
    waiting = background(plane, ALLREDUCE, 0)
    until_parked(plane, 1)
    assert str(plane.waiting[0]) == (
        "allreduce(float32 (3,), op=sum) of workers [0-1] at Cell In[3], line 4 (for worker 1)"
    )
    plane.close()
    ended(waiting)
    plane = make(2)
    waiting = background(plane, cell("plane.recv(seat, 1, None)", 8), 0)
    until_parked(plane, 1)
    assert str(plane.waiting[0]) == "recv from worker 1 at Cell In[3], line 8"
    plane.close()
    assert "the data plane was closed" in str(ended(waiting)[0])


def test_nothing_is_kept_of_a_thousand_scopes(make, run):
    plane = make(2)

    def program(plane, seat):
        for scope in range(1000):
            here = seat._replace(scope=scope)
            if scope % 10 == 0 and seat.worker:
                plane.send(here, 1, 0)  # never received
            plane.barrier(here)
            if scope % 7 == 0 and not seat.worker:
                with pytest.raises(PlaneError):
                    plane.barrier(here)
            plane.left[seat.worker] = scope
            if scope % 7 == 0 or plane.waiting:
                plane.leave(
                    seat.worker, scope, failure(seat.worker, ValueError()) if scope % 14 == 0 else None
                )

    assert run(plane, program, 1000) == [None, None]
    assert plane.statistics() == {"waiting": 0, "meetings": 0, "messages": 0, "failures": 0}


def test_failures_of_a_busy_worker_do_not_pile_up_while_another_is_idle(make):
    plane = make(2)
    for scope in range(100):
        plane.leave(0, scope, failure(0, ValueError()))
    assert plane.statistics()["failures"] <= 16


def test_verdicts_for_late_members_do_not_pile_up(make):
    plane = make(3)
    for scope in range(100):
        plane.left[1] = scope
        with pytest.raises(PlaneAborted):
            plane.barrier(Seat(0, (0, 1, 2), scope))
        plane.left[0] = plane.left[2] = scope
    assert plane.statistics()["meetings"] <= 3


def test_many_workers_meet_many_times(make, run):
    plane = make(16)

    def program(plane, seat):
        total = 0
        for _ in range(20):
            total += plane.allreduce(seat, seat.worker, "sum", None)
        return total

    assert run(plane, program, 1) == [20 * 120] * 16


def test_a_chain_of_releases_names_what_went_wrong_first(make, until_parked):
    # Each link quoted the one before it: 16 workers made an error of 15 kB.
    plane = make(3)
    waiting = background(plane, ALLREDUCE, 0)
    until_parked(plane, 1)
    origin = failure(2, ZeroDivisionError("division by zero"))
    released = PlaneAborted("worker 2 failed")
    released.failure = origin
    plane.leave(1, 1, failure(1, released))
    [error] = ended(waiting)
    assert str(error).startswith(
        "worker 2 failed: ZeroDivisionError: division by zero, for which worker 1 waited - without it, "
    )
    assert error.failure is origin


def test_who_arrives_after_a_stop_that_skipped_many_commands_learns_of_the_stop(make):
    plane = make(2)
    first, *others = [failure(1, WorkerInterrupt(f"number {scope}")) for scope in range(1, 101)]
    for scope, each in enumerate((first, *others), 1):
        plane.leave(1, scope, each)
    assert plane.statistics()["failures"] == 1
    for scope in (3, 50, 100):
        with pytest.raises(PlaneAborted, match=r"worker 1 failed: .*number 1") as caught:
            ALLREDUCE(plane, Seat(0, (0, 1), scope))
        assert caught.value.failure is first
        plane.leave(0, scope, failure(0, caught.value))


def test_a_stop_is_not_the_reason_for_what_was_left_after_other_commands(make):
    plane = make(2)
    stop = failure(1, WorkerInterrupt("the first"))
    plane.leave(1, 1, stop)
    plane.left[1] = 2  # a command that went well
    later = failure(1, WorkerInterrupt("the second"))
    plane.leave(1, 3, later)
    plane.leave(0, 1)
    with pytest.raises(PlaneAborted, match="worker 1 finished without joining"):
        ALLREDUCE(plane, Seat(0, (0, 1), 2))
    plane.leave(0, 2)
    with pytest.raises(PlaneAborted, match="the second"):
        ALLREDUCE(plane, Seat(0, (0, 1), 3))


def test_who_is_far_behind_learns_of_failures_and_not_of_an_end(make):
    plane = make(2)
    for scope in range(1, 31):
        plane.leave(1, scope, Failure(1, scope, "call f", ValueError(f"batch {scope}"), "Traceback ..."))
    for scope in (1, 15, 30):
        with pytest.raises(PlaneAborted, match="worker 1 failed: ValueError: batch"):
            plane.barrier(Seat(0, (0, 1), scope))
    assert plane.statistics()["failures"] <= 16
    plane.leave(1, 32)
    with pytest.raises(PlaneAborted, match="worker 1 finished"):
        plane.barrier(Seat(0, (0, 1), 31))
