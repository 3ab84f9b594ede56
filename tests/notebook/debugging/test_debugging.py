"""Breakpoints in cells, in a real kernel: prompts by worker, where they stop, steps over collectives."""

from __future__ import annotations

import pytest

from tests.notebook.talk import answer, asked, of_worker, shown, talk, works

GATE = "import builtins, threading\nbuiltins.gate = threading.Event()"
MODULE = "import types; m = types.ModuleType('m'); exec({!r}, vars(m)); m.f()"
ASKING = "def f(): return input('? ')"
# On a busy machine one may be asked twice before another has come to its breakpoint.
ALL_WAIT = """
import threading
from disco_magic.notebook.debugging.asking import ASKERS
def all_wait():
    while len(ASKERS._queue) < 4:
        threading.Event().wait(0.001)
"""
WAYS = {
    "breakpoint": "breakpoint()",
    "pdb": "import pdb; pdb.set_trace()",
    "pdb by name": "from pdb import set_trace; set_trace()",
    "IPython": "from IPython.core.debugger import set_trace; set_trace()",
    "an instance": "import pdb; pdb.Pdb().set_trace()",
    "a module": MODULE.format("def f():\n    breakpoint()"),
}


# --- prompts ---------------------------------------------------------------------------------------------


def test_every_worker_gets_its_own_prompt_and_answers_for_itself(fresh):
    ran, prompts = talk(
        fresh, "%%disco\nmine = worker_id * 10\nbreakpoint()\nmine", {w: ["p mine", "c"] for w in range(4)}
    )
    assert sorted(prompts) == [(worker, "ipdb> ") for worker in range(4) for _ in range(2)]
    assert [of_worker(ran, worker)[-1] for worker in range(4)] == ["0", "10", "20", "30"]
    assert ran.value == "\n".join(f"[{worker}] {worker * 10}" for worker in range(4))


def test_a_worker_s_questions_come_one_after_the_other_until_it_goes_on(fresh):
    _, prompts = talk(fresh, "%%disco\nbreakpoint()", {w: ["p 1", "p 2", "p 3", "c"] for w in range(4)})
    whose = [worker for worker, _ in prompts]
    assert whose == [worker for worker in whose[::4] for _ in range(4)]


def test_n_on_all_workers_steps_over_a_collective(fresh):
    code = "x = np.full(2, worker_id + 1.0)\nbreakpoint()\ny = allreduce(x)\nz = y + 1\nz[0].item()"
    ran, prompts = talk(
        fresh,
        f"%%disco\n{ALL_WAIT}{code}",
        {w: ["!all_wait()", "n", "n", "p int(y[0])", "c"] for w in range(4)},
    )
    assert ran.value == "[0-3] 11.0"
    assert [of_worker(ran, worker)[-1] for worker in range(4)] == ["10"] * 4
    # Everybody has a turn before anybody's second one: else the one who steps first waits for the others.
    assert {worker for worker, _ in prompts[:8]} == {0, 1, 2, 3}


def test_workers_whose_turn_has_not_come_are_said_to_wait_for_it(fresh):
    # They were said to execute the cell, and seemed to be busy.
    fresh.ok(GATE)
    look = "!import disco_magic as disco; print(disco.session().doctor().positions[1])"
    ran, _ = talk(
        fresh,
        f"%%disco -w 0,1\n{ALL_WAIT.replace('4', '2')}import builtins\n"
        "if worker_id:\n    builtins.gate.wait()\nbreakpoint()\nx = 1",
        {0: ["!builtins.gate.set(); all_wait()", look, "c"], 1: ["c"]},
    )
    said = "waiting for your answer to breakpoint(), when it is its turn at Cell In["
    assert [line[: len(said)] for line in of_worker(ran, 0) if "turn" in line] == [said]


def test_one_worker_alone_stops_and_the_others_wait_for_it_in_the_collective(fresh):
    ran, prompts = talk(
        fresh,
        "%%disco\nx = 1.0\nif worker_id == 2:\n    breakpoint()\nallreduce(np.array(x)).item()",
        {2: ["!x = 5.0", "n", "c"]},
    )
    assert (ran.value, len(prompts)) == ("[0-3] 8.0", 3)


def test_what_is_at_the_prompt_is_shown_before_the_answer_whatever_the_cell_does_with_its_output(fresh):
    cell = fresh.send("%%disco -w 1 --output ordered\nprint('kept')\nbreakpoint()")
    worker, _ = asked(fresh)
    seen = fresh.until_text(cell, "breakpoint()")
    assert "[1] kept" not in "".join(str(message["content"]) for message in seen)
    fresh.client.input("c")
    ran = fresh.finish(cell, seen)
    assert (worker, of_worker(ran, 1)[-1]) == (1, "kept")
    assert of_worker(ran, 1)[0].startswith("> ")


def test_input_of_another_worker_comes_in_its_turn(fresh):
    fresh.ok(GATE)
    cell = fresh.send(
        "%%disco -w 0,1\nimport builtins\nif worker_id:\n    builtins.gate.wait()\n"
        "    name = input('name? ')\nelse:\n    breakpoint()\n    name = 'none'\nname"
    )
    assert asked(fresh) == (0, "ipdb> ")
    fresh.client.input("!builtins.gate.set()")
    prompts = answer(fresh, {0: ["p 1", "c"], 1: ["Ada"]})
    assert prompts == [(0, "ipdb> "), (0, "ipdb> "), (1, "name? ")]
    assert fresh.finish(cell).value == "[0] 'none'\n[1] 'Ada'"


def test_input_in_a_module_says_whose_it_is(fresh):
    code = f"%%disco -w 1,3\n{MODULE.format(ASKING)}"
    ran, prompts = talk(fresh, code, {1: ["a"], 3: ["b"]})
    assert (sorted(prompts), ran.value) == ([(1, "? "), (3, "? ")], "[1] 'a'\n[3] 'b'")


ASKS_FOR_ONE = "from getpass import getpass\ngetpass('Token: ')"


@pytest.mark.parametrize("code", [ASKS_FOR_ONE, "import getpass\ngetpass.getpass(prompt='Token: ')"])
def test_a_password_is_asked_for_by_one_worker_at_a_time_and_every_one_gets_its_own(fresh, code):
    # Two threads on the kernel's socket ended the process, or exchanged their answers.
    ran, prompts = talk(fresh, f"%%disco\n{code}", {worker: [f"secret {worker}"] for worker in range(4)})
    assert sorted(prompts) == [(worker, "Token: ") for worker in range(4)]
    assert ran.value == "\n".join(f"[{worker}] 'secret {worker}'" for worker in range(4))
    assert works(fresh)


@pytest.mark.parametrize("kept", ["from getpass import getpass as ask", "ask = input"])
def test_a_module_that_has_kept_the_kernel_s_own_function_asks_in_turns_too(fresh, kept):
    # In a plain cell those are the kernel's.
    fresh.ok(
        f"%%local\nimport sys, types\nkeeper = sys.modules['keeper'] = types.ModuleType('keeper')\n"
        f"exec({kept!r}, vars(keeper))\nkeeper.ask.__self__.__class__.__name__"
    )
    ran, prompts = talk(
        fresh, "%%disco\nimport keeper\nkeeper.ask('? ')", {worker: [str(worker)] for worker in range(4)}
    )
    assert sorted(prompts) == [(worker, "? ") for worker in range(4)]
    assert ran.value == "\n".join(f"[{worker}] '{worker}'" for worker in range(4))
    assert talk(fresh, "%%disco -w 2\nkeeper.ask('? ')", {2: ["again"]})[0].value == "[2] 'again'"
    cell = fresh.send("%%local\nkeeper.ask('? ')")
    assert asked(fresh) == (None, "? ")
    fresh.client.input("mine")
    assert fresh.finish(cell).value == "'mine'"


# --- where it stops --------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_all_ways_to_stop_open_the_worker_s_debugger_in_the_user_s_line(fresh, way):
    ran, prompts = talk(fresh, f"%%disco -w 3\ntold = 'here'\n{WAYS[way]}\ntold", {3: ["up", "p told", "c"]})
    assert prompts == [(3, "ipdb> ")] * 3
    assert ran.value == "[3] 'here'"
    text = shown(ran)
    assert "'here'" in text
    assert "disco_magic" not in text
    assert "pdb.py" not in text


def test_it_stops_at_the_line_of_the_call_with_the_listing_of_the_cell(fresh):
    ran, _ = talk(fresh, "%%disco -w 0\nx = 1\nbreakpoint()\ny = 2", {0: ["c"]})
    assert "----> 3 breakpoint()" in shown(ran)
    assert "1 %%disco -w 0" in shown(ran)


FUNCTION = "%%disco -w 0\ndef f(a):\n    b = a + 1\n    return b\nbreakpoint()\ny = f(2)\nz = y * 2\nz"


def test_s_goes_into_a_function_and_r_back_to_its_caller(fresh):
    ran, _ = talk(fresh, FUNCTION, {0: ["n", "s", "n", "a", "r", "n", "p y", "c"]})
    text = shown(ran)
    order = [text.index(part) for part in ("--Call--", "a = 2", "--Return--", "----> 7 z = y * 2")]
    assert order == sorted(order)
    assert of_worker(ran, 0)[-1] == "3"


def test_steps_go_on_from_the_body_of_a_cell_to_its_last_expression_and_end_there(fresh):
    ran, _ = talk(fresh, FUNCTION, {0: ["n", "n", "n", "s"]})
    assert "----> 8 z" in shown(ran)
    assert ran.value == "[0] 6"


def test_the_stack_is_the_user_s_own(fresh):
    ran, _ = talk(
        fresh, "%%disco -w 0\ndef f():\n    breakpoint()\nf()", {0: ["w", "l", "up", "up", "down", "c"]}
    )
    text = shown(ran)
    assert "disco_magic" not in text
    assert "*** Oldest frame" in text
    assert "(4)<module>" in text


def test_steps_lead_over_an_await(fresh):
    code = (
        "%%disco -w 0\nimport asyncio\nasync def f(a):\n    await asyncio.sleep(0)\n    return a + 1\n"
        "breakpoint()\ny = await f(2)\nz = y + 1\nz"
    )
    ran, _ = talk(fresh, code, {0: ["n", "n", "p y", "n", "c"]})
    text = shown(ran)
    assert [f"----> {line}" in text for line in (7, 8, 9)] == [True, True, True]
    assert "asyncio/" not in text
    assert ran.value == "[0] 4"


def test_a_breakpoint_in_a_loop_and_one_that_is_set_at_the_prompt_stop_every_time(fresh):
    code = "%%disco -w 0\nfor i in range(3):\n    breakpoint()\n    y = i\nz = y + 1\nz"
    ran, prompts = talk(fresh, code, {0: ["b 5", "c", "c", "c", "p y", "c"]})
    assert (len(prompts), ran.value) == (6, "[0] 3")
    assert of_worker(ran, 0)[-1] == "2"


def test_a_failing_line_that_is_stepped_over_can_be_looked_at(fresh):
    ran, _ = talk(fresh, "%%disco -w 0\nbreakpoint()\n1 / 0", {0: ["n", "n", "p worker_id", "c"]})
    assert "ZeroDivisionError: division by zero" in of_worker(ran, 0)
    assert "[0] ZeroDivisionError: division by zero" in ran.traceback
    assert ".py" not in ran.traceback


# --- at the prompt ---------------------------------------------------------------------------------------


def test_registers_can_be_changed_and_nothing_of_the_debugger_stays_in_the_namespace(fresh):
    fresh.ok("%%disco\nbefore = 1\nbefore = sorted(globals())")
    ran, _ = talk(
        fresh, "%%disco -w 0\nbreakpoint()\nfresh = 1\n1 / 0", {0: ["!before.append('x')", *"nnnc"]}
    )
    assert ran.status == "error"
    assert fresh.ok("%%disco -w 0\nset(globals()) ^ set(before)").value == "[0] {'fresh', 'x'}"


def test_interact_executes_statements_and_exit_leads_back_to_the_debugger(fresh):
    ran, prompts = talk(
        fresh,
        "%%disco -w 1\nx = 20\nbreakpoint()\nx",
        {1: ["interact", "x + 1", "for i in range(2):", "    print(i)", "", "quux", "1 +", "exit()", "c"]},
    )
    assert [text for _, text in prompts] == ["ipdb> ", *[">>> "] * 2, *["... "] * 2, *[">>> "] * 3, "ipdb> "]
    lines = of_worker(ran, 1)
    assert {"21", "0", "1", "NameError: name 'quux' is not defined", "SyntaxError: invalid syntax"} <= set(
        lines
    )
    assert (ran.value, ran.displays) == ("[1] 20", [])


def test_what_a_line_raises_is_shown_and_the_prompt_comes_again(fresh):
    ran, _ = talk(fresh, "%%disco -w 0\nbreakpoint()\n1", {0: ["p nothing", "debug 1 + 1", "c"]})
    assert "*** NameError: name 'nothing' is not defined" in of_worker(ran, 0)
    assert "*** debug opens a debugger that asks in no worker's name" in shown(ran)
    assert ran.value == "[0] 1"


def test_a_collective_at_the_prompt_says_why_it_cannot_be_called_there(fresh):
    ran, _ = talk(
        fresh,
        "%%disco\nbreakpoint()\nallreduce(np.ones(1)).item()",
        {0: ["p allreduce(np.ones(1))", "c"], 1: ["c"], 2: ["c"], 3: ["c"]},
    )
    assert "*** disco_magic.errors.UsageMistake: a collective was called at the debugger's prompt" in shown(
        ran
    )
    assert ran.value == "[0-3] 4.0"
