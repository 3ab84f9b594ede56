"""What a worker puts where the whole process looks is gone with its program, or with it."""

from __future__ import annotations

import builtins
import logging
import sys
import threading
import traceback
import warnings

import pytest

import disco_magic as disco

PLACES = {
    "import": ("builtins.__import__ = wrapping(builtins.__import__)", lambda: builtins.__import__),
    "classes": (
        "builtins.__build_class__ = wrapping(builtins.__build_class__)",
        lambda: builtins.__build_class__,
    ),
    "isinstance": ("builtins.isinstance = wrapping(builtins.isinstance)", lambda: builtins.isinstance),
    "excepthook": ("sys.excepthook = wrapping(sys.excepthook)", lambda: sys.excepthook),
    "unraisable": ("sys.unraisablehook = wrapping(sys.unraisablehook)", lambda: sys.unraisablehook),
    "of threads": ("threading.excepthook = wrapping(threading.excepthook)", lambda: threading.excepthook),
    "warnings": (
        "import warnings\nwarnings.formatwarning = wrapping(warnings.formatwarning)",
        lambda: warnings.formatwarning,
    ),
    "trace": ("threading.settrace(lambda *_: None)", threading.gettrace),
    "profile": ("threading.setprofile(lambda *_: None)", threading.getprofile),
    "records": (
        "logging.setLogRecordFactory(wrapping(logging.getLogRecordFactory()))",
        logging.getLogRecordFactory,
    ),
    "loggers": ("class Mine(logging.Logger): pass\nlogging.setLoggerClass(Mine)", logging.getLoggerClass),
    "a method": (
        "class Hook:\n    def report(self, *_): pass\nsys.excepthook = Hook().report",
        lambda: sys.excepthook,
    ),
    "an object": (
        "class Hook:\n    def __call__(self, *_): pass\nsys.excepthook = Hook()",
        lambda: sys.excepthook,
    ),
    "a partial call": (
        "import functools\nsys.excepthook = functools.partial(lambda *_: None, 1)",
        lambda: sys.excepthook,
    ),
}
HEAD = """
import builtins, logging, sys, threading
def wrapping(first):
    return lambda *given, **named: first(*given, **named)
"""


@pytest.fixture(autouse=True)
def as_it_was():
    """Whatever a test leaves is taken away, or all later ones would fail."""
    before = {name: get() for name, (_, get) in PLACES.items()}
    yield
    left = [name for name, (_, get) in PLACES.items() if get() is not before[name]]
    builtins.__import__, builtins.__build_class__ = before["import"], before["classes"]
    builtins.isinstance, sys.excepthook = before["isinstance"], before["excepthook"]
    sys.unraisablehook, threading.excepthook = before["unraisable"], before["of threads"]
    threading.settrace(before["trace"])
    warnings.formatwarning = before["warnings"]
    threading.setprofile(before["profile"])
    logging.setLogRecordFactory(before["records"])
    logging.setLoggerClass(before["loggers"])
    assert left == []


@pytest.mark.parametrize("place", PLACES)
def test_it_is_gone_with_the_worker(session, place):
    source, get = PLACES[place]
    before = get()
    s = session(2)
    first = get()  # of log records, it is ours
    s.run(HEAD + source, workers=[1])
    assert get() is not first
    s.run("1")
    assert get() is not first  # until the worker ends: it is the process's
    s.shutdown()
    assert get() is before
    import colorsys  # noqa: F401 - every import failed

    logging.getLogger("after").debug("and every record")


@pytest.mark.parametrize("place", PLACES)
def test_it_is_gone_with_the_program(session, tmp_path, place):
    source, get = PLACES[place]
    program = tmp_path / "train.py"
    program.write_text(f"{HEAD}{source}\ndone = 1\n")
    s = session(2)
    before = get()
    s.run_file(program)
    assert get() is before
    assert s["done"].get_all() == [1, 1]


def test_of_a_module_that_the_program_imports_it_is_gone_too(session, tmp_path, monkeypatch):
    (tmp_path / "hooking.py").write_text("import sys\ndef hook(*_): pass\nsys.excepthook = hook\n")
    (tmp_path / "train.py").write_text("import hooking\n")
    before = sys.excepthook
    session(2).run_file(tmp_path / "train.py")
    assert sys.excepthook is before
    sys.modules.pop("hooking", None)


def test_what_a_cell_had_put_there_is_back_after_a_program(session, tmp_path):
    (tmp_path / "train.py").write_text("import sys\nsys.excepthook = lambda *_: 'of the program'\n")
    s = session(1)
    s.run("import sys\nsys.excepthook = lambda *_: 'of the cell'")
    s.run_file(tmp_path / "train.py")
    assert sys.excepthook() == "of the cell"
    s.shutdown()


def test_what_a_library_has_put_there_stays(session):
    before = sys.excepthook
    s = session(1)
    s.run("import sys, traceback\nsys.excepthook = traceback.print_exception")
    s.shutdown()
    assert sys.excepthook is traceback.print_exception
    sys.excepthook = before


ORDERS = {
    "save 0, save 1, restore 0, restore 1": "(0, 's'), (1, 's'), (0, 'r'), (1, 'r')",
    "save 0, save 1, restore 1, restore 0": "(0, 's'), (1, 's'), (1, 'r'), (0, 'r')",
    "save 1, save 0": "(1, 's'), (0, 's')",
}


@pytest.mark.parametrize("order", ORDERS)
def test_workers_that_save_and_restore_in_turns_leave_nothing(session, order):
    before = builtins.__import__
    s = session(2)
    s.run(
        f"{HEAD}for who, what in ({ORDERS[order]}, ):\n"
        "    if who == worker_id:\n"
        "        if what == 's':\n"
        "            mine = builtins.__import__\n            builtins.__import__ = wrapping(mine)\n"
        "        else:\n            builtins.__import__ = mine\n"
        "    barrier()"
    )
    s.shutdown()
    assert builtins.__import__ is before


def test_a_session_that_begins_meanwhile_takes_over_what_the_notebook_has_then(session, monkeypatch):
    first = session(1)
    first.run("import sys\nsys.excepthook = lambda *_: None")
    with disco.ThreadedSession(1):
        pass
    first.shutdown()
