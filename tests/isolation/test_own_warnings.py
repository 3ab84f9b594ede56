"""Filters of warnings of each worker's own, in sessions without a notebook."""

from __future__ import annotations

import logging
import re
import sys
import warnings

import pytest

from disco_magic.errors import CellError
from tests.conftest import given_up_comes_back

pytestmark = pytest.mark.skipif(sys.version_info >= (3, 14), reason="Python's own, see `own_warnings`")

OVERLAP = (
    "with warnings.catch_warnings():\n"
    "    barrier()\n"
    "    warnings.simplefilter('error' if worker_id % 2 else 'ignore')\n"
    "    if worker_id: barrier()\n"
    "if not worker_id: barrier()\n"
)


@pytest.fixture(autouse=True)
def told(monkeypatch):
    """What the process has shown; its own filters, as they are outside of tests."""
    with warnings.catch_warnings():
        warnings.resetwarnings()
        shown = []
        monkeypatch.setattr(warnings, "showwarning", lambda message, *_: shown.append(str(message)))
        yield shown


@pytest.fixture
def s(session):
    started = session(4)
    started.run("import warnings")
    return started


def test_workers_that_enter_and_leave_in_any_order_leave_the_filters_as_they_were(s):
    before, filters = warnings.filters, list(warnings.filters)
    for _ in range(20):
        s.run(OVERLAP)
    assert warnings.filters is before
    assert filters == before
    assert s.run("warnings.filters == []").values == [True] * 4


def test_what_one_worker_filters_others_see(s, told):
    s.run(
        "if worker_id:\n    with warnings.catch_warnings():\n        warnings.simplefilter('error')\n"
        "        barrier(); barrier()\nelse:\n    barrier(); warnings.warn('seen'); barrier()"
    )
    assert told == ["seen"]


def test_a_filter_is_the_worker_s_until_its_session_ends(s, told):
    s.run("if worker_id != 2: warnings.filterwarnings('ignore', message='careful')")
    for _ in range(2):
        s.run("warnings.warn('careful')\n__warningregistry__.clear()")
    warnings.warn("careful", stacklevel=1)
    assert told == ["careful"] * 3
    s.restart()
    s.run("import warnings\nwarnings.warn('careful')")
    assert told == ["careful"] * 7


def test_filters_stand_in_the_order_of_python_s(s):
    lines = (
        "simplefilter('ignore', UserWarning)",
        "simplefilter('error', UserWarning)",
        "simplefilter('ignore', UserWarning)",  # moves to the front
        "simplefilter('default', BytesWarning, append=True)",
        "simplefilter('ignore', UserWarning, append=True)",  # stays where it is
        "filterwarnings('once', module='m', lineno=3)",
    )
    with warnings.catch_warnings():
        for line in lines:
            exec(f"import warnings\nwarnings.{line}")
        expected = list(warnings.filters)
    s.run("".join(f"warnings.{line}\n" for line in lines))
    assert s["warnings"] is not None
    assert s.run("list(warnings.filters)").values == [expected] * 4
    s.run("warnings.resetwarnings()")
    assert s.run("warnings.filters").values == [[]] * 4


def test_who_has_set_none_has_those_of_the_process_also_later_ones(s, told):
    s.run("with warnings.catch_warnings(): warnings.simplefilter('error')")
    warnings.simplefilter("ignore")
    s.run("warnings.warn('careful')")
    assert told == []


def test_an_error_that_is_asked_for_is_raised_for_that_worker_alone(s):
    s.run("if worker_id == 1: warnings.simplefilter('error')")
    with pytest.raises(CellError) as caught:
        s.run("import numpy\nnumpy.float64(1) / numpy.zeros(1)")
    assert list(caught.value.failures) == [1]


def test_what_is_recorded_is_the_worker_s_own(s, told):
    s.run(
        "with warnings.catch_warnings(record=True) as mine:\n"
        "    warnings.simplefilter('always')\n"
        "    barrier()\n"
        "    if worker_id != 3: warnings.warn(f'of {worker_id}')\n"
        "    barrier()\n"
        "warnings.warn(f'shown {worker_id}')"
    )
    assert s.run("[str(each.message) for each in mine]").values == [["of 0"], ["of 1"], ["of 2"], []]
    assert sorted(told) == [f"shown {worker}" for worker in range(4)]


def test_how_they_are_shown_is_the_worker_s_own(s, told):
    s.run("mine = []\nif worker_id: warnings.showwarning = lambda message, *_: mine.append(str(message))")
    s.run("warnings.warn(f'of {worker_id}')")
    assert (told, s.run("mine").values) == (["of 0"], [[], ["of 1"], ["of 2"], ["of 3"]])


def test_a_cell_that_is_stopped_leaves_what_it_has_found(gated, gate, told):
    s = gated(2)
    s.run("import warnings\nif worker_id: warnings.simplefilter('ignore')")
    handle = s.run_nowait(
        "caught = warnings.catch_warnings(record=True)\ncaught.__enter__()\nwarnings.simplefilter('error')\n"
        "gate()\nwhile True: pass"
    )
    gate.arrived(2)
    gate.open()
    handle.cancel()
    s.run("warnings.warn('careful')")
    assert told == ["careful"]


IN_A_BLOCK = "with warnings.catch_warnings():\n    warnings.simplefilter('error')\n    gate()"


def test_a_thread_that_was_given_up_leaves_what_it_has_found_and_changes_nothing_later(gated, gate, told):
    s = gated(1)
    s.run("import warnings\nwarnings.filterwarnings('ignore', message='found')")
    handle = s.run_nowait(IN_A_BLOCK)
    gate.arrived(1)
    handle.cancel()
    s.run("warnings.warn('found'); warnings.warn('in the next cell')")
    s.run("warnings.filterwarnings('ignore', message='set later')")
    given_up_comes_back(s, gate)
    s.run("warnings.warn('found'); warnings.warn('set later')")
    assert told == ["in the next cell"]


def test_a_thread_that_outlives_the_session_leaves_the_process_s_alone(gated, gate):
    s = gated(1)
    s.run("import warnings\nwarnings.simplefilter('ignore')")
    s.run_nowait(IN_A_BLOCK)
    gate.arrived(1)
    before = warnings.filters, list(warnings.filters), warnings.showwarning
    s.shutdown(timeout=0)
    given_up_comes_back(s, gate)
    assert (warnings.filters, list(warnings.filters), warnings.showwarning) == before


def test_a_block_that_overlaps_one_of_the_notebook_keeps_nothing_of_that(gated, gate, told):
    s = gated(1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("error")
        handle = s.run_nowait("import warnings\nwith warnings.catch_warnings():\n    gate()")
        gate.arrived(1)
    gate.open()
    handle.wait()
    s.run("warnings.warn('careful')")
    assert (told, caught) == (["careful"], [])


def test_a_block_cannot_be_entered_twice_or_left_before(s):
    with pytest.raises(CellError, match="Cannot enter catch_warnings"):
        s.run("block = warnings.catch_warnings()\nwith block:\n    with block: pass")
    with pytest.raises(CellError, match="Cannot exit catch_warnings"):
        s.run("warnings.catch_warnings().__exit__()")
    assert s.run("warnings.filters == []").values == [True] * 4


def test_a_program_s_filters_end_with_it(s, told, tmp_path):
    program = tmp_path / "quiet.py"
    program.write_text("import warnings\nwarnings.simplefilter('ignore')\nwarnings.warn('of the program')\n")
    s.run("warnings.filterwarnings('ignore', message='of a cell')")
    s.run_file(str(program))
    s.run("warnings.warn('of a cell')")
    assert told == []
    s.run("warnings.warn('another')")
    assert told == ["another"] * 4


def test_each_worker_can_have_its_warnings_logged(s, told, caplog):
    s.run("import logging\nif worker_id != 1: logging.captureWarnings(True); logging.captureWarnings(True)")
    s.run("warnings.warn(f'of {worker_id}')")
    assert told == ["of 1"]
    assert len([each for each in caplog.records if each.name == "py.warnings"]) == 3
    s.run("logging.captureWarnings(False); logging.captureWarnings(False)")
    s.run("warnings.warn('again')")
    assert told == ["of 1"] + ["again"] * 4


def test_the_process_can_have_its_own_logged(s, told, caplog):
    logging.captureWarnings(True)
    warnings.warn("mine", stacklevel=1)
    logging.captureWarnings(False)
    assert (told, len(caplog.records)) == ([], 1)


def test_when_nobody_works_all_is_python_s_again(session):
    names = ("_add_filter", "resetwarnings", "_showwarnmsg")
    before = [type(warnings), *(vars(warnings)[name] for name in names)]
    s = session(1)
    assert type(warnings) is not before[0]
    s.shutdown()
    assert [type(warnings), *(vars(warnings)[name] for name in names)] == before


def test_a_warning_names_the_cell_as_errors_do(s):
    here = "(lambda: 0).__code__.co_filename"
    said = s.run(f"x = 1\nwarnings.formatwarning('careful', UserWarning, {here}, 1)").values[2]
    assert re.fullmatch(r"Cell \d+, line 1: UserWarning: careful\n  x = 1\n", said)
    assert warnings.formatwarning("x", UserWarning, __file__, 1).startswith(f"{__file__}:1: UserWarning: x\n")
