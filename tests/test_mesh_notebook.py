"""The notebook about meshes: four workers learn what one does, and a mean over the wrong axis is found."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.committed import (
    ROOT,
    cell_of,
    check_portable,
    check_same_outputs,
    data_of,
    errors_of,
    execute,
    needs,
    read,
    text_of,
)

needs("nbclient", "nbformat", "sklearn")

if TYPE_CHECKING:
    from nbformat import NotebookNode

pytestmark = pytest.mark.unmeasured  # what is tested runs in kernels, which are not measured
NOTEBOOK = ROOT / "notebooks" / "05_meshes.ipynb"


@pytest.fixture(scope="module")
def executed() -> NotebookNode:
    """The notebook executed now."""
    return execute(read(NOTEBOOK))


def test_four_workers_learn_what_one_does(executed: NotebookNode) -> None:
    assert errors_of(executed) == []
    alone = float(re.search(r"0\.\d+", text_of(cell_of(executed, "accuracy_alone")))[0])
    trained = text_of(cell_of(executed, "def step"))
    assert f"[0-3] {alone:.2f}" in trained
    assert "check [0-3] agree over dp on: w1, w2" in trained
    assert "equal to 1e-9: True" in text_of(cell_of(executed, "equal to 1e-9"))


def test_a_mean_over_the_wrong_axis_costs_nothing_and_is_found_with_its_place(executed: NotebookNode) -> None:
    right, wrong = (
        text_of(cell_of(executed, part)) for part in ("def step", '0.05 * allreduce(g1, "avg", over="tp")')
    )
    assert right.splitlines()[-1] == wrong.splitlines()[-1]
    told = text_of(cell_of(executed, 'check("w1", "w2"'))
    assert "differ in: w1; agree over dp on: w2" in told
    assert re.findall(r"tp=\d value", told) == ["tp=0 value", "tp=1 value"]
    mended = text_of(cell_of(executed, "w1 = broadcast"))
    assert "agree over dp on: w1, w2" in mended


def test_it_shows_who_is_where_and_how_far_two_replicas_are_apart(executed: NotebookNode) -> None:
    (mesh,) = data_of(cell_of(executed, "disco_magic.session().mesh"), "text/html")
    assert '<th scope="row">dp=1</th><td class="number">2</td><td class="number">3</td>' in mesh
    (picture,) = data_of(cell_of(executed, "--as difference"), "text/html")
    assert "<img" in picture


def test_the_committed_outputs_are_those_of_this_run(executed: NotebookNode) -> None:
    check_same_outputs(read(NOTEBOOK), executed)


def test_the_committed_notebook_holds_nothing_of_the_machine_it_ran_on() -> None:
    check_portable(NOTEBOOK)
