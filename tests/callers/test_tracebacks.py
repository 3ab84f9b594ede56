"""Errors as the user sees them."""

from __future__ import annotations

import linecache
import types
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from disco_magic.callers import sites, tracebacks
from disco_magic.callers.sites import site_of
from disco_magic.callers.tracebacks import (
    error_text,
    frames_of,
    own_frames,
    shorten,
)
from disco_magic.errors import DiscoError, UsageMistake, WorkerError
from disco_magic.functions.execution.cells import compile_cell
from disco_magic.functions.registry import find_func
from disco_magic.libraries import OURS
from disco_magic.values.operands import failure_of


def test_the_files_that_are_told_by_their_paths_are_there():
    assert {path for path in tracebacks._CALLERS | tracebacks._BETWEEN if not Path(path).is_file()} == set()


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


def test_a_class_of_a_cell_is_named_as_it_was_written_also_in_a_group():
    own = type("Own", (Exception,), {"__module__": "__disco__"})
    told = error_text(ExceptionGroup("all", [own("one"), ExceptionGroup("more", [own("two")])]))
    assert "    | Own: one" in told
    assert "      | Own: two" in told
    assert error_text(own("x")) == "Own: x\n"


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

    assert error_text(Odd()) == "Odd: <traceback unavailable: SystemExit>"


def test_a_failure_without_a_line_of_the_user_s_is_said_once():
    def said(error):
        return str(WorkerError({1: failure_of(1, 7, "load 'x'", error)}))

    assert said(DiscoError("it is gone")) == "load 'x' failed on worker 1\n[1] DiscoError: it is gone"
    assert said(DiscoError("it is gone\nfor ever")).count("it is gone") == 2  # the summary is its first line
    with pytest.raises(ZeroDivisionError) as caught:
        1 / 0  # noqa: B018 - it raises
    assert said(caught.value).count("ZeroDivisionError: division by zero") == 2
    assert "1 / 0" in said(caught.value)


class Plane:
    """Calls what it is given from a file of the runtime's, and refuses."""

    source = "def call(function):\n    function()\n\ndef refuse(*_):\n    raise UsageMistake('no')\n"

    def __init__(self):
        names = {"UsageMistake": UsageMistake}
        exec(compile(self.source, f"{OURS}planes/some.py", "exec"), names)
        self.call, self.refuse = names["call"], names["refuse"]


def shown(source, **names):
    error = raised(source, **names)
    return failure_of(0, 1, "Cell In[7]", error).traceback_text


def test_what_led_to_an_error_has_no_frames_of_the_runtime_s_either():
    source = "try:\n    refuse()\nexcept Exception as error:\n    raise KeyError('k') from error\n"
    text = shown(source, refuse=Plane().refuse)
    assert "some.py" not in text
    assert text.count('File "Cell In[7]", line') == 2


@pytest.mark.parametrize("source", ["got = load(module)", "def inner(): load(module)\ninner()\nlast = 1"])
def test_frames_of_the_import_system_stay_where_the_user_has_called_it(source, tmp_path):
    file = tmp_path / "halfway.py"
    file.write_text("1 / 0\n")
    spec = spec_from_file_location("halfway", file)
    error = raised(source, load=spec.loader.exec_module, module=module_from_spec(spec))
    # The cell's frame is the user's first one, as on a worker.
    text = failure_of(0, 1, "Cell In[7]", error.with_traceback(error.__traceback__.tb_next)).traceback_text
    assert text.index('File "Cell In[7]"') < text.index("<frozen importlib") < text.index("halfway.py")


def test_parts_of_a_group_are_told_as_errors_are():
    source = (
        "def fail():\n    1 / 0\ndef caught():\n    try: call(fail)\n"
        "    except Exception as error: return error\n"
        "raise ExceptionGroup('all', [caught(), ExceptionGroup('inner', [caught()])])\n"
    )
    plane = Plane()
    text = shown(source, call=plane.call)
    assert "<disco cell" not in text
    assert text.count('File "Cell In[7]", line 2, in fail') == 2


def test_a_refusal_in_a_group_has_no_lines_where_none_is_the_user_s():
    plane = Plane()
    with pytest.raises(UsageMistake) as caught:
        plane.call(plane.refuse)
    part = caught.value.with_traceback(caught.value.__traceback__.tb_next)
    assert "some.py" in error_text(part)
    assert "some.py" not in failure_of(0, 1, "a call", ExceptionGroup("all", [part])).traceback_text


def test_an_error_and_what_it_led_to_may_be_a_circle():
    first, second = ValueError("first"), ValueError("second")
    first.__context__, second.__context__ = second, first
    assert "first" in failure_of(0, 1, "a call", first).traceback_text


def test_what_c_code_raises_has_no_lines_and_is_said_once(session):
    s = session(1)
    with pytest.raises(WorkerError) as caught:
        s.call_packed(int, "x").get(0)
    assert str(caught.value) == (
        "call int failed on worker 0\n[0] ValueError: invalid literal for int() with base 10: 'x'"
    )


def test_a_mistake_of_the_runtime_s_keeps_its_lines():
    names = {}
    exec(compile("def broken():\n    return None.x\n", f"{OURS}planes/some.py", "exec"), names)
    with pytest.raises(AttributeError) as caught:
        names["broken"]()
    error = caught.value.with_traceback(caught.value.__traceback__.tb_next)
    assert "some.py" in failure_of(0, 1, "a call", error).traceback_text


def test_an_interrupt_that_strikes_where_the_code_has_no_line_is_at_the_line_before():
    """A loop jumps back by an instruction without a line if its body ends in a branch (before 3.13)."""
    error = raised("x = 1\nfor i in range(3):\n    x if i else None\n\ny = 1 / 0\n")
    frame = frames_of(error.__traceback__)[-1]
    offsets = [start for start, _, line in frame.f_code.co_lines() if line is None]
    if not offsets:
        pytest.skip("this Python has lines everywhere")
    error.__traceback__ = types.TracebackType(None, frame, offsets[0], -1)
    assert error.__traceback__.tb_lineno is None
    failure = failure_of(0, 1, "Cell In[7]", error)
    assert error.__traceback__.tb_lineno == 3
    assert 'File "Cell In[7]", line 3' in failure.traceback_text
    assert str(site_of((frame.f_code, offsets[0]))) == "Cell In[7], line 3"


def test_a_traceback_with_all_lines_stays_the_object_that_it_is():
    error = raised("1 / 0")
    before = error.__traceback__ = own_frames(error)
    shorten(error)
    assert error.__traceback__ is before
