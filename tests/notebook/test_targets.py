"""Worker numbers as people type them."""

from __future__ import annotations

import pytest

from disco_magic.core.mesh import Mesh
from disco_magic.core.topology import Topology
from disco_magic.errors import UsageMistake
from disco_magic.notebook.targets import list_workers, parse_workers, workers_of_group
from disco_magic.phrases import ranges

FOUR = Topology(4)


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("0", (0,)),
        ("1,2", (1, 2)),
        ("2,1,1", (1, 2)),
        ("1:3", (1, 2)),
        ("2:4", (2, 3)),
        ("::2", (0, 2)),
        ("0-2", (0, 1, 2)),
        ("0-3:2", (0, 2)),
        ("0,2:4", (0, 2, 3)),
        ("-1", (3,)),
        (":", (0, 1, 2, 3)),
        (" 1 , 3 ", (1, 3)),
        ("0,all", (0, 1, 2, 3)),
        ("[0-3:2]", (0, 2)),
        (" [1,3] ", (1, 3)),
        ("'[2]'", (2,)),
        ("all", None),
        (None, None),
    ],
)
def test_numbers_ranges_and_slices_name_workers(text, chosen):
    assert parse_workers(text, FOUR) == chosen


@pytest.mark.parametrize("text", ["4", "-5", "0-4", "2:5", "9:", "0,7"])
def test_a_worker_that_does_not_exist_is_refused_with_those_that_do(text):
    with pytest.raises(UsageMistake, match="this session has 4 workers, 0-3"):
        parse_workers(text, FOUR)


@pytest.mark.parametrize("text", ["0-3:0", "::0"])
def test_a_step_of_nothing_is_refused(text):
    with pytest.raises(UsageMistake, match=f"a step of 0 in '{text}' names no workers"):
        parse_workers(text, FOUR)


@pytest.mark.parametrize("text", ["", "a", "__import__('os')", "1;2", "0..2", "1:2:3:4", "[]", "[0", "[[0]]"])
def test_anything_else_is_refused_and_never_evaluated(text):
    with pytest.raises(UsageMistake, match="names no workers: write numbers and ranges"):
        parse_workers(text, FOUR)


@pytest.mark.parametrize(
    "workers", [(0,), (1, 2, 3), (0, 2, 3), tuple(range(0, 12, 3)), tuple(range(0, 64, 3))]
)
def test_what_tables_print_names_those_workers(workers):
    assert parse_workers(ranges(workers), Topology(64)) == workers


@pytest.mark.parametrize(
    ("text", "reason"),
    [("3-1", "runs backwards: write 1-3"), ("2:2", "names no worker of 0-3")],
)
def test_ranges_that_name_nobody_say_why(text, reason):
    with pytest.raises(UsageMistake, match=reason):
        parse_workers(text, FOUR)


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("dp=0", (0, 1, 2)),
        ("tp=1", (1, 4)),
        ("dp=1,tp=2", (5,)),
        (" tp = 1 , dp = 0 ", (1,)),
        ("tp=1:", (1, 2, 4, 5)),
        ("tp=::2", (0, 2, 3, 5)),
        ("tp=0-1,dp=1", (3, 4)),
        ("tp=-1", (2, 5)),
        ("dp=all", (0, 1, 2, 3, 4, 5)),
        ('"dp=1,tp=2"', (5,)),
        ("'0-2'", (0, 1, 2)),
    ],
)
def test_places_in_the_mesh_name_the_workers_there(text, chosen):
    assert parse_workers(text, Topology(6, mesh=Mesh({"dp": 2, "tp": 3}))) == chosen


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("tp=3", "'tp=3' names nobody: tp goes from 0 to 2; write tp=0, tp=0:2 or tp=::2"),
        ("tp=", "'tp=' names nobody: tp goes"),
        ("tp=x", "'tp=x' names nobody: tp goes"),
        ("xy=0", "there is no axis 'xy'; there are: dp, tp"),
        ("dp=0,1", "'dp=0,1' names no workers: write each axis of the mesh once, dp=0,tp=1:3, or ids alone"),
        ("dp=0,dp=1", "names no workers: write each axis of the mesh once"),
        ("dp=0,", "names no workers: write each axis of the mesh once"),
    ],
)
def test_places_that_are_not_there_are_refused_with_those_that_are(text, told):
    with pytest.raises(UsageMistake) as caught:
        parse_workers(text, Topology(6, mesh=Mesh({"dp": 2, "tp": 3})))
    assert told in str(caught.value)


def test_without_a_mesh_a_place_says_how_to_get_one():
    with pytest.raises(UsageMistake, match=r"no axis 'dp'; this session has no mesh: start it with one"):
        parse_workers("dp=0", Topology(6))


def test_a_group_is_its_workers_and_a_wrong_one_is_refused():
    assert workers_of_group(1, Topology(6, 3)) == (2, 3)
    assert workers_of_group(None, Topology(6, 3)) is None
    with pytest.raises(UsageMistake, match=r"no group 3: this session has 3 groups \(0-2\)"):
        workers_of_group(3, Topology(6, 3))


def test_one_worker_is_spoken_of_in_the_singular():
    with pytest.raises(UsageMistake, match=r"this session has 1 worker, 0;"):
        parse_workers("1", Topology(1))


def test_a_list_keeps_the_order_in_which_workers_are_named():
    assert list_workers("2,0", FOUR) == (2, 0)
    assert list_workers("3,0-2,1", FOUR) == (3, 0, 1, 2)
    assert list_workers("all", FOUR) is None
