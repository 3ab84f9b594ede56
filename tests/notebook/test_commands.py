"""The %disco subcommands in a real shell."""

from __future__ import annotations

from argparse import Namespace

import pytest
from IPython.core.error import UsageError

from disco_magic.core.doctor import Diagnosis, Position
from disco_magic.core.words import human_bytes
from disco_magic.errors import CellError, SyncTimeout, UnknownName, UsageMistake
from disco_magic.notebook.commands.table import command_of
from disco_magic.notebook.option_types import SESSION
from disco_magic.notebook.tables.reports import diagnosis_html
from disco_magic.session.current import session


def names(shell):
    return session().names()


def test_start_says_what_there_is_in_one_line(shell):
    shell.run("%disco start -n 3")
    assert len(shell.lines) == 1
    assert "3 workers \u00b7 threads \u00b7 cpu \u00b7 plane threads" in shell.out


def test_a_number_alone_is_not_taken_for_the_number_of_workers(shell):
    assert "did you mean -n 8?" in str(shell.fail("%disco start 8", UsageError))


def test_axes_of_a_mesh_without_commas_are_told_of_them(shell):
    said = str(shell.fail("%disco start --mesh dp=2 tp=2", UsageError))
    assert "unrecognized arguments: tp=2 (commas join the axes of a mesh: --mesh dp=2,tp=2)" in said


def test_several_registers_to_look_at_are_told_that_it_takes_one(shell):
    said = str(shell.fail("%disco registers loss step", UsageError))
    assert "unrecognized arguments: step (one name at a time; without a name it shows all registers)" in said


def test_start_with_groups_gives_groups(shell):
    shell.run("%disco start -n 4 --groups 2 --kind threads --ccl threads")
    shell.run("%%disco\nworker.group")
    assert shell.lines[-2:] == ["[0-1] 0", "[2-3] 1"]
    shell.run("%%disco -g 1\nprint(worker_id)")
    assert sorted(shell.lines) == ["[2] 2", "[3] 3"]


def test_impossible_numbers_start_nothing(shell):
    assert "cannot be split into 3 equal groups" in str(
        shell.fail("%disco start -n 4 --groups 3", UsageMistake)
    )
    assert "no session is running" in str(shell.fail("%disco registers", UsageMistake))


def test_started_twice_keeps_the_session_and_offers_restart(crew):
    crew.run("%%disco\nx = 1")
    crew.run(f"%disco start -n {crew.n}")
    assert "running already" in crew.out
    assert "%disco restart" in crew.out
    assert names(crew) == ("x",)


@pytest.mark.parametrize(("options", "wanted"), [("-n 8", "8 workers"), ("--groups 5", "5 groups")])
def test_another_session_than_the_one_that_runs_is_refused(crew, options, wanted):
    crew.run("%%disco\nx = 1")
    error = crew.fail(f"%disco start {options}", UsageMistake)
    assert f"running already, with its registers; for {wanted} end it first, with %disco stop" in str(error)
    assert names(crew) == ("x",)


def test_the_first_cell_starts_a_session_with_the_configured_numbers(shell):
    shell.run("%config DiscoMagics.workers = 2")
    shell.run("%%disco\nnum_workers")
    assert shell.lines[-1].endswith("[0-1] 2")
    assert "2 workers" in shell.lines[0]


def test_a_session_without_registers_is_not_started_again(crew):
    crew.run("%%disco\nnum_workers")
    assert "Disco session" not in crew.out


def test_stop_ends_it_and_a_second_stop_says_so(crew):
    crew.run("%disco stop")
    assert "is stopped" in crew.out
    assert "no session is running; start one with %disco start" in str(crew.fail("%disco stop", UsageMistake))


def test_one_worker_alone_is_not_restarted_and_that_is_said(crew):
    said = str(crew.fail("%disco restart -w 0", UsageError))
    assert "all workers are replaced together; %disco interrupt -w 2 stops what worker 2 is doing" in said


@pytest.mark.parametrize("option", ["-n", "--devices"])
def test_restart_with_an_option_of_start_says_how_to_have_other_workers(crew, option):
    said = str(crew.fail(f"%disco restart {option} 2", UsageError))
    assert f"there is no {option} here" in said
    assert "%disco stop, then %disco start" in said
    assert crew.run("%%disco\n1").values == [1] * crew.n


def test_restart_keeps_the_numbers_and_empties_the_registers(crew):
    crew.run("%%disco\nx = 1")
    crew.run("%disco restart")
    assert names(crew) == ()
    crew.run("%%disco\nallgather(np.array([worker_id])).tolist()")
    assert crew.lines[-1].endswith(str(list(range(crew.n))))


def test_status_says_what_every_worker_does(crew):
    crew.run("x = 1\n%disco status")
    assert crew.lines[0].endswith(" 0 registers")
    assert crew.lines[1].endswith("all workers are idle")
    assert crew.lines[3].split()[1:] == ["idle"]


def test_status_names_other_sessions_that_are_open(crew):
    crew.run("%disco status")
    assert "also open" not in crew.out
    crew.run("import disco_magic\nother = disco_magic.ThreadedSession(3)")
    crew.run("%disco status")
    assert "also open: Disco session" in crew.out
    assert f"--session {session().id}" not in crew.out
    assert "(%disco status --session " in crew.out
    crew.run("other.shutdown()")
    crew.run("%disco status")
    assert "also open" not in crew.out


def test_status_tells_of_values_without_a_name(crew):
    crew.run("%%disco\nx = 1\nnp.ones(128)")
    crew.run("%disco status")
    assert crew.lines[0].endswith(" 1 register")
    kept = "[0] 1 KiB" if crew.n == 1 else f"[0-{crew.n - 1}] 1 KiB each"
    assert crew.lines[1] == f"besides, 1 value that results and references keep: {kept}"
    crew.run("%disco rm Out[3]")
    crew.run("%%disco\n7")
    crew.run("%disco status")
    assert crew.lines[1] == "besides, 1 value that results and references keep"


def test_status_says_which_result_keeps_the_most_memory_and_how_to_free_it(crew):
    crew.run("%%disco\nx = np.ones(2**20)\nx")
    crew.run("%%disco -o total\nnp.ones(2)")
    crew.run("%disco rm x\n%disco status")
    size = human_bytes(crew.n << 23)
    assert crew.lines[1].endswith(f"; the largest, {size} in all, by Out[3] (%disco rm Out[3] frees it)")
    crew.run("%disco rm Out[3]\n%disco sync\n%disco status")
    assert "largest" not in crew.out


def test_status_does_not_count_results_that_are_none_everywhere(crew):
    crew.run("import disco_magic\nx = disco_magic.session().call_packed(lambda: None)\n%disco sync")
    crew.run("%disco status")
    assert "besides" not in crew.out


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("difference -w 3,1,2", "--as difference compares two workers, as in -w 2,0; -w 3,1,2 names 3"),
        ("difference -w 0,0", "--as difference compares two workers, as in -w 2,0; -w 0,0 names 1"),
        ("values -w 1,2", "--as values draws one worker, as in -w 2, or all; -w 1,2 names 2"),
        *(
            (
                f"{face} -w 1",
                "-w chooses workers for --as heatmap|values|difference; everything else shows all of them",
            )
            for face in ("summary", "histogram")
        ),
    ],
)
def test_as_many_workers_are_named_as_are_drawn(four, options, text):
    four.run("%%disco\nx = 1")
    assert str(four.fail(f"%disco registers x --as {options}", UsageMistake)) == text


@pytest.mark.parametrize("options", ["--as heatmap", "--as difference -w 1,0", "--table --as values"])
def test_what_only_a_widget_draws_is_refused_where_there_is_none(four, options):
    four.run("%%disco\nx = 1")
    assert "is drawn by a notebook's widgets" in str(four.fail(f"%disco registers x {options}", UsageMistake))


def test_status_beside_a_running_cell_says_who_keeps_whom_waiting(four):
    four.ip.run_cell("from disco_magic.testing.doubles import Gate\ngate = Gate()")
    gate = four.ip.user_ns["gate"]
    four.run("%%disco --push gate --nowait\nif worker_id == 3:\n    gate()\nbarrier()")
    gate.arrived()
    while len(session()._launcher.plane.waiting) < 3:
        pass
    four.run("%disco status")
    told = four.out
    late = four.fail("%disco sync --timeout 0.01", SyncTimeout)
    gate.open()
    assert "worker 3 keeps workers [0-2] waiting: executing Cell In[" in str(late)
    assert "worker 3 keeps workers [0-2] waiting: executing Cell In[" in told
    assert "waiting in barrier() for worker 3" in told
    data, _ = four.ip.display_formatter.format(session().doctor())
    assert "<caption>Disco session" in data["text/html"]
    four.run("%disco sync")


def test_who_keeps_others_waiting_stands_out_in_the_table():
    waiting = Position(0, "waiting", "Cell In[7]", "Cell In[7], line 6", "barrier()", (1,), 1.5)
    html = diagnosis_html(Diagnosis(3, (waiting, Position(1, "executing", "call <lambda>"))))
    assert '<tr class="waiting"><th scope="row">[0]</th>' in html
    assert '<tr class="blocking"><th scope="row">[1]</th><td>executing call &lt;lambda&gt;</td>' in html


def test_status_without_a_session_says_so(crew):
    crew.run("%disco start")
    crew.run("%disco stop\n%disco status")
    assert "no session is running" in crew.out


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


# --- kinds -----------------------------------------------------------------------------------------


@pytest.fixture
def front(shell):
    return shell.ip.magics_manager.magics["line"]["disco"].__self__.front


def test_a_kind_that_there_is_not_is_refused_wherever_it_comes_from(front):
    numbers = {
        "workers": 2,
        "groups": 1,
        "mesh": None,
        "ccl": "threads",
        "devices": "cpu",
        "own_modules": "none",
    }
    settings = {**numbers, "workers_for": lambda where, plane: 2, "output": "live"}
    with pytest.raises(UsageMistake, match="kind is 'boats', expected one of threads"):
        command_of("start").run(front, Namespace(kind="boats", **numbers))
    with pytest.raises(UsageMistake, match="kind is 'carts', expected one of threads"):
        front.sessions.start(Namespace(kind="carts", **settings))
    assert front.sessions.find() is None
    front.sessions.start(
        Namespace(kind="carts", **settings), Namespace(**dict.fromkeys(SESSION) | {"kind": "threads"})
    )
    assert session().kind == "threads"


# --- another session -------------------------------------------------------------------------------


def test_cells_that_go_to_another_session_say_so_once(shell, session):
    shell.run("%disco start -n 2\n")
    shell.run("%%disco\nx = 1")
    assert "cells run in" not in shell.out
    other = session(3)
    shell.run("%%disco\nworker_id")
    assert "cells run in Disco session" in shell.out
    assert "3 workers" in shell.out
    shell.run("%%disco\nworker_id")
    assert "cells run in" not in shell.out
    other.shutdown()
    assert shell.run("%%disco\nx").values == [1, 1]
    assert "cells run in" not in shell.out
    shell.run("%disco stop\n%disco start -n 4")
    shell.run("%%disco\nworker_id")
    assert "cells run in" not in shell.out


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
