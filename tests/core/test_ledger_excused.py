"""The controller machine: cells whose answer is known before it comes, and failures that are given back."""

from __future__ import annotations

from disco_magic.core.ledger import Ledger
from disco_magic.core.messages import CellDone, Reached
from disco_magic.errors import Failure, WorkerInterrupt


def left_out(worker, seq=5):
    failure = Failure(worker, seq, "Cell", WorkerInterrupt("left out"), "")
    return CellDone(worker, seq, 0.0, (), failure=failure)


def kept(ledger):
    return ledger._excused, ledger._forgotten, ledger._expected


NOTHING = (set(), {}, {})


def test_a_cell_is_complete_when_the_last_worker_is_excused_from_it():
    ledger = Ledger(2)
    expectation = ledger.expect(5, (0, 1))
    answer, excuse = CellDone(0, 5, 0.1, ("x",)), left_out(1)
    assert ledger.excuse([excuse]) is None
    assert ledger.feed(answer) is expectation
    assert expectation.replies == {0: answer, 1: excuse}
    both = ledger.expect(6, (0, 1))
    assert ledger.excuse([left_out(0, 6), left_out(1, 6)]) is both
    assert not ledger.expecting


def test_who_has_answered_already_is_not_excused():
    ledger = Ledger(2)
    expectation = ledger.expect(5, (0, 1))
    answer = CellDone(1, 5, 0.1, ())
    ledger.feed(answer)
    assert ledger.excuse([left_out(1)]) is None
    assert expectation.replies == {1: answer}
    assert ledger.feed(CellDone(0, 5, 0.1, ())) is expectation
    assert kept(ledger) == NOTHING


def test_nobody_is_excused_from_what_nobody_waits_for():
    ledger = Ledger(2)
    assert ledger.excuse([left_out(0), left_out(1)]) is None
    assert kept(ledger) == NOTHING


def test_what_the_excused_say_late_is_no_news():
    ledger = Ledger(2)
    ledger.expect(5, (0, 1))
    ledger.excuse([left_out(0), left_out(1)])
    assert ledger.feed(left_out(0)) is None
    assert not ledger.has_failures
    ledger.feed(Reached(0, 6))
    ledger.feed(left_out(1))
    assert kept(ledger) == NOTHING


def test_failures_that_were_not_raised_after_all_are_raised_by_the_next_wait():
    ledger = Ledger(2)
    old, new = Failure(0, 1, "call f", ValueError("old"), ""), Failure(1, 2, "call f", KeyError("new"), "")
    taken, _ = ledger.take_failures([old, new])
    ledger.give_back(taken.values())
    assert ledger.has_failures
    assert ledger.take_failures()[0] == {0: old, 1: new}
    assert not ledger.has_failures


def test_what_failed_in_a_cell_nobody_asks_about_is_kept():
    ledger = Ledger(2)
    mine = Failure(0, 5, "Cell", ValueError("boom"), "")
    expectation = ledger.expect(5, (0, 1))
    ledger.feed(CellDone(0, 5, 0.1, (), failure=mine))
    assert ledger.failed_in(5) == [mine]
    assert ledger.failed_in(6) == []
    ledger.feed(CellDone(1, 5, 0.1, ()))
    assert not ledger.has_failures
    ledger.keep_failures(expectation)
    assert ledger.take_failures()[0] == {0: mine}
