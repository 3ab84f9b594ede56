"""The shard functions that tests of the ShardLoader use."""

from __future__ import annotations

import numpy as np
import pytest

import disco_magic as disco


def axis_0(whole, parts, out):
    out[:] = whole.reshape(parts, *out.shape[1:])


def axis_1(whole, parts, out):
    out[:] = whole.reshape(whole.shape[0], parts, -1).transpose(1, 0, 2)


def negated(whole, out):
    np.negative(whole, out=out)


def spoilt(whole, parts, out):
    whole[:] = 0
    axis_0(whole, parts, out)


@pytest.fixture(autouse=True)
def registered():
    """The shard functions that the tests use."""
    functions = {"test.axis_0": axis_0, "test.axis_1": axis_1, "test.negated": negated, "test.spoilt": spoilt}
    for name, function in functions.items():
        disco.register_func(name, function, override=True)
    yield
    for name in functions:
        disco.remove_func(name)
