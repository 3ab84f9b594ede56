"""Modules beside a program that have changed since they were imported: who runs it again is told."""

from __future__ import annotations

import importlib.util
import os
import sys
import warnings
from dataclasses import replace

import pytest

from disco_magic.errors import CellError
from disco_magic.functions.execution.cells import compile_cell
from disco_magic.functions.execution.scripts import compile_file, refresh, stale_imports
from disco_magic.isolation import sources

HELPER = "def go(): return 'one'\n"
EDITED = "def go(): return 'and two'\n"
PROGRAM = "import HELPER\nfound = HELPER.go()\n"
EDITING = """import pathlib
barrier()
if worker_id == 0: pathlib.Path(HELPER.__file__).write_text(SOURCE)
barrier()
"""


def never(_):
    """Nobody reloads modules."""
    return False


@pytest.fixture(params=[None, ()])
def s(session, request):
    """Two workers, which have modules of programs of their own, or share them."""
    return session(2, own_modules=request.param)


@pytest.fixture
def helper(tmp_path, module_of):
    """The file of a module, beside which `program` lies."""
    return tmp_path / f"{module_of(HELPER)}.py"


@pytest.fixture
def program(tmp_path, helper):
    """Writes a program beside that module, which is called HELPER in it."""

    def write(source=PROGRAM, name="program.py"):
        (tmp_path / name).write_text(source.replace("HELPER", helper.stem))
        return tmp_path / name

    return write


def told(s, path, **options):
    """What a run says has changed."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        s.run_file(path, **options)
    return [str(each.message).partition(" changed")[0] for each in caught]


@pytest.mark.parametrize("begins", ["first", "again", "nowait"])
def test_what_is_edited_while_a_program_runs_has_changed(s, program, helper, begins):
    # What was noted was the file as the run had left it: the next one ran old code and said nothing.
    if begins == "again":
        s.run_file(program())
    editing = program(f"{PROGRAM}{EDITING.replace('SOURCE', repr(EDITED))}")
    if begins == "nowait":
        s.run_nowait(compile_file(editing)).wait()
    else:
        assert told(s, editing, reload=begins == "again") == []
    assert told(s, program()) == [f"{helper.name} has"]
    assert s.run("found").values == ["one"] * 2
    assert told(s, program(), reload=True) == []
    assert s.run("found").values == ["and two"] * 2
    assert told(s, program()) == []


def test_what_was_written_again_as_it_was_has_not_changed(s, program, helper):
    s.run_file(program())
    os.utime(helper, (1e9, 1e9))
    assert told(s, program()) == []
    helper.write_text(EDITED)
    assert told(s, program()) == [f"{helper.name} has"]
    helper.write_text(HELPER)
    assert told(s, program()) == []
    helper.unlink()
    assert told(s, program()) == []


def test_what_new_workers_import_anew_has_not_changed(session, program, helper):
    s = session(2)
    s.run_file(program())
    helper.write_text(EDITED)
    s.restart()
    for _ in range(2):
        assert told(s, program()) == []
    assert s.run("found").values == ["and two"] * 2


def test_what_was_imported_before_any_session_has_changed_since_the_first_run(session, program, helper):
    importlib.import_module(helper.stem)
    s = session(2, own_modules=())
    assert told(s, program()) == []
    helper.write_text(EDITED)
    assert told(s, program()) == [f"{helper.name} has"]


@pytest.mark.parametrize("where", ["everybody's", "a worker's"])
def test_what_was_reloaded_since_has_not_changed(session, program, helper, where):
    s = session(1, own_modules=() if where == "everybody's" else None)
    s.run_file(program())
    helper.write_text(EDITED)
    s.run(f"import importlib, {helper.stem}\nimportlib.reload({helper.stem})")
    assert told(s, program()) == []
    assert s.run("found").values == ["and two"]


@pytest.mark.parametrize("where", ["everybody's", "a worker's"])
def test_what_could_not_be_reloaded_has_changed(session, program, helper, where):
    s = session(1, own_modules=() if where == "everybody's" else None)
    s.run_file(program())
    helper.write_text("def go(): return 2 +\n")
    with pytest.raises(CellError, match="SyntaxError"):
        s.run(f"import importlib, {helper.stem}\nimportlib.reload({helper.stem})")
    assert told(s, program()) == [f"{helper.name} has"]
    assert s.run("found").values == ["one"]


def test_a_lazy_module_is_not_executed_by_the_look(session, program, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    program("raise AssertionError('it was executed')\n", "not_yet.py")
    spec = importlib.util.find_spec("not_yet")
    loader = spec.loader = importlib.util.LazyLoader(spec.loader)
    made = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "not_yet", made)
    loader.exec_module(made)
    assert told(session(1), program()) == []
    assert "not_yet" in sources.imported()


def test_an_unchanged_file_is_not_read_again(s, program, helper, monkeypatch):
    s.run_file(program())
    monkeypatch.setattr("disco_magic.isolation.sources._digest", pytest.fail)
    assert refresh(compile_file(program()), never, reload=False) == ""


@pytest.fixture
def said_before(session, program, helper, tmp_path):
    """Whether it is said, before a program with that source, that the module has changed.

    Others import it, too: `between`, `package.deep` by that one, and `package.inner` by `package.deep`.
    """
    (tmp_path / "package").mkdir()
    program("import HELPER\n", "between.py")
    program("__all__ = ['inner']\n", "package/__init__.py")
    program("from .deep import *\n", "package/inner.py")
    program("from between import HELPER\n", "package/deep.py")
    session(1).run_file(program("import HELPER, between, package.inner\n"))
    helper.write_text(EDITED)

    def ask(source):
        said = refresh(compile_file(program(f"{source}\n")), never, reload=False)
        assert said.partition(" changed")[0] in ("", f"{helper.name} has")
        return bool(said)

    yield ask
    for name in ("between", "package", "package.inner", "package.deep"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    "source",
    [
        "import HELPER",
        "if worker_id < 0:\n    from HELPER import go",
        "def f():\n    import HELPER as other",
        "import between",
        "import package.inner",
        "from package import inner",
        "from package import *",
        "import importlib\nfound = importlib.import_module('between')",
        "from . import HELPER",
        "from importlib import import_module as load\nfound = load('between')",
        "import importlib, sys\nfound = importlib.import_module(sys.argv[1])",
        "from hydra.utils import instantiate",
        "found = 'HELPER.go'",
        "found = {'target': 'between:HELPER'}",
    ],
)
def test_it_is_said_of_what_the_program_imports_or_might(said_before, source):
    assert said_before(source)


def test_it_is_said_of_the_package_that_the_program_is_in(session, program, helper):
    session(1).run_file(program())
    helper.write_text(EDITED)
    cell = compile_file(program("from . import other\n"))
    inside = replace(cell, program=cell.program._replace(module=f"{helper.stem}.program"))
    assert refresh(inside, never, reload=False).startswith(f"{helper.name} has changed")


@pytest.mark.parametrize("source", ["found = 1", "import json, os.path\nfound = json", "import HELPER2"])
def test_it_is_not_said_of_what_the_program_does_not_import(said_before, source):
    # It was said before every program in that folder.
    assert not said_before(source)


@pytest.mark.parametrize("broken", ["def (\n", "\0", "# coding: none\n"])
def test_where_that_cannot_be_said_it_is_said_of_all(session, program, helper, broken):
    s = session(1)
    s.run_file(program())
    helper.write_text(broken)
    assert told(s, program()) == [f"{helper.name} has"]


def test_a_cell_has_only_the_modules_looked_at_that_it_imports(s, program, helper, monkeypatch):
    # It looked through all modules of the process, of which there may be thousands.
    s.run_file(program())
    helper.write_text(EDITED)
    looked, find = [], sources.is_of_library
    monkeypatch.setattr(sources, "is_of_library", lambda file: looked.append(file) or find(file))
    said = stale_imports(compile_cell(f"import os, not_there, {helper.stem}"), never)
    assert said.startswith(f"{os.path.relpath(helper)} has changed since it was imported")
    assert set(looked) == {os.__file__, str(helper)}
