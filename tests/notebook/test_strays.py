"""A name that is on the other side is told where it is, in a real shell."""

from __future__ import annotations

import re

import pytest

import disco_magic as disco
from disco_magic.errors import CellError, UnknownName
from disco_magic.functions.context import VERBS
from disco_magic.notebook.elsewhere import ELSEWHERE

MODES = ["Context", "Plain", "Minimal", "Verbose", "Docs"]


def test_a_variable_of_the_notebook_is_one_command_away(four):
    four.run("lr = 0.5")
    four.fail("%%disco\nx = 1\nx * lr", CellError)
    advice = "%disco broadcast lr or %%disco --push lr sends it to every worker"
    assert four.shown[-2:] == [
        "[0-3] NameError: name 'lr' is not defined",
        f"lr is a variable of the notebook; {advice}",
    ]
    four.run("%disco broadcast lr")
    four.run("%%disco\nx * lr")
    assert four.lines == ["[0-3] 0.5"]
    four.run("%%disco\ndel lr")
    four.run("%%disco --push lr\nx * lr")
    assert four.lines == ["[0-3] 0.5"]


def test_a_module_is_imported_on_the_workers_too(four):
    four.run("import json as js")
    four.fail("%%disco\ndef f():\n    return js.dumps(1)\nf()", CellError)
    assert four.shown[-1] == "js is imported in the notebook; import it in a %%disco cell, too"


def test_a_session_is_no_variable_that_could_be_sent(four):
    four.run("import disco_magic as disco\nhere = disco.session()")
    four.fail("%%disco\nhere.num_workers", CellError)
    has = "a cell has worker, worker_id and the collectives: allreduce(x), barrier(), ..."
    assert four.shown[-1] == f"here is a session, which the notebook has; {has}"


def test_a_register_that_a_restart_took_is_no_misspelt_name(four):
    # The hint was "did you mean 'xp'?", as for any name that is not there.
    four.run("%%disco\nx = 1")
    four.run("%disco restart")
    four.fail("%%disco\nx", CellError)
    lost = "x was lost when the workers were restarted; run the cell again that binds it"
    assert four.shown[-1] == lost
    assert lost in str(four.fail("%disco rm x", UnknownName))
    assert lost in str(four.fail("%disco registers x", UnknownName))


@pytest.mark.parametrize("name", ["np", "allreduce", "len"])
def test_what_every_cell_is_given_cannot_be_deleted(four, name):
    four.run("import numpy as np")
    four.fail(f"%%disco\n{name} = 1\ndel {name}\ndel {name}", CellError)
    said = f"{name} is given to every cell, behind the cell's own names, and cannot be deleted"
    assert four.shown[-2:] == [f"[0-3] NameError: name '{name}' is not defined", said]


def test_a_reference_is_named_for_cells(four):
    four.run("import disco_magic\nref = disco_magic.session().call_packed(int, 5)")
    four.fail("%%disco\nref", CellError)
    *_, said = four.shown
    way = 'disco_magic.session()["ref"] = ref'
    assert said == f"ref is a reference of the notebook; {way} gives its register that name for cells"
    four.run(way)
    four.run("%%disco\nref")
    assert four.lines == ["[0-3] 5"]


@pytest.mark.parametrize("made", ["%%disco --nowait -o h\n5", "h = disco_magic.session().run_nowait('5')"])
def test_a_handle_is_the_notebook_s(four, made):
    four.run("import disco_magic")
    four.run(made)
    four.fail("%%disco\nh.wait()", CellError)
    said = "h is the handle of a cell, and the notebook's; ask it there, under %%local if need be"
    assert four.shown[-1] == said


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Out", "Out is the notebook's; on the workers _ is the value that the cell before left there"),
        ("__", "__ is the notebook's; on the workers _ is the value that the cell before left there"),
        ("exit", "exit is the notebook's; %disco stop ends the workers"),
        ("rank", "a worker's number is worker_id here"),
        ("world_size", "the number of workers is num_workers here"),
        ("psum", "it is allreduce(x) here"),
        ("send_to_next_group", "it is worker.send_to_next_group(...) in cells"),
        ("gatherv", "it is gather(x) here"),
        ("recv_object", "recv(source) receives what send_object sends, too"),
        ("ANY_SOURCE", "recv() and probe() take a message from any worker"),
        ("PROC_NULL", "there is no worker that swallows messages: at the border, leave send and recv out"),
        ("ssend", "in a cell with --rendezvous, send(x, to) waits like that"),
        ("nprocs", "the number of workers is num_workers here"),
        ("get_rank", "a worker's number is worker_id here"),
        (
            "comm.rank",
            "collectives are functions here: allreduce(x), barrier(), ...; a worker's number is worker_id",
        ),
        ("losess", "did you mean 'losses'?"),
        ("allredcue", "did you mean 'allreduce' or 'allreduce_tree' or 'reduce'?"),
        ("prnt", "did you mean 'print'?"),
        ("time", "did you forget to import 'time'?"),
        ("asyncio", "did you mean 'ascii'? Or did you forget to import 'asyncio'?"),
        ("zzzzzz", "[0-3] NameError: name 'zzzzzz' is not defined"),
        ("get_ipython().user_ns['lr']", "[0-3] KeyError: 'lr'"),
    ],
)
def test_other_names(four, name, said):
    four.run("lr = 0.5")
    four.run("%%disco\nlosses = []\nglobals()[3] = 4")
    four.fail(f"%%disco\n{name}", CellError)
    assert four.shown[-1] == said


def test_libraries_and_other_errors_are_left_alone(four, tmp_path, monkeypatch):
    (tmp_path / "astray.py").write_text(
        "def look():\n    return lr\ndef total():\n    return reduce(max, [1])\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    four.run("lr = 0.5")
    four.fail("%%disco\nimport astray\nastray.look()", CellError)
    assert four.shown[-1] == "[0-3] NameError: name 'lr' is not defined"
    four.fail("%%disco\nastray.total()", CellError)
    assert four.shown[-1] == "[0-3] NameError: name 'reduce' is not defined"
    four.fail("%%disco\ndef f():\n    def g(): return gather\n    g()\n    gather = 1\nf()", CellError)
    assert "NameError: cannot access free variable 'gather'" in four.out
    assert four.shown[-1] == "[0-3] NameError"
    four.fail("%%disco\ndef f():\n    lr += 1\nf()", CellError)
    assert "UnboundLocalError" in four.shown[-1]
    four.fail("%%disco\nraise NameError('lr')", CellError)
    assert four.shown[-1] == "[0-3] NameError: lr"


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("allreduce", "disco_magic.worker().allreduce(...)"),
        ("worker_id", "disco_magic.worker().worker_id"),
        ("worker", "disco_magic.worker()"),
    ],
)
def test_a_module_is_told_how_it_comes_to_what_cells_find_without_import(
    four, tmp_path, monkeypatch, name, way
):
    (tmp_path / f"apart_{name}.py").write_text(f"def look():\n    return {name}\n")
    monkeypatch.syspath_prepend(tmp_path)
    four.fail(f"%%disco\nimport apart_{name}\napart_{name}.look()", CellError)
    said = f"{name} is there without import in cells alone; a module imports disco_magic and has {way}"
    assert four.shown[-1] == said


FREE = "def f():\n    def g():\n        return lr\n    g()\n    lr = 1\nf()"


def test_a_variable_of_a_function_that_has_no_value_yet_is_not_one_from_elsewhere(four):
    four.run("lr = 0.5")
    four.fail(f"%%disco\n{FREE}", CellError)
    assert "NameError: cannot access free variable 'lr'" in four.out
    assert four.shown[-1] == "[0-3] NameError"
    four.run("del lr")
    four.run("%%disco\nlr = 1")
    four.fail(FREE, NameError)
    assert four.shown[-1].startswith("NameError: cannot access free variable 'lr'")


def test_a_function_of_the_notebook_looks_names_up_there(four):
    four.run("%%disco\nscale = worker_id")
    four.run("def f():\n    return scale * 2\ndef h():\n    return allreduce(1)\nk = lambda: scale")
    rest = "was defined in the notebook, where it looks names up; define it in a %%disco cell"
    for name, said in (("f", "f"), ("h", "h"), ("k", "this function")):
        four.fail(f"%%disco --push {name}\n{name}()", CellError)
        assert four.shown[-1] == f"{said} {rest}"
        assert not any("register" in line for line in four.shown)


def test_a_register_of_some_workers_is_told_with_them(four):
    four.run("%%disco -w 1,2\npart = worker_id")
    four.fail("%%disco\npart", CellError)
    assert four.shown[-1] == "only workers [1-2] have part"
    four.fail("part", NameError)
    way = "%disco get part -w 1"
    assert four.shown[-1] == f"part is a register of workers [1-2]; {way} copies it into the notebook"
    four.run(f"{way}\npass")
    assert four.run("part") == 1
    four.run("%%disco -w 3\nthis = worker_id")
    four.fail("%%disco\nthis", CellError)
    assert four.shown[-1] == "only worker 3 has this"


@pytest.mark.parametrize("name", ["allreduce", "barrier", "worker_id", "num_workers", "worker", "xp"])
def test_a_cell_that_should_have_been_the_workers(shell, name):
    shell.fail(name, NameError)
    assert shell.shown[-1] == f"{name} exists only on the workers; begin the cell with %%disco"


def test_a_value_that_says_nothing_of_its_class_does_not_break_the_error(four):
    raising = "@property\n    def __class__(self):\n        raise RuntimeError('unbound')"
    four.run(f"class Proxy:\n    {raising}\np = Proxy()")
    four.fail("%%disco\np", CellError)
    assert four.shown[-1].startswith("p is a variable of the notebook; ")


@pytest.mark.parametrize("mode", MODES)
def test_both_ways_in_every_mode(four, mode):
    four.run("lr = 0.5")
    four.run("%%disco\nlosses = [1]")
    four.run(f"%xmode {mode}")
    four.fail("%%disco\nlr", CellError)
    assert four.shown[-1].startswith("lr is a variable of the notebook; ")
    assert four.shown[0].endswith(" and on 3 others")  # and no traceback behind it
    four.fail("losses", NameError)
    *_, error, advice = four.shown
    assert error == "NameError: name 'losses' is not defined"
    assert (
        advice == "losses is a register of the workers; %disco get losses copies worker 0's into the notebook"
    )
    four.run("%disco get losses")
    assert four.run("losses") == [1]


def test_a_plain_cell_is_told_how_it_comes_to_the_session(four):
    four.fail("session.names()", NameError)
    assert four.shown[-1] == "the session of %disco start is disco_magic.session(): import disco_magic"


def test_numpy_has_to_be_imported_where_no_workers_are(four):
    four.fail("np.ones(3)", NameError)
    said = "np is there without import in cells on the workers only; here: import numpy as np"
    assert four.shown[-1] == said


def test_a_plain_cell_is_told_of_registers_only(four):
    four.run("%%disco\nlosses = [1]")
    four.fail("losess", NameError)
    assert four.shown[-1] == "NameError: name 'losess' is not defined"
    four.fail("import disco_magic\ndisco_magic.session()['losess']", UnknownName)
    assert four.shown[-1].endswith("did you mean 'losses'?")
    four.run("%disco stop")
    four.fail("losses", NameError)
    assert four.shown[-1] == "NameError: name 'losses' is not defined"


def test_nothing_of_it_is_left_without_the_extension(four):
    four.run("%%disco\nlosses = [1]")
    four.run("%unload_ext disco_magic")
    four.fail("losses", NameError)
    assert four.shown[-1] == "NameError: name 'losses' is not defined"
    assert "structured_traceback" not in vars(four.ip.InteractiveTB)


def test_what_other_frameworks_names_are_here_is_there():
    said = [re.fullmatch(r"it is (\w+)\b.* here", text) for text in ELSEWHERE.values()]
    assert {found[1] for found in said if found} - {"over", "np"} <= set(VERBS)
    with disco.ThreadedSession(1) as s:
        assert not any(s.run(f"[name in dir(__builtins__) for name in {list(ELSEWHERE)}]").values[0])
