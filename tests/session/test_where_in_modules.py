"""Where a worker is that executes a module of the user's."""

from __future__ import annotations

import sys

import pytest

from disco_magic.errors import SyncTimeout

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


def test_a_collective_in_the_body_of_a_shared_module_waits_for_those_that_wait_for_the_module(
    busy, tmp_path, monkeypatch
):
    (tmp_path / "top_level_call.py").write_text(
        "import disco_magic as disco\ntotal = disco.worker().allreduce(1)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    s = busy(3)
    cell = s.run_nowait("import top_level_call")
    with pytest.raises(SyncTimeout) as caught:
        cell.wait(timeout=2)
    cell.cancel()
    diagnosis = caught.value.diagnosis
    [first] = [each for each in diagnosis.positions if each.call.startswith("allreduce")]
    others = [each for each in diagnosis.positions if each is not first]
    assert [(each.doing, each.needs) for each in others] == [
        (f"waiting in the import of top_level_call for worker {first.worker}", (first.worker,))
    ] * 2
    assert "workers [0-2] wait for each other: a module that they share" in diagnosis.sentence
    sys.modules.pop("top_level_call", None)
