"""Tab completion between quotes: axes of the mesh and operations, where an argument takes them."""

from __future__ import annotations

import pytest


def texts(found):
    """What is offered for the argument alone: the word behind the last quote, and what it is."""
    return {name.replace("'", '"').rpartition('"')[2]: kind for name, kind in found.items()}


@pytest.fixture
def meshed(shell):
    shell.run("%disco start --mesh dp=2,tp=2")
    return shell


AXES = {"dp": "axis", "tp": "axis"}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ('allreduce(1, over="', AXES),
        ("allreduce(1, over='t", {"tp": "axis"}),
        ('allreduce(\n    1,  # all of "it"\n    over="d', {"dp": "axis"}),
        ('worker.allreduce(1, over=("', AXES),
        ('worker.allreduce(1, over=("dp", "', {"tp": "axis"}),
        ('worker.allreduce(1, over=["tp","d', {"dp": "axis"}),
        ('worker.replicated(1, over="', AXES),
        ('worker.members(over="', AXES),
        ('mine(1, "', AXES),
        ('mine([1, (2, 3)], over="', AXES),
        ('worker.coordinates["', AXES),
        ('worker.mesh["t', {"tp": "axis"}),
        ('x = 1 if worker.coordinates["d', {"dp": "axis"}),
    ],
)
def test_axes_of_the_mesh_are_offered_where_they_are_named(meshed, either, code, expected):
    meshed.run("%%disco\ndef mine(x, over): return allreduce(x, over=over)")
    assert texts(either(f"%%disco\n{code}")) == expected


@pytest.mark.parametrize("code", ['allreduce(1, "', 'allreduce(1, op="', "worker.reduce_scatter([1, 2], '"])
def test_operations_are_offered_where_a_collective_takes_one(four, either, code):
    assert texts(either(f"%%disco\n{code}")) == dict.fromkeys(
        ("sum", "prod", "min", "max", "avg"), "operation"
    )
    assert texts(either(f"%%disco\n{code}m")) == {"min": "operation", "max": "operation"}


def test_operations_are_offered_before_there_is_a_session(shell, either):
    assert texts(either('%%disco\nallreduce(1, "p')) == {"prod": "operation"}
    assert "axis" not in either('%%disco\nallreduce(1, over="d').values()
    shell.run("%disco status")
    assert "no session" in shell.out.lower()


@pytest.mark.parametrize(
    "code",
    [
        'print("',
        'allgather(1, "',
        'allreduce("',
        'allreduce(1, "sum", "',
        'nobody(over="',
        'x = ("',
        'mine(op="',
        'worker.nothing["',
        'table["',
        'f(1)["',
        'f"',
        'allreduce(1, over=f"',
        'allreduce(1, op=""',
        'allreduce(1, over="dp"',
        'allreduce(1, over="dp" "',
    ],
)
def test_nothing_of_it_is_offered_elsewhere(meshed, either, code):
    meshed.run("%%disco\ndef mine(op): pass\ntable = {}")
    assert not {"axis", "operation"} & set(either(f"%%disco\n{code}").values())


def test_axes_are_offered_as_places_of_a_worker_too(meshed, either):
    def arguments(code):
        found = either(f"%%disco\n{code}")
        return {name.rpartition("(")[2] for name, kind in found.items() if kind == "param"}

    assert arguments("worker.at(") == {"dp=", "tp="}
    assert arguments("worker.at(t") == {"tp="}
    assert arguments("worker.at(tp=1, ") == {"tp=1, dp="}
    assert arguments("worker.mesh.workers(d") == {"dp="}
