"""Ctrl-C while a cell is on its way, without threads: nothing is lost, whenever it comes."""

from __future__ import annotations

import signal
from contextlib import contextmanager

import pytest

from disco_magic.errors import WorkerError
from disco_magic.session import pump
from disco_magic.session.pump import INTERRUPT
from tests.session.conftest import interrupted


def test_the_third_ctrl_c_gives_up_at_once(stage):
    _, launcher, pending = stage

    def impatient(through, workers):
        pending._verdict.inbox.put(INTERRUPT)
        pending._verdict.inbox.put(INTERRUPT)

    def replace(workers):
        pending._verdict.inbox.put(INTERRUPT)
        launcher.cell_done(interrupted())
        return [0, 1]

    launcher.on_interrupt, launcher.on_replace = impatient, replace
    pending._verdict.inbox.put(INTERRUPT)
    with pytest.raises(
        KeyboardInterrupt,
        match=r"The threads of workers \[0-1\] did not end and were replaced by new ones: each is in",
    ) as caught:
        pending.wait()
    assert len(launcher.interrupts) == 1
    assert sorted(caught.value.result.errors) == [0, 1]


def test_whoever_goes_on_pressing_ctrl_c_gets_out_and_the_failures_are_the_sessions(stage):
    session, launcher, pending = stage
    launcher.on_replace = lambda workers: [pending._verdict.inbox.put(INTERRUPT) for _ in range(3)] and []
    launcher.on_interrupt = lambda through, workers: [pending._verdict.inbox.put(INTERRUPT) for _ in range(2)]
    pending._verdict.inbox.put(INTERRUPT)
    with pytest.raises(
        KeyboardInterrupt, match=r"Cell In\[7\] was stopped and does not end; workers \[0-1\]"
    ):
        pending.wait()
    assert pending.done()
    launcher.cell_done(interrupted())
    with pytest.raises(WorkerError):
        session.raise_failures()


def test_ctrl_c_is_raised_although_the_cell_ends_well(stage, fast):
    _, launcher, pending = stage
    launcher.on_interrupt = lambda through, workers: launcher.cell_done()
    pending._verdict.inbox.put(INTERRUPT)
    with pytest.raises(KeyboardInterrupt, match=r"Cell In\[7\] was stopped on workers \[0-1\]") as caught:
        pending.wait()
    assert caught.value.result.errors == {}


def test_ctrl_c_that_comes_right_after_the_answer_is_raised_and_the_result_kept(stage):
    # It went to the whole process group: a child process ended by it, and the cell with the child.
    _, launcher, pending = stage
    launcher.cell_done()
    pending._verdict.inbox.put(INTERRUPT)
    with pytest.raises(KeyboardInterrupt, match=r"Cell In\[7\] was interrupted as it ended") as caught:
        pending.wait()
    assert caught.value.result.errors == {}
    assert launcher.interrupts == []


def test_ctrl_c_while_somebody_asks_whether_it_is_done_loses_no_answer(stage, monkeypatch):
    _, launcher, pending = stage
    accept = pending._verdict.accept

    def struck(item):
        signal.raise_signal(signal.SIGINT)
        accept(item)

    monkeypatch.setattr(pending._verdict, "accept", struck)
    launcher.cell_done()
    with pytest.raises(KeyboardInterrupt):
        pending.done()
    assert pending.done()
    assert pending.wait().errors == {}


def test_ctrl_c_that_comes_when_the_answer_has_been_read_is_not_lost(stage, monkeypatch):
    _, launcher, pending = stage

    @contextmanager
    def struck_at_its_end(hear):
        yield
        hear()

    monkeypatch.setattr(pump, "sigint_to", struck_at_its_end)
    launcher.cell_done()
    with pytest.raises(KeyboardInterrupt, match=r"Cell In\[7\] was interrupted as it ended") as caught:
        pending.wait()
    assert caught.value.result.errors == {}
