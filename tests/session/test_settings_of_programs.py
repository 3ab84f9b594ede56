"""What a program sets for its worker ends with it: numbers of digits, errors, what is traced."""

from __future__ import annotations

import numpy as np
import pytest

CHANGES = {
    "errors": ("np.seterr(all='raise')", "np.geterr()['over']"),
    "digits": ("decimal.getcontext().prec = 5", "decimal.getcontext().prec"),
    "another context": ("decimal.setcontext(decimal.Context(prec=7))", "decimal.getcontext().prec"),
    "tracing": ("sys.settrace(lambda *_: None)", "type(sys.gettrace()).__name__"),
    "profiling": ("sys.setprofile(lambda *_: None)", "type(sys.getprofile()).__name__"),
    "a variable": ("variable.set('program')", "variable.get('unset')"),
}
if np.lib.NumpyVersion(np.__version__) >= "2.1.0":  # before, they are the process's
    CHANGES["printing"] = "np.set_printoptions(precision=2)", "np.get_printoptions()['precision']"
HEAD = "import decimal, sys\nimport numpy as np\n"


@pytest.fixture
def s(session):
    """One worker."""
    started = session(1)
    started.run(f"{HEAD}import contextvars\nvariable = contextvars.ContextVar('variable')")
    return started


@pytest.fixture
def run(s, tmp_path):
    """Executes a source as a program."""

    def execute(source):
        (tmp_path / "program.py").write_text(f"{HEAD}{source}\n")
        s.run_file(tmp_path / "program.py")

    return execute


@pytest.mark.parametrize("change", CHANGES)
def test_it_is_as_before_in_cells_and_in_the_next_program(s, run, change):
    source, seen = CHANGES[change]
    before = s.run(seen)[0]
    run(f"{source}\nfound = {seen} is not None")
    assert s.run(seen)[0] == before
    run(f"found = {seen}")
    assert s.run("found")[0] == before


@pytest.mark.parametrize("change", ["digits", "errors"])
def test_a_program_begins_with_what_cells_have_set_and_they_keep_it(s, run, change):
    source, seen = CHANGES[change]
    s.run(source)
    before = s.run(seen)[0]
    run(f"found = {seen}\ndecimal.getcontext().prec = 3\nnp.seterr(all='ignore')")
    assert s.run(f"found, {seen}")[0] == (before, before)


@pytest.mark.parametrize(
    "change", [each for each in CHANGES if each not in ("a variable", "tracing", "profiling")]
)
def test_what_a_module_sets_when_it_is_imported_stays_with_it(s, run, module_of, change):
    # A second run does not execute it again, and would compute without it.
    source, seen = CHANGES[change]
    name = module_of(f"{HEAD}{source}\n")
    before = s.run(seen)[0]
    found = []
    for _ in range(2):
        run(f"import {name}\nfound = {seen}\ndecimal.getcontext().prec = 3\nnp.seterr(all='warn')")
        found += [s.run("found")[0], s.run(seen)[0]]
    assert len(set(found)) == 1
    assert found[0] != before
