"""Tab completion waits for no worker, executes no code of values and keeps none; with Jedi and without."""

from __future__ import annotations

import gc
import pickle
import sys
import weakref

import numpy as np
import pytest

from disco_magic.notebook.completing import jedi as jedi_file
from disco_magic.notebook.completing.offer import Settings
from disco_magic.session.current import session
from disco_magic.testing.doubles import Gate
from tests.notebook.completing.offering import MODEL


def test_busy_workers_are_not_waited_for_and_nothing_is_sent(four, either):
    four.run(MODEL)
    gate = Gate()
    four.ip.user_ns["gate"] = gate
    four.run("%%disco --nowait --push gate -o cell\nfresh = np.ones(3)\ngate()")
    gate.arrived(4)
    try:
        sent = session().stats()
        assert either("%%disco\nfre") == {"fresh": "register"}
        assert either("%%disco\nfresh.sh") == {"fresh.shape": "instance"}
        assert either("%%disco\nmodel.wei") == {"model.weight": "instance"}
        assert [each.sent for each in session().stats().workers] == [each.sent for each in sent.workers]
    finally:
        gate.open()
        four.run("cell.wait()")


def test_a_session_that_is_ended_meanwhile_completes_nothing(four, offered, monkeypatch):
    four.run("%%disco\nname = 1")
    monkeypatch.setattr(session()._launcher, "examine_names", lambda *_: session()._refuse())
    assert offered("%%disco\nnam") == {}


SPY = """%%disco
import sys
class Spy:
    def __init__(self): self.plain = np.ones(3)
    @property
    def costly(self): sys.spied.append("property")
    def method(self): sys.spied.append("call")
    def __getattr__(self, name): sys.spied.append(name); raise AttributeError(name)
    def __call__(self, alpha=1): sys.spied.append("call")
    def __iter__(self): sys.spied.append("iter"); return iter(())
    def __len__(self): sys.spied.append("len"); return 1
    def __bool__(self): sys.spied.append("bool"); return True
    def __repr__(self): sys.spied.append("repr"); return "spy"
    def __getitem__(self, key): sys.spied.append("item"); return 1
    def __add__(self, other): sys.spied.append("add"); return self
class Plain: pass
class Hidden:
    def __getattr__(self, name): sys.spied.append(name); raise AttributeError(name)
spy, holder, hidden = Spy(), Plain(), Hidden()
holder.spy = spy
"""


@pytest.mark.parametrize(
    "code",
    [
        "sp",
        "spy.",
        "spy.plain.sh",
        "spy.costly.",
        "holder.spy.",
        "holder.spy.plain.",
        "spy['",
        "holder.spy['",
        "spy(al",
        "hidden(al",
        "spy[0].",
        "(spy + 1).",
        "for each in spy: each.",
        "each, = spy\neach.",
        "if spy: spy.",
        "spy.nothing.",
        "spy.method().",
    ],
)
def test_no_code_of_the_values_is_executed(four, either, monkeypatch, code):
    spied = []
    monkeypatch.setattr(sys, "spied", spied, raising=False)
    four.run(SPY)
    del spied[:]
    either(f"%%disco\n{code}")
    assert spied == []


def test_lines_above_are_not_executed(four, either):
    four.run("%%disco\nlengths = []")
    assert either("%%disco\nx = list(range(10**15))\nlengt") == {"lengths": "register"}


def test_a_user_who_lets_ipython_evaluate_everything_does_not_mean_the_workers(four, offered, monkeypatch):
    spied = []
    monkeypatch.setattr(sys, "spied", spied, raising=False)
    four.run(SPY)
    four.ip.Completer.use_jedi = False
    four.ip.Completer.evaluation = "unsafe"
    offered("%%disco\nspy.method().")
    assert "call" not in spied
    four.ip.Completer.evaluation = "minimal"
    assert offered("%%disco\nspy.pla") == {}


def test_what_a_class_says_about_its_keys_is_asked_and_may_fail(four, either):
    four.run(
        "%%disco\nclass Told:\n    def _ipython_key_completions_(self): return ['kappa']\n"
        "class Fails:\n    def _ipython_key_completions_(self): raise KeyError\n"
        "    def __dir__(self): raise KeyError\n"
        "class Own(dict):\n    def __getattr__(self, name): raise KeyError\n"
        "told, fails, own, record = Told(), Fails(), Own(kay=1), np.zeros(1, [('field', 'f4')])"
    )
    assert either("%%disco\ntold['") == {"told['kappa": "dict key"}
    assert either("%%disco\nown['") == {"own['kay": "dict key"}
    assert either("%%disco\nrecord['") == {"record['field": "dict key"}
    assert "dict key" not in either("%%disco\nfails['zz").values()
    assert either("%%disco\nfails.") == {}
    assert four.err == ""


def test_names_that_are_no_text_do_no_harm(four, either):
    four.run("%%disco\nglobals()[5] = 1\nname = 1")
    assert either("%%disco\nnam") == {"name": "register"}


@pytest.mark.parametrize(
    "code", ["val", "value.sh", "holder.value.sh", "np.add(value, ", "made = value + 1\nmade.", "f(va"]
)
def test_values_are_not_kept(shell, either, code):
    shell.run("%disco start -n 2")
    shell.run(
        "%%disco\nclass Holder: pass\nholder = Holder()\nholder.value = value = np.ones(3)\ndef f(a): pass"
    )
    kept = session().examine("value", weakref.ref)
    gc.collect()
    gc.disable()
    try:
        assert either(f"%%disco\n{code}") or "made" in code
        shell.run("%%disco\ndel value, holder")
        session().sync_all()
        assert [ref() for ref in kept] == [None, None]
    finally:
        gc.enable()


def test_pushed_variables_are_not_kept(four, offered):
    four.ip.user_ns["weights"] = value = np.ones(3)
    kept = weakref.ref(value)
    gc.disable()
    try:
        assert offered("%%disco --push weights\nweights.sh")
        del value, four.ip.user_ns["weights"]
        assert kept() is None
    finally:
        gc.enable()


class _Missing:
    def __get__(self, *_):
        raise AttributeError

    def __set__(self, *_):
        pass


def test_a_jedi_that_looks_otherwise_inside_is_let_go_by_the_garbage_collector(four, offered, monkeypatch):
    import jedi

    four.ip.Completer.use_jedi = True
    collected = []
    monkeypatch.setattr(gc, "collect", lambda: collected.append(1))
    assert offered("%%disco\ntext = 'a'\ntext.upp")
    assert collected == []
    monkeypatch.setattr(jedi.Interpreter, "namespaces", _Missing(), raising=False)
    assert offered("%%disco\ntext = 'a'\ntext.upp") == {}
    assert collected == [1]


@pytest.mark.parametrize("error", [IndexError, KeyboardInterrupt])
def test_a_completer_that_fails_offers_nothing_and_says_nothing(four, either, monkeypatch, capsys, error):
    def fail(*_):
        raise error("half typed")

    monkeypatch.setattr("disco_magic.notebook.completing.completer.IPCompleter.completions", fail)
    assert either("%%disco\nallr['") == {}
    assert capsys.readouterr() == ("", "")


# --- with Jedi, or without --------------------------------------------------------------------------


def test_without_jedi_everything_but_what_it_knows_completes(four, offered, monkeypatch):
    four.ip.Completer.use_jedi = True
    monkeypatch.setitem(sys.modules, "jedi", None)
    jedi_file.is_there.cache_clear()
    try:
        assert offered("%%disco\nallr") == {"allreduce": "function", "allreduce_tree": "function"}
        assert offered("%%disco\nmade = 'text'\nmade.upp") == {}
    finally:
        monkeypatch.undo()
        jedi_file.is_there.cache_clear()


def test_a_file_of_jedi_s_that_another_process_is_writing_is_read_again(four, offered, monkeypatch):
    import jedi

    four.ip.Completer.use_jedi = True
    cell, complete = "%%disco\nearly = 'text'\nearly.uppe", jedi.Interpreter.complete
    failures = [EOFError("Ran out of input"), pickle.UnpicklingError("pickle data was truncated")]

    def complete_at_last(interpreter):
        if failures:
            raise failures.pop()
        return complete(interpreter)

    monkeypatch.setattr(jedi.Interpreter, "complete", complete_at_last)
    assert offered(cell).keys() == {"early.upper"}
    monkeypatch.setattr(jedi_file, "_READ_AGAIN_S", -1)
    failures.extend([EOFError()] * 5)
    assert offered(cell) == {}
    assert len(failures) == 4


def test_a_jedi_that_fails_does_no_harm(four, offered, monkeypatch):
    import jedi

    four.ip.Completer.use_jedi = True
    cell = "%%disco\nmade = 'text'\nmade.upp"
    assert offered(cell).keys() == {"made.upper"}
    monkeypatch.setattr(jedi.api.classes.BaseName, "type", property(lambda _: 1 / 0))
    assert offered(cell) == {"made.upper": "<unknown>"}
    monkeypatch.setattr(jedi.Interpreter, "complete", lambda *_: 1 / 0)
    assert offered(cell) == {}
    monkeypatch.setattr(jedi, "Interpreter", lambda *_: 1 / 0)
    assert offered(cell) == {}
    assert offered("%%disco\nallr") == {
        "allreduce": "function",
        "allreduce_tree": "function",
    }  # IPython's are still there
    assert jedi.settings.allow_unsafe_interpreter_executions


@pytest.mark.parametrize(("omit", "expected"), [(2, set()), (1, {"_one"}), (0, {"_one", "__two__"})])
def test_underscores_are_omitted_as_the_user_s_completer_omits_them(four, either, omit, expected):
    four.ip.Completer.omit__names = omit
    body = "class Under:\n    _one = 1\n    __two__ = 2\n    three = 3\n"
    four.run(f"%%disco\n{body}there = Under()")
    for cell in ("%%disco\nthere.", f"%%disco\n{body}here = Under()\nhere."):
        found = {name.partition(".")[2] for name in either(cell)}
        if "three" in found:  # without Jedi nothing is known of the second
            assert found & {"_one", "__two__", "three"} == expected | {"three"}


def test_the_user_s_settings_are_taken_over(shell):
    completer = shell.ip.Completer
    completer.disable_matchers = ["IPCompleter.file_matcher"]
    completer.evaluation = "unsafe"
    settings = Settings.of(completer)
    assert settings.disable_matchers == ("IPCompleter.file_matcher",)
    assert (settings.evaluation, settings.use_jedi) == ("limited", completer.use_jedi)
