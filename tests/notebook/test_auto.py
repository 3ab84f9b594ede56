"""Plain cells that run on the workers, in a real shell: ``%disco auto on``."""

from __future__ import annotations

import traceback

import pytest
from IPython.core.error import UsageError

from disco_magic.errors import CellError, UsageMistake
from disco_magic.session.current import session
from tests.notebook.completing.offering import offers


@pytest.fixture
def auto(shell):
    """Two workers, and plain cells run on them."""
    shell.run("%disco start -n 2")
    shell.run("%disco auto on")
    return shell


def names(shell):
    return [name for name in shell.ip.user_ns if name in ("x", "y", "here", "out")]


def test_plain_cells_run_in_the_notebook_until_auto_is_on(four):
    assert four.run("x = 1\nx + 1") == 2
    four.run("%disco auto on")
    four.run("x = worker_id\nx")
    assert four.lines == ["[0] 0", "[1] 1", "[2] 2", "[3] 3"]
    assert four.ip.user_ns["x"] == 1
    four.run("%disco auto off")
    assert four.run("x") == 1


def test_auto_says_what_holds(four):
    four.run("%disco auto")
    assert four.lines[0].startswith("plain cells run in the notebook")
    four.run("%disco auto on")
    assert four.lines[0].startswith("plain cells run on all workers")
    four.run("%disco auto")
    assert four.lines[0].startswith("plain cells run on all workers")


def test_auto_takes_no_other_word(four):
    assert "on" in str(four.fail("%disco auto maybe", UsageError))


def test_local_runs_one_cell_in_the_notebook(auto):
    assert auto.run("%%local\nhere = 3\nhere") == 3
    assert names(auto) == ["here"]
    auto.run("x = 1")
    assert session().names() == ("x",)


def test_local_does_nothing_where_cells_are_local_anyway(shell):
    assert shell.run("%%local\n\nhere = 4\nhere") == 4


def test_tracebacks_of_local_cells_have_the_lines_that_were_typed(auto):
    error = auto.fail("%%local\nhere = 1\n\nhere / 0", ZeroDivisionError)
    assert traceback.extract_tb(error.__traceback__)[-1].lineno == 4


def test_local_can_stand_above_another_magic(auto):
    auto.run("%%local\n\n%%capture out\nprint('hidden')\nhere = 1")
    assert auto.ip.user_ns["out"].stdout == "hidden\n"
    assert names(auto) == ["here", "out"]
    auto.run("x = 1")
    assert session().names() == ("x",)


def test_local_above_a_magic_that_is_not_there_says_so(auto):
    assert "nonsense" in str(auto.fail("%%local\n%%nonsense\nx = 1", UsageError))


def test_local_takes_no_options(auto):
    assert "takes nothing" in str(auto.fail("%%local now\nhere = 1", UsageError))
    assert names(auto) == []


def test_magics_above_a_plain_cell_are_about_the_workers_work(auto):
    auto.run("%%capture out\nprint('from', worker_id)")
    assert sorted(auto.ip.user_ns["out"].stdout.splitlines()) == ["[0] from 0", "[1] from 1"]
    auto.run("%%time\ny = worker_id")
    assert "Wall time" in auto.out
    assert session()["y"].get_all() == [0, 1]


def test_what_belongs_into_a_local_cell_says_so(auto):
    error = str(auto.fail("x = 1\n%timeit x", UsageMistake))
    assert error.startswith("line 2: %timeit cannot run on workers")
    assert names(auto) == []  # nothing above it was executed
    error = str(auto.fail("x = 1\n%who int", UsageMistake))
    assert "put %who int into a cell without %%disco, or under %%local" in error
    assert "%timeit cannot run" in str(auto.fail("if worker_id == 1:\n    %timeit x", CellError))
    assert "define it first, under %%local" in str(auto.fail("%disco broadcast nowhere", UsageMistake))


def test_a_cell_with_the_magic_line_is_what_it_was(auto):
    auto.run("%%disco -w 1\nx = 5")
    assert session()["x"].get(1) == 5


@pytest.mark.parametrize(
    "cell",
    [
        "%env DISCO_TEST_HERE=1",
        "# a comment\n%env DISCO_TEST_HERE=1\n\n!true",
        "!true",
        "!true \\\n  really",
        "len?",
        "?len",
        "# only a comment",
        "\n\n",
        "pwd",
        "env DISCO_TEST_HERE=1",
    ],
)
def test_what_belongs_to_the_notebook_stays_there(auto, cell, monkeypatch):
    monkeypatch.setenv("DISCO_TEST_HERE", "0")
    sent = session().stats().workers[0].sent
    auto.run(cell)
    assert session().stats().workers[0].sent == sent


@pytest.mark.parametrize(
    "cell",
    [
        "x = 1",
        "x = 1\n%matplotlib",
        "x = !true",
        "'''\n%text\n'''",
        "x = 1  # really?",
        "pwd = 3",
        "len(range(3))",
        "exit = 3",
    ],
)
def test_what_is_python_runs_on_the_workers(auto, cell):
    assert auto.ip.extension_manager.loaded
    plain = auto.ip.__dict__["_disco_magic_extension"].front.plain
    assert plain.runs_on_workers(cell)


def test_magic_lines_at_the_top_are_the_notebooks_and_the_rest_the_workers(auto, monkeypatch):
    monkeypatch.setenv("DISCO_TEST_HERE", "0")
    auto.run("# first\n%env DISCO_TEST_HERE=7\n\nimport os\nhere = os.environ['DISCO_TEST_HERE'], worker_id")
    assert session()["here"].get_all() == [("7", 0), ("7", 1)]
    assert names(auto) == []
    error = auto.fail("%env DISCO_TEST_HERE=8\n\n1 / 0", CellError)
    assert "----> 3 1 / 0" in "\n".join(error._render_traceback_())


def test_a_magic_line_that_would_run_python_in_the_notebook_is_refused(auto):
    assert "%time cannot run on workers" in str(auto.fail("%time here = 1\nx = 2", UsageMistake))
    assert names(auto) == []


def test_a_cell_magic_that_does_not_come_first_says_where_it_has_to_stand(auto):
    error = auto.fail("# why\n%%local\nhere = 1", UsageMistake)
    assert "%%local has to stand in the first line of its cell" in str(error)
    assert names(auto) == []


def test_exit_ends_the_notebook_and_not_the_workers(auto):
    plain = auto.ip.__dict__["_disco_magic_extension"].front.plain
    for cell in ("exit", "quit()", " exit ", "quit"):
        assert not plain.runs_on_workers(cell)
    auto.run("quit = worker_id")
    assert plain.runs_on_workers("quit")


def test_a_register_named_like_a_magic_is_the_register(auto):
    auto.run("who = worker_id + 1")
    auto.run("who")
    assert auto.lines == ["[0] 1", "[1] 2"]


def test_a_magic_without_its_sign_is_one_only_where_ipython_takes_it_so(auto):
    auto.ip.automagic = False
    assert "invalid syntax" in str(auto.fail("env DISCO_TEST_HERE=1", UsageMistake))


def test_the_first_plain_cell_starts_a_session(shell):
    shell.run("%config DiscoMagics.workers = 3")
    shell.run("%disco auto on")
    shell.run("num_workers")
    assert shell.lines[-1] == "[0-2] 3"


def test_an_error_has_the_lines_of_the_plain_cell(auto):
    error = auto.fail("x = 1\n\nif worker_id:\n    1 / 0", CellError)
    text = "\n".join(error._render_traceback_())
    assert "----> 4     1 / 0" in text
    assert "run_cell_magic" not in text


def test_a_syntax_error_of_a_plain_cell_sends_nothing(auto):
    error = auto.fail("x = 1\nif:", UsageMistake)
    assert ":2\n    if:\n" in "\n".join(error._render_traceback_())
    assert session().names() == ()


def test_a_semicolon_hides_the_value(auto):
    auto.run("worker_id;")
    assert auto.lines == []


def test_ipython_still_asks_for_the_rest_of_an_unfinished_cell(auto):
    ask = auto.ip.input_transformer_manager.check_complete
    assert ask("for i in range(3):")[0] == "incomplete"
    assert ask("x = (1,")[0] == "incomplete"
    assert ask("x = 1\n")[0] == "complete"
    assert ask("x = = 1")[0] == "invalid"


def test_history_keeps_plain_cells_as_python(auto, monkeypatch):
    monkeypatch.setenv("DISCO_HERE", "0")
    auto.run("x = worker_id\n!true")
    auto.run("%env DISCO_HERE=1\nx + 1")
    auto.run("%%disco -w 0\nx")
    auto.run("%%local\nhere = 1")
    first, env, magic, local = auto.ip.history_manager.input_hist_parsed[-4:]
    assert first == "x = worker_id\nget_ipython().system('true')"
    assert env == "get_ipython().run_line_magic('env', 'DISCO_HERE=1')\nx + 1"
    assert magic == "get_ipython().run_cell_magic('disco', '-w 0', 'x\\n')"
    assert local == "# %%local\nhere = 1"
    assert auto.ip.history_manager.input_hist_raw[-4] == "x = worker_id\n!true"
    auto.run("%unload_ext disco_magic")
    assert "store_inputs" not in vars(auto.ip.history_manager)


def test_macros_run_on_the_workers(auto):
    auto.run("x = worker_id")
    auto.run("x += 1\nx")
    last = len(auto.ip.history_manager.input_hist_parsed) - 1
    auto.run(f"%macro -q again {last}")
    auto.run("again")
    assert auto.lines == ["[0] 2", "[1] 3"]
    auto.run("%%time\nagain")
    assert "[0] 3" in auto.lines
    auto.run("again = 7")  # a register
    auto.run("again")
    assert auto.lines == ["[0-1] 7"]
    auto.run("%disco auto off")
    assert "name 'x' is not defined" in str(auto.fail("again", NameError))


def test_auto_is_gone_with_the_extension(auto):
    auto.run("%unload_ext disco_magic")
    assert auto.run("x = 1\nx + 1") == 2
    auto.run("%load_ext disco_magic")
    assert auto.run("x + 2") == 3


def test_auto_outlives_a_reload(auto):
    auto.run("%reload_ext disco_magic")
    auto.run("x = worker_id\nx")
    assert auto.lines == ["[0] 0", "[1] 1"]


def test_what_a_front_end_executes_for_itself_is_local(auto, monkeypatch):
    asked = {"content": {"silent": False, "store_history": False}}
    monkeypatch.setattr(auto.ip, "get_parent", lambda: asked, raising=False)
    auto.run("here = 1")
    assert names(auto) == ["here"]
    asked["content"] = {"silent": True, "store_history": True}
    auto.run("y = 1")
    assert names(auto) == ["here", "y"]
    asked["content"] = {"silent": False, "store_history": True}
    auto.run("x = 1")
    assert names(auto) == ["here", "y"]


@pytest.mark.parametrize(
    "line", ["%timeit -n1 -r1 seen.append(here)", "%time seen.append(here)", "%prun -q seen.append(here)"]
)
def test_magics_that_execute_a_line_do_it_where_their_cell_is(auto, line):
    auto.run(f"%%local\nseen, here = [], 5\n{line}")
    assert auto.ip.user_ns["seen"] == [5]
    auto.run("%%local\nget_ipython().run_cell('seen.append(7)')")
    assert auto.ip.user_ns["seen"] == [5, 7]
    auto.run("x = 1")
    assert session().names() == ("x",)


def test_a_line_that_asks_a_result_is_the_notebook_s(auto):
    auto.run("%%disco -o result\nprint('here')\nworker_id")
    assert auto.run("result.stdout[1]") == "here\n"
    assert auto.run("result[1]") == 1
    assert auto.run("result.values") == [0, 1]
    assert auto.run("result[1] + len(result.values)") == 3
    auto.run("result = 7")  # a register is the workers'
    auto.run("result")
    assert auto.lines == ["[0-1] 7"]


@pytest.mark.parametrize(("line", "offered"), [("result.std", "stdout"), ("handle.canc", "cancel")])
def test_tab_offers_what_the_notebook_has_of_a_result_and_a_handle(auto, line, offered):
    auto.run("%%disco -o result\nworker_id")
    auto.run("%%disco --nowait -o handle\nworker_id")
    assert any(offered in each for each in offers(auto, line))


def test_the_last_value_is_each_worker_s(auto):
    auto.run("[worker_id, 7]")
    auto.run("_[0]")
    assert auto.lines == ["[0] 0", "[1] 1"]


def test_a_line_that_asks_what_capture_has_kept_is_the_notebook_s(auto):
    auto.run("%%capture kept\nprint('here')")
    assert "here" in auto.run("kept.stdout")


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        (
            "len(result)",
            "result is the result of a cell, and the notebook's; ask it there, under %%local if need be",
        ),
        (
            "len(kept)",
            "kept is what %%capture has kept, and the notebook's; ask it there, under %%local if need be",
        ),
        (
            "rate * 2",
            "%%disco --push rate sends it to every worker; %%local runs a cell there",
        ),
    ],
)
def test_a_plain_cell_that_needs_the_notebook_is_told_of_local(auto, cell, said):
    auto.run("%%local\nrate = 2")
    auto.run("%%disco -o result\nworker_id")
    auto.run("%%capture kept\nprint('here')")
    auto.fail(cell, CellError)
    assert auto.shown[-1].endswith(said)


def test_a_line_that_asks_a_handle_is_the_notebook_s(auto):
    auto.run("%%disco --nowait -o h\nwhile True: pass")
    assert auto.run("h.done()") is False
    auto.run("h.cancel()")
    assert "cancelled" in repr(auto.ip.user_ns["h"])
    auto.run("%%disco --nowait -o h\nworker_id")
    assert auto.run("h.wait(timeout=10)").values == [0, 1]
    assert auto.run("await h").values == [0, 1]
    auto.run("h = worker_id")  # a register is the workers'
    auto.run("h")
    assert auto.lines == ["[0] 0", "[1] 1"]
