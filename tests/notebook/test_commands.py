"""%disco and the options of %%disco in a real shell."""

from __future__ import annotations

import numpy as np
import pytest
from disco_magic.errors import CellError, UnknownName, UsageMistake
from disco_magic.session.current import session
from IPython.core.completer import provisionalcompleter
from IPython.core.error import UsageError


def names(shell):
    return session().names()


def test_start_says_what_there_is_in_one_line(shell):
    shell.run("%disco start -n 3")
    assert len(shell.lines) == 1
    assert "3 workers \u00b7 threads \u00b7 cpu \u00b7 plane threads" in shell.out


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
    crew.run("%disco start -n 8")
    assert "running already" in crew.out
    assert "%disco restart" in crew.out
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


def test_restart_keeps_the_numbers_and_empties_the_registers(crew):
    crew.run("%%disco\nx = 1")
    crew.run("%disco restart")
    assert names(crew) == ()
    crew.run("%%disco\nallgather(np.array([worker_id])).tolist()")
    assert crew.lines[-1].endswith(str(list(range(crew.n))))


def test_status_says_what_every_worker_does(crew):
    crew.run("%disco status")
    assert [line for line in crew.lines if line.endswith(": idle")] == [
        f"  worker {w}: idle" for w in range(crew.n)
    ]
    crew.run("%disco stop\n%disco status")
    assert "no session is running" in crew.out


def test_put_goes_to_worker_0_and_broadcast_to_all(four):
    four.ip.user_ns["a"] = np.arange(3)
    four.run("%disco put a")
    four.run("%%disco\na is None")
    assert four.lines[-2:] == ["[0] False", "[1-3] True"]
    four.run("%disco broadcast a")
    four.run("%%disco\na[0] += worker_id\na.tolist()")
    assert four.lines[-4:] == [f"[{w}] [{w}, 1, 2]" for w in range(4)]
    assert four.ip.user_ns["a"].tolist() == [0, 1, 2]


def test_any_object_that_can_be_copied_can_be_put(crew):
    crew.ip.user_ns["config"] = {"lr": 0.1}
    crew.run("%disco broadcast config")
    crew.run("%%disco\nconfig['lr']")
    assert crew.lines[-1].endswith("] 0.1")


def test_get_gives_a_copy_of_worker_0_s_value(crew):
    crew.run("%%disco\nx = np.full(2, worker_id)\ny = 'text'")
    crew.run("%disco get x y")
    crew.ip.user_ns["x"][:] = 9
    crew.run("%%disco -w 0\nx.tolist()")
    assert crew.lines[-1] == "[0] [0, 0]"
    assert crew.ip.user_ns["y"] == "text"


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scatter_gives_worker_i_its_part_and_gather_joins_them(crew, axis):
    crew.ip.user_ns["a"] = whole = np.arange(36).reshape(6, 6)
    crew.run(f"%disco scatter a --axis {axis}")
    parts = crew.run("%%disco\na").values
    assert all(
        np.array_equal(part, expected)
        for part, expected in zip(parts, np.split(whole, crew.n, axis), strict=True)
    )
    crew.run(f"del a\n%disco gather a --axis {axis}")
    assert np.array_equal(crew.ip.user_ns["a"], whole)


def test_gather_of_numbers_gives_one_element_per_worker(crew):
    crew.run("%%disco\nn = worker_id")
    crew.run("%disco gather n")
    assert crew.ip.user_ns["n"].tolist() == list(range(crew.n))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (np.zeros((6, 2)), "axis 0 of 'a' has length 6, which 4 workers cannot share evenly"),
        (np.float64(1), "has no axis 0"),
        ({"a": 1}, "'a' is a dict, expected an array of numbers"),
    ],
)
def test_what_cannot_be_split_evenly_is_refused_and_nothing_sent(four, value, reason):
    four.ip.user_ns["a"] = value
    assert reason in str(four.fail("%disco scatter a", UsageMistake))
    assert names(four) == ()


def test_gather_of_parts_that_do_not_fit_names_their_shapes(four):
    four.run("%%disco\nx = np.zeros((1, 1 + worker_id // 2))\nd = {}")
    assert "shapes are [0] (1, 1), [1] (1, 1), [2] (1, 2), [3] (1, 2)" in str(
        four.fail("%disco gather x", UsageMistake)
    )
    assert "'d' is a dict on workers [0-3]" in str(four.fail("%disco gather d", UsageMistake))


def test_undefined_variables_are_refused_with_near_misses_and_nothing_is_sent(four):
    four.ip.user_ns["weights"] = 1
    assert "did you mean weights?" in str(four.fail("%disco put weights weigths", UsageMistake))
    assert "define it first" in str(four.fail("%disco broadcast zzzzzz", UsageMistake))
    assert names(four) == ()


def test_undefined_registers_are_refused_with_near_misses(four):
    four.run("%%disco\nweights = 1")
    assert "did you mean weights?" in str(four.fail("%disco get weigths", UnknownName))
    assert "did you mean weights?" in str(four.fail("%disco rm weights weigths", UnknownName))
    assert names(four) == ("weights",)


def test_rm_unbinds_on_every_worker(crew):
    crew.run("%%disco\nx = y = z = 1")
    crew.run("%disco rm x z x")
    assert names(crew) == ("y",)
    assert isinstance(crew.fail("%%disco\nx"), CellError)


def test_registers_show_a_table_and_are_plain_data(crew):
    crew.run("%%disco\nx = np.ones((2, 3), dtype='float32')")
    snapshot = crew.run("%disco registers")
    assert "float32 2\u00d73" in crew.out
    assert snapshot.row("x").cells[0].nbytes == 24


def test_sync_raises_what_failed_and_interrupt_of_an_idle_session_does_nothing(crew):
    crew.ip.user_ns["session"] = session()
    crew.run("r = session.call_packed(lambda: 1 / 0)")
    assert "ZeroDivisionError" in str(crew.fail("%disco sync"))
    crew.run("%disco sync\n%disco interrupt")


def test_an_unknown_subcommand_names_the_nearest(shell):
    assert "did you mean start" in str(shell.fail("%disco strat", UsageMistake))
    assert "there are: start, stop" in str(shell.fail("%disco xyzzy", UsageMistake))


@pytest.mark.parametrize(
    "line", ["%disco start -n many", "%disco put", "%disco get a.b", "%disco start --wrkers 2"]
)
def test_wrong_options_are_one_line(shell, line):
    shell.fail(line, UsageError)
    assert len(shell.err.splitlines()) == 1
    assert "-h shows what there is" in shell.err


@pytest.mark.parametrize(
    "line",
    [
        "--timeout 0",
        "--timeout soon",
        "--out a.b",
        "--push a,b-c",
        "--output loud",
        "--group-outputs x",
        "-g one",
        "extra",
    ],
)
def test_wrong_options_of_a_cell_are_one_line_and_nothing_is_sent(four, line):
    four.fail(f"%%disco {line}\nsent = 1", UsageError)
    assert len(four.err.splitlines()) == 1
    assert names(four) == ()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("-a -b", "exclude each other"),
        ("-a --timeout 1", "--timeout needs the end of the cell"),
        ("-a --pull x", "--pull needs the end"),
        ("-a --time", "--time needs the end"),
        ("-w 0 -g 0", "both say who runs the cell"),
        ("--output live --group-outputs type", "both say how output is shown"),
        ("-w 9", "there is no worker 9"),
        ("-g 9", "there is no group 9"),
        ("--show 9", "there is no worker 9"),
        ("--push nowhere", "has no variable 'nowhere'"),
    ],
)
def test_options_that_do_not_fit_are_refused_before_anything_is_sent(four, line, reason):
    assert reason in str(four.fail(f"%%disco {line}\nsent = 1", UsageMistake))
    assert names(four) == ()


@pytest.mark.parametrize("line", ["%disco", "%disco -h", "%disco --help"])
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
    shell.run("%disco scatter -h")
    assert "--axis" in shell.out
    shell.run("%%disco -h\npass")
    assert "--group-outputs" in shell.out
    assert "--targets" in shell.ip.magics_manager.magics["cell"]["disco"].__doc__


# --- options of cells ------------------------------------------------------------------------------


def test_a_part_of_the_workers_can_run_a_cell(four):
    four.run("%%disco -w 0,2:4\nprint(worker_id)")
    assert sorted(four.lines) == ["[0] 0", "[2] 2", "[3] 3"]
    four.run("%%disco -t all\nallgather(np.array([worker_id])).size")
    assert four.lines[-1] == "[0-3] 4"


def test_push_and_pull_carry_variables_in_and_out(crew):
    crew.ip.user_ns.update(a=np.ones(2), b=3)
    crew.run("%%disco --push a,b --pull y\ny = a * b + worker_id")
    assert crew.ip.user_ns["y"].tolist() == [3.0, 3.0]


def test_pull_takes_the_first_worker_that_ran(four):
    four.run("%%disco -w 2,3 --pull y\ny = worker_id")
    assert four.ip.user_ns["y"] == 2


def test_out_binds_the_result(crew):
    result = crew.run("%%disco --out r\nworker_id")
    assert crew.ip.user_ns["r"] is result


def test_time_shows_a_figure_per_worker(crew):
    crew.run("%%disco --time\npass")
    assert crew.lines[-1].startswith("time [0] ")
    assert crew.lines[-1].count("[") == crew.n


def test_a_handle_waits_says_whether_it_is_done_and_cancels(four):
    four.run("import builtins, threading\nbuiltins.gate = threading.Event()")
    handle = four.run(
        "%%disco --nowait -o h\nimport builtins\nprint('begun')\nbuiltins.gate.wait(20)\nworker_id"
    )
    assert handle is four.ip.user_ns["h"]
    assert "running" in repr(handle)
    assert not handle.done()
    four.run("builtins.gate.set()")
    assert four.run("h.wait()").values == [0, 1, 2, 3]
    assert handle.done()
    assert handle.stdout == dict.fromkeys(range(4), "begun\n")
    assert four.run("h.wait() is h.wait()")


def test_a_cancelled_handle_raises_and_the_workers_go_on(four):
    handle = four.run("%%disco --nowait\nwhile True:\n    i = 1\n    i += 1")
    handle.cancel()
    with pytest.raises(CellError):
        handle.wait()
    four.run("%%disco\nworker_id // 4")
    assert four.lines[-1] == "[0-3] 0"


def test_output_modes_say_who_is_heard(four):
    four.run("%%disco --output ordered\nprint(worker_id)")
    assert four.lines == [f"[{w}] {w}" for w in range(4)]
    four.run("%%disco --output grouped\nprint(worker_id // 2)")
    assert four.lines == ["[0-1] 0", "[2-3] 1"]
    four.run("%%disco --output worker0\nprint(worker_id)")
    assert four.lines == ["[0] 0"]
    four.run("%%disco --output none -o r\nprint(worker_id)\n1")
    assert four.lines[-1].endswith("[0-3] 1")
    assert four.ip.user_ns["r"].stdout[3] == "3\n"
    four.run("%config DiscoMagics.output = 'ordered'")
    four.run("%%disco\nprint('all')")
    assert four.lines == [f"[{w}] all" for w in range(4)]
    four.run("%%disco --group-outputs type\nimport sys\nprint('o')\nprint('e', file=sys.stderr)")
    assert four.lines == [f"[{w}] o" for w in range(4)]


def test_a_reference_of_the_notebook_can_be_pushed_under_its_name(four):
    four.ip.user_ns["d"] = session().call_packed(lambda: 5)
    four.run("%%disco --push d\nd")
    assert four.lines[-1] == "[0-3] 5"


def test_a_session_made_in_python_is_the_one_that_cells_use(shell):
    shell.run("import disco_magic\nmine = disco_magic.ThreadedSession(2)")
    shell.run("%%disco\nnum_workers")
    assert shell.lines == ["[0-1] 2"]
    shell.run("mine.shutdown()")


def test_after_a_session_of_its_own_has_ended_the_notebook_s_is_current_again(crew):
    crew.run("import disco_magic\nwith disco_magic.ThreadedSession(7): pass")
    crew.run("%%disco\nnum_workers")
    assert crew.lines[-1].endswith(f"] {crew.n}")


def test_magics_in_a_cell_say_where_they_belong(four):
    assert "%timeit 1 into a cell without %%disco" in str(four.fail("%%disco\n%timeit 1", CellError))
    assert "put %%time above %%disco" in str(four.fail("%%disco\n%%time\nx = 1", CellError))


def test_a_one_line_cell_named_like_a_magic_is_a_register(four):
    four.run("%%disco\nhist = 5")
    four.run("%%disco\nhist")
    assert four.lines[-1] == "[0-3] 5"


def test_shell_output_can_be_assigned_with_the_worker_s_values(four):
    four.run("%%disco\ndef f(word):\n    lines = !echo {word} $worker_id\n    return lines\nf('hi')[0]")
    assert four.lines[-4:] == [f"[{w}] 'hi {w}'" for w in range(4)]
    four.run("%%disco\n!exit 3\n_exit_code")
    assert four.lines[-1] == "[0-3] 3"
    assert "offers !commands only" in str(four.fail("%%disco\nget_ipython().kernel", CellError))
    four.run("%%disco\nx = 1\nget_ipython().user_ns['x'], repr(get_ipython())[:16]")
    assert four.lines[-1] == "[0-3] (1, '<get_ipython() o')"


def test_completion_offers_subcommands_options_and_names(four):
    def complete(line):
        with provisionalcompleter():
            return [found.text for found in four.ip.Completer.completions(line, len(line))]

    four.ip.user_ns["weights"] = 1
    four.run("%%disco\nwinners = 1")
    assert complete("%disco sta") == ["start", "status"]
    assert complete("%disco put wei") == ["weights"]
    assert complete("%disco get w") == ["winners"]
    assert complete("%disco scatter --a") == ["--axis"]
    assert complete("%disco nothing w") != ["winners"]
    assert "winners" not in complete("w")
