"""From the text of a cell to code on the workers, and the parts of it that only go wrong."""

from __future__ import annotations

import sys
import threading

import pytest
from IPython.core.error import UsageError

from disco_magic.core.messages import Lost
from disco_magic.errors import CellError, Divergence, UsageMistake, WorkerError, WorkerLost
from disco_magic.notebook.output.console import SWITCH_INTERVAL_S, Console
from disco_magic.notebook.output.scope import NotebookScope
from disco_magic.session.current import session


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


def test_a_semicolon_in_what_only_ipython_understands_is_no_token_of_python(four):
    four.run("%%disco\nsay = max")
    four.run("%%disco\n,say a b]; c")
    assert four.lines == ["[0-3] 'c'"]


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
