"""What a worker's code finds in `__main__`: tests find what is to be tested, pickles what they name."""

from __future__ import annotations

import builtins
import doctest
import gc
import io
import pickle
import sys
import types
import unittest
from importlib.machinery import ModuleSpec

import pytest

from disco_magic.errors import CellError
from disco_magic.isolation.main_module import MainModule
from disco_magic.isolation.own_builtins import BuiltinsOfWorkers

TESTS = """
import unittest
class Test(unittest.TestCase):
    def test_all(self): pass
    def test_first(self): self.assertEqual(worker_id, 0)
"""

pytestmark = pytest.mark.usefixtures("main")


def test_unittest_tests_what_cells_have_defined_on_the_worker(session, capsys):
    s = session(2)
    s.run(TESTS)
    s.run("program = unittest.main(argv=['x'], exit=False)")
    counts = s.run("program.result.testsRun, len(program.result.failures)").values
    assert counts == [(2, 0), (2, 1)]
    assert "[1] FAILED (failures=1)" in capsys.readouterr().err
    assert s.run("unittest.main(argv=['x', 'Test.test_all'], exit=False).result.testsRun").values == [1, 1]


@pytest.mark.parametrize(("last", "ends"), [("pass", "well"), ("1 / 0", "badly")])
def test_a_program_s_tests_end_it_as_they_end(session, tmp_path, last, ends):
    program = tmp_path / "test_program.py"
    program.write_text(
        f"{TESTS}    def test_last(self): {last}\nif __name__ == '__main__':\n    unittest.main()\n"
    )
    s = session(1)
    if ends == "well":
        s.run_file(program)
    else:
        with pytest.raises(CellError, match="SystemExit"):
            s.run_file(program)


def test_what_mock_puts_there_is_the_worker_s(session, main):
    s = session(2)
    s.run("from unittest import mock\ndef rank(): return worker_id\ndef told(): return rank()")
    assert s.run("with mock.patch('__main__.rank', lambda: 'mock'): kept = told()\nkept, told()").values == [
        ("mock", 0),
        ("mock", 1),
    ]
    assert s.run("with mock.patch('__main__.made', 1, create=True): kept = made\nkept, 'made' in globals()")[
        0
    ] == (1, False)
    assert not hasattr(main, "made")
    with pytest.raises(CellError, match="does not have the attribute 'nothing'"):
        s.run("mock.patch('__main__.nothing').start()")


def test_the_notebook_s_tests_test_the_notebook(session, main):
    s = session(1)
    s.run(TESTS)
    stream = io.StringIO()
    runner = unittest.TextTestRunner(stream)
    program = unittest.main(argv=["x"], exit=False, testRunner=runner)
    assert program.result.testsRun == 0
    assert doctest.testmod().attempted == 0
    assert not hasattr(main, "Test")
    assert vars(main)["mine"] == main.mine


def test_a_class_that_a_script_has_pickled_is_found_on_the_worker(session, main):
    """As `torch.load` of a whole model asks for ``__main__.Net``, which a cell has defined."""
    s = session(2)
    s.run("class Net:\n    rank = worker_id")
    text = b"c__main__\nNet\n."
    assert s.run(f"import pickle\nNet is pickle.loads({text!r})").values == [True, True]
    with pytest.raises(AttributeError, match="'__main__'"):
        pickle.loads(text)  # noqa: S301 - our own
    with pytest.raises(CellError, match="module '__main__' has no attribute 'Nothing'"):
        s.run("import __main__\n__main__.Nothing")


def test_the_process_s_own_come_first_and_can_be_changed(session, main):
    s = session(1)
    s.run("mine = 'a worker has it'\nimport __main__")
    assert s.run("__main__.mine")[0] == "the notebook's"
    s.run("__main__.mine = 2\n__main__.more = 3\ndel __main__.more")
    assert main.mine == 2
    assert not hasattr(main, "more")
    assert s.run("mine")[0] == "a worker has it"


@pytest.mark.filterwarnings("ignore:The profile module is deprecated:DeprecationWarning")
@pytest.mark.parametrize("tool", ["cProfile", "profile"])
def test_profilers_run_statements_of_the_worker_s(session, main, tool, capsys):
    s = session(2)
    s.run(f"import {tool}\ndef work(): return worker_id\nif worker_id: {tool}.run('done = work()')")
    assert s.run("done if worker_id else 0").values == [0, 1]
    assert not hasattr(main, "done")


def test_a_program_may_begin_while_finalizers_import(session, tmp_path):
    # Before 3.12, a list of a dictionary's items may collect garbage half-way.
    made = []

    class Imports:
        def __init__(self):
            self.me = self

        def __del__(self):
            if len(made) < 1000:
                made.append(f"made_by_finalizer_{len(made)}")
                sys.modules[made[-1]] = types.ModuleType(made[-1])
                Imports()

    program = tmp_path / "program.py"
    program.write_text("x = worker_id")
    s, thresholds = session(2), gc.get_threshold()
    Imports()
    gc.set_threshold(1)
    try:
        s.run_file(program)
    finally:
        gc.set_threshold(*thresholds)
        made += [""] * 1000
        for name in made:
            sys.modules.pop(name, None)
    assert s.run("x").values == [0, 1]


def test_a_program_has_its_own_docstring_or_none(session, tmp_path):
    s = session(1)
    for text, told in (("'What it does.'\n", "What it does."), ("", None)):
        program = tmp_path / "program.py"
        program.write_text(f"{text}from __future__ import annotations\ndoc = __doc__")
        s.run_file(program)
        assert s.run("doc").values == [told]


def test_a_program_has_no_spec_whatever_started_the_process(session, main, tmp_path):
    main.__spec__ = ModuleSpec("started", None)
    program = tmp_path / "program.py"
    program.write_text("import __main__\ntold = __spec__, __main__.__spec__")
    s = session(2)
    s.run_file(program)
    assert s.run("told").values == [(None, None)] * 2
    assert s.run("import __main__\n__spec__, __main__.__spec__ is None").values == [(None, False)] * 2


def test_a_program_is_what_main_is_for_all_of_its_code(session, main, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import cProfile, __main__\n__main__.rank = worker_id\nbarrier()\nassert __main__.rank == worker_id\n"
        "assert vars(__main__)['rank'] == rank and __main__.__file__ == __file__\n"
        "def work(): return 3\nprofile = cProfile.Profile()\n"
        # Since Python 3.12 a process has one profiler: one worker after the other.
        "for turn in range(3):\n    if turn == worker_id: profile.run('done = work()')\n    barrier()\n"
        "assert done == 3\n"
    )
    s = session(3)
    s.run_file(program)
    assert not hasattr(main, "rank")
    assert s.run("import __main__\n__main__.mine").values == ["the notebook's"] * 3


@pytest.mark.parametrize("kind", [types.ModuleType, type("Strange", (types.ModuleType,), {})])
def test_its_class_is_what_it_was_when_no_session_runs(session, monkeypatch, kind):
    made = kind("__main__")
    monkeypatch.setitem(sys.modules, "__main__", made)
    s = session(1)
    assert (type(made) is kind) is (kind is not types.ModuleType)
    s.shutdown()
    assert type(made) is kind
    assert doctest.testmod.__module__ == "doctest"


def test_a_worker_that_assigns_python_s_display_of_values_keeps_the_value_to_itself(
    session, capsys, monkeypatch
):
    monkeypatch.delattr(builtins, "_", raising=False)
    s = session(2)
    show = "exec(compile('worker_id + 5; None', 'x', 'single'))"
    s.run(f"import sys\nsys.displayhook = sys.__displayhook__\n{show}\nfound = _")
    assert sorted(capsys.readouterr().out.split()) == ["5", "6", "[0]", "[1]"]
    assert s.run("found").values == [5, 6]
    assert not hasattr(builtins, "_")


SHOWN = "exec(compile('2', 'x', 'single'))"
TAKEN = "sys.displayhook = dict(vars(sys))['displayhook']"


@pytest.mark.parametrize("where", ["worker", "process"])
def test_mock_puts_back_the_display_of_values_that_there_was(session, where, capsys):
    # What stands in the dictionary of `sys` was told to ask itself, for ever, also after the session.
    s, before, seen = session(1), sys.displayhook, []
    source = (
        "import sys\nfrom unittest import mock\n"
        "sys.displayhook = mine = seen.append\n"
        f"with mock.patch('sys.displayhook', lambda value: None): {SHOWN}\n"
        f"{SHOWN}\n{TAKEN}\n"
    )
    try:
        if where == "worker":
            s.run(f"seen = []\n{source}")
            assert s.run("seen").values == [[2]]
            s.run(SHOWN)  # a worker has none any more that has assigned what it found in the dictionary
            assert capsys.readouterr().out == "[0] 2\n"
        else:
            exec(source, {"seen": seen})
            assert seen == [2]
            assert sys.displayhook == seen.append
    finally:
        sys.displayhook = before
    s.shutdown()
    sys.displayhook(None)
    assert sys.displayhook is before


def test_a_worker_s_display_of_values_is_its_own(session, capsys, tmp_path):
    # Python calls it for what is compiled as in an interactive session.
    s, shown = session(2), []
    show = "exec(compile('worker_id + 10', 'x', 'single'))"
    s.run(f"import sys\nseen = []\nif worker_id: sys.displayhook = seen.append\n{show}")
    assert s.run("seen, sys.displayhook == seen.append").values == [([], False), ([11], True)]
    assert capsys.readouterr().out == "[0] 10\n"
    s.run(f"del sys.displayhook\n{show}", workers=[1])
    assert capsys.readouterr().out == "[1] 11\n"
    program = tmp_path / "program.py"
    program.write_text("import sys\nsys.displayhook = None\n")
    s.run_file(program)
    s.run(show)
    assert sorted(capsys.readouterr().out.split()) == ["10", "11", "[0]", "[1]"]
    first, sys.displayhook = sys.displayhook, shown.append
    exec(compile("12", "x", "single"))
    sys.displayhook = first
    assert shown == [12]


@pytest.mark.parametrize("kind", [MainModule, BuiltinsOfWorkers])
def test_who_asks_a_module_as_its_class_is_put_back_gets_an_answer(kind):
    # "super(type, obj): obj must be an instance or subtype of type", of a thread that was inside by then.
    module = types.ModuleType("of_this_test")
    kind.__setattr__(module, "given", 1)
    assert kind.__getattribute__(module, "given") == 1
    kind.__delattr__(module, "given")
    assert not hasattr(module, "given")


@pytest.mark.parametrize("name", ["sys", "builtins", "__main__"])
def test_functions_that_mention_such_a_module_are_pickled(session, main, name):
    # cloudpickle knows modules by their very class, and said "cannot pickle 'SysOfWorkers' object".
    s = session(1)
    assert type(sys.modules[name]) is not types.ModuleType
    assert pickle.loads(pickle.dumps(sys.modules[name])) is sys.modules[name]  # noqa: S301 - our own
    assert s.run(
        f"import pickle, sys\npickle.loads(pickle.dumps(sys.modules[{name!r}])) is sys.modules[{name!r}]"
    )[0]


def test_a_program_that_has_ended_is_no_file_of_the_cells_after_it(session, tmp_path):
    # Processes that a cell started by spawn executed it again.
    program = tmp_path / "program.py"
    program.write_text("import __main__\nwhile_it_runs = __main__.__file__\n")
    s = session(1)
    s.run_file(program)
    s.run("import __main__")
    assert s.run("while_it_runs, hasattr(__main__, '__file__')").values == [(str(program), False)]
