"""Which calls take the short way of small arrays."""

from __future__ import annotations

import numpy as np
import pytest

from disco_magic.core.seat import Seat
from disco_magic.planes.arguments import read_call
from disco_magic.planes.plans import FoldPlan
from disco_magic.planes.small import SMALL_NBYTES, OnePlan, plan_of

ONE = {
    "barrier": {},
    "allreduce": {"op": "sum"},
    "reduce": {"op": "max", "root": 1},
    "broadcast": {"root": 1},
    "allgather": {"axis": 0},
    "gather": {"axis": 0, "root": 1},
}
FOLDS = {
    "reduce_scatter": {"op": "sum", "axis": 0},
    "scatter": {"root": 1, "axis": 0},
    "alltoall": {"axis": 0},
}


def calls(kind, arrays, **facts):
    seats = [Seat(worker, (0, 1), 1) for worker in (0, 1)]
    return [read_call(kind, seat, array, **facts) for seat, array in zip(seats, arrays, strict=True)]


def arrays_of(kind, nbytes):
    """What two members bring, so many bytes together."""
    if kind == "barrier":
        return [None, None]
    return [np.zeros(nbytes // 2, "i1"), np.zeros(nbytes - nbytes // 2, "i1")]


@pytest.mark.parametrize("kind", ONE)
def test_members_who_get_the_same_of_small_arrays_copy_one_result(kind):
    assert type(plan_of(calls(kind, arrays_of(kind, SMALL_NBYTES), **ONE[kind]))) is OnePlan


@pytest.mark.parametrize("kind", [kind for kind in ONE if kind != "barrier"])
def test_a_byte_more_in_all_arrays_together_is_not_small(kind):
    assert type(plan_of(calls(kind, arrays_of(kind, SMALL_NBYTES + 1), **ONE[kind]))) is FoldPlan


@pytest.mark.parametrize("kind", FOLDS)
def test_members_who_get_different_parts_have_folds_of_their_own(kind):
    assert type(plan_of(calls(kind, arrays_of(kind, 8), **FOLDS[kind]))) is FoldPlan


def test_a_root_counts_alone_where_the_others_bring_nothing():
    root = np.zeros(SMALL_NBYTES, "i1")
    assert type(plan_of(calls("broadcast", [None, root], root=1))) is OnePlan


def test_a_number_is_one_for_those_who_gave_one():
    plan = plan_of(calls("allreduce", [1.0, np.ones(())], op="sum"))
    plan.run()
    assert [type(plan.result(rank)) for rank in (0, 1)] == [np.float64, np.ndarray]


def test_nobody_but_the_root_gets_anything():
    plan = plan_of(calls("gather", [np.zeros(1), np.ones(1)], axis=0, root=1))
    plan.run()
    assert plan.result(0) is None
    assert plan.result(1).tolist() == [0, 1]
