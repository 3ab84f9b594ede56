"""Settings of the process that a program changes are as before when it has ended."""

from __future__ import annotations

import gc
import locale
import logging
import os
import socket
import sys
import threading
from types import ModuleType

import pytest

from disco_magic.errors import CellError

SETTINGS = {
    "collector": ("gc.disable()", gc.isenabled),
    "thresholds": ("gc.set_threshold(9_999)", gc.get_threshold),
    "recursion": ("sys.setrecursionlimit(sys.getrecursionlimit() + 77)", sys.getrecursionlimit),
    "digits": ("sys.set_int_max_str_digits(9_999)", sys.get_int_max_str_digits),
    "stdin": ("sys.stdin = None", lambda: sys.stdin),
    "logging": ("logging.raiseExceptions = False", lambda: logging.raiseExceptions),
    "last handler": ("logging.lastResort = None", lambda: logging.lastResort),
    "tracebacks": ("sys.tracebacklimit = 0", lambda: getattr(sys, "tracebacklimit", None)),
    "turns": ("sys.setswitchinterval(0.05)", sys.getswitchinterval),
    "sockets": ("import socket\nsocket.setdefaulttimeout(3)", socket.getdefaulttimeout),
    "locale": (
        "import locale\nlocale.setlocale(locale.LC_ALL, 'C')",
        lambda: locale.setlocale(locale.LC_ALL),
    ),
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


@pytest.mark.parametrize("begins", ["before the program", "while a module is imported", "and goes on"])
def test_what_pytorchs_compiler_changes_for_a_while_is_not_taken_for_a_program_s(
    session, program, module_of, monkeypatch, begins
):
    # 1. Somebody else compiles: since 2.15 PyTorch raises a threshold meanwhile, and notes the former ones.
    # 2. A program begins, or its module has been imported: the raised threshold is found.
    # 3. PyTorch puts the former ones back. 4. The program ends, and the raised one is put back for good.
    before = gc.get_threshold()
    compiler = ModuleType("torch._dynamo.utils")
    vars(compiler).update(_gc_threshold_lock=threading.Lock(), _gc_threshold_saved=None)
    monkeypatch.setitem(sys.modules, compiler.__name__, compiler)
    begin = (
        "import gc, sys\ncompiler = sys.modules['torch._dynamo.utils']\n"
        "compiler._gc_threshold_saved = gc.get_threshold()\n"
        "gc.set_threshold(*gc.get_threshold()[:2], 1000)\n"
    )
    end = "gc.set_threshold(*compiler._gc_threshold_saved)\ncompiler._gc_threshold_saved = None\n"
    find = "compiler = sys.modules['torch._dynamo.utils']\n"
    try:
        if begins == "before the program":
            exec(begin, {})
            session(1).run_file(program(find + end))
        elif begins == "while a module is imported":
            session(1).run_file(program(f"import {module_of(begin)}\n{find}{end}"))
        else:
            session(1).run_file(program(f"gc.set_threshold(9_999)\n{begin}"))
            exec(f"import gc\n{end}", {"compiler": compiler})
        assert gc.get_threshold() == before
    finally:
        gc.set_threshold(*before)


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="its mask cannot be read elsewhere")
def test_the_mask_for_new_files_is_put_back(session, program, tmp_path):
    for number in range(2):
        path = tmp_path / str(number)
        session(1).run_file(program("os.umask(0o077)")) if number else None
        path.touch()
    modes = [path.stat().st_mode for path in sorted(tmp_path.glob("[01]"))]
    assert modes[0] == modes[1]


def test_what_a_module_sets_when_it_is_imported_stays_with_it(session, program, module_of):
    # A second run does not execute it again.
    name = module_of("import sys\nsys.setrecursionlimit(sys.getrecursionlimit() + 77)\n")
    before = sys.getrecursionlimit()
    source = f"import {name}\nfound = sys.getrecursionlimit()\n"
    s = session(1)
    try:
        for _ in range(2):
            s.run_file(program(f"{source}sys.setrecursionlimit(5_000)\n"))
            assert s.run("found")[0] == before + 77
            assert sys.getrecursionlimit() == before + 77
    finally:
        sys.setrecursionlimit(before)


@pytest.mark.parametrize("name", ["jax_enable_x64", "jax_debug_nans"])
def test_what_is_set_of_jax_is_put_back(session, program, name):
    config = pytest.importorskip("jax").config
    s = session(1)
    s.run_file(program(f"import jax\njax.config.update({name!r}, True)\nfound = jax.config.{name}"))
    assert s.run("found").values == [True]
    assert not getattr(config, name)
