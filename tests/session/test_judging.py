"""What came of a cell is decided once for all who ask, whoever stops it and whenever they look."""

from __future__ import annotations

import gc
import signal
import weakref

import pytest

from disco_magic.core.messages import Failed, Lost
from disco_magic.errors import Failure, SyncTimeout, UsageMistake, WorkerError, WorkerLost
from disco_magic.functions.execution.cells import compile_cell
from disco_magic.session.pump import INTERRUPT
from tests.conftest import until
from tests.doubles.scripted import scripted_session
from tests.session.conftest import interrupted


def instead(monkeypatch, owner, name, first):
    """Call `first` once before the method `name` of `owner`."""
    method = getattr(owner, name)

    def both(*args, **kwargs):
        monkeypatch.setattr(owner, name, method)
        first()
        return method(*args, **kwargs)

    monkeypatch.setattr(owner, name, both)


def test_who_waits_beside_one_that_gives_up_is_woken(stage, fast, background):
    session, launcher, pending = stage
    waits = background(pending.wait)
    until(pending._verdict.inbox.empty)
    launcher.on_replace = lambda workers: [pending._verdict.inbox.put(INTERRUPT) for _ in range(8)] and []
    with pytest.raises((SyncTimeout, KeyboardInterrupt), match="does not end"):
        pending.wait(0, stop=True)
    session.raise_failures()  # forgets that anybody waited for it
    with pytest.raises((SyncTimeout, KeyboardInterrupt), match="does not end"):
        waits()


def test_one_that_ends_as_its_time_runs_out_has_ended(stage, monkeypatch):
    session, launcher, pending = stage
    given = []

    def ends():
        launcher.cell_done()
        given.append(pending.wait())

    instead(monkeypatch, session, "diagnosis", ends)
    assert pending.wait(0, stop=True) is given[0]
    assert launcher.interrupts == []


def test_one_that_another_thread_has_stopped_and_whose_outcome_was_given_stays(stage, monkeypatch, fast):
    _, launcher, pending = stage
    given = []

    def on_interrupt(through, workers):
        launcher.cell_done()
        pending._verdict.stop.why = None  # as if the other had found it ended before the stop began
        given.append(pending.wait())

    launcher.on_interrupt = on_interrupt
    assert pending.wait(0, stop=True) is given[0]
    pending.stop_soon()
    assert pending.wait() is given[0]


def test_one_that_was_found_ended_before_the_stop_began_has_ended(stage, fast):
    _, launcher, pending = stage

    def on_interrupt(through, workers):
        launcher.cell_done()
        pending._verdict.stop.why = None  # as above
        assert pending.done()

    launcher.on_interrupt = on_interrupt
    assert pending.wait(0, stop=True).errors == {}


def test_a_worker_that_is_lost_later_changes_nothing(stage):
    _, launcher, pending = stage
    launcher.cell_done()
    result = pending.wait()
    pending._verdict.accept(Lost(0, 9, "killed"))
    assert pending.wait() is result


def test_a_handle_does_not_keep_what_its_result_has_let_go(stage):
    _, launcher, pending = stage
    launcher.cell_done()
    result = pending.wait()
    values = weakref.ref(result.reference)
    result.release()
    assert values() is None


def test_ctrl_c_is_raised_also_where_the_outcome_was_given_and_that_stays(stage, monkeypatch):
    _, launcher, pending = stage
    given = []

    def comes_too_late():
        given.append(pending.wait())
        pending.stop_soon()

    launcher.cell_done()
    instead(monkeypatch, pending, "note_late_sigint", comes_too_late)
    with pytest.raises(KeyboardInterrupt) as caught:
        pending.wait()
    assert caught.value.result is given[0]
    assert pending.wait() is given[0]


def test_who_cancels_a_cell_whose_await_is_cancelled_too_was_not_interrupted(stage, fast):
    _, launcher, pending = stage

    def on_interrupt(through, workers):
        pending.stop_soon()  # as the cancelled await does, in its own thread
        launcher.cell_done(interrupted())

    launcher.on_interrupt = on_interrupt
    pending.cancel()
    with pytest.raises(KeyboardInterrupt, match="was stopped"):
        raise pending.outcome


def test_a_failure_of_another_command_that_was_raised_is_not_raised_again(monkeypatch):
    session, launcher = scripted_session(2)
    session.call_packed(int, "x")
    pending = session.run_nowait(compile_cell("x", label="Cell In[7]"))
    launcher.deliver(Failed(0, 1, Failure(0, 1, "call of int", ValueError("boom"), "")))

    def comes_too_late():
        with pytest.raises(WorkerError, match="boom"):
            pending.wait()
        pending.stop_soon()

    launcher.cell_done()
    instead(monkeypatch, pending, "note_late_sigint", comes_too_late)
    with pytest.raises(KeyboardInterrupt):
        pending.wait()
    session.raise_failures()
    session.shutdown()


@pytest.mark.parametrize("looked", [False, True])
def test_one_that_was_to_be_stopped_and_had_ended_well_was_not_stopped(stage, looked):
    _, launcher, pending = stage
    launcher.cell_done()
    pending.stop_soon()
    if looked:
        assert pending.done()
    with pytest.raises(KeyboardInterrupt, match=r"Cell In\[7\] was interrupted as it ended") as caught:
        pending.wait()
    assert caught.value.result.errors == {}
    assert launcher.interrupts == []


def test_ctrl_c_as_a_wait_gives_up_that_lets_the_cell_go_on_stops_it(stage, monkeypatch, fast):
    session, launcher, pending = stage
    launcher.on_interrupt = lambda through, workers: launcher.cell_done(interrupted())
    instead(monkeypatch, session, "too_late", lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt, match="was stopped on workers"):
        pending.wait(0)
    assert len(launcher.interrupts) == 1


def test_the_error_of_a_wait_that_lets_the_cell_go_on_goes_with_its_last_reference(stage):
    _, _, pending = stage
    with pytest.raises(SyncTimeout, match="goes on") as caught:
        pending.wait(0)
    gone = weakref.ref(caught.value)
    gc.collect()
    gc.disable()
    try:
        del caught
        assert gone() is None
    finally:
        gc.enable()


def test_a_lost_worker_is_no_result_for_who_comes_in_between(stage, monkeypatch, background):
    _, launcher, pending = stage
    launcher.lose(0, "killed")
    others = []
    instead(monkeypatch, pending._verdict, "_end", lambda: others.append(background(pending.wait)))
    with pytest.raises(WorkerLost):
        pending.wait()
    with pytest.raises(WorkerLost):
        others[0]()


def test_a_worker_that_is_lost_while_a_wait_stops_the_cell_is_told_as_the_stop_to_everybody(stage, fast):
    _, launcher, pending = stage
    seen = []

    def on_interrupt(through, workers):
        launcher.lose(0, "killed")
        assert pending.done()
        seen.append(type(pending.outcome))

    launcher.on_interrupt = on_interrupt
    pending.stop_soon()
    with pytest.raises(KeyboardInterrupt):
        pending.wait()
    assert seen == [KeyboardInterrupt]


def test_what_strikes_while_the_outcome_is_decided_finds_none(stage, monkeypatch):
    session, launcher, pending = stage
    launcher.cell_done()
    found = []

    def strikes():
        found.append(pending.done())
        with pytest.raises(UsageMistake, match="found out how it ended"):
            pending.wait()

    instead(monkeypatch, session, "take_failures", strikes)
    assert pending.wait().errors == {}
    assert found == [False]


def test_a_look_that_is_refused_in_the_middle_of_a_turn_loses_nothing(stage):
    session, launcher, pending = stage
    launcher.cell_done()

    def look():
        with pytest.raises(UsageMistake, match="struck while the same thread"):
            pending.done()

    session._locked(look)
    assert pending.wait().reference is not None


def test_who_was_replaced_is_told_to_all_who_stop_it(stage, fast):
    _, launcher, pending = stage
    pending._verdict.stop.replaced.add(0)  # by another wait that stops it

    def replace(workers):
        launcher.cell_done(interrupted())
        assert pending.done()  # what was found out here knows of 0 alone
        return [1]

    launcher.on_replace = replace
    words = r"(?s)was stopped; .*\nThe threads of workers \[0-1\] did not end.* until the process ends$"
    with pytest.raises(SyncTimeout, match=words):
        pending.wait(0, stop=True)
