"""Tensors of TVM between controller and workers: copies that do not end the process, and host arrays."""

from __future__ import annotations

import contextlib
import importlib
import subprocess
import sys
import weakref

import numpy as np
import pytest

from disco_magic.errors import UsageMistake, WorkerInterrupt
from disco_magic.functions import bridges, tvm_modules, tvm_values
from disco_magic.functions.copies import copy_of
from disco_magic.functions.tvm_values import TVMFunction

tvm = pytest.importorskip("tvm", reason="apache-tvm is not installed")
tvm_ffi = pytest.importorskip("tvm_ffi")


class Odd(Exception):
    """What TVM does not know."""


@tvm.register_global_func("tests.disco.once", override=True)
def once(function, *_):
    function()


@pytest.fixture
def tensor():
    return tvm.runtime.tensor(np.arange(4, dtype="f4"))


def values(tensor):
    return tensor.numpy().tolist()


def test_a_tensor_is_copied_like_an_array(tensor):
    copied = copy_of(tensor)
    assert type(copied) is type(tensor)
    assert values(copied) == [0, 1, 2, 3]
    copied.copyfrom(np.zeros(4, "f4"))
    assert values(tensor) == [0, 1, 2, 3]


def test_tensors_in_containers_are_copied_once_each(tensor):
    given = [tensor, {"a": tensor, "b": (tensor, 1)}, {1, 2}]
    copied = copy_of(given)
    assert values(copied[0]) == [0, 1, 2, 3]
    assert copied[0] is copied[1]["a"] is copied[1]["b"][0]
    assert copied[0] is not tensor
    assert copied[1]["b"][1:] == (1,)
    assert copied[2] == {1, 2}
    assert copied[2] is not given[2]


class Batch:
    def __init__(self, tensor):
        self.tensor = tensor


def test_tensors_in_fields_of_objects_are_copied_too(tensor):
    batch = Batch(tensor)
    copied = copy_of([batch, tensor])
    assert copied[0].tensor is copied[1] is not tensor
    copied[1].copyfrom(np.zeros(4, "f4"))
    assert values(tensor) == [0, 1, 2, 3]
    boxed = np.empty(1, object)
    boxed[0] = tensor
    assert values(copy_of(boxed)[0]) == [0, 1, 2, 3]


def test_a_list_that_contains_itself_is_copied(tensor):
    circle = [tensor]
    circle.append(circle)
    copied = copy_of(circle)
    assert copied[1] is copied
    assert values(copied[0]) == [0, 1, 2, 3]


def test_nodes_that_nobody_can_change_are_handed_over():
    variable = tvm.tirx.Var("n", "int64")
    assert copy_of([variable])[0] is variable


def test_functions_are_handed_over(session):
    function = tvm_ffi.convert(lambda number: number + 1)
    assert copy_of([function])[0] is function
    assert session(2).call_packed(lambda f: f(1), function).get_all() == [2, 2]


FRESH = """
import sys
import disco_magic as disco
with disco.ThreadedSession(2) as session:
    assert "tvm_ffi" not in sys.modules
    print(session.get_global_func("testing.echo")(5).get_all())
"""


def test_functions_are_found_although_nobody_has_imported_tvm():
    ran = subprocess.run([sys.executable, "-c", FRESH], capture_output=True, text=True, check=False)  # noqa: S603 - our own
    assert (ran.stdout, ran.stderr) == ("[5, 5]\n", "")


def test_what_numpy_cannot_read_is_refused():
    with pytest.raises(UsageMistake, match="a tensor of TVM of dtype bfloat16 on cpu:0 cannot be copied"):
        copy_of(tvm.runtime.empty((2,), "bfloat16"))


def test_tensors_travel_as_arguments_values_and_results(session, tensor):
    s = session(2)
    assert s.call_packed(values, tensor).get_all() == [[0, 1, 2, 3]] * 2
    assert s.call_packed(lambda each: values(each[0]), [tensor]).get(1) == [0, 1, 2, 3]
    made = s.call_packed(lambda: tvm.runtime.tensor(np.ones(3, "f4")))
    assert values(made.get(1)) == [1, 1, 1]
    made.debug_copy_from(0, tensor)
    assert values(made.get(0)) == [0, 1, 2, 3]
    s.put("t", tensor)
    assert s.run("allreduce(t)").values[0].tolist() == [0, 2, 4, 6]


def test_the_array_calls_of_a_session_take_tensors(session, tensor):
    s = session(2)
    assert s.broadcast(tensor).get(1).tolist() == [0, 1, 2, 3]
    assert s.scatter(tvm.runtime.tensor(np.eye(2, dtype="f4"))).get(1).tolist() == [0, 1]
    there = s.copy_to_worker_0(tensor)
    tensor.copyfrom(np.zeros(4, "f4"))
    assert there.get(0).tolist() == [0, 1, 2, 3]
    s.copy_from_worker_0(tensor, there)
    assert values(tensor) == [0, 1, 2, 3]


def test_devices_of_tvm_are_known_by_their_text(session):
    assert session(1).empty((2,), "float32", tvm.cpu()).get(0).shape == (2,)


def calling():
    """A function of TVM's that calls two of ours, and lets nothing through that the first one raises."""

    @tvm.register_global_func("tests.disco.calling", override=True)
    def called(first, second):
        with contextlib.suppress(Exception):
            first()
        second()

    return TVMFunction("calling", tvm.get_global_func("tests.disco.calling"))


def test_what_a_callback_raises_comes_out_with_its_cause_and_holds_nothing(tensor):
    def failing():
        try:
            {}["nothing"]
        except KeyError as reason:
            raise Odd("its own words") from reason

    held = np.zeros(3)
    gone = weakref.ref(held)
    function = TVMFunction("f", tvm.get_global_func("tests.disco.once"))
    with pytest.raises(Odd, match="its own words") as caught:
        function(failing, held)
    assert type(caught.value.__cause__) is KeyError
    assert tvm_values._raised.error is None
    del caught, held
    assert gone() is None


def test_a_callback_begins_with_an_interrupt_that_was_withheld(monkeypatch):
    def withheld():
        raise WorkerInterrupt("withheld")

    monkeypatch.setattr(tvm_values, "land", withheld)
    began = []
    with pytest.raises(WorkerInterrupt, match="withheld"):
        TVMFunction("apply", tvm.get_global_func("testing.apply"))(began.append, 1)
    assert began == []


def test_a_callback_is_known_as_a_place_where_interrupts_may_strike():
    assert tvm_values.callback(print).__code__ in bridges._landings


def test_an_interrupt_is_not_taken_for_an_older_error_without_words(tensor):
    def failing():
        raise Odd

    class Function:
        def __call__(self, callback):
            with contextlib.suppress(Odd):
                callback()
            raise WorkerInterrupt("withheld")

    with pytest.raises(WorkerInterrupt, match="withheld"):
        TVMFunction("f", Function())(failing)


@pytest.mark.parametrize(("name", "load"), [("tvm_ffi", tvm_values.ffi_module), ("tvm", tvm_modules._tvm)])
def test_an_interrupt_does_not_strike_while_tvm_is_imported(monkeypatch, name, load):
    calls, module = [], sys.modules[name]

    def cross(*call):
        calls.append(call)
        sys.modules[name] = module

    monkeypatch.setattr(bridges, "cross", cross)
    monkeypatch.delitem(sys.modules, name)
    assert load() is load() is module
    assert calls == [(importlib.import_module, name)]


def test_what_a_callback_raised_before_is_not_what_comes_out():
    def first():
        raise Odd("swallowed")

    def second():
        raise OSError("the real one")

    with pytest.raises(Exception, match="the real one"):
        calling()(first, second)
