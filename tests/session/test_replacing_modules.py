"""Modules that put another object in their place as they are imported, by several workers at once."""

from __future__ import annotations

import builtins
import sys
import types
from importlib import _bootstrap
from importlib.machinery import ModuleSpec

import pytest

from disco_magic.errors import CellError
from disco_magic.threads.stacks import frame_of
from disco_magic.workers.fragile import is_fragile
from tests.conftest import DEADLINE_S, until

LAZY = """
import builtins, sys, types
builtins.gate_of_lazy()
class Lazy(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("_"): raise AttributeError(f"none of {name!r}")
        return name.upper()
lazy = Lazy(__name__)
lazy.__spec__ = __spec__
"""
REPLACES = "sys.modules[__name__] = lazy\n"
KINDS = {"a module": "lazily.py", "a package": "lazily/__init__.py"}


@pytest.fixture(params=KINDS)
def imported(request, tmp_path, monkeypatch, gated, gate):
    """Has one worker begin an import, and others find what it has begun; ``imported(source, code)``."""
    file = tmp_path / KINDS[request.param]
    file.parent.mkdir(exist_ok=True)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(builtins, "gate_of_lazy", gate, raising=False)

    def start(source, code):
        file.write_text(source)
        s = gated(4)
        first = s.run_nowait(code, workers=[0])
        gate.arrived()
        others = s.run_nowait(code, workers=[1, 2, 3])
        ids = [worker.lane.thread_id for worker in s._launcher.workers[1:]]
        until(lambda: all(is_fragile(frame_of(each)) for each in ids))  # waiting for that module
        gate.open()
        return s, first, others

    yield start
    sys.modules.pop("lazily", None)


@pytest.mark.parametrize("code", ["from lazily import thing", "import lazily\nthing = lazily.thing"])
def test_all_workers_find_what_is_in_the_one_that_took_its_place(imported, code):
    s, first, others = imported(LAZY + REPLACES, code)
    first.wait(DEADLINE_S)
    others.wait(DEADLINE_S)
    assert s.run("thing").values == ["THING"] * 4
    assert s.run("import lazily\ntype(lazily).__name__").values == ["Lazy"] * 4


def test_what_is_in_neither_is_missing_as_from_any_module(imported):
    s, first, others = imported(LAZY + REPLACES, "import lazily")
    first.wait(DEADLINE_S)
    others.wait(DEADLINE_S)
    with pytest.raises(CellError, match="cannot import name '_nothing' from 'lazily'"):
        s.run("from lazily import _nothing")


def test_a_module_that_does_not_replace_itself_is_left_alone(imported):
    _, first, others = imported(LAZY, "from lazily import lazy")
    first.wait(DEADLINE_S)
    others.wait(DEADLINE_S)
    assert "__getattr__" not in vars(sys.modules["lazily"])


def test_one_whose_import_fails_fails_for_all(imported):
    _, first, others = imported(f"{LAZY}{REPLACES}1 / 0\n", "import lazily")
    for each in (first, others):
        with pytest.raises(CellError, match="ZeroDivisionError"):
            each.wait(DEADLINE_S)


def test_the_import_system_is_what_it_was_when_no_session_runs(session):
    before = vars(_bootstrap).copy()
    s = session(2)
    s.run("import this" if "this" in sys.modules else "1")
    s.shutdown()
    assert vars(_bootstrap) == before
    assert isinstance(before["module_from_spec"], types.FunctionType)


class Maker:
    """A loader whose modules are of a class that allows no weak references."""

    class Odd:
        __slots__ = ("__dict__",)

    def create_module(self, _spec):
        return self.Odd()

    def exec_module(self, module):
        module.found = True


def test_what_a_loader_makes_need_not_be_a_module(session):
    # "cannot create weak reference to 'Odd' object"; without a session it was imported.
    class Finder:
        def find_spec(self, name, _path, _target=None):
            return ModuleSpec(name, Maker()) if name == "oddly" else None

    s = session(1)
    sys.meta_path.append(finder := Finder())
    try:
        assert s.run("import oddly\noddly.found")[0]
    finally:
        sys.meta_path.remove(finder)
        sys.modules.pop("oddly", None)
