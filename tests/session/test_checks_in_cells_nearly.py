"""`worker.check` with a tolerance."""

from __future__ import annotations

import pytest

from disco_magic.errors import CellError, PlaneMismatch, UsageMistake
from disco_magic.functions import tolerances
from tests.session.checked import failed, report

NEAR = {
    "arrays": "np.ones((2, 3)) + worker_id * 1e-9",
    "float32": "np.ones(4, 'f4') * (1 + worker_id * np.float32(1e-6))",
    "complex": "np.ones(3) * (1 + worker_id * 1e-9j)",
    "0-d arrays": "np.array(1 + worker_id * 1e-9)",
    "numbers of numpy": "np.float64(1 + worker_id * 1e-9)",
    "numbers": "1 + worker_id * 1e-9",
    "lists": "[1 + worker_id * 1e-9, 2, 0.5j]",
    "dicts": "{'loss': 1 + worker_id * 1e-9, 'step': 3}",
    "parts": "{'w': [np.ones(3) + worker_id * 1e-9], 'name': 'net'}",
    "mixed": "{'epoch': 1, 'done': False, 'loss': 0.25 + worker_id * 1e-9, 'name': 'a', 'w': np.ones(2)}",
    "tuples": "(1.0 + worker_id * 1e-9, True, None, 'a', np.float32(1))",
    "arrays beside numbers": "{'w': np.ones(3) + worker_id * 1e-9, 'loss': 0.1 + worker_id * 1e-9}",
    "objects": "__import__('types').SimpleNamespace(lr=0.1 + worker_id * 1e-9, steps=3)",
    "sets beside": "[{1, 2}, 1.0 + worker_id * 1e-9]",
    "infinite and NaN": "np.array([np.inf, -np.inf, np.nan, 1 + worker_id * 1e-9])",
}
FAR = {
    "arrays": ("np.ones(3) + worker_id * 1e-3", "by up to 0.002"),
    "one element": ("np.ones(9) + (np.arange(9) == 4) * worker_id", "1 of 9 elements differs"),
    "integers": ("np.arange(3) + worker_id", "3 of 3 elements differ"),
    "whole numbers": ("5 + worker_id", "int 5"),
    "of another sign of infinity": ("np.array([np.inf, 1.0]) * (1 - 2 * (worker_id == 1))", "differ"),
    "NaN": ("np.array([1.0, np.nan if worker_id else 1.0])", "differ"),
    "infinite beside finite": ("np.array([np.inf if worker_id else 1.0, 1.0])", "differ"),
    "texts beside": ("['a' * worker_id, 1.0]", "differ"),
    "another length": ("[1.0] * (1 + worker_id)", "differ"),
    "flags beside": ("{'loss': 1.0 + worker_id * 1e-9, 'done': worker_id == 1}", "differ"),
    "another order": ("[1.0, 'a'] if worker_id else ['a', 1.0]", "differ"),
    "floats of another type": ("[1.0, np.float32(1)][:: 1 - 2 * (worker_id == 1)]", "differ"),
    "int beside float": ("1.0 if worker_id else 1", "differ"),
    "keys": ("{worker_id: 1.0}", "differ"),
    "dtypes": ("np.ones(3, 'f4' if worker_id else 'f8')", "differ"),
}


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("what", NEAR)
def test_what_is_near_enough_counts_as_equal(session, what, n):
    s = session(n)
    s.run(f"x = {NEAR[what]}\nworker.check(x, rtol=1e-5)\nworker.check(x, atol=1e-5)\ny = 1")
    assert s.run("y").values == [1] * n
    if n > 1:
        assert not report(s, "worker.check(x)").ok


@pytest.mark.parametrize("what", FAR)
def test_what_is_further_apart_differs(session, what):
    value, told = FAR[what]
    assert told in str(report(session(3), f"worker.check({value}, rtol=1e-5, atol=1e-5)"))


TABLES = {
    "frame": "pd.DataFrame({'a': [1.0 + e, 2.0], 'n': [1, 2], 's': ['x', 'y']})",
    "series": "pd.Series([1.0 + e, 2.0], index=['a', 'b'])",
    "masked": "pd.DataFrame({'a': pd.array([1.0 + e, None], dtype='Float64')})",
}


@pytest.mark.parametrize("what", TABLES)
def test_columns_of_numbers_may_differ_a_little(session, what):
    pytest.importorskip("pandas")
    s = session(2)
    s.run(f"import pandas as pd\ne = worker_id * 1e-9\nx = {TABLES[what]}\nworker.check(x, rtol=1e-6)")
    assert not report(s, "worker.check(x, rtol=1e-12)").ok
    s.run(f"e = worker_id * 0.5\nx = {TABLES[what]}")
    assert not report(s, "worker.check(x, rtol=1e-6)").ok


def test_the_advice_says_how_near_is_near(session):
    with pytest.raises(CellError, match=r"Equal means within rtol=0\.5, atol=0 of the first worker's"):
        session(2).run("worker.check(np.zeros(2) + worker_id, rtol=0.5)")


def test_of_several_values_those_that_are_far_apart_are_told(session):
    told = report(
        session(3), "a, b = 1.0 + worker_id * 1e-9, np.ones(2) * worker_id\nworker.check(a, b, rtol=1e-6)"
    )
    assert {row.name: row.aspects for row in told} == {"a": (), "b": ("value",)}


def test_what_is_marked_may_differ_a_little_along_its_axis(session):
    s = session(4, mesh={"dp": 2, "tp": 2})
    s.run(
        "w = worker.replicated(np.full(3, worker.coordinates['tp']) + 1e-9 * worker_id, over='dp')\n"
        "worker.check(rtol=1e-6, atol=1e-6)"
    )
    s.run("w += worker_id == 3")
    told = report(s, "worker.check(rtol=1e-6, atol=1e-6)")
    assert [place for place, _ in told["w"].splits()] == ["tp=1"]


def test_all_members_have_to_allow_the_same(session):
    errors = failed(session(2), "worker.check(1.0, rtol=1e-3 * (1 + worker_id))")
    assert {type(each) for each in errors.values()} == {PlaneMismatch}
    assert "worker 0 brought 1 value within rtol=0.001, atol=0" in str(errors[0])


@pytest.mark.parametrize(
    "given", ["rtol=-1", "atol=float('nan')", "rtol='1e-3'", "atol=float('inf')", "rtol=True", "rtol=10**400"]
)
def test_a_tolerance_is_a_number(session, given):
    (error,) = failed(session(1), f"worker.check(1.0, {given})").values()
    assert isinstance(error, UsageMistake)
    assert "expected a number, 0 or above" in str(error)


def test_what_cannot_be_shown_stays_different(session, monkeypatch):
    monkeypatch.setattr(tolerances, "elements_of", lambda _: 1 / 0)
    assert not report(session(2), "worker.check(np.ones(3) + worker_id * 1e-9, rtol=1e-3)").ok
