"""The worker machine, fed by hand: every command, every way it can go wrong. No thread, no clock."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import pytest

from disco_magic.core.interpreter import CALL, EXECUTE, SKIP, STOP, Interpreter
from disco_magic.core.messages import (
    Answer,
    Call,
    CellDone,
    DropNames,
    Failed,
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
from disco_magic.core.registers import RegisterFile
from disco_magic.errors import Failure, UnknownName


@dataclass
class Done:
    value: object
    shown: object = None
    digest: bytes = b""
    elapsed_s: float = 0.5


@dataclass
class Cell:
    label: str = "Cell In[7]"


class Bench:
    """An interpreter, and the few lines a driver needs."""

    def __init__(self, worker=1, **names):
        self.registers = RegisterFile(names)
        self.machine = Interpreter(worker, self.registers, copy=self.copy, run=self.run)

    def copy(self, value):
        return ("copy of", value)

    def run(self, command):
        return Done(f"value of {command.cell.label}")

    def drive(self, command):
        """Feed, execute, finish; what the driver would send."""
        step = self.machine.feed(command)
        if step is CALL:
            self.machine.store(self.machine.function(*self.machine.arguments))
            return []
        if step is EXECUTE:
            event = self.machine.finish(self.machine.function(*self.machine.arguments))
            return [event] if event is not None else []
        if step is SKIP:
            return list(self.machine.events)
        return [] if step is None else [step]

    def fail(self, command, error=None):
        """Feed, and let the execution fail."""
        assert self.machine.feed(command) in (CALL, EXECUTE)
        failure = Failure(1, command.seq, "call f", error or ValueError("boom"), "text")
        return self.machine.fail(failure)


@pytest.fixture
def bench():
    return Bench()


def add(*args, **kwargs):
    return sum(args) + sum(kwargs.values())


# --- calls -----------------------------------------------------------------------------------------


def test_a_call_stores_what_the_function_returns(bench):
    assert bench.drive(Call(1, 5, add, (1, 2))) == []
    assert bench.registers.values[5] == 3


def test_a_calls_operands_are_read_from_registers(bench):
    bench.registers.set(2, 20)
    bench.drive(Call(1, 5, add, (2, 2), (1,)))
    assert bench.registers.values[5] == 22


def test_a_number_and_a_register_of_that_number_do_not_look_alike(bench):
    bench.registers.set(2, "two")
    bench.drive(Call(1, 5, lambda *args: args, (2, 2, 2), (0, 2)))
    assert bench.registers.values[5] == ("two", 2, "two")


def test_a_call_may_name_a_register_that_holds_the_function(bench):
    bench.registers.set(9, add)
    bench.drive(Call(1, 5, 9, (1, 1)))
    assert bench.registers.values[5] == 2


def test_the_last_operands_of_a_call_may_have_names(bench):
    bench.registers.set(3, 30)
    bench.drive(Call(1, 5, lambda a, *, b, c: (a, b, c), (1, 2, 3), (2,), ("b", "c")))
    assert bench.registers.values[5] == (1, 2, 30)


def test_the_commands_own_operands_are_not_changed(bench):
    bench.registers.set(2, "two")
    command = Call(1, 5, add, (2, 2), (0,))
    bench.machine.feed(command)
    assert command.args == (2, 2)


def test_an_operand_does_not_outlive_its_command(bench):
    bench.registers.set(2, 1)
    bench.drive(Call(1, 5, add, (2,), (0,)))
    assert bench.machine.arguments == ()


def test_the_registers_a_call_kills_are_gone_before_it_reads(bench):
    bench.registers.set(2, 1)
    bench.drive(Call(1, 5, add, (2,), (0,), (), (2,)))
    assert 5 in bench.registers.poisons


def test_a_call_may_reuse_the_register_it_kills(bench):
    bench.registers.set(2, "old")
    bench.drive(Call(1, 2, add, (4,), (), (), (2,)))
    assert bench.registers.values == {2: 4}


def test_a_call_may_be_finished_like_a_rare_command(bench):
    # What the driver does when an interrupt came too late to mean this call.
    bench.fail(Call(1, 5, add, ()))
    assert bench.machine.feed(Call(2, 5, add, (1, 2))) is CALL
    assert bench.machine.finish(3) is None
    assert (bench.registers.values, bench.registers.poisons) == ({5: 3}, {})


# --- poison ----------------------------------------------------------------------------------------


def test_a_failed_call_poisons_its_register_and_says_so_at_once(bench):
    event = bench.fail(Call(4, 5, add, ()))
    assert event == Failed(1, 4, bench.registers.poisons[5].failure)
    assert 5 not in bench.registers.values


def test_a_dependent_inherits_the_origin_instead_of_running(bench):
    event = bench.fail(Call(1, 5, add, ()))
    assert bench.drive(Call(2, 6, add, (5,), (0,))) == []
    assert bench.registers.poisons[6].failure is event.failure
    assert bench.machine.origin is event.failure


def test_the_first_of_two_poisoned_operands_is_the_origin(bench):
    first = bench.fail(Call(1, 5, add, ())).failure
    bench.fail(Call(2, 6, add, ()), KeyError("other"))
    bench.drive(Call(3, 7, add, (5, 6), (0, 1)))
    assert bench.registers.poisons[7].failure is first


def test_a_poisoned_function_is_inherited_too(bench):
    origin = bench.fail(Call(1, 5, add, ())).failure
    assert bench.machine.feed(Call(2, 6, 5, ())) is SKIP
    assert bench.registers.poisons[6].failure is origin


def test_a_failure_is_reported_once_however_many_depend_on_it(bench):
    bench.fail(Call(1, 5, add, ()))
    events = [bench.drive(Call(seq, seq + 10, add, (5,), (0,))) for seq in (2, 3)]
    assert events == [[], []]


def test_an_undefined_operand_is_reported_once_and_names_register_and_worker(bench):
    first = bench.drive(Call(2, 6, add, (5,), (0,)))
    second = bench.drive(Call(3, 7, add, (6,), (0,)))
    assert [type(event) for event in first] == [Failed]
    assert second == []
    assert isinstance(first[0].failure.exception, UnknownName)
    assert str(first[0].failure.exception) == "register '#5' is not defined on worker 1"


def test_a_repeated_failure_keeps_the_first_origin_of_a_register(bench):
    first = bench.fail(Call(1, 5, add, ())).failure
    bench.fail(Call(2, 5, add, ()), KeyError("second"))
    assert bench.registers.poisons[5].failure is first


def test_a_call_may_kill_poisoned_registers(bench):
    bench.fail(Call(1, 5, add, ()))
    bench.drive(Call(2, 6, add, (1,), (), (), (5,)))
    assert bench.registers.poisons == {}


def test_a_failed_binding_poisons_nothing_and_says_so(bench):
    bench.machine.feed(DropNames(1, ("x",)))
    event = bench.machine.fail(Failure(1, 1, "drop", ValueError(), ""))
    assert isinstance(event, Failed)
    assert bench.registers.poisons == {}


# --- store and fetch -------------------------------------------------------------------------------


def test_store_gives_every_worker_a_copy_of_its_own(bench):
    assert bench.drive(Store(1, 5, [1])) == []
    assert bench.registers.values[5] == ("copy of", [1])


def test_store_for_some_workers_leaves_none_on_the_others(bench):
    bench.drive(Store(1, 5, [1], only=(0, 2)))
    assert bench.registers.values[5] is None


def test_store_for_several_workers_copies(bench):
    bench.drive(Store(1, 5, [1], only=(0, 1)))
    assert bench.registers.values[5] == ("copy of", [1])


def test_store_for_this_worker_alone_hands_over_the_object_itself(bench):
    value = [1]
    bench.drive(Store(1, 5, value, only=(1,)))
    assert bench.registers.values[5] is value


def test_store_heals_a_poisoned_register(bench):
    bench.fail(Call(1, 5, add, ()))
    bench.drive(Store(2, 5, 1, only=(1,)))
    assert bench.registers.values == {5: 1}
    assert bench.registers.poisons == {}


def test_a_store_whose_copy_fails_poisons(bench):
    event = bench.fail(Store(1, 5, object()))
    assert isinstance(event, Failed)
    assert 5 in bench.registers.poisons


def test_fetch_answers_with_a_copy(bench):
    bench.registers.set(5, [1])
    assert bench.drive(Fetch(3, 5)) == [Answer(1, 3, ("copy of", [1]))]


def test_fetching_a_poisoned_register_answers_with_the_origin(bench):
    origin = bench.fail(Call(1, 5, add, ())).failure
    assert bench.drive(Fetch(2, 5)) == [Answer(1, 2, None, origin)]


def test_fetching_an_undefined_register_answers_with_a_failure(bench):
    (answer,) = bench.drive(Fetch(2, 5))
    assert isinstance(answer.failure.exception, UnknownName)
    assert answer.failure.command == "get register #5"


def test_a_fetch_whose_copy_fails_answers_with_that_failure_and_keeps_the_value(bench):
    bench.registers.set(5, "lock")
    answer = bench.fail(Fetch(2, 5))
    assert isinstance(answer, Answer)
    assert answer.failure.summary == "ValueError: boom"
    assert bench.registers.values == {5: "lock"}


# --- names -----------------------------------------------------------------------------------------


def test_loading_a_name_makes_the_register_its_value():
    bench = Bench(x=[1])
    assert bench.drive(LoadName(1, 5, "x")) == []
    assert bench.registers.values[5] is bench.registers.names["x"]


def test_loading_a_missing_name_is_quiet_until_somebody_reads_it():
    bench = Bench(weight=1)
    assert bench.drive(LoadName(1, 5, "weigt")) == []
    (event,) = bench.drive(Call(2, 6, add, (5,), (0,)))
    text = "register 'weigt' is not defined on worker 1; did you mean weight?"
    assert str(event.failure.exception) == text
    assert event.failure.command == "read register 'weigt'"


def test_a_missing_name_that_is_read_twice_is_reported_once():
    bench = Bench()
    bench.drive(LoadName(1, 5, "x"))
    events = [bench.drive(Call(seq, seq + 10, add, (5,), (0,))) for seq in (2, 3)]
    assert [len(each) for each in events] == [1, 0]


def test_loading_a_name_heals_the_register():
    bench = Bench(x=1)
    bench.fail(Call(1, 5, add, ()))
    bench.drive(LoadName(2, 5, "x"))
    assert 5 not in bench.registers.poisons


def test_storing_a_name_binds_the_registers_value(bench):
    bench.registers.set(5, "five")
    assert bench.drive(StoreName(1, "y", 5)) == []
    assert bench.registers.names["y"] == "five"


def test_storing_a_poisoned_register_under_a_name_binds_nothing(bench):
    origin = bench.fail(Call(1, 5, add, ())).failure
    assert bench.drive(StoreName(2, "y", 5)) == []
    assert "y" not in bench.registers.names
    assert bench.machine.origin is origin


def test_storing_an_undefined_register_under_a_name_is_reported(bench):
    (event,) = bench.drive(StoreName(2, "y", 5))
    assert event.failure.command == "bind register 'y'"


def test_dropping_names_skips_those_that_are_absent():
    bench = Bench(a=1, b=2)
    assert bench.drive(DropNames(1, ("a", "zzz"))) == []
    assert dict(bench.registers.names) == {"b": 2}


# --- cells, markers, the end -----------------------------------------------------------------------


def test_a_cell_keeps_its_value_and_tells_its_names():
    bench = Bench(x=1, _hidden=2)
    (event,) = bench.drive(Run(3, 5, Cell()))
    assert event == CellDone(1, 3, 0.5, ("x",))
    assert bench.registers.values[5] == "value of Cell In[7]"


def test_a_failed_cell_poisons_its_register_and_still_tells_the_names():
    bench = Bench(x=1)
    event = bench.fail(Run(3, 5, Cell()))
    assert (type(event), event.names, event.failure.summary) == (CellDone, ("x",), "ValueError: boom")
    assert 5 in bench.registers.poisons


def test_a_failed_cell_says_how_long_it_took(bench):
    bench.machine.feed(Run(3, 5, Cell()))
    event = bench.machine.fail(Failure(1, 3, "c", ValueError(), ""), 2.5)
    assert event.elapsed_s == 2.5


def test_sync_is_answered_with_its_number(bench):
    assert bench.drive(Sync(8)) == [Reached(1, 8)]


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


@pytest.mark.parametrize(
    ("command", "words"),
    [
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
        (Kill(1, (2,)), "kill"),
        (Sync(1), "sync"),
        (Store(1, 5, 0), "store"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_command_is_described_in_words_without_running_code_of_the_user(bench, command, words):
    bench.registers.set(8, add)
    assert bench.machine.describe(command) == words


@pytest.mark.parametrize("step", [CALL, EXECUTE, SKIP, STOP])
def test_a_step_is_shown_by_its_name(step):
    assert repr(step) == step.name
