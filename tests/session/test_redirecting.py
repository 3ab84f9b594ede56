"""`redirect_stdout` on workers: each has what it prints itself, and nothing is left behind."""

from __future__ import annotations

import contextlib
import io
import logging
import sys

import pytest

from disco_magic.errors import CellError

BEGIN = """
import contextlib, io, sys
from contextlib import redirect_stderr, redirect_stdout
kept = io.StringIO()
"""


def test_each_worker_keeps_its_own_lines(session, capsys):
    s = session(4)
    s.run(
        BEGIN + "with contextlib.redirect_stdout(kept):\n"
        "    for i in range(50):\n        print('mine', worker_id, i)\n    barrier()\nprint('after')"
    )
    texts = s.run("kept.getvalue()").values
    assert texts == ["".join(f"mine {worker} {i}\n" for i in range(50)) for worker in range(4)]
    assert sorted(capsys.readouterr().out.splitlines()) == [f"[{worker}] after" for worker in range(4)]


def test_workers_that_leave_one_after_the_other_do_not_silence_the_program(session, capsys):
    """Interleaved exits of what replaces a stream of the process left one worker's buffer there."""
    s, stdout = session(3), sys.stdout
    s.run(
        BEGIN
        + "block = contextlib.redirect_stdout(kept)\nblock.__enter__()\nfor turn in range(num_workers):\n"
        "    barrier()\n    if turn == worker_id: block.__exit__(None, None, None)"
    )
    s.shutdown()
    assert sys.stdout is stdout
    print("heard")
    assert capsys.readouterr().out == "heard\n"


# code -> what is kept, what is printed
BLOCKS = {
    "with redirect_stderr(kept):\n    print('y')\n    print('x', file=sys.stderr)": ("x\n", "y\n"),
    "with redirect_stdout(None):\n    print('x')": ("", ""),
    "with redirect_stdout(sys.stdout):\n    print('x')": ("", "x\n"),
    """
class Tee:
    def __init__(self): self.old = sys.stdout
    def write(self, text): return kept.write(text) and self.old.write(text)
    def flush(self): self.old.flush()
with redirect_stdout(Tee()):
    with redirect_stdout(Tee()):
        sys.stdout.write('x\\n')
        sys.stdout.flush()
    sys.stdout.write('y\\n')
""": ("x\nx\ny\n", "x\ny\n"),
    """
import threading
left = threading.Event()
def late(): left.wait(60); print('y')
with redirect_stdout(kept):
    thread = threading.Thread(target=late)
    thread.start()
    print('x')
left.set()
thread.join()
""": ("x\n", "y\n"),
    """
with redirect_stdout(io.StringIO()):
    with redirect_stdout(kept):
        print('x')
    print('y')
print('z')
""": ("x\n", "z\n"),
    """
both = redirect_stdout(kept)
with both:
    with both:
        print('x')
    print('y')
""": ("x\ny\n", ""),
    """
with redirect_stdout(kept):
    print('x', flush=True)
    sys.stdout.write(sys.stdout.getvalue())
""": ("x\nx\n", ""),
    """
import threading
with redirect_stdout(kept):
    thread = threading.Thread(target=print, args=('x',))
    thread.start()
    thread.join()
""": ("x\n", ""),
}


@pytest.mark.parametrize("code", BLOCKS)
def test_blocks_of_every_kind(session, capsys, code):
    s = session(2)
    s.run(BEGIN + code, workers=[1])
    kept, out = BLOCKS[code]
    assert s.run("kept.getvalue()", workers=[1])[1] == kept
    assert capsys.readouterr() == ("".join(f"[1] {line}" for line in out.splitlines(keepends=True)), "")


def test_a_target_that_was_taken_before_the_other_block_is_what_it_was_then(session, capsys):
    session(2).run(
        BEGIN + "with redirect_stdout(sys.stderr):\n    with redirect_stderr(kept):\n        print('x')\n"
        "with redirect_stdout(sys.stderr):\n    with redirect_stderr(sys.stdout):\n        print('y')",
        workers=[1],
    )
    assert capsys.readouterr() == ("", "[1] x\n[1] y\n")


def test_a_block_that_an_error_ends_is_over(session, capsys):
    s = session(1)
    with pytest.raises(CellError, match="ZeroDivisionError"):
        s.run(BEGIN + "with contextlib.redirect_stdout(kept):\n    1 / 0")
    s.run("print('heard')")
    assert capsys.readouterr().out == "[0] heard\n"


@pytest.mark.parametrize(
    ("handler", "kept"),
    [("logging.StreamHandler()", "low\n"), ("logging.lastResort", "[1] low\n")],
    ids=["its own", "the process's"],
)
def test_only_handlers_of_the_process_s_name_the_worker_in_lines_that_it_redirects(session, handler, kept):
    logger = logging.getLogger("tests.redirecting")
    logger.propagate = False
    logger.handlers.clear()  # pytest's own: the last resort is for who has none
    s = session(2)
    s.run(
        BEGIN + "import logging\nlogger = logging.getLogger('tests.redirecting')\n"
        f"with contextlib.redirect_stderr(kept):\n    handler = {handler}\n"
        "    if handler is not logging.lastResort:\n        logger.addHandler(handler)\n"
        "    logger.warning('low')\nlogger.removeHandler(handler)",
        workers=[1],
    )
    assert s.run("kept.getvalue()", workers=[1])[1] == kept


def test_the_program_s_own_is_what_it_always_was(session):
    # A cell that ends takes along stand-ins that were left for another one: for one that was never begun.
    s = session(1)
    s.run("pass")
    kept, stdout = io.StringIO(), sys.stdout
    with contextlib.redirect_stdout(kept):
        assert sys.stdout is kept
        print("x")
        s.run("print('y')")
    assert (sys.stdout, kept.getvalue()) == (stdout, "x\n[0] y\n")
