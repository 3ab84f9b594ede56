"""`importlib.reload` in cells: of a module that workers share, and of each worker's own."""

from __future__ import annotations

import importlib
import sys
import threading
import types

import pytest

from disco_magic.errors import CellError
from disco_magic.isolation.shared_imports import fit_reload
from tests.conftest import DEADLINE_S

COUNTED = "import sys, time\nsys.executed.append(1)\ntime.sleep(0.02)\nsaid = {!r}\n"


@pytest.fixture
def executed(monkeypatch):
    made = []
    monkeypatch.setattr(sys, "executed", made, raising=False)
    return made


@pytest.fixture
def shared(tmp_path, module_of, executed):
    """A module that workers share, and its file."""
    name = module_of(COUNTED.format("one"))
    return name, tmp_path / f"{name}.py"


def test_all_workers_go_on_with_what_is_new_and_it_was_executed_once(session, shared, executed):
    name, file = shared
    s = session(4)
    s.run(f"import importlib, {name} as mine\nfirst = mine")
    for times, said in enumerate(["number two", "the third one"], 2):
        file.write_text(COUNTED.format(said))
        s.run("same = importlib.reload(mine) is first; told = mine.said")
        assert s.run("same, told").values == [(True, said)] * 4
        assert len(executed) == times


@pytest.mark.parametrize("between", ["barrier()", "pass"])
def test_who_reloads_twice_in_a_cell_has_it_executed_twice(session, shared, executed, between):
    name, _ = shared
    s = session(3)
    s.run(f"import importlib, {name} as mine\nfor _ in range(2): importlib.reload(mine); {between}")
    assert len(executed) == 1 + 2


def test_what_was_edited_since_is_not_taken_as_it_is(session, shared, executed):
    name, file = shared
    s = session(2)
    s.run(
        f"import importlib, pathlib, {name} as mine\n"
        "if worker_id: importlib.reload(mine)\n"
        "barrier()\n"
        f"if worker_id: pathlib.Path({str(file)!r}).write_text({COUNTED.format('edited')!r})\n"
        "barrier()\n"
        "if not worker_id: importlib.reload(mine)\n"
        "barrier()\n"
    )
    assert s.run("mine.said").values == ["edited"] * 2


def test_what_cannot_be_executed_fails_on_all_workers(session, shared):
    name, file = shared
    s = session(3)
    s.run(f"import importlib, {name} as mine")
    file.write_text("def said: pass")
    with pytest.raises(CellError, match=r"\[0-2\] SyntaxError") as caught:
        s.run("importlib.reload(mine)")
    assert set(caught.value.failures) == {0, 1, 2}


def test_modules_that_reload_each_other_come_to_an_end(session, tmp_path, module_of, executed):
    one, two = module_of(""), module_of("")
    for name, other in ((one, two), (two, one)):
        (tmp_path / f"{name}.py").write_text(
            f"import importlib, sys\nsys.executed.append({name!r})\n"
            f"import {other}\nif len(sys.executed) < 9: importlib.reload({other})\n"
        )
    importlib.invalidate_caches()
    s = session(3)
    s.run(f"import importlib, {one}, {two}")
    s.run(f"importlib.reload({one} if worker_id % 2 else {two})", timeout=DEADLINE_S)


def test_a_module_that_reloads_another_one_as_it_is_imported_is_no_circle(session, tmp_path, module_of):
    # Who imported it had the lock of that import and waited for the turn; who had that waited for the lock.
    helper, inner = module_of("x = 1\n"), module_of("x = 1\n")
    outer = module_of(
        f"import importlib, sys, {helper}\nsys.begun.set()\nassert sys.reloading.wait(20)\n"
        f"importlib.reload({helper})\n"
    )
    begun, reloading = threading.Event(), threading.Event()
    s = session(2, extras=lambda _: {"begun": begun, "reloading": reloading})
    s.run(f"import importlib, sys, {inner}\nsys.begun, sys.reloading = begun, reloading")
    (tmp_path / f"{inner}.py").write_text(
        f"import sys\nassert sys.begun.wait(20)\nsys.reloading.set()\nimport {outer}\n"
    )
    try:
        s.run(f"if worker_id: import {outer}\nelse: importlib.reload({inner})", timeout=DEADLINE_S)
    finally:
        del sys.begun, sys.reloading


@pytest.mark.parametrize("what", ["3", "__import__('types').ModuleType('made')"])
def test_what_cannot_be_reloaded_is_refused_as_ever(session, what):
    with pytest.raises(CellError, match=r"reload\(\) argument must be a module|not in sys.modules"):
        session(2).run(f"import importlib; importlib.reload({what})")


def test_it_is_python_s_own_again_when_nobody_needs_ours():
    module = types.ModuleType("as_importlib")
    module.reload = first = lambda module: module
    undo = fit_reload(module)
    assert module.reload is not first
    undo()
    assert module.reload is first
