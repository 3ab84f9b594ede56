"""What programs register with `atexit`, and how they leave: as processes end."""

from __future__ import annotations

import atexit
import builtins
import threading

import pytest

from disco_magic.errors import CellError
from tests.conftest import DEADLINE_S

REGISTERS = """
import atexit, sys
def say(*what, **others): print("bye", *what, *others)
atexit.register(say, "first")
atexit.register(say, "second", by=1)
atexit.register(print, "not this one")
atexit.unregister(print)

@atexit.register
def last():
    print("last")

print("end")
"""
SAID = ["end", "last", "bye second by", "bye first"]


@pytest.fixture
def run(session, tmp_path, capsys):
    """Runs a program on worker 1 of two; what it has printed."""
    s = session(2)

    def run(source, *arguments):
        (tmp_path / "program.py").write_text(source)
        try:
            s.run_file(tmp_path / "program.py", *arguments, workers=[1])
        finally:
            printed = capsys.readouterr()
        return printed.out.splitlines()

    run.session, run.read = s, capsys.readouterr
    return run


@pytest.mark.parametrize("end", ["", "sys.exit(0)", "exit()", "quit(0)"])
def test_they_are_called_when_the_program_ends_the_last_one_first(run, end):
    # They were called when the process ended, hours later, or never.
    assert run(f"{REGISTERS}{end}\n") == [f"[1] {each}" for each in SAID]
    assert run("print('again')") == ["[1] again"]


@pytest.mark.parametrize("end", ["1 / 0", "sys.exit(3)", "exit('no data')"])
def test_they_are_called_when_it_fails_too(run, end):
    seen = "seen = []\nimport atexit, sys\natexit.register(seen.append, 1)\n"
    with pytest.raises(CellError):
        run(f"{seen}{end}\n")
    assert run.session.run("seen", workers=[1])[1] == [1]


def test_what_one_raises_is_shown_and_the_others_are_called(run, capsys):
    source = "import atexit, sys\ndef wrong(): 1 / 0\natexit.register(print, 'on')\natexit.register(wrong)\n"
    (printed,) = [
        each for each in run(f"{source}atexit.register(sys.exit, 4)\nprint = print\n") if "on" in each
    ]
    assert printed == "[1] on"
    with pytest.raises(CellError, match="SystemExit: 5"):
        run(f"{source}sys.exit(5)\n")


def test_they_are_called_when_it_is_stopped_too(session, tmp_path, background):
    path = tmp_path / "program.py"
    path.write_text(
        "import atexit\nseen = []\natexit.register(seen.append, 1)\nbegun.set()\nwhile True: pass\n"
    )
    begun = threading.Event()
    s = session(1, extras=lambda context: {"begun": begun})
    ended = background(s.run_file, path)
    assert begun.wait(DEADLINE_S)
    s.interrupt()
    with pytest.raises(CellError, match="interrupted"):
        ended()
    assert s.run("seen").values == [[1]]


def test_what_cells_and_libraries_register_is_the_process_s(run, monkeypatch):
    kept = []
    monkeypatch.setattr(atexit, "register", lambda *args: kept.append(args))
    s = run.session
    s.run("import atexit\natexit.register(len, 'of a cell')")
    run("import tempfile, weakref\nclass A: pass\na = A()\nweakref.finalize(a, print, 'too soon')\n")
    assert (len, "of a cell") in kept
    assert run.read().out == ""


def test_a_program_that_leaves_has_what_leaves_and_cells_do_not(session, tmp_path, monkeypatch):
    # IPython takes them away while it executes a cell: a script that ended by exit(0) had failed.
    for name in ("exit", "quit"):
        monkeypatch.delattr(builtins, name, raising=False)
    path = tmp_path / "program.py"
    path.write_text("x = 1\nexit(0)\nx = 2\n")
    s = session(2)
    s.run_file(path)
    assert s.run("x").values == [1, 1]
    with pytest.raises(CellError, match="NameError: name 'exit' is not defined"):
        s.run("exit(0)")
