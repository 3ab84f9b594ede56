"""Cells through a session: values, output, errors, groups, subsets."""

from __future__ import annotations

import random

import pytest

import disco_magic as disco
from disco_magic.callers import namespaces
from disco_magic.functions.execution.cells import compile_cell
from disco_magic.isolation.standing_modules import IMPORTS

sizes = pytest.mark.parametrize("n", [1, 2, 3, 4])


# --- running ---------------------------------------------------------------------------------------


@sizes
def test_a_cell_runs_on_every_worker_in_its_own_namespace(session, n):
    s = session(n)
    result = s.run("x = worker_id\nx += num_workers\nx")
    assert result.values == [n + i for i in range(n)]


def test_names_stay_from_cell_to_cell(session):
    s = session(2)
    s.run("x = worker_id")
    s.run("x += 10")
    assert s.run("x").values == [10, 11]


@pytest.mark.parametrize("workers", [[0], [2, 1], [0, 2]], ids=str)
def test_a_cell_can_run_on_some_workers(session, workers):
    s = session(3)
    result = s.run("x = worker_id\nx", workers=workers)
    assert result.workers == tuple(sorted(workers))
    assert result.values == sorted(workers)
    assert [("x" in s._launcher.workers[w].registers.names) for w in range(3)] == [
        w in workers for w in range(3)
    ]


def test_workers_may_be_given_by_what_can_be_read_once(session):
    """They were read for the output, and again for the cell, which then had none."""
    s = session(3)
    assert s.run("worker_id", workers=iter([2, 0])).values == [0, 2]
    assert s.run_nowait("worker_id", workers=iter([1])).wait().values == [1]


def test_bad_syntax_sends_nothing(session):
    s = session(2)
    before = (s.ledger.seq, s.ledger.live_registers)
    with pytest.raises(SyntaxError):
        s.run("x = = 1")
    assert (s.ledger.seq, s.ledger.live_registers) == before


def test_a_compiled_cell_can_be_run(session):
    cell = compile_cell("worker_id", label="Cell In[7]")
    assert session(2).run(cell).label == "Cell In[7]"


def test_top_level_await_works_and_workers_await_apart(session):
    source = (
        "from asyncio import gather, sleep\nawait sleep(0)\nawait gather(*(sleep(0, i) for i in range(2)))"
    )
    assert session(2).run(source).values == [[0, 1], [0, 1]]


def test_a_cell_sees_its_worker_with_all_attributes(session):
    result = session(4, 2).run(
        "(worker.id, worker.group, worker.group_rank, worker.group_size, worker.num_groups)"
    )
    assert result.values == [(0, 0, 0, 2, 2), (1, 0, 1, 2, 2), (2, 1, 0, 2, 2), (3, 1, 1, 2, 2)]


def test_names_a_front_end_adds_are_behind_the_namespace(session):
    s = session(2, extras=lambda context: {"greeting": f"hello {context.id}"})
    assert s.run("greeting").values == ["hello 0", "hello 1"]
    assert s.names() == ()


def test_extras_that_are_no_function_are_refused():
    with pytest.raises(disco.UsageMistake, match=r"extras is a function .* got dict"):
        disco.ThreadedSession(2, extras={"greeting": "hello"})


def test_extras_that_fail_start_nothing():
    def extras(context):
        if context.id == 1:
            raise RuntimeError("no facade")
        return {}

    with pytest.raises(disco.errors.LaunchError, match="2 worker threads could not be started: no facade"):
        disco.ThreadedSession(2, extras=extras)


def test_who_is_interrupted_while_workers_are_made_leaves_nothing_behind():
    def extras(context):
        if context.id == 1:
            raise KeyboardInterrupt
        return {}

    before = namespaces.in_use(), random.random
    with pytest.raises(KeyboardInterrupt):
        disco.ThreadedSession(2, extras=extras, own_modules=["whatever"])
    assert (namespaces.in_use(), random.random) == before
    assert not IMPORTS


def test_a_task_made_in_the_body_can_be_awaited_in_the_last_line(session):
    source = "import asyncio\nt = asyncio.create_task(asyncio.sleep(0, worker_id))\nawait t"
    assert session(2).run(source).values == [0, 1]


def test_body_and_last_line_share_an_event_loop(session):
    source = "import asyncio\nt = asyncio.ensure_future(asyncio.sleep(0, 7))\nawait asyncio.sleep(0)\nawait t"
    assert session(1).run(source).values == [7]


def test_functions_of_cells_have_code_of_their_own_on_every_worker(session):
    # Compilers keep what they have made of it there.
    s = session(3)
    s.run("def f():\n    return lambda: 1\nclass A:\n    def g(self): pass")
    held = s.run("f.__code__, f().__code__, A.g.__code__").values
    for codes in zip(*held, strict=True):
        assert len({id(code) for code in codes}) == 3
        assert len(set(codes)) == 1
    s.run("import asyncio\nawait asyncio.sleep(0)\ndef h(): pass")
    assert len({id(code) for code in s.run("h.__code__").values}) == 3
