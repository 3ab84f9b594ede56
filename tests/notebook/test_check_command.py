"""``%disco check`` in a real shell: registers compared between workers, at any time."""

from __future__ import annotations

import pytest
from IPython.core.error import UsageError

from disco_magic.errors import Divergence, UnknownName, UsageMistake

REGISTERS = """%%disco
same, n = np.arange(3.0), 3
near = np.ones(4) * (1 + 1e-9 * worker_id)
params = {'w': np.ones(2), 'b': np.zeros(2) + worker_id}
"""


@pytest.fixture
def registers(four):
    four.run(REGISTERS)
    return four


def test_what_agrees_is_shown_as_a_table(registers):
    report = registers.run("%disco check same n")
    assert report.summary == "[0-3] agree on: same, n"
    assert "same  equal  [0-3]  float64 (3,)" in registers.out
    assert registers.run("%disco check params['w']").summary == "[0-3] agree on: params['w']"
    assert registers.run("%disco check --rtol 1e-6 near").summary == (
        "[0-3] agree within rtol=1e-06, atol=0 on: near"
    )
    assert registers.run("%disco check --types").summary.startswith(
        "[0-3] agree on type and shape of: same, n, near"
    )


def test_elements_and_slices_of_arrays_are_compared_as_get_takes_them(registers):
    # A check looked only for parts that have names, and said of an array that it has no parts.
    registers.run("%%disco\nx = np.arange(4.0)\nx[3] += worker_id / 4\nrows = np.zeros((2 + worker_id, 3))")
    assert registers.run("%disco check x[0:3] x[0]").summary == "[0-3] agree on: x[0:3], x[0]"
    assert registers.run("%disco check rows[0:2, -1]").summary == "[0-3] agree on: rows[0:2, -1]"
    assert registers.run("%disco check x [0:3]").summary == "[0-3] agree on: x[0:3]"  # Python takes it, too
    error = registers.fail("%disco check x[2:]", Divergence)
    assert "'x[2:]' differs: float64 (2,) [2. 3.] on worker 0" in str(error)
    assert "1 of 2 elements differs from the first worker's, by up to 0.75, at [1]" in registers.out
    assert (
        "[0-3] agree within rtol=1, atol=0 on: x[2:]" in registers.run("%disco check --rtol 1 x[2:]").summary
    )


def test_an_index_that_some_workers_do_not_have_is_said_with_its_name(registers):
    registers.run("%%disco\nrows = np.zeros((2 + worker_id // 3, 3))")
    error = registers.fail("%disco check rows[2]", UsageMistake)
    assert str(error).startswith("check: on workers [0-2], rows[2]: [2] is no index of it: index 2 is out of")
    assert registers.run("%disco check same").summary == "[0-3] agree on: same"


def test_what_differs_fails_with_the_table(registers):
    error = registers.fail("%disco check near --atol 1e-12", Divergence)
    assert [row.name for row in error.report.differing] == ["near"]
    assert "Equal means within rtol=0, atol=1e-12" in registers.out
    assert "Traceback" not in registers.out
    registers.fail("%disco check params", Divergence)
    assert "≠ params['b']" in registers.out


def test_without_names_values_are_those_of_what_is_marked(registers):
    report = registers.run("%disco check")
    assert report.summary.startswith("[0-3] agree on type and shape of: same, n, near")
    assert (
        "values were compared of marked registers only; %disco check same compares its own" in registers.out
    )
    registers.run("%%disco\nnear = worker.replicated(near)")
    registers.fail("%disco check", Divergence)
    assert registers.run("%disco check --rtol=1e-6")["near"].lines()[0][0] == "near"


def test_some_workers_and_axes_can_be_chosen(shell):
    shell.run("%disco start --mesh dp=2,tp=2")
    shell.run("%%disco\nx = np.ones(2) * worker.coordinates['tp']")
    shell.fail("%disco check x", Divergence)
    shell.run("%disco check x --over dp")
    shell.run("%disco check -w tp=1 x")
    shell.run("s = __import__('disco_magic').ThreadedSession(1)\n")
    assert shell.fail("%disco check --session s x", UnknownName)


@pytest.mark.parametrize(
    ("line", "kind", "said"),
    [
        ("%disco check smae", UnknownName, "did you mean 'same'"),
        ("%disco check --types --rtol 1 same", UsageMistake, "is about values"),
        ("%disco check --rtol=-1 same", UsageError, "'-1' is not a tolerance; write a number, e.g. 1e-5"),
        ("%disco check --rtol nan same", UsageError, "is not a tolerance"),
        ("%disco check --timeout 0 same", UsageError, "is not a time"),
        ("%disco check -w 9 same", UsageMistake, "9"),
        ("%disco check --over dp same", UsageMistake, "dp"),
    ],
)
def test_what_cannot_be_compared_is_said(registers, line, kind, said):
    assert said in str(registers.fail(line, kind))


@pytest.mark.filterwarnings("ignore::IPython.core.completer.ProvisionalCompleterWarning")
def test_tab_offers_registers_and_parts(registers):
    line = "%disco check sa"
    offered = registers.ip.Completer.completions(line, len(line))
    assert "same" in [each.text for each in offered]
