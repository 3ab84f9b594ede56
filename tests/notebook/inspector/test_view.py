"""Which registers the controls above the table leave, and in which order."""

from __future__ import annotations

import pytest

from disco_magic.core.snapshot import RegisterInfo, Row, SessionSnapshot
from disco_magic.notebook.inspector.view import KINDS, ORDERS, SIZES, View, dtypes, largest


def array(dtype="float32", shape=(2, 3), nbytes=24, mark=b"a", **changes):
    return RegisterInfo("ndarray", shape, dtype, "cpu", nbytes, fingerprint=mark, **changes)


ROWS = (
    Row("w_in", (array(), array())),
    Row("W_out", (array("float16", (64, 64), 8192), array("float16", (64, 64), 8192, b"b"))),
    Row("loss", (RegisterInfo("float", text="0.5", fingerprint=b"c"),) * 2),
    Row("bad", (array(nans=3), array(nans=3))),
    Row("inf", (array(infs=1), array(infs=1))),
    Row("nan", (RegisterInfo("float", text="nan"),) * 2),
    Row("half", (None, RegisterInfo("failed"))),
    Row("big", (array("int8", (1 << 27,), 1 << 27), None)),
)


def names(view):
    return [row.name for row in view.rows(SessionSnapshot(1, 2, ROWS))]


def test_everything_is_shown_in_the_order_it_was_bound():
    assert names(View()) == [row.name for row in ROWS]


@pytest.mark.parametrize(
    ("search", "expected"),
    [
        ("w_", ["w_in", "W_out"]),
        ("w_*", ["w_in", "W_out"]),
        ("*s", ["loss"]),
        ("float16", ["W_out"]),
        ("64x64", ["W_out"]),
        ("64\u00d764", ["W_out"]),
        ("w float32", ["w_in"]),
        ("ndarray 2", ["w_in", "bad", "inf", "big"]),
        ("nothing", []),
        ("[", []),
    ],
)
def test_every_word_of_a_search_must_be_found(search, expected):
    assert names(View(search=search)) == expected


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("variables", [row.name for row in ROWS]),
        ("differs between workers", ["W_out", "half", "big"]),
        ("has NaN or Inf", ["bad", "inf", "nan"]),
        ("arrays", ["w_in", "W_out", "bad", "inf", "big"]),
        ("failed", ["half"]),
    ],
)
def test_a_kind_leaves_what_it_says(kind, expected):
    assert names(View(kind=kind)) == expected


def test_size_and_dtype_leave_what_is_so_on_any_worker():
    assert names(View(size="1 KiB or more")) == ["W_out", "big"]
    assert names(View(size="64 MiB or more")) == ["big"]
    assert names(View(dtype="int8")) == ["big"]


@pytest.mark.parametrize(
    ("order", "first"),
    [("name", "bad"), ("largest first", "big"), ("differing first", "W_out"), ("dtype", "W_out")],
)
def test_orders_put_first_what_they_say(order, first):
    assert names(View(order=order))[0] == first


def test_equal_ones_stay_in_the_order_they_were_bound_in():
    assert names(View(order="differing first"))[:3] == ["W_out", "half", "big"]


def test_a_pinned_register_comes_first_and_stays_whatever_is_searched_for():
    assert names(View(search="loss", pinned=frozenset({"big", "gone"}))) == ["big", "loss"]


def test_every_choice_works_on_a_register_that_no_worker_has():
    nobody = SessionSnapshot(1, 2, (Row("x", (None, None)),))
    for kind in KINDS:
        for size in SIZES:
            for order in ORDERS:
                assert len(View(kind=kind, size=size, order=order).rows(nobody)) <= 1


def test_dtypes_are_those_that_occur():
    assert dtypes(ROWS) == ["float16", "float32", "int8"]
    assert largest(ROWS[5]) == 0


@pytest.mark.parametrize("kind", ["module", "function", "builtin_function_or_method", "type", "ufunc"])
def test_what_cells_import_and_define_is_no_variable_unless_it_differs(kind):
    alike = Row("f", (RegisterInfo(kind), RegisterInfo(kind)))
    assert [row.name for row in View(kind="variables").rows(SessionSnapshot(1, 2, (alike, ROWS[0])))] == [
        "w_in"
    ]
    missing = Row("f", (RegisterInfo(kind), None))
    assert View(kind="variables").shows(missing)
