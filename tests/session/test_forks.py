"""What processes that `multiprocessing` forks on a worker have not of what others are in the middle of."""

from __future__ import annotations

import builtins
import os
import threading
from types import ModuleType

import pytest

from disco_magic.isolation.child_processes import fit_joblib, fit_launching
from tests.conftest import DEADLINE_S, until
from tests.session.written import write

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing is forked here"),
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),
]
SLOW = """
import builtins, os
begun, gate, parent = builtins.disco_test_import
if os.getpid() == parent:
    begun.set()
    gate.wait()
whole = True
"""
IMPORTS = "import forked_slowly; assert forked_slowly.whole"


def test_a_child_imports_anew_what_another_worker_is_importing(folder, session, monkeypatch):
    write(folder, {"forked_slowly.py": SLOW})
    begun, gate = threading.Event(), threading.Event()
    monkeypatch.setattr(builtins, "disco_test_import", (begun, gate, os.getpid()), raising=False)
    s = session(2)
    importing = s.run_nowait(IMPORTS, workers=[0])
    assert begun.wait(DEADLINE_S)
    s.run(
        "import multiprocessing\n"
        f"def child(): {IMPORTS}\n"
        "process = multiprocessing.get_context('fork').Process(target=child)\n"
        f"process.start(); process.join({DEADLINE_S}); process.kill()",
        workers=[1],
    )
    gate.set()
    importing.wait()
    assert s.run("process.exitcode", workers=[1]).values == [0]


def test_a_child_of_a_worker_collects_nothing_of_the_others(session):
    s = session(2)
    s.run(
        "import gc, multiprocessing\n"
        "mine = []\n"
        "def is_looked_at(): return any(each is mine for each in gc.get_objects())\n"
        "def child(): raise SystemExit(is_looked_at())\n"
        "process = multiprocessing.get_context('fork').Process(target=child)\n"
        "process.start(); process.join()"
    )
    assert s.run("process.exitcode, is_looked_at()").values == [(0, True)] * 2


def test_processes_are_launched_one_by_one():
    inside, most, gate = [], [], threading.Event()

    class Popen:
        def _launch(self, process):
            inside.append(process)
            most.append(len(inside))
            gate.wait(DEADLINE_S)
            inside.pop()

    module = ModuleType("popen_fork")
    module.Popen = Popen
    undo = fit_launching(module)
    threads = [threading.Thread(target=Popen()._launch, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    until(lambda: most)
    gate.set()
    for thread in threads:
        thread.join()
    assert most == [1] * 4
    undo()
    Popen()._launch(0)
    assert most == [1] * 5


def test_who_asks_for_processes_of_joblib_waits_until_they_are_whole():
    begun, gate = threading.Event(), threading.Event()

    class MemmappingExecutor:
        shared = None

        @classmethod
        def get_memmapping_executor(cls, folder):
            if cls.shared is None:
                cls.shared = cls()
                begun.set()
                gate.wait(DEADLINE_S)
                cls.shared.folder = folder
            return cls.shared.folder

    module = ModuleType("joblib.executor")
    module.MemmappingExecutor = MemmappingExecutor
    undo = fit_joblib(module)
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(MemmappingExecutor.get_memmapping_executor("/tmp")))  # noqa: S108
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
        assert begun.wait(DEADLINE_S)
    gate.set()
    for thread in threads:
        thread.join()
    assert found == ["/tmp"] * 3  # noqa: S108
    undo()
    assert MemmappingExecutor.get_memmapping_executor("") == "/tmp"  # noqa: S108
