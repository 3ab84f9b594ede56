"""Registers that only some workers have marked as equal, or along other axes."""

from __future__ import annotations

import pytest

from disco_magic.core.circles import Circles
from disco_magic.core.divergence import compare
from disco_magic.core.held import Found, marked_anywhere, marked_everywhere
from disco_magic.core.report import CheckReport
from tests.core.held import DOUBLE, FLOAT, INT, circles_of, found, value


def axes_of(mark):
    return () if mark is True else (mark,)


def marks_of(*marked, circles=None, held=FLOAT):
    """The rows of `w`, which workers hold that stand in `marked`: not marked, or on all, or over an axis."""
    workers = {
        number: Found(
            frozenset(), {"w": axes_of(mark)} if mark else {}, {} if mark is None else {"w": (("w", held),)}
        )
        for number, mark in enumerate(marked)
    }
    circles = circles_of(circles or (tuple(workers),))
    rows = compare(workers, circles, names=["w"], by_value=marked_everywhere(workers), marks=True)
    return CheckReport("Cell In[7]", tuple(workers), rows)


def test_a_mark_that_some_workers_made_is_a_difference_of_its_own():
    checked = marks_of(True, True, True, False)
    assert checked["w"].aspects == ("mark",)
    advice = "Mark a register on all workers that have it, `w = worker.replicated(w)`, or on none:"
    assert checked.message.split("\n") == [
        "Cell In[7]: 'w' is marked replicated on workers [0-2] only",
        "",
        "≠ w  mark  [0-2]  float32 (3, 4), marked replicated",
        "           [3]    float32 (3, 4), not marked",
        "",
        f"{advice} `del` drops marks.",
    ]


def test_a_worker_without_the_register_has_no_say_in_its_mark():
    checked = marks_of(True, False, None)
    assert checked["w"].aspects == ("missing", "mark")
    assert [who for _, who, _ in checked["w"].lines()] == ["[0]", "[1]", "[2]"]


def test_a_mark_and_a_value_that_differ_are_told_together():
    workers = found({"w": FLOAT}, {"w": DOUBLE})
    workers[0] = Found(frozenset(), {"w": ()}, workers[0].registers)
    rows = compare(workers, Circles(((0, 1),)), names=["w"], by_value=(), marks=True)
    checked = CheckReport("Cell In[7]", (0, 1), rows)
    assert checked["w"].aspects == ("dtype", "mark")
    told = checked.message
    assert "'w' differs: float32 (3, 4), marked replicated on worker 0, float64 (3, 4), not marked on" in told
    assert "`w = worker.replicated(w)`" in told
    assert "begins with an underscore" in told


@pytest.mark.parametrize(
    ("marked", "circles"),
    [
        ((True, True), None),
        ((False, False), None),
        ((True, None), None),
        ((True, True, False, False), ((0, 1), (2, 3))),
    ],
)
def test_workers_that_have_to_agree_on_a_mark_are_those_of_a_circle_that_hold_the_register(marked, circles):
    assert "mark" not in marks_of(*marked, circles=circles)["w"].aspects


def test_a_mark_that_only_a_part_of_a_group_made_is_told_with_the_group():
    checked = marks_of(True, True, True, False, circles=((0, 1), (2, 3)))
    assert checked.message.startswith("Cell In[7]: 'w' is marked replicated on worker 2 only in group 1\n")


def test_marks_over_other_axes_are_a_difference_and_are_told_by_their_axes():
    checked = marks_of("dp", "dp", "tp", True)
    assert checked["w"].aspects == ("mark",)
    assert checked.message.startswith(
        "Cell In[7]: 'w' is marked replicated over dp on workers [0-1], replicated over tp on worker 2, "
        "replicated on worker 3\n"
    )
    assert marks_of("dp", "dp").ok
    assert marked_everywhere(found({"w": FLOAT}, {"w": FLOAT})) == {}


def test_a_register_may_be_compared_on_other_circles_than_the_rest():
    workers = found({"w": value("[1]", b"1"), "v": INT}, {"w": value("[2]", b"2"), "v": INT})
    lines = Circles(((0,), (1,)), ("tp=0", "tp=1"))
    whole = Circles(((0, 1),))
    rows = compare(workers, whole, names=["w", "v"], by_value=["w"], apart={"w": lines})
    assert [(row.name, row.circles.workers, row.differs) for row in rows] == [
        ("w", ((0,), (1,)), False),
        ("v", ((0, 1),), False),
    ]


def test_where_in_the_mesh_workers_differ_is_told():
    workers = found(*({"w": value(f"[{n}]", bytes([n]))} for n in (0, 0, 0, 1)))
    rows = compare(workers, Circles(((0, 2), (1, 3)), ("tp=0", "tp=1")), names=["w"], by_value=["w"])
    assert rows[0].first_differing == ("tp=1", (1, 3))
    message = CheckReport("Cell In[7]", tuple(workers), rows).message
    assert message.startswith("Cell In[7]: 'w' differs at tp=1: int64 (2,) [0] on worker 1, ")


def test_marks_are_compared_where_that_was_asked_for_only():
    workers = found({"w": FLOAT}, {"w": FLOAT})
    workers[0] = Found(frozenset(), {"w": ()}, workers[0].registers)
    assert compare(workers, Circles(((0, 1),)), names=["w"], by_value=())[0].aspects == ()
    assert marked_anywhere(workers) == {"w"}
