"""Interrupts of imports: all of them end, and leave no lock of the import system taken."""

from __future__ import annotations

import _imp
import sys
from contextlib import contextmanager
from importlib import _bootstrap

import pytest

from disco_magic.errors import CellError
from disco_magic.threads.stacks import frame_of
from disco_magic.workers.fragile import is_fragile
from tests.conftest import DEADLINE_S, until


@contextmanager
def module_that_waits(tmp_path, monkeypatch, gate):
    """`slow`, whose import waits at a gate: in a loop of Python's, so that it can be struck."""
    (tmp_path / "slow.py").write_text("import slow_gate\nwhile not slow_gate.open(): pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    made = type(sys)("slow_gate")
    made.open = gate
    monkeypatch.setitem(sys.modules, "slow_gate", made)
    yield
    sys.modules.pop("slow", None)


def test_a_module_can_be_imported_after_its_first_import_was_stopped_on_all_workers(
    session, tmp_path, monkeypatch
):
    """Those who waited for the first one's import were struck with a lock of its own in hand."""
    is_open = []
    with module_that_waits(tmp_path, monkeypatch, lambda: bool(is_open)):
        s = session(4)
        pending = s.run_nowait("import slow")
        ids = [worker.lane.thread_id for worker in s._launcher.workers]
        until(lambda: sum(is_fragile(frame_of(each)) for each in ids) == 3)
        pending.cancel()
        assert not s._launcher.stuck
        is_open.append(True)
        s.run("import slow", timeout=DEADLINE_S)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # files that were just opened
def test_a_cell_that_does_nothing_but_import_modules_is_ended(session, tmp_path, monkeypatch):
    (tmp_path / "tests_of_nothing").mkdir()
    for name in ("__init__", *(f"m{each}" for each in range(50))):
        (tmp_path / "tests_of_nothing" / f"{name}.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    s = session(1)
    for number in range(20):
        pending = s.run_nowait(
            "import importlib, itertools, sys\nfor i in itertools.count():\n"
            "    name = f'tests_of_nothing.m{i % 50}'\n    sys.modules.pop(name, None)\n"
            "    m = importlib.import_module(name)"
        )
        until(lambda after=number: f"tests_of_nothing.m{after}" in sys.modules)
        s.interrupt()
        with pytest.raises(CellError, match="interrupted"):
            pending.wait(DEADLINE_S)
        assert not _imp.lock_held()
        assert not [each() for each in list(_bootstrap._module_locks.values()) if each() and each().owner]
    for name in [each for each in sys.modules if each.startswith("tests_of_nothing")]:
        del sys.modules[name]
