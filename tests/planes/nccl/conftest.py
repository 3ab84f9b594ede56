"""The double of NCCL, empty at the beginning of each test and at its end.

The tests import `tests.doubles.nccl_ranks` and are skipped then where the double cannot be used. Here only
fixtures import it, for a conftest.py cannot be skipped.
"""

from __future__ import annotations

import functools

import pytest


@pytest.fixture
def double(background):
    """The double. It comes after `background`, so that it ends the calls that `background` waits for."""
    from tests.doubles.nccl_ranks import empty_double

    with empty_double() as made:
        yield made


@pytest.fixture
def no_mistakes(double):
    """For a whole file of correct programs: the double must have seen no mistake at the end."""
    yield
    assert double.mistakes == []


@pytest.fixture(params=[False, True], ids=["no stream", "streams"])
def world(request, double):
    """Runs ranks, see `run_world`."""
    from tests.doubles.nccl_ranks import run_world

    return functools.partial(run_world, streams=request.param)


@pytest.fixture
def stream(double):
    """What stands for a CUDA stream."""
    from tests.doubles.nccl_ranks import Stream

    made = Stream()
    yield made
    left = double.abort_all()  # what a failed test has left there ends, so that the thread can end
    made.close()
    assert left == 0
