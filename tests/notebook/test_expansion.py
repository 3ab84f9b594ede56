"""``$name`` in the notebook's commands and magics: a register's name is refused, not made nothing of."""

from __future__ import annotations

import pytest
from IPython.core.error import UsageError

import disco_magic as disco

SAID = "{} is a register of the workers; %disco get {} copies worker 0's into the notebook"


@pytest.fixture
def crew(shell):
    shell.run("%disco start -n 2")
    shell.run("%%disco\nout = 'runs'; lr = 0.1")
    return shell


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("!echo $out/ck", "out"),
        ("!echo {lr * 2}", "lr"),
        ("!echo $lr.real", "lr"),
        ("found = !echo $lr", "lr"),
        ("%cd $out", "out"),
        ("%disco run train.py --lr $lr", "lr"),
        ("%%bash -s $lr\necho $1", "lr"),
    ],
)
@pytest.mark.parametrize("auto", [False, True])
def test_a_register_is_refused_and_it_is_said_how_it_comes_here(crew, line, name, auto):
    if auto and line.startswith("found"):
        pytest.skip("runs on the workers")
    if auto:
        crew.run("%disco auto on")
    assert SAID.format(name, name) in str(crew.fail(line, UsageError))


def test_the_notebook_s_variables_go_first_and_unknown_names_stay_as_they_are(crew, monkeypatch):
    monkeypatch.setenv("DISCO_TESTED", "from the environment")
    crew.run("lr = 3\n!echo $lr {lr + 1}")
    assert crew.lines == ["3 4"]
    crew.run("!echo '{print $out}' $DISCO_TESTED nothing$else")
    assert crew.lines == ["{print $out} from the environment nothing"]


def test_a_variable_of_the_environment_is_no_register(crew, monkeypatch):
    monkeypatch.setenv("out", "of the environment")
    crew.run("!echo $out")
    assert crew.lines == ["of the environment"]


def test_variables_of_a_function_are_known(crew):
    crew.run("def f():\n    out = 'mine'\n    return get_ipython().getoutput('echo $out')")
    assert crew.run("list(f())") == ["mine"]


def test_on_the_workers_each_has_its_own(crew):
    crew.run("%%disco\nme = worker_id\nfound = !echo $me\nprint(found)")
    assert sorted(crew.lines) == ["[0] ['0']", "[1] ['1']"]


def test_without_the_extension_nothing_is_refused(crew):
    crew.run("%unload_ext disco_magic")
    crew.run("!echo before$out")
    assert crew.lines == ["before"]
    assert "var_expand" not in vars(crew.ip)


def test_the_notebook_s_variables_are_replaced_on_our_lines(crew):
    crew.ip.user_ns.update(chosen="0,1", names=["x", "y"], x=1, y=2)
    assert crew.run("%%disco -w $chosen\nworker_id").values == [0, 1]
    assert crew.run("%%disco -w {len(chosen) - 2}\nworker_id").values == [1]
    crew.run("for name in names:\n    %disco broadcast {name}")
    assert crew.run("%%disco\nx + y").values == [3] * 2
    crew.run("def drop(what):\n    get_ipython().run_line_magic('disco', 'rm $what')\ndrop('x')")
    assert "x" not in disco.session()


def test_unknown_names_on_our_lines_stay_as_they_are(crew):
    assert "'$nobody' names no workers" in str(crew.fail("%%disco -w $nobody\n1"))
