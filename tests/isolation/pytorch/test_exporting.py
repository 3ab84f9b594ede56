"""Exports on workers, on a stand-in for PyTorch's table of what records operators."""

from __future__ import annotations

import sys

import pytest

from disco_magic.errors import CellError
from disco_magic.isolation.pytorch import exporting as torch_exporting
from tests.conftest import given_up_comes_back
from tests.isolation.pytorch.torch_module import install


class Table:
    """PyTorch's: what records is in it once."""

    def __init__(self):
        self._modes = [None]

    def put(self, mode):
        assert self._modes == [None], f"occupied by {self._modes}"
        self._modes[0] = mode

    def take(self):
        assert self._modes != [None], "empty"
        self._modes[0] = None


@pytest.fixture
def trace(monkeypatch):
    """The module that exports, with the table beside it."""
    table = Table()

    def _export(work):
        table.put("recorder")
        made = work()
        table.take()
        return made

    made = install(monkeypatch, "torch.export._trace", _export=_export, table=table)
    install(monkeypatch, "torch._ops", _mode_stack_state_for_pre_dispatch=table)
    monkeypatch.setitem(sys.modules, "torch.export._trace", made)
    return made


def test_several_workers_export_one_after_the_other(gated, trace):
    s = gated(4, trace=trace)
    assert s.run("{trace._export(lambda: worker_id) for _ in range(50)}").values == [{0}, {1}, {2}, {3}]


def test_one_that_is_cut_off_leaves_the_table_as_it_was(gated, gate, trace):
    s = gated(2, trace=trace)
    with pytest.raises(CellError, match="ZeroDivisionError"):
        s.run("trace._export(lambda: 1 / 0)", workers=[1])
    assert s.run("trace._export(lambda: 3)").values == [3, 3]


def test_a_thread_that_was_given_up_leaves_the_export_of_another_worker_alone(gated, gate, trace):
    s = gated(2, trace=trace)
    handle = s.run_nowait("trace._export(gate)", workers=[0])
    gate.arrived()
    handle.cancel()

    def meanwhile():
        given_up_comes_back(s, gate)
        return list(trace.table._modes)

    trace.meanwhile = meanwhile
    assert s.run("trace._export(trace.meanwhile)", workers=[1])[1] == ["recorder"]
    assert trace.table._modes == [None]
    assert torch_exporting._underway == []


def test_what_all_share_is_pytorch_s_again_when_nobody_works(session, trace):
    before = trace._export
    s = session(2)
    assert trace._export is not before
    s.shutdown()
    assert trace._export is before


def test_a_collective_among_all_within_one_is_refused(gated, trace):
    s = gated(2, trace=trace)
    with pytest.raises(CellError, match="programs are exported by one worker after the other"):
        s.run("trace._export(barrier)")
