"""Python objects between workers: broadcast_object and allgather_objects."""

from __future__ import annotations

import pytest

from disco_magic.errors import CellError, UsageMistake


def test_everybody_gets_the_root_s_object(four):
    cell = "broadcast_object({'from': worker_id, 'deep': [(1, 'a')]} if worker_id == 2 else None, root=2)"
    assert four.run(cell).values == [{"from": 2, "deep": [(1, "a")]}] * 4
    assert four.run("broadcast_object(worker_id, 1, over='tp')").values == [1, 1, 3, 3]
    assert four.run("broadcast_object(worker_id)").values == [0] * 4
    assert four.run("broadcast_object(None)").values == [None] * 4


def test_everybody_gets_all_objects_in_rank_order(four):
    assert four.run("allgather_objects('x' * worker_id)").values == [["", "x", "xx", "xxx"]] * 4
    assert four.run("allgather_objects(worker_id, over='dp')").values == [[0, 2], [1, 3], [0, 2], [1, 3]]
    assert four.run("worker.allgather_objects(None, in_group=False)").values == [[None] * 4] * 4


def test_they_are_copies(four):
    four.run(
        "mine = [worker_id]\ngot = broadcast_object(mine)\ngot.append(1)\nall_of_us = allgather_objects(mine)"
    )
    assert four.run("mine, got, all_of_us[worker_id] is mine").values == [
        ([n], [0, 1], False) for n in range(4)
    ]


def test_objects_of_cells_classes_are_the_receiver_s(four):
    four.run("class Cfg: by = worker_id\ngot = broadcast_object(Cfg())")
    assert four.run("type(got) is Cfg and got.by == worker_id").values == [True] * 4


def test_over_may_be_an_iterator(four):
    cell = "allgather_objects(worker_id, over=iter([1, 3])) if worker_id % 2 else 0"
    assert four.run(cell).values == [0, [1, 3]] * 2
    cell = "broadcast_object(worker_id, 1, over=iter([1, 3])) if worker_id % 2 else 0"
    assert four.run(cell).values == [0, 3] * 2


@pytest.mark.parametrize("verb", ["broadcast_object", "allgather_objects"])
def test_what_cannot_travel_is_said(four, verb):
    with pytest.raises(CellError, match=f"{verb}: a function cannot be pickled: .*lambda") as caught:
        four.run(f"{verb}(lambda: 1)")
    assert type(caught.value.origin.exception) is UsageMistake
    assert caught.value.origin.exception.__cause__.__traceback__ is None  # no line of ours
    four.run("if worker_id == 1:\n    class Mine: pass")
    with pytest.raises(CellError, match=f"{verb}: what worker 1 sent cannot be read here: .*Mine"):
        four.run(f"{verb}(Mine() if worker_id == 1 else None{', 1' if verb == 'broadcast_object' else ''})")
    assert four.run("broadcast_object(1)").values == [1] * 4


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (
            "Node()",
            r"x\.inside\['lock'\] is a lock: leave it out, for example in a __getstate__ of the class",
        ),
        ("(i for i in range(3))", r"a generator cannot be pickled: .* - pass list\(x\)"),
        (
            "io.TextIOWrapper(io.BytesIO())",
            "a TextIOWrapper cannot be pickled: .* - pass its name, or what is read from it",
        ),
        ("[1, threading]", r"x\[1\] is a module: leave it out"),
        ("threading.Event()", "an? Event cannot be pickled: .* - pass what it is for without it"),
    ],
)
def test_the_part_that_cannot_be_pickled_is_named(four, value, said):
    """The text of pickle names a type, and not where it is in what the user passed."""
    four.run("import io, threading")
    four.run("class Node:\n    def __init__(self):\n        self.inside = {'lock': threading.Lock()}")
    with pytest.raises(CellError, match=f"allgather_objects: .*{said}"):
        four.run(f"allgather_objects({value})")


def test_an_object_of_a_class_that_was_defined_anew_is_told_from_others(four):
    four.run("class Point: pass\np = Point()")
    four.run("class Point: pass")
    with pytest.raises(
        CellError, match="a cell has defined its class anew since it was made: make it anew, too"
    ):
        four.run("allgather_objects([p])")


def test_an_error_tells_the_user_s_lines(four):
    with pytest.raises(CellError) as caught:
        four.run("x = 1\nif worker_id: broadcast_object(x)\nelse: allgather_objects(x)")
    text = str(caught.value)
    assert "line 2" in text
    assert "line 3" in text
    assert "trees.py" not in text


def test_the_record_tells_the_user_s_line(four):
    four.run("x = 1\nbroadcast_object(x)")
    sites = {span.site for span in four.timeline().spans if span.label.startswith("broadcast")}
    assert len(sites) == 1
    assert "line 2" in sites.pop()
