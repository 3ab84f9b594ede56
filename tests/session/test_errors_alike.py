"""The error of a cell does not depend on who came first, and who left first."""

from __future__ import annotations

import re

import pytest

from disco_magic.errors import CellError
from disco_magic.testing.doubles import Gate
from tests.conftest import until

WRAPPED = """\
def step():
    try:
        allreduce(1)
    except Exception as e:
        raise RuntimeError("step failed") from e
"""
ORDERS = [(0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1), (1, 3, 0, 2)]


@pytest.fixture
def told(session):
    """The error of a cell in which workers go on one after the other, without the cell's number."""

    def run(code, order):
        gates = [Gate() for _ in range(4)]
        s = session(4, extras=lambda context: {"gates": gates})
        plane = s._launcher.plane
        pending = s.run_nowait(f"gates[worker_id]()\n{code}")
        for worker in order:
            gates[worker].open()
            until(lambda w=worker: w in plane.waiting or plane.left[w] >= pending.seq)
        with pytest.raises(CellError) as caught:
            pending.wait()
        return re.sub(r"Cell \d+", "Cell N", str(caught.value))

    return run


@pytest.mark.parametrize(
    "code",
    [
        "if worker_id != 3: barrier()",
        "if worker_id > 1: barrier()",
        "if worker_id == 1: 1 / 0\nallreduce(1)",
        "if worker_id in (1, 2): int('x')\nallreduce(1)",
        "if worker_id == 1: int('x')\nif worker_id == 2: 1 / 0\nallreduce(1)",
        "for i in range(3):\n    allreduce(1)\n    if worker_id == i + 1: raise ValueError('stop')",
        "if worker_id == 0: barrier(over=[0, 1])\nif worker_id == 1: barrier(over=[1, 2, 3])",
        "if worker_id < 2: barrier(over=[0, 1, 2])\nif worker_id == 2: barrier(over=[2, 3])\nelse: 1 / 0",
        f"{WRAPPED}if worker_id == 2: 1 / 0\nstep()",
        f"{WRAPPED}if worker_id == 2: raise RuntimeError('own')\nstep() if worker_id else allreduce(1)",
        "recv((worker_id + 1) % 4)",
        "recv(worker_id ^ 1)",
        "recv(1) if worker_id == 0 else barrier()",
    ],
)
def test_an_error_says_the_same_whoever_came_and_left_first(told, code):
    first, *others = [told(code, order) for order in ORDERS]
    assert others == [first] * 3
    assert "executing" not in first


@pytest.mark.parametrize(
    "call",
    [
        "try: allreduce(1)\nexcept Exception as e: raise RuntimeError('step failed') from e",
        "try: allreduce(1)\nexcept Exception: int('x')",
        "async def f(): allreduce(1)\nasync with __import__('asyncio').TaskGroup() as g: g.create_task(f())",
    ],
    ids=["wrapped", "cleaning up", "tasks"],
)
def test_who_failed_is_blamed_and_not_who_raised_something_else_once_released(session, call):
    s = session(4)
    with pytest.raises(CellError, match=r"failed on worker 2 \(and 3 others\)") as caught:
        s.run(f"if worker_id == 2: 1 / 0\n{call}")
    assert caught.value.origin.summary == "ZeroDivisionError: division by zero"
    assert "    if worker_id == 2: 1 / 0" in str(caught.value)
    assert sorted(caught.value.failures) == [0, 1, 2, 3]
