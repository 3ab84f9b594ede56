"""Workers that fail alike, each for a neighbour of its own, are a line of the error and not one for each."""

from __future__ import annotations

import pytest

from disco_magic import ThreadedSession
from disco_magic.errors import CellError

RING = """
if worker_id == 0:
    raise ValueError("bad boundary")
recv(worker_id - 1)
send(np.ones(3), (worker_id + 1) % num_workers)
"""


def lines_of(workers, code):
    with ThreadedSession(workers) as session, pytest.raises(CellError) as caught:
        session.run(code)
    return [line for line in str(caught.value).splitlines() if line.startswith("[")]


def test_waits_of_a_chain_for_their_neighbours_are_one_line():
    first, others = lines_of(6, RING)
    assert first == "[0] ValueError: bad boundary"
    start = "[1-5] PlaneAborted: worker 0 failed - without it, recv from worker 0 that worker 1 waits"
    assert others.startswith(start)
    assert others.endswith("line 4 cannot complete (likewise on 4 others)")


def test_two_waits_keep_their_lines_and_the_text_of_the_failure():
    lines = lines_of(3, RING)
    assert [line[:16] for line in lines] == ["[0] ValueError: ", "[1] PlaneAborted", "[2] PlaneAborted"]
    assert all("worker 0 failed: ValueError: bad boundary" in line for line in lines[1:])


def test_waits_for_one_that_has_not_sent_are_one_line():
    (line,) = lines_of(6, "if worker_id:\n    recv(0)")
    assert line.startswith("[1-5] PlaneAborted: worker 0 finished without a send for recv from worker 0")
    assert line.endswith("it needs a send(..., 1) on worker 0 in the same command (likewise on 4 others)")


def test_a_line_for_waits_of_several_reasons_names_all_who_are_to_blame():
    """It named the first one only, and nothing else names a worker that has just finished."""
    (line,) = lines_of(8, "if worker_id % 4:\n    recv(worker_id // 4 * 4)")
    assert line.startswith("[1-3,5-7] PlaneAborted: worker 0 finished without a send for recv from worker 0")
    assert line.endswith("in the same command (likewise on 5 others, because of worker 4)")
    (line,) = lines_of(8, "if worker_id % 2:\n    recv(worker_id - 1)")
    assert line.endswith("(likewise on 3 others, because of workers [2,4,6])")


def test_waits_that_differ_in_what_was_called_keep_their_lines():
    lines = lines_of(4, "if worker_id == 0:\n    1 / 0\nrecv(worker_id - 1, tag=worker_id)")
    assert len(lines) == 4
