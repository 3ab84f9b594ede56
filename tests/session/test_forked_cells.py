"""Processes that cells, programs and functions fork by `os.fork` end where these end."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing is forked here")
FORKED = """
import os, sys
pid = os.fork()
if pid == 0:
    {}
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""
NEXT = "--- next ---"
SESSION = """
import os
import disco_magic as disco
with disco.ThreadedSession(2) as s:
    for code in {codes!r}:
        s.run(code, workers=[0], timeout=60)
        print(s["status"].get(0), s.run("int(allreduce(1))").values)
        os.write(2, b"{NEXT}")
"""
ENDS = [
    ("sys.exit(5)", 5, ""),
    ("sys.exit()", 0, ""),
    ("sys.exit('that was all')", 1, "that was all\n"),
    ("1 / 0", 1, "ZeroDivisionError: division by zero"),
    ("os._exit(7)", 7, ""),
    ("raise SystemExit(300)", 300 & 255, ""),
]
if sys.version_info < (3, 14):  # there, no loop goes on in a forked process
    ENDS += [("await __import__('asyncio').sleep(0); sys.exit(3)", 3, "")]
# Comes to the end of the cell as its parent does.
TO_THE_END = """
import os
reader, writer = os.pipe()
pid = os.fork()
if pid:
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(writer)
    status = status, os.read(reader, 9)
else:
    os.write(writer, b'child')
"""


def executed(source):
    """Stdout and stderr of a program that Python executes in a process of its own."""
    command = [sys.executable, "-W", "ignore", "-c", source]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)  # noqa: S603
    return ended.stdout, ended.stderr


def told(*codes):
    """What a session says of the status of what a cell has forked, and its stderr; of each of these cells."""
    stdout, stderr = executed(SESSION.format(codes=codes, NEXT=NEXT))
    return list(zip(stdout.splitlines()[-len(codes) :], stderr.split(NEXT)[:-1], strict=True))


@pytest.fixture(scope="module")
def told_of_ends():
    """Of all ends, from one process: they take two seconds each to begin."""
    return told(*(FORKED.format(ends) for ends, _, _ in ENDS), TO_THE_END)


@pytest.mark.parametrize(("number", "status", "says"), [(at, *each[1:]) for at, each in enumerate(ENDS)])
def test_it_has_the_status_that_it_would_have_as_a_process(number, status, says, told_of_ends):
    line, stderr = told_of_ends[number]
    assert line == f"{status} [2, 2]"
    assert says in stderr


def test_one_that_comes_to_the_end_of_the_cell_ends_there(told_of_ends):
    assert told_of_ends[-1][0] == "(0, b'child') [2, 2]"


def test_that_of_a_program_ends_as_a_program(tmp_path):
    (tmp_path / "forks.py").write_text(FORKED.format("sys.exit(6)"))
    path = str(tmp_path / "forks.py")
    running = f"import disco_magic as disco\ns = disco.ThreadedSession(1)\ns.run_file({path!r})"
    assert executed(f"{running}\nprint(s['status'].get(0))\ns.shutdown()")[0] == "6\n"


FUNCTION = """
import os, sys
import disco_magic as disco
def f():
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    {ends}
with disco.ThreadedSession(1) as s:
    gate = s.call_packed(input)
    status = s.call_packed(f)
    s.call_packed(os.write, 1, b"once;")
    os.write({writer}, b"go\\n")
    print(status.get(0), s.call_packed(int, "2").get(0))
"""


@pytest.mark.parametrize(
    ("ends", "status", "says"),
    [
        ("print('child', end=';')", 0, ""),
        ("sys.exit(5)", 5, ""),
        ("1 / 0", 1, "ZeroDivisionError: division by zero"),
    ],
)
def test_that_of_a_function_ends_with_the_function(ends, status, says):
    # It went on as its parent's worker: executed what was queued a second time, then waited for ever.
    reader, writer = os.pipe()
    source = FUNCTION.format(ends=ends, writer=writer)
    command = [sys.executable, "-W", "ignore", "-c", source]
    with os.fdopen(reader) as stdin, os.fdopen(writer, "w"):
        ended = subprocess.run(  # noqa: S603
            command, stdin=stdin, pass_fds=[writer], capture_output=True, text=True, timeout=120, check=True
        )
    child = "child;" if "print" in ends else ""
    assert ended.stdout == f"{child}once;{status} 2\n"
    assert says in ended.stderr
