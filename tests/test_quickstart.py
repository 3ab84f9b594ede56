"""The quickstart notebook, executed in a real kernel: its results, and that they are the committed ones."""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.committed import (
    COLOUR,
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

needs("nbclient", "nbformat", "sklearn", "matplotlib")

if TYPE_CHECKING:
    from nbformat import NotebookNode

pytestmark = pytest.mark.unmeasured  # what is tested runs in kernels, which are not measured
QUICKSTART = ROOT / "notebooks" / "01_quickstart.ipynb"
# What the cells leave in the kernel, asked for after the last of them.
ASK = """
import json
print(json.dumps({
    "accuracy": accuracies,
    "difference": float(difference),
    "steps": len(losses),
    "curves": float(np.abs(np.array(losses) - alone_losses).max()),
    "first_and_last": [losses[0], losses[-1]],
}))
"""


@pytest.fixture(scope="module")
def committed() -> NotebookNode:
    """The notebook as it is in the repository."""
    return read(QUICKSTART)


@pytest.fixture(scope="module")
def executed() -> NotebookNode:
    """The notebook executed now, from its first cell to its last, and one more that reports variables."""
    import nbformat

    notebook = read(QUICKSTART)
    notebook.cells.append(nbformat.v4.new_code_cell(ASK))
    return execute(notebook)


@pytest.fixture(scope="module")
def found(executed: NotebookNode) -> dict[str, Any]:
    """The variables that the notebook left."""
    return json.loads(text_of(executed.cells[-1]))


def test_the_first_cells_show_what_the_readme_shows(executed: NotebookNode) -> None:
    assert "4 workers · threads · cpu · plane threads" in text_of(cell_of(executed, "%disco start"))
    lines = text_of(cell_of(executed, "np.full((2, 3)")).splitlines()
    assert sorted(lines[:-1]) == [f"[{worker}] mine {worker}.0" for worker in range(4)]
    assert lines[-1] == "[0-3] 36.0"


def test_all_workers_recognise_at_least_95_percent_of_the_held_out_digits_and_agree(
    found: dict[str, Any],
) -> None:
    assert len(found["accuracy"]) == 4
    assert set(found["accuracy"]) == {found["accuracy"][0]}
    assert found["accuracy"][0] >= 0.95


def test_four_workers_learn_the_weights_that_one_learns(
    executed: NotebookNode, found: dict[str, Any]
) -> None:
    assert found["difference"] < 1e-5
    assert text_of(cell_of(executed, "difference =")) == "equal to 1e-5: True\n"


def test_the_loss_falls_as_it_does_alone(found: dict[str, Any]) -> None:
    first, last = found["first_and_last"]
    assert found["steps"] == 450
    assert last < first / 10
    assert found["curves"] < 1e-9


def test_the_loss_curve_is_a_picture(executed: NotebookNode) -> None:
    (picture,) = data_of(cell_of(executed, "plt.plot"), "image/png")
    assert base64.b64decode(picture).startswith(b"\x89PNG")


def test_the_registers_show_a_quarter_on_each_worker_and_the_held_out_images_on_worker_0_alone(
    executed: NotebookNode,
) -> None:
    cell = cell_of(executed, "%disco registers")
    (table,) = data_of(cell, "text/html")
    assert "<table" in table
    rows = re.sub(r"\s+", " ", text_of(cell))
    for worker in range(4):
        assert re.search(rf"\[{worker}\] float64 360.64", rows)
    assert re.search(r"test_x \[0\] float64 357.64 [^\[]* \[1-3\] NoneType", rows)


def test_the_workers_agree_on_the_weights(executed: NotebookNode) -> None:
    assert text_of(cell_of(executed, "%%disco\nb2")).startswith("[0-3] array(")


def test_the_mistake_is_the_only_error_and_says_who_called_what_where(executed: NotebookNode) -> None:
    (error,) = errors_of(executed)
    assert error in cell_of(executed, "allgather(total)").outputs
    shown = COLOUR.sub("", "\n".join([error["ename"], error["evalue"], *error["traceback"]]))
    assert "PlaneMismatch" in shown
    for said in ("worker 2 called allgather at", "line 4", "[0-1,3] called allreduce at", "line 6"):
        assert said in shown


def test_the_session_goes_on_after_the_mistake_with_its_registers(executed: NotebookNode) -> None:
    assert text_of(cell_of(executed, "allreduce(len(train_x))")).splitlines() == ["[0-3] 1440"]


def test_the_committed_outputs_are_those_of_this_run(committed: NotebookNode, executed: NotebookNode) -> None:
    executed.cells.pop()
    check_same_outputs(committed, executed)


def test_the_committed_notebook_holds_nothing_of_the_machine_it_ran_on() -> None:
    check_portable(QUICKSTART)
