"""The error of a cell: how it is shown, and that it dies with its last reference."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import weakref

import pytest

from disco_magic.errors import CellError, SyncTimeout, UsageMistake
from disco_magic.notebook.tracebacks import dress
from tests.conftest import until


def test_an_error_can_be_shown_twice(four):
    handle = four.run("%%disco --nowait -o h\nraise ValueError('again')")
    for _ in range(2):
        with pytest.raises(CellError) as caught:
            handle.wait()
        assert "".join(caught.value._render_traceback_()).count("ValueError: again") == 2


def test_an_error_of_python_s_own_that_is_to_be_shown_can_be_copied_and_pickled(four):
    # What IPython calls to show it held the shell, and all attributes of such an error are pickled with it.
    error = dress(four.ip, KeyboardInterrupt("the check was interrupted"))
    shown = error._render_traceback_()
    assert "the check was interrupted" in shown[-1]
    pickled = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    for again in (pickled, copy.deepcopy(error)):
        assert again._render_traceback_() == shown


def test_notes_that_are_added_to_an_error_before_it_is_raised_again_are_shown(four):
    four.run("%%disco --nowait -o h\n1 / 0")
    caught = "except Exception as error:\n    error.add_note('in epoch 3')\n    kept = error\n    raise"
    four.fail(f"try:\n    h.wait()\n{caught}", CellError)
    assert four.out.splitlines().count("in epoch 3") == 1
    four.fail("kept.add_note('of run 7')\nraise kept", CellError)
    assert four.out.splitlines()[-2:] == ["in epoch 3", "of run 7"]


def test_an_error_that_shows_itself_does_so_in_a_cell_too(four):
    four.run("%%disco\nclass Own(Exception):\n    _render_traceback_ = lambda self: ['as', 'it wants']")
    error = four.fail("%%disco\nraise Own('x')")
    assert error._render_traceback_()[1:] == ["as", "it wants", "", "[0-3] Own: x"]


@pytest.mark.parametrize("lines", ["1 / 0", "return 'no list'", "return [None]"])
def test_an_error_that_cannot_show_itself_has_the_usual_traceback(four, lines):
    four.run(f"%%disco\nclass Own(Exception):\n    def _render_traceback_(self):\n        {lines}")
    error = four.fail("%%disco\nraise Own('x')")
    assert "----> 2 raise Own('x')" in "\n".join(error._render_traceback_())


def test_an_error_is_formatted_once_though_ipython_asks_twice_and_again_for_another_mode(four, monkeypatch):
    """It takes seconds where frames are in the bodies of large modules."""
    told, formatted = type(four.ip.InteractiveTB), []
    first = told.structured_traceback

    def counted(*args, **options):
        formatted.append(args)
        return first(*args, **options)

    monkeypatch.setattr(told, "structured_traceback", counted)
    error = four.fail("%%disco\n1 / 0", CellError)
    shown = error._render_traceback_()
    shown.append("a line of whoever shows it")
    assert error._render_traceback_() == shown[:-1]
    assert len(formatted) == 1
    four.run("%xmode Minimal")
    try:
        assert len(error._render_traceback_()) < len(shown) - 1
    finally:
        four.run("%xmode Context")


def test_where_no_calls_are_shown_none_are_said_to_be_left_out(four):
    four.run("%xmode Minimal")
    try:
        error = four.fail("%%disco -w 0\ndef f(n):\n    return f(n + 1)\nf(0)", CellError)
        shown = "".join(error._render_traceback_())
    finally:
        four.run("%xmode Context")
    assert "RecursionError" in shown
    assert "more calls" not in shown


# --- what an error keeps ---------------------------------------------------------------------------


@pytest.fixture
def counted():
    """Only reference counts free anything."""
    gc.disable()
    yield
    gc.enable()


def error_of(shell, options, source):
    """Weak references to the error that a cell raises and to a local variable of the function that failed."""
    sys.modules["builtins"].local = []
    begin = "import builtins, weakref\nclass Big: pass\ndef f():\n    big = Big()\n"
    begin += "    builtins.local.append(weakref.ref(big))\n"
    try:
        value = shell.ip.run_cell_magic("disco", options, begin + source)
        if options == "--nowait":
            wait = value.wait
            del value
            wait()
    except (CellError, SyncTimeout) as error:
        wait = None
        return [weakref.ref(error), *sys.modules["builtins"].local]


@pytest.mark.parametrize(
    ("options", "source"),
    [
        ("", "    1 / 0\nf()"),
        ("--nowait", "    1 / 0\nf()"),
        ("--timeout 2", "    while True: __import__('time').sleep(0.01)\nf()"),
    ],
)
def test_an_error_and_what_it_keeps_die_with_its_last_reference(four, counted, options, source):
    refs = error_of(four, options, source)
    four.run("1")  # the end of a notebook's cell is when asynchronous ones are looked after
    assert len(refs) == 5
    # A worker says that it has ended before it lets go of the last frame.
    until(lambda: [ref() for ref in refs] == [None] * 5)


@pytest.mark.parametrize("options", ["", "--nowait"])
def test_an_error_dies_with_its_last_reference_in_a_terminal_too(four, counted, terminal, onto, options):
    # What is called while the cell is waited for refers to the cell, and so to its error.
    with onto(terminal, terminal):
        refs = error_of(four, options, "    1 / 0\nf()")
        four.run("1")
    until(lambda: [ref() for ref in refs] == [None] * 5)


@pytest.mark.parametrize("error", [KeyboardInterrupt("stopped"), UsageMistake("a\nb")])
def test_what_shows_an_error_does_not_refer_to_it(four, error):
    before = sys.getrefcount(error)
    assert dress(four.ip, error) is error
    assert str(error).splitlines()[-1] in "\n".join(error._render_traceback_())
    assert error._render_traceback_() == error._render_traceback_()
    assert sys.getrefcount(error) == before


ODD = {
    "a class that says nothing": "class E(Exception): __class__ = property(lambda _: 1 / 0)\nraise E",
    "odd notes": "e = ValueError('x')\ne.__notes__ = [5]\nraise e",
    "no attributes": "class E(Exception):\n    def __getattribute__(self, name): return 1 / 0\nraise E",
}


@pytest.mark.parametrize("code", ODD.values(), ids=ODD)
def test_an_exception_that_lets_nobody_look_is_shown_as_the_worker_told_it(four, code):
    four.fail(f"%%disco\n{code}", CellError)
    assert four.out.splitlines()[0] == "Cell In[3] failed on worker 0 and on 3 others"
    assert ".py" not in four.out.replace("<ipython-input", "")
    assert four.err == ""


def test_of_calls_that_do_not_fit_the_traceback_is_that_of_the_worker_that_went_astray(four):
    error = four.fail("%%disco\nif worker_id == 2:\n    allgather(1)\nelse:\n    allreduce(1)", CellError)
    assert error.origin.worker == 2
    lines = four.out.splitlines()
    assert lines[0] == "Cell In[3] failed on worker 2 and on 3 others"
    assert "----> 3     allgather(1)" in four.out
    assert lines[-1] == "[0-3] PlaneMismatch"  # what it says stands above


def test_of_calls_that_do_not_fit_and_are_as_many_the_first_worker_s_traceback_is_shown(four):
    error = four.fail("%%disco\nallgather(1) if worker_id > 1 else allreduce(1)", CellError)
    assert error.origin.worker == 0
    assert four.out.splitlines()[0] == "Cell In[3] failed on worker 0 and on 3 others"


def test_a_long_text_that_not_all_have_is_cut_in_the_last_lines(four):
    four.fail("%%disco\nraise ValueError('x' * 200 if worker_id else 'y' * 200)", CellError)
    first, other = four.out.splitlines()[-2:]
    assert first == f"[0] ValueError: {'y' * 77}…"
    assert other == f"[1-3] ValueError: {'x' * 200}"
