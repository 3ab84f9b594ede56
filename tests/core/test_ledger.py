"""The controller machine: numbers, register ids, replies, failures, names."""

from __future__ import annotations

import pytest

from disco_magic.core.ledger import OTHERS, Ledger, is_consequence
from disco_magic.core.messages import Answer, CellDone, Failed, Lost, Reached
from disco_magic.errors import Failure, Interrupted, PlaneAborted, PlaneMismatch, WorkerInterrupt


def failure(worker=0, error=None, seq=1):
    error = error or ValueError(f"boom {worker}")
    return Failure(worker, seq, "call f", error, "")


# --- numbers and register ids ----------------------------------------------------------------------


def test_sequence_numbers_strictly_grow_from_one():
    ledger = Ledger(2)
    assert [ledger.issue() for _ in range(3)] == [1, 2, 3]


def test_register_ids_begin_at_one_and_grow():
    ledger = Ledger(2)
    assert [ledger.new_register() for _ in range(3)] == [1, 2, 3]


def test_the_id_freed_last_is_used_first():
    ledger = Ledger(2)
    for _ in range(4):
        ledger.new_register()
    ledger.retire((2,))
    ledger.retire((4, 1))
    assert [ledger.new_register() for _ in range(4)] == [1, 4, 2, 5]


def test_live_registers_are_counted():
    ledger = Ledger(2)
    ledger.new_register()
    ledger.new_register()
    ledger.retire((1,))
    assert ledger.live_registers == 1


# --- replies ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reply",
    [lambda w: Reached(w, 5), lambda w: Answer(w, 5, "v"), lambda w: CellDone(w, 5, 0.1, ())],
    ids=["reached", "answer", "cell"],
)
def test_an_expectation_is_complete_when_the_last_worker_has_replied(reply):
    ledger = Ledger(3)
    expectation = ledger.expect(5, (0, 2))
    assert ledger.expecting
    assert ledger.feed(reply(2)) is None
    assert ledger.feed(reply(0)) is expectation
    assert expectation.replies == {0: reply(0), 2: reply(2)}
    assert not ledger.expecting


@pytest.mark.parametrize(("workers", "nearly"), [(1, []), (2, [1]), (3, [1]), (4, [2]), (5, [3]), (16, [14])])
def test_replies_are_nearly_there_when_two_are_missing_or_one_of_two(workers, nearly):
    ledger = Ledger(workers)
    ledger.expect(5, range(workers))
    found = []
    for worker in range(workers):
        ledger.feed(Reached(worker, 5))
        if ledger.is_nearly_answered(5):
            found.append(worker + 1)
    assert found == nearly
    assert not ledger.is_nearly_answered(6)


def test_a_reply_nobody_waits_for_is_dropped():
    ledger = Ledger(2)
    assert ledger.feed(Reached(0, 3)) is None
    assert ledger.take_failures()[0] == {}


def test_a_forgotten_expectation_takes_no_reply():
    ledger = Ledger(1)
    ledger.expect(5, (0,))
    ledger.forget(5)
    ledger.forget(5)
    assert ledger.feed(Reached(0, 5)) is None
    assert not ledger.expecting


def test_a_late_cell_failure_is_kept_though_nobody_waits():
    ledger = Ledger(1)
    late = failure()
    ledger.feed(CellDone(0, 5, 0.1, (), failure=late))
    assert ledger.take_failures()[0] == {0: late}


def test_names_are_put_together_once_as_long_as_they_are_the_same():
    ledger = Ledger(2)
    ledger.feed(CellDone(0, 5, 0.1, ("x",)))
    known = ledger.names.known()
    assert ledger.names.known() is known
    ledger.feed(CellDone(1, 5, 0.1, ("y",)))
    assert tuple(ledger.names.known()) == ("x", "y")
    ledger.names.drop(6, "x", (0, 1))
    assert tuple(ledger.names.known()) == ("y",)
    assert tuple(known) == ("x",)


def test_a_cells_failure_is_kept_for_whoever_waits_next():
    ledger = Ledger(1)
    expectation = ledger.expect(5, (0,))
    mine = failure()
    assert ledger.feed(CellDone(0, 5, 0.1, (), failure=mine)) is expectation
    assert ledger.take_failures([mine])[0] == {0: mine}
    assert ledger.take_failures()[0] == {}


def test_the_first_loss_is_remembered():
    ledger = Ledger(2)
    first = Lost(1, 0, "killed")
    assert ledger.feed(first) is None
    ledger.feed(Lost(0, 0, "too"))
    assert ledger.lost is first


# --- failures --------------------------------------------------------------------------------------


def test_failures_come_in_order_of_arrival_once():
    ledger = Ledger(3)
    for worker, error in ((2, KeyError("k")), (0, ValueError("v")), (1, TypeError("t"))):
        ledger.feed(Failed(worker, 1, failure(worker, error)))
    assert list(ledger.take_failures()[0]) == [2, 0, 1]
    assert ledger.take_failures()[0] == {}


def test_of_failures_alike_the_lowest_worker_comes_first():
    ledger = Ledger(3)
    ledger.feed(Failed(2, 1, failure(2, KeyError("k"))))
    ledger.feed(Failed(1, 1, failure(1, ValueError("v"))))
    ledger.feed(Failed(0, 1, failure(0, KeyError("k"))))
    assert list(ledger.take_failures()[0]) == [0, 2, 1]


def test_only_the_first_failure_of_a_worker_is_kept():
    ledger = Ledger(1)
    first = failure(0)
    ledger.feed(Failed(0, 1, first))
    ledger.feed(Failed(0, 2, failure(0, KeyError("second"))))
    assert ledger.take_failures()[0] == {0: first}


def told(worker, seq, command, error):
    return Failed(worker, seq, Failure(worker, seq, command, error, ""))


def test_what_other_commands_have_failed_with_is_told_too_the_first_of_each_kind():
    ledger = Ledger(2)
    for seq in range(1, 200):
        for worker in range(2):
            ledger.feed(told(worker, 2 * seq, "call step", ValueError("p")))
        ledger.feed(told(1, 2 * seq + 1, "call save", OSError(f"disk full {min(seq, 2)}")))
    failures, others = ledger.take_failures()
    assert [each.command for each in failures.values()] == ["call step"] * 2
    assert [(each.command, each.summary) for each in others] == [
        ("call save", "OSError: disk full 1"),
        ("call save", "OSError: disk full 2"),
    ]
    assert ledger.take_failures() == ({}, [])


def test_kinds_of_failures_are_bounded():
    ledger = Ledger(1)
    for seq in range(1000):
        ledger.feed(told(0, seq, "call step", ValueError(seq)))
    assert [each.seq for each in ledger.take_failures()[1]] == list(range(1, 1 + OTHERS))


def test_what_had_failed_before_the_asking_command_is_told_with_it():
    ledger = Ledger(1)
    ledger.feed(told(0, 1, "call save", OSError("disk full")))
    ledger.feed(told(0, 2, "call wait", WorkerInterrupt("stopped")))
    own = failure(0)
    failures, others = ledger.take_failures([own])
    assert failures == {0: own}
    assert [each.command for each in others] == ["call save"]


def test_a_command_that_was_raised_for_one_worker_is_no_news_of_another():
    # `get` waits for its own worker alone; the others come to the same command later.
    ledger = Ledger(3)
    ledger.feed(told(0, 7, "call f", ValueError("boom")))
    assert list(ledger.take_failures()[0]) == [0]
    ledger.feed(told(1, 7, "call f", ValueError("boom")))
    assert not ledger.has_failures
    ledger.feed(told(2, 7, "call f", KeyError("something else")))
    assert list(ledger.take_failures()[0]) == [2]


@pytest.mark.parametrize(
    ("raised", "late"),
    [
        (ValueError("element 3 is -inf"), ValueError("element 12 is nan")),
        (ValueError("[1. 2.5e-07]"), ValueError("[-3.]")),
        (ValueError("<A object at 0x7f3a>"), ValueError("<A object at 0x7f3aeb>")),
        (FileNotFoundError("shard_0.npy"), FileNotFoundError("shard_1.npy")),
        (KeyError(0), KeyError(1)),
        (PlaneMismatch("worker 0 called barrier"), PlaneMismatch("the others called allreduce")),
        (WorkerInterrupt.at(Interrupted.STRUCK), WorkerInterrupt.at(Interrupted.IN_COLLECTIVE)),
    ],
    ids=["index", "array", "address", "file", "key", "calls", "interrupts"],
)
def test_the_same_failure_of_a_worker_s_own_elements_is_no_news(raised, late):
    ledger = Ledger(2)
    ledger.feed(told(0, 7, "call f", raised))
    ledger.take_failures()
    ledger.feed(told(1, 7, "call f", late))
    assert not ledger.has_failures


@pytest.mark.parametrize(
    ("raised", "late"),
    [
        (ValueError("shard 0 is missing"), ValueError("loss is NaN at step 7")),
        (KeyError("weights"), KeyError("bias")),
        (ValueError("boom"), TypeError("boom")),
    ],
    ids=["text", "key", "class"],
)
def test_another_failure_is_told_though_its_command_has_raised_one_of_that_class(raised, late):
    # It was dropped, and nobody ever saw it.
    ledger = Ledger(2)
    ledger.feed(told(0, 7, "call f", raised))
    ledger.take_failures()
    ledger.feed(told(1, 7, "call f", late))
    assert [each.exception for each in ledger.take_failures()[0].values()] == [late]


@pytest.mark.parametrize("consequence", [PlaneAborted("released"), WorkerInterrupt("stopped")])
def test_the_origin_comes_before_what_it_caused_however_early_that_arrived(consequence):
    ledger = Ledger(2)
    ledger.feed(Failed(0, 1, failure(0, consequence)))
    ledger.feed(Failed(1, 1, failure(1)))
    assert list(ledger.take_failures()[0]) == [1, 0]


def test_the_asking_commands_own_failures_come_before_those_waiting_one_per_worker():
    ledger = Ledger(2)
    waiting = failure(0)
    ledger.feed(Failed(0, 1, waiting))
    further = [failure(0, KeyError("later")), failure(1)]
    assert ledger.take_failures(further)[0] == {0: further[0], 1: further[1]}


def test_a_workers_own_error_wins_over_its_release():
    ledger = Ledger(1)
    ledger.feed(Failed(0, 1, failure(0, PlaneAborted("released"))))
    own = failure(0)
    assert ledger.take_failures([own])[0] == {0: own}


@pytest.mark.parametrize(
    ("error", "expected"),
    [(PlaneAborted(), True), (WorkerInterrupt(), True), (ValueError(), False), (KeyboardInterrupt(), False)],
)
def test_released_and_interrupted_workers_are_consequences(error, expected):
    assert is_consequence(failure(0, error)) is expected


# --- who was released ------------------------------------------------------------------------------


def released_by(origin):
    """What worker 1 says when it is released because of `origin`."""
    error = PlaneAborted("worker 0 failed")
    error.failure = origin
    return Failed(1, origin.seq, Failure(1, origin.seq, "call f", error, ""))


def test_who_was_released_by_a_failure_that_was_raised_is_not_raised_after_it():
    # `get` waits for its own worker alone: what the others say comes afterwards, to an unrelated wait.
    ledger = Ledger(2)
    origin = Failure(0, 7, "call f", ValueError("boom"), "")
    assert list(ledger.take_failures([origin])[0]) == [0]
    ledger.feed(released_by(origin))
    assert not ledger.has_failures


def test_who_was_released_by_a_failure_that_nobody_has_raised_is_kept():
    ledger = Ledger(2)
    ledger.take_failures([Failure(0, 7, "call f", ValueError("boom"), "")])
    ledger.feed(released_by(Failure(0, 8, "call f", ValueError("boom"), "")))
    assert ledger.has_failures


# --- cells that nobody waits for any more ----------------------------------------------------------


def test_what_was_forgotten_before_it_was_sent_is_over_when_everybody_has_come_further():
    ledger = Ledger(2)
    ledger.expect(1, (0, 1))
    ledger.forget(1)  # a Ctrl-C before it was sent: nobody will ever answer
    ledger.names.bind(2, "x", (0, 1))
    assert len(ledger.names._renamed) == 1
    ledger.feed(Reached(0, 3))
    assert len(ledger.names._renamed) == 1
    ledger.feed(Reached(1, 3))
    assert not ledger.names._renamed


def test_what_was_forgotten_later_is_not_over_because_of_an_earlier_answer():
    ledger = Ledger(1)
    ledger.expect(1, (0,))
    ledger.expect(2, (0,))
    ledger.forget(2)
    ledger.names.bind(3, "x", (0,))
    ledger.feed(Reached(0, 1))
    assert len(ledger.names._renamed) == 1


def test_who_has_not_replied_is_known_as_long_as_somebody_waits():
    ledger = Ledger(3)
    seq = ledger.issue()
    ledger.expect(seq, (0, 1, 2))
    ledger.feed(Reached(1, seq))
    assert ledger.forget(seq) == (0, 2)
    assert ledger.forget(seq) == ()
