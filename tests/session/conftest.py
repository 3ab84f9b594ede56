"""Sessions whose cells can say that they run, stop at a gate, and press Ctrl-C."""

from __future__ import annotations

import builtins
import signal
import sys
import threading
import types
from functools import partial

import pytest

import disco_magic as disco
from disco_magic import recorder
from disco_magic.errors import CellError, Failure, WorkerInterrupt
from disco_magic.functions.execution.cells import compile_cell
from disco_magic.session import dispatch, pump, stopping
from disco_magic.testing.gpu import SimulatedGpus
from disco_magic.threads import stopwatch
from disco_magic.threads.stacks import frames
from tests import conftest
from tests.clocks import Clock
from tests.doubles.scripted import JumpingClock, scripted_session
from tests.gpus import found, with_nccl
from tests.session.written import FILES, write

MAIN = threading.main_thread().ident
FIRST = print, open, input


def who():
    return disco.worker().id


def fail_on(worker, error=ValueError("boom")):  # noqa: B008 - one exception for all is what a user's module has
    if who() == worker:
        raise error
    return "fine"


def give(*args, **kwargs):
    return args, kwargs


until = partial(conftest.until, looks=60_000)


def main_waits():
    """Whether the main thread waits in a session."""
    return frames()[MAIN].f_code is pump.take.__code__


def interrupt_main():
    """Ctrl-C, as the terminal or the stop button does it, as soon as the main thread waits in a session."""
    until(main_waits)
    signal.pthread_kill(MAIN, signal.SIGINT)


def asleep(session, *workers):
    """Return when these workers wait in a collective."""
    watches = session._launcher.plane._board.asleep
    until(lambda: all(watches[worker].is_running for worker in workers))


def time_begins_when_only(monkeypatch, session, worker):
    """Let the time of each wait for answers begin when no other worker's is missing, however busy all are."""
    take = dispatch.take

    def late(*given):
        until(lambda: all(each.missing <= {worker} for each in list(session.ledger._expected.values())))
        return take(*given)

    monkeypatch.setattr(dispatch, "take", late)


@pytest.fixture
def grid():
    """Six workers: dp=2, tp=3."""
    with disco.ThreadedSession(mesh={"dp": 2, "tp": 3}) as session:
        yield session


@pytest.fixture
def clock(monkeypatch):
    """The time of what workers record; it stands still until a test sets `now`."""
    made = Clock()
    for module in (recorder, stopwatch):
        monkeypatch.setattr(module, "perf_counter", made)
    return made


@pytest.fixture
def main(monkeypatch):
    """`__main__` as a notebook has it."""
    made = types.ModuleType("__main__")
    made.mine = "the notebook's"
    monkeypatch.setitem(sys.modules, "__main__", made)
    return made


@pytest.fixture
def builtins_as_before():
    """Nothing that a worker has replaced in `builtins` is left there after the test."""
    yield
    assert (builtins.print, builtins.open, builtins.input) == FIRST
    assert all(vars(builtins)[each.__name__] is each for each in FIRST[:2])
    assert type(builtins) is types.ModuleType


@pytest.fixture
def here(gate):
    """A gate that only says who has come."""
    made = type(gate)()
    made.open()
    return made


@pytest.fixture
def busy(gated, here):
    """Starts sessions whose cells can call `here`, `gate`, `stop` and `interrupt_main`."""
    stop = threading.Event()

    def start(n=2, groups=1):
        return gated(n, groups, here=here, stop=stop, interrupt_main=interrupt_main)

    yield start
    stop.set()


def cancelled(pending, gate, workers=1):
    """The failures of a cell that is cancelled as soon as so many workers have come to the gate."""
    gate.arrived(workers)
    pending.cancel()
    return stopped(pending)


def interrupted(worker=0, seq=1):
    return Failure(worker, seq, "Cell In[7]", WorkerInterrupt("stopped"), "")


def stopped(pending):
    """The failures of a cell that was stopped."""
    with pytest.raises(CellError) as caught:
        pending.wait()
    return caught.value.failures


@pytest.fixture
def stage():
    """A session of two scripted workers with one cell on its way."""
    session, launcher = scripted_session(2)
    yield session, launcher, session.run_nowait(compile_cell("x", label="Cell In[7]"))
    session.shutdown()


@pytest.fixture
def fast(monkeypatch):
    """No pause between the steps of stopping takes any time."""
    monkeypatch.setattr(stopping, "time", JumpingClock(1000.0))


@pytest.fixture(params=["threads", "device", "NCCL"])
def four(request, session, monkeypatch):
    """Four workers in a mesh: on the host, on one simulated GPU, or each on its own."""
    if request.param == "threads":
        yield session(4, mesh={"dp": 2, "tp": 2})
        return
    count = 1 if request.param == "device" else 4
    with SimulatedGpus(count=count) as machine:
        if request.param == "NCCL":
            with_nccl(machine).reset()
        found(monkeypatch, machine, count)
        yield session(4, mesh={"dp": 2, "tp": 2}, devices=list(range(count)) * (4 // count))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where those files are, and modules are found."""
    write(tmp_path, FILES)
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]
