"""From the text of a cell to code on the workers, and the parts of it that only go wrong."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import threading
import weakref

import pytest
from IPython.core.error import UsageError

from disco_magic.core.messages import Lost
from disco_magic.errors import CellError, Divergence, SyncTimeout, UsageMistake, WorkerError, WorkerLost
from disco_magic.notebook.output.console import SWITCH_INTERVAL_S, Console
from disco_magic.notebook.output.scope import NotebookScope
from disco_magic.notebook.tracebacks import dress
from disco_magic.session.current import session
from tests.conftest import until


def test_a_syntax_error_names_its_line_and_nothing_is_sent(four):
    error = four.fail("%%disco\nsent = 1\n\nx = (1\ny = 2\n", UsageMistake)
    assert type(error).__name__ == "SyntaxError"
    assert ":4" in four.out
    assert "'(' was never closed" in four.out
    assert session().names() == ()


def test_a_syntax_error_that_only_the_compiler_sees_is_one_too(four):
    assert "'return' outside function" in str(four.fail("%%disco\nsent = 1\nreturn 3", UsageMistake))
    assert session().names() == ()


def test_a_magic_that_a_program_calls_counts_lines_from_its_own_text(four):
    four.ip.run_line_magic("load_ext", "disco_magic")
    with pytest.raises(CellError) as caught:
        four.ip.run_cell_magic("disco", "", "a = 1\n1 / 0\n")
    assert "line 3" in caught.value.origin.traceback_text


@pytest.mark.parametrize("last", ["x;", "x ;  # quiet", "y = x"])
def test_a_semicolon_or_a_statement_at_the_end_shows_nothing(crew, last):
    assert crew.run(f"%%disco\nx = 1\n{last}") is None
    assert crew.out == ""


def test_the_notebook_s_wish_to_see_no_values_is_honoured(crew):
    crew.ip.ast_node_interactivity = "none"
    crew.run("%%disco\n5")
    assert crew.out == ""


def test_top_level_await_works_also_as_the_last_expression(crew):
    crew.run("%%disco\nimport asyncio\nawait asyncio.sleep(0)\nawait asyncio.sleep(0, 'slept')")
    assert crew.lines[-1].endswith("] 'slept'")


def test_functions_of_a_cell_can_be_looked_up_by_inspect(crew):
    crew.run("%%disco\nimport inspect\ndef f():\n    return 1\ninspect.getsource(f)")
    assert crew.lines[-1].endswith("] 'def f():\\n    return 1\\n'")


TRAIN = """def train(n):
    get_ipython().run_cell_magic('disco', '', '''
z = 1
w = 2
''')
    return 1 / n
train(1)"""


def test_a_cell_that_executes_another_one_from_a_text_keeps_its_own_source(crew):
    crew.run(TRAIN)
    assert crew.run("import inspect\ninspect.getsource(train)") == TRAIN.removesuffix("train(1)")
    crew.fail("train(0)", ZeroDivisionError)
    assert any("return 1 / n" in line for line in crew.shown)
    crew.fail("%%time\n%%disco\n\n# what\nx = 1\n1 / 0", CellError)
    assert any(line.rstrip().endswith(":6") for line in crew.shown)


def test_braces_that_are_no_expression_are_left_to_the_shell(four):
    four.run("%%disco -w 0\n!echo '{print $1}' | cat")
    assert four.lines == ["[0] {print $1}"]


def test_a_failure_before_the_cell_is_raised_by_it(four):
    four.ip.user_ns["d"] = session().call_packed(lambda: 1 / 0)
    error = four.fail("%%disco\nx = 1", WorkerError)
    assert not isinstance(error, CellError)
    assert "ZeroDivisionError" in four.out


def test_it_shows_the_value_of_the_cell_all_the_same(four):
    call = session().call_packed
    four.ip.user_ns["d"] = call(lambda: 1 / 0)
    four.fail("%%disco -o kept\nworker_id // 4 + 7", WorkerError)
    assert four.lines[0] == "[0-3] 7"
    assert repr(four.ip.user_ns["kept"]) == "[0-3] 7"
    four.ip.user_ns["d"] = call(lambda: 1 / 0)
    four.fail("%%disco\nworker_id // 4 + 8;", WorkerError)
    assert "8" not in four.lines[0]
    error = four.fail("%%disco\nworker_id // 0 if worker_id else 9", CellError)
    assert error.result.errors
    assert "[0] 9" not in four.lines


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


def test_a_scope_that_was_never_sent_holds_nothing_back(four):
    console = Console(four.ip)
    scope = NotebookScope(four.ip, (0, 1))
    before = sys.stdout, sys.getswitchinterval()

    def fail():
        with console.cell(scope):
            raise RuntimeError(f"not sent, with {sys.getswitchinterval():.3f}")

    with pytest.raises(RuntimeError, match=f"with {SWITCH_INTERVAL_S:.3f}"):
        fail()
    assert not scope.running()
    assert (sys.stdout, sys.getswitchinterval()) == before


@pytest.mark.parametrize(("workers", "interval_s"), [(1, 0.001), (64, 0.001), (256, 0.004), (1024, 0.005)])
def test_the_more_workers_the_longer_are_their_turns_up_to_pythons_own(four, workers, interval_s):
    """Threads that wait for a turn wake once in each: 256 that did every ms were stopped after 9 s."""
    console, before = Console(four.ip), sys.getswitchinterval()
    sys.setswitchinterval(0.005)
    try:
        few, many = (NotebookScope(four.ip, range(n)) for n in (1, workers))
        with console.cell(few), console.cell(many):
            assert sys.getswitchinterval() == pytest.approx(interval_s)
        few.close()
        many.close()
        console.settle()
        assert sys.getswitchinterval() == pytest.approx(0.005)
    finally:
        sys.setswitchinterval(before)


def test_only_the_main_thread_replaces_streams(four):
    console = Console(four.ip)
    before = sys.stdout
    with console.cell(scope := NotebookScope(four.ip, (0,))):
        wrapped = sys.stdout
        scope.close()
        other = threading.Thread(target=console.settle)
        other.start()
        other.join(20)
        assert sys.stdout is wrapped
    assert sys.stdout is before


def test_closing_puts_everything_back_while_a_cell_still_runs(four):
    console = Console(four.ip)
    before = sys.stdout
    with console.cell(NotebookScope(four.ip, (0,))):
        console.close()
        assert sys.stdout is before


def test_a_worker_lost_after_its_cell_is_noted_in_the_output_and_stops_nothing(four):
    four.run("import builtins, threading\nbuiltins.gate = threading.Event()")
    handle = four.run("%%disco --nowait -w 1\nimport builtins\nbuiltins.gate.wait(20)")
    session()._launcher._deliver(Lost(1, 0, "killed by signal 9"))
    four.run("1")
    assert "Error in callback" not in four.out + four.err
    assert "[1] WorkerLost: worker 1 is gone: killed by signal 9" in four.err
    assert "[1] failed after its cell" in four.err
    four.run("builtins.gate.set()")
    with pytest.raises(WorkerLost):
        handle.wait()


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
        ("--timeout 2", "    while True:\n        i = 1\n        i += 1\nf()"),
    ],
)
def test_an_error_and_what_it_keeps_die_with_its_last_reference(four, counted, options, source):
    refs = error_of(four, options, source)
    four.run("1")  # the end of a notebook's cell is when asynchronous ones are looked after
    assert len(refs) == 5
    # A worker says that it has ended before it lets go of the last frame.
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


def test_what_a_cell_imports_from_the_future_holds_for_the_workers_cells_after_it(four):
    four.run("%%disco\nfrom __future__ import annotations")
    four.run("%%disco\nclass A:\n    x: Undefined")
    assert four.run("%%disco\nA.__annotations__").values == [{"x": "Undefined"}] * 4
    assert isinstance(four.run("class A:\n    x: int\nA.__annotations__['x']"), type)


def test_a_cell_that_swallows_a_broken_collective_says_so_below_its_output(four):
    four.run(
        "%%disco\ntry:\n    allreduce(1) if worker_id else barrier()\nexcept Exception:\n    print('on')"
    )
    (told,) = [line for line in four.err.splitlines() if "caught" in line]
    assert told.startswith("[0-3] caught PlaneMismatch at Cell In[")
    assert "], line 3, and went on: worker 0 called barrier at " in told
    four.run("%%disco\nallreduce(1)")
    assert "caught" not in four.err


SWALLOWS = """
w = worker.replicated(np.zeros(2))
try:
    if worker_id == 1: raise ValueError("bad shard")
    w += allreduce(np.ones(2))
except Exception: w += worker_id"""


def test_it_says_so_before_a_check_and_once_however_often_it_is_waited_for(four):
    four.fail(f"%%disco --check values{SWALLOWS}", Divergence)
    assert "[0,2-3] caught PlaneAborted at Cell" in four.err
    # In one cell: who asks late finds that the handle has said it by itself.
    four.run(f"h = get_ipython().run_cell_magic('disco', '--nowait', {SWALLOWS!r})\nh.wait(); h.wait();")
    assert (four.out + four.err).count("caught PlaneAborted") == 1


def test_a_cell_that_nobody_asks_about_says_so_once_by_itself(four):
    sent = f"h = get_ipython().run_cell_magic('disco', '--nowait', {SWALLOWS!r})"
    four.run(f"{sent}\nwhile not h.done():\n    pass\nh.report(); h.report(); h.wait();")
    assert (four.out + four.err).count("caught PlaneAborted") == 1


@pytest.mark.parametrize(
    ("body", "shown"), [("x = 5", "[0-3] 5"), ("x = 5\nx += 1", "[0-3] 6"), ("x: int = 7", "[0-3] 7")]
)
def test_what_was_assigned_last_is_shown_if_ipython_is_told_to(four, body, shown):
    four.ip.ast_node_interactivity = "last_expr_or_assign"
    four.run(f"%%disco\n{body}")
    assert four.lines[-1:] == [shown]
    four.run("%%disco\nx, y = 1, 2\nx = y = 3\ny = 4;")
    assert four.lines == []
    four.ip.ast_node_interactivity = "last_expr"
    four.run("%%disco\nx = 5")
    assert four.lines == []


@pytest.mark.parametrize("options", ["", " -w 0", " --nowait"])
def test_a_cell_of_blank_lines_does_nothing(four, options):
    """Where its text begins was looked for with `str.rpartition`, which takes no empty text."""
    four.run(f"%%disco{options}\n\n  \n")  # fails on an error
    assert four.run("%%disco\n1").values == [1, 1, 1, 1]


@pytest.mark.parametrize("magic", ["%%disco", "%%local"])
def test_a_cell_magic_below_a_comment_says_where_it_has_to_stand(four, magic):
    # IPython takes it for a line magic there, and said that there was none of this name.
    said = str(four.fail(f"# Train.\n{magic}\nx = 1", UsageError))
    assert said == f"{magic} has to stand in the first line of its cell, with nothing above it"
    assert "x" not in four.ip.user_ns


def test_a_second_cell_magic_of_ours_is_one_too_many(four):
    # As for other magics, it was to be put above itself.
    said = str(four.fail("%%disco\n%%disco\nx = 1", UsageMistake))
    assert said == "line 2: the cell runs on workers already; leave this %%disco out"
