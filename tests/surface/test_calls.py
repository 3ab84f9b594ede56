"""Rows about calls: functions by name, functions in registers, functions as arguments."""

from __future__ import annotations

import pytest

import disco_magic as disco
from tests.surface.conftest import fail_on, give, unchanged_by, who


@pytest.fixture
def scale():
    disco.register_func("surface.scale", lambda x, by=10: x * by + who(), override=True)
    yield "surface.scale"
    disco.remove_func("surface.scale")


def test_get_global_func(session, scale):
    s = session(3)
    function = s.get_global_func(scale)
    assert isinstance(function, disco.DPackedFunc)
    assert isinstance(function, disco.DRef)
    result = function(2)
    assert isinstance(result, disco.DRef)
    assert result.get_all() == [20, 21, 22]


@pytest.mark.parametrize("ask", ["get_global_func", "call_packed"])
def test_get_global_func_of_an_unknown_name_gives_near_misses(session, scale, ask):
    s = session(2)

    def refused():
        with pytest.raises(disco.UsageMistake, match=r"'surface\.scal'.*did you mean 'surface\.scale'"):
            getattr(s, ask)("surface.scal")

    assert unchanged_by(s, refused)
    assert s.get_global_func(scale)(1).get(0) == 10


@pytest.mark.parametrize("n", [1, 2, 3])
def test_call_packed(session, scale, n):
    s = session(n)
    ref = s.call_packed(s.get_global_func(scale), 3)
    assert isinstance(ref, disco.DRef)
    assert ref.get_all() == [30 + worker for worker in range(n)]


@pytest.mark.parametrize("function", ["reference", "name", "callable", "keyword"])
def test_call_packed_takes_a_reference_a_name_or_a_callable(session, scale, function):
    s = session(2)
    ways = {
        "reference": lambda: s.call_packed(s.get_global_func(scale), 3),
        "name": lambda: s.call_packed(scale, 3),
        "callable": lambda: s.call_packed(lambda x: x * 10 + who(), 3),
        "keyword": lambda: s.call_packed(scale, x=1.5, by=20),
    }
    assert ways[function]().get_all() == [30, 31]


def test_call_packed_is_asynchronous(session, gate):
    s = session(2)
    s.call_packed(gate)
    gate.arrived(2)
    ref = s.call_packed(who)  # both workers are held: if this waited, the test would end here
    with pytest.raises(disco.SyncTimeout):
        ref.get(0, timeout=0)
    gate.open()
    assert ref.get_all() == [0, 1]


def test_call_packed_keeps_the_order_of_every_worker(session):
    s = session(3)
    steps = s.call_packed(list)
    for step in range(50):
        s.call_packed(list.append, steps, step)
    assert s.call_packed(tuple, steps).get_all() == [tuple(range(50))] * 3


def test_call_packed_of_a_function_that_raises_poisons_its_result_only(session):
    s = session(3)
    bad = s.call_packed(fail_on, 1)
    further = s.call_packed(give, bad)
    with pytest.raises(disco.WorkerError) as caught:
        s.sync_all()
    assert {worker: f.summary for worker, f in caught.value.failures.items()} == {1: "ValueError: boom"}
    s.sync_all()
    assert further.get(2) == (("fine",), {})
    with pytest.raises(disco.WorkerError, match="call fail_on failed on worker 1"):
        further.get(1)


def test_functions_in_registers_and_as_arguments(session):
    s = session(3)

    def make():
        me = who()
        return lambda x: x + me

    # In a register, called; in a register, as an argument; as an argument by itself; returned by a call.
    add = s.call_packed(make)
    assert s.call_packed(add, 10).get_all() == [10, 11, 12]
    assert s.call_packed(lambda f, xs: list(map(f, xs)), add, [1, 2]).get(2) == [3, 4]
    assert s.call_packed(lambda f, x: f(x), lambda x: x * 2, 21).get_all() == [42] * 3
    assert s.call_packed(s.call_packed(lambda f: f, add), 5).get_all() == [5, 6, 7]


def test_functions_in_registers_and_as_arguments_may_be_registered_ones(session, scale):
    s = session(2)
    assert s.call_packed(lambda f, x: f(x), s.get_global_func(scale), 7).get_all() == [70, 71]


def test_functions_in_registers_and_as_arguments_that_cannot_be_called_fail_on_the_worker(session):
    s = session(2)
    number = s.call_packed(who)
    s.call_packed(number)
    with pytest.raises(disco.WorkerError, match="'int' object is not callable"):
        s.sync_all()
    assert number.get_all() == [0, 1]
