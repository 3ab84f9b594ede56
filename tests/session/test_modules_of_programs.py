"""What modules beside a program keep in global variables is each worker's own, as in processes."""

from __future__ import annotations

import builtins
import importlib
import subprocess
import sys

import pytest

from disco_magic.errors import CellError
from disco_magic.functions.execution.scripts import compile_file
from disco_magic.isolation.standing_modules import Standing
from tests.conftest import DEADLINE_S

STATE = """
rank = None
executed = []
executed.append(1)

class Thing: pass

def set_up(number):
    global rank
    rank = number
"""
PROGRAM = """
import NAME
NAME.set_up(worker_id)
barrier()
found = NAME.rank
thing = NAME.Thing()
"""


@pytest.fixture
def program(tmp_path, module_of):
    """A program, and the name of a module beside it, which the notebook has imported before."""
    name = module_of(STATE)
    (tmp_path / "program.py").write_text(PROGRAM.replace("NAME", name))
    return tmp_path / "program.py", name


@pytest.mark.parametrize("own", [None, ["json_of_nobody"]])
def test_each_worker_has_its_own_from_the_first_program_on(session, program, own):
    path, name = program
    s = session(3, own_modules=own)
    s.run_file(path)
    assert s.run("found").values == [0, 1, 2]
    assert s.run(f"import {name}\n{name}.rank").values == [0, 1, 2]
    assert s.own_modules == (own if own is None else tuple(own))


OF_CELLS = """
import pickle
from NAME import Thing, fail
thing = Thing()
def guarded():
    import NAME
    try: NAME.fail()
    except NAME.Thing.Wrong: return "caught"
"""


def test_what_was_imported_before_stays_everybody_s_and_objects_of_it_belong_to_it(
    session, module_of, tmp_path
):
    # A model that a cell had made could not be saved any more after any program.
    name = module_of("class Thing:\n    class Wrong(Exception): pass\ndef fail(): raise Thing.Wrong\n")
    other = module_of("value = []\n")
    (tmp_path / "program.py").write_text(
        f"import {name}, {other}\n{other}.value.append(worker_id)\nbarrier()"
    )
    s = session(2)
    s.run(OF_CELLS.replace("NAME", name))
    with pytest.warns(UserWarning, match=f"{name} was imported before, and all workers share") as told:
        s.run_file(tmp_path / "program.py")
    assert len(told) == 1
    seen = f"pickle.loads(pickle.dumps(thing)).__class__ is Thing, guarded(), isinstance(thing, {name}.Thing)"
    assert s.run(f"import {name}, {other}\n{seen}, {other}.value").values == [
        (True, "caught", True, [rank]) for rank in range(2)
    ]
    assert s.run("len(allgather_objects(thing))").values == [2, 2]
    assert not isinstance(sys.modules[name], Standing)


def test_what_was_imported_before_is_each_worker_s_own_after_a_reload(session, program):
    path, name = program
    __import__(name)
    s = session(3)
    with pytest.warns(UserWarning, match="with --reload, or reload=True, each imports it for itself"):
        s.run_file(path)
    assert len(set(s.run("found").values)) == 1
    s.run_file(path, reload=True)
    assert s.run("found").values == [0, 1, 2]
    s.run_file(path)
    assert s.run("found").values == [0, 1, 2]


def test_a_session_that_was_told_so_has_all_share_them(session, program):
    path, name = program
    s = session(3, own_modules=())
    s.run_file(path)
    assert len(set(s.run("found").values)) == 1
    assert not isinstance(sys.modules[name], Standing)


def test_cells_alone_share_them(session, program):
    _, name = program
    s = session(2)
    s.run(f"import {name}\n{name}.set_up(worker_id)\nbarrier()")
    assert len(set(s.run(f"{name}.rank").values)) == 1


def test_what_goes_from_worker_to_worker_becomes_the_receiver_s(session, program):
    path, name = program
    s = session(2)
    s.run_file(path)
    got = s.run(f"import {name}\nall(type(each) is {name}.Thing for each in allgather_objects(thing))")
    assert got.values == [True, True]


def test_the_notebook_has_what_it_imports_and_all_is_as_before_when_the_session_ends(session, program):
    path, name = program
    s = session(2)
    s.run_file(path)
    s.run_file(path)
    mine = importlib.import_module(name)
    assert (mine.rank, mine.executed) == (None, [1])
    assert s.run(f"import {name}\n{name}.executed").values == [[1], [1]]
    mine.set_up("the notebook's")
    s.restart()
    assert s.run(f"import {name}\n{name}.rank").values == ["the notebook's"] * 2  # no program yet
    s.shutdown()
    assert sys.modules[name].rank == "the notebook's"
    assert not isinstance(sys.modules[name], Standing)


@pytest.fixture
def helped(session, module_of, tmp_path):
    """Runs a program of two workers that has a module beside it, called HELPER in the sources."""
    s = session(2)

    def run(helper, source):
        name = module_of(helper)
        (tmp_path / "program.py").write_text(source.replace("HELPER", name))
        s.run_file(tmp_path / "program.py", timeout=DEADLINE_S)
        return s, name

    return run


def test_who_imports_one_in_the_notebook_hears_what_is_wrong_with_it(helped):
    # The import passed, and whoever used the module later got the error, again and again.
    _, name = helped("import os\nrank = int(os.environ['RANK'])\n", "import HELPER\n")
    with pytest.raises(KeyError, match="RANK"):
        __import__(name)
    with pytest.raises(KeyError, match="RANK"):
        importlib.import_module(name)


def test_it_can_be_reloaded_in_the_notebook_and_on_a_worker(helped, tmp_path):
    s, name = helped("value = 1\n", "import HELPER\n")
    mine = __import__(name)
    assert mine.value == 1
    (tmp_path / f"{name}.py").write_text("value = 'another one'\n")
    importlib.reload(mine)
    assert mine.value == "another one"
    s.run(f"import importlib, {name}\nif worker_id: importlib.reload({name})")
    assert s.run(f"{name}.value").values == [1, "another one"]


def test_what_a_program_puts_among_the_builtins_its_modules_find(helped):
    source = "import builtins\nbuiltins.__dict__['_'] = str.upper\nimport HELPER\nfound = HELPER.f()\n"
    later = "builtins.shout = str.upper\nbarrier()\nfound += HELPER.g()\n"
    try:
        helper = "def f(): return _('hi')\ndef g(): return shout('ho')\ndef leave(): exit(0)\n"
        s, _ = helped(helper, f"{source}{later}HELPER.leave()\nfound = 'not left'\n")
        assert s.run("found").values == ["HIHO"] * 2
    finally:
        for name in ("_", "shout"):
            vars(builtins).pop(name, None)


def test_what_belongs_to_a_module_is_found_to_do_so(helped):
    # Registries of a module's own classes came out empty, its doctests were not run.
    helper = 'class A: pass\ndef f():\n    """\n    >>> 1 + 1\n    2\n    """\n'
    source = (
        "import HELPER, inspect, doctest, importlib\n"
        "classes = inspect.getmembers(HELPER, inspect.isclass)\n"
        "found = [name for name, each in classes if inspect.getmodule(each) is HELPER]\n"
        "tested = tuple(doctest.testmod(HELPER)), importlib.import_module('HELPER') is HELPER\n"
    )
    s, _ = helped(helper, source)
    assert s.run("found, tested").values == [(["A"], ((0, 1), True))] * 2


def test_another_name_of_one_and_one_that_was_taken_out_are_imported(helped):
    source = (
        "import sys, HELPER\nsys.modules['alias_of_HELPER'] = sys.modules['HELPER']\n"
        "import alias_of_HELPER as alias\nfound = alias is HELPER\nHELPER.value = 5\nbarrier()\n"
        "if worker_id == 0:\n    del sys.modules['HELPER']\n    import HELPER\nbarrier()\n"
        "found = found, HELPER.value\nsys.modules.pop('alias_of_HELPER', None)\n"
    )
    s, _ = helped("value = 1\n", source)
    assert s.run("found").values == [(True, 1), (True, 5)]


def test_one_that_cannot_be_executed_twice_says_what_helps(helped):
    # Of what registers a name with a library once, all workers but one fail.
    once = "import sys\nif hasattr(sys, 'once'): raise ValueError('already registered')\nsys.once = True\n"
    try:
        with pytest.raises(CellError) as caught:
            helped(once, "for turn in range(2):\n    if turn == worker_id: import HELPER\n    barrier()\n")
        assert "already registered" in str(caught.value)
        assert "let all share their modules: --own-modules none" in caught.value.origin.traceback_text
    finally:
        del sys.once


@pytest.mark.parametrize(
    ("line", "is_noted"),
    [
        ("raise RuntimeError('Only a single X can be used to register Y')", True),
        ("raise KeyError('x is already there')", True),
        ("raise RuntimeError('conflicting option string: --lr')", True),
        ("raise FileExistsError(17, 'File exists', 'x')", True),
        ("open('already there')", False),
        ("raise OSError(2, 'No such file', 'duplicate')", False),
        ("raise ValueError('x is not registered')", False),
        ("import os\n    os.environ['NONE_OF_THESE']", False),
        ("int('x')", False),
        ("import none_of_these_exists", False),
        ("already_registered", False),
        ("raise AttributeError('already')", False),
    ],
)
def test_that_is_said_only_where_it_can_be_why_a_module_fails(helped, line, is_noted):
    # It stood below a file that was not found, too.
    source = f"import sys\nif hasattr(sys, 'once'):\n    {line}\nsys.once = True\n"
    try:
        with pytest.raises(CellError) as caught:
            helped(source, "for turn in range(2):\n    if turn == worker_id: import HELPER\n    barrier()\n")
        assert ("--own-modules none" in caught.value.origin.traceback_text) is is_noted
    finally:
        vars(sys).pop("once", None)


@pytest.mark.parametrize("line", ["raise Mute", "raise OSError(5, ('no', 'words'))"])
def test_one_that_fails_without_words_is_imported_anew(helped, line):
    # What was asked whether it could be that failed, and the half of the module stayed.
    source = (
        "import sys\nclass Mute(Exception):\n    def __str__(self): raise RuntimeError('no words')\n"
        f"if hasattr(sys, 'once'):\n    {line}\nsys.once = True\n"
    )
    program = (
        "for turn in range(2):\n    if turn == worker_id:\n        try: import HELPER\n"
        "        except Exception as error: failed = type(error).__name__\n    barrier()\n"
        "if worker_id == 1:\n    import sys\n    del sys.once\n    import HELPER\n    whole = sys.once\n"
    )
    try:
        s, _ = helped(source, program)
        assert s.run("failed, whole", workers=[1])[1] == (line.split()[1].partition("(")[0], True)
    finally:
        vars(sys).pop("once", None)


def test_it_can_be_the_first_that_asks_where_libraries_are(tmp_path):
    # On Python 3.13 our own question was asked again by the answer, and sysconfig stayed broken.
    (tmp_path / "program.py").write_text("import json\n")
    source = (
        "import disco_magic, sysconfig\nwith disco_magic.ThreadedSession(2) as s: s.run_file('program.py')\n"
        "print(sysconfig.get_paths()['purelib'] > '')\n"
    )
    ran = subprocess.run(  # noqa: S603 - our own
        [sys.executable, "-c", source], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (ran.stdout, ran.stderr) == ("True\n", "")


def test_two_programs_at_once_begin_to_have_their_own(session, program):
    path, _ = program
    sessions = [session(2) for _ in range(3)]
    on_their_way = [s.run_nowait(compile_file(path)) for s in sessions]
    for each in on_their_way:
        each.wait()
    assert [s.run("found").values for s in sessions] == [[0, 1]] * 3
