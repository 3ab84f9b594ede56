"""Questions of workers in IPython's terminal: the line is the worker's, the next one IPython's again."""

from __future__ import annotations

import os
import sys
from itertools import count

import pytest

from tests.kernels import PATIENCE_S, ROOT

pexpect = pytest.importorskip("pexpect", reason="IPython has it where there are terminals")

PROMPT = r"\[(\d)\] ipdb>"


class Terminal:
    """IPython in a terminal, with a session of two workers."""

    def __init__(self, folder, *options):
        env = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "IPYTHONDIR": str(folder),
            "TERM": "xterm",
            "PROMPT_TOOLKIT_NO_CPR": "1",
        }
        env.pop("NO_COLOR", None)
        arguments = ["-m", "IPython", "--no-banner", "--no-confirm-exit", "--colors=nocolor", *options]
        self._child = pexpect.spawn(
            sys.executable, arguments, env=env, encoding="utf8", timeout=PATIENCE_S, dimensions=(40, 150)
        )
        self._numbers = count(1)
        self.at_prompt()
        self.run("%load_ext disco_magic")
        self.run("%disco start -n 2")

    def at_prompt(self):
        """Wait for IPython's next prompt; what was shown before it."""
        self.until(rf"In \[{next(self._numbers)}\]:")
        return self._child.before

    def until(self, pattern):
        """Wait until the screen shows `pattern`."""
        self._child.expect(pattern)
        return self._child.match

    def type(self, line):
        self._child.send(f"{line}\r")

    def press(self, character):
        self._child.sendcontrol(character)

    def run(self, line):
        self.type(line)
        return self.at_prompt()

    def cell(self, body):
        self.type(f"get_ipython().run_cell_magic('disco', '', {body!r})")

    def answer(self, scripts):
        """Answer the workers' prompts, each worker's from a list of its own."""
        left = {worker: list(answers) for worker, answers in scripts.items()}
        while any(left.values()):
            self.type(left[int(self.until(PROMPT)[1])].pop(0))

    def close(self):
        self._child.close(force=True)


@pytest.fixture(scope="module", params=["--simple-prompt", "--no-simple-prompt"])
def terminal(request, tmp_path_factory):
    running = Terminal(tmp_path_factory.mktemp("ipython"), request.param)
    yield running
    running.close()


def test_n_on_all_workers_steps_over_a_collective(terminal):
    terminal.cell("breakpoint()\ny = allreduce(np.ones(1))\nz = y.item() * 21\nint(z)")
    terminal.answer({worker: ["n", "n", "c"] for worker in range(2)})
    assert "[0-1] 42" in terminal.at_prompt()


def test_what_the_prompt_shows_has_the_worker_s_prefix(terminal):
    terminal.cell("mine = worker_id + 70\nif worker_id:\n    breakpoint()")
    terminal.until(r"----> 4     breakpoint\(\)")
    terminal.answer({1: ["p mine"]})
    terminal.until(r"\[1\] 71\r\n")
    terminal.answer({1: ["c"]})
    terminal.at_prompt()


def test_lines_of_other_workers_come_above_the_open_prompt(terminal):
    terminal.cell(
        "from disco_magic.notebook.output.footer import FOOTER\nif worker_id:\n    breakpoint()\nelse:\n"
        "    while len(FOOTER._asking) < 2: pass\n    print('a line')"
    )
    terminal.until(PROMPT)
    terminal.until(r"\r\x1b\[J\[0\] a line\r\n\[1\] ipdb> ")
    terminal.type("c")
    terminal.at_prompt()


def test_ctrl_c_at_a_worker_s_prompt_stops_the_cell_and_no_line_is_lost(terminal):
    terminal.cell("breakpoint()")
    terminal.until(PROMPT)
    terminal.press("c")
    shown = terminal.at_prompt()
    assert "was stopped on workers [0-1]" in shown
    assert "was replaced" not in shown
    terminal.type("6 * 7")
    terminal.until(r"Out\S*: \S*42")
    terminal.at_prompt()


def test_ctrl_c_at_a_question_of_the_cell_s_own_does_too(terminal):
    terminal.cell("input('name? ')")
    terminal.until(r"\[\d\] name\? ")
    terminal.press("c")
    assert "was replaced" not in terminal.at_prompt()
    terminal.type("6 * 7")
    terminal.until(r"Out\S*: \S*42")
    terminal.at_prompt()


def test_ctrl_d_ends_the_debugger_like_q_and_a_question_with_eoferror(terminal):
    terminal.cell("if worker_id: breakpoint()\nelse: input('name? ')")
    for _ in range(2):
        terminal.until(r"\[\d\] (ipdb>|name\?) ")
        terminal.press("d")
    shown = terminal.at_prompt()
    assert "[0] EOFError" in shown
    assert "[1] DebuggerQuit: left with q at Cell In[" in shown


def test_a_password_is_not_shown_and_what_is_typed_next_is(terminal):
    terminal.cell("import getpass\nlen(getpass.getpass('Token: '))")
    for _ in range(2):
        terminal.until(r"\[\d\] Token: ")
        terminal.type("hunter2")
    shown = terminal.at_prompt()
    assert "hunter2" not in shown
    assert "[0-1] 7" in shown
    assert "6 * 7" in terminal.run("6 * 7")


def test_ctrl_c_at_a_password_leaves_a_terminal_that_shows_what_is_typed(terminal):
    terminal.cell("import getpass\ngetpass.getpass('Token: ')")
    terminal.until(r"\[\d\] Token: ")
    terminal.press("c")
    assert "was replaced" not in terminal.at_prompt()
    assert "6 * 7" in terminal.run("6 * 7")


def test_a_failure_is_looked_at_in_ipython_s_own_debugger(terminal):
    terminal.cell("mine = 40 + worker_id\n1 / (1 - worker_id)")
    terminal.at_prompt()
    for command, prompt in [("%disco debug", PROMPT), ("%debug", "ipdb>")]:
        terminal.type(command)
        terminal.until("----> 3 1 / ")
        terminal.until(prompt)
        terminal.type("p mine")
        terminal.until(r"41\r\n")
        terminal.until(prompt)
        terminal.type("q")
        terminal.at_prompt()
