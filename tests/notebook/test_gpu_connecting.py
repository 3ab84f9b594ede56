"""`%disco start` and `restart` while NCCL connects: on a double of it, with a rank that is late."""

from __future__ import annotations

import signal
import threading

import pytest

from disco_magic.notebook.output import arrival, page
from disco_magic.phrases import ranges
from disco_magic.session.current import session
from disco_magic.testing.gpu import SimulatedGpus
from tests.gpus import found, with_nccl


@pytest.fixture(scope="module")
def machine():
    with SimulatedGpus(count=2) as made:
        made.double = with_nccl(made)
        yield made


@pytest.fixture
def double(machine, monkeypatch):
    """NCCL, whose rank 1 does not come before it is released."""
    found(monkeypatch, machine, 2, nccl=True)
    monkeypatch.setattr(arrival, "AFTER_S", 0.0)
    machine.double.reset()
    machine.double.stall(1)
    yield machine.double
    machine.double.reset()


class Seen:
    """A screen that does something when it is shown rows; keeps them."""

    waited = False
    stopped_by = "the stop button"

    def __init__(self, then):
        self.rows = []
        self._then = then

    def show(self, rows):
        self.rows.append([(ranges(row.workers), row.text) for row in rows])
        if rows:
            self._then()

    def covered(self):
        return False


@pytest.fixture
def screen(monkeypatch):
    """Makes the screen of the next commands."""

    def make(then):
        made = Seen(then)
        monkeypatch.setattr(page, "screen_for", lambda *_: made)
        return made

    return make


def test_a_start_and_a_restart_show_who_is_where_until_all_are_connected(shell, double, screen):
    shown = screen(lambda: double.release(1))
    for line in ("start --devices 0,1", "restart"):
        double.stall(1)
        shown.rows.clear()
        shell.run(f"%disco {line}")
        assert "2 workers" in shell.out
        told = [text for rows in shown.rows for _, text in rows]
        assert any(text.startswith("connecting workers [0-1] by NCCL") for text in told)
        assert shown.rows[-1] == []  # it takes no room any more


def test_ctrl_c_in_a_start_names_the_command_that_ends_the_connecting(shell, double, screen):
    screen(lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGINT))
    error = shell.fail("%disco start --devices 0,1", KeyboardInterrupt)
    assert "(%disco interrupt ends that)" in str(error)
    double.release(1)
    session().sync_all()


@pytest.mark.parametrize("output", ["ordered", "grouped"])
def test_with_another_output_than_live_a_start_shows_nothing(shell, double, screen, output):
    shown = screen(lambda: None)
    double.release(1)
    shell.run(f"%config DiscoMagics.output = {output!r}")
    shell.run("%disco start --devices 0,1")
    assert shown.rows == []
