"""Typed fields out of JSON: what is wrong is said with its place."""

from __future__ import annotations

import pytest

from disco_magic.errors import UsageMistake
from disco_magic.loader import fields


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "file x is not valid JSON: Expecting"),
        ("", "file x is not valid JSON"),
        ("[]", "file x is a list, expected a JSON object"),
        ('"a"', "file x is text, expected a JSON object"),
        ("null", "file x is null, expected"),
        ("3", "file x is 3, expected"),
        ('{"a": 1, "b": {"c": 1, "c": 2}}', "the key 'c' is there twice"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a": ' + "9" * 5000 + "}", "file x is not valid JSON: Exceeds the limit"),
    ],
    ids=range(9),
)
def test_what_is_no_object_is_refused(text, words):
    with pytest.raises(UsageMistake, match=words):
        fields.parse(text, "file x")


@pytest.mark.parametrize(
    ("read", "words"),
    [
        (
            lambda r: fields.string(r, "nothing", "x"),
            "x: 'nothing' is missing; there are: list, text, number",
        ),
        (lambda r: fields.string({}, "a", "x"), "there are: no fields"),
        (lambda r: fields.string(r, "number", "x"), "x: 'number' is 3, expected text"),
        (lambda r: fields.optional_string(r, "list", "x"), "x: 'list' is a list, expected text"),
        (lambda r: fields.count(r, "text", "x"), "x: 'text' is text, expected a whole number"),
        (lambda r: fields.count(r, "true", "x"), "x: 'true' is True, expected a whole number"),
        (lambda r: fields.count(r, "minus", "x"), "x: 'minus' is -1, expected a whole number of at least 0"),
        (lambda r: fields.count(r, "half", "x"), "x: 'half' is 0.5, expected a whole number"),
        (lambda r: fields.counts(r, "number", "x"), "x: 'number' is 3, expected a list"),
        (lambda r: fields.counts(r, "list", "x"), "an entry of x: 'list' is text, expected a whole number"),
        (lambda r: fields.objects(r, "list", "x"), "x: an entry of 'list' is 1, expected a JSON object"),
        (lambda r: fields.object_in(r, "none", "x"), "x: 'none' is null, expected a JSON object"),
        (lambda r: fields.optional_object(r, "text", "x"), "x: 'text' is text, expected a JSON object"),
    ],
    ids=range(13),
)
def test_a_field_of_another_type_is_refused(read, words):
    record = {
        "list": [1, "a"],
        "text": "a",
        "number": 3,
        "true": True,
        "minus": -1,
        "half": 0.5,
        "none": None,
    }
    with pytest.raises(UsageMistake, match=words):
        read(record)


def test_fields_that_may_be_missing_may_also_be_null():
    assert fields.optional_string({"a": None}, "a", "x") is None
    assert fields.optional_string({}, "a", "x") is None
    assert fields.optional_string({"a": "b"}, "a", "x") == "b"
    assert fields.optional_object({"a": None}, "a", "x") == {}
    assert fields.optional_object({"a": {"b": 1}}, "a", "x") == {"b": 1}


def test_good_fields_are_what_they_are():
    record = {"text": "a", "n": 0, "shape": [2, 0], "rows": [{"a": 1}]}
    assert fields.string(record, "text", "x") == "a"
    assert fields.count(record, "n", "x") == 0
    assert fields.counts(record, "shape", "x") == (2, 0)
    assert fields.objects(record, "rows", "x") == [{"a": 1}]
