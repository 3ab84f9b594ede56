"""Where a worker is that executes a module of the user's."""

from __future__ import annotations

import re
import sys

import pytest

from disco_magic.errors import CellError, PlaneMismatch, SyncTimeout
from disco_magic.phrases import ranges
from disco_magic.planes import board
from tests.session.conftest import until

COMM = """
def deep(worker, gate):
    if worker.worker_id == 1: gate()
    return worker.allreduce(1)
"""


@pytest.fixture
def comm(tmp_path, monkeypatch):
    """A package that cells import from the current folder."""
    (tmp_path / "lib_of_where").mkdir()
    (tmp_path / "lib_of_where" / "comm.py").write_text(COMM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield "from lib_of_where import comm\n"
    for name in [name for name in sys.modules if name.startswith("lib_of_where")]:
        del sys.modules[name]


def test_the_line_in_the_module_is_told_and_the_cell_s_that_has_called_it(gated, gate, comm):
    s = gated(2)
    s.run(comm)
    handle = s.run_nowait("\ncomm.deep(worker, gate)")
    gate.arrived()
    told = str(s.doctor())
    assert f"lib_of_where/comm.py, line 3 ({handle.label}, line 2)" in told
    with pytest.raises(SyncTimeout, match=r"lib_of_where/comm\.py, line 3 \(Cell"):
        handle.wait(timeout=0.01)
    gate.open()
    handle.wait()


BODY = "import disco_magic as disco\n{}total = disco.worker().allreduce(1)\n"


@pytest.fixture
def body(tmp_path, monkeypatch):
    """Writes a module whose body makes a collective."""

    def write(before=""):
        (tmp_path / "top_level_call.py").write_text(BODY.format(before))

    monkeypatch.syspath_prepend(tmp_path)
    yield write
    sys.modules.pop("top_level_call", None)


@pytest.fixture
def looks(monkeypatch):
    """Notes the looks of workers that wait while they import something: who, and what it was told."""
    monkeypatch.setattr(board, "_LIGHTLY_S", 0.001)

    def noted(session):
        seen, held_up = [], session._launcher.plane._board.held_up

        def look(worker):
            seen.append((worker, held_up(worker)))
            return seen[-1][1]

        session._launcher.plane._board.held_up = look
        return seen

    return noted


def test_a_collective_in_the_body_of_a_shared_module_is_an_error(session, body):
    body()
    s = session(3)
    with pytest.raises(CellError) as caught:
        s.run("import top_level_call", timeout=60)
    error = caught.value.origin.exception
    assert type(error) is PlaneMismatch
    first = int(re.search(r"that worker (\d) waits in at .*top_level_call\.py.*, line 2", str(error))[1])
    others = ranges([worker for worker in range(3) if worker != first])
    assert f"workers {others} are waiting in the import of top_level_call for worker {first}" in str(error)
    assert s.run("allreduce(1)").values == [3] * 3


def test_those_that_come_to_the_import_later_are_found_as_well(gated, gate, body):
    body()
    s = gated(2)
    cell = s.run_nowait("if worker_id == 1: gate()\nimport top_level_call")
    gate.arrived()
    until(lambda: "waiting in allreduce" in str(s.doctor()))
    gate.open()
    with pytest.raises(CellError, match="worker 1 is waiting in the import of top_level_call for worker 0"):
        cell.wait(timeout=60)


def test_a_module_that_one_worker_imports_may_make_collectives_with_others(gated, gate, body, looks):
    body()
    s = gated(2)
    seen = looks(s)
    cell = s.run_nowait("if worker_id: from top_level_call import total\nelse: gate(); total = allreduce(1)")
    gate.arrived()
    until(lambda: len(seen) > 5)
    gate.open()
    cell.wait(timeout=60)
    assert s["total"].get_all() == [2, 2]
    assert set(seen) == {(1, "")}  # and nobody else has looked


def test_a_worker_is_found_that_waits_for_the_import_through_another_one(gated, gate, body):
    body("import disco_magic\ndisco_magic.worker().barrier(over=[0, 1])\n")
    s = gated(3)
    cell = s.run_nowait(
        "if worker_id == 1: recv(2)\nif worker_id == 2: gate()\nimport top_level_call\n"
        "if worker_id == 2: send(1, 1)"
    )
    gate.arrived()
    until(lambda: "waiting in barrier" in str(s.doctor()))
    gate.open()
    with pytest.raises(CellError, match="worker 2 is waiting in the import of top_level_call for worker 0"):
        cell.wait(timeout=60)


def test_own_modules_may_make_collectives_in_their_bodies(session, body):
    body()
    s = session(3, own_modules=["top_level_call"])
    assert s.run("import top_level_call\ntop_level_call.total", timeout=60).values == [3] * 3
