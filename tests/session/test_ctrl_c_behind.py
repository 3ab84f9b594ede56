"""Ctrl-C in a cell that waits behind other commands: what it stops, what it spares, and what it says."""

from __future__ import annotations

import signal

import pytest

from disco_magic.errors import CellError
from disco_magic.session import pump


def pressed_behind(s, *, earlier, times=1):
    """What Ctrl-C says in a cell that comes after what `earlier` sends; and what that was."""
    kept = earlier()
    with pump.attentive() as inbox:
        second = s.run_nowait("5", inbox=inbox)
        for _ in range(times):
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt) as caught:
            second.wait()
    assert second.done()
    return str(caught.value), kept


def forever(here):
    here()
    n = 0
    while True:
        n += 1


def test_ctrl_c_in_a_cell_behind_a_call_says_what_it_has_stopped_with_it(busy, here):
    s = busy(1)

    def call():
        called = s.call_packed(forever, here)
        here.arrived()
        return called

    said, _ = pressed_behind(s, earlier=call)
    assert ". So was what had been sent before it: call forever. Where they were: " in said
    assert s.run("6").values == [6]


def test_ctrl_c_in_a_cell_behind_another_one_leaves_it_out_and_says_what_goes_on(busy, here, gate):
    s = busy(2)

    def send():
        first = s.run_nowait("here()\ngate()\n7")
        here.arrived(2)
        return first

    said, first = pressed_behind(s, earlier=send)
    assert f" was stopped before any worker had begun it. {first.label} goes on - .cancel() stops it" in said
    assert "may differ" not in said
    assert not first.done()
    gate.open()
    assert first.wait().values == [7, 7]
    assert s.run("6").values == [6, 6]


def test_a_loop_of_steps_before_it_is_not_cut_in_the_midst_of_one(busy, here):
    s = busy(2)

    def send():
        loop = s.run_nowait("n = 0\nfor _ in worker.steps(range(3)):\n    here()\n    gate()\n    n += 1\nn")
        here.arrived(2)
        return loop

    _, loop = pressed_behind(s, earlier=send)
    assert not loop.done()
    loop.cancel()


def test_calls_that_a_spared_cell_waits_for_go_on_with_it(busy, here):
    s = busy(1)

    def send():
        called = s.call_packed(forever, here)
        here.arrived()
        return called, s.run_nowait("8")

    said, (_, in_line) = pressed_behind(s, earlier=send)
    assert f"call forever, {in_line.label} go on - session.interrupt() stops all that was sent. " in said
    s.interrupt()
    with pytest.raises(CellError):
        in_line.wait()


def test_a_cell_behind_one_that_is_being_stopped_is_spared(busy, here, gate):
    s = busy(1)

    def send():
        first = s.run_nowait("here()\ngate()")
        here.arrived()
        later = s.run_nowait("8")
        s.withdraw(first.seq, [0], first.label, s.life)  # it sits at the gate, where no interrupt finds it
        return first, later

    said, (first, later) = pressed_behind(s, earlier=send)
    assert f"{first.label}, {later.label} go on - session.interrupt() stops all that was sent. " in said
    gate.open()
    with pytest.raises(CellError):
        first.wait()
    assert later.wait().values == [8]


def test_a_cell_whose_handle_nobody_has_is_stopped_with_the_one_behind_it(busy, here):
    s = busy(1)

    def send():
        s.run_nowait("here()\nn = 0\nwhile True:\n    n += 1\n")
        here.arrived()

    said, _ = pressed_behind(s, earlier=send)
    assert ". So was what had been sent before it: Cell " in said
    assert s.run("6").values == [6]


def test_a_cell_that_cleans_up_is_stopped_for_good_by_ctrl_c_in_the_next_one(busy, here):
    s = busy(1)

    def send():
        first = s.run_nowait(
            "try:\n    here()\n    while True: n = 1\nfinally:\n    here()\n    while True: n = 2\n"
        )
        here.arrived()
        s.interrupt()
        here.arrived()
        return first

    said, first = pressed_behind(s, earlier=send, times=2)
    assert f". So was what had been sent before it: {first.label}. " in said
    with pytest.raises(CellError):
        first.wait()


def test_a_cell_that_is_stopped_alone_names_no_other(busy, here):
    s = busy(1)
    s.run_nowait("5").wait()
    with pump.attentive() as inbox:
        pending = s.run_nowait("here()\nn = 0\nwhile True:\n    n += 1\n", inbox=inbox)
        here.arrived()
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt, match=r"registers may differ between them\. Where they were: "):
            pending.wait()
