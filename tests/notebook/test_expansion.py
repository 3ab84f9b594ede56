"""``$name`` in the notebook's commands and magics: a register's name is refused, not made nothing of."""

from __future__ import annotations

import pytest
from IPython.core.error import UsageError

import disco_magic as disco

SAID = "{} is a register of the workers; %disco get {} copies worker 0's into the notebook"


@pytest.fixture
def pair(shell):
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
def test_a_register_is_refused_and_it_is_said_how_it_comes_here(pair, line, name, auto):
    if auto and line.startswith("found"):
        pytest.skip("runs on the workers")
    if auto:
        pair.run("%disco auto on")
    assert SAID.format(name, name) in str(pair.fail(line, UsageError))


def test_the_notebook_s_variables_go_first_and_unknown_names_stay_as_they_are(pair, monkeypatch):
    monkeypatch.setenv("DISCO_TESTED", "from the environment")
    pair.run("lr = 3\n!echo $lr {lr + 1}")
    assert pair.lines == ["3 4"]
    pair.run("!echo '{print $out}' $DISCO_TESTED nothing$else")
    assert pair.lines == ["{print $out} from the environment nothing"]


def test_a_variable_of_the_environment_is_no_register(pair, monkeypatch):
    monkeypatch.setenv("out", "of the environment")
    pair.run("!echo $out")
    assert pair.lines == ["of the environment"]


def test_variables_of_a_function_are_known(pair):
    pair.run("def f():\n    out = 'mine'\n    return get_ipython().getoutput('echo $out')")
    assert pair.run("list(f())") == ["mine"]


def test_on_the_workers_each_has_its_own(pair):
    pair.run("%%disco\nme = worker_id\nfound = !echo $me\nprint(found)")
    assert sorted(pair.lines) == ["[0] ['0']", "[1] ['1']"]


def test_without_the_extension_nothing_is_refused(pair):
    pair.run("%unload_ext disco_magic")
    pair.run("!echo before$out")
    assert pair.lines == ["before"]
    assert "var_expand" not in vars(pair.ip)


def test_the_notebook_s_variables_are_replaced_on_our_lines(pair):
    pair.ip.user_ns.update(chosen="0,1", names=["x", "y"], x=1, y=2)
    assert pair.run("%%disco -w $chosen\nworker_id").values == [0, 1]
    assert pair.run("%%disco -w {len(chosen) - 2}\nworker_id").values == [1]
    pair.run("for name in names:\n    %disco broadcast {name}")
    assert pair.run("%%disco\nx + y").values == [3] * 2
    pair.run("def drop(what):\n    get_ipython().run_line_magic('disco', 'rm $what')\ndrop('x')")
    assert "x" not in disco.session()


def test_unknown_names_on_our_lines_stay_as_they_are(pair):
    assert "'$nobody' names no workers" in str(pair.fail("%%disco -w $nobody\n1"))
