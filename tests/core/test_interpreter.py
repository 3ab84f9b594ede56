"""The worker machine, fed by hand: every command, every way it can go wrong. No thread, no clock."""

from __future__ import annotations

from disco_magic.core.interpreter import SKIP
from disco_magic.core.messages import (
    Call,
    DropNames,
    Failed,
)
from disco_magic.errors import Failure, UnknownName


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


def test_a_call_that_succeeds_heals_its_register(bench):
    bench.fail(Call(1, 5, add, ()))
    bench.drive(Call(2, 5, add, (1, 2)))
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
    assert bench.inherited == [event.failure]
    assert bench.machine.inherited() == ((), None)  # else it keeps what the failure's frames hold


def test_neither_function_nor_operands_are_kept_when_it_has_ended(bench):
    def function(*args):
        return len(args)

    for end in (bench.drive, bench.fail):
        bench.registers.set(2, function)
        end(Call(1, 5, 2, (1,)))
        assert bench.machine.function is not function
        assert not bench.machine.arguments


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
    assert str(first[0].failure.exception).startswith("register '#5' is not defined on worker 1; the comm")


def test_a_repeated_failure_keeps_the_first_origin_of_a_register(bench):
    first = bench.fail(Call(1, 5, add, ())).failure
    bench.fail(Call(2, 5, add, ()), KeyError("second"))
    assert bench.registers.poisons[5].failure is first


def test_a_call_may_kill_poisoned_registers(bench):
    bench.fail(Call(1, 5, add, ()))
    bench.drive(Call(2, 6, add, (1,), (), (), (5,)))
    assert bench.registers.poisons == {}


def test_a_failed_binding_poisons_nothing_and_says_so(bench):
    event = bench.machine.fail(DropNames(1, ("x",)), Failure(1, 1, "drop", ValueError(), ""))
    assert isinstance(event, Failed)
    assert bench.registers.poisons == {}
