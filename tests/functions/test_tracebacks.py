"""Errors as the user sees them."""

from __future__ import annotations

import linecache

import pytest

from disco_magic.errors import DiscoError, UsageMistake, WorkerError
from disco_magic.functions import sites
from disco_magic.functions.cells import compile_cell
from disco_magic.functions.registry import find_func
from disco_magic.functions.tracebacks import error_text, failure_of, own_frames


def raised(source, **names):
    cell = compile_cell(source, label="Cell In[7]")
    with pytest.raises(Exception) as caught:  # noqa: PT011 - each test looks at what it got
        exec(cell.body, names)
    return caught.value


def test_lines_of_a_cell_are_shown_under_the_name_the_user_knows():
    text = error_text(raised("x = 1\ny = x / 0\n"))
    assert 'File "Cell In[7]", line 2' in text
    assert "y = x / 0" in text
    assert "<disco cell" not in text


def test_causes_of_an_error_are_shown_under_that_name_too():
    source = "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise KeyError('k') from error\n"
    text = error_text(raised(source))
    assert text.count('File "Cell In[7]"') == 2
    assert text.index("ZeroDivisionError") < text.index("KeyError")


def test_a_refusal_of_the_runtime_ends_at_the_users_own_line():
    error = raised("find('no such function')\nlast = 1", find=find_func)
    assert isinstance(error, UsageMistake)
    error.__traceback__ = own_frames(error)
    assert error_text(error).count("File") == 2  # this test's exec, and the cell
    assert "find('no such function')" in error_text(error)


def test_sources_of_the_last_thousand_cells_are_kept_and_no_more():
    first = compile_cell("1 / 0").filename
    assert sites.label_of(first) is not None
    for _ in range(1000):
        compile_cell("pass")
    assert sites.label_of(first) is None
    assert first not in linecache.cache


def test_an_exception_that_cannot_be_asked_for_its_parts_is_told_by_its_type():
    class Odd(Exception):
        @property
        def __cause__(self):
            raise SystemExit

    assert error_text(Odd()) == "Odd: <its traceback could not be told: SystemExit>"


def test_a_failure_without_a_line_of_the_user_s_is_said_once():
    def said(error):
        return str(WorkerError({1: failure_of(1, 7, "load 'x'", error)}))

    assert said(DiscoError("it is gone")) == "load 'x' failed on worker 1\n[1] DiscoError: it is gone"
    assert said(DiscoError("it is gone\nfor ever")).count("it is gone") == 2  # the summary is its first line
    with pytest.raises(ZeroDivisionError) as caught:
        1 / 0  # noqa: B018 - it raises
    assert said(caught.value).count("ZeroDivisionError: division by zero") == 2
    assert "1 / 0" in said(caught.value)
