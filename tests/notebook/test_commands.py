"""The %disco subcommands in a real shell."""

from __future__ import annotations

import pytest
from IPython.core.error import UsageError

from disco_magic.errors import CellError, UnknownName, UsageMistake
from disco_magic.session.current import session

DRAWN = "heatmap|histogram|lines|values|difference"


def names(shell):
    return session().names()


def test_several_registers_to_look_at_are_told_that_it_takes_one(shell):
    said = str(shell.fail("%disco registers loss step", UsageError))
    assert "unrecognized arguments: step (one name at a time; without a name it shows all registers)" in said


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("difference -w 3,1,2", "--as difference compares two workers, as in -w 2,0; -w 3,1,2 names 3"),
        ("difference -w 0,0", "--as difference compares two workers, as in -w 2,0; -w 0,0 names 1"),
        ("values -w 1,2", "--as values draws one worker, as in -w 2, or all; -w 1,2 names 2"),
        ("summary -w 1", f"-w chooses workers for --as {DRAWN}; everything else shows all of them"),
    ],
)
def test_as_many_workers_are_named_as_are_drawn(four, options, text):
    four.run("%%disco\nx = 1")
    assert str(four.fail(f"%disco registers x --as {options}", UsageMistake)) == text


@pytest.mark.parametrize("options", ["--as heatmap", "--as difference -w 1,0", "--table --as values"])
def test_what_only_a_widget_draws_is_refused_where_there_is_none(four, options):
    four.run("%%disco\nx = 1")
    assert "is drawn by a notebook's widgets" in str(four.fail(f"%disco registers x {options}", UsageMistake))


def test_undefined_registers_are_refused_with_near_misses(four):
    four.run("%%disco\nweights = 1")
    assert "did you mean 'weights'?" in str(four.fail("%disco get weigths", UnknownName))
    assert "did you mean 'weights'?" in str(four.fail("%disco rm weights weigths", UnknownName))
    assert names(four) == ("weights",)


def test_rm_unbinds_on_every_worker(crew):
    crew.run("%%disco\nx = y = z = 1")
    crew.run("%disco rm x z x")
    assert names(crew) == ("y",)
    assert isinstance(crew.fail("%%disco\nx"), CellError)


def test_rm_beside_a_running_cell_says_when_and_takes_what_that_has_bound(four, gate):
    # What the cell had begun anew was gone when it ended, and nothing had been said; a new name was denied.
    four.ip.user_ns["gate"] = gate
    four.run("%disco broadcast gate")
    four.run("%%disco\nlosses = [0]")
    training = four.run("%%disco --nowait\nlosses, step = [], 5\ngate()\nlosses.append(step)")
    gate.arrived(4)
    four.run("%disco rm losses step")
    (said,) = four.lines
    assert said.startswith("losses, step: removed after Cell In[")
    assert said.endswith(", with what that binds to it meanwhile")
    assert "did you mean 'losses'?" in str(four.fail("%disco rm loses", UnknownName))
    gate.open()
    training.wait()
    assert names(four) == ("gate",)


def test_registers_show_a_table_and_are_plain_data(crew):
    crew.run("%%disco\nx = np.ones((2, 3), dtype='float32')")
    snapshot = crew.run("%disco registers")
    assert "float32 2\u00d73" in crew.out
    assert snapshot.row("x").cells[0].nbytes == 24


def test_registers_look_closely_at_a_part(crew):
    crew.run("%%disco\np = {'w': np.full((2, 3), worker_id), 'n': 1}")
    row = crew.run("%disco registers p['w']")
    assert (row.name, row.differs) == ("p['w']", len(row.cells) > 1)
    assert crew.run("""%disco registers "p['w']\"""").name == "p['w']"
    assert "int64 2\u00d73" in crew.out
    text = str(crew.fail("%disco registers p['v']", UnknownName))
    assert "has no part" in text
    assert "did you mean" in text
    assert "did you mean 'p'" in str(crew.fail("%disco registers pp['w']", UnknownName))


def test_registers_look_at_a_slice_as_python_writes_it(four):
    four.run("%%disco\nx, p = np.arange(6).reshape(2, 3), {'two  words': np.arange(3)}")
    assert four.run("%disco registers x[0, 1:]").cells[0].text == "[1 2]"
    assert four.run("%disco registers x [:, 2] --table").cells[0].text == "[2 5]"
    assert four.run("%disco registers p['two  words'][ :2]").cells[0].text == "[0 1]"


def test_registers_look_into_what_has_parts(crew):
    crew.run("%%disco\np = {'w': np.full((2, 3), worker_id), 'n': 1}")
    parts = crew.run("%disco registers p")
    assert [row.name for row in parts.rows] == ["p['w']", "p['n']"]
    assert "p: 2 parts" in crew.out
    assert "p['w']  [0" in crew.out
    assert crew.run("%disco registers p['n']").name == "p['n']"


def test_sync_raises_what_failed_and_interrupt_of_an_idle_session_does_nothing(crew):
    crew.ip.user_ns["session"] = session()
    crew.run("r = session.call_packed(lambda: 1 / 0)")
    assert "ZeroDivisionError" in str(crew.fail("%disco sync"))
    crew.run("%disco sync\n%disco interrupt")
    assert crew.lines == ["nothing to interrupt: the workers are idle"]


def test_an_unknown_subcommand_names_the_nearest(shell):
    assert "did you mean 'start'" in str(shell.fail("%disco strat", UsageMistake))
    assert "there are: start, stop" in str(shell.fail("%disco xyzzy", UsageMistake))


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("push", "%disco broadcast"),
        ("pull", "%disco get"),
        ("doctor", "%disco status"),
        ("stats", "disco_magic.session().stats()"),
    ],
)
def test_who_looks_for_a_name_that_is_another_one_here_is_told_it(shell, name, told):
    assert told in str(shell.fail(f"%disco {name} x", UsageMistake))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("%disco start -n many", "-h shows what there is"),
        ("%disco put", "-h shows what there is"),
        ("%disco get a.b", "'a.b' is not a variable name; for a part of a name the variable: w=a.b ("),
        ("%disco get a['b']", "for a part of a name the variable: w=a['b'] ("),
        ("%disco start --wrkers 2", "did you mean '--workers'?"),
        ("%disco start --frobnicate=2", "-h shows what there is"),
    ],
)
def test_wrong_options_are_one_line(shell, line, said):
    shell.fail(line, UsageError)
    assert len(shell.err.splitlines()) == 1
    assert said in shell.err


@pytest.mark.parametrize("line", ["%disco", "%disco -h", "%disco --help", "%disco help"])
def test_help_lists_every_subcommand(shell, line):
    shell.run(line)
    for name in (
        "start",
        "stop",
        "restart",
        "status",
        "registers",
        "put",
        "get",
        "gather",
        "rm",
        "interrupt",
    ):
        assert f"\n  {name}" in shell.out
    assert max(map(len, shell.lines)) <= 101  # at 1,000 pixels JupyterLab breaks longer ones within a word


def test_help_of_a_subcommand_and_of_cells(shell):
    shell.run("%disco help timeline")
    assert "--cell" in shell.out
    shell.run("%disco scatter -h")
    assert "--axis" in shell.out
    shell.run("%%disco -h\npass")
    with_a_cell = shell.out
    shell.run("%%disco -h")
    assert shell.out == with_a_cell
    assert "--group-outputs" in shell.out
    shell.run("%disco?")
    assert "--group-outputs" in shell.out
    assert "%disco COMMAND -h" in shell.out


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("x = 1", "'x'; a cell that begins with %%disco runs code on all workers"),
        ("print(worker_id)", "a cell that begins with %%disco runs code on all workers"),
        ("shutdown", "'shutdown'; %disco stop ends the session"),
        ("list", "%disco who and %disco registers show what the workers hold"),
        ("statuss", "did you mean 'status'"),
        ("stop;", "did you mean 'stop'"),
        ("sync()", "did you mean 'sync'"),
        ("-n 4", "'-n'; %disco start -n 4 starts workers"),
        ("--frobnicate", "there are: start, stop"),
    ],
)
def test_a_command_that_is_not_there_says_what_is(shell, line, said):
    assert said in str(shell.fail(f"%disco {line}", UsageMistake))
