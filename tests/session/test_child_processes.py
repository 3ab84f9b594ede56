"""Processes that workers start find the worker's program, and its rank; what cells define is not there."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import pytest

from disco_magic.errors import CellError
from tests.conftest import DEADLINE_S

PROGRAM = """
import multiprocessing as mp, os, sys

class Sample:
    def __init__(self, value): self.value = value
    def __eq__(self, other): return type(self) is type(other) and self.value == other.value

def work(sample):
    return Sample(sample.value + 1), os.environ["RANK"], sys.argv[1:], __name__

if __name__ == "__main__":
    with mp.get_context(METHOD).Pool(1) as pool:
        told = pool.map(work, [Sample(1)])[0]
    told = told[0] == Sample(2), *told[1:]
"""


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_program_s_processes_find_what_it_defines(session, tmp_path, method):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.replace("METHOD", repr(method)))
    s = session(2)
    s.run_file(program, "--lr", timeout=DEADLINE_S)
    assert s.run("told").values == [(True, str(rank), ["--lr"], "__mp_main__") for rank in range(2)]


DEFINED = """
import collections, enum, functools, operator
import multiprocessing as mp
from concurrent.futures import ProcessPoolExecutor
spawn = mp.get_context("spawn")
class Thing:
    def step(self, x): return x
    @staticmethod
    def make(x): return x
class Kind(enum.Enum): FIRST = 1
Pair = collections.namedtuple("Pair", "a b")
class Table(dict): pass
class Text(str): pass
class Row(tuple): pass
class Most(list): pass
class Rows:
    def __getitem__(self, place): return place
def work(x): return x
"""
CALLS = {
    "a pool": "with spawn.Pool(1) as pool: pool.map(work, [1])",
    "an executor": "with ProcessPoolExecutor(1, mp_context=spawn) as pool: pool.submit(work, 1).result()",
    "an initializer": "with spawn.Pool(1, initializer=work, initargs=(1,)) as pool: pool.map(abs, [1])",
    "a part of one": "spawn.Pool(1, initializer=functools.partial(work, 1)).apply_async(abs, (1,)).get()",
    "what one calls": "spawn.Pool(1, initializer=map, initargs=(work, [1])).apply_async(abs, (1,)).get()",
    "a class": "with spawn.Pool(1) as pool: pool.apply(Thing)",
    "a method": "with spawn.Pool(1) as pool: pool.apply(Thing().step, (1,))",
    "a static method": "with spawn.Pool(1) as pool: pool.apply(Thing.make, (1,))",
    "a tuple": "with spawn.Pool(1) as pool: pool.map(len, [Pair(1, 2)])",
    "a dict": "with spawn.Pool(1) as pool: pool.map(len, [Table(a=1)])",
    "a str": "with spawn.Pool(1) as pool: pool.map(repr, [Text('x')])",
    "a row": "with spawn.Pool(1) as pool: pool.map(len, [Row([1, 2])])",
    "a list": "with spawn.Pool(1) as pool: pool.map(len, [Most([1, 2])])",
    "an item": "with spawn.Pool(1) as pool: pool.apply(operator.getitem, (Rows(), 0))",
    "a member": "with spawn.Pool(1) as pool: pool.apply(repr, (Kind.FIRST,))",
}


@pytest.mark.parametrize("call", CALLS)
def test_calls_of_what_cells_define_fail_there_and_say_why(session, call):
    """They waited for ever: the process ended as it read what to call, and was started again."""
    s = session(1)
    s.run(DEFINED)
    with pytest.raises(
        CellError, match="is defined in a cell, and other processes do not have your cells: put it into"
    ):
        s.run(CALLS[call], timeout=DEADLINE_S)


def test_pools_of_threads_and_forked_ones_begin_with_what_cells_define(session):
    s = session(1)
    s.run("import multiprocessing.pool as pools\nseen = []\ndef begin(x): seen.append(x)")
    s.run("with pools.ThreadPool(1, begin, (5,)) as pool: told = pool.map(abs, [-1])")
    assert s.run("seen, told")[0] == ([5], [1])


MAIN_ONLY = """
import multiprocessing as mp
if __name__ == "__main__":
    def work(x): return x
    with mp.get_context("spawn").Pool(1) as pool: pool.apply(work, (1,))
"""


def test_calls_of_what_only_the_main_program_defines_fail_and_say_why(session, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(MAIN_ONLY)
    with pytest.raises(CellError, match="work is not defined when other processes"):
        session(1).run_file(program, timeout=DEADLINE_S)


@pytest.mark.parametrize("line", ["import disco_magic as disco", "from disco_magic import worker"])
def test_a_program_s_processes_may_import_disco_magic(session, tmp_path, line):
    # What stands there for cells was replaced as it was imported: the process ended, and was started again.
    program = tmp_path / "program.py"
    program.write_text(f"{line}\n{PROGRAM.replace('METHOD', repr('spawn'))}")
    s = session(1)
    s.run_file(program, timeout=DEADLINE_S)
    assert s.run("told[0]")[0]


def test_objects_of_cells_go_there_and_come_back(session):
    s = session(1)
    s.run(DEFINED)
    s.run("with spawn.Pool(1) as pool: kind = pool.apply(type, (Thing(),))", timeout=DEADLINE_S)
    assert s.run("kind is Thing")[0]


ASK = "import os; print(os.environ.get('RANK'), os.environ.get('DISCO_TEST'))"
COMMAND = f"[sys.executable, '-c', {ASK!r}]"
RUNS = {
    "run": f"subprocess.run({COMMAND}, capture_output=True, text=True).stdout",
    "given": f"subprocess.run({COMMAND}, capture_output=True, text=True, env=given).stdout",
    "by place": f"subprocess.Popen({COMMAND}, -1, None, None, -1, None, None, True, False, None, given)"
    ".communicate()[0].decode()",
}
BY_SHELL = """
import os, shlex, sys
path = f"told{os.environ['RANK']}"
ask = [sys.executable, "-c", "import os; raise SystemExit(40 + int(os.environ['RANK']))"]
program = shlex.join([sys.executable, "-c", "import os; print(os.environ.get('RANK'))"])
status = os.system(f"{program} > {path}"), os.system("exit 3") >> 8, os.system("kill -9 $$") & 0x7F
with open(path) as file:
    told = file.read(), status, os.spawnv(os.P_WAIT, sys.executable, ask)
"""


@pytest.mark.skipif(os.name == "nt", reason="a shell of POSIX")
def test_a_command_for_the_shell_has_the_rank_and_returns_the_status(session, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "program.py"
    program.write_text(BY_SHELL)
    s = session(2)
    s.run_file(program, timeout=DEADLINE_S)
    assert s.run("told").values == [(f"{rank}\n", (0, 3, 9), 40 + rank) for rank in range(2)]
    assert os.system("exit 3") >> 8 == 3  # noqa: S605, S607 - the notebook's is as it was


@pytest.mark.parametrize(
    ("how", "told"), [("run", "{} x\n"), ("given", "None y\n"), ("by place", "None y\n")]
)
def test_what_a_program_runs_has_its_rank_in_the_environment(session, tmp_path, monkeypatch, how, told):
    monkeypatch.setenv("DISCO_TEST", "x")
    program = tmp_path / "program.py"
    program.write_text(f"import subprocess, sys\ngiven = {{'DISCO_TEST': 'y'}}\ntold = {RUNS[how]}\n")
    s = session(2)
    s.run_file(program, timeout=DEADLINE_S)
    assert s.run("told").values == [told.format(rank) for rank in range(2)]
    assert s.run(f"import subprocess, sys\n{RUNS['run']}")[0] == "None x\n"
    assert "RANK" not in os.environ
    assert subprocess.check_output([sys.executable, "-c", ASK], text=True) == "None x\n"  # noqa: S603 - ours


@pytest.mark.parametrize("name", ["system", "chdir", "execv", "umask"])
def test_what_stands_for_a_function_of_os_can_be_sent_to_other_processes(session, name):
    """It named the module of the C function, ``posix``, and pickle found that one there.

    `pool.map(os.system, ...)` failed in the notebook, too, while a session was there.
    """
    before = getattr(os, name)
    session(1)
    assert getattr(os, name) is not before
    assert pickle.dumps(getattr(os, name), 0).split()[:2] == [b"cos", name.encode()]
