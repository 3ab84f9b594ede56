"""PyTorch's profiler on workers, on a stand-in for the functions that begin and end it."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from disco_magic.errors import CellError

NAME = "torch.autograd.profiler"
PROFILED = f"""
import sys
profiler = sys.modules[{NAME!r}]
profiler._prepare_profiler("config"); profiler._enable_profiler("config")
"""
END = "profiler._disable_profiler()"


@pytest.fixture
def calls(monkeypatch):
    """What was called of PyTorch's, in order."""
    made, found = [], ModuleType(NAME)
    for name in ("_prepare_profiler", "_enable_profiler", "_disable_profiler"):
        setattr(found, name, lambda *_, name=name: made.append(name))
    monkeypatch.setitem(sys.modules, NAME, found)
    for parent in ("torch", "torch.autograd"):
        monkeypatch.setitem(sys.modules, parent, ModuleType(parent))
    return made


def test_of_workers_that_profile_at_once_one_does_and_the_others_are_told(session, calls):
    # PyTorch ended the process, and all registers with it.
    s = session(3)
    s.run(PROFILED, workers=[1])
    with pytest.raises(CellError) as caught:
        s.run(PROFILED)
    assert list(caught.value.failures) == [0, 2]
    assert "PyTorch's profiler is the process's, and worker 1 is using it" in str(caught.value)
    s.run(END, workers=[1])
    for worker in range(3):
        s.run(f"{PROFILED}{END}", workers=[worker])
    assert calls.count("_disable_profiler") == 4


def test_who_has_ended_profiles_no_more_and_the_notebook_may_be_the_one(session, calls):
    s = session(1)
    s.run(PROFILED)
    s.restart()
    s.run(f"{PROFILED}{END}")
    sys.modules[NAME]._enable_profiler("the notebook's")
    with pytest.raises(CellError, match="and another thread is using it"):
        s.run(PROFILED)
    sys.modules[NAME]._disable_profiler()
    s.run(f"{PROFILED}{END}")


def test_all_is_as_before_when_the_session_has_ended(session, calls):
    before = dict(vars(sys.modules[NAME]))
    session(1).shutdown()
    assert vars(sys.modules[NAME]) == before
