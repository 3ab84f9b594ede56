"""The worker machine: values and names that the controller stores and reads."""

from __future__ import annotations

from disco_magic.core.messages import (
    Answer,
    Call,
    DropNames,
    Failed,
    Fetch,
    LoadName,
    Store,
    StoreName,
)
from disco_magic.errors import UnknownName
from tests.core.conftest import Bench


def add(*args, **kwargs):
    return sum(args) + sum(kwargs.values())


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
    text = "register 'weigt' is not defined on worker 1; did you mean 'weight'?"
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
    (event,) = bench.drive(StoreName(2, "y", 5))
    assert event[1:] == (2, "y")  # a `NotBound`: the controller took it for bound
    assert "y" not in bench.registers.names
    assert bench.inherited == [origin]


def test_storing_a_poisoned_register_under_a_name_that_has_a_value_keeps_that(bench):
    bench.registers.set(6, "six")
    bench.drive(StoreName(1, "y", 6))
    bench.fail(Call(2, 5, add, ()))
    assert bench.drive(StoreName(3, "y", 5)) == []
    assert bench.registers.names["y"] == "six"


def test_storing_an_undefined_register_under_a_name_is_reported(bench):
    event, _ = bench.drive(StoreName(2, "y", 5))
    assert event.failure.command == "bind register 'y'"


def test_dropping_names_skips_those_that_are_absent():
    bench = Bench(a=1, b=2)
    assert bench.drive(DropNames(1, ("a", "zzz"))) == []
    assert dict(bench.registers.names) == {"b": 2}
