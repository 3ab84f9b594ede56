"""The program's end waits for threads that were given up while they compute in C."""

from __future__ import annotations

import subprocess
import sys

import pytest

# `atexit` calls what was registered first last: `told` looks after our own functions.
PROGRAM = """
import atexit, threading, time
def told():
    print(sum("worker" in each.name for each in threading.enumerate()))
atexit.register(told)
import disco_magic as disco
session = disco.ThreadedSession(2)
begun = threading.Semaphore(0)
def spin():
    while True: pass
def compute():
    begun.release()
    {compute}
session.call_packed(compute)
begun.acquire(), begun.acquire()
"""


@pytest.mark.parametrize(
    ("compute", "left"),
    [
        ("import hashlib; hashlib.pbkdf2_hmac('sha256', b'a', b'b', 1_000_000)", "0"),
        ("time.sleep(1000)", "2"),
        ("threading.Thread(target=spin, daemon=True).start(); time.sleep(1000)", "2"),
    ],
    ids=["a call that computes", "a call that sleeps", "a call that sleeps beside a thread that computes"],
)
def test_the_end_waits_for_calls_that_compute_but_not_for_those_that_sleep(compute, left):
    # OpenBLAS hangs or crashes if it is taken down meanwhile.
    command = [sys.executable, "-c", PROGRAM.format(compute=compute)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=99, check=False)  # noqa: S603
    assert (done.returncode, done.stdout.strip()) == (0, left)


USED_AT_EXIT = """
import threading
from concurrent.futures import ThreadPoolExecutor
import disco_magic as disco
session = disco.ThreadedSession(2)
begun = threading.Event()
def work():
    try:
        while True:
            session.run("import time; time.sleep(0.02); allreduce(1)")
            begun.set()
    except disco.SessionClosed as error:
        print(error)
{start}
begun.wait()
"""


@pytest.mark.parametrize(
    "start",
    ["threading.Thread(target=work).start()", "ThreadPoolExecutor(1).submit(work)"],
    ids=["thread", "pool"],
)
def test_threads_that_use_a_session_at_the_programs_end_do_not_lose_it_in_silence(start):
    command = [sys.executable, "-c", USED_AT_EXIT.format(start=start)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=99, check=False)  # noqa: S603
    assert "session 1 is closed: the program has ended" in done.stdout
    assert "the program has ended while its threads used session 1" in done.stderr
