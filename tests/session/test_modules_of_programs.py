"""What modules beside a program keep in global variables is each worker's own, as in processes."""

from __future__ import annotations

import sys

import pytest

from disco_magic.functions.scripts import compile_file
from disco_magic.functions.standing_modules import Standing

STATE = """
rank = None
executed = []
executed.append(1)

class Thing: pass

def set_up(number):
    global rank
    rank = number
"""
PROGRAM = """
import NAME
NAME.set_up(worker_id)
barrier()
found = NAME.rank
thing = NAME.Thing()
"""


@pytest.fixture
def program(tmp_path, module_of):
    """A program, and the name of a module beside it, which the notebook has imported before."""
    name = module_of(STATE)
    (tmp_path / "program.py").write_text(PROGRAM.replace("NAME", name))
    return tmp_path / "program.py", name


@pytest.mark.parametrize(("own", "found"), [(None, [0, 1, 2]), (["json_of_nobody"], [0, 1, 2])])
def test_each_worker_has_its_own_from_the_first_program_on(session, program, own, found):
    path, name = program
    s = session(3, own_modules=own)
    s.run(f"import {name} as before\nbefore.set_up(-1)")
    s.run_file(path)
    assert s.run("found").values == found
    assert s.run(f"import {name}\n{name}.rank, before.rank").values == [(rank, -1) for rank in found]
    assert s.own_modules == (own if own is None else tuple(own))


def test_a_session_that_was_told_so_has_all_share_them(session, program):
    path, name = program
    s = session(3, own_modules=())
    s.run_file(path)
    assert len(set(s.run("found").values)) == 1
    assert not isinstance(sys.modules[name], Standing)


def test_cells_alone_share_them(session, program):
    _, name = program
    s = session(2)
    s.run(f"import {name}\n{name}.set_up(worker_id)\nbarrier()")
    assert len(set(s.run(f"{name}.rank").values)) == 1


def test_what_goes_from_worker_to_worker_becomes_the_receiver_s(session, program):
    path, name = program
    s = session(2)
    s.run_file(path)
    got = s.run(f"import {name}\nall(type(each) is {name}.Thing for each in allgather_objects(thing))")
    assert got.values == [True, True]


def test_the_notebook_has_what_it_imports_and_all_is_as_before_when_the_session_ends(session, program):
    path, name = program
    mine = __import__(name)
    s = session(2)
    s.run_file(path)
    s.run_file(path)
    assert (mine.rank, mine.executed) == (None, [1])
    assert __import__(name).rank is None
    assert s.run(f"import {name}\n{name}.executed").values == [[1], [1]]
    s.restart()
    assert s.run(f"import {name}\n{name}.rank").values == [None, None]
    s.shutdown()
    assert sys.modules[name] is mine


def test_two_programs_at_once_begin_to_have_their_own(session, program):
    path, _ = program
    sessions = [session(2) for _ in range(3)]
    on_their_way = [s.run_nowait(compile_file(path)) for s in sessions]
    for each in on_their_way:
        each.wait()
    assert [s.run("found").values for s in sessions] == [[0, 1]] * 3
