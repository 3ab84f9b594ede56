"""What %%disco takes of the options of ipyparallel's %%px, and what it says of the others."""

from __future__ import annotations

import builtins

import pytest
from IPython.core.error import UsageError

from disco_magic.errors import UsageMistake
from disco_magic.notebook.cell_options import REFUSED, cell_parser
from disco_magic.session.current import session


def names(shell):
    return session().names()


# As ipyparallel 9.2 has them; each with a value where it takes one.
TAKEN = (
    ["-b", "--block", "-a", "--noblock", "--stream", "--no-stream", "-t 0", "--targets 1:3", "--no-verbose"]
    + ["--progress-after 2", "--progress-after 0", "--progress-after -1", "-r", "-e", "-o x", "--out x"]
    + [f"--group-outputs {each}" for each in ("engine", "order", "type")]
    + ["--local"]
)


@pytest.mark.parametrize("option", TAKEN)
def test_options_of_px_are_taken(four, option):
    four.run(f"%%disco {option}\nx = 1")
    session().sync_all()
    assert names(four) == ("x",)


@pytest.mark.parametrize(
    "option", ["--verbose", "--signal-on-interrupt SIGINT", "--signal-on-interrupt=9", "-n 8"]
)
def test_options_of_px_that_mean_nothing_here_say_what_to_use_instead(four, option):
    four.fail(f"%%disco {option}\nsent = 1", UsageError)
    name = option.replace("=", " ").split()[0]
    assert f"there is no {name} here: {REFUSED[name]}" in four.err
    assert len(four.err.splitlines()) == 1
    assert names(four) == ()


def test_no_option_of_px_is_forgotten():
    magics = pytest.importorskip("ipyparallel.client.magics", reason="the extra 'bench' has it")
    theirs = {o for each in magics.ParallelMagics.cell_px.parser._actions for o in each.option_strings}
    assert theirs - {"-h", "--help"} == {option.split()[0] for option in TAKEN} | set(REFUSED)


def test_never_is_minus_one_as_in_ipyparallel_or_none():
    after = [cell_parser().read(f"--progress-after {text}").progress_after for text in ("-1", "none", "0")]
    assert after == [float("inf"), float("inf"), 0.0]


@pytest.fixture
def order(four):
    """In which order a cell on two workers shows its lines and its displays."""
    four.ip.display_pub.publish = lambda data, *_, **__: print(data["text/html"])
    builtins.publisher = four.ip.display_pub  # the fixture `bare` takes it away
    show = "builtins.publisher.publish({'text/html': f'%s of {worker_id}'})"

    def shown(line):
        four.run(
            f"%%disco -w 0,1 {line}\nimport builtins\nprint('line')\n{show % 'first'}\n{show % 'second'}"
        )
        return [text for text in four.lines if text not in ("[0]", "[1]")]

    return shown


BY_ENGINE = ["[0] line", "first of 0", "second of 0", "[1] line", "first of 1", "second of 1"]
BY_TYPE = ["[0] line", "[1] line", "first of 0", "second of 0", "first of 1", "second of 1"]
IN_TURNS = ["[0] line", "[1] line", "first of 0", "first of 1", "second of 0", "second of 1"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("-e", BY_ENGINE),
        ("--group-outputs engine", BY_ENGINE),
        ("--no-stream --group-outputs engine", BY_ENGINE),
        ("-e --no-stream", BY_ENGINE),
        ("--group-outputs type", BY_TYPE),
        ("--no-stream", BY_TYPE),
        ("-r", IN_TURNS),
        ("--group-outputs order", IN_TURNS),
    ],
)
def test_output_is_grouped_at_the_end_as_px_groups_it(order, line, expected):
    assert order(line) == expected


def test_stream_shows_lines_at_once_whatever_is_configured(four):
    four.run("%config DiscoMagics.output = 'none'")
    four.run("%%disco --stream\nprint(worker_id)")
    assert sorted(four.lines) == [f"[{w}] {w}" for w in range(4)]


# --- --local ---------------------------------------------------------------------------------------


def test_local_runs_the_cell_in_the_notebook_too(crew):
    crew.run("%%disco --local\ndef double(x):\n    return 2 * x\nn = double(4)\nprint(str(__name__))\nn")
    assert crew.lines[:2] == ["__main__", "8"]
    assert sorted(crew.lines[2:-1]) == [f"[{w}] __disco__" for w in range(crew.n)]
    assert crew.lines[-1].endswith("] 8")
    assert crew.run("double(n)") == 16


def test_what_local_defines_can_be_pushed(four):
    four.run("%%disco --local --push made --pull back\nback = globals().get('made')\nmade = [1]\nNone")
    assert four.ip.user_ns["back"] == [1]


def test_a_cell_that_fails_in_the_notebook_is_not_sent_and_shows_its_own_lines_only(four):
    error = four.fail("%%disco --local\nsent = 1\ndef f():\n    1 / 0\nf()", ZeroDivisionError)
    assert names(four) == ()
    assert [line for line in four.out.splitlines() if "---->" in line] == [
        "----> 5 f()",
        "----> 4     1 / 0",
    ]
    assert "disco_magic" not in four.out
    assert "worker_id" in str(four.fail("%%disco --local\nworker_id", NameError))
    assert error._render_traceback_() == error._render_traceback_()


def test_an_error_that_shows_itself_does_so_with_local_too(four):
    four.run("class Own(Exception):\n    def _render_traceback_(self):\n        return ['as it wants']\n")
    four.run("import builtins\nbuiltins.Own = Own")
    four.fail("%%disco --local\nraise Own")
    assert four.out == "as it wants\n"


def test_local_can_come_before_a_cell_that_is_not_waited_for(four):
    four.run("%%disco --local --nowait -o h\nn = 5\nn")
    assert four.run("h.wait()").values == [5] * 4
    assert four.ip.user_ns["n"] == 5


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        (
            "%%disco --local\nhere = 1\nimport asyncio\nawait asyncio.sleep(0)",
            "awaits, which --local cannot do",
        ),
        ("%%disco --local -w 9\nhere = 1", "there is no worker 9"),
        ("%%disco --local --show 9\nhere = 1", "there is no worker 9"),
        ("%%disco --local\nhere = ]", "unmatched"),
    ],
)
def test_what_is_refused_does_not_run_in_the_notebook_either(four, cell, reason):
    assert reason in str(four.fail(cell, UsageMistake))
    assert "here" not in four.ip.user_ns
    assert names(four) == ()
