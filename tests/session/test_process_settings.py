"""Settings of the process that a program changes are as before when it has ended."""

from __future__ import annotations

import gc
import logging
import sys

import pytest

from disco_magic.errors import CellError

SETTINGS = {
    "collector": ("gc.disable()", gc.isenabled),
    "thresholds": ("gc.set_threshold(9_999)", gc.get_threshold),
    "recursion": ("sys.setrecursionlimit(sys.getrecursionlimit() + 77)", sys.getrecursionlimit),
    "digits": ("sys.set_int_max_str_digits(9_999)", sys.get_int_max_str_digits),
    "stdin": ("sys.stdin = None", lambda: sys.stdin),
    "logging": ("logging.raiseExceptions = False", lambda: logging.raiseExceptions),
}


@pytest.fixture
def program(tmp_path):
    def write(source):
        path = tmp_path / "train.py"
        path.write_text(f"import gc, logging, os, sys\n{source}\n")
        return path

    return write


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("ends", ["", "raise SystemExit(3)", "1 / 0"])
def test_it_is_put_back(session, program, setting, ends):
    change, get = SETTINGS[setting]
    before = get()
    s = session(2)
    try:
        s.run_file(program(f"{change}\nbarrier()\n{ends}"))
    except CellError:
        assert ends
    assert get() == before


def test_it_lasts_while_another_worker_executes_one(session, program):
    s = session(2)
    s.run_file(
        program(
            "if worker_id == 0: gc.disable()\nbarrier()\n"
            "import time\nuntil = time.monotonic() + 0.2 * worker_id\n"
            "while time.monotonic() < until: pass\nlater = gc.isenabled()"
        )
    )
    assert s["later"].get(1) is False
    assert gc.isenabled()


def test_what_a_cell_sets_stays(session):
    before = gc.get_threshold()
    try:
        session(1).run("import gc\ngc.set_threshold(9_999)")
        assert gc.get_threshold()[0] == 9_999
    finally:
        gc.set_threshold(*before)
