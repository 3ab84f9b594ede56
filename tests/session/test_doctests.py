"""doctest on workers: it finds what cells have defined, and examples have their sources and values."""

from __future__ import annotations

import builtins
import doctest
import linecache
import pdb  # noqa: T100 - what is changed in it is looked at
import sys

import pytest

EXAMPLE = '''
import doctest
import gc
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

pytestmark = pytest.mark.usefixtures("main")


@pytest.fixture(autouse=True)
def builtins_without_a_last_value():
    """In the tests' own thread doctest leaves `_` there, and shells of later tests would keep none."""
    yield
    vars(builtins).pop("_", None)


def test_doctest_tests_them_too_and_each_worker_has_its_own_result(session, capsys):
    s = session(3)
    s.run(EXAMPLE)
    results = s.run("tuple(doctest.testmod())").values
    assert results == [(0, 2), (1, 2), (1, 2)]
    told = capsys.readouterr().out
    assert told.count("Expected:") == told.count("    rank 0\n") == 2
    assert "[1]     rank 1" in told
    # Python 3.11 refuses to let two threads set what traces them at the same time, and doctest sets it.
    assert s.run("doctest.testmod(doctest.sys).attempted", workers=[0])[0] == 0


BESIDE = '''
import doctest
import gc
def double(x):
    """
    >>> barrier()
    >>> double(2)
    4
    >>> barrier()
    """
    return 2 * x
def half(x):
    """
    >>> half(2), barrier()
    (1.0, None)
    >>> half(4)
    2.0
    """
    return x / 2
'''


def test_doctests_of_several_workers_at_once_do_not_disturb_each_other(session, monkeypatch):
    # Each put back what it had found: another one's, or the notebook's display of values amid its own.
    shown = []
    monkeypatch.setattr(sys, "displayhook", shown.append)
    before = linecache.getlines, pdb.set_trace, sys.displayhook
    s = session(3)
    s.run(BESIDE)
    assert s.run("tuple(doctest.testmod())").values == [(0, 5)] * 3
    assert (pdb.set_trace, sys.displayhook) == before[1:]
    assert not shown
    s.shutdown()
    assert linecache.getlines is before[0]
    assert vars(sys)["displayhook"] is before[2]
    assert doctest.pdb is pdb
    assert doctest.linecache is linecache


SOURCES = r'''
import doctest, sys
def f():
    r"""
    >>> import inspect
    >>> def h(x): return x + 1
    >>> inspect.getsource(h)
    'def h(x): return x + 1\n'
    >>> [1, 2]
    [1, 2]
    >>> _
    [1, 2]
    """
'''


@pytest.mark.parametrize("module", ["", "sys.modules['__main__']"])
def test_examples_have_their_sources_and_the_value_before(session, module):
    # Of sources nobody but doctest knew; `_` went to `builtins`, and IPython's own was updated no more.
    s = session(2)
    s.run(SOURCES)
    assert s.run(f"tuple(doctest.testmod({module}))").values == [(0, 5)] * 2
    assert not hasattr(builtins, "_")
    s.shutdown()
    assert linecache.getlines.__module__ == "linecache"


SHARED = """
def f():
    '''
    >>> worker_id = 1
    >>> 1 + worker_id
    2
    >>> _ + 1
    3
    '''
"""


def test_doctests_of_a_module_that_all_share_have_the_value_before(session, module_of):
    # NameError: what is behind the namespace of cells is not behind theirs.
    name = module_of(SHARED)
    s = session(2)
    s.run(f"import doctest, {name}")
    assert s.run(f"tuple(doctest.testmod({name}))").values == [(0, 3)] * 2
    assert "_" not in vars(sys.modules[name])


def test_a_doctest_beside_the_workers_leaves_them_the_sources_of_their_examples(session):
    s = session(1)
    s.run(SOURCES)
    before = s.run("tuple(doctest.testmod())").values
    test = doctest.DocTestParser().get_doctest(">>> 2 + 2\n4\n", {}, "sum", None, None)
    doctest.DocTestRunner().run(test)
    assert s.run("tuple(doctest.testmod())").values == before == [(0, 5)]


def test_doctests_of_the_program_s_own_thread_are_as_ever(session):
    s = session(1)
    s.run("import doctest")
    test = doctest.DocTestParser().get_doctest(">>> 2 + 2\n4\n", {}, "sum", None, None)
    assert tuple(doctest.DocTestRunner().run(test)) == (0, 1)


def test_doctest_tests_what_a_program_says_of_itself(session, tmp_path):
    # It found none of these examples, and reported success.
    path = tmp_path / "told.py"
    path.write_text(
        '"""\n>>> 1 + 1\n2\n>>> 1 + 1\n3\n"""\nimport doctest\nfound = tuple(doctest.testmod())\n'
    )
    s = session(2)
    s.run_file(path)
    assert s.run("found").values == [(1, 2)] * 2
    path.write_text("import doctest\nfound = tuple(doctest.testmod())\n")
    s.run_file(path)
    assert s.run("found").values == [(0, 0)] * 2
