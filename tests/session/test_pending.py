"""A cell on its way, without threads: what the session asks of its workers and makes of their answers."""

from __future__ import annotations

import gc
import weakref

import pytest

from disco_magic.errors import (
    CellError,
    Failure,
    SessionClosed,
    SyncTimeout,
    WorkerError,
    WorkerLost,
)
from disco_magic.functions.execution.cells import compile_cell
from disco_magic.session import stopping as module
from tests.doubles.scripted import JumpingClock, scripted_session
from tests.session.conftest import interrupted

CELL = compile_cell("x", label="Cell In[7]")


@pytest.fixture(scope="module", autouse=True)
def what_is_left_is_collected():
    """Cells that no scripted worker ends own the streams until they are collected.

    From Python 3.14 on they are not while `conftest` keeps frozen what was there before, and tests of streams
    that follow would find the streams owned.
    """
    yield
    gc.unfreeze()
    gc.collect()


def test_a_cell_is_done_when_every_worker_has_ended_it(stage):
    _, launcher, pending = stage
    assert repr(pending) == "<Cell In[7] on workers [0-1]: running>"
    assert not pending.done()
    launcher.cell_done(workers=[1])
    assert not pending.done()
    launcher.cell_done(workers=[0])
    assert pending.done()
    assert repr(pending) == "<Cell In[7] on workers [0-1]: done>"


def test_waiting_twice_gives_the_same_result(stage):
    _, launcher, pending = stage
    launcher.cell_done()
    assert pending.wait() is pending.wait()
    assert pending.done()


def test_waiting_twice_raises_the_same_error(stage):
    _, launcher, pending = stage
    launcher.cell_done(Failure(0, 1, "Cell In[7]", ValueError("boom"), ""))
    errors = []
    for _ in range(2):
        with pytest.raises(CellError) as caught:
            pending.wait()
        errors.append(caught.value)
    assert errors[0] is errors[1]


def test_only_a_cell_that_is_over_has_a_result_in_its_error(stage, fast):
    _, launcher, pending = stage
    with pytest.raises(SyncTimeout, match="goes on") as caught:
        pending.wait(0)
    assert not hasattr(caught.value, "result")
    launcher.cell_done(Failure(0, 1, "Cell In[7]", ValueError("boom"), ""))
    with pytest.raises(CellError) as caught:
        pending.wait()
    assert caught.value.result.workers == (0, 1)


def test_two_threads_may_wait_for_one_cell(stage, background):
    _, launcher, pending = stage
    waiters = [background(pending.wait) for _ in range(2)]
    launcher.cell_done()
    first, second = (waiter() for waiter in waiters)
    assert first is second


def test_somebody_who_only_looks_does_not_take_the_answer_away(stage, background):
    _, launcher, pending = stage
    waiter = background(pending.wait)
    launcher.cell_done()
    while not pending.done():
        pass
    assert waiter().workers == (0, 1)


def test_cancelling_a_cell_that_has_begun_interrupts_it(stage, fast):
    _, launcher, pending = stage
    launcher.on_interrupt = lambda through, workers: launcher.cell_done(interrupted())
    pending.cancel()
    assert launcher.interrupts == [(pending.seq, (0, 1))]
    assert launcher.replaced == []
    with pytest.raises(CellError):
        pending.wait()


def test_cancelling_a_cell_that_has_ended_asks_nothing(stage):
    _, launcher, pending = stage
    launcher.cell_done()
    pending.cancel()
    assert launcher.interrupts == []


def test_workers_that_do_not_end_are_interrupted_three_times_then_replaced(stage, fast):
    _, launcher, pending = stage

    def replace(workers):
        launcher.cell_done(interrupted())
        return [1]

    launcher.on_replace = replace
    pending.cancel()
    assert len(launcher.interrupts) == 3
    assert launcher.replaced == [(0, 1)]


def test_a_worker_that_ends_meanwhile_saves_the_others_from_nothing(stage, fast):
    _, launcher, pending = stage
    launcher.on_interrupt = lambda through, workers: launcher.cell_done(
        interrupted(), workers=[len(launcher.interrupts) - 1]
    )
    pending.cancel()
    assert len(launcher.interrupts) == 2


@pytest.mark.parametrize("way", ["cancel", "timeout"])
def test_a_cell_that_nothing_ends_is_given_up(stage, fast, monkeypatch, way):
    # Something holds its worker up that is no command: a finalizer of an operand, say.
    session, launcher, pending = stage
    monkeypatch.setattr(module, "_LOOKS_TO_GIVE_UP", 2)
    launcher.on_replace = lambda workers: []
    if way == "cancel":
        pending.cancel()
    with pytest.raises(SyncTimeout, match=r"does not end; workers \[0-1\] are executing"):
        pending.wait(0, stop=True)
    launcher.cell_done(interrupted())
    with pytest.raises(WorkerError):
        session.raise_failures()


def test_a_timeout_stops_the_cell_and_says_where_it_was(stage):
    _, launcher, pending = stage
    launcher.places = ["in the first line", "in the second line"]
    launcher.on_interrupt = lambda through, workers: launcher.cell_done(interrupted())
    with pytest.raises(SyncTimeout, match="worker 1 is executing in the second line") as caught:
        pending.wait(0, stop=True)
    assert sorted(caught.value.result.errors) == [0, 1]


@pytest.mark.parametrize(
    ("stop", "timeout", "kind"),
    [(True, None, KeyboardInterrupt), (False, 0, SyncTimeout), (True, 0, KeyboardInterrupt)],
    ids=["Ctrl-C", "timeout", "both"],
)
def test_whoever_looks_at_a_cell_while_it_is_being_stopped_finds_what_the_wait_raises(
    stage, stop, timeout, kind
):
    # Of two that are awaited together one may end by the other's stop, and be looked at by a third.
    _, launcher, pending = stage
    seen = []

    def on_interrupt(through, workers):
        launcher.cell_done(interrupted())
        assert pending.done()
        seen.append(pending.outcome)

    launcher.on_interrupt = on_interrupt
    if stop:
        pending.stop_soon()
    with pytest.raises(kind) as caught:
        pending.wait(timeout, stop=True)
    assert [type(error) for error in seen] == [kind]
    assert str(seen[0]) == str(caught.value)
    assert sorted(seen[0].result.errors) == [0, 1]


def test_one_that_was_to_be_stopped_and_that_another_stop_has_ended_was_stopped(stage):
    # Nobody has come to stop it yet, and somebody looks, more than once.
    _, launcher, pending = stage
    pending.stop_soon()
    launcher.cell_done(interrupted())
    assert [pending.done(), pending.done()] == [False, True]
    assert type(pending.outcome) is KeyboardInterrupt
    assert sorted(pending.outcome.result.errors) == [0, 1]
    with pytest.raises(KeyboardInterrupt, match=r"Cell In\[7\] was stopped on workers \[0-1\]"):
        pending.wait()


def test_one_that_was_to_be_stopped_as_its_time_ran_out_was_stopped(stage, fast, monkeypatch):
    session, launcher, pending = stage
    diagnosis = session.diagnosis
    seen = []

    def struck():
        monkeypatch.undo()
        pending.stop_soon()
        return diagnosis()

    def on_interrupt(through, workers):
        launcher.cell_done(interrupted())
        assert [pending.done(), pending.done()] == [False, True]
        seen.append(pending.outcome)

    launcher.on_interrupt = on_interrupt
    monkeypatch.setattr(session, "diagnosis", struck)
    with pytest.raises(KeyboardInterrupt):
        pending.wait(0, stop=True)
    assert [type(error) for error in seen] == [KeyboardInterrupt]


@pytest.mark.parametrize("again", [False, True], ids=["once", "again"])
def test_a_cell_that_was_stopped_goes_with_its_last_reference(again):
    session, launcher = scripted_session(2)
    pending = session.run_nowait(compile_cell("x", label="Cell In[7]"))
    launcher.on_interrupt = lambda through, workers: launcher.cell_done(interrupted())
    pending.stop_soon()
    with pytest.raises(KeyboardInterrupt):
        pending.wait()
    if again:
        pending.stop_soon()
    gone = weakref.ref(pending)
    gc.collect()
    gc.disable()
    try:
        del pending
        assert gone() is None
    finally:
        gc.enable()
        session.shutdown()


@pytest.mark.parametrize(
    ("left", "pauses"),
    [
        ((41, 40, 30, 20, 16, 16, 16, 16, 16), 6),
        ((41, 40, 40, 40, 40, 40, 40), 4),
        ((41, 41, 41, 41, 41, 41), 3),
        ((16, 12, 12, 8, 8, 7), 3),
    ],
    ids=["until few are left", "until none ends any more", "none ends", "few"],
)
def test_workers_are_not_given_up_while_many_end_one_after_the_other(fast, monkeypatch, left, pauses):
    """Those that compute take turns: some of 256 threads were given up before they had theirs."""
    session, launcher = scripted_session(41)
    pending = session.run_nowait(compile_cell("x", label="Cell In[7]"))
    counts, listened, replaced = iter(left), [], []

    def replace(workers):
        assert next(counts, None) is None
        launcher.cell_done(interrupted())
        return []

    monkeypatch.setattr(launcher, "stopping", lambda _: dict.fromkeys(range(next(counts)), "stopping"))
    monkeypatch.setattr(pending._stopping, "_cleaning", set)
    listen = pending._stopping._listen
    monkeypatch.setattr(
        pending._stopping, "_listen", lambda end: listened.append(len(listened)) or listen(end)
    )
    launcher.on_replace = lambda workers: replaced.append(len(listened)) or replace(workers)
    pending.cancel()
    assert replaced == [pauses]
    session.shutdown()


def test_a_loss_while_a_cell_is_being_stopped_ends_it_too(stage, fast):
    _, launcher, pending = stage
    launcher.on_interrupt = lambda through, workers: launcher.lose(0, "killed")
    pending.cancel()
    with pytest.raises(WorkerLost, match="worker 0 is gone: killed"):
        pending.wait()


def test_a_lost_worker_ends_the_wait(stage):
    _, launcher, pending = stage
    launcher.lose(1, "killed by signal 9")
    with pytest.raises(
        WorkerLost, match="worker 1 is gone: killed by signal 9; restart the session to go on"
    ):
        pending.wait()
    assert pending.done()


def test_a_worker_lost_before_anybody_waits_ends_every_later_wait():
    # Only those who waited at that moment were told, everybody after them waited for ever.
    session, launcher = scripted_session(2)
    launcher.lose(0, "killed")
    for wait in (session.sync_all, lambda: session.run(CELL), lambda: session.store(1).get(1)):
        with pytest.raises(WorkerLost, match="worker 0 is gone: killed"):
            wait()
    session.shutdown()


def test_a_wait_for_an_answer_ends_when_a_worker_is_lost(background):
    session, launcher = scripted_session(2)
    waiter = background(session.sync_all)
    while not session.ledger.expecting:
        pass
    launcher.lose(0, "killed")
    with pytest.raises(WorkerLost):
        waiter()
    session.shutdown()


def test_a_timeout_of_an_answer_says_where_everybody_is():
    session, launcher = scripted_session(2)
    launcher.places = ["idle", "in a long computation"]
    with pytest.raises(SyncTimeout, match="worker 1 is executing in a long computation"):
        session.sync_all(timeout=0)
    assert not session.ledger.expecting
    session.shutdown()


def test_a_timeout_longer_than_a_look_up_is_waited_for_in_full(monkeypatch):
    from disco_magic.session import pump

    looks = []

    class Inbox:
        def get(self, timeout):
            looks.append(timeout)
            raise pump.Empty

    monkeypatch.setattr(pump, "time", JumpingClock(0.1))
    with pytest.raises(pump.Empty):
        pump.take(Inbox(), 0.45)
    assert looks == pytest.approx([0.1, 0.1, 0.1, 0.05])


def test_shutdown_sends_stop_closes_the_channels_and_stops_once():
    session, launcher = scripted_session(2)
    session.shutdown(timeout=3.0)
    session.shutdown()
    assert [type(c).__name__ for c in launcher.commands] == ["Stop"]
    assert launcher.stops == [(3.0, 1)]
    assert all(channel.closed for channel in launcher.channels)
    with pytest.raises(SessionClosed):
        session.run(CELL)
