"""Sessions with a GPU per worker, and collectives of theirs that do not end before they are to."""

from __future__ import annotations

import pytest

from disco_magic.testing.gpu import SimulatedGpus
from tests.conftest import until
from tests.gpus import LAGS, found, with_nccl


@pytest.fixture(scope="module", params=LAGS.values(), ids=LAGS)
def machine(request):
    with SimulatedGpus(count=4, lag=request.param) as made:
        made.double = with_nccl(made)
        yield made


@pytest.fixture
def gpus(machine, monkeypatch):
    found(monkeypatch, machine, 4)
    machine.double.reset()
    return machine


@pytest.fixture
def crew(gpus, session):
    """Four workers with a GPU each."""
    return session(4, devices="auto")


def stalled(gpus, session, code):
    """A cell whose collective waits for rank 1, which does not come before it is released."""
    gpus.double.stall(1)
    pending = session.run_nowait(code)
    gpus.double.until_waiting(3)
    return pending


def until_waiting_in(pending):
    """Return when all workers wait for their GPUs in that cell: in a call before it they move data, too."""

    def is_there():
        positions = pending.session.doctor().positions
        return {(each.state, each.seq) for each in positions} == {("moving", pending.seq)}

    until(is_there)


def works(session):
    result = session.run("allreduce(xp.full(2, worker_id + 1)).get().tolist()")
    return list(result.values) == [[10, 10]] * 4


def aborted(gpus, session):
    """A session whose members have to connect anew; rank 1's GPU still waits to be released."""
    s = session(4, devices="auto")
    s.sync_all()
    stalled(gpus, s, "allreduce(xp.ones(3))").cancel()
    return s


def connecting(gpus, session):
    """Such a session, and a cell whose members connect: rank 3 does not come before it is released."""
    s = aborted(gpus, session)
    gpus.double.stall(3)
    gpus.double.release(1)
    return s, s.run_nowait("allreduce(xp.ones(3))")
