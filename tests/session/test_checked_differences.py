"""A check says in what registers differ: how far arrays are apart and where, which entry of a container."""

from __future__ import annotations

import numpy as np
import pytest

from disco_magic.core import divergence
from disco_magic.errors import SyncTimeout
from disco_magic.functions.surveys import Sample
from disco_magic.session import comparing
from tests.session.test_checking import differing


def test_arrays_whose_values_differ_say_by_how_much(session):
    s = session(3)
    s.run("w = worker.replicated(np.zeros(200_000)); w[::2] += (worker_id == 2) * 1e-3")
    row = s.check(values=True)["w"]
    told = "100,000 of 200,000 elements differ from the first worker's, by up to 0.001, the first at [0]"
    assert row.gap == told
    assert row.lines()[-1] == ("", "", told)


def test_one_element_of_a_million_is_found(session):
    s = session(3)
    s.run("w = worker.replicated(np.zeros((1000, 1000), 'f4')); w[77, 3] = 1e9 * (worker_id == 1)")
    told = "1 of 1,000,000 elements differs from the first worker's, by up to 1e+09, at [77, 3]"
    assert s.check(values=True)["w"].gap == told


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("{'lr': 0.1, 'seed': worker_id // 2}", "[2] ['seed']: 1, worker 0's is 0"),
        ("[1, 2, worker_id == 1]", "[1] [2]: True, worker 0's is False"),
        ("{1, 2, 3 + worker_id}", ""),
        ("5 + worker_id", ""),  # which its row says
    ],
)
def test_numbers_and_texts_in_a_container_are_told_by_their_place(session, value, told):
    s = session(3)
    s.run(f"c = worker.replicated({value})")
    report = s.check(values=True)
    assert report["c"].aspects == ("value",)
    assert report["c"].gap == told


@pytest.mark.parametrize("late", ["np.arange(10) + worker_id", "np.arange(2) + worker_id"])
def test_an_array_that_is_another_one_before_it_is_sampled_is_told_without_how_far(
    session, monkeypatch, late
):
    s = session(2)
    s.run("x = worker.replicated(np.arange(4) + worker_id)")
    ask = comparing._asked

    def asked(checks, function, *rest):
        if isinstance(function, Sample):
            s.run(f"x = {late}")
        return ask(checks, function, *rest)

    monkeypatch.setattr(comparing, "_asked", asked)
    report = s.check("x", values=True)
    assert (differing(report), report["x"].gap) == ({"x": ("value",)}, "")


def test_a_container_that_is_gone_before_its_difference_is_looked_for_is_told_without(session, monkeypatch):
    s = session(2)
    s.run("c = worker.replicated([worker_id])")
    ask = comparing._asked

    def asked(checks, function, *rest):
        answer = ask(checks, function, *rest)
        s.run("del c")
        return answer

    monkeypatch.setattr(comparing, "_asked", asked)
    report = s.check(values=True)
    assert (differing(report), report["c"].gap) == ({"c": ("value",)}, "")


def test_of_groups_the_first_one_that_differs_is_told_how_far_it_is_apart(session):
    s = session(4, 2)
    s.run("w = worker.replicated(np.full(8, worker_id if worker_id > 1 else 0))")
    gap = s.check(values=True, in_group=True)["w"].gap
    assert gap == "group 1: 8 of 8 elements differ from the first worker's, by up to 1"


@pytest.mark.parametrize(
    "late",
    [SyncTimeout("late"), {0: {"w": np.zeros(2)}, 1: {}}, {0: {"w": np.zeros(2)}, 1: {"w": np.zeros(3)}}],
    ids=["timeout", "gone", "changed"],
)
def test_what_differs_is_told_also_where_it_cannot_be_said_by_how_much(session, monkeypatch, late):
    s = session(2)
    s.run("w = worker.replicated(np.full(2, worker_id))")
    ask = comparing._asked

    def asked(checks, function, *rest):
        if not isinstance(function, Sample):
            return ask(checks, function, *rest)
        if isinstance(late, Exception):
            raise late
        return late

    monkeypatch.setattr(comparing, "_asked", asked)
    report = s.check(values=True)
    assert differing(report) == {"w": ("value",)}
    assert report["w"].gap == ""


def test_how_far_arrays_are_apart_is_asked_of_a_few_only(session):
    s = session(2)
    names = [f"w{number}" for number in range(divergence._EXPLAINED + 2)]
    s.run("\n".join(f"{name} = worker.replicated(np.full(2, worker_id))" for name in names))
    assert [row.name for row in s.check(values=True) if row.gap] == names[: divergence._EXPLAINED]


@pytest.mark.parametrize(
    "made",
    ["pl.Series([1.0, 2.0 + 1e-13 * worker_id])", "pl.DataFrame({'a': [1.0, 2.0 + 1e-13 * worker_id]})"],
)
def test_columns_of_polars_without_missing_values_say_where_they_differ(session, made):
    pytest.importorskip("polars")
    s = session(2)
    s.run(f"import polars as pl\nx = {made}")
    (told,) = s.run("x").apart()
    assert told.endswith("1 of 2 elements differs from worker 0's, by up to 9.99e-14, at [1]")
    (row,) = s.check("x", values=True).differing
    assert row.gap == "1 of 2 elements differs from the first worker's, by up to 9.99e-14, at [1]"
