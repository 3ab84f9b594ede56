"""``%disco debug`` and IPython's own ``%debug`` after a failure of workers, in a real kernel and a shell."""

from __future__ import annotations

import gc
import sys
from types import ModuleType

import pytest
from IPython.core.interactiveshell import InteractiveShell

from disco_magic.errors import CellError, Failure, UsageMistake, WorkerError, WorkerLost
from disco_magic.notebook.debugging.postmortem import LastFailure
from tests.notebook.talk import asked, shown

FAILING = (
    "%%disco\nx = np.ones(3) * worker_id\ndef f(a):\n    b = a * 2\n    if worker_id:\n"
    "        raise ValueError(f'bad {worker_id}')\n    return b\ny = f(x)\nz = allreduce(y)"
)


def look(kernel, line, answers, prompt):
    """Run `line` and answer at its prompt, which is `prompt`; what it printed."""
    cell = kernel.send(line)
    for each in answers:
        worker, text = asked(kernel)
        assert (text if worker is None else f"[{worker}] {text}") == prompt
        kernel.client.input(each)
    ran = kernel.finish(cell)
    assert ran.status == "ok", ran.traceback
    return shown(ran)


# --- where it lands --------------------------------------------------------------------------------------


def test_it_lands_in_the_line_that_failed_first_with_the_listing_of_the_cell(fresh):
    fresh.run(FAILING)
    text = look(fresh, "%disco debug", ["p worker_id, b", "q"], "[1] ipdb> ")
    assert text.startswith("Cell In[")
    assert " on worker 1: ValueError: bad 1\n" in text
    assert "----> 6         raise ValueError(f'bad {worker_id}')" in text
    assert "(1, array([2., 2., 2.]))" in text


def test_up_and_down_move_within_the_user_s_frames(fresh):
    fresh.run(FAILING)
    text = look(fresh, "%disco debug", ["u", "p x", "u", "d", "a", "q"], "[1] ipdb> ")
    assert "----> 8 y = f(x)" in text
    assert "*** Oldest frame" in text
    assert "a = array([1., 1., 1.])" in text


def test_of_calls_that_do_not_fit_it_lands_at_the_one_that_is_another_than_most(fresh):
    assert fresh.run("%%disco\ny = allreduce(np.ones(3 + (worker_id == 2)))").status == "error"
    text = look(fresh, "%disco debug", ["p worker_id", "q"], "[2] ipdb> ")
    assert text.rstrip().endswith("2")


@pytest.mark.parametrize(("option", "worker", "line"), [("-w 3", 3, 6), ("-w -1", 3, 6), ("-w 0", 0, 9)])
def test_another_worker_can_be_looked_at_also_one_that_only_waited(fresh, option, worker, line):
    fresh.run(FAILING)
    text = look(fresh, f"%disco debug {option}", ["p worker_id", "q"], f"[{worker}] ipdb> ")
    assert f"----> {line}" in text
    assert text.rstrip().endswith(str(worker))


def test_registers_can_be_changed(fresh):
    fresh.run(FAILING)
    look(fresh, "%disco debug -w 2", ["u", "!x = 'mended'", "q"], "[2] ipdb> ")
    assert fresh.ok("%%disco -w 2\nx").value == "[2] 'mended'"
    assert fresh.ok("%%disco -w 2\n[name for name in globals() if 'pdb' in name]").value == "[2] []"


def test_interact_is_there_and_leads_back(fresh):
    fresh.run(FAILING)
    cell = fresh.send("%disco debug")
    script = [("ipdb> ", "interact"), (">>> ", "b.sum()"), (">>> ", "exit"), ("ipdb> ", "q")]
    for prompt, line in script:
        assert asked(fresh) == (1, prompt)
        fresh.client.input(line)
    assert "6.0" in shown(fresh.finish(cell))


def test_the_exception_s_causes_can_be_looked_at(fresh):
    fresh.run(
        "%%disco -w 2\ntry:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise KeyError from error"
    )
    text = look(fresh, "%disco debug", ["exceptions", "exceptions 0", "q"], "[2] ipdb> ")
    assert "ZeroDivisionError('division by zero')" in text
    assert "----> 3     1 / 0" in text


@pytest.mark.parametrize("wait", ["%disco sync", "session.sync_all()", "r.get(1)"])
def test_a_function_that_was_called_can_be_looked_at_however_its_failure_was_shown(fresh, wait):
    fresh.ok(
        "import disco_magic\nsession = disco_magic.session()\ndef g(a):\n    c = a + 1\n    raise KeyError(c)"
    )
    fresh.ok("r = session.call_packed(g, 4)")
    assert fresh.run(wait).status == "error"
    text = look(fresh, "%disco debug -w 1", ["p c", "q"], "[1] ipdb> ")
    assert "call g on worker 1: KeyError: 5" in text
    assert "raise KeyError(c)" in text


def test_what_a_failure_has_poisoned_leads_to_where_it_began(fresh):
    fresh.ok("import disco_magic\nsession = disco_magic.session()\ndef g(a):\n    raise KeyError(a)")
    fresh.ok("r = session.call_packed(g, 4)\ns = session.call_packed(abs, r)\ndel r")
    assert fresh.run("s.get(2)").status == "error"
    assert "raise KeyError(a)" in look(fresh, "%disco debug -w 2", ["q"], "[2] ipdb> ")


def test_a_cell_that_was_stopped_shows_where_each_worker_was(fresh):
    cell = fresh.send(
        "%%disco\nimport disco_magic, threading\ni, turns = 7, []\ndef tell():\n"
        "    look = disco_magic.session().doctor\n"
        "    while not turns or sum(each.state == 'waiting' for each in look().positions) < 3: pass\n"
        "    print('ready')\n"
        "if worker_id == 1:\n    threading.Thread(target=tell).start()\n    while True:\n"
        "        turns[:] = [i]\nbarrier()"
    )
    before = fresh.until_text(cell, "ready\n")
    fresh.interrupt()
    fresh.finish(cell, before)
    assert "\n7\n" in look(fresh, "%disco debug -w 1", ["p i", "q"], "[1] ipdb> ")
    assert "---> 12 barrier()" in look(fresh, "%disco debug -w 3", ["q"], "[3] ipdb> ")


# --- IPython's own ---------------------------------------------------------------------------------------


def test_debug_of_ipython_lands_in_the_first_failed_worker_s_frame(fresh):
    fresh.run(FAILING)
    text = look(fresh, "%debug", ["p worker_id, b", "up", "up", "up", "q"], "ipdb> ")
    assert "----> 6         raise ValueError" in text
    assert "(1, array([2., 2., 2.]))" in text
    assert "Oldest frame" in text
    assert "disco_magic" not in text


@pytest.mark.parametrize("how", ["--timeout 0.3", "stop button"])
def test_debug_of_ipython_lands_where_a_cell_was_that_was_stopped(fresh, how):
    option = how if how.startswith("-") else ""
    cell = fresh.send(
        f"%%disco {option}\ndef f():\n    told = 'here'\n    print('in')\n    while True: pass\nf()"
    )
    before = fresh.until_text(cell, "in\n", times=4)
    if not option:
        fresh.interrupt()
    assert fresh.finish(cell, before).status == "error"
    text = look(fresh, "%debug", ["p told", "q"], "ipdb> ")
    assert "----> 5     while True: pass" in text
    assert "'here'" in text


def test_pdb_on_opens_it_by_itself(fresh):
    fresh.ok("%pdb on")
    try:
        cell = fresh.send(FAILING)
        for line in ["p worker_id", "q"]:
            assert asked(fresh) == (None, "ipdb> ")
            fresh.client.input(line)
        ran = fresh.finish(cell)
    finally:
        fresh.ok("%pdb off")
    assert "----> 6         raise ValueError" in shown(ran)
    assert ran.error["ename"] == "CellError"


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


# --- commands instead of questions -----------------------------------------------------------------------


def test_commands_are_shown_and_executed_where_nobody_can_be_asked(fresh):
    fresh.run(FAILING)
    ran = fresh.ok("%disco debug -w 2 -c \"p worker_id, b\" -c up -c 'p y'")
    text = shown(ran)
    assert "[2] ipdb> p worker_id, b\n(2, array([4., 4., 4.]))\n[2] ipdb> up\n" in text
    assert "NameError" in text.partition("ipdb> p y")[2]
    assert not text.rstrip().endswith("q")
    text = look(fresh, "%disco debug", ["p worker_id", "q"], "[1] ipdb> ")
    assert "ipdb>" not in text.partition("bad 1\n")[2]


@pytest.mark.parametrize(
    "cell",
    [
        "%%disco --timeout 2\nwhile worker_id == 2:\n    x = 1\nallreduce(1)",
        "%%disco\nfor i in (0, 1):\n    if i and worker_id == 2: continue\n    barrier()\nallreduce(1)",
    ],
    ids=["a loop", "a call left out"],
)
def test_it_lands_where_a_worker_is_that_others_waited_for_or_did_not_meet(fresh, cell):
    fresh.run(cell)
    text = look(fresh, "%disco debug", ["p worker_id", "q"], "[2] ipdb> ")
    assert " on worker 2: " in text


@pytest.mark.parametrize(
    ("cell", "named"),
    [
        (
            "%%disco\nx = np.ones(2 + (worker_id == 1))\nif worker_id == 3: allreduce(x)\nelse: allreduce(x)",
            "failed on worker 1 (and 3 others)",
        ),
        (
            "%%disco\nx = np.ones(2 + worker_id % 2)\nif worker_id == 1: allreduce(x)\nelse: allreduce(x)",
            "failed on worker 1 (and 3 others)",
        ),
        (
            "%%disco --timeout 2\nwhile worker_id < 2:\n    x = 1\nallreduce(1, over=[1, 2, 3])",
            "worker 1 keeps workers [2-3] waiting",
        ),
    ],
    ids=["another call", "another line", "another one that nobody waits for"],
)
def test_it_lands_on_the_worker_that_the_error_names(fresh, cell, named):
    ran = fresh.run(cell)
    assert named in "\n".join([ran.error["evalue"], *ran.lines])
    text = look(fresh, "%disco debug", ["q"], "[1] ipdb> ")
    assert " on worker 1: " in text


def test_where_nobody_can_answer_it_is_said_how_to_look_all_the_same(fresh):
    fresh.run(FAILING)
    ran = fresh.finish(fresh.client.execute("%disco debug", allow_stdin=False))
    assert (
        "takes no input, as nbconvert and papermill; say what to look at: %disco debug -c"
        in ran.error["evalue"]
    )


def test_a_cell_that_has_failed_by_itself_can_be_looked_at_before_its_handle_is_asked(fresh):
    wait = "import threading\nthreading.Event().wait(0.2)"
    cell = fresh.send(f"%%disco --nowait -o h\n{wait}\nmine = 7 * worker_id\n1 / (worker_id - 2)")
    fresh.finish(cell)
    fresh.until_text(cell, "failed after its cell")
    assert "\n14\n" in look(fresh, "%disco debug", ["p mine", "q"], "[2] ipdb> ")


def test_the_debugger_s_commands_name_the_worker_s_variables(fresh):
    fresh.ok("k = 99")
    fresh.run("%%disco\nk = 3\n1 / (worker_id - 1)")
    ran = fresh.ok("%disco debug -c 'p f\"{k}\"' -c 'p {k: 1}'")
    text = "\n".join(ran.lines)
    assert "'3'" in text
    assert "{3: 1}" in text
