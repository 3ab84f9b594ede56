"""``%%disco --check lines`` in a real shell: collectives that were called in another order."""

from __future__ import annotations

import pytest

from disco_magic.errors import Divergence
from disco_magic.session.current import session

# --- lines -----------------------------------------------------------------------------------------


CALL = "allreduce(int, op=sum)"
EXCHANGED = """\
if worker_id == 0:
    a = allreduce(1)
    b = allreduce(2)
else:
    b = allreduce(2)
    a = allreduce(1)"""


def test_calls_in_another_order_that_fit_fail_a_check_of_lines(four):
    four.run(f"%%disco\n{EXCHANGED}\na")
    assert four.lines == ["[0]   7", "[1-3] 5"]  # where 4 is right
    error = four.fail(f"%%disco --check lines --out r\n{EXCHANGED}", Divergence)
    assert str(error).splitlines()[:4] == [
        "Cell In[4]: calls from different lines met in 2 of 2 collectives",
        "",
        f"  call 1, {CALL}: worker 0 at Cell In[4], line 3, workers [1-3] at Cell In[4], line 6",
        f"  call 2, {CALL}: worker 0 at Cell In[4], line 4, workers [1-3] at Cell In[4], line 7",
    ]
    assert error.result is four.ip.user_ns["r"]
    assert not any("Traceback" in line or "disco_magic/" in line for line in four.lines)
    four.run("%disco log")
    assert "diverged: calls from different lines met in 2 of 2 collectives" in four.out


def test_an_order_exchanged_behind_a_helper_function_is_found(four):
    four.run("%%disco\ndef summed(x):\n    return allreduce(x)\ndef step(x):\n    return summed(x)")
    cell = EXCHANGED.replace("allreduce", "step")
    error = four.fail(f"%%disco --check lines\n{cell}", Divergence)
    assert str(error).splitlines()[2:4] == [
        (
            f"  call 1, {CALL} at Cell In[3], line 3, called by worker 0 from Cell In[4], line 3, "
            "workers [1-3] from Cell In[4], line 6"
        ),
        (
            f"  call 2, {CALL} at Cell In[3], line 3, called by worker 0 from Cell In[4], line 4, "
            "workers [1-3] from Cell In[4], line 7"
        ),
    ]
    four.run("%%disco --check lines\nfor i in range(3): step(i)")
    assert four.lines[0] == "check 3 collectives met at the same lines"
    four.run(f"%%disco\n{cell}")
    assert not any(span.callers for span in session().timeline().of_cell().spans)


def test_a_check_of_lines_that_finds_nothing_says_what_it_has_compared(four):
    four.run(
        "%%disco --check lines\nx = broadcast(1) if worker_id == 0 else \\\n    broadcast(None)\nbarrier()"
    )
    assert four.lines == [
        "check 2 collectives met at the same lines",
        "check [0-3] agree on type and shape of: x",
    ]
    four.run("%%disco --check lines\nx = 1")
    assert four.lines[0] == "check 0 collectives met at the same lines"


def test_a_check_of_lines_says_that_messages_are_not_compared(four):
    ring = "send(worker_id, (worker_id + 1) % 4)\nx = recv((worker_id - 1) % 4)"
    four.run(f"%%disco --check lines\n{ring}\nbarrier()")
    assert four.lines[0] == "check 1 collective met at the same lines; 4 messages not compared"
    four.run("%%disco --check lines\nif worker_id == 0: send_object('a', 1)\nif worker_id == 1: recv()")
    assert four.lines[0] == "check 0 collectives met at the same lines; 1 message not compared"


def test_a_check_of_lines_compares_types_too_but_lines_come_first(four):
    four.fail("%%disco --check lines\nx = np.zeros(worker_id)", Divergence)
    assert "'x' differs" in four.out
    error = four.fail(
        "%%disco --check lines\nx = np.zeros(worker_id)\nif worker_id:\n    barrier()\nelse:\n    barrier()",
        Divergence,
    )
    assert "calls from different lines met in 1 of 1 collective" in str(error)


def test_each_of_the_first_ten_collectives_at_different_lines_is_listed(four):
    error = four.fail(
        "%%disco --check lines\nfor i in range(12):\n  if worker_id: barrier()\n  else: barrier()", Divergence
    )
    assert str(error).count("barrier()") == 10
    assert "  ... and 2 more" in str(error).splitlines()


@pytest.mark.unmeasured  # six thousand calls go the ways of one
def test_records_that_were_dropped_are_told(four):
    four.run("%%disco --check lines\nfor i in range(6000): allreduce(1)")
    kept, _, dropped = four.lines[0].partition("; ")
    count = int(kept.split()[1].replace(",", ""))
    assert 1000 < count < 6000
    assert dropped == f"those before call {6001 - count:,} are no longer known"


TASKS = """
import asyncio
async def step(x, rounds):
    for _ in range(rounds):
        await asyncio.sleep(0)
    return float(allreduce(x))
first, second = ({}, {}) if worker_id == 3 else (0, 9)
found = await asyncio.gather(step(1.0, first), step(10.0, second))
"""


def test_tasks_that_call_collectives_in_another_order_are_found_though_their_lines_are_the_same(four):
    error = four.fail(f"%%disco --check lines{TASKS.format(9, 0)}", Divergence)
    head, _, first, second, *_ = str(error).splitlines()
    assert head.endswith("calls from different lines or asyncio tasks met in 2 of 2 collectives")
    assert first.endswith("called by workers [0-2] from asyncio task 1, worker 3 from asyncio task 2")
    assert second.endswith("called by workers [0-2] from asyncio task 2, worker 3 from asyncio task 1")


def test_tasks_that_call_collectives_in_the_same_order_are_not(four):
    four.run(f"%%disco --check lines{TASKS.format(0, 9)}")
    assert "2 collectives met at the same lines" in four.out


GROUPS = """
import asyncio
async def total(members):
    return float(allreduce(1.0, over=members))
for members in [[0, 1], [1, 2], [2, 3]]:
    if worker_id in members:
        await asyncio.create_task(total(members), name=f"of-{worker_id}" if worker_id == 3 else None)
"""


def test_a_worker_that_has_tasks_for_more_groups_than_another_one_calls_in_the_same_order(four):
    four.run(f"%%disco --check lines{GROUPS}")
    assert "3 collectives met at the same lines" in four.out
