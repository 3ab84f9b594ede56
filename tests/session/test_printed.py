"""What cells print where no notebook shows it: in scripts, and in plain cells that call `session.run`."""

from __future__ import annotations

import contextlib
import gc
import io
import re
import subprocess
import sys

import pytest

from disco_magic.errors import CellError
from disco_magic.functions.streams import WorkerStream


def stand_ins():
    return [isinstance(stream, WorkerStream) for stream in (sys.stdout, sys.stderr)]


@pytest.fixture(autouse=True)
def own_streams(capsys):
    """The caller's own streams stand there again when a test ends, and `capsys` has not seen to that."""
    yield
    assert stand_ins() == [False, False]


def test_lines_are_whole_and_begin_with_the_worker_that_has_written_them(session, capsys):
    result = session(4).run(
        "for i in range(200):\n    print('line', i)\nimport sys\nprint('odd', file=sys.stderr)"
    )
    shown = capsys.readouterr()
    assert sorted(shown.err.splitlines()) == [f"[{worker}] odd" for worker in range(4)]
    for worker in range(4):
        mine = [line for line in shown.out.splitlines() if line.startswith(f"[{worker}] ")]
        assert mine == [f"[{worker}] line {i}" for i in range(200)]
        assert result.stdout[worker] == "".join(f"line {i}\n" for i in range(200)) + "odd\n"
    assert len(shown.out.splitlines()) == 800


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ("print('a', end=''); print('b', flush=True)", ["ab"]),
        ("print('no newline', end='')", ["no newline"]),
        ("print('two\\nlines\\n')", ["two", "lines", ""]),
        ("print(' 10%', end='\\r'); print('100%', end='\\r'); print()", ["100%"]),
        ("import sys; sys.stdout.writelines(['x', 'y\\n'])", ["xy"]),
        ("print('x' * 100_000, end='')", ["x" * 100_000]),
        ("5", []),
    ],
)
def test_unfinished_lines_wait_for_their_end(session, capsys, code, lines):
    result = session(1).run(code)
    assert capsys.readouterr().out == "".join(f"[0] {line}\n" for line in lines)
    assert result.stdout[0] == "".join(f"{line}\n" for line in lines)


def test_only_text_can_be_written(session):
    with pytest.raises(CellError, match="must be str, not int"):
        session(1).run("import sys\nsys.stdout.write(5)")


def test_a_cell_that_fails_has_its_text(session, capsys):
    with pytest.raises(CellError) as caught:
        session(2).run("print('before')\nif worker_id:\n    1 / 0")
    assert caught.value.result.stdout == {0: "before\n", 1: "before\n"}
    assert sorted(capsys.readouterr().out.splitlines()) == ["[0] before", "[1] before"]


def test_what_the_caller_redirects_to_gets_the_lines(session, capsys):
    kept = io.StringIO()
    with contextlib.redirect_stdout(kept):
        session(2).run("if worker_id:\n    print('here')")
    assert (kept.getvalue(), capsys.readouterr().out) == ("[1] here\n", "")


def test_a_cell_that_is_not_waited_for(gated, gate, capsys):
    s = gated(2)
    pending = s.run_nowait("print('begun')\ngate()\nprint('ended')")
    gate.arrived(2)
    print("mine")  # of another thread than the workers'
    gate.open()
    assert pending.wait().stdout == {0: "begun\nended\n", 1: "begun\nended\n"}
    lines = capsys.readouterr().out.splitlines()
    assert sorted(lines) == ["[0] begun", "[0] ended", "[1] begun", "[1] ended", "mine"]


def test_cells_of_two_sessions_at_once_keep_apart(gated, gate, background, capsys):
    one, two = gated(1), gated(2)
    first = background(one.run, "print('one')\ngate()\nprint('one')")
    gate.arrived()
    two.run("if worker_id:\n    print('two')")
    assert isinstance(sys.stdout, WorkerStream)  # the first one is still at it
    gate.open()
    assert first().stdout == {0: "one\none\n"}
    assert sorted(capsys.readouterr().out.splitlines()) == ["[0] one", "[0] one", "[1] two"]


def test_one_that_no_worker_begins(gated, gate):
    s = gated(2)
    s.call_packed(gate, "begun")
    gate.arrived(2)
    pending = s.run_nowait("print('never')")
    pending.cancel()
    gate.open()
    s.sync_all()
    del pending
    gc.collect()
    s.run("1")  # nobody has need of the stand-ins any more
    assert stand_ins() == [False, False]


@pytest.mark.leaves_threads("the thread is given up in its call")
def test_a_thread_that_was_given_up_prints_nowhere(gated, gate, capsys):
    ended = []
    s = gated(1, ended=ended)
    cell = "print('before')\ntry:\n    gate()\nfinally:\n    print('after')\n    ended.append(1)"
    with pytest.raises(Exception, match="was stopped"):
        s.run(cell, timeout=0.01)
    assert capsys.readouterr().out == "[0] before\n"
    assert stand_ins() == [True, True]
    gate.open()
    for thread in s._launcher.stuck:
        thread.join(20)
    assert (ended, capsys.readouterr().out) == ([1], "")
    gc.collect()
    s.run("1")
    assert stand_ins() == [False, False]


def test_without_streams_only_the_result_has_the_text(session, monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    assert session(1).run("import sys\nprint('x')\nprint('y', file=sys.stderr)").stdout == {0: "y\n"}


def test_what_a_cell_sets_stays_its_worker_s(session):
    s = session(2)
    s.run("import decimal\ndecimal.getcontext().prec = 5 + worker_id")
    assert s.run("import decimal\ndecimal.getcontext().prec").values == [5, 6]


SCRIPT = """
import disco_magic as disco

with disco.ThreadedSession(2) as s:
    s.run("print('hello from', worker_id)")
print("done")
"""


def test_a_script():
    ran = subprocess.run(  # noqa: S603 - this interpreter, the script above
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=True
    )
    assert sorted(ran.stdout.splitlines()) == ["[0] hello from 0", "[1] hello from 1", "done"]
    assert ran.stderr == ""
    assert re.search(r"done\n$", ran.stdout)
