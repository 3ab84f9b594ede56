"""Collectives at the end of the stack: who does not get through raises, and nobody waits for it."""

from __future__ import annotations

import pytest

from disco_magic.errors import CellError

DEEP = """
import sys
def deep(k, function): return function() if k == 0 else deep(k - 1, function)
def depth():
    frame, count = sys._getframe(), 0
    while frame: frame, count = frame.f_back, count + 1
    return count
def close_to_the_limit(left, function): return deep(sys.getrecursionlimit() - depth() - left, function)
"""


def test_a_recursion_without_end_ends_in_its_own_error_on_all_workers(session):
    s = session(3)
    s.run(
        "def f():\n    if allreduce(np.ones(3)) is None: raise ValueError('nothing')\n    f()\n"
        "def g():\n    barrier()\n    g()"
    )
    for function in ("f", "g"):
        with pytest.raises(CellError) as caught:
            s.run(f"{function}()")
        assert type(caught.value.origin.exception) is RecursionError
        assert not any(type(each.exception) is ValueError for each in caught.value.failures.values())


@pytest.mark.parametrize("left", range(4, 40, 3))
def test_who_comes_close_to_the_limit_fails_alone_and_releases_the_others(session, left):
    s = session(3)
    s.run(DEEP)
    with pytest.raises(CellError, match=r"(?s)RecursionError.*worker 1 failed") as caught:
        s.run(f"close_to_the_limit({left}, barrier) if worker_id == 1 else barrier()", timeout=60)
    assert caught.value.origin.worker == 1
    assert s.run("int(allreduce(1))").values == [3] * 3


def test_who_has_room_enough_gets_through(session):
    s = session(2)
    s.run(DEEP)
    assert s.run("int(close_to_the_limit(120, lambda: allreduce(1)))").values == [2, 2]
