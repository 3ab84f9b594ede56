"""``lazy import`` of Python 3.15: the import is made where the name is first used, on whichever thread."""

from __future__ import annotations

import builtins
import json
import os
import subprocess
import sys
import threading

import pytest

from disco_magic.errors import CellError, WorkerError
from tests.conftest import DEADLINE_S
from tests.session.conftest import stopped
from tests.session.written import write

pytestmark = pytest.mark.skipif(sys.version_info < (3, 15), reason="older ones have no lazy imports")


@pytest.fixture
def s(folder, session):
    """Three workers, to which the modules `state`, `holder` and `slow` are their own."""
    write(
        folder,
        {
            "holder.py": """
                lazy import state
                lazy from state import which
                def told(): return which(), state
            """,
            "slow.py": """
                import builtins
                builtins.disco_test_begun.set()
                while builtins.disco_test_loops: pass
                seen = []
            """,
        },
    )
    return session(3, own_modules="state,package,holder,slow")


def test_a_module_is_the_worker_s_own_that_uses_it_first(s):
    s.run("lazy import state\nlazy from package.inner import seen\nimport sys")
    assert s.run("'state' in globals() and type(globals()['state']).__name__").values == ["lazy_import"] * 3
    s.run("state.start(worker_id)")
    assert s.run("state.rank, seen").values == [(worker, [worker]) for worker in range(3)]


def test_so_it_is_where_a_thread_of_the_worker_or_another_module_uses_it(s):
    s.run(
        "lazy import state\nimport holder, threading\n"
        "thread = threading.Thread(target=lambda: state.start(worker_id))\nthread.start(); thread.join()"
    )
    assert s.run("holder.told()[0], holder.told()[1] is state").values == [(n, True) for n in range(3)]


def test_so_it_is_if_workers_have_modules_of_their_own_only_since(folder, session, tmp_path):
    write(folder, {"imported_later.py": "seen = []\n"})
    s = session(2)
    s.run("lazy import imported_later")
    program = tmp_path / "program.py"
    program.write_text("x = 1")
    s.run_file(program)  # from the first one on, they have
    s.run("imported_later.seen.append(worker_id)")
    assert s.run("imported_later.seen").values == [[0], [1]]


def test_an_interrupt_while_it_is_imported_leaves_it_to_be_imported(s, monkeypatch):
    begun = threading.Event()
    monkeypatch.setattr(builtins, "disco_test_begun", begun, raising=False)
    monkeypatch.setattr(builtins, "disco_test_loops", True, raising=False)
    s.run("lazy import slow")
    uses = s.run_nowait("slow.seen")
    assert begun.wait(DEADLINE_S)
    s.interrupt()
    assert sorted(stopped(uses)) == [0, 1, 2]
    builtins.disco_test_loops = False
    assert s.run("slow.seen.append(worker_id)\nslow.seen").values == [[0], [1], [2]]


def test_what_cannot_be_imported_is_an_error_where_it_is_used(s):
    s.run("lazy import disco_nowhere")
    with pytest.raises(CellError, match="No module named 'disco_nowhere'") as caught:
        s.run("1\ndisco_nowhere.x")
    assert "line 2, in <module>\n    disco_nowhere.x" in caught.value.origin.traceback_text
    assert "values in" not in str(caught.value), "there is nothing to say of it"


def test_workers_that_have_not_imported_it_yet_do_not_differ_from_those_that_have(s):
    s.run("lazy import state\nlazy from state import which")
    s.run("if worker_id == 1: which(), state")
    assert str(s.registers()).splitlines()[1:5] == [
        "  state  [0,2] lazy import · state",
        "         [1] module · state",
        "  which  [0,2] lazy import · state.which",
        "         [1] function · which",
    ]
    compared = s.check(values=True)
    assert compared.ok
    assert "not compared" not in repr(compared)
    s.run("if worker_id == 1: state = which\nif worker_id == 0: state")
    assert [row.name for row in s.check().rows if row.differs] == ["state"]


def test_what_is_copied_is_imported_as_by_a_cell_that_reads_the_name(s):
    s.run("lazy import json, state\nlazy from json import dumps\nlazy import disco_nowhere")
    assert s["json"].get(1) is json
    assert s["dumps"].get_all() == [json.dumps] * 3
    state = s["state"].get(2)
    s.run("state.start(worker_id)")
    assert state.rank == 2, "it is the module of the worker that was asked"
    with pytest.raises(WorkerError, match="ModuleNotFoundError: No module named 'disco_nowhere'"):
        s["disco_nowhere"].get(0)


def test_what_a_worker_has_in_a_module_of_everybody_s_is_imported_as_it_has_it(session, tmp_path):
    program = tmp_path / "program.py"
    program.write_text("lazy from sys import argv, stdout\nimport sys\ntold = argv[1:], stdout is sys.stdout")
    s = session(2)
    s.run("import sys, io\nsys.stdout = io.StringIO()")
    s.run_file(program, "--lr", "0.1")
    assert s.run("told").values == [(["--lr", "0.1"], True)] * 2


EVERYTHING_LAZY = """
import sys
import disco_magic as disco
if __name__ == "__main__":
    with disco.ThreadedSession(num_workers=2) as s:
        s.run("import json\\nfrom sys import argv\\nimport numpy as other")
        print(s.run("type(globals()['json']).__name__, type(argv).__name__, other is np").values)
        print(sys.get_lazy_imports(), s.run("allreduce(worker_id + 1)")[0])
"""


@pytest.mark.parametrize("first", ["", "import sys, disco_magic\nsys.set_lazy_imports('all')\n"])
def test_all_imports_may_be_lazy(tmp_path, first):
    program = tmp_path / "program.py"
    program.write_text(f"{first}{EVERYTHING_LAZY}")
    made = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, *([] if first else ["-X", "lazy_imports=all"]), str(program)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert made.stderr == ""
    assert made.stdout == "[('lazy_import', 'list', True), ('lazy_import', 'list', True)]\nall 3\n"


def test_who_decides_what_is_imported_lazily_is_asked_and_put_back(session):
    asked = []

    def is_lazy(importing, imported, names):
        asked.append(imported)
        return False

    before = sys.get_lazy_imports_filter()
    sys.set_lazy_imports_filter(is_lazy)
    try:
        s = session(1)
        s.run("lazy import xml.dom\nlazy from sys import argv")
        assert s.run("type(globals()['xml']).__name__").values == ["module"]
        s.shutdown()
        assert sys.get_lazy_imports_filter() is is_lazy
    finally:
        sys.set_lazy_imports_filter(before)
    assert asked == ["xml.dom"]
