"""%disco start, stop, restart and status: how sessions begin and end, and what they are doing."""

from __future__ import annotations

from argparse import Namespace

import pytest
from IPython.core.error import UsageError

from disco_magic.core.doctor import Diagnosis, Position
from disco_magic.core.words import human_bytes
from disco_magic.errors import SyncTimeout, UsageMistake
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
