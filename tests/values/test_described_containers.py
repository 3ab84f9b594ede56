"""Lists, tuples, dicts and sets in tables: small ones of numbers and texts are shown and compared."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

from disco_magic.core.snapshot import Row
from disco_magic.values.describe import describe
from disco_magic.values.divergence import survey
from tests.values.values import net


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
    structured = np.zeros(100, [("a", object)])
    structured["a"][0] = Number(1)
    for value in (Number(1), structured[0], [Number(1)]):
        info = describe([value] * 100)
        assert info.text == "100 items"
    assert describe([structured[0]]).fingerprint == b""


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


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([*range(1000)], [*range(999), 0]),
        ((0.5,) * 1000, (0.5,) * 999 + (0.25,)),
        ([np.float64(1)] * 300, [np.float64(1)] * 299 + [np.float64(2)]),
        (["a"] * 500, ["a"] * 499 + ["b"]),
    ],
    ids=["ints", "floats", "of NumPy", "texts"],
)
def test_long_lists_of_numbers_and_texts_are_compared(one, other):
    row = described(one, one, other)
    assert row.odd() == (False, False, True)
    assert row.compared
    assert not row.cells[0].sampled


@pytest.mark.parametrize(
    ("value", "sample"),
    [
        ([0] * 5000, 65_536),
        ([0] * 70_000, 1 << 24),
        ([np.float64(1)] * 5000, 1 << 24),
        (["a" * 1000] * 1100, 65_536),
        ([[0]] * 600, 65_536),
        ([0] * 1000 + [threading], 1 << 24),
    ],
    ids=["for the sample", "at all", "of NumPy", "texts", "containers", "objects"],
)
def test_too_long_ones_are_not_compared(value, sample):
    info = describe(value, sample)
    assert (info.fingerprint, info.text) == (b"", f"{len(value):,} items")


def test_items_in_items_and_long_texts_count():
    assert describe([[1] * 32] * 2).fingerprint
    assert describe([[1] * 600] * 2).fingerprint == b""
    for length, is_part in ((1000, False), (100_000, True)):
        info = describe(["a" * length])
        assert (bool(info.fingerprint), info.sampled) == (True, is_part)
    assert describe([""] * 255).fingerprint
    assert describe([[""]] * 600).fingerprint == b""


class Net:
    def __init__(self, n, act=len):
        self.layers = [{"w": np.zeros(n)} for _ in range(3)]
        self.act, self.name, self.none = act, "net", None


def changed(made, change):
    change(made)
    return made


@pytest.mark.parametrize(
    ("change", "equal"),
    [
        (lambda _: None, True),
        (lambda net: net.layers[1]["w"].__setitem__(2, 1.0), False),
        (lambda net: net.layers[1].update(more=1), False),
        (lambda net: setattr(net, "name", "other"), False),
        (lambda net: setattr(net, "act", abs), False),
        (lambda net: net.layers.append({"w": np.zeros(5)}), False),
        (lambda net: net.layers.__setitem__(0, {"w": np.zeros(5, "f4")}), False),
    ],
)
@pytest.mark.parametrize("wrap", [lambda net: net, lambda net: {"net": net, "n": 1}, lambda net: (net,)])
def test_what_is_in_objects_and_containers_is_compared(wrap, change, equal):
    row = described(wrap(Net(5)), wrap(changed(Net(5), change)), wrap(Net(5)))
    assert row.compared
    assert row.differs is not equal
    assert row.odd() == (False, not equal, False)


@pytest.mark.parametrize("other", [threading.Lock(), np.array([object()]), {1, threading}, {threading: 1}])
def test_of_what_is_not_all_seen_nothing_is_said(other):
    assert describe({"w": np.zeros(2), "other": other}).fingerprint == b""


def test_large_arrays_in_one_are_sampled():
    info = describe({"w": np.zeros(1 << 20)})
    assert info.fingerprint
    assert info.sampled
    assert not describe({"w": np.zeros(3)}).sampled


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


def test_what_a_module_s_own_code_adds_to_its_state_is_not_asked_and_the_rest_is_compared():
    module = net()
    module.__class__ = type("Net", (type(module),), {"get_extra_state": lambda self: 1 / 0})
    (held,) = [held for path, held in survey("net", module, values=True) if path == "net._extra_state"]
    assert "own code writes it" in held.opaque
    for each in module._modules.values():
        each._parameters = {"weight": np.ones(3)}
    before = describe(module)
    assert before.sampled
    assert describe(module).fingerprint == before.fingerprint
    module._modules["0"]._parameters["weight"] += 1
    assert describe(module).fingerprint != before.fingerprint


def test_attributes_that_are_no_fields_are_compared():
    @dataclass
    class Config:
        n: int = 3

        def __post_init__(self):
            self.w = np.zeros(self.n)

    odd = Config()
    odd.w[1] = 1
    assert described(Config(), odd, Config()).odd() == (False, True, False)
    odd = Config()
    odd.later = 2
    assert described(Config(), odd, Config()).odd() == (False, True, False)


def test_attributes_of_a_class_derived_from_a_named_tuple_are_not_left_out():
    class Plain(NamedTuple):
        x: int

    point = type("Point", (Plain,), {})(1)
    assert describe({"p": point}).fingerprint
    point.y = 2
    assert describe({"p": point}).fingerprint == b""


@pytest.mark.parametrize(
    ("value", "nans", "infs"),
    [
        ({"w": np.array([1, np.nan, np.inf, -np.inf]), "n": [np.float32("nan")]}, 2, 2),
        ([1.0, float("nan"), -float("inf")], 1, 1),
        ({"loss": float("nan"), "w": np.ones(2)}, 1, 0),
        ({"w": np.ones(2), "n": np.arange(3), "t": "nan"}, 0, 0),
        ({"w": np.full(2, np.nan), "lock": threading.Lock()}, None, None),
    ],
)
def test_what_is_none_in_containers_is_counted(value, nans, infs):
    info = describe(value)
    assert (info.nans, info.infs) == (nans, infs)


def test_as_text_a_container_says_what_was_looked_at_and_found():
    row = described(*[{"w": np.full(1 << 20, np.nan)}] * 2)
    assert str(row).endswith("1 item (sample) \u00b7 32,768 NaN")
    row = described(*[{"w": np.ones(2), "lock": threading.Lock()}] * 2)
    assert str(row).endswith("2 items \u00b7 compared by type only")


@pytest.mark.parametrize(
    "value",
    [
        [np.float64(1)] * 99 + [np.float64("nan")],
        [[1.0] * 30, [float("nan")] * 1],
        {"a": {"l": float("nan")}, "s": "nan"},
        {
            "loss": np.float64("nan"),
            "step": 3,
            "name": "so long a text that the whole is no longer shown by itself",
        },
    ],
)
def test_numbers_in_numbers_and_numpy_s_are_counted(value):
    assert (describe(value).nans, describe(value).infs) == (1, 0)


def test_order_masks_and_labels_are_not_left_out():
    one, other = OrderedDict(a=1, b=np.ones(2)), OrderedDict(b=np.ones(2), a=1)
    assert described({"o": one}, {"o": other}, {"o": one}).odd() == (False, True, False)
    assert not described({"m": np.ma.array([1, 2], mask=[1, 0])}, {"m": np.ma.array([1, 2])}).compared
    pandas = pytest.importorskip("pandas")
    frames = [{"df": pandas.DataFrame({"a": [1, 2]}, index=[0, last])} for last in (1, 2, 1)]
    assert described(*frames).odd() == (False, True, False)
    assert described(*[{"df": pandas.DataFrame({"a": [1]}, index=[object()])}] * 2).compared is False


def test_where_little_is_looked_at_fewer_parts_are_compared():
    many = dict.fromkeys(range(500), 0.5)
    assert [bool(describe({"m": many}, sample).fingerprint) for sample in (512, 65_536)] == [False, True]


def test_long_lists_of_numbers_say_that_they_were_not_compared():
    assert str(described(*[[0.5] * 5000] * 2)).endswith("5,000 items \u00b7 compared by type only")
