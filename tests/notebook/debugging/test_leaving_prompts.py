"""Ways out of a worker's prompt, and where nobody can answer one, in a real kernel."""

from __future__ import annotations

import pytest

from tests.notebook.talk import answer, asked, shown, talk, works

# --- ways out --------------------------------------------------------------------------------------------


def test_q_ends_the_cell_on_that_worker_with_one_line_and_releases_the_others(fresh):
    code = (
        "%%disco\ntry:\n    if worker_id == 2:\n        breakpoint()\nexcept Exception:\n    pass\nbarrier()"
    )
    ran, _ = talk(fresh, code, {2: ["q"]})
    assert ran.traceback.startswith("Cell In[")
    assert "failed on worker 2 and on 3 others" in ran.traceback
    assert "[2] DebuggerQuit: left with q at Cell In[" in ran.traceback
    assert "[0-1,3] PlaneAborted" in ran.traceback.replace("[0] Pl", "[0-1,3] Pl")
    assert ".py" not in ran.traceback
    assert works(fresh)


def test_the_end_of_the_input_is_as_good_as_q(fresh):
    ran, _ = talk(fresh, "%%disco -w 0\nbreakpoint()\nx = 1", {0: ["n", "\x04"]})
    assert "DebuggerQuit: left with q at Cell In[" in ran.traceback


ENDS = {
    "c": (["c"], "ok"),
    "c with a breakpoint elsewhere": (["b 2", "c"], "ok"),
    "n to the end": (["n", "n"], "ok"),
    "s to the end": (["s", "s"], "ok"),
    "q": (["q"], "error"),
    "q after a step": (["n", "q"], "error"),
    "an error": (["!x = 0", "c"], "error"),
}


@pytest.mark.parametrize("end", ENDS)
def test_nothing_is_traced_after_the_cell_however_it_ended(fresh, end):
    script, status = ENDS[end]
    ran, _ = talk(fresh, "%%disco\nx = 1\nbreakpoint()\ny = 1 / x", dict.fromkeys(range(4), script))
    assert ran.status == status
    assert works(fresh)


PLACES = {
    "at the first prompt": [],
    "at a later prompt": ["n"],
    "in a line that does not end": ["!while True: i = 1; i += 1"],
    "in interact": ["interact"],
}


@pytest.mark.parametrize("place", PLACES)
def test_the_stop_button_ends_the_cell_leaves_no_prompt_and_frees_the_turn(fresh, place):
    # The other workers are on their way to their own prompts.
    cell = fresh.send("%%disco\nprint('ready')\nbreakpoint()\nx = 1\ny = 2")
    before = fresh.until_text(cell, "ready\n", times=4)
    worker, _ = asked(fresh)
    for line in PLACES[place]:
        fresh.client.input(line)
        if not line.startswith("!"):
            asked(fresh)
    fresh.interrupt()
    ran = fresh.finish(cell, before)
    assert (ran.status, ran.error["ename"]) == ("error", "KeyboardInterrupt")
    assert "was replaced" not in ran.traceback, f"worker {worker} was stuck"
    assert works(fresh)


def test_the_stop_button_ends_code_that_is_stepped_through(fresh):
    cell = fresh.send("%%disco -w 0\nbreakpoint()\nwhile True:\n    x = 1\n    x += 1\n    print('running')")
    answer(fresh, {0: ["n", "n", "b 99", "tbreak 4", "c", "cl 1", "unt 7"]})
    before = fresh.until_text(cell, "running\n", times=3)
    fresh.interrupt()
    ran = fresh.finish(cell, before)
    assert ran.error["ename"] == "KeyboardInterrupt"
    assert "was replaced" not in ran.traceback
    assert works(fresh)


def test_a_thread_that_is_stuck_at_its_prompt_loses_its_turn(fresh):
    cell = fresh.send("%%disco -w 0\nprint('ready')\nbreakpoint()")
    before = fresh.until_text(cell, "ready\n")
    # In a loop: what strikes between the print and the wait must not get it out of there.
    loop = "while True:\n try:\n  print('stuck'); threading.Event().wait()\n except BaseException: pass"
    answer(fresh, {0: [f"!import threading; exec({loop!r})"]})
    before += fresh.until_text(cell, "stuck\n")
    fresh.interrupt()
    assert "was replaced by a new one" in fresh.finish(cell, before).traceback
    assert works(fresh)


def test_code_that_survives_an_interrupt_gets_no_further_prompt(fresh):
    cell = fresh.send(
        "%%disco -w 0\nprint('ready')\nfor _ in range(3):\n    try:\n        breakpoint()\n"
        "    except KeyboardInterrupt:\n        pass"
    )
    before = fresh.until_text(cell, "ready\n")
    asked(fresh)
    fresh.interrupt()
    assert fresh.finish(cell, before).error["ename"] == "KeyboardInterrupt"
    assert works(fresh)  # or its first question would be that one


def test_the_limit_of_a_cell_holds_at_the_prompt_too(fresh):
    cell = fresh.send("%%disco --timeout 2\nbreakpoint()")
    asked(fresh)
    assert fresh.finish(cell).error["ename"] == "SyncTimeout"
    assert works(fresh)


# --- where nobody can answer -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("breakpoint()", "breakpoint()"),
        ("input()", "input()"),
        ("__import__('getpass').getpass()", "getpass()"),
    ],
)
def test_a_front_end_without_input_fails_the_cell_in_its_line_and_says_why(fresh, call, name):
    ran = fresh.finish(fresh.client.execute(f"%%disco\nx = 1\n{call}", allow_stdin=False))
    assert (
        f"UsageMistake: {name} asks a question, but whoever runs this notebook takes no input"
        in ran.traceback
    )
    assert f"----> 3 {call}" in ran.traceback
    assert ".py" not in ran.traceback
    assert works(fresh)


@pytest.mark.parametrize("call", ["breakpoint()", "input()"])
def test_a_cell_that_nobody_waits_for_may_not_ask(fresh, call):
    fresh.ok(f"%%disco --nowait -o handle\n{call}")
    ran = fresh.run("handle.wait()")
    assert f"UsageMistake: {call} in a cell that was sent with --nowait" in ran.traceback


def test_a_thread_that_a_cell_has_started_has_no_debugger(fresh):
    code = (
        "%%disco -w 0\nimport threading\nerrors = []\ndef f():\n    try:\n        breakpoint()\n"
        "    except Exception as error:\n        errors.append(str(error))\n"
        "thread = threading.Thread(target=f)\nthread.start()\nthread.join()\nerrors"
    )
    assert "a thread that worker 0 has started" in fresh.ok(code).value


def test_pythonbreakpoint_turns_breakpoints_off_or_names_another_debugger(fresh):
    fresh.ok("%%disco\nimport os\nos.environ['PYTHONBREAKPOINT'] = '0'\nbarrier()\nbreakpoint()\nbarrier()")
    try:
        ran = fresh.ok("%%disco -w 0\nos.environ['PYTHONBREAKPOINT'] = 'builtins.print'\nbreakpoint(1, 2)")
        assert ran.lines == ["[0] 1 2"]
    finally:
        fresh.ok("import os\ndel os.environ['PYTHONBREAKPOINT']")


def test_the_notebook_s_own_breakpoints_and_questions_are_as_before(fresh):
    fresh.ok("%%disco\n1")
    cell = fresh.send("x = 3\nimport pdb; pdb.set_trace()\ny = input('y? ')")
    for line, prompt in [("p x", "ipdb> "), ("c", "ipdb> "), ("4", "y? ")]:
        assert asked(fresh) == (None, prompt)
        fresh.client.input(line)
    ran = fresh.finish(cell)
    assert ran.status == "ok"
    assert {"3", "----> 2 import pdb; pdb.set_trace()"} <= set(shown(ran).splitlines())
