"""The doubles that tests build on: gates, and sessions without workers."""

from __future__ import annotations

import copy
import ctypes
import threading
from functools import partial
from types import SimpleNamespace

import pytest

from disco_magic.core.messages import Reached, Sync
from disco_magic.errors import WorkerInterrupt
from disco_magic.testing import doubles
from disco_magic.testing.doubles import Gate
from tests.doubles.scripted import JumpingClock, ScriptedLauncher, scripted_session


def test_a_gate_says_who_came_and_lets_nobody_through(background):
    gate = Gate()
    callers = [background(gate, name) for name in "ab"]
    assert sorted(gate.arrived(2)) == ["a", "b"]
    gate.open()
    assert [caller() for caller in callers] == [None, None]


def test_an_open_gate_stops_nobody_but_still_says_who_came():
    gate = Gate()
    gate.open()
    gate.open()
    gate("later")
    assert gate.arrived() == ["later"]


class Opened(list):
    """Tickets that let their callers through."""

    def append(self, ticket):
        ticket.put(None)
        super().append(ticket)


def test_who_has_arrived_at_a_gate_is_where_an_interrupt_cannot_strike():
    """It arrived and then began to wait: on a machine with much to do an interrupt came in between.

    So now and then a thread that a test meant to be given up was not.
    """
    gate, strike = Gate(), ctypes.pythonapi.PyThreadState_SetAsyncExc
    ident, error = ctypes.c_ulong(threading.get_ident()), ctypes.py_object(WorkerInterrupt)
    gate._tickets = Opened()
    gate._arrivals = SimpleNamespace(put=partial(strike, ident, error))  # whoever arrives is struck at once
    with pytest.raises(WorkerInterrupt):
        gate()
    assert gate._tickets[0].empty(), "it was struck before it had waited"


def test_a_copy_of_a_gate_is_the_gate():
    gate = Gate()
    assert copy.deepcopy([gate])[0] is gate


def test_a_gate_that_nobody_opens_says_where(monkeypatch):
    monkeypatch.setattr(doubles, "DEADLINE_S", 0)
    with pytest.raises(TimeoutError, match="nobody opened the gate at 'here'"):
        Gate()("here")


def test_a_gate_that_nobody_reaches_says_who_came(monkeypatch):
    monkeypatch.setattr(doubles, "DEADLINE_S", 0)
    gate = Gate()
    gate.open()
    gate("first")
    with pytest.raises(TimeoutError, match=r"1 of 2 came to the gate: \['first'\]"):
        gate.arrived(2)


def test_a_scripted_launcher_keeps_what_it_was_asked():
    launcher = ScriptedLauncher(2)
    events = []
    channels = launcher.start(events.append)
    channels[0].send(Sync(1))
    launcher.deliver(Reached(0, 1), Reached(1, 1))
    launcher.cell_done()
    launcher.prepare(5, None, {1: None})
    assert launcher.commands == [Sync(1)]
    assert events == [Reached(0, 1), Reached(1, 1)]
    assert launcher.prepared == [(1, 5)]
    assert launcher.interrupt(3, [1]) == [1]
    assert launcher.replace_stuck([1]) == []
    assert (launcher.interrupts, launcher.replaced) == ([(3, (1,))], [(1,)])
    assert launcher.examine("x", len, (), [(0,), (0, 1)]) == [None, None]
    assert launcher.examine_names(lambda bound, behind, more: (bound, behind, more), (5,), [1]) == [
        ({}, {}, 5)
    ]


def test_a_scripted_session_is_a_session():
    session, launcher = scripted_session(4, 2)
    assert repr(session) == f"Disco session {session.id}: 4 workers in 2 groups · scripted · cpu · plane none"
    session.shutdown()
    assert len(launcher.stops) == 1


def test_a_jumping_clock_jumps():
    clock = JumpingClock(10.0)
    assert [clock.monotonic() for _ in range(3)] == [0.0, 10.0, 20.0]
