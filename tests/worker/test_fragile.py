"""Interrupts beside locks of the standard library: none may stay taken when its thread is struck."""

from __future__ import annotations

import dis
import importlib
import logging
import multiprocessing
import sys
import threading
import weakref
from importlib.machinery import ModuleSpec
from types import SimpleNamespace

import pytest

from disco_magic.errors import CellError
from disco_magic.libraries import is_of_library
from disco_magic.threads.stacks import frame_of
from disco_magic.workers import fragile, pursuits
from disco_magic.workers.fragile import is_fragile
from tests.conftest import DEADLINE_S, asked, until


class Handler(logging.Handler):
    def emit(self, record):
        """Nothing."""


class Kept:
    """Takes a lock for a ``with`` by a method in Python, as many libraries do."""

    def __init__(self):
        self.lock = threading.Lock()

    def __enter__(self):
        return self.lock.acquire()

    def __exit__(self, *_):
        self.lock.release()


def the_condition():
    condition = threading.Condition(threading.Lock())
    return condition._lock, "with thing: pass", condition


def the_event():
    event = threading.Event()
    return event._cond._lock, "thing.set()", event


def the_semaphore():
    semaphore = threading.Semaphore()
    return semaphore._cond._lock, "thing.acquire()", semaphore


def the_handler():
    handler, logger = Handler(), logging.getLogger("tests.worker.fragile")
    logger.addHandler(handler)
    logger.propagate = False
    return handler.lock, "thing.warning('x')", logger


def the_lock_between_processes():
    lock = multiprocessing.get_context("spawn").Lock()
    return lock, "with thing: pass", lock


def the_lock_of_a_library():
    kept = Kept()
    return kept.lock, "with thing: pass", kept


def the_lock_that_is_given_back_late():
    class Late(Kept):
        def __init__(self):
            super().__init__()
            self.gate = threading.Lock()

        def __exit__(self, *_):
            with self.gate:
                pass
            self.lock.release()

    late = Late()
    return late.gate, "with thing: pass", late, late.lock


def the_lock_of_tqdm():
    std = pytest.importorskip("tqdm.std", reason="the extra 'loader' has it")
    lock = std.TqdmDefaultWriteLock()
    return lock.locks[-1], "with thing: pass", lock


def the_lock_of_a_cell():
    lock = threading.Lock()
    return lock, "with thing: pass", lock


def waits(worker):
    """Whether its thread has come from the cell to where the lock is taken, which somebody else has."""
    frame = frame_of(worker.lane.thread_id)
    # From 3.13 on a handler of logging takes its lock by a ``with`` in `handle`.
    return frame is not None and (
        frame.f_code.co_name in ("__enter__", "__exit__", "acquire", "handle") or enters(frame)
    )


def enters(frame):
    """Whether a ``with`` of the cell has called what takes a lock."""
    name = dis.opname[frame.f_code.co_code[frame.f_lasti]]
    return frame.f_lineno == 2 and name in ("BEFORE_WITH", "CALL")


def is_free(lock):
    """Whether another thread can have it."""

    def look():
        is_mine = lock.acquire(timeout=1)
        if is_mine:
            lock.release()
        return is_mine

    return asked(look)


@pytest.mark.parametrize(
    "make",
    [
        the_condition,
        the_event,
        the_semaphore,
        the_handler,
        the_lock_between_processes,
        the_lock_of_a_cell,
        the_lock_of_a_library,
        the_lock_that_is_given_back_late,
        the_lock_of_tqdm,
    ],
)
def test_a_lock_that_a_thread_waited_for_is_free_when_it_was_interrupted(session, make, monkeypatch):
    """The lock was taken in C, and what was pending struck as that returned: nobody gave it back."""
    monkeypatch.setattr(fragile, "is_of_library", lambda name: name == __file__ or is_of_library(name))
    lock, code, thing, *others = make()
    s = session(1)
    s["holder"] = s.call_packed(lambda: Hidden(thing))
    lock.acquire()
    pending = s.run_nowait(f"thing = holder.thing\n{code}\nwhile True:\n    i = 1\n    i += 1")
    worker = s._launcher.workers[0]
    until(lambda: waits(worker))
    pending.stop_soon()
    stopper = threading.Thread(target=pending.cancel)
    stopper.start()
    until(lambda: worker.lane.inject_at or worker.lane.pursued)
    lock.release()
    stopper.join(DEADLINE_S)
    assert all(map(is_free, [lock, *others]))
    with pytest.raises((CellError, KeyboardInterrupt)):
        pending.wait(DEADLINE_S)
    assert s.run("1 + 1")[0] == 2


@pytest.mark.parametrize("body", ["i = 1", "sleep(0.01)"], ids=["loops", "polls"])
def test_what_the_user_does_on_entering_and_leaving_a_block_can_be_stopped(session, gate, body):
    s = session(2, extras=lambda _: {"gate": gate})
    gate.open()
    pending = s.run_nowait(
        "from time import sleep\nclass Block:\n    def __enter__(self): pass\n    def __exit__(self, *_):\n"
        f"        gate()\n        while True:\n            {body}\nwith Block(): pass"
    )
    gate.arrived(2)
    pending.cancel()
    assert not s._launcher.stuck
    with pytest.raises(CellError, match="was cancelled on workers"):
        pending.wait(DEADLINE_S)


@pytest.mark.parametrize(
    ("filename", "is_one"),
    [
        (threading.__file__, True),
        (pytest.__file__, True),
        (is_fragile.__code__.co_filename, True),
        (__file__, False),
        ("<ipython-input-3-4b14d231f4a9>", False),
    ],
)
def test_files_of_libraries(filename, is_one):
    assert is_of_library(filename) is is_one


class Hidden:
    """What is not copied on its way to a worker."""

    def __init__(self, thing):
        self.thing = thing


def test_who_starts_a_thread_is_struck_when_that_has_begun(session, monkeypatch):
    """On 3.11 it has its creator's number until it runs, and what was meant for that hit it."""
    s = session(1)
    started, threads = threading.Event(), []
    by = "_start_joinable_thread" if sys.version_info >= (3, 13) else "_start_new_thread"
    begin = getattr(threading, by)

    def held_back(*args, **options):
        started.set()
        threads.append((args, options))

    worker = s._launcher.workers[0]
    s.run("import threading\nthread = threading.Thread(target=int)")
    with monkeypatch.context() as patch:
        patch.setattr(threading, by, held_back)
        pending = s.run_nowait("thread.start()\nwhile True:\n    i = 1\n    i += 1")
        assert started.wait(DEADLINE_S)
    until(lambda: is_fragile(frame_of(worker.lane.thread_id)))
    stopper = threading.Thread(target=pending.cancel)
    stopper.start()
    until(lambda: worker.lane.inject_at or worker.lane.pursued)
    assert worker.lane.pursued
    args, options = threads[0]
    begin(*args, **options)
    stopper.join(DEADLINE_S)
    assert s.run("thread.join(10)\nthread.is_alive()")[0] is False


def test_code_of_users_is_struck_where_it_is():
    def frame():
        return sys._getframe()

    assert not is_fragile(frame())
    assert not is_fragile(None)


class OfLibrary:
    """What its `__del__` raises, Python only mentions."""

    def __del__(self):
        """Nothing."""


@pytest.mark.parametrize("kind", [OfLibrary, type("Weakly", (), {})], ids=["its own", "of a weak reference"])
def test_nothing_strikes_in_what_is_called_as_something_of_a_librarys_dies(kind, monkeypatch):
    """It would be lost: Python prints that it ignores it, and the cell goes on."""
    monkeypatch.setattr(fragile, "is_of_library", lambda name: name == __file__)
    seen = {}
    thing = kind()
    kept = weakref.WeakSet([thing])
    sys.setprofile(lambda frame, *_: seen.setdefault(frame.f_code.co_name, is_fragile(frame)))
    try:
        del thing
    finally:
        sys.setprofile(None)
    assert not kept
    assert seen["__del__" if kind is OfLibrary else "_remove"]


def test_nothing_strikes_what_ends_the_process_if_it_raises():
    """PyTorch calls some functions out of C++ that takes no exception."""
    source = "import sys\ndef __call__(): return sys._getframe()\ndef another(): return sys._getframe()"
    names = {}
    exec(compile(source, "/anywhere/torch/_ops.py", "exec"), names)
    assert is_fragile(names["__call__"]())
    assert not is_fragile(names["another"]())


# --- several at once -----------------------------------------------------------------------------------


@pytest.fixture
def slices(monkeypatch):
    """How often a thread that strikes waits for the interpreter's lock; `clock` is what it goes by."""
    clock, taken = [0.0], []
    monkeypatch.setattr(
        fragile, "pause", lambda seconds: seconds == fragile._A_MOMENT_S and taken.append(clock[0])
    )
    monkeypatch.setattr(fragile, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(fragile, "_slice", fragile._Slice())
    return SimpleNamespace(clock=clock, taken=taken)


def test_threads_that_are_struck_one_after_the_other_are_struck_in_one_slice(slices, monkeypatch):
    struck = []
    monkeypatch.setattr(fragile.injection, "inject", lambda thread, _: struck.append(thread) or True)
    interval = sys.getswitchinterval()
    for after in (0, 0.1, 0.3, 0.4, 1):
        slices.clock[0] += after * interval
        assert fragile.strike(threading.get_ident())
    assert len(struck) == 5
    assert slices.taken == pytest.approx([0, 0.8 * interval, 1.8 * interval])


def test_who_comes_from_a_wait_strikes_at_once(slices, monkeypatch):
    monkeypatch.setattr(fragile.injection, "inject", lambda *_: True)
    fragile.note_wait()
    fragile.strike(threading.get_ident())
    assert slices.taken == []


def test_a_pursuit_begins_a_slice_with_every_attempt(slices, monkeypatch):
    looks, struck = iter([True, True, True, False]), []
    monkeypatch.setattr(fragile, "is_fragile", lambda _: next(looks))
    monkeypatch.setattr(fragile.injection, "inject", lambda thread, _: struck.append(thread) or True)
    me = threading.get_ident()
    monkeypatch.setattr(pursuits, "strikable", lambda threads: threads)
    pursuits.Pursuits().begin(me, lambda may: may and fragile.strike(me))
    until(lambda: struck)
    assert len(slices.taken) == 4


def test_each_thread_that_strikes_takes_slices_of_its_own(slices, monkeypatch):
    monkeypatch.setattr(fragile.injection, "inject", lambda *_: True)
    fragile.strike(threading.get_ident())
    other = threading.Thread(target=fragile.strike, args=(threading.get_ident(),))
    other.start()
    other.join()
    assert slices.taken == [0, 0]


def test_many_threads_are_struck_in_one_slice_after_one_look(slices, monkeypatch):
    looks, struck = [], []
    monkeypatch.setattr(fragile, "frames", lambda: looks.append(1) or {})
    monkeypatch.setattr(fragile.injection, "inject_all", struck.extend)
    threads = [*range(1000, 1300)]
    assert fragile.strike_all(threads) == struck == threads
    assert (len(looks), len(slices.taken)) == (1, 1)


@pytest.mark.parametrize("out", [[], [3]], ids=["not struck yet", "on the way out"])
def test_a_slice_that_is_over_is_followed_by_another_one_for_the_rest(slices, monkeypatch, out):
    interval, struck, back = sys.getswitchinterval(), [], []

    def inject_all(threads):
        struck.append([*threads])
        slices.clock[0] += interval

    def take_back(threads):
        back.extend(threads)
        return [each for each in out if each in threads]

    looks = iter([{}, {3: sys._getframe()}, {}, {}, {}])
    monkeypatch.setattr(fragile, "frames", lambda: next(looks))
    monkeypatch.setattr(fragile, "_AT_ONCE", 2)
    monkeypatch.setattr(fragile, "_is_fragile", lambda _: True)
    monkeypatch.setattr(fragile.injection, "inject_all", inject_all)
    monkeypatch.setattr(fragile.injection, "take_back", take_back)
    # Meanwhile 3 has come to where nothing may strike.
    assert fragile.strike_all([2, 3, 4]) == [2, *out, 4]
    assert (struck, back) == ([[2, 3], [4]], [3])
    assert len(slices.taken) == 2


def test_threads_that_may_not_be_struck_where_they_are_are_left_out(monkeypatch):
    there = {1: sys._getframe(), 2: sys._getframe(1)}
    monkeypatch.setattr(fragile, "frames", lambda: there)
    monkeypatch.setattr(fragile, "_is_fragile", lambda code: code is there[1].f_code)
    assert fragile.strikable([1, 2, 3]) == [2, 3]


class Between:
    """A package that stops an import where the module is there and the package does not know of it yet."""

    def __init__(self, path):
        self.__path__, self.__spec__ = [path], ModuleSpec("halfway", None, is_package=True)
        self.seen = []

    def __setattr__(self, name, value):
        if name == "there":
            self.seen += [each for each in frames() if "_find_and_load" in each.f_code.co_name][:1]
        super().__setattr__(name, value)


def frames():
    frame = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def test_an_import_is_not_struck_between_a_module_and_its_package(tmp_path, monkeypatch):
    # The module stayed in `sys.modules`, and was no attribute of its package, for everybody and for good.
    (tmp_path / "there.py").write_text("")
    package = Between(str(tmp_path))
    monkeypatch.setitem(sys.modules, "halfway", package)
    importlib.import_module("halfway.there")
    del sys.modules["halfway.there"]
    assert is_fragile(package.seen[0])


class Noting(threading.Condition):
    """Notes the frames of the functions that take it."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __enter__(self):
        self.seen.append(sys._getframe(1))
        return super().__enter__()


@pytest.mark.parametrize("kind", [threading.Semaphore, threading.BoundedSemaphore])
def test_a_semaphore_is_not_struck_where_its_permit_is_given_back(kind):
    semaphore = kind()
    semaphore.acquire()
    semaphore._cond = Noting()
    semaphore.release()
    (frame,) = semaphore._cond.seen
    assert frame.f_code is kind.release.__code__
    assert is_fragile(frame)
