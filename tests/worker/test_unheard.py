"""Interrupts that strike where Python swallows them: in what it calls on its own account."""

from __future__ import annotations

import _thread
import gc
import sys
import threading
from types import SimpleNamespace

import pytest

from disco_magic.callers.current import calling_worker
from disco_magic.errors import CellError, WorkerInterrupt
from disco_magic.workers import striking
from disco_magic.workers.fragile import is_fragile
from tests.conftest import DEADLINE_S, until

OF_A_REFERENCE = """
import weakref
class Thing: pass
thing = Thing()
reference = weakref.ref(thing, wait)
del thing
while True: pass
"""
OF_AN_OBJECT = """
class Thing:
    def __del__(self):
        wait()
thing = Thing()
del thing
while True: pass
"""
OF_THE_COLLECTOR = """
import gc
gc.callbacks.append(wait)
gc.collect()
while True: pass
"""


@pytest.fixture
def callbacks():
    before = list(gc.callbacks)
    yield
    gc.callbacks[:] = before


class Wait:
    """What Python calls on a worker: waits until it is struck, the first time."""

    def __init__(self):
        self.began = self.over = False

    def __call__(self, *_):
        if self.began or calling_worker() is None:
            return
        self.began = True
        try:
            while True:
                pass
        finally:
            self.over = True


@pytest.fixture
def ignored(monkeypatch):
    """What has been told to the hook of the process."""
    found = []
    monkeypatch.setattr(sys, "unraisablehook", lambda told: found.append(told.exc_value))
    return found


@pytest.fixture
def struck(session):
    """Runs a cell in which something waits that Python calls, and interrupts it once; that, the session."""

    def run(code):
        wait = Wait()
        s = session(1, extras=lambda _: {"wait": wait})
        pending = s.run_nowait(code)
        until(lambda: wait.began)
        s.interrupt()
        with pytest.raises(CellError, match="interrupted"):
            pending.wait(DEADLINE_S)
        return wait, s

    return run


@pytest.mark.usefixtures("callbacks")
@pytest.mark.parametrize(
    "code", [OF_A_REFERENCE, OF_AN_OBJECT, OF_THE_COLLECTOR], ids=["reference", "object", "collector"]
)
def test_one_interrupt_is_enough(struck, code, ignored):
    wait, s = struck(code)
    assert wait.over
    assert not ignored
    assert s.run("1 + 1").values == [2]


def test_nothing_strikes_in_the_hook_itself(struck, ignored, monkeypatch):
    """Python tells nobody of what is raised there: the cell would go on for ever."""
    seen = []

    def start(*given):
        caller = sys._getframe(1)
        seen.extend((is_fragile(caller), is_fragile(caller.f_back)))
        _thread.start_new_thread(*given)

    monkeypatch.setattr(striking, "_thread", SimpleNamespace(start_new_thread=start))
    struck(OF_AN_OBJECT)
    assert seen == [True, True]
    assert not ignored


IN_ITS_CLEANING = """
import time
class Thing:
    def __del__(self):
        all_done.append(allreduce(1))
try:
    began()
    while True: pass
finally:
    thing = Thing()
    del thing
    until = time.monotonic() + 0.3
    while time.monotonic() < until: pass
    all_done.append("cleaned")
"""


def test_what_a_collective_says_is_no_strike_and_is_told_as_ever(session, ignored):
    """The cell would be struck in its ``finally`` otherwise."""
    began, all_done = threading.Event(), []
    s = session(1, extras=lambda _: {"began": began.set, "all_done": all_done})
    pending = s.run_nowait(IN_ITS_CLEANING)
    assert began.wait(DEADLINE_S)
    s.interrupt()
    with pytest.raises(CellError, match="interrupted"):
        pending.wait(DEADLINE_S)
    assert all_done == ["cleaned"]
    assert [type(each) for each in ignored] == [WorkerInterrupt]
    assert ignored[0].args


class Failing:
    """Fails as it dies."""

    def __init__(self, error):
        self.error = error

    def __del__(self):
        raise self.error


def test_nobody_is_struck_for_what_is_raised_elsewhere(session, ignored):
    s = session(1, extras=lambda _: {"failing": lambda: Failing(WorkerInterrupt())})
    Failing(WorkerInterrupt())
    Failing(ValueError())
    s.run("thing = failing()\ndel thing")  # it is the user's own: nobody interrupts
    assert [type(each) for each in ignored] == [WorkerInterrupt, ValueError, WorkerInterrupt]


def test_a_hook_that_somebody_keeps_tells_the_one_below_as_ever(session, ignored):
    """Those who put theirs over ours while a session runs call it for all time."""
    below = sys.unraisablehook
    for _ in range(2):
        s = session(1)
        kept = sys.unraisablehook
        sys.unraisablehook = lambda told, kept=kept: kept(told)
        s.shutdown()
    assert sys.unraisablehook is not below
    Failing(ValueError())
    assert [type(each) for each in ignored] == [ValueError]


def test_the_hook_is_the_process_s_again_when_the_last_session_has_ended(session, ignored):
    before = sys.unraisablehook
    first, second = session(1), session(1)
    assert sys.unraisablehook is not before
    first.shutdown()
    assert sys.unraisablehook is not before
    second.shutdown()
    assert sys.unraisablehook is before
