"""Rows about code for the workers: `import_python_module`, `load_vm_module`, `DModule`."""

from __future__ import annotations

import importlib.util
import sys

import numpy as np
import pytest

import disco_magic as disco
from tests.surface.conftest import unchanged_by, who

SOURCE = """
import disco_magic as disco

token = object()

def scale(x, by=10):
    return x * by + disco.worker().id

def loaded():
    return id(token)

def fail():
    raise ValueError("in the module")

not_a_function = 5
"""


@pytest.fixture
def path(tmp_path):
    made = tmp_path / "model.py"
    made.write_text(SOURCE)
    return made


@pytest.fixture
def on_path(tmp_path, monkeypatch):
    """Writes modules that ``import`` finds; they and what they registered are gone at the end."""
    monkeypatch.syspath_prepend(tmp_path)
    before, functions = set(sys.modules), set(disco.list_funcs())

    def write(name, source):
        (tmp_path / f"{name}.py").write_text(source)
        return name

    yield write
    for name in set(sys.modules) - before:
        del sys.modules[name]
    for name in set(disco.list_funcs()) - functions:
        disco.remove_func(name)


# --- import_python_module --------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 3])
def test_import_python_module(session, on_path, n):
    s = session(n)
    name = on_path(
        "surface_functions",
        "import disco_magic as disco\n"
        "@disco.register_func('surface.imported')\n"
        "def add(x): return x + disco.worker().id\n",
    )
    s.import_python_module(name)
    assert s.get_global_func("surface.imported")(5).get_all() == [5 + worker for worker in range(n)]


def test_import_python_module_takes_dotted_names(session):
    s = session(2)
    s.import_python_module("xml.dom.minidom")
    assert "xml.dom.minidom" in sys.modules


@pytest.mark.parametrize(
    ("source", "error"),
    [
        (None, "ModuleNotFoundError: No module named 'surface_nobody'"),
        ("from os import surface_nothing", "ImportError: cannot import name 'surface_nothing'"),
        ("1 / 0", "ZeroDivisionError"),
        ("def f(:", "SyntaxError"),
    ],
    ids=["missing", "name", "raises", "syntax"],
)
def test_import_python_module_gives_the_import_error_back(session, on_path, source, error):
    s = session(2)
    name = "surface_nobody" if source is None else on_path("surface_broken", source)
    with pytest.raises(disco.WorkerError, match=error) as caught:
        s.import_python_module(name)
    assert sorted(caught.value.failures) == [0, 1]
    assert s.call_packed(who).get_all() == [0, 1]


@pytest.mark.parametrize("name", ["", ".", "a..b", "a-b", "a/b.py", None, 5], ids=str)
def test_import_python_module_of_what_is_no_name_is_refused(session, name):
    s = session(2)

    def refused():
        with pytest.raises(disco.UsageMistake, match="import_python_module takes a name"):
            s.import_python_module(name)

    assert unchanged_by(s, refused)


# --- load_vm_module --------------------------------------------------------------------------------


@pytest.mark.parametrize("device", [None, "cpu", "cpu:0"])
@pytest.mark.parametrize("kind", [str, lambda path: path], ids=["text", "Path"])
def test_load_vm_module(session, path, kind, device):
    s = session(3)
    module = s.load_vm_module(kind(path), device)
    assert isinstance(module, disco.DModule)
    assert isinstance(module, disco.DRef)
    assert module["scale"](np.ones(2)).get(2).tolist() == [12, 12]


def test_load_vm_module_takes_packages(session, path, tmp_path):
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("from .part import double\n")
    (package / "part.py").write_text("def double(x): return 2 * x\n")
    assert session(2).load_vm_module(package)["double"](21).get_all() == [42, 42]


def test_load_vm_module_has_a_cache_by_path_per_process(session, path):
    s, other = session(3), session(2)
    first, second = s.load_vm_module(path), s.load_vm_module(str(path))
    tokens = [*first["loaded"]().get_all(), *second["loaded"]().get_all()]
    tokens += other.load_vm_module(path)["loaded"]().get_all()
    assert len(set(tokens)) == 1


@pytest.mark.parametrize("where", ["nowhere.py", "modell.py", ".", "notes.txt"])
def test_load_vm_module_of_what_is_no_module_is_refused(session, path, where):
    s = session(2)
    (path.parent / "notes.txt").write_text("nothing")

    def refused():
        with pytest.raises(disco.UsageMistake, match="module"):
            s.load_vm_module(path.parent / where)

    assert unchanged_by(s, refused)


@pytest.mark.parametrize("device", ["cuda:0", "cpu:1", "nowhere"])
def test_load_vm_module_for_a_device_that_is_not_there_is_refused(session, path, device):
    s = session(2)

    def refused():
        with pytest.raises(disco.UsageMistake, match="device"):
            s.load_vm_module(path, device)

    assert unchanged_by(s, refused)


def test_load_vm_module_that_raises_is_an_error_of_the_workers(session, path):
    s = session(2)
    path.write_text("1 / 0")
    module = s.load_vm_module(path)
    with pytest.raises(disco.WorkerError, match="ZeroDivisionError") as caught:
        s.sync_all()
    assert sorted(caught.value.failures) == [0, 1]
    with pytest.raises(disco.WorkerError, match="ZeroDivisionError"):
        module["scale"]
    assert s.call_packed(who).get_all() == [0, 1]


@pytest.mark.skipif(importlib.util.find_spec("tvm") is not None, reason="TVM is installed")
def test_load_vm_module_of_tvm_without_tvm_names_what_to_install(session, tmp_path):
    s = session(2)
    library = tmp_path / "model.so"
    library.write_bytes(b"")

    def refused():
        with pytest.raises(disco.errors.MissingDependency, match=r'pip install "disco-magic\[tvm\]"'):
            s.load_vm_module(library)

    assert unchanged_by(s, refused)


# --- DModule ---------------------------------------------------------------------------------------


def test_dmodule_gives_functions_by_name(session, path):
    s = session(2)
    function = s.load_vm_module(path)["scale"]
    assert isinstance(function, disco.DPackedFunc)
    assert s.call_packed(function, 1).get_all() == [10, 11]
    assert function(s.call_packed(who), by=3).get_all() == [0, 4]


def test_dmodule_looks_a_function_up_once(session, path):
    s = session(2)
    module = s.load_vm_module(path)
    first = module["scale"]
    assert unchanged_by(s, lambda: module["scale"])
    assert module["scale"] is first


@pytest.mark.parametrize("name", ["scal", "nobody", "not_a_function", ""])
def test_dmodule_without_such_a_function_is_an_error_at_the_look_up(session, path, name):
    s = session(2)
    module = s.load_vm_module(path)
    with pytest.raises(disco.UsageMistake, match="scale" if name == "scal" else f"'{name}'"):
        module[name]
    s.sync_all()
    assert module["scale"](1).get(0) == 10


def test_dmodule_functions_that_raise_give_a_traceback(session, path):
    s = session(2)
    s.load_vm_module(path)["fail"]()
    with pytest.raises(disco.WorkerError, match="ValueError: in the module") as caught:
        s.sync_all()
    assert 'raise ValueError("in the module")' in caught.value.failures[1].traceback_text
    assert str(path) in caught.value.failures[1].traceback_text


def test_dmodule_functions_outlive_the_module(session, path):
    s = session(2)
    function = s.load_vm_module(path)["scale"]
    s.sync_all()
    assert function(1).get_all() == [10, 11]
