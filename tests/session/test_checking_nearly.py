"""`session.check` with a tolerance: what differs by no more counts as equal, and is said to be near."""

from __future__ import annotations

import pytest

from disco_magic.errors import CellError, Divergence, UsageMistake
from disco_magic.functions import tolerances


def verdicts(report):
    return {row.name: row.lines()[0][0].strip() for row in report}


def test_what_is_near_is_no_difference_and_is_said_to_be_near(session):
    s = session(4)
    s.run("w = np.ones(5); w[2] += 1e-7 * worker_id; n, far = 3, np.ones(2) + worker_id")
    report = s.check("w", "n", "far", values=True, rtol=1e-6)
    assert verdicts(report) == {"w": "near", "n": "equal", "far": "value"}
    assert report.within == "rtol=1e-06, atol=0"
    assert report.summary == "[0-3] differ in: far; agree on: n; agree within rtol=1e-06, atol=0 on: w"
    assert s.check("w", values=True, atol=1e-6)
    assert not s.check("w", values=True, rtol=1e-8)
    assert not s.check("w", values=True)


def test_what_differs_says_how_far_numbers_might_be(session):
    s = session(2)
    s.run("w = worker.replicated(np.zeros(2)); w += worker_id")
    with pytest.raises(Divergence) as caught:
        s.check(values=True, rtol=0.5).raise_if_differing()
    *_, equal, mark = str(caught.value).splitlines()
    assert equal.startswith(
        "Equal means within rtol=0.5, atol=0 of the first worker's, of numbers of floating"
    )
    assert mark.startswith("`del` drops the mark")
    with pytest.raises(Divergence, match=r"bit for bit: 0\.0 is not -0\.0\.\n`del` drops"):
        s.check(values=True).raise_if_differing()


def test_marks_parts_and_containers_are_compared_nearly_too(session):
    s = session(3)
    s.run(
        "p = worker.replicated({'w': np.ones(3) + 1e-9 * worker_id, 'lr': 0.1 + 1e-9 * worker_id})\n"
        "q = {'a': [np.zeros(2), np.ones(2) * (1 + 1e-9 * worker_id)]}"
    )
    assert s.check(values=True, rtol=1e-6)
    assert s.check("q", values=True, rtol=1e-6)
    assert s.check("q['a'][1]", values=True, rtol=1e-6)
    told = s.check("q", values=True, rtol=1e-6).summary
    assert told == "[0-2] agree within rtol=1e-06, atol=0 on: q['a'][1]; otherwise agree on: q"
    assert [row.name for row in s.check("q", values=True, rtol=1e-12).differing] == ["q['a'][1]"]


def test_of_a_part_that_is_near_nothing_is_said_about_the_rest_of_its_register(session):
    # Whatever was near counted as a part of its whole register, which nobody had compared.
    s = session(2)
    s.run("q = {'near': np.ones(2) * (1 + 1e-9 * worker_id), 'apart': worker_id}")
    told = s.check("q['near']", values=True, rtol=1e-6).summary
    assert told == "[0-1] agree within rtol=1e-06, atol=0 on: q['near']"


@pytest.mark.parametrize(
    "made", ["pd.Series([1.0, 2.0], index=[worker_id, 5])", "pd.DataFrame({'a': [1.0]}, index=[worker_id])"]
)
def test_labels_of_tables_are_compared_exactly(session, made):
    pytest.importorskip("pandas")
    s = session(2)
    s.run(f"import pandas as pd\nx = worker.replicated({made})")
    assert [row.name for row in s.check(values=True, rtol=1e-6).differing] == ["x"]
    with pytest.raises(CellError, match="'x' differs"):
        s.run("worker.check(x, rtol=1e-6)")
    assert s.check("x", workers=[0], values=True, rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "ok"), [({"workers": [1, 2]}, True), ({"workers": [0, 1]}, False), ({}, False)]
)
def test_some_workers_are_compared_by_themselves(session, options, ok):
    s = session(4)
    s.run("x = np.array([0.0, 1.0, 1.0 + 1e-9, 5.0])[worker_id] * np.ones(2)")
    assert s.check("x", values=True, rtol=1e-6, **options).ok is ok


def test_along_an_axis_each_circle_is_near_its_own_first_worker(session):
    s = session(4, mesh={"dp": 2, "tp": 2})
    s.run("x = np.ones(2) * (worker.coordinates['tp'] + 1) * (1 + 1e-9 * worker.coordinates['dp'])")
    assert s.check("x", values=True, over="dp", rtol=1e-6)
    assert not s.check("x", values=True, over="tp", rtol=1e-6)
    report = s.check("x", values=True, rtol=1e-6, in_group=True)
    assert not report.ok


def test_nothing_that_differs_is_asked_once_only(session, monkeypatch):
    s = session(2)
    s.run("x = np.ones(3)")
    monkeypatch.setattr(tolerances, "near_enough", lambda *_: 1 / 0)
    assert s.check("x", values=True, rtol=1e-6)


def test_what_has_another_type_is_no_matter_of_tolerance(session):
    s = session(2)
    s.run("x = np.ones(3, ['f4', 'f8'][worker_id]); y = [1, 1.0][worker_id]; i = np.ones(2, int) + worker_id")
    report = s.check("x", "y", "i", values=True, rtol=1.0, atol=9.0)
    assert {row.name: row.aspects for row in report} == {
        "x": ("dtype", "value"),
        "y": ("type",),
        "i": ("value",),
    }


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rtol": 1e-3}, "check: rtol=0.001, atol=0 is about values, which are compared with values=True"),
        ({"values": True, "atol": -1.0}, "check: atol=-1.0 - expected a number, 0 or above"),
    ],
)
def test_a_tolerance_that_says_nothing_is_refused(session, options, said):
    with pytest.raises(UsageMistake, match=said):
        session(2).check(**options)


@pytest.mark.parametrize("block", [1, 7, 1000])
@pytest.mark.parametrize("off", [1e-7, 1.0])
def test_arrays_are_compared_a_block_at_a_time(session, monkeypatch, block, off):
    monkeypatch.setattr(tolerances, "_BLOCK", block)
    s = session(3)
    s.run(f"w = np.arange(100.0).reshape(4, 25).T; w[24, 3] += {off} * worker_id")
    assert bool(s.check("w", values=True, rtol=1e-6)) == (off < 1)
    s.run(f"near = worker.check(w, rtol={off})")
