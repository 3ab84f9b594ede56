"""What a worker's code finds in `__main__`: tests find what is to be tested, pickles what they name."""

from __future__ import annotations

import doctest
import io
import pickle
import sys
import types
import unittest

import pytest

from disco_magic.errors import CellError

TESTS = """
import unittest
class Test(unittest.TestCase):
    def test_all(self): pass
    def test_first(self): self.assertEqual(worker_id, 0)
"""
EXAMPLE = '''
import doctest
def double(x):
    """
    >>> double(2)
    4
    >>> print("rank", rank)
    rank 0
    """
    return 2 * x
rank = worker_id
'''


@pytest.fixture(autouse=True)
def main(monkeypatch):
    """`__main__` as a notebook has it."""
    made = types.ModuleType("__main__")
    made.mine = "the notebook's"
    monkeypatch.setitem(sys.modules, "__main__", made)
    return made


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


def test_doctest_tests_them_too_and_each_worker_has_its_own_result(session, capsys):
    s = session(3)
    s.run(EXAMPLE)
    results = s.run("tuple(doctest.testmod())").values
    assert results == [(0, 2), (1, 2), (1, 2)]
    told = capsys.readouterr().out
    assert told.count("Expected:") == told.count("    rank 0\n") == 2
    assert "[1]     rank 1" in told
    assert s.run("doctest.testmod(doctest.sys).attempted")[0] == 0


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


@pytest.mark.parametrize("kind", [types.ModuleType, type("Strange", (types.ModuleType,), {})])
def test_its_class_is_what_it_was_when_no_session_runs(session, monkeypatch, kind):
    made = kind("__main__")
    monkeypatch.setitem(sys.modules, "__main__", made)
    s = session(1)
    assert (type(made) is kind) is (kind is not types.ModuleType)
    s.shutdown()
    assert type(made) is kind
    assert doctest.testmod.__module__ == "doctest"
