"""Which workers work together: groups of neighbours, axes of a mesh, those that are named."""

from __future__ import annotations

import numpy as np
import pytest

from disco_magic.core.mesh import Mesh
from disco_magic.core.topology import Topology, axes_of
from disco_magic.errors import UnknownName, UsageMistake

GRID = Topology(6, 3, Mesh({"dp": 2, "tp": 3}))


def test_a_mesh_takes_as_many_workers_as_there_are():
    told = "a mesh dp=2 tp=3 needs 6 workers, but 4 were asked for; choose axes"
    with pytest.raises(UsageMistake, match=told):
        Topology(4, 1, Mesh({"dp": 2, "tp": 3}))


def test_numbers_of_numpy_s_are_numbers():
    topology = Topology(np.int64(4), np.uint8(2), Mesh({"dp": np.int32(4)}))
    assert [type(number) for number in (topology.num_workers, topology.num_groups, topology.mesh["dp"])] == [
        int
    ] * 3
    assert topology.parts() == ((0, 1), (2, 3))


@pytest.mark.parametrize(
    ("named", "parts"),
    [
        ({}, ((0, 1), (2, 3), (4, 5))),
        ({"in_group": False}, ((0, 1, 2, 3, 4, 5),)),
        ({"over": "tp"}, ((0, 1, 2), (3, 4, 5))),
        ({"over": ["dp"]}, ((0, 3), (1, 4), (2, 5))),
        ({"over": ("tp", "dp")}, ((0, 1, 2, 3, 4, 5),)),
    ],
)
def test_all_workers_fall_into_parts_whose_first_ones_are_roots(named, parts):
    assert GRID.parts(**named) == parts
    assert GRID.roots(**{"in_group": True, **named}) == tuple(part[0] for part in parts)


@pytest.mark.parametrize(
    ("over", "found"),
    [
        ("tp", ((3, 4, 5), "tp")),
        (["dp"], ((1, 4), "dp")),
        (("tp", "dp"), ((0, 1, 2, 3, 4, 5), "(tp, dp)")),
        ([4, 0, 4], ((0, 4), "[0,4]")),
        (np.array([4, 2]), ((2, 4), "[2,4]")),
        (range(3, 6), ((3, 4, 5), "[3-5]")),
        ([np.int64(4)], ((4,), "[4]")),
    ],
)
def test_who_works_with_worker_4(over, found):
    assert GRID.with_worker(4, over) == found


@pytest.mark.parametrize(
    ("over", "kind", "told"),
    [
        ("tpp", UnknownName, "there is no axis 'tpp'; did you mean 'tp'?"),
        (["tp", "zz"], UnknownName, "there is no axis 'zz'"),
        (("tp", "tp"), UsageMistake, "('tp', 'tp') should name axes, each once"),
        ([], UsageMistake, "over is [], expected the name of an axis"),
        ("dp,tp", UsageMistake, "over is 'dp,tp'; several axes are a tuple, ('dp', 'tp')"),
        (4, UsageMistake, "over is 4, expected the name of an axis, 'tp', several"),
        (b"tp", UsageMistake, "over is b'tp', expected the name of an axis, 'tp', several"),
        ({"tp": 1}, UsageMistake, "over is {'tp': 1}, expected the name of an axis, 'tp', several"),
        (["tp", 4], UsageMistake, "over is ['tp', 4], expected"),
        ([4, True], UsageMistake, "over is [4, True], expected"),
        ([4, 1.0], UsageMistake, "over is [4, 1.0], expected"),
        ([4, 6], UsageMistake, "over=[4, 6] names a worker that does not exist; this session has [0-5]"),
        ([-1, 4], UsageMistake, "over=[-1, 4] names a worker that does not exist"),
        (
            [0, 2],
            UsageMistake,
            "over=[0, 2] leaves out worker 4, which makes the call; only workers named in it",
        ),
    ],
)
def test_who_cannot_work_with_worker_4(over, kind, told):
    with pytest.raises(kind) as caught:
        GRID.with_worker(4, over)
    assert told in str(caught.value)


@pytest.mark.parametrize("over", [[0, 1], [], 3, ["tp", 1]])
def test_where_all_workers_are_to_fall_into_parts_axes_are_needed(over):
    with pytest.raises(UsageMistake, match=r"over is .*, expected"):
        axes_of(over)
