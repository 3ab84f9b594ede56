"""What a failing cell looks like in a real kernel, and that it stops "Run all"."""

from __future__ import annotations

import re

import pytest

from tests.kernels import FAILS_LATER


def test_the_failing_line_is_shown_with_the_cell_s_own_number(fresh):
    ran = fresh.run("%%disco\n\ndef f(a):\n    return 1 / a\n\nif worker_id == 1:\n    f(0)\n")
    number = fresh.ok("len(In) - 2").value
    assert (ran.status, ran.error["ename"]) == ("error", "CellError")
    assert f"Cell In[{number}], line 7" in ran.traceback
    assert f"Cell In[{number}], line 4, in f(a)" in ran.traceback
    assert "----> 7     f(0)" in ran.traceback
    assert "disco_magic" not in ran.traceback
    assert ran.traceback.endswith("[1] ZeroDivisionError: division by zero")


def test_lines_count_from_the_top_of_the_whole_cell(fresh):
    ran = fresh.run("%%time\n%%disco\nx = 1\nraise ValueError('here')")
    # What is shown, not the reply: the %%time of IPython 9.0 shows an error and reports success.
    ran.error = next(m["content"] for m in ran.messages if m["msg_type"] == "error")
    assert "line 4" in ran.traceback
    assert "----> 4 raise ValueError('here')" in ran.traceback


def test_workers_with_the_same_error_are_grouped_and_released_ones_come_after_the_origin(fresh):
    ran = fresh.run("%%disco\nif worker_id:\n    raise ValueError('bad')\nallreduce(np.ones(2))")
    summary = ran.traceback.split("\n\n")[-1].splitlines()
    assert summary[0] == "[1-3] ValueError: bad"
    assert summary[1].startswith("[0] PlaneAborted: ")


def test_a_failing_cell_aborts_the_cells_sent_after_it(fresh):
    first, second = fresh.send(f"%%disco\n{FAILS_LATER}"), fresh.send("not_run = 1")
    assert fresh.finish(first).status == "error"
    assert fresh.finish(second).status == "aborted"


def test_a_syntax_error_of_running_code_shows_the_line_that_it_is_about(fresh):
    ran = fresh.run("%%disco\nx = 1\neval('x +* 2')")
    assert "----> 3 eval('x +* 2')" in ran.traceback
    shown = ran.traceback.partition('File "<string>", line 1\n')[2].splitlines()
    assert [line.strip() for line in shown[:3]] == [
        "x +* 2",
        "^",
        "SyntaxError: invalid syntax (<string>, line 1)",
    ]


def test_a_note_stays_below_the_syntax_error(fresh):
    code = "error = SyntaxError('bad', ('f.py', 3, 1, 'a b'))\nerror.add_note('a note')\nraise error"
    ran = fresh.run(f"%%disco\n{code}")
    shown = ran.traceback.partition('File "f.py", line 3\n')[2].splitlines()
    source, mark, *below = [line.strip() for line in shown[:4]]
    assert (source, set(mark)) == ("a b", {"^"})  # as many as the version of Python makes
    assert below == ["SyntaxError: bad (f.py, line 3)", "a note"]


def test_a_syntax_error_shows_its_line_and_sends_nothing(fresh):
    ran = fresh.run("%%disco\nsent = 1\nx = (1\n")
    assert (ran.status, ran.error["ename"]) == ("error", "SyntaxError")
    assert "line 3" in ran.traceback
    assert ".py" not in ran.traceback
    assert "registers" in fresh.ok("%disco registers --table").value
    assert "sent" not in fresh.ok("%disco registers --table").value


def test_debug_lands_in_the_frame_of_the_first_failing_worker(fresh):
    fresh.run("%%disco\ndef f(local):\n    return 1 / local\nif worker_id == 2:\n    f(0 * worker_id)")
    cell = fresh.client.execute("%debug", allow_stdin=True)
    fresh.answer("p ('seen', local, worker_id)")
    fresh.answer("q")
    assert "('seen', 0, 2)" in fresh.finish(cell).text()


def test_an_exception_group_is_shown_as_an_error_of_the_cell(fresh):
    ran = fresh.run("%%disco\nraise ExceptionGroup('many', [ValueError(1)])")
    assert ran.error["ename"] == "CellError"
    assert "ExceptionGroup: many (1 sub-exception)" in ran.traceback
    assert [m for m in ran.messages if m["msg_type"] == "error"]


def test_a_repr_that_fails_is_an_error_of_the_cell_on_that_worker(fresh):
    ran = fresh.run("%%disco\nclass A:\n    def __repr__(self):\n        raise ValueError('no text')\nA()")
    assert re.search(r"line 4, in (A\.)?__repr__\(self\)", ran.traceback)  # newer IPython names the class
    assert ran.traceback.endswith("[0-3] ValueError: no text")


def test_a_time_out_says_who_is_where_and_stops_the_cell(fresh):
    ran = fresh.run(
        "%%disco --timeout 2\nif worker_id == 1:\n    barrier()\nwhile True: __import__('time').sleep(0.01)"
    )
    assert ran.error["ename"] == "SyncTimeout"
    assert "waiting in barrier() for workers [0,2-3]" in ran.traceback
    assert fresh.ok("%%disco\nworker_id").value == "\n".join(f"[{worker}] {worker}" for worker in range(4))


def test_a_mistake_on_the_line_is_one_line_and_stops_run_all(fresh):
    ran = fresh.run("%%disco --shw 0\nx = 1")
    assert ran.status == "error"
    assert len(ran.text("stderr").splitlines()) == 1
    assert "unrecognized arguments: --shw 0" in ran.text("stderr")
    ran = fresh.run("%%disco -w 7\nx = 1")
    assert ran.error["ename"] == "UsageMistake"
    assert len(ran.traceback.splitlines()) == 1


def test_an_error_in_an_awaiting_cell_shows_no_frame_of_the_event_loop(fresh):
    ran = fresh.run("%%disco\nimport asyncio\nawait asyncio.sleep(0)\n1 / 0")
    assert "line 4" in ran.traceback
    assert "asyncio/" not in ran.traceback


def test_what_the_failed_expression_read_is_between_the_traceback_and_the_summary(fresh):
    ran = fresh.run("%%disco\nx = np.ones(2 + worker_id)\nassert x.size == 2")
    *_, table, summary = ran.traceback.split("\n\n")
    assert table.splitlines()[1:] == [
        "  x  [1] float64 3 [1. 1. 1.]",
        "     [2] float64 4 [1. 1. 1. 1.]",
        "     [3] float64 5 [1. 1. 1. 1. 1.]",
        "     [0] float64 2 [1. 1.]",
    ]
    assert summary == "[1-3] AssertionError"


def test_the_middle_of_a_recursion_is_left_out(fresh):
    """In a kernel IPython shows each of a thousand calls, which takes many seconds."""
    cell = "%%disco -w 0\ndef even(n):\n    return odd(n + 1)\ndef odd(n):\n    return even(n + 1)\neven(0)"
    shown = fresh.run(cell).traceback
    assert shown.count("in even(n)") + shown.count("in odd(n)") <= 2 * (3 + 3)
    assert re.search(r"\[\.\.\. without \d{3} more calls from the same lines\]", shown)
    assert shown.endswith("[0] RecursionError: maximum recursion depth exceeded")


def test_the_middle_of_a_recursion_is_left_out_of_what_led_to_the_error(fresh):
    """IPython takes the traceback of a cause from the cause itself."""
    cell = (
        "%%disco -w 0\ndef deep(n):\n    return deep(n + 1)\ntry:\n    deep(0)\n"
        "except RecursionError as error:\n    cause = error\n    raise ValueError('too deep') from error"
    )
    shown = fresh.run(cell).traceback
    assert shown.count("in deep(n)") <= 3 + 3
    assert re.search(r"\[\.\.\. without \d{3} more calls from the same lines\]", shown)
    assert shown.endswith("[0] ValueError: too deep")
    whole = "%%disco -w 0\nimport traceback\nlen(traceback.extract_tb(cause.__traceback__)) > 900"
    assert "True" in fresh.ok(whole).value


def test_in_minimal_mode_no_calls_are_shown_and_none_is_said_to_be_left_out(fresh):
    fresh.ok("%xmode Minimal")
    try:
        shown = fresh.run("%%disco -w 0\ndef deep(n):\n    return deep(n + 1)\ndeep(0)").traceback
    finally:
        fresh.ok("%xmode Context")
    assert "more calls" not in shown
    assert "RecursionError: maximum recursion depth exceeded" in shown


@pytest.fixture(params=["Plain", "Minimal"])
def mode_without_line_ends(fresh, request):
    fresh.ok(f"%xmode {request.param}")
    yield request.param
    fresh.ok("%xmode Context")


FAILING = {
    "a cell on the workers": ("%%disco\n1 / 0", 1),  # above what failed on whom
    "a refusal": ("import disco_magic\ndisco_magic.session().get_global_func('nothing')", 0),
    "an operation that a register has not": ("disco_magic.session()['kept'] + 1", 0),
    "the name of a register": ("kept", 0),
    "a cell of session.run": ("disco_magic.session().run('1 / 0')", 1),
}


@pytest.mark.parametrize("what", FAILING)
def test_in_a_mode_that_joins_lines_without_ends_no_line_is_followed_by_an_empty_one(
    fresh, mode_without_line_ends, what
):
    # The lines had ends, which such a mode expects; a kernel sends them as they are, and front ends add ends.
    fresh.ok("%%disco\nkept = 1")
    cell, empty = FAILING[what]
    shown = fresh.run(cell).traceback
    assert shown.strip("\n").count("\n\n") == empty
    assert ("Traceback" in shown.partition("Error: ")[0]) is (mode_without_line_ends == "Plain")
