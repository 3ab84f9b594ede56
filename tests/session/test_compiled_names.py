"""What Numba compiles of cells finds the names that cells find without import."""

from __future__ import annotations

import re
import sys

import pytest

from disco_magic.errors import CellError
from tests.session.written import write

# As far as we know it: one place looks names up, one gives them types, one looks them up at run time, and one
# keeps what was compiled.
SOURCES = {
    "numba/__init__.py": """
        from types import SimpleNamespace
        from numba.core import caching, interpreter, pylowering, typeinfer
        def compile(function, name):
            named = SimpleNamespace(func=function)
            read, types, lower = interpreter.Interpreter(), typeinfer.TypeInferer(), pylowering.PyLower()
            read.func_id = types.func_id = named
            lower.func_ir = SimpleNamespace(func_id=named)
            value = read.get_global_value(name)
            inst = SimpleNamespace(loc=SimpleNamespace(line=3))
            types.typeof_global(inst, None, SimpleNamespace(name=name, value=value))
            return value
        def look_up(function, name):
            lower = pylowering.PyLower()
            lower.func_ir = SimpleNamespace(func_id=SimpleNamespace(func=function))
            return lower.lower_global(name, None)
    """,
    "numba/core/__init__.py": "",
    "numba/core/caching.py": """
        class Cache:
            def __init__(self, function): self._py_func = function
            def _index_key(self, sig, codegen): return sig, codegen
    """,
    "numba/core/ir.py": "UNDEFINED = object()\n",
    "numba/core/interpreter.py": """
        import builtins
        from numba.core import ir
        class Interpreter:
            def get_global_value(self, name):
                names = self.func_id.func.__globals__
                return names[name] if name in names else getattr(builtins, name, ir.UNDEFINED)
    """,
    "numba/core/typeinfer.py": """
        from numba.core import ir
        class TypingError(Exception): pass
        class TypeInferer:
            def typeof_global(self, inst, target, gvar):
                if callable(gvar.value) or gvar.value is ir.UNDEFINED:
                    raise TypingError(f"untyped {gvar.name}")
    """,
    "numba/core/pylowering.py": """
        class PyLower:
            def lower_global(self, name, value): return "global " + name
            def get_builtin_obj(self, name): return "given " + name
    """,
}
CELL = """
import numba
def f(): pass
mine = 7
def ask(name):
    try: return numba.compile(f, name)
    except Exception as error: return f"{type(error).__name__}: {error}"
"""


@pytest.fixture
def s(folder, session, monkeypatch):
    for name in [each for each in sys.modules if each.partition(".")[0] == "numba"]:
        monkeypatch.delitem(sys.modules, name)
    write(folder, SOURCES)
    started = session(2)
    started.run(CELL)
    yield started
    for name in [each for each in sys.modules if each.partition(".")[0] == "numba"]:
        del sys.modules[name]


def test_names_that_cells_find_without_import_are_constants(s):
    assert s.run("[ask(name) for name in ('worker_id', 'num_workers', 'mine')]").values == [
        [0, 2, 7],
        [1, 2, 7],
    ]
    assert s.run("ask('np') is np").values == [True, True]
    s.run("worker_id = 'hidden'")
    assert s.run("ask('worker_id')").values == ["hidden"] * 2


def test_a_collective_is_refused_and_what_else_fails_is_numbas_error(s):
    [said, _] = s.run("ask('allreduce')").values
    assert re.match(
        r"UsageMistake: Numba cannot compile allreduce at Cell \d+, line 3 - call it outside of", said
    )
    expected = ["TypingError: untyped open", "TypingError: untyped nothing", "TypingError: untyped f"]
    assert s.run("[ask(name) for name in ('open', 'nothing', 'f')]").values == [expected] * 2


def test_who_is_refused_sees_the_line_that_compiles_and_not_numbas(s):
    with pytest.raises(CellError) as caught:
        s.run("x = 1\nnumba.compile(f, 'barrier')")
    told = str(caught.value.origin.traceback_text)
    assert "line 2, in <module>" in told
    assert "__init__.py" not in told


def test_code_that_is_not_compiled_finds_them_at_run_time(s):
    names = "'allreduce', 'np', 'len', 'nothing', 'mine'"
    expected = ["given allreduce", "given np", "global len", "global nothing", "global mine"]
    assert s.run(f"[numba.look_up(f, name) for name in ({names})]").values == [expected] * 2


def test_other_code_finds_what_it_did(s):
    s.run("import types\ndef g(): pass\ng = types.FunctionType(g.__code__, {'x': 1})")
    with pytest.raises(CellError, match="untyped np"):
        s.run("numba.compile(g, 'np')")
    assert s.run("numba.compile(g, 'x'), numba.look_up(g, 'np')").values == [(1, "global np")] * 2


def test_what_is_kept_in_files_is_of_a_worker_as_its_number_is_a_constant_in_it(s):
    s.run("key = numba.caching.Cache(f)._index_key('sig', 'codegen')")
    first, second = s.run("key").values
    assert first[0] == second[0] == ("sig", "codegen")
    assert {("worker_id", 0), ("num_workers", 2)} <= set(first[1])
    assert {("worker_id", 1), ("num_workers", 2)} <= set(second[1])


def test_what_is_kept_of_other_code_is_found_by_all(s):
    s.run("import types\nkey = numba.caching.Cache(types.FunctionType(f.__code__, {}))._index_key(1, 2)")
    assert s.run("key").values == [(1, 2)] * 2
