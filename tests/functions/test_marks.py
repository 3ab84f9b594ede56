"""Which registers are marked, and what a worker tells of them."""

from __future__ import annotations

import contextvars
import gc
import sys
import weakref

import numpy as np
import pytest

from disco_magic.core.topology import Topology
from disco_magic.errors import UsageMistake
from disco_magic.functions.context import WorkerContext, enter_worker
from disco_magic.functions.execution.cells import compile_cell
from disco_magic.functions.execution.running import CellRunner
from disco_magic.functions.execution.worker_namespace import drop_namespace, new_namespace
from disco_magic.functions.surveys import Sample, Survey
from disco_magic.values import finding
from disco_magic.values.finding import PresentPlaces

# --- marks -----------------------------------------------------------------------------------------


class Stage:
    """One worker's cells, marks and registers, in a context of its own."""

    def __init__(self):
        self.context = WorkerContext(0, Topology(1), None, None, session_id=9998)
        self.names = new_namespace(self.context, {})
        self._runner = CellRunner(self.context, self.names)
        self._apart = contextvars.copy_context()

    def run(self, source):
        return self._apart.run(self._runner, compile_cell(source), None).value

    def call(self, function):
        return self._apart.run(lambda: enter_worker(self.context) or function())

    @property
    def marked(self):
        return set(self.call(Survey()).marked)


@pytest.fixture
def stage():
    made = Stage()
    yield made
    drop_namespace(made.context, made.names)


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("w = worker.replicated(np.zeros(2))", {"w"}),
        ("a = b = worker.replicated(3)", {"a", "b"}),
        ("a, (b, c) = worker.replicated(1, (2, 3))", {"a", "b", "c"}),
        ("q, r = worker.replicated(*np.linalg.qr(np.eye(2)))", {"q", "r"}),
        ("n: int = worker.replicated(3)", {"n"}),
        ("if (n := worker.replicated(3)): pass", {"n"}),
        ("w = np.zeros(2); worker.replicated(w)", {"w"}),
        ("p = {}; worker.replicated(p);", {"p"}),
        ("def f():\n    global g\n    g = worker.replicated(1)\nf()", {"g"}),
        ("def f():\n    w = worker.replicated(np.zeros(2))\n    return w\nx = f()", {"x"}),
        ("def f():\n    n = worker.replicated(3)\n    return n\nx = f()", set()),
        ("class A:\n    w = worker.replicated(np.zeros(2))\nx = A.w", {"x"}),
        ("w = np.zeros(2); _ = worker.replicated(w)", {"w"}),
        ("w = _w = worker.replicated(np.zeros(2))", {"w"}),
        ("w = worker.replicated(np.zeros(2)); w = w + 1", {"w"}),
        ("seed = worker.replicated(0); rank = 0", {"seed"}),  # which happens to be equal
        ("w = np.zeros(2)\nkept = [w]\nworker.replicated(w)\nw = w + 1", {"w"}),
        ("def f(): return worker.replicated(_kept)\n_kept = np.zeros(2); x = f()", {"x"}),
    ],
)
def test_a_mark_goes_to_the_name_that_the_value_gets(stage, source, names):
    stage.run(source)
    assert stage.marked == names


MARKS_NOTHING = "has marked no register: "


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("class A:\n    w = worker.replicated(np.zeros(2))", "no name holds this ndarray"),
        (
            "_w = 1\ndef f():\n    global _w\n    _w = worker.replicated(np.zeros(2))\nf()",
            "no name holds this ndarray",
        ),
    ],
)
def test_what_no_register_holds_is_not_marked_and_that_is_said(stage, source, said):
    with pytest.warns(UserWarning, match=MARKS_NOTHING) as caught:
        stage.run(source)
    (warning,) = caught
    assert said in str(warning.message)
    assert stage.marked == set()
    stage.run("other = 1")  # once


def test_of_a_loop_over_what_nothing_holds_one_warning_tells_that_it_is_not_marked(stage):
    stage.run("_held = [np.zeros(2) for _ in range(5)]")
    with pytest.warns(UserWarning, match=MARKS_NOTHING) as caught:
        stage.run("for part in _held: worker.replicated(part)")
    (warning,) = caught
    assert str(warning.message).endswith("(3 more in this line)")
    assert stage.marked == {"part"}


def test_of_a_loop_over_parts_and_others_the_others_are_told(stage):
    with pytest.warns(UserWarning, match=MARKS_NOTHING):
        stage.run("held, _w = [np.zeros(2)], np.ones(2)\nfor part in (_w, held[0]): worker.replicated(part)")
    assert stage.marked == {"held[0]"}


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("worker.replicated(held[1])", {"held[1]"}),
        ("worker.replicated(net.w['a'])", {"net.w['a']"}),
        ("worker.replicated(held[0], net)", {"held[0]", "net"}),
        ("for part in held: worker.replicated(part)", {"held[0]", "held[1]", "held[2]"}),
        ("for i, part in enumerate(held):\n    if i == 1: worker.replicated(part)", {"held[1]"}),
        ("for key in net.w: worker.replicated(net.w[key])", {"net.w['a']", "net.w['b']"}),
        ("[worker.replicated(part) for part in held]", {"held[0]", "held[1]", "held[2]"}),
        (
            "def mark(parts):\n    for part in parts: worker.replicated(part)\nmark(held[1:])",
            {"held[1]", "held[2]"},
        ),
        ("_part = held[0]\nworker.replicated(_part)", {"held[0]"}),
        ("_part = worker.replicated(held[0])", {"held[0]"}),
        ("part = held[0]\nworker.replicated(part)", {"part"}),
        ("part = worker.replicated(held[0])", {"part"}),
        ("for part in (alone, held[2]): worker.replicated(part)", {"alone", "held[2]"}),
        ("for part in (alone, held[2]): part = worker.replicated(part)", {"part"}),
        (
            "for part in net.w.values(): worker.replicated(part)\npart = net.w['b'] = net.w['b'] + 1",
            {"net.w['a']", "net.w['b']"},
        ),
        ("worker.replicated(held[0])\ndel held[0]", {"held[0]"}),
        ("worker.replicated(held[0])\ndel held", set()),
        ("worker.replicated(held[0])\nheld[0] = np.ones(2)", {"held[0]"}),
        (
            "for i in range(3): worker.replicated(held[i])\nfor i in range(3): held[i] = held[i] + 1",
            {"held[0]", "held[1]", "held[2]"},
        ),
        (
            "for _ in range(2):\n    for key in net.w: net.w[key] = worker.replicated(net.w[key]) + 1",
            {"net.w['a']", "net.w['b']"},
        ),
    ],
)
def test_a_part_of_a_register_is_marked_where_it_is(stage, source, names):
    stage.run(
        "held = [np.zeros(2) for _ in range(3)]\nalone = np.zeros(2)\nclass Net: pass\n"
        "net = Net(); net.w = {'a': np.zeros(2), 'b': np.zeros(3)}"
    )
    stage.run(source)
    assert stage.marked == names


COMING = (
    "held = {}\nfor i in range(3):\n    held[i] = np.zeros(2)\n    worker.replicated(held[i])\n"
    "for i in range(3): held[i] = held[i] + 1"
)


def test_parts_that_are_marked_as_they_come_and_replaced_are_marked(stage):
    stage.run(COMING)
    assert stage.marked == {"held[0]", "held[1]", "held[2]"}


def test_registers_are_not_walked_without_end_for_them(stage, monkeypatch):
    monkeypatch.setattr(finding, "_WALKED", 2)
    stage.run(COMING)
    assert stage.marked < {"held[0]", "held[1]", "held[2]"}


def test_the_mark_of_a_part_stays_with_its_place_and_goes_with_its_register(stage):
    stage.run("held = {'w': np.zeros(2)}\nworker.replicated(held['w'])")
    stage.run("w = held['w']\nheld['w'] = held['w'] + 1")
    assert stage.marked == {"held['w']"}
    stage.run("held = {'w': np.ones(2), 'v': w}")
    assert stage.marked == {"held['w']"}
    stage.run("del held; held = {'w': np.ones(2)}")
    assert stage.marked == set()


def test_what_a_function_marks_is_a_part_at_once(stage):
    stage.run("held = [np.zeros(2)]")
    stage.call(lambda: stage.context.replicated(stage.names["held"][0]))
    assert stage.marked == {"held[0]"}


def test_a_part_that_has_a_name_is_marked_where_the_call_names_it(stage):
    stage.run("held = [np.zeros(2)]\npart = worker.replicated(held[0])\nworker.replicated(held[0])")
    assert stage.marked == {"part", "held[0]"}
    stage.run("whole = held[0]\nworker.replicated(whole)")
    assert stage.marked == {"part", "held[0]", "whole"}


def test_steps_before_the_last_one_are_no_loss(stage):
    stage.run("def step(w): return worker.replicated(w + 1)\nw = np.zeros(2)\nfor _ in range(3): w = step(w)")
    assert stage.marked == {"w"}
    stage.run("held = [w]\nfor _ in range(3): held[0] = step(held[0])")
    assert stage.marked == {"w", "held[0]"}


@pytest.mark.parametrize(
    "source", ["w = worker.replicated(np.zeros(2)) + 1", "for _ in range(3): worker.replicated(np.zeros(2))"]
)
def test_what_is_gone_at_the_end_of_the_cell_is_not_marked_and_that_is_said(stage, source):
    with pytest.warns(UserWarning, match=MARKS_NOTHING):
        stage.run(source)
    assert stage.marked == set()


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("worker.replicated(w[:])", {"w"}),
        ("worker.replicated(w.T); 1", {"w"}),
        ("worker.replicated(w.reshape(3, 2))", {"w"}),
        ("for part in held: worker.replicated(part[:])", {"held[0]", "held[1]"}),
        ("for part in held: worker.replicated(part[:])\nheld[0] = held[0] + 1", {"held[0]", "held[1]"}),
        ("worker.replicated(odd[:])", {"odd"}),
    ],
)
def test_a_view_of_a_whole_array_stands_for_it(stage, source, names):
    stage.run("w = np.zeros((2, 3)); held = [np.zeros(2), np.zeros(3)]; odd = np.zeros((4, 6))[::2, 1::3]")
    stage.run(source)
    assert stage.marked == names


@pytest.mark.parametrize("view", ["w[:1]", "w[::-1]", "w.view('i8')", "w[:, :0]", "w[:, ::2]", "w + 0"])
def test_a_view_of_something_else_does_not(stage, view):
    stage.run("w = np.zeros((2, 3))")
    with pytest.warns(UserWarning, match=MARKS_NOTHING):
        stage.run(f"worker.replicated({view})")
    assert stage.marked == set()


def test_memory_that_has_become_another_array_s_is_not_taken_for_the_first_one(stage):
    stage.run("held = [np.zeros(2)]\nworker.replicated(held[0][:])")
    assert stage.marked == {"held[0]"}
    place = PresentPlaces()
    first, names = np.zeros(2), {}
    names["w"] = first
    assert place.path_of(first[:], names) == "w"
    view = first[:]
    names["w"] = first = None
    assert place.path_of(view, names) is None


def test_other_names_of_a_value_that_was_marked_as_one_name_are_not_marked(stage):
    stage.run("w = worker.replicated(np.zeros(2)); x = w")
    stage.run("x = x + 1")
    assert stage.marked == {"w"}


def test_replicated_returns_its_value_or_a_tuple_of_them(stage):
    stage.run("w = np.zeros(2)")
    assert stage.run("worker.replicated(w) is w") is True
    assert stage.run("worker.replicated(w, w) == (w, w)") is True


@pytest.mark.parametrize(
    "source", ["worker.replicated(3)", "worker.replicated('w');", "x = [worker.replicated(3)]"]
)
def test_a_number_that_gets_no_name_cannot_be_marked(stage, source):
    with pytest.raises(UsageMistake, match=r"write `step = worker.replicated\(step\)`"):
        stage.run(source)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("_w = worker.replicated(np.zeros(2))", "_w"),
        ("_n = worker.replicated(3)", "_n"),
        ("_w = np.zeros(2); worker.replicated(_w)", "_w"),
        ("_w = np.zeros(2); x = {'w': worker.replicated(_w)}", "_w"),
    ],
)
def test_a_name_that_is_no_register_cannot_be_marked(stage, source, name):
    # The mark was lost without a word.
    with pytest.raises(UsageMistake, match=f"'{name}' begins with an underscore, so it is no register"):
        stage.run(source)


def test_replicated_without_a_value_is_refused(stage):
    with pytest.raises(UsageMistake, match="needs a value"):
        stage.run("worker.replicated()")


def test_a_mark_survives_what_later_cells_do_to_the_register(stage):
    stage.run("w = worker.replicated(np.zeros(2))")
    stage.run("w = w - 1")
    stage.run("w += 1")
    assert stage.marked == {"w"}


@pytest.mark.parametrize("source", ["del w", "del w; w = 1", "globals().pop('w')"])
def test_del_drops_the_mark_also_if_the_name_is_bound_again(stage, source):
    stage.run("w = worker.replicated(np.zeros(2))")
    stage.run(source)
    stage.run("w = np.ones(2)")
    assert stage.marked == set()


def test_a_mark_made_after_del_in_the_same_cell_stays(stage):
    stage.run("w = worker.replicated(np.zeros(2))")
    stage.run("del w; w = worker.replicated(np.ones(2))")
    assert stage.marked == {"w"}


def test_a_value_marked_in_a_function_marks_the_name_that_it_gets_later(stage):
    array = np.zeros(2)
    stage.call(lambda: stage.context.replicated(array, 3))
    assert stage.marked == set()
    stage.names["w"] = array  # what `session["w"] = dref` does
    stage.run("w = w * 2")
    assert stage.marked == {"w"}


@pytest.mark.parametrize("first", [(), ("dp",), ("tp",)])
@pytest.mark.parametrize("then", [(), ("dp",)])
@pytest.mark.parametrize("value", [np.zeros(2), {"w": 1}], ids=["array", "container"])
def test_of_two_marks_the_later_one_counts_also_if_the_first_was_the_value_s_own(stage, first, then, value):
    stage.context.marks.add(value, first)
    stage.names["w"] = value
    stage.context.marks.add_result((value,), sys._getframe(), then)
    stage.context.marks.settle()
    assert dict(stage.context.marks.names) == {"w": then}


def test_marked_arrays_are_not_kept_alive(stage):
    array = np.zeros(2)
    seen = weakref.ref(array)
    stage.context.marks.add(array)
    stage.context.marks.add({})
    del array
    gc.collect()
    assert seen() is None
    stage.run("x = 1")
    assert not stage.context.marks


# --- what a worker is asked ------------------------------------------------------------------------


def test_a_survey_digests_marked_registers_only_or_those_that_are_named(stage):
    stage.run("w = worker.replicated(np.zeros(2)); x = np.zeros(2)")

    def digested(survey):
        found = stage.call(survey).registers
        return {name for name, ((_, held), *_) in found.items() if held.digest}

    assert digested(Survey()) == set()
    assert digested(Survey(values=True)) == {"w"}
    assert digested(Survey(("x",), values=True)) == {"x"}
    assert set(stage.call(Survey(("x",))).registers) == {"x"}
    assert Survey().disco_name == "check registers"


def test_a_sample_has_the_elements_of_the_parts_that_were_named(stage, monkeypatch):
    monkeypatch.setattr("disco_magic.values.distances.MOST_ELEMENTS", 65_536)
    stage.run("w = np.arange(3); p = {'a': np.arange(200_000), 'b': 1}")
    found = stage.call(Sample(("w", "p['a']", "p['b']", "gone")))
    assert found["w"].tolist() == [0, 1, 2]
    assert found["p['a']"].size <= 65_536
    assert set(found) == {"w", "p['a']"}
    assert Sample(()).disco_name == "sample registers"
