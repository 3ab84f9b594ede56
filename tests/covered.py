"""Measuring what tests cover beside interrupts that strike threads."""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from importlib.machinery import SourceFileLoader

_paused = []  # what measures here when it does
A_ROW_FOR_A_BRANCH = ("tests/core/", "tests/isolation/", "tests/planes/test_conformance.py", "tests/worker/")


def measure_once():
    """Let one coverage.py measure in this process; where none or one does, do nothing.

    In a process of xdist, pytest-cov (7.1) starts two, of which the lower one measures while the upper one is
    paused: what is not to be measured would be all the same, and the lower one's data dropped.
    """
    upper = _measuring()
    if upper is None:
        return
    upper.stop()
    lower = _measuring()
    if lower is not None:
        lower.stop()
    upper.start()


def measure(wanted):
    """Let coverage.py measure from here on, or not; where it does not measure at all, do nothing.

    Pytest-cov's own mark spares the test alone: its setup and teardown, and all that pytest does between
    tests, would be measured, and for thousands of short tests that is most of it.
    """
    present = _measuring()
    if wanted and _paused:
        _paused.pop().start()
    elif not wanted and present is not None:
        present.stop()
        _paused.append(present)


def tracer():
    """What follows this process's first thread for coverage.py, where it measures.

    `sys.gettrace()` has lost it by the second test after it was started anew: those tests went unmeasured.
    """
    tracers = getattr(_collector(), "tracers", None)
    return tracers[0] if tracers else None


def other_cases(items):
    """Of tests that pytest makes of tables, all cases but the first: they are not worth measuring.

    To be measured more than doubles a test's time, and most cases go the ways of the first one. Files whose
    tables have a row for each branch of what they test are measured in full.
    """
    tried = set()
    for item in items:
        test, case, _ = item.nodeid.partition("[")
        if case and test in tried and not test.startswith(A_ROW_FOR_A_BRANCH):
            yield item
        tried.add(test)


@contextmanager
def unmeasured():
    """Let coverage.py follow no step of this thread meanwhile; that of other threads goes on.

    For what runs none of our code, and takes up to twice its time while it is followed.
    """
    before = sys.gettrace()
    sys.settrace(None)
    try:
        yield before
    finally:
        sys.settrace(before)


@contextmanager
def imports_followed(follow):
    """Let `follow` have the steps of the package's modules that are imported meanwhile, and of nothing else.

    For a collection: pytest makes thousands of tests, and what imports the modules may be any test file.
    """
    execute = SourceFileLoader.exec_module

    def exec_module(loader, module):
        before = sys.gettrace()
        sys.settrace(follow if loader.name.partition(".")[0] == "disco_magic" else None)
        try:
            execute(loader, module)
        finally:
            sys.settrace(before)

    SourceFileLoader.exec_module = exec_module
    try:
        yield
    finally:
        SourceFileLoader.exec_module = execute


def keep_coverage_whole():
    """Let nothing strike coverage.py while it holds its lock; where it does not measure, do nothing.

    Its tracer (7.6 to 7.17) takes and gives back that lock at every call a thread makes, by functions written
    in Python. An interrupt that strikes in one of them leaves it locked, and every thread waits for it, for
    ever. The lock's own methods are C code, in which nothing strikes.
    """
    collector = _collector()
    lock = getattr(collector, "data_lock", None)
    if lock is None:
        return
    for each in (collector, *collector.tracers):  # the next tracers take it from the collector
        each.lock_data, each.unlock_data = lock.acquire, lock.release


def is_whole():
    """Whether a thread that begins now is safe; None: coverage.py does not measure here."""
    if getattr(_collector(), "data_lock", None) is None:
        return None
    found = []
    thread = threading.Thread(target=lambda: found.append(_collector().tracers[-1].lock_data))
    thread.start()
    thread.join()
    return type(found[0]) is type(threading.Lock().acquire)


def _measuring():
    package = sys.modules.get("coverage")  # whoever measures has imported it; to do so takes 0.2 s
    return None if package is None else package.Coverage.current()


def _collector():
    measuring = _measuring()
    return None if measuring is None else measuring._collector
