"""The worker machine: cells, markers, and how it describes commands."""

from __future__ import annotations

import functools

import pytest

from disco_magic.core.interpreter import EXECUTE, SKIP, STOP, Interpreter
from disco_magic.core.messages import (
    Call,
    CellDone,
    DropNames,
    Fetch,
    Kill,
    LoadName,
    Reached,
    Run,
    Stop,
    Store,
    StoreName,
    Sync,
)
from disco_magic.errors import Failure
from tests.core.conftest import Bench, Cell


def add(*args, **kwargs):
    return sum(args) + sum(kwargs.values())


# --- cells, markers, the end -----------------------------------------------------------------------


def test_a_cell_keeps_its_value_and_tells_its_names():
    bench = Bench(x=1, _hidden=2)
    (event,) = bench.drive(Run(3, 5, Cell()))
    assert event == CellDone(1, 3, 0.5, ("x",))
    assert bench.registers.values[5] == "value of Cell In[7]"


def test_a_failed_cell_leaves_its_register_undefined_and_still_tells_the_names():
    # A poison here would keep the cell's frames alive, which keep the register: for ever.
    bench = Bench(x=1)
    event = bench.fail(Run(3, 5, Cell()))
    assert (type(event), event.names, event.failure.summary) == (CellDone, ("x",), "ValueError: boom")
    assert 5 not in bench.registers.poisons
    assert 5 not in bench.registers.values


def test_a_failed_cell_says_how_long_it_took(bench):
    event = bench.machine.fail(Run(3, 5, Cell()), Failure(1, 3, "c", ValueError(), ""), 2.5)
    assert event.elapsed_s == 2.5


def test_sync_is_answered_with_its_number(bench):
    assert bench.drive(Sync(8)) == [Reached(1, 8)]


def test_a_sync_that_waits_for_a_gpu_is_answered_however_the_wait_ends(bench):
    waited = []
    bench.machine = Interpreter(
        1, bench.registers, copy=bench.copy, run=bench.run, reach=lambda: waited.append("for the GPU")
    )
    assert bench.drive(Sync(8)) == [Reached(1, 8)]
    assert waited == ["for the GPU"]
    assert bench.fail(Sync(9)) == Reached(1, 9)


def test_stop_ends_the_worker(bench):
    assert bench.machine.feed(Stop(9)) is STOP


@pytest.mark.parametrize(
    "command",
    [
        Kill(1, (2, 3)),
        Store(1, 5, 0, (1,), kills=(2, 3)),
        Fetch(1, 5, kills=(2, 3)),
        LoadName(1, 5, "x", kills=(2, 3)),
        StoreName(1, "y", 4, kills=(2, 3)),
        DropNames(1, ("x",), kills=(2, 3)),
        Run(1, 5, Cell(), kills=(2, 3)),
        Sync(1, kills=(2, 3)),
        Stop(1, kills=(2, 3)),
        Call(1, 5, add, (), kills=(2, 3)),
    ],
    ids=lambda command: type(command).__name__,
)
def test_every_command_drops_the_registers_it_kills(command):
    bench = Bench(x=1)
    bench.registers.set(2, "two")
    bench.fail(Call(0, 3, add, ()))
    bench.registers.set(4, "four")
    bench.drive(command)
    assert 2 not in bench.registers.values
    assert 3 not in bench.registers.poisons
    assert bench.registers.values[4] == "four"


# --- words -----------------------------------------------------------------------------------------


class Evil:
    """A callable whose attributes and repr run code of its own."""

    def __getattr__(self, name):
        raise RuntimeError("ran the user's code")

    def __repr__(self):
        raise RuntimeError("ran the user's code")

    def __call__(self):
        return 1


class Named:
    disco_name = "a better name"


class Slotted:
    __slots__ = ("disco_name",)

    def __init__(self):
        self.disco_name = "a name of its own"


class Refusing(type):
    """Classes that do not say what they are called."""

    def __getattribute__(cls, name):
        raise AssertionError("ran the user's code")


class Refused(metaclass=Refusing):
    pass


class Computed:
    """Its name is code, which may block; it is asked with locks held."""

    @property
    def disco_name(self):
        raise AssertionError("ran the user's code")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (Call(1, 5, Slotted(), ()), "call a name of its own"),
        (Call(1, 5, Computed(), ()), "call Computed"),
        (Call(1, 5, Refused, ()), "call Refusing"),
        (Call(1, 5, Refused(), ()), "call Refused"),
        (Call(1, 5, add, ()), "call add"),
        (Call(1, 5, len, ()), "call len"),
        (Call(1, 5, Bench.copy, ()), "call Bench.copy"),
        (Call(1, 5, int, ()), "call int"),
        (Call(1, 5, Named(), ()), "call a better name"),
        (Call(1, 5, functools.partial(add, 1), ()), "call partial"),
        (Call(1, 5, Evil(), ()), "call Evil"),
        (Call(1, 5, 8, ()), "call add"),
        (Call(1, 5, 77, ()), "call register #77"),
        (Run(1, 5, Cell()), "Cell In[7]"),
        (Fetch(1, 5), "get register #5"),
        (LoadName(1, 5, "x"), "read register 'x'"),
        (StoreName(1, "x", 5), "bind register 'x'"),
        (Kill(1, (2, 3)), "drop of #2, #3"),
        (Sync(1), "sync"),
        (Store(1, 5, 0), "copy into register #5"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_command_is_described_in_words_without_running_code_of_the_user(bench, command, words):
    bench.registers.set(8, add)
    assert bench.machine.describe(command) == words


@pytest.mark.parametrize("step", [EXECUTE, SKIP, STOP])
def test_a_step_is_shown_by_its_name(step):
    assert repr(step) == step.name
