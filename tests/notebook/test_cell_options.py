"""The options of %%disco in a real shell."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from IPython.core.error import UsageError

from disco_magic.errors import CellError, Divergence, SessionClosed, SyncTimeout, UsageMistake
from disco_magic.isolation.streams import WorkerStream
from disco_magic.notebook.output.console import Console
from disco_magic.notebook.output.scope import NotebookScope
from disco_magic.session.current import session


def names(shell):
    return session().names()


@pytest.mark.parametrize(
    "line",
    [
        "--timeout 0",
        "--timeout soon",
        "--timeout -1",
        "--progress-after -2",
        "--out class",
        "--out {name}",
        "--push _private",
        "--out a.b",
        "--push a,b-c",
        "--output loud",
        "--group-outputs x",
        "-g one",
        "extra",
        '"not closed',
        "--session 1x",
        "-w 0 -w 1",
        "--workers 0 -t 1",
    ],
)
def test_wrong_options_of_a_cell_are_one_line_and_nothing_is_sent(four, line):
    four.fail(f"%%disco {line}\nsent = 1", UsageError)
    assert len(four.err.splitlines()) == 1
    assert names(four) == ()


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("-t 0 2", "-w 2 chooses a worker, -w 0,2 two of them"),  # not: did you mean -n 2?
        ("--as h", "%%disco -h shows what there is"),  # not: did you mean '-a'?
        ("--timout 3", "did you mean '--timeout' or '--out' or '--time'?"),
    ],
)
def test_the_hint_to_a_wrong_option_is_one_that_there_is(four, line, hint):
    assert f"({hint})" in str(four.fail(f"%%disco {line}\nsent = 1", UsageError))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("-a -b", "exclude each other"),
        ("-a --timeout 1", "--timeout needs the end of the cell"),
        ("-a --pull x", "--pull needs the end"),
        ("-a --time", "--time needs the end"),
        ("--pull x,y -o y", "--out and --pull both bind y"),
        ("-w 0 -g 0", "both say who runs the cell"),
        ("--output live --group-outputs type", "both say how output is shown"),
        ("--stream -e", "both say how output is shown"),
        ("-w 9", "there is no worker 9"),
        ("--workers 8", "this session has 4 workers, 0-3; %disco start -n says how many there are"),
        ("-g 9", "there is no group 9"),
        ("--show 9", "there is no worker 9"),
        ("--show 0 --output worker0", "both say whose output is shown"),
        ("-w 0,1 --show 2:", "--show 2:: the cell runs on workers [0-1] only; nothing was sent"),
        ("--push nowhere", "has no variable 'nowhere'"),
        ("--push nope", "has no variable 'nope'; define it first"),  # not: did you mean 'open'?
        ("--session nowhere", "has no variable 'nowhere'"),
        ("--session get_ipython", "the variable 'get_ipython' holds no session but"),
    ],
)
def test_options_that_do_not_fit_are_refused_before_anything_is_sent(four, line, reason):
    assert reason in str(four.fail(f"%%disco {line}\nsent = 1", UsageMistake))
    assert names(four) == ()


# --- options of cells ------------------------------------------------------------------------------


def test_a_part_of_the_workers_can_run_a_cell(four):
    four.run("%%disco -w 0,2:4\nprint(worker_id)")
    assert sorted(four.lines) == ["[0] 0", "[2] 2", "[3] 3"]
    four.run("%%disco -t all\nallgather(np.array([worker_id])).size")
    assert four.lines[-1] == "[0-3] 4"


@pytest.mark.parametrize(
    ("workers", "chosen"), [("-1", [3]), ("-2:", [2, 3]), ("-1,0", [0, 3]), ("-3:-1", [1, 2])]
)
def test_workers_can_be_counted_from_the_end(four, workers, chosen):
    four.run(f"%%disco -w {workers} --out result\nworker_id")
    assert four.ip.user_ns["result"].values[-len(chosen) :] == chosen
    assert list(four.ip.user_ns["result"].workers) == chosen


def test_names_are_those_that_python_makes_of_what_is_typed(four):
    four.run("%%disco --out \u00b5\n\u00b5 = 3; 5")
    assert four.ip.user_ns["\u03bc"].values == [5] * 4
    four.run("%disco get \u00b5")
    assert four.ip.user_ns["\u03bc"] == 3
    for command in ("%disco check \u00b5", "%disco registers \u00b5 --table", "%disco rm \u00b5"):
        four.run(command)
    assert "\u03bc" not in names(four)


def test_push_and_pull_carry_variables_in_and_out(crew):
    crew.ip.user_ns.update(a=np.ones(2), b=3)
    crew.run("%%disco --push a,b --pull y\ny = a * b + worker_id")
    assert crew.ip.user_ns["y"].tolist() == [3.0, 3.0]


def test_push_carries_variables_to_those_who_run_the_cell(four):
    for worker in range(4):
        four.ip.user_ns.update(lr=worker / 10, more=[worker])
        four.run(f"%%disco -w {worker} --nowait --push lr,more\nscore = 10 * lr")
    four.run("%%disco\nlr * 10 == score, more[0] == worker_id, float(score)")
    assert four.lines[-4:] == [f"[{worker}] (True, True, {worker}.0)" for worker in range(4)]


def test_push_to_some_leaves_the_others_without_a_name(four):
    four.ip.user_ns["lr"] = 1
    four.run("%%disco -w 1 --push lr\nlr")
    four.run("%%disco\n'lr' in globals()")
    assert four.lines[-2:] == ["[0,2-3] False", "[1]     True"]


@pytest.mark.parametrize(("line", "told"), [("-w 1,3", [0, 5, 0, 5]), ("-w all", [5] * 4), ("", [5] * 4)])
def test_broadcast_takes_those_who_get_the_values(four, line, told):
    four.run("%%disco\nstep = 0")
    four.ip.user_ns["step"] = 5
    four.run(f"%disco broadcast {line} step")
    four.run("%disco get -w 0,1,2,3 step")
    assert four.ip.user_ns["step"] == told


def test_pull_takes_the_first_worker_that_ran(four):
    four.run("%%disco -w 2,3 --pull y\ny = worker_id")
    assert four.ip.user_ns["y"] == 2


def test_out_binds_the_result(crew):
    result = crew.run("%%disco --out r\nworker_id")
    assert crew.ip.user_ns["r"] is result


def test_a_handle_waits_says_whether_it_is_done_and_cancels(four):
    four.run("import builtins, threading\nbuiltins.gate = threading.Event()")
    handle = four.run(
        "%%disco --nowait -o h\nimport builtins\nprint('begun')\nbuiltins.gate.wait(20)\nworker_id"
    )
    assert handle is four.ip.user_ns["h"]
    while handle.stdout != dict.fromkeys(range(4), "begun\n"):
        pass
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


def test_a_configured_timeout_stops_cells(four):
    four.run("%config DiscoMagics.timeout = 0.05")
    four.fail("%%disco\nwhile True:\n    i = 1\n    i += 1", SyncTimeout)
    four.run("%config DiscoMagics.timeout = None")
    four.run("%%disco\nworker_id")


@pytest.mark.parametrize(
    ("configured", "line", "expected"),
    [
        (None, "", None),
        (30.0, "", 30.0),
        (30.0, "--timeout 5", 5.0),
        (30.0, "--timeout none", float("inf")),
        (None, "--timeout 5", 5.0),
    ],
)
def test_the_timeout_of_a_cell_comes_before_the_configured_one(four, monkeypatch, configured, line, expected):
    asked = []
    patience = type(session()).patience
    monkeypatch.setattr(type(session()), "patience", lambda me, s: patience(me, asked.append(s) or s))
    four.run(f"%config DiscoMagics.timeout = {configured}")
    four.run(f"%%disco {line}\npass")
    assert asked[0] == expected


def test_braces_and_dollars_are_what_they_are_in_a_cell_and_replaced_on_its_line(four):
    four.ip.user_ns.update(x="replaced", name="replaced")
    four.run("%%disco -w 0\nprint('{x}', '$x', '${x}', '{{x}}')")
    assert four.lines == ["[0] {x} $x ${x} {{x}}"]
    four.run("%%disco -o {name}\n5")
    assert four.ip.user_ns["replaced"].values == [5] * 4


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


def test_a_mapping_of_references_is_pushed_as_a_dict(four):
    four.run("from disco_magic import session")
    four.run(
        "weights = {'a.w': session().call_packed(list, 'xy'), 'b': session().call_packed(int, 3)}; n = [1]"
    )
    four.run("%%disco --push weights,n\nlist(weights), weights['b'], n")
    assert four.lines == ["[0-3] (['a.w', 'b'], 3, [1])"]


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
    belongs = "%who int into a cell without %%disco"
    assert belongs in str(four.fail("%%disco\nx = 1\n%who int", UsageMistake))
    assert belongs in str(four.fail("%%disco\ny = 1\nif y:\n    %who int", CellError))
    assert "put %%time above %%disco" in str(four.fail("%%disco\n%%time\nx = 1", UsageMistake))
    four.run("%%disco\n'x' in globals(), 'y' in globals()")
    assert four.lines[-1] == "[0-3] (False, True)"


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


def test_a_cell_runs_in_the_session_that_a_variable_holds(four):
    four.run("import disco_magic\nfirst = disco_magic.session()\nsecond = disco_magic.ThreadedSession(2)")
    first, second = four.ip.user_ns["first"], four.ip.user_ns["second"]
    try:
        assert session() is second
        result = four.run("%%disco --session first --pull mine\nmine = 7 * num_workers\nmine")
        assert result.values == [28] * 4
        assert four.ip.user_ns["mine"] == 28
        assert (list(first), list(second)) == (["mine"], [])
        assert four.run("%%disco\nnum_workers").values == [2, 2]
    finally:
        second.shutdown()


def test_a_closed_session_is_not_run_in(four):
    four.run("import disco_magic\nother = disco_magic.ThreadedSession(2)\nother.shutdown()")
    four.fail("%%disco --session other\n1", SessionClosed)


def test_a_cell_with_a_get_ipython_of_its_own_calls_that(four):
    four.run(
        "%%disco\nclass Mine:\n    def run_line_magic(self, name, line):\n        return name\n"
        "def get_ipython():\n    return Mine()\nget_ipython().run_line_magic('foo', 'bar')"
    )
    assert four.lines == ["[0-3] 'foo'"]
    four.run("%%disco\ndel get_ipython")
    refused = "get_ipython().run_line_magic(magic_name='who', line='')"
    assert "%who cannot run on workers" in str(four.fail(f"%%disco\n{refused}", CellError))


@pytest.mark.parametrize(
    ("magic", "said"),
    [
        (
            "%time x + 1",
            "%%disco --time tells how long each worker takes for the whole cell, %%time in a line above",
        ),
        ("%timeit x + 1", "for a part of it put time.perf_counter() before and behind a loop in the cell"),
    ],
)
def test_what_measures_time_says_how_that_is_done_on_workers(four, magic, said):
    four.run("%%disco\nx = 1")
    assert said in str(four.fail(f"%%disco\n{magic}", UsageMistake))
    four.run("%%time\n%%disco --time\nx + 1")
    assert "Wall time" in four.out
    assert "%time" not in four.out


def test_the_end_of_a_cell_that_goes_on_leaves_its_workers_their_streams(four, monkeypatch):
    # A worker that prints while nothing stands in for stdout prints without its number, past the handle.
    seen, settle = [], Console._settle

    def settling(console):
        seen.append((type(sys.stdout), type(sys.stderr)))
        settle(console)

    monkeypatch.setattr(Console, "_settle", settling)
    four.run("import builtins, threading\nbuiltins.gate = threading.Event()")
    seen.clear()
    handle = four.run("%%disco --nowait\nimport builtins\nbuiltins.gate.wait(20)")
    assert set(seen) == {(WorkerStream, WorkerStream)}
    four.ip.user_ns["handle"] = handle
    four.run("builtins.gate.set()\nhandle.wait()")
    four.run("%disco sync")
    four.run("")
    assert not isinstance(sys.stdout, WorkerStream)


def test_a_cell_that_is_stopped_where_its_code_has_no_line_is_shown_at_the_line_before(four):
    """IPython shows no step of a traceback without a line, and one of ours could not be made."""
    four.fail("%%disco --timeout 2\nfor i in range(10**9): i if i < 2 else None", SyncTimeout)
    assert "Cell In[3], line 2" in four.out


def test_the_times_of_a_cell_are_shown_also_if_its_check_fails(four):
    four.fail("%%disco --time --check\nx = worker_id if worker_id else 'text'", Divergence)
    assert any(line.startswith(("time ", "load imbalance")) for line in four.lines)


def test_an_extension_that_can_tell_nobody_how_a_cell_ended_leaves_no_stand_ins(four, monkeypatch):
    before = sys.stdout
    four.run("import builtins, threading\nbuiltins.gate = threading.Event()")
    four.run("%%disco --nowait\nimport builtins\nbuiltins.gate.wait(20)")
    assert sys.stdout is not before
    close = NotebookScope.close

    def closed(scope):
        close(scope)
        raise ValueError("I/O operation on closed file")

    with monkeypatch.context() as patch:
        patch.setattr(NotebookScope, "close", closed)
        four.run("builtins.gate.set()")
        with pytest.raises(ValueError, match="closed file"):
            four.ip.extension_manager.unload_extension("disco_magic")
    assert not isinstance(sys.stdout, WorkerStream)


def test_sends_of_a_cell_can_wait_until_they_are_asked_for(four, tmp_path, monkeypatch):
    around = "send(worker_id, (worker_id + 1) % 4)\ngot = recv((worker_id - 1) % 4)"
    assert "wait for each other in a circle" in str(four.fail(f"%%disco --rendezvous\n{around}", CellError))
    four.run(f"%%disco\n{around}")
    (tmp_path / "around.py").write_text(around)
    monkeypatch.chdir(tmp_path)
    four.run("%disco run around.py")
    assert "wait for each other" in str(four.fail("%disco run --rendezvous around.py", CellError))
