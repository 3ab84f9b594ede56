"""Lists, tuples, dicts and sets in tables: small ones of numbers and texts are shown and compared."""

from __future__ import annotations

import numpy as np
import pytest

from disco_magic.core.snapshot import Row
from disco_magic.functions.describe import describe
from tests.functions.values import net


def described(*values):
    """A row of a table, a value per worker."""
    return Row("x", tuple(map(describe, values)))


class Number(np.float64):
    """A number of the user's own."""

    def __repr__(self):
        raise AssertionError("nobody may run this")

    __eq__ = __hash__ = __bytes__ = __repr__


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([1, 2], "[1, 2]"),
        ((), "()"),
        ({"a": (1, [2.5, None])}, "{'a': (1, [2.5, None])}"),
        ({1}, "{1}"),
        (frozenset(), "frozenset()"),
        ([np.float32(1)], repr([np.float32(1)])),
        (list(range(50)), "50 items"),
        (list(range(500)), "500 items"),
        ([len], "1 item"),
        ([10**5000], "1 item"),
        ({1: len, 2: 3}, "2 items"),
        ({int: 1}, "1 item"),
    ],
    ids=lambda value: str(type(value)),
)
def test_what_fits_is_shown_and_of_others_how_many_there_are(value, text):
    info = describe(value)
    assert info.text == text
    assert info.items == len(value)


def test_no_code_of_the_users_runs():
    structured = np.zeros(1, [("a", object)])
    structured["a"][0] = Number(1)
    for value in (Number(1), structured[0], [Number(1)]):
        info = describe([value])
        assert (info.text, info.fingerprint) == ("1 item", b"")


@pytest.mark.parametrize(
    ("first", "second", "equal"),
    [
        ([1, 2], [1, 2], True),
        ([1, 2], [1, 3], False),
        ([1, 2], [1, 2, 3], False),
        ([], [], True),
        ([], [0], False),
        ((1,), [1], False),
        ({"lr": 0.1, "n": [1]}, {"lr": 0.1, "n": [1]}, True),
        ({"lr": 0.1}, {"lr": 0.2}, False),
        ({1, "a"}, {"a", 1}, True),
        (list(range(1000)), list(range(1001)), False),
        ([len], [len, len], False),
    ],
)
def test_small_ones_are_compared_and_all_by_their_length(first, second, equal):
    row = described(first, second)
    assert row.differs is not equal
    assert row.alike is equal


def test_of_several_the_odd_one_is_marked():
    assert described([1], [1], [2], [1]).odd() == (False, False, True, False)
    assert described([len], [len, len], [len]).odd() == (False, True, False)


def test_large_ones_are_not_compared():
    row = described([*range(1000)], [*range(1, 1001)])
    assert (row.differs, row.alike, row.compared) == (False, True, False)


def test_items_in_items_and_long_texts_count():
    assert describe([[1] * 32] * 2).fingerprint == b""
    assert describe([[1] * 32]).fingerprint
    assert describe(["a" * 10_000]).fingerprint == b""
    assert describe(["a" * 1000]).fingerprint
    assert describe([""] * 63).fingerprint
    assert describe([""] * 64).fingerprint == b""


def test_one_that_contains_itself_comes_to_an_end():
    circle = []
    circle.append(circle)
    assert describe(circle).text == "1 item"


def test_without_a_sample_nothing_is_looked_into():
    assert describe([1, 2], 0).text == "2 items"


def test_a_class_that_cells_define_is_called_the_same_on_all_workers():
    made = [type("P", (), {"__module__": "__disco__"})() for _ in range(2)]
    row = described(*made)
    assert row.alike
    assert row.cells[0].text == "P"


def test_a_module_of_pytorch_is_described_by_its_arrays():
    info = describe(net())
    assert (info.type, info.text, info.nbytes, info.device) == ("Module", "2 arrays", 8 * 8, "cuda:0")
    empty = type(net())()
    empty._parameters, empty._buffers, empty._modules = {}, {}, {}
    assert (describe(empty).text, describe(empty).device) == ("", "cpu")


def test_weights_that_are_tied_count_once():
    module = net()
    module._modules["out"]._parameters["again"] = module._modules["0"]._parameters["weight"]
    assert (describe(module).text, describe(module).nbytes) == ("2 arrays", 8 * 8)
