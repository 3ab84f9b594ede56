"""Looking at threads from outside, which must not stop them."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import timeit
import weakref

import pytest

from disco_magic.threads.stacks import frame_of, frames, handled
from disco_magic.threads.switching import SWITCHING
from disco_magic.workers.fragile import strikable
from disco_magic.workers.look import Look
from tests.conftest import DEADLINE_S

# Every third new object is followed by a collection, whose finalizers let other threads go on, which start
# threads. On CPython 3.11 this stands still at once if `sys._current_frames` collects.
CROWD = """
import _thread, faulthandler, gc, os, sys, threading
from disco_magic.threads.stacks import frames, handled
faulthandler.dump_traceback_later(30, exit=True)

class Circle:
    def __init__(self):
        self.me = self
    def __del__(self):
        for _ in range(200):
            pass

def start_threads():
    while True:
        start_some()  # in a new frame each time, of which a look makes a new object

def start_some():
    running = [_thread.allocate_lock() for _ in range(5)]
    for each in running:
        each.acquire()
        _thread.start_new_thread(each.release, ())
    for each in running:  # on a busy machine they would become ever more
        each.acquire()

for _ in range(6):
    threading.Thread(target=start_threads, daemon=True).start()
sys.setswitchinterval(1e-6)
for number in range(6000):
    # So that now and then one is due at each of the objects that a look makes.
    gc.set_threshold(1 + number % 8)
    for _ in range(number % 7):
        Circle()
    LOOK
assert gc.isenabled()
os.write(1, b"no thread stands still")
os._exit(0)
"""


@pytest.mark.parametrize(
    "look",
    [
        "assert threading.main_thread().ident in frames()",
        "assert handled([threading.get_ident()]) == {threading.get_ident(): None}",
    ],
)
def test_a_look_at_threads_while_others_start_stops_nobody(look):
    program = CROWD.replace("LOOK", look)
    done = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=4 * DEADLINE_S, check=False
    )
    assert done.stdout == "no thread stands still", done.stderr


def test_a_thread_s_innermost_frame():
    assert frame_of(threading.get_ident()).f_code.co_name == "frames"
    ready, go = threading.Event(), threading.Event()

    def sleep():
        ready.set()
        go.wait()

    thread = threading.Thread(target=sleep)
    thread.start()
    assert ready.wait(DEADLINE_S)
    names, frame = [], frame_of(thread.ident)
    while frame is not None:
        names.append(frame.f_code.co_name)
        frame = frame.f_back
    assert "sleep" in names
    go.set()
    thread.join()
    assert frame_of(thread.ident) is None


def test_the_error_that_a_thread_handles():
    me, seen, raised = threading.get_ident(), [], KeyError()
    assert handled([me]) == {me: None}
    try:
        raise raised
    except KeyError:
        seen.append(handled([me, 0]))
    assert seen == [{me: raised, 0: None}]
    assert handled([me]) == {me: None}


@pytest.mark.parametrize("collects", [True, False])
def test_whether_and_when_garbage_is_collected_stays_as_it_was(collects):
    (gc.enable if collects else gc.disable)()
    before = gc.get_threshold()
    try:
        frames()
        assert (gc.isenabled(), gc.get_threshold()) == (collects, before)
    finally:
        gc.enable()


def test_who_switches_collection_off_for_a_while_finds_it_on_again():
    over = threading.Event()

    def look():
        while not over.is_set():
            frames()

    looking = threading.Thread(target=look)
    looking.start()
    with SWITCHING.held(1e-6):
        for _ in range(2000):
            timeit.timeit("pass", number=1)
    over.set()
    looking.join()
    on = gc.isenabled()
    gc.enable()
    assert on


@pytest.mark.parametrize("look", [lambda ids: Look(ids).stand(ids[0]), strikable], ids=["look", "strikable"])
def test_a_look_at_several_threads_keeps_nothing_of_theirs(look):
    """The variables of all threads stayed until the next garbage collection, large arrays among them."""
    ready, go, kept = threading.Event(), threading.Event(), []

    def hold():
        big = threading.Event()
        kept.append(weakref.ref(big))
        ready.set()
        go.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    assert ready.wait(DEADLINE_S)
    gc.disable()
    try:
        look([thread.ident, threading.get_ident()])
        go.set()
        thread.join()
        assert kept[0]() is None
    finally:
        gc.enable()
