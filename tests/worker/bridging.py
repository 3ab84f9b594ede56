"""Commands that cross bridges into libraries, in the test's own thread."""

from __future__ import annotations

import types

import pytest

from disco_magic.core.messages import Call
from disco_magic.functions import bridges

AT_THE_END = "interrupted in a call of a library"
STRUCK = "the command was interrupted"


@pytest.fixture
def served(bench):
    """The test's own thread is the worker's."""
    bridges.serve(bench.worker.lane, bench.worker.mutex)
    yield
    bridges._here.lane = None


def code_of(module, function):
    """`function`, as if `module` had defined it."""
    names = {**function.__globals__, "__name__": module}
    return types.FunctionType(function.__code__, names, closure=function.__closure__)


def ended(bench, program):
    """What a command that executes `program` ended with."""
    (event,) = bench.serve(Call(1, 5, program, ()))
    return str(event.failure.exception)
