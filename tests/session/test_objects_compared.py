"""Objects of the user's classes, and generators of random numbers, are looked into and compared."""

from __future__ import annotations

import numpy as np
import pytest

from disco_magic.errors import CellError, Divergence
from disco_magic.values import divergence, held_elements

NET = """
class Layer:
    kind = 'dense'
    def __init__(self, n): self.w, self.name = np.zeros(n), 'layer'
class Net:
    def __init__(self, *layers): self.layers, self.steps = list(layers), 0
"""


def differing(report):
    return {row.name: row.aspects for row in report.differing}


@pytest.fixture
def s(session):
    started = session(3)
    started.run(NET)
    return started


def test_attributes_of_the_user_s_objects_are_compared_where_they_lie(s):
    s.run("net = worker.replicated(Net(Layer(2), Layer(3)))")
    assert s.check(values=True)
    s.run("net.layers[1].w += worker_id == 2")
    assert differing(s.check(values=True)) == {"net.layers[1].w": ("value",)}
    s.run("net.layers[1].w[:] = 0; net.steps = worker_id")
    assert differing(s.check(values=True)) == {"net": ("value",)}
    assert s.check()
    s.run("net.layers[0].w = np.zeros(2 + worker_id)")
    assert differing(s.check()) == {"net.layers[0].w": ("shape",)}


SHORT = {
    "slice(worker_id, 9)": "slice(0, 9, None)",
    "range(worker_id, 9)": "range(0, 9)",
    "pathlib.Path('data', str(worker_id))": "PosixPath('data/0')",
    "datetime.date(2026, 1, 1 + worker_id)": "datetime.date(2026, 1, 1)",
    "datetime.timedelta(worker_id)": "datetime.timedelta(0)",
    "list(Phase)[worker_id]": "Phase.FIRST",
    "list(Level)[worker_id]": "Level.LOW",
}


@pytest.mark.parametrize(("source", "shown"), SHORT.items(), ids=SHORT)
def test_short_values_of_python_s_own_are_compared_and_shown(session, source, shown):
    # A slice that was another one on every worker, which took the wrong shard, showed nothing.
    s = session(3)
    s.run(
        "import datetime, enum, pathlib\nPhase = enum.Enum('Phase', 'FIRST SECOND THIRD')\n"
        "class Level(enum.IntEnum):\n    LOW, MIDDLE, HIGH = range(3)\n"
        f"x = {source}\nsame = {source.replace('worker_id', '1')}"
    )
    assert differing(s.check("x", "same", values=True)) == {"x": ("value",)}
    (line,) = (each for each in str(s.check("x", values=True)).splitlines() if "[0] " in each)
    assert line.partition("[0] ")[2].strip() == shown  # which says of what type it is
    rows = {row.name: row for row in s.registers().rows}
    assert (rows["x"].differs, rows["same"].differs) == (True, False)
    assert rows["x"].cells[0].text == shown
    s.run("held = [{'x': x}]")
    assert differing(s.check("held", values=True)).keys() <= {"held", "held[0]", "held[0]['x']"}
    assert not s.check("held", values=True)


def test_what_a_slice_or_an_enumeration_holds_of_the_user_s_runs_no_code(session):
    s = session(2)
    s.run(
        "import enum\nclass Loud:\n    def __repr__(self): raise AssertionError('asked')\n"
        "    __eq__ = __hash__ = __repr__\nclass Odd(enum.Enum):\n    A = Loud\n"
        "    def __repr__(self): raise AssertionError('asked')\n    __str__ = __repr__\n"
        "x, y = slice(Loud(), 2), Odd.A"
    )
    assert {row.name: row.cells[0].text for row in s.registers().rows}["x"] == "builtins.slice"
    assert s.check("x", "y", values=False)


def test_an_attribute_that_some_have_only_is_a_difference(s):
    s.run("net = worker.replicated(Net())\nif worker_id == 1: net.more = np.zeros(2)")
    assert "net.more" in differing(s.check())


def test_objects_that_refer_to_each_other_come_to_an_end(s):
    s.run("class Node: pass\na, b = Node(), Node()\na.next, b.next, a.w = b, a, np.zeros(2)")
    s.run("worker.replicated(a)")
    assert s.check(values=True)
    s.run("if worker_id: b.next = Node()")
    assert "a.next.next" in differing(s.check(values=True))


@pytest.mark.parametrize(
    "body",
    [
        "__slots__ = ('w',)",
        "__slots__ = ('w', '__dict__')",
        "def __getattribute__(self, name): raise ValueError",
        "shape, dtype = (), 'f4'",
    ],
    ids=["slots", "slots and attributes", "asked itself", "an array in its own way"],
)
def test_what_decides_itself_what_it_has_is_not_looked_into(s, body):
    s.run(f"class Own:\n    {body}\nown = worker.replicated(Own())")
    report = s.check(values=True)
    assert [row.name for row in report.uncompared] == ["own"]


@pytest.mark.parametrize("made", ["types.SimpleNamespace", "argparse.Namespace"])
def test_what_has_nothing_but_attributes_is_looked_into(s, made):
    s.run(
        f"import argparse, types\nargs = worker.replicated({made}(lr=0.1, w=np.zeros(2), inner={made}(n=1)))"
    )
    assert s.check(values=True)
    s.run("args.w[0] += worker_id == 2; args.inner.n += worker_id == 1")
    assert differing(s.check(values=True)) == {"args.w": ("value",), "args.inner": ("value",)}
    assert s.look_at("args.w").cells[0].shape == (2,)


@pytest.mark.parametrize("base", ["types.SimpleNamespace", "argparse.Namespace", "object"])
def test_a_class_that_only_says_it_is_python_s_is_not_looked_into(s, base):
    s.run(
        f"import argparse, types\nclass Own({base}): pass\n"
        "Own.__module__, Own.__name__, Own.__qualname__ = 'argparse', 'Namespace', 'Namespace'\n"
        "own = worker.replicated(Own())"
    )
    assert [row.name for row in s.check(values=True).uncompared] == ["own"]


def test_a_class_derived_from_a_library_s_is_not_looked_into(s):
    s.run("import collections\nclass Own(collections.UserDict): pass\nown = worker.replicated(Own())")
    assert [row.name for row in s.check(values=True).uncompared] == ["own"]


def test_parts_of_the_user_s_objects_can_be_looked_at(s):
    s.run("net = Net(Layer(2), Layer(3))")
    assert [cell.shape for cell in s.look_at("net.layers[1].w").cells] == [(3,)] * 3


@pytest.mark.parametrize(
    ("made", "part"),
    [
        ("np.random.default_rng(0)", "rng.bit_generator.state['state']"),
        ("np.random.Generator(np.random.MT19937(0))", "rng.bit_generator.state['state']"),
        ("np.random.RandomState(0)", "rng.get_state()"),
        ("np.random.RandomState(np.random.PCG64(0))", "rng.get_state()"),
        ("__import__('random').Random(0)", "rng.getstate()"),
    ],
)
def test_generators_of_random_numbers_are_compared_by_what_they_go_on_from(s, made, part):
    s.run(f"rng = worker.replicated({made})\nrng.random()")
    assert s.check(values=True)
    s.run("if worker_id == 1: rng.random()")
    report = s.check(values=True)
    assert not report.uncompared
    assert any(name.startswith(part) for name in differing(report)), differing(report)
    with pytest.raises(CellError):
        s.run("rng.nothing")


def test_a_class_that_passes_for_a_generator_is_none(s):
    s.run("class Random:\n    __module__ = 'random'\n    def getstate(self): raise ValueError")
    s.run("rng = worker.replicated(Random())")
    assert [row.name for row in s.check(values=True).uncompared] == ["rng"]


def test_a_class_with_an_abstract_base_is_looked_into(s):
    s.run("import abc\nclass Base(abc.ABC): pass\nclass Own(Base): pass\nown = worker.replicated(Own())")
    s.run("own.w = np.zeros(2) + worker_id")
    assert differing(s.check(values=True)) == {"own.w": ("value",)}


def test_what_many_parts_share_is_looked_at_once(monkeypatch):
    looked = []
    digest = held_elements.digest_of
    monkeypatch.setattr(held_elements, "digest_of", lambda array: looked.append(array) or digest(array))
    shared = np.zeros(3)
    parts = divergence.survey("x", [[shared], {"a": shared}, shared], values=True)
    assert [held.digest for path, held in parts if held.dtype] == [digest(shared)] * 3
    assert len(looked) == 1


def test_what_could_not_be_compared_is_told_also_where_something_else_differs(session):
    # The one thing that differed seemed to be all, and the rest equal.
    s = session(2)
    s.run("import threading\np = worker.replicated(threading.Lock())")
    s.run("t = worker.replicated(np.zeros(2) + worker_id)")
    why = r"values not compared: p \(values of type _thread.lock cannot be compared\)"
    with pytest.raises(Divergence, match=why):
        s.check(values=True).raise_if_differing()
