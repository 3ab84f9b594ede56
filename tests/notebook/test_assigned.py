"""The value of ``r = %disco get x`` and the like; a line of its own still shows nothing.

The magics returned None, so that IPython would not show a value, and that is what `r` was.
"""

from __future__ import annotations

import numpy as np
import pytest

from disco_magic.core.doctor import Diagnosis
from disco_magic.core.history import History
from disco_magic.core.snapshot import SessionSnapshot
from disco_magic.session.current import session


@pytest.fixture
def held(four):
    four.run("%%disco\nx = np.full(2, worker_id)\ny = [worker_id]\nd = {'w': 7}")
    return four


def test_an_assigned_get_has_the_value_that_the_variable_gets(held):
    held.run("r = %disco get x")
    assert held.ip.user_ns["r"] is held.ip.user_ns["x"]
    assert held.ip.user_ns["r"].tolist() == [0, 0]


@pytest.mark.parametrize("line", ["%disco get x", "%disco gather x", "%disco get x -w all"])
def test_a_line_of_its_own_shows_no_value(held, line):
    assert held.run(line) is None
    assert held.shown == []
    assert "x" in held.ip.user_ns


@pytest.mark.parametrize(
    "cell",
    [
        "%disco get x\n1",
        "for _ in range(2):\n    %disco get x",
        "if True:\n    %disco get x\n",
        "%time %disco get x",
        "disco get x",
        "%alias_magic fetch disco -p get\n%fetch x",
    ],
)
def test_nor_does_a_line_of_its_own_within_other_code(held, cell):
    assert held.run(cell) == (1 if cell.endswith("1") else None)
    assert "array" not in held.out + held.err


def test_several_names_give_their_values_in_the_order_of_the_names(held):
    held.run("b, a = %disco get y x")
    assert held.ip.user_ns["b"] == [0]
    assert held.ip.user_ns["a"].tolist() == [0, 0]


def test_a_part_and_the_values_of_several_workers_are_given_like_what_is_bound(held):
    held.run("w1 = %disco get w=d['w']")
    assert held.ip.user_ns["w1"] == held.ip.user_ns["w"] == 7
    held.run("r = %disco get y -w all")
    assert held.ip.user_ns["r"] == [[0], [1], [2], [3]]


def test_an_assigned_gather_has_the_joined_value(held):
    held.run("r = %disco gather y")
    assert held.ip.user_ns["r"] == [0, 1, 2, 3]


def test_code_that_calls_the_magic_gets_the_value(held):
    held.run("total = get_ipython().run_line_magic('disco', 'get x').sum() + 1")
    assert held.ip.user_ns["total"] == 1
    held.run("def fetch():\n    return get_ipython().run_line_magic('disco', 'get x')\nr = fetch()")
    assert np.array_equal(held.ip.user_ns["r"], [0, 0])


def test_an_assigned_start_has_the_session_whether_it_is_new_or_was_there(shell):
    shell.run("s = %disco start -n 1")
    assert shell.ip.user_ns["s"] is session()
    shell.run("again = %disco start")
    assert shell.ip.user_ns["again"] is session()
    assert shell.run("%disco start") is None


def test_a_cell_that_ends_with_the_assigned_name_shows_it_once(held):
    assert held.run("r = %disco get x\nr").tolist() == [0, 0]
    assert len(held.shown) == 1


def test_an_assigned_list_has_what_the_line_would_show_and_shows_nothing(held):
    held.run("%disco get x\nnames = %disco who")
    held.run("lists = %disco who list -w 2\ntable = %disco whos")
    held.run("status = %disco status\nlog = %disco log -n 1")
    assert held.out == ""
    assert held.shown == []
    found = held.ip.user_ns
    assert found["names"] == ["d", "x", "y"]
    assert found["lists"] == ["y"]
    assert [type(found[name]) for name in ("table", "status", "log")] == [SessionSnapshot, Diagnosis, History]
    assert [row.name for row in found["table"].rows] == found["names"]
    assert found["status"].positions[3].state == "idle"


@pytest.mark.parametrize(
    "cell",
    [
        "r = eval(\"get_ipython().run_line_magic('disco', 'get y')\")",
        """r = eval("eval('get_ipython().run_line_magic(\\"disco\\", \\"get y\\")')")""",
        "r = %time %disco get y",
        "r = get_ipython().run_cell_magic('time', '', '%disco get y')",
    ],
    ids=["eval", "eval in eval", "%time", "%%time"],
)
def test_the_value_of_an_expression_that_is_evaluated_is_that_of_its_line(held, cell):
    """An expression by itself was taken for a line of its own, whoever asked for its value."""
    held.run(cell)
    assert held.ip.user_ns["r"] == [0]


@pytest.mark.parametrize(
    "cell", ["eval(\"get_ipython().run_line_magic('disco', 'get y')\")", "%%time\n%disco get y"]
)
def test_an_evaluated_expression_as_a_line_of_its_own_shows_no_value(held, cell):
    assert held.run(cell) is None
    assert "[0]" not in held.out
    assert held.ip.user_ns["y"] == [0]
