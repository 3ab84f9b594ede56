"""What the thread that waits for a cell does meanwhile: it looks up, ten times a second."""

from __future__ import annotations

import signal
from queue import Empty, SimpleQueue

import pytest

from disco_magic.functions.execution.cells import compile_cell
from disco_magic.session import pump
from tests.doubles.scripted import scripted_session

CELL = compile_cell("x", label="Cell In[7]")


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(pump, "LOOK_UP_S", 0.001)


@pytest.fixture
def stage():
    """A session of two scripted workers with one cell on its way."""
    session, launcher = scripted_session(2)
    yield session, launcher, session.run_nowait(CELL)
    session.shutdown()


def after(count, act):
    """A function for looks that acts at one of them, and the list of its looks."""
    looks = []

    def look():
        looks.append(None)
        if len(looks) == count:
            act()

    return look, looks


def test_whoever_waits_looks_up_until_something_comes():
    inbox = SimpleQueue()
    look, looks = after(3, lambda: inbox.put("item"))
    assert pump.take(inbox, None, look) == "item"
    assert len(looks) == 3


def test_what_is_there_already_is_taken_without_a_look():
    inbox = SimpleQueue()
    inbox.put("item")
    look, looks = after(1, lambda: None)
    assert pump.take(inbox, 0, look) == "item"
    assert looks == []


def test_looking_does_not_lengthen_a_wait_with_an_end():
    look, looks = after(1, lambda: None)
    with pytest.raises(Empty):
        pump.take(SimpleQueue(), 0.02, look)
    assert 1 <= len(looks) <= 20
    with pytest.raises(Empty):
        pump.take(SimpleQueue(), 0)


def test_a_cell_that_ends_during_a_look_is_taken(stage):
    _, launcher, pending = stage
    look, looks = after(2, launcher.cell_done)
    assert sorted(pending.wait(on_look=look).elapsed) == [0, 1]
    assert len(looks) == 2


def test_ctrl_c_during_a_look_stops_the_cell(stage):
    _, launcher, pending = stage
    launcher.on_interrupt = lambda through, workers: launcher.cell_done()
    look, looks = after(2, lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt, match=r"Cell In\[7\] was stopped"):
        pending.wait(on_look=look)
    assert len(looks) == 2


@pytest.mark.parametrize(
    "odd",
    [
        "{10**5000: np.ones(2)}",
        "SimpleNamespace(**{'\\ud800': 1, 'w': np.ones(2)})",
        "Odd()",
        "{Own(1): np.ones(2)}",
        "{'a\\x1b[31m\\nb': np.ones(2)}",
        "SimpleNamespace(**{'a\\x1b[31m\\nb': np.ones(2)})",
        "{Text('k'): 1}",
    ],
)
def test_values_that_cannot_be_written_are_no_end_of_a_table(session, odd):
    s = session(2)
    s.run(
        "from types import SimpleNamespace\n"
        "class Kind(type):\n"
        "    def __eq__(self, other): raise RuntimeError\n"
        "    __hash__ = type.__hash__\n"
        "class Odd(metaclass=Kind): pass\n"
        "class Own(np.float64):\n"
        "    def __repr__(self): raise RuntimeError\n"
        "class Text(np.str_):\n"
        "    def __repr__(self): raise RuntimeError\n"
        "    __str__ = __repr__\n"
        f"x = {odd}; y = 1"
    )
    assert "y" in str(s.registers())
    text = str(s.look_into("x")) + str(s.check("x", values=True))
    assert "\x1b" not in text
    assert s.run("y").values == [1, 1]


@pytest.mark.parametrize("waits", [True, False])
def test_who_has_waited_for_an_interrupt_may_strike_at_once(monkeypatch, waits):
    """Beside threads that compute, the next turn comes after one of each."""
    notes, inbox = [], SimpleQueue()
    monkeypatch.setattr(pump, "note_wait", lambda: notes.append(1))
    clock = iter([0.0, 0.05 if waits else 1e-5])
    monkeypatch.setattr(pump, "perf_counter", lambda: next(clock))
    inbox.put(pump.INTERRUPT)
    assert pump.take(inbox, None) is pump.INTERRUPT
    assert notes == [1] * waits
