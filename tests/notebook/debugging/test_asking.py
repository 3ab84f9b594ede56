"""Questions of several workers at once: `input`, and whose turn it is."""

from __future__ import annotations

import builtins
import io
import re
import sys
import threading
from functools import partial
from types import SimpleNamespace

import pytest
from IPython.core.error import StdinNotImplementedError

import disco_magic as disco
from disco_magic.callers.current import calling_worker
from disco_magic.errors import CellError, UsageMistake, WorkerInterrupt
from disco_magic.notebook.debugging.asking import Askers, answered
from disco_magic.notebook.debugging.questions import StandIn
from disco_magic.notebook.output.footer import FOOTER


def test_workers_ask_one_after_the_other_and_say_who_they_are(crew, monkeypatch):
    inside, overlaps, prompts = [], [], []
    seen = threading.Event()

    def answer(prompt):
        inside.append(prompt)
        seen.wait(0.05)  # time for another worker to come in, if it could
        overlaps.append(len(inside))
        inside.remove(prompt)
        prompts.append(prompt)
        return prompt[1]

    monkeypatch.setattr(builtins, "input", answer)
    result = crew.run("%%disco\nint(input('name? '))")
    assert result.values == list(range(len(result)))
    assert sorted(prompts) == [f"[{worker}] name? " for worker in range(len(result))]
    assert set(overlaps) == {1}


def test_a_worker_that_asks_is_said_to_wait_for_the_user(crew, monkeypatch):
    # Its cell was "executing", and the others waited for nobody knew what.
    said = []

    def answer(prompt):
        diagnosis = disco.session().doctor()
        said.append((str(diagnosis.positions[-1]), diagnosis.sentence))
        return "yes"

    monkeypatch.setattr(builtins, "input", answer)
    crew.run("%%disco\nif worker_id == num_workers - 1: input('who? ')\nbarrier()")
    (where, sentence) = said[0]
    assert where.startswith("waiting for your answer to input('who? ') at ")
    assert "waiting for your answer to input('who? ')" in sentence
    assert disco.session().doctor().sentence == "all workers are idle"


MODULE = "import types\nm = types.ModuleType('m')\nexec('def ask(): return input(\"? \")', vars(m))\n"


def test_a_module_that_asks_says_who_asks_too(crew, monkeypatch):
    monkeypatch.setattr(builtins, "input", lambda prompt: prompt)
    result = crew.run(f"%%disco\n{MODULE}m.ask()")
    assert result.values == [f"[{worker}] ? " for worker in range(crew.n)]
    assert not isinstance(builtins.input, StandIn)


@pytest.mark.parametrize("call", ["getpass.getpass(bogus=1)", "getpass.getpass('a', None, 'b')"])
def test_what_the_function_does_not_take_is_refused_as_ever(crew, call):
    error = crew.fail(f"%%disco -w 0\nimport getpass\n{call}", CellError)
    assert error.origin.summary.startswith("TypeError: getpass() ") or "_getpass() " in error.origin.summary


def test_who_is_no_worker_asks_as_before(monkeypatch):
    below = io.StringIO("an answer\n").readline
    monkeypatch.setattr(builtins, "input", lambda prompt="": prompt + below())
    with answered(waited_for=True), answered(waited_for=True):
        assert builtins.input("? ") == "? an answer\n"
        assert not isinstance(builtins.input.below, StandIn)


def test_what_somebody_else_has_put_there_meanwhile_stays(monkeypatch):
    monkeypatch.setattr(builtins, "input", print)
    with answered(waited_for=True):
        builtins.input = len
    assert builtins.input is len


def test_without_a_front_end_that_takes_input_the_cell_fails_and_says_so(crew, monkeypatch):
    def answer(prompt):
        raise StdinNotImplementedError("no stdin here")

    monkeypatch.setattr(builtins, "input", answer)
    error = crew.fail("%%disco\ninput('name? ')", CellError)
    assert {type(failure.exception) for failure in error.failures.values()} == {UsageMistake}
    assert "whoever runs this notebook takes no input" in str(error)


def test_a_cell_that_nobody_waits_for_may_not_ask(crew):
    handle = crew.run("%%disco --nowait\ninput('name? ')")
    with pytest.raises(CellError, match="sent with --nowait: nobody waits there for the question"):
        handle.wait()


def test_what_is_no_keyboard_is_read_as_ever(crew, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("an answer\n"))
    assert crew.run("%%disco -w 0\ninput()").values == ["an answer"]


def test_without_any_input_the_error_is_python_s_own(crew, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    error = crew.fail("%%disco -w 0\ninput()", CellError)
    assert re.search(r"RuntimeError: (input\(\): )?lost sys.stdin", str(error))


class Messages:
    """A kernel's own way to send; notes of each message whether an interrupt could not strike."""

    sent: list[tuple[str, bool]] = []  # noqa: RUF012 - of the one test that uses it
    during = staticmethod(lambda: None)

    def send(self, socket, kind):
        worker = calling_worker()
        if worker is not None:
            self.during()
        shielded = worker is not None and worker._guard._worker.lane.shielded
        self.sent.append((kind, shielded))


class FrontEnd:
    """As far as a kernel asks its front end."""

    def __init__(self):
        self.session = Messages()

    def raw_input(self, prompt):
        self.session.send("socket", prompt)
        notebook = threading.Thread(target=self.session.send, args=("socket", "another"))
        notebook.start()
        notebook.join()
        return "yes"


@pytest.fixture
def front_end(monkeypatch):
    made = FrontEnd()
    monkeypatch.setattr(Messages, "sent", [])
    monkeypatch.setattr(builtins, "input", made.raw_input)
    return made


def test_no_interrupt_strikes_in_the_middle_of_a_message(crew, front_end):
    assert crew.run("%%disco\ninput('? ')").values == ["yes"] * crew.n
    asked = [(f"[{worker}] ? ", True) for worker in range(crew.n)]
    assert sorted(Messages.sent) == sorted(asked + [("another", False)] * crew.n)
    assert "send" not in vars(front_end.session)


def test_one_that_came_meanwhile_strikes_when_the_message_is_sent(crew, front_end, monkeypatch):
    def interrupt():
        calling_worker()._guard._worker.interrupt(1 << 40)

    monkeypatch.setattr(Messages, "during", staticmethod(interrupt))
    error = crew.fail("%%disco -w 0\ninput('? ')", CellError)
    assert error.origin.summary == "WorkerInterrupt: interrupted as it asked"
    assert [kind for kind, _ in Messages.sent] == ["[0] ? "]


# --- askers ----------------------------------------------------------------------------------------------


@pytest.fixture
def askers():
    made = Askers()
    yield made
    assert not made._queue
    assert not FOOTER._asking


def worker_here():
    """A worker whose thread is the calling one."""
    return SimpleNamespace(thread=threading.get_ident())


def test_who_has_the_turn_has_it_at_once_again(askers):
    worker = worker_here()
    assert askers.take(worker, lambda: askers.take(worker, lambda: 7)) == 7


def until(condition):
    """Spin: what is waited for is a line of Python away."""
    while not condition():
        pass


def test_first_come_first_served(askers, gate, background):
    order = []
    waits = [background(askers.take, SimpleNamespace(thread=0), gate)]
    gate.arrived()
    for name in "abc":
        waits.append(background(askers.take, SimpleNamespace(thread=0), partial(order.append, name)))
        until(lambda: len(askers._queue) == len(waits))
    gate.open()
    for wait in waits:
        wait()
    assert order == ["a", "b", "c"]


def held_by(askers, worker, gate):
    """Take the turn and stay at the gate."""
    worker.thread = threading.get_ident()
    askers.take(worker, gate)


def test_a_thread_that_was_given_up_loses_its_turn_and_its_question(askers, gate, background):
    stuck = SimpleNamespace(thread=0)
    holding = background(held_by, askers, stuck, gate)
    gate.arrived()
    stuck.thread = 0  # its successor's
    assert askers.take(worker_here(), lambda: len(FOOTER._asking)) == 1
    gate.open()
    holding()


def test_a_thread_that_was_given_up_while_it_waited_gets_no_turn(askers, gate, background):
    lost = SimpleNamespace(thread=0)
    holding = background(askers.take, SimpleNamespace(thread=0), gate)
    gate.arrived()
    waiting = background(held_by, askers, lost, gate)
    until(lambda: len(askers._queue) == 2)
    lost.thread = 0
    with pytest.raises(WorkerInterrupt, match="given up"):
        waiting()
    gate.open()
    holding()


def test_what_the_user_is_asked_for_may_fail(askers):
    with pytest.raises(ZeroDivisionError):
        askers.take(worker_here(), lambda: 1 / 0)


def test_a_thread_that_a_cell_has_started_may_ask(askers):
    assert askers.take(SimpleNamespace(thread=0), lambda: 1) == 1
