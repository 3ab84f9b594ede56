"""A session with a mesh: its verbs over axes, what it refuses, and how it begins."""

from __future__ import annotations

import numpy as np
import pytest

import disco_magic as disco
from disco_magic.errors import UnknownName, UsageMistake

# --- from the controller ---------------------------------------------------------------------------


def test_the_session_has_the_verbs_over_axes(grid):
    x = grid.scatter(np.arange(6).reshape(3, 2), over="tp")
    assert [each.tolist() for each in x.get_all()] == [[0, 1], [2, 3], [4, 5]] * 2
    total = [[6, 9]] * 6
    assert [each.tolist() for each in grid.allreduce(x, over="tp").get_all()] == total
    assert [each.tolist() for each in grid.allreduce(x, over=("dp",)).get_all()] == [
        [0, 2],
        [4, 6],
        [8, 10],
    ] * 2
    assert grid.allgather(x, over="dp").get(1).tolist() == [2, 3, 2, 3]
    assert [each is None for each in grid.reduce(x, over="dp", root=1).get_all()] == [True] * 3 + [False] * 3
    assert [each is None for each in grid.gather_to_worker0(x, over="dp").get_all()] == [False] * 3 + [
        True
    ] * 3
    grid.barrier(over="tp")
    b = grid.broadcast(np.array([7]), over="dp")
    assert [each.tolist() for each in b.get_all()] == [[7]] * 6
    y = grid.empty((6,), "int64")
    first = grid.empty((6,), "int64", None, True, over="dp")
    assert [each is None for each in first.get_all()] == [False] * 3 + [True] * 3
    grid.run("y = np.arange(6) + worker_id")
    assert grid.reduce_scatter(grid["y"], over="tp").get(5).tolist() == [24, 27]
    assert grid.alltoall(grid["y"], over="tp").get(4).tolist() == [5, 6, 6, 7, 7, 8]
    assert grid.allgather(x, y, over="tp").get(0).tolist() == [0, 1, 2, 3, 4, 5]


def test_a_register_of_the_first_worker_goes_along_the_axis(grid):
    grid.run("x = np.array([worker_id])")
    assert [int(each[0]) for each in grid.broadcast_from_worker0(grid["x"], over="tp").get_all()] == [
        0
    ] * 3 + [3] * 3
    grid.run("x = np.arange(2) + worker_id")
    parts = grid.scatter_from_worker0(grid["x"], over="dp").get_all()
    assert [int(each) for each in parts] == [0, 1, 2, 1, 2, 3]


@pytest.mark.parametrize(
    ("over", "kind"), [("zz", UnknownName), ([0, 1], UsageMistake), (3, UsageMistake), ((), UsageMistake)]
)
def test_the_controller_refuses_what_is_no_axis_before_anything_is_sent(grid, over, kind):
    grid.run("x = np.zeros(6)")
    x = grid["x"]
    sent = grid.ledger.seq
    calls = [
        grid.allreduce,
        grid.allgather,
        grid.reduce,
        grid.reduce_scatter,
        grid.alltoall,
        grid.broadcast_from_worker0,
        grid.scatter_from_worker0,
        grid.gather_to_worker0,
    ]
    for call in calls:
        with pytest.raises(kind):
            call(x, over=over)
    for call in (grid.broadcast, grid.scatter):
        with pytest.raises(kind):
            call(np.zeros((6, 2)), over=over)
    with pytest.raises(kind):
        grid.barrier(over=over)
    with pytest.raises(UsageMistake, match="leave in_group out"):
        grid.allreduce(x, None, "sum", False, over="tp")
    assert grid.ledger.seq == sent


def test_a_refusal_of_the_controller_names_the_verb(grid):
    x = grid.broadcast(np.zeros(2))
    told = {
        "zz": "allreduce: there is no axis 'zz'",
        (
            0,
            1,
        ): "allreduce: over is (0, 1), expected an axis of the mesh, 'tp', or several, ('dp', 'tp'); ids of",
    }
    for over, text in told.items():
        with pytest.raises(UsageMistake) as caught:
            grid.allreduce(x, over=over)
        assert str(caught.value).startswith(text)
    with pytest.raises(
        UsageMistake, match=r"allreduce: in_group is \['tp'\]; pass axes of the mesh as over="
    ):
        grid.allreduce(x, None, "sum", ["tp"])


def test_disco_s_functions_by_name_take_axes_where_it_has_in_group(grid):
    allreduce = grid.get_global_func("runtime.disco.allreduce")
    grid.run("x = np.array([worker_id])")
    for named in (("dp",), ["dp"], "dp"):
        assert [int(each[0]) for each in allreduce(grid["x"], "sum", named, None).get_all()] == [3, 5, 7] * 2
    assert [int(each[0]) for each in allreduce(grid["x"], "sum", 0, None).get_all()] == [15] * 6


def test_a_scatter_over_an_axis_needs_one_part_for_each_along_it(grid):
    with pytest.raises(UsageMistake, match="expected a first axis of length 3"):
        grid.scatter(np.zeros((6, 2)), over="tp")


# --- life ------------------------------------------------------------------------------------------


def test_a_mesh_says_how_many_workers_there_are_and_outlives_a_restart(grid):
    assert (
        repr(grid) == f"Disco session {grid.id}: 6 workers · mesh dp=2 tp=3 · threads · cpu · plane threads"
    )
    grid.restart()
    assert grid.run("int(allreduce(worker_id, over='dp'))").values == [3, 5, 7] * 2


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"num_workers": 4, "mesh": "dp=2,tp=3"}, "a mesh dp=2 tp=3 needs 6 workers, but 4 were asked for"),
        ({"mesh": "dp"}, "mesh is 'dp', expected names of axes"),
        ({"num_groups": 4, "mesh": "dp=2,tp=3"}, "6 workers cannot be split into 4 equal groups"),
        ({}, "say how many workers there are to be"),
    ],
)
def test_a_mesh_that_cannot_be_starts_nothing(given, told):
    with pytest.raises(UsageMistake, match=told):
        disco.ThreadedSession(**given)
