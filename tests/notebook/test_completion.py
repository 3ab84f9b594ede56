"""Tab completion: on %disco lines, in cells that run on the workers; in a real shell and a real kernel."""

from __future__ import annotations

import gc
import sys
import weakref

import numpy as np
import pytest
from IPython.core.completer import provisionalcompleter, rectify_completions

from disco_magic.notebook.completing import jedi as jedi_file
from disco_magic.notebook.completing.offer import Settings
from disco_magic.notebook.completion import is_spmd
from disco_magic.session.current import session
from disco_magic.testing.doubles import Gate

MODEL = """%%disco
class Model:
    def __init__(self):
        self.weight = np.ones((2, 2))
    def forward(self, inputs, scale=2):
        return inputs
def double(value, times=2):
    return value * times
model, table, array = Model(), {"alpha": 1, "beta": {"gamma": 2}}, np.ones(3)
"""


@pytest.fixture
def offered(bare):
    """Texts that are offered at the end of a cell, or at a place in it, and what each is said to be."""

    def ask(cell, at=None):
        at = len(cell) if at is None else at
        with provisionalcompleter():
            found = list(rectify_completions(cell, bare.ip.Completer.completions(cell, at)))
        return {cell[: each.start].rpartition("\n")[2] + each.text: each.type for each in found}

    return ask


@pytest.fixture(params=[False, True], ids=["without Jedi", "with Jedi"])
def either(offered, shell, request):
    """`offered`, with and without Jedi."""
    shell.ip.Completer.use_jedi = request.param
    return offered


# --- %disco and %%disco lines -----------------------------------------------------------------------


@pytest.fixture
def trained(four):
    """Four workers with registers, and a variable in the notebook."""
    four.ip.user_ns["weights"] = 1
    four.run("%%disco\nwinners = np.ones(worker_id + 1)\nloss = 1.0\nif worker_id in (0, 2): odd = 1")
    return four


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("%disco sta", {"start": "command", "status": "command"}),
        ("%disco", {"%disco": "magic", "%%disco": "magic"}),
        ("%disco put wei", {"weights": "variable"}),
        ("%disco get w", {"winners": "register\u00a0\u2260"}),
        ("%disco get winners o", {"odd": "register\u00a0[0,2]"}),
        ("%disco get winners lo", {"loss": "register"}),
        ("%disco get winners win", {}),
        ("%disco registers win", {"winners": "register\u00a0\u2260"}),
        ("%disco registers --as hi", {"histogram": "word"}),
        ("%disco registers --as=hi", {"histogram": "word"}),
        ("%disco rm od", {"odd": "register\u00a0[0,2]"}),
        ("%disco scatter --a", {"--axis": "option"}),
        ("%disco start --kind ", {"threads": "word"}),
        ("%disco start --devices a", {"auto": "word"}),
        (
            "%disco interrupt -w ",
            {"0": "worker", "1": "worker", "2": "worker", "3": "worker", "all": "workers"},
        ),
        ("%disco auto o", {"on": "word", "off": "word"}),
        ("%%disco --output li", {"live": "word"}),
        ("%%disco --output=li", {"live": "word"}),
        ("%%disco --time --outp", {"--output": "option"}),
        ("%%disco --no-verb", {}),
        ("%%disco -w 0,2,", {"1": "worker", "3": "worker"}),
        ("%%disco --show a", {"all": "workers"}),
        ("%%disco --group ", {"0": "group"}),
        ("%%disco --push wei", {"weights": "variable"}),
        ("%%disco --push odd,wei", {"weights": "variable"}),
        ("%%disco --pull winners,lo", {"loss": "register"}),
        ("%%disco --check v", {"values": "word"}),
        ("%%disco --check --tim", {"--time": "option", "--timeout": "option"}),
        ("%%disco --check values --chec", {}),
    ],
)
def test_lines_complete_options_what_they_take_and_names(trained, offered, line, expected):
    found = offered(line)
    start = line.rpartition(" ")[2]
    last = max(start.rfind(","), start.rfind("="))
    typed = {
        name.removeprefix(line[: len(line) - len(start) + last + 1]): kind for name, kind in found.items()
    }
    assert {
        name: kind for name, kind in typed.items() if kind not in ("path", "variable") or name == "weights"
    } == expected


def test_what_registers_shows_is_one_name(trained, offered):
    assert "winners" not in str(offered("%disco registers odd win"))


def test_results_of_cells_can_be_removed(four, offered, monkeypatch):
    four.run("%%disco --out kept\nnp.ones(2)")
    number = four.ip.execution_count - 1
    assert offered("%disco rm Ou") == {f"%disco rm Out[{number}]": "result"}
    assert offered(f"%disco rm Out[{number}") == {f"%disco rm Out[{number}]": "result"}
    assert offered("%disco rm ke") == {"%disco rm kept": "result"}
    four.run("5")
    assert len([kind for kind in offered("%disco rm ").values() if kind == "result"]) == 2
    monkeypatch.delitem(sys.modules, "disco_magic.session.results")
    assert "result" not in offered("%disco rm ").values()


def test_an_unknown_subcommand_completes_no_names(trained, offered):
    assert not [kind for kind in offered("%disco nothing w").values() if kind.startswith("register")]


def test_lines_complete_before_there_is_a_session(shell, offered):
    assert "%disco get --help" in offered("%disco get ")
    assert "register" not in offered("%%disco --pull ").values()
    assert "group" not in offered("%%disco --group ").values()


# --- cells ------------------------------------------------------------------------------------------


def test_names_are_the_workers_and_say_where_they_differ(trained, either):
    assert either("%%disco\nwin") == {"winners": "register\u00a0\u2260"}
    assert either("%%disco\nlos") == {"loss": "register"}
    assert either("%%disco\nod") == {"odd": "register\u00a0[0,2]"}
    assert either("%%disco -w 0\nx = 1\nf(2-win") == {"f(2-winners": "register\u00a0\u2260"}
    assert either("%%time\n%%disco\nwin") == {"winners": "register\u00a0\u2260"}


def test_workers_that_differ_among_those_that_have_a_name_are_marked(four, offered):
    four.run("%%disco\nif worker_id: some = 1 if worker_id == 1 else 1.0")
    assert offered("%%disco\nsom") == {"some": "register\u00a0[1-3]\u00a0\u2260"}


def test_what_lies_behind_the_names_is_offered(crew, either):
    assert either("%%disco\nworker") == {"worker": "instance", "worker_id": "instance"}
    assert either("%%disco\nallr") == {"allreduce": "function"}
    assert either("%%disco\nnum_w") == {"num_workers": "instance"}
    assert either("%%disco\nn")["np"] == either("%%disco\nx")["xp"] == "module"
    assert either("%%disco\nnp.linalg.nor") == {"np.linalg.norm": "function"}
    assert either("%%disco\nallreduce(1, o").keys() >= {"allreduce(1, op=", "allreduce(1, out="}


def test_attributes_keys_and_arguments_are_those_of_the_values(crew, either):
    crew.run(MODEL)
    assert either("%%disco\nmodel.") == {"model.weight": "instance", "model.forward": "function"}
    assert either("%%disco\nmodel.weight.sh") == {"model.weight.shape": "instance"}
    assert either("%%disco\ntable['") == {"table['alpha": "dict key", "table['beta": "dict key"}
    assert either("%%disco\ntable['beta']['") == {"table['beta']['gamma": "dict key"}
    assert either("%%disco\nmodel.forward(1, sc")["model.forward(1, scale="] == "param"
    assert either("%%disco\ndouble(1, ti") == {"double(1, times=": "param"}
    assert either("%%disco\narray.T.nd") == {"array.T.ndim": "instance"}


def test_arguments_are_those_of_the_innermost_call(four, either):
    four.run(MODEL)
    four.run(
        "%%disco\nclass Called:\n    def __call__(self, alpha, /, beta, *rest, gamma=1): pass\n"
        "called = Called()"
    )

    def arguments(code):
        return {
            name.rpartition(" ")[2] for name, kind in either(f"%%disco\n{code}").items() if kind == "param"
        }

    assert arguments("called( ") == {"beta=", "gamma="}
    assert arguments("called(1, gamma=')', ") == {"beta="}
    assert arguments("called(double(1, times=2), ") == {"beta=", "gamma="}
    assert arguments("called(  # (not this\n    1,\n    ") == {"beta=", "gamma="}
    assert arguments("x = double(called(1), [2], ") == {"value=", "times="}
    assert arguments("model.forward( sc") == {"scale="}
    for code in (
        "double([ ",
        "double(1) ",
        "x = ( ",
        "5( ",
        "nobody( ",
        "model. weight( ",
        "iter( ",
        "double(x. ti",
    ):
        assert arguments(code) == set()


def test_signatures_come_along(four, shell):
    four.run(MODEL)
    with provisionalcompleter():
        found = list(shell.ip.Completer.completions("%%disco\nmodel.for", 17))
    assert [each.signature for each in found] == ["(inputs, scale=2)"]


def test_a_name_that_only_another_worker_has_has_its_attributes(four, either):
    four.run("%%disco\nif worker_id == 2: here = np.ones(3)\nelse: there = 1")
    assert either("%%disco\nnp.add(here.sh") == {"np.add(here.shape": "instance"}
    assert either("%%disco\nher") == {"here": "register\u00a0[2]"}


def test_the_workers_that_run_the_cell_are_asked_first(four, offered):
    four.run("%%disco\nvalue = [] if worker_id < 2 else {}")
    assert "value.append" in offered("%%disco\nvalue.app")
    assert "value.setdefault" in offered("%%disco -w 2\nvalue.setd")
    assert "value.append" in offered("%%disco -g 0\nvalue.app")
    assert "value.append" in offered("%%disco -w 17\nvalue.app")
    assert "value.append" in offered("%%disco --nonsense\nvalue.app")


def test_of_the_notebook_s_variables_only_pushed_ones_are_offered(four, either):
    four.ip.user_ns["weights"] = [1]
    assert either("%%disco\nweig") == {}
    assert either("%%disco --push weights\nweig") == {"weights": "pushed"}
    assert either("%%disco --push weights\nweights.app") == {"weights.append": "function"}
    assert either("%%disco --push gone\nle").keys() == {"len"}


def test_magics_are_not_offered_where_they_cannot_run(four, either):
    assert either("%%disco\n%tim") == {}
    assert "%timeit" in either("%tim")


def test_names_of_the_workers_are_offered_neither_elsewhere_nor_as_attributes(trained, either):
    for cell in ("win", "x = 1\nwin", "%%time\nwin", "%%disco win", "%%disco\nx.win", "%%disco\nimport win"):
        assert not [name for name in either(cell) if name.endswith("winners")]
    assert "winners" not in either("%%disco\nwin", at=4)


def test_names_that_the_cell_binds_above_are_offered(four, either):
    cell = "%%disco\nfor index in range(3):\n    with open('x') as stream, open('y'):\n        "
    assert either(f"{cell}inde") == {"        index": "instance"}
    assert either(f"{cell}strea") == {"        stream": "instance"}
    cell = "%%disco\nimport os.path as ospath\nasync def work(first):\n    class Inner: pass\n    "
    assert {*either(f"{cell}osp"), *either(f"{cell}wor"), *either(f"{cell}firs"), *either(f"{cell}Inn")} >= {
        *(f"    {name}" for name in ("ospath", "work", "worker", "first", "Inner"))
    }
    assert either("%%disco\nearly = 1\n!ls\nearly?\n%time 1\nearl") == {"early": "instance"}
    assert either("%%disco\nthis is no Python\nle").keys() == {"len"}


def test_values_behind_the_cell_s_own_names_are_not_taken_for_the_cell_s(four, offered):
    four.run("%%disco\nvalue, array = [1], np.ones(3)")
    four.ip.Completer.use_jedi = True
    assert offered("%%disco\nvalue = 'text'\nvalue.uppe").keys() == {"value.upper"}
    assert offered("%%disco\nother = array + 1\nother.sum").keys() == {"other.sum"}
    assert offered("%%disco\nimport collections.ab").keys() == {"import collections.abc"}


def test_keywords_files_and_characters_complete_as_ever(four, either, tmp_path):
    (tmp_path / "data.bin").touch()
    assert either("%%disco\nyiel") == {"yield": "keyword"}
    assert [*either(f"%%disco\n!ls {tmp_path}/dat")] == [f"!ls {tmp_path}/data.bin"]
    assert [*either(f"%%disco\nopen('{tmp_path}/dat")] == [f"open('{tmp_path}/data.bin"]
    assert either("%%disco\n\\alp").keys() == {"\\alpha"}
    assert either("%%disco\n'le") == {}
    assert either("%%disco\nf'{le").keys() == {"f'{len"}
    assert "import numbers" in either("%%disco\nimport nu") or not four.ip.Completer.use_jedi


def test_the_rest_of_the_cell_stays(four, offered):
    four.run("%%disco\nvalue = {'key': [1]}")
    cell = "%%disco\nx = value.ke\ny = 2\n"
    assert offered(cell, at=cell.index("\ny")) == {"x = value.keys": "function"}


def test_hundreds_of_names_are_all_offered(four, either):
    four.run("%%disco\nclass Many: pass\nmany = Many()\nfor i in range(800): setattr(many, f'name_{i}', i)")
    assert len(either("%%disco\nmany.name_")) == 800


def test_verbs_complete_before_there_is_a_session_and_start_none(shell, either):
    assert either("%%disco\nallr") == {"allreduce": "function"}
    assert "worker.allreduce" in either("%%disco\nworker.allr")
    assert either("%%disco\nnp.one").keys() == {"np.ones", "np.ones_like"}
    shell.run("%disco status")
    assert "no session is running" in shell.out


def test_a_session_of_the_user_s_own_completes_too(shell, offered):
    shell.run("import disco_magic as disco\nsess = disco.ThreadedSession(2)\nsess.run('mine = 1')")
    assert offered("%%disco\nmin") == {"min": "function", "mine": "register"}
    shell.run("sess.shutdown()")
    assert offered("%%disco\nmin") == {"min": "function"}


def test_which_cells_run_on_the_workers_is_one_question(shell):
    front = shell.ip.__dict__["_disco_magic_extension"].front
    on = ("%%disco\n", "%%disco", "\n\n%%disco -w 0\nx", "%%time\n%%disco\nx", "%%disco\n%%time\nx")
    off = ("x", "", "%disco\nx", "%%discover\nx", "%%time\nx\n%%disco", "x\n%%disco", " %%disco")
    assert [is_spmd(front, cell) for cell in on + off] == [True] * len(on) + [False] * len(off)


# --- nothing is waited for, executed or kept --------------------------------------------------------


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


# --- with Jedi, or without --------------------------------------------------------------------------


def test_without_jedi_everything_but_what_it_knows_completes(four, offered, monkeypatch):
    four.ip.Completer.use_jedi = True
    monkeypatch.setitem(sys.modules, "jedi", None)
    jedi_file.is_there.cache_clear()
    try:
        assert offered("%%disco\nallr") == {"allreduce": "function"}
        assert offered("%%disco\nmade = 'text'\nmade.upp") == {}
    finally:
        monkeypatch.undo()
        jedi_file.is_there.cache_clear()


def test_a_jedi_that_fails_does_no_harm(four, offered, monkeypatch):
    import jedi

    four.ip.Completer.use_jedi = True
    cell = "%%disco\nmade = 'text'\nmade.upp"
    assert offered(cell).keys() == {"made.upper"}
    monkeypatch.setattr(jedi.api.classes.BaseName, "type", property(lambda _: 1 / 0))
    assert offered(cell) == {"made.upper": "<unknown>"}
    monkeypatch.setattr(jedi.Interpreter, "complete", lambda *_: 1 / 0)
    assert offered(cell) == {}
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


# --- in and out -------------------------------------------------------------------------------------


def test_unloading_takes_completion_out_again(four, offered):
    completer = four.ip.Completer
    four.run("%%disco\nwinners = 1")
    assert offered("%%disco\nwinn")
    four.run("%reload_ext disco_magic")
    assert offered("%%disco\nwinn") == {"winners": "register"}
    four.run("%unload_ext disco_magic")
    assert "completions" not in vars(completer)
    assert offered("%%disco\nwinn") == {}


def test_what_others_put_into_the_completer_stays(bare):
    completer = bare.ip.Completer
    mine = vars(completer)["completions"] = completer.completions
    bare.run("%load_ext disco_magic")
    assert vars(completer)["completions"] is not mine
    bare.run("%unload_ext disco_magic")
    assert vars(completer)["completions"] is mine
    bare.run("%load_ext disco_magic")
    theirs = vars(completer)["completions"] = lambda *_: iter(())
    bare.run("%unload_ext disco_magic")
    assert vars(completer)["completions"] is theirs


# --- a real kernel ----------------------------------------------------------------------------------


@pytest.fixture
def ask(fresh):
    """Texts that the kernel offers at the end of a cell, and what each is said to be."""

    def complete(cell):
        sent = fresh.client.complete(cell, len(cell))
        content = fresh._reply(sent)["content"]
        found = content["metadata"]["_jupyter_types_experimental"]
        assert content["matches"] == [each["text"] for each in found]
        return {each["text"]: each["type"] for each in found}

    return complete


def test_the_kernel_completes_while_workers_are_busy(fresh, ask):
    fresh.ok("import builtins, threading\nbuiltins.gate = threading.Event()")
    cell = "shared = np.ones(3)\nif worker_id == 1: own = 1\nprint('begun')\nbuiltins.gate.wait(30)"
    sent = fresh.send(f"%%disco --nowait -o cell\nimport builtins\n{cell}")
    ran = fresh.finish(sent, fresh.until_text(sent, "begun", 4))
    assert ran.status == "ok"
    try:
        assert ask("%%disco\nshar") == {"shared": "register"}
        assert ask("%%disco\now") == {"own": "register\u00a0[1]"}
        assert ask("%%disco\nshared.sh") == {".shape": "instance"}
        assert "--output" in ask("%%disco --out")
    finally:
        fresh.ok("builtins.gate.set()\ncell.wait()")
