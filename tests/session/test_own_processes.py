"""Each worker sets how it starts processes, and handlers of signals, as programs do once each."""

from __future__ import annotations

import inspect
import multiprocessing as mp
import os
import signal
import subprocess
import warnings

import pytest

from disco_magic.errors import CellError

pytestmark = pytest.mark.filterwarnings("ignore:.* goes to the process:UserWarning")
CONTEXT = mp.context._default_context


@pytest.fixture(autouse=True)
def everything_as_it_was():
    functions = [vars(signal)[name] for name in ("signal", "getsignal", "raise_signal")]
    before = type(CONTEXT), vars(CONTEXT).copy(), functions, os.kill, signal.getsignal(signal.SIGTERM)
    yield
    functions = [vars(signal)[name] for name in ("signal", "getsignal", "raise_signal")]
    assert before == (type(CONTEXT), vars(CONTEXT), functions, os.kill, signal.getsignal(signal.SIGTERM))


def test_each_worker_sets_how_it_starts_processes_once(session):
    s, before = session(3), mp.get_start_method(allow_none=True)
    s.run("import multiprocessing as mp\nmp.set_start_method(('spawn', 'fork', 'forkserver')[worker_id])")
    assert s.run("mp.get_start_method(), mp.Process._start_method").values == [
        ("spawn", None),
        ("fork", None),
        ("forkserver", None),
    ]
    assert mp.get_start_method(allow_none=True) == before
    with pytest.raises(CellError, match="context has already been set"):
        s.run("mp.set_start_method('fork')", workers=[0])
    s.run("mp.set_start_method('fork', force=True)")
    assert s.run("type(mp.get_context()).__name__").values == ["ForkContext"] * 3


def test_a_worker_that_sets_nothing_has_what_the_process_has(session, monkeypatch):
    s = session(1)
    monkeypatch.setitem(vars(CONTEXT), "_actual_context", mp.get_context("spawn"))
    ask = "import multiprocessing as mp\nmp.get_start_method(allow_none=True), mp.get_start_method()"
    assert s.run(ask)[0] == (None, "spawn")


def test_a_process_is_started_as_its_worker_wants_it(session):
    s = session(2)
    s.run("import multiprocessing as mp, operator\nmp.set_start_method(('spawn', 'fork')[worker_id])")
    s.run(
        "with mp.Pool(1) as pool: told = pool.apply(operator.add, (worker_id, 1)), type(pool._ctx).__name__"
    )
    assert s.run("told").values == [(1, "SpawnContext"), (2, "ForkContext")]


SIGNALS = """
import os, signal
seen = []
def handle(number, frame): seen.append((signal.Signals(number).name, type(frame).__name__))
"""


def test_a_handler_is_kept_and_called_for_what_its_worker_sends_itself(session):
    s = session(2)
    s.run(SIGNALS)
    with pytest.warns(UserWarning, match="SIGUSR1 goes to the process in which all workers are"):
        before = s.run("signal.signal(signal.SIGUSR1, handle)").values
    assert before == [signal.getsignal(signal.SIGUSR1)] * 2
    assert s.run("signal.getsignal(signal.SIGUSR1) is handle").values == [True] * 2
    assert signal.getsignal(signal.SIGUSR1) == before[0]
    s.run("signal.raise_signal(signal.SIGUSR1)\nos.kill(os.getpid(), signal.SIGUSR1)", workers=[1])
    assert s.run("seen").values == [[], [("SIGUSR1", "frame")] * 2]
    s.run("signal.signal(signal.SIGUSR1, signal.SIG_IGN)\nsignal.raise_signal(signal.SIGUSR1)")


def test_what_no_process_could_set_is_refused(session):
    s = session(1)
    s.run(SIGNALS)
    with pytest.raises(CellError, match="signal handler must be"):
        s.run("signal.signal(signal.SIGTERM, 5.5)")
    for line in ("signal.signal(signal.SIGALRM, handle)", "signal.signal(1000, handle)"):
        with pytest.raises(CellError, match="main thread"):
            s.run(line)
    with pytest.raises(CellError, match="SIGALRM comes to the process in which all workers are"):
        s.run("signal.signal(signal.SIGALRM, handle)")


def test_the_program_s_own_thread_sets_them_as_ever(session):
    s, seen = session(1), []
    before = signal.signal(signal.SIGUSR1, lambda *_: seen.append("called"))
    try:
        s.run("import os, signal\nos.kill(os.getpid(), 0)")
        os.kill(os.getpid(), signal.SIGUSR1)
        signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert seen == ["called"] * 2


def test_a_process_that_a_worker_forks_sets_its_own(session):
    s = session(1)
    s.run(SIGNALS)
    s.run(
        "def child():\n    signal.signal(signal.SIGUSR1, handle)\n    signal.raise_signal(signal.SIGUSR1)\n"
        "    os._exit(len(seen) * 10)\n"
        "import multiprocessing as mp\nprocess = mp.get_context('fork').Process(target=child)\n"
        "process.start()\nprocess.join()"
    )
    assert s.run("process.exitcode")[0] == 10


def test_those_of_a_program_end_with_it(session, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        f"{SIGNALS}import multiprocessing as mp\nmp.set_start_method('spawn')\n"
        "signal.signal(signal.SIGTERM, handle)\n"
        "told = mp.get_start_method(), signal.getsignal(signal.SIGTERM)"
    )
    s = session(2)
    for _ in range(2):
        s.run_file(program)
        assert s.run("told[0], told[1] is handle").values == [("spawn", True)] * 2
        assert s.run("mp.get_start_method(allow_none=True)").values == [None] * 2
        assert s.run("signal.getsignal(signal.SIGTERM)")[0] == signal.getsignal(signal.SIGTERM)


def test_a_debugger_goes_without_what_it_cannot_have(session):
    # It was given the handler of whoever waited just then, and put it back in the notebook, later.
    s = session(1)
    s.run("import io, pdb")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        s.run("pdb.Pdb(stdin=io.StringIO('c\\n'), stdout=io.StringIO()).set_trace()\nafter = 1")
    assert s.run("pdb.Pdb._previous_sigint_handler")[0] is None


def test_what_is_in_the_place_of_functions_looks_like_them(session):
    before = [str(inspect.signature(each)) for each in (subprocess.Popen, signal.signal)]
    s = session(1)
    s.run("import signal, subprocess")
    assert signal.signal is not signal.signal.__wrapped__
    assert [str(inspect.signature(each)) for each in (subprocess.Popen, signal.signal)] == before
