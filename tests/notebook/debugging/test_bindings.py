"""What is bound at a worker's prompt is bound in the function that has stopped there."""

from __future__ import annotations

import builtins
import sys

import pytest
from IPython.core.interactiveshell import InteractiveShell


@pytest.fixture
def answering(crew, monkeypatch):
    """Makes every worker answer its prompts with the same lines."""
    monkeypatch.setattr(InteractiveShell, "_instance", crew.ip)
    left = {}

    def answer(prompt=""):
        return left[int(prompt[1])].pop(0)

    def let_answer(*lines):
        left.update({worker: list(lines) for worker in range(crew.n)})

    monkeypatch.setattr(builtins, "input", answer)
    yield let_answer
    assert not any(left.values())


OPENS = [
    "breakpoint()",
    "import pdb; pdb.Pdb().set_trace()",  # as pdb.set_trace, which pytest replaces
    "from IPython.core.debugger import set_trace; set_trace()",
]
WITHIN = """%%disco
def f(k):
    def more():
        nonlocal k
        k += 10
        return k
    {opens}
    k = k
    k = k
    return k
def g(k):
    found = f(k)
    return found, k
g(1)
"""


@pytest.mark.parametrize("opens", OPENS)
@pytest.mark.parametrize(
    "lines", [["k = 5", "p k", "c"], ["k = 5", "n", "c"], ["n", "k = 5", "p k", "n", "c"]]
)
def test_a_function_goes_on_with_what_is_assigned_at_the_prompt(crew, answering, opens, lines):
    answering(*lines)
    assert crew.run(WITHIN.format(opens=opens)).values == [(5, 1)] * crew.n
    assert "p k" not in lines or "[0] 5" in crew.lines


@pytest.mark.parametrize(
    ("lines", "value"),
    [
        (["up", "k = 7", "c"], (1, 7)),
        (["k = 5", "up", "k = 7", "down", "p k", "c"], (5, 7)),
        (["n", "up", "k = 7", "n", "c"], (1, 7)),
    ],
)
def test_so_does_one_further_out(crew, answering, lines, value):
    answering(*lines)
    assert crew.run(WITHIN.format(opens="breakpoint()")).values == [value] * crew.n


@pytest.mark.parametrize(
    ("lines", "value"),
    [
        (["more()", "p k", "c"], 11),
        (["k = 5", "p more()", "c"], 15),
        (["n", "more()", "k = 5", "p more() and more()", "n", "c"], 25),
    ],
)
def test_what_is_called_at_the_prompt_may_bind_names_too(crew, answering, lines, value):
    answering(*lines)
    assert crew.run(WITHIN.format(opens="breakpoint()")).values == [(value, 1)] * crew.n


DELETES = """%%disco
def f():
    k = 1
    breakpoint()
    there = sorted(set(locals()) & {"k", "late"}), late
    late = 0
    return there
f()
"""


def test_what_was_unbound_may_be_bound_and_what_is_the_prompt_s_own_deleted(crew, answering):
    answering("late = 3", "mine = 4", "p mine", "del mine", "p mine", "c")
    assert crew.run(DELETES).values == [(["k", "late"], 3)] * crew.n
    assert "[0] 4" in crew.lines
    assert "[0] *** NameError: name 'mine' is not defined" in crew.lines
    assert "not deleted" not in crew.out


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="Python cannot do that any more")
def test_what_is_deleted_at_the_prompt_is_gone(crew, answering):
    answering("late = 3", "del k", "c")
    assert crew.run(DELETES).values == [(["late"], 3)] * crew.n


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python can do that")
def test_where_names_cannot_be_deleted_the_user_is_told(crew, answering):
    answering("late = 3", "del k", "n", "del k", "c")
    assert crew.run(DELETES).values == [(["k", "late"], 3)] * crew.n
    said = "not deleted" if sys.version_info < (3, 13) else "NameError: name 'k' is not defined"
    assert crew.out.count(said) == 2 * crew.n


def test_what_a_line_has_bound_before_it_failed_stays(crew, answering):
    answering("k = 5; 1 / 0", "!k = 6; 1 / 0", "c")
    assert crew.run(WITHIN.format(opens="breakpoint()")).values == [(6, 1)] * crew.n
