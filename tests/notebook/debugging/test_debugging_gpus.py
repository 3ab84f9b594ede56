"""``%disco debug`` of workers on GPUs: its prompt computes where the worker does."""

from __future__ import annotations

import pytest

from disco_magic.notebook.commands import debugging
from disco_magic.session.current import session
from disco_magic.testing.gpu import SimulatedGpus
from tests.gpus import found, streams

FAILING = "%%disco\nb = xp.ones(3)\nif worker_id:\n    1 / 0"


@pytest.fixture(scope="module")
def machine():
    with SimulatedGpus(count=2) as made:
        yield made


@pytest.fixture
def gpus(machine, monkeypatch):
    """Two GPUs; workers are put on the second one."""
    found(monkeypatch, machine, 2)
    return machine


@pytest.fixture
def failed(shell, gpus):
    """A shell whose worker 1 of two on GPU 1 has failed."""
    shell.run("%disco start --devices 1,1")
    shell.fail(FAILING)
    return shell


def where(gpus):
    runtime = gpus.cupy.cuda
    return runtime.runtime.getDevice(), runtime.get_current_stream().ptr


def test_the_prompt_computes_on_the_workers_gpu_and_stream(failed, gpus):
    before = where(gpus)
    device, stream = "p xp.cuda.runtime.getDevice()", "p xp.cuda.get_current_stream().ptr"
    failed.run(f'%disco debug -c "{device}" -c "{stream}" -c "p b.sum()"')
    text = failed.out
    assert "getDevice()\n1\n" in text
    assert f"\n{streams(session())[1].ptr}\n" in text
    assert "p b.sum()\narray(3.)" in text
    assert where(gpus) == before


def test_the_prompt_comes_although_the_worker_hangs_and_says_so(failed, gpus, monkeypatch):
    monkeypatch.setattr(debugging, "_PATIENCE_S", 0.0)
    with gpus.hold(streams(session())[1]):
        failed.run('%disco debug -c "p worker_id"')
    assert "worker 1 has still work on its GPU" in failed.out
    assert "p worker_id\n1\n" in failed.out
    failed.run('%disco debug -w 1 -c "p worker_id"')


def test_a_gpu_that_is_lost_can_be_looked_at(failed, gpus, monkeypatch):
    def lost(_):
        raise gpus.cupy.cuda.runtime.CUDARuntimeError(700)

    monkeypatch.setattr(gpus.cupy.cuda, "Device", lost)
    failed.run('%disco debug -c "p worker_id"')
    assert "p worker_id\n1\n" in failed.out
