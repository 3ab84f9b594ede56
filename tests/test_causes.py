"""What is behind an error: only if a library has raised it from another one."""

from __future__ import annotations

import json

import pytest

from disco_magic.errors import Failure
from disco_magic.errors.causes import behind


def divide():
    1 / 0  # noqa: B018 - it raises


def raised(source, file, call=divide):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - any
        exec(compile(source, file, "exec"), {"call": call})
    return caught.value


# A library calls the user's code, and raises an error of its own from what that raises.
WRAPS = "try:\n    call()\nexcept Exception as error:\n    raise RuntimeError('stage 2:') from error"


def test_a_library_s_error_is_told_with_its_cause():
    error = raised(WRAPS, json.__file__)
    assert type(behind(error)) is ZeroDivisionError
    assert Failure(1, 2, "a call", error, "").summary == (
        "RuntimeError: stage 2: - from ZeroDivisionError: division by zero"
    )


def test_what_the_library_s_own_code_has_raised_first_is_not_told():
    """pandas raises a KeyError from the KeyError of its hash table."""
    pandas = pytest.importorskip("pandas")
    error = raised("call()", json.__file__, lambda: pandas.DataFrame({"a": ["x"]})["missing"])
    assert behind(error) is error
    assert "from" not in Failure(1, 2, "a call", error, "").summary


@pytest.mark.parametrize(
    ("source", "file"),
    [
        (WRAPS, "/home/me/program.py"),
        (WRAPS.replace(" from error", ""), json.__file__),
        (WRAPS.replace("from error", "from None"), json.__file__),
    ],
)
def test_any_other_error_says_enough_itself(source, file):
    error = raised(source, file)
    assert behind(error) is error
    assert Failure(1, 2, "a call", error, "").summary == "RuntimeError: stage 2:"


def test_stack_traces_in_the_place_of_causes_are_none():
    error = raised(WRAPS, json.__file__)
    kind = type("Before", (Exception,), {"__module__": "jax._src.source_info_util"})
    error.__cause__ = kind("the preceding stack trace")
    assert behind(error) is error


def test_causes_in_a_circle_end():
    error = raised(WRAPS, json.__file__)
    error.__cause__.__cause__ = error
    assert behind(error) in (error, error.__cause__)
