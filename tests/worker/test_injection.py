"""Signals that arrive while this thread injects."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import threading

import pytest

from disco_magic.errors import WorkerInterrupt
from disco_magic.threads.stacks import frames
from disco_magic.workers import injection
from tests.conftest import DEADLINE_S, until

SIGNALS = 40
# One after the other: the next one when somebody has heard the last one.
SENDER = """
import os, sys
for _ in range(int(sys.argv[2])):
    os.kill(int(sys.argv[1]), int(sys.argv[3]))
    sys.stdout.write("sent\\n")
    sys.stdout.flush()
    sys.stdin.readline()
"""


class Heard:
    """Hears signals, in the ways that Python lets a handler be written."""

    def __init__(self):
        self.count = 0

    def __call__(self, number, frame):
        self.count += 1

    def hear(self, number, frame):
        self.count += 1

    def hear_for(self, name, number, frame, loop=None):
        assert name == "somebody"
        self.count += 1

    def hear_any(self, *given):
        self.count += 1


# What is traced, by a debugger or by coverage, does not come out of a function that it calls on CPython 3.11
# while the interpreter's flag is up; and who sits in C code does not lower it.
TRACED = """
import sys, threading
from disco_magic.workers.fragile import strike
inside, door = threading.Event(), threading.Lock()
def wait():
    inside.set()
    door.acquire()
door.acquire()
thread = threading.Thread(target=wait, daemon=True)
thread.start()
inside.wait()
sys.settrace(lambda *_: lambda *_: None)
struck = strike(thread.ident)
sys.settrace(None)
print(struck)
"""

# Nor may it call a function because garbage is collected while it injects.
COLLECTED = """
import gc
class Ghost:
    def __init__(self):
        self.me = self
    def __del__(self):
        if haunting:
            Ghost()
haunting = True
Ghost()
gc.set_threshold(1)
"""

WAYS = {
    "object": lambda heard: heard,
    "method": lambda heard: heard.hear,
    "partial": lambda heard: functools.partial(heard.hear_for, "somebody"),
    "any arguments": lambda heard: heard.hear_any,
}


@pytest.fixture
def heard():
    """Sets handlers of SIGINT and SIGTERM until the end of the test."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield Heard()
    for number, former in before.items():
        signal.signal(number, former)


@pytest.fixture
def target():
    """A thread that has ended, so that nothing else happens than what this one does to itself."""
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
    return thread.ident


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("way", WAYS)
def test_a_signal_is_heard_whenever_it_arrives(heard, target, way, number):
    # What a thread injects into itself struck a handler that was about to begin: one signal in five was lost.
    signal.signal(number, WAYS[way](heard))
    command = [sys.executable, "-c", SENDER, str(os.getpid()), str(SIGNALS), str(int(number))]
    with subprocess.Popen(  # noqa: S603 - our own command
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as sender:
        os.set_blocking(sender.stdout.fileno(), False)
        sent = 0
        while sent < SIGNALS:
            for _ in range(20):
                injection.inject(target)
            if sender.stdout.read() is not None:
                sent += 1
                assert heard.count == sent
                sender.stdin.write(b"heard\n")
                sender.stdin.flush()


ALARMS = """
import signal, threading
from disco_magic.workers import injection
from disco_magic.errors import WorkerInterrupt
from tests.conftest import DEADLINE_S, until
target = threading.Thread(target=int)
target.start()
target.join()
signal.signal(signal.SIGALRM, signal.default_int_handler)
for _ in range(200):
    try:
        signal.setitimer(signal.ITIMER_REAL, 3e-5)
        while True:
            injection.inject(target.ident)
    except KeyboardInterrupt:
        continue
print("done")
"""


def test_pythons_own_handler_raises_what_it_always_does():
    # It is C code, and raises while the injection is still pending: that must not come out in its place. In a
    # process of its own, for it strikes anywhere, also while coverage holds a lock.
    ran = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-c", ALARMS], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.stdout, ran.stderr) == ("done\n", "")


@pytest.mark.parametrize("may", [False, True])
def test_what_may_not_strike_is_taken_back(may):
    gate, ended = threading.Lock(), []

    def wait():
        try:
            with gate:
                pass
        except WorkerInterrupt:
            ended.append("struck")
        else:
            ended.append("well")

    with gate:
        thread = threading.Thread(target=wait)
        thread.start()
        until(lambda: frames()[thread.ident].f_code is wait.__code__)
        assert injection.inject(thread.ident, lambda: may) is may
    thread.join(DEADLINE_S)
    assert ended == ["struck" if may else "well"]


class OnTheWayOut:
    """Holds whoever leaves its block, as `__exit__` of a library is left when it is preempted there."""

    def __init__(self):
        self.arrived, self.gate = threading.Event(), threading.Lock()

    def __enter__(self):
        self.gate.acquire()

    def __exit__(self, *_):
        self.arrived.set()
        with self.gate:
            pass


def test_who_was_struck_and_is_on_the_way_out_is_not_struck_again():
    """It was in an `__exit__`, where nothing may strike, and was pursued: its clean-up was struck, too."""
    block, entered, end, ended = OnTheWayOut(), threading.Event(), threading.Event(), []

    def compute():
        try:
            with block:
                entered.set()
                # Not `while not end.is_set()`: on Python 3.13 what strikes at its end passes over the block's
                # `__exit__` (CPython's issue 130279); on 3.14 what strikes a loop that an `if` ends does.
                for _ in iter(end.is_set, True):
                    pass
        except WorkerInterrupt:
            ended.append("struck")

    thread = threading.Thread(target=compute)
    thread.start()
    assert entered.wait(DEADLINE_S)

    def may():
        assert block.arrived.wait(DEADLINE_S)
        return False

    try:
        assert injection.inject(thread.ident, may)
    finally:
        end.set()
        block.gate.release()
        thread.join(DEADLINE_S)
    assert ended == ["struck"]


@pytest.mark.parametrize("before", ["", COLLECTED], ids=["as it is", "garbage is collected all the time"])
def test_a_thread_that_is_traced_comes_back_from_a_strike(before):
    command = [sys.executable, "-c", before + TRACED]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=DEADLINE_S)  # noqa: S603 - our own
    assert ran.stdout == "True\n"
