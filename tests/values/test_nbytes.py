"""How many bytes a value takes."""

from __future__ import annotations

import random

import numpy as np
import pytest

from disco_magic.values.describe import describe
from disco_magic.values.sizes import nbytes_of


def test_sizes_run_no_code_of_a_class_or_of_its_class():
    class Meta(type):
        def __eq__(cls, other):
            raise AssertionError("nobody may run this")

        __hash__ = __eq__

    class Mine(metaclass=Meta):
        pass

    class Number(np.float64):
        nbytes = property(lambda _: 1 / 0)

    assert nbytes_of([Mine(), Number(1)]) == 8


class Holding:
    def __init__(self, held):
        self.held, self.me = held, self


@pytest.mark.parametrize(
    ("value", "nbytes"),
    [
        ([np.ones(1000), np.ones(10, "f4"), 3], 8040),
        ((np.ones(3), [np.ones(1000)]), 8024),
        ({"a": {"b": (np.ones(1000),)}, "c": 1}, 8000),
        (Holding(np.ones(10)), 80),
        ([Holding(np.ones(10))] * 2, 80),
        ({"w": np.ones(1000), "name": "abc"}, 8003),
        ([np.ones(1) for _ in range(1200)], 8_000),
        ([np.ones(1)] * 20, 8),
        (bytearray(7), 7),
        ([], 0),
    ],
    ids=[
        "list",
        "a list in it",
        "in any depth",
        "an object",
        "several times",
        "dict",
        "the first thousand",
        "each once",
        "bytearray",
        "empty",
    ],
)
def test_containers_have_the_bytes_of_their_items(value, nbytes):
    assert nbytes_of(value) == nbytes
    assert describe(value).nbytes == nbytes


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState, random.Random])
def test_random_generators_have_no_bytes(make):
    # The name of the algorithm was counted, "5 B".
    assert describe(make(0)).nbytes == describe([make(0)]).nbytes == 0
