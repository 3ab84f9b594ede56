"""How many functions a cell calls that does nothing: the price of every cell, which grows call by call."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from itertools import pairwise
from statistics import median

import pytest

CELL = "%%disco\npass"
WARM = 5  # cells before those that are counted, in which caches are filled
COUNTED = 5

# With room for other versions: 15 % in the notebook, where 287 are IPython's own for any cell magic.
MOST_IN_THE_NOTEBOOK = 695  # 604 with Python 3.11 and IPython 9
MOST_ON_A_WORKER = 76  # 66, and what one does all workers do
MOST_FOR_A_VALUE = 182  # 158 on each worker for a number, most of them IPython's


@pytest.fixture(params=[CELL])
def counts(shell, request):
    """Thread -> how many functions it has called in a cell, in a notebook with four workers.

    The median of a few cells: one that takes long on a busy machine looks where its workers are.
    """
    found = Counter()

    def note(_frame, event, _argument):
        if event == "call":
            found[threading.get_ident()] += 1

    threading.setprofile(note)  # threads that begin now
    try:
        shell.keep_silent()
        shell.run("%disco start -n 4")
    finally:
        threading.setprofile(None)
    for _ in range(WARM):
        shell.run(request.param)
    after = [dict(found)]
    sys.setprofile(note)
    try:
        for _ in range(COUNTED):
            shell.ip.run_cell(request.param)
            after.append(dict(found))
    finally:
        sys.setprofile(None)
    return {
        thread: median(now.get(thread, 0) - before.get(thread, 0) for before, now in pairwise(after))
        for thread in found
    }


def test_a_cell_that_does_nothing_calls_few_functions_in_the_notebook(counts):
    assert counts[threading.get_ident()] < MOST_IN_THE_NOTEBOOK


def test_a_cell_that_does_nothing_calls_few_functions_on_each_worker(counts):
    assert on_workers(counts) < MOST_ON_A_WORKER


@pytest.mark.parametrize("counts", ["%%disco\n7"], indirect=True)
def test_a_number_as_the_last_value_calls_few_functions_on_each_worker(counts):
    assert on_workers(counts) < MOST_FOR_A_VALUE


def on_workers(counts):
    workers = [count for thread, count in counts.items() if thread != threading.get_ident()]
    assert len(workers) == 4
    return median(workers)  # of all; one of them ends last, and does what follows then
