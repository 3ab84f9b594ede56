"""Context variables that cells set on a worker last there, as in a notebook."""

from __future__ import annotations

import contextvars
import decimal

import numpy as np
import pytest

from disco_magic.isolation.lasting import LastingVariables

setting = contextvars.ContextVar("setting")


@pytest.fixture
def cell():
    """Calls a function as a cell of one worker does: in a copy of the caller's context."""
    variables = LastingVariables()

    def run(function):
        def call():
            variables.begin()
            try:
                return function()
            finally:
                variables.end()

        return contextvars.copy_context().run(call)

    return run


def test_what_a_cell_sets_lasts_until_a_cell_sets_it_back(cell):
    assert cell(lambda: setting.get("unset")) == "unset"
    cell(lambda: setting.set("by a cell"))
    assert [cell(lambda: setting.get("unset")) for _ in range(2)] == ["by a cell"] * 2
    assert setting.get("unset") == "unset"


def test_what_the_notebook_sets_later_holds(cell):
    def in_a_notebook():
        setting.set("notebook's")
        cell(lambda: setting.set("by a cell"))
        assert cell(setting.get) == "by a cell"
        setting.set("notebook's, later")
        assert cell(setting.get) == "notebook's, later"
        cell(lambda: setting.set("again"))
        cell(lambda: setting.set("notebook's, later"))
        setting.set("notebook's, last")
        assert cell(setting.get) == "notebook's, last"

    contextvars.copy_context().run(in_a_notebook)


def test_a_cell_that_fails_has_set_what_it_has_set(cell):
    def fail():
        setting.set("before it failed")
        raise KeyError

    with pytest.raises(KeyError):
        cell(fail)
    assert cell(setting.get) == "before it failed"


def test_a_cell_that_was_ended_before_it_began_has_set_nothing():
    variables = LastingVariables()
    contextvars.copy_context().run(lambda: (setting.set("notebook's"), variables.end(), variables.begin()))
    assert setting.get("unset") == "unset"


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.1.0", reason="print options are the process's")
def test_print_options_and_decimal_contexts_last(cell):
    cell(lambda: (np.set_printoptions(precision=2), setattr(decimal.getcontext(), "prec", 3)))
    assert cell(lambda: (str(np.array([1 / 3])), str(decimal.Decimal(1) / 3))) == ("[0.33]", "0.333")
    assert str(np.array([1 / 3])) == "[0.33333333]"


DECIMALS = """
import decimal, threading
from concurrent.futures import ThreadPoolExecutor
def third(): return str(decimal.Decimal(1) / 3)
def low(digits):
    decimal.getcontext().prec = digits
    return third()
with ThreadPoolExecutor(1) as pool: found = [pool.submit(low, 4).result(), third()]
thread = threading.Thread(target=low, args=(6,))
thread.start()
thread.join()
decimal.getcontext().prec = 9
with ThreadPoolExecutor(1) as pool: found += [pool.submit(third).result(), third()]
"""


def test_a_thread_that_sets_a_precision_leaves_its_worker_s(session):
    # The worker's own results had as few digits from then on.
    s = session(2)
    s.run(DECIMALS)
    assert s.run("found").values == [["0.3333", f"0.{'3' * 28}", *["0.333333333"] * 2]] * 2
