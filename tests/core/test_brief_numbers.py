"""Numbers in tables: short beside those of other workers, and long enough to tell them apart."""

from __future__ import annotations

import pytest

from disco_magic.core.brief_numbers import brief_numbers
from disco_magic.core.snapshot import RegisterInfo, Row


def brief(*texts, **given):
    infos = (None if text is None else RegisterInfo(given.get("type", "float"), text=text) for text in texts)
    return brief_numbers(Row("x", tuple(infos)))


def test_long_numbers_have_six_digits():
    found = brief("0.3333333333333333", None, "1.3333333333333333")
    assert found == {"0.3333333333333333": "0.333333", "1.3333333333333333": "1.33333"}


@pytest.mark.parametrize(
    ("one", "other", "shown"),
    [
        ("0.3333333333333333", "0.3333333333343333", ["0.333333333333", "0.333333333334"]),
        ("0.1", "0.10000000000000002", ["0.1", "0.10000000000000002"]),
        ("2.5000000001", "2.5", ["2.5000000001", "2.5"]),
    ],
)
def test_numbers_that_differ_only_in_their_last_digits_look_different(one, other, shown):
    found = brief(one, other)
    assert [found.get(each, each) for each in (one, other)] == shown


@pytest.mark.parametrize("kind", ["int", "bool"])
def test_a_float_is_not_written_as_what_another_worker_has_of_another_type(kind):
    # The table had 1 on both, and said that they differ.
    infos = (RegisterInfo(kind, text="1"), RegisterInfo("float", text="1.0000000000002"))
    assert brief_numbers(Row("x", infos)) == {}


@pytest.mark.parametrize(
    "text", ["0.1", "123456.789"[:9], "12345678.0", "nan", "-inf", "not a number at all"]
)
def test_texts_that_are_short_or_no_numbers_stay(text):
    assert brief(text) == {}


@pytest.mark.parametrize("kind", ["int", "str", "list"])
def test_only_floats_are_shortened(kind):
    assert brief("12345678901234567890", type=kind) == {}


@pytest.mark.parametrize("text", ["1.189731495357231765e+4932", "3.3621031431120935063e-4932"])
def test_numbers_that_python_s_own_cannot_hold_stay(text):
    # They were shown as inf and 0.
    alone = RegisterInfo("ndarray", (), "float128", "cpu", 16, text=text)
    assert brief_numbers(Row("x", (alone,))) == {}


def test_complex_numbers_have_six_digits_in_each_part():
    assert brief("(0.3333333333333333+0.6666666666666666j)", type="complex") == {
        "(0.3333333333333333+0.6666666666666666j)": "0.333333+0.666667j"
    }


def test_an_array_without_axes_is_a_number_and_one_of_one_element_is_not():
    alone = RegisterInfo("ndarray", (), "float64", "cpu", 8, text="0.6666666666666666")
    assert brief_numbers(Row("x", (alone,))) == {"0.6666666666666666": "0.666667"}
    assert (
        brief_numbers(Row("x", (RegisterInfo("ndarray", (1,), "float64", text="[0.6666666666666666]"),)))
        == {}
    )
