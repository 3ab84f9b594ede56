"""Threads that workers' code starts, and calls that it hands to pools: whose they are, and what they keep."""

from __future__ import annotations

import gc
import re
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType

import pytest

import disco_magic as disco
from disco_magic.callers.current import calling_worker
from disco_magic.errors import CellError
from tests.conftest import DEADLINE_S, asked
from tests.session.conftest import who

POOL = "from concurrent.futures import ThreadPoolExecutor\nimport threading\n"
METHODS = (threading.Thread.start, ThreadPoolExecutor.submit)


def methods():
    return (threading.Thread.start, ThreadPoolExecutor.submit)


@pytest.fixture
def python_s_own_hook(monkeypatch):
    """pytest's makes warnings of what ends a thread."""
    monkeypatch.setattr(threading, "excepthook", threading.__excepthook__)


def test_what_they_set_while_they_carry_the_worker_s_context_is_the_worker_s(session):
    # A thread that is no worker's own was taken for one whose worker has another thread by now.
    s = session(2)
    s.run("import asyncio, logging, warnings\nlog = logging.getLogger('app')")
    s.run(
        "def setup(): log.setLevel(5), log.addHandler(logging.NullHandler())\nawait asyncio.to_thread(setup)"
    )
    assert s.run("log.level, len(log.handlers)").values == [(5, 1)] * 2
    s.run(
        "def caught():\n    with warnings.catch_warnings(record=True) as found:\n"
        "        warnings.simplefilter('always'); warnings.warn('lost'); return len(found)"
    )
    assert s.run("await asyncio.to_thread(caught)").values == [1] * 2


# --- whose they are --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        "thread = threading.Thread(target=print, args=('hello',))\nthread.start()\nthread.join()",
        "timer = threading.Timer(0, print, ('hello',))\ntimer.start()\ntimer.join()",
        "with ThreadPoolExecutor(2) as pool:\n    pool.submit(print, 'hello').result()",
        "with ThreadPoolExecutor(2) as pool:\n    list(pool.map(print, ['hello']))",
        "import asyncio\nawait asyncio.to_thread(print, 'hello')",
        "import asyncio\nawait asyncio.get_running_loop().run_in_executor(None, print, 'hello')",
        "from multiprocessing.pool import ThreadPool\nwith ThreadPool(1) as p:\n    p.map(print, ['hello'])",
        (
            "def f():\n  t = threading.Thread(target=print, args=('hello',))\n  t.start()\n  t.join()\n"
            "outer = threading.Thread(target=f)\nouter.start()\nouter.join()"
        ),
        "class T(threading.Thread):\n    def run(self): print('hello')\nt = T()\nt.start()\nt.join()",
        "one = threading.Thread()\none.run = lambda: print('hello')\none.start()\none.join()",
    ],
)
def test_what_they_print_has_their_worker_s_number_and_is_in_its_result(session, capsys, code):
    result = session(3).run(POOL + code)
    assert sorted(capsys.readouterr().out.splitlines()) == ["[0] hello", "[1] hello", "[2] hello"]
    assert dict(result.stdout) == dict.fromkeys(range(3), "hello\n")


def test_functions_of_call_packed_start_them_too(session):
    def start():
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(who).result(), asked(who)

    assert session(3).call_packed(start).get_all() == [(0, 0), (1, 1), (2, 2)]


def test_calls_of_a_pool_that_workers_share_are_those_of_who_makes_them(session):
    s = session(3)
    with ThreadPoolExecutor(1) as pool:  # one thread serves all of them, and the notebook
        assert s.call_packed(lambda: pool.submit(who).result()).get_all() == [0, 1, 2]
        assert pool.submit(calling_worker).result() is None


def test_a_pool_s_calls_are_those_of_the_cell_that_makes_them(session, capsys):
    s = session(2)
    s.run(POOL + "pool = ThreadPoolExecutor(1)\npool.submit(print, 'first').result()")
    second = s.run("pool.submit(print, 'second').result()")
    assert dict(second.stdout) == {0: "second\n", 1: "second\n"}
    s.run("pool.shutdown()")


def test_collectives_stay_the_worker_s_own_thread_s(session):
    s = session(2)
    with pytest.raises(CellError, match="in another thread, not in the worker's own"):
        s.run(POOL + "with ThreadPoolExecutor(1) as pool:\n    pool.submit(allreduce, 1).result()")
    assert s.run("int(allreduce(1))").values == [2, 2]


@pytest.mark.parametrize(("imported", "told"), [(True, [True, True]), (False, [False, False])])
def test_in_a_thread_of_pytorch_s_own_what_helps_is_said(session, monkeypatch, imported, told):
    """Which computes gradients on GPUs in threads that C++ has made."""
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    if imported:
        monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    s = session(2)
    s.run("""
import _thread, queue
told = queue.SimpleQueue()
def backward():
    try: allreduce(1)
    except Exception as error: told.put(str(error))
_thread.start_new_thread(backward, ())
hint = "set_multithreading_enabled(False): loss.backward()" in told.get(timeout=60)
""")
    assert s["hint"].get_all() == told


def test_they_may_use_the_session_while_their_worker_waits_for_nothing(session):
    s = session(2)
    s["x"] = s.call_packed(who)
    s.run("import threading, disco_magic\nfound = []")
    s.run(
        "def look(): found.append(disco_magic.session()['x'].get(1))\n"
        "thread = threading.Thread(target=look)\nthread.start()",
        workers=[0],
    )
    s.run("thread.join()", workers=[0])
    assert s.run("found", workers=[0])[0] == [1]


def test_context_variables_are_those_of_whoever_starts_them(session):
    s = session(1)
    s.run(POOL + "import decimal\ndecimal.getcontext().prec = 5")
    with_five = "with ThreadPoolExecutor(1) as pool:\n    p = pool.submit(lambda: decimal.getcontext().prec)"
    assert s.run(f"{with_five}\np.result()").values == [5]


def test_classes_of_cells_are_found_in_a_pool_that_another_worker_has_started(session):
    s = session(2)
    s.run("import pickle\nclass Net: pass")
    with ThreadPoolExecutor(1) as pool:
        s.put("load", [lambda what: pool.submit(__import__("pickle").loads, what).result()])
        for worker in (0, 1):
            same = s.run("type(load[0](pickle.dumps(Net()))) is Net", workers=[worker])
            assert same[worker] is True


# --- how they end ----------------------------------------------------------------------------------


@pytest.mark.usefixtures("python_s_own_hook")
def test_a_thread_that_fails_says_so_where_its_worker_writes_and_without_our_own_frames(session, capsys):
    result = session(2).run(
        "import threading\ndef fail(): raise ValueError('boom')\n"
        "thread = threading.Thread(target=fail)\nthread.start()\nthread.join()",
        workers=[1],
    )
    told = re.sub(r"(Thread-|Cell )\d+", r"\1N", capsys.readouterr().err).splitlines()
    assert told == [
        "[1] Exception in thread Thread-N (fail):",
        "[1] Traceback (most recent call last):",
        '[1]   File "Cell N", line 2, in fail',
        "[1]     def fail(): raise ValueError('boom')",
        *told[4:-1],  # what points into that line, in some versions
        "[1] ValueError: boom",
    ]
    assert result.stdout[1].endswith("ValueError: boom\n")


def test_a_thread_that_fails_is_told_to_the_program_s_own_hook(session, monkeypatch):
    told = []
    monkeypatch.setattr(
        threading, "excepthook", lambda args: told.append((args.exc_type, args.thread.name, who()))
    )
    session(1).run(
        "import threading\nthread = threading.Thread(target=lambda: 1 / 0, name='mine')\n"
        "thread.start()\nthread.join()"
    )
    assert told == [(ZeroDivisionError, "mine", 0)]


@pytest.mark.usefixtures("python_s_own_hook")
def test_what_threads_of_several_workers_say_of_their_ends_stays_together(session, capsys):
    session(4).run(
        "import threading\ndef fail(): raise ValueError('boom')\n"
        "threads = [threading.Thread(target=fail) for _ in range(5)]\nbarrier()\n"
        "for thread in threads: thread.start()\nfor thread in threads: thread.join()"
    )
    told = [line.partition(" ") for line in capsys.readouterr().err.splitlines()]
    begins = [number for number, (_, _, text) in enumerate(told) if text.startswith("Exception in thread")]
    assert len(begins) == 20
    for begin in begins:
        end = next(number for number in range(begin, len(told)) if told[number][2] == "ValueError: boom")
        assert len({worker for worker, _, _ in told[begin : end + 1]}) == 1


@pytest.mark.usefixtures("python_s_own_hook")
def test_a_thread_that_outlives_its_session_is_told_where_its_names_are(session, capsys, gate):
    s = session(1, extras=lambda _: {"gate": gate})
    s.run(
        "import threading, time\ndef late(wait):\n    wait()\n    time.sleep(0)\n"
        "thread = threading.Thread(target=late, args=(gate,))\nthread.start()"
    )
    thread = next(each for each in threading.enumerate() if "(late)" in each.name)
    gate.arrived()
    s.restart()
    gate.open()
    thread.join(DEADLINE_S)
    *_, error, note = capsys.readouterr().err.splitlines()
    assert error.startswith("NameError: name 'time' is not defined")
    assert note == "its session has ended, and with it the names that cells had bound"


def test_a_hook_of_the_program_that_fails_is_called_once(session, monkeypatch):
    told, failed = [], []

    def hook(args):
        told.append(args.exc_type)
        raise KeyError("hook")

    monkeypatch.setattr(threading, "excepthook", hook)
    monkeypatch.setattr(sys, "excepthook", lambda kind, *_: failed.append((kind, who())))
    session(1).run(
        "import threading\nthread = threading.Thread(target=lambda: 1 / 0)\nthread.start()\nthread.join()"
    )
    assert (told, failed) == ([ZeroDivisionError], [(KeyError, 0)])


@pytest.mark.usefixtures("python_s_own_hook")
def test_a_thread_that_ends_by_system_exit_says_nothing(session, capsys):
    session(1).run(
        "import sys, threading\nthread = threading.Thread(target=sys.exit)\nthread.start()\nthread.join()"
    )
    assert capsys.readouterr() == ("", "")


def test_a_thread_is_started_once(session):
    s = session(1)
    s.run("import threading\nthread = threading.Thread(target=int)\nthread.start()\nthread.join()")
    with pytest.raises(CellError, match="threads can only be started once"):
        s.run("thread.start()")
    assert s.run("'run' in vars(thread)").values == [False]


# --- what they keep --------------------------------------------------------------------------------


def test_a_thread_that_outlives_its_session_keeps_nothing_of_its_worker():
    over, begun, kept = threading.Event(), threading.Event(), []

    def stay():
        begun.set()
        over.wait(60)

    def start():
        kept.append(weakref.ref(disco.worker()))
        threading.Thread(target=stay, name="stays").start()

    s = disco.ThreadedSession(1)  # the fixture would keep it
    s.call_packed(start)
    s.sync_all()
    assert begun.wait(60)
    (thread,) = [each for each in threading.enumerate() if each.name == "stays"]
    s.shutdown()
    del s
    gc.collect()
    gone = kept[0]() is None
    over.set()
    thread.join(60)
    assert gone


def test_a_thread_that_has_ended_is_freed_without_the_garbage_collector(session):
    s = session(1)
    gc.collect()
    gc.disable()
    try:
        s.run(
            "import threading, weakref\nthread = threading.Thread(target=int)\n"
            "thread.start()\nthread.join()\ngone = weakref.ref(thread)\ndel thread"
        )
        assert s.run("gone() is None").values == [True]
    finally:
        gc.enable()


def test_the_two_methods_are_ours_only_while_a_session_is_open(session):
    first, second = session(1), session(1)
    assert all(ours is not before for ours, before in zip(methods(), METHODS, strict=True))
    first.shutdown()
    assert methods() != METHODS
    second.shutdown()
    assert methods() == METHODS


def test_what_somebody_else_has_put_over_them_is_called_and_stays(session, monkeypatch):
    started = []
    s = session(1)
    ours = threading.Thread.start

    def theirs(self):
        started.append(self.name)
        ours(self)

    monkeypatch.setattr(threading.Thread, "start", theirs)
    s.run(
        "import threading\nthread = threading.Thread(target=int, name='one')\nthread.start()\nthread.join()"
    )
    s.shutdown()
    assert threading.Thread.start is theirs
    with disco.ThreadedSession(1) as again:
        again.run(
            "import threading\nthread = threading.Thread(target=print, args=(1,), name='two')\n"
            "thread.start()\nthread.join()"
        )
    assert [name for name in started if name in ("one", "two")] == ["one", "two"]


def test_threads_of_the_notebook_are_nobody_s(session):
    session(1)
    assert asked(calling_worker) is None


def test_a_session_that_a_worker_opens_has_workers_of_its_own(session, capsys):
    s = session(2)
    s.run(
        "import disco_magic\nwith disco_magic.ThreadedSession(2) as inner:\n"
        "    inner.call_packed(print, 'inner')\n    inner.sync_all()",
        workers=[1],
    )
    assert sorted(capsys.readouterr().out.splitlines()) == ["inner", "inner"]
