"""Which failure of workers ``%disco debug`` has to look at, and how long what its frames hold is kept."""

from __future__ import annotations

import gc
import sys
from types import ModuleType

import pytest
from IPython.core.interactiveshell import InteractiveShell

from disco_magic.errors import CellError, Failure, UsageMistake, WorkerError, WorkerLost
from disco_magic.notebook.debugging.postmortem import LastFailure
from tests.notebook.talk import shown

# --- what it says instead --------------------------------------------------------------------------------


def refused(shell, line):
    return str(shell.fail(line, UsageMistake))


def test_before_anything_has_failed_it_says_so(shell):
    assert refused(shell, "%disco debug") == (
        "nothing has failed on a worker yet; %disco debug looks at the last failure"
    )


def test_a_worker_that_did_not_fail_is_refused_with_those_that_did(four):
    four.fail("%%disco -w 1,3\n1 / 0", CellError)
    assert refused(four, "%disco debug -w 0") == (
        "Cell In[3] did not fail on worker 0, but on workers [1,3]; name one of those with -w"
    )


@pytest.mark.parametrize(
    ("choice", "said"), [("0,1", "'0,1' names 2"), ("all", "'all' names 4"), ("9", "no worker 9")]
)
def test_it_looks_at_one_worker(four, choice, said):
    four.fail("%%disco\n1 / 0", CellError)
    assert said in refused(four, f"%disco debug -w {choice}")


def test_a_failure_outside_of_any_line_of_the_user_s_has_no_frame(four):
    four.ip.push({"session": __import__("disco_magic").session()})
    four.fail("session.call_packed(len, 3)\nsession.sync_all()", WorkerError)
    assert "call len failed on worker 0 before or after a line of yours: TypeError: " in refused(
        four, "%disco debug"
    )


@pytest.mark.parametrize("end", ["%disco stop", "%disco restart"])
def test_a_failure_goes_with_its_session(four, end):
    four.fail("%%disco\n1 / 0", CellError)
    four.run(end)
    assert refused(four, "%disco debug") == (
        "Cell In[3] failed in a session that was stopped or restarted; nothing is left"
    )


def test_of_another_session_than_the_current_one_its_own_workers_are_looked_at(fresh):
    fresh.ok("import disco_magic as disco\nbig, small = disco.ThreadedSession(4), disco.ThreadedSession(2)")
    fresh.run("%%disco --session big\nif worker_id == 3: 1 / 0")
    assert "(3, 4)" in shown(fresh.ok("%disco debug -w 3 -c 'p worker_id, num_workers'"))
    fresh.ok("small.shutdown()")
    assert "(3, 4)" in shown(fresh.ok("%disco debug -c 'p worker_id, num_workers'"))
    fresh.ok("big.shutdown()")
    ran = fresh.run("%disco debug")
    assert "in a session that was stopped or restarted; nothing is left" in ran.traceback


def test_of_a_lost_worker_nothing_is_left(four):
    four.fail("%%disco\n1 / 0", CellError)
    four.fail(
        "from disco_magic.errors import WorkerLost\nraise WorkerLost(2, 'no thread could be started for it')",
        WorkerLost,
    )
    assert refused(four, "%disco debug") == (
        "worker 2 is gone: no thread could be started for it; restart the session to go on; "
        "nothing of it is left to look at"
    )


def test_help_says_what_is_kept_and_what_lets_it_go(four):
    four.run("%disco debug -h")
    assert "--forget" in four.out
    assert "sys.last_value" in four.out


# --- in this process -------------------------------------------------------------------------------------


def test_it_asks_in_the_worker_s_name_and_leaves_the_debugger_as_it_was(four, monkeypatch):
    prompts, script = [], ["up", "interact", "y + 1", "exit", "q"]
    monkeypatch.setattr(InteractiveShell, "_instance", four.ip)
    monkeypatch.setattr("builtins.input", lambda prompt: prompts.append(prompt) or script.pop(0))
    four.fail("%%disco\ny = worker_id * 10\ndef f(): 1 / 0\nif worker_id == 3: f()", CellError)
    four.run("%disco debug")
    assert prompts == ["[3] ipdb> ", "[3] ipdb> ", "[3] >>> ", "[3] >>> ", "[3] ipdb> "]
    assert "31" in four.out
    debugger = four.ip.InteractiveTB.pdb
    assert (debugger.prompt, debugger.botframe) == ("ipdb> ", None)
    assert "do_interact" not in vars(debugger)


# --- memory ----------------------------------------------------------------------------------------------

FIRST = "%%disco\n"
HOLDING = (
    f"{FIRST}class Big: pass\ndef f():\n    big = Big()\n    import held_here, weakref\n"
    "    held_here.big = weakref.ref(big)\n    1 / 0\nf()"
)


@pytest.fixture
def held(shell, monkeypatch):
    """A shell whose last failure has an object in a frame; and whether that object is alive.

    Of one worker: the plane keeps why a worker has left a command until all others have left it, too.
    """
    shell.run("%disco start -n 1")
    here = ModuleType("held_here")
    monkeypatch.setitem(sys.modules, "held_here", here)
    shell.fail(HOLDING, CellError)

    def is_alive():
        gc.collect()
        return here.big() is not None

    return shell, is_alive


def test_a_failure_is_kept_while_other_cells_fail_in_the_notebook_or_work_on_the_workers(held):
    shell, is_alive = held
    shell.fail("1 / 0", ZeroDivisionError)
    shell.run("%%disco\n1")
    assert is_alive()


@pytest.mark.parametrize("end", ["h.cancel()", "%disco interrupt"])
def test_a_cell_that_was_stopped_before_it_began_is_none_to_look_at(four, gate, end):
    four.ip.user_ns["gate"] = gate
    four.run("%disco broadcast gate")
    four.fail("%%disco\nif worker_id == 2: 1 / 0", CellError)
    first = four.run("%%disco --nowait -o first\ntry: gate()\nexcept KeyboardInterrupt: pass")
    gate.arrived(4)
    four.run("%%disco --nowait -o h\n1")
    four.run(end)
    gate.open()
    four.fail("h.wait()", CellError)
    failures = four.ip.magics_manager.registry["DiscoMagics"].last_failure.failures
    assert {worker: str(each.exception) for worker, each in failures.items()} == {2: "division by zero"}
    first.cancel()


@pytest.mark.parametrize(
    "act",
    ["%%disco\n1 / 0", "%disco debug --forget", "%disco restart", "%disco stop", "%unload_ext disco_magic"],
)
def test_what_failed_frames_hold_is_free_after(held, act):
    shell, is_alive = held
    if "1 / 0" in act:
        shell.fail(act, CellError)
    else:
        shell.fail("1 / 0", ZeroDivisionError)  # IPython lets go of it, too
        shell.run(act)
    assert not is_alive()


def test_forgetting_is_enough_where_ipython_shows_it_last(held):
    shell, is_alive = held
    shell.fail(HOLDING, CellError)  # pytest has wiped what the fixture left in sys
    assert isinstance(sys.last_value, CellError)
    shell.run("%disco debug --forget")
    assert not is_alive()
    assert not hasattr(sys, "last_value")
    assert "was forgotten" in refused(shell, "%disco debug")


def test_what_a_program_has_caught_is_not_kept(held):
    shell, is_alive = held
    shell.fail("%%disco\n1 / 0", CellError)
    shell.run(
        f"try:\n    get_ipython().run_cell_magic('disco', '', {HOLDING.removeprefix(FIRST)!r})\n"
        "except Exception:\n    pass"
    )
    assert not is_alive()


class NoSessions:
    def find(self):
        return None


def test_only_our_own_errors_are_asked_what_they_are(monkeypatch):
    class Odd(Exception):
        def __getattr__(self, name):
            raise AssertionError(name)

    last = LastFailure()
    monkeypatch.setattr(sys, "last_exc", Odd(), raising=False)
    last.note_shown(NoSessions(), None)
    assert last.failures == {}


def test_a_failure_in_no_session_of_the_notebook_is_kept_until_the_next(monkeypatch):
    last = LastFailure()
    error = CellError({1: Failure(1, 0, "Cell In[1]", ValueError("x"), "")})
    monkeypatch.setattr(sys, "last_exc", error, raising=False)
    last.note_shown(NoSessions(), None)
    last.settle()
    assert last.on(1) is error.origin
